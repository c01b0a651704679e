//! Real mounts of a file system of one file, served each way.

use std::collections::HashSet;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use fusewire::wire::{
    Attr, Entry, InitConfig, Opened, Operation, ROOT, Request, StatFs, init_flag, open_flag,
};
use fusewire::{Answered, Config, DeferredReply, FileSystem, Reply, Session, TransportKind, UringSwitch};
use needs::needs;
use rustix::mount::{MountFlags, UnmountFlags};

/// Far more than anything takes, on the slowest machine: it ends what hangs.
const DEADLINE: Duration = Duration::from_secs(600);
const FILE: u64 = 2;
/// Nodes from here on are files to sync, since the kernel syncs a file once at a time.
const SYNCED: u64 = 100;
const TTL: Duration = Duration::from_secs(3600);
/// Reads from here on wait until somebody opens the gate.
const GATED: u64 = 1 << 30;
/// So many syncs are answered at once: no more than a CPU has entries.
const GROUP: usize = 3;

#[derive(Default)]
struct State {
    data: Vec<u8>,
    lookups: usize,
    forgets: u64,
    syncs: Vec<DeferredReply>,
    waiting: usize,
    gate_open: bool,
}

#[derive(Default)]
struct OneFile {
    state: Mutex<State>,
    changed: Condvar,
}

impl OneFile {
    fn attr(&self, node: u64) -> Attr {
        let size = self.state.lock().unwrap().data.len() as u64;
        let mode = if node == ROOT { libc::S_IFDIR | 0o755 } else { libc::S_IFREG | 0o644 };
        Attr {
            ino: node,
            size,
            blocks: size.div_ceil(512),
            mode,
            nlink: 1,
            block_bytes: 4096,
            ..Attr::default()
        }
    }

    fn entry(&self) -> Entry {
        Entry { node: FILE, ttl: TTL, attr: self.attr(FILE) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> u32 {
        let mut state = self.state.lock().unwrap();
        let end = offset as usize + data.len();
        if state.data.len() < end {
            state.data.resize(end, 0);
        }
        state.data[offset as usize..end].copy_from_slice(data);
        data.len() as u32
    }

    fn read(&self, offset: u64, size: u32) -> Vec<u8> {
        let mut state = self.state.lock().unwrap();
        if offset >= GATED {
            state.waiting += 1;
            self.changed.notify_all();
            while !state.gate_open {
                state = self.changed.wait(state).unwrap();
            }
            state.waiting -= 1;
            return Vec::new();
        }
        let end = state.data.len().min(offset as usize + size as usize);
        state.data.get(offset as usize..end).unwrap_or_default().to_vec()
    }

    /// The last of a group lets a thread of its own answer all.
    fn sync(&self, reply: Reply<'_>) -> Answered {
        let (answered, later) = reply.later();
        let mut state = self.state.lock().unwrap();
        state.syncs.push(later);
        if state.syncs.len() == GROUP {
            let group = std::mem::take(&mut state.syncs);
            std::thread::spawn(move || {
                for (number, later) in group.into_iter().enumerate() {
                    later.answer(if number == 0 { Err(libc::EDQUOT) } else { Ok(Vec::new()) });
                }
            });
        }
        answered
    }
}

impl FileSystem for OneFile {
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) -> Answered {
        let node = request.header.node;
        let opened = Opened { handle: 1, flags: open_flag::DIRECT_IO | open_flag::PARALLEL_DIRECT_WRITES };
        match request.operation {
            Operation::Lookup { name: b"file" } => {
                self.state.lock().unwrap().lookups += 1;
                reply.entry(&self.entry())
            }
            Operation::Lookup { name: [b's', b'y', b'n', b'c', digit] } => {
                reply.entry(&Entry { node: SYNCED + u64::from(*digit), ..self.entry() })
            }
            Operation::Lookup { .. } => reply.error(libc::ENOENT),
            Operation::GetAttr { .. } => reply.attr(&self.attr(node), Duration::ZERO),
            Operation::Open { .. } => reply.opened(opened),
            Operation::Read { offset, size, .. } => reply.data(self.read(offset, size)),
            Operation::Write { offset, data, .. } => reply.written(self.write(offset, data)),
            Operation::Fsync { .. } => self.sync(reply),
            Operation::GetXattr { name, size: 0 } => reply.size(name.len() as u32),
            Operation::GetXattr { name, .. } => reply.data(name.to_ascii_uppercase()),
            Operation::OpenDir { .. } => reply.opened(Opened::default()),
            Operation::ReadDir { offset, size, .. } | Operation::ReadDirPlus { offset, size, .. } => reply
                .directory(size, |directory| {
                    for number in offset..1000 {
                        if !directory.add(10, number + 1, libc::S_IFREG, format!("name{number}").as_bytes()) {
                            break;
                        }
                    }
                    Ok(())
                }),
            Operation::StatFs => reply.stat_fs(&StatFs { blocks: 77, unit_bytes: 4096, ..StatFs::default() }),
            Operation::Flush { .. } | Operation::Release { .. } | Operation::ReleaseDir { .. } => reply.ok(),
            _ => reply.error(libc::ENOSYS),
        }
    }

    fn forget(&self, _node: u64, lookups: u64) {
        self.state.lock().unwrap().forgets += lookups;
    }

    fn may_wait(&self, operation: &Operation<'_>) -> bool {
        matches!(operation, Operation::Read { .. } | Operation::Fsync { .. })
    }
}

struct Mount {
    fs: Arc<OneFile>,
    session: Option<Session>,
    dir: tempfile::TempDir,
}

impl Mount {
    /// With rings these CPUs are the used ones; none: all that are online.
    fn new(way: TransportKind, threads: usize, entries: u16, cpus: Option<Vec<u16>>) -> Mount {
        let dir = tempfile::tempdir().unwrap();
        let switch = (way == TransportKind::Rings).then(|| UringSwitch::on().unwrap());
        let data = "rootmode=40000,user_id=0,group_id=0,allow_other";
        let fuse =
            fusewire::mount(Path::new("one"), dir.path(), "fuse.one", MountFlags::NOATIME, data).unwrap();
        let flags = init_flag::BIG_WRITES | init_flag::PARALLEL_DIROPS | init_flag::ASYNC_DIO;
        let config = Config {
            wish: InitConfig {
                flags,
                request_bytes_max: 1 << 20,
                max_background: 64,
                congestion_threshold: 48,
            },
            way,
            name: "one".into(),
            threads,
            awake: 1,
            ring_threads: threads,
            ring_cpus: cpus,
            ring_entries: entries,
            pin: true,
            stand_back: true,
        };
        let fs = Arc::new(OneFile::default());
        let session = Session::start(fuse, fs.clone(), &config).unwrap();
        drop(switch);
        Mount { fs, session: Some(session), dir }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    fn open(&self) -> File {
        File::options().read(true).write(true).open(self.file()).unwrap()
    }

    fn end(mut self) {
        // Not there any more if the test has taken it away.
        let _ = rustix::mount::unmount(self.dir.path(), UnmountFlags::DETACH);
        self.fs.state.lock().unwrap().syncs.clear();
        self.session.take().unwrap().join().unwrap();
    }
}

fn bytes_of_every_size_come_back(mount: &Mount) {
    let mut file = mount.open();
    let mut model = Vec::new();
    for (number, size) in [1, 100, 4095, 4096, 4097, 65_536, 1 << 20, (3 << 20) + 5].into_iter().enumerate() {
        let data: Vec<u8> = (0..size).map(|i: usize| (i * 7 + number) as u8).collect();
        file.write_all(&data).unwrap();
        model.extend(data);
    }
    let mut read = Vec::new();
    mount.open().read_to_end(&mut read).unwrap();
    assert!(read == model);
    assert_eq!(std::fs::metadata(mount.file()).unwrap().len(), model.len() as u64);
    assert_eq!(File::open(mount.dir.path().join("other")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(rustix::fs::statfs(mount.dir.path()).unwrap().f_blocks, 77);
    let mut value = [0; 32];
    let got = rustix::fs::getxattr(mount.file(), "user.name", &mut value).unwrap();
    assert_eq!(&value[..got], b"USER.NAME");
    let names: HashSet<_> =
        std::fs::read_dir(mount.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1000);
}

fn many_at_once_each_get_their_own(mount: &Mount) {
    mount.open().write_all(&vec![0; 16 * 8192]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..16u64 {
            scope.spawn(move || {
                let file = mount.open();
                for round in 0..300u64 {
                    let data = [(thread * 16 + round) as u8; 8192];
                    file.write_all_at(&data, thread * 8192).unwrap();
                    let mut back = [0; 8192];
                    file.read_exact_at(&mut back, thread * 8192).unwrap();
                    assert!(back == data, "thread {thread}, round {round}");
                }
            });
        }
    });
}

fn syncs_are_answered_together_and_later(mount: &Mount) {
    for _ in 0..20 {
        let failed: usize = std::thread::scope(|scope| {
            let all: Vec<_> = (0..GROUP)
                .map(|number| mount.dir.path().join(format!("sync{number}")))
                .map(|path| scope.spawn(move || File::open(path).unwrap().sync_all()))
                .collect();
            let ended = all.into_iter().map(|thread| thread.join().unwrap());
            ended
                .filter_map(Result::err)
                .inspect(|e| assert_eq!(e.raw_os_error(), Some(libc::EDQUOT)))
                .count()
        });
        assert_eq!(failed, 1);
    }
}

fn quick_requests_come_through_when_slow_ones_end(mount: &Mount) {
    mount.open().write_all(b"quick").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| mount.open().read_at(&mut [0; 8], GATED).unwrap());
        }
        let mut state = mount.fs.state.lock().unwrap();
        while state.waiting == 0 {
            state = mount.fs.changed.wait(state).unwrap();
        }
        drop(state);
        // More come than there are threads; this is answered among them or after them.
        let quick = scope.spawn(|| std::fs::metadata(mount.file()).unwrap().len());
        mount.fs.state.lock().unwrap().gate_open = true;
        mount.fs.changed.notify_all();
        assert_eq!(quick.join().unwrap(), 5);
    });
}

fn names_are_forgotten_when_told(mount: &Mount) {
    let notifier = mount.session.as_ref().unwrap().notifier();
    let lookups = || mount.fs.state.lock().unwrap().lookups;
    for round in 1..=10 {
        std::fs::metadata(mount.file()).unwrap();
        std::fs::metadata(mount.file()).unwrap();
        assert_eq!(lookups(), round, "cached");
        notifier.invalidate_entry(ROOT, b"file").unwrap();
    }
    assert!(notifier.invalidate_entry(ROOT, b"never").is_err());
    std::fs::metadata(mount.file()).unwrap();
    notifier.invalidate_inode(FILE, 0, 0).unwrap();
    let until = |forgets| {
        while mount.fs.state.lock().unwrap().forgets < forgets {
            std::thread::yield_now();
        }
    };
    until(10);
    match notifier.prune(&[77, FILE, ROOT]) {
        Ok(()) => until(11),
        // Before Linux 6.18.
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL)),
    }
}

fn an_abort_under_load_ends_everything(mount: &Mount) {
    mount.open().write_all(&[1; 8192]).unwrap();
    std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        for _ in 0..8 {
            let tell = tell.clone();
            scope.spawn(move || {
                let file = mount.open();
                let _ = tell.send(());
                while file.read_at(&mut [0; 4096], 0).is_ok() {}
            });
        }
        (0..8).for_each(|_| told.recv().unwrap());
        fusewire::force_unmount(mount.dir.path()).unwrap();
    });
}

type Test = (&'static str, fn(&Mount));

const TESTS: [Test; 6] = [
    ("bytes_of_every_size_come_back", bytes_of_every_size_come_back),
    ("many_at_once_each_get_their_own", many_at_once_each_get_their_own),
    ("syncs_are_answered_together_and_later", syncs_are_answered_together_and_later),
    ("quick_requests_come_through_when_slow_ones_end", quick_requests_come_through_when_slow_ones_end),
    ("names_are_forgotten_when_told", names_are_forgotten_when_told),
    ("an_abort_under_load_ends_everything", an_abort_under_load_ends_everything),
];

/// Runs a test on a mount of its own under a deadline, after which everybody who waits gets an error.
fn run(name: &str, test: fn(&Mount), way: TransportKind, threads: usize, entries: u16) {
    println!("{name}: {way:?}, {threads} threads, {entries} entries");
    run_on(name, test, way, Mount::new(way, threads, entries, None));
}

fn run_on(name: &str, test: fn(&Mount), way: TransportKind, mount: Mount) {
    let (done, ended) = mpsc::channel();
    let in_time = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&mount)));
            let _ = done.send(());
            fine
        });
        let in_time = ended.recv_timeout(DEADLINE).is_ok();
        if !in_time {
            let _ = fusewire::force_unmount(mount.dir.path());
        }
        thread.join().unwrap().is_ok() && in_time
    });
    mount.end();
    assert!(in_time, "{name} {way:?}");
}

#[test]
fn one_file_is_served_through_the_device() {
    needs!(Root, Mounts, Fuse);
    TESTS.into_iter().for_each(|(name, test)| run(name, test, TransportKind::Classic, 3, 1));
}

#[test]
fn one_file_is_served_through_rings() {
    needs!(Root, Mounts, Fuse, Rings);
    for (name, test) in TESTS {
        run(name, test, TransportKind::Rings, 3, 1);
        run(name, test, TransportKind::Rings, 1, 8);
    }
}

/// As if all CPUs but the first had been offline when it was mounted: requests of theirs are served all the same.
#[test]
fn requests_of_a_cpu_that_was_not_used_are_served() {
    needs!(Root, Mounts, Fuse, Rings);
    for (name, test) in [TESTS[0], TESTS[1], TESTS[5]] {
        for used in [vec![0], vec![]] {
            println!("{name}: CPUs {used:?} are used");
            run_on(name, test, TransportKind::Rings, Mount::new(TransportKind::Rings, 2, 1, Some(used)));
        }
    }
}
