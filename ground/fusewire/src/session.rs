//! A connection from its handshake to its end.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::abort::AbortOnPanic;
use crate::classic::{Worker, read_init};
use crate::device::Device;
use crate::notify::Notifier;
use crate::ring;
use crate::serve::FileSystem;
use crate::throttle::WorkerThrottle;
use crate::transport::TransportKind;
use crate::wire::{Capabilities, InitConfig, Operation, Request, init_flag};

const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";
const ONLINE_CPUS: &str = "/sys/devices/system/cpu/online";

/// How a connection is served.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the kernel is asked for.
    pub wish: InitConfig,
    /// Which way the requests come.
    pub way: TransportKind,
    /// Beginning of the threads' names.
    pub name: String,
    /// Threads that read `/dev/fuse`, for [`TransportKind::Classic`].
    pub threads: usize,
    /// So many of them never rest; see [`WorkerThrottle`]. As many as `threads`: none does.
    pub awake: usize,
    /// Threads for each CPU that is used, for [`TransportKind::Rings`]; all others have one together.
    pub ring_threads: usize,
    /// The CPUs that are used; none: those that are online.
    pub ring_cpus: Option<Vec<u16>>,
    /// Requests that each of these threads takes at once, which is more than one only if all are answered at once or
    /// [later](crate::Reply::later).
    pub ring_entries: u16,
    /// Keep these threads on their CPU.
    pub pin: bool,
    /// Such a thread stands back for a client that is alone on its CPU, so that it stays there; only if they are kept on theirs.
    pub stand_back: bool,
}

/// Opens `/dev/fuse` and mounts it at `target`, an absolute path to which no link leads; `data` are the mount's options, but
/// for the descriptor.
///
/// # Errors
/// As of open(2) and mount(2), with what would help where that is known.
pub fn mount(
    source: &Path,
    target: &Path,
    fs_type: &str,
    flags: MountFlags,
    data: &str,
) -> io::Result<OwnedFd> {
    let fuse = File::options().read(true).write(true).open(DEVICE).map_err(without_device)?;
    let fuse = OwnedFd::from(fuse);
    let data = std::ffi::CString::new(format!("fd={},{data}", fuse.as_raw_fd()))?;
    // the directory is pinned: one that was put in its place meanwhile is not mounted over
    let open = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let pinned = openat2(CWD, target, open, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let place = host::device::reopen_path(&pinned);
    rustix::mount::mount(source, &place, fs_type, flags, Some(data.as_c_str())).map_err(without_right)?;
    Ok(fuse)
}

/// The device that the kernel's FUSE client is reached by.
const DEVICE: &str = "/dev/fuse";

fn without_device(error: io::Error) -> io::Error {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => {
            "load the kernel's module (modprobe fuse), or give the container the device (--device /dev/fuse)"
        }
        io::ErrorKind::PermissionDenied => "run as root, or let this user open it",
        _ => return io::Error::new(error.kind(), format!("{DEVICE}: {error}")),
    };
    io::Error::new(error.kind(), format!("{DEVICE}: {error}; {remedy}"))
}

fn without_right(error: Errno) -> io::Error {
    let cause = io::Error::from(error);
    if error != Errno::PERM {
        return cause;
    }
    let remedy = "mounting needs root (the capability CAP_SYS_ADMIN): run with sudo, or in a container with --cap-add SYS_ADMIN";
    io::Error::new(cause.kind(), format!("{cause}; {remedy}"))
}

/// Fails every request to the file system mounted at `target`, then and later, and takes the mount away: the way out of
/// a hang.
///
/// # Errors
/// As of umount(2).
pub fn force_unmount(target: &Path) -> io::Result<()> {
    let (_parent, target) = pinned(target)?;
    let flags = UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    Ok(rustix::mount::unmount(&target, flags)?)
}

/// See [`host::mount::pinned`].
fn pinned(target: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let utf8 = target.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
    let (parent, target) = host::mount::pinned(utf8.into())?;
    Ok((parent, target.into()))
}

/// Unmounts what is at `target`. False if it is in use: then it goes, and [`Session::join`] ends, when the last user has
/// left; nobody new gets in. What is unmounted already is so.
///
/// # Errors
/// As of umount(2).
pub fn unmount(target: &Path) -> io::Result<bool> {
    let (_parent, target) = match pinned(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        pinned => pinned?,
    };
    match rustix::mount::unmount(&target, UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(true),
        Err(Errno::BUSY) => {
            let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
            Ok(rustix::mount::unmount(&target, flags).map(|()| false)?)
        }
        Err(Errno::INVAL | Errno::NOENT) => Ok(true),
        Err(e) => Err(e.into()),
    }
}

/// A connection that is being served.
#[derive(Debug)]
pub struct Session {
    device: Arc<Device>,
    duty: Option<Arc<WorkerThrottle>>,
    capabilities: Capabilities,
    way: TransportKind,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Session {
    /// Shakes hands on `fuse`, which [`mount`] gave, and starts serving.
    ///
    /// # Errors
    /// What the kernel or the system says; that the kernel has no rings, if they are asked for. The mount must then be
    /// taken away with [`force_unmount`]: requests may wait in it.
    pub fn start<F: FileSystem>(fuse: OwnedFd, fs: Arc<F>, config: &Config) -> io::Result<Session> {
        let device = Arc::new(Device(fuse));
        let rings = config.way == TransportKind::Rings;
        let mut wish = config.wish;
        if rings {
            wish.flags |= init_flag::OVER_IO_URING;
        }
        let capabilities = shake_hands(&device, &wish)?;
        if rings && !capabilities.has(init_flag::OVER_IO_URING) {
            return Err(io::Error::other("the kernel offers no FUSE over io_uring; is enable_uring on?"));
        }
        fs.connected(Notifier(device.clone()));
        let request_bytes_max = wish.request_bytes_max as usize;
        let readers = if rings { 1 } else { config.threads.max(1) };
        let duty = (!rings && config.awake < readers)
            .then(|| Ok::<_, io::Error>(WorkerThrottle::new(device.0.try_clone()?, readers, config.awake)))
            .transpose()?
            .map(Arc::new);
        let mut threads = Vec::new();
        for number in 0..readers {
            let own = if number == 0 { device.clone() } else { Arc::new(device.cloned()?) };
            let worker = Worker { device: own, fs: fs.clone(), duty: duty.clone(), request_bytes_max };
            let named = std::thread::Builder::new().name(format!("{}-{number}", config.name));
            threads.push(named.spawn(move || {
                let _guard = AbortOnPanic::new();
                worker.run()
            })?);
        }
        if rings {
            let entries = config.ring_entries.max(1);
            let (device, pin, threads_each) = (device.clone(), config.pin, config.ring_threads.max(1));
            let lone = (pin && config.stand_back).then(Arc::default);
            let common =
                ring::Common { device, fs, entries, threads: threads_each, pin, lone, request_bytes_max };
            let used = config.ring_cpus.clone().map_or_else(|| cpus(ONLINE_CPUS), Ok)?;
            let possible = cpus(POSSIBLE_CPUS)?.len() as u16;
            threads.extend(ring::start(common, possible, &used, &config.name)?);
        }
        Ok(Session { device, duty, capabilities, way: config.way, threads })
    }

    /// What was agreed.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Which way the requests come.
    pub fn way(&self) -> TransportKind {
        self.way
    }

    /// Who tells the kernel something.
    pub fn notifier(&self) -> Notifier {
        Notifier(self.device.clone())
    }

    /// Which threads rest; none if they never do.
    pub fn duty(&self) -> Option<Arc<WorkerThrottle>> {
        self.duty.clone()
    }

    /// Waits until the file system is unmounted, or its connection aborted.
    ///
    /// # Errors
    /// What ended a thread early.
    pub fn join(self) -> io::Result<()> {
        let mut ended = Ok(());
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => ended = ended.and(Err(error)),
                Err(_) => ended = ended.and(Err(io::Error::other("a thread that served requests panicked"))),
            }
        }
        ended
    }
}

fn shake_hands(device: &Device, wish: &InitConfig) -> io::Result<Capabilities> {
    loop {
        let bytes = read_init(device)?;
        let Some(Request { header, operation: Operation::Init(asked) }) = Request::parse(&bytes) else {
            return Err(io::Error::other("the kernel's first request is not INIT"));
        };
        if asked.is_spoken() {
            let (answer, capabilities) = asked.answer(wish);
            device.answer(header.unique, 0, &answer);
            return Ok(capabilities);
        }
        if asked.major <= 7 {
            device.answer(header.unique, libc::EPROTO, &[]);
            let what = format!("FUSE {}.{}: at least 7.31 is needed (Linux 5.4)", asked.major, asked.minor);
            return Err(io::Error::other(what));
        }
        // A kernel of the future asks again when it hears which version is spoken here.
        let (answer, _) = asked.answer(&InitConfig { flags: 0, ..*wish });
        device.answer(header.unique, 0, &answer);
    }
}

/// The CPUs that a file of the kernel's lists. It has as many queues as there are possible ones.
fn cpus(file: &str) -> io::Result<Vec<u16>> {
    let text = std::fs::read_to_string(file)?;
    cpus_in(text.trim()).ok_or_else(|| io::Error::other(format!("{file}: cannot read `{text}`")))
}

/// The CPUs in a list such as `0-3` or `0,2-3`.
fn cpus_in(list: &str) -> Option<Vec<u16>> {
    let mut all = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        if last < first {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

impl AsFd for Session {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.device.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn lists_of_cpus_are_read() {
        let lists = ["0", "0-1", "0,2-5", "3-2", "", "0-70000"].map(super::cpus_in);
        assert_eq!(lists, [Some(vec![0]), Some(vec![0, 1]), Some(vec![0, 2, 3, 4, 5]), None, None, None]);
    }
}
