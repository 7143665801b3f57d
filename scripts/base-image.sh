#!/bin/bash
# Makes sure that debian:<suite>-slim exists in the local engine, and says nothing when it does.
#
#   scripts/base-image.sh [trixie|bookworm]
#
# Pulled from the engine's registry where that can be reached; else made with debootstrap from
# Debian's own packages and given the same name, so that no Dockerfile needs to know which it was.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
# shellcheck source=scripts/common.sh
. "$here/common.sh"

PULL_SECONDS_MAX=120

install_debootstrap() {
    command -v debootstrap >/dev/null && return
    [ "$(id -u)" = 0 ] ||
        die "debian:$suite-slim cannot be pulled and debootstrap is not installed: install it, or run this as root"
    command -v apt-get >/dev/null ||
        die "debian:$suite-slim cannot be pulled and debootstrap is not installed: install it and run this again"
    apt_install debootstrap debian-archive-keyring
}

make_from_packages() {
    local dir log
    # Not /tmp: where that is a tmpfs it forbids devices, and the new root needs its /dev/null.
    dir=$(mktemp -d -p /var/tmp)
    log=$dir/log
    # shellcheck disable=SC2064 # the path of now is meant
    trap "rm -rf --one-file-system '$dir'" EXIT
    say "making debian:$suite-slim with debootstrap (about a minute)"
    # Without its keyring, on a machine that is no Debian, debootstrap would go on unchecked.
    if ! debootstrap --force-check-gpg --variant=minbase --include=ca-certificates "$suite" "$dir/root" >"$log" 2>&1; then
        tail -5 "$log" >&2
        die "debootstrap $suite failed: see the lines above; is a Debian mirror reachable?"
    fi
    add_updates "$dir/root"
    rm -rf "$dir"/root/var/cache/apt/* "$dir"/root/var/lib/apt/lists/*
    trust_host_ca "$dir/root"
    tar -C "$dir/root" --one-file-system -c . | docker import - "debian:$suite-slim" >/dev/null
}

# A pulled image has the security updates and those of the release beside it, and so has this one, where
# the mirror has them: they lie next to the release.
add_updates() { # root
    local list=$1/etc/apt/sources.list mirror
    mirror=$(awk '$1 == "deb" { print $2; exit }' "$list")
    cp "$list" "$list.release"
    {
        echo "deb $mirror $suite-updates main"
        echo "deb ${mirror%/debian}/debian-security $suite-security main"
    } >>"$list"
    if ! { chroot "$1" apt-get update && DEBIAN_FRONTEND=noninteractive chroot "$1" apt-get dist-upgrade -y; } >"$1.log" 2>&1; then
        tail -3 "$1.log" >&2
        say "the mirror has no updates of $suite beside the release: the image goes without"
        cp "$list.release" "$list"
    fi
    rm -f "$list.release"
}

# A pulled image does not know the extra CAs of this machine; a made one may as well.
trust_host_ca() { # root
    compgen -G "$HOST_CA_DIR/*.crt" >/dev/null || return 0
    cp "$HOST_CA_DIR"/*.crt "$1/usr/local/share/ca-certificates/"
    local words
    words=$(chroot "$1" update-ca-certificates 2>&1) ||
        die "update-ca-certificates failed in the new image: $words"
}

suite=${1:-trixie}
case $suite in trixie | bookworm) ;; *) die "usage: scripts/base-image.sh [trixie|bookworm]" ;; esac
docker image inspect "debian:$suite-slim" >/dev/null 2>&1 && exit 0
say "pulling debian:$suite-slim"
timeout "$PULL_SECONDS_MAX" docker pull -q "debian:$suite-slim" >/dev/null 2>&1 && exit 0
say "it cannot be pulled here"
install_debootstrap
[ "$(id -u)" = 0 ] || die "debootstrap needs root: run this as root once"
make_from_packages
