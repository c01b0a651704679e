//! What one task does in each phase. All paths are relative to the load's directory, as with mdtest's `-d .`.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use stats::Direction;

use super::options::Options;
use super::tree::Trees;
use crate::error::at;
use crate::parallel::data::Buffer;
use crate::parallel::phase::Phase;
use crate::ranks::RankInfo;
use crate::{AppError, Bench};

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    Directory,
    File,
}

impl Item {
    /// How names of such items begin.
    fn word(self) -> &'static str {
        if self == Item::Directory { "dir" } else { "file" }
    }
}

/// What the phases of items are called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    pub create: &'static str,
    pub stat: &'static str,
    pub read: &'static str,
    pub remove: &'static str,
}

/// Trees and items of a task.
#[derive(Debug)]
pub(crate) struct Task {
    root: PathBuf,
    top: File,
    roll: RankInfo,
    seed: u64,
    own_tree: bool,
    /// Ranks from one whose items are created to one whose items are seen in the next phase.
    stride: u32,
    /// What this task creates.
    own: Trees,
    /// Items of a task: all have as many.
    items: [u64; 2],
}

/// How often the user's wish is looked at, in items.
const CHECK_ITEMS: u64 = 256;
/// As mdtest opens its files.
const FILE_MODE: u32 = 0o664;
const DIRECTORY_MODE: u32 = 0o775;

impl Task {
    /// The task that the bench knows, on a directory of all tasks.
    pub(crate) fn new(
        options: &Options,
        root: &Path,
        seed: u64,
        bench: &Bench<'_>,
    ) -> Result<Task, AppError> {
        let roll = bench.rank_info();
        let size = u64::from(roll.size());
        // with several hosts the next task is one of another host
        let stride = options.stride.saturating_mul(u64::from(roll.node_step())) % size;
        let own = Trees::of(options, roll.rank);
        Ok(Task {
            root: root.to_path_buf(),
            top: File::open(root).map_err(at(root))?,
            seed,
            own_tree: options.own_tree,
            stride: stride as u32,
            items: [own.items(); 2],
            own,
            roll,
        })
    }

    fn error(&self, path: &str, error: Errno) -> AppError {
        at(&self.root.join(path))(error.into())
    }

    /// The task whose items this one sees in the phase so many strides after creation.
    fn whose(&self, strides: u32) -> u32 {
        let size = u64::from(self.roll.size());
        ((u64::from(self.roll.rank) + u64::from(strides) * u64::from(self.stride)) % size) as u32
    }

    fn trees(&self, options: &Options, rank: u32, item: Item) -> Trees {
        let mut trees = if self.own_tree { Trees::of(options, rank) } else { self.own.clone() };
        trees.resize(self.items[usize::from(item == Item::File)]);
        trees
    }

    fn makes_trees(&self) -> bool {
        self.own_tree || self.roll.rank == 0
    }

    /// Makes the trees; timed when it is a phase.
    pub(crate) fn make_tree(
        &mut self,
        name: Option<&'static str>,
        bench: &mut Bench<'_>,
    ) -> Result<(), AppError> {
        // what lies above the trees is common to all
        if self.roll.rank == 0 {
            for above in above(&self.own.directories) {
                self.mkdir(above)?;
            }
        }
        bench.all_gather(0, false)?;
        let mut phase =
            name.map(|name| Phase::begin(bench, name, "mkdir", Direction::Neither)).transpose()?;
        if self.makes_trees() {
            for path in &self.own.directories {
                self.mkdir(path)?;
                if let Some(phase) = &mut phase {
                    phase.tally.op(0);
                }
            }
        }
        phase.map_or(Ok(()), |phase| phase.end(bench))?;
        bench.all_gather(0, false).map(drop)
    }

    /// Removes the trees, which are empty by now.
    pub(crate) fn remove_tree(
        &mut self,
        name: Option<&'static str>,
        bench: &mut Bench<'_>,
    ) -> Result<(), AppError> {
        let mut phase =
            name.map(|name| Phase::begin(bench, name, "rmdir", Direction::Neither)).transpose()?;
        if self.makes_trees() {
            for path in self.own.directories.iter().rev() {
                rustix::fs::unlinkat(&self.top, path, AtFlags::REMOVEDIR)
                    .map_err(|error| self.error(path, error))?;
                if let Some(phase) = &mut phase {
                    phase.tally.op(0);
                }
            }
        }
        phase.map_or(Ok(()), |phase| phase.end(bench))?;
        bench.all_gather(0, false).map(drop)
    }

    fn mkdir(&self, path: &str) -> Result<(), AppError> {
        rustix::fs::mkdirat(&self.top, path, Mode::from_raw_mode(DIRECTORY_MODE))
            .map_err(|error| self.error(path, error))
    }

    /// Creates items, files with their bytes.
    pub(crate) fn create(
        &mut self,
        options: &Options,
        item: Item,
        name: &'static str,
        bench: &mut Bench<'_>,
    ) -> Result<(), AppError> {
        let rank = self.roll.rank;
        let mut buffer = Buffer::of(options.write_bytes as usize, self.seed, rank);
        let (kind, direction) = match item {
            Item::Directory => ("mkdir", Direction::Neither),
            Item::File => ("create", Direction::Write),
        };
        let mut phase = Phase::begin(bench, name, kind, direction)?;
        let mut path = String::new();
        let mut one = |number: u64| -> Result<(), AppError> {
            let item_number = self.own.path(item.word(), rank, number, &mut path);
            if item == Item::Directory {
                return self.mkdir(&path);
            }
            let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
            let file = self.open(&path, flags)?;
            if options.write_bytes > 0 {
                buffer.stamp(item_number);
                self.write(&file, buffer.bytes(), &path)?;
            }
            if options.fsync {
                rustix::fs::fsync(&file).map_err(|error| self.error(&path, error))?;
            }
            self.close(file, &path)
        };
        let bytes = if item == Item::File { options.write_bytes } else { 0 };
        let wall = options.stonewall.unwrap_or(f64::INFINITY);
        let all = self.own.items();
        let mut done = 0;
        while done < all && phase.tally.elapsed() < wall {
            one(done)?;
            phase.tally.op(bytes);
            done += 1;
            if done.is_multiple_of(CHECK_ITEMS) {
                bench.check()?;
            }
        }
        if options.stonewall.is_some() {
            phase.walled();
            // all go on to the largest count, so that later phases see as many items of each
            let most = bench.all_gather(done, false)?.into_iter().max().unwrap_or(done);
            phase.tally.resume();
            for number in done..most {
                one(number)?;
                phase.tally.op(bytes);
                if number.is_multiple_of(CHECK_ITEMS) {
                    bench.check()?;
                }
            }
            done = done.max(most);
        }
        self.sync(options)?;
        phase.end(bench)?;
        self.items[usize::from(item == Item::File)] = done;
        bench.all_gather(0, false).map(drop)
    }

    /// Asks for the attributes of the items of the task one stride further.
    pub(crate) fn stat(
        &mut self,
        options: &Options,
        item: Item,
        name: &'static str,
        bench: &mut Bench<'_>,
    ) -> Result<(), AppError> {
        let whose = self.whose(1);
        let trees = self.trees(options, whose, item);
        let order = self.order(options, trees.items());
        let phase = Phase::begin(bench, name, "stat", Direction::Neither)?;
        let mut path = String::new();
        let one = |number: u64| -> Result<(), AppError> {
            trees.path(item.word(), whose, number, &mut path);
            rustix::fs::statat(&self.top, &path, AtFlags::empty())
                .map(drop)
                .map_err(|error| self.error(&path, error))
        };
        self.each(options, (phase, 0), order, trees.items(), bench, one)
    }

    /// Opens, reads and closes the files of the task two strides further.
    pub(crate) fn read(
        &mut self,
        options: &Options,
        name: &'static str,
        bench: &mut Bench<'_>,
    ) -> Result<(), AppError> {
        let whose = self.whose(2);
        let trees = self.trees(options, whose, Item::File);
        let order = self.order(options, trees.items());
        let mut buffer = Buffer::new(options.read_bytes as usize);
        let mut expected = Buffer::of(options.write_bytes as usize, self.seed, whose);
        let phase = Phase::begin(bench, name, "read", Direction::Read)?;
        let mut path = String::new();
        let one = |number: u64| -> Result<(), AppError> {
            let item_number = trees.path(Item::File.word(), whose, number, &mut path);
            let file = self.open(&path, OFlags::RDONLY | OFlags::CLOEXEC)?;
            if options.read_bytes > 0 {
                self.read_exact(&file, buffer.bytes_mut(), &path)?;
                if options.verify {
                    expected.stamp(item_number);
                    if !expected.bytes().starts_with(buffer.bytes()) {
                        let what = format!("{path}: holds something else than task {whose} has written");
                        return Err(AppError::Protocol(what));
                    }
                }
            }
            self.close(file, &path)
        };
        self.each(options, (phase, options.read_bytes), order, trees.items(), bench, one)
    }

    /// Renames the directories of the task one stride further as mdtest does: the first one to a name beside it, each next one to
    /// the name of the one before, and at last the first one to the last name that was left. All names are there again afterwards.
    pub(crate) fn rename(
        &mut self,
        options: &Options,
        name: &'static str,
        bench: &mut Bench<'_>,
    ) -> Result<(), AppError> {
        let whose = self.whose(1);
        let trees = self.trees(options, whose, Item::Directory);
        let chain = trees.items() / options.loops;
        // There is nothing to turn round in, and mdtest leaves the phase out.
        if chain < 2 {
            return Ok(());
        }
        let phase = Phase::begin(bench, name, "rename", Direction::Neither)?;
        let (mut from, mut to, mut aside) = (String::new(), String::new(), String::new());
        let one = |number: u64| -> Result<(), AppError> {
            trees.path(Item::Directory.word(), whose, number, &mut from);
            let place = number % chain;
            if place == 0 {
                aside.clone_from(&from);
                aside.push_str("-XX");
                to.clone_from(&aside);
            } else if place == chain - 1 {
                from.clone_from(&aside);
            }
            rustix::fs::renameat(&self.top, &from, &self.top, &to)
                .map_err(|error| self.error(&from, error))?;
            std::mem::swap(&mut from, &mut to);
            Ok(())
        };
        self.each(options, (phase, 0), None, trees.items(), bench, one)
    }

    /// Removes the items of the task three strides further.
    pub(crate) fn remove(
        &mut self,
        options: &Options,
        item: Item,
        name: &'static str,
        bench: &mut Bench<'_>,
    ) -> Result<(), AppError> {
        let whose = self.whose(3);
        let trees = self.trees(options, whose, item);
        let (kind, flags) = match item {
            Item::Directory => ("rmdir", AtFlags::REMOVEDIR),
            Item::File => ("unlink", AtFlags::empty()),
        };
        let phase = Phase::begin(bench, name, kind, Direction::Neither)?;
        let mut path = String::new();
        let one = |number: u64| -> Result<(), AppError> {
            trees.path(item.word(), whose, number, &mut path);
            rustix::fs::unlinkat(&self.top, &path, flags).map_err(|error| self.error(&path, error))
        };
        self.each(options, (phase, 0), None, trees.items(), bench, one)
    }

    fn each(
        &self,
        options: &Options,
        (mut phase, bytes): (Phase, u64),
        order: Option<Vec<u32>>,
        items: u64,
        bench: &mut Bench<'_>,
        mut one: impl FnMut(u64) -> Result<(), AppError>,
    ) -> Result<(), AppError> {
        for number in 0..items {
            one(order.as_ref().map_or(number, |order| u64::from(order[number as usize])))?;
            phase.tally.op(bytes);
            if number.is_multiple_of(CHECK_ITEMS) {
                bench.check()?;
            }
        }
        self.sync(options)?;
        phase.end(bench)?;
        bench.all_gather(0, false).map(drop)
    }

    /// The order of `-R`.
    fn order(&self, options: &Options, items: u64) -> Option<Vec<u32>> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ options.random?);
        let mut order: Vec<u32> = (0..u32::try_from(items).ok()?).collect();
        order.shuffle(&mut rng);
        Some(order)
    }

    /// mdtest's `-Y`; of the file system under test only.
    fn sync(&self, options: &Options) -> Result<(), AppError> {
        if !options.sync {
            return Ok(());
        }
        rustix::fs::syncfs(&self.top).map_err(|error| self.error(".", error))
    }

    fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd, AppError> {
        rustix::fs::openat(&self.top, path, flags, Mode::from_raw_mode(FILE_MODE))
            .map_err(|error| self.error(path, error))
    }

    fn write(&self, file: &impl AsFd, mut bytes: &[u8], path: &str) -> Result<(), AppError> {
        while !bytes.is_empty() {
            match rustix::io::write(file, bytes) {
                Ok(0) => return Err(self.error(path, Errno::IO)),
                Ok(done) => bytes = &bytes[done..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.error(path, error)),
            }
        }
        Ok(())
    }

    fn read_exact(&self, file: &impl AsFd, mut bytes: &mut [u8], path: &str) -> Result<(), AppError> {
        while !bytes.is_empty() {
            match rustix::io::read(file, &mut *bytes) {
                Ok(0) => return Err(AppError::Protocol(format!("{path}: shorter than it was written"))),
                Ok(done) => bytes = &mut bytes[done..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.error(path, error)),
            }
        }
        Ok(())
    }

    /// Closes a file and hears whether that went well.
    fn close(&self, file: OwnedFd, path: &str) -> Result<(), AppError> {
        crate::parallel::phase::close(file).map_err(|error| at(&self.root.join(path))(error))
    }
}

/// Directories above the trees, each once.
fn above(directories: &[String]) -> Vec<&str> {
    let mut above: Vec<&str> = directories.iter().filter_map(|path| path.split('/').next()).collect();
    above.dedup();
    above
}
