//! The bytes of every version that reads or a power cut may ask for.
//!
//! The newest version of each block lies in the image. A superseded one is kept until a newer version of its
//! block is known to be durable: after a completed flush, after any completion on a power-protected device,
//! or when the model says so. Numbers are given in the order of submission, so a larger number is newer.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};
use ssd::Token;

use crate::image::{BLOCK, Image};

/// A block of zeroes.
const ZERO: u64 = 0;
/// What a block of an existing backing file held before the device was made.
const BASE: u64 = u64::MAX - 1;

#[derive(Debug)]
struct OldVersion {
    lba: u32,
    token: u64,
    /// Number of the version that took its place.
    by: u64,
    bytes: Box<[u8; BLOCK]>,
}

/// A power cut's image on disk.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct CutReport {
    /// The file, sparse, of the device's capacity.
    pub path: String,
    /// Blocks that hold something.
    pub data_blocks: u64,
    /// Of these, blocks whose newest version was lost.
    pub rolled_back_blocks: u64,
    /// Commands that never completed.
    pub lost_commands: u32,
    /// Blocks that power-loss protection saved from the cache.
    pub saved_blocks: u32,
}

/// The store.
#[derive(Debug)]
pub(crate) struct Versions {
    image: Image,
    newest: Vec<u64>,
    next: u64,
    /// Numbers of the changes not yet completed, in order; true = completed behind an older one.
    open: VecDeque<(u64, bool)>,
    superseded: VecDeque<OldVersion>,
    spare: Vec<Box<[u8; BLOCK]>>,
    /// Superseded blocks at which the model is asked again.
    prune_at: usize,
}

/// Superseded blocks kept before the model is asked which can go: 256 MiB.
pub(crate) const PRUNE_BLOCKS: usize = 65_536;
/// Buffers of blocks that wait to be used again, 64 MiB: what a fast device writes between two flushes, with some to spare.
const SPARE_BLOCKS: usize = 16_384;

impl Versions {
    /// A store over an image that is all zeroes, or (`filled`) one with contents.
    pub(crate) fn new(image: Image, blocks: u64, filled: bool) -> Versions {
        Versions {
            image,
            newest: vec![if filled { BASE } else { ZERO }; blocks as usize],
            next: 1,
            open: VecDeque::new(),
            superseded: VecDeque::new(),
            spare: Vec::new(),
            prune_at: PRUNE_BLOCKS,
        }
    }

    pub(crate) fn prefault(&mut self) {
        self.image.prefault();
    }

    pub(crate) fn read(&self, lba: u64, to: &mut [u8]) -> io::Result<()> {
        self.image.read(lba, to)
    }

    /// Bytes of superseded versions that are kept.
    pub(crate) fn superseded_bytes(&self) -> u64 {
        (self.superseded.len() * BLOCK) as u64
    }

    /// Writes whole blocks; the number of the first.
    pub(crate) fn write(&mut self, lba: u64, data: &[u8]) -> io::Result<u64> {
        let first = self.next;
        let blocks = (data.len() / BLOCK) as u64;
        for i in 0..blocks {
            self.supersede(lba + i, first + i)?;
        }
        self.image.write(lba, data)?;
        for i in 0..blocks {
            self.newest[(lba + i) as usize] = first + i;
        }
        self.next += blocks;
        self.open.push_back((first, false));
        Ok(first)
    }

    /// Makes blocks zero; the number of the change.
    pub(crate) fn zero(&mut self, lba: u64, blocks: u64) -> io::Result<u64> {
        let number = self.next;
        for lba in lba..lba + blocks {
            if self.newest[lba as usize] != ZERO {
                self.supersede(lba, number)?;
                self.image.zero(lba)?;
                self.newest[lba as usize] = ZERO;
            }
        }
        self.next += 1;
        self.open.push_back((number, false));
        Ok(number)
    }

    fn supersede(&mut self, lba: u64, by: u64) -> io::Result<()> {
        let token = self.newest[lba as usize];
        if token == ZERO {
            return Ok(());
        }
        let mut bytes = self.spare.pop().unwrap_or_else(|| Box::new([0; BLOCK]));
        self.image.read(lba, &mut bytes[..])?;
        self.superseded.push_back(OldVersion { lba: lba as u32, token, by, bytes });
        Ok(())
    }

    /// A change has completed.
    pub(crate) fn completed(&mut self, number: u64) {
        if let Ok(at) = self.open.binary_search_by_key(&number, |(n, _)| *n) {
            self.open[at].1 = true;
        }
        while self.open.front().is_some_and(|(_, done)| *done) {
            self.open.pop_front();
        }
    }

    /// Every change below this has completed.
    pub(crate) fn horizon(&self) -> u64 {
        self.open.front().map_or(self.next, |(number, _)| *number)
    }

    /// Every change below `horizon` is durable: what those superseded can go.
    pub(crate) fn durable_below(&mut self, horizon: u64) {
        while self.superseded.front().is_some_and(|s| s.by < horizon) {
            if let Some(s) = self.superseded.pop_front() {
                self.recycle(s.bytes);
            }
        }
    }

    fn recycle(&mut self, bytes: Box<[u8; BLOCK]>) {
        if self.spare.len() < SPARE_BLOCKS {
            self.spare.push(bytes);
        }
    }

    /// Whether so much is kept that the model should be asked.
    pub(crate) fn wants_prune(&self) -> bool {
        self.superseded.len() >= self.prune_at
    }

    /// `durable`: per block, the version a power cut would bring back at least.
    pub(crate) fn prune(&mut self, durable: &[Token]) {
        self.forget_before(durable);
        self.prune_at = (self.superseded.len() * 2).max(PRUNE_BLOCKS);
    }

    /// Drops what is older than the durable version of its block.
    fn forget_before(&mut self, durable: &[Token]) {
        let kept = |s: &OldVersion| {
            let token = durable[s.lba as usize].0;
            token == ZERO || token < s.by
        };
        self.superseded.retain(kept);
    }

    /// What the device held in its cache is gone: each block whose newest version has completed holds again what `durable` says a
    /// power cut would leave at least. `lost` gets the address and the older bytes of each such block. Discards are kept.
    ///
    /// The model goes on with the numbers of the lost versions, which from now on stand for the older bytes.
    pub(crate) fn lose_cached(
        &mut self,
        durable: &[Token],
        mut lost: impl FnMut(u64, &[u8]),
    ) -> io::Result<u64> {
        self.forget_before(durable);
        let before: HashMap<(u32, u64), usize> =
            self.superseded.iter().enumerate().map(|(at, s)| ((s.lba, s.by), at)).collect();
        let (mut lost_blocks, mut held) = (0, Box::new([0; BLOCK]));
        for (lba, durable) in durable.iter().enumerate() {
            let newest = self.newest[lba];
            if newest == ZERO || newest == BASE || durable.0 == newest || self.is_open(newest) {
                continue;
            }
            // From the newest version back to the durable one; zeroes, where a discard or nothing was before.
            let (mut version, mut between, mut bytes) = (newest, Vec::new(), Box::new([0; BLOCK]));
            while let Some(&at) = before.get(&(lba as u32, version)) {
                let older = &self.superseded[at];
                version = older.token;
                // The model knows nothing of what a backing file held before: it says zero.
                if version == durable.0 || version == BASE {
                    bytes.copy_from_slice(&older.bytes[..]);
                    break;
                }
                between.push(at);
            }
            between.into_iter().for_each(|at| self.superseded[at].bytes.copy_from_slice(&bytes[..]));
            // What an earlier failure has set back is not lost once more.
            self.image.read(lba as u64, &mut held[..])?;
            if held != bytes {
                self.image.write(lba as u64, &bytes[..])?;
                lost(lba as u64, &bytes[..]);
                lost_blocks += 1;
            }
        }
        Ok(lost_blocks)
    }

    /// Whether the change that made this version has not completed.
    fn is_open(&self, token: u64) -> bool {
        let later = self.open.partition_point(|(number, _)| *number <= token);
        later > 0 && !self.open[later - 1].1
    }

    /// Lowers the number of kept blocks at which the model is asked (tests).
    #[cfg(test)]
    pub(crate) fn prune_at(&mut self, blocks: usize) {
        self.prune_at = blocks;
    }

    /// Calls `each` with every block of the image a power cut left that is not zero: its address, its bytes,
    /// and whether they are an older version than the newest.
    pub(crate) fn after_cut(
        &self,
        cut: &[Token],
        mut each: impl FnMut(u64, &[u8], bool) -> io::Result<()>,
    ) -> io::Result<()> {
        let old: HashMap<(u32, u64), &[u8; BLOCK]> =
            self.superseded.iter().map(|s| ((s.lba, s.token), &*s.bytes)).collect();
        let mut buffer = [0; BLOCK];
        for (lba, token) in cut.iter().enumerate() {
            let newest = self.newest[lba];
            // The model knows nothing of what a backing file held before: it says zero.
            let before = token.0 == ZERO && (newest == BASE || old.contains_key(&(lba as u32, BASE)));
            let token = if before { BASE } else { token.0 };
            if token == ZERO {
                continue;
            }
            if token == newest {
                self.image.read(lba as u64, &mut buffer)?;
                each(lba as u64, &buffer, false)?;
            } else if let Some(bytes) = old.get(&(lba as u32, token)) {
                each(lba as u64, &bytes[..], true)?;
            } else {
                return Err(io::Error::other(format!(
                    "block {lba}: version {token} survived the power cut but was not kept"
                )));
            }
        }
        Ok(())
    }

    /// Saves the image a power cut left in a new sparse file.
    pub(crate) fn save(&self, cut: &ssd::PowerCut, path: &camino::Utf8Path) -> io::Result<CutReport> {
        let file = File::options().write(true).create_new(true).open(path)?;
        file.set_len((self.newest.len() * BLOCK) as u64)?;
        let (mut data_blocks, mut rolled_back_blocks) = (0, 0);
        self.after_cut(&cut.image, |lba, bytes, older| {
            data_blocks += 1;
            rolled_back_blocks += u64::from(older);
            file.write_all_at(bytes, lba * BLOCK as u64)
        })?;
        file.sync_all()?;
        Ok(CutReport {
            path: path.to_string(),
            data_blocks,
            rolled_back_blocks,
            lost_commands: cut.lost_commands,
            saved_blocks: cut.saved_blocks,
        })
    }
}
