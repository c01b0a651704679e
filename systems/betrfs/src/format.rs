//! Making file systems: what may be overwritten, and how large.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use betree::{FileStorage, Storage};
use camino::Utf8Path;
use host::{Consent, Host, Permit, Runner, SystemRunner};

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
    format_with(&SystemRunner::default(), path, options)
}

/// As [`format`], with somebody else to run the programs that look at the device.
fn format_with(runner: &dyn Runner, path: &Path, options: &FormatOptions) -> Result<u64> {
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
    // held until the file system is there, and written through what is held: the path may mean another file by now, and a
    // write that is under way when this is killed keeps others away
    let consent = Consent::Said(options.erase);
    let permit = Permit::take_within(&Host::system(), runner, utf8, consent, PATIENCE)?;
    if permit.report.is_file
        && let Some(size) = options.size
    {
        permit.file().set_len(size).map_err(failed("resize"))?;
    }
    let open = |direct| FileStorage::of_file(permit.file().try_clone()?, direct);
    let storage = storage(&open, path, &MountOptions::default())?;
    let size = storage.len().map_err(failed("measure"))?;
    Fs::format(storage, &options.fs).map_err(MountError::fs(path))?;
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds nothing, and puts another file where the one is that is judged, once.
    struct Swapper(std::sync::Once, std::path::PathBuf, std::path::PathBuf);

    impl Runner for Swapper {
        fn run(&self, _: &host::CommandLine) -> std::io::Result<host::CommandOutput> {
            self.0.call_once(|| std::fs::rename(&self.1, &self.2).expect("swap"));
            let (stdout, stderr) = (String::new(), String::new());
            Ok(host::CommandOutput { code: Some(0), stdout, stderr, elapsed_ms: 0 })
        }
    }

    #[test]
    fn what_was_judged_is_formatted_though_its_name_means_another_file_by_then() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, victim) = (dir.path().join("image"), dir.path().join("victim"));
        let text = b"a letter".repeat(8 << 20);
        std::fs::write(&victim, &text).expect("write");
        File::create(&path).and_then(|file| file.set_len(64 << 20)).expect("make");
        let judged = File::open(&path).expect("open");
        let swapper = Swapper(std::sync::Once::new(), victim, path.clone());
        format_with(&swapper, &path, &FormatOptions::default()).expect("the blank file");
        assert!(std::fs::read(&path).expect("read") == text, "the letter was overwritten");
        let mut head = [0; 7];
        std::os::unix::fs::FileExt::read_exact_at(&judged, &mut head, 0).expect("read");
        assert_eq!(&head, b"\"BEtree");
    }

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
