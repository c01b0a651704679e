//! What happened when: the events the breakdown needs, as plain data, and which tracepoints they come from.

use trace::{Event, Selection};

use super::rwbs::Rwbs;

/// A device number as tracepoints write it: the major number above 20 bits of minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dev(pub u32);

impl Dev {
    /// From its two numbers.
    pub const fn new(major: u32, minor: u32) -> Self {
        Dev(major << 20 | (minor & 0xf_ffff))
    }

    /// The major number.
    pub const fn major(self) -> u32 {
        self.0 >> 20
    }

    /// The minor number.
    pub const fn minor(self) -> u32 {
        self.0 & 0xf_ffff
    }
}

impl std::fmt::Display for Dev {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major(), self.minor())
    }
}

/// By what a file system's tracepoints name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FsKey {
    /// Its device.
    Dev(Dev),
    /// Its UUID (btrfs).
    Uuid([u8; 16]),
}

/// A range of blocks with an operation: a bio or a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    /// The device.
    pub dev: Dev,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// How many sectors; 0 for a flush.
    pub sectors: u32,
    /// Operation and flags.
    pub rwbs: Rwbs,
    /// Name of the running thread, where the event tells it.
    pub comm: String,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceEventKind {
    /// A thread called fsync or fdatasync (`data_only`).
    SyncEnter {
        /// fdatasync.
        data_only: bool,
    },
    /// The call returned.
    SyncExit,
    /// The file system began to sync a file.
    FsEnter {
        /// Which file system.
        fs: FsKey,
        /// The file.
        inode: u64,
        /// fdatasync.
        data_only: bool,
    },
    /// The file system is done with it (ext4 and f2fs tell).
    FsExit {
        /// Which file system.
        fs: FsKey,
        /// The file.
        inode: u64,
    },
    /// A step of a journal commit or of a log write, to be shown; `log_io` says that the running thread is
    /// about to submit a log buffer.
    Journal {
        /// Which file system.
        fs: FsKey,
        /// Its name for people.
        step: &'static str,
        /// The next bio of this thread is a write to the log.
        log_io: bool,
    },
    /// A bio was handed to the block layer.
    Queue(Blocks),
    /// A request was given to the driver.
    Issue(Blocks),
    /// A request, or the first part of it, was completed.
    Complete(Blocks),
    /// The NVMe driver built a command; its issue follows on the same CPU.
    NvmeSetup {
        /// The submission queue.
        queue: u16,
    },
}

/// Something that happened, with time and thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// Nanoseconds of the trace clock.
    pub at_ns: u64,
    /// The CPU.
    pub cpu: u16,
    /// The running thread; for completions whoever was interrupted.
    pub pid: i32,
    /// What happened.
    pub what: TraceEventKind,
}

/// Journal steps: group, event, the name shown, whether the thread's next bio is log I/O.
const JOURNAL: [(&str, &str, &str, bool); 8] = [
    ("jbd2", "jbd2_start_commit", "commit starts", false),
    ("jbd2", "jbd2_commit_flushing", "ordered data", false),
    ("jbd2", "jbd2_commit_logging", "commit logs", false),
    ("jbd2", "jbd2_end_commit", "commit ends", false),
    ("xfs", "xfs_log_force", "log force", false),
    ("xfs", "xlog_iclog_syncing", "log buffer written", true),
    ("xfs", "xlog_iclog_sync_done", "log buffer durable", false),
    ("btrfs", "btrfs_transaction_commit", "transaction commit", false),
];

impl TraceEvent {
    /// The moment an event tells of; `None` for events that are not needed or lack their fields.
    pub fn of(event: &Event) -> Option<Self> {
        let what = match event.name() {
            "sys_enter_fsync" => TraceEventKind::SyncEnter { data_only: false },
            "sys_enter_fdatasync" => TraceEventKind::SyncEnter { data_only: true },
            "sys_exit_fsync" | "sys_exit_fdatasync" => TraceEventKind::SyncExit,
            "ext4_sync_file_enter" | "f2fs_sync_file_enter" | "xfs_file_fsync" | "xfs_dir_fsync" => {
                TraceEventKind::FsEnter {
                    fs: FsKey::Dev(dev(event)?),
                    inode: event.number("ino")?,
                    data_only: event.number("datasync").is_some_and(|flag| flag != 0),
                }
            }
            "btrfs_sync_file" => TraceEventKind::FsEnter {
                fs: uuid(event)?,
                inode: event.number("ino")?,
                data_only: event.number("datasync")? != 0,
            },
            "ext4_sync_file_exit" | "f2fs_sync_file_exit" => {
                TraceEventKind::FsExit { fs: FsKey::Dev(dev(event)?), inode: event.number("ino")? }
            }
            "block_bio_queue" => TraceEventKind::Queue(blocks(event)?),
            "block_rq_issue" => TraceEventKind::Issue(blocks(event)?),
            "block_rq_complete" => TraceEventKind::Complete(blocks(event)?),
            "nvme_setup_cmd" => TraceEventKind::NvmeSetup { queue: event.number("qid")? as u16 },
            name => journal(event, name)?,
        };
        Some(TraceEvent { at_ns: event.at_ns, cpu: event.cpu, pid: event.pid(), what })
    }
}

fn journal(event: &Event, name: &str) -> Option<TraceEventKind> {
    let (_, _, step, log_io) = *JOURNAL.iter().find(|(_, known, ..)| *known == name)?;
    let fs = dev(event).map(FsKey::Dev).or_else(|| uuid(event))?;
    Some(TraceEventKind::Journal { fs, step, log_io })
}

/// The name shown for a journal event, and whether log I/O follows.
pub(super) fn journal_step(name: &str) -> Option<(&'static str, bool)> {
    JOURNAL.iter().find(|(_, known, ..)| *known == name).map(|(_, _, step, log_io)| (*step, *log_io))
}

fn dev(event: &Event) -> Option<Dev> {
    event.number("dev").map(|dev| Dev(dev as u32))
}

fn uuid(event: &Event) -> Option<FsKey> {
    event.bytes("fsid")?.try_into().ok().map(FsKey::Uuid)
}

fn blocks(event: &Event) -> Option<Blocks> {
    Some(Blocks {
        dev: dev(event)?,
        sector: event.number("sector")?,
        sectors: event.number("nr_sector")? as u32,
        rwbs: Rwbs::parse(&event.text("rwbs")?),
        comm: event.text("comm").unwrap_or_default(),
    })
}

/// The tracepoints for file systems and disks. `dev` filters keep everything else out of the buffers.
pub fn selections(file_systems: &[Dev], disks: &[Dev]) -> Vec<Selection> {
    let any_of = |devs: &[Dev]| {
        let terms: Vec<String> = devs.iter().map(|dev| format!("dev == {}", dev.0)).collect();
        (!terms.is_empty()).then(|| terms.join(" || "))
    };
    let (of_fs, of_disk) = (any_of(file_systems), any_of(disks));
    let mut all = Vec::new();
    let mut add = |system, name, filter: Option<&String>, required| {
        all.push(Selection { system, name, filter: filter.cloned(), required });
    };
    for name in ["block_bio_queue", "block_rq_issue", "block_rq_complete"] {
        add("block", name, of_disk.as_ref(), true);
    }
    for name in ["sys_enter_fsync", "sys_exit_fsync", "sys_enter_fdatasync", "sys_exit_fdatasync"] {
        add("syscalls", name, None, false);
    }
    for (system, name) in [
        ("ext4", "ext4_sync_file_enter"),
        ("ext4", "ext4_sync_file_exit"),
        ("f2fs", "f2fs_sync_file_enter"),
        ("f2fs", "f2fs_sync_file_exit"),
        ("xfs", "xfs_file_fsync"),
        ("xfs", "xfs_dir_fsync"),
    ] {
        add(system, name, of_fs.as_ref(), false);
    }
    // btrfs names itself by UUID, which filters cannot compare.
    add("btrfs", "btrfs_sync_file", None, false);
    for (system, name, ..) in JOURNAL {
        add(system, name, if system == "btrfs" { None } else { of_fs.as_ref() }, false);
    }
    add("nvme", "nvme_setup_cmd", None, false);
    all
}
