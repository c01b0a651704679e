//! Reads that pass without a look: the whole cost of a program whose reads hit the page cache.
//!
//! Each thread counts for itself, in a block that the loader gave it (the initial-exec model: reaching it calls nothing, and
//! allocates nothing). Counters that threads shared would move from CPU to CPU with each read.

/// The most reads that pass at a time.
pub const PASS_MAX: u32 = (1 << COUNT_BITS) - 1;
/// Descriptors that share an entry differ by this.
const ENTRIES: u32 = 64;
/// Bits of a word that count reads; the others are the descriptor.
const COUNT_BITS: u32 = 10;
/// The word that says whether this thread is in a call of the library's own.
const INSIDE: u32 = ENTRIES;

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

/// Lets this thread's next reads of a descriptor pass.
pub fn let_pass(fd: i32, reads: u32) {
    own::store(fd as u32 % ENTRIES, (fd as u32) << COUNT_BITS | reads.min(PASS_MAX));
}

/// Lets this thread's next reads of a descriptor pass no more, and forgets that there were any.
pub fn forget(fd: i32) {
    if fd >= 0 && own::load(fd as u32 % ENTRIES) >> COUNT_BITS == fd as u32 {
        own::store(fd as u32 % ENTRIES, u32::MAX);
    }
}

/// Whether this thread has read a descriptor before, as far as is known. The next time it has.
pub fn is_known(fd: i32) -> bool {
    let known = own::load(fd as u32 % ENTRIES) >> COUNT_BITS == fd as u32;
    if !known {
        let_pass(fd, 0);
    }
    known
}

/// Whether this thread is in a call of the library's own: a signal handler asks.
pub fn is_inside() -> bool {
    own::load(INSIDE) != 0
}

/// Notes whether this thread is in a call of the library's own.
pub fn set_inside(inside: bool) {
    own::store(INSIDE, u32::from(inside));
}

/// The words of this thread: `ENTRIES` of counters, and one more.
#[cfg(target_arch = "x86_64")]
mod own {
    use core::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.loadline_pass, \"awT\", @nobits",
        ".p2align 6",
        ".globl loadline_pass",
        ".hidden loadline_pass",
        ".type loadline_pass, @object",
        ".size loadline_pass, 320",
        "loadline_pass: .zero 320",
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
        // SAFETY: within the 320 bytes, which live as long as the thread.
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

    static WORDS: [AtomicU32; 80] = [const { AtomicU32::new(0) }; 80];

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
