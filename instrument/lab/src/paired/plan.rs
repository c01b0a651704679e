//! What is measured: patterns, devices, sizes of memory, limits of time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use analysis::paired::{Cell, Key, OFF};
use apps::prefetch::Library;
use apps::prefetch::patterns::Pattern;
use camino::Utf8PathBuf;
use host::Host;
use spec::StackSpec;
use stack::DirectoryInfo;

use super::{Budget, PairedError, with_path};

const DEVICES: &str = "raw,slow(100us,3GB/s),slow(1ms,1GB/s),slow(20ms,400MB/s),slow(1ms,250MB/s)";
/// Once kept from those who chose the policy's constants; known by now.
const RETIRED_DEVICES: &str = "slow(300us,600MB/s),slow(5ms,200MB/s)";
/// The device that is this machine's own file system.
pub const RAW: &str = "raw";
/// File systems without a device to read from.
const IN_MEMORY: [&str; 5] = ["tmpfs", "devtmpfs", "ramfs", "proc", "sysfs"];
/// A run may take so long at least.
const RUN_TIME_MIN: Duration = Duration::from_secs(60);
/// The least file that every pattern is something on, MiB.
const LEAST_MIB: u64 = 16;

/// What is measured, and with what.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What is read from.
    pub devices: Vec<Device>,
    /// The patterns.
    pub patterns: Vec<Pattern>,
    /// Percent of the file that fit into memory.
    pub memory: Vec<Option<u64>>,
    /// How often each cell is measured, and how long it may take to be told.
    pub effort: Budget,
    /// No cell begins after so long.
    pub time: Duration,
    /// The seed that devices and patterns were drawn from.
    pub held_out: Option<u64>,
    /// Where the file of [`RAW`] lies.
    pub directory: PathBuf,
    /// What is with the candidate.
    pub library: Library,
    /// Where loadline keeps its state.
    pub home: Utf8PathBuf,
}

/// A device and the file on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// [`RAW`], or a profile of the emulated SSD.
    pub name: String,
    /// Size of the file, MiB.
    pub mib: u64,
    /// The kernel's read-ahead window, KiB; [`RAW`] keeps its own.
    pub readahead_kib: u64,
}

impl Device {
    /// A device with a file of `mib` MiB; far ones, of tens of milliseconds, get a quarter.
    pub fn new(name: String, mib: u64, readahead_kib: u64) -> Device {
        // Too little is refused as it was said.
        let far = name.contains("0ms") && mib >= LEAST_MIB;
        Device { mib: if far { (mib / 4).max(LEAST_MIB) } else { mib }, name, readahead_kib }
    }
}

/// Reads `matrix`, `retired`, `known` (both), or a list of devices separated by commas outside of parentheses.
///
/// # Errors
/// [`PairedError::Input`] for the word of old.
pub fn devices(text: &str) -> Result<Vec<String>, PairedError> {
    let text = match text {
        "matrix" => DEVICES,
        "retired" => RETIRED_DEVICES,
        "known" => return Ok([devices("matrix")?, devices("retired")?].concat()),
        "held-out" => {
            let why = "these devices are known by now: say `retired`, or draw new ones with --held-out SEED";
            return Err(PairedError::Input(format!("{text}: {why}")));
        }
        names => names,
    };
    let mut depth = 0;
    let split = text.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    Ok(split.map(str::to_owned).collect())
}

/// Reads percents of the file, and `none` for no limit.
///
/// # Errors
/// [`PairedError::Input`] for what is neither.
pub fn memory(text: &str) -> Result<Vec<Option<u64>>, PairedError> {
    let percent = |word: &str| match word.trim_end_matches('%').parse() {
        _ if word == "none" => Ok(None),
        Ok(percent) if percent > 0 => Ok(Some(percent)),
        _ => {
            Err(PairedError::Input(format!("{word}: say percents of the file, or none, such as none,50,25")))
        }
    };
    text.split(',').map(percent).collect()
}

impl Plan {
    /// Whether all of it makes sense and can be done here.
    ///
    /// # Errors
    /// Says what to change.
    pub fn check(&self) -> Result<(), PairedError> {
        self.check_as(rustix::process::geteuid().is_root())
    }

    /// As [`Plan::check`], for root or for somebody else.
    fn check_as(&self, root: bool) -> Result<(), PairedError> {
        self.check_sizes()?;
        let emulated = self.devices.iter().find(|device| device.name != RAW);
        if let Some(Device { name, .. }) = emulated.filter(|_| !root) {
            return Err(PairedError::CannotHere(format!(
                "{name}: emulated devices are attached and mounted by root; without root say --devices raw --memory none, or --simulate"
            )));
        }
        if self.memory.iter().any(Option::is_some) && !root {
            return Err(PairedError::CannotHere(
                "memory is limited by root only; without root say --memory none".into(),
            ));
        }
        self.devices.iter().try_for_each(|device| self.stack(device).map(drop))
    }

    /// Whether every pattern is something on the files.
    ///
    /// # Errors
    /// Says what to change.
    pub(super) fn check_sizes(&self) -> Result<(), PairedError> {
        match self.devices.iter().find(|device| device.mib < LEAST_MIB) {
            Some(Device { mib, .. }) => {
                let why = format!("the patterns need {LEAST_MIB} at least");
                Err(PairedError::Input(format!("--mib {mib}: {why}")))
            }
            None => Ok(()),
        }
    }

    /// What a device is as a stack: the directory itself, or ext4 on an emulated SSD.
    ///
    /// # Errors
    /// The directory is none that is read from a device; the profile is not known.
    pub(super) fn stack(&self, device: &Device) -> Result<StackSpec, PairedError> {
        let Device { name: device, mib, .. } = device;
        let wrong = |why: &dyn std::fmt::Display| PairedError::Input(format!("{device}: {why}"));
        let spec = if device == RAW {
            format!("dir:\"{}\"", on_disk(&self.directory)?)
        } else {
            format!("ext4@{device}:{}M", (mib * 2).max(256))
        };
        let spec: StackSpec = spec.parse().map_err(|error| wrong(&error))?;
        match stack::emulated::options(&spec, "asked").map_err(|error| wrong(&error))? {
            None if device != RAW => Err(wrong(&"not an emulated device")),
            _ => Ok(spec),
        }
    }

    /// How long a single run may take: a program that thrashes ends when nobody waits for it any more.
    pub(super) fn run_time(&self) -> Duration {
        self.effort.time.max(RUN_TIME_MIN)
    }

    /// The cells of the matrix, in order.
    pub fn keys(&self) -> Vec<(Key, &Pattern)> {
        let mode = self.library.mode.map_or(OFF, |mode| mode.name());
        let mut keys = Vec::new();
        for Device { name, mib, readahead_kib } in &self.devices {
            for pattern in &self.patterns {
                keys.extend(self.memory.iter().map(|&memory| {
                    let key = Key {
                        device: name.clone(),
                        pattern: pattern.title(),
                        memory,
                        mode: mode.to_owned(),
                        mib: *mib,
                        readahead_kib: if name == RAW { 0 } else { *readahead_kib },
                        held_out: self.held_out,
                    };
                    (key, pattern)
                }));
            }
        }
        keys
    }

    /// The cells of this plan, in its order; those of other plans are left out.
    pub fn sorted(&self, mut cells: Vec<Cell>) -> Vec<Cell> {
        let order: Vec<Key> = self.keys().into_iter().map(|(key, _)| key).collect();
        cells.retain(|cell| order.contains(&cell.key));
        cells.sort_by_key(|cell| order.iter().position(|key| *key == cell.key));
        cells
    }
}

/// The directory, if its files come from a device.
fn on_disk(directory: &Path) -> Result<Utf8PathBuf, PairedError> {
    let wrong = |why: &str| PairedError::Input(format!("--dir {}: {why}", directory.display()));
    if !directory.is_dir() {
        return Err(wrong("not a directory"));
    }
    let path = directory.canonicalize().map_err(with_path("find", directory))?;
    let path = Utf8PathBuf::from_path_buf(path).map_err(|_| wrong("not UTF-8; choose another"))?;
    if IN_MEMORY.contains(&DirectoryInfo::of(&Host::system(), &path).fs_type.as_str()) {
        return Err(wrong("lies in memory: nothing there is read from a device; name a directory on a disk"));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use apps::prefetch::patterns;

    use super::*;

    fn named(names: &[&str]) -> Vec<Device> {
        names.iter().map(|name| Device::new((*name).into(), 256, 128)).collect()
    }

    fn plan() -> Plan {
        Plan {
            devices: named(&["slow(1ms,1GB/s)", "slow(20ms,400MB/s)"]),
            patterns: patterns::list("seq,stride:1").unwrap(),
            memory: vec![None, Some(25)],
            effort: Budget { rounds: 5, rounds_max: 15, time: Duration::from_secs(60) },
            time: Duration::MAX,
            held_out: None,
            directory: ".".into(),
            library: Library { path: "/lib.so".into(), mode: None },
            home: "/home".into(),
        }
    }

    #[test]
    fn commas_within_parentheses_separate_nothing() {
        assert_eq!(devices("raw,slow(1ms,1GB/s)").unwrap(), ["raw", "slow(1ms,1GB/s)"]);
        let number = |text: &str| devices(text).unwrap().len();
        assert_eq!([number("matrix"), number("retired"), number("known")], [5, 2, 7]);
        assert!(devices("held-out").unwrap_err().to_string().contains("--held-out SEED"));
    }

    #[test]
    fn memory_is_percents_or_none() {
        assert!(memory("none,x").unwrap_err().to_string().contains("none,50,25"));
        assert!(memory("0").is_err());
        assert_eq!(memory("none,25,75%").unwrap(), [None, Some(25), Some(75)]);
    }

    #[test]
    fn every_device_pattern_and_size_of_memory_is_a_cell() {
        let plan = plan();
        let keys = plan.keys();
        assert_eq!(keys.len(), 8);
        assert_eq!((keys[0].0.mib, keys[0].0.memory, keys[0].0.mode.as_str()), (256, None, "off"));
        let last = &keys[7].0;
        assert_eq!((last.mib, last.pattern.as_str(), last.memory), (64, "stride, 1 thread", Some(25)));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_remedy() {
        let said = |plan: Plan| plan.check_as(true).unwrap_err().to_string();
        let small = vec![Device::new("slow(20ms,400MB/s)".into(), 8, 128)];
        assert!(said(Plan { devices: small, ..plan() }).contains("--mib 8: the patterns need 16"));
        for (device, hint) in [("980por", "980pro"), ("image", "not an emulated device"), ("a b", "a b: ")] {
            let said = said(Plan { devices: named(&[device]), ..plan() });
            assert!(said.contains(hint), "{device}: {said}");
        }
        let raw = || Plan { devices: named(&[RAW]), memory: vec![None], ..plan() };
        assert!(said(Plan { directory: "/nowhere".into(), ..raw() }).contains("--dir"));
        assert!(said(Plan { directory: "/proc".into(), ..raw() }).contains("--dir"));
        let said = |plan: Plan| plan.check_as(false).unwrap_err().to_string();
        assert!(said(plan()).contains("--devices raw"));
        assert!(said(Plan { memory: vec![Some(50)], ..raw() }).contains("--memory none"));
        let here = Plan { directory: env!("CARGO_MANIFEST_DIR").into(), ..raw() };
        assert!(here.check_as(false).is_ok() && plan().check_as(true).is_ok());
    }
}
