//! What the device does by itself: draining, collection, folding, erases, the map journal.

use rand::RngExt;

use super::{Event, Ssd};
use crate::command::{BLOCK_BYTES, Nanos};
use crate::ftl::GcReason;
use crate::profile::MediaKind;

/// Programs handed to a die ahead: one runs while the next one's data moves.
const PROGRAMS_PER_DIE: u8 = 2;
/// Entries among which a disk's elevator chooses.
const ELEVATOR_WINDOW: usize = 64;

impl Ssd {
    /// After anything has changed: starts whatever can start.
    pub(super) fn pump(&mut self, t: Nanos) {
        loop {
            self.unstall(t);
            self.drain(t);
            self.collect(t);
            self.erase(t);
            self.step_fua(t);
            self.step_flush(t);
            self.journal(t);
            let more = self.flush_drains() && self.die_for_host().is_some();
            if !more && self.ftl.fua_done.is_empty() {
                break;
            }
        }
        self.arm_idle();
        let waiting = u64::from(self.ftl.cache.waiting);
        self.stats.waiting_blocks_max = self.stats.waiting_blocks_max.max(waiting);
    }

    fn die_for_host(&self) -> Option<u32> {
        let dies = self.ftl.flash.geo.dies;
        let most = if self.profile.media.kind == MediaKind::Rotating { 1 } else { PROGRAMS_PER_DIE };
        (0..dies)
            .map(|i| (self.next_die + i) % dies)
            .find(|d| self.outstanding[*d as usize] < most && self.ftl.die_has_room(*d))
    }

    fn drain(&mut self, t: Nanos) {
        let unit = self.ftl.flash.geo.unit_slots as usize;
        loop {
            let dirty = self.ftl.cache.dirty();
            if dirty == 0 {
                self.force_drain = false;
                return;
            }
            let urgent = self.ftl.cache.urgent() as u32;
            let forced = urgent > 0 || self.force_drain || self.flush_drains();
            if !(forced || dirty >= unit) {
                return;
            }
            let Some(die) = self.die_for_host() else {
                for die in 0..self.ftl.flash.geo.dies {
                    if !self.ftl.die_has_room(die) {
                        self.want_gc(die);
                    }
                }
                return;
            };
            self.next_die = (die + 1) % self.ftl.flash.geo.dies;
            let slc = self.ftl.flash.slc_blocks < self.slc_blocks_max;
            let rotating = self.profile.media.kind == MediaKind::Rotating;
            let head = self.lines.head();
            let program = self.ftl.begin_host_program(die, slc, |cache, out| {
                if rotating {
                    cache.take_nearest(head, ELEVATOR_WINDOW, out);
                } else {
                    cache.take(unit as u32, out);
                }
            });
            let Some(program) = program else { return };
            self.stats.host_programs += 1;
            self.start_program(program, t);
            self.want_gc(die);
        }
    }

    fn start_program(&mut self, program: u32, t: Nanos) {
        let p = &self.ftl.programs[program as usize];
        let m = &self.profile.media;
        let (die, lpn) = (p.die, p.items.first().map_or(0, |i| u64::from(i.1.lpn)));
        let bytes = p.items.len() as u64 * BLOCK_BYTES;
        let mut ns = if p.slc { m.program_slc_ns } else { m.program_ns };
        if self.jitter > 0.0 {
            ns += (ns as f64 * self.jitter * self.rng.random::<f64>()) as u64;
        }
        let end = match self.lines.access(t, lpn, bytes / BLOCK_BYTES) {
            Some(end) => end,
            None => self.lines.program(die, t, bytes, ns),
        };
        self.outstanding[die as usize] += 1;
        self.stats.programmed_slots += u64::from(self.ftl.flash.geo.unit_slots);
        self.schedule(end, Event::Program(program));
    }

    pub(super) fn program_ended(&mut self, program: u32, t: Nanos) {
        let die = self.ftl.programs[program as usize].die;
        let gc = self.ftl.programs[program as usize].gc;
        self.outstanding[die as usize] -= 1;
        self.ftl.finish_program(program);
        if gc {
            self.continue_gc(die, t);
        }
    }

    fn want_gc(&mut self, die: u32) {
        if self.profile.media.kind == MediaKind::Flash
            && self.ftl.wants_gc(die)
            && !self.gc_wanted.contains(&die)
        {
            self.gc_wanted.push(die);
        }
    }

    /// Starts collection on the dies that are short of free blocks.
    fn collect(&mut self, t: Nanos) {
        let mut i = 0;
        while i < self.gc_wanted.len() {
            let die = self.gc_wanted[i];
            if !self.ftl.wants_gc(die) {
                self.gc_wanted.swap_remove(i);
                continue;
            }
            if self.ftl.gc[die as usize].is_none() {
                self.ftl.begin_gc(die, GcReason::Space);
            }
            self.continue_gc(die, t);
            i += 1;
        }
    }

    fn continue_gc(&mut self, die: u32, t: Nanos) {
        let Some(program) = self.ftl.gc_step(die) else {
            let more = self.folding && self.ftl.gc[die as usize].is_none();
            if more
                && self.ftl.begin_gc(die, GcReason::Fold)
                && let Some(program) = self.ftl.gc_step(die)
            {
                self.start_move(program, t);
            }
            return;
        };
        self.start_move(program, t);
    }

    /// Reads the pages to be moved, then programs their copies.
    fn start_move(&mut self, program: u32, t: Nanos) {
        self.stats.gc_programs += 1;
        let geo = &self.ftl.flash.geo;
        let (mut last, mut ready) = (u32::MAX, t);
        for (old, _) in &self.ftl.programs[program as usize].items {
            let page = geo.page_of(*old);
            if page != last {
                let (die, plane) = geo.plane_of_page(page);
                ready = ready.max(self.lines.read_page(die, plane, t, BLOCK_BYTES));
                last = page;
            }
        }
        self.start_program(program, ready);
    }

    fn erase(&mut self, t: Nanos) {
        while let Some(block) = self.ftl.begin_erase() {
            let ns = self.profile.media.erase_ns;
            if ns == 0 {
                self.erase_ended(block);
                continue;
            }
            let die = self.ftl.flash.geo.die_of_block(block);
            let end = self.lines.erase(die, t, ns);
            self.erasing.push(block);
            self.schedule(end, Event::Erase(block));
        }
    }

    pub(super) fn erase_ended(&mut self, block: u32) {
        self.ftl.flash.erase(block);
        self.stats.erases += 1;
    }

    fn journal(&mut self, t: Nanos) {
        let short = !self.ftl.erasable.is_empty()
            && (!self.gc_wanted.is_empty() || self.die_for_host().is_none() || self.folding);
        let forced = short || self.flush_awaits_journal() || !self.journal_waiters.is_empty();
        let page_ns = self.profile.ftl.map_program_ns;
        if let Some(programs) = self.ftl.begin_page(forced) {
            self.schedule(t + programs * page_ns, Event::Page);
        }
        if self.segment.is_none() {
            self.segment = self.ftl.journal.begin_segment();
            if self.segment.is_some() {
                self.schedule(t + page_ns, Event::Segment);
            }
        }
    }

    fn may_fold(&self) -> bool {
        self.ftl.flash.slc_blocks > 0 && self.profile.media.fold_idle_ns > 0
    }

    /// Keeps a timer while there is something that idleness would start.
    pub(super) fn arm_idle(&mut self) {
        if self.idle_armed || !(self.ftl.cache.dirty() > 0 && !self.force_drain || self.wants_fold_timer()) {
            return;
        }
        let media = &self.profile.media;
        let due = if self.ftl.cache.dirty() > 0 && !self.force_drain {
            self.last_write + self.profile.cache.drain_idle_ns
        } else {
            (self.last_write.max(self.last_activity) + media.fold_idle_ns).max(self.now + media.fold_idle_ns)
        };
        self.idle_armed = true;
        self.schedule(due.max(self.now + 1), Event::Idle);
    }

    fn wants_fold_timer(&self) -> bool {
        self.may_fold() && !self.folding && self.in_flight() == 0
    }

    /// The idle timer: writes out what lingers, then folds SLC blocks.
    pub(super) fn idle(&mut self, t: Nanos) {
        self.idle_armed = false;
        if t >= self.last_write + self.profile.cache.drain_idle_ns && self.ftl.cache.dirty() > 0 {
            self.force_drain = true;
        }
        let quiet = self.last_write.max(self.last_activity) + self.profile.media.fold_idle_ns;
        if self.may_fold() && self.in_flight() == 0 && t >= quiet {
            self.folding = true;
            for die in 0..self.ftl.flash.geo.dies {
                if self.ftl.begin_gc(die, GcReason::Fold) {
                    self.continue_gc(die, t);
                }
            }
        }
    }
}
