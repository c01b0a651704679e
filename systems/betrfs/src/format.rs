//! Making file systems: what may be overwritten, and how large.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use betree::Storage;
use camino::Utf8Path;
use host::{Consent, Host, Permit, SystemRunner};

use crate::fs::{Fs, Options};
use crate::mount::{MountError, MountOptions, Result, storage};

/// How long a daemon that is just giving the device back is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// How to make a file system.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FormatOptions {
    /// Size in bytes of an image file that is made or resized; a device and an existing file keep theirs.
    pub size: Option<u64>,
    /// Whatever lies on the device may be lost.
    pub erase: bool,
    /// Node sizes and the like.
    pub fs: Options,
}

/// Makes an empty file system on `path`, a block device or an image file. One that is in use is refused always, one that
/// holds anything unless `erase` is set: see [`host::may_overwrite`]. Returns the size in bytes.
///
/// # Errors
/// [`MountError::Refused`], [`MountError::Io`], [`MountError::Fs`].
pub fn format(path: &Path, options: &FormatOptions) -> Result<u64> {
    let failed = |what: &str| MountError::io(format!("{what} {}", path.display()));
    match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && options.size.is_some() => {
            File::create_new(path).map_err(failed("create"))?;
        }
        Err(e) => return Err(failed("look at")(e)),
        Ok(_) => {}
    }
    let utf8 = Utf8Path::from_path(path)
        .ok_or_else(|| failed("make a file system on")(std::io::ErrorKind::InvalidFilename.into()))?;
    let (host, runner) = (Host::system(), SystemRunner::default());
    // held until the file system is there
    let permit = Permit::take_within(&host, &runner, utf8, Consent::Said(options.erase), PATIENCE)?;
    let path = permit.report.path.as_std_path();
    if permit.report.is_file
        && let Some(size) = options.size
    {
        let file = File::options().write(true).open(path).map_err(failed("open"))?;
        file.set_len(size).map_err(failed("resize"))?;
    }
    let mount = MountOptions::default();
    let storage = storage(path, &mount)?;
    let size = storage.len().map_err(failed("measure"))?;
    Fs::format(storage, &options.fs).map_err(MountError::fs(path))?;
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_known_again_and_not_made_anew_without_consent() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("image");
        let mut options = FormatOptions { size: Some(64 << 20), ..FormatOptions::default() };
        format(&path, &options).expect("a new file");
        let utf8 = Utf8Path::from_path(&path).expect("UTF-8");
        let report = host::DeviceReport::inspect(&Host::system(), &SystemRunner::default(), utf8);
        assert_eq!(report.expect("a file").signatures[0].kind, "betrfs");
        let before = std::fs::read(&path).expect("contents");
        options.size = Some(128 << 20);
        assert!(matches!(format(&path, &options), Err(MountError::Refused(_))));
        assert!(std::fs::read(&path).expect("contents") == before, "neither formatted nor grown");
        options.erase = true;
        assert_eq!(format(&path, &options).expect("consent"), 128 << 20);
    }
}
