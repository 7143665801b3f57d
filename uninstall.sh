#!/bin/bash
# Removes sandboxd from this machine: services, sandboxes, their network and walls, our images.
# The data directory (apps, workspaces, keys) and .env stay unless you say --data.
#
#   ./uninstall.sh [--yes] [--data] [--keep-images]
#
#   --yes           do not ask
#   --data          also remove the data directory and .env: every app is gone for good
#   --keep-images   leave the images, so that the next ./install.sh is quick
#
# Docker, Compose, git and debian:trixie-slim stay: they may serve others. Run it again if it stopped.
set -euo pipefail

STEP=start
# How a failure that was explained ends, in subshells too.
SAID_STATUS=64

say() { echo "  $*" >&2; }

step() {
    STEP=$*
    echo "==> $*" >&2
}

die() { # why, what to do...
    {
        echo
        echo "uninstall: failed at: $STEP"
        echo "  why: $1"
        shift
        [ $# = 0 ] || printf '  do:  %s\n' "$@"
    } >&2
    exit $SAID_STATUS
}

at_exit() { # status
    [ "$1" != 0 ] && [ "$1" != 2 ] || return 0
    [ "$1" != $SAID_STATUS ] || exit 1
    echo "uninstall: stopped at: $STEP (status $1); the lines above say why; run it again" >&2
}

usage() {
    sed -n '/^#   /p' "$0" | sed 's/^# \{0,1\}//' >&2
    exit 2
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "root is needed for: $*" "install sudo, or run this as root"
    fi
}

setting() { # name, default
    local value
    value=$(sed -n "s/^$1=//p" "$SRC/.env" 2>/dev/null | tail -n 1 | tr -d '\r' | sed 's/^"\(.*\)"$/\1/; s/^'\''\(.*\)'\''$/\1/' || true)
    echo "${value:-$2}"
}

# The shell's values must not win over .env.
forget_settings() {
    local name
    for name in $(compgen -e); do
        case $name in SANDBOXD_* | COMPOSE_* | HTTP_PORT | *_PORT | PREVIEW_* | CONSOLE_*) unset "$name" ;; esac
    done
}

settle_docker() {
    DOCKER=(docker)
    command -v docker >/dev/null || die "docker is not on this machine, so nothing of the stack is" "the data stays in $DATA_DIR"
    docker version >/dev/null 2>&1 && return
    DOCKER=(as_root docker)
    "${DOCKER[@]}" version >/dev/null 2>&1 || die "the Docker engine does not answer" "start it (systemctl start docker), then run this again"
}

confirm() {
    local answer
    [ "$YES" = no ] || return 0
    say "This removes the services and all sandboxes of sandboxd from this machine."
    if [ "$DATA" = yes ]; then
        say "It also removes $DATA_DIR with every app, workspace and key, and $SRC/.env, for good."
    else
        say "Apps, workspaces and keys stay in $DATA_DIR, settings in $SRC/.env."
    fi
    [ -t 0 ] || die "there is no terminal to ask on; nothing was changed" "run it with --yes"
    read -r -p "  Go on? [y/N] " answer
    case $answer in y | Y | yes | Yes) ;; *) die "nothing was changed" ;; esac
}

# What a filter finds is removed; nothing found is fine.
remove_containers() { # filter
    local ids
    ids=$("${DOCKER[@]}" ps -aq --filter "$1")
    # shellcheck disable=SC2086
    [ -z "$ids" ] || "${DOCKER[@]}" rm -f -v $ids >/dev/null
}

# First who could make new ones, then the sandboxes. Without Compose: it may be gone already, and one
# that is too old for the engine still must not keep anybody from leaving.
remove_stack() {
    step "services"
    local ids
    ids=$("${DOCKER[@]}" ps -q --filter "label=com.docker.compose.project=$PROJECT")
    # shellcheck disable=SC2086
    [ -z "$ids" ] || "${DOCKER[@]}" stop -t 10 $ids >/dev/null
    remove_containers "label=com.docker.compose.project=$PROJECT"
    step "sandboxes"
    remove_containers "label=sandboxd.instance=$DATA_DIR"
}

remove_network() {
    step "network and walls"
    if "${DOCKER[@]}" network inspect "$BRIDGE" >/dev/null 2>&1; then
        "${DOCKER[@]}" network rm "$BRIDGE" >/dev/null ||
            die "the network $BRIDGE has other containers on it: docker's words are above" "take them off (docker network inspect $BRIDGE), then run this again"
    fi
    # The program that made the walls takes them away; its settings name their table.
    if "${DOCKER[@]}" image inspect sandboxd-engine:current >/dev/null 2>&1; then
        "${DOCKER[@]}" run --rm --network host --read-only --cap-drop ALL --cap-add NET_ADMIN \
            -e "SANDBOXD_BRIDGE=$BRIDGE" -e "SANDBOXD_DATA_DIR=$DATA_DIR" sandboxd-engine:current remove-walls ||
            die "the firewall table sandboxd_$BRIDGE could not be removed: the words are above" "nft delete table inet sandboxd_$BRIDGE"
    fi
}

our_images() {
    "${DOCKER[@]}" image ls --format '{{.Repository}}:{{.Tag}}' | grep -E '^(sandboxd|sandboxd-[a-z0-9-]+):' |
        grep -Ev '^sandboxd-(toolchain|fresh|test)' || true
}

remove_images() {
    step "images"
    local name
    for name in $(our_images); do
        "${DOCKER[@]}" rmi "$name" >/dev/null 2>&1 || say "$name is in use and stays"
    done
    "${DOCKER[@]}" image prune -f --filter label=sandboxd.stage >/dev/null
}

remove_data() {
    step "data: $DATA_DIR"
    case $DATA_DIR in
    /?*/?*) ;;
    *) die "SANDBOXD_DATA_DIR=$DATA_DIR is no folder that this would remove whole" "remove it by hand" ;;
    esac
    # A mount point stays, empty.
    if mountpoint -q "$DATA_DIR" 2>/dev/null; then
        as_root find "$DATA_DIR" -mindepth 1 -delete
    else
        as_root rm -rf --one-file-system "$DATA_DIR"
    fi
    rm -f "$SRC/.env" 2>/dev/null || as_root rm -f "$SRC/.env"
}

trap 'at_exit $?' EXIT
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
YES=no DATA=no IMAGES=yes
for word in "$@"; do
    case $word in
    --yes | -y) YES=yes ;;
    --data) DATA=yes ;;
    --keep-images) IMAGES=no ;;
    *) usage ;;
    esac
done
SRC=$(dirname "$(realpath "$0")")
forget_settings
DATA_DIR=$(setting SANDBOXD_DATA_DIR /var/lib/sandboxed)
BRIDGE=$(setting SANDBOXD_BRIDGE sbx0)
PROJECT=$(setting COMPOSE_PROJECT_NAME sandboxd)
settle_docker
confirm
remove_stack
remove_network
[ $IMAGES = no ] || remove_images
[ $DATA = no ] || remove_data
echo
if [ $DATA = yes ]; then
    echo "sandboxd is removed, with its data. What is left: the source in $SRC"
else
    echo "sandboxd is removed. Kept: the data in $DATA_DIR, the settings in $SRC/.env, the source in $SRC"
    echo "./install.sh brings it back with every app; ./uninstall.sh --data removes the rest."
fi
