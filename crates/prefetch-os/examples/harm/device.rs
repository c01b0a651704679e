//! The machine's own disk, and emulated ones with a file system.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Anyhow;
use crate::options::Options;

/// A file on a device.
pub struct Device {
    file: PathBuf,
    bytes: u64,
    emulated: Option<Emulated>,
}

struct Emulated {
    loadline: PathBuf,
    name: String,
    mount: PathBuf,
}

impl Device {
    /// `raw`, or a profile of the emulated SSD under ext4. The file is written and dropped from the cache.
    pub fn prepare(name: &str, options: &Options) -> Anyhow<Device> {
        let mib = options.mib_of(name);
        let mut device =
            Device { file: options.scratch.path().join("data"), bytes: mib << 20, emulated: None };
        if name != "raw" {
            let emulated = attach(name, mib, options)?;
            device.file = emulated.mount.join("data");
            device.emulated = Some(emulated);
        }
        let bytes: Vec<u8> = (0..1u64 << 17).flat_map(|word| (word * 8).to_le_bytes()).collect();
        let mut file = File::create(&device.file)?;
        for _ in 0..mib {
            std::io::Write::write_all(&mut file, &bytes)?;
        }
        file.sync_all()?;
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

/// Out of reach of the terminal's Ctrl-C, so that nothing is left half attached.
fn output(command: &mut Command) -> Anyhow<String> {
    let output = command.process_group(0).output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn attach(profile: &str, mib: u64, options: &Options) -> Anyhow<Emulated> {
    let name = format!("harm{}", std::process::id());
    let size = format!("{}M", (mib * 2).max(256));
    let mut command = Command::new(&options.loadline);
    command.args(["ssd", "attach", "--profile", profile, "--size", &size, "--name", &name]);
    let device = output(&mut command)?;
    let mount = options.scratch.path().join("mount");
    let emulated = Emulated { loadline: options.loadline.clone(), name, mount };
    output(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "lazy_itable_init=0", &device]))?;
    std::fs::create_dir_all(&emulated.mount)?;
    output(Command::new("mount").arg(&device).arg(&emulated.mount))?;
    let short = device.trim_start_matches("/dev/");
    std::fs::write(format!("/sys/block/{short}/queue/read_ahead_kb"), options.readahead_kib.to_string())?;
    Ok(emulated)
}

impl Drop for Emulated {
    fn drop(&mut self) {
        let unmounted = output(Command::new("umount").arg(&self.mount));
        let detached = output(Command::new(&self.loadline).args(["ssd", "detach", &self.name]));
        for error in [unmounted.err(), detached.err()].into_iter().flatten() {
            eprintln!("{error}");
        }
    }
}

/// Drops a file from the page cache.
pub fn drop_cache(path: &Path) -> Anyhow<()> {
    let file = File::open(path)?;
    // SAFETY: an open file, no pointers.
    let refused = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    if refused == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(refused).into()) }
}
