//! One file: what its accesses tell the core.

use prefetch::{Budget, Device, FileState, Mode, PAGE, Read};

use super::worth::Worth;
use crate::assemble::{Access, AccessKind};
use crate::moment::Key;
use crate::touch::Touches;

/// Contiguous accesses that each began to read by themselves: the kernel does not read ahead here.
const ALONE_MAX: u8 = 8;

/// A file that is followed.
#[derive(Debug)]
pub struct Followed<H> {
    /// Which one.
    pub key: Key,
    /// What the caller keeps for it.
    pub handle: H,
    /// Its streams.
    pub state: Box<FileState>,
    /// Its device, an index into the table's.
    pub device: usize,
    /// A step of fetching it is under way.
    pub fetching: bool,
    pub(super) touches: Touches,
    pub(super) used_ns: u64,
    pub(super) worth: Worth,
    alone: u8,
    pub(super) generation: u64,
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
            state: Box::new(FileState::new(size)),
            device,
            fetching: false,
            touches: Touches::default(),
            used_ns: now_ns,
            worth: Worth::new(now_ns),
            alone: 0,
            generation,
        }
    }

    /// Tells the core of an access: whether there is something to claim. `None`: it says nothing.
    pub(super) fn on_access(
        &mut self,
        access: &Access,
        device: &Device,
        budget: &Budget,
        mode: Mode,
    ) -> Option<bool> {
        self.used_ns = access.at_ns;
        let pages = (access.first, access.last.saturating_add(1));
        let (from, to) = match access.kind {
            AccessKind::Read => pages,
            // The kernel leaves out the page of a window where it wants to be asked to read further ahead.
            AccessKind::Fault if access.waited_ns == 0 && self.touches.is_touched(access.tid, pages) => {
                return None;
            }
            AccessKind::Fault => {
                self.touches.exact(access.tid, pages);
                pages
            }
            AccessKind::Window => self.touches.window(access.tid, pages)?,
            AccessKind::Again => self.touches.again(access.tid, pages)?,
        };
        let offset = from.saturating_mul(PAGE);
        // A read may ask for more than there is.
        let end = to.saturating_mul(PAGE).min(self.state.size.next_multiple_of(PAGE));
        let len = end.checked_sub(offset).filter(|len| *len > 0)?;
        let read = Read { offset, len, elapsed_ns: Some(access.waited_ns), now_ns: access.at_ns };
        // Else it waited for the rest of what was asked for before: that is no latency.
        self.state.joined = access.kind == AccessKind::Read && !access.missed && !access.contiguous;
        self.state.reader = access.tid as u32;
        self.notice_alone(access, &read, device);
        self.worth.note(access.contiguous);
        if access.asked_ns > 0 && device.streams() == 0 {
            // The only thing that tells the latency to one who comes to a stream that the kernel follows already.
            device.learn_miss(access.asked_ns, device.limits.readahead_bytes());
        }
        let size = self.state.size;
        let effect = self.state.on_read(&read, device, budget, mode);
        // The core takes whole pages for bytes: the size is known better.
        self.state.size = size;
        Some(effect.wake)
    }

    /// Contiguous accesses that each had to begin reading: the program has turned the kernel's read-ahead off, which
    /// nothing else would tell. What they wait is the device's latency.
    fn notice_alone(&mut self, access: &Access, read: &Read, device: &Device) {
        let alone = access.missed || access.kind == AccessKind::Fault;
        if !access.contiguous || !alone || !read.is_slow() {
            self.alone = 0;
            return;
        }
        device.learn_miss(access.waited_ns, read.len);
        self.alone = self.alone.saturating_add(1);
        if self.alone == ALONE_MAX {
            self.state.random_hint = true;
        }
    }
}
