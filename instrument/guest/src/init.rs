//! The first process of a guest: this program. It mounts what programs expect, loads modules, gets its job, and switches the
//! guest off.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{MountFlags, mount};

use crate::setup::{ONCE, SERVE};
use crate::{GuestError, modules, wire};

/// What is mounted: where, type, options. What a kernel has not is left out.
const MOUNTS: [(&str, &str, &str); 9] = [
    ("/proc", "proc", ""),
    ("/sys", "sysfs", ""),
    ("/dev", "devtmpfs", ""),
    ("/sys/kernel/tracing", "tracefs", ""),
    ("/sys/kernel/config", "configfs", ""),
    ("/sys/fs/cgroup", "cgroup2", ""),
    ("/tmp", "tmpfs", "mode=1777"),
    ("/run", "tmpfs", ""),
    // images and emulated SSDs
    ("/work", "tmpfs", "size=75%"),
];
/// Where a guest's loadline keeps its journal and images.
pub const HOME: &str = "/work/home";
/// The second serial port.
const SERIAL: &str = "/dev/ttyS1";
/// The machine's I/O ports, as a file (port(4)).
const IO_PORTS: &str = "/dev/port";
/// The port of QEMU's pvpanic, and the bit that makes QEMU tell an event and do nothing else (docs/specs/pvpanic.txt
/// of QEMU: the guest has panicked and handles that itself).
const PVPANIC: (u64, u8) = (0x505, 2);
/// Rounds of waiting for the stop, of two instructions each: half a second of a slow machine, in which a busy one answers.
/// Each trial waits for the rest of them.
const STOP_ROUNDS: u64 = 100_000_000;
/// The job, as the firmware's configuration shows it.
const FIRMWARE: &str = "/sys/firmware/qemu_fw_cfg/by_name";
/// Where the kernel lists the ports of virtio.
const PORTS: &str = "/sys/class/virtio-ports";
/// How long a device may take to appear once its driver is there.
const DEVICE_PATIENCE: Duration = Duration::from_secs(5);

/// How this guest gets its jobs.
#[derive(Debug)]
pub enum Channel {
    /// Lines of JSON, both ways.
    Lines {
        /// Jobs.
        from: BufReader<File>,
        /// Answers.
        to: File,
    },
    /// One job, which is there; the answer is written with [`answer`] when nothing is measured any more.
    Once {
        /// The job.
        job: Vec<u8>,
    },
}

/// Begins: `role` is the word after [`crate::setup::ARGUMENT`] on the kernel's command line.
///
/// # Errors
/// A guest without its mounts or without a job is none.
pub fn begin(role: &str) -> Result<Channel, GuestError> {
    for (target, kind, options) in MOUNTS {
        mounted(target, kind, options)?;
    }
    for (name, value) in [
        ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/"),
        ("TMPDIR", "/tmp"),
        ("LOADLINE_HOME", HOME),
    ] {
        // SAFETY: this process has one thread as yet.
        unsafe { std::env::set_var(name, value) };
    }
    std::fs::create_dir_all(HOME).map_err(GuestError::at(HOME))?;
    // 6.1 has these as modules
    ["virtio_pci", "virtio_console", "fuse", "loop", "configfs"]
        .iter()
        .try_for_each(|name| modules::load(name, ""))?;
    mounted("/sys/kernel/config", "configfs", "")?;
    modules::CHECKSUMS.iter().try_for_each(|name| modules::load(name, ""))?;
    match role {
        SERVE => {
            let path = port()?;
            let at = || GuestError::at(path.display().to_string());
            // a port can be opened once
            let from = File::options().read(true).write(true).open(&path).map_err(at())?;
            let to = from.try_clone().map_err(at())?;
            Ok(Channel::Lines { from: BufReader::new(from), to })
        }
        ONCE => {
            stop_here()?;
            modules::load("qemu_fw_cfg", "")?;
            let path = format!("{FIRMWARE}/{}/raw", wire::JOB);
            let job = std::fs::read(&path).map_err(GuestError::at(path))?;
            Ok(Channel::Once { job })
        }
        other => Err(GuestError::Device(format!("`{other}` is no role of a guest"))),
    }
}

/// The guest says that it can be stopped, and waits, a fixed number of instructions and nothing else. It may be stopped at
/// any of them: what is kept lies on the same way, and each trial walks the rest of it. A guest that stops itself
/// would not do: until QEMU's main loop has heard of that, its time may jump to the next timer, or not.
fn stop_here() -> Result<(), GuestError> {
    use std::os::unix::fs::FileExt;
    let ports = File::options().write(true).open(IO_PORTS).map_err(GuestError::at(IO_PORTS))?;
    let (port, ready) = PVPANIC;
    let tell = || ports.write_all_at(&[ready], port).map_err(GuestError::at(IO_PORTS));
    tell()?;
    // SAFETY: counts a register down.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("2:", "dec {0}", "jnz 2b", inout(reg) STOP_ROUNDS => _, options(nomem, nostack))
    };
    // said twice before the stop: it came too late
    tell()
}

/// Mounts a file system of the kernel's own; one that it has not, or that is mounted, is left.
fn mounted(target: &str, kind: &str, options: &str) -> Result<(), GuestError> {
    if std::fs::create_dir_all(target).is_err() {
        // a directory of sysfs that this kernel has not
        return Ok(());
    }
    let flags = MountFlags::empty();
    let options = std::ffi::CString::new(options).unwrap_or_default();
    match mount(kind, target, kind, flags, &*options) {
        Ok(()) | Err(rustix::io::Errno::BUSY | rustix::io::Errno::NODEV) => Ok(()),
        Err(error) => Err(GuestError::at(format!("mounting {target}"))(error.into())),
    }
}

/// The port's device.
fn port() -> Result<PathBuf, GuestError> {
    let mut found = None;
    host::wait::wait_until(DEVICE_PATIENCE, || {
        let entries = std::fs::read_dir(PORTS).into_iter().flatten().flatten();
        let ours = |path: &PathBuf| {
            std::fs::read_to_string(path.join("name")).is_ok_and(|name| name.trim() == wire::PORT)
        };
        found = entries.map(|entry| entry.path()).find(ours).and_then(|path| {
            let device = Path::new("/dev").join(path.file_name()?);
            device.exists().then_some(device)
        });
        found.is_some()
    });
    found.ok_or_else(|| GuestError::Device("the port to the host is not there".into()))
}

/// Hands the answer of [`Channel::Once`] to the host.
///
/// # Errors
/// The serial port.
pub fn answer(payload: &[u8]) -> Result<(), GuestError> {
    let text = wire::block(payload)?;
    let mut serial = File::options().write(true).open(SERIAL).map_err(GuestError::at(SERIAL))?;
    serial.write_all(text.as_bytes()).map_err(GuestError::at(SERIAL))?;
    // SAFETY: a plain system call on a descriptor that is open.
    if unsafe { libc::tcdrain(std::os::fd::AsRawFd::as_raw_fd(&serial)) } < 0 {
        return Err(GuestError::at(SERIAL)(std::io::Error::last_os_error()));
    }
    Ok(())
}

/// The next line; `None` when the host has gone.
pub fn next_line(from: &mut BufReader<File>) -> Option<String> {
    let mut line = String::new();
    match from.read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line),
    }
}

/// Switches the guest off.
pub fn power_off() -> ! {
    rustix::fs::sync();
    // QEMU is told to end instead of a reboot
    let failed = rustix::system::reboot(rustix::system::RebootCommand::Restart);
    eprintln!("guest: reboot: {failed:?}");
    // the end of the first process is a panic, and that is an end as well
    std::process::exit(1)
}
