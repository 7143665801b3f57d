#!/bin/bash
# Makes sure that a Docker engine answers, and says nothing when one does.
#
# On a bare Debian machine it installs the distribution's docker.io and starts it: by systemd where
# that is PID 1, else as a daemon of its own (a container, a CI machine). Needs root only then.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
# shellcheck source=scripts/common.sh
. "$here/common.sh"

START_SECONDS_MAX=60
LOG=/var/log/dockerd.log
engine_pid=

answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

install_packages() {
    local wanted=()
    command -v dockerd >/dev/null || wanted+=(docker.io)
    # Debian 12 ships the client inside docker.io, Debian 13 in a package of its own.
    if ! command -v docker >/dev/null && apt-cache show docker-cli >/dev/null 2>&1; then
        wanted+=(docker-cli)
    fi
    [ ${#wanted[@]} = 0 ] || apt_install "${wanted[@]}"
    command -v docker >/dev/null || apt_install docker-cli
}

# Without systemd nobody has mounted the cgroup hierarchies; a container must not inherit none.
mount_cgroups() {
    mountpoint -q /sys/fs/cgroup && return
    mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null ||
        say "/sys/fs/cgroup is not mounted and cannot be: containers may not start"
}

start_engine() {
    if [ -d /run/systemd/system ]; then
        systemctl start docker || die "systemctl start docker failed: see journalctl -u docker"
        return
    fi
    mount_cgroups
    forget_dead dockerd /var/run/docker.pid
    forget_dead containerd /var/run/docker/containerd/containerd.pid
    setsid dockerd >>"$LOG" 2>&1 </dev/null &
    engine_pid=$!
}

# The pid file of a program that died stops the next one.
forget_dead() { # program, pid file
    [ ! -f "$2" ] || is_running "$1" "$(cat "$2")" || rm -f "$2"
}

# A zombie is not: a container's first process may never collect it.
is_running() { # program, pid
    [ "$(cat "/proc/$2/comm" 2>/dev/null)" = "$1" ] && ! grep -q '^State:.*zombie' "/proc/$2/status"
}

wait_for_engine() {
    local deadline=$((SECONDS + START_SECONDS_MAX))
    until answers; do
        if [ -n "$engine_pid" ] && ! kill -0 "$engine_pid" 2>/dev/null; then
            tail -5 "$LOG" >&2
            die "the Docker engine ended at once: see the lines above; its log is $LOG"
        fi
        if [ "$SECONDS" -ge "$deadline" ]; then
            [ ! -f "$LOG" ] || tail -5 "$LOG" >&2
            die "the Docker engine did not answer within $START_SECONDS_MAX s; its log is $LOG or journalctl -u docker"
        fi
        sleep 0.5
    done
}

answers && exit 0
if command -v docker >/dev/null && docker version 2>&1 | grep -q 'permission denied'; then
    die "this user may not use the Docker engine: run as root, or add the user to the group docker"
fi
[ "$(id -u)" = 0 ] || die "no Docker engine answers: start it, or run this as root"
command -v apt-get >/dev/null || command -v dockerd >/dev/null ||
    die "no Docker engine and no apt-get: install Docker and run this again"
install_packages
if ! answers; then
    say "starting the Docker engine"
    start_engine
    wait_for_engine
fi
