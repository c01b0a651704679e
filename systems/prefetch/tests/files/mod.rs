//! Programs that open one file after another, in virtual time: what `series`, `order`, `names` and `walk` decide, driven
//! as the keeper of the preload library drives them. That single files are read in some order is `prefetch::sim`'s.
//!
//! What is left out: reading directories and inodes takes no time, and the library never rests for its cost.

pub mod cells;
mod disk;
mod keeper;

pub use disk::DiskOptions;

use disk::{Ahead, Disk};
use keeper::Keeper;
use prefetch::budget::Memory;
use prefetch::{Budget, Device, FileState, Mode, Read};

/// Reads of a program are of so many bytes, or what is left of the file: `cat` and `grep` have as much.
const BLOCK: u64 = 128 << 10;
/// Smaller files have no streams, bytes: as the library has it.
const TRACKED: u64 = 256 << 10;
/// What a look at a read or an open costs, ns.
const HOOK_NS: u64 = 100;

/// A file of a program.
#[derive(Debug, Clone)]
pub struct File {
    /// Of its directory.
    pub key: u64,
    pub name: String,
    pub size: u64,
}

/// What a program does. Its files are in the order of their directories.
#[derive(Debug, Clone, Default)]
pub struct Program {
    pub files: Vec<File>,
    /// The files each thread opens, in its order.
    pub threads: Vec<Vec<usize>>,
    /// So many percent of each are read, from its beginning.
    pub percent: u64,
    /// Computing after each file, ns.
    pub think_ns: u64,
    /// Whether all is cached before it begins.
    pub warm: bool,
}

/// What a replay gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    pub elapsed_ns: u64,
    pub device_bytes: u64,
    /// The 99th percentile of a read, ns.
    pub p99_ns: u64,
    /// Files that were fetched before they were opened, or in vain.
    pub fetched: u64,
}

/// A thread of the program.
struct Reader {
    now_ns: u64,
    /// How many of its files it has done with.
    done: usize,
    offset: u64,
    /// When the read began that is under way, ns.
    began_ns: Option<u64>,
    ahead: Ahead,
    state: Option<FileState>,
}

impl Reader {
    fn begin() -> Reader {
        Reader { now_ns: 1_000_000, done: 0, offset: 0, began_ns: None, ahead: Ahead::default(), state: None }
    }
}

/// What the parts share.
pub struct World<'a> {
    pub program: &'a Program,
    pub disk: Disk,
    pub device: Device,
    pub budget: Budget,
}

/// Replays a program, with the policy or without.
pub fn replay(program: &Program, options: &DiskOptions, helped: bool) -> Outcome {
    let mut world = World {
        program,
        disk: Disk::new(options, program.files.iter().map(|file| file.size)),
        device: Device::new(),
        budget: Budget::new(),
    };
    if program.warm {
        (0..program.files.len()).for_each(|file| world.disk.warm(file));
    }
    world.device.limits.set(options.readahead_bytes, options.readahead_bytes.max(128 << 10));
    world.budget.tell(&Memory {
        available: 16 << 30,
        limit: Some(options.memory_bytes),
        ..Memory::default()
    });
    let mut keeper = Keeper::new(program);
    let mut readers: Vec<Reader> = program.threads.iter().map(|_| Reader::begin()).collect();
    let mut times = Vec::new();
    loop {
        let busy = (0..readers.len()).filter(|at| readers[*at].done < program.threads[*at].len());
        let Some(at) = busy.min_by_key(|at| readers[*at].now_ns) else { break };
        if let Some(due_ns) = keeper.due_ns().filter(|due_ns| *due_ns <= readers[at].now_ns) {
            keeper.work(&mut world, due_ns);
            continue;
        }
        let reader = &mut readers[at];
        let file = program.threads[at][reader.done];
        match reader.began_ns.take() {
            None => reader.issue(file, at, helped.then_some(&mut keeper), &mut world),
            Some(began_ns) => {
                times.push(reader.now_ns - began_ns);
                reader.returned(began_ns, file, at, helped.then_some(&mut keeper), &mut world);
            }
        }
    }
    times.sort_unstable();
    Outcome {
        elapsed_ns: readers.iter().map(|reader| reader.now_ns).max().unwrap_or(0),
        device_bytes: world.disk.device_bytes,
        p99_ns: times.get(times.len() * 99 / 100).copied().unwrap_or(0),
        fetched: keeper.fetched(),
    }
}

/// How much of a file is read: at least something.
fn wanted(program: &Program, file: usize) -> u64 {
    let size = program.files[file].size;
    (size * program.percent / 100).clamp(1, size)
}

impl Reader {
    /// Opens the file, if it is at its beginning, and begins to read.
    fn issue(&mut self, file: usize, at: usize, keeper: Option<&mut Keeper>, world: &mut World) {
        if self.offset == 0 {
            self.ahead = Ahead::default();
            let size = world.program.files[file].size;
            self.state = (keeper.is_some() && size >= TRACKED).then(|| FileState::new(size));
            if let Some(keeper) = keeper {
                keeper.on_open(world, file, at, self.now_ns);
            }
        }
        let len = BLOCK.min(wanted(world.program, file) - self.offset);
        self.began_ns = Some(self.now_ns);
        self.now_ns = world.disk.read(&mut self.ahead, file, self.offset, len, self.now_ns);
    }

    /// The read is over; at the end of what is wanted the file is closed.
    fn returned(
        &mut self,
        began_ns: u64,
        file: usize,
        at: usize,
        keeper: Option<&mut Keeper>,
        world: &mut World,
    ) {
        let wanted = wanted(world.program, file);
        let len = BLOCK.min(wanted - self.offset);
        let (elapsed_ns, now_ns) = (self.now_ns - began_ns, self.now_ns);
        if let Some(state) = &mut self.state {
            let read = Read { offset: self.offset, len, elapsed_ns: Some(elapsed_ns), now_ns };
            let effect = state.on_read(&read, &world.device, &world.budget, Mode::Auto);
            self.now_ns += HOOK_NS;
            // Served at once: that threads wake late is not what these programs are about.
            while effect.wake
                && let Some(request) = state.claim_at(self.now_ns, &world.device, &world.budget)
            {
                world.disk.ask(file, request.offset, request.len, self.now_ns);
            }
        }
        self.offset += len;
        if self.offset < wanted {
            return;
        }
        if let Some(mut state) = self.state.take() {
            state.close(&world.device, &world.budget);
        }
        if let Some(keeper) = keeper {
            keeper.on_close(world, file, at, self.now_ns);
            self.now_ns += HOOK_NS;
        }
        self.offset = 0;
        self.done += 1;
        self.now_ns += world.program.think_ns;
    }
}
