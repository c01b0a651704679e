//! The bytes of a file: blocks that are there only where something was written, each as long as it must be.

use std::collections::BTreeMap;

use crate::space::{BLOCK, Space};

/// A block that is not whole has a multiple of so many bytes.
const GRAIN: usize = 512;
/// Above so many bytes a block is whole: small files take little, and larger ones what is ready.
const PART_MAX: usize = BLOCK / 8;

/// Largest size of a file in bytes: the kernel's offsets are signed.
pub(crate) const SIZE_MAX: u64 = i64::MAX as u64;

/// A file's bytes.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    size: u64,
    /// By their number. Behind a block's end, up to the file's, are zeros.
    blocks: BTreeMap<u64, Vec<u8>>,
    /// Bytes of memory of all blocks.
    held: u64,
}

/// Where `offset` lies: the block's number, and where in it.
fn place(offset: u64) -> (u64, usize) {
    (offset / BLOCK as u64, (offset % BLOCK as u64) as usize)
}

/// The pieces that `len` bytes from `offset` fall into: number of the block, where in it, which of the bytes.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let (number, at) = place(offset + done as u64);
        let piece = done..len.min(done + BLOCK - at);
        done = piece.end;
        (!piece.is_empty()).then_some((number, at, piece))
    })
}

impl Contents {
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of memory.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Reads what is at `offset` into `out`; how many bytes are there.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> usize {
        let there = self.size.saturating_sub(offset).min(out.len() as u64) as usize;
        for (number, at, piece) in pieces(offset, there) {
            let out = &mut out[piece];
            let block = self.blocks.get(&number).and_then(|block| block.get(at..)).unwrap_or_default();
            let bytes = block.len().min(out.len());
            out[..bytes].copy_from_slice(&block[..bytes]);
            out[bytes..].fill(0);
        }
        there
    }

    /// Writes; how many bytes, which are fewer when the space is full.
    ///
    /// # Errors
    /// ENOSPC if there is space for none; EFBIG beyond what a file can have.
    pub fn write(&mut self, offset: u64, data: &[u8], space: &Space) -> Result<usize, i32> {
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > SIZE_MAX) {
            return Err(libc::EFBIG);
        }
        let mut done = 0;
        for (number, at, piece) in pieces(offset, data.len()) {
            let data = &data[piece.clone()];
            let block = self.blocks.entry(number).or_default();
            let end = at + data.len();
            if end > block.capacity() {
                let room = end.max(2 * block.capacity()).next_multiple_of(GRAIN);
                let room = if room > PART_MAX { BLOCK } else { room };
                let more = (room - block.capacity()) as u64;
                match space.take(more) {
                    Ok(()) if room == BLOCK => {
                        let mut whole = space.block();
                        whole.extend_from_slice(block);
                        *block = whole;
                    }
                    Ok(()) => block.reserve_exact(room - block.len()),
                    Err(errno) if done == 0 => return Err(errno),
                    Err(_) => break,
                }
                self.held += more;
            }
            if block.len() < at {
                block.resize(at, 0);
            }
            let over = data.len().min(block.len() - at);
            block[at..at + over].copy_from_slice(&data[..over]);
            block.extend_from_slice(&data[over..]);
            done = piece.end;
        }
        self.size = self.size.max(offset + done as u64);
        Ok(done)
    }

    /// Makes it so long: shorter, or longer by zeros.
    pub fn resize(&mut self, size: u64, space: &Space) {
        if size < self.size {
            let (last, at) = place(size);
            let mut gone = self.blocks.split_off(&last);
            if at > 0
                && let Some(mut block) = gone.remove(&last)
            {
                block.truncate(at);
                self.blocks.insert(last, block);
            }
            for block in gone.into_values() {
                self.held -= block.capacity() as u64;
                space.give_block(block);
            }
        }
        self.size = size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_beyond_the_largest_size() {
        let space = Space::new(1 << 20);
        let mut contents = Contents::default();
        for offset in [u64::MAX, u64::MAX - 1, SIZE_MAX, SIZE_MAX - 1] {
            assert_eq!(contents.write(offset, b"ab", &space), Err(libc::EFBIG));
        }
        assert_eq!((contents.write(SIZE_MAX - 2, b"ab", &space), contents.size()), (Ok(2), SIZE_MAX));
    }

    #[test]
    fn holes_read_as_zeros_and_what_was_cut_off_does_not_come_back() {
        let space = Space::new(1 << 20);
        let mut contents = Contents::default();
        let far = 3 * BLOCK as u64 + 5;
        assert_eq!(contents.write(far, b"far", &space), Ok(3));
        assert_eq!(contents.write(BLOCK as u64 - 2, b"across", &space), Ok(6));
        let mut out = vec![9; 4 * BLOCK];
        assert_eq!(contents.read(0, &mut out), far as usize + 3);
        assert_eq!(&out[BLOCK - 3..BLOCK + 6], b"\0across\0\0");
        assert!(out[BLOCK + 4..far as usize].iter().all(|byte| *byte == 0));
        contents.resize(BLOCK as u64 - 1, &space);
        contents.resize(far, &space);
        assert_eq!(contents.read(BLOCK as u64 - 2, &mut out[..4]), 4);
        assert_eq!(&out[..4], b"a\0\0\0");
        contents.resize(0, &space);
        assert_eq!((contents.held(), space.left()), (0, space.most()));
    }

    #[test]
    fn a_full_space_takes_a_part_and_then_nothing() {
        let space = Space::new((BLOCK + GRAIN) as u64);
        let mut contents = Contents::default();
        let data = vec![1; 3 * BLOCK];
        assert_eq!(contents.write(0, &data, &space), Ok(BLOCK));
        assert_eq!(contents.write(BLOCK as u64, &data, &space), Err(libc::ENOSPC));
        assert_eq!(contents.write(BLOCK as u64, &data[..GRAIN], &space), Ok(GRAIN));
        assert_eq!((contents.size(), space.left()), ((BLOCK + GRAIN) as u64, 0));
        assert_eq!(contents.write(5, b"over", &space), Ok(4), "what is there already needs nothing");
    }
}
