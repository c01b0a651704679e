//! The translation layer, free of time: each method is one step between two flash operations.
//!
//! Two maps (the design the published OPFTL lacks): `cur` is the newest accepted version of a block, which
//! reads follow; `dur` is the newest *installed* version, which the journal makes durable. In between, a
//! version may be on flash and wait for its epoch's turn. A slot that any of the three refers to is live.

mod gc;
mod install;
mod recover;

use std::collections::{HashMap, VecDeque};

use crate::cache::{Cache, Entry, NIL, State};
use crate::command::Token;
use crate::flash::{Flash, Slot, flag};
use crate::geometry::Geometry;
use crate::journal::Journal;
use crate::mutation::Mutation;
use crate::order::{Order, Resolved};
use crate::profile::Profile;
use crate::window::Window;

pub(crate) use gc::{GcJob, Reason as GcReason};
pub use recover::UNREADABLE;

/// Set in `cur`: the rest is a cache entry, not a slot + 1.
const CACHED: u32 = 1 << 31;

/// One unit program under way.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) die: u32,
    pub(crate) first: u32,
    pub(crate) gc: bool,
    pub(crate) slc: bool,
    /// Cache entry or old slot, and what is written.
    pub(crate) items: Vec<(u32, Slot)>,
    pub(crate) running: bool,
}

/// Where the newest version of a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Unmapped,
    Cache(Token),
    Flash(u32),
}

#[derive(Debug)]
pub(crate) struct Ftl {
    pub(crate) flash: Flash,
    pub(crate) cache: Cache,
    pub(crate) order: Order,
    pub(crate) journal: Journal,
    cur: Vec<u32>,
    dur: Vec<u32>,
    dur_seq: Vec<u64>,
    open_host: Vec<u32>,
    open_gc: Vec<u32>,
    pub(crate) gc: Vec<Option<GcJob>>,
    pub(crate) programs: Vec<Program>,
    free_programs: Vec<u32>,
    /// (journal position that must be on flash first, block)
    pub(crate) erasable: VecDeque<(u64, u32)>,
    waiting_slots: HashMap<u32, u32>,
    pub(crate) untagged: Window,
    pub(crate) tagged: Window,
    /// FUA commands one of whose blocks has become durable up to the journal.
    pub(crate) fua_done: Vec<u32>,
    wake: Vec<u32>,
    scratch: Vec<u32>,
    seq: u64,
    plp: bool,
    wear_spread_max: u32,
    pub(crate) coalesced: u64,
    pub(crate) moved: u64,
    pub(crate) mutation: Option<Mutation>,
}

impl Ftl {
    pub(crate) fn new(profile: &Profile, geo: Geometry) -> Ftl {
        let n = geo.logical as usize;
        let dies = geo.dies as usize;
        let capacity = (profile.cache.bytes / crate::command::BLOCK_BYTES).max(1) as u32;
        Ftl {
            cache: Cache::new(capacity),
            order: Order::default(),
            journal: Journal::new(geo.logical, profile.ftl.journal_entries, profile.ftl.journal_pages_max),
            cur: vec![0; n],
            dur: vec![0; n],
            dur_seq: vec![0; n],
            open_host: vec![NIL; dies],
            open_gc: vec![NIL; dies],
            gc: vec![None; dies],
            programs: Vec::new(),
            free_programs: Vec::new(),
            erasable: VecDeque::new(),
            waiting_slots: HashMap::new(),
            untagged: Window::default(),
            tagged: Window::default(),
            fua_done: Vec::new(),
            wake: Vec::new(),
            scratch: Vec::new(),
            seq: 0,
            plp: profile.power.plp,
            wear_spread_max: profile.ftl.wear_spread_max,
            coalesced: 0,
            moved: 0,
            mutation: None,
            flash: Flash::new(geo),
        }
    }

    pub(crate) fn plant(&mut self, mutation: Mutation) {
        self.mutation = Some(mutation);
        self.order.mutation = Some(mutation);
        self.journal.mutation = Some(mutation);
    }

    fn mutated(&self, m: Mutation) -> bool {
        self.mutation == Some(m)
    }

    /// Where reads of a block go.
    pub(crate) fn locate(&self, lpn: u32) -> Place {
        let c = self.cur[lpn as usize];
        if c & CACHED != 0 {
            if self.mutated(Mutation::OldestBufferFirst) {
                return self.oldest_buffer(lpn);
            }
            return Place::Cache(self.cache.get(c & !CACHED).token);
        }
        if c == 0 { Place::Unmapped } else { Place::Flash(c - 1) }
    }

    fn oldest_buffer(&self, lpn: u32) -> Place {
        let buffered =
            |e: &&Entry| e.lpn == lpn && !e.is_trim && matches!(e.state, State::Dirty | State::Issued);
        let oldest = self.cache.entries.iter().filter(buffered).min_by_key(|e| e.seq);
        oldest.map_or(Place::Unmapped, |e| Place::Cache(e.token))
    }

    fn set_cur(&mut self, lpn: u32, to: u32) {
        let old = std::mem::replace(&mut self.cur[lpn as usize], to);
        if old != 0 && old & CACHED == 0 && self.flash.clear_flag(old - 1, flag::CUR) {
            self.retire(self.flash.geo.block_of(old - 1));
        }
        if to != 0 && to & CACHED == 0 {
            self.flash.set_flag(to - 1, flag::CUR);
        }
    }

    fn window(&mut self, tags: Resolved) -> &mut Window {
        if tags.is_tagged() { &mut self.tagged } else { &mut self.untagged }
    }

    /// Takes one block into the cache. `fua` = the command to tell when it is durable, or NIL.
    pub(crate) fn accept_write(&mut self, lpn: u32, token: Token, tags: Resolved, fua: u32) {
        self.seq += 1;
        let c = self.cur[lpn as usize];
        if c & CACHED != 0 && fua == NIL {
            let overwrite = self.mutated(Mutation::CacheOverwritesEpoch);
            let seq = self.seq;
            let e = self.cache.get_mut(c & !CACHED);
            // Copy on write: a version of another epoch is never overwritten in place.
            if e.state == State::Dirty && e.fua == NIL && (e.tags == tags || overwrite) {
                e.token = token;
                e.seq = seq;
                self.coalesced += 1;
                self.order.cancel_install(tags);
                return;
            }
        }
        let ticket = self.window(tags).open();
        let entry = Entry {
            state: State::Dirty,
            committed: false,
            is_trim: false,
            lpn,
            count: 1,
            token,
            seq: self.seq,
            tags,
            ticket,
            fua,
            slot: NIL,
        };
        let id = self.cache.add(entry);
        self.set_cur(lpn, CACHED | id);
        if !self.plp {
            self.cache.push_dirty(id, fua != NIL);
        } else if self.order.ready(tags) {
            self.commit(id);
        } else {
            self.cache.uncommitted += 1;
            self.order.wait(id, tags);
        }
    }

    /// Unmaps a range: at once where no earlier epoch is awaited.
    pub(crate) fn accept_trim(&mut self, lpn: u32, count: u32, tags: Resolved, fua: u32) {
        self.seq += 1;
        for l in lpn..lpn + count {
            self.set_cur(l, 0);
        }
        if !tags.is_tagged() {
            self.install_trim(lpn, count, self.seq);
            if fua != NIL {
                self.fua_done.push(fua);
            }
            return;
        }
        let ticket = self.window(tags).open();
        let entry = Entry {
            state: State::Dirty,
            committed: false,
            is_trim: true,
            lpn,
            count,
            token: Token::ZERO,
            seq: self.seq,
            tags,
            ticket,
            fua,
            slot: NIL,
        };
        let id = self.cache.add(entry);
        self.cache.suspend(id);
        if self.order.ready(tags) {
            self.install(id);
        } else {
            self.order.wait(id, tags);
        }
    }

    /// Whether a die could take a host program now.
    pub(crate) fn die_has_room(&self, die: u32) -> bool {
        self.open_host[die as usize] != NIL
            || self.flash.free[die as usize].len() > crate::geometry::GC_RESERVE
    }

    /// Begins the program of a unit of dirty entries on `die`; `pick` takes them from the cache. The
    /// program's index, or None without room or without entries.
    pub(crate) fn begin_host_program(
        &mut self,
        die: u32,
        slc: bool,
        pick: impl FnOnce(&mut Cache, &mut Vec<u32>),
    ) -> Option<u32> {
        let d = die as usize;
        if self.open_host[d] == NIL {
            self.open_host[d] = self.flash.open_block(die, false, slc)?;
        }
        let mut taken = std::mem::take(&mut self.scratch);
        taken.clear();
        pick(&mut self.cache, &mut taken);
        if taken.is_empty() {
            self.scratch = taken;
            return None;
        }
        let block = self.open_host[d];
        let (first, full) = self.flash.next_unit(block);
        if full {
            self.open_host[d] = NIL;
        }
        let slc = self.flash.blocks[block as usize].slc;
        let program = self.new_program(die, first, false, slc);
        for (i, id) in taken.iter().enumerate() {
            let e = self.cache.get(*id);
            let content = Slot { lpn: e.lpn, token: e.token, seq: e.seq };
            self.programs[program as usize].items.push((*id, content));
            if self.mutated(Mutation::MapAtIssue) {
                self.map_early(*id, first + i as u32);
            }
        }
        self.scratch = taken;
        Some(program)
    }

    fn new_program(&mut self, die: u32, first: u32, gc: bool, slc: bool) -> u32 {
        let id = self.free_programs.pop().unwrap_or_else(|| {
            self.programs.push(Program::default());
            self.programs.len() as u32 - 1
        });
        let p = &mut self.programs[id as usize];
        p.items.clear();
        (p.die, p.first, p.gc, p.slc, p.running) = (die, first, gc, slc, true);
        id
    }

    /// The program has ended: its slots can be read, and mapped where the order allows.
    pub(crate) fn finish_program(&mut self, id: u32) {
        let p = &mut self.programs[id as usize];
        p.running = false;
        let (die, first, gc) = (p.die, p.first, p.gc);
        let items = std::mem::take(&mut p.items);
        let block = self.flash.geo.block_of(first);
        for (i, (from, content)) in items.iter().enumerate() {
            let slot = first + i as u32;
            self.flash.write(slot, *content);
            if gc { self.relocate(*from, slot, content.lpn) } else { self.placed(*from, slot) }
        }
        self.flash.pad_unit(first);
        self.programs[id as usize].items = items;
        self.free_programs.push(id);
        self.flash.blocks[block as usize].in_flight -= 1;
        self.retire_if_dead(block);
        if gc && let Some(job) = &mut self.gc[die as usize] {
            job.busy = false;
        }
        self.settle();
    }

    /// The next block that may be erased now.
    pub(crate) fn begin_erase(&mut self) -> Option<u32> {
        let (need, block) = *self.erasable.front()?;
        if need > self.journal.persisted() && !self.mutated(Mutation::EraseBeforeJournal) {
            return None;
        }
        self.erasable.pop_front();
        Some(block)
    }

    /// Begins a journal page of everything installed so far; the number of page programs, or None.
    pub(crate) fn begin_page(&mut self, forced: bool) -> Option<u64> {
        self.journal.wants_page(forced).then(|| self.journal.begin_page(&self.dur))
    }
}
