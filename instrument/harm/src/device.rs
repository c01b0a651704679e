//! This machine's own file system, and emulated devices with one.

use std::ffi::CString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blockdev::{Attached, Launcher};
use host::{Host, ProcessId};
use journal::{Journal, PrivateTree};
use spec::StackSpec;
use stack::{Builder, MountedStack};

use crate::pattern::RAW;
use crate::{HarmError, Plan, at, built, private_tree, utf8};

/// File systems without a device to read from (statfs(2); linux/magic.h): tmpfs, ramfs, proc, sysfs.
const IN_MEMORY: [i64; 4] = [0x0102_1994, 0x8584_58f6, 0x9fa0, 0x6265_6572];

/// A file on a device.
pub struct Device {
    file: PathBuf,
    bytes: u64,
    _place: Place,
}

/// What goes with it.
enum Place {
    Own {
        _tree: PrivateTree,
    },
    /// Dropped in this order: the file system goes before its device.
    Emulated {
        _stack: Box<MountedStack>,
        _ssd: Attached,
    },
}

/// Whether files of a directory come from a device.
pub fn check_directory(directory: &Path) -> Result<(), HarmError> {
    let wrong = |why: &str| HarmError::Input(format!("--dir {}: {why}", directory.display()));
    if !directory.is_dir() {
        return Err(wrong("not a directory"));
    }
    let Ok(path) = CString::new(directory.as_os_str().as_bytes()) else { return Err(wrong("not a path")) };
    // SAFETY: all zero is a valid value of this struct of numbers.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a C string and a struct that is valid for writing.
    let refused = unsafe { libc::statfs(path.as_ptr(), &mut found) };
    #[allow(clippy::unnecessary_cast)] // its type differs between architectures
    if refused == 0 && IN_MEMORY.contains(&(found.f_type as i64)) {
        return Err(wrong("lies in memory: nothing there is read from a device; name a directory on a disk"));
    }
    Ok(())
}

impl Device {
    /// [`RAW`], or a profile of the emulated SSD under ext4. The file is written and synced.
    pub fn prepare(
        name: &str,
        plan: &Plan,
        scratch: &Path,
        journal: &Arc<Journal>,
        stop: &AtomicBool,
    ) -> Result<Device, HarmError> {
        let mib = plan.mib_of(name);
        let (folder, place) = if name == RAW {
            let tree = private_tree(journal, &plan.directory)?;
            (tree.path().as_std_path().to_owned(), Place::Own { _tree: tree })
        } else {
            // The terminal's Ctrl-C reaches mkfs and mount as well.
            attach(name, mib, plan, scratch, journal).map_err(|error| match stop.load(Ordering::Relaxed) {
                true => HarmError::Interrupted,
                false => error,
            })?
        };
        let device = Device { file: folder.join("data"), bytes: mib << 20, _place: place };
        write(&device.file, mib, stop)?;
        Ok(device)
    }

    /// Length of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

fn write(path: &Path, mib: u64, stop: &AtomicBool) -> Result<(), HarmError> {
    let bytes: Vec<u8> = (0..1u64 << 17).flat_map(|word| (word * 8).to_le_bytes()).collect();
    let mut file = File::create(path).map_err(at("create", path))?;
    for _ in 0..mib {
        file.write_all(&bytes).map_err(at("write", path))?;
        if stop.load(Ordering::Relaxed) {
            return Err(HarmError::Interrupted);
        }
    }
    file.sync_all().map_err(at("write", path))
}

fn attach(
    profile: &str,
    mib: u64,
    plan: &Plan,
    scratch: &Path,
    journal: &Arc<Journal>,
) -> Result<(PathBuf, Place), HarmError> {
    let input = |error: &dyn std::fmt::Display| HarmError::Input(format!("{profile}: {error}"));
    let spec = format!("ext4@{profile}:{}M", (mib * 2).max(256));
    let spec: StackSpec = spec.parse().map_err(|error| input(&error))?;
    let name = format!("harm{}", std::process::id());
    let options = stack::emulated::options(&spec, &name).map_err(|error| input(&error))?;
    let mut options = options.ok_or_else(|| input(&"not an emulated device"))?;
    options.owner = ProcessId::current(&Host::system());
    let launcher = Launcher { program: utf8(&plan.loadline)?, args: vec!["ssd-daemon".into()] };
    let ssd = blockdev::attach(&utf8(&plan.home)?, &options, &launcher).map_err(built)?;
    let stack = Builder::new(utf8(scratch)?).build_on(&spec, ssd.device(), journal);
    let stack = Box::new(stack.map_err(built)?);
    let short = ssd.device().file_name().unwrap_or_default();
    let window = PathBuf::from(format!("/sys/block/{short}/queue/read_ahead_kb"));
    std::fs::write(&window, plan.readahead_kib.to_string()).map_err(at("write", &window))?;
    Ok((stack.path().as_std_path().to_owned(), Place::Emulated { _stack: stack, _ssd: ssd }))
}

/// Drops a file from the page cache.
pub fn drop_cache(path: &Path) -> Result<(), HarmError> {
    let file = File::open(path).map_err(at("open", path))?;
    // SAFETY: an open file, no pointers.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        refused => Err(at("drop from the cache", path)(std::io::Error::from_raw_os_error(refused))),
    }
}
