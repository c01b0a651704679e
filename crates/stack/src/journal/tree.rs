//! Private directories: made under a random name, marked, removed with their contents only if the mark is
//! ours.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use super::{JournalError, Outcome, Resource, Scope};
use crate::{Host, mountinfo};

/// Name of the marker file within a private directory.
const MARKER: &str = ".loadline";

/// Makes a private directory `loadline-XXXXXXXX` within `parent`, recorded before it exists. `parent` must be
/// absolute.
pub(crate) fn create_tree<E>(scope: &mut Scope, parent: &Utf8Path) -> Result<Utf8PathBuf, E>
where
    E: From<JournalError> + From<(Utf8PathBuf, io::Error)>,
{
    let path = parent.join(format!("loadline-{}", random_word()));
    let nonce = random_word();
    let resource = Resource::Tree { path: path.clone(), nonce: nonce.clone() };
    scope.create_exclusive(resource, || {
        std::fs::create_dir(&path).map_err(|error| E::from((path.clone(), error)))
    })?;
    let marker = path.join(MARKER);
    std::fs::write(&marker, &nonce).map_err(|error| E::from((marker, error)))?;
    Ok(path)
}

/// Removes the directory if it is ours and nothing is mounted within it.
pub(super) fn remove(host: &Host, path: &Utf8Path, nonce: &str) -> Outcome {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Outcome::AlreadyGone,
        Err(error) => return Outcome::Failed(error.to_string()),
        Ok(meta) if !meta.is_dir() => return Outcome::LeftAlone("is not a directory any more".into()),
        Ok(_) => {}
    }
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
    let result = match std::fs::read_to_string(path.join(MARKER)) {
        Ok(found) if found == nonce => std::fs::remove_dir_all(path),
        Ok(_) => return Outcome::LeftAlone("belongs to another run".into()),
        // killed between making and marking it; rmdir refuses if anything is in it
        Err(_) => std::fs::remove_dir(path),
    };
    match result {
        Ok(()) => Outcome::Undone,
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            Outcome::LeftAlone("has contents but no mark of ours".into())
        }
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// Twelve random hexadecimal digits.
pub(crate) fn random_word() -> String {
    use std::hash::{BuildHasher, Hasher};
    // each RandomState is keyed from the system's entropy and differs from the one before
    let word = std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("{:012x}", word >> 16)
}
