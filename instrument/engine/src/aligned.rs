//! Page-aligned memory for transfers, as `O_DIRECT` wants it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment of every buffer: the largest logical block size in use, and a page.
pub const ALIGNMENT: usize = 4096;

/// A zeroed, page-aligned byte buffer.
#[derive(Debug)]
pub struct AlignedBuffer {
    start: NonNull<u8>,
    length: usize,
}

impl AlignedBuffer {
    /// A buffer of `length` bytes, rounded up to whole pages and at least one.
    pub fn new(length: usize) -> AlignedBuffer {
        let length = length.max(1).next_multiple_of(ALIGNMENT);
        let layout = Self::layout(length);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        AlignedBuffer { start, length }
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, ALIGNMENT).expect("a buffer length fits in isize")
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
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
