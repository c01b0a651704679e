# One function for each suite: fresh file system, load, verdict by return code, figures in $figures.
# shellcheck shell=bash disable=SC2034,SC2154

be_nice() { nice -n 10 "$@"; }

linux_source() { echo "${LINUX_SOURCE:-$(find /usr/src -maxdepth 1 -name 'linux-source-*.tar.xz' | sort | tail -n 1)}"; }

# Programs and files that suite $1 needs and that are not there, a line each.
missing() {
    local programs=() program
    case $1 in
    pjdfstest) programs=("${PJDFSTEST:-pjdfstest}" mount.fuse unshare) ;;
    fsx) programs=("${FSX:-fsx}") ;;
    stress) programs=(stress-ng) ;;
    dbench) programs=(dbench) ;;
    linux)
        programs=(tar xz make gcc flex bison bc)
        [ -r "$(linux_source)" ] || echo "/usr/src/linux-source-*.tar.xz"
        ;;
    scatter9) programs=(python3) ;;
    git) programs=(git) ;;
    sqlite) programs=(sqlite3) ;;
    rocksdb) programs=(db_bench ldb) ;;
    xfstests) xfstests_missing ;;
    esac
    for program in "${programs[@]}"; do
        command -v "$program" >/dev/null || echo "$program"
    done
}

# Runs a command where mount(8) finds our helper, for remounts. It looks in /sbin only: ours lies over those that are there,
# in a name space of its own.
with_helper() {
    cp "$here/xfstests-mount.sh" "$work/" || return 1
    # shellcheck disable=SC2016
    BETRFS_PROGRAM=$betrfs unshare --mount bash -c '
        for helper in /sbin/mount.fuse.betrfs /sbin/mount.fuse; do
            [ -e "$helper" ] || continue
            mount --bind "$0" "$(readlink -f "$helper")" || exit 1
        done
        exec "$@"' "$work/xfstests-mount.sh" "$@"
}

suite_pjdfstest() {
    local program=${PJDFSTEST:-pjdfstest} config=$work/pjdfstest.toml out=$work/pjdfstest.out second=$work/second
    getent passwd tests >/dev/null || useradd -M -s /usr/sbin/nologin tests || return 1
    cat >"$config" <<'TOML'
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
allow_remount = true
[dummy_auth]
entries = [["nobody", "nogroup"], ["tests", "tests"]]
TOML
    fresh 1024 || return 1
    chmod 755 "$work" "$mnt"
    mkdir -p "$second" && mount -t tmpfs -o mode=777 none "$second" || return 1
    with_helper nice -n 10 "$program" -c "$config" -p "$mnt" -s "$second" >"$out" 2>&1
    # In a whole run a test leaves a file open for writing, after which nothing can be remounted read-only, on any
    # file system: these cases have a run of their own.
    with_helper nice -n 10 "$program" -c "$config" -p "$mnt" -s "$second" erofs >"$out.erofs" 2>&1
    umount "$second"
    local bad
    bad=$(grep 'FAILED$' "$out" | grep -vc '::erofs_')
    figures="$(grep '^Summary' "$out" | cut -c 10-); alone: $(grep '^Summary' "$out.erofs" | cut -c 10-)"
    grep 'FAILED$\|skipped$' "$out"
    [ "$bad" = 0 ] && grep -q 'Summary: 0 failed' "$out.erofs"
}

suite_fsx() {
    local count=${FSX_OPS:-1000000}
    cat >"$work/fsx.toml" <<'TOML'
flen = 1048576
[opsize]
max = 65536
[weights]
close_open = 1
invalidate = 1
mapread = 10
mapwrite = 10
read = 10
write = 10
truncate = 10
fsync = 0.5
fdatasync = 0.5
posix_fallocate = 3
punch_hole = 5
sendfile = 3
posix_fadvise = 1
copy_file_range = 3
TOML
    # In ten parts, each on a file and with a seed of its own: fsx itself runs out of mappings in a longer one.
    fresh 1024 || return 1
    local part
    for part in 0 1 2 3 4 5 6 7 8 9; do
        be_quiet
        echo "seed $((seed + part))"
        be_nice "${FSX:-fsx}" -f "$work/fsx.toml" -N $((count / 10)) -S $((seed + part)) -P "$work" -q "$mnt/file$part" || return 1
    done
    figures="10 x $((count / 10)) operations, seeds $seed to $((seed + 9))"
}

suite_stress() {
    local seconds=${STRESS_SECONDS:-600} list out=$work/stress-ng.out
    list=(access chattr chdir chmod chown copy-file dentry dir dirdeep dirmany dnotify dup eventfd fallocate fcntl
        fiemap file-ioctl filename flock fpunch fstat getdent hdd inotify iomix link lease locka lockf
        lockofd metamix mknod mmapfixed mmapaddr open readahead rename revio seek sendfile symlink sync-file touch
        truncate unlink utime verity xattr)
    local known names=() name
    known=$(stress-ng --class filesystem? 2>/dev/null; stress-ng --class io? 2>/dev/null)
    for name in "${list[@]}"; do
        [[ " $known " == *" $name "* ]] && names+=("$name")
    done
    ((${#names[@]})) || { echo "no stress-ng, or it knows no stressor of these"; return 1; }
    # Two at a time, in turn, so that all get their share of the time.
    local each=$((seconds * 2 / ${#names[@]})) i bad=0 not_run=() pair
    ((each > 0)) || each=1
    fresh 4096 || return 1
    for ((i = 0; i < ${#names[@]}; i += 2)); do
        be_quiet
        pair=("${names[@]:i:2}")
        local arguments=()
        for name in "${pair[@]}"; do arguments+=(--"$name" 2); done
        # Some stressors leave files in the current directory.
        (cd "$work" && be_nice timeout $((each * 2 + 240)) stress-ng "${arguments[@]}" --hdd-bytes 256m --verify \
            --temp-path "$mnt" --timeout "$each" --oom-avoid --seed "$seed") >"$out" 2>&1
        local code=$?
        # 3: no resources to run it; 4: not implemented here. Both, and a stressor that leaves itself out, are no pass.
        if [ $code != 0 ] && [ $code != 3 ] && [ $code != 4 ]; then
            bad=$((bad + 1))
            echo "${pair[*]}: code $code"
            cat "$out"
        else
            grep -i 'skip\|fail' "$out"
            mapfile -t -O ${#not_run[@]} not_run < <(left_out "$out" $code "${pair[@]}")
        fi
    done
    for name in "${list[@]}"; do
        [[ " ${names[*]} " == *" $name "* ]] || not_run+=("$name")
    done
    figures="$((${#list[@]} - ${#not_run[@]})) of ${#list[@]} stressors, two at a time, $each s each, $bad failed"
    [ ${#not_run[@]} = 0 ] || figures="$figures, not run: ${not_run[*]}"
    # A suite of which nothing ran has told nothing.
    [ $bad = 0 ] && ((${#not_run[@]} < ${#list[@]}))
}

# Of stress-ng's output $1 and exit code $2: those of the stressors $3... that did not run, a line each. They say so
# themselves and the others' end is then the run's; where the code says that one did not and none says which, all.
left_out() {
    local out=$1 code=$2 name said=()
    shift 2
    for name in "$@"; do
        grep -qE "\] $name(:| ).*skip|skipped: [0-9]+:.* $name \(" "$out" && said+=("$name")
    done
    [ ${#said[@]} = 0 ] && [ "$code" != 0 ] && said=("$@")
    [ ${#said[@]} = 0 ] || printf '%s\n' "${said[@]}"
}

suite_dbench() {
    fresh 4096 || return 1
    be_nice dbench -D "$mnt" -t "${DBENCH_SECONDS:-120}" -s 4 >"$work/dbench.out" 2>&1 || { tail "$work/dbench.out"; return 1; }
    # It says so where there are no System V semaphores, and goes on.
    grep -i 'error\|failed' "$work/dbench.out" | grep -v 'barrier semaphore' && return 1
    figures="4 clients, synchronous, $(grep Throughput "$work/dbench.out")"
}

suite_chaos() {
    local seconds=${STRESS_SECONDS:-600}
    fresh 4096 || return 1
    be_nice "$load" random "$mnt" "$work/chaos-ops" "$seed" 4 "$seconds" || return 1
    remount_betrfs || return 1
    be_nice "$load" check "$mnt" "$work/chaos-ops" "$seed" 4 || return 1
    figures="4 + 2 threads, $seconds s, $(grep -o '[0-9]* operations' "$work/chaos.log" | awk '{n += $1} END {print n}') operations checked with a model"
}

suite_linux() {
    local source tree log=$work/linux-make.out
    source=$(linux_source)
    fresh 8192 || return 1
    (cd "$mnt" && be_nice tar xf "$source") || return 1
    tree=$(echo "$mnt"/linux-source-*)
    local files
    files=$(find "$tree" | wc -l)
    # Against what tar sees in the archive, from the device.
    remount_betrfs || return 1
    (cd "$mnt" && be_nice tar df "$source" >"$work/tar-diff.out" 2>&1) || { head "$work/tar-diff.out"; return 1; }
    be_nice make -C "$tree" -j2 defconfig >"$log" 2>&1 || { tail "$log"; return 1; }
    be_nice make -C "$tree" -j2 fs/ext4/ lib/zstd/ kernel/sched/ >>"$log" 2>&1 || { tail "$log"; return 1; }
    local objects
    objects=$(find "$tree" -name '*.o' | wc -l)
    remount_betrfs || return 1
    be_nice rm -r "$tree" || return 1
    [ -z "$(ls -A "$mnt")" ] || { ls -la "$mnt"; return 1; }
    figures="$files files, compared with the archive; $objects objects built; removed"
}

suite_git() {
    fresh 4096 || return 1
    (
        set -e
        export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.org
        cd "$mnt"
        be_nice git clone -q --no-local "$top" clone
        be_nice git -C clone fsck --full --strict
        be_nice git -C clone gc -q --aggressive --prune=now
        be_nice git -C clone fsck --full --strict
        [ -z "$(git -C clone status --porcelain)" ]
        # A long history: 3,000 commits of 20 files each through fast-import, then real commits on top.
        be_nice git init -q big
        awk -v commits=3000 'BEGIN {
            for (c = 1; c <= commits; c++) {
                print "commit refs/heads/big\ncommitter t <t@example.org> " 1600000000 + c " +0000\ndata 2\nc\n"
                for (f = 0; f < 20; f++) {
                    text = "commit " c " file " f " " (c * 7919 + f * 104729) % 1000003 "\n"
                    print "M 644 inline d" f % 5 "/s" c % 50 "/f" f "\ndata " length(text) "\n" text
                }
            }
        }' | be_nice git -C big fast-import --quiet
        be_nice git -C big checkout -q big
        for i in $(seq 50); do
            echo "$i" >"big/new$i"
            git -C big add "new$i"
            git -C big commit -q -m "$i"
        done
        be_nice git -C big gc -q
        be_nice git -C big fsck --full --strict
    ) || return 1
    remount_betrfs || return 1
    be_nice git -C "$mnt/clone" fsck --full && be_nice git -C "$mnt/big" fsck --full || return 1
    [ -z "$(git -C "$mnt/big" status --porcelain)" ] || return 1
    figures="clone of $(git -C "$mnt/clone" rev-list --count HEAD) commits and history of $(git -C "$mnt/big" rev-list --count HEAD): gc, fsck"
}

# Endless transactions for the sqlite3 shell; each prints its number when it is committed.
# EXTRA: with less the removal of a rollback journal, which commits, need not be durable when the commit returns.
sqlite_stream() {
    local mode=$1
    printf 'PRAGMA journal_mode=%s;\nPRAGMA synchronous=EXTRA;\n' "$mode"
    echo 'CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, v BLOB); CREATE INDEX tk ON t(k); CREATE TABLE done(i);'
    awk 'BEGIN { for (i = 1; ; i++) {
        printf "BEGIN; INSERT INTO t(k, v) VALUES(hex(randomblob(8)), randomblob(%d));", (i * 7919) % 9000
        if (i % 3 == 0) printf "UPDATE t SET v = randomblob(300) WHERE id = %d;", (i * 31) % i + 1
        if (i % 7 == 0) printf "DELETE FROM t WHERE id = %d;", (i * 17) % i + 1
        print "INSERT INTO done VALUES(" i "); COMMIT; SELECT " i ";"
    } }'
}

# The database $1 is whole and has everything up to the number last printed in $2.
sqlite_check() {
    local last count
    [ "$(sqlite3 "$1" 'PRAGMA integrity_check')" = ok ] || { sqlite3 "$1" 'PRAGMA integrity_check' | head; return 1; }
    last=$(grep -E '^[0-9]+$' "$2" | tail -n 1)
    count=$(sqlite3 "$1" "SELECT count(*) FROM done WHERE i <= ${last:-0}")
    [ "${last:-0}" -gt 0 ] && [ "$count" = "$last" ] || { echo "$1: $last transactions were committed, $count are there"; return 1; }
    total=$((total + ${last:-0}))
}

suite_sqlite() {
    local mode round total=0 kills=0
    fresh 2048 || return 1
    for mode in wal delete; do
        rm -f "$mnt/db"*
        sqlite_stream $mode | be_nice timeout 40 stdbuf -oL sqlite3 "$mnt/db" >"$work/sqlite.out" 2>/dev/null
        sqlite_check "$mnt/db" "$work/sqlite.out" || return 1
        remount_betrfs || return 1
        sqlite_check "$mnt/db" "$work/sqlite.out" || return 1
        for round in 1 2 3 4 5; do
            rm -f "$mnt/db"*
            sqlite_stream $mode | be_nice timeout 60 stdbuf -oL sqlite3 -bail "$mnt/db" >"$work/sqlite.out" 2>/dev/null &
            local client=$!
            sleep $((3 + round))
            kill_daemon
            wait $client
            fsck_betrfs || return 1
            mount_betrfs || return 1
            sqlite_check "$mnt/db" "$work/sqlite.out" || return 1
            kills=$((kills + 1))
        done
    done
    figures="$total transactions, journal wal and delete, $kills times kill -9"
}

suite_rocksdb() {
    local db=$mnt/rocks out=$work/rocksdb.out round last first kills=0
    fresh 8192 || return 1
    local common=(--db="$db" --num=300000 --value_size=400 --compression_type=none --verify_checksum=1 --seed=7)
    be_nice db_bench --benchmarks=fillrandom,overwrite,readrandom,compact,verifychecksum "${common[@]}" >"$out" 2>&1 || { tail "$out"; return 1; }
    remount_betrfs || return 1
    be_nice db_bench --use_existing_db=1 --benchmarks=verifychecksum,readrandom,mixgraph,readseq "${common[@]}" >>"$out" 2>&1 || { tail "$out"; return 1; }
    be_nice ldb --db="$db" checkconsistency | grep -q OK || { echo "ldb checkconsistency"; return 1; }
    grep -i 'corrupt' "$out" && return 1
    for round in 1 2 3 4 5; do
        rm -rf "$db"
        be_nice db_bench --benchmarks=fillseq --sync=1 --write_buffer_size=200000 --stats_interval=100 "${common[@]}" >"$out" 2>&1 &
        local client=$!
        sleep $((4 + round))
        kill_daemon
        wait $client
        fsck_betrfs || return 1
        mount_betrfs || return 1
        be_nice ldb --db="$db" checkconsistency | grep -q OK || { echo "ldb checkconsistency after kill $round"; return 1; }
        be_nice db_bench --use_existing_db=1 --benchmarks=verifychecksum,readseq "${common[@]}" >"$out.check" 2>&1 || { tail "$out.check"; return 1; }
        grep -i 'corrupt' "$out.check" && return 1
        # Each Put was synced before the next began and before progress was printed.
        last=$(grep -oE '\([0-9]+,[0-9]+\) ops' "$out" | tail -n 1 | sed 's/.*,\([0-9]*\)).*/\1/')
        first=$(be_nice ldb --db="$db" scan --no_value 2>/dev/null | wc -l)
        ((first >= ${last:-0})) || { echo "$last synced, $first found"; return 1; }
        echo "round $round: $last reported, $first found"
        kills=$((kills + 1))
    done
    figures="db_bench 300,000 x 400 B, checksums and consistency verified; $kills times kill -9 under synchronous writes"
}

suite_kill9() {
    local round rounds=${KILL_ROUNDS:-20} client
    fresh 2048 || return 1
    for ((round = 1; round <= rounds; round++)); do
        rm -rf "${mnt:?}"/*
        be_nice "$load" random "$mnt" "$work/kill9-ops" $((seed + round)) 4 60 &
        client=$!
        sleep $((RANDOM % 10 + 2)).$((RANDOM % 10))
        kill_daemon
        wait $client || return 1
        fsck_betrfs || return 1
        mount_betrfs "$( ((round % 4)) || echo checkpoint=1)" || return 1
        be_nice "$load" check "$mnt" "$work/kill9-ops" $((seed + round)) 4 || return 1
    done
    figures="$rounds times, seeds $((seed + 1)) to $((seed + rounds)): clean, a prefix with all that was synced"
}

# The counter $1 of the mounted file system's statistics.
counter() {
    python3 -c 'import os, sys; print(dict(l.split() for l in os.getxattr(sys.argv[1], "betrfs.statistics").decode().splitlines())[sys.argv[2]])' "$mnt" "$1"
}

# Small writes anywhere in one file, seldom synced, so that the store holds records of its log back; then kill -9.
suite_scatter9() {
    local round rounds=${KILL_ROUNDS:-20} client bound=0
    fresh 4096 || return 1
    for ((round = 1; round <= rounds; round++)); do
        rm -f "$mnt/scattered"
        be_nice "$load" scatter "$mnt" "$work/scatter9-ops" $((seed + round)) 1024 100000 60 &
        client=$!
        sleep $((RANDOM % 8 + 3)).$((RANDOM % 10))
        bound=$((bound + $(counter bound_bytes) / 1048576))
        kill_daemon
        wait $client || return 1
        fsck_betrfs || return 1
        mount_betrfs || return 1
        be_nice "$load" scattered "$mnt" "$work/scatter9-ops" $((seed + round)) 1024 || return 1
    done
    # Without any the suite has not tried what it is for.
    ((bound > 0)) || { echo "no record was bound"; return 1; }
    figures="$rounds times, seeds $((seed + 1)) to $((seed + rounds)): all writes up to one, with all that was synced; records of $bound MiB were bound"
}

suite_full() {
    local mib
    figures=
    for mib in 512 2048; do
        rm -f "$image"
        fresh $mib || return 1
        be_nice timeout 1500 "$load" fill "$mnt" "$seed" 10 || return 1
        unmount_betrfs && fsck_betrfs || return 1
        figures="$figures$mib MiB: $(tail -n 1 "$work/full.log"); "
    done
}

suite_many() {
    local count=${MANY_FILES:-1000000}
    fresh 8192 || return 1
    be_nice "$load" files "$mnt" "$count" || return 1
    figures="$count files"
}
