//! Filesets while a run is on: which files exist, who has them open, whose turn it is.
//!
//! Filebench keeps all of this under one mutex shared by all processes, which makes metadata flowops slower with two
//! threads than with one. Here a pick is a few atomic operations, in Filebench's order: round robin by index, with one
//! rotor for each kind of pick, shared by all threads (filebench.md section 4.6).

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

use workload::layout::Layout;

use crate::bitset::BitSet;

/// Set in a file's state word while it exists; the other bits count who has it open or is looking at it.
const EXISTS: u32 = 1 << 31;

/// The most files that one pick tries before it gives up (all open, or raced for by other threads).
const TRIES_MAX: u64 = 4096;

/// A rotor on a cache line of its own: all threads write it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Rotor(AtomicU64);

/// Turns of a rotor that a thread has taken ahead of time: the files from `next` on, `left` of them.
///
/// Two threads that take every turn singly spend more on passing cache lines (the rotor's, and those that hold the states
/// of neighbouring files) than on all the rest. So a thread takes a few turns at once. In a run of one thread the order is
/// Filebench's to the letter; with several threads, whose order depends on chance anyway, each sees short runs of
/// consecutive files.
#[derive(Debug, Clone, Copy, Default)]
struct RotorTurns {
    next: u64,
    left: u64,
}

/// A thread's turns of the rotors of one fileset.
#[derive(Debug, Clone, Copy, Default)]
pub struct RotorCache {
    existing: RotorTurns,
    absent: RotorTurns,
}

/// Turns that a thread takes at once.
const TURNS: u64 = 8;

/// Runs of turns without a file after which a pick looks through the whole set instead.
const EMPTY_RUNS_MAX: u32 = 4;

impl RotorTurns {
    /// The next turn; of a set in which every one of `files` is there.
    #[inline]
    fn turn(&mut self, rotor: &Rotor, files: u64) -> u64 {
        if self.left == 0 {
            *self = RotorTurns { next: rotor.0.fetch_add(TURNS, Relaxed) % files, left: TURNS };
        }
        let file = self.next;
        self.left -= 1;
        self.next = if file + 1 == files { 0 } else { file + 1 };
        file
    }

    /// The next turn that meets a member of `set` which `claim` accepts; `None` when a few runs of turns met none.
    #[inline]
    fn find(&mut self, set: &BitSet, rotor: &Rotor, files: u64, claim: impl Fn(u64) -> bool) -> Option<u64> {
        let mut empty_runs = 0;
        while empty_runs < EMPTY_RUNS_MAX && files > 0 {
            if self.left == 0 {
                *self = RotorTurns { next: rotor.0.fetch_add(TURNS, Relaxed) % files, left: TURNS };
                empty_runs += 1;
            }
            let end = (self.next + self.left).min(files);
            let Some(found) = set.next_in(self.next, end) else {
                self.left -= end - self.next;
                self.next = 0;
                continue;
            };
            self.left -= found + 1 - self.next;
            self.next = if found + 1 == files { 0 } else { found + 1 };
            if claim(found) {
                return Some(found);
            }
        }
        None
    }
}

/// Where a pick starts to look.
pub enum Start<'a> {
    /// At the rotor that all threads share.
    Shared(&'a mut RotorCache),
    /// At a rotor of the thread's own.
    Own(&'a mut u64),
    /// At this file (`indexed`).
    At(u64),
}

/// A fileset in use.
#[derive(Debug)]
pub struct LiveFileset {
    /// Its tree.
    pub layout: Layout,
    /// What open needs to know.
    pub read_only: bool,
    /// What open needs to know.
    pub write_only: bool,
    /// Path of the block device, when it is one (`define file` on a device).
    pub raw: Option<std::ffi::CString>,
    /// Name of that device: `raw` may be the path of a descriptor, which tells nobody anything.
    pub device: Option<String>,
    /// Bytes that appends may add before a file is cut back to its nominal size; see [`LiveFileset::grow`].
    pub growth_limit_bytes: u64,
    /// Path of the tree's root below the target's root, with a slash at its end.
    prefix: Vec<u8>,
    /// Files may come and go in this workload; otherwise no state is kept for them.
    changes: bool,
    exist: BitSet,
    absent: BitSet,
    all_exist: bool,
    states: Vec<AtomicU32>,
    leafdirs_exist: BitSet,
    leafdirs_absent: BitSet,
    exist_rotor: Rotor,
    absent_rotor: Rotor,
    dir_rotor: Rotor,
    leafdir_exist_rotor: Rotor,
    leafdir_absent_rotor: Rotor,
    grown: Rotor,
    cutting: AtomicBool,
}

impl LiveFileset {
    /// The state after creation: the files that `layout` has at the start exist.
    pub fn new(layout: Layout, prefix: &str, changes: bool, percent: u8, seed: u64) -> LiveFileset {
        let files = layout.len() as u64;
        let leafdirs = layout.leafdir_count() as u64;
        let (exist, absent) = split(files, percent, layout.initial_files(percent, seed).order());
        let (leafdirs_exist, leafdirs_absent) =
            split(leafdirs, percent, layout.initial_leafdirs(percent, seed).order());
        let states = if changes {
            (0..files).map(|file| AtomicU32::new(if exist.contains(file) { EXISTS } else { 0 })).collect()
        } else {
            Vec::new()
        };
        let mut prefix = prefix.as_bytes().to_vec();
        prefix.push(b'/');
        LiveFileset {
            all_exist: !changes && exist.count() == files && files > 0,
            layout,
            read_only: false,
            write_only: false,
            raw: None,
            device: None,
            growth_limit_bytes: u64::MAX,
            prefix,
            changes,
            exist,
            absent,
            states,
            leafdirs_exist,
            leafdirs_absent,
            exist_rotor: Rotor::default(),
            absent_rotor: Rotor::default(),
            dir_rotor: Rotor::default(),
            leafdir_exist_rotor: Rotor::default(),
            leafdir_absent_rotor: Rotor::default(),
            grown: Rotor::default(),
            cutting: AtomicBool::new(false),
        }
    }

    /// Picks an existing file and holds it (it cannot be deleted until [`LiveFileset::release`]).
    #[inline]
    pub fn pick_existing(&self, start: Start<'_>) -> Option<u64> {
        if self.all_exist {
            let files = self.layout.len() as u64;
            return Some(match start {
                Start::Shared(turns) => turns.existing.turn(&self.exist_rotor, files),
                Start::Own(rotor) => {
                    let file = *rotor % files;
                    *rotor = file + 1;
                    file
                }
                Start::At(index) => index % files,
            });
        }
        self.pick(
            &self.exist,
            &self.exist_rotor,
            start,
            |turns| &mut turns.existing,
            |file| !self.changes || self.hold(file),
        )
    }

    /// Picks an absent file, which is then the caller's alone until [`LiveFileset::created`] or
    /// [`LiveFileset::not_created`].
    pub fn pick_absent(&self, start: Start<'_>) -> Option<u64> {
        let claim = |file| self.absent.remove(file);
        self.pick(&self.absent, &self.absent_rotor, start, |turns| &mut turns.absent, claim)
    }

    /// Picks an existing file that nobody has open and takes it out; the caller unlinks it, then calls
    /// [`LiveFileset::deleted`].
    pub fn pick_to_delete(&self, start: Start<'_>) -> Option<u64> {
        let claim = |file| self.take_out(file, 0);
        self.pick(&self.exist, &self.exist_rotor, start, |turns| &mut turns.existing, claim)
    }

    /// Takes out a file that the caller itself holds `own` times. False when others hold it or it is gone.
    pub fn take_out(&self, file: u64, own: u32) -> bool {
        let Some(state) = self.states.get(file as usize) else { return false };
        let taken = state.compare_exchange(EXISTS | own, own, AcqRel, Relaxed).is_ok();
        if taken {
            self.exist.remove(file);
        }
        taken
    }

    /// The picked file is now there and open.
    pub fn created(&self, file: u64) {
        // In this order: one who saw the file before it was last deleted may take hold of it as soon as its state says
        // that it exists, and what is held is in the set.
        self.exist.insert(file);
        self.states[file as usize].fetch_add(EXISTS | 1, AcqRel);
    }

    /// The picked file could not be made.
    pub fn not_created(&self, file: u64) {
        self.absent.insert(file);
    }

    /// The file taken out is unlinked.
    pub fn deleted(&self, file: u64) {
        self.absent.insert(file);
    }

    /// Ends the hold of [`LiveFileset::pick_existing`] or [`LiveFileset::created`].
    #[inline]
    pub fn release(&self, file: u64) {
        if self.changes {
            self.states[file as usize].fetch_sub(1, AcqRel);
        }
    }

    #[inline]
    fn hold(&self, file: u64) -> bool {
        let state = &self.states[file as usize];
        let mut now = state.load(Relaxed);
        while now & EXISTS != 0 {
            match state.compare_exchange_weak(now, now + 1, AcqRel, Relaxed) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    /// The next member of `set` from `start` on that `claim` accepts.
    #[inline]
    fn pick(
        &self,
        set: &BitSet,
        rotor: &Rotor,
        start: Start<'_>,
        taken: impl Fn(&mut RotorCache) -> &mut RotorTurns,
        claim: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        match start {
            Start::Shared(turns) => {
                taken(turns).find(set, rotor, self.layout.len() as u64, &claim).or_else(|| {
                    self.pick_from(set, rotor.0.load(Relaxed), &claim, |file| {
                        rotor.0.store(file + 1, Relaxed)
                    })
                })
            }
            Start::Own(own) => self.pick_from(set, *own, &claim, |file| *own = file + 1),
            Start::At(index) => {
                self.pick_from(set, index % (self.layout.len() as u64).max(1), &claim, |_| ())
            }
        }
    }

    /// The same, in the whole set; `passed` is told every file that was looked at.
    fn pick_from(
        &self,
        set: &BitSet,
        mut from: u64,
        claim: impl Fn(u64) -> bool,
        mut passed: impl FnMut(u64),
    ) -> Option<u64> {
        for _ in 0..TRIES_MAX {
            let found = set.next_wrapping(from)?;
            from = found + 1;
            passed(found);
            if claim(found) {
                return Some(found);
            }
        }
        None
    }

    /// The next directory of the tree, the root included.
    pub fn pick_dir(&self, start: Start<'_>) -> u64 {
        let dirs = (self.layout.dir_count() as u64).max(1);
        match start {
            Start::At(index) => index % dirs,
            _ => self.dir_rotor.0.fetch_add(1, Relaxed) % dirs,
        }
    }

    /// Picks an absent leaf directory for the caller to make.
    pub fn pick_absent_leafdir(&self, start: Start<'_>) -> Option<u64> {
        self.pick_leafdir(&self.leafdirs_absent, &self.leafdir_absent_rotor, start)
    }

    /// Picks an existing leaf directory for the caller to remove.
    pub fn pick_existing_leafdir(&self, start: Start<'_>) -> Option<u64> {
        self.pick_leafdir(&self.leafdirs_exist, &self.leafdir_exist_rotor, start)
    }

    fn pick_leafdir(&self, set: &BitSet, rotor: &Rotor, start: Start<'_>) -> Option<u64> {
        let leafdirs = (self.layout.leafdir_count() as u64).max(1);
        let from = match start {
            Start::At(index) => index % leafdirs,
            _ => rotor.0.load(Relaxed) % leafdirs,
        };
        self.pick_from(set, from, |dir| set.remove(dir), |dir| rotor.0.store(dir + 1, Relaxed))
    }

    /// The picked leaf directory now exists, or not.
    pub fn set_leafdir(&self, leafdir: u64, exists: bool) {
        if exists { &self.leafdirs_exist } else { &self.leafdirs_absent }.insert(leafdir);
    }

    /// Writes the path of a file, ready for a system call.
    #[inline]
    pub fn file_path<'p>(&self, file: u64, path: &'p mut Vec<u8>) -> &'p CStr {
        if let Some(raw) = &self.raw {
            path.clear();
            path.extend_from_slice(raw.as_bytes());
            return terminate(path);
        }
        path.clear();
        path.extend_from_slice(&self.prefix);
        self.layout.write_file_path(file as usize, path);
        terminate(path)
    }

    /// Writes the path of a directory of the tree.
    pub fn dir_path<'p>(&self, dir: u64, path: &'p mut Vec<u8>) -> &'p CStr {
        path.clear();
        path.extend_from_slice(&self.prefix);
        self.layout.write_dir_path(dir as usize, path);
        terminate(path)
    }

    /// Writes the path of a leaf directory.
    pub fn leafdir_path<'p>(&self, leafdir: u64, path: &'p mut Vec<u8>) -> &'p CStr {
        path.clear();
        path.extend_from_slice(&self.prefix);
        self.layout.write_leafdir_path(leafdir as usize, path);
        terminate(path)
    }

    /// Counts bytes appended; true when the fileset has grown past its limit, and the caller's file is to be cut
    /// back. (Filebench's append-only files, such as a web server's log, grow until the device is full.)
    #[inline]
    pub fn grow(&self, bytes: u64) -> bool {
        self.growth_limit_bytes != u64::MAX
            && self.grown.0.fetch_add(bytes, Relaxed).saturating_add(bytes) > self.growth_limit_bytes
    }

    /// Takes the right to cut a file back: one thread at a time, and only while the fileset is past its limit, so that
    /// the threads that share a log rotate it once and not each. Ends with [`LiveFileset::shrink`].
    pub fn may_cut(&self) -> bool {
        if self.cutting.swap(true, Acquire) {
            return false;
        }
        let over = self.grown.0.load(Relaxed) > self.growth_limit_bytes;
        if !over {
            self.cutting.store(false, Release);
        }
        over
    }

    /// A file was cut back by this many bytes (0: it was not); the next thread may cut.
    pub fn shrink(&self, bytes: u64) {
        let _ = self.grown.0.fetch_update(Relaxed, Relaxed, |grown| Some(grown.saturating_sub(bytes)));
        self.cutting.store(false, Release);
    }

    /// Files that exist now.
    pub fn existing(&self) -> u64 {
        self.exist.count()
    }
}

fn split(count: u64, percent: u8, order: impl ExactSizeIterator<Item = usize>) -> (BitSet, BitSet) {
    if percent >= 100 {
        return (BitSet::full(count), BitSet::empty(count));
    }
    let (exist, absent) = (BitSet::empty(count), BitSet::full(count));
    for entry in order {
        exist.insert(entry as u64);
        absent.remove(entry as u64);
    }
    (exist, absent)
}

#[inline]
fn terminate(path: &mut Vec<u8>) -> &CStr {
    path.push(0);
    // SAFETY: the only zero byte is the last: paths are made of names that `Layout` and `place` checked.
    unsafe { CStr::from_bytes_with_nul_unchecked(path) }
}

impl LiveFileset {
    /// Bytes of memory that the fileset holds, its layout included.
    pub fn memory_bytes(&self) -> usize {
        let sets = [&self.exist, &self.absent, &self.leafdirs_exist, &self.leafdirs_absent];
        self.layout.memory_bytes()
            + self.states.len() * size_of::<AtomicU32>()
            + sets.iter().map(|set| set.memory_bytes()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(entries: u64, percent: u8, changes: bool) -> LiveFileset {
        let fileset = crate::testing::fileset("f", "/x", entries);
        LiveFileset::new(Layout::build(&fileset, &[], 1).unwrap(), "f", changes, percent, 1)
    }

    #[test]
    fn an_open_file_is_not_deleted_but_the_next_one_is() {
        let set = live(3, 100, true);
        assert_eq!(set.pick_existing(Start::Shared(&mut RotorCache::default())), Some(0));
        assert_eq!(set.pick_to_delete(Start::At(0)), Some(1));
        assert_eq!(set.pick_to_delete(Start::At(0)), Some(2));
        assert_eq!(set.pick_to_delete(Start::At(0)), None, "the only file left is open");
        set.release(0);
        assert_eq!(set.pick_to_delete(Start::At(0)), Some(0));
        assert_eq!(set.pick_existing(Start::Shared(&mut RotorCache::default())), None);
    }

    #[test]
    fn one_rotor_serves_open_stat_and_delete() {
        let (set, mut turns) = (live(10, 100, true), RotorCache::default());
        assert_eq!(set.pick_existing(Start::Shared(&mut turns)), Some(0));
        assert_eq!(set.pick_to_delete(Start::Shared(&mut turns)), Some(1));
        assert_eq!(set.pick_existing(Start::Shared(&mut turns)), Some(2));
        let mut own = 5;
        assert_eq!(set.pick_existing(Start::Own(&mut own)), Some(5));
        assert_eq!(set.pick_existing(Start::Own(&mut own)), Some(6));
        for file in [3, 4, 5, 6, 7, 8, 9, 0, 2, 3] {
            assert_eq!(set.pick_existing(Start::Shared(&mut turns)), Some(file));
        }
    }

    #[test]
    fn a_created_file_is_its_creators_first() {
        let set = live(4, 0, true);
        let file = set.pick_absent(Start::Shared(&mut RotorCache::default())).unwrap();
        assert_eq!(set.pick_existing(Start::Shared(&mut RotorCache::default())), None, "not yet there");
        set.created(file);
        assert_eq!(
            set.pick_to_delete(Start::Shared(&mut RotorCache::default())),
            None,
            "open at its creator's"
        );
        set.release(file);
        assert_eq!(set.pick_to_delete(Start::Shared(&mut RotorCache::default())), Some(file));
        set.deleted(file);
        assert_eq!(set.pick_absent(Start::At(file)), Some(file));
    }

    /// The one file of a fileset may be open in every thread at once (Filebench gives up there: D3).
    #[test]
    fn one_file_serves_many_threads() {
        let set = live(1, 100, true);
        assert!((0..1000).all(|_| set.pick_existing(Start::Shared(&mut RotorCache::default())) == Some(0)));
    }

    /// Threads open, close, delete and create at random; in the end the sets, the states and a count agree.
    #[test]
    fn books_balance_under_concurrency() {
        let set = live(50, 60, true);
        let created_less_deleted: i64 = std::thread::scope(|scope| {
            let work = |thread: u64| {
                let mut balance = 0;
                let mut rng = workload::StreamId::of_run(thread, workload::Purpose::Other(1)).rng();
                for _ in 0..20_000 {
                    match rng.below(4) {
                        0 => {
                            if let Some(file) = set.pick_to_delete(Start::Shared(&mut RotorCache::default()))
                            {
                                set.deleted(file);
                                balance -= 1;
                            }
                        }
                        1 => {
                            if let Some(file) = set.pick_absent(Start::Shared(&mut RotorCache::default())) {
                                set.created(file);
                                set.release(file);
                                balance += 1;
                            }
                        }
                        _ => {
                            if let Some(file) = set.pick_existing(Start::Shared(&mut RotorCache::default())) {
                                assert!(set.exist.contains(file), "a held file was deleted");
                                set.release(file);
                            }
                        }
                    }
                }
                balance
            };
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(set.existing() as i64, 30 + created_less_deleted);
        assert_eq!(set.exist.count() + set.absent.count(), 50);
        for file in 0..50 {
            let expected = if set.exist.contains(file) { EXISTS } else { 0 };
            assert_eq!(set.states[file as usize].load(Relaxed), expected);
        }
    }

    #[test]
    fn growth_is_limited_only_where_it_must_be() {
        let mut set = live(1, 100, false);
        assert!(!set.grow(u64::MAX / 2));
        set.growth_limit_bytes = 100;
        assert!(set.grow(101));
        assert!(set.may_cut() && !set.may_cut(), "one thread cuts");
        set.shrink(u64::MAX / 2);
        assert!(!set.may_cut(), "another one has cut already");
        assert!(!set.grow(100));
        assert!(set.grow(1));
    }
}
