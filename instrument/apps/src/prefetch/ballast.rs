//! Memory taken away from the page cache, as the artifact does by filling a ramfs.

/// Memory that a load's programs need for themselves, beside the page cache.
const OWN_BYTES: u64 = 24 << 20;

/// Anonymous memory within the load's limit. Given back when dropped.
#[derive(Debug)]
pub struct Ballast(Vec<u8>);

impl Ballast {
    /// Takes what leaves `cache_bytes` of `limit_bytes` to the page cache, and `heap_bytes` to the programs.
    pub fn leave(limit_bytes: u64, cache_bytes: u64, heap_bytes: u64) -> Ballast {
        let bytes = limit_bytes.saturating_sub(cache_bytes + heap_bytes + OWN_BYTES);
        // Each page written, or the kernel would give none.
        Ballast(vec![1; bytes as usize])
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        std::hint::black_box(&self.0).len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_what_is_too_much_and_never_less_than_nothing() {
        assert_eq!(Ballast::leave(100 << 20, 40 << 20, 10 << 20).bytes(), 26 << 20);
        assert_eq!(Ballast::leave(50 << 20, 40 << 20, 10 << 20).bytes(), 0);
    }
}
