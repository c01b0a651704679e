//! This machine's own file system, and emulated devices with one.

use std::ffi::CString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use crate::pattern::RAW;
use crate::{HarmError, Plan, at};

/// File systems without a device to read from (statfs(2); linux/magic.h): tmpfs, ramfs, proc, sysfs.
const IN_MEMORY: [i64; 4] = [0x0102_1994, 0x8584_58f6, 0x9fa0, 0x6265_6572];

/// A file on a device.
pub struct Device {
    file: PathBuf,
    bytes: u64,
    // Dropped in this order: detached before its directory goes.
    _emulated: Option<Emulated>,
    _own: Option<TempDir>,
}

struct Emulated {
    loadline: PathBuf,
    home: PathBuf,
    name: String,
    mount: PathBuf,
    mounted: bool,
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
    pub fn prepare(name: &str, plan: &Plan, scratch: &Path, stop: &AtomicBool) -> Result<Device, HarmError> {
        let mib = plan.mib_of(name);
        let bytes = mib << 20;
        let device = if name == RAW {
            let own = tempfile::Builder::new().prefix("loadline-harm.").tempdir_in(&plan.directory);
            let own = own.map_err(at("make a directory in", &plan.directory))?;
            Device { file: own.path().join("data"), bytes, _emulated: None, _own: Some(own) }
        } else {
            let emulated = attach(name, mib, plan, scratch)?;
            Device { file: emulated.mount.join("data"), bytes, _emulated: Some(emulated), _own: None }
        };
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

/// What a program prints. Out of reach of the terminal's Ctrl-C, so that nothing is left half attached.
fn output(command: &mut Command) -> Result<String, HarmError> {
    let program = Path::new(command.get_program()).display().to_string();
    let output = command
        .process_group(0)
        .output()
        .map_err(|error| HarmError::CannotHere(format!("cannot run {program}: {error}; is it installed?")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(HarmError::Program(format!("{command:?}: {said}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn attach(profile: &str, mib: u64, plan: &Plan, scratch: &Path) -> Result<Emulated, HarmError> {
    let name = format!("harm{}", std::process::id());
    let size = format!("{}M", (mib * 2).max(256));
    let mut command = Command::new(&plan.loadline);
    command.arg("--home").arg(&plan.home);
    command.args(["ssd", "attach", "--profile", profile, "--size", &size, "--name", &name]);
    let device = output(&mut command)?;
    let mut emulated = Emulated {
        loadline: plan.loadline.clone(),
        home: plan.home.clone(),
        name,
        mount: scratch.join("mount"),
        mounted: false,
    };
    output(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "lazy_itable_init=0", &device]))?;
    std::fs::create_dir_all(&emulated.mount).map_err(at("make", &emulated.mount))?;
    output(Command::new("mount").arg(&device).arg(&emulated.mount))?;
    emulated.mounted = true;
    let short = device.trim_start_matches("/dev/");
    let window = PathBuf::from(format!("/sys/block/{short}/queue/read_ahead_kb"));
    std::fs::write(&window, plan.readahead_kib.to_string()).map_err(at("write", &window))?;
    Ok(emulated)
}

impl Drop for Emulated {
    fn drop(&mut self) {
        let unmount = || output(Command::new("umount").arg(&self.mount));
        let unmounted = if self.mounted { unmount() } else { Ok(String::new()) };
        let mut detach = Command::new(&self.loadline);
        detach.arg("--home").arg(&self.home).args(["ssd", "detach", &self.name]);
        for error in [unmounted.err(), output(&mut detach).err()].into_iter().flatten() {
            eprintln!("loadline: {error}");
        }
    }
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
