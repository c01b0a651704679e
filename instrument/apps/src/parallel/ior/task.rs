//! What one task does in the write and the read phase.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use stats::Direction;

use super::layout::{Layout, Sequence};
use super::options::{Options, Order, ReadBack};
use crate::error::at;
use crate::parallel::data::{Buffer, Pattern};
use crate::parallel::phase::Phase;
use crate::ranks::RankInfo;
use crate::{AppError, Bench};

/// Files of tasks, and what is known of them.
#[derive(Debug)]
pub(crate) struct Task {
    root: PathBuf,
    roll: RankInfo,
    seed: u64,
    signature: u64,
    file_per_process: bool,
    own_directory: bool,
    name: String,
    /// Transfers that each task has written, and their size.
    written: Vec<u64>,
    written_transfer: u64,
    pattern: Pattern,
}

/// How often the user's wish is looked at, in transfers.
const CHECK_TRANSFERS: u64 = 64;

impl Task {
    /// The task that the bench knows, on a directory of all tasks.
    pub(crate) fn new(options: &Options, root: &Path, seed: u64, bench: &Bench<'_>) -> Task {
        Task {
            root: root.to_path_buf(),
            roll: bench.rank_info(),
            seed,
            signature: seed ^ options.signature,
            file_per_process: options.file_per_process,
            own_directory: options.own_directory,
            name: options.name.clone(),
            written: Vec::new(),
            written_transfer: options.transfer,
            pattern: options.pattern,
        }
    }

    /// Makes the directory of a task that has one.
    pub(crate) fn make_places(&self) -> Result<(), AppError> {
        let path = self.file(self.roll.rank);
        match path.parent() {
            Some(folder) if self.own_directory => std::fs::create_dir_all(folder).map_err(at(folder)),
            _ => Ok(()),
        }
    }

    fn file(&self, owner: u32) -> PathBuf {
        match (self.file_per_process, self.own_directory) {
            (false, _) => self.root.join(&self.name),
            (true, false) => self.root.join(format!("{}.{owner:08}", self.name)),
            (true, true) => self.root.join(owner.to_string()).join(format!("{}.{owner:08}", self.name)),
        }
    }

    fn open(&self, path: &Path, options: &Options, write: bool) -> Result<File, AppError> {
        let mut how = OpenOptions::new();
        how.read(true).write(write).create(write).truncate(false).mode(0o664);
        if options.direct {
            how.custom_flags(libc::O_DIRECT);
        }
        how.open(path).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) if options.direct => AppError::Unavailable {
                reason: format!("{}: this file system has no direct I/O", path.display()),
                remedy: "leave out --posix.odirect".into(),
            },
            _ => at(path)(error),
        })
    }

    /// The write phase: open, write (with the fsync of `-e`), close.
    pub(crate) fn write(
        &mut self,
        options: &Options,
        name: &'static str,
        bench: &mut Bench<'_>,
    ) -> Result<(), AppError> {
        let path = self.file(self.roll.rank);
        let layout = Layout::of(options, self.roll.rank, self.roll.size());
        let mut sequence = self.sequence(options, options.transfers());
        let mut buffer = Buffer::of(options.transfer as usize, self.signature, self.roll.rank);
        let mut phase = Phase::begin(bench, name, "pwrite", Direction::Write)?;
        let file = self.open(&path, options, true)?;
        barrier(options, bench)?;
        phase.opened();
        let stamped = options.pattern == Pattern::Offset;
        let mut one = |number: u64| {
            let offset = layout.offset(sequence.number(number));
            if stamped {
                buffer.stamp(offset);
            }
            file.write_all_at(buffer.bytes(), offset).map_err(at(&path))?;
            if options.fsync_each { file.sync_all().map_err(at(&path)) } else { Ok(()) }
        };
        transfers(options, options.transfers(), &mut phase, bench, &mut one)?;
        if options.fsync {
            file.sync_all().map_err(at(&path))?;
        }
        phase.transferred();
        barrier(options, bench)?;
        close(file, &path)?;
        let done = phase.tally.ops();
        phase.end(bench)?;
        self.written = bench.all_gather(done, false)?;
        Ok(())
    }

    /// The read phase: each task what the read-back order gives it.
    pub(crate) fn read(
        &mut self,
        options: &Options,
        name: &'static str,
        bench: &mut Bench<'_>,
    ) -> Result<(), AppError> {
        let owners = self.owners(options);
        self.say_whose(options, &owners, name, bench);
        let owner = owners.get(self.roll.rank as usize).copied().unwrap_or(self.roll.rank);
        let path = self.file(owner);
        let layout = Layout::of(options, owner, self.roll.size());
        let there = self.there(owner, options);
        if there == 0 {
            let what = format!("{name}: task {owner} has written less than one transfer of this size");
            return Err(AppError::Protocol(what));
        }
        let number = if options.order == Order::Drawn { options.transfers() } else { there };
        let mut sequence = self.sequence(options, there);
        let mut buffer = Buffer::new(options.transfer as usize);
        let mut checker = self.checker(options, owner);
        let mut phase = Phase::begin(bench, name, "pread", Direction::Read)?;
        let file = self.open(&path, options, false)?;
        barrier(options, bench)?;
        phase.opened();
        let mut one = |number: u64| {
            let offset = layout.offset(sequence.number(number));
            file.read_exact_at(buffer.bytes_mut(), offset).map_err(at(&path))?;
            checker.as_mut().map_or(Ok(()), |checker| checker.check(buffer.bytes(), offset, &path))
        };
        transfers(options, number, &mut phase, bench, &mut one)?;
        phase.transferred();
        barrier(options, bench)?;
        close(file, &path)?;
        phase.end(bench)?;
        bench.all_gather(0, false)?;
        Ok(())
    }

    /// Reads what this task has written and compares it, untimed.
    pub(crate) fn check_own(&self, options: &Options, bench: &mut Bench<'_>) -> Result<(), AppError> {
        bench.report("check");
        let own = self.roll.rank;
        let path = self.file(own);
        let layout = Layout::of(options, own, self.roll.size());
        let mut checker = Checker::new(options.transfer, self.signature, own, self.pattern);
        let mut buffer = Buffer::new(options.transfer as usize);
        let file = self.open(&path, options, false)?;
        let mut sequence = self.sequence(options, options.transfers());
        for number in 0..self.written.get(own as usize).copied().unwrap_or(0) {
            let offset = layout.offset(sequence.number(number));
            file.read_exact_at(buffer.bytes_mut(), offset).map_err(at(&path))?;
            checker.check(buffer.bytes(), offset, &path)?;
            if number.is_multiple_of(CHECK_TRANSFERS) {
                bench.check()?;
            }
        }
        bench.all_gather(0, false).map(drop)
    }

    fn sequence(&self, options: &Options, transfers: u64) -> Sequence {
        // a shuffled order that the stonewall has cut must be the writer's when it is read
        let rank = if options.order == Order::Drawn { u64::from(self.roll.rank) } else { 0 };
        let all = if options.order == Order::Shuffled { options.transfers() } else { transfers };
        Sequence::new(options.order, all, self.seed ^ rank << 32 ^ 0x10f)
    }

    /// Transfers of this size that a task has written.
    fn there(&self, owner: u32, options: &Options) -> u64 {
        let written = self.written.get(owner as usize).copied().unwrap_or(0);
        let there = (u128::from(written) * u128::from(self.written_transfer)) / u128::from(options.transfer);
        u64::try_from(there).unwrap_or(u64::MAX).min(match options.order {
            Order::Drawn => u64::MAX,
            _ => options.transfers(),
        })
    }

    /// Whose data each task reads.
    fn owners(&self, options: &Options) -> Vec<u32> {
        let size = self.roll.size();
        match options.read_back {
            ReadBack::Own => (0..size).collect(),
            ReadBack::Further(distance) => {
                let distance = u64::from(distance.max(1)) * u64::from(self.roll.node_step());
                // a whole round would lead back to one's own
                let distance = match distance % u64::from(size) {
                    0 => 1 % size,
                    other => other as u32,
                };
                (0..size).map(|rank| (rank + distance) % size).collect()
            }
            ReadBack::Random(seed) => self.roll.shuffled(self.seed ^ seed),
        }
    }

    fn say_whose(&self, options: &Options, owners: &[u32], name: &str, bench: &mut Bench<'_>) {
        if self.roll.rank != 0 || options.read_back == ReadBack::Own {
            return;
        }
        let (size, hosts) = (self.roll.size(), self.roll.hosts_number());
        let own = self.roll.own_host(|rank| owners.get(rank as usize).copied().unwrap_or(rank));
        if size == 1 {
            bench.note(format!("{name}: one task reads what it has written itself, whatever -C and -Z say"));
        } else if hosts == 1 {
            bench.note(format!(
                "{name}: no task reads its own data, but all are on one host and share its cache"
            ));
        } else if own > 0 {
            bench.note(format!("{name}: {own} of {size} tasks read what their own host has written"));
        }
    }

    fn checker(&self, options: &Options, owner: u32) -> Option<Checker> {
        options.check_read.then(|| Checker::new(self.written_transfer, self.signature, owner, self.pattern))
    }
}

/// Knows what a task has written.
struct Checker {
    expected: Buffer,
    pattern: Pattern,
    owner: u32,
}

impl Checker {
    fn new(transfer: u64, signature: u64, owner: u32, pattern: Pattern) -> Checker {
        Checker { expected: Buffer::of(transfer as usize, signature, owner), pattern, owner }
    }

    fn check(&mut self, found: &[u8], offset: u64, path: &Path) -> Result<(), AppError> {
        if self.pattern == Pattern::Offset {
            self.expected.stamp(offset);
        }
        if found == self.expected.bytes() {
            return Ok(());
        }
        let first = found.iter().zip(self.expected.bytes()).position(|(found, expected)| found != expected);
        let byte = offset + first.unwrap_or(0) as u64;
        let (path, owner) = (path.display(), self.owner);
        Err(AppError::Protocol(format!("{path}: byte {byte} is not what task {owner} has written there")))
    }
}

/// Does transfers 0 to `number`, and with a stonewall those that its time allows, at least one; with wear-out then as many as
/// the task that did most.
fn transfers(
    options: &Options,
    number: u64,
    phase: &mut Phase,
    bench: &Bench<'_>,
    one: &mut dyn FnMut(u64) -> Result<(), AppError>,
) -> Result<(), AppError> {
    let mut done = 0;
    // its time begins when all is open, as IOR's does
    let wall = phase.tally.elapsed() + options.stonewall.unwrap_or(f64::INFINITY);
    while done < number {
        one(done)?;
        phase.tally.op(options.transfer);
        done += 1;
        if done.is_multiple_of(CHECK_TRANSFERS) {
            bench.check()?;
        }
        if phase.tally.elapsed() >= wall {
            break;
        }
    }
    if options.stonewall.is_none() {
        return Ok(());
    }
    phase.walled();
    if !options.wear_out {
        return Ok(());
    }
    let most = bench.all_gather(done, false)?.into_iter().max().unwrap_or(done);
    phase.tally.resume();
    for next in done..most.min(number) {
        one(next)?;
        phase.tally.op(options.transfer);
        if next.is_multiple_of(CHECK_TRANSFERS) {
            bench.check()?;
        }
    }
    Ok(())
}

/// IOR's `-g`.
fn barrier(options: &Options, bench: &Bench<'_>) -> Result<(), AppError> {
    if options.barriers { bench.all_gather(0, false).map(drop) } else { Ok(()) }
}

/// Closes a file and hears whether that went well.
fn close(file: File, path: &Path) -> Result<(), AppError> {
    crate::parallel::phase::close(file).map_err(at(path))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use probe::Counters;

    use super::*;
    use crate::Hooks;
    use crate::parallel::ior::options::GRAMMAR;

    #[test]
    fn the_time_of_a_stonewall_begins_when_all_is_open() {
        const WALL: Duration = Duration::from_secs(1);
        let options = Options::new(&GRAMMAR.parse("-w -D 1").unwrap()).unwrap();
        let hooks = Hooks {
            sample: &Counters::default,
            stopped: &|| false,
            tell: &|_| {},
            ready: &|| Ok(()),
            ranks: None,
        };
        let bench = Bench::new(hooks);
        let mut phase = Phase::begin(&bench, "write", "pwrite", Direction::Write).unwrap();
        std::thread::sleep(WALL);
        phase.opened();
        let opened = Instant::now();
        transfers(&options, 2, &mut phase, &bench, &mut |_| Ok(())).unwrap();
        // a machine so busy that the first one took all its time is no matter
        assert!(phase.tally.ops() == 2 || opened.elapsed() >= WALL);
    }
}
