//! Order-preserving map update and sibling-aware delayed mapping (OPIMQ, FAST'25 section 5).

use super::{CACHED, Ftl};
use crate::cache::{NIL, State};
use crate::flash::flag;
use crate::journal::Delta;
use crate::mutation::Mutation;

impl Ftl {
    /// An entry's program has ended at `slot`.
    pub(super) fn placed(&mut self, id: u32, slot: u32) {
        let e = self.cache.get(id);
        let (lpn, seq, tags, committed) = (e.lpn, e.seq, e.tags, e.committed);
        let ready = committed || self.order.ready(tags);
        if self.cur[lpn as usize] == CACHED | id {
            let lost = self.mutated(Mutation::ReadIgnoresSuspended) && !ready;
            let to = if lost { self.dur[lpn as usize] } else { slot + 1 };
            self.set_cur(lpn, to);
        }
        if committed {
            // Already durable by power-loss protection (or mapped early by a planted bug).
            if self.plp {
                self.map_install(lpn, slot, seq);
            }
            self.cache.release(id);
            return;
        }
        self.cache.get_mut(id).slot = slot;
        if ready {
            self.install(id);
        } else {
            self.flash.set_flag(slot, flag::WAITING);
            self.waiting_slots.insert(slot, id);
            self.cache.suspend(id);
            self.order.wait(id, tags);
        }
    }

    /// Puts a ready version into the map and counts it in its epochs.
    pub(super) fn install(&mut self, id: u32) {
        let e = self.cache.get(id);
        let (lpn, count, seq, tags, slot, ticket, fua) =
            (e.lpn, e.count, e.seq, e.tags, e.slot, e.ticket, e.fua);
        if e.is_trim {
            self.install_trim(lpn, count, seq);
        } else {
            self.map_install(lpn, slot, seq);
            if e_waits(self.cache.get(id).state) {
                self.waiting_slots.remove(&slot);
                if self.flash.clear_flag(slot, flag::WAITING) {
                    self.retire(self.flash.geo.block_of(slot));
                }
            }
        }
        self.window(tags).close(ticket);
        if fua != NIL {
            self.fua_done.push(fua);
        }
        self.cache.release(id);
        self.order.installed(tags, &mut self.wake);
    }

    /// Power-loss protection: a version whose turn has come is durable where it is, in the cache.
    pub(super) fn commit(&mut self, id: u32) {
        let e = self.cache.get_mut(id);
        e.committed = true;
        let (tags, ticket, fua) = (e.tags, e.ticket, e.fua);
        self.window(tags).close(ticket);
        if fua != NIL {
            self.fua_done.push(fua);
        }
        self.cache.push_dirty(id, false);
        self.order.installed(tags, &mut self.wake);
    }

    /// Looks at every entry whose epoch may have come up, until none is left.
    pub(crate) fn settle(&mut self) {
        while let Some(id) = self.wake.pop() {
            let e = self.cache.get(id);
            let (state, committed, trim, tags) = (e.state, e.committed, e.is_trim, e.tags);
            if state == State::Free || committed || !self.order.ready(tags) {
                continue;
            }
            if state == State::Waiting {
                self.install(id);
            } else if self.plp && !trim {
                self.cache.uncommitted -= 1;
                self.commit(id);
            }
        }
    }

    pub(crate) fn barrier(&mut self, tags: crate::order::Resolved, host: &crate::command::Tags) {
        self.order.barrier(tags, host, &mut self.wake);
        self.settle();
    }

    pub(crate) fn close_stream(&mut self, stream: u32) {
        self.order.close(stream, &mut self.wake);
        self.settle();
    }

    pub(crate) fn force_forward(&mut self, tags: crate::order::Resolved) {
        self.order.force_forward(tags, &mut self.wake);
        self.settle();
    }

    fn map_install(&mut self, lpn: u32, slot: u32, seq: u64) {
        let i = lpn as usize;
        if seq <= self.dur_seq[i] && !self.mutated(Mutation::LateProgramWins) {
            return;
        }
        let old = std::mem::replace(&mut self.dur[i], slot + 1);
        self.dur_seq[i] = seq;
        self.flash.set_flag(slot, flag::DUR);
        self.journal.record(Delta { lpn, count: 1, slot: slot + 1 });
        if self.mutated(Mutation::ReadIgnoresSuspended) && self.cur[i] == old {
            self.set_cur(lpn, slot + 1);
        }
        if old != 0 && self.flash.clear_flag(old - 1, flag::DUR) {
            self.retire(self.flash.geo.block_of(old - 1));
        }
    }

    /// Unmaps the blocks of a range that hold nothing newer.
    pub(super) fn install_trim(&mut self, lpn: u32, count: u32, seq: u64) {
        // Recorded before any slot is let go: a block that this empties must wait for these changes.
        let mut run = 0;
        for l in lpn..lpn + count {
            if seq > self.dur_seq[l as usize] {
                run += 1;
            } else {
                self.record_run(l - run, run);
                run = 0;
            }
        }
        self.record_run(lpn + count - run, run);
        for l in lpn..lpn + count {
            let i = l as usize;
            if seq <= self.dur_seq[i] {
                continue;
            }
            self.dur_seq[i] = seq;
            let old = std::mem::take(&mut self.dur[i]);
            if old != 0 && self.flash.clear_flag(old - 1, flag::DUR) {
                self.retire(self.flash.geo.block_of(old - 1));
            }
        }
    }

    fn record_run(&mut self, lpn: u32, count: u32) {
        if count > 0 {
            self.journal.record(Delta { lpn, count, slot: 0 });
        }
    }

    /// The planted bug: the map points at a page whose program has only begun.
    pub(super) fn map_early(&mut self, id: u32, slot: u32) {
        let e = self.cache.get(id);
        let (lpn, seq, tags, ticket, fua) = (e.lpn, e.seq, e.tags, e.ticket, e.fua);
        if e.committed || !self.order.ready(tags) {
            return;
        }
        self.cache.get_mut(id).committed = true;
        self.map_install(lpn, slot, seq);
        self.window(tags).close(ticket);
        if fua != NIL {
            self.fua_done.push(fua);
        }
        self.order.installed(tags, &mut self.wake);
        self.settle();
    }
}

fn e_waits(state: State) -> bool {
    state == State::Waiting
}
