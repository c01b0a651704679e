//! One file: what its accesses tell the core.

use prefetch::{Counters, Device, Effect, File, Mode, PAGE, Pages, Read, Reason, Rental};

use super::worth::Worth;
use crate::assemble::{Access, AccessKind};
use crate::moment::Key;
use crate::touch::Touches;

/// Threads of a file that are told apart; the least recently seen makes room.
const READERS_MAX: usize = 16;
/// So many reads without order, less those with one, end telling threads apart, or begin it again: goroutines move between
/// threads.
const UNORDERED_MAX: u32 = 64;

/// A file that is followed.
#[derive(Debug)]
pub struct Followed<H> {
    /// Which one.
    pub key: Key,
    /// What the caller keeps for it.
    pub handle: H,
    /// Its size, bytes.
    pub size: u64,
    /// Its device, an index into the table's.
    pub device: usize,
    /// What its accesses came to.
    pub counters: Counters,
    /// What followed from the latest one.
    pub latest: Effect,
    pub(super) touches: Touches,
    pub(super) used_ns: u64,
    pub(super) worth: Worth,
    pub(super) generation: u64,
    /// What each thread reads; all of them as thread 0 while they are not told apart.
    readers: Vec<(i32, File)>,
    unordered: u32,
    together: bool,
    rental: Rental,
}

/// Notes what is asked for.
struct Noting<'a, P> {
    pages: P,
    touches: &'a mut Touches,
}

impl<P: Pages> Pages for Noting<'_, P> {
    fn ask(&mut self, offset: u64, len: u64) -> bool {
        let asked = self.pages.ask(offset, len);
        if asked {
            self.touches.issued(offset, len);
        }
        asked
    }

    fn is_cached(&mut self, offset: u64, len: u64) -> Option<bool> {
        self.pages.is_cached(offset, len)
    }

    fn is_ready(&mut self, offset: u64) -> Option<bool> {
        self.pages.is_ready(offset)
    }
}

impl<H> Followed<H> {
    /// Followed from now on; `device` is an index into the table's.
    pub(super) fn new(
        key: Key,
        size: u64,
        device: usize,
        now_ns: u64,
        handle: H,
        generation: u64,
    ) -> Followed<H> {
        Followed {
            key,
            handle,
            size,
            device,
            counters: Counters::default(),
            latest: Effect::default(),
            touches: Touches::default(),
            used_ns: now_ns,
            worth: Worth::new(now_ns),
            generation,
            readers: Vec::new(),
            unordered: 0,
            together: false,
            rental: Rental::default(),
        }
    }

    /// Tells the core of an access. `false`: it says nothing. Fetching without order is done where that is `affordable`.
    pub(super) fn on_access(
        &mut self,
        access: &Access,
        device: &Device,
        (mode, affordable): (Mode, bool),
        pages: impl Pages,
    ) -> bool {
        self.used_ns = access.at_ns;
        let Some((from, to)) = self.touched(access) else { return false };
        let offset = from.saturating_mul(PAGE);
        // A read may ask for more than there is.
        let end = to.saturating_mul(PAGE).min(self.size.next_multiple_of(PAGE));
        let Some(len) = end.checked_sub(offset).filter(|len| *len > 0) else { return false };
        // Who waits for the kernel's own reading ahead waits for a part of the latency only.
        let elapsed_ns = access.waited_ns.max(access.asked_ns);
        let read = Read { offset, len, elapsed_ns, now_ns: access.at_ns };
        self.worth.note(access.contiguous);
        let at = self.reader(if self.together { 0 } else { access.tid });
        let Some((_, file)) = self.readers.get_mut(at) else { return false };
        file.size = self.size;
        let mut pages = Noting { pages, touches: &mut self.touches };
        let rental = affordable.then_some(&mut self.rental);
        self.latest = file.on_read(&read, device, rental, mode, &mut pages);
        self.counters += Counters::of(&read, &self.latest, device.latency_ns(), mode);
        self.note_order();
        true
    }

    /// The pages that an access touched; `None` when nothing new is known.
    fn touched(&mut self, access: &Access) -> Option<(u64, u64)> {
        let pages = (access.first, access.last.saturating_add(1));
        match access.kind {
            AccessKind::Read => Some(pages),
            // The kernel leaves out the page of a window where it wants to be asked to read further ahead.
            AccessKind::Fault if access.waited_ns == 0 && self.touches.is_touched(access.tid, pages) => None,
            AccessKind::Fault => {
                self.touches.exact(access.tid, pages);
                Some(pages)
            }
            AccessKind::Window => {
                // The rest of what a fault began is no step of its own.
                let page = |page: u64| self.touches.is_touched(access.tid, (page, page.saturating_add(1)));
                let is_rest = page(access.first) || page(access.last);
                self.touches.window(access.tid, pages).filter(|_| !is_rest)
            }
            AccessKind::Again => self.touches.again(access.tid, pages),
        }
    }

    /// Where a thread's reads are kept: the latest one comes last.
    fn reader(&mut self, tid: i32) -> usize {
        let known = self.readers.iter().position(|(reader, _)| *reader == tid);
        if known.is_none() && self.readers.len() >= READERS_MAX {
            self.readers.remove(0);
        }
        let reader = known.map_or_else(|| (tid, File::new(self.size)), |at| self.readers.remove(at));
        self.readers.push(reader);
        self.readers.len() - 1
    }

    fn note_order(&mut self) {
        match self.latest.reason {
            Reason::Prefetching | Reason::KernelHasIt | Reason::Cached => {
                self.unordered = self.unordered.saturating_sub(1);
            }
            _ => self.unordered += 1,
        }
        if self.unordered >= UNORDERED_MAX {
            (self.unordered, self.together) = (0, !self.together);
            self.readers.clear();
        }
    }
}
