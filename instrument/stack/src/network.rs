//! Clients of network and cluster file systems. Of these loadline mounts sshfs itself (`sshfs(STACK)`); what the user has mounted is
//! measured as `dir:PATH`. Here is said which clients this machine has.

use host::{Host, Unavailable};

use crate::Availability;
use crate::availability::{fuse, install, is_in_kernel};

/// A client: a file system of the kernel, or a FUSE program.
#[derive(Debug, Clone, Copy)]
struct Client {
    name: &'static str,
    /// The kernel's name of the file system; `None`: the program serves it through FUSE.
    kernel: Option<&'static str>,
    /// A program that mounting needs, and its package.
    program: Option<(&'static str, &'static str)>,
}

const CLIENTS: [Client; 5] = [
    Client { name: "nfs", kernel: Some("nfs"), program: Some(("mount.nfs", "nfs-common")) },
    Client { name: "9p", kernel: Some("9p"), program: None },
    Client { name: "cifs", kernel: Some("cifs"), program: Some(("mount.cifs", "cifs-utils")) },
    Client { name: "ceph", kernel: Some("ceph"), program: Some(("mount.ceph", "ceph-common")) },
    Client { name: "sshfs", kernel: None, program: Some(("sshfs", "sshfs")) },
];

/// Each client by name, and whether it is here.
pub fn clients(host: &Host) -> Vec<(&'static str, Availability)> {
    let availability = |client: &Client| match check(host, client) {
        Ok(()) => Availability::Available,
        Err(why) => Availability::Unavailable(why),
    };
    CLIENTS.iter().map(|client| (client.name, availability(client))).collect()
}

fn check(host: &Host, client: &Client) -> Result<(), Unavailable> {
    match client.kernel {
        None => fuse(host, client.name)?,
        Some(kernel) if is_in_kernel(host, kernel) => {}
        Some(kernel) => {
            return Err(Unavailable::new(
                format!("this kernel has no client of {kernel} (not in /proc/filesystems, and no module)"),
                "use a kernel that has it; what is mounted is measured as dir:PATH",
            ));
        }
    }
    match client.program {
        Some((program, package)) if host.find_program(program).is_none() => {
            Err(Unavailable::new(format!("the program `{program}` is not found"), install(package)))
        }
        _ => Ok(()),
    }
}
