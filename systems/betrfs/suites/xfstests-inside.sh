#!/bin/bash
# Runs the tests named in the file $2 in the copy of xfstests $1. Started by xfstests.sh in name spaces of its own, with its
# environment: all that is mounted or started here goes with this process.
set -u

# A /tmp of our own, by its name: tests filter that out of what they say. What we need of the other stays where it is.
unset TMPDIR
if [[ $WORK == /tmp/* ]]; then
    mkdir -p "$OWN_TMP/${WORK#/tmp/}" && mount --bind "$WORK" "$OWN_TMP/${WORK#/tmp/}" || exit 1
fi
chmod 1777 "$OWN_TMP" && mount --rbind "$OWN_TMP" /tmp && cd "$1" || exit 1

# mount(8) looks for its helpers in /sbin only. Ours lies over those that are there, for us alone.
for helper in /sbin/mount.fuse.betrfs /sbin/mount.fuse; do
    [ -e "$helper" ] || continue
    mount --bind "$BETRFS_PRIVATE/xfstests-mount.sh" "$(readlink -f "$helper")" || exit 1
done

# All processes below $1, itself left out.
below() {
    local child
    for child in $(ps -o pid= --ppid "$1"); do
        echo "$child"
        below "$child"
    done
}

# Ends the test $2, whose process is $1: what it started first, so that it can tidy up.
end_test() {
    local i
    echo "${2#"$PWD/tests/"}" >>"$LATE"
    # shellcheck disable=SC2046
    kill -9 $(below "$1") 2>/dev/null
    kill -TERM "$1"
    for ((i = 0; i < 20; i++)); do
        kill -0 "$1" 2>/dev/null || return
        sleep 1
    done
    # shellcheck disable=SC2046
    kill -9 $(below "$1") "$1" 2>/dev/null
}

# Seconds that no test has run: to a process that has begun this very moment `ps` may give some 2^32, as its clock is behind.
NO_TIME=1000000000

# Each second: ends the test that has had its time, and notes the greatest memory of a daemon, all and anonymous, in KiB.
watch_tests() {
    local pid seconds name argument key value all anon most=0
    while sleep 1; do
        while read -r pid seconds name argument _; do
            if [[ $argument == "$PWD/tests/"* ]] && ((seconds > LATE_SECONDS && seconds < NO_TIME)); then
                end_test "$pid" "$argument"
                break
            fi
            [ "$name" = "$BETRFS_PROGRAM" ] || continue
            all=0 anon=0
            while read -r key value _; do
                case $key in
                VmHWM:) all=$value ;;
                RssAnon:) anon=$value ;;
                esac
            done 2>/dev/null <"/proc/$pid/status"
            if ((all > most)); then
                most=$all
                echo "$all $anon" >"$MEMORY"
            fi
        done < <(ps -eo pid=,etimes=,args=)
    done
}
watch_tests &

# shellcheck disable=SC2046
./check -fuse $(cat "$2")
code=$?
for dir in "$TEST_DIR" "$SCRATCH_MNT"; do
    for ((i = 0; i < 20; i++)); do
        mountpoint -q "$dir" || break
        umount "$dir" 2>/dev/null || sleep 0.5
    done
done
# A check waits until the daemons have given the devices free.
"$BETRFS_PROGRAM" fsck "$TEST_DEV" && "$BETRFS_PROGRAM" fsck "$SCRATCH_DEV"
exit $code
