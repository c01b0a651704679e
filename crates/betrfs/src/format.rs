//! Making file systems: what may be overwritten, and how large.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use betree::Storage;
use camino::Utf8Path;
use stack::{DeviceReport, Host, SystemRunner};

use crate::fs::{Fs, Options};
use crate::mount::{Claim, MountError, MountOptions, Result, storage};

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

/// Makes an empty file system on `path`, a block device or an image file. A device that is in use is refused always,
/// one that holds anything unless `erase` is set. Returns the size in bytes.
///
/// # Errors
/// [`MountError::Busy`], [`MountError::Occupied`], [`MountError::Io`], [`MountError::Fs`].
pub fn format(path: &Path, options: &FormatOptions) -> Result<u64> {
    let failed = |what: &str| MountError::io(format!("{what} {}", path.display()));
    match std::fs::metadata(path) {
        Ok(meta) if meta.file_type().is_block_device() => check_device(path, options.erase)?,
        Ok(meta) if meta.is_file() => {
            if meta.len() > 0 && !options.erase && has_data(path).map_err(failed("read"))? {
                let what = "is not empty".to_owned();
                return Err(MountError::Occupied { path: path.display().to_string(), what });
            }
        }
        Ok(_) => return Err(failed("make a file system on")(std::io::ErrorKind::InvalidInput.into())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && options.size.is_some() => {
            File::create_new(path).map_err(failed("create"))?;
        }
        Err(e) => return Err(failed("look at")(e)),
    }
    let _claim = Claim::take(path, Duration::from_secs(5))?;
    let file = File::options().write(true).open(path).map_err(failed("open"))?;
    if file.metadata().map_err(failed("look at"))?.is_file()
        && let Some(size) = options.size
    {
        file.set_len(size).map_err(failed("resize"))?;
    }
    let mount = MountOptions::default();
    let storage = storage(path, &mount)?;
    let size = storage.len().map_err(failed("measure"))?;
    Fs::format(storage, &options.fs).map_err(MountError::fs(path))?;
    Ok(size)
}

/// True if there is anything but zeros in the first MiB.
fn has_data(path: &Path) -> std::io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(1 << 20).read_to_end(&mut head)?;
    Ok(head.iter().any(|b| *b != 0))
}

fn check_device(path: &Path, erase: bool) -> Result<()> {
    let shown = path.display().to_string();
    let utf8 = Utf8Path::from_path(path)
        .ok_or_else(|| MountError::io(shown.clone())(std::io::ErrorKind::InvalidFilename.into()))?;
    let refused = |what: String| MountError::Occupied { path: shown.clone(), what };
    let report = DeviceReport::inspect(&Host::system(), &SystemRunner::default(), utf8)
        .map_err(|error| refused(format!("cannot be formatted: {error}")))?;
    if !report.blockers().is_empty() {
        return Err(MountError::Busy { path: shown });
    }
    if erase {
        return Ok(());
    }
    // No other program knows a store of ours.
    if report.holds_data() || has_data(path).map_err(MountError::io(format!("read {shown}")))? {
        return Err(refused("holds data".into()));
    }
    Ok(())
}
