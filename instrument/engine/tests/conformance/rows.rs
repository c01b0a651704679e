//! Job files, each small enough to be watched call by call.

/// A job file and what of it can be compared.
pub struct Row {
    /// Its name, by which a difference is known.
    pub name: &'static str,
    /// The job file.
    pub job: &'static str,
    /// What is compared.
    pub compare: Compare,
    /// It is part of the short suite.
    pub short: bool,
}

/// What of a job can be compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// Everything, the order of the calls of each thread included.
    Order,
    /// Counts, bytes, sizes and places: several calls are in flight, or the file's path is part of the choice.
    Counts,
    /// Places and sizes as shares: the time ends it.
    Shares,
    /// As counts, but not the places: fio's depend on the path of the file, or on moments.
    Totals,
}

const fn row(name: &'static str, compare: Compare, short: bool, job: &'static str) -> Row {
    Row { name, job, compare, short }
}

use Compare::{Counts, Order, Shares, Totals};

/// A file that rows include, and what it says.
pub const INCLUDED: (&str, &str) = ("common.inc", "bs=8k\nsize=1m\n");

/// The suite.
pub const ROWS: &[Row] = &[
    row(
        "two-jobs-own-budgets",
        Order,
        true,
        "[global]\nsize=16m\nbs=4k\n[r]\nrw=randread\n[w]\nrw=randwrite\nfsync=1\n",
    ),
    row("read", Order, true, "[a]\nrw=read\nbs=4k\nsize=2m\n"),
    row("write", Order, true, "[a]\nrw=write\nbs=4k\nsize=2m\n"),
    row("randread", Order, true, "[a]\nrw=randread\nbs=4k\nsize=4m\n"),
    row("randwrite", Order, true, "[a]\nrw=randwrite\nbs=4k\nsize=4m\n"),
    row("rw-bytes", Order, true, "[a]\nrw=rw\nbs=4k\nsize=4m\n"),
    row("randrw-70", Order, true, "[a]\nrw=randrw\nrwmixread=70\nbs=4k\nsize=4m\n"),
    row("randrw-mixwrite-10", Order, false, "[a]\nrw=randrw\nrwmixwrite=10\nbs=8k\nsize=4m\n"),
    row("read-end-of-file", Shares, true, "[a]\nrw=read\nbs=1m\nsize=1m\ntime_based\nruntime=1\n"),
    row("read-time-based-4m", Shares, false, "[a]\nrw=read\nbs=64k\nsize=4m\ntime_based\nruntime=1\n"),
    row("randread-time-based", Shares, false, "[a]\nrw=randread\nbs=4k\nsize=1m\ntime_based\nruntime=1\n"),
    row("write-time-based", Shares, false, "[a]\nrw=write\nbs=16k\nsize=1m\ntime_based\nruntime=1\n"),
    row("fdatasync-psync", Order, true, "[wal]\nrw=write\nbs=2300\nsize=1m\nfdatasync=1\n"),
    row("fdatasync-sync", Order, false, "[wal]\nioengine=sync\nrw=write\nbs=4k\nsize=1m\nfdatasync=4\n"),
    row("fsync-3", Order, true, "[a]\nrw=randwrite\nbs=4k\nsize=4m\nfsync=3\n"),
    row("fsync-two-files", Order, false, "[a]\nrw=write\nbs=4k\nsize=4m\nfsync=1\nnrfiles=2\n"),
    row("fsync-and-fdatasync", Order, false, "[a]\nrw=write\nbs=4k\nsize=1m\nfsync=8\nfdatasync=2\n"),
    row("end-fsync", Order, true, "[a]\nrw=write\nbs=4k\nsize=1m\nend_fsync=1\n"),
    row("fsync-on-close-files", Order, false, "[a]\nrw=write\nbs=4k\nsize=1m\nnrfiles=3\nfsync_on_close=1\n"),
    row(
        "end-fsync-and-on-close",
        Order,
        false,
        "[a]\nrw=write\nbs=4k\nsize=1m\nend_fsync=1\nfsync_on_close=1\n",
    ),
    row("end-fsync-files", Order, false, "[a]\nrw=write\nbs=4k\nsize=1m\nnrfiles=3\nend_fsync=1\n"),
    row("end-fsync-after-fsync", Order, false, "[a]\nrw=write\nbs=4k\nsize=1m\nfsync=1\nend_fsync=1\n"),
    row("end-fsync-loops", Order, false, "[a]\nrw=write\nbs=4k\nsize=1m\nend_fsync=1\nloops=2\n"),
    row(
        "bssplit-many",
        Order,
        false,
        "[a]\nrw=randread\nbssplit=64k/20:4k/70:16k/10\nsize=8m\nnorandommap\n",
    ),
    row("bs-left-out", Order, false, "[a]\nrw=rw\nbs=,8k\nsize=4m\n"),
    row("fsync-on-close", Order, false, "[a]\nrw=write\nbs=4k\nsize=1m\nfsync_on_close=1\n"),
    row("mixed-fsync", Order, false, "[a]\nrw=rw\nbs=4k\nsize=4m\nfsync=1\n"),
    row("libaio-16", Counts, true, "[a]\nioengine=libaio\niodepth=16\nrw=randread\nbs=4k\nsize=4m\n"),
    row(
        "libaio-write-fsync",
        Counts,
        true,
        "[a]\nioengine=libaio\niodepth=4\nrw=write\nbs=4k\nsize=2m\nfsync=4\n",
    ),
    row(
        "libaio-direct",
        Counts,
        false,
        "[a]\nioengine=libaio\niodepth=8\ndirect=1\nrw=randrw\nbs=4k\nsize=4m\n",
    ),
    row(
        "libaio-sequential-depth",
        Counts,
        true,
        "[a]\nioengine=libaio\niodepth=8\nrw=read\nbs=16k\nsize=4m\n",
    ),
    row(
        "libaio-batch",
        Counts,
        false,
        "[a]\nioengine=libaio\niodepth=16\niodepth_batch=4\niodepth_batch_complete=4\nrw=randread\nbs=4k\nsize=4m\n",
    ),
    row(
        "libaio-low",
        Counts,
        false,
        "[a]\nioengine=libaio\niodepth=16\niodepth_low=4\nrw=randread\nbs=4k\nsize=4m\n",
    ),
    row(
        "different-engines-and-depths",
        Counts,
        false,
        "[global]\nsize=2m\nbs=4k\n[a]\nioengine=libaio\niodepth=8\nrw=randread\n[b]\nrw=write\n",
    ),
    row("numjobs-4", Order, true, "[a]\nrw=randread\nbs=4k\nsize=1m\nnumjobs=4\ngroup_reporting\n"),
    row("numjobs-shared-file", Order, false, "[a]\nfilename=data\nrw=randwrite\nbs=4k\nsize=1m\nnumjobs=3\n"),
    row("filename-plain", Order, true, "[a]\nfilename=data\nrw=read\nbs=4k\nsize=1m\n"),
    row("filename-two", Order, false, "[a]\nfilename=one:two\nrw=read\nbs=4k\nsize=2m\n"),
    row(
        "filename-of-two-jobs",
        Order,
        true,
        "[global]\nfilename=data\nbs=4k\nsize=1m\n[r]\nrw=randread\n[w]\nrw=write\n",
    ),
    row("nrfiles-8", Order, false, "[a]\nrw=read\nbs=4k\nsize=2m\nnrfiles=8\n"),
    row(
        "nrfiles-sequential",
        Order,
        false,
        "[a]\nrw=read\nbs=4k\nsize=2m\nnrfiles=8\nfile_service_type=sequential\n",
    ),
    row(
        "nrfiles-random",
        Order,
        false,
        "[a]\nrw=read\nbs=4k\nsize=2m\nnrfiles=8\nfile_service_type=random\n",
    ),
    row(
        "nrfiles-roundrobin-4",
        Order,
        false,
        "[a]\nrw=write\nbs=4k\nsize=2m\nnrfiles=4\nfile_service_type=roundrobin:4\n",
    ),
    row("filesize-nrfiles", Order, true, "[a]\nrw=read\nbs=4k\nfilesize=256k\nnrfiles=4\n"),
    row(
        "filesize-nrfiles-size",
        Order,
        true,
        "[a]\nrw=randread\nbs=4k\nfilesize=256k\nnrfiles=4\nsize=512k\n",
    ),
    row("kib", Order, true, "[a]\nrw=read\nbs=4KiB\nsize=1MiB\n"),
    row("kb-base-1000", Order, false, "[a]\nkb_base=1000\nrw=read\nbs=4KiB\nsize=1m\n"),
    row("odd-size", Order, true, "[a]\nrw=read\nbs=4k\nsize=10k\n"),
    row("odd-size-random", Order, false, "[a]\nrw=randwrite\nbs=4k\nsize=30k\n"),
    row("offset", Order, true, "[a]\nrw=read\nbs=4k\nsize=1m\noffset=512k\n"),
    row("offset-random", Order, false, "[a]\nrw=randwrite\nbs=4k\nsize=1m\noffset=64k\n"),
    row(
        "offset-increment",
        Order,
        false,
        "[a]\nfilename=data\nfilesize=4m\nrw=read\nbs=4k\nsize=1m\nnumjobs=4\noffset_increment=1m\n",
    ),
    row("size-percent", Order, false, "[a]\nfilesize=2m\nrw=read\nbs=4k\nsize=50%\n"),
    row("io-size-larger", Order, true, "[a]\nrw=write\nbs=4k\nsize=1m\nio_size=3m\n"),
    row("io-size-larger-random", Order, false, "[a]\nrw=randread\nbs=4k\nsize=1m\nio_size=2m\n"),
    row("io-size-smaller", Order, false, "[a]\nrw=randread\nbs=4k\nsize=4m\nio_size=1m\n"),
    row("number-ios", Order, false, "[a]\nrw=randread\nbs=4k\nsize=4m\nnumber_ios=100\n"),
    row("loops-3", Order, true, "[a]\nrw=read\nbs=4k\nsize=1m\nloops=3\n"),
    row("loops-random", Order, false, "[a]\nrw=randwrite\nbs=4k\nsize=1m\nloops=2\n"),
    row("norandommap", Order, true, "[a]\nrw=randread\nbs=4k\nsize=4m\nnorandommap\n"),
    row("bssplit", Order, true, "[a]\nrw=randread\nbssplit=4k/60:64k/40\nsize=8m\n"),
    row(
        "bssplit-norandommap",
        Order,
        false,
        "[a]\nrw=randwrite\nbssplit=4k/10:16k/50:64k/40\nsize=8m\nnorandommap\n",
    ),
    row("bssplit-sequential", Order, false, "[a]\nrw=write\nbssplit=4k/50:8k/50\nsize=4m\n"),
    row("bssplit-read-write", Order, false, "[a]\nrw=randrw\nbssplit=4k/100,64k/100\nsize=8m\nnorandommap\n"),
    row("bsrange", Order, true, "[a]\nrw=randread\nbsrange=4k-64k\nsize=8m\n"),
    row("bs-read-write", Order, false, "[a]\nrw=rw\nbs=4k,16k\nsize=4m\n"),
    row("step-forward", Order, true, "[a]\nrw=read:4k\nbs=4k\nsize=1m\n"),
    row("step-every-8", Order, false, "[a]\nrw=randread:8\nbs=4k\nsize=2m\n"),
    row("identical", Order, false, "[a]\nrw=randwrite:4\nrw_sequencer=identical\nbs=4k\nsize=1m\n"),
    row("percentage-random", Order, false, "[a]\nrw=randread\npercentage_random=50\nbs=4k\nsize=4m\n"),
    row(
        "zoned",
        Order,
        true,
        "[a]\nrw=randread\nrandom_distribution=zoned:50/5:30/15:20/80\nbs=4k\nsize=8m\n",
    ),
    row(
        "zoned-last-left-out",
        Order,
        false,
        "[a]\nrw=randread\nrandom_distribution=zoned:50/5:30/15:20/\nbs=4k\nsize=8m\n",
    ),
    row("zipf", Totals, true, "[a]\nrw=randread\nrandom_distribution=zipf:1.2\nbs=4k\nsize=8m\n"),
    row("pareto", Totals, false, "[a]\nrw=randread\nrandom_distribution=pareto:0.2\nbs=4k\nsize=8m\n"),
    row("normal", Totals, false, "[a]\nrw=randread\nrandom_distribution=normal:20\nbs=4k\nsize=8m\n"),
    row("rate", Order, false, "[a]\nrw=read\nrate=1m\nbs=4k\nsize=1m\n"),
    row(
        "rate-iops-time",
        Shares,
        true,
        "[a]\nrw=randread\nrate_iops=200\nbs=4k\nsize=8m\nruntime=2\ntime_based\n",
    ),
    row(
        "rate-iops-read-write",
        Totals,
        false,
        "[a]\nrw=randrw\nrate_iops=200,100\nbs=4k\nsize=8m\nruntime=2\ntime_based\n",
    ),
    row(
        "rate-libaio",
        Counts,
        false,
        "[a]\nioengine=libaio\niodepth=8\nrw=randread\nrate_iops=300\nbs=4k\nsize=8m\nruntime=2\ntime_based\n",
    ),
    row("thinktime", Order, false, "[a]\nrw=read\nthinktime=1000\nbs=4k\nsize=1m\n"),
    row(
        "thinktime-blocks",
        Order,
        false,
        "[a]\nrw=read\nthinktime=5000\nthinktime_blocks=16\nthinktime_spin=100\nbs=4k\nsize=1m\n",
    ),
    row(
        "startdelay",
        Order,
        false,
        "[a]\nrw=read\nbs=4k\nsize=1m\n[b]\nrw=write\nbs=4k\nsize=1m\nstartdelay=1\n",
    ),
    row(
        "own-runtimes",
        Totals,
        false,
        "[global]\nbs=4k\nsize=1m\ntime_based\nrate_iops=100\n[a]\nrw=randread\nruntime=1\n[b]\nrw=randread\nruntime=2\n",
    ),
    row("overwrite", Order, false, "[a]\nrw=randwrite\nbs=4k\nsize=1m\noverwrite=1\n"),
    row("fallocate-none", Order, true, "[a]\nrw=write\nbs=4k\nsize=1m\nfallocate=none\n"),
    row(
        "fallocate-none-io-size-smaller",
        Order,
        true,
        "[a]\nrw=write\nbs=4k\nsize=2m\nio_size=1m\nfallocate=none\n",
    ),
    row("fallocate-keep", Order, false, "[a]\nrw=write\nbs=4k\nsize=2m\nio_size=1m\nfallocate=keep\n"),
    row(
        "fallocate-truncate",
        Order,
        false,
        "[a]\nrw=randwrite\nbs=4k\nsize=2m\nio_size=1m\nfallocate=truncate\n",
    ),
    row("unlink", Order, false, "[a]\nrw=write\nbs=4k\nsize=1m\nunlink=1\n"),
    row("direct-psync", Order, false, "[a]\nrw=randwrite\nbs=4k\nsize=1m\ndirect=1\n"),
    row("sync-open", Order, false, "[a]\nrw=write\nbs=4k\nsize=1m\nsync=1\n"),
    row("randseed", Order, false, "[a]\nrw=randrw\nbs=4k\nsize=4m\nrandseed=42\n"),
    row("randseed-alone", Order, false, "[a]\nrw=randrw\nbs=4k\nsize=4m\nrandseed=42\nrandrepeat=0\n"),
    row("step-every-random", Order, false, "[a]\nrw=randrw:3\nbs=4k\nsize=2m\nnrfiles=2\n"),
    row("step-back", Order, false, "[a]\nrw=read:-8k\nbs=4k\nsize=256k\nio_size=128k\n"),
    row("include", Order, true, "[global]\ninclude common.inc\n[a]\nrw=randread\n"),
    row("verify-md5", Order, true, "[a]\nrw=write\nbs=4k\nsize=1m\nverify=md5\n"),
    row("verify-random", Order, true, "[a]\nrw=randwrite\nbs=4k\nsize=1m\nverify=crc32c\n"),
    row(
        "verify-pattern",
        Order,
        true,
        "[a]\nrw=randwrite\nbs=4k\nsize=1m\nverify=pattern\nverify_pattern=0xdeadbeef\n",
    ),
    row(
        "verify-meta-interval",
        Order,
        false,
        "[a]\nrw=write\nbs=16k\nsize=1m\nverify=meta\nverify_interval=4k\n",
    ),
    row("verify-null", Order, false, "[a]\nrw=write\nbs=16k\nsize=1m\nverify=null\n"),
    row("verify-not-read", Order, false, "[a]\nrw=randwrite\nbs=4k\nsize=1m\nverify=md5\ndo_verify=0\n"),
    row("verify-mixed", Order, false, "[a]\nrw=randrw\nbs=4k\nsize=1m\nverify=crc32c\n"),
    row("verify-norandommap", Order, true, "[a]\nrw=randwrite\nbs=4k\nsize=1m\nnorandommap\nverify=crc32c\n"),
    row("verify-files", Order, false, "[a]\nrw=write\nbs=4k\nsize=1m\nnrfiles=4\nverify=crc32c\n"),
    row("verify-loops", Order, false, "[a]\nrw=write\nbs=4k\nsize=512k\nloops=2\nverify=crc32c\n"),
    row("verify-io-size", Order, false, "[a]\nrw=randwrite\nbs=4k\nsize=1m\nio_size=512k\nverify=crc32c\n"),
    row("verify-bssplit", Order, false, "[a]\nrw=write\nbssplit=4k/50:8k/50\nsize=1m\nverify=crc32c\n"),
    row("verify-numjobs", Order, false, "[a]\nrw=randwrite\nbs=4k\nsize=512k\nnumjobs=2\nverify=crc32c\n"),
    row(
        "verify-fsync",
        Order,
        false,
        "[a]\nrw=write\nbs=4k\nsize=512k\nfsync=8\nend_fsync=1\nverify=crc32c\n",
    ),
    row(
        "verify-backlog",
        Order,
        true,
        "[a]\nrw=randwrite\nbs=4k\nsize=1m\nverify=crc32c\nverify_backlog=16\n",
    ),
    row(
        "verify-backlog-batch",
        Order,
        false,
        "[a]\nrw=write\nbs=4k\nsize=1m\nverify=crc32c\nverify_backlog=16\nverify_backlog_batch=4\n",
    ),
    row(
        "verify-libaio",
        Counts,
        true,
        "[a]\nioengine=libaio\niodepth=8\nrw=randwrite\nbs=4k\nsize=1m\nverify=crc32c\n",
    ),
    row("verify-time", Shares, false, "[a]\nrw=write\nbs=16k\nsize=1m\nverify=md5\ntime_based\nruntime=1\n"),
    row(
        "verify-time-libaio",
        Shares,
        false,
        "[a]\nioengine=libaio\niodepth=4\nrw=write\nbs=16k\nsize=1m\nverify=md5\ntime_based\nruntime=1\n",
    ),
    row("mmap-read", Order, true, "[a]\nioengine=mmap\nrw=randread\nbs=4k\nsize=1m\n"),
    row("mmap-write-fsync", Order, true, "[a]\nioengine=mmap\nrw=write\nbs=4k\nsize=1m\nfsync=16\n"),
    row("mmap-direct", Order, false, "[a]\nioengine=mmap\nrw=write\nbs=16k\nsize=1m\ndirect=1\n"),
    row("mmap-verify", Order, false, "[a]\nioengine=mmap\nrw=randwrite\nbs=4k\nsize=1m\nverify=md5\n"),
    row("pvsync2", Order, false, "[a]\nioengine=pvsync2\nrw=randrw\nbs=4k\nsize=1m\n"),
];
