#!/bin/sh
# Entry point of the traefik container: renders traefik/ and the environment into a tmpfs and becomes
# Traefik. It must never start an edge that serves a loopback name to the world, and never let one bad
# file of the owner's take the rest down.
#
# Runs as uid 0 without DAC_OVERRIDE: a file of the host's user with mode 0600 is closed to it. Such a
# file is one line in the log; of our own files the copies of the image are taken then.
set -eu
umask 022

mine=${TRAEFIK_SOURCE_DIR:-/etc/sandboxd/traefik}
builtin=${TRAEFIK_BUILTIN_DIR:-/usr/share/sandboxd/traefik}
out=${TRAEFIK_RENDER_DIR:-/run/traefik}
traefik=${TRAEFIK_BINARY:-traefik}
TRIAL_TENTHS_MAX=100

say() { echo "traefik: $*" >&2; }

die() {
    say "$@"
    exit 1
}

# ---- settings ------------------------------------------------------------------------------------

port() { # name, value
    case $2 in '' | *[!0-9]* | 0* | ??????*) die "$1=$2: a port from 1 to 65535 is accepted; correct $1 in .env" ;; esac
    [ "$2" -le 65535 ] || die "$1=$2: a port from 1 to 65535 is accepted; correct $1 in .env"
}

host() { # name, value
    printf '%s\n' "$2" | grep -Eqx '([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?' ||
        die "$1=$2: a host name of letters, digits, '-' and '.' is accepted; correct $1 in .env"
}

lower() { printf '%s' "$1" | tr '[:upper:]' '[:lower:]'; }

read_settings() {
    HTTP_PORT=${HTTP_PORT:-80}
    CONSOLE_PORT=${CONSOLE_PORT:-9091}
    PREVIEW_PORT=${PREVIEW_PORT:-9080}
    PREVIEW_DOMAIN=$(lower "${PREVIEW_DOMAIN:-localhost}")
    CONSOLE_HOST=$(lower "${CONSOLE_HOST:-console.$PREVIEW_DOMAIN}")
    PREVIEW_ENTRYPOINT=${PREVIEW_ENTRYPOINT:-web}
    port HTTP_PORT "$HTTP_PORT"
    port CONSOLE_PORT "$CONSOLE_PORT"
    port PREVIEW_PORT "$PREVIEW_PORT"
    host PREVIEW_DOMAIN "$PREVIEW_DOMAIN"
    host CONSOLE_HOST "$CONSOLE_HOST"
    case $PREVIEW_ENTRYPOINT in
    *[!A-Za-z0-9_-]*) die "PREVIEW_ENTRYPOINT=$PREVIEW_ENTRYPOINT: the name of an entry point in traefik/traefik.yml is accepted" ;;
    esac
    case $(lower "${PREVIEW_TLS:-false}") in
    true | 1 | yes | on) tls=yes ;;
    false | 0 | no | off) tls=no ;;
    *) die "PREVIEW_TLS=$PREVIEW_TLS: true, 1, yes, on, false, 0, no or off is accepted; correct PREVIEW_TLS in .env" ;;
    esac
}

# Traefik hands its whole environment to the templates of the file provider.
forget_foreign_settings() {
    for name in $(env | sed -n 's/^\(SANDBOXD_[A-Za-z0-9_]*\)=.*/\1/p'); do
        unset "$name"
    done
}

# ---- rules ---------------------------------------------------------------------------------------

# A backslash is doubled for YAML's double quotes.
pattern() { printf '%s' "$1" | sed 's/\./\\\\./g'; }

# The rule of a host pattern; a loopback name also wants a loopback client. ClientIP takes one argument.
guarded() { # name, pattern
    case .$1 in
    *.localhost) printf '(HostRegexp(`%s`) && (ClientIP(`127.0.0.0/8`) || ClientIP(`::1`)))' "$2" ;;
    *) printf 'HostRegexp(`%s`)' "$2" ;;
    esac
}

compute_rules() {
    CONSOLE_HERE_RULE=$(guarded console.localhost '^console\\.localhost$')
    CONSOLE_RULE=$(guarded "$CONSOLE_HOST" "^$(pattern "$CONSOLE_HOST")\$")
    PREVIEW_RULE=$(guarded "$PREVIEW_DOMAIN" "^[a-z0-9-]+\\\\.preview\\\\.$(pattern "$PREVIEW_DOMAIN")\$")
    ROUTER_TLS=
    # With the entry point `web`, TLS ends at a proxy of the owner's in front.
    if [ $tls = yes ] && [ "$PREVIEW_ENTRYPOINT" != web ]; then
        ROUTER_TLS='tls: {}'
    fi
}

# ---- rendering -----------------------------------------------------------------------------------

# A replacement of sed's s|||: backslash, & and | stand for themselves.
quoted() { printf '%s' "$1" | sed 's/[\\&|]/\\&/g'; }

make_script() {
    for name in HTTP_PORT CONSOLE_PORT PREVIEW_PORT PREVIEW_DOMAIN CONSOLE_HOST PREVIEW_ENTRYPOINT \
        CONSOLE_HERE_RULE CONSOLE_RULE PREVIEW_RULE ROUTER_TLS; do
        eval "value=\$$name"
        printf 's|${%s}|%s|g\n' "$name" "$(quoted "$value")"
    done
}

render() { # from, to
    sed "$script" "$1" >"$2"
}

readable() { [ -f "$1" ] && [ -r "$1" ] && cat "$1" >/dev/null 2>&1; }

# Our own file: the owner's edition of it, else the image's.
render_ours() { # path below the folder, to
    from=$mine/$1
    if ! readable "$from"; then
        say "traefik/$1 cannot be read: the built-in one is used; chmod a+r traefik/$1, then restart traefik"
        from=$builtin/$1
    fi
    render "$from" "$2"
}

render_static() {
    render_ours traefik.yml "$out/traefik.yml"
    grep -Eq "^[^#]*(^|[{,[:space:]\"'])${PREVIEW_ENTRYPOINT}[\"']?[[:space:]]*:" "$out/traefik.yml" ||
        die "PREVIEW_ENTRYPOINT=$PREVIEW_ENTRYPOINT: traefik/traefik.yml has no entry point of that name; take away the # before it, or correct PREVIEW_ENTRYPOINT in .env"
}

ours() { [ "$1" = sandboxd.yml ] || [ "$1" = tls.yml ]; }

# Traefik reads a folder in the order of names and keeps the first of two routers of one name: ours.
render_dynamic() {
    mkdir "$out/dynamic"
    render_ours dynamic/sandboxd.yml "$out/dynamic/0-sandboxd.yml"
    render_ours dynamic/tls.yml "$out/dynamic/0-tls.yml"
    if [ ! -r "$mine/dynamic" ] || [ ! -x "$mine/dynamic" ]; then
        say "traefik/dynamic cannot be read: your own files in it are left out; chmod -R a+rX traefik, then restart traefik"
    fi
    for file in "$mine"/dynamic/*.yml "$mine"/dynamic/*.yaml "$mine"/dynamic/*.toml; do
        [ -e "$file" ] || [ -L "$file" ] || continue
        name=${file##*/}
        ours "$name" && continue
        if readable "$file"; then
            render "$file" "$out/dynamic/1-$name"
        else
            say "traefik/dynamic/$name cannot be read and is left out; chmod a+r traefik/dynamic/$name, then restart traefik"
        fi
    done
}

# ---- broken files --------------------------------------------------------------------------------

# Traefik refuses a whole folder for one file that does not parse. Does it take this one? It is asked,
# on a port of loopback that the kernel picks.
accepts() { # folder
    # Emptied here, not by the program behind &: its shell may open the file after we have read the last
    # trial's words in it.
    : >"$out/trial.log"
    "$traefik" --entryPoints.trial.address=127.0.0.1:0 --providers.file.directory="$1" --providers.file.watch=false \
        --log.level=DEBUG --log.format=json --global.checkNewVersion=false --global.sendAnonymousUsage=false \
        >>"$out/trial.log" 2>&1 &
    trial=$!
    verdict=unknown
    tenths=0
    while [ $verdict = unknown ] && [ $tenths -lt $TRIAL_TENTHS_MAX ]; do
        if grep -q 'Cannot start the provider\|Error while building configuration\|Error occurred during' "$out/trial.log"; then
            verdict=refused
        elif grep -q 'Configuration received' "$out/trial.log" && grep -q '"providerName":"file"' "$out/trial.log"; then
            verdict=accepted
        elif ! kill -0 "$trial" 2>/dev/null; then
            verdict=refused
        else
            sleep 0.1
            tenths=$((tenths + 1))
        fi
    done
    kill "$trial" 2>/dev/null || true
    wait "$trial" 2>/dev/null || true
    [ $verdict != refused ]
}

# The cause in Traefik's words: "collecting file configs: <path>: <why>".
reason() {
    sed -n 's/.*"error":"\(\([^"\\]\|\\.\)*\)".*/\1/p' "$out/trial.log" | grep -F "$out/dynamic/" | head -n 1
}

# Nothing of the owner's in it: what the image was tried with.
untouched() {
    for file in "$mine"/dynamic/*.yml "$mine"/dynamic/*.yaml "$mine"/dynamic/*.toml; do
        [ -e "$file" ] || continue
        cmp -s "$file" "$builtin/dynamic/${file##*/}" || return 1
    done
}

# One round per broken file, as Traefik names the first that it meets.
drop_broken() {
    ! untouched || return 0
    until accepts "$out/dynamic"; do
        why=$(reason)
        file=${why#*"$out"/dynamic/}
        file=${file%%:*}
        if [ -n "$why" ] && [ -f "$out/dynamic/$file" ]; then
            drop "$file" "$(printf '%s' "${why#*"$file": }" | cut -c 1-300)"
        else
            drop_additions
            return
        fi
    done
}

drop() { # rendered name, why
    name=${1#[01]-}
    rm "$out/dynamic/$1"
    if [ "$1" = "0-$name" ]; then
        say "traefik/dynamic/$name is broken, the built-in one is used: $2"
        render "$builtin/dynamic/$name" "$out/dynamic/$1"
    else
        say "traefik/dynamic/$name is broken and left out: $2"
    fi
}

drop_additions() {
    rm -f "$out"/dynamic/1-*
    render "$builtin/dynamic/sandboxd.yml" "$out/dynamic/0-sandboxd.yml"
    render "$builtin/dynamic/tls.yml" "$out/dynamic/0-tls.yml"
    say "Traefik does not take traefik/dynamic/ and does not say which file: additions and edits there are left out; its words: $(tail -n 1 "$out/trial.log" | cut -c 1-300)"
}

# ---------------------------------------------------------------------------------------------------

forget_foreign_settings
read_settings
compute_rules
script=$(make_script)
rm -rf "$out/traefik.yml" "$out/dynamic" "$out/trial.log"
mkdir -p "$out"
render_static
render_dynamic
drop_broken
rm -f "$out/trial.log"
[ "${1:-}" != render ] || exit 0
exec "$traefik" --configFile="$out/traefik.yml"
