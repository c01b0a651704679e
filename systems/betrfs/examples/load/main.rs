//! Load for a mounted file system, with the means to say afterwards whether everything is as it must be.
//!
//! | command | what it does |
//! |---|---|
//! | `load random DIR LOG SEED THREADS SECONDS` | random operations, each thread on its directory, checked as it goes; two more threads get in each other's way in a third |
//! | `load check DIR LOG SEED THREADS` | after a crash or remount: each directory is in a state not older than its last fsync |
//! | `load scatter DIR LOG SEED MIB EVERY SECONDS` | writes of 4 KiB anywhere in one file, a sync after every EVERY |
//! | `load scattered DIR LOG SEED MIB` | after a crash: of these the first, none older missing, all that was synced |
//! | `load fill DIR SEED ROUNDS` | fills to the last byte, deletes half, fills again |
//! | `load files DIR COUNT` | makes, looks at and removes many small files |
//!
//! LOG is the beginning of the names of files outside the file system under test. The operations follow from the
//! seed alone, so that `check` can repeat them in memory.

mod chaos;
mod fill;
mod scatter;
mod walk;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use walk::{Outcome, Walk};

/// Result of a command: text to print, or what is wrong.
type Done = Result<String, String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done =
        match words[..] {
            ["random", dir, log, seed, threads, seconds] => {
                number(seconds).and_then(|s| random(dir, log, number(seed)?, number(threads)?, s))
            }
            ["check", dir, log, seed, threads] => {
                number(threads).and_then(|threads| check(dir, log, number(seed)?, threads))
            }
            ["scatter", dir, log, seed, mib, every, seconds] => [seed, mib, every, seconds]
                .map(number)
                .into_iter()
                .collect::<Result<Vec<_>, _>>()
                .and_then(|n| scatter::scatter(Path::new(dir), Path::new(log), n[0], n[1], n[2], n[3])),
            ["scattered", dir, log, seed, mib] => number(seed)
                .and_then(|seed| scatter::scattered(Path::new(dir), Path::new(log), seed, number(mib)?)),
            ["fill", dir, seed, rounds] => {
                number(rounds).and_then(|rounds| fill::fill(Path::new(dir), number(seed)?, rounds))
            }
            ["files", dir, count] => number(count).and_then(|count| fill::files(Path::new(dir), count)),
            _ => Err("load random|check|scatter|scattered|fill|files; see the head of examples/load/main.rs"
                .into()),
        };
    match done {
        Ok(words) => {
            println!("{words}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn places(dir: &str, log: &str, thread: u64) -> (PathBuf, PathBuf) {
    (Path::new(dir).join(format!("t{thread}")), PathBuf::from(format!("{log}.{thread}")))
}

/// How far a thread got: operations begun, and those known to be durable.
struct Progress(File);

impl Progress {
    fn create(path: &Path) -> std::io::Result<Progress> {
        let file = File::options().create(true).truncate(true).write(true).open(path)?;
        file.write_all_at(&[0; 16], 0)?;
        Ok(Progress(file))
    }

    fn begun(&self, operation: u64) -> std::io::Result<()> {
        self.0.write_all_at(&operation.to_le_bytes(), 0)
    }

    fn durable(&self, operation: u64) -> std::io::Result<()> {
        self.0.write_all_at(&operation.to_le_bytes(), 8)
    }

    fn load(path: &Path) -> std::io::Result<(u64, u64)> {
        let bytes = std::fs::read(path)?;
        let at = |i: usize| bytes.get(i..i + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
        Ok((at(0), at(8)))
    }
}

fn random(dir: &str, log: &str, seed: u64, threads: u64, seconds: u64) -> Done {
    println!("seed {seed}, {threads} threads, {seconds} s");
    let end = Instant::now() + Duration::from_secs(seconds);
    let shared = Path::new(dir).join("shared");
    let text = |e: std::io::Error| format!("prepare: {e}");
    std::fs::create_dir_all(&shared).map_err(text)?;
    for thread in 0..threads {
        std::fs::create_dir(places(dir, log, thread).0).map_err(text)?;
    }
    File::open(dir).and_then(|d| d.sync_all()).map_err(text)?;
    std::thread::scope(|scope| {
        let walks: Vec<_> = (0..threads)
            .map(|thread| {
                let (at, log) = places(dir, log, thread);
                scope.spawn(move || walk_until(&at, &log, Walk::new(seed, thread), end))
            })
            .collect();
        let chaos: Vec<_> = (0..2)
            .map(|n| {
                let shared = &shared;
                scope.spawn(move || chaos::quarrel(shared, seed ^ (n + 77), end))
            })
            .collect();
        let mut words = Vec::new();
        for thread in walks.into_iter().chain(chaos) {
            words.push(thread.join().map_err(|_| "a thread panicked".to_owned())??);
        }
        Ok(words.join("; "))
    })
}

fn walk_until(at: &Path, log: &Path, mut walk: Walk, end: Instant) -> Done {
    let text = |e: std::io::Error| format!("log: {e}");
    let progress = Progress::create(log).map_err(text)?;
    loop {
        let last = Instant::now() >= end;
        progress.begun(walk.operation + 1).map_err(text)?;
        let outcome = if last { walk.sync(at) } else { walk.step(Some(at)) };
        match outcome {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Synced) => progress.durable(walk.operation).map_err(text)?,
            Ok(Outcome::Disconnected) => {
                return Ok(format!("{}: connection lost at operation {}", at.display(), walk.operation));
            }
            Err(what) => return Err(format!("{} operation {}: {what}", at.display(), walk.operation)),
        }
        if last {
            progress.begun(walk.operation).map_err(text)?;
            let found = walk::dump(at).map_err(|e| format!("{}: dump: {e}", at.display()))?;
            let differs = walk::difference(&walk.dump(), &found);
            let count = walk.operation;
            return differs
                .map_or(Ok(format!("{count} operations")), |d| Err(format!("{}: {d}", at.display())));
        }
    }
}

fn check(dir: &str, log: &str, seed: u64, threads: u64) -> Done {
    let mut words = Vec::new();
    for thread in 0..threads {
        let (at, log) = places(dir, log, thread);
        let (begun, durable) = Progress::load(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let found = walk::dump(&at).map_err(|e| format!("{}: dump: {e}", at.display()))?;
        let mut walk = Walk::new(seed, thread);
        let mut nearest: Option<(usize, u64, String)> = None;
        let state = loop {
            if walk.operation >= durable {
                let dump = walk.dump();
                if dump == found {
                    break Some(walk.operation);
                }
                let difference = walk::difference(&dump, &found).unwrap_or_default();
                let lines = difference.lines().count();
                if nearest.as_ref().is_none_or(|(least, ..)| lines <= *least) {
                    nearest = Some((lines, walk.operation, difference));
                }
            }
            if walk.operation >= begun {
                break None;
            }
            walk.step(None)?;
            if walk.operation > durable && walk.dumps_within().contains(&found) {
                break Some(walk.operation);
            }
        };
        let Some(state) = state else {
            let (_, nearest, difference) = nearest.unwrap_or_default();
            return Err(format!(
                "{}: the state is none of operations {durable} (durable) to {begun} (begun); beside {nearest}: {difference}",
                at.display()
            ));
        };
        words.push(format!("t{thread}: {durable} <= {state} <= {begun}"));
    }
    Ok(words.join(", "))
}
