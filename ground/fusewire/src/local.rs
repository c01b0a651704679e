//! File systems that nobody but this machine's kernel changes: what the kernel may cache of them, and how they are
//! mounted and served.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::mount::MountFlags;

use crate::notify::Notifier;
use crate::serve::FileSystem;
use crate::session::{Config, Session, force_unmount, mount};
use crate::transport::{Transport, TransportKind, UringSwitch};
use crate::wire::{Attr, Entry, InitConfig, ROOT, init_flag, open_flag};

/// Largest request in bytes: what FUSE carries in 256 pages.
pub const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// How long the kernel may keep names and attributes, unless somebody says otherwise: a day.
pub const TTL: Duration = Duration::from_secs(86_400);
/// Threads that take requests, unless somebody says otherwise; through io_uring so many for each CPU.
pub const THREADS: usize = 8;
/// Read-ahead of the mount in KiB.
const READ_AHEAD_KIB: u32 = 2048;
/// Inode number of the probe: no file ever gets it.
const PROBE_INO: u64 = u64::MAX;
/// The kernel asks for nothing about the probe while it is opened.
const PROBE_TTL: Duration = Duration::from_secs(3600);

/// What the kernel is asked for; `more` are flags of [`init_flag`]. Each may be missing in an older kernel: slower, but
/// as right.
pub fn wish(more: u64) -> InitConfig {
    let flags = init_flag::ASYNC_READ
        | init_flag::ASYNC_DIO
        | init_flag::EXPORT_SUPPORT
        | init_flag::BIG_WRITES
        | init_flag::PARALLEL_DIROPS
        | init_flag::CACHE_SYMLINKS
        | init_flag::NO_OPEN_SUPPORT
        | init_flag::EXPLICIT_INVAL_DATA
        | init_flag::HANDLE_KILLPRIV_V2
        | more;
    InitConfig { flags, request_bytes_max: REQUEST_BYTES_MAX, max_background: 128, congestion_threshold: 96 }
}

/// How the kernel treats the handle of a new file, opened with the `flags` of open(2). One that can only be written
/// bypasses the page cache, unless the data are to `stay` there: otherwise the kernel asks at the first write whether the
/// file has capabilities (with DIRECT_IO it leaves it to the file system to take them away), and copies what nobody may
/// ever read.
pub fn handle_flags(flags: u32, stay: bool) -> u32 {
    let write_only = flags & libc::O_ACCMODE as u32 == libc::O_WRONLY as u32;
    let direct = write_only && !stay;
    open_flag::KEEP_CACHE | open_flag::NOFLUSH | if direct { open_flag::DIRECT_IO } else { 0 }
}

/// A file that is there only while the mount is made. The kernel learns at the first OPEN that there is nothing to
/// open; until then every file that is made has its RELEASE, so one is opened before anybody else can.
#[derive(Debug)]
pub struct Probe {
    name: String,
    there: AtomicBool,
}

impl Probe {
    /// Of the file system called `fs`.
    pub fn new(fs: &str) -> Probe {
        let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let name = format!(".{fs}-{}-{nanoseconds:x}", std::process::id());
        Probe { name, there: AtomicBool::new(false) }
    }

    /// Opens the probe in the root directory `dir`, which is served by other threads.
    pub fn open_in(&self, dir: &Path, notifier: &Notifier) {
        self.there.store(true, Ordering::Release);
        // Without it every new file costs a request more.
        let _ = File::open(dir.join(&self.name));
        self.there.store(false, Ordering::Release);
        let _ = notifier.invalidate_entry(ROOT, self.name.as_bytes());
    }

    /// What LOOKUP of `name` in `parent` says, if that is the probe.
    pub fn entry(&self, parent: u64, name: &[u8]) -> Option<Entry> {
        let is = self.there.load(Ordering::Acquire) && parent == ROOT && name == self.name.as_bytes();
        let mode = libc::S_IFREG | 0o400;
        let attr = Attr { ino: PROBE_INO, nlink: 1, mode, ..Attr::default() };
        is.then_some(Entry { node: PROBE_INO, ttl: PROBE_TTL, attr })
    }
}

/// Why a file system could not be mounted.
#[derive(Debug)]
pub struct StartError {
    /// What was tried.
    pub what: String,
    /// What the system says.
    pub cause: io::Error,
}

impl StartError {
    fn at(what: impl Into<String>) -> impl FnOnce(io::Error) -> StartError {
        let what = what.into();
        move |cause| StartError { what, cause }
    }
}

/// Where and how a file system is mounted.
#[derive(Clone, Debug)]
pub struct MountPoint<'a> {
    /// Beginning of the threads' names.
    pub name: &'a str,
    /// What the table of mounts shows as the source.
    pub source: &'a Path,
    /// The directory.
    pub dir: &'a Path,
    /// What the table of mounts shows as the type.
    pub fs_type: &'a str,
    /// Flags of mount(2).
    pub flags: MountFlags,
    /// How requests come.
    pub transport: Transport,
    /// Threads that take requests; through io_uring so many for each CPU.
    pub threads: usize,
    /// These threads stand back for a client that is alone on its CPU; see [`Config::stand_back`].
    pub stand_back: bool,
}

impl MountPoint<'_> {
    /// Mounts and serves what `fs` makes, the first of the transport's ways that works, and raises the mount's read-ahead.
    ///
    /// # Errors
    /// What the last way said.
    pub fn serve<F: FileSystem>(
        &self,
        wish: &InitConfig,
        fs: impl Fn() -> Arc<F>,
    ) -> Result<Session, StartError> {
        let nothing = StartError::at("serve")(io::Error::other("no way to mount"));
        let mut session = Err(nothing);
        for way in self.transport.ways() {
            session = self.serve_by(*way, wish, fs());
            if session.is_ok() {
                raise_read_ahead(self.dir);
                break;
            }
        }
        session
    }

    fn serve_by<F: FileSystem>(
        &self,
        way: TransportKind,
        wish: &InitConfig,
        fs: Arc<F>,
    ) -> Result<Session, StartError> {
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
        let config = Config {
            wish: *wish,
            way,
            name: self.name.into(),
            threads: self.threads,
            awake: (cpus / 2).max(1),
            ring_threads: self.threads,
            ring_cpus: None,
            ring_entries: 1,
            pin: true,
            stand_back: self.stand_back,
        };
        let switch = match way {
            TransportKind::Rings => {
                Some(UringSwitch::on().map_err(StartError::at("switch on FUSE over io_uring"))?)
            }
            TransportKind::Classic => None,
        };
        let data = format!(
            "rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other,max_read={REQUEST_BYTES_MAX}"
        );
        let fuse = mount(self.source, self.dir, self.fs_type, self.flags, &data)
            .map_err(StartError::at(format!("mount at {}", self.dir.display())))?;
        let started = Session::start(fuse, fs, &config);
        drop(switch);
        started.map_err(|error| {
            // Somebody's request may wait in it for an answer.
            let _ = force_unmount(self.dir);
            StartError::at("connect to FUSE")(error)
        })
    }
}

/// Raises the kernel's read-ahead, which FUSE alone can only lower. Without the right to, it stays.
fn raise_read_ahead(dir: &Path) {
    let Ok(meta) = std::fs::metadata(dir) else { return };
    let (major, minor) = (libc::major(meta.dev()), libc::minor(meta.dev()));
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    let _ = std::fs::write(path, READ_AHEAD_KIB.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_and_only_written_bypasses_the_page_cache() {
        let direct = |flags: i32, stay| handle_flags(flags as u32, stay) & open_flag::DIRECT_IO != 0;
        assert!(direct(libc::O_WRONLY | libc::O_APPEND, false));
        assert!(!direct(libc::O_WRONLY, true) && !direct(libc::O_RDWR, false));
    }

    #[test]
    fn the_probe_is_there_only_while_it_is_opened() {
        let probe = Probe::new("fs");
        let name = probe.name.clone();
        assert_eq!(probe.entry(ROOT, name.as_bytes()), None);
        probe.there.store(true, Ordering::Release);
        assert_eq!(probe.entry(ROOT, name.as_bytes()).map(|entry| entry.node), Some(PROBE_INO));
        assert_eq!(probe.entry(ROOT + 1, name.as_bytes()).or(probe.entry(ROOT, b"x")), None);
    }
}
