//! Makes what the recorded program found.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::paths::{Paths, ROOT};
use super::split::{Made, Split};
use crate::AppError;
use crate::error::at;

/// Written at once.
const BLOCK_BYTES: usize = 1 << 20;
/// What a file or directory takes beside its data, roughly.
const ENTRY_BYTES: u64 = 4096;
/// Permissions of files and directories: the program that made them is not here, whoever replays may do all.
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);

/// Bytes of data that are written, and entries that are made.
pub(super) fn sum(made: &[(u32, Made)]) -> (u64, u64) {
    let bytes = |(_, made): &(u32, Made)| match made {
        Made::File { bytes, is_filled: true } => *bytes,
        Made::File { .. } | Made::Directory | Made::Link(_) => 0,
    };
    (made.iter().map(bytes).fold(0, u64::saturating_add), made.len() as u64)
}

/// Opens the target: names of a recording are looked up from there.
///
/// # Errors
/// The system's.
pub(super) fn open_root(root: &Path) -> Result<OwnedFd, AppError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(root, flags, Mode::empty()).map_err(|error| at(root)(error.into()))
}

/// Makes all files, then has them written back.
///
/// # Errors
/// What does not fit, before anything is made; what the system says.
pub(super) fn make(
    split: &Split,
    root: &Path,
    seed: u64,
    check: &dyn Fn() -> Result<(), AppError>,
) -> Result<(), AppError> {
    fits(&split.made, root)?;
    let directory = open_root(root)?;
    let absolute = root.canonicalize().map_err(at(root))?;
    let mut block = vec![0; BLOCK_BYTES];
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x7265_636f_7264);
    random.fill_bytes(&mut block);
    for (number, (path, made)) in split.made.iter().enumerate() {
        check()?;
        let name = split.paths.name(*path);
        let shown = || root.join(name.to_string_lossy().as_ref());
        match made {
            Made::Directory => match rustix::fs::mkdirat(&directory, name, DIRECTORY_MODE) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(error) => Err(at(&shown())(error.into())),
            },
            Made::Link(target) => {
                let target = link_target(&absolute, &split.paths, *target);
                match rustix::fs::symlinkat(target, &directory, name) {
                    // by another name already
                    Ok(()) | Err(Errno::EXIST) => Ok(()),
                    Err(error) => Err(at(&shown())(error.into())),
                }
            }
            Made::File { bytes, is_filled } => {
                // no two files hold the same
                let mark = random.next_u64().to_le_bytes();
                block[..mark.len()].copy_from_slice(&mark);
                block.rotate_left(number % 64 * 8);
                let filled = is_filled.then_some(block.as_slice());
                file(&directory, name, *bytes, filled, check).map_err(|error| match error {
                    MakeError::Ended(error) => error,
                    MakeError::System(error) => at(&shown())(error),
                })
            }
        }?;
    }
    let directory = File::open(root).map_err(at(root))?;
    rustix::fs::syncfs(&directory).map_err(|error| at(root)(error.into()))?;
    directory.sync_all().map_err(at(root))
}

/// Where a symbolic link leads: a place below the target, from wherever it is looked at and wherever the link is moved.
pub(super) fn link_target(root: &Path, paths: &Paths, target: u32) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStrExt;
    match target {
        ROOT => root.to_owned(),
        target => root.join(std::ffi::OsStr::from_bytes(paths.name(target).to_bytes())),
    }
}

enum MakeError {
    System(std::io::Error),
    Ended(AppError),
}

fn file(
    directory: &impl AsFd,
    name: &std::ffi::CStr,
    bytes: u64,
    filled: Option<&[u8]>,
    check: &dyn Fn() -> Result<(), AppError>,
) -> Result<(), MakeError> {
    let system = |error: Errno| MakeError::System(error.into());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, name, flags, FILE_MODE).map_err(system)?;
    let mut file = File::from(opened);
    let Some(block) = filled else { return file.set_len(bytes).map_err(MakeError::System) };
    let mut left = bytes;
    while left > 0 {
        check().map_err(MakeError::Ended)?;
        let length = left.min(block.len() as u64);
        file.write_all(&block[..length as usize]).map_err(MakeError::System)?;
        left -= length;
    }
    Ok(())
}

/// Whether the target has room for the files.
fn fits(made: &[(u32, Made)], root: &Path) -> Result<(), AppError> {
    let free = rustix::fs::statvfs(root).map_err(|error| at(root)(error.into()))?;
    let free_bytes = free.f_bavail.saturating_mul(free.f_frsize);
    let (bytes, entries) = sum(made);
    let wanted = bytes.saturating_add(entries.saturating_mul(ENTRY_BYTES));
    if bytes > 0 && wanted > free_bytes {
        return Err(AppError::Parameter(format!(
            "the {entries} files of the recording need {}, and the target has {} free: give it a larger device, such as @image:{}",
            units::format_bytes(wanted),
            units::format_bytes(free_bytes),
            units::format_bytes(wanted.saturating_mul(2).next_multiple_of(1 << 30)).trim_end_matches("iB")
        )));
    }
    // file systems that make inodes as they need them say 0
    if free.f_files > 0 && free.f_favail < entries {
        return Err(AppError::Parameter(format!(
            "the recording has {entries} files, and the target can have {} more",
            free.f_favail
        )));
    }
    Ok(())
}
