# Read at the end of common/rc of our copy of xfstests: what its functions do where the file system is a betrfs.
# shellcheck shell=bash disable=SC2154

# Makes a betrfs of $2 bytes on the device $1. Only on loop devices with files of our own.
betrfs_make() {
    local file
    file=$(losetup -n -O BACK-FILE "$1") && [[ $file == "$BETRFS_PRIVATE/"* ]] || {
        echo "$1 is not ours"
        return 1
    }
    if [ -n "${2:-}" ]; then
        truncate -s "$2" "$file" && losetup -c "$1" || return 1
    fi
    "$BETRFS_PROGRAM" mkfs "$1" >/dev/null
}

# Unmounts $1. A betrfs that a test made in a file on it may be unmounted already and its daemon not done: it writes to that
# file as long.
betrfs_unmount() {
    local i
    for ((i = 0; i < 60; i++)); do
        $UMOUNT_PROG "$1" 2>/dev/null && return
        sleep 0.5
    done
    $UMOUNT_PROG "$1"
}

# Checks the betrfs on $1, which is unmounted for it from $2 and mounted again with $3.
betrfs_check() {
    local mounted= good=0
    if mountpoint -q "$2"; then
        mounted=yes
        betrfs_unmount "$2"
    fi
    # shellcheck disable=SC2154
    timeout 200 "$BETRFS_PROGRAM" fsck "$1" >"$tmp.fsck" 2>&1 || {
        good=1
        cat "$tmp.fsck" >>"$seqres.full"
        echo "fsck: $1 is not clean (see $seqres.full)"
    }
    [ -z "$mounted" ] || "$3"
    return $good
}

_try_mkfs_dev() { betrfs_make "$@"; }

_scratch_mkfs() {
    _scratch_unmount 2>/dev/null
    betrfs_make "$SCRATCH_DEV" $((BETRFS_MIB << 20))
}

_try_scratch_mkfs_sized() {
    _scratch_unmount 2>/dev/null
    betrfs_make "$SCRATCH_DEV" "$1"
}

_check_test_fs() { betrfs_check "$TEST_DEV" "$TEST_DIR" _test_mount; }

_check_dev_fs() {
    # After a test nobody wants it mounted.
    if [ "${iam:-}" = check ]; then
        betrfs_check "$1" "$SCRATCH_MNT" true
    else
        betrfs_check "$1" "$SCRATCH_MNT" _scratch_mount
    fi
}

_fs_type() {
    [ $# = 1 ] || return 1
    _df_device "$1" | awk '{ print $2 }' | sed 's/^fuse\.betrfs$/fuse/'
}

# Times are 64 bits of seconds.
_filesystem_timestamp_range() { echo "$((1 << 63)) $(((1 << 63) - 1))"; }

# Names are bytes.
_require_names_are_bytes() { true; }
