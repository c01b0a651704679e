#!/usr/bin/env bash
# Fuzzes what reads from outside: `run.sh [TARGET...]`, without any all of them, one after the other. A line for each says how
# many inputs were run, how many of them went a new way, and whether one failed. Exit code 1 if one did.
#
#   LOADLINE_FUZZ_SECONDS   seconds of each target, 60 unless set
#
# It needs a nightly toolchain by the name `nightly` (rustup), and installs cargo-fuzz where that is missing. What was found stays in
# `fuzz/corpus` and `fuzz/artifacts`; an input that failed goes, under a name that says what it did, to `fuzz/corpus_seeds/TARGET`, which
# `cargo test` runs too.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${LOADLINE_FUZZ_SECONDS:-60}
# As in entries/seeds.rs: no input is worth more memory in one piece.
allocation_mb=512
memory_mb=4096
# An input that takes longer hangs: the slowest ones take some tenths of a second.
input_seconds=25

if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "fuzz: there is no nightly toolchain; type: rustup toolchain install nightly --profile minimal" >&2
    exit 3
fi
cargo +nightly fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
# The same versions of other packages as in the program; cargo adds what only the fuzzer needs.
[ Cargo.lock -nt ../Cargo.lock ] || cp ../Cargo.lock .
if [ $# = 0 ]; then
    # shellcheck disable=SC2046
    set -- $(cargo +nightly fuzz list --fuzz-dir .)
    cargo +nightly fuzz build --fuzz-dir .
else
    for target in "$@"; do cargo +nightly fuzz build --fuzz-dir . "$target"; done
fi
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
built=${CARGO_TARGET_DIR:-target}/$host/release
export ASAN_OPTIONS=detect_odr_violation=0

failed=0
printf '%-18s %12s %10s %8s\n' target executions 'new paths' crashes
for target in "$@"; do
    mkdir -p "corpus/$target" "artifacts/$target" "corpus_seeds/$target"
    log=artifacts/$target.log
    crashes=0
    "$built/$target" "corpus/$target" "corpus_seeds/$target" -max_total_time="$seconds" -timeout="$input_seconds" \
        -malloc_limit_mb="$allocation_mb" -rss_limit_mb="$memory_mb" -artifact_prefix="artifacts/$target/" \
        -print_final_stats=1 >"$log" 2>&1 || crashes=1
    of() { sed -n "s/^stat::$1: *//p" "$log" | tail -1; }
    executions=$(of number_of_executed_units)
    paths=$(of new_units_added)
    printf '%-18s %12s %10s %8s\n' "$target" "${executions:-?}" "${paths:-?}" "$crashes"
    if [ "$crashes" != 0 ]; then
        failed=1
        grep -E -A1 'panicked at|ERROR: |SUMMARY: ' "$log" | head -8 || true
        sed -n 's/.*Test unit written to /    input: fuzz\//p' "$log"
    fi
done
exit "$failed"
