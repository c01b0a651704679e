# Shared by the suites: a fresh betrfs on an image file, mounted, watched, unmounted, checked.
# shellcheck shell=bash

# Makes a file system of $1 MiB and mounts it at $mnt; $2 are further mount options.
fresh() {
    "$betrfs" mkfs "$image" $(($1 << 20)) >"$work/mkfs.log"
    mount_betrfs "${2:-}"
}

mount_betrfs() {
    local options="cache=${cache_mib}M${BETRFS_OPTIONS:+,$BETRFS_OPTIONS}${1:+,$1}"
    nice -n 5 "$betrfs" mount "$image" "$mnt" "$options" >>"$work/daemon.log" 2>&1 &
    daemon=$!
    local i
    for ((i = 0; i < 1200; i++)); do
        if mountpoint -q "$mnt"; then
            watch_memory &
            return 0
        fi
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.05
    done
    echo "the mount did not come up: $(tail -n 1 "$work/daemon.log")"
    return 1
}

# The greatest resident memory of the daemon, anonymous and all, in KiB, goes to $work/memory as it grows.
watch_memory() {
    local pid=$daemon key value all=0 anon=0
    while [ -r "/proc/$pid/status" ]; do
        while read -r key value _; do
            case $key in
            VmHWM:) all=$value ;;
            RssAnon:) if ((value > anon)); then anon=$value; fi ;;
            esac
        done <"/proc/$pid/status" 2>/dev/null
        echo "$all $anon" >"$work/memory.$pid"
        sleep 0.5
    done
}

unmount_betrfs() {
    local i
    for ((i = 0; i < 100; i++)); do
        umount "$mnt" 2>"$work/umount.log" && break
        sleep 0.1
    done
    if mountpoint -q "$mnt"; then
        echo "cannot unmount: $(cat "$work/umount.log")"
        return 1
    fi
    wait "$daemon" || { echo "the daemon ended with $?: $(tail -n 1 "$work/daemon.log")"; return 1; }
}

# kill -9 of the daemon, as it is; the dead mount is taken away.
kill_daemon() {
    kill -9 "$daemon"
    wait "$daemon" 2>/dev/null
    umount -l "$mnt"
}

# A clean bill from fsck, or the suite has failed.
fsck_betrfs() {
    nice -n 5 "$betrfs" fsck "$image" >"$work/fsck.log" 2>&1 || { echo "fsck: $(tail -n 5 "$work/fsck.log")"; return 1; }
}

# Unmounts, checks, mounts again.
remount_betrfs() {
    unmount_betrfs && fsck_betrfs && mount_betrfs "${1:-}"
}

# The greatest memory of all daemons of a suite, in MiB; fails above the budget plus 256 MiB.
judge_memory() {
    local file all anon most=0
    for file in "$work"/memory.*; do
        read -r all anon <"$file" || continue
        if ((all > most)); then most=$all; fi
    done
    memory=$((most >> 10))
    ((memory <= cache_mib + 256)) || { echo "$memory MiB resident, allowed are $cache_mib + 256"; return 1; }
}

# Waits while somebody measures on this machine.
be_quiet() {
    while [ -e "${BETRFS_SUITES_QUIET:-/nonexistent}" ]; do sleep 2; done
}
