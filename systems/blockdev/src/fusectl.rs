//! The way out of a hang: aborting a FUSE connection fails every request on it.

use std::fs::File;
use std::io::{self, Write};

use camino::{Utf8Path, Utf8PathBuf};
use host::Host;
use host::mountinfo::{self, MountEntry};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Number of the connection of the FUSE file system mounted at `target`: the minor number of its device.
/// Does not touch the file system.
pub(crate) fn connection(host: &Host, target: &Utf8Path) -> Option<u32> {
    let mounts = host.mounts().ok()?;
    let ours = mounts.iter().rev().find(|m| m.target == target && m.fs_type.starts_with("fuse"))?;
    ours.device_number.split_once(':')?.1.parse().ok()
}

/// A connection that can be aborted: it stays the same one, whoever has its number later.
pub(crate) struct Pinned(File);

impl Pinned {
    /// The connection of that number; none if there is none. Mounts fusectl for the moment if it is not.
    pub(crate) fn open(connection: u32, scratch: &Utf8Path) -> io::Result<Option<Pinned>> {
        let usual = Utf8PathBuf::from(CONNECTIONS);
        if usual.join(connection.to_string()).exists() {
            return pin(&usual, connection);
        }
        let place = scratch.join("fusectl");
        std::fs::create_dir_all(&place)?;
        mount("fusectl", place.as_std_path(), "fusectl", MountFlags::empty(), None)?;
        let pinned = pin(&place, connection);
        unmount(place.as_std_path(), UnmountFlags::DETACH)?;
        std::fs::remove_dir(&place)?;
        pinned
    }

    /// Aborts it. One that has ended meanwhile is none.
    pub(crate) fn abort(mut self) -> io::Result<()> {
        self.0.write_all(b"1")
    }
}

fn pin(place: &Utf8Path, connection: u32) -> io::Result<Option<Pinned>> {
    match File::options().write(true).open(place.join(connection.to_string()).join("abort")) {
        Ok(file) => Ok(Some(Pinned(file))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Aborts a connection; false if there is none of that number.
pub(crate) fn abort(connection: u32, scratch: &Utf8Path) -> io::Result<bool> {
    let Some(pinned) = Pinned::open(connection, scratch)? else { return Ok(false) };
    pinned.abort().map(|()| true)
}

/// Whether the connection of that number is that of the daemon `pid`, whose file system was mounted at `target`. Linux
/// tells since 6.16 which connections a process serves. Before, the mount tells that is there with this number, in this
/// mount namespace or in the daemon's, also when another one covers it.
pub(crate) fn serves(host: &Host, pid: u32, target: &Utf8Path, connection: u32) -> bool {
    let told = host::device::fuse_connections(host, pid);
    if !told.is_empty() {
        return told.contains(&connection.into());
    }
    let device_number = format!("0:{connection}");
    let is_own = |m: &MountEntry| {
        m.target == target && m.fs_type.starts_with("fuse") && m.device_number == device_number
    };
    ["self", &pid.to_string()].iter().any(|process| {
        let table = host.read(format!("/proc/{process}/mountinfo")).unwrap_or_default();
        mountinfo::parse(&table).iter().any(is_own)
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use needs::needs;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// A FUSE file system that nobody serves.
    struct Unserved {
        target: Utf8PathBuf,
        fuse: OwnedFd,
    }

    impl Unserved {
        fn mount(target: Utf8PathBuf) -> Unserved {
            std::fs::create_dir_all(&target).unwrap();
            let data = "rootmode=40000,user_id=0,group_id=0";
            let flags = MountFlags::empty();
            let fuse = fusewire::mount("test".as_ref(), target.as_std_path(), "fuse", flags, data).unwrap();
            Unserved { target, fuse }
        }

        fn connection(&self) -> u32 {
            connection(&Host::system(), &self.target).unwrap()
        }

        fn is_aborted(&self) -> bool {
            // error conditions alone are asked for
            poll(&mut [PollFd::new(&self.fuse, PollFlags::empty())], Some(&Timespec::default())).unwrap() == 1
        }
    }

    impl Drop for Unserved {
        fn drop(&mut self) {
            let _ = unmount(self.target.as_std_path(), UnmountFlags::DETACH);
        }
    }

    #[test]
    fn a_pinned_connection_that_has_ended_is_not_mistaken_for_the_one_that_has_its_number_now() {
        needs!(Root, Mounts, Fuse);
        let dir = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(dir.path()).unwrap();
        // a number is given again at once, unless another program takes it
        let again = (0..20).find_map(|_| {
            let first = Unserved::mount(dir.join("first"));
            let number = first.connection();
            let pinned = Pinned::open(number, dir).unwrap().unwrap();
            drop(first);
            let second = Unserved::mount(dir.join("second"));
            (second.connection() == number).then_some((pinned, second))
        });
        let (pinned, second) = again.expect("numbers are not given again");
        pinned.abort().unwrap();
        assert!(!second.is_aborted());
        assert!(abort(second.connection(), dir).unwrap());
        assert!(second.is_aborted());
    }

    #[test]
    fn a_daemons_connection_is_known_by_what_the_kernel_tells_and_else_by_its_mount_in_either_namespace() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let host = Host::rooted(root);
        let (own, daemon) = (root.join("proc/self"), root.join("proc/7"));
        for dir in [&own, &daemon.join("fd"), &daemon.join("fdinfo")] {
            std::fs::create_dir_all(dir).unwrap();
        }
        let knows = |connection| serves(&host, 7, "/a/mnt".into(), connection);
        let line =
            |number: u32, target: &str, kind: &str| format!("1 0 0:{number} / {target} rw - {kind} x rw\n");
        assert!(!knows(50));
        let (ours, cover) = (line(50, "/a/mnt", "fuse"), line(51, "/a/mnt", "tmpfs"));
        let elsewhere = line(52, "/b/mnt", "fuse");
        for place in [&own, &daemon] {
            std::fs::write(place.join("mountinfo"), [&*ours, &*cover, &*elsewhere].concat()).unwrap();
            assert_eq!([50, 51, 52].map(knows), [true, false, false], "{place}");
            std::fs::remove_file(place.join("mountinfo")).unwrap();
        }
        std::fs::write(own.join("mountinfo"), &ours).unwrap();
        std::os::unix::fs::symlink("/dev/fuse", daemon.join("fd/3")).unwrap();
        std::fs::write(daemon.join("fdinfo/3"), "pos:\t0\nfuse_connection:\t53\n").unwrap();
        assert_eq!([50, 53].map(knows), [false, true], "the number was given to another one");
    }
}
