//! The flash array: what is programmed where. All that survives a power cut, with `meta`.

use std::collections::VecDeque;

use crate::command::Token;
use crate::geometry::{GC_RESERVE, Geometry};

/// Spare-area mark of a slot without a logical block: padding, or a program cut short.
const UNREADABLE: u32 = u32::MAX;

/// Which map refers to a slot. A slot with no flag is garbage.
pub(crate) mod flag {
    /// The newest version: reads come here.
    pub(crate) const CUR: u8 = 1;
    /// The installed version: survives once the journal has it.
    pub(crate) const DUR: u8 = 2;
    /// On flash, waiting for earlier epochs.
    pub(crate) const WAITING: u8 = 4;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    Free,
    Open,
    Closed,
    /// No live slot; waits for the journal, then for its erase.
    Erasing,
}

#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) state: BlockState,
    pub(crate) slc: bool,
    pub(crate) next_unit: u32,
    /// Slots with a flag.
    pub(crate) valid: u32,
    /// Programs under way.
    pub(crate) in_flight: u32,
    pub(crate) erases: u32,
}

/// What a slot's spare area says, as read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) lpn: u32,
    pub(crate) token: Token,
    pub(crate) seq: u64,
}

#[derive(Debug)]
pub(crate) struct Flash {
    pub(crate) geo: Geometry,
    /// Logical block + 1; 0 = erased.
    lpn: Vec<u32>,
    token: Vec<u64>,
    seq: Vec<u64>,
    flags: Vec<u8>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) free: Vec<VecDeque<u32>>,
    /// Blocks written in SLC mode and not yet erased.
    pub(crate) slc_blocks: u32,
}

impl Flash {
    pub(crate) fn new(geo: Geometry) -> Flash {
        let slots = geo.slots() as usize;
        let block =
            Block { state: BlockState::Free, slc: false, next_unit: 0, valid: 0, in_flight: 0, erases: 0 };
        let free =
            (0..geo.dies).map(|d| (d * geo.blocks_per_die..(d + 1) * geo.blocks_per_die).collect()).collect();
        Flash {
            lpn: vec![0; slots],
            token: vec![0; slots],
            seq: vec![0; slots],
            flags: vec![0; slots],
            blocks: vec![block; geo.blocks() as usize],
            free,
            slc_blocks: 0,
            geo,
        }
    }

    pub(crate) fn read(&self, slot: u32) -> Option<Slot> {
        let i = slot as usize;
        match self.lpn[i] {
            0 | UNREADABLE => None,
            n => Some(Slot { lpn: n - 1, token: Token(self.token[i]), seq: self.seq[i] }),
        }
    }

    pub(crate) fn write(&mut self, slot: u32, content: Slot) {
        let i = slot as usize;
        self.lpn[i] = content.lpn + 1;
        self.token[i] = content.token.0;
        self.seq[i] = content.seq;
    }

    /// Marks a whole unit: padding, or torn by a power cut. Written slots stay.
    pub(crate) fn pad_unit(&mut self, first: u32) {
        for i in first..first + self.geo.unit_slots {
            if self.lpn[i as usize] == 0 {
                self.lpn[i as usize] = UNREADABLE;
            }
        }
    }

    pub(crate) fn flags(&self, slot: u32) -> u8 {
        self.flags[slot as usize]
    }

    pub(crate) fn set_flag(&mut self, slot: u32, flag: u8) {
        let f = &mut self.flags[slot as usize];
        if *f == 0 {
            self.blocks[(slot / self.geo.block_slots) as usize].valid += 1;
        }
        *f |= flag;
    }

    /// Clears a flag; true if the slot's block is now closed and without live slots.
    pub(crate) fn clear_flag(&mut self, slot: u32, flag: u8) -> bool {
        let f = &mut self.flags[slot as usize];
        if *f & flag == 0 {
            return false;
        }
        *f &= !flag;
        let alive = *f != 0;
        let block = &mut self.blocks[(slot / self.geo.block_slots) as usize];
        if !alive {
            block.valid -= 1;
        }
        block.valid == 0 && block.state == BlockState::Closed && block.in_flight == 0
    }

    /// Takes the next free block of a die; host writes leave the reserve to collection.
    pub(crate) fn open_block(&mut self, die: u32, for_gc: bool, slc: bool) -> Option<u32> {
        let free = &mut self.free[die as usize];
        if free.len() <= if for_gc { 0 } else { GC_RESERVE } {
            return None;
        }
        let block = free.pop_front()?;
        let b = &mut self.blocks[block as usize];
        b.state = BlockState::Open;
        b.slc = slc;
        self.slc_blocks += u32::from(slc);
        Some(block)
    }

    /// The next unit of an open block: (first slot, whether the block is now used up).
    pub(crate) fn next_unit(&mut self, block: u32) -> (u32, bool) {
        let b = &mut self.blocks[block as usize];
        let first = block * self.geo.block_slots + b.next_unit * self.geo.unit_slots;
        b.next_unit += 1;
        b.in_flight += 1;
        let full = b.next_unit == self.geo.units_per_block;
        if full {
            b.state = BlockState::Closed;
        }
        (first, full)
    }

    pub(crate) fn erase(&mut self, block: u32) {
        let from = (block * self.geo.block_slots) as usize;
        let to = from + self.geo.block_slots as usize;
        self.lpn[from..to].fill(0);
        self.token[from..to].fill(0);
        self.seq[from..to].fill(0);
        let b = &mut self.blocks[block as usize];
        self.slc_blocks -= u32::from(b.slc);
        *b = Block {
            state: BlockState::Free,
            slc: false,
            next_unit: 0,
            valid: b.valid,
            in_flight: 0,
            erases: b.erases + 1,
        };
        let die = self.geo.die_of_block(block);
        self.free[die as usize].push_back(block);
    }

    /// Forgets all that is in DRAM: flags, counts, open blocks. Programmed contents stay.
    pub(crate) fn power_loss(&mut self) {
        self.flags.fill(0);
        for free in &mut self.free {
            free.clear();
        }
        for (i, b) in self.blocks.iter_mut().enumerate() {
            b.valid = 0;
            b.in_flight = 0;
            b.state = if b.next_unit == 0 { BlockState::Free } else { BlockState::Closed };
            if b.state == BlockState::Free {
                let die = self.geo.die_of_block(i as u32);
                self.free[die as usize].push_back(i as u32);
            }
        }
    }

    /// (lowest, highest) erase count of a die.
    pub(crate) fn wear(&self, die: u32) -> (u32, u32) {
        let from = (die * self.geo.blocks_per_die) as usize;
        let blocks = &self.blocks[from..from + self.geo.blocks_per_die as usize];
        blocks.iter().fold((u32::MAX, 0), |(lo, hi), b| (lo.min(b.erases), hi.max(b.erases)))
    }
}
