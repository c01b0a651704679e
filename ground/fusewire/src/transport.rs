//! Which way requests come, and the machine's switch for one of them.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The switch of FUSE over io_uring, off by default.
pub const URING_SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// A way from the kernel to a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// Through `/dev/fuse`.
    Classic,
    /// Through io_uring.
    Rings,
}

/// Which way somebody wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// FUSE over io_uring where the administrator has switched it on, else through `/dev/fuse`: a switch of the
    /// whole machine is turned only when it is asked for.
    #[default]
    Auto,
    /// FUSE through `/dev/fuse`.
    Classic,
    /// FUSE over io_uring, switched on for the moment if need be.
    Uring,
    /// As `Uring`, but through `/dev/fuse` where that fails.
    Fastest,
}

impl Transport {
    /// All of them.
    pub const ALL: [Transport; 4] =
        [Transport::Auto, Transport::Classic, Transport::Uring, Transport::Fastest];

    /// The transport of a name: `auto`, `classic`, `uring` or `fastest`.
    pub fn parse(name: &str) -> Option<Transport> {
        Transport::ALL.into_iter().find(|t| t.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Auto => "auto",
            Transport::Classic => "classic",
            Transport::Uring => "uring",
            Transport::Fastest => "fastest",
        }
    }

    /// The ways to try, one after the other.
    pub fn ways(self) -> &'static [TransportKind] {
        match self {
            Transport::Classic => &[TransportKind::Classic],
            Transport::Uring => &[TransportKind::Rings],
            Transport::Fastest => &[TransportKind::Rings, TransportKind::Classic],
            Transport::Auto if uring_is_on() => &[TransportKind::Rings, TransportKind::Classic],
            Transport::Auto => &[TransportKind::Classic],
        }
    }
}

/// How long another program may keep the switch locked: who mounts has it for milliseconds.
const SWITCH_PATIENCE: Duration = Duration::from_secs(10);

/// Whether the switch is on.
pub fn uring_is_on() -> bool {
    std::fs::read_to_string(URING_SWITCH).is_ok_and(|text| text.trim() == "Y")
}

/// The switch held on; it goes back to what it was. The kernel looks at it when a FUSE file system is mounted and when
/// its first ring is registered, not later.
#[derive(Debug)]
pub struct UringSwitch {
    /// Locked: of two that switch at once, the second must not take the first one's setting for the usual one.
    file: File,
    before: Vec<u8>,
}

impl UringSwitch {
    /// Switches it on.
    ///
    /// # Errors
    /// The kernel has none (it needs Linux 6.14 with CONFIG_FUSE_IO_URING), it may not be written, or another program keeps it locked.
    pub fn on() -> io::Result<UringSwitch> {
        let file = File::options().read(true).write(true).open(URING_SWITCH)?;
        lock(&file, SWITCH_PATIENCE)?;
        let before = std::fs::read(URING_SWITCH)?;
        (&file).write_all(b"Y")?;
        Ok(UringSwitch { file, before })
    }
}

/// Locks the switch, which anybody may have locked, and keep so.
fn lock(file: &File, patience: Duration) -> io::Result<()> {
    let mut locked = Ok(());
    host::wait::wait_until(patience, || {
        locked = flock(file, FlockOperation::NonBlockingLockExclusive);
        locked != Err(Errno::WOULDBLOCK)
    });
    locked.map_err(|error| {
        let is_locked = error == Errno::WOULDBLOCK;
        let why = if is_locked { "it is locked by another program".into() } else { error.to_string() };
        io::Error::new(io::Error::from(error).kind(), format!("lock {URING_SWITCH}: {why}"))
    })
}

impl Drop for UringSwitch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(URING_SWITCH, &self.before) {
            eprintln!("{URING_SWITCH} could not be set back: {error}");
        }
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    #[test]
    fn only_a_lock_of_another_is_waited_for_and_called_one() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let (one, other) = (path.reopen().unwrap(), path.reopen().unwrap());
        lock(&one, Duration::ZERO).unwrap();
        let said = lock(&other, Duration::ZERO).unwrap_err().to_string();
        assert!(said.contains("locked by another program"), "{said}");
        // a descriptor of the kind that no lock goes with
        let pinned = File::options().read(true).custom_flags(libc::O_PATH).open(path.path()).unwrap();
        let begin = std::time::Instant::now();
        let said = lock(&pinned, SWITCH_PATIENCE).unwrap_err().to_string();
        assert!(!said.contains("another program") && begin.elapsed() < SWITCH_PATIENCE, "{said}");
    }

    #[test]
    fn names_come_back() {
        for transport in Transport::ALL {
            assert_eq!(Transport::parse(transport.name()), Some(transport));
        }
        assert_eq!(Transport::parse("pigeon"), None);
    }
}
