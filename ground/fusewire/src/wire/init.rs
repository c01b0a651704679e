//! The handshake: what the kernel offers, what the file system wants of it.

use super::{init_flag, u32_at};

/// Protocol version that is spoken: 7.31 and up, up to this.
const MAJOR: u32 = 7;
const MINOR_MAX: u32 = 45;
const MINOR_MIN: u32 = 31;
/// Bytes of `struct fuse_init_out`.
const OUT_BYTES: usize = 64;

/// What the kernel offers (`struct fuse_init_in`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitRequest {
    /// 7.
    pub major: u32,
    /// Its version of it.
    pub minor: u32,
    /// Most bytes that it would read ahead.
    pub max_readahead: u32,
    /// What it can; see [`init_flag`].
    pub flags: u64,
}

/// What the file system would like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitConfig {
    /// Flags of [`init_flag`]; those that the kernel does not offer are left out.
    pub flags: u64,
    /// Most bytes of a read or write.
    pub request_bytes_max: u32,
    /// Requests in the background (read-ahead, writes of the page cache), and above how many the kernel slows down.
    pub max_background: u16,
    /// See `max_background`.
    pub congestion_threshold: u16,
}

/// What was agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Flags of [`init_flag`].
    pub flags: u64,
}

impl Capabilities {
    /// Whether all of `flags` were agreed.
    pub fn has(self, flags: u64) -> bool {
        self.flags & flags == flags
    }
}

impl InitRequest {
    /// Reads what stands behind the header; None if there is too little.
    pub fn parse(bytes: &[u8]) -> Option<InitRequest> {
        let low = u64::from(u32_at(bytes, 12)?);
        let high = if low & init_flag::INIT_EXT != 0 { u32_at(bytes, 16)? } else { 0 };
        Some(InitRequest {
            major: u32_at(bytes, 0)?,
            minor: u32_at(bytes, 4)?,
            max_readahead: u32_at(bytes, 8)?,
            flags: low | u64::from(high) << 32,
        })
    }

    /// Whether this end can speak with the kernel.
    pub fn is_spoken(&self) -> bool {
        self.major == MAJOR && self.minor >= MINOR_MIN
    }

    /// The answer (`struct fuse_init_out`), and what is agreed by it.
    pub fn answer(&self, wish: &InitConfig) -> (Vec<u8>, Capabilities) {
        let flags = (wish.flags | init_flag::INIT_EXT | init_flag::MAX_PAGES) & self.flags;
        let mut out = Vec::with_capacity(OUT_BYTES);
        let readahead = wish.request_bytes_max.min(self.max_readahead);
        for word in [MAJOR, self.minor.min(MINOR_MAX), readahead, flags as u32] {
            out.extend(word.to_ne_bytes());
        }
        out.extend(wish.max_background.to_ne_bytes());
        out.extend(wish.congestion_threshold.to_ne_bytes());
        out.extend(wish.request_bytes_max.to_ne_bytes());
        let nanoseconds: u32 = 1;
        out.extend(nanoseconds.to_ne_bytes());
        out.extend(pages(wish.request_bytes_max, rustix::param::page_size()).to_ne_bytes());
        out.extend(0u16.to_ne_bytes());
        out.extend(((flags >> 32) as u32).to_ne_bytes());
        out.resize(OUT_BYTES, 0);
        (out, Capabilities { flags })
    }
}

/// Pages of the machine's that a request of so many bytes needs. With more than that the kernel would want more memory for an
/// entry of a ring than it gets.
fn pages(bytes: u32, page_bytes: usize) -> u16 {
    u16::try_from((bytes as usize).div_ceil(page_bytes)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_request_has_as_many_pages_as_the_machine_makes_of_it() {
        assert_eq!([4 << 10, 16 << 10, 64 << 10].map(|page| super::pages(1 << 20, page)), [256, 64, 16]);
        assert_eq!([super::pages(1, 4096), super::pages(u32::MAX, 4096)], [1, u16::MAX]);
    }
}
