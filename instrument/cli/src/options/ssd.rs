//! Options of `ssd`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// What to do with emulated SSDs.
#[derive(Debug, Subcommand)]
pub enum Ssd {
    /// Start one and print its block device
    Attach(SsdAttach),
    /// Stop one; its contents are lost unless they are in a file
    Detach(SsdDetach),
    /// List the ones that are attached
    #[command(after_help = "Examples:\n  loadline ssd list")]
    List,
    /// Counters: write amplification, cache hits, erases, queue depths (Prometheus text)
    Stats(SsdName),
    /// Have some of its requests fail, counted from now on
    Fail(SsdFail),
    /// Make what is recorded of a device readable up to now, behind a mark if one is given
    Record(SsdRecord),
    /// Cut its power: freeze it and write what a reboot would find into an image file
    PowerCut(SsdPowerCut),
}

/// Options of `ssd attach`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline ssd attach --profile 980pro --size 8G
  loadline ssd attach --profile 860evo --size 4G --name slow --time-scale 2
  loadline ssd attach --profile 980pro --size 1G --record writes.log
  dev=$(loadline ssd attach --profile ideal --size 2G) && mkfs.ext4 $dev && mount $dev /mnt
Profiles: 860evo, 980pro, optane, plp-datacenter, hdd, ideal, or a TOML file (docs/ssd.md).")]
pub struct SsdAttach {
    /// Model of the device
    #[arg(long)]
    pub profile: String,
    /// Size, such as 8G
    #[arg(long, value_name = "SIZE")]
    pub size: String,
    /// A name for the other commands [default: the profile, its other signs as `-`: slow-1ms-1GB-s]
    #[arg(long)]
    pub name: Option<String>,
    /// Ordering contract: none, flush, barrier or streams
    #[arg(long, default_value = "flush")]
    pub regime: String,
    /// Modelled times are multiplied by this
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub time_scale: f64,
    /// Where the contents are: `ram`, or a file; one that exists is attached as it is and must have the device's size
    #[arg(long, value_name = "ram|FILE", default_value = "ram")]
    pub backing: String,
    /// What a flush costs that stands in for FUA: `modelled` (a FUA write of the device) or `flush`
    #[arg(long, value_name = "modelled|flush", default_value = "modelled")]
    pub fua: String,
    /// The way to the daemon: classic (/dev/fuse), uring (FUSE over io_uring), auto: uring where the kernel's
    /// switch is on, or fastest: uring where it works; or ublk, without FUSE and loop device and with FUA (Linux 6.4)
    #[arg(long, default_value = "auto")]
    pub transport: String,
    /// Hardware queues of the block device; more than one with --transport ublk only
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub queues: u16,
    /// A request that fails with EIO: flush:3, write:1000+, read@64 (docs/blockdev.md); can be repeated
    #[arg(long, value_name = "FAULT")]
    pub fail: Vec<ssd::Fault>,
    /// Record every write, discard and flush in this new file (docs/blockdev.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
}

/// Options of `ssd detach`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  loadline ssd detach 980pro\n  loadline ssd detach /dev/loop0")]
pub struct SsdDetach {
    /// Its name, or the block device that `attach` printed
    pub name: String,
    /// Even when it is in use: whoever uses it gets I/O errors
    #[arg(long)]
    pub force: bool,
}

/// Names an emulated SSD.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  loadline ssd stats 980pro\n  loadline ssd stats /dev/loop0")]
pub struct SsdName {
    /// Its name, or the block device that `attach` printed
    pub name: String,
}

/// Options of `ssd fail`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  loadline ssd fail 980pro flush:1\n  loadline ssd fail 980pro write:100+ read@64\n  loadline ssd fail 980pro"
)]
pub struct SsdFail {
    /// Its name, or the block device that `attach` printed
    pub name: String,
    /// What fails: flush:3, write:1000+, read@64 (docs/blockdev.md); in place of what was told before
    pub faults: Vec<ssd::Fault>,
}

/// Options of `ssd record`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  loadline ssd record 980pro\n  loadline ssd record 980pro --mark 'after the fsync'"
)]
pub struct SsdRecord {
    /// Its name, or the block device that `attach` printed
    pub name: String,
    /// Text to stand behind all that was answered before
    #[arg(long, value_name = "TEXT")]
    pub mark: Option<String>,
}

/// Options of `ssd power-cut`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  loadline ssd power-cut 980pro after.img")]
pub struct SsdPowerCut {
    /// Its name, or the block device that `attach` printed
    pub name: String,
    /// The image file to write, which must not exist
    #[arg(value_hint = ValueHint::FilePath)]
    pub image: PathBuf,
}
