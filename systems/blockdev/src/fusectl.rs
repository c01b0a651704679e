//! The way out of a hang: aborting a FUSE connection fails every request on it.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use host::Host;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Number of the connection of the FUSE file system mounted at `target`: the minor number of its device.
/// Does not touch the file system.
pub(crate) fn connection(host: &Host, target: &Utf8Path) -> Option<u32> {
    let mounts = host.mounts().ok()?;
    let ours = mounts.iter().rev().find(|m| m.target == target && m.fs_type.starts_with("fuse"))?;
    ours.device_number.split_once(':')?.1.parse().ok()
}

/// Aborts a connection; false if there is none of that number. Mounts fusectl for the moment if it is not.
pub(crate) fn abort(connection: u32, scratch: &Utf8Path) -> io::Result<bool> {
    let usual = Utf8PathBuf::from(CONNECTIONS);
    if usual.join(connection.to_string()).exists() {
        return write(&usual, connection);
    }
    let place = scratch.join("fusectl");
    std::fs::create_dir_all(&place)?;
    mount("fusectl", place.as_std_path(), "fusectl", MountFlags::empty(), None)?;
    let done = write(&place, connection);
    unmount(place.as_std_path(), UnmountFlags::DETACH)?;
    std::fs::remove_dir(&place)?;
    done
}

fn write(place: &Utf8Path, connection: u32) -> io::Result<bool> {
    match std::fs::write(place.join(connection.to_string()).join("abort"), "1") {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
