//! Containers without runc: two short programs, which are loadline itself under hidden names.
//!
//! [`START`] gets namespaces for processes, IPC and the host name, starts [`INIT`] in them, writes down its number and ends, as
//! `runc run --detach` does. [`INIT`] gets a namespace for mounts, builds the root as the OCI configuration says, and becomes
//! the container's program. Capabilities stay as they are.

use std::ffi::CString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{CWD, FileType, Mode};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;

use crate::config::{Config, Mount};
use crate::root::within;

/// The hidden argument of the program that starts a container: configuration and file for the process number follow.
pub const START: &str = "container-start";
/// That of a container's first process: the configuration follows.
pub const INIT: &str = "container-init";
/// Devices of a container: name, major and minor number (Linux, admin-guide/devices.txt).
const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

/// Runs this process if it was started under one of the hidden names; its exit code then.
pub fn main() -> Option<u8> {
    let mut arguments = std::env::args().skip(1);
    let ended = match arguments.next()?.as_str() {
        START => start(arguments.next(), arguments.next()),
        INIT => init(arguments.next()),
        _ => return None,
    };
    Some(match ended {
        Ok(()) => 0,
        Err(message) => {
            host::note!("loadline: {message}");
            1
        }
    })
}

fn start(config: Option<String>, pid_file: Option<String>) -> Result<(), String> {
    let (Some(config), Some(pid_file)) = (config, pid_file) else { return Err(own_use()) };
    let flags = UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    // SAFETY: only namespaces are unshared, no file table and no memory.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(|error| format!("namespaces: {error}"))?;
    let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let child = Command::new(program).args([INIT, &config]).process_group(0).spawn();
    let child = child.map_err(|error| format!("the container's first process: {error}"))?;
    std::fs::write(&pid_file, child.id().to_string()).map_err(|error| format!("{pid_file}: {error}"))
}

fn own_use() -> String {
    "this is for loadline's own use".into()
}

fn init(config: Option<String>) -> Result<(), String> {
    let path = config.ok_or_else(own_use)?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let config: Config = serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
    // SAFETY: only the namespace of mounts is unshared, no file table and no memory.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(|error| format!("namespace of mounts: {error}"))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(|error| format!("making mounts private: {error}"))?;
    for mount in &config.mounts {
        let said = |error| format!("mounting {} at {}: {error}", mount.source, mount.destination);
        make_mount(&config.root.path, mount).map_err(said)?;
    }
    rustix::system::sethostname(config.hostname.as_bytes()).map_err(|error| format!("host name: {error}"))?;
    enter(&config.root.path).map_err(|error| format!("entering {}: {error}", config.root.path))?;
    if config.process.no_new_privileges {
        rustix::thread::set_no_new_privs(true).map_err(|error| format!("no new privileges: {error}"))?;
    }
    let (program, arguments) = config.process.args.split_first().ok_or("no program is named")?;
    let environment = config.process.env.iter().filter_map(|pair| pair.split_once('='));
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment).current_dir(&config.process.cwd);
    Err(format!("{program}: {}", command.exec()))
}

fn make_mount(root: &Utf8Path, mount: &Mount) -> std::io::Result<()> {
    let target = within(root, mount.destination.as_str());
    let (mut flags, mut data) = (MountFlags::empty(), Vec::new());
    for option in &mount.options {
        match option.as_str() {
            "ro" => flags |= MountFlags::RDONLY,
            "nosuid" => flags |= MountFlags::NOSUID,
            "nodev" => flags |= MountFlags::NODEV,
            "noexec" => flags |= MountFlags::NOEXEC,
            "strictatime" => flags |= MountFlags::STRICTATIME,
            "bind" | "rw" => {}
            other => data.push(other),
        }
    }
    if mount.kind == "bind" {
        rustix::mount::mount_bind(mount.source.as_str(), target.as_str())?;
        if flags.contains(MountFlags::RDONLY) {
            rustix::mount::mount_remount(target.as_str(), MountFlags::BIND | MountFlags::RDONLY, c"")?;
        }
        return Ok(());
    }
    let data = CString::new(data.join(",")).map_err(std::io::Error::other)?;
    rustix::mount::mount(mount.source.as_str(), target.as_str(), mount.kind.as_str(), flags, Some(&*data))?;
    if mount.destination == "/dev" { fill_dev(&target) } else { Ok(()) }
}

fn fill_dev(dev: &Utf8Path) -> std::io::Result<()> {
    for (name, major, minor) in DEVICES {
        let path: Utf8PathBuf = dev.join(name);
        let device = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(
            CWD,
            path.as_str(),
            FileType::CharacterDevice,
            Mode::from_raw_mode(0o666),
            device,
        )?;
        // whatever the umask
        rustix::fs::chmod(path.as_str(), Mode::from_raw_mode(0o666))?;
    }
    std::fs::create_dir(dev.join("shm"))?;
    std::os::unix::fs::symlink("/proc/self/fd", dev.join("fd"))
}

/// Makes `root` the root of everything; what was mounted outside is out of sight and let go of.
fn enter(root: &Utf8Path) -> std::io::Result<()> {
    std::env::set_current_dir(root)?;
    // the old root lies on top of the new one for a moment (pivot_root(2), notes)
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}
