//! The ways from the kernel to the daemon: which there are on this machine.

pub use fusewire::Transport as Fuse;
use fusewire::URING_SWITCH;
use host::Host;
use host::ublk::{CONTROL as UBLK, NEEDS};
use serde::{Deserialize, Serialize};

/// The way somebody wants. Written as its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Transport {
    /// FUSE that way, and a loop device.
    Fuse(Fuse),
    /// A ublk device: no loop device, FUA as it is, several hardware queues.
    Ublk,
}

impl Default for Transport {
    fn default() -> Transport {
        Transport::Fuse(Fuse::default())
    }
}

impl Transport {
    /// The transport of a name: `auto`, `classic`, `uring`, `fastest` or `ublk`.
    pub fn parse(name: &str) -> Option<Transport> {
        if name == Transport::Ublk.name() {
            Some(Transport::Ublk)
        } else {
            Fuse::parse(name).map(Transport::Fuse)
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Fuse(way) => way.name(),
            Transport::Ublk => "ublk",
        }
    }
}

impl From<Transport> for &'static str {
    fn from(transport: Transport) -> &'static str {
        transport.name()
    }
}

impl TryFrom<String> for Transport {
    type Error = String;

    fn try_from(name: String) -> Result<Transport, String> {
        Transport::parse(&name).ok_or_else(|| format!("no transport is named {name}"))
    }
}

/// A transport on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransportAvailability {
    /// `classic`, `uring` or `ublk`.
    pub name: &'static str,
    /// Why it cannot be used and what would help; none if it can.
    pub obstacle: Option<String>,
}

/// What this machine has.
pub fn available(host: &Host) -> Vec<TransportAvailability> {
    let exists = |path: &str| host.path(path).exists();
    let fuse = (!exists("/dev/fuse")).then(|| "unavailable: no /dev/fuse; load the module fuse".to_owned());
    let uring = fuse.clone().or_else(|| {
        (!exists(URING_SWITCH))
            .then(|| format!("unavailable: no {URING_SWITCH}; it needs Linux 6.14 with CONFIG_FUSE_IO_URING"))
    });
    let ublk = (!exists(UBLK)).then(|| format!("unavailable: no {UBLK}; it needs {NEEDS}"));
    [("classic", fuse), ("uring", uring), ("ublk", ublk)]
        .into_iter()
        .map(|(name, obstacle)| TransportAvailability { name, obstacle })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for transport in Fuse::ALL.into_iter().map(Transport::Fuse).chain([Transport::Ublk]) {
            assert_eq!(Transport::parse(transport.name()), Some(transport));
            let text = serde_json::to_string(&transport).unwrap();
            assert_eq!(text, format!("\"{}\"", transport.name()));
            assert_eq!(serde_json::from_str::<Transport>(&text).unwrap(), transport);
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
