#!/bin/bash
# The toolchain container: everything is built and tested in it, on every machine.
#
#   scripts/toolchain.sh image              make sure the image exists and print its tag
#   scripts/toolchain.sh run CMD...         run a command in it: the tree, nothing of the machine
#   scripts/toolchain.sh run-host CMD...    the same beside the machine's Docker engine, for tests: host
#                                           network and pids, the engine's socket, the cgroup tree and
#                                           /var/lib/sandboxed-test
#   scripts/toolchain.sh run-stack CMD...   as run-host, with the product's settings handed through
#
# The tree is mounted at its own path, so that paths in messages are true and a test may hand them to
# the engine. SANDBOXD_TEST_DIR moves the test directory. Registry settings of the person (npm, pip,
# proxies) are handed through; nothing here names a registry.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
# shellcheck source=scripts/common.sh
. "$here/common.sh"
root=$(dirname "$here")
test_dir=${SANDBOXD_TEST_DIR:-/var/lib/sandboxed-test}

host_cas() { compgen -G "$HOST_CA_DIR/*.crt" || true; }

tag() {
    local hash
    # shellcheck disable=SC2046 # file names of a folder of root's, one word each
    hash=$(cat "$root/toolchain/Dockerfile" $(host_cas) | sha256sum)
    echo "sandboxd-toolchain:${hash:0:12}"
}

build() { # tag
    local context
    context=$(mktemp -d)
    # shellcheck disable=SC2064 # the path of now is meant
    trap "rm -rf '$context'" EXIT
    mkdir "$context/ca"
    cp "$root/toolchain/Dockerfile" "$context/"
    # shellcheck disable=SC2046
    [ -z "$(host_cas)" ] || cp $(host_cas) "$context/ca/"
    # COPY refuses a folder without files.
    touch "$context/ca/.keep"
    say "building $1 (a few minutes, once per change of toolchain/Dockerfile)"
    if ! DOCKER_BUILDKIT=0 docker build --network host -t "$1" "$context" >"$context/log" 2>&1; then
        tail -20 "$context/log" >&2
        die "the toolchain image could not be built: see the lines above"
    fi
    rm -rf "$context"
    trap - EXIT
}

# Two makes at once build one image, not two.
ensure_image() {
    local image
    image=$(tag)
    "$here/engine.sh"
    if ! docker image inspect "$image" >/dev/null 2>&1; then
        exec 9>"${TMPDIR:-/tmp}/sandboxd-toolchain-$(id -u).lock"
        flock 9
        "$here/base-image.sh" trixie
        docker image inspect "$image" >/dev/null 2>&1 || build "$image"
        exec 9>&-
    fi
    echo "$image"
}

# Registry and proxy settings by the names their tools define. Other settings of npm and pip point at
# files of the host and stay there. Values travel in the environment, never in a command line.
registry_options() {
    local name
    for name in $(compgen -e); do
        case $name in
        npm_config_registry | NPM_CONFIG_REGISTRY | PIP_INDEX_URL | PIP_EXTRA_INDEX_URL | PIP_TRUSTED_HOST | \
            http_proxy | https_proxy | no_proxy | HTTP_PROXY | HTTPS_PROXY | NO_PROXY)
            options+=(-e "$name")
            ;;
        esac
    done
    mount_file "${HOME:-/root}/.npmrc" /root/.npmrc
    mount_file /etc/npmrc /etc/npmrc
    mount_file /etc/pip.conf /etc/pip.conf
    mount_file "${HOME:-/root}/.config/pip/pip.conf" /root/.config/pip/pip.conf
    mount_file "${HOME:-/root}/.pip/pip.conf" /root/.pip/pip.conf
}

mount_file() { # host path, path inside
    [ ! -f "$1" ] || options+=(-v "$1:$2:ro")
}

common_options() {
    options=(--rm --network host -v "$root:$root" -w "$PWD")
    local name
    for name in CI SANDBOXD_COMMIT; do
        [ -z "${!name:-}" ] || options+=(-e "$name")
    done
    [ ! -t 0 ] || [ ! -t 1 ] || options+=(-t)
    options+=(-i)
    registry_options
}

# An ordinary user keeps owning what is built. Tests need root inside.
closed_options() {
    # ThreadSanitizer starts itself again without address randomisation where that is too wide for
    # it, which the engine's default profile refuses. Beside the engine, tests keep the default
    # profile: it is what the programs run under when installed.
    options+=(--security-opt seccomp=unconfined)
    [ "$(id -u)" = 0 ] || options+=(--user "$(id -u):$(id -g)" -e HOME=/tmp)
}

host_options() {
    mkdir -p "$test_dir"
    options+=(--pid host --init -e TINI_SUBREAPER=1 --cap-add NET_ADMIN)
    options+=(-v /var/run/docker.sock:/var/run/docker.sock -v /sys/fs/cgroup:/sys/fs/cgroup:ro)
    options+=(-v "$test_dir:$test_dir" -e "SANDBOXD_TEST_DIR=$test_dir")
}

# The product's settings as this shell has them. Tests never get them: they would not repeat.
stack_options() {
    local name
    for name in $(compgen -e); do
        case $name in
        SANDBOXD_TOOLCHAIN | SANDBOXD_TOKEN | SANDBOXD_TEST_DIR | SANDBOXD_COMMIT) ;;
        SANDBOXD_* | API_PORT | CONSOLE_PORT | PREVIEW_PORT | HTTP_PORT | PREVIEW_DOMAIN | CONSOLE_HOST)
            options+=(-e "$name")
            ;;
        esac
    done
}

run() { # image command...
    local image=$1
    shift
    case $PWD/ in "$root"/*) ;; *) die "run this from inside $root" ;; esac
    exec docker run "${options[@]}" "$image" "$@"
}

options=()
case ${1:-} in
image)
    ensure_image
    ;;
run)
    [ $# -ge 2 ] || die "usage: scripts/toolchain.sh run CMD..."
    image=$(ensure_image)
    common_options
    closed_options
    run "$image" "${@:2}"
    ;;
run-host | run-stack)
    [ $# -ge 2 ] || die "usage: scripts/toolchain.sh $1 CMD..."
    image=$(ensure_image)
    common_options
    host_options
    [ "$1" = run-host ] || stack_options
    run "$image" "${@:2}"
    ;;
*)
    sed -n '4,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
