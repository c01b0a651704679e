//! What is particular to each file system: its options, its checker, its size.

use camino::{Utf8Path, Utf8PathBuf};
use stack::{FsKind, Host, StackSpec, Unavailable};

use crate::error::CrashError;

/// A file system that can be brought up after a power cut.
#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) fs: FsKind,
    /// Data of mount(2).
    pub(crate) options: String,
    checker: Utf8PathBuf,
}

impl System {
    /// The file system of a stack.
    pub(crate) fn of(spec: &StackSpec, host: &Host) -> Result<System, CrashError> {
        let fs = spec.fs();
        let Some(checker) = checker(fs) else {
            let reason = format!("crash states of {} cannot be brought up and checked", fs.name());
            return Err(Unavailable::new(reason, "choose ext4, xfs or btrfs").into());
        };
        let Some(program) = host.find_program(checker[0]) else {
            let reason = format!("the checker {} is not installed", checker[0]);
            let package = match fs {
                FsKind::Xfs => "xfsprogs",
                FsKind::Btrfs => "btrfs-progs",
                _ => "e2fsprogs",
            };
            return Err(Unavailable::new(reason, format!("install {package}")).into());
        };
        let own = |option: &&String| !stack::is_generic_option(option);
        let mut options: Vec<String> = spec.mount_options().iter().filter(own).cloned().collect();
        if fs == FsKind::Xfs {
            // several images of one file system are mounted at a time
            options.push("nouuid".into());
        }
        Ok(System { fs, options: options.join(","), checker: program })
    }

    /// How many images of one file system can be mounted at a time.
    pub(crate) fn jobs_max(&self) -> usize {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let clones = release_number(&release).is_none_or(|number| number >= CLONES_SINCE);
        if self.fs == FsKind::Btrfs && !clones { 1 } else { usize::MAX }
    }

    /// The command that checks an image that is not mounted; it ends with 0 if all is well.
    pub(crate) fn check(&self, image: &Utf8Path) -> std::process::Command {
        let mut command = std::process::Command::new(&self.checker);
        command.args(&checker(self.fs).unwrap_or_default()[1..]).arg(image);
        command.env("LC_ALL", "C").stdin(std::process::Stdio::null());
        command
    }
}

/// Since Linux 6.7 several devices with the same btrfs can be mounted at a time (temporary fsid).
const CLONES_SINCE: (u32, u32) = (6, 7);

/// First two numbers of a kernel's release, such as 6.1.0-56-amd64.
fn release_number(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Program and arguments before the image.
fn checker(fs: FsKind) -> Option<&'static [&'static str]> {
    match fs {
        FsKind::Ext3 | FsKind::Ext4 => Some(&["e2fsck", "-f", "-n"]),
        // a small buffer cache: making the default one takes longer than the check
        FsKind::Xfs => Some(&["xfs_repair", "-n", "-P", "-o", "bhash=64", "-f"]),
        FsKind::Btrfs => Some(&["btrfs", "check", "--readonly"]),
        _ => None,
    }
}

/// Bytes of a device on which every state is quickly brought up.
pub(crate) fn default_bytes(fs: FsKind) -> u64 {
    let mib = match fs {
        FsKind::Xfs => 300,
        FsKind::Btrfs => 128,
        _ => 32,
    };
    mib << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        assert_eq!(release_number("6.1.0-56-amd64"), Some((6, 1)));
        assert_eq!(release_number("6.18.44-fc"), Some((6, 18)));
        assert_eq!(release_number("next"), None);
    }

    #[test]
    fn options_that_the_kernel_takes_and_checkers_that_change_nothing() {
        let host = Host::system();
        let system = |text: &str| System::of(&text.parse().unwrap(), &host);
        if let Ok(ext4) = system("ext4,noatime,nobarrier,data=journal@980pro") {
            assert_eq!(ext4.options, "nobarrier,data=journal");
            let line = format!("{:?}", ext4.check("/i".into()));
            assert!(line.contains("\"-f\" \"-n\" \"/i\""), "{line}");
        }
        let refused = system("tmpfs").unwrap_err().to_string();
        assert!(refused.contains("tmpfs cannot be brought up") && refused.contains("ext4"), "{refused}");
    }
}
