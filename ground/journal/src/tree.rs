//! Private directories: made under a random name, marked, removed with their contents only if the mark is
//! ours.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::{EntryId, Journal, JournalError, Outcome, Resource, Scope};
use host::{Host, mountinfo, place};

/// Name of the marker file within a private directory.
const MARKER: &str = ".loadline";

/// A private directory. Dropped, it goes with all that is in it.
#[derive(Debug)]
pub struct PrivateTree {
    journal: Arc<Journal>,
    entry: EntryId,
    path: Utf8PathBuf,
}

impl PrivateTree {
    /// Makes a private directory within `parent` (absolute, without links), recorded before it exists. It goes with
    /// all that is in it when the value is dropped.
    ///
    /// # Errors
    /// [`JournalError::Tree`], and as [`Journal::record`]; nothing is left then.
    pub fn new(journal: &Arc<Journal>, parent: &Utf8Path) -> Result<Self, JournalError> {
        let (entry, path) = make(journal, parent)?;
        Ok(Self { journal: journal.clone(), entry, path })
    }

    /// The directory.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }
}

impl Drop for PrivateTree {
    fn drop(&mut self) {
        let report = self.journal.undo_entries(&[self.entry]);
        if !report.is_clean() {
            tracing::warn!("not taken down cleanly:\n{report}");
        }
    }
}

/// Makes a private directory within `parent`, which belongs to `scope`. `parent` must be absolute.
pub fn create_tree<E>(scope: &mut Scope, parent: &Utf8Path) -> Result<Utf8PathBuf, E>
where
    E: From<JournalError> + From<(Utf8PathBuf, io::Error)>,
{
    let (entry, path) = make(scope.journal(), parent).map_err(|error| match error {
        JournalError::Tree { path, source } => E::from((path, source)),
        error => E::from(error),
    })?;
    scope.adopt(entry);
    Ok(path)
}

/// The directory's name holds the word that is in its marker: a directory of that name whose marker a power cut took is
/// known for one of ours.
fn make(journal: &Journal, parent: &Utf8Path) -> Result<(EntryId, Utf8PathBuf), JournalError> {
    let nonce = random_word();
    let path = parent.join(format!("loadline-{nonce}"));
    let resource = Resource::Tree { path: path.clone(), nonce: nonce.clone() };
    let failed = |source| JournalError::Tree { path: path.clone(), source };
    let (entry, ()) = journal.create_exclusive(resource, || {
        std::fs::DirBuilder::new().mode(0o755).create(&path).map_err(failed)
    })?;
    match mark(&path, &nonce) {
        Ok(()) => Ok((entry, path)),
        Err(source) => {
            journal.undo_entries(&[entry]);
            Err(failed(source))
        }
    }
}

/// Writes the marker; it is on disk before anything else is put into the directory.
fn mark(path: &Utf8Path, nonce: &str) -> io::Result<()> {
    let (parent, name) = place::parent(path)?;
    let dir = open_dir(&parent, name)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let marker = rustix::fs::openat(&dir, MARKER, flags, Mode::from_raw_mode(0o600))?;
    let mut marker = std::fs::File::from(marker);
    io::Write::write_all(&mut marker, nonce.as_bytes())?;
    marker.sync_all()?;
    Ok(rustix::fs::fsync(&dir)?)
}

fn open_dir(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// What a directory's marker says.
enum Mark {
    Ours,
    /// Another word.
    Foreign,
    /// There is none, or only its beginning: killed or cut off between making and marking it.
    Unfinished,
}

fn read_mark(dir: &OwnedFd, nonce: &str) -> io::Result<Mark> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let marker = match rustix::fs::openat(dir, MARKER, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(Mark::Unfinished),
        Err(Errno::LOOP) => return Ok(Mark::Foreign),
        marker => marker?,
    };
    // one byte more than the word tells a longer one
    let mut found = vec![0; nonce.len() + 1];
    let len = rustix::io::read(&marker, &mut found[..])?;
    Ok(match &found[..len] {
        word if word == nonce.as_bytes() => Mark::Ours,
        word if nonce.as_bytes().starts_with(word) => Mark::Unfinished,
        _ => Mark::Foreign,
    })
}

/// Removes the directory if it is ours and nothing is mounted within it.
pub(crate) fn remove(host: &Host, path: &Utf8Path, nonce: &str) -> Outcome {
    match host.mounts() {
        Err(error) => return Outcome::Failed(format!("cannot tell what is mounted within: {error}")),
        Ok(mounts) => {
            let mut inside = mountinfo::below(&mounts, path);
            inside.extend(mountinfo::topmost_at(&mounts, path));
            if let Some(mount) = inside.first() {
                return Outcome::Failed(format!("{} is still mounted at {}", mount.source, mount.target));
            }
        }
    }
    let (parent, name) = match place::parent(path) {
        Ok(found) => found,
        Err(error) if is_absent(&error) => return Outcome::AlreadyGone,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let dir = match open_dir(&parent, name) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Outcome::AlreadyGone,
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return Outcome::LeftAlone("is not a directory any more".into());
        }
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    remove_opened(&parent, name, &dir, nonce).unwrap_or_else(|error| Outcome::Failed(error.to_string()))
}

fn remove_opened(parent: &OwnedFd, name: &str, dir: &OwnedFd, nonce: &str) -> io::Result<Outcome> {
    let owner = rustix::fs::fstat(dir)?.st_uid;
    if owner != rustix::process::geteuid().as_raw() {
        return Ok(Outcome::LeftAlone(format!("belongs to user {owner}")));
    }
    match read_mark(dir, nonce)? {
        Mark::Foreign => return Ok(Outcome::LeftAlone("belongs to another run".into())),
        // the marker last: a removal that is cut off must be able to go on
        Mark::Ours => place::remove_contents(dir, MARKER)?,
        Mark::Unfinished if place::names(dir)?.iter().any(|name| name.to_bytes() != MARKER.as_bytes()) => {
            return Ok(match name.contains(nonce) {
                // its name is ours, so the entry is not dropped; but no run fills what it has not marked
                true => Outcome::Failed(
                    "has contents, but its mark is missing: look at it and remove it by hand".into(),
                ),
                false => Outcome::LeftAlone("has contents but no mark of ours".into()),
            });
        }
        Mark::Unfinished => {}
    }
    match rustix::fs::unlinkat(dir, MARKER, AtFlags::empty()) {
        Err(Errno::NOENT) => {}
        removed => removed?,
    }
    Ok(match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Outcome::Undone,
        Err(error) => Outcome::Failed(error.to_string()),
    })
}

pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Twelve random hexadecimal digits.
pub fn random_word() -> String {
    use std::hash::{BuildHasher, Hasher};
    // each RandomState is keyed from the system's entropy and differs from the one before
    let word = std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("{:012x}", word >> 16)
}
