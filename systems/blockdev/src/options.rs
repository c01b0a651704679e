//! What a device should be, and where its files lie.

use std::fs::File;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use host::ProcessId;
use host::place::PrivateDir;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use ssd::{Fault, Regime};

use crate::error::SsdError;
use crate::transport::Transport;

/// Most signs of a device's name.
pub const NAME_MAX: usize = 40;

/// Where the bytes lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backing {
    /// Anonymous memory, locked as far as it is used; gone with the device.
    Ram,
    /// A file, made if missing; [`BackingUse`] says what becomes of one that exists.
    File(Utf8PathBuf),
}

/// Most hardware queues of a device: each has a thread.
const QUEUES_MAX: u16 = 16;

/// What may become of a backing file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackingUse {
    /// Its contents are the device's and stay: a file that exists must be as large as the device and in nobody's use,
    /// and is never grown, cut or emptied; one that is missing is made, and stays when the device goes.
    #[default]
    Keep,
    /// The device is about to be formatted, as by a run: a file that is missing is made, recorded in the journal before
    /// it exists, and goes with the device. One that exists is somebody else's, and is emptied only if `erase` names
    /// it.
    Overwrite {
        /// What the user has named with `--erase`.
        erase: Option<Utf8PathBuf>,
    },
}

/// What a flush costs that stands in for the FUA flag of a write, which loop devices cannot carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FuaMode {
    /// As much as makes write and flush last as long as the profile's FUA write. It makes durable what any flush
    /// does. Known are the journal commits of ext4, log records of XFS and superblocks of btrfs; any other flush,
    /// such as that of an O_DSYNC write, costs a flush. On ublk nothing stands in: the device has FUA.
    #[default]
    Modelled,
    /// As much as any flush. On ublk: the device has no FUA, and the kernel sends a flush of its own.
    Flush,
}

impl FuaMode {
    /// The mode of a name, `modelled` or `flush`.
    pub fn parse(name: &str) -> Option<FuaMode> {
        [FuaMode::Modelled, FuaMode::Flush].into_iter().find(|mode| mode.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            FuaMode::Modelled => "modelled",
            FuaMode::Flush => "flush",
        }
    }
}

/// A device to attach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttachOptions {
    /// Letters, digits, `-`, `_`; at most [`NAME_MAX`].
    pub name: String,
    /// Profile: a built-in name such as `980pro`, or a path of a TOML file (with a `/` or `.toml`).
    pub profile: String,
    /// Capacity in bytes, a multiple of 4096.
    pub bytes: u64,
    /// Ordering contract.
    pub regime: Regime,
    /// Device time passes this many times slower than real time; 0.01 ..= 10,000.
    pub time_scale: f64,
    /// Where the bytes lie.
    pub backing: Backing,
    /// What may become of them, if they lie in a file.
    #[serde(default)]
    pub backing_use: BackingUse,
    /// Seed of everything random in the model.
    pub seed: u64,
    /// Touch all memory at once (`ram` only): no write ever waits for memory.
    pub prefault: bool,
    /// Let answers leave earlier by the measured time of the way through loop and FUSE, so that programs see
    /// the modelled latency and not the sum of both.
    pub compensate: bool,
    /// Threads that take requests from the kernel, 1 ..= 16.
    pub threads: usize,
    /// Keep idle CPUs from sleeping while requests come (until a second after the last), so that waking them is
    /// not part of every latency. They poll meanwhile: the machine looks busy.
    #[serde(default = "yes")]
    pub keep_awake: bool,
    /// The way from the kernel to the daemon.
    #[serde(default)]
    pub transport: Transport,
    /// What stands in for FUA; on ublk, whether the device has it.
    #[serde(default)]
    pub fua: FuaMode,
    /// Hardware queues of the block device; more than one needs [`Transport::Ublk`]. The kernel makes as many as there are
    /// CPUs at most.
    #[serde(default = "one")]
    pub queues: u16,
    /// Reads, writes and flushes that fail with EIO, counted from the device's beginning; see [`crate::fail`] for some that are
    /// counted from later on.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Record every write, discard and flush in this new file; see [`crate::record`].
    #[serde(default)]
    pub record: Option<Utf8PathBuf>,
    /// The device goes when this process is gone and nothing uses it any more; `None`: it stays until it is detached.
    #[serde(default)]
    pub owner: Option<ProcessId>,
}

impl AttachOptions {
    /// A device in memory with regime `flush`, real time, compensated transport.
    pub fn new(name: &str, profile: &str, bytes: u64) -> AttachOptions {
        AttachOptions {
            name: name.to_owned(),
            profile: profile.to_owned(),
            bytes,
            regime: Regime::Flush,
            time_scale: 1.0,
            backing: Backing::Ram,
            backing_use: BackingUse::Keep,
            seed: 0,
            prefault: false,
            compensate: true,
            threads: 2,
            keep_awake: true,
            transport: Transport::default(),
            fua: FuaMode::Modelled,
            queues: 1,
            faults: Vec::new(),
            record: None,
            owner: None,
        }
    }

    /// Checks ranges and the profile.
    ///
    /// # Errors
    /// [`SsdError::BadName`], [`SsdError::BadOption`], [`SsdError::Model`].
    pub fn validate(&self) -> Result<(), SsdError> {
        check_name(&self.name)?;
        let bad = |what: String| Err(SsdError::BadOption { what });
        if !(0.01..=10_000.0).contains(&self.time_scale) {
            return bad(format!("time scale {}: must be between 0.01 and 10000", self.time_scale));
        }
        if !(1..=16).contains(&self.threads) {
            return bad(format!("{} threads: must be between 1 and 16", self.threads));
        }
        if self.bytes == 0 || !self.bytes.is_multiple_of(ssd::BLOCK_BYTES) {
            return bad(format!("size of {} bytes: must be a positive multiple of 4096", self.bytes));
        }
        if !(1..=QUEUES_MAX).contains(&self.queues) {
            return bad(format!("{} queues: must be between 1 and {QUEUES_MAX}", self.queues));
        }
        if self.queues > 1 && self.transport != Transport::Ublk {
            return bad(format!(
                "{} queues: a loop device has one; several need transport ublk",
                self.queues
            ));
        }
        self.load_profile().map(|_| ())
    }

    pub(crate) fn load_profile(&self) -> Result<ssd::Profile, SsdError> {
        let profile = if is_path(&self.profile) {
            let text = std::fs::read_to_string(&self.profile)
                .map_err(SsdError::io(format!("read profile {}", self.profile)))?;
            ssd::Profile::parse(&self.profile, &text)
        } else {
            ssd::Profile::named(&self.profile)
        };
        profile.map_err(|error| SsdError::Model(error.into()))
    }
}

/// Whether a profile is a file's path; the rate of `slow(1ms,1GB/s)` has a slash too.
pub(crate) fn is_path(profile: &str) -> bool {
    !profile.starts_with("slow(") && (profile.contains('/') || profile.ends_with(".toml"))
}

fn yes() -> bool {
    true
}

pub(crate) fn one() -> u16 {
    1
}

pub(crate) fn check_name(name: &str) -> Result<(), SsdError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(plain) {
        return Err(SsdError::BadName { name: name.to_owned() });
    }
    Ok(())
}

/// Files of a device in its directory: what its daemon has made, what it was started with, what it says.
pub(crate) const STATE: &str = "state.json";
pub(crate) const CONFIG: &str = "config.json";
pub(crate) const LOG: &str = "daemon.log";

/// The places of one device below loadline's home directory.
#[derive(Clone, Debug)]
pub(crate) struct DevicePaths {
    pub(crate) dir: Utf8PathBuf,
    pub(crate) journal: Utf8PathBuf,
}

impl DevicePaths {
    pub(crate) fn new(home: &Utf8Path, name: &str) -> DevicePaths {
        DevicePaths { dir: home.join("ssd").join(name), journal: journal::Journal::folder(home) }
    }

    pub(crate) fn mount(&self) -> Utf8PathBuf {
        self.dir.join("mnt")
    }

    pub(crate) fn socket(&self) -> Utf8PathBuf {
        self.dir.join("control")
    }

    pub(crate) fn state(&self) -> Utf8PathBuf {
        self.dir.join(STATE)
    }

    pub(crate) fn config(&self) -> Utf8PathBuf {
        self.dir.join(CONFIG)
    }

    pub(crate) fn log(&self) -> Utf8PathBuf {
        self.dir.join(LOG)
    }

    /// The directory, if nobody else can have put anything there.
    pub(crate) fn folder(&self) -> io::Result<PrivateDir> {
        Ok(PrivateDir::open(&self.dir)?)
    }

    /// Says that somebody is at work on the device, as long as the file is open: who attaches it, and its daemon.
    pub(crate) fn hold(&self) -> io::Result<File> {
        let dir = File::open(&self.dir)?;
        flock(&dir, FlockOperation::LockShared)?;
        Ok(dir)
    }

    /// Whether somebody does.
    pub(crate) fn is_held(&self) -> bool {
        let locked = File::open(&self.dir).map(|dir| flock(&dir, FlockOperation::NonBlockingLockExclusive));
        matches!(locked, Ok(Err(Errno::WOULDBLOCK)))
    }

    /// Takes the device's own files away; never goes into a mount.
    pub(crate) fn remove(&self) {
        for file in [self.socket(), self.state(), self.config(), self.log()] {
            let _ = std::fs::remove_file(file);
        }
        let _ = std::fs::remove_dir(self.mount());
        let _ = std::fs::remove_dir(&self.dir);
    }
}

/// What the daemon is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DaemonConfig {
    pub(crate) home: Utf8PathBuf,
    pub(crate) options: AttachOptions,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_options_are_told() {
        let good = AttachOptions::new("a-1", "980pro", 1 << 26);
        good.validate().unwrap();
        let says = |change: &dyn Fn(&mut AttachOptions), part: &str| {
            let mut options = good.clone();
            change(&mut options);
            let text = options.validate().unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        };
        says(&|o| o.name = "../x".into(), "device name");
        says(&|o| o.profile = "floppy".into(), "980pro");
        says(&|o| o.profile = "/nowhere/x.toml".into(), "/nowhere/x.toml");
        says(&|o| o.bytes = 4097, "multiple of 4096");
        says(&|o| o.time_scale = f64::NAN, "time scale");
        says(&|o| o.threads = 0, "threads");
        says(&|o| o.queues = 2, "transport ublk");
        says(&|o| (o.queues, o.transport) = (17, Transport::Ublk), "between 1 and 16");
    }
}
