#!/bin/bash
# Builds the sandbox images and tries what README.md promises about them, in containers walled in
# as a sandbox is: a uid nobody knows, read-only root, noexec /tmp, no capability. The first fault
# ends it. Needs docker and jq, and the package registries for the last step of each part.
set -euo pipefail

presets=$(dirname "$(readlink -f "$0")")
SIZE_MAX_BYTES=2000000000
LIVE_TARGET_MS=6000 # printed, not enforced: other work on the machine is no fault of ours
UID_TRIED=2000000001
volume=sandboxd-presets-check-$$
walls=(--rm -i --read-only --user "$UID_TRIED:$UID_TRIED" --cap-drop ALL
    --security-opt no-new-privileges --pids-limit 1024 --memory 2g
    --tmpfs "/tmp:rw,noexec,nosuid,nodev,size=512m"
    --env TMPDIR=/home/sandbox/.tmp --volume "$volume:/home/sandbox:nocopy")
trap 'docker volume rm -f "$volume" > /dev/null' EXIT

fail() {
    echo "check.sh: $*" >&2
    exit 1
}

say() {
    echo "ok: $*"
}

home_make() { # <image>: an empty home of the tried uid
    docker volume rm -f "$volume" > /dev/null
    docker volume create "$volume" > /dev/null
    docker run --rm --user 0 --volume "$volume:/home/sandbox:nocopy" "$1" \
        bash -c "chown $UID_TRIED:$UID_TRIED /home/sandbox && chmod 0700 /home/sandbox"
}

inside() { # <image> <docker run options...>: runs the script on standard input
    local image=$1
    shift
    docker run "${walls[@]}" "$@" "$image" bash -euo pipefail -s
}

check_data() {
    local file
    while IFS= read -r file; do
        jq -e . "$file" > /dev/null || fail "$file is not JSON"
        [ "$(basename "$(dirname "$file")")" = template ] || [ "${file##*/}" = pins.json ] ||
            [ "${file##*/}" = images.json ] ||
            [ "$(jq -r '.id // .provider' "$file")" = "$(check_data_id "$file")" ] || fail "$file: id and name differ"
    done < <(find "$presets" -name '*.json')
    jq -en --slurpfile pins "$presets/base/pins.json" '[inputs] | all(.version == $pins[0][.id].version)' \
        "$presets"/agents/*.json > /dev/null || fail "agents/ and base/pins.json name different versions"
    for file in $(jq -r '.providers[], .native_provider' "$presets"/agents/*.json); do
        [ -f "$presets/providers/$file.json" ] || fail "an agent names the provider $file, which has no file"
    done
    for file in $(jq -r .provider "$presets"/prices/*.json); do
        [ -f "$presets/providers/$file.json" ] || fail "prices/ names the provider $file, which has no file"
    done
    for file in "$presets"/providers/*.json; do
        jq -e '(.usage | keys) - .paths == [] and (.paths | map(select(startswith("POST"))) - ["POST /v1/messages/count_tokens"]) - (.usage | keys) == []' \
            "$file" > /dev/null || fail "$file: a request that costs something is not read for its spend, or one that is read may not be made"
    done
    for file in $(jq -r .image "$presets"/*/preset.json); do
        jq -e --arg n "$file" 'any(.images[]; .name == $n)' "$presets/images.json" > /dev/null ||
            fail "a preset names the image $file, which images.json does not know"
    done
    say "the data files agree with each other"
}

check_data_id() { # <file>: the id that its place gives it
    if [ "${1##*/}" = preset.json ]; then
        basename "$(dirname "$1")"
    else
        basename "$1" .json
    fi
}

check_contexts() {
    local context
    for context in $(jq -r '.images[].context' "$presets/images.json"); do
        [ -z "$(find "$presets/$context" ! -type f ! -type d)" ] ||
            fail "$context holds something that is neither a file nor a directory"
        [ -z "$(find "$presets/$context" -name node_modules -o -name .git -o -name dist)" ] ||
            fail "$context holds node_modules, dist or .git; they would become part of the image's hash"
    done
    ! grep -l '"resolved"' "$presets"/*/template/package-lock.json ||
        fail "a lock file names a registry: make it with omit-lockfile-registry-resolved=true"
    say "the build contexts are clean"
}

check_base() { # <image>
    local size
    size=$(docker image inspect -f '{{.Size}}' "$1")
    [ "$size" -le "$SIZE_MAX_BYTES" ] || fail "$1 has $size bytes, more than $SIZE_MAX_BYTES"
    home_make "$1"
    inside "$1" --network none --env "PINS=$(jq -c 'map_values(.version)' "$presets/base/pins.json")" << 'INSIDE'
want() { # <what> <found> <pattern>
    [[ $2 =~ $3 ]] || { echo "$1: found '$2', wanted $3" >&2; exit 1; }
}
pin() { jq -r --arg n "$1" '.[$n]' <<< "$PINS"; }
mkdir -p "$TMPDIR"
. /etc/os-release
want Debian "$VERSION_ID" '^13$'
want node "$(node --version)" "^v$(pin node)$"
want "Node 24" "$(node --version)" '^v24\.'
want npm "$(npm --version)" "^$(pin npm)$"
want pnpm "$(pnpm --version)" "^$(pin pnpm)$"
want Python "$(python3 --version)" '^Python 3\.13\.'
want opencode "$(opencode --version)" "^$(pin opencode)$"
want claude "$(claude --version)" "^$(pin claude-code) "
for tool in bash curl git jq pip ps python rg unzip; do
    command -v "$tool" > /dev/null || { echo "$tool is missing" >&2; exit 1; }
done
found() { find / -xdev -type f "$@" 2> /dev/null | sort | tr '\n' ' ' || true; } # not all may be read
want "large files" "$(found -size +50M)" '^/usr/local/bin/claude /usr/local/bin/node /usr/local/bin/opencode $'
want "node programs" "$(found \( -name node -o -name nodejs \) -perm /111)" '^/usr/local/bin/node $'
want "set-uid outside Debian's own" "$(find /usr/local /opt -perm /6000)" '^$'
want home "$(stat -c %u /home/sandbox) $LANG" "^$UID C.UTF-8$"
for mount in control in out init; do test -d "/run/sandboxd/$mount"; done
python3 -m venv ~/venv && ~/venv/bin/pip --version > /dev/null
git init -q ~/git && want branch "$(git -C ~/git symbolic-ref HEAD)" '/main$'
INSIDE
    say "$1: tools and pins, one copy of each, $((size / 1000000)) MB"
}

check_trust() { # <image>: every extra certificate of this host is in its bundle
    local file
    for file in "${SANDBOXD_CA_DIR:-/usr/local/share/ca-certificates}"/*.crt; do
        [ -e "$file" ] || continue
        docker run --rm -i "$1" bash -c 'cat > /tmp/c && awk "/BEGIN/{n++} {print > \"/tmp/c\" n}" /tmp/c &&
            for f in /tmp/c[0-9]*; do openssl verify -CAfile /etc/ssl/certs/ca-certificates.crt "$f"; done' \
            < "$file" > /dev/null || fail "$1 does not trust ${file##*/}"
    done
    say "$1: trusts the extra certificates of this host"
}

check_registries() { # <image>
    home_make "$1"
    inside "$1" << 'INSIDE' > /dev/null || fail "npm, pnpm or pip cannot install inside $1; the lines above say why"
mkdir -p "$TMPDIR" ~/n ~/p
cd ~/n && npm init -y && npm install picocolors && npm install -g semver && ~/.npm-global/bin/semver 1.2.3
cd ~/p && echo '{}' > package.json && pnpm add picocolors && test -e node_modules/picocolors/package.json
python3 -m venv ~/v && ~/v/bin/pip install -q six && ~/v/bin/python -c 'import six'
INSIDE
    say "$1: npm, pnpm and pip install from inside"
}

check_seed() { # <preset> <image>: a new app is live with no network at all
    home_make "$2"
    inside "$2" --network none --env "PRESET=$1" --env "LIVE_TARGET_MS=$LIVE_TARGET_MS" \
        --env "ASKED=$(jq -r '.check | join(" ")' "$presets/$1/preset.json")" << 'INSIDE'
fail() { echo "$*" >&2; cat ~/log >&2; exit 1; }
now() { echo $(($(date +%s%N) / 1000000)); }
answer() { curl -s -o /dev/null -m 10 -w '%{http_code}' "http://127.0.0.1:3000$1" || true; }
app=~/workspace/app
mkdir -p ~/workspace "$TMPDIR" && touch ~/log
start=$(now)
cp -a --no-preserve=ownership --reflink=auto "/opt/sandboxd/templates/$PRESET/" "$app"
copied=$(now)
cd "$app"
command=$(sed -n 's/^  command: //p' sandbox.yaml)
bash -c "$command" > ~/log 2>&1 &
pid=$!
until [ "$(answer /)" = 200 ]; do
    kill -0 "$pid" || fail "$PRESET: '$command' ended"
    [ $(($(now) - start)) -lt 60000 ] || fail "$PRESET: no answer within 60 s"
    sleep 0.02
done
live=$(now)
for path in $ASKED; do [ "$(answer "$path")" = 200 ] || fail "$PRESET: $path answers $(answer "$path")"; done
asked=$(now)
[ "$(curl -s -o /dev/null -w '%{http_code}' -H 'Host: s-0-3000.preview.example.com' http://127.0.0.1:3000/)" = 200 ] ||
    fail "$PRESET refuses the preview's host name"
[ "$(git rev-list --count HEAD)" = 1 ] || fail "$PRESET: not exactly one commit"
[ "$(git symbolic-ref --short HEAD)" = main ] || fail "$PRESET: not on main"
[ "$(git log -1 --format='%an <%ae>')" = 'sandboxd <sandboxd@localhost>' ] || fail "$PRESET: wrong author"
[ -z "$(git status --porcelain)" ] || fail "$PRESET: the copy is not clean: $(git status --porcelain)"
git ls-files --error-unmatch AGENTS.md README.md .gitignore sandbox.yaml > /dev/null
if [ -d node_modules/.vite ]; then
    cmp -s "/opt/sandboxd/templates/$PRESET/node_modules/.vite/deps/_metadata.json" node_modules/.vite/deps/_metadata.json ||
        fail "$PRESET: Vite bundled the dependencies again: those of the image are not valid in an app"
fi
kill "$pid"
target="target $LIVE_TARGET_MS ms met"
[ $((asked - start)) -le "$LIVE_TARGET_MS" ] ||
    target="target $LIVE_TARGET_MS ms not met, load of this machine $(cut -d' ' -f1 /proc/loadavg)"
echo "ok: $PRESET: copied in $((copied - start)) ms, answers after $((live - copied)) ms more," \
    "first page complete after $((asked - start)) ms in all ($target)"
INSIDE
}

check_clone() { # <preset> <image>: elsewhere npm alone is enough; follows check_seed
    inside "$2" --env "PRESET=$1" << 'INSIDE' > /dev/null || fail "$1: a clone does not install, build and start with npm alone"
git clone -q ~/workspace/app ~/clone && cd ~/clone && rm -rf ~/workspace
if [ -f package-lock.json ]; then npm ci; fi
if jq -e .scripts.build package.json; then npm run build; fi
test -z "$(git status --porcelain)"
npm start > ~/log 2>&1 &
for try in $(seq 1 200); do
    curl -fsS -o /dev/null http://127.0.0.1:3000/ 2> /dev/null && exit 0
    sleep 0.1
done
cat ~/log >&2
exit 1
INSIDE
    say "$1: a clone installs, builds and starts with npm alone"
}

check_data
check_contexts
base=$("$presets/build.sh" base)
check_base "$base"
check_trust "$base"
check_registries "$base"
for preset in "$presets"/*/preset.json; do
    id=$(jq -r .id "$preset")
    image=$("$presets/build.sh" "$(jq -r .image "$preset")")
    check_seed "$id" "$image"
    check_clone "$id" "$image"
done
