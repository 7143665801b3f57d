#!/bin/bash
# Runs the whole stack from this tree in the foreground, for a developer: `make run` builds and calls it.
#
# No edge in front: previews are on the preview port and the console on its own. The data directory
# is run/ in the test directory and stays between runs. Every setting of the product may be given in
# the environment. Ctrl-C stops the stack; the sandboxes go on, as they do in an upgrade.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
# shellcheck source=scripts/common.sh
. "$here/common.sh"
root=$(dirname "$here")
bin=$root/build/${PROFILE:-release}/bin

STOP_SECONDS_MAX=10

[ "${SANDBOXD_TOOLCHAIN:-}" = 1 ] || die "run this with: make run"

# Another bridge than an installed stack's on the same machine.
export SANDBOXD_DATA_DIR=${SANDBOXD_DATA_DIR:-${SANDBOXD_TEST_DIR:?}/run}
export SANDBOXD_BRIDGE=${SANDBOXD_BRIDGE:-sbx_dev}
export API_PORT=${API_PORT:-9090} CONSOLE_PORT=${CONSOLE_PORT:-9091} PREVIEW_PORT=${PREVIEW_PORT:-9080}
export HTTP_PORT=${HTTP_PORT:-$PREVIEW_PORT}
export SANDBOXD_UID_BASE=${SANDBOXD_UID_BASE:-2000000000}
# As in the image: the API's description lies beside the presets.
share=$root/build/share
rm -rf "$share"
mkdir -p "$share"
cp -r "$root/presets" "$root/build/openapi.json" "$share/"
export SANDBOXD_PRESETS_DIR=${SANDBOXD_PRESETS_DIR:-$share/presets}
export SANDBOXD_CONSOLE_DIR=${SANDBOXD_CONSOLE_DIR:-$root/console/dist}
export SANDBOXD_INIT_SOURCE=${SANDBOXD_INIT_SOURCE:-$bin/sandboxd-init}

case $SANDBOXD_DATA_DIR/ in
"$SANDBOXD_TEST_DIR"/*) ;;
*) die "SANDBOXD_DATA_DIR=$SANDBOXD_DATA_DIR must lie below $SANDBOXD_TEST_DIR: only that is mounted here" ;;
esac
for program in sandboxd sandboxd-fetch sandboxd-engine sandboxd-walls sandboxd-preview-proxy sandboxd-credentials-proxy sandboxd-init; do
    [ -x "$bin/$program" ] || die "$bin/$program is missing: make did not build it"
done

make_token() {
    local file=$SANDBOXD_DATA_DIR/dev-token
    mkdir -p "$SANDBOXD_DATA_DIR"
    [ -s "$file" ] || (umask 077 && echo "sk_$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" >"$file")
    cat "$file"
}

pids=()
start() { # command...
    "$@" &
    pids+=($!)
}

# A proxy has an account of its own and no capability, as when installed.
as_proxy() { # distance below the base, command...
    local uid=$((SANDBOXD_UID_BASE - $1))
    start setpriv --reuid "$uid" --regid "$uid" --clear-groups --bounding-set -all --no-new-privs "${@:2}"
}

stop_all() {
    trap - EXIT INT TERM
    local deadline=$((SECONDS + STOP_SECONDS_MAX)) pid
    kill -TERM "${pids[@]}" 2>/dev/null || true
    for pid in "${pids[@]}"; do
        while kill -0 "$pid" 2>/dev/null && [ "$SECONDS" -lt "$deadline" ]; do sleep 0.1; done
        kill -KILL "$pid" 2>/dev/null || true
    done
    wait
}

if [ -z "${SANDBOXD_API_TOKENS:-}" ]; then
    token=$(make_token)
    export SANDBOXD_API_TOKENS=dev=$token
fi
trap stop_all EXIT
trap 'exit 130' INT TERM
start "$bin/sandboxd-engine"
start "$bin/sandboxd"
as_proxy 999 "$bin/sandboxd-preview-proxy" --data-dir "$SANDBOXD_DATA_DIR" --port "$PREVIEW_PORT"
as_proxy 998 "$bin/sandboxd-credentials-proxy" --data-dir "$SANDBOXD_DATA_DIR"
cat <<WORDS

  export API=http://127.0.0.1:$API_PORT
  export SANDBOXD_TOKEN=${SANDBOXD_API_TOKENS#*=}
  export AUTH="Authorization: Bearer \$SANDBOXD_TOKEN"
  console   http://console.localhost:$CONSOLE_PORT
  previews  http://s-<sandbox id>-3000.preview.localhost:$PREVIEW_PORT
  data      $SANDBOXD_DATA_DIR

WORDS
# The first program that ends takes the others along: a developer wants to see why.
wait -n -p ended "${pids[@]}" || true
names=(sandboxd-engine sandboxd "the preview proxy" "the credentials proxy")
for i in "${!pids[@]}"; do
    [ "${pids[$i]}" != "${ended:-}" ] || die "${names[$i]} ended: its last words are above"
done
