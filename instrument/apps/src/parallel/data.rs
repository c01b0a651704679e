//! Buffers that say whose they are, so that what is read can be checked.

/// Direct I/O needs buffers at a multiple of the device's logical block; no device asks for more than a page.
const ALIGNMENT: usize = 4096;
/// In a buffer that says where it lies, every so many bytes begin with the offset: as often as IOR writes it.
const STAMP_BYTES: usize = 512;

/// What is written: IOR's `-l`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// The same bytes in each transfer of a task.
    Timestamp,
    /// Each 512 bytes begin with their place in the file.
    Offset,
}

/// A buffer at a place that direct I/O accepts.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

impl Buffer {
    /// Memory that is there: of zeros the system would give it page by page, in the time of the first transfer.
    pub(crate) fn new(len: usize) -> Buffer {
        let bytes = vec![0xff; len + ALIGNMENT];
        let from = bytes.as_ptr().align_offset(ALIGNMENT);
        Buffer { bytes, from, len }
    }

    /// What a task writes: words that no other task of the run has, nor another place of the buffer.
    pub(crate) fn of(len: usize, signature: u64, task: u32) -> Buffer {
        let mut buffer = Buffer::new(len);
        let mut word = mixed(signature ^ (u64::from(task) << 32 | 1));
        for chunk in buffer.bytes_mut().chunks_mut(8) {
            word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let bytes = mixed(word).to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
        buffer
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.from..self.from + self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.len]
    }

    /// Makes it what lies at `offset`.
    pub(crate) fn stamp(&mut self, offset: u64) {
        for (number, block) in self.bytes_mut().chunks_mut(STAMP_BYTES).enumerate() {
            let at = (offset + (number * STAMP_BYTES) as u64).to_le_bytes();
            let len = block.len().min(8);
            block[..len].copy_from_slice(&at[..len]);
        }
    }
}

/// SplitMix64's finaliser (Steele, Lea and Flood, 2014).
fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_differ_by_task_run_and_place() {
        let buffer = |signature, task| Buffer::of(1000, signature, task).bytes().to_vec();
        assert_eq!(buffer(7, 1), buffer(7, 1));
        assert_ne!(buffer(7, 1), buffer(7, 2));
        assert_ne!(buffer(7, 1), buffer(8, 1));
        let mut one = Buffer::of(1024, 7, 1);
        assert_eq!(one.bytes().as_ptr() as usize % ALIGNMENT, 0);
        one.stamp(4096);
        let first = one.bytes().to_vec();
        one.stamp(8192);
        assert_ne!(first, one.bytes());
        assert_eq!(one.bytes()[512..520], 8704_u64.to_le_bytes());
    }
}
