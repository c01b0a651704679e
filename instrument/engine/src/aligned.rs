//! Page-aligned memory for transfers, as `O_DIRECT` wants it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Alignment of every buffer: the largest logical block size in use, and a page.
pub const ALIGNMENT: usize = 4096;

/// A zeroed, page-aligned byte buffer.
#[derive(Debug)]
pub struct AlignedBuffer {
    start: NonNull<u8>,
    length: usize,
    /// Address space of its own ([`AlignedBuffer::reserve`]) instead of a piece of the heap.
    mapped: bool,
}

impl AlignedBuffer {
    /// A buffer of `length` bytes, rounded up to whole pages and at least one.
    pub fn new(length: usize) -> AlignedBuffer {
        let length = length.max(1).next_multiple_of(ALIGNMENT);
        let layout = Self::layout(length);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        AlignedBuffer { start, length, mapped: false }
    }

    /// The same, but taking memory only for pages that are touched: for targets that carry no data, of which thousands of
    /// lanes hold buffers.
    ///
    /// # Errors
    /// The system's, when it has no such address space.
    pub fn reserve(length: usize) -> std::io::Result<AlignedBuffer> {
        let length = length.max(1).next_multiple_of(ALIGNMENT);
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new anonymous mapping, at an address of the kernel's choice, touches nothing that exists.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, flags) }?;
        let start = NonNull::new(start.cast()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        Ok(AlignedBuffer { start, length, mapped: true })
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, ALIGNMENT).expect("a buffer length fits in isize")
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: mapped in `reserve` with this length, and nobody borrows it any more.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
            return;
        }
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.length)) }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the allocation is `length` initialised bytes that this value owns.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

// SAFETY: the buffer owns its memory, as a `Vec<u8>` does.
unsafe impl Send for AlignedBuffer {}
