#!/bin/bash
# Reads the release programs and fails on one that lost a protection on the way through the linker:
# position independent, read-only relocations, all symbols bound at start, no executable stack; and
# sandboxd-init must need no loader, because a sandbox's image may have none.
#
#   scripts/check-hardening.sh PROGRAM...
set -euo pipefail
here=$(dirname "$(realpath "$0")")
# shellcheck source=scripts/common.sh
. "$here/common.sh"

failed=0
want() { # program, what, pattern, text
    grep -Eq "$3" <<<"$4" && return
    say "$1: $2 is missing"
    failed=1
}

for program in "$@"; do
    facts=$(readelf --wide --file-header --program-headers --dynamic "$program")
    want "$program" "position independence (PIE)" 'Type: +DYN' "$facts"
    want "$program" "RELRO" 'GNU_RELRO' "$facts"
    want "$program" "BIND_NOW" '\(FLAGS.*NOW' "$facts"
    want "$program" "a stack that cannot be executed" 'GNU_STACK.* RW +0x' "$facts"
    if [ "${program##*/}" = sandboxd-init ] && grep -q 'INTERP' <<<"$facts"; then
        say "$program: it needs a loader; it must be static"
        failed=1
    fi
done
exit "$failed"
