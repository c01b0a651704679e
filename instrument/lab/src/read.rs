//! Reads studies and the workload files that they name.

use std::path::Path;

use record::study::{CommandLine, Scene, Study, StudyError};

/// A workload file larger than this is refused.
const WORKLOAD_BYTES_MAX: u64 = 16 << 20;

/// Reads a study for a scene, and the workload files that it names, whose paths are relative to the study.
///
/// # Errors
/// A file that cannot be read, a text that is no study (with the place), a study that contradicts itself.
pub fn study(path: &Path, scene: &Scene) -> Result<Study, StudyError> {
    let text = text(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    Study::parse_for(&text, &path.display().to_string(), &|file| self::text(&folder.join(file)), scene)
}

/// The study that a command line means, with the WML files that it names.
///
/// # Errors
/// A file that cannot be read, a stack or variable that cannot be understood.
pub fn command_line(line: &CommandLine) -> Result<Study, StudyError> {
    Study::from_command_line(line, &text)
}

/// The text of a workload or study file of at most 16 MiB.
///
/// # Errors
/// [`StudyError::Read`].
pub fn text(path: &Path) -> Result<String, StudyError> {
    let failed = |source| StudyError::Read { path: path.display().to_string(), source };
    let bytes_known = std::fs::metadata(path).map_err(failed)?.len();
    if bytes_known > WORKLOAD_BYTES_MAX {
        return Err(failed(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "larger than 16 MiB")));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    // WML scripts of older times hold Latin-1 in comments.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
