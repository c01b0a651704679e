//! Reads that pass without a look: the whole cost of a program whose reads hit the page cache.
//!
//! Each thread counts for itself, in 512 bytes of the block that the loader gave it (the initial-exec model: reaching them
//! calls nothing, and allocates nothing). Counters that threads shared would move from CPU to CPU with each read, which
//! costs more than the rest of the library.

/// The most reads that pass at a time.
pub const PASS_MAX: u32 = 15;
/// Descriptors that share an entry differ by this.
const ENTRIES: u32 = 64;
/// Bits of an entry's lower word that count reads; the others are the descriptor.
const COUNT_BITS: u32 = 4;
/// A pass that took four times as long as one with hits, and so much more, held a read that missed: 0.05 to 0.3 ms on
/// processors of 5 to 1 GHz, in their ticks.
const LATE_TICKS: u32 = 1 << 18;

/// Whether a read is let pass: one load, one store, nothing else.
#[inline(always)]
pub fn passes(fd: i32) -> bool {
    let word = own::load(fd as u32 % ENTRIES);
    let left = word.wrapping_sub((fd as u32) << COUNT_BITS);
    if left.wrapping_sub(1) >= PASS_MAX {
        return false;
    }
    own::store(fd as u32 % ENTRIES, word - 1);
    true
}

/// Lets this thread's next [`PASS_MAX`] reads of a descriptor pass, from a time on that [`ticks`] told.
pub fn begin(fd: i32, now: u32) {
    own::store(fd as u32 % ENTRIES, (fd as u32) << COUNT_BITS | PASS_MAX);
    own::store(fd as u32 % ENTRIES + ENTRIES, now);
}

/// Lets this thread's next reads of a descriptor pass no more.
pub fn end(fd: i32) {
    if own::load(fd as u32 % ENTRIES) >> COUNT_BITS == fd as u32 {
        own::store(fd as u32 % ENTRIES, u32::MAX);
    }
}

/// How long this thread's pass of a descriptor took until now, in the processor's ticks; `None` when it had none.
pub fn taken(fd: i32, now: u32) -> Option<u32> {
    let used_up = own::load(fd as u32 % ENTRIES) == (fd as u32) << COUNT_BITS;
    let begun = own::load(fd as u32 % ENTRIES + ENTRIES);
    (used_up && begun != 0).then(|| now.wrapping_sub(begun))
}

/// Whether a pass was as quick as reads are that hit, when the file's quickest took so long.
pub fn is_quick(taken: u32, quickest: u32) -> bool {
    taken < quickest.saturating_mul(4).saturating_add(LATE_TICKS)
}

/// The processor's counter, never 0. Where one pass ends and the next begins it is read once.
#[cfg(target_arch = "x86_64")]
pub fn ticks() -> u32 {
    // SAFETY: every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() as u32 | 1 }
}

/// Nanoseconds stand for ticks.
#[cfg(not(target_arch = "x86_64"))]
pub fn ticks() -> u32 {
    prefetch_os::sys::now_ns() as u32 | 1
}

/// The words of this thread: `ENTRIES` of counters, then as many of times.
#[cfg(target_arch = "x86_64")]
mod own {
    use core::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.loadline_pass, \"awT\", @nobits",
        ".p2align 6",
        ".globl loadline_pass",
        ".hidden loadline_pass",
        ".type loadline_pass, @object",
        ".size loadline_pass, 512",
        "loadline_pass: .zero 512",
        ".popsection",
    );

    /// Where the words are, from the thread's own base.
    #[inline(always)]
    fn start() -> u64 {
        let start;
        // SAFETY: loads a constant that the loader has set.
        unsafe {
            asm!(
                "mov {start}, qword ptr [rip + loadline_pass@GOTTPOFF]",
                start = out(reg) start,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        start
    }

    #[inline(always)]
    pub fn load(at: u32) -> u32 {
        let word: u32;
        // SAFETY: within the 512 bytes, which live as long as the thread.
        unsafe {
            asm!(
                "mov {word:e}, dword ptr fs:[{start} + 4 * {at}]",
                start = in(reg) start(), word = lateout(reg) word, at = in(reg) u64::from(at),
                options(nostack, preserves_flags, readonly),
            );
        }
        word
    }

    #[inline(always)]
    pub fn store(at: u32, word: u32) {
        // SAFETY: as above.
        unsafe {
            asm!(
                "mov dword ptr fs:[{start} + 4 * {at}], {word:e}",
                start = in(reg) start(), word = in(reg) word, at = in(reg) u64::from(at),
                options(nostack, preserves_flags),
            );
        }
    }
}

/// Elsewhere, threads share the words.
#[cfg(not(target_arch = "x86_64"))]
mod own {
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

    static WORDS: [AtomicU32; 128] = [const { AtomicU32::new(0) }; 128];

    #[inline]
    pub fn load(at: u32) -> u32 {
        WORDS.get(at as usize).map_or(0, |word| word.load(Relaxed))
    }

    #[inline]
    pub fn store(at: u32, word: u32) {
        if let Some(own) = WORDS.get(at as usize) {
            own.store(word, Relaxed);
        }
    }
}
