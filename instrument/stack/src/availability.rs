//! What this machine can build, told beforehand with the reason and the remedy.

use std::fmt;
use std::os::unix::fs::FileTypeExt;

use camino::Utf8Path;
use rustix::fs::Access;
use serde::Serialize;

use host::{Host, Unavailable};
use spec::{Client, Device, FsKind, Regime, StackSpec};

/// Where the server of SFTP may be; it is on nobody's PATH.
const SFTP_SERVERS: [&str; 3] =
    ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server"];

/// Whether a stack can be built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Availability {
    /// Nothing is known that stands in the way.
    Available,
    /// It cannot be built here.
    Unavailable(Unavailable),
}

impl Availability {
    /// Whether the stack can be built.
    pub fn is_available(&self) -> bool {
        *self == Availability::Available
    }
}

impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Availability::Available => write!(f, "available"),
            Availability::Unavailable(why) => write!(f, "unavailable: {why}"),
        }
    }
}

/// Looks whether `spec` can be built on this machine by this user. Makes and changes nothing.
pub fn probe_availability(spec: &StackSpec) -> Availability {
    probe_availability_on(&Host::system(), spec)
}

/// As [`probe_availability`], on a given view of the machine.
pub fn probe_availability_on(host: &Host, spec: &StackSpec) -> Availability {
    match check(host, spec) {
        Ok(()) => Availability::Available,
        Err(why) => Availability::Unavailable(why),
    }
}

/// As [`probe_availability_on`], as a result.
pub(crate) fn check(host: &Host, spec: &StackSpec) -> Result<(), Unavailable> {
    if spec.guest().is_some() {
        return Err(Unavailable::new(
            "this command builds its stacks on this machine, not in guests",
            "use `loadline run`, or leave `+kernel:` out",
        ));
    }
    if spec.fs() == FsKind::Virtual {
        return Err(Unavailable::new(
            "`virtual` is no place: it stands for stacks that are simulated",
            "use `loadline simulate`, or a study whose workloads have `simulate`",
        ));
    }
    network(host, spec)?;
    match spec.device() {
        Device::Directory(path) => return directory(path),
        Device::Memory => {
            kernel_supports(host, spec.fs())?;
            return may_mount(host);
        }
        Device::Image(_) | Device::Block(_) => regime(spec.regime())?,
        Device::Emulated { .. } if spec.is_ublk() => ublk(host)?,
        Device::Emulated { .. } => fuse(host, "an emulated SSD")?,
    }
    if spec.in_process() {
        mkfs(host, spec.fs())?;
        attach(host, spec)?;
    } else {
        format_and_mount(host, spec.fs())?;
    }
    match spec.device() {
        Device::Block(path) => block_device(host, path),
        Device::Emulated { .. } if spec.is_ublk() => Ok(()),
        _ => loop_devices(host),
    }
}

/// What the network file system takes that the stack lies behind, if it does.
pub(crate) fn network(host: &Host, spec: &StackSpec) -> Result<(), Unavailable> {
    let Some(Client::Sshfs) = spec.network().map(|network| network.client) else { return Ok(()) };
    fuse(host, "sshfs")?;
    may_mount(host)?;
    if host.find_program("sshfs").is_none() {
        return Err(Unavailable::new("the program `sshfs` is not found", install("sshfs")));
    }
    sftp_server(host).map(|_| ())
}

/// The server of SFTP.
pub(crate) fn sftp_server(host: &Host) -> Result<&'static str, Unavailable> {
    SFTP_SERVERS.into_iter().find(|path| host.path(path).exists()).ok_or_else(|| {
        let reason = format!("there is no server of SFTP ({})", SFTP_SERVERS[0]);
        Unavailable::new(reason, install("openssh-sftp-server"))
    })
}

/// What formatting and mounting `fs` on some block device takes.
pub(crate) fn format_and_mount(host: &Host, fs: FsKind) -> Result<(), Unavailable> {
    kernel_supports(host, fs)?;
    mkfs(host, fs)?;
    may_mount(host)?;
    if !host.in_first_user_namespace() {
        let reason = "within a user namespace the kernel mounts no file system on a block device";
        return Err(Unavailable::new(reason, "run loadline outside of the rootless container"));
    }
    Ok(())
}

/// What a file system that the trial's process opens itself takes of the kernel: no mount, but its device.
fn attach(host: &Host, spec: &StackSpec) -> Result<(), Unavailable> {
    if host.has_sys_admin() || matches!(spec.device(), Device::Block(_)) {
        return Ok(());
    }
    let reason = "attaching an image as a block device needs root (the capability CAP_SYS_ADMIN)";
    Err(Unavailable::new(reason, "run with sudo; `inprocess` mounts nothing, but its image is a loop device"))
}

fn directory(path: &Utf8Path) -> Result<(), Unavailable> {
    if !path.is_dir() {
        let reason = format!("{path} is not an existing directory");
        return Err(Unavailable::new(reason, format!("make it (mkdir -p {path}) or name another one")));
    }
    rustix::fs::access(path.as_str(), Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
        Unavailable::new(
            format!("{path} is not writable ({error})"),
            "name a directory that you may write to",
        )
    })
}

/// An emulated SSD is a FUSE file behind a loop device; whether its name is a profile's, its provider knows. betrfs and
/// `fuse-limit` are served by a process.
pub(crate) fn fuse(host: &Host, what: &str) -> Result<(), Unavailable> {
    let fuse = host.path("/dev/fuse");
    if !fuse.exists() {
        let remedy = "load the module (modprobe fuse), or give the container the device (--device /dev/fuse)";
        return Err(Unavailable::new(format!("{what} needs /dev/fuse, which is not there"), remedy));
    }
    rustix::fs::access(fuse.as_str(), Access::READ_OK | Access::WRITE_OK).map_err(|error| {
        let reason = format!("{what} needs /dev/fuse, which may not be opened ({error})");
        Unavailable::new(reason, "run as root, or give the container the device (--device /dev/fuse)")
    })
}

/// A ublk device takes no FUSE and no loop device.
fn ublk(host: &Host) -> Result<(), Unavailable> {
    let control = host.path(host::ublk::CONTROL);
    if !control.exists() {
        let reason = format!("this kernel has no {} (it needs {})", host::ublk::CONTROL, host::ublk::NEEDS);
        let remedy = "load the module (modprobe ublk_drv), or have the stack in a guest: +kernel:debian-6.12";
        return Err(Unavailable::new(reason, remedy));
    }
    rustix::fs::access(control.as_str(), Access::READ_OK | Access::WRITE_OK).map_err(|error| {
        Unavailable::new(format!("{} may not be opened ({error})", host::ublk::CONTROL), "run as root")
    })
}

fn regime(regime: Option<Regime>) -> Result<(), Unavailable> {
    match regime {
        None | Some(Regime::Flush) => Ok(()),
        Some(other) => Err(Unavailable::new(
            format!(
                "this kernel orders writes by flushing; regime `{}` exists on an emulated SSD only",
                other.name()
            ),
            "leave the regime out, or use an emulated SSD such as 980pro",
        )),
    }
}

fn may_mount(host: &Host) -> Result<(), Unavailable> {
    if !host.has_sys_admin() {
        let reason = "mounting needs root (the capability CAP_SYS_ADMIN)";
        return Err(Unavailable::new(
            reason,
            "run with sudo, or use dir:PATH on a file system that is mounted already",
        ));
    }
    match host.find_program("mount") {
        Some(_) => Ok(()),
        None => Err(Unavailable::new("the program `mount` is not found", install("mount"))),
    }
}

pub(crate) fn install(package: &str) -> String {
    format!("install it (Debian: apt install {package})")
}

fn kernel_supports(host: &Host, fs: FsKind) -> Result<(), Unavailable> {
    let name = fs.name();
    let remedy = match fs {
        FsKind::Zfs => {
            return Err(Unavailable::new(
                "loadline does not make zfs pools",
                "make one yourself (zpool create) and measure it as dir:/pool/dataset",
            ));
        }
        FsKind::Betrfs | FsKind::FuseLimit => return fuse(host, name),
        _ => format!(
            "use a kernel with {name} (CONFIG_{}_FS), or measure another file system",
            name.to_uppercase()
        ),
    };
    if is_in_kernel(host, name) {
        return Ok(());
    }
    Err(Unavailable::new(
        format!("this kernel has no {name} (not in /proc/filesystems, and no module)"),
        remedy,
    ))
}

/// Whether the kernel knows the file system of this name, or would by a module.
pub(crate) fn is_in_kernel(host: &Host, name: &str) -> bool {
    let filesystems = host.read("/proc/filesystems").unwrap_or_default();
    let registered = filesystems.lines().any(|line| line.split_whitespace().last() == Some(name));
    registered || has_module(host, name)
}

/// Whether mount(8) would get the file system by loading a module.
fn has_module(host: &Host, name: &str) -> bool {
    let Ok(release) = host.read("/proc/sys/kernel/osrelease") else { return false };
    let Ok(modules) = host.read(format!("/lib/modules/{release}/modules.dep")) else { return false };
    let file = format!("/{name}.ko");
    modules.lines().filter_map(|line| line.split(':').next()).any(|path| path.contains(&file))
}

fn mkfs(host: &Host, fs: FsKind) -> Result<(), Unavailable> {
    let (Some(program), Some(package)) = (fs.mkfs_program(), fs.apt_package()) else { return Ok(()) };
    match host.find_program(program) {
        Some(_) => Ok(()),
        None => Err(Unavailable::new(format!("the program `{program}` is not found"), install(package))),
    }
}

fn loop_devices(host: &Host) -> Result<(), Unavailable> {
    let control = host.path("/dev/loop-control");
    if !control.exists() {
        return Err(Unavailable::new(
            "there is no /dev/loop-control, so no loop device can be had",
            "load the module (modprobe loop), or give the container the host's /dev, or use dir:PATH",
        ));
    }
    rustix::fs::access(control.as_str(), Access::READ_OK | Access::WRITE_OK).map_err(|error| {
        Unavailable::new(
            format!("/dev/loop-control may not be opened ({error})"),
            "run as root, or use dir:PATH",
        )
    })
}

fn block_device(host: &Host, path: &Utf8Path) -> Result<(), Unavailable> {
    match host.path(path).metadata() {
        Ok(meta) if meta.file_type().is_block_device() => Ok(()),
        Ok(_) => {
            Err(Unavailable::new(format!("{path} is not a block device"), "name one that `lsblk -p` lists"))
        }
        Err(error) => {
            Err(Unavailable::new(format!("{path}: {error}"), "name a block device that `lsblk -p` lists"))
        }
    }
}
