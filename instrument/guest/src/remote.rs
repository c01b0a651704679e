//! A device at the other end of a network, within one guest: NVMe over TCP from the guest's kernel to itself. The kernel's
//! target exports null_blk, netem holds back what goes over the loopback, and the kernel's initiator connects.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};

use crate::kernel::run;
use crate::{GuestError, modules};

/// The target's configuration (drivers/nvme/target/configfs.c).
const CONFIG: &str = "/sys/kernel/config/nvmet";
/// Name of the only subsystem, and of the host that may use it. Fixed, as a guest's time may depend on names.
const SUBSYSTEM: &str = "nqn.2024-01.org.loadline:remote";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:10ad11e0-0000-4000-8000-000000000001";
const HOST_ID: &str = "10ad11e0-0000-4000-8000-000000000001";
const NAMESPACE_ID: &str = "10ad11e0-0000-4000-8000-000000000002";
/// Where the target listens: nobody but this guest is there.
const ADDRESS: &str = "127.0.0.1";
const PORT: &str = "4420";
/// The initiator takes orders there (drivers/nvme/host/fabrics.c).
const FABRICS: &str = "/dev/nvme-fabrics";
/// Packets that may wait in netem: more than the load can have under way, so that none is lost.
const WAITING_PACKETS: u64 = 100_000;
/// The network's device.
const LOOPBACK: &str = "lo";

/// What lies between the file system and its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    /// How long each packet is under way, in microseconds: a question and its answer take twice this.
    pub(crate) delay_us: u64,
    /// How much passes in a second, both ways together, in kbit; `None`: as much as the guest can.
    pub(crate) rate_kbit: Option<u64>,
    /// Connections, each of them a queue; 0: one for each processor.
    pub(crate) queues: u64,
}

impl Network {
    /// The arguments of `tc` that make it so; `None` when nothing is held back.
    fn netem(&self) -> Option<Vec<String>> {
        if self.delay_us == 0 && self.rate_kbit.is_none() {
            return None;
        }
        let mut line = format!(
            "qdisc replace dev {LOOPBACK} root netem limit {WAITING_PACKETS} delay {}us",
            self.delay_us
        );
        if let Some(kbit) = self.rate_kbit {
            line.push_str(&format!(" rate {kbit}kbit"));
        }
        Some(line.split(' ').map(str::to_string).collect())
    }

    /// What the initiator is told.
    fn connect(&self) -> String {
        let mut line = format!(
            "transport=tcp,traddr={ADDRESS},trsvcid={PORT},nqn={SUBSYSTEM},hostnqn={HOST},hostid={HOST_ID}"
        );
        if self.queues > 0 {
            line.push_str(&format!(",nr_io_queues={}", self.queues));
        }
        line
    }
}

/// A connection. Dropped, it goes, and the export with it; the device that was exported stays.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The initiator's controller in sysfs, once it is connected.
    controller: Option<Utf8PathBuf>,
    shaped: bool,
}

impl Connection {
    /// Exports `device` and connects to it through `network`.
    ///
    /// # Errors
    /// The kernel has it not, or refuses; what was begun is undone.
    pub(crate) fn open(device: &Utf8Path, network: &Network) -> Result<Connection, GuestError> {
        ["nvmet_tcp", "nvme_tcp", "sch_netem"].iter().try_for_each(|name| modules::load(name, ""))?;
        run(Command::new("ip").args(["link", "set", LOOPBACK, "up"]))?;
        let mut connection = Connection { controller: None, shaped: false };
        export(device)?;
        if let Some(words) = network.netem() {
            run(Command::new("tc").args(words))?;
            connection.shaped = true;
        }
        connection.controller = Some(connect(&network.connect())?);
        Ok(connection)
    }

    /// The block device, when the initiator has found it: with or without multipath, which gives it another name.
    pub(crate) fn device(&self) -> Option<Utf8PathBuf> {
        let entries = Utf8Path::new("/sys/block").read_dir_utf8().ok()?.flatten();
        entries.filter(|entry| entry.file_name().starts_with("nvme")).find_map(|entry| {
            let of = std::fs::read_to_string(entry.path().join("device/subsysnqn")).ok()?;
            // the path below a multipath device has no file
            let device = Utf8Path::new("/dev").join(entry.file_name());
            (of.trim() == SUBSYSTEM && device.exists()).then_some(device)
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.shaped
            && let Err(error) = run(Command::new("tc").args(["qdisc", "del", "dev", LOOPBACK, "root"]))
        {
            tracing::warn!("the network's delay: {error}");
        }
        if let Some(controller) = &self.controller
            && let Err(error) = std::fs::write(controller.join("delete_controller"), "1")
        {
            tracing::warn!("{controller}: {error}");
        }
        withdraw();
    }
}

/// Tells the initiator to connect; its controller in sysfs.
fn connect(line: &str) -> Result<Utf8PathBuf, GuestError> {
    let at = || GuestError::at(FABRICS);
    let mut fabrics = File::options().read(true).write(true).open(FABRICS).map_err(at())?;
    fabrics.write_all(line.as_bytes()).map_err(at())?;
    let mut answer = [0; 256];
    let length = fabrics.read(&mut answer).map_err(at())?;
    let text = String::from_utf8_lossy(&answer[..length]);
    let number =
        instance(&text).ok_or_else(|| GuestError::Device(format!("{FABRICS} answered `{}`", text.trim())))?;
    Ok(format!("/sys/class/nvme/nvme{number}").into())
}

/// The number in `instance=0,cntlid=1`.
fn instance(answer: &str) -> Option<u32> {
    answer.trim().split(',').find_map(|word| word.strip_prefix("instance=")?.parse().ok())
}

/// Paths of the target's subsystem, its namespace, its port, and the link that joins them.
fn places() -> [Utf8PathBuf; 4] {
    let config = Utf8Path::new(CONFIG);
    let (subsystem, port) = (config.join("subsystems").join(SUBSYSTEM), config.join("ports/1"));
    let (namespace, link) = (subsystem.join("namespaces/1"), port.join("subsystems").join(SUBSYSTEM));
    [subsystem, namespace, port, link]
}

/// Exports a block device.
fn export(device: &Utf8Path) -> Result<(), GuestError> {
    let made = exported(device);
    if made.is_err() {
        withdraw();
    }
    made
}

fn exported(device: &Utf8Path) -> Result<(), GuestError> {
    let [subsystem, namespace, port, link] = places();
    let make = |path: &Utf8Path| std::fs::create_dir(path).map_err(GuestError::at(path.as_str()));
    let set =
        |path: Utf8PathBuf, value: &str| std::fs::write(&path, value).map_err(GuestError::at(path.as_str()));
    make(&subsystem)?;
    set(subsystem.join("attr_allow_any_host"), "1")?;
    set(subsystem.join("attr_serial"), "loadline")?;
    make(&namespace)?;
    set(namespace.join("device_path"), device.as_str())?;
    set(namespace.join("device_uuid"), NAMESPACE_ID)?;
    set(namespace.join("enable"), "1")?;
    make(&port)?;
    set(port.join("addr_trtype"), "tcp")?;
    set(port.join("addr_adrfam"), "ipv4")?;
    set(port.join("addr_traddr"), ADDRESS)?;
    set(port.join("addr_trsvcid"), PORT)?;
    // from here on it listens
    std::os::unix::fs::symlink(&subsystem, &link).map_err(GuestError::at(link.as_str()))
}

/// Takes the export back, as far as it was made.
fn withdraw() {
    let [subsystem, namespace, port, link] = places();
    let steps = [
        (link.exists(), std::fs::remove_file as fn(Utf8PathBuf) -> std::io::Result<()>, link.clone()),
        (port.exists(), std::fs::remove_dir, port),
        (namespace.exists(), |path| std::fs::write(path.join("enable"), "0"), namespace.clone()),
        (namespace.exists(), std::fs::remove_dir, namespace),
        (subsystem.exists(), std::fs::remove_dir, subsystem),
    ];
    for (there, undo, path) in steps {
        if there && let Err(error) = undo(path.clone()) {
            tracing::warn!("{path}: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_is_told_as_the_programs_understand_it() {
        let plain = Network { delay_us: 0, rate_kbit: None, queues: 0 };
        assert_eq!(plain.netem(), None);
        assert!(!plain.connect().contains("nr_io_queues"), "{}", plain.connect());
        let far = Network { delay_us: 500, rate_kbit: Some(1_000_000), queues: 2 };
        let words = far.netem().unwrap().join(" ");
        assert!(words.ends_with("netem limit 100000 delay 500us rate 1000000kbit"), "{words}");
        assert!(far.connect().ends_with(",nr_io_queues=2"), "{}", far.connect());
        let narrow = Network { rate_kbit: Some(8), ..plain };
        assert!(narrow.netem().unwrap().join(" ").ends_with("delay 0us rate 8kbit"));
        assert_eq!(instance("instance=3,cntlid=1\n"), Some(3));
        assert_eq!(instance("cntlid=1"), None);
    }
}
