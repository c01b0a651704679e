//! The devices that only a guest has: `nvme`, QEMU's controller with several queues on a file of the host; `null`, the
//! kernel's null_blk, which keeps its blocks in memory and answers after a fixed time; `remote`, that null_blk at the other
//! end of a network.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use spec::{Device, Size, StackSpec};

use crate::remote::{Connection, Network};
use crate::{GuestError, modules};

/// Name of QEMU's NVMe controller in the stack syntax.
pub const NVME: &str = "nvme";
/// Name of null_blk.
pub const NULL: &str = "null";
/// Name of null_blk behind NVMe over TCP.
pub const REMOTE: &str = "remote";
/// Size of an NVMe device for which none is given.
const NVME_BYTES: u64 = 8 << 30;
/// Size of null_blk: its blocks are the guest's memory.
const NULL_BYTES: u64 = 768 << 20;
/// Time in which null_blk answers: that of a write to the flash of a SATA SSD's generation, about.
const NULL_NS: u64 = 80_000;
/// Its volatile cache. Without one it never gets a flush, and each fsync looks cheap.
const NULL_CACHE_MIB: u64 = 64;
/// Where null_blk's devices are made (Documentation/block/null_blk.rst).
const CONFIG: &str = "/sys/kernel/config/nullb";
/// How long a device may take to appear.
const PATIENCE: Duration = Duration::from_secs(5);
/// Queues of a device, at most: as many virtual processors are needed, and each costs the machine.
const QUEUES_MAX: u64 = 16;
/// The only disk of the controller.
const NVME_DEVICE: &str = "/dev/nvme0n1";

/// The kernel's module for ublk devices.
const UBLK_MODULE: &str = "ublk_drv";

/// What `null` is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NullBlkSpec {
    bytes: u64,
    answer_ns: u64,
    cache_mib: u64,
    queues: u64,
}

/// A device within this guest. Dropped, it goes.
#[derive(Debug)]
pub struct Attached {
    device: Utf8PathBuf,
    // before what it leads to
    _connection: Option<Connection>,
    _null: Option<NullBlk>,
}

/// A null_blk, by its directory below [`CONFIG`]. Dropped, it goes.
#[derive(Debug)]
struct NullBlk(Utf8PathBuf);

impl Attached {
    /// Its path below /dev.
    pub fn device(&self) -> &Utf8Path {
        &self.device
    }
}

impl Drop for NullBlk {
    fn drop(&mut self) {
        let made = &self.0;
        if let Err(error) = std::fs::write(made.join("power"), "0").and_then(|()| std::fs::remove_dir(made)) {
            tracing::warn!("{made}: {error}");
        }
    }
}

/// Whether a stack lies on a device that only a guest has.
pub fn is_guests(spec: &StackSpec) -> bool {
    matches!(spec.device(), Device::Emulated { name, .. } if is_own(name))
}

fn is_own(name: &str) -> bool {
    [NVME, NULL, REMOTE].contains(&name)
}

/// Whether a guest's device is a file of the host.
pub fn is_hosts(spec: &StackSpec) -> bool {
    matches!(spec.device(), Device::Emulated { name, .. } if name == NVME)
}

/// Whether a stack lies on a device at the other end of a network.
pub fn is_remote(spec: &StackSpec) -> bool {
    matches!(spec.device(), Device::Emulated { name, .. } if name == REMOTE)
}

/// QEMU's NVMe device of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// Bytes of the file of the host that it is.
    pub bytes: u64,
    /// Its queues; `None`: one for each virtual processor.
    pub queues: Option<u64>,
}

/// The NVMe device that a stack needs.
pub fn disk(spec: &StackSpec) -> Option<Disk> {
    match spec.device() {
        Device::Emulated { name, size, args } if name == NVME => {
            let queues = args.iter().find_map(|word| queues(word.strip_prefix("queues=")?));
            Some(Disk { bytes: size.map_or(NVME_BYTES, Size::bytes), queues })
        }
        _ => None,
    }
}

/// Virtual processors that a stack's device needs at least: Linux makes no more queues than there are of them.
pub fn cores(spec: &StackSpec) -> usize {
    let Device::Emulated { name, args, .. } = spec.device() else { return 1 };
    let named = args.iter().find_map(|word| queues(word.strip_prefix("queues=")?));
    named.filter(|_| is_own(name) || spec.is_ublk()).map_or(1, |queues| queues as usize)
}

/// Looks at what is written of a guest's device.
///
/// # Errors
/// A word that means nothing.
pub fn check(spec: &StackSpec) -> Result<(), GuestError> {
    let Device::Emulated { name, size, args } = spec.device() else { return Ok(()) };
    if is_own(name) && spec.regime().is_some() {
        return Err(GuestError::Device(format!("`{name}` orders writes by flushing; leave the regime out")));
    }
    match name.as_str() {
        NVME => match args.iter().find(|word| word.strip_prefix("queues=").and_then(queues).is_none()) {
            Some(word) => {
                let why = format!("`{word}` of nvme: there is queues=N, and a size, as in nvme(queues=4):8G");
                Err(GuestError::Device(why))
            }
            None => Ok(()),
        },
        NULL => null(*size, args).map(|_| ()),
        REMOTE => remote(*size, args).map(|_| ()),
        _ => Ok(()),
    }
}

fn null(size: Option<Size>, args: &[String]) -> Result<NullBlkSpec, GuestError> {
    let mut null = NullBlkSpec {
        bytes: size.map_or(NULL_BYTES, |size| size.bytes()),
        answer_ns: NULL_NS,
        cache_mib: NULL_CACHE_MIB,
        queues: 1,
    };
    for word in args {
        let bad = || {
            GuestError::Device(format!(
                "`{word}` of null: there are TIME such as 80us, cache=SIZE or cache=0, queues=N"
            ))
        };
        match word.split_once('=') {
            Some(("cache", "0")) => null.cache_mib = 0,
            Some(("cache", value)) => null.cache_mib = Size::parse(value).map_err(|_| bad())?.bytes() >> 20,
            Some(("queues", value)) => null.queues = queues(value).ok_or_else(bad)?,
            None => null.answer_ns = time_ns(word).ok_or_else(bad)?,
            _ => return Err(bad()),
        }
    }
    Ok(null)
}

/// What `remote` is made of: the network, and the null_blk behind it.
fn remote(size: Option<Size>, args: &[String]) -> Result<(Network, NullBlkSpec), GuestError> {
    let mut network = Network { delay_us: 0, rate_kbit: None, queues: 0 };
    for word in args {
        let bad = || {
            GuestError::Device(format!(
                "`{word}` of remote: there are DELAY such as 200us or 1ms (each way), RATE such as 100mbit or 1gbit, \
                 queues=N"
            ))
        };
        match (word.strip_prefix("queues="), time_ns(word), rate_kbit(word)) {
            (Some(value), ..) => network.queues = queues(value).ok_or_else(bad)?,
            (_, Some(ns), _) if ns % 1_000 == 0 => network.delay_us = ns / 1_000,
            (_, None, Some(kbit)) => network.rate_kbit = Some(kbit),
            _ => return Err(bad()),
        }
    }
    let null = null(size, &[])?;
    Ok((network, NullBlkSpec { queues: network.queues.max(1), ..null }))
}

fn queues(value: &str) -> Option<u64> {
    value.parse().ok().filter(|count| (1..=QUEUES_MAX).contains(count))
}

/// What tc(8) counts in.
const BYTES_PER_KBIT: u64 = 1000 / 8;

/// A rate such as `100mbit` in kbit a second, which is not nothing.
fn rate_kbit(word: &str) -> Option<u64> {
    let bytes = units::parse_rate(word).ok()?;
    Some(bytes / BYTES_PER_KBIT).filter(|rate| *rate > 0)
}

/// A time such as `80us` in nanoseconds.
fn time_ns(word: &str) -> Option<u64> {
    u64::try_from(units::parse_latency(word).ok()?.as_nanos()).ok()
}

/// Within a guest: the device of a stack, if only a guest has it.
///
/// # Errors
/// The kernel has it not, or refuses.
pub fn attach(spec: &StackSpec) -> Result<Option<Attached>, GuestError> {
    let Device::Emulated { name, size, args } = spec.device() else { return Ok(None) };
    match name.as_str() {
        NVME => {
            modules::load("nvme", "")?;
            let device = Utf8PathBuf::from(NVME_DEVICE);
            appears(NVME_DEVICE, || device.exists().then(|| device.clone()))
                .map(|device| Some(Attached { device, _connection: None, _null: None }))
        }
        NULL => {
            let (device, made) = make_null(&null(*size, args)?)?;
            Ok(Some(Attached { device, _connection: None, _null: Some(made) }))
        }
        REMOTE => {
            let (network, null) = remote(*size, args)?;
            let (device, made) = make_null(&null)?;
            let connection = Connection::open(&device, &network)?;
            let device = appears("device at the other end of the network", || connection.device())?;
            Ok(Some(Attached { device, _connection: Some(connection), _null: Some(made) }))
        }
        _ => Ok(None),
    }
}

fn make_null(null: &NullBlkSpec) -> Result<(Utf8PathBuf, NullBlk), GuestError> {
    modules::load("null_blk", "nr_devices=0")?;
    // newer kernels name the device by this directory, older ones by its number
    let made = Utf8Path::new(CONFIG).join("nullb0");
    std::fs::create_dir(&made).map_err(GuestError::at(made.as_str()))?;
    let device = Utf8PathBuf::from("/dev/nullb0");
    let attached = NullBlk(made.clone());
    let set = |name: &str, value: u64| {
        let path = made.join(name);
        std::fs::write(&path, value.to_string()).map_err(GuestError::at(path.as_str()))
    };
    set("size", null.bytes >> 20)?;
    set("memory_backed", 1)?;
    set("discard", 1)?;
    set("cache_size", null.cache_mib)?;
    // requests by several queues, answered by a timer
    set("queue_mode", 2)?;
    set("submit_queues", null.queues)?;
    set("irqmode", 2)?;
    set("completion_nsec", null.answer_ns)?;
    set("power", 1)?;
    let device = appears("/dev/nullb0", || device.exists().then(|| device.clone()))?;
    Ok((device, attached))
}

/// The device that `look` finds in time.
fn appears(what: &str, look: impl Fn() -> Option<Utf8PathBuf>) -> Result<Utf8PathBuf, GuestError> {
    let mut found = None;
    host::wait::wait_until(PATIENCE, || {
        found = look();
        found.is_some()
    });
    found.ok_or_else(|| GuestError::Device(format!("the guest has no {what}")))
}

/// Within a guest: makes the file system of a stack known to the kernel, and what its device takes.
///
/// # Errors
/// As [`modules::load`].
pub fn load_modules(spec: &StackSpec) -> Result<(), GuestError> {
    if spec.is_ublk() {
        modules::load(UBLK_MODULE, "")?;
    }
    match spec.fs() {
        spec::FsKind::Ext2 | spec::FsKind::Ext3 => modules::load("ext4", ""),
        fs => modules::load(fs.name(), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_guests_are_read() {
        let spec = |text: &str| text.parse::<StackSpec>().unwrap();
        let of = |text: &str| match spec(text).device() {
            Device::Emulated { size, args, .. } => null(*size, args).unwrap(),
            other => panic!("{other:?}"),
        };
        let plain = NullBlkSpec { bytes: NULL_BYTES, answer_ns: 80_000, cache_mib: 64, queues: 1 };
        assert_eq!(of("ext4@null"), plain);
        assert_eq!(
            of("ext4@null(1ms,cache=0,queues=4):64M"),
            NullBlkSpec { bytes: 64 << 20, answer_ns: 1_000_000, cache_mib: 0, queues: 4 }
        );
        for bad in [
            "ext4@null(fast)",
            "ext4@null(queues=0)",
            "ext4@nvme(80us)",
            "ext4@nvme(queues=17)",
            "ext4@null:none",
            "ext4@null(5)",
        ] {
            assert!(check(&spec(bad)).is_err(), "{bad}");
        }
        assert!(check(&spec("ext4@860evo(scale=2)")).is_ok());
        let of = |text: &str| match spec(text).device() {
            Device::Emulated { size, args, .. } => remote(*size, args),
            other => panic!("{other:?}"),
        };
        let (network, null) = of("ext4@remote(1ms,100Mbit,queues=4):64M").unwrap();
        assert_eq!(network, Network { delay_us: 1000, rate_kbit: Some(100_000), queues: 4 });
        assert_eq!(null, NullBlkSpec { bytes: 64 << 20, queues: 4, ..plain });
        let (network, null) = of("xfs@remote").unwrap();
        assert_eq!(network, Network { delay_us: 0, rate_kbit: None, queues: 0 });
        assert_eq!(null, plain);
        // tc knows no nanoseconds
        for bad in ["ext4@remote(500ns)", "ext4@remote(0gbit)", "ext4@remote(far)", "ext4@remote(cache=0)"] {
            assert!(check(&spec(bad)).is_err(), "{bad}");
        }
        assert!(is_guests(&spec("ext4@remote(200us)")) && !is_hosts(&spec("ext4@remote")));
        assert_eq!(disk(&spec("xfs@nvme:2G")), Some(Disk { bytes: 2 << 30, queues: None }));
        let three = spec("xfs@nvme(queues=3):1G");
        assert_eq!((disk(&three), cores(&three)), (Some(Disk { bytes: 1 << 30, queues: Some(3) }), 3));
        assert!(check(&three).is_ok() && disk(&spec("xfs@null(queues=2)")).is_none());
        assert_eq!((cores(&spec("xfs@remote(queues=2)")), cores(&spec("xfs@860evo"))), (2, 1));
        let ublk = spec("xfs@860evo(transport=ublk,queues=3)");
        assert!(ublk.is_ublk() && cores(&ublk) == 3 && !is_guests(&ublk));
        assert!(
            is_hosts(&spec("xfs@nvme")) && is_guests(&spec("xfs@null")) && !is_guests(&spec("xfs@860evo"))
        );
    }
}
