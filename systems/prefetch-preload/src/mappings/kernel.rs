//! What the kernel tells of a mapping and does for it: what was touched, what is cached, prefetching.

use prefetch::PAGE;
use prefetch_os::sys;

/// The kernel's `struct page_region`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Region {
    pub start: u64,
    pub end: u64,
    categories: u64,
}

/// The ranges with pages in the page tables; how many, and where the walk ended (PAGEMAP_SCAN).
pub fn scan(pagemap: i32, start: usize, end: usize, regions: &mut [Region]) -> Option<(usize, usize)> {
    const SCAN: usize = 0xc060_6610;
    const PRESENT: u64 = 1 << 3;
    // struct pm_scan_arg: size, flags, start, end, walk_end, vec, vec_len, max_pages, and four masks.
    let mut argument = [
        96,
        0,
        start as u64,
        end as u64,
        0,
        regions.as_mut_ptr() as u64,
        regions.len() as u64,
        0,
        0,
        PRESENT,
        0,
        PRESENT,
    ];
    // SAFETY: the argument and the regions have the kernel's layout and live through the call.
    let count = unsafe {
        sys::call(libc::SYS_ioctl, [pagemap as usize, SCAN, argument.as_mut_ptr() as usize, 0, 0, 0])
    };
    Some((count.ok()?, argument[4] as usize))
}

/// Opens the thread's own view of the page tables; `None` where the kernel does not tell.
pub fn open() -> Option<i32> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let pagemap = sys::openat(libc::AT_FDCWD, c"/proc/self/pagemap", flags, 0).ok()?;
    let (mut regions, page) = ([Region::default(); 1], PAGE as usize);
    let stack = (&raw const regions) as usize / page * page;
    scan(pagemap, stack, stack + page, &mut regions)?;
    Some(pagemap)
}

/// Whether a page is in the page cache, or cannot be asked for.
pub fn is_cached(address: usize) -> bool {
    let mut byte = 0u8;
    // SAFETY: one page is asked for, one byte is written.
    let asked =
        unsafe { sys::call(libc::SYS_mincore, [address, PAGE as usize, (&raw mut byte) as usize, 0, 0, 0]) };
    asked.is_err() || byte & 1 != 0
}

/// Prefetches a range.
pub fn will_need(address: usize, len: usize) -> sys::Answer {
    // SAFETY: MADV_WILLNEED changes nothing in memory, whatever lies there by now.
    unsafe { sys::call(libc::SYS_madvise, [address, len, libc::MADV_WILLNEED as usize, 0, 0, 0]) }
}

/// What the process has waited for: faults that found no page, and bytes that others than this thread have read from
/// devices, the kernel for them included.
pub fn waited() -> (u64, u64) {
    let usage = |who: i32| {
        // SAFETY: zeroes are a valid `rusage`, and it is valid for writing.
        unsafe {
            let mut usage: libc::rusage = core::mem::zeroed();
            let _ = sys::call(libc::SYS_getrusage, [who as usize, (&raw mut usage) as usize, 0, 0, 0, 0]);
            (usage.ru_majflt as u64, usage.ru_inblock as u64 * 512)
        }
    };
    let (all, own) = (usage(libc::RUSAGE_SELF), usage(libc::RUSAGE_THREAD));
    (all.0, all.1.saturating_sub(own.1))
}
