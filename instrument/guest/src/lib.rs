//! Stacks inside another kernel: a guest under QEMU that runs this very program.
//!
//! Outside of the guest:
//!
//! | module | holds |
//! |---|---|
//! | [`kernel`] | a kernel by name or path: found, fetched from Debian's archive, unpacked, kept |
//! | [`modules`] | which of its modules a guest gets, and in which order they are loaded |
//! | [`image`] | the guest's first file system: this program, mkfs, their libraries, modules |
//! | `archive` | that file system in the kernel's format (cpio newc) |
//! | [`accel`] | KVM where it boots a kernel, else emulation; found out, not believed |
//! | [`setup`] | a guest as data, and QEMU's command line for it |
//! | [`machine`] | a running guest: started, heard, ended; everything in the journal |
//! | `monitor` | QEMU's monitor: commands, answers, events |
//! | `turns` | which of QEMU's threads runs when, so that time repeats |
//! | [`snapshot`] | booted guests that are kept, so that trials begin where the boot ended |
//! | [`wire`] | what host and guest say to each other: lines, or one checked block at the end |
//!
//! Within the guest:
//!
//! | module | holds |
//! |---|---|
//! | [`init`] | the first process: mounts, modules, the job, the end |
//! | [`devices`] | the devices that only a guest has |
//! | `remote` | one of them at the other end of a network: NVMe over TCP within the guest |

pub mod accel;
mod archive;
pub mod devices;
mod error;
pub mod image;
pub mod init;
pub mod kernel;
pub mod machine;
pub mod modules;
mod monitor;
mod remote;
pub mod setup;
pub mod snapshot;
mod turns;
pub mod wire;

pub use error::GuestError;
pub use machine::Machine;

use host::{Host, Unavailable};
use spec::{Device, StackSpec};

/// The kernel of a guest for which none is named.
pub const KERNEL: &str = "debian-6.12";
/// The emulator.
pub const QEMU: &str = "qemu-system-x86_64";

/// Why a stack cannot run in its guest, as far as can be told without fetching or booting anything.
pub fn unavailable_reason(spec: &StackSpec) -> Option<Unavailable> {
    let guest = spec.guest()?;
    let host = Host::system();
    if !cfg!(target_arch = "x86_64") {
        return Some(Unavailable::new("guests are of x86-64 only", "leave `+kernel:` out"));
    }
    if host.find_program(QEMU).is_none() {
        return Some(Unavailable::new(
            format!("the emulator `{QEMU}` is not found"),
            "install it (scripts/setup.sh qemu-system-x86, or apt install qemu-system-x86)",
        ));
    }
    if let (Some(program), Some(package)) = (spec.fs().mkfs_program(), spec.fs().apt_package())
        && host.find_program(program).is_none()
    {
        let remedy = format!("install it here, the guest gets it (Debian: apt install {package})");
        return Some(Unavailable::new(format!("the program `{program}` is not found"), remedy));
    }
    if let Device::Block(path) = spec.device() {
        let reason = format!("{path} is this machine's, and no guest gets a real device");
        return Some(Unavailable::new(reason, "use `@nvme` or `@null`"));
    }
    if guest.seed.is_some() && devices::is_hosts(spec) {
        return Some(Unavailable::new(
            "an `nvme` device is a file of this machine, and waiting for it breaks a guest's virtual time",
            "use `@null`, or an emulated SSD such as `@860evo`",
        ));
    }
    if devices::is_remote(spec)
        && let Some(program) = ["ip", "tc"].iter().find(|name| host.find_program(name).is_none())
    {
        let reason = format!("the program `{program}` is not found, which shapes the network of `remote`");
        return Some(Unavailable::new(
            reason,
            "install it here, the guest gets it (Debian: apt install iproute2)",
        ));
    }
    if let Err(error) = devices::check(spec) {
        return Some(Unavailable::new(error.to_string(), "see docs/guests.md"));
    }
    None
}
