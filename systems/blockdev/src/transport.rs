//! The ways from the kernel to the daemon: which there are on this machine.

use fusewire::URING_SWITCH;
use host::Host;
use host::ublk::CONTROL as UBLK;
use serde::{Deserialize, Serialize};

/// The way somebody wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// FUSE and a loop device, over io_uring where that is switched on already, else through `/dev/fuse`.
    #[default]
    Auto,
    /// FUSE through `/dev/fuse`, and a loop device.
    Classic,
    /// FUSE over io_uring, switched on for the moment if need be, and a loop device.
    Uring,
    /// As `Uring`, but through `/dev/fuse` where that fails.
    Fastest,
    /// A ublk device: no loop device, FUA as it is, several hardware queues.
    Ublk,
}

impl Transport {
    /// All of them.
    pub const ALL: [Transport; 5] =
        [Transport::Auto, Transport::Classic, Transport::Uring, Transport::Fastest, Transport::Ublk];

    /// The transport of a name: `auto`, `classic`, `uring`, `fastest` or `ublk`.
    pub fn parse(name: &str) -> Option<Transport> {
        Transport::ALL.into_iter().find(|t| t.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.fuse().map_or("ublk", fusewire::Transport::name)
    }

    /// The way of FUSE, if it is one.
    pub(crate) fn fuse(self) -> Option<fusewire::Transport> {
        Some(match self {
            Transport::Auto => fusewire::Transport::Auto,
            Transport::Classic => fusewire::Transport::Classic,
            Transport::Uring => fusewire::Transport::Uring,
            Transport::Fastest => fusewire::Transport::Fastest,
            Transport::Ublk => return None,
        })
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

/// What this machine has.
pub fn available(host: &Host) -> Vec<Available> {
    let exists = |path: &str| host.path(path).exists();
    let fuse = (!exists("/dev/fuse")).then(|| "unavailable: no /dev/fuse; load the module fuse".to_owned());
    let uring = fuse.clone().or_else(|| {
        (!exists(URING_SWITCH))
            .then(|| format!("unavailable: no {URING_SWITCH}; it needs Linux 6.14 with CONFIG_FUSE_IO_URING"))
    });
    let ublk = (!exists(UBLK)).then(|| {
        format!("unavailable: no {UBLK}; it needs Linux 6.4 with CONFIG_BLK_DEV_UBLK and the module ublk_drv")
    });
    [("classic", fuse), ("uring", uring), ("ublk", ublk)]
        .into_iter()
        .map(|(name, obstacle)| Available { name, obstacle })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for transport in Transport::ALL {
            assert_eq!(Transport::parse(transport.name()), Some(transport));
            let text = serde_json::to_string(&transport).unwrap();
            assert_eq!(text, format!("\"{}\"", transport.name()));
        }
        assert_eq!(Transport::parse("pigeon"), None);
    }

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
        assert!(classic.is_none() && uring.is_none() && ublk.is_none());
    }
}
