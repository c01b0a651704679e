#!/bin/bash
# Runs public test suites and crash tests on betrfs: each on a fresh image, with fsck and a look at the daemon's
# memory after it. Needs root, FUSE, and for each suite what the table in docs/betrfs.md says.
#
#   systems/betrfs/suites/run.sh [SUITE...]       all of: see `suites` below
#
# Environment (defaults): BETRFS_WORK (a new directory under /tmp) place for images, needs 20 GB; CACHE_MIB (256);
# PJDFSTEST, FSX (the programs of these names); LINUX_SOURCE (linux-source-*.tar.xz below /usr/src);
# FSX_OPS (1000000); STRESS_SECONDS (600); SEED (20261120); BETRFS_BIN, directory of the examples `betrfs` and `load`
# (they are built); BETRFS_OPTIONS, mount options beside the cache, such as transport=uring; XFSTESTS, a directory with a
# built xfstests; XFSTESTS_TESTS (all of generic/quick), such as "generic/001 generic/426"; XFSTESTS_SECONDS (120) for each
# test; XFSTESTS_PART (40), tests of one part; BETRFS_SUITES_PREFIX, a command that starts each part of xfstests.
set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
suites=(pjdfstest fsx stress dbench chaos linux git sqlite rocksdb kill9 scatter9 full many xfstests)

work=${BETRFS_WORK:-$(mktemp -d /tmp/betrfs-suites.XXXXXX)}
mkdir -p "$work"
# Some tests act as other users.
[ -n "${BETRFS_WORK:-}" ] || chmod 755 "$work"
work=$(cd "$work" && pwd)
cache_mib=${CACHE_MIB:-256}
seed=${SEED:-20261120}
image=$work/image
mnt=$work/mnt
bin=${BETRFS_BIN:-}
if [ -z "$bin" ]; then
    (cd "$top" && cargo build --release -p loadline-betrfs --example betrfs --example load) || exit 1
    bin=$top/target/release/examples
fi
# Copies: a build in the meantime must not change what is tested.
cp "$bin/betrfs" "$bin/load" "$work/" || exit 1
betrfs=$work/betrfs
load=$work/load
daemon=
memory=0
mkdir -p "$mnt"
# shellcheck source=lib.sh
. "$here/lib.sh"
# shellcheck source=suites.sh
. "$here/suites.sh"
# shellcheck source=xfstests.sh
. "$here/xfstests.sh"

finish() {
    mountpoint -q "$mnt" && umount -l "$mnt"
    [ -n "$daemon" ] && kill "$daemon" 2>/dev/null
    rm -f "$image"
    xfstests_leave
}
trap finish EXIT

results=$work/results
: >"$results"
failed=0
for suite in "${@:-${suites[@]}}"; do
    be_quiet
    rm -f "$work"/memory.* "$work/daemon.log" "$image"
    start=$SECONDS
    : >"$work/$suite.log"
    figures=
    verdict=passed
    mapfile -t lacking < <(missing "$suite")
    # What did not run has not passed.
    if [ ${#lacking[@]} != 0 ]; then
        failed=1
        printf '%-10s %-16s missing: %s\n' "$suite" "NOT RUN" "${lacking[*]}" | tee -a "$results"
        continue
    fi
    "suite_$suite" >>"$work/$suite.log" 2>&1 || verdict=FAILED
    if mountpoint -q "$mnt"; then
        unmount_betrfs >>"$work/$suite.log" 2>&1 || { verdict=FAILED; umount -l "$mnt"; }
    fi
    if [ -s "$image" ]; then
        fsck_betrfs >>"$work/$suite.log" 2>&1 || verdict="FAILED (fsck)"
    fi
    judge_memory >>"$work/$suite.log" 2>&1 || verdict="FAILED (memory)"
    [ "$verdict" = passed ] || { failed=1; cp --sparse=always "$image" "$work/$suite.image" 2>/dev/null; }
    printf '%-10s %-16s %6d s  %4d MiB  %s\n' \
        "$suite" "$verdict" $((SECONDS - start)) "$memory" "$figures" | tee -a "$results"
    [ "$verdict" = passed ] || tail -n 15 "$work/$suite.log"
done
echo
echo "suite      verdict            time     daemon  figures        (logs: $work)"
cat "$results"
exit $failed
