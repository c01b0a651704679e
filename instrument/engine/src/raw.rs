//! Block devices that a workload names: `define file` on the path of one means the device itself.
//!
//! What may be written is decided elsewhere (crate `stack`); this room uses only what it is given as [`ApprovedDevice`], by
//! its descriptor, so that a path that means something else meanwhile changes nothing. A device that is only read needs no
//! approval: it is opened for reading only.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use workload::{Fileset, Workload};

use crate::error::Error;

/// A block device that a workload names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawDevice {
    /// As the workload says it: `path/name`, perhaps a symbolic link.
    pub path: PathBuf,
    /// Whether the workload may write to it; otherwise it is opened for reading only.
    pub written: bool,
}

/// A device that may be written, by whoever looked at it.
#[derive(Debug)]
pub struct ApprovedDevice {
    /// As in [`RawDevice::path`].
    pub path: PathBuf,
    /// Keeps others away from it while the run lasts (O_EXCL), and says which device it is.
    pub file: OwnedFd,
}

/// The block devices that `workload` names.
pub fn devices(workload: &Workload) -> Vec<RawDevice> {
    let named = workload.filesets.iter().filter_map(|fileset| Some((path_of(fileset)?, fileset)));
    named.map(|(path, fileset)| RawDevice { path, written: is_written(workload, fileset) }).collect()
}

/// The path of the device that a fileset is. A relative path lies below the target, where no devices are.
pub(crate) fn path_of(fileset: &Fileset) -> Option<PathBuf> {
    let path = Path::new(&fileset.path).join(&fileset.name);
    let is_device = fileset.single
        && path.is_absolute()
        && std::fs::metadata(&path).is_ok_and(|metadata| metadata.file_type().is_block_device());
    is_device.then_some(path)
}

/// Whether a device may be written: not when the fileset says `readonly`, nor in a workload that writes nothing at all.
pub(crate) fn is_written(workload: &Workload, fileset: &Fileset) -> bool {
    !fileset.read_only && crate::program::writes_anything(workload)
}

/// The path to open a device by: that of the descriptor which approves it, or its own when it is only read.
pub(crate) fn open_path(device: &Path, written: bool, approved: &[ApprovedDevice]) -> Result<CString, Error> {
    let path = match approved.iter().find(|one| one.path == device) {
        Some(one) => PathBuf::from(format!("/proc/self/fd/{}", one.file.as_raw_fd())),
        None if written => return Err(Error::NotErasable { device: device.display().to_string() }),
        None => device.to_owned(),
    };
    CString::new(path.into_os_string().into_encoded_bytes())
        .map_err(|_| Error::Invalid(format!("{} holds a zero byte", device.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_approved_device_is_opened_for_writing_and_by_its_descriptor() {
        let device = Path::new("/dev/loadline-test");
        let refused = open_path(device, true, &[]).unwrap_err();
        assert!(matches!(refused, Error::NotErasable { .. }), "{refused}");
        assert_eq!(open_path(device, false, &[]).unwrap().to_str(), Ok("/dev/loadline-test"));
        let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let expected = format!("/proc/self/fd/{}", file.as_raw_fd());
        let approved = [ApprovedDevice { path: device.into(), file }];
        assert_eq!(open_path(device, true, &approved).unwrap().to_str(), Ok(&expected[..]));
        let other = Path::new("/dev/loadline-test2");
        assert!(open_path(other, true, &approved).is_err());
    }

    #[test]
    fn a_path_that_is_relative_or_no_device_lies_below_the_target() {
        let fileset =
            |path: &str, name: &str| Fileset { single: true, ..crate::testing::fileset(name, path, 1) };
        for (path, name) in
            [("dev", "sda"), (".", "loop0"), ("/dev", "null"), ("/dev", "none"), ("/tmp", "x")]
        {
            assert_eq!(path_of(&fileset(path, name)), None, "{path}/{name}");
        }
    }
}
