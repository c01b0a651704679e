#!/usr/bin/env bash
# Cargo starts this instead of each test program (test.sh asks it to): it notes how the program would have been started, in
# LOADLINE_TEST_PLAN, for test.sh to start it later beside others. Examples in documentation are run at once.
set -euo pipefail
case "$1" in
*/deps/*) ;;
*) exec "$@" ;;
esac
name=$(basename "$1")
{
    printf 'cd %q || exit 101\n' "$PWD"
    # what cargo tells a test program
    export -p | grep -E '^declare -x (CARGO|LD_LIBRARY_PATH|DYLD_)' || true
    printf 'exec'
    printf ' %q' "$@"
    printf '\n'
} >"$LOADLINE_TEST_PLAN/${name%-*}.$(printf '%s' "$1" | cksum | cut -d' ' -f1)"
