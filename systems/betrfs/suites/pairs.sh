#!/bin/bash
# Times two builds of `examples/betrfs` in turns, on images in memory, so that a change of speed is seen beside the noise.
# Needs root, FUSE, fio and dbench.
#
#   systems/betrfs/suites/pairs.sh OLD NEW [ROUNDS]     two directories with the example `betrfs`; 10 rounds
#
# Prints, for each load and measure, the median of each build, the median of the rounds' ratios NEW / OLD and their lowest and
# highest. BETRFS_OPTIONS: further mount options. BETRFS_WORK: a directory on a tmpfs, a new one in /dev/shm unless set.
set -eu
if [ $# -lt 2 ]; then
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
rounds=${3:-10}
work=${BETRFS_WORK:-$(mktemp -d /dev/shm/betrfs-pairs.XXXXXX)}
mkdir -p "$work/mnt"
daemon=
finish() {
    if mountpoint -q "$work/mnt"; then umount -l "$work/mnt"; fi
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

# LOAD BUILD ROUND: one load on a new file system; a line `LOAD BUILD OPERATIONS_PER_SECOND DAEMON_CPU_SECONDS`.
measure() {
    local load=$1 build=$2 betrfs=$3 value before ticks
    rm -f "$work/image"
    "$betrfs/betrfs" mkfs "$work/image" $((3 << 30)) >/dev/null
    "$betrfs/betrfs" mount "$work/image" "$work/mnt" "cache=256M${BETRFS_OPTIONS:+,$BETRFS_OPTIONS}" >"$work/log" 2>&1 &
    daemon=$!
    until mountpoint -q "$work/mnt"; do kill -0 "$daemon" && sleep 0.02; done
    before=$(date +%s%N)
    case $load in
    # Runs a minute. (fio's filecreate spends its time in fio.)
    tree)
        cp -r /usr/include "$work/mnt/tree" && sync -f "$work/mnt" && rm -r "$work/mnt/tree" && sync -f "$work/mnt"
        value=$((60000000000 / ($(date +%s%N) - before)))
        ;;
    dbench) value=$(dbench -D "$work/mnt" -t 5 4 | sed -n 's/^Throughput \([0-9.]*\).*/\1/p') ;;
    *)
        local words=(--name=load --directory="$work/mnt" --output-format=terse --terse-version=3)
        case $load in
        write) words+=(--rw=write --bs=1m --size=1g --end_fsync=1) ;;
        read) words+=(--rw=read --bs=1m --size=1g --pre_read=0 --invalidate=1) ;;
        randwrite) words+=(--rw=randwrite --bs=4k --size=256m --end_fsync=1) ;;
        fsync) words+=(--rw=write --bs=4k --size=16m --fsync=1 --numjobs=4 --group_reporting) ;;
        esac
        fio "${words[@]}" >"$work/fio" 2>&1 || { cat "$work/fio" >&2; exit 1; }
        value=$(awk -F ';' '$1 == 3 { print $8 + $49 }' "$work/fio")
        ;;
    esac
    # User and kernel ticks of the daemon, a hundredth of a second each.
    ticks=$(awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$daemon/stat")
    umount "$work/mnt"
    wait "$daemon"
    daemon=
    echo "$load $build $value $ticks" >>"$work/results"
}

for ((round = 0; round < rounds; round++)); do
    for load in write read randwrite fsync tree dbench; do
        # Who is first changes from round to round.
        if ((round % 2)); then builds=(new old); else builds=(old new); fi
        for build in "${builds[@]}"; do
            if [ "$build" = old ]; then measure "$load" old "$1"; else measure "$load" new "$2"; fi
        done
    done
    echo "round $((round + 1)) of $rounds" >&2
done
python3 - "$work/results" <<'PY'
import statistics
import sys

rows = [line.split() for line in open(sys.argv[1])]
print("| load | rate, old | rate, new | ratio (lowest, highest) | CPU of the daemon, ratio (lowest, highest) |")
print("|---|---|---|---|---|")
for load in dict.fromkeys(row[0] for row in rows):
    of = lambda build, at: [float(row[at]) for row in rows if row[:2] == [load, build]]
    ratios = lambda at: [new / old for old, new in zip(of("old", at), of("new", at)) if old]
    shown = lambda values: f"{statistics.median(values):.3f} ({min(values):.2f}, {max(values):.2f})" if values else "-"
    print(f"| {load} | {statistics.median(of('old', 2)):.0f} | {statistics.median(of('new', 2)):.0f} | {shown(ratios(2))} | {shown(ratios(3))} |")
PY
