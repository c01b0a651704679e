//! Garbage collection, folding of SLC blocks, wear levelling: moving live slots to free whole blocks.

use super::Ftl;
use crate::cache::NIL;
use crate::flash::{BlockState, flag};
use crate::geometry::GC_LOW;
use crate::journal::Delta;
use crate::mutation::Mutation;

/// Why a block is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Space,
    Fold,
}

/// A block being emptied on one die.
#[derive(Clone, Debug)]
pub(crate) struct GcJob {
    victim: u32,
    /// Next slot of it to look at.
    cursor: u32,
    /// A relocation program is under way.
    pub(crate) busy: bool,
}

impl Ftl {
    pub(crate) fn wants_gc(&self, die: u32) -> bool {
        self.flash.free[die as usize].len() <= GC_LOW
    }

    /// Chooses a victim on `die`. False if a job runs already or nothing is worth collecting.
    pub(crate) fn begin_gc(&mut self, die: u32, reason: Reason) -> bool {
        if self.gc[die as usize].is_some() {
            return false;
        }
        let victim = match reason {
            Reason::Space => self.worn_victim(die).or_else(|| self.greedy_victim(die)),
            Reason::Fold => self.slc_victim(die),
        };
        let Some(victim) = victim else { return false };
        let cursor = victim * self.flash.geo.block_slots;
        self.gc[die as usize] = Some(GcJob { victim, cursor, busy: false });
        true
    }

    fn closed(&self, die: u32) -> impl Iterator<Item = u32> {
        let n = self.flash.geo.blocks_per_die;
        (die * n..(die + 1) * n).filter(|b| {
            let b = &self.flash.blocks[*b as usize];
            b.state == BlockState::Closed && b.in_flight == 0
        })
    }

    /// Fewest live slots; at least a unit must be won, or collection would run in circles.
    fn greedy_victim(&self, die: u32) -> Option<u32> {
        let most = self.flash.geo.block_slots - self.flash.geo.unit_slots;
        self.closed(die)
            .min_by_key(|b| self.flash.blocks[*b as usize].valid)
            .filter(|b| self.flash.blocks[*b as usize].valid <= most)
    }

    /// Static wear levelling: once in a while the least worn closed block, however full.
    fn worn_victim(&self, die: u32) -> Option<u32> {
        let (low, high) = self.flash.wear(die);
        if high - low <= self.wear_spread_max || self.flash.free[die as usize].len() < GC_LOW {
            return None;
        }
        self.closed(die).min_by_key(|b| self.flash.blocks[*b as usize].erases)
    }

    fn slc_victim(&self, die: u32) -> Option<u32> {
        self.closed(die).find(|b| self.flash.blocks[*b as usize].slc)
    }

    /// Begins the next relocation of the die's job: the program's index, or None when there is nothing to
    /// move (then the job is over), a program is under way, or no block is free for it.
    pub(crate) fn gc_step(&mut self, die: u32) -> Option<u32> {
        let d = die as usize;
        let job = self.gc[d].as_ref().filter(|j| !j.busy)?;
        let (victim, mut cursor) = (job.victim, job.cursor);
        let end = (victim + 1) * self.flash.geo.block_slots;
        let mut live = Vec::with_capacity(self.flash.geo.unit_slots as usize);
        while cursor < end && live.len() < self.flash.geo.unit_slots as usize {
            if self.worth_moving(cursor) {
                live.push(cursor);
            }
            cursor += 1;
        }
        if live.is_empty() {
            self.gc[d] = None;
            if self.mutated(Mutation::GcIgnoresSuspended) {
                self.retire(victim);
            } else {
                self.retire_if_dead(victim);
            }
            return None;
        }
        if self.open_gc[d] == NIL {
            self.open_gc[d] = self.flash.open_block(die, true, false)?;
        }
        let block = self.open_gc[d];
        let (first, full) = self.flash.next_unit(block);
        if full {
            self.open_gc[d] = NIL;
        }
        let program = self.new_program(die, first, true, false);
        self.moved += live.len() as u64;
        for slot in live {
            if let Some(content) = self.flash.read(slot) {
                self.programs[program as usize].items.push((slot, content));
            }
        }
        if let Some(job) = &mut self.gc[d] {
            (job.cursor, job.busy) = (cursor, true);
        }
        Some(program)
    }

    fn worth_moving(&self, slot: u32) -> bool {
        let flags = self.flash.flags(slot);
        if self.mutated(Mutation::GcIgnoresSuspended) {
            return flags & flag::DUR != 0;
        }
        flags != 0
    }

    /// A relocated copy has been programmed: every reference that still holds moves to it.
    pub(super) fn relocate(&mut self, old: u32, new: u32, lpn: u32) {
        let flags = self.flash.flags(old);
        if flags & flag::CUR != 0 {
            self.cur[lpn as usize] = new + 1;
            self.flash.set_flag(new, flag::CUR);
        }
        if flags & flag::DUR != 0 {
            self.dur[lpn as usize] = new + 1;
            self.flash.set_flag(new, flag::DUR);
            self.journal.record(Delta { lpn, count: 1, slot: new + 1 });
        }
        if flags & flag::WAITING != 0
            && let Some(id) = self.waiting_slots.remove(&old)
        {
            self.cache.get_mut(id).slot = new;
            self.waiting_slots.insert(new, id);
            self.flash.set_flag(new, flag::WAITING);
        }
        if self.flash.clear_flag(old, flags) {
            self.retire(self.flash.geo.block_of(old));
        }
    }

    pub(super) fn retire_if_dead(&mut self, block: u32) {
        let b = &self.flash.blocks[block as usize];
        if b.state == BlockState::Closed && b.valid == 0 && b.in_flight == 0 {
            self.retire(block);
        }
    }

    /// The block holds nothing live. It can be erased once the map changes that emptied it are on flash.
    pub(super) fn retire(&mut self, block: u32) {
        let b = &mut self.flash.blocks[block as usize];
        if b.state == BlockState::Closed {
            b.state = BlockState::Erasing;
            self.erasable.push_back((self.journal.next(), block));
        }
    }
}
