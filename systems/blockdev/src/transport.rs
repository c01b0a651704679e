//! The ways from the kernel to the daemon: which there are on this machine.

pub use fusewire::Transport;
use fusewire::URING_SWITCH;
use host::Host;
use serde::Serialize;

const UBLK: &str = "/dev/ublk-control";

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
}
