//! What is particular to each file system: its options, its checker, its size.

use camino::{Utf8Path, Utf8PathBuf};
use host::{Host, Unavailable};
use journal::dead_mount::BETRFS_TYPE;
use spec::{FsKind, StackSpec};

use super::helper::Helper;
use crate::error::CrashError;

/// A file system that can be brought up after a power cut.
#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) fs: FsKind,
    /// Data of mount(2).
    pub(crate) options: String,
    check: Check,
}

/// Who checks it.
#[derive(Clone, Debug)]
enum Check {
    /// A program and its arguments before the image.
    Program(Utf8PathBuf, &'static [&'static str]),
    /// loadline itself, which also mounts it.
    Helper(Helper),
}

impl System {
    /// The file system of a stack. `program` is loadline, which mounts and checks betrfs.
    pub(crate) fn of(
        spec: &StackSpec,
        host: &Host,
        program: Option<&Utf8Path>,
    ) -> Result<System, CrashError> {
        let fs = spec.fs();
        if fs == FsKind::Betrfs {
            return System::betrfs(spec, program);
        }
        let Some(checker) = checker(fs) else {
            let reason = format!("crash states of {} cannot be brought up and checked", fs.name());
            return Err(Unavailable::new(reason, "choose ext4, xfs, btrfs, f2fs or betrfs").into());
        };
        let Some(program) = host.find_program(checker[0]) else {
            let reason = format!("the checker {} is not installed", checker[0]);
            let package = match fs {
                FsKind::Xfs => "xfsprogs",
                FsKind::Btrfs => "btrfs-progs",
                FsKind::F2fs => "f2fs-tools",
                _ => "e2fsprogs",
            };
            return Err(Unavailable::new(reason, format!("install {package}")).into());
        };
        let mut options = own_options(spec);
        if fs == FsKind::Xfs {
            // several images of one file system are mounted at a time
            options.push("nouuid".into());
        }
        Ok(System { fs, options: options.join(","), check: Check::Program(program, &checker[1..]) })
    }

    fn betrfs(spec: &StackSpec, program: Option<&Utf8Path>) -> Result<System, CrashError> {
        let unavailable = |reason: &str, remedy: &str| Err(Unavailable::new(reason, remedy).into());
        if spec.in_process() {
            return unavailable(
                "a power cut is tried on the mounted file system",
                "leave out the option inprocess",
            );
        }
        let Some(program) = program else {
            let reason = "betrfs is formatted, mounted and checked by the program `loadline`";
            return unavailable(reason, "run it from the command `loadline`");
        };
        let check = Check::Helper(Helper::new(program.to_owned()));
        Ok(System { fs: FsKind::Betrfs, options: own_options(spec).join(","), check })
    }

    /// What mounts it, if it is not mount(2).
    pub(crate) fn helper(&self) -> Option<&Helper> {
        match &self.check {
            Check::Helper(helper) => Some(helper),
            Check::Program(..) => None,
        }
    }

    /// The kernel's name of it.
    pub(crate) fn kernel_name(&self) -> &'static str {
        if self.fs == FsKind::Betrfs { BETRFS_TYPE } else { self.fs.name() }
    }

    /// Whether it promises the state after some operation, not only what was synced.
    pub(crate) fn keeps_order(&self) -> bool {
        self.fs == FsKind::Betrfs
    }

    /// How many images of one file system can be mounted at a time.
    pub(crate) fn jobs_max(&self) -> usize {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let clones = release_number(&release).is_none_or(|number| number >= CLONES_SINCE);
        if self.fs == FsKind::Btrfs && !clones { 1 } else { usize::MAX }
    }

    /// The line that mounts an image file, for people.
    pub(crate) fn mount_line(&self, image: &str, target: &str) -> String {
        let options = |more: &str| {
            [more, self.options.as_str()]
                .iter()
                .filter(|o| !o.is_empty())
                .copied()
                .collect::<Vec<_>>()
                .join(",")
        };
        match &self.check {
            Check::Helper(_) if self.options.is_empty() => format!("loadline mount betrfs {image} {target}"),
            Check::Helper(_) => format!("loadline mount betrfs {image} {target} -o {}", options("")),
            Check::Program(..) => {
                format!("mount -t {} -o {} {image} {target}", self.fs.name(), options("loop"))
            }
        }
    }

    /// The command that checks an image that is not mounted; it ends with 0 if all is well.
    pub(crate) fn check(&self, image: &Utf8Path) -> std::process::Command {
        let mut command = match &self.check {
            Check::Helper(helper) => helper.check(image),
            Check::Program(program, arguments) => {
                let mut command = std::process::Command::new(program);
                command.args(*arguments).arg(image);
                command
            }
        };
        command.env("LC_ALL", "C").stdin(std::process::Stdio::null());
        command
    }
}

/// Options that the file system itself takes.
fn own_options(spec: &StackSpec) -> Vec<String> {
    spec.mount_options().iter().filter(|option| !host::mount::is_generic_option(option)).cloned().collect()
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
        FsKind::F2fs => Some(&["fsck.f2fs", "--dry-run"]),
        _ => None,
    }
}

/// Bytes of a device on which every state is quickly brought up.
pub(crate) fn default_bytes(fs: FsKind) -> u64 {
    let mib = match fs {
        FsKind::Xfs => 300,
        FsKind::Btrfs | FsKind::F2fs => 128,
        FsKind::Betrfs => 64,
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
        let machine = tempfile::tempdir().unwrap();
        std::fs::create_dir(machine.path().join("bin")).unwrap();
        let host = Host::rooted(Utf8Path::from_path(machine.path()).unwrap());
        let system = |text: &str| System::of(&text.parse().unwrap(), &host, None);
        let missing = system("ext4").unwrap_err().to_string();
        assert!(missing.contains("e2fsck is not installed") && missing.contains("e2fsprogs"), "{missing}");
        std::fs::write(machine.path().join("bin/e2fsck"), "").unwrap();
        let ext4 = system("ext4,noatime,nobarrier,data=journal@980pro").unwrap();
        assert_eq!(ext4.options, "nobarrier,data=journal");
        let line = format!("{:?}", ext4.check("/i".into()));
        assert!(line.contains("\"-f\" \"-n\" \"/i\""), "{line}");
        let refused = system("tmpfs").unwrap_err().to_string();
        assert!(refused.contains("tmpfs cannot be brought up") && refused.contains("ext4"), "{refused}");
        let program = Some(Utf8Path::new("/bin/loadline"));
        let betrfs = System::of(&"betrfs,rw,cache=64M@980pro".parse().unwrap(), &host, program).unwrap();
        assert_eq!((betrfs.options.as_str(), betrfs.kernel_name()), ("cache=64M", "fuse.betrfs"));
        assert!(betrfs.helper().is_some() && betrfs.keeps_order());
        for (text, program, word) in [("betrfs", None, "loadline"), ("betrfs,inprocess", program, "mounted")]
        {
            let refused = System::of(&text.parse().unwrap(), &host, program).unwrap_err();
            assert!(refused.unavailable().is_some() && refused.to_string().contains(word), "{refused}");
        }
    }
}
