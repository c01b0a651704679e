//! The pass over a recording: follows openings, files and threads, and counts. Memory grows with files, threads and what is open.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::group::{Pattern, order};
use super::pages::Pages;
use super::profile::Profile;
use super::seen::{FileSeen, Seen, ThreadSeen};
use super::sizes::ratio;
use super::step::{Act, ActStats, Modes, Named, Run, Runs, Shape, StepStats};
use crate::call::{Call, Operation};
use crate::format::{FileKind, Item};

/// A file that is open.
#[derive(Debug, Clone)]
struct Open {
    path: u32,
    opener: u32,
    creates: bool,
    empties: bool,
    appends: bool,
    modes: Modes,
    kept: bool,
    read_end: Option<u64>,
    write_end: Option<u64>,
    ended: bool,
    runs: Runs,
    listed: u64,
    took_ns: u64,
    unsynced: u64,
    /// It moved bytes or asked for something.
    used: bool,
}

/// The pass.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    pub seen: Seen,
    pub profile: Profile,
    open: HashMap<u32, Open>,
    handles: u32,
    pages: Pages,
    last_end_ns: u64,
}

/// What is said of an open directory that is not read.
const DIRECTORY: &str = "opens, stats and syncs of a directory (said as those of a file)";
/// Different shapes of openings; those beyond are counted as kept open.
const SHAPES_MAX: usize = 4096;

impl Profile {
    /// The profile of items, in their order; stops at the first error.
    ///
    /// # Errors
    /// That of the items.
    pub fn of<E>(items: impl IntoIterator<Item = Result<Item, E>>) -> Result<Profile, E> {
        let mut observer = Observer::default();
        for item in items {
            observer.item(&item?);
        }
        Ok(observer.end())
    }
}

impl Observer {
    pub fn item(&mut self, item: &Item) {
        match item {
            Item::Thread { name, .. } => {
                self.seen.threads.push(ThreadSeen { name: name.clone(), ..Default::default() });
            }
            Item::Path(path) => self.path(path),
            Item::Found { path, kind } => self.found(*path, *kind),
            Item::Inherited { path, flags } => {
                let handle = self.handles;
                self.handles = self.handles.saturating_add(1);
                let mut open = self.opening(*path, u32::MAX, *flags);
                (open.kept, open.creates, open.empties) = (true, false, false);
                self.open.insert(handle, open);
            }
            Item::Operation(operation) => self.operation(operation),
            Item::Lost(count) => self.profile.lost = self.profile.lost.saturating_add(*count),
            Item::End(summary) => {
                self.profile.length_ns = summary.length_ns;
                self.profile.lost = self.profile.lost.max(summary.lost);
                self.profile.unseen_requests = summary.unseen_requests;
            }
        }
    }

    fn path(&mut self, path: &[u8]) {
        let pattern = Pattern::of(path);
        let mut hasher = DefaultHasher::new();
        path.iter().rposition(|byte| *byte == b'/').map(|at| &path[..at]).hash(&mut hasher);
        let group = self.seen.groups.of(&pattern);
        let depth = pattern.directory.len();
        self.seen.files.push(FileSeen { group, depth, directory: hasher.finish(), ..Default::default() });
    }

    fn found(&mut self, path: u32, kind: FileKind) {
        let Some(file) = self.seen.files.get_mut(path as usize) else { return };
        file.exists = Some(kind != FileKind::Absent);
        file.found = true;
        file.is_directory = kind == FileKind::Directory;
        if let FileKind::File(size) = kind {
            (file.initial, file.size, file.largest) = (Some(size), size, size);
        }
    }

    fn opening(&mut self, path: u32, opener: u32, flags: u32) -> Open {
        let has = |flag: i32| flags & flag as u32 == flag as u32;
        let file = self.seen.files.get(path as usize);
        let makes = has(libc::O_CREAT) && !has(libc::O_TMPFILE);
        let creates = makes && file.is_none_or(|file| file.exists == Some(false) || has(libc::O_EXCL));
        Open {
            path,
            opener,
            creates,
            empties: has(libc::O_TRUNC) && !creates,
            appends: has(libc::O_APPEND),
            modes: Modes::of(flags),
            kept: false,
            read_end: None,
            write_end: None,
            ended: false,
            runs: Runs::default(),
            listed: 0,
            took_ns: 0,
            unsynced: 0,
            used: false,
        }
    }

    fn operation(&mut self, operation: &Operation) {
        self.last_end_ns = self.last_end_ns.max(operation.end_ns());
        let stats = self.profile.calls.entry(operation.call).or_default();
        if !operation.succeeded() {
            stats.failed += 1;
            self.live(operation);
            if operation.call == Call::Open {
                self.profile.unsaid("opens that failed");
            } else {
                self.profile.unsaid("other calls that failed");
            }
            return;
        }
        let empty = operation.call == Call::Read && operation.result == 0;
        if empty {
            self.profile.empty_reads += 1;
        } else {
            stats.count += 1;
            stats.times.add(operation.took_ns);
            if matches!(operation.call, Call::Read | Call::Write) {
                stats.bytes = stats.bytes.saturating_add(operation.result as u64);
            }
        }
        self.live(operation);
        self.succeeded(operation, empty);
    }

    /// When the thread lived, and how long it did something else before the call.
    fn live(&mut self, operation: &Operation) {
        let Some(thread) = self.seen.threads.get_mut(operation.thread as usize) else { return };
        if thread.calls == 0 {
            thread.first_ns = operation.begin_ns;
        } else {
            let think_ns = operation.begin_ns.saturating_sub(thread.last_ns);
            thread.think_ns = thread.think_ns.saturating_add(think_ns);
            self.profile.think_times.add(think_ns);
        }
        thread.calls += 1;
        thread.took_ns = thread.took_ns.saturating_add(operation.took_ns);
        thread.first_ns = thread.first_ns.min(operation.begin_ns);
        thread.last_ns = thread.last_ns.max(operation.end_ns());
    }

    fn succeeded(&mut self, operation: &Operation, empty: bool) {
        let path = operation.path.or(operation.handle.and_then(|handle| Some(self.open.get(&handle)?.path)));
        if let Some(file) = path.and_then(|path| self.seen.files.get_mut(path as usize)) {
            file.touched = true;
        }
        match operation.call {
            Call::Open => self.opened(operation),
            Call::Close => self.closed(operation),
            Call::Read if empty => {
                if let Some(open) = operation.handle.and_then(|handle| self.open.get_mut(&handle)) {
                    (open.ended, open.used) = (true, true);
                }
            }
            Call::Read | Call::Write | Call::Fsync | Call::Fdatasync => self.used(operation),
            Call::Stat if operation.handle.is_some_and(|handle| self.open.contains_key(&handle)) => {
                self.used(operation);
            }
            Call::Stat => self.named(operation, path, Named::Stat),
            Call::Unlink => self.unlinked(operation, path),
            Call::MakeDirectory => {
                if let Some(file) = path.and_then(|path| self.seen.files.get_mut(path as usize)) {
                    (file.is_directory, file.exists) = (true, Some(true));
                    file.created += 1;
                }
                self.named(operation, path, Named::MakeDirectory);
            }
            Call::RemoveDirectory => {
                if let Some(file) = path.and_then(|path| self.seen.files.get_mut(path as usize)) {
                    (file.is_directory, file.exists) = (true, Some(false));
                    file.deleted += 1;
                }
                self.named(operation, path, Named::RemoveDirectory);
            }
            Call::ReadDirectory => self.listed(operation),
            _ => self.unsayable(operation, path),
        }
    }

    /// Calls without a flowop; what they do to the size and the name of a file is followed.
    fn unsayable(&mut self, operation: &Operation, path: Option<u32>) {
        self.profile.unsaid(operation.call.name());
        let Some(file) = path.and_then(|path| self.seen.files.get_mut(path as usize)) else { return };
        match operation.call {
            Call::Truncate => file.size = operation.bytes,
            Call::Allocate if operation.flags & libc::FALLOC_FL_KEEP_SIZE as u32 == 0 => {
                file.size = file.size.max(operation.offset.saturating_add(operation.bytes));
            }
            Call::Rename => {
                let (size, is_directory) = (file.size, file.is_directory);
                file.exists = Some(false);
                if let Some(to) = operation.to.and_then(|to| self.seen.files.get_mut(to as usize)) {
                    (to.exists, to.size, to.is_directory) = (Some(true), size, is_directory);
                    (to.largest, to.touched) = (to.largest.max(size), true);
                }
                return;
            }
            Call::Fault => self.pages.touch(path.unwrap_or(0), operation.offset, operation.bytes),
            _ => return,
        }
        file.largest = file.largest.max(file.size);
    }

    fn opened(&mut self, operation: &Operation) {
        let Some(path) = operation.path else { return };
        self.handles = self.handles.saturating_add(1);
        let mut open = self.opening(path, operation.thread, operation.flags);
        open.took_ns = operation.took_ns;
        if open.empties {
            self.profile.unsaid("opens that empty a file (O_TRUNC)");
        }
        if let Some(file) = self.seen.files.get_mut(path as usize) {
            file.opens += 1;
            file.created += u64::from(open.creates);
            if file.exists.is_none() && !open.creates {
                file.initial = Some(file.size);
            }
            file.exists = Some(true);
            if open.creates || open.empties {
                file.size = 0;
            }
            file.is_directory |= operation.flags & libc::O_DIRECTORY as u32 != 0;
        }
        if let Some(handle) = operation.handle {
            self.open.insert(handle, open);
        }
    }

    fn listed(&mut self, operation: &Operation) {
        if let Some(open) = operation.handle.and_then(|handle| self.open.get_mut(&handle)) {
            open.listed += 1;
            open.used = true;
            open.took_ns = open.took_ns.saturating_add(operation.took_ns);
            if let Some(file) = self.seen.files.get_mut(open.path as usize) {
                file.is_directory = true;
            }
        }
    }

    /// A call on an open file.
    fn used(&mut self, operation: &Operation) {
        let Some(handle) = operation.handle else { return };
        let Some(mut open) = self.open.remove(&handle) else { return };
        open.used = true;
        let directory = self.seen.files.get(open.path as usize).is_some_and(|file| file.is_directory);
        if directory {
            self.profile.unsaid(match operation.call {
                Call::Read | Call::Write => "reads and writes of files without a name (O_TMPFILE)",
                _ => DIRECTORY,
            });
        }
        // WML can only list a directory: what else is done to an open one is said as if it were a file
        if !directory || !matches!(operation.call, Call::Read | Call::Write) {
            let act = self.act(operation, &mut open);
            let moved = operation.result.max(0) as u64;
            if act.is_read() || act.is_write() {
                self.pages.touch(open.path, operation.offset, moved);
            }
            if open.kept || operation.thread != open.opener {
                let group = self.group_of(open.path);
                self.kept_call(operation, Shape::Kept(act, open.modes), group);
            } else {
                let thread = self.seen.threads.get(operation.thread as usize);
                let steps = thread.map_or(0, |thread| thread.steps.done);
                open.runs.add(act, operation.offset, operation.bytes, moved, steps);
                open.took_ns = open.took_ns.saturating_add(operation.took_ns);
                if open.runs.is_kept() {
                    self.keep(&mut open);
                }
            }
        }
        self.open.insert(handle, open);
    }

    /// What a call on an open file is; counts reads, writes and syncs by it.
    fn act(&mut self, operation: &Operation, open: &mut Open) -> Act {
        let end = operation.offset.saturating_add(operation.result.max(0) as u64);
        let file = self.seen.files.get_mut(open.path as usize);
        match operation.call {
            Call::Read => {
                let moved = operation.result.max(0) as u64;
                self.profile.read_sizes.add(moved);
                open.ended |= moved < operation.bytes;
                let before = open.read_end.replace(end);
                if let Some(file) = file {
                    // a file that nobody looked at before is at least as long as what was read
                    file.size = file.size.max(end);
                    file.largest = file.largest.max(end);
                    if !file.found {
                        file.initial = file.initial.map(|size| size.max(end));
                    }
                }
                if before.unwrap_or(0) == operation.offset {
                    self.profile.sequential_reads += 1;
                    return Act::ReadNext;
                }
                self.profile.random_reads += 1;
                Act::ReadRandom
            }
            Call::Write => {
                self.profile.write_sizes.add(operation.result.max(0) as u64);
                open.unsynced += 1;
                let before = open.write_end.replace(end);
                let size = file.as_ref().map_or(0, |file| file.size);
                if let Some(file) = file {
                    file.size = file.size.max(end);
                    file.largest = file.largest.max(file.size);
                }
                if open.appends || operation.offset == size {
                    self.profile.appends += 1;
                    return Act::Append;
                }
                if before.unwrap_or(0) == operation.offset {
                    self.profile.sequential_writes += 1;
                    return Act::WriteNext;
                }
                self.profile.random_writes += 1;
                Act::WriteRandom
            }
            Call::Stat => Act::Stat,
            call => {
                self.profile.writes_before_sync.add(std::mem::take(&mut open.unsynced));
                if call == Call::Fsync { Act::Fsync } else { Act::Fdatasync }
            }
        }
    }

    fn group_of(&mut self, path: u32) -> u32 {
        let Some(file) = self.seen.files.get_mut(path as usize) else { return 0 };
        if !file.placed && !file.is_directory {
            file.placed = true;
            if let Some(pattern) = self.seen.groups.values.get(file.group as usize) {
                let order = order(file.size.max(file.largest));
                let pattern = Pattern { order, ..pattern.clone() };
                file.group = self.seen.groups.of(&pattern);
            }
        }
        file.group
    }

    /// A call that is a step of its own.
    fn kept_call(&mut self, operation: &Operation, shape: Shape, group: u32) {
        let key = (self.seen.shapes.of(&shape), group);
        let Some(thread) = self.seen.threads.get_mut(operation.thread as usize) else { return };
        let Some(stats) = thread.steps.one_more(key, 1, 1) else { return };
        stats.took_ns = stats.took_ns.saturating_add(operation.took_ns);
        let act = &mut stats.acts[0];
        act.calls += 1;
        if !matches!(operation.call, Call::Fsync | Call::Fdatasync) {
            let moved = operation.result.max(0) as u64;
            act.sizes.add(moved);
            act.sums.add(moved);
            act.asked.add(operation.bytes);
        }
    }

    /// From here on the opening is one that stays open; what was done so far becomes steps of its own.
    fn keep(&mut self, open: &mut Open) {
        open.kept = true;
        let group = self.group_of(open.path);
        let Runs { runs, calls, .. } = std::mem::take(&mut open.runs);
        for run in &runs {
            let key = (self.seen.shapes.of(&Shape::Kept(run.act, open.modes)), group);
            let Some(thread) = self.seen.threads.get_mut(open.opener as usize) else { return };
            let Some(stats) = thread.steps.one_more(key, 1, run.calls) else { continue };
            let took_ns = (open.took_ns as f64 * ratio(run.calls, calls)) as u64;
            let one =
                StepStats { count: run.calls - 1, calls: 0, took_ns, acts: vec![run_stats(run, false)] };
            stats.merge(&one);
        }
    }

    fn closed(&mut self, operation: &Operation) {
        let Some(mut open) = operation.handle.and_then(|handle| self.open.remove(&handle)) else { return };
        open.took_ns = open.took_ns.saturating_add(operation.took_ns);
        let (is_directory, size) = match self.seen.files.get(open.path as usize) {
            Some(file) => (file.is_directory, file.size),
            None => (false, 0),
        };
        self.profile.empty_openings += u64::from(!open.used && !is_directory);
        if is_directory {
            if open.listed > 0 {
                self.step(&open, Shape::Named(Named::List), &[], 2 + open.listed);
                self.keep(&mut open);
                return;
            }
            self.profile.unsaid(DIRECTORY);
        }
        if open.kept {
            self.profile.kept_openings += 1;
            return;
        }
        open.runs.name_whole(open.creates || open.empties, open.ended, size);
        let acts: Vec<Act> = open.runs.runs.iter().map(|run| run.act).collect();
        self.profile.whole_reads += acts.iter().filter(|act| **act == Act::ReadWhole).count() as u64;
        self.profile.whole_writes += acts.iter().filter(|act| **act == Act::WriteWhole).count() as u64;
        if self.seen.shapes.values.len() >= SHAPES_MAX {
            self.keep(&mut open);
            return;
        }
        let shape = Shape::Opening { creates: open.creates, modes: open.modes, acts };
        let runs = std::mem::take(&mut open.runs);
        self.step(&open, shape, &runs.runs, 2 + runs.calls);
        if open.creates
            && let Some(thread) = self.seen.threads.get_mut(open.opener as usize)
        {
            thread.made = Some(open.path);
        }
    }

    /// A step of the thread that opened the file.
    fn step(&mut self, open: &Open, shape: Shape, runs: &[Run], calls: u64) {
        let key = (self.seen.shapes.of(&shape), self.group_of(open.path));
        let Some(thread) = self.seen.threads.get_mut(open.opener as usize) else { return };
        let Some(stats) = thread.steps.one_more(key, runs.len(), calls) else { return };
        let acts = runs.iter().map(|run| run_stats(run, true)).collect();
        stats.merge(&StepStats { count: 0, calls: 0, took_ns: open.took_ns, acts });
    }

    fn unlinked(&mut self, operation: &Operation, path: Option<u32>) {
        if let Some(file) = path.and_then(|path| self.seen.files.get_mut(path as usize)) {
            if file.exists.is_none() && file.initial.is_none() {
                file.initial = Some(0);
            }
            file.exists = Some(false);
            file.deleted += 1;
            file.size = 0;
        }
        let thread = self.seen.threads.get_mut(operation.thread as usize);
        let own = thread.is_some_and(|thread| path.is_some() && thread.made.take() == path);
        self.named(operation, path, if own { Named::UnlinkOwn } else { Named::Unlink });
    }

    fn named(&mut self, operation: &Operation, path: Option<u32>, named: Named) {
        let Some(path) = path else { return };
        let key = (self.seen.shapes.of(&Shape::Named(named)), self.group_of(path));
        let Some(thread) = self.seen.threads.get_mut(operation.thread as usize) else { return };
        if let Some(stats) = thread.steps.one_more(key, 0, 1) {
            stats.took_ns = stats.took_ns.saturating_add(operation.took_ns);
        }
    }

    /// The end of the recording: what is still open was kept open.
    pub fn end(mut self) -> Profile {
        let mut open: Vec<(u32, Open)> = self.open.drain().collect();
        open.sort_by_key(|(handle, _)| *handle);
        for (_, mut open) in open {
            self.profile.kept_openings += 1;
            if !open.kept {
                self.keep(&mut open);
            }
        }
        self.profile.length_ns = self.profile.length_ns.max(self.last_end_ns);
        self.profile.pages = self.pages.distinct();
        self.profile.reuse_pages = self.pages.distances;
        self.profile.summarise_files(&self.seen.files);
        self.profile.seen = self.seen;
        self.profile
    }
}

/// A row of calls as statistics of its act; whole: it is one of a step.
fn run_stats(run: &Run, whole: bool) -> ActStats {
    let mut sums = run.sizes.clone();
    if whole {
        sums = Default::default();
        sums.add(run.bytes);
    }
    ActStats { calls: run.calls, sizes: run.sizes.clone(), asked: run.asked.clone(), sums }
}
