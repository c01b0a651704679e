//! Looks whether the store has stopped taking writes: says so in the daemon's log, and has the mount show it.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use host::daemon::log;
use host::mountinfo::MountEntry;
use rustix::mount::MountFlags;

use crate::fs::Fs;
use crate::mountpoint::{mount_at, pin};

/// How often it looks.
const INTERVAL: Duration = Duration::from_millis(250);
/// Longest time between two attempts to make the mount read-only, which files that are open for writing hinder.
const INTERVAL_MAX: Duration = Duration::from_secs(8);

/// The thread that looks.
pub(crate) struct Watcher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Watches the store of `fs`, which is mounted at `dir`; `source` is for people. Without a thread, writes still fail.
    pub fn start(fs: Arc<Fs>, dir: &Path, source: &Path) -> Watcher {
        let (stop, stopped) = mpsc::channel::<()>();
        let (dir, source) = (dir.to_owned(), source.display().to_string());
        let watch = move || {
            let sleep = |time| stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            while sleep(INTERVAL) {
                let Some(reason) = fs.failure() else { continue };
                let at = dir.display();
                log::error(format_args!(
                    "{source} at {at} has become read-only, until it is mounted again: {reason}"
                ));
                let mut pause = INTERVAL;
                let is_done =
                    || mount_at(&dir).is_ok_and(|here| here.is_none_or(|here| make_read_only(&dir, &here)));
                while !is_done() && sleep(pause) {
                    pause = (pause * 2).min(INTERVAL_MAX);
                }
                return;
            }
        };
        let thread = std::thread::Builder::new().name("betrfs-watch".into()).spawn(watch).ok();
        Watcher { stop: Some(stop), thread }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes the mount at `dir` read-only for the table of mounts and statfs(2). False if that is to be tried again.
fn make_read_only(dir: &Path, here: &MountEntry) -> bool {
    // What others have mounted over it, or put in its place, is not ours to change.
    let Ok(Some(pinned)) = pin(dir, here) else { return true };
    // Of this mount alone, which asks nothing of the file system.
    let flags = flags(here) | MountFlags::BIND | MountFlags::RDONLY;
    let changed = rustix::mount::mount_remount(host::device::reopen_path(&pinned), flags, c"");
    changed != Err(rustix::io::Errno::BUSY)
}

/// The flags that the mount has and is to keep.
fn flags(mount: &MountEntry) -> MountFlags {
    let has = |option: &str| mount.options.split(',').any(|one| one == option);
    let named = [
        ("nosuid", MountFlags::NOSUID),
        ("nodev", MountFlags::NODEV),
        ("noexec", MountFlags::NOEXEC),
        ("noatime", MountFlags::NOATIME),
    ];
    named.into_iter().filter(|(name, _)| has(name)).map(|(_, flag)| flag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mountpoint::TYPE;
    use host::Host;
    use std::os::unix::fs::symlink;

    /// A mount, taken away at the end.
    struct Tmpfs(tempfile::TempDir);

    impl Tmpfs {
        fn mount() -> Tmpfs {
            let dir = tempfile::tempdir().expect("a directory");
            rustix::mount::mount("none", dir.path(), "tmpfs", MountFlags::empty(), c"").expect("mount");
            Tmpfs(dir)
        }

        /// What the table of mounts would say if it were ours, below the name `dir`.
        fn entry(&self, dir: &Path) -> MountEntry {
            let mounts = Host::system().mounts().expect("the table of mounts");
            let found =
                mounts.into_iter().find(|mount| mount.target == self.0.path().to_str().expect("UTF-8"));
            let target = dir.to_str().expect("UTF-8").into();
            MountEntry { fs_type: TYPE.into(), target, ..found.expect("it is mounted") }
        }

        fn is_read_only(&self) -> bool {
            std::fs::write(self.0.path().join("file"), "x").is_err()
        }
    }

    impl Drop for Tmpfs {
        fn drop(&mut self) {
            let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
        }
    }

    /// Between the look at the table and the call anybody who may write to the directory above can put something else there.
    #[test]
    fn what_took_the_place_of_the_mount_is_not_made_read_only() {
        needs::needs!(Mounts);
        let (ours, other) = (Tmpfs::mount(), Tmpfs::mount());
        let another = MountEntry { device_number: "0:1".into(), ..other.entry(other.0.path()) };
        assert!(make_read_only(other.0.path(), &another));
        let link = ours.0.path().join("link");
        symlink(other.0.path(), &link).expect("a link");
        assert!(make_read_only(&link, &other.entry(&link)));
        assert!(!other.is_read_only());
        assert!(make_read_only(ours.0.path(), &ours.entry(ours.0.path())));
        assert!(ours.is_read_only(), "nothing is ever made read-only: this shows nothing");
    }
}
