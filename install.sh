#!/bin/bash
# Installs or upgrades sandboxd on this machine and ends with a running product.
#
#   ./install.sh [--yes]                               from a checkout: installs that checkout
#   bash install-sandboxd.sh [--yes]                   from anywhere: fetches the source first
#
#   --yes   install missing packages (git, Docker, Compose, curl) without asking
#
#   SANDBOXD_REF       tag, branch or commit to install (default main; in a checkout: what is checked out)
#   SANDBOXD_REPO_URL  where the source comes from
#   SANDBOXD_SRC       where it goes (default ~/.sandboxd/src)
#
# Run it again at any time: it changes only what is out of date and finishes what was interrupted. It
# never rotates a value of .env, never touches the data directory's content and never removes an app.

# Where the source is fetched from when SANDBOXD_REPO_URL is not set.
REPO_URL=

# Everything is inside functions: a download that broke off, or a script that an upgrade replaces
# while it runs, does nothing by half.
set -euo pipefail
umask 022

VCPUS_WANTED=2
MEMORY_WANTED_MIB=3584
MEMORY_NEEDED_MIB=1536
DISK_WANTED_GB=15
DISK_NEEDED_GB=8
READY_SECONDS_MAX=180
IMAGE_SECONDS_MAX=3600
UID_BASE=2000000000
UID_BELOW=999
UID_COUNT=99999
SERVICES="sandboxd-engine sandboxd preview-proxy credentials-proxy traefik"

# ---- words -------------------------------------------------------------------------------------------

STEP=start
# How a failure that was explained ends, in subshells too.
SAID_STATUS=64

say() { echo "  $*" >&2; }
warn() { echo "  warning: $*" >&2; }

step() {
    STEP=$*
    echo "==> $*" >&2
}

# Which step, why, what to do.
die() { # why, what to do...
    {
        echo
        echo "install: failed at: $STEP"
        echo "  why: $1"
        shift
        [ $# = 0 ] || printf '  do:  %s\n' "$@"
    } >&2
    exit $SAID_STATUS
}

# A command that nobody expected to fail, or Ctrl-C.
at_exit() { # status
    [ "$1" != 0 ] && [ "$1" != 2 ] || return 0
    [ "$1" != $SAID_STATUS ] || exit 1
    {
        echo
        echo "install: stopped at: $STEP (status $1)"
        echo "  why: the lines above say"
        echo "  do:  run it again: it goes on where it stopped"
    } >&2
}

usage() {
    sed -n '/^#   /p' "$1" | sed -n '1,8s/^# \{0,1\}//p' >&2
    exit 2
}

# ---- who and where --------------------------------------------------------------------------------------

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "root is needed for: $*" "install sudo, or run this as root"
    fi
}

# The shell's values of our settings must not win over .env, which is what everybody else reads.
forget_settings() {
    local name
    for name in $(compgen -e); do
        case $name in
        SANDBOXD_* | COMPOSE_* | HTTP_PORT | API_PORT | CONSOLE_PORT | PREVIEW_* | CONSOLE_HOST | CONSOLE_INSECURE_HTTP)
            unset "$name"
            ;;
        esac
    done
}

# The checkout that this script lies in, else the one that this folder is in, else nothing.
own_checkout() {
    local dir
    if [ -f "${BASH_SOURCE[0]:-}" ]; then
        dir=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
        if is_checkout "$dir"; then
            echo "$dir"
            return
        fi
    fi
    dir=$PWD
    until is_checkout "$dir" || [ "$dir" = / ]; do dir=$(dirname "$dir"); done
    [ "$dir" = / ] || echo "$dir"
}

is_checkout() { [ -e "$1/.git" ] && [ -f "$1/docker-compose.yml" ] && [ -f "$1/install.sh" ] && [ -d "$1/control" ]; }

# ---- the machine -----------------------------------------------------------------------------------------

check_system() {
    local kernel id version
    kernel=$(uname -s)
    [ "$kernel" = Linux ] || die "this is $kernel; sandboxd runs on Linux" "run this on a Linux machine, for instance a small VPS with Debian 13"
    id=$(os_release ID) version=$(os_release VERSION_ID)
    case "$id $version $(uname -m)" in
    "debian 12 x86_64" | "debian 13 x86_64") ;;
    *) say "${id:-an unknown distribution} $version on $(uname -m): not tried here; going on" ;;
    esac
}

os_release() { # name
    # shellcheck disable=SC1091
    (. /etc/os-release 2>/dev/null && eval "echo \"\${$1:-}\"")
}

# The nearest folder above a path that exists.
existing() { # path
    local path=$1
    while [ ! -d "$path" ]; do path=$(dirname "$path"); done
    echo "$path"
}

free_gb() { df -Pk "$(existing "$1")" | awk 'NR == 2 { printf "%d", $4 / 1000 / 1000 * 1.024 }'; }

check_resources() { # data directory, already installed (yes/no)
    local cpus mib gb here
    cpus=$(nproc)
    [ "$cpus" -ge "$VCPUS_WANTED" ] || warn "$cpus vCPU found, $VCPUS_WANTED wanted: builds and wakes will be slow"
    mib=$(awk '$1 == "MemTotal:" { printf "%d", $2 / 1024 }' /proc/meminfo)
    if [ "$mib" -lt "$MEMORY_NEEDED_MIB" ]; then
        die "$(gib "$mib") GiB of memory found, at least $(gib $MEMORY_NEEDED_MIB) GiB needed" "take a machine with $(gib $MEMORY_WANTED_MIB) GiB or more"
    elif [ "$mib" -lt "$MEMORY_WANTED_MIB" ]; then
        warn "$(gib "$mib") GiB of memory found, $(gib $MEMORY_WANTED_MIB) wanted: one app at a time will run well"
    fi
    for here in /var/lib/docker "$1"; do
        gb=$(free_gb "$here")
        # What is installed takes its part of the disk already.
        if [ "$gb" -lt "$DISK_NEEDED_GB" ] && [ "$2" = no ]; then
            die "$gb GB free for $here found, at least $DISK_NEEDED_GB GB needed" "make room (docker system df; apt-get clean) or take a larger disk"
        elif [ "$gb" -lt "$DISK_WANTED_GB" ]; then
            warn "$gb GB free for $here found, $DISK_WANTED_GB wanted"
        fi
    done
}

gib() { awk -v mib="$1" 'BEGIN { printf "%.1f", mib / 1024 }'; }

# ---- packages ---------------------------------------------------------------------------------------------

has_package() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep -q '^  Candidate: [^(]'; }

compose_version() { # command...
    "$@" version --short 2>/dev/null | sed -n 's/^v//; /^[0-9][0-9]*\./{p;q}' || true
}

any_compose() { [ -n "$(compose_version docker compose)" ] || [ -n "$(compose_version docker-compose)" ]; }

# Which package holds Compose here; `docker compose` before docker-compose 1.29.
compose_package() {
    local name
    for name in docker-compose-v2 docker-compose-plugin docker-compose; do
        if has_package "$name"; then
            echo "$name"
            return
        fi
    done
    echo docker-compose
}

missing_tools() {
    command -v git >/dev/null || echo git
    # A client alone is no engine, unless one answers it.
    if ! command -v docker >/dev/null || { ! command -v dockerd >/dev/null && ! docker version >/dev/null 2>&1; }; then
        echo docker
    fi
    any_compose || echo compose
    command -v curl >/dev/null || echo curl
    [ -e /etc/ssl/certs/ca-certificates.crt ] || ! command -v apt-get >/dev/null || echo certificates
}

packages_for() { # tool...
    local tool
    for tool in "$@"; do
        case $tool in
        docker)
            echo docker.io
            # Debian 13 has the client in a package of its own.
            ! has_package docker-cli || echo docker-cli
            # An engine on a kernel with AppArmor starts no container without its parser.
            if grep -qs Y /sys/module/apparmor/parameters/enabled && ! command -v apparmor_parser >/dev/null; then echo apparmor; fi
            ;;
        compose) compose_package ;;
        certificates) echo ca-certificates ;;
        *) echo "$tool" ;;
        esac
    done
}

consent() { # tool...
    local answer
    [ "$YES" = no ] || return 0
    if [ ! -t 0 ]; then
        die "missing here: $*; there is no terminal to ask on, and nothing was changed" \
            "run it with --yes to install them from the distribution's packages, or install them yourself"
    fi
    read -r -p "  Missing here: $*. Install from the distribution's packages? [y/N] " answer
    case $answer in
    y | Y | yes | Yes) YES=yes ;;
    *) die "nothing was changed" "install $* yourself, then run this again" ;;
    esac
}

apt_run() { # apt-get arguments
    as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@"
}

install_packages() { # tool...
    local log
    log=$(mktemp)
    if [ -z "${APT_UPDATED:-}" ]; then
        say "reading the package lists"
        apt_run update >"$log" 2>&1 ||
            { tail -n 5 "$log" >&2; die "apt-get update failed: its last lines are above" "check the network and /etc/apt, then run this again"; }
        APT_UPDATED=yes
    fi
    local -a names
    mapfile -t names < <(packages_for "$@")
    say "installing ${names[*]}"
    # Docker starts by itself where there is an init system; where there is none, policy-rc.d or not, we start it.
    if ! apt_run install -y --no-install-recommends "${names[@]}" >"$log" 2>&1; then
        tail -n 10 "$log" >&2
        die "apt-get install ${names[*]} failed: its last lines are above" "repair that (apt-get -f install), then run this again"
    fi
    rm -f "$log"
}

# Before anything changes: what is missing, and may it be installed?
plan_packages() {
    mapfile -t MISSING < <(missing_tools)
    [ ${#MISSING[@]} != 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        die "missing here: ${MISSING[*]}; this distribution has no apt-get" "install them with its own package manager, then run this again"
    fi
    consent "${MISSING[@]}"
}

need_git() {
    command -v git >/dev/null && return
    if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
        install_packages git
    else
        install_packages git certificates
    fi
}

need_the_rest() {
    local -a tools
    mapfile -t tools < <(missing_tools)
    [ ${#tools[@]} = 0 ] || install_packages "${tools[@]}"
}

# ---- the source ---------------------------------------------------------------------------------------------

repo() { git -c safe.directory="$SRC" -C "$SRC" -c user.name=sandboxd -c user.email=install@localhost "$@"; }

# The commit of a tag, a branch of origin or a commit id.
resolve_ref() { # ref
    local name
    case $1 in -* | *' '* | *..* | *:*) return 1 ;; esac
    for name in "refs/tags/$1" "refs/remotes/origin/$1" "$1"; do
        repo rev-parse -q --verify "$name^{commit}" 2>/dev/null && return
    done
    # A commit that no branch leads to.
    repo fetch -q origin "$1" 2>/dev/null && repo rev-parse -q --verify 'FETCH_HEAD^{commit}'
}

known_tags() { repo for-each-ref --count=5 --sort=-creatordate --format='%(refname:short)' refs/tags | tr '\n' ' '; }

unknown_ref() { # ref, url, tags
    die "SANDBOXD_REF=$1 is no tag, branch or commit of $2; nothing was changed" \
        "name one that exists${3:+, for instance: $3}"
}

clone_source() { # url, ref
    local target=$SRC commit known
    if [ -e "$target" ] && [ -n "$(ls -A "$target")" ]; then
        die "$target exists and is no checkout of sandboxd" "move it away, or set SANDBOXD_SRC to another folder"
    fi
    mkdir -p "$(dirname "$target")"
    SRC=$target.new
    rm -rf "$SRC"
    if ! git clone -q --no-checkout "$1" "$SRC"; then
        rm -rf "$SRC"
        die "the source cannot be fetched from $1: git's words are above" "check the network and SANDBOXD_REPO_URL"
    fi
    if ! commit=$(resolve_ref "$2"); then
        known=$(known_tags)
        rm -rf "$SRC"
        unknown_ref "$2" "$1" "$known"
    fi
    repo -c advice.detachedHead=false checkout -q --detach "$commit"
    rm -rf "$target"
    mv "$SRC" "$target"
    SRC=$target
}

fetch_source() { # url
    repo remote get-url origin >/dev/null 2>&1 || repo remote add origin "$1"
    [ "$(repo remote get-url origin)" = "$1" ] || repo remote set-url origin "$1"
    repo fetch -q --force --tags origin '+refs/heads/*:refs/remotes/origin/*' ||
        die "the source cannot be fetched from $1: git's words are above" "check the network and SANDBOXD_REPO_URL"
}

upgrade_source() { # url, ref
    local commit
    fetch_source "$1"
    commit=$(resolve_ref "$2") || unknown_ref "$2" "$1" "$(known_tags)"
    [ "$commit" != "$(repo rev-parse HEAD)" ] || return 0
    say "from $(repo rev-parse --short=12 HEAD) to ${commit:0:12}"
    [ -z "$(repo ls-files -u)" ] ||
        die "$SRC is in the middle of a merge; nothing was changed" "finish it there (git status), then run this again"
    if [ -z "$(repo status --porcelain --untracked-files=no)" ]; then
        repo -c advice.detachedHead=false checkout -q --detach "$commit" ||
            die "git cannot move $SRC to ${commit:0:12}: its words are above; nothing was changed" "move the files it names away, then run this again"
        return
    fi
    carry_edits "$commit"
}

# Edits of tracked files are put on the new commit in a work tree beside, and only what came out well
# is taken over, in one step that git refuses as a whole.
carry_edits() { # commit
    local edits merged index work
    index=$(mktemp -u "${TMPDIR:-/tmp}/sandboxd-index.XXXXXX") work=$(mktemp -du "${TMPDIR:-/tmp}/sandboxd-merge.XXXXXX")
    say "carrying over edits of: $(repo diff --name-only HEAD | tr '\n' ' ')"
    edits=$(export GIT_INDEX_FILE=$index && repo read-tree HEAD && repo add -u && repo write-tree)
    rm -f "$index"
    repo worktree prune
    repo worktree add -q --detach "$work" "$1"
    if ! git -C "$work" -c user.name=sandboxd -c user.email=install@localhost cherry-pick --no-commit \
        "$(repo commit-tree -p HEAD -m 'local edits' "$edits")" >/dev/null 2>&1; then
        index=$(git -C "$work" diff --name-only --diff-filter=U | tr '\n' ' ')
        drop_worktree "$work"
        die "your edits do not fit ${1:0:12} in: ${index:-git does not say which file}; nothing was changed" \
            "look at them with: git -C $SRC diff" "undo or adapt them there, then run this again"
    fi
    merged=$(git -C "$work" write-tree)
    drop_worktree "$work"
    take_over "$edits" "$merged" "$1"
}

drop_worktree() {
    repo worktree remove --force "$1" 2>/dev/null || rm -rf "$1"
    repo worktree prune
}

take_over() { # tree of the edited files, tree wanted, commit
    repo read-tree "$1"
    repo update-index -q --refresh >/dev/null || true
    if ! repo read-tree -m -u "$1" "$2"; then
        repo read-tree HEAD
        die "git cannot move $SRC to ${3:0:12}: its words are above; nothing was changed" "move the files it names away, then run this again"
    fi
    repo update-ref --no-deref HEAD "$3"
    repo read-tree "$3"
    repo update-index -q --refresh >/dev/null || true
}

source_url() {
    local url=$WANTED_URL
    # git may not be installed yet.
    if [ -z "$url" ] && [ -f "$SRC/.git/config" ]; then
        url=$(sed -n '/^\[remote "origin"\]/,/^\[/s/^[[:space:]]*url = //p' "$SRC/.git/config" | head -n 1)
    fi
    echo "${url:-$REPO_URL}"
}

# Ends in the installer of the commit wanted, which may be another than this one.
get_source() { # url
    step "source: ${WANTED_REF:-main} of $1"
    need_git
    if is_checkout "$SRC"; then
        upgrade_source "$1" "${WANTED_REF:-main}"
    else
        clone_source "$1" "${WANTED_REF:-main}"
    fi
    say "$SRC is at $(repo rev-parse --short=12 HEAD)"
    local -a options=()
    [ "$YES" = no ] || options=(--yes)
    INSTALL_CHECKED=yes exec bash "$SRC/install.sh" "${options[@]}"
}

# ---- Docker and Compose ----------------------------------------------------------------------------------------

# With sudo only where this user may not use the engine.
settle_docker() {
    DOCKER=(docker)
    if docker version --format '{{.Server.Version}}' >/dev/null 2>&1; then
        return
    fi
    if [ "$(id -u)" != 0 ] && as_root docker version --format '{{.Server.Version}}' >/dev/null 2>&1; then
        DOCKER=(as_root docker)
        return
    fi
    say "starting the Docker engine"
    as_root bash "$SRC/scripts/engine.sh" || die "the Docker engine does not start: its words are above" "repair it (docker version must show a Server), then run this again"
    if ! docker version --format '{{.Server.Version}}' >/dev/null 2>&1; then
        DOCKER=(as_root docker)
    fi
}

# Words for the person: commands that work for them as they are.
user_command() { if [ "${DOCKER[0]}" = as_root ]; then echo "sudo $*"; else echo "$*"; fi; }

check_engine() {
    local facts
    ENGINE_VERSION=$("${DOCKER[@]}" version --format '{{.Server.Version}}')
    facts=$("${DOCKER[@]}" info --format '{{.OperatingSystem}} {{.SecurityOptions}}')
    case $facts in
    *name=rootless*) die "this Docker engine is rootless: sandboxes need accounts of their own and walls" "install the distribution's docker.io, or point the docker context at a rootful engine" ;;
    *name=userns*) die "this Docker engine remaps user ids (userns-remap): sandboxes need accounts of their own" "take userns-remap out of /etc/docker/daemon.json, restart Docker and run this again" ;;
    *"Docker Desktop"*) die "this is Docker Desktop: its engine runs in a virtual machine and sees other folders" "install the engine of the distribution (docker.io) and use the context default" ;;
    esac
    say "Docker engine $ENGINE_VERSION"
}

settle_compose() {
    local version
    version=$(compose_version docker compose)
    COMPOSE=(docker compose)
    if [ -z "$version" ]; then
        version=$(compose_version docker-compose)
        COMPOSE=(docker-compose)
    fi
    case $version in
    '') die "Compose is missing" "install the package $(compose_package), then run this again" ;;
    1.*)
        # It fails at the first recreate with engines that no longer send ContainerConfig.
        if [ "${ENGINE_VERSION%%.*}" -ge 25 ]; then
            die "docker-compose $version does not work with Docker engine $ENGINE_VERSION" "install the package $(newer_compose_package), then run this again"
        fi
        ;;
    esac
    say "Compose $version (${COMPOSE[*]})"
}

newer_compose_package() {
    local name
    for name in docker-compose-v2 docker-compose-plugin; do
        if has_package "$name"; then
            echo "$name"
            return
        fi
    done
    echo "docker-compose-plugin (Docker's own packages) or docker-compose of version 2 or later"
}

compose() {
    if [ "${DOCKER[0]}" = as_root ]; then
        (cd "$SRC" && as_root "${COMPOSE[@]}" "$@")
    else
        (cd "$SRC" && "${COMPOSE[@]}" "$@")
    fi
}

container_of() { # service
    "${DOCKER[@]}" ps -aq --filter label=com.docker.compose.project=sandboxd --filter "label=com.docker.compose.service=$1" | head -n 1
}

# One machine, one sandboxd: another folder has another .env, and with it other tokens.
check_other_install() {
    local other id
    id=$(container_of sandboxd)
    [ -n "$id" ] || return 0
    other=$("${DOCKER[@]}" inspect -f '{{index .Config.Labels "com.docker.compose.project.working_dir"}}' "$id")
    if [ -n "$other" ] && [ "$other" != "$SRC" ] && [ -e "$other/.env" ] && [ ! -e "$SRC/.env" ]; then
        die "sandboxd runs on this machine from $other" \
            "to upgrade it: SANDBOXD_SRC=$other bash $0" "to move it here: cp -p $other/.env $SRC/.env, then run this again"
    fi
}

# ---- settings -----------------------------------------------------------------------------------------------------

env_get() { # name: its last value in .env
    sed -n "s/^$1=//p" "$SRC/.env" 2>/dev/null | tail -n 1 | tr -d '\r' | sed 's/^"\(.*\)"$/\1/; s/^'\''\(.*\)'\''$/\1/'
}

setting() { # name, default
    local value
    value=$(env_get "$1")
    echo "${value:-$2}"
}

env_line() { awk -v name="$1=" 'index($0, name) == 1 { line = NR } END { if (line) print line }' "$SRC/.env"; }

# Replaces the line of a name, or adds one; the file is never seen half written, nor by anybody else.
env_set() { # name, value
    local file=$SRC/.env new
    new=$(umask 077 && mktemp "$SRC/.env.XXXXXX")
    if grep -q "^$1=" "$file"; then
        sed "s|^$1=.*|$1=$2|" "$file" >"$new"
    else
        { cat "$file"; tail -c 1 "$file" | grep -q . && echo; echo "$1=$2"; } >"$new"
    fi
    # Of the user whose file it is, root's run or not.
    [ "$(id -u)" != 0 ] || chown --reference="$file" "$new"
    mv "$new" "$file"
}

env_fill() { # name, value: only where there is none
    [ -n "$(env_get "$1")" ] || env_set "$1" "$2"
}

random_token() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

# Ranges of accounts that somebody uses: passwd, group, and what is lent out to containers of users.
used_ids() {
    { getent passwd || cat /etc/passwd; } | awk -F: '{ print $3, $3; print $4, $4 }'
    { getent group || cat /etc/group; } | awk -F: '{ print $3, $3 }'
    { cat /etc/subuid /etc/subgid 2>/dev/null || true; } | awk -F: 'NF == 3 { print $2, $2 + $3 - 1 }'
}

mapped_ids() { awk '{ print $1, $1 + $3 - 1 }' /proc/self/uid_map; }

# The base: 2,000,000,000 where it is free and mapped, else from the largest free block of the map.
choose_uid_base() {
    local first=$((UID_BASE - UID_BELOW)) last=$((UID_BASE + UID_COUNT))
    if mapped_ids | awk -v a=$first -v b=$last '$1 <= a && $2 >= b { ok = 1 } END { exit !ok }' &&
        used_ids | awk -v a=$first -v b=$last '$1 <= b && $2 >= a { hit = 1 } END { exit hit }'; then
        echo $UID_BASE
        return
    fi
    largest_block | awk -v below=$UID_BELOW '$2 - $1 >= 2 * below { printf "%d\n", $1 + below }'
}

largest_block() {
    mapped_ids | while read -r from to; do
        used_ids | sort -n | awk -v from="$from" -v to="$to" '
            function gap(a, b) { if (b - a > size) { size = b - a; start = a; end = b } }
            BEGIN { if (from < 2000) from = 2000; if (to > 2147483647) to = 2147483647; at = from; size = -1 }
            $1 <= to { if ($1 > at) gap(at, $1 - 1); if ($2 + 1 > at) at = $2 + 1 }
            END { if (at <= to) gap(at, to); if (size > 0) printf "%d %d %d\n", size, start, end }'
    done | sort -rn | awk 'NR == 1 { print $2, $3 }'
}

write_env() {
    local base
    step "settings: $SRC/.env"
    if [ ! -e "$SRC/.env" ]; then
        (umask 077 && cp "$SRC/.env.example" "$SRC/.env.new" && chmod 0600 "$SRC/.env.new")
        base=$(choose_uid_base)
        [ -n "$base" ] || { rm -f "$SRC/.env.new"; die "no free block of user ids for the sandboxes (see /proc/self/uid_map, /etc/subuid)" "set SANDBOXD_UID_BASE by hand: cp .env.example .env"; }
        sed -i "s|^SANDBOXD_UID_BASE=.*|SANDBOXD_UID_BASE=$base|; s|^SANDBOXD_API_TOKENS=.*|SANDBOXD_API_TOKENS=default=sk_$(random_token)|" "$SRC/.env.new"
        # As root in somebody's checkout: the file is its owner's.
        [ "$(id -u)" != 0 ] || chown --reference="$SRC" "$SRC/.env.new"
        mv "$SRC/.env.new" "$SRC/.env"
        say "written; it is yours from now on"
    fi
    chmod 0600 "$SRC/.env" 2>/dev/null || as_root chmod 0600 "$SRC/.env"
    # What an older .env, or one made by hand, may lack.
    env_fill COMPOSE_PROJECT_NAME sandboxd
    env_fill SANDBOXD_API_TOKENS "default=sk_$(random_token)"
    env_fill SANDBOXD_UID_BASE "$UID_BASE"
    base=$(env_get SANDBOXD_UID_BASE)
    env_follow SANDBOXD_PREVIEW_UID $((base - 999))
    env_follow SANDBOXD_CREDENTIALS_UID $((base - 998))
    env_follow SANDBOXD_DOCKER_SOCKET_DIR "$(socket_dir "$(setting SANDBOXD_DOCKER_SOCKET /var/run/docker.sock)")"
    DATA_DIR=$(setting SANDBOXD_DATA_DIR /var/lib/sandboxed)
    case $DATA_DIR in
    / | *[!A-Za-z0-9/._-]* | *..*) die "SANDBOXD_DATA_DIR=$DATA_DIR: an absolute path of letters, digits, '/', '.', '_' and '-' is accepted" "correct line $(env_line SANDBOXD_DATA_DIR) of $SRC/.env" ;;
    /*) ;;
    *) die "SANDBOXD_DATA_DIR=$DATA_DIR is not an absolute path" "correct line $(env_line SANDBOXD_DATA_DIR) of $SRC/.env" ;;
    esac
}

# What is mounted for a socket: its directory, by a name that is the same inside. /var/run is a link to /run.
socket_dir() { # path of the socket
    case $1 in
    /run/* | /var/run/*) echo /run ;;
    *) dirname "$1" ;;
    esac
}

# A value that another one decides.
env_follow() { # name, value
    [ "$(env_get "$1")" = "$2" ] || env_set "$1" "$2"
}

# Programs of ours trust the certificates of this machine; where these are in another file than Debian's,
# a folder of ours holds a copy under the usual name.
settle_certificates() {
    local bundle dir=$DATA_DIR/state/ca
    [ "$(setting SANDBOXD_HOST_CERTS /etc/ssl/certs)" = /etc/ssl/certs ] || return 0
    [ ! -f /etc/ssl/certs/ca-certificates.crt ] || return 0
    for bundle in /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
        [ -f "$bundle" ] || continue
        as_root install -d -m 0755 "$dir"
        as_root install -m 0644 "$(realpath "$bundle")" "$dir/ca-certificates.crt"
        env_set SANDBOXD_HOST_CERTS "$dir"
        return
    done
    die "no certificates of authorities in /etc/ssl/certs/ca-certificates.crt" "install the package ca-certificates, then run this again"
}

make_data_dir() {
    [ -d "$DATA_DIR/state/images" ] || as_root install -d -m 0711 "$DATA_DIR" "$DATA_DIR/state" "$DATA_DIR/state/images"
}

# An engine that lives elsewhere (a VM, a snap) sees another folder by the same name.
check_data_dir() {
    local word
    word=$(random_token)
    echo "$word" | as_root tee "$DATA_DIR/.seen" >/dev/null
    if [ "$("${DOCKER[@]}" run --rm --network none -v "$DATA_DIR:$DATA_DIR:ro" debian:trixie-slim cat "$DATA_DIR/.seen" 2>&1)" != "$word" ]; then
        as_root rm -f "$DATA_DIR/.seen"
        die "the Docker engine does not see $DATA_DIR as this machine does (mounts denied, or an engine in a virtual machine or a snap)" \
            "share that path with the engine, or put SANDBOXD_DATA_DIR to one that it sees: line $(env_line SANDBOXD_DATA_DIR) of $SRC/.env"
    fi
    as_root rm -f "$DATA_DIR/.seen"
}

# ---- ports --------------------------------------------------------------------------------------------------------

# Process ids of the containers of ours that run.
our_pids() {
    local ids
    ids=$("${DOCKER[@]}" ps -q --filter label=com.docker.compose.project=sandboxd)
    # shellcheck disable=SC2086
    [ -z "$ids" ] || "${DOCKER[@]}" inspect -f '{{.State.Pid}}' $ids
}

# Who listens where it would be in our way: "name pid", one a line.
listeners() { # port, loopback|any
    if ! command -v ss >/dev/null; then
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && echo "some-program 0"
        return 0
    fi
    as_root ss -Hltnp "sport = :$1" | awk -v kind="$2" '
        { split($4, part, ":"); address = substr($4, 1, length($4) - length(part[length(part)]) - 1)
          if (kind == "loopback" && address !~ /^(127\.0\.0\.1|0\.0\.0\.0|\*|\[::\]|\[::ffff:127\.0\.0\.1\])$/) next
          if (match($0, /\(\("[^"]*",pid=[0-9]+/)) {
              who = substr($0, RSTART + 3, RLENGTH - 3); split(who, f, /",pid=/); print f[1], f[2]
          } else print "some-program", 0 }' | sort -u
}

check_port() { # setting, default, loopback|any
    local port name pid owner
    port=$(setting "$1" "$2")
    case $port in
    '' | *[!0-9]* | 0* | ??????*) die "$1=$port: a port from 1 to 65535 is accepted" "correct line $(env_line "$1") of $SRC/.env" ;;
    esac
    while read -r name pid; do
        [ -n "$name" ] || continue
        # Our own of before: docker-compose up moves it.
        if our_pids | grep -qx "$pid"; then continue; fi
        owner="$name (pid $pid)"
        [ "$name" != docker-proxy ] || owner="$owner, container $("${DOCKER[@]}" ps --filter "publish=$port" --format '{{.Names}}' | head -n 1)"
        [ "$pid" != 0 ] || owner="some program"
        die "port $port is taken by $owner; it was to be $1" \
            "stop that program, or move ours: line $(env_line "$1") of $SRC/.env, for instance $1=$((port < 1024 ? port + 8000 : port + 100))" "then run this again"
    done < <(listeners "$port" "$3")
}

check_ports() {
    step "ports"
    local name
    for name in HTTP_PORT API_PORT CONSOLE_PORT PREVIEW_PORT; do
        [ -n "$(env_line $name)" ] || env_set "$name" "$(sed -n "s/^$name=//p" "$SRC/.env.example")"
    done
    check_port HTTP_PORT 80 any
    check_port API_PORT 9090 loopback
    check_port CONSOLE_PORT 9091 loopback
    check_port PREVIEW_PORT 9080 loopback
}

# ---- images -------------------------------------------------------------------------------------------------------

docker_script() { # script...
    if [ "${DOCKER[0]}" = as_root ]; then as_root bash "$@"; else bash "$@"; fi
}

base_image() {
    step "base image: debian:trixie-slim"
    if ! "${DOCKER[@]}" image inspect debian:trixie-slim >/dev/null 2>&1; then
        as_root bash "$SRC/scripts/base-image.sh" trixie ||
            die "debian:trixie-slim can neither be pulled nor made from Debian's packages: the words are above" \
                "give it to this engine: docker save debian:trixie-slim on another machine, docker load here" "or make a Debian mirror reachable, then run this again"
    fi
    # What sandboxes are rebuilt from when the engine was pruned and no registry can be reached.
    if [ ! -s "$DATA_DIR/state/images/debian.tar" ]; then
        export_base | as_root tee "$DATA_DIR/state/images/debian.tar.new" >/dev/null
        as_root mv "$DATA_DIR/state/images/debian.tar.new" "$DATA_DIR/state/images/debian.tar"
    fi
}

export_base() {
    local id
    id=$("${DOCKER[@]}" create debian:trixie-slim true)
    "${DOCKER[@]}" export "$id"
    "${DOCKER[@]}" rm "$id" >/dev/null
}

own_images() {
    step "images of sandboxd"
    # A umask of 077 must not keep Traefik, which has no power over files of others, from its configuration.
    chmod -R a+rX "$SRC/traefik" 2>/dev/null || as_root chmod -R a+rX "$SRC/traefik"
    TAG=$(docker_script "$SRC/images/build.sh") ||
        die "the images could not be built: the words are above" "repair the cause, then run this again: it goes on where it stopped"
    say "tag $TAG"
}

# ---- the stack ----------------------------------------------------------------------------------------------------

start_stack() {
    step "starting"
    compose up -d --remove-orphans || die "Compose could not start the services: its words are above" "repair the cause, then run this again"
}

last_words() { # container
    "${DOCKER[@]}" logs --tail 5 "$1" 2>&1 | sed 's/^/    /' >&2
}

# Ends the install when a service does nothing but restart.
check_running() {
    local service id state
    for service in $SERVICES; do
        id=$(container_of "$service")
        [ -n "$id" ] || return 1
        state=$("${DOCKER[@]}" inspect -f '{{.State.Status}} {{.RestartCount}}' "$id")
        case $state in
        "running "[0-2]) ;;
        "restarting "[0-2] | "created "*) return 1 ;;
        *)
            last_words "$id"
            die "the service $service does not stay up ($state): the end of its log is above" "correct what it names, then run this again; all of it: $(user_command "${COMPOSE[*]} logs $service") in $SRC"
            ;;
        esac
    done
}

# Our images have curl; this machine may not.
ask() { # curl arguments
    "${DOCKER[@]}" exec "$(container_of sandboxd)" curl -s -m 10 "$@" </dev/null
}

health_of() { # service: the words of its health check, run now instead of at the engine's leisure
    local id
    id=$(container_of "$1")
    "${DOCKER[@]}" exec "$id" sh -c "$("${DOCKER[@]}" inspect -f '{{index .Config.Healthcheck.Test 1}}' "$id")" >/dev/null 2>&1
}

edge_answers() {
    case $(ask -o /dev/null -w '%{http_code}' -H 'Host: console.localhost' "http://127.0.0.1:$(setting HTTP_PORT 80)/") in
    2?? | 3??) ;;
    # A real domain without TLS: the console says so itself, which is an answer.
    401 | 403) ;;
    *) return 1 ;;
    esac
}

# What is not ready yet, or nothing.
not_ready() {
    local service
    check_running || { echo "the services are starting"; return; }
    [ "$(ask -o /dev/null -w '%{http_code}' "http://127.0.0.1:$(setting API_PORT 9090)/readyz")" = 200 ] ||
        { echo "sandboxd is not ready: $(ask "http://127.0.0.1:$(setting API_PORT 9090)/readyz" | tr '\n' ' ' | cut -c 1-500)"; return; }
    for service in sandboxd-engine preview-proxy credentials-proxy traefik; do
        health_of "$service" || { echo "$service is not healthy"; return; }
    done
    edge_answers || echo "the console does not answer through Traefik"
}

wait_ready() {
    local deadline=$((SECONDS + READY_SECONDS_MAX)) why='' service
    while why=$(not_ready) || exit $?; [ -n "$why" ]; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            for service in $SERVICES; do
                echo "    $service:" >&2
                last_words "$(container_of "$service")"
            done
            die "$why, $READY_SECONDS_MAX s after the start" "the ends of the logs are above; correct what they name, then run this again"
        fi
        sleep 1
    done
    say "healthy"
}

# ---- images of the sandboxes ----------------------------------------------------------------------------------------

api() { # method, path: with the token on standard input, not in a list of processes
    printf 'header = "Authorization: Bearer %s"\n' "$TOKEN" |
        "${DOCKER[@]}" exec -i "$(container_of sandboxd)" curl -s -m 30 -X "$1" -K - "http://127.0.0.1:$(setting API_PORT 9090)$2" || true
}

# A field of a preset's image in GET /v1/presets: status, percent, step, error.
preset_field() { # answer, preset, field
    printf '%s' "$1" | tr -d '\n' | sed 's/},{/}\n{/g' |
        sed -nE "/\"id\":\"$2\"/{s/.*\"image\":\{.*\"$3\":(\"(([^\"\\]|\\\\.)*)\"|([0-9]+)).*/\2\4/p;q}"
}

sandbox_image() { # preset
    local why
    step "image of the sandboxes: $1"
    why=$(build_sandbox_image "$1")
    if [ -n "$why" ]; then
        say "it failed, and is tried once more: $why"
        why=$(build_sandbox_image "$1")
    fi
    [ -z "$why" ] || image_failed "$1" "$why"
    say "ready"
}

# Prints why it failed, or nothing.
build_sandbox_image() { # preset
    local deadline=$((SECONDS + IMAGE_SECONDS_MAX)) answer state shown='' line
    answer=$(api POST "/v1/presets/$1/image")
    case $answer in *'"error":{'*)
        echo "$answer"
        return
        ;;
    esac
    while :; do
        answer=$(api GET /v1/presets)
        state=$(preset_field "$answer" "$1" status)
        case $state in
        present) return ;;
        failed)
            preset_field "$answer" "$1" error
            return
            ;;
        esac
        line="$(preset_field "$answer" "$1" percent) %  $(preset_field "$answer" "$1" step | tr -s ' ' | cut -c 1-80)"
        [ "$line" = "$shown" ] || say "$line"
        shown=$line
        if [ "$SECONDS" -ge "$deadline" ]; then
            echo "no end within $IMAGE_SECONDS_MAX s; its last words: $answer"
            return
        fi
        sleep 2
    done
}

image_failed() { # preset, why
    die "the image of $1 could not be built: $2" "sandboxd runs; only new apps of this kind have to wait" \
        "make what it names reachable, then run this again; more: $(user_command "${COMPOSE[*]} logs sandboxd-engine") in $SRC"
}

# ---- last words -----------------------------------------------------------------------------------------------------

password_set() {
    ask -H 'Host: console.localhost' "http://127.0.0.1:$(setting CONSOLE_PORT 9091)/v1/session" | grep -q '"password_set":true'
}

# A new code ends all sessions, so there is one only while nobody has set a password.
console_address() {
    ! password_set || return 0
    compose exec -T sandboxd sandboxd console-code | tr -d '\r' | grep -o 'https\{0,1\}://[^ ]*' | head -n 1
}

ssh_line() {
    local host port user
    # shellcheck disable=SC2086
    set -- ${SSH_CONNECTION:-}
    host=${3:-$(ip -4 route get 192.0.2.1 2>/dev/null | sed -n 's/.* src \([0-9.]*\).*/\1/p' | head -n 1)}
    port=${4:-$(awk 'tolower($1) == "port" { print $2; exit }' /etc/ssh/sshd_config 2>/dev/null)}
    user=${SUDO_USER:-$(id -un)}
    echo "ssh -L 8080:127.0.0.1:$(setting HTTP_PORT 80) $user@${host:-<this machine>} -p ${port:-22}"
}

print_console() {
    local address port
    port=$(setting HTTP_PORT 80)
    [ "$port" != 80 ] || port=
    address=$(console_address)
    if [ -n "$address" ]; then
        echo "Console      $address"
        echo "             the address is good once, for setting a password"
    else
        echo "Console      http://console.localhost${port:+:$port}"
        echo "             your password is set; a new one: $(user_command "${COMPOSE[*]} exec sandboxd sandboxd console-code")"
    fi
    echo "  from your computer, through a tunnel:"
    echo "             $(ssh_line)"
    echo "             http://console.localhost:8080/$([ -z "$address" ] || echo "#${address#*#}")"
}

print_end() {
    local api commit
    api=http://127.0.0.1:$(setting API_PORT 9090)
    commit=$(repo rev-parse HEAD)
    cat <<WORDS

sandboxd runs.

$(print_console)

API          $api
Token        $TOKEN
Settings     $SRC/.env   (apply: cd $SRC && $(user_command "${COMPOSE[*]} up -d"))
Data         $DATA_DIR
Installed    commit $commit
             to stay on it: SANDBOXD_REF=$commit $(user_words)

Next:
  curl $api/healthz
  export API=$api
  export SANDBOXD_TOKEN=$TOKEN
  export AUTH="Authorization: Bearer \$SANDBOXD_TOKEN"

WORDS
}

user_words() { echo "$SRC/install.sh"; }

# ---- order ------------------------------------------------------------------------------------------------------------

installed() { if [ -e "$SRC/.env" ]; then echo yes; else echo no; fi; }

install_checkout() {
    [ -n "${INSTALL_CHECKED:-}" ] || check_resources "$(setting SANDBOXD_DATA_DIR /var/lib/sandboxed)" "$(installed)"
    step "packages"
    need_git
    need_the_rest
    step "Docker"
    settle_docker
    check_engine
    settle_compose
    check_other_install
    write_env
    TOKEN=$(env_get SANDBOXD_API_TOKENS)
    TOKEN=${TOKEN%%,*}
    TOKEN=${TOKEN#*=}
    make_data_dir
    settle_certificates
    check_ports
    base_image
    check_data_dir
    own_images
    start_stack
    wait_ready
    sandbox_image react-vite
    print_end
}

main() {
    trap 'at_exit $?' EXIT
    # Programs of administrators are not on everybody's path.
    PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
    YES=no
    local word checkout
    for word in "$@"; do
        case $word in
        --yes | -y) YES=yes ;;
        *) usage "${BASH_SOURCE[0]:-/dev/null}" ;;
        esac
    done
    step "this machine"
    check_system
    WANTED_REF=${SANDBOXD_REF:-} WANTED_URL=${SANDBOXD_REPO_URL:-}
    checkout=$(own_checkout)
    SRC=${SANDBOXD_SRC:-${checkout:-${HOME:?}/.sandboxd/src}}
    case $SRC in /*) ;; *) SRC=$PWD/$SRC ;; esac
    forget_settings
    if [ "$SRC" = "$checkout" ] && [ -z "$WANTED_REF" ]; then
        plan_packages
        install_checkout
        return
    fi
    local url
    url=$(source_url)
    [ -n "$url" ] || die "no source: this installer names none, and SANDBOXD_REPO_URL is not set" \
        "SANDBOXD_REPO_URL=<git address> bash $0" "or run ./install.sh in a checkout"
    check_resources "$(setting SANDBOXD_DATA_DIR /var/lib/sandboxed)" "$(installed)"
    plan_packages
    get_source "$url"
}

main "$@"
