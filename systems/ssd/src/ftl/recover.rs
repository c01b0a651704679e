//! Losing power and coming back.

use super::{CACHED, Ftl};
use crate::cache::{Cache, NIL, State};
use crate::command::Token;
use crate::error::RecoverError;
use crate::flash::flag;
use crate::order::{Order, Resolved};
use crate::window::Window;

/// Token of a block whose mapped page cannot be read (never on a healthy model).
pub const UNREADABLE: Token = Token(u64::MAX);

/// What capacitors saved of the cache.
pub(crate) type Dump = Vec<(u32, Token)>;

impl Ftl {
    /// Cuts the power. `survives` is asked once per operation under way whether it ended just in time;
    /// `erasing` are the blocks whose erase is under way. Returns what power-loss protection saved.
    pub(crate) fn power_loss(&mut self, erasing: &[u32], mut survives: impl FnMut() -> bool) -> Dump {
        let mut dump = Vec::new();
        if self.plp {
            let mut kept: Vec<_> = self
                .cache
                .entries
                .iter()
                .filter(|e| e.state != State::Free && e.committed && !e.is_trim)
                .filter(|e| e.seq > self.dur_seq[e.lpn as usize])
                .map(|e| (e.seq, e.lpn, e.token))
                .collect();
            kept.sort_unstable();
            dump.extend(kept.into_iter().map(|(_, lpn, token)| (lpn, token)));
            self.journal.persist_all();
        }
        for p in self.programs.iter().filter(|p| p.running) {
            if survives() {
                for (i, (_, content)) in p.items.iter().enumerate() {
                    self.flash.write(p.first + i as u32, *content);
                }
            }
            self.flash.pad_unit(p.first);
        }
        for block in erasing {
            // Half erased: nothing readable, to be erased again.
            let erases = self.flash.blocks[*block as usize].erases;
            self.flash.erase(*block);
            let b = &mut self.flash.blocks[*block as usize];
            (b.erases, b.next_unit) = (erases, self.flash.geo.units_per_block);
        }
        self.journal.power_loss(survives());
        dump
    }

    /// The contents a recovery would find, one token per block.
    pub(crate) fn image(&self, dump: &Dump) -> Vec<Token> {
        let (map, _) = self.journal.replay(self.flash.geo.logical);
        let mut image: Vec<Token> = map
            .iter()
            .enumerate()
            .map(|(lpn, slot)| match slot {
                0 => Token::ZERO,
                s => match self.flash.read(s - 1) {
                    Some(c) if c.lpn == lpn as u32 => c.token,
                    _ => UNREADABLE,
                },
            })
            .collect();
        for (lpn, token) in dump {
            image[*lpn as usize] = *token;
        }
        image
    }

    /// Rebuilds everything that was in DRAM from flash. Returns the number of flash pages read.
    pub(crate) fn recover(&mut self, dump: Dump) -> Result<u64, RecoverError> {
        let capacity = self.cache.capacity;
        self.cache = Cache::new(capacity);
        self.order = Order::default();
        self.order.mutation = self.mutation;
        (self.untagged, self.tagged) = (Window::default(), Window::default());
        self.open_host.fill(NIL);
        self.open_gc.fill(NIL);
        self.gc.fill(None);
        self.programs.clear();
        self.free_programs.clear();
        self.erasable.clear();
        self.waiting_slots.clear();
        self.fua_done.clear();
        self.wake.clear();
        self.flash.power_loss();
        let (map, reads) = self.journal.replay(self.flash.geo.logical);
        self.dur_seq.fill(0);
        for (lpn, &slot) in map.iter().enumerate() {
            if slot == 0 {
                continue;
            }
            match self.flash.read(slot - 1) {
                Some(c) if c.lpn == lpn as u32 => {
                    self.flash.set_flag(slot - 1, flag::CUR | flag::DUR);
                    self.dur_seq[lpn] = c.seq;
                    self.seq = self.seq.max(c.seq);
                }
                other => {
                    let found = other.map_or("nothing".to_owned(), |c| format!("block {}", c.lpn));
                    return Err(RecoverError::LostPage { lba: lpn as u64, slot: slot - 1, found });
                }
            }
        }
        self.cur.clone_from(&map);
        self.dur = map;
        debug_assert!(self.cur.iter().all(|c| c & CACHED == 0));
        for block in 0..self.flash.geo.blocks() {
            self.retire_if_dead(block);
        }
        for (lpn, token) in dump {
            self.accept_write(lpn, token, Resolved::UNTAGGED, NIL);
        }
        self.settle();
        Ok(reads)
    }
}
