//! What the preload library's hooks and its keeper do with files that are opened one after another (`series.rs` and
//! `walker.rs` there), over a simulated disk.

use std::collections::HashMap;

use prefetch::budget::Owed;
use prefetch::names::hash;
use prefetch::order::Order;
use prefetch::series::{self, Chase, Name, Opens, SERIES};
use prefetch::walk::{self, BYTES_MAX, CONFIRM, FILE_BYTES_MAX, Walk};

use super::{Program, World};

/// From an open to the keeper's first call, ns.
const WAKE_NS: u64 = 50_000;
/// What the keeper's calls for a file take: open, stat, cachestat, readahead, close, ns.
const FETCH_NS: u64 = 15_000;
/// How often it looks while it walks, and while fetched files wait to be opened, ns.
const WALKING_NS: u64 = 1_000_000;
const WAITING_NS: u64 = 200_000_000;
/// What is not opened for so long was fetched in vain, ns.
const SERIES_PATIENCE_NS: u64 = 5_000_000_000;
const WALK_PATIENCE_NS: u64 = 1_000_000_000;
/// The beginning of a file that tells whether it was evicted, bytes.
const EVICTED_BYTES: u64 = 256 << 10;

/// One series, as the keeper has it.
#[derive(Default)]
struct Following {
    chase: Chase,
    owed: Owed,
    key: u64,
    /// The directory of the file that was opened last.
    path: u64,
    used_ns: u64,
    /// The first file that wakes the keeper again.
    resume: u64,
    wanted: bool,
    /// Whether it is fetching since it was last wanted.
    going: bool,
}

/// A walk that is under way.
struct Walking {
    walk: Walk,
    /// The next file in the order of the directories.
    next: usize,
    bytes: u64,
    used_seen: u32,
    used_ns: u64,
}

/// What the hooks know of directories.
#[derive(Default)]
struct Row {
    key: u64,
    length: u32,
    before: u64,
    opens: u32,
    blocked_until: u32,
    blocked: u32,
}

pub struct Keeper {
    places: HashMap<(u64, Vec<u8>), usize>,
    opens: Opens,
    order: Order,
    /// Whether series are to be fetched.
    fetch: bool,
    /// The thread that has the latest file of each series open, and the file.
    open: [Option<(usize, usize)>; SERIES],
    following: [Following; SERIES],
    row: Row,
    /// The file of the latest of a row of opens, and the hash of the name before if both are numbered.
    letter: Option<(usize, u64)>,
    walking: Option<Walking>,
    expected: Vec<bool>,
    used: u32,
    due_ns: Option<u64>,
    fetched: u64,
}

impl Keeper {
    pub fn new(program: &Program) -> Keeper {
        let place = |(at, file): (usize, &super::File)| ((file.key, file.name.clone().into_bytes()), at);
        Keeper {
            places: program.files.iter().enumerate().map(place).collect(),
            opens: Opens::new(),
            order: Order::new(),
            fetch: false,
            open: [None; SERIES],
            following: Default::default(),
            row: Row::default(),
            letter: None,
            walking: None,
            expected: vec![false; program.files.len()],
            used: 0,
            due_ns: None,
            fetched: 0,
        }
    }

    /// When the keeper has something to do, ns.
    pub fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Files that were asked for.
    pub fn fetched(&self) -> u64 {
        self.fetched
    }

    fn rouse(&mut self, now_ns: u64) {
        let due_ns = now_ns + WAKE_NS;
        self.due_ns = Some(self.due_ns.map_or(due_ns, |before| before.min(due_ns)));
    }

    pub fn on_open(&mut self, world: &World, file: usize, thread: usize, now_ns: u64) {
        self.row.opens += 1;
        if std::mem::take(&mut self.expected[file]) {
            self.used += 1;
        }
        let own = hash(0, world.program.files[file].name.as_bytes()) | 1;
        let numbered = self.next_of_series(world, file, thread, now_ns);
        let before = std::mem::replace(&mut self.row.before, own);
        let key = world.program.files[file].key;
        if std::mem::replace(&mut self.row.key, key) != key {
            self.row.length = 1;
        } else if before != own {
            self.row.length += 1;
            let free = self.row.blocked_until <= self.row.opens;
            if self.row.length == CONFIRM && free && self.letter.is_none() && self.walking.is_none() {
                self.letter = Some((file, if numbered { before } else { 0 }));
                self.rouse(now_ns);
            }
        }
    }

    fn next_of_series(&mut self, world: &World, file: usize, thread: usize, now_ns: u64) -> bool {
        let opened_file = &world.program.files[file];
        let Some(opened) = self.opens.on_open(opened_file.key, opened_file.name.as_bytes()) else {
            return false;
        };
        if let Some((_, before)) = self.open[opened.at].replace((thread, file)) {
            // Its other reader has not closed it.
            self.left(world, opened.at, before, 0, now_ns);
        }
        self.order.on_open(now_ns);
        if opened.fresh {
            self.following[opened.at].resume = 0;
        }
        let Some(series) = self.opens.series(opened.at) else { return false };
        if opened.follows
            && series.is_confirmed()
            && (series.index() as u32) >= self.following[opened.at].resume as u32
        {
            self.fetch = self.order.wants(now_ns, self.opens.are_several(), world.device.full_rate());
            if self.fetch || self.order.is_settling() {
                self.following[opened.at].path = opened_file.key;
                self.following[opened.at].wanted = true;
                self.rouse(now_ns);
            }
        }
        opened.follows
    }

    pub fn on_close(&mut self, world: &World, file: usize, thread: usize, now_ns: u64) {
        if let Some(at) = self.open.iter().position(|open| *open == Some((thread, file))) {
            self.open[at] = None;
            self.left(world, at, file, super::wanted(world.program, file), now_ns);
        }
    }

    fn left(&mut self, world: &World, at: usize, file: usize, read: u64, now_ns: u64) {
        self.opens.on_left(at, read, world.program.files[file].size);
        self.order.on_left(read, now_ns);
    }

    fn ahead_bytes(&self) -> u64 {
        self.following.iter().map(|one| one.chase.ahead_bytes()).sum()
    }

    fn walked_bytes(&self) -> u64 {
        self.walking.as_ref().map_or(0, |walking| walking.walk.ahead_bytes())
    }

    /// Fetches at most one file; later the next.
    pub fn work(&mut self, world: &mut World, now_ns: u64) {
        let again = self.walk(world, now_ns) || self.follow(world, now_ns);
        let ahead = self.ahead_bytes() + self.walked_bytes() > 0;
        world.device.ordered.store(ahead, std::sync::atomic::Ordering::Relaxed);
        let waiting = self.following.iter().any(|one| one.owed.bytes() > 0);
        self.due_ns = match (again, self.walking.is_some(), waiting) {
            (true, ..) => Some(now_ns + FETCH_NS),
            (_, true, _) => Some(now_ns + WALKING_NS),
            (_, _, true) => Some(now_ns + WAITING_NS),
            _ => None,
        };
    }

    /// One step of the series. Whether something was fetched.
    fn follow(&mut self, world: &mut World, now_ns: u64) -> bool {
        let all = self.ahead_bytes() + self.walked_bytes();
        for at in 0..SERIES {
            let one = &mut self.following[at];
            let Some(series) = self.opens.series(at).copied() else { continue };
            if std::mem::take(&mut one.wanted) {
                one.catch_up(world, &series, now_ns);
                one.going = self.fetch;
                let (before, last) = series.latest();
                let next = last.next(&before).and_then(|name| self.places.get(&key_of(one.key, &name)));
                if one.going
                    && one.chase.is_ahead()
                    && next.is_some_and(|next| world.disk.is_evicted(*next, EVICTED_BYTES))
                {
                    world.budget.evicted();
                    one.chase.pause();
                }
            } else if one.owed.bytes() > 0 && now_ns.saturating_sub(one.used_ns) > SERIES_PATIENCE_NS {
                one.owed.give_all(&world.budget);
                one.chase = Chase::new();
            }
            if !one.going {
                continue;
            }
            let bytes_max = Chase::bytes_max(world.device.model().bdp());
            one.going = false;
            match one.chase.pace(bytes_max, all - one.chase.ahead_bytes()) {
                series::Pace::Wait => {}
                series::Pace::Pause => one.resume = one.chase.resume(),
                series::Pace::Go => {
                    let name = one.chase.next();
                    let next = name.and_then(|name| Some((name, *self.places.get(&key_of(one.key, &name))?)));
                    let Some((name, file)) = next else {
                        one.chase.pause();
                        one.resume = one.chase.resume();
                        continue;
                    };
                    let wanted = world.program.files[file].size.min(bytes_max);
                    let cached = world.disk.has(file, wanted);
                    if !cached && !one.owed.take(wanted, &world.budget) {
                        continue;
                    }
                    if !cached {
                        world.disk.ask(file, 0, wanted, now_ns);
                        self.fetched += 1;
                    }
                    one.chase.on_fetched(name, if cached { 0 } else { wanted });
                    one.going = true;
                    return true;
                }
            }
        }
        false
    }

    /// One step of the walk. Whether it went past a file.
    fn walk(&mut self, world: &mut World, now_ns: u64) -> bool {
        if let Some((file, before)) = self.letter.take() {
            let beside = file.checked_sub(1).map(|at| &world.program.files[at]);
            let beside = beside.filter(|beside| beside.key == world.program.files[file].key);
            let after = beside.map_or(0, |beside| hash(0, beside.name.as_bytes()) | 1);
            // Numbered files that do not lie in this order in the directory are followed by their numbers.
            if before == 0 || before == after {
                let (next, used_seen) = (file + 1, self.used);
                self.walking =
                    Some(Walking { walk: Walk::begin(), next, bytes: 0, used_seen, used_ns: now_ns });
            }
        }
        let others = self.ahead_bytes();
        let Some(walking) = &mut self.walking else { return false };
        let used = std::mem::replace(&mut walking.used_seen, self.used);
        if self.used > used {
            walking.used_ns = now_ns;
            let mean = walking.bytes / u64::from(walking.walk.counts().0.max(1));
            (used..self.used).for_each(|_| walking.walk.on_used(mean, &world.budget));
        }
        let bytes_max = match world.device.model().bdp() {
            0 => BYTES_MAX,
            bdp => Chase::bytes_max(bdp),
        };
        match walking.walk.pace(bytes_max, others, &world.budget) {
            walk::Pace::Go if walking.next < world.program.files.len() => {
                let file = walking.next;
                walking.next += 1;
                let bytes = world.program.files[file].size.min(FILE_BYTES_MAX);
                let cached = world.disk.has(file, bytes);
                if !cached && !walking.walk.take(bytes, &world.budget) {
                    walking.walk.on_fetched(false);
                    return true;
                }
                if !cached {
                    world.disk.ask(file, 0, bytes, now_ns);
                    walking.bytes += bytes;
                    self.fetched += 1;
                }
                self.expected[file] = true;
                walking.walk.on_fetched(cached);
                true
            }
            walk::Pace::Wait if now_ns - walking.used_ns < WALK_PATIENCE_NS => false,
            walk::Pace::Go => {
                // The end of the directories.
                walking.walk.end(&world.budget);
                self.walking = None;
                false
            }
            _ => {
                walking.walk.end(&world.budget);
                self.walking = None;
                self.row.blocked = (self.row.blocked * 2).clamp(256, 1 << 16);
                self.row.blocked_until = self.row.opens + self.row.blocked;
                false
            }
        }
    }
}

fn key_of(key: u64, name: &Name) -> (u64, Vec<u8>) {
    (key, name.bytes().to_vec())
}

impl Following {
    /// Takes over what the program opened.
    fn catch_up(&mut self, world: &World, series: &series::Series, now_ns: u64) {
        if self.key != self.path {
            self.owed.give_all(&world.budget);
            self.chase = Chase::new();
            self.key = self.path;
        }
        self.used_ns = now_ns;
        let (_, bytes) = self.chase.catch_up(series);
        self.owed.give(bytes, &world.budget);
    }
}
