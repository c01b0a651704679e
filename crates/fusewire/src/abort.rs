//! The way out of a hang: aborting a connection fails every request in it.

use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Number of the connection of the FUSE file system mounted at `target`. Asks the file system nothing.
///
/// # Errors
/// As of statx(2).
pub fn connection(target: &Path) -> io::Result<u32> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    Ok(statx(CWD, target, flags, StatxFlags::TYPE)?.stx_dev_minor)
}

/// Aborts a connection; false if there is none of that number.
///
/// # Errors
/// fusectl is not mounted at /sys/fs/fuse/connections, or may not be written.
pub fn abort(connection: u32) -> io::Result<bool> {
    let place = Path::new(CONNECTIONS).join(connection.to_string()).join("abort");
    match std::fs::write(&place, "1") {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
