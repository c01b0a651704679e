//! The ways from the kernel to the daemon: which there are on this machine.

use std::fs::File;
use std::io::{self, Write};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use stack::Host;

/// The switch of FUSE over io_uring, off by default.
const URING_SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
const UBLK: &str = "/dev/ublk-control";

/// How requests get from the kernel to the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// FUSE over io_uring where the administrator has switched it on, else through `/dev/fuse`: a switch of the
    /// whole machine is turned only when it is asked for.
    #[default]
    Auto,
    /// FUSE through `/dev/fuse`.
    Classic,
    /// FUSE over io_uring.
    Uring,
}

impl Transport {
    /// The transport of a name: `auto`, `classic` or `uring`.
    pub fn parse(name: &str) -> Option<Transport> {
        [Transport::Auto, Transport::Classic, Transport::Uring].into_iter().find(|t| t.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Auto => "auto",
            Transport::Classic => "classic",
            Transport::Uring => "uring",
        }
    }
}

/// A transport on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Available {
    /// `classic`, `uring` or `ublk`.
    pub name: &'static str,
    /// Why it cannot be used and what would help; none if it can.
    pub obstacle: Option<String>,
}

/// What this machine has. ublk, which would do without the loop device, is looked for but not used.
pub fn available(host: &Host) -> Vec<Available> {
    let exists = |path: &str| host.path(path).exists();
    let fuse = (!exists("/dev/fuse")).then(|| "unavailable: no /dev/fuse; load the module fuse".to_owned());
    let uring = fuse.clone().or_else(|| {
        (!exists(URING_SWITCH))
            .then(|| format!("unavailable: no {URING_SWITCH}; it needs Linux 6.14 with CONFIG_FUSE_IO_URING"))
    });
    let ublk = if exists(UBLK) {
        format!("unavailable: {UBLK} is there, but the daemon has no front end for it; use uring or classic")
    } else {
        format!("unavailable: no {UBLK}; it needs Linux 6.0 with CONFIG_BLK_DEV_UBLK and the module ublk_drv")
    };
    [("classic", fuse), ("uring", uring), ("ublk", Some(ublk))]
        .into_iter()
        .map(|(name, obstacle)| Available { name, obstacle })
        .collect()
}

/// The switch held on; it goes back to what it was. The kernel looks at it when a FUSE file system is mounted and when
/// its first ring is registered, not later.
#[derive(Debug)]
pub(crate) struct UringSwitch {
    /// Locked: of two that switch at once, the second must not take the first one's setting for the usual one.
    file: File,
    before: Vec<u8>,
}

/// Whether the switch is on.
pub(crate) fn uring_is_on(host: &Host) -> bool {
    host.read(URING_SWITCH).is_ok_and(|text| text.trim() == "Y")
}

impl UringSwitch {
    pub(crate) fn on() -> io::Result<UringSwitch> {
        let file = File::options().read(true).write(true).open(URING_SWITCH)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let before = std::fs::read(URING_SWITCH)?;
        (&file).write_all(b"Y")?;
        Ok(UringSwitch { file, before })
    }
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
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let root = camino::Utf8Path::from_path(dir.path()).unwrap();
        let obstacles = || available(&Host::rooted(root)).into_iter().map(|a| a.obstacle).collect::<Vec<_>>();
        assert!(obstacles().iter().all(|o| o.as_ref().is_some_and(|text| text.starts_with("unavailable: "))));
        for path in ["dev/fuse", &URING_SWITCH[1..], &UBLK[1..]] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let [classic, uring, ublk] = &obstacles()[..] else { panic!("three") };
        assert!(classic.is_none() && uring.is_none());
        assert!(ublk.as_ref().is_some_and(|text| text.contains("no front end")));
    }

    #[test]
    fn names_come_back() {
        for transport in [Transport::Auto, Transport::Classic, Transport::Uring] {
            assert_eq!(Transport::parse(transport.name()), Some(transport));
        }
        assert_eq!(Transport::parse("pigeon"), None);
    }
}
