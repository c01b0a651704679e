//! The files that are followed: their streams, bounded in number, let go when there is nothing to gain. Pure: what
//! stands for the open file is the caller's.

use prefetch::{Device, Mode, Pages};
use prefetch_os::area::DEVICES;

use crate::assemble::Access;
use crate::moment::Key;

pub use followed::Followed;

mod followed;
mod worth;

#[cfg(test)]
mod tests;

/// Files followed at a time; the least recently used makes room.
pub const FILES_MAX: usize = 32;
/// A file without accesses is let go after so long.
pub const IDLE_NS: u64 = 2_000_000_000;
/// A followed file, valid until it is let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    at: usize,
    generation: u64,
}

/// Why a file was let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetGo {
    /// Another needed the place, or it was closed.
    Replaced,
    /// Nothing was to be gained.
    Quiet,
    /// Not used any more.
    Idle,
}

/// The followed files and what they share.
#[derive(Debug)]
pub struct Table<H> {
    files: Vec<Option<Followed<H>>>,
    /// What was measured of devices.
    pub devices: [Device; DEVICES],
    /// Their numbers (`st_dev`), 0 is free.
    pub numbers: [u64; DEVICES],
    /// Larger files are not fetched, bytes.
    pub budget: u64,
    mode: Mode,
    generation: u64,
    has_quiet: bool,
}

impl<H> Table<H> {
    /// Without files.
    pub fn new(mode: Mode) -> Table<H> {
        Table {
            files: (0..FILES_MAX).map(|_| None).collect(),
            devices: [const { Device::new() }; DEVICES],
            numbers: [0; DEVICES],
            budget: u64::MAX,
            mode,
            generation: 0,
            has_quiet: false,
        }
    }

    /// What the policy does at all.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The index of a device; the last one when there are too many.
    pub fn device_index(&mut self, number: u64) -> usize {
        let known = self.numbers.iter().position(|known| *known == number || *known == 0);
        let at = known.unwrap_or(DEVICES - 1);
        if let Some(slot) = self.numbers.get_mut(at).filter(|slot| **slot == 0) {
            *slot = number;
        }
        at
    }

    /// Follows a file from now on. The file that had to make room, if any.
    pub fn follow(
        &mut self,
        key: Key,
        size: u64,
        device: usize,
        now_ns: u64,
        handle: H,
    ) -> (Ticket, Option<Followed<H>>) {
        let free = self.files.iter().position(Option::is_none);
        let oldest = || {
            let used =
                |at: &usize| self.files.get(*at).and_then(Option::as_ref).map_or(0, |file| file.used_ns);
            (0..self.files.len()).min_by_key(used).unwrap_or(0)
        };
        let at = free.unwrap_or_else(oldest);
        let before = self.take(at);
        self.generation += 1;
        let followed = Followed::new(key, size, device.min(DEVICES - 1), now_ns, handle, self.generation);
        if let Some(slot) = self.files.get_mut(at) {
            *slot = Some(followed);
        }
        (Ticket { at, generation: self.generation }, before)
    }

    fn take(&mut self, at: usize) -> Option<Followed<H>> {
        self.files.get_mut(at)?.take()
    }

    /// Whether a file is followed.
    pub fn find(&self, key: Key) -> Option<Ticket> {
        let at = self.files.iter().position(|file| file.as_ref().is_some_and(|file| file.key == key))?;
        Some(Ticket { at, generation: self.files.get(at)?.as_ref()?.generation })
    }

    /// The file of a ticket, if it is still followed.
    pub fn get(&mut self, ticket: Ticket) -> Option<&mut Followed<H>> {
        let file = self.files.get_mut(ticket.at)?.as_mut()?;
        (file.generation == ticket.generation).then_some(file)
    }

    /// How many files are followed.
    pub fn len(&self) -> usize {
        self.files.iter().flatten().count()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All tickets.
    pub fn tickets(&self) -> Vec<Ticket> {
        let all = self.files.iter().enumerate();
        all.filter_map(|(at, file)| Some(Ticket { at, generation: file.as_ref()?.generation })).collect()
    }

    /// Tells the core of an access; `pages` makes what it asks the kernel by, from a file's handle and size.
    pub fn access<P: Pages>(&mut self, access: &Access, pages: impl FnOnce(&H, u64) -> P) {
        let Some(ticket) = self.find(access.key) else { return };
        let Some(file) = self.files.get_mut(ticket.at).and_then(Option::as_mut) else { return };
        let Some(device) = self.devices.get(file.device) else { return };
        let pages = pages(&file.handle, file.size);
        if file.on_access(access, device, (self.mode, file.size <= self.budget), pages) {
            self.has_quiet |= file.worth.weigh(&file.counters, access.at_ns);
        }
    }

    /// Lets go of one file.
    pub fn release(&mut self, ticket: Ticket) -> Option<Followed<H>> {
        self.get(ticket)?;
        self.take(ticket.at)
    }

    /// Whether some file is to be let go at once: its events cost more than they bring.
    pub fn has_quiet(&self) -> bool {
        self.has_quiet
    }

    /// Lets go of the files that are idle or brought nothing.
    pub fn sweep(&mut self, now_ns: u64) -> Vec<(Followed<H>, LetGo)> {
        self.has_quiet = false;
        let mut gone = Vec::new();
        for at in 0..self.files.len() {
            let Some(file) = self.files.get(at).and_then(Option::as_ref) else { continue };
            let why = if file.worth.is_quiet() {
                LetGo::Quiet
            } else if now_ns.saturating_sub(file.used_ns) > IDLE_NS {
                LetGo::Idle
            } else {
                continue;
            };
            gone.extend(self.take(at).map(|file| (file, why)));
        }
        gone
    }

    /// The tracepoint filter that lets only the followed files pass; `None` without any.
    pub fn filter(&self) -> Option<String> {
        let terms: Vec<String> = self
            .files
            .iter()
            .flatten()
            .map(|file| format!("(i_ino == {} && s_dev == {})", file.key.inode, file.key.dev))
            .collect();
        (!terms.is_empty()).then(|| terms.join(" || "))
    }
}
