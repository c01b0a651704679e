//! A file system that answers at once: what the way to a file system costs without one.
//! `null DIR classic|uring [THREADS [ENTRIES [nopin]]]` serves until it is unmounted.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fusewire::wire::{
    Attr, Entry, InitConfig, Opened, Operation, ROOT, Request, StatFs, init_flag, open_flag,
};
use fusewire::{Answered, Config, FileSystem, Reply, Session, Transport, TransportKind, UringSwitch, mount};
use rustix::mount::MountFlags;

const TTL: Duration = Duration::from_secs(3600);

/// Every name can be made, none is found again.
struct Null {
    next: AtomicU64,
}

fn attr(node: u64, directory: bool) -> Attr {
    let mode = if directory { libc::S_IFDIR | 0o755 } else { libc::S_IFREG | 0o644 };
    Attr { ino: node, mode, nlink: 1, block_bytes: 4096, ..Attr::default() }
}

impl Null {
    fn made(&self, directory: bool) -> Entry {
        let node = self.next.fetch_add(1, Ordering::Relaxed) * 2 + u64::from(directory);
        Entry { node, ttl: TTL, attr: attr(node, directory) }
    }
}

impl FileSystem for Null {
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) -> Answered {
        let node = request.header.node;
        match request.operation {
            Operation::Lookup { .. } => reply.error(libc::ENOENT),
            Operation::GetAttr { .. } | Operation::SetAttr(_) => {
                reply.attr(&attr(node, node == ROOT || node % 2 == 1), TTL)
            }
            Operation::MkDir { .. } => reply.entry(&self.made(true)),
            Operation::Create { .. } => reply.created(
                &self.made(false),
                Opened {
                    handle: 0,
                    flags: open_flag::KEEP_CACHE | open_flag::NOFLUSH | open_flag::DIRECT_IO,
                },
            ),
            Operation::Write { data, .. } => reply.written(data.len() as u32),
            Operation::StatFs => reply.stat_fs(&StatFs { unit_bytes: 4096, ..StatFs::default() }),
            Operation::Unlink { .. } | Operation::RmDir { .. } | Operation::Release { .. } => reply.ok(),
            _ => reply.error(libc::ENOSYS),
        }
    }

    fn forget(&self, _node: u64, _lookups: u64) {}

    fn may_wait(&self, _operation: &Operation<'_>) -> bool {
        false
    }
}

fn run(words: &[String]) -> std::io::Result<()> {
    let number = |at: usize, usual| words.get(at).and_then(|w| w.parse::<usize>().ok()).unwrap_or(usual);
    let usage = || std::io::Error::other("null DIR classic|uring [THREADS [ENTRIES [nopin]]]");
    let (dir, way) = words.first().zip(words.get(1)).ok_or_else(usage)?;
    let way = *Transport::parse(way).ok_or_else(usage)?.ways().first().ok_or_else(usage)?;
    let switch = if way == TransportKind::Rings { Some(UringSwitch::on()?) } else { None };
    let data = "rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other";
    let fuse = mount(Path::new("null"), Path::new(dir), "fuse.null", MountFlags::NOATIME, data)?;
    let flags = init_flag::BIG_WRITES
        | init_flag::NO_OPEN_SUPPORT
        | init_flag::PARALLEL_DIROPS
        | init_flag::HANDLE_KILLPRIV_V2;
    let threads = number(2, 4);
    let config = Config {
        wish: InitConfig { flags, request_bytes_max: 1 << 20, max_background: 64, congestion_threshold: 48 },
        way,
        name: "null".into(),
        threads,
        awake: 1,
        ring_threads: threads,
        ring_cpus: None,
        ring_entries: number(3, 1) as u16,
        pin: words.get(4).is_none_or(|w| w != "nopin"),
        stand_back: true,
    };
    let session = Session::start(fuse, Arc::new(Null { next: AtomicU64::new(2) }), &config)?;
    drop(switch);
    // The kernel learns that there is nothing to open or to release.
    let _ = std::fs::File::create(Path::new(dir).join("probe"));
    session.join()
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("null: {error}");
            ExitCode::FAILURE
        }
    }
}
