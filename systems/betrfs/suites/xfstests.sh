# xfstests' generic tests on betrfs, compared with what is expected of each (xfstests.expected).
# shellcheck shell=bash disable=SC2034,SC2154
#
# The tests run on two loop devices with images of our own, in a copy of xfstests, in name spaces of their own for mounts
# and processes: whatever a test leaves goes with them. Nothing of the machine is changed, but that each test's name is
# written to the kernel's log.

# What this was tried with; others may have other tests.
xfstests_commit=63a29724a85f1999e49bf0a9bf0d22643b6116e5
# Tests of one part: after each, what was left is taken away, and others may have the machine.
xfstests_part=${XFSTESTS_PART:-40}
# The process of the part that runs.
inside=
# Size of the two images in MiB: the tests' own list of what needs more is short.
xfstests_mib=4096

xfstests_how() {
    cat <<HOW
xfstests: XFSTESTS must be a directory with a built xfstests. On Debian, as root:
    apt-get install acl attr automake bc dump e2fsprogs fio fuse3 gawk gcc git indent libacl1-dev libaio-dev libattr1-dev \\
        libcap-dev libgdbm-dev libtool-bin liburing-dev lvm2 make perl pkg-config psmisc python3 quota uuid-dev \\
        uuid-runtime xfslibs-dev xfsprogs
    for user in fsgqa fsgqa2 123456-fsgqa; do useradd --badname -m \$user; done
    git clone https://github.com/kdave/xfstests && git -C xfstests checkout $xfstests_commit && make -C xfstests
    XFSTESTS=\$PWD/xfstests systems/betrfs/suites/run.sh xfstests
HOW
}

# What the suite needs and is not there, a line each; how to get it goes to the terminal.
xfstests_missing() {
    local program user list=() from=${XFSTESTS:-}
    [ -n "$from" ] && [ -x "$from/check" ] && [ -x "$from/ltp/fsstress" ] && [ -s "$from/tests/generic/group.list" ] ||
        list+=("XFSTESTS=(a built xfstests)")
    for program in xfs_io losetup unshare mount.fuse ps gawk perl setfattr; do
        command -v "$program" >/dev/null || list+=("$program")
    done
    for user in fsgqa fsgqa2 123456-fsgqa; do
        getent passwd "$user" >/dev/null || list+=("user:$user")
    done
    [ ${#list[@]} = 0 ] && return
    printf '%s\n' "${list[@]}"
    xfstests_how >&2
}

# The tests to run, a line each: those named, or the quick ones that are not left out.
xfstests_list() {
    if [ -n "${XFSTESTS_TESTS:-}" ]; then
        tr -s ' ,' '\n\n' <<<"$XFSTESTS_TESTS"
    else
        awk '/^[0-9]/ { for (i = 2; i <= NF; i++) if ($i == "quick") print "generic/" $1 }' \
            "$1/tests/generic/group.list" | grep -vxFf <(awk '$2 == "left-out" { print $1 }' "$here/xfstests.expected")
    fi
}

# What each test of the list $1 did in a part, a line each: `TEST passed|failed|not-run|lost WHY`. $2: what `check` said;
# $3: its results; $4: tests that took too long.
xfstests_found() {
    local test ran failed not_run
    ran=" $(sed -n 's/^Ran: //p' "$2" | tail -n 1) "
    not_run=" $(sed -n 's/^Not run: //p' "$2" | tail -n 1) "
    failed=" $(sed -n 's/^Failures: //p' "$2" | tail -n 1) "
    while read -r test; do
        if grep -qxF "$test" "$4"; then
            echo "$test failed took too long"
        elif [[ $failed == *" $test "* ]]; then
            echo "$test failed"
        elif [[ $not_run == *" $test "* ]]; then
            echo "$test not-run $(head -n 1 "$3/$test.notrun")"
        elif [[ $ran == *" $test "* ]]; then
            echo "$test passed"
        else
            echo "$test lost it was not run to its end"
        fi
    done <"$1"
}

# Compares found ($2) with expected ($1): a line for each test that did something else. $3 = whole: what is expected of a
# test that is not there differs as well. What is not in the list must pass; what is left out may do anything.
xfstests_differ() {
    awk -v whole="${3:-}" '
        { why = $0; sub(/^[^ ]+ +[^ ]+ */, "", why) }
        FNR == NR && /^[^#]/ { want[$1] = $2; because[$1] = why; next }
        FNR == NR { next }
        {
            seen[$1] = 1
            wanted = $1 in want ? want[$1] : "passed"
            if (wanted == "left-out" || wanted == $2) next
            print $1 ": " $2 (why == "" ? "" : " (" why ")") ", expected: " wanted \
                (because[$1] == "" ? "" : " (" because[$1] ")")
        }
        END {
            if (whole == "whole")
                for (t in want) if (!(t in seen) && want[t] != "left-out") print t ": not in the list of tests, expected: " want[t]
        }' "$1" "$2" | sort
}

# A loop device on the new image $1, made as a betrfs.
xfstests_device() {
    "$betrfs" mkfs "$1" $((xfstests_mib << 20)) >/dev/null && losetup --find --show "$1"
}

# Ends what is running, and takes away the loop devices whose files are below our directory, and no others.
xfstests_leave() {
    local device file
    if [ -n "$inside" ]; then
        # Its name space goes with it.
        kill -9 "$inside" 2>/dev/null
        wait "$inside" 2>/dev/null
        inside=
    fi
    while read -r device file; do
        [[ $file == "$work/xfstests/"* ]] && losetup -d "$device"
    done < <(losetup -l -n -O NAME,BACK-FILE)
    return 0
}

suite_xfstests() {
    local dir=$work/xfstests test scratch part=0 bad=0 whole=whole
    [ -z "${XFSTESTS_TESTS:-}" ] || whole=
    xfstests_leave
    rm -rf "$dir"
    mkdir -p "$dir"/{test,scratch,tmp,results} || return 1
    : >"$dir/found" && : >"$dir/late"
    cp -a "$XFSTESTS" "$dir/copy" || return 1
    rm -f "$dir/copy/local.config"
    # Where the parts find them, whatever lies over /tmp there.
    cp "$here"/xfstests-*.sh "$dir/" || return 1
    # Our functions in place of those that do not know a betrfs.
    echo ". '$dir/xfstests-rc.sh'" >>"$dir/copy/common/rc"
    test=$(xfstests_device "$dir/test.img") && scratch=$(xfstests_device "$dir/scratch.img") || return 1
    xfstests_list "$dir/copy" >"$dir/list"
    split -d -l $xfstests_part "$dir/list" "$dir/part."
    for part in "$dir"/part.*; do
        be_quiet
        # The cache stays small: two daemons run at once.
        WORK=$work OWN_TMP=$dir/tmp RESULT_BASE=$dir/results BETRFS_PROGRAM=$betrfs BETRFS_PRIVATE=$dir BETRFS_MIB=$xfstests_mib \
            LATE=$dir/late LATE_SECONDS=${XFSTESTS_SECONDS:-120} MEMORY=$work/memory.${part##*.} \
            FSTYP=fuse FUSE_SUBTYP=.betrfs TEST_DEV=$test TEST_DIR=$dir/test SCRATCH_DEV=$scratch SCRATCH_MNT=$dir/scratch \
            MOUNT_OPTIONS="-ocache=${cache_mib}M${BETRFS_OPTIONS:+,$BETRFS_OPTIONS}" \
            TEST_FS_MOUNT_OPTS="-ocache=${cache_mib}M${BETRFS_OPTIONS:+,$BETRFS_OPTIONS}" \
            ${BETRFS_SUITES_PREFIX:-} nice -n 5 unshare --mount --pid --fork --kill-child --mount-proc \
            bash "$dir/xfstests-inside.sh" "$dir/copy" "$part" </dev/null >"$dir/said" 2>&1 &
        inside=$!
        wait "$inside"
        inside=
        cat "$dir/said"
        xfstests_found "$part" "$dir/said" "$dir/results" "$dir/late" >>"$dir/found"
    done
    for part in "$dir/test.img" "$dir/scratch.img"; do
        "$betrfs" fsck "$part" >/dev/null || { echo "$part: not clean"; bad=1; }
    done
    xfstests_leave
    xfstests_differ "$here/xfstests.expected" "$dir/found" $whole >"$dir/differ"
    figures="$(grep -c . "$dir/found") tests: $(grep -c '^[^ ]* passed' "$dir/found") passed"
    figures="$figures, $(grep -c '^[^ ]* failed' "$dir/found") failed, $(grep -c '^[^ ]* not-run' "$dir/found") not run"
    figures="$figures, $(grep -c . "$dir/differ") other than expected"
    cat "$dir/differ"
    [ ! -s "$dir/differ" ] && [ -s "$dir/found" ] && [ $bad = 0 ] || return 1
    rm -rf "$dir"/{copy,tmp,test.img,scratch.img}
}
