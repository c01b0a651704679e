//! Processes: their descriptors, directories and threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::names::FileNumber;

/// An open-file description, by the follower's own number.
pub(super) type OpenNumber = u64;

/// So many closed descriptions of one number wait for the reports of their closes. Of more, a close was lost.
const PENDING_MAX: usize = 16;

/// An open-file description: what descriptors that `dup` and `fork` made of one another share.
#[derive(Debug)]
pub(super) struct Open {
    /// Its absolute path.
    pub(super) path: Arc<[u8]>,
    /// Its number in the recording, if it is recorded.
    pub(super) handle: Option<u32>,
    /// Its file, if it is a recorded regular one.
    pub(super) file: Option<FileNumber>,
    /// Where the next read or write happens that does not say where.
    pub(super) position: u64,
    /// Where the last copy ended of those that had a pointer to their offset.
    pub(super) copied: u64,
    /// Flags of open(2).
    pub(super) flags: u32,
    /// How many descriptors refer to it.
    pub(super) descriptors: u64,
}

/// What a descriptor refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A file or directory.
    Open(OpenNumber),
    /// A socket, pipe, terminal: nothing to record.
    Other,
}

/// What a descriptor refers to from some time on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// What.
    pub(super) what: What,
    /// When the call began that made it.
    pub(super) begin_ns: u64,
    /// When that ended: calls that began before cannot mean it.
    pub(super) since_ns: u64,
    /// exec closes it.
    pub(super) cloexec: bool,
}

/// The history of a descriptor's number, as far as it is not over: the last entry is what the number means; those before it were
/// closed, but the report of that close has not come.
#[derive(Debug, Clone, Default)]
pub(super) struct Slot {
    entries: Vec<Entry>,
    closed_ns: u64,
}

/// What is known of a number at the begin of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// This.
    What(What),
    /// The number was open before the process was seen, or has a meaning that no event told; `inherited`: it was never touched,
    /// so that processes of one origin share it.
    Unseen {
        /// Whether it may be shared.
        inherited: bool,
    },
    /// The number means something else by now, and what it meant when the call began is forgotten.
    Over,
}

/// A process.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// Processes with the same number descend from one that was seen without its begin, and share what was open in it.
    pub(super) origin: u64,
    /// That process.
    pub(super) origin_pid: u32,
    /// It has replaced its program since it descended.
    pub(super) executed: bool,
    /// The process that made it, and when.
    pub(super) parent: Option<(u32, u64)>,
    /// Its working directory, when that is known.
    pub(super) directory: Option<Arc<[u8]>>,
    /// Its program's name, when that is known.
    pub(super) name: Option<String>,
    /// Its threads.
    pub(super) threads: BTreeSet<u32>,
    slots: BTreeMap<i32, Slot>,
    dropped: Vec<(u32, u32)>,
}

impl Process {
    /// A process that is seen without its begin.
    pub(super) fn new(origin: u64, origin_pid: u32, threads: BTreeSet<u32>) -> Self {
        Process { origin, origin_pid, threads, ..Process::default() }
    }

    /// What a number meant when a call began.
    pub(super) fn held(&self, fd: i32, begin_ns: u64) -> Held {
        let Some(slot) = self.slots.get(&fd) else {
            return Held::Unseen { inherited: !self.has_dropped(fd) };
        };
        match slot.at(begin_ns).and_then(|at| slot.entries.get(at)) {
            Some(entry) => Held::What(entry.what),
            None if slot.entries.is_empty() && begin_ns >= slot.closed_ns => {
                Held::Unseen { inherited: false }
            }
            None => Held::Over,
        }
    }

    /// What a call made of a number that ran at that time.
    pub(super) fn made_around(&self, fd: i32, at_ns: u64) -> Option<What> {
        let entries = &self.slots.get(&fd)?.entries;
        entries
            .iter()
            .find(|entry| (entry.begin_ns..=entry.since_ns).contains(&at_ns))
            .map(|entry| entry.what)
    }

    /// Whether nothing is known of a number but that it may have been open before the process was seen.
    pub(super) fn is_untouched(&self, fd: i32) -> bool {
        !self.slots.contains_key(&fd) && !self.has_dropped(fd)
    }

    fn has_dropped(&self, fd: i32) -> bool {
        u32::try_from(fd)
            .is_ok_and(|fd| self.dropped.iter().any(|(first, last)| (*first..=*last).contains(&fd)))
    }

    /// Gives a number its next meaning; what must be released for it: closes of it were lost.
    pub(super) fn put(&mut self, fd: i32, entry: Entry) -> Option<What> {
        let slot = self.slots.entry(fd).or_default();
        slot.entries.push(entry);
        (slot.entries.len() > PENDING_MAX).then(|| slot.entries.remove(0).what)
    }

    /// Takes away what a close that began then has closed.
    pub(super) fn take(&mut self, fd: i32, begin_ns: u64, end_ns: u64) -> Option<What> {
        let slot = self.slots.entry(fd).or_default();
        let at = slot.at(begin_ns);
        if slot.entries.is_empty() || at.is_some_and(|at| at + 1 == slot.entries.len()) {
            slot.closed_ns = slot.closed_ns.max(end_ns);
        }
        at.map(|at| slot.entries.remove(at).what)
    }

    /// Says whether exec closes what a number means.
    pub(super) fn set_cloexec(&mut self, fd: i32, cloexec: bool) {
        if let Some(entry) = self.slots.get_mut(&fd).and_then(|slot| slot.entries.last_mut()) {
            entry.cloexec = cloexec;
        }
    }

    /// Known open numbers from one to another.
    pub(super) fn numbers(&self, first: u32, last: u32) -> Vec<i32> {
        let (Ok(first), last) = (i32::try_from(first), i32::try_from(last).unwrap_or(i32::MAX)) else {
            return Vec::new();
        };
        if first > last {
            return Vec::new();
        }
        let open = |(fd, slot): (&i32, &Slot)| (!slot.entries.is_empty()).then_some(*fd);
        self.slots.range(first..=last).filter_map(open).collect()
    }

    /// No number of these that was never touched is open any more.
    pub(super) fn drop_untouched(&mut self, first: u32, last: u32) {
        let within = |outer: &(u32, u32), inner: &(u32, u32)| outer.0 <= inner.0 && inner.1 <= outer.1;
        let new = (first, last);
        if first <= last && !self.dropped.iter().any(|one| within(one, &new)) {
            self.dropped.retain(|one| !within(&new, one));
            self.dropped.push(new);
        }
    }

    /// Descriptors that exec closes, which are taken away.
    pub(super) fn execute(&mut self, at_ns: u64) -> Vec<What> {
        self.executed = true;
        let mut closed = Vec::new();
        for slot in self.slots.values_mut() {
            if slot.entries.last().is_some_and(|entry| entry.cloexec) {
                slot.closed_ns = at_ns;
                closed.extend(slot.entries.pop().map(|entry| entry.what));
            }
        }
        closed
    }

    /// All that is open, when the process is over.
    pub(super) fn all(&self) -> impl Iterator<Item = What> + '_ {
        self.slots.values().flat_map(|slot| slot.entries.iter().map(|entry| entry.what))
    }

    /// A child with copies of the descriptors.
    pub(super) fn child(&self, tid: u32, parent: (u32, u64)) -> Process {
        let copy = |(fd, slot): (&i32, &Slot)| {
            let entries = slot.entries.last().into_iter().copied().collect();
            (*fd, Slot { entries, closed_ns: slot.closed_ns })
        };
        Process {
            origin: self.origin,
            origin_pid: self.origin_pid,
            executed: self.executed,
            parent: Some(parent),
            directory: self.directory.clone(),
            name: self.name.clone(),
            threads: BTreeSet::from([tid]),
            slots: self.slots.iter().map(copy).collect(),
            dropped: self.dropped.clone(),
        }
    }
}

impl Slot {
    /// Which entry a call means that began then: the newest whose making had ended.
    fn at(&self, begin_ns: u64) -> Option<usize> {
        self.entries.iter().rposition(|entry| entry.since_ns <= begin_ns)
    }
}
