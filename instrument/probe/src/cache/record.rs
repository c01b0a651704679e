//! Traces a workload and accounts for its page cache.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use analysis::cache::Recording;

use super::account::account;
use super::cachestat::cachestat;
use super::event::{CacheEvent, selections};
use crate::fsync::chain::Chain;
use crate::fsync::event::Dev;
use crate::fsync::record::RecordError;
use trace::{Options, capture};

/// Directories deeper than this are not looked through for names.
const DEPTH_MAX: usize = 64;

/// Runs `work` while the page cache of the file system that holds `path` is traced; at most `bytes_max` bytes of
/// trace are kept.
///
/// # Errors
/// When `path` has no file system that can be told, or tracing fails.
pub fn record<T>(
    path: &Path,
    bytes_max: u64,
    work: impl FnOnce() -> T,
) -> Result<(Recording, T), RecordError> {
    let chain = Chain::of(path)?;
    let dev = chain.levels.first().map_or(0, |level| level.fs_dev);
    let mut options = Options::new(selections(Dev(dev)));
    (options.bytes_max, options.end_when_full) = (bytes_max, true);
    options.buffer_kib_per_cpu = 16 << 10;
    let (captured, value) = capture(&options, work)?;
    let moments: Vec<CacheEvent> = captured.events.iter().filter_map(CacheEvent::of).collect();
    let mut names = HashMap::new();
    let mut sizes = HashMap::new();
    walk(path, 0, &mut |path, meta| {
        sizes.insert(meta.ino(), meta.len());
        names.insert(meta.ino(), path);
    });
    let account = account(&moments, |inode| sizes.get(&inode).copied());
    let stat = |(inode, path): (&u64, &PathBuf)| {
        let file = account.files.contains_key(inode).then(|| std::fs::File::open(path).ok())??;
        Some((*inode, cachestat(&file).ok()?.cached))
    };
    let cached = names.iter().filter_map(stat).collect();
    let ended_early = captured.full_at_ns.is_some();
    Ok((Recording { account, names, cached, lost: captured.lost, ended_early }, value))
}

/// Files that vanish meanwhile, and directories that cannot be read, have no names.
fn walk(dir: &Path, depth: usize, each: &mut impl FnMut(PathBuf, std::fs::Metadata)) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        if meta.is_dir() && depth < DEPTH_MAX {
            walk(&entry.path(), depth + 1, each);
        } else if meta.is_file() {
            each(entry.path(), meta);
        }
    }
}
