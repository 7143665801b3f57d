# Shared by the scripts beside it; sourced, never run. No effect of its own.
# shellcheck shell=bash

# A failure inside $(...) ends the script too.
shopt -s inherit_errexit

# Debian's folder for certificates that the machine's owner added.
HOST_CA_DIR=/usr/local/share/ca-certificates

say() { echo "${0##*/}: $*" >&2; }

die() {
    say "$@"
    exit 1
}

# Installs packages quietly; on failure shows the end of apt's own words.
apt_install() { # package...
    local log
    log=$(mktemp)
    say "installing $*"
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
        tail -5 "$log" >&2
        rm -f "$log"
        die "apt-get install $* failed: see the lines above"
    fi
    rm -f "$log"
}
