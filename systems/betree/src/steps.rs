//! The seven steps from BetrFS v0.4 to v0.6 (EuroSys 2022), as switches.
//!
//! The paper's artifact has a branch for each, every one with all before it. Each switch here turns off what is nearest
//! to the step in this store, so that its worth can be measured. What a store holds does not depend on them, neither in
//! content nor in format: any store may be opened with any.

/// Which steps are in force. All are by default; [`Features::NONE`] is the nearest to v0.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Simple file layer: the store owns its storage. Off: it behaves as on a file of a journaling file system: the
    /// log's place is not prepared, and each flush also commits the lower file's metadata. Which storage is used, a
    /// device with direct I/O or a file through the page cache, is the caller's choice; see [`crate::storage::open`].
    pub sfl: bool,
    /// A range delete is one message. Off: a delete for each key found in the range (unless they are more than a log
    /// record takes).
    pub range: bool,
    /// Transfer buffers are kept and used again, and made in their final size. Off: allocated anew and grown.
    pub malloc: bool,
    /// Large values are passed by reference: written once to an extent. Off: copied into log and tree (unless they are
    /// larger than a log record).
    pub page_sharing: bool,
    /// Directory scans fill the caches of names and inodes. Nothing in the store; the file system looks at it.
    pub dc: bool,
    /// Late-bound log: a value in an extent is only referred to in the log. Off: it is written to the log as well
    /// (unless it is larger than a log record).
    pub cond_log: bool,
    /// A point query reads one basement and looks up one key in each buffer. Off: it brings the whole leaf up to date.
    pub query_path: bool,
}

impl Default for Features {
    fn default() -> Self {
        Features::ALL
    }
}

impl Features {
    /// The names of the steps as the artifact has them, in cumulative order.
    pub const NAMES: [&'static str; 7] =
        ["sfl", "range", "malloc", "page-sharing", "dc", "cond-log", "query-path"];

    /// Every step: v0.6.
    pub const ALL: Features = Features::every(true);

    /// No step: v0.4.
    pub const NONE: Features = Features::every(false);

    const fn every(on: bool) -> Features {
        Features { sfl: on, range: on, malloc: on, page_sharing: on, dc: on, cond_log: on, query_path: on }
    }

    /// The steps up to `name` and with it; `v0.4` and `v0.6` are none and all. `None` for an unknown name.
    pub fn up_to(name: &str) -> Option<Features> {
        match name {
            "v0.4" => return Some(Features::NONE),
            "v0.6" => return Some(Features::ALL),
            _ => {}
        }
        let last = Features::NAMES.iter().position(|n| *n == name)?;
        let mut steps = Features::NONE;
        Features::NAMES[..=last].iter().for_each(|n| _ = steps.set(n, true));
        Some(steps)
    }

    /// Turns one step on or off; false if there is none of this name.
    pub fn set(&mut self, name: &str, on: bool) -> bool {
        match name {
            "sfl" => self.sfl = on,
            "range" => self.range = on,
            "malloc" => self.malloc = on,
            "page-sharing" => self.page_sharing = on,
            "dc" => self.dc = on,
            "cond-log" => self.cond_log = on,
            "query-path" => self.query_path = on,
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_accumulate_in_order() {
        let mut expected = Features::NONE;
        assert_eq!(Features::up_to("v0.4"), Some(expected));
        for name in Features::NAMES {
            assert_ne!(Features::up_to(name), Some(expected), "{name} changes nothing");
            assert!(expected.set(name, true));
            assert_eq!(Features::up_to(name), Some(expected), "{name}");
        }
        assert_eq!((expected, Features::up_to("v0.6")), (Features::ALL, Some(Features::ALL)));
        assert!(Features::up_to("v0.5").is_none() && !expected.set("zoning", true));
    }
}
