//! Finds and reads the statistics of running and ended programs.
//!
//! They lie in a directory that only this user can look into, a file a process. Nothing that somebody else could have
//! put there is followed, read or removed.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::area::{BYTES, MAGIC, Snapshot};

use crate::sys;

/// The environment variable that names the directory of the statistics.
pub const DIRECTORY_VARIABLE: &str = "LOADLINE_PREFETCH_DIR";

/// The directories that may hold statistics of this user's processes, the one for new ones first: what
/// [`DIRECTORY_VARIABLE`] names; else one below `$XDG_RUNTIME_DIR`; without that, those of this user in `/tmp`, whose
/// names nobody can guess and take before. Empty when there is none yet.
pub fn directories() -> Vec<PathBuf> {
    match fixed() {
        Some(directory) => vec![directory],
        None => own_below(Path::new(SHARED)),
    }
}

/// Where [`directories`] of users without a runtime directory are.
const SHARED: &str = "/tmp";

/// The directory whose name is known beforehand.
fn fixed() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(DIRECTORY_VARIABLE) {
        return Some(named.into());
    }
    // Root may have inherited that of another user, who could then not use it.
    let runtime = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    let found = std::fs::symlink_metadata(&runtime).ok()?;
    (found.is_dir() && found.uid() == sys::effective_user()).then(|| runtime.join("loadline-prefetch"))
}

fn prefix() -> String {
    format!("loadline-prefetch-{}-", sys::effective_user())
}

/// This user's private directories of statistics in one that others write in, by name.
fn own_below(shared: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(shared) else { return Vec::new() };
    let prefix = prefix();
    let named = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    let own = |path: &PathBuf| {
        let found = std::fs::symlink_metadata(path);
        found.is_ok_and(|f| f.is_dir() && f.uid() == sys::effective_user() && f.mode() & 0o077 == 0)
    };
    let mut own: Vec<PathBuf> = named.map(|entry| entry.path()).filter(own).collect();
    own.sort();
    own
}

/// The directory for new statistics, made if there is none.
///
/// # Errors
/// As [`prepare`], or why none can be made.
pub fn directory() -> std::io::Result<PathBuf> {
    match fixed() {
        Some(directory) => prepare(&directory).map(|()| directory),
        None => private_below(Path::new(SHARED)),
    }
}

fn private_below(shared: &Path) -> std::io::Result<PathBuf> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    if let Some(own) = own_below(shared).into_iter().next() {
        return Ok(own);
    }
    let mut template = shared.join(prefix() + "XXXXXX").as_os_str().as_bytes().to_vec();
    template.push(0);
    // SAFETY: a C string, in which the last six letters are replaced.
    if unsafe { libc::mkdtemp(template.as_mut_ptr().cast()) }.is_null() {
        return Err(std::io::Error::last_os_error());
    }
    template.pop();
    Ok(std::ffi::OsString::from_vec(template).into())
}

/// Makes a directory, only for this user. Refuses one that belongs to somebody else, or that others may write in.
///
/// # Errors
/// What the file system says; `PermissionDenied` for a directory of another user or of many.
pub fn prepare(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let found = std::fs::symlink_metadata(directory)?;
    let refused = |why: &str| {
        let what = format!("{} {why}", directory.display());
        Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, what))
    };
    match found.is_dir() && found.uid() == sys::effective_user() {
        false => refused("is a link or belongs to somebody else"),
        true if found.mode() & 0o022 != 0 => refused("can be written by others (chmod go-w helps)"),
        true => Ok(()),
    }
}

/// Makes the file of the statistics of this process, only for this user and for writing. One that an ended process of
/// this number left is taken away, not cut off: it may be mapped by one of another PID namespace.
///
/// # Errors
/// What the file system says; `AlreadyExists` where something else has that name.
pub fn create(directory: &Path) -> std::io::Result<File> {
    let path = directory.join(std::process::id().to_string());
    if is_area(&path) {
        std::fs::remove_file(&path)?;
    }
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    // allocated, not only made longer: on a full disk a store to a hole of a mapping is a SIGBUS
    // SAFETY: the descriptor is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, BYTES as libc::off_t) } {
        0 => Ok(file),
        error => {
            let _ = std::fs::remove_file(directory.join(std::process::id().to_string()));
            Err(std::io::Error::from_raw_os_error(error))
        }
    }
}

/// The statistics of one process, and whether it still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it wrote.
    pub snapshot: Snapshot,
    /// Whether a process of this number runs.
    pub alive: bool,
}

/// All statistics in directories, by process number. Files that are no statistics are passed over.
pub fn all<P: AsRef<Path>>(directories: &[P]) -> Vec<Found> {
    let entries = directories.iter().flat_map(std::fs::read_dir).flatten().flatten();
    let mut found: Vec<Found> =
        entries.filter_map(|entry| read(&entry.path())).filter(|f| f.snapshot.pid != 0).collect();
    found.sort_by_key(|found| found.snapshot.pid);
    found
}

/// The statistics of one process, from the first directory that holds any.
pub fn of<P: AsRef<Path>>(directories: &[P], pid: u32) -> Option<Found> {
    directories.iter().find_map(|directory| read(&directory.as_ref().join(pid.to_string())))
}

/// Opens a file of statistics: a plain one of this user, not a link.
fn open(path: &Path) -> Option<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let found = file.metadata().ok()?;
    (found.is_file() && found.uid() == sys::effective_user() && found.len() == BYTES as u64).then_some(file)
}

fn read(path: &Path) -> Option<Found> {
    let mut bytes = Vec::with_capacity(BYTES);
    open(path)?.take(BYTES as u64).read_to_end(&mut bytes).ok()?;
    let snapshot = Snapshot::parse(&bytes).ok()?;
    let alive = Path::new("/proc").join(snapshot.pid.to_string()).exists();
    Some(Found { snapshot, alive })
}

/// Whether a file is one of statistics, as far as its length and its first word say. That word is written last.
fn is_area(path: &Path) -> bool {
    let mut word = [0; 8];
    let read = open(path).is_some_and(|mut file| file.read_exact(&mut word).is_ok());
    read && [0, MAGIC].contains(&u64::from_ne_bytes(word))
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
        .filter(|entry| is_area(&entry.path()))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    ended.sort();
    let surplus = ended.len().saturating_sub(keep);
    ended.iter().take(surplus).filter(|(_, path)| std::fs::remove_file(path).is_ok()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::{Area, Head};
    use std::os::unix::fs::PermissionsExt;
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

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn ended_processes_are_swept_and_living_ones_kept() {
        let directory = tempfile::tempdir().unwrap();
        let own = u64::from(std::process::id());
        for pid in [own, 4_000_001, 4_000_002, 4_000_003] {
            write(directory.path(), pid);
        }
        assert_eq!(all(&[directory.path()]).len(), 4);
        assert!(of(&[directory.path()], own as u32).unwrap().alive);
        assert!(!of(&[directory.path()], 4_000_001).unwrap().alive);
        assert_eq!(sweep(directory.path(), 1), 2);
        assert!(all(&[directory.path()]).iter().any(|found| u64::from(found.snapshot.pid) == own));
    }

    #[test]
    fn only_statistics_are_removed_and_read() {
        let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(other.path(), 4_000_005);
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("4000004"), "a letter").unwrap();
        std::fs::write(path("4000006"), vec![7; BYTES]).unwrap();
        std::os::unix::fs::symlink(other.path().join("4000005"), path("4000005")).unwrap();
        assert_eq!(sweep(directory.path(), 0), 0);
        assert!(all(&[directory.path()]).is_empty() && of(&[directory.path()], 4_000_005).is_none());
        let own = std::process::id().to_string();
        std::os::unix::fs::symlink(other.path().join("new"), path(&own)).unwrap();
        assert_eq!(create(directory.path()).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
        assert!(!other.path().join("new").exists());
    }

    #[test]
    fn the_page_of_a_process_before_is_replaced_and_not_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), u64::from(std::process::id()));
        let mut before = File::open(directory.path().join(std::process::id().to_string())).unwrap();
        create(directory.path()).unwrap();
        let mut bytes = Vec::new();
        before.read_to_end(&mut bytes).unwrap();
        assert_eq!(Snapshot::parse(&bytes).unwrap().pid, std::process::id());
    }

    #[test]
    fn the_directory_is_private() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a/b");
        prepare(&directory).unwrap();
        prepare(&directory).unwrap();
        assert_eq!(mode(&directory), 0o700);
        std::fs::write(parent.path().join("file"), "").unwrap();
        assert!(prepare(&parent.path().join("file")).is_err());
        std::os::unix::fs::symlink(&directory, parent.path().join("link")).unwrap();
        assert!(prepare(&parent.path().join("link")).is_err());
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).unwrap();
        let error = prepare(&directory).unwrap_err().to_string();
        assert!(error.contains("chmod go-w"), "{error}");
    }

    #[test]
    fn in_a_shared_directory_the_name_cannot_be_guessed_and_others_are_passed_over() {
        let shared = tempfile::tempdir().unwrap();
        // What somebody who guessed a name could have put there.
        let open = shared.path().join(prefix() + "000000");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o755)).unwrap();
        let (target, link) = (tempfile::tempdir().unwrap(), shared.path().join(prefix() + "000001"));
        std::os::unix::fs::symlink(target.path(), link).unwrap();
        assert!(own_below(shared.path()).is_empty());
        let own = private_below(shared.path()).unwrap();
        assert!(own != open && mode(&own) == 0o700, "{}", own.display());
        assert_eq!(private_below(shared.path()).unwrap(), own);
        let others = tempfile::tempdir().unwrap();
        let elsewhere = private_below(others.path()).unwrap();
        assert_ne!(elsewhere.file_name(), own.file_name(), "two names that were made alike");
    }
}
