//! Finds and reads the statistics of running and ended programs.

use std::path::{Path, PathBuf};

use prefetch::area::Snapshot;

/// The environment variable that names the directory of the statistics.
pub const DIRECTORY_VARIABLE: &str = "LOADLINE_PREFETCH_DIR";

/// Where statistics are kept by default: below `$XDG_RUNTIME_DIR`, or in `/tmp` under the user's number.
pub fn directory() -> PathBuf {
    if let Some(named) = std::env::var_os(DIRECTORY_VARIABLE) {
        return named.into();
    }
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR") {
        return Path::new(&runtime).join("loadline-prefetch");
    }
    // SAFETY: cannot fail.
    let user = unsafe { libc::geteuid() };
    PathBuf::from(format!("/tmp/loadline-prefetch-{user}"))
}

/// Makes the directory, only for this user. Refuses one that belongs to somebody else.
///
/// # Errors
/// What the file system says; `PermissionDenied` for a directory of another user.
pub fn prepare(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let found = std::fs::symlink_metadata(directory)?;
    // SAFETY: cannot fail.
    let user = unsafe { libc::geteuid() };
    if !found.is_dir() || found.uid() != user {
        let what = format!("{} belongs to somebody else", directory.display());
        return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, what));
    }
    Ok(())
}

/// The statistics of one process, and whether it still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it wrote.
    pub snapshot: Snapshot,
    /// Whether a process of this number runs.
    pub alive: bool,
}

/// All statistics in a directory, by process number. Files that are no statistics are passed over.
pub fn all(directory: &Path) -> Vec<Found> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<Found> =
        entries.flatten().filter_map(|entry| read(&entry.path())).filter(|f| f.snapshot.pid != 0).collect();
    found.sort_by_key(|found| found.snapshot.pid);
    found
}

/// The statistics of one process.
pub fn of(directory: &Path, pid: u32) -> Option<Found> {
    read(&directory.join(pid.to_string()))
}

fn read(path: &Path) -> Option<Found> {
    let snapshot = Snapshot::parse(&std::fs::read(path).ok()?).ok()?;
    let alive = Path::new("/proc").join(snapshot.pid.to_string()).exists();
    Some(Found { snapshot, alive })
}

/// Removes the statistics of processes that have ended, except the `keep` latest. How many were removed.
pub fn sweep(directory: &Path, keep: usize) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let mut ended: Vec<(std::time::SystemTime, PathBuf)> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.parse::<u32>().ok());
            pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
        })
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    ended.sort();
    let surplus = ended.len().saturating_sub(keep);
    ended.iter().take(surplus).filter(|(_, path)| std::fs::remove_file(path).is_ok()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prefetch::area::{Area, BYTES, Head, MAGIC};
    use std::sync::atomic::{AtomicU64, Ordering};

    fn write(directory: &Path, pid: u64) {
        let words: Vec<AtomicU64> = (0..BYTES / 8).map(|_| AtomicU64::new(0)).collect();
        let area = Area::new(&words);
        area.set_head(Head::Magic, MAGIC);
        area.set_head(Head::Pid, pid);
        let bytes: Vec<u8> =
            words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        std::fs::write(directory.join(pid.to_string()), bytes).unwrap();
    }

    #[test]
    fn ended_processes_are_swept_and_living_ones_kept() {
        let directory = tempfile::tempdir().unwrap();
        let own = u64::from(std::process::id());
        for pid in [own, 4_000_001, 4_000_002, 4_000_003] {
            write(directory.path(), pid);
        }
        std::fs::write(directory.path().join("4000004"), "no statistics").unwrap();
        assert_eq!(all(directory.path()).len(), 4);
        assert!(of(directory.path(), own as u32).unwrap().alive);
        assert!(!of(directory.path(), 4_000_001).unwrap().alive);
        assert_eq!(sweep(directory.path(), 1), 3);
        assert!(all(directory.path()).iter().any(|found| u64::from(found.snapshot.pid) == own));
    }

    #[test]
    fn the_directory_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a/b");
        prepare(&directory).unwrap();
        prepare(&directory).unwrap();
        assert_eq!(std::fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(parent.path().join("file"), "").unwrap();
        assert!(prepare(&parent.path().join("file")).is_err());
    }
}
