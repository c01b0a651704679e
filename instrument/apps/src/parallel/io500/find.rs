//! The scan of all files: those newer than a stamp, of one size, with `01` in their name. The rate is that of all files seen.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stats::Direction;

use crate::error::at;
use crate::parallel::phase::Phase;
use crate::{AppError, Bench};

/// The moment after which a file is new: seconds and nanoseconds of the file system's clock.
pub(super) type Stamp = (i64, i64);

const STAMP: &str = "timestampfile";
/// Time stamps may be as coarse as a tick of the kernel; files that come later are newer for sure.
const STAMP_PAUSE: Duration = Duration::from_millis(20);
/// How often the user's wish is looked at, in files.
const CHECK_FILES: u64 = 256;

/// Rank 0 makes a file whose time is the stamp; all learn it.
pub(super) fn stamp(root: &Path, bench: &Bench<'_>) -> Result<Stamp, AppError> {
    let path = root.join(STAMP);
    if bench.rank_info().rank == 0 {
        File::create(&path).map_err(at(&path))?;
        std::thread::sleep(STAMP_PAUSE);
    }
    bench.all_gather(0, false)?;
    let found = std::fs::metadata(&path).map_err(at(&path))?;
    Ok((found.mtime(), found.mtime_nsec()))
}

/// Scans everything below `root`: directories are shared out by number, and each entry of a directory that all share goes to
/// one task.
pub(super) fn find(
    root: &Path,
    stamp: Stamp,
    size: u64,
    name: &'static str,
    bench: &mut Bench<'_>,
) -> Result<(), AppError> {
    let roll = bench.rank_info();
    let (rank, tasks) = (u64::from(roll.rank), u64::from(roll.size()));
    let mut phase = Phase::begin(bench, name, "stat", Direction::Neither)?;
    let mut waiting: Vec<PathBuf> = vec![root.to_path_buf()];
    let (mut number, mut hits) = (0_u64, 0_u64);
    while let Some(folder) = waiting.pop() {
        let mut entries: Vec<std::fs::DirEntry> =
            std::fs::read_dir(&folder).and_then(Iterator::collect).map_err(at(&folder))?;
        // all tasks count entries in one order
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let kind = entry.file_type().map_err(at(&folder))?;
            if kind.is_dir() {
                waiting.push(entry.path());
                continue;
            }
            number += 1;
            if number % tasks != rank {
                continue;
            }
            hits += u64::from(is_hit(&entry, stamp, size)?);
            phase.tally.op(0);
            if number.is_multiple_of(CHECK_FILES) {
                bench.check()?;
            }
        }
    }
    phase.end(bench)?;
    let all: u64 = bench.all_gather(hits, false)?.into_iter().sum();
    if all == 0 {
        bench.note(
            "find: no file is newer than the stamp, of the size, and named *01*: more items are needed (-n)",
        );
    }
    Ok(())
}

fn is_hit(entry: &std::fs::DirEntry, stamp: Stamp, size: u64) -> Result<bool, AppError> {
    let found = entry.metadata().map_err(at(&entry.path()))?;
    let newer = (found.mtime(), found.mtime_nsec()) > stamp;
    let named = entry.file_name().to_str().is_some_and(|name| name.contains("01"));
    Ok(newer && named && found.size() == size)
}
