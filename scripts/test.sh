#!/usr/bin/env bash
# Runs all tests, and says which did not run, and why. Arguments go to cargo test (-p loadline-stack ...); without any,
# the whole workspace is tested. Exit code: that of cargo test.
#
# As root nothing may be missing: LOADLINE_REQUIRE is `all` unless it is set, so that a test fails which cannot run
# (LOADLINE_REQUIRE=all,-rings lets those go that need FUSE over io_uring). Others run what they can.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}

# Guests alone depend on what an archive holds: without a kernel from there they are listed as not run. So are ublk devices where
# the kernel was built without them: a guest has them.
if [ "$(id -u)" = 0 ]; then
    all=all
    compgen -G '/var/cache/loadline/kernels/linux-image-6.12.*/package' >/dev/null || all=all,-guest
    [ -e /dev/ublk-control ] || modprobe ublk_drv 2>/dev/null || all=$all,-ublk
    export LOADLINE_REQUIRE=${LOADLINE_REQUIRE-$all}
fi

# What only speeds up the next build costs a quarter of the time of this one, and gigabytes.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL-0}

private=$(mktemp -d)
trap 'rm -rf "$private"' EXIT
export LOADLINE_NOT_RUN=$private/not-run
: >"$LOADLINE_NOT_RUN"
log=$private/log

what=("$@")
if [ ${#what[@]} = 0 ]; then what=(--workspace); fi

# Cargo runs one test program after the other, and many wait for disks, servers and clocks. So cargo only says how each is
# started (test-later.sh), and they run beside each other: LOADLINE_TEST_JOBS at a time, three unless that is set. What
# measures, or looks at what all processes share, runs alone at the end.
alone='^(cost|harm|overwrite|daemon|page|series|stress)\.'
# The longest first, so that no long one is left at the end.
long='^(guests|killed|command|programs|sweep|ab|blockdev|betree|simulations|cluster|mounted|suites|real|sql|kv|servers|engines|redis|devices|crash|reproduce|containers|browser|process)\.'
jobs=${LOADLINE_TEST_JOBS:-3}
export LOADLINE_TEST_PLAN=$private/plan
mkdir "$LOADLINE_TEST_PLAN" "$private/out"

status=0
# Examples are not run; clippy compiles them.
kinds=() library=(-p loadline-prefetch-preload)
if [[ "${what[*]}" == --workspace ]]; then kinds=(--lib --bins --tests) library=(--workspace --lib --example job); fi
"$cargo" --config "target.'cfg(all())'.runner = '$PWD/scripts/test-later.sh'" \
    test --locked --no-fail-fast "${what[@]}" "${kinds[@]}" 2>&1 | tee "$log" || status=$?

# The library that programs load: cargo builds a library that nothing links only when it is asked to. Tests look for it
# beside themselves, so it is built with their profile; of the parts that are there already, which those that a single
# package asks for are not, so its own tests are not to build it again.
profile=() place=debug
for word in "${what[@]}"; do
    case "$word" in
    --release | -r) profile=(--release) place=release ;;
    --) break ;;
    esac
done
"$cargo" build --locked "${profile[@]}" "${library[@]}" || status=$?
target=$("$cargo" metadata --locked --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
export LOADLINE_TEST_LIBRARY=$target/$place/libloadline_prefetch.so

# Examples in the documentation are programs of their own, and cargo alone can run them.
if [ ${#kinds[@]} != 0 ]; then
    echo "exec '$cargo' test --locked --no-fail-fast ${what[*]} --doc" >"$LOADLINE_TEST_PLAN/documentation.doc"
fi

# Each program has the mounts that it makes to itself: whoever starts a container or enters a namespace while they are there
# has a copy of them, which keeps the device under them in use after they were unmounted. (`slave`: what is unmounted outside
# meanwhile is unmounted here, too, where the machine's mounts are shared.)
apart=()
if unshare --mount --propagation slave true 2>/dev/null; then apart=(unshare --mount --propagation slave); fi

# Runs one program; what it says is shown in one piece when it ends.
one() {
    local name=$1 ended=0 TIMEFORMAT='%0lR, %0U s of the processors in the program and %0S s in the kernel'
    { time "${apart[@]}" bash "$LOADLINE_TEST_PLAN/$name" >"$private/out/$name" 2>&1 </dev/null; } 2>"$private/out/$name.time" || ended=$?
    {
        echo
        echo "     Ran ${name%.*} in $(cat "$private/out/$name.time")"
        cat "$private/out/$name"
        if [ "$ended" != 0 ]; then echo "error: ${name%.*} ended with $ended"; fi
    } >"$private/out/$name.all"
    (
        flock 9
        tee -a "$log" <"$private/out/$name.all"
    ) 9>"$private/lock"
    if [ "$ended" != 0 ]; then echo "$name" >>"$private/failed"; fi
}
# What runs in the background of a script does not hear Ctrl-C.
trap 'trap "" TERM; kill -TERM 0; exit 130' INT TERM
: >"$private/failed"
planned=$(cd "$LOADLINE_TEST_PLAN" && ls)
chosen() { printf '%s\n' "$planned" | grep -E "$@" || true; }
several=$(chosen -v "$alone" | grep . || true)
for name in $(printf '%s\n' "$several" | grep -E "$long" || true) $(printf '%s\n' "$several" | grep -vE "$long" || true); do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
    one "$name" &
done
wait
for name in $(chosen "$alone"); do one "$name"; done
if [ -s "$private/failed" ] && [ "$status" = 0 ]; then status=101; fi

# What stood in the output of the test programs, in libtest's words. A part of another test that is started by it is
# marked as ignored with a reason that begins with `no test`. A test that ended for want of something has passed as far
# as libtest knows; a program without libtest (needs::run) says itself that it did not run it.
sum() { sed -n "s/^test result: .* \([0-9][0-9]*\) $1;.*/\1/p" "$log" | awk '{ n += $1 } END { print n + 0 }'; }
lines() { grep -cE "$1" "$2" || true; }
noted=$(lines . "$LOADLINE_NOT_RUN")
said=$(lines '^test .* \.\.\. ignored, not run: ' "$log")
parts=$(lines '^test .* \.\.\. ignored, no test' "$log")
ignored=$(($(sum ignored) - said - parts))
passed=$(($(sum passed) - noted + said))
failed=$(sum failed)
# A test program that died has no result, and a build that failed no test at all.
if [ "$status" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi

if [ "$noted" != 0 ] || [ "$ignored" != 0 ]; then
    echo
    echo "Not run:"
    awk -F '\t' '{ printf "test %s ... ignored, %s\n", $1, $3 }' "$LOADLINE_NOT_RUN" | sort
    grep -E '^test .* \.\.\. ignored' "$log" | grep -vE '\.\.\. ignored, (not run: |no test)' || true
    echo
    echo "Why:"
    awk -F '\t' '{ n[$3]++ } END { for (why in n) printf "%6d  %s\n", n[why], why }' "$LOADLINE_NOT_RUN" | sort -rn
    if [ "$ignored" != 0 ]; then printf '%6d  marked as ignored in the source\n' "$ignored"; fi
fi
# What failed stands far above, among what did not.
while read -r name; do
    echo
    echo "The end of what ${name%.*} said, which failed:"
    tail -n 60 "$private/out/$name"
done <"$private/failed"
echo
echo "$passed passed, $failed failed, $((noted + ignored)) skipped"
exit "$status"
