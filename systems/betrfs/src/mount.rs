//! Mounting: open the device, connect it to a directory, serve until it is unmounted, close it cleanly.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use betree::{CachedExtents, Compression, Features, FileStorage, Storage, UringStorage};
use fusewire::local::{self, MountPoint, Probe, StartError};
use fusewire::{Session, Transport};
use host::Host;
use host::device::{Blocker, Hold, Holder, InUse};
use host::mountinfo::MountEntry;
use host::wait::wait_until;
use rustix::fs::{AtFlags, StatxFlags};
use rustix::mount::MountFlags;

use crate::check::{CheckReport, check, dump};
use crate::error::Error;
use crate::fs::{Fs, LOST_DATA, Options, STATE, TAKES_WRITES};
use crate::fuse::{Server, Settings};
use crate::memory;
use crate::mountpoint::{self, TYPE};
use crate::overlay::Shared;
use crate::pruner::MemoryPruner;
use crate::watcher::Watcher;

/// How long a mount waits for the daemon of the one before to finish its last write.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a mount in use is tried again before that is said.
const UNMOUNT_PATIENCE: Duration = Duration::from_millis(200);
/// Bytes that are read of what a mount says of itself.
const STATE_BYTES_MAX: usize = 4096;
/// Inodes in memory, at about half a KiB each.
const INODES_MAX: usize = 60_000;

/// What mount(8) passes on, what the kernel shows of a mount (and mount(8) then repeats), and what is so anyway: the
/// kernel keeps no access times for FUSE, whatever is asked.
const IGNORED: [&str; 26] = [
    "async",
    "auto",
    "noauto",
    "defaults",
    "_netdev",
    "nofail",
    "atime",
    "noatime",
    "diratime",
    "nodiratime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "lazytime",
    "nolazytime",
    "user",
    "nouser",
    "default_permissions",
    "allow_other",
    "user_id",
    "group_id",
    "rootmode",
    "max_read",
    "blksize",
    "seclabel",
];
/// Options that a remount can change.
const REMOUNTABLE: [&str; 9] = ["remount", "ro", "rw", "suid", "nosuid", "dev", "nodev", "exec", "noexec"];
const REMOUNT: &str = "changes a file system that is mounted: `loadline mount betrfs` and mount(8) know it";

/// Result of mounting.
pub type Result<T> = std::result::Result<T, MountError>;

/// Why something could not be mounted or made.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// An option that is not known or has no sense.
    #[error("mount option `{option}`: {why}")]
    BadOption {
        /// As it was written.
        option: String,
        /// What would be right.
        why: String,
    },
    /// Something else uses the device.
    #[error("{path} is in use: {by}")]
    Busy {
        /// The device or image.
        path: String,
        /// Who has it, and what ends that.
        by: String,
    },
    /// It must not be formatted.
    #[error(transparent)]
    Refused(#[from] host::EraseRefused),
    /// The system refused something.
    #[error("{what}: {cause}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's error. (Not named as the source: whoever shows the chain of errors would show it twice.)
        cause: io::Error,
    },
    /// The file system.
    #[error("{path}: {cause}")]
    Fs {
        /// The device or image.
        path: String,
        /// What is wrong.
        cause: Error,
    },
    /// No program is known to have heard of it: what was written through a mapping the kernel says itself.
    #[error(
        "{path}: data that were written to a file are lost, and perhaps no program has heard of it: {reason}"
    )]
    LostData {
        /// The device or image.
        path: String,
        /// Why.
        reason: String,
    },
    /// The store takes no more writes.
    #[error(
        "{path}: the store has failed, and what was written but not acknowledged by a sync is lost: {reason}"
    )]
    Lost {
        /// The device or image.
        path: String,
        /// What failed, where, and what the system said.
        reason: String,
    },
    /// There is nothing that could be remounted or unmounted.
    #[error("{dir}: no betrfs is mounted there")]
    NotMounted {
        /// The directory.
        dir: String,
    },
    /// The daemon did not come up.
    #[error("{0}")]
    Daemon(String),
}

impl MountError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> MountError {
        let what = what.into();
        move |cause| MountError::Io { what, cause }
    }

    pub(crate) fn fs(path: &Path) -> impl FnOnce(Error) -> MountError {
        let path = path.display().to_string();
        move |cause| MountError::Fs { path, cause }
    }
}

/// How to mount. [`MountOptions::parse`] reads them from text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MountOptions {
    /// The file system's own options: cache and the like.
    pub fs: Options,
    /// What the table of mounts shows as the source; None for the source itself.
    pub shown_source: Option<PathBuf>,
    /// Nothing may be written.
    pub read_only: bool,
    /// Ignore set-user-ID bits.
    pub no_suid: bool,
    /// Ignore device nodes.
    pub no_dev: bool,
    /// Execute nothing.
    pub no_exec: bool,
    /// How requests get here.
    pub transport: Transport,
    /// Threads that take requests; through io_uring so many for each CPU.
    pub threads: usize,
    /// How long the kernel may keep names and attributes.
    pub ttl: Duration,
    /// Let the kernel collect writes: faster for small sequential ones, and small random ones are no longer blind.
    pub writeback: bool,
    /// What is written to a file just made stays in the kernel's page cache; one request more for each such file.
    pub keep_new: bool,
    /// Bypass the page cache of what is below.
    pub direct: bool,
    /// Use io_uring for the device, if the kernel has it.
    pub uring: bool,
    /// Keep threads that take turns at writing to a file from being held up by the scheduler.
    pub beat: bool,
    /// Keep a client that is alone on its CPU there, through io_uring.
    pub lone: bool,
    /// Lock the daemon's memory.
    pub lock_memory: bool,
    /// A file for what goes wrong, beside the system's log and the kernel's.
    pub log: Option<PathBuf>,
    /// Inodes in memory above which the kernel is asked to forget some.
    pub inodes_max: usize,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            fs: Options::with_store(betree::Options {
                cache_bytes: memory::cache_bytes(&Host::system()),
                ..Default::default()
            }),
            shown_source: None,
            read_only: false,
            no_suid: false,
            no_dev: false,
            no_exec: false,
            transport: Transport::Auto,
            threads: local::THREADS,
            ttl: local::TTL,
            writeback: false,
            keep_new: false,
            direct: true,
            uring: true,
            beat: true,
            lone: true,
            lock_memory: true,
            log: None,
            inodes_max: INODES_MAX,
        }
    }
}

fn size(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl MountOptions {
    /// Reads options as `mount -o` takes them, separated by commas; see `docs/betrfs.md`.
    ///
    /// # Errors
    /// [`MountError::BadOption`].
    pub fn parse(text: &str) -> Result<MountOptions> {
        MountOptions::default().with(text)
    }

    /// The same for [`open`]: the default size of the cache follows the limit on this process's memory, if it has one.
    ///
    /// # Errors
    /// [`MountError::BadOption`].
    pub fn parse_in_process(text: &str) -> Result<MountOptions> {
        let mut options = MountOptions::default();
        options.fs.store.cache_bytes = memory::cache_bytes_in_process(&Host::system());
        options.with(text)
    }

    fn with(self, text: &str) -> Result<MountOptions> {
        let mut options = self;
        for option in text.split(',').filter(|o| !o.is_empty()) {
            options.set(option).map_err(|why| MountError::BadOption { option: option.into(), why })?;
        }
        Ok(options)
    }

    fn set(&mut self, option: &str) -> std::result::Result<(), String> {
        let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
        let bytes = || value.and_then(size).ok_or("needs a size, such as 512M".to_owned());
        let number = || value.and_then(|v| v.parse::<u32>().ok()).ok_or("needs a number".to_owned());
        let store = &mut self.fs.store;
        match name {
            // Of two that say the opposite the last one counts, as mount(8) has it.
            "ro" | "rw" => self.read_only = name == "ro",
            "suid" | "nosuid" => self.no_suid = name == "nosuid",
            "dev" | "nodev" => self.no_dev = name == "nodev",
            "exec" | "noexec" => self.no_exec = name == "noexec",
            _ if IGNORED.contains(&name) => {}
            "remount" => return Err(REMOUNT.into()),
            "cache" => store.cache_bytes = bytes()? as usize,
            "memtable" => store.memtable_bytes = bytes()? as usize,
            "checkpoint" => store.checkpoint_interval = Duration::from_secs(u64::from(number()?.max(1))),
            "commit" => {
                let seconds = u64::from(number()?);
                store.sync_interval = (seconds > 0).then_some(Duration::from_secs(seconds));
            }
            "discard" => store.discard = true,
            "recover" => store.recover = true,
            "steps" => {
                let up_to = value.and_then(Features::up_to);
                store.steps =
                    up_to.ok_or_else(|| format!("needs v0.4, v0.6 or one of {:?}", Features::NAMES))?;
            }
            "nostep" if value.is_some_and(|v| store.steps.set(v, false)) => {}
            "compress" => store.compression = compression(value)?,
            "transport" => {
                let named = value.and_then(Transport::parse);
                self.transport = named.ok_or("needs auto, classic, uring or fastest")?;
            }
            "threads" => self.threads = number()?.clamp(1, 256) as usize,
            "ttl" => self.ttl = Duration::from_secs(u64::from(number()?)),
            "inodes" => self.inodes_max = (number()? as usize).max(1000),
            "idle_inodes" => self.fs.idle_nodes_max = number()? as usize,
            "writeback" => self.writeback = true,
            "keepnew" => self.keep_new = true,
            "buffered" => self.direct = false,
            "nouring" => self.uring = false,
            "nobeat" => self.beat = false,
            "nolone" => self.lone = false,
            "nolock" => self.lock_memory = false,
            "log" => {
                let path = value.map(PathBuf::from).filter(|path| path.is_absolute());
                self.log = Some(path.ok_or("needs an absolute path")?);
            }
            _ => return Err("is not known".into()),
        }
        Ok(())
    }

    /// What whoever mounts should know of `sync`: Linux (6.18) sends `FUSE_SYNCFS` for virtiofs and for a `fuseblk`
    /// mount only, whose device nobody but the kernel may have open. So `sync` returns without having meant anything.
    pub fn note_on_sync(&self) -> String {
        let instead = self.fs.store.sync_interval.map_or_else(
            || "nothing is durable until an fsync of anything, or umount (commit=0)".into(),
            |s| format!("all is durable after {} s (commit=), by fsync of anything at once", s.as_secs()),
        );
        format!("sync and syncfs do not reach a FUSE file system: {instead}")
    }

    /// Whether `text` asks to change a mount that is there.
    pub fn asks_remount(text: &str) -> bool {
        text.split(',').any(|option| option == "remount")
    }

    fn flags(&self) -> MountFlags {
        let mut flags = MountFlags::NOATIME;
        flags.set(MountFlags::RDONLY, self.read_only);
        flags.set(MountFlags::NOSUID, self.no_suid);
        flags.set(MountFlags::NODEV, self.no_dev);
        flags.set(MountFlags::NOEXEC, self.no_exec);
        flags
    }
}

fn compression(value: Option<&str>) -> std::result::Result<Compression, String> {
    let value = value.unwrap_or("lz4");
    match value.split_once(':').unwrap_or((value, "3")) {
        ("none", _) => Ok(Compression::None),
        ("lz4", _) => Ok(Compression::Lz4),
        ("zstd", level) => level.parse().map(Compression::Zstd).map_err(|_| "zstd:LEVEL".to_owned()),
        _ => Err("is none, lz4, zstd or zstd:LEVEL".into()),
    }
}

/// A device or image that nobody else may use meanwhile, nor another device that shows the same bytes: see
/// [`host::device::hold`]. It was found by its path once, and is opened by its descriptor.
#[derive(Debug)]
pub struct Claim {
    hold: Hold,
}

impl Claim {
    /// Claims `path`. One that a daemon is about to give back, since its file system is unmounted, is waited for up to
    /// `patience`, which is said; one that somebody looks at for a moment is waited for up to two seconds.
    ///
    /// # Errors
    /// [`MountError::Busy`] with who has it; [`MountError::Io`].
    pub fn take(path: &Path, patience: Duration) -> Result<Claim> {
        let start = Instant::now();
        let mut is_said = false;
        loop {
            let mut held = Ok(Err(InUse(path.into())));
            wait_until(HOLD_TRIES.min(patience), || {
                held = host::device::hold_to_write(path);
                !matches!(held, Ok(Err(_)))
            });
            let what = match held {
                Ok(Ok(hold)) => return Ok(Claim { hold }),
                Ok(Err(InUse(what))) => what,
                Err(error) => return Err(MountError::io(format!("open {}", path.display()))(error)),
            };
            let uses = host::device::uses(&Host::system(), &what);
            // what the kernel uses itself is not kept by a process that reads it besides
            let holder = Holder::find(&Host::system(), &what)
                .filter(|holder| uses.is_empty() || !holder.mounts.is_empty());
            let is_ending = holder.as_ref().is_some_and(Holder::is_ending);
            let is_mounted = holder.as_ref().is_some_and(|holder| !holder.mounts.is_empty())
                || uses.iter().any(|used| matches!(used, Blocker::Mounted(_) | Blocker::Swap(_)));
            let patience = if is_ending { patience } else { patience.min(GLANCE) };
            if is_mounted || start.elapsed() >= patience {
                let uses = uses.first().map_or_else(|| UNSEEN.to_owned(), Blocker::to_string);
                let by = holder.map_or(uses, |holder| holder.to_string());
                return Err(MountError::Busy { path: path.display().to_string(), by });
            }
            if let Some(Holder { pid, name, .. }) = holder.filter(|_| is_ending && !is_said) {
                is_said = true;
                host::note!(
                    "{} is unmounted, and process {pid} ({name}) writes what is left: waiting up to {} s for it",
                    path.display(),
                    patience.as_secs()
                );
            }
        }
    }

    /// The storage on it, as the options say; `named` is its path for people. The claim ends with the storage's last owner,
    /// which is the last that can write.
    fn storage(self, named: &Path, options: &MountOptions) -> Result<Shared> {
        // what is claimed itself: so nobody has it before the last write of a process that is killed
        let open = |direct| FileStorage::of_file(self.hold.file().try_clone()?, direct);
        let storage = storage(&open, named, options)?;
        Ok(Shared::new(storage, self))
    }
}

/// How long a claim is tried before the one who has it is looked for: what all processes have open is not asked for a
/// daemon that ends within milliseconds.
const HOLD_TRIES: Duration = Duration::from_millis(300);
/// How long somebody may look at a device (blkid, another `mkfs` that is refused) before it counts as in use.
const GLANCE: Duration = Duration::from_secs(2);
/// Who has it when nobody is found.
const UNSEEN: &str =
    "by a process that cannot be seen, of another user or another PID namespace; root sees all (fuser)";

/// Opens storage as the options say, with direct I/O or without; what the system cannot do is done without. `named` is its
/// path for people.
pub(crate) fn storage(
    open: &dyn Fn(bool) -> io::Result<FileStorage>,
    named: &Path,
    options: &MountOptions,
) -> Result<Box<dyn Storage>> {
    // Without the step `sfl` the store lies on a file as on any other program's.
    let direct = options.direct && options.fs.store.steps.sfl;
    let file = match open(direct) {
        Err(e) if direct && e.raw_os_error() == Some(libc::EINVAL) => open(false),
        opened => opened,
    };
    let file = file.map_err(MountError::io(format!("open {}", named.display())))?;
    if !options.uring || !options.fs.store.steps.sfl {
        return Ok(Box::new(file));
    }
    match UringStorage::new(file) {
        Ok(uring) => Ok(Box::new(uring)),
        Err(_) => storage(open, named, &MountOptions { uring: false, ..options.clone() }),
    }
}

/// Checks the file system on `source`, which nobody may have mounted; see [`crate::check()`].
///
/// # Errors
/// [`MountError::Busy`], [`MountError::Fs`], [`MountError::Io`].
pub fn check_device(source: &Path, repair: bool) -> Result<CheckReport> {
    let claim = Claim::take(source, PATIENCE)?;
    check(claim.storage(source, &MountOptions::default())?, repair).map_err(MountError::fs(source))
}

/// Writes what the file system on `source` consists of; see [`crate::dump()`].
///
/// # Errors
/// [`MountError::Busy`], [`MountError::Fs`], [`MountError::Io`].
pub fn dump_device(source: &Path, out: &mut dyn io::Write) -> Result<()> {
    let claim = Claim::take(source, PATIENCE)?;
    dump(claim.storage(source, &MountOptions::default())?, out).map_err(MountError::fs(source))
}

/// A file system that is being served. Dropping it without [`Mounted::unmount`] or [`Mounted::wait`] detaches it.
pub struct Mounted {
    fs: Arc<Fs>,
    session: Option<Session>,
    pruner: Option<MemoryPruner>,
    watcher: Option<Watcher>,
    dir: PathBuf,
    unmounter: Unmounter,
    source: PathBuf,
}

/// Changes flags of the mount at `dir`, which a daemon goes on serving: `options` is text as of
/// [`MountOptions::parse`], with `remount` in it. Returns those that only a new mount could change: mount(8) repeats what
/// /etc/fstab says of the mount, so they are no mistake.
///
/// # Errors
/// [`MountError::BadOption`] for one that is none; [`MountError::NotMounted`]; [`MountError::Io`], such as EBUSY if files
/// are open for writing that is to end.
pub fn remount(dir: &Path, options: &str) -> Result<Vec<String>> {
    let dir = dir.canonicalize().map_err(MountError::io(dir.display().to_string()))?;
    let mut wanted = MountOptions::default();
    let mut left = Vec::new();
    for option in options.split(',').filter(|o| !o.is_empty() && *o != "remount") {
        wanted.set(option).map_err(|why| MountError::BadOption { option: option.into(), why })?;
        let name = option.split_once('=').map_or(option, |(name, _)| name);
        if !REMOUNTABLE.contains(&name) && !IGNORED.contains(&name) {
            left.push(option.to_owned());
        }
    }
    let here = mount_at(&dir)?;
    let pinned = here.map_or(Ok(None), |here| mountpoint::pin(&dir, &here));
    let pinned = pinned.map_err(MountError::io(dir.display().to_string()))?;
    let Some(pinned) = pinned else {
        return Err(MountError::NotMounted { dir: dir.display().to_string() });
    };
    rustix::mount::mount_remount(host::device::reopen_path(&pinned), wanted.flags(), c"")
        .map_err(|e| MountError::io(format!("remount {}", dir.display()))(e.into()))?;
    Ok(left)
}

/// What is mounted at `dir`, as far as can be seen there.
fn mount_at(dir: &Path) -> Result<Option<MountEntry>> {
    mountpoint::mount_at(dir).map_err(MountError::io("the table of mounts"))
}

/// Unmounts the betrfs at `dir`, which a daemon serves, after a sync; says if the store had failed by then. With `lazy` one that
/// is in use goes when its last user leaves.
///
/// # Errors
/// [`MountError::NotMounted`]; [`MountError::Io`], such as EBUSY. It is unmounted all the same with [`MountError::Lost`] and
/// [`MountError::LostData`], and if the sync failed.
pub fn umount(dir: &Path, lazy: bool) -> Result<()> {
    let shown = || dir.display().to_string();
    // That of a dead daemon cannot be resolved.
    let dir = dir.canonicalize().or_else(|_| std::path::absolute(dir)).map_err(MountError::io(shown()))?;
    let here = mount_at(&dir)?.filter(|mount| mount.fs_type == TYPE);
    let here = here.ok_or_else(|| MountError::NotMounted { dir: shown() })?;
    // The first has the kernel write what it holds; the daemon hears of the second only.
    let synced = File::open(&dir).and_then(|root| {
        rustix::fs::syncfs(&root)?;
        root.sync_all()
    });
    let mut state = vec![0; STATE_BYTES_MAX];
    let read = rustix::fs::getxattr(&dir, STATE, &mut state[..]);
    let state = read.map(|bytes| String::from_utf8_lossy(&state[..bytes]).into_owned());
    // The sync may have taken minutes. What is mounted here meanwhile is somebody else's.
    if mount_at(&dir)?.is_none_or(|now| now.device_number != here.device_number) {
        return Err(MountError::NotMounted { dir: shown() });
    }
    match host::mount::unmount(&here.target, UNMOUNT_PATIENCE) {
        Err(error) if lazy && error.raw_os_error() == Some(libc::EBUSY) => host::mount::detach(&here.target),
        unmounted => unmounted,
    }
    .map_err(MountError::io(format!("unmount {}", shown())))?;
    match state {
        Ok(state) if state != TAKES_WRITES => Err(match state.strip_prefix(LOST_DATA) {
            Some(reason) => MountError::LostData { path: here.source, reason: reason.into() },
            None => MountError::Lost { path: here.source, reason: state },
        }),
        _ => synced.map_err(MountError::io(format!("{} is unmounted, but its sync failed", shown()))),
    }
}

/// Opens the file system on `source` for use in this process only; [`MountOptions::parse_in_process`] reads options for that.
/// As long as it is open nobody else can use the device, which two would destroy.
///
/// # Errors
/// As [`mount`].
pub fn open(source: &Path, options: &MountOptions) -> Result<Fs> {
    let claim = Claim::take(source, PATIENCE)?;
    let mut within = options.fs.clone();
    // A quarter of the cache for whole files: there is no page cache of the kernel's in front of it.
    within.contents_bytes = within.store.cache_bytes / 4;
    within.store.cache_bytes -= within.contents_bytes;
    Fs::open(claim.storage(source, options)?, &within).map_err(MountError::fs(source))
}

/// Mounts the file system on `source`, a block device or image, at `dir`, served by threads of this process. If one of them
/// panics the process is aborted: what is half done must not be written, and those who wait for an answer must not wait for ever.
///
/// # Errors
/// [`MountError::Busy`] if somebody uses the device; [`MountError::Fs`] if it holds no file
/// system; [`MountError::Io`].
pub fn mount(source: &Path, dir: &Path, options: &MountOptions) -> Result<Mounted> {
    mount_fs(open_to_serve(source, options)?, source, dir, options)
}

/// Opens the file system on `source`, with the caches of one that the kernel's are before.
pub(crate) fn open_to_serve(source: &Path, options: &MountOptions) -> Result<Arc<Fs>> {
    memory::limit_heaps();
    let claim = Claim::take(source, PATIENCE)?;
    let mut within = options.fs.clone();
    // A quarter and up to 32 MiB for what the store does not count: slack of the allocator, above all.
    let cache = within.store.cache_bytes;
    within.store.cache_bytes -= cache / 4 + (cache / 8).min(32 << 20);
    // What is read stays in the kernel's page cache, what is written only there where it is told to.
    let kernel_keeps = options.writeback || options.keep_new;
    within.store.cached_extents = if kernel_keeps { CachedExtents::Nothing } else { CachedExtents::Written };
    let fs = Fs::open(claim.storage(source, options)?, &within).map_err(MountError::fs(source))?;
    Ok(Arc::new(fs))
}

/// Mounts a file system that is open already at `dir`; `source` is what the table of mounts shows.
///
/// # Errors
/// [`MountError::Io`].
pub fn mount_fs(fs: Arc<Fs>, source: &Path, dir: &Path, options: &MountOptions) -> Result<Mounted> {
    let dir = dir.canonicalize().map_err(MountError::io(dir.display().to_string()))?;
    let probe = Arc::new(Probe::new("betrfs"));
    let settings = Settings {
        ttl: options.ttl,
        writeback: options.writeback,
        beat: options.beat && !options.writeback,
        readdirplus: options.fs.store.steps.dc,
        keep_new: options.keep_new,
        probe: probe.clone(),
    };
    let shown = options.shown_source.as_deref().unwrap_or(source);
    let place = MountPoint {
        name: "betrfs",
        source: shown,
        dir: &dir,
        fs_type: TYPE,
        flags: options.flags(),
        transport: options.transport,
        threads: options.threads,
        stand_back: options.lone,
    };
    let server = || Arc::new(Server::new(fs.clone(), settings.clone()));
    let session = place.serve(&settings.wish(), server);
    let session = session.map_err(|StartError { what, cause }| MountError::Io { what, cause })?;
    let duty = session.duty();
    if let Some(duty) = &duty {
        fs.call_before_waiting(duty.clone());
    }
    probe.open_in(&dir, &session.notifier());
    let pruner = Some(MemoryPruner::start(fs.clone(), session.notifier(), options.inodes_max, duty));
    let watcher = Some(Watcher::start(fs.clone(), &dir, shown));
    let unmounter = Unmounter::new(&dir);
    Ok(Mounted { fs, session: Some(session), pruner, watcher, dir, unmounter, source: source.to_owned() })
}

/// Takes a mount of this process away, and no other that came to its place.
#[derive(Clone, Debug)]
pub struct Unmounter {
    dir: PathBuf,
    /// The mounted file system's number, if it could be had.
    device: Option<(u32, u32)>,
    /// It is gone, and its number may be another's.
    is_gone: Arc<AtomicBool>,
}

impl Unmounter {
    fn new(dir: &Path) -> Unmounter {
        Unmounter { dir: dir.to_owned(), device: device_of(dir).ok(), is_gone: Arc::default() }
    }

    /// Asks the system to unmount. False if the mount is in use: then it goes, and [`Mounted::wait`] ends, when the
    /// last user has left; nobody new gets in. What another file system lies over, or in the place of, stays as it is.
    ///
    /// # Errors
    /// [`MountError::Io`].
    pub fn request(&self) -> Result<bool> {
        let dir = &self.dir;
        let is_another =
            || self.device.is_some() && device_of(dir).is_ok_and(|found| Some(found) != self.device);
        if self.is_gone.load(Ordering::Acquire) || is_another() {
            return Ok(true);
        }
        fusewire::unmount(dir).map_err(MountError::io(format!("unmount {}", dir.display())))
    }
}

/// The number of the file system at `dir`, which is not asked itself: it may not answer any more.
fn device_of(dir: &Path) -> std::io::Result<(u32, u32)> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let stat = rustix::fs::statx(rustix::fs::CWD, dir, flags, StatxFlags::empty())?;
    Ok((stat.stx_dev_major, stat.stx_dev_minor))
}

impl Mounted {
    /// The file system, for figures.
    pub fn fs(&self) -> &Arc<Fs> {
        &self.fs
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What takes the mount away.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Unmounts, waits for the last user, closes the file system.
    ///
    /// # Errors
    /// As [`Mounted::wait`].
    pub fn unmount(self) -> Result<()> {
        self.unmounter.request()?;
        self.wait()
    }

    /// Serves until somebody unmounts, then closes the file system: everything is in its place afterwards.
    ///
    /// # Errors
    /// [`MountError::Io`] if the connection broke; [`MountError::Fs`] if closing failed.
    pub fn wait(mut self) -> Result<()> {
        // open until the device is given back: it shows whoever waits for that who has it (`host::device::Holder`)
        let connection = self.session.as_ref().map(Session::notifier);
        let served = self.session.take().map_or(Ok(()), Session::join);
        self.unmounter.is_gone.store(true, Ordering::Release);
        drop((self.pruner.take(), self.watcher.take()));
        let settled = self.fs.settle().map_err(|error| match self.fs.failure() {
            Some(reason) => {
                MountError::Lost { path: self.source.display().to_string(), reason: reason.to_string() }
            }
            None => MountError::fs(&self.source)(error),
        });
        drop(self);
        drop(connection);
        let served = served.map_err(MountError::io("serve"));
        if let (Err(broken), Err(_)) = (&served, &settled) {
            host::daemon::log::error(broken);
        }
        settled.and(served)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop((self.pruner.take(), self.watcher.take()));
        if let Some(session) = self.session.take() {
            let _ = self.unmounter.request();
            // Whoever is left is served on; who drops this does not wait for them.
            drop(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;

    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_named() {
        let options =
            MountOptions::parse("rw,noatime,cache=64M,threads=3,compress=zstd:5,ttl=1,ro,transport=uring")
                .expect("parse");
        assert_eq!(options.fs.store.cache_bytes, 64 << 20);
        assert_eq!((options.threads, options.ttl, options.read_only), (3, Duration::from_secs(1), true));
        assert_eq!(options.transport, Transport::Uring);
        assert!(!options.fs.store.recover && MountOptions::parse("recover").expect("parse").fs.store.recover);
        assert!(matches!(options.fs.store.compression, Compression::Zstd(5)));
        let steps = MountOptions::parse("steps=range,nostep=sfl").expect("parse").fs.store.steps;
        assert_eq!(steps, Features { range: true, ..Features::NONE });
        for bad in [
            "steps=v1",
            "nostep=x",
            "cache",
            "cache=x",
            "threads=-1",
            "compress=rar",
            "turbo",
            "log=relative",
            "transport=pigeon",
        ] {
            assert!(MountOptions::parse(bad).is_err(), "{bad}");
        }
    }

    /// xfstests generic/003, and what mount(8) repeats of a mount that it changes.
    #[test]
    fn options_of_access_times_and_of_the_table_of_mounts_are_taken() {
        let text = "rw,nodiratime,strictatime,relatime,lazytime,user_id=0,group_id=0,max_read=1048576,ro,nosuid,suid";
        let options = MountOptions::parse(text).expect("parse");
        assert!(options.read_only && !options.no_suid, "the last one counts");
        let refused = MountOptions::parse("remount,ro").expect_err("parsed").to_string();
        assert!(refused.contains("`remount`"), "{refused}");
    }

    #[test]
    fn a_mount_says_what_sync_does_not_do() {
        let note = |text| MountOptions::parse(text).expect("parse").note_on_sync();
        assert!(note("").contains("after 1 s"), "{}", note(""));
        assert!(note("commit=0").contains("nothing is durable until"), "{}", note("commit=0"));
    }

    #[test]
    fn a_remount_says_what_it_cannot_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let refused = |options| remount(dir.path(), options).expect_err("remounted").to_string();
        assert!(refused("remount,ro").contains("no betrfs is mounted there"));
        assert!(refused("remount,turbo=1").contains("`turbo=1`: is not known"));
    }

    #[test]
    fn what_is_no_file_system_is_told_so() {
        for len in [0, 100_000, 64 << 20] {
            let image = tempfile::NamedTempFile::new().expect("a file");
            image.as_file().set_len(len).expect("set its length");
            let refused = open(image.path(), &MountOptions::default()).err().expect("opened").to_string();
            assert!(refused.contains("no betrfs file system"), "{len} bytes: {refused}");
        }
    }

    #[test]
    fn an_error_is_told_once() {
        let missing = Claim::take(Path::new("/nowhere/at-all"), Duration::ZERO).expect_err("missing");
        let mut told = missing.to_string();
        let mut next: Option<&dyn std::error::Error> = std::error::Error::source(&missing);
        while let Some(error) = next {
            told += &error.to_string();
            next = error.source();
        }
        assert_eq!(told.matches("No such file").count(), 1, "{told}");
    }

    /// Claims what nobody has. A program that another test starts has this one's descriptors until it begins.
    fn free(path: &Path) -> Claim {
        let begin = Instant::now();
        loop {
            match Claim::take(path, Duration::ZERO) {
                Ok(claim) => return claim,
                Err(error) => assert!(begin.elapsed() < Duration::from_secs(30), "{error}"),
            }
        }
    }

    #[test]
    fn a_claim_excludes_others() {
        let image = tempfile::NamedTempFile::new().expect("a file");
        let claim = free(image.path());
        assert!(matches!(Claim::take(image.path(), Duration::ZERO), Err(MountError::Busy { .. })));
        drop(claim);
        drop(free(image.path()));
    }

    #[test]
    fn who_has_an_image_is_said_at_once() {
        let image = tempfile::NamedTempFile::new().expect("a file");
        // flock(1) takes the lock and holds it while it runs the program
        let mut other = std::process::Command::new("flock");
        let mut other = other
            .args(["--no-fork", "-x", image.path().to_str().expect("UTF-8"), "sleep", "600"])
            .spawn()
            .expect("flock");
        assert!(wait_until(Duration::from_secs(20), || matches!(
            host::device::hold(image.path()),
            Ok(Err(_))
        )));
        let begin = Instant::now();
        let refused = Claim::take(image.path(), PATIENCE).expect_err("claimed twice").to_string();
        let took = begin.elapsed();
        other.kill().and_then(|()| other.wait()).expect("end it");
        assert!(refused.contains("is in use: process ") && refused.contains("has it"), "{refused}");
        assert!(took < PATIENCE / 2, "said after {took:?}");
    }

    #[test]
    fn the_storage_of_a_claim_is_what_was_claimed_though_its_name_means_another_file_by_then() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, letter) = (dir.path().join("image"), dir.path().join("letter"));
        std::fs::write(&path, [0; 8192]).expect("write");
        std::fs::write(&letter, [7; 8192]).expect("write");
        let claim = free(&path);
        std::fs::rename(&letter, &path).expect("swap");
        let storage = claim.storage(&path, &MountOptions::default()).expect("open");
        storage.write_at(&betree::storage::AlignedBuf::zeroed(4096), 0).expect("write");
        assert!(std::fs::read(&path).expect("read") == [7; 8192], "the other file was written to");
    }

    /// As the kernel keeps a file open for a write that is under way in a ring when its process is killed.
    #[test]
    fn what_still_writes_keeps_the_claim() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().canonicalize().expect("its own path").join("image");
        std::fs::write(&path, [0; 8192]).expect("write");
        for descriptor in 0.. {
            let claim = free(&path);
            let storage = claim.storage(&path, &MountOptions::default()).expect("open");
            let open = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
            let ours = open.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|file| file == path));
            let mut numbers = ours.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            let Some(number) = numbers.nth(descriptor) else {
                assert!(descriptor > 0, "it is not open");
                return;
            };
            // SAFETY: it is open, and the storage or its claim, which live, have it.
            let one = unsafe { BorrowedFd::borrow_raw(number) };
            let under_way = one.try_clone_to_owned().expect("another descriptor");
            drop(storage);
            assert!(matches!(Claim::take(&path, Duration::ZERO), Err(MountError::Busy { .. })));
            drop(under_way);
        }
    }

    #[test]
    fn a_file_system_that_is_open_in_a_process_is_opened_by_no_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("image");
        let made = crate::FormatOptions { size: Some(64 << 20), ..Default::default() };
        crate::format(&path, &made).expect("format");
        let fs = open(&path, &MountOptions::default()).expect("open");
        assert!(matches!(Claim::take(&path, Duration::ZERO), Err(MountError::Busy { .. })));
        drop(fs);
        drop(free(&path));
    }
}
