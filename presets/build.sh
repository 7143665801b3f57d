#!/bin/bash
# Builds the sandbox images by hand, with the tags and contexts that sandboxd-engine uses
# (README.md says how they are made): build.sh [--tag-only] [image...], all by default.
# Prints one tag a line. Build output goes to standard error.
set -euo pipefail
export LC_ALL=C

presets=$(dirname "$(readlink -f "$0")")
ca_dir=${SANDBOXD_CA_DIR:-/usr/local/share/ca-certificates}
config_dir=${SANDBOXD_BUILD_CONFIG_DIR:-}
tag_only=no
contexts=$(mktemp -d)
trap 'rm -rf "$contexts"' EXIT

fail() {
    echo "build.sh: $*" >&2
    exit 1
}

image_get() { # <image> <key>: empty when unknown
    jq -r --arg n "$1" --arg k "$2" '.images[] | select(.name == $n) | .[$k] // ""' "$presets/images.json"
}

stage_files() { # <source> <target> <find expression...>: regular files, modes 644 or 755
    local source=$1 target=$2 path mode
    shift 2
    while IFS= read -r -d '' path; do
        mode=644
        [ -z "$(find "$source/$path" -perm -100)" ] || mode=755
        install -D -m "$mode" "$source/$path" "$target/$path"
    done < <(cd "$source" && find . -type f "$@" -printf '%P\0')
}

stage_context() { # <image>: prints the directory
    local dir=$contexts/$1
    if [ ! -d "$dir" ]; then
        stage_files "$presets/$(image_get "$1" context)" "$dir"
        if [ -z "$(image_get "$1" from)" ] && [ -d "$ca_dir" ]; then
            stage_files "$ca_dir" "$dir/ca" -name '*.crt'
        fi
        if [ -n "$config_dir" ]; then
            stage_files "$config_dir" "$dir/build-config"
        fi
    fi
    echo "$dir"
}

image_hash() { # <image>: the first 12 hex digits
    local parent dir
    parent=$(image_get "$1" from)
    [ -z "$parent" ] || parent=$(image_hash "$parent")
    dir=$(stage_context "$1")
    {
        printf '%s' "$parent"
        cd "$dir"
        find . -type f -printf '%P\0' | sort -z | while IFS= read -r -d '' path; do
            printf '%s\0%s\0%s\0' "$path" "$(stat -c %a "$path")" "$(stat -c %s "$path")"
            cat "$path"
        done
    } | sha256sum | cut -c1-12
}

image_tag() {
    echo "sandboxd-$1:$(image_hash "$1")"
}

stages_remove() { # <tag>: what the first stages of its build left behind
    docker image prune -f --filter "label=sandboxd.stage=$1" >&2 || true
}

image_build() { # <image>: and its parents
    local parent tag args
    tag=$(image_tag "$1")
    parent=$(image_get "$1" from)
    args=(--build-arg "STAGE=$tag")
    if [ -n "$parent" ]; then
        [ "$tag_only" = yes ] || image_build "$parent" > /dev/null
        args+=(--build-arg "BASE=$(image_tag "$parent")")
    fi
    if [ "$tag_only" = no ] && ! docker image inspect "$tag" > /dev/null 2>&1; then
        DOCKER_BUILDKIT=0 docker build --force-rm -t "$tag" "${args[@]}" "$(stage_context "$1")" >&2 ||
            fail "the image $1 could not be built; the lines above say why"
        stages_remove "$tag"
    fi
    echo "$tag"
}

if [ "${1:-}" = --tag-only ]; then
    tag_only=yes
    shift
fi
if [ $# -eq 0 ]; then
    mapfile -t images < <(jq -r '.images[].name' "$presets/images.json")
    set -- "${images[@]}"
fi
for image in "$@"; do
    [ -n "$(image_get "$image" context)" ] || fail "images.json knows no image $image"
    image_build "$image"
done
