//! What is measured, and with what.

use std::path::PathBuf;
use std::time::Duration;

use prefetch::Mode;
use prefetch_os::launch;

use crate::pattern::RAW;
use crate::table::Key;
use crate::{HarmError, Pattern, at, is_root};

/// The mode in which the library is loaded and does nothing: every failure is a false alarm.
pub const OFF: &str = "off";
/// A run may take so long at least.
const RUN_TIME_MIN: Duration = Duration::from_secs(60);
/// The least file that every pattern is something on, MiB.
const LEAST_MIB: u64 = 16;

/// What is measured, and with what.
#[derive(Debug, Clone)]
pub struct Plan {
    /// [`RAW`] or profiles of the emulated SSD.
    pub devices: Vec<String>,
    /// The patterns.
    pub patterns: Vec<Pattern>,
    /// Percent of the file that fit into memory.
    pub memory: Vec<Option<u64>>,
    /// Pairs of runs of each cell at first.
    pub rounds: usize,
    /// And at most.
    pub rounds_max: usize,
    /// How long a cell may take to be told.
    pub cell_time: Duration,
    /// No cell begins after so long.
    pub time: Duration,
    /// Size of the file, MiB; see [`Plan::mib_of`].
    pub mib: u64,
    /// The kernel's read-ahead window of emulated devices, KiB.
    pub readahead_kib: u64,
    /// Mode of the library, or [`OFF`].
    pub mode: String,
    /// Where the file of [`RAW`] lies.
    pub directory: PathBuf,
    /// The library.
    pub library: PathBuf,
    /// The program that attaches emulated devices and reads.
    pub loadline: PathBuf,
    /// Where that keeps its state.
    pub home: PathBuf,
}

/// Finds the library: the one that was named, or where `loadline prefetch` finds it.
///
/// # Errors
/// There is none.
pub fn library(named: Option<&PathBuf>, program: &std::path::Path) -> Result<PathBuf, HarmError> {
    let found = named.map_or_else(|| launch::find_library(program), |path| Ok(path.clone()))?;
    found.canonicalize().map_err(at("find the library", &found))
}

impl Plan {
    /// Whether all of it makes sense and can be done here.
    ///
    /// # Errors
    /// Says what to change.
    pub fn check(&self) -> Result<(), HarmError> {
        self.check_as(is_root())
    }

    /// As [`Plan::check`], for root or for somebody else.
    fn check_as(&self, root: bool) -> Result<(), HarmError> {
        check_mode(&self.mode)?;
        if self.mib < LEAST_MIB {
            return Err(HarmError::Input(format!(
                "--mib {}: the patterns need {LEAST_MIB} at least",
                self.mib
            )));
        }
        let emulated = self.devices.iter().find(|device| *device != RAW);
        if let Some(device) = emulated.filter(|_| !root) {
            return Err(HarmError::CannotHere(format!(
                "{device}: emulated devices are attached and mounted by root; without root say --devices raw --memory none"
            )));
        }
        if self.memory.iter().any(Option::is_some) && !root {
            return Err(HarmError::CannotHere(
                "memory is limited by root only; without root say --memory none".into(),
            ));
        }
        if self.devices.iter().any(|device| device == RAW) {
            crate::device::check_directory(&self.directory)?;
        }
        Ok(())
    }

    /// Size of the file on a device, MiB: far ones, of tens of milliseconds, get a quarter.
    pub fn mib_of(&self, device: &str) -> u64 {
        if device.contains("0ms") { (self.mib / 4).max(LEAST_MIB) } else { self.mib }
    }

    /// How long a single run may take: a program that thrashes ends when nobody waits for it any more.
    pub fn run_time(&self) -> Duration {
        self.cell_time.max(RUN_TIME_MIN)
    }

    /// The cells of the matrix, in order.
    pub fn keys(&self) -> Vec<(Key, &Pattern)> {
        let mut keys = Vec::new();
        for device in &self.devices {
            for pattern in &self.patterns {
                keys.extend(self.memory.iter().map(|&memory| {
                    let (device, mode) = (device.clone(), self.mode.clone());
                    let mib = self.mib_of(&device);
                    (Key { mib, device, pattern: pattern.title(), memory, mode }, pattern)
                }));
            }
        }
        keys
    }
}

/// Whether it is a mode of the library, or [`OFF`].
pub(crate) fn check_mode(mode: &str) -> Result<(), HarmError> {
    if mode == OFF || Mode::parse(mode.as_bytes()).is_some() {
        return Ok(());
    }
    let known: Vec<_> = Mode::ALL.iter().map(|mode| mode.name()).chain([OFF]).collect();
    Err(HarmError::Input(format!("--mode {mode}: choose one of {}", known.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern;

    fn plan() -> Plan {
        Plan {
            devices: pattern::devices("slow(1ms,1GB/s),slow(20ms,400MB/s)"),
            patterns: pattern::patterns("seq,stride:1").unwrap(),
            memory: vec![None, Some(25)],
            rounds: 5,
            rounds_max: 15,
            cell_time: Duration::from_secs(60),
            time: Duration::MAX,
            mib: 256,
            readahead_kib: 128,
            mode: "auto".into(),
            directory: ".".into(),
            library: "/lib.so".into(),
            loadline: "/loadline".into(),
            home: "/home".into(),
        }
    }

    #[test]
    fn every_device_pattern_and_size_of_memory_is_a_cell() {
        let plan = plan();
        let keys = plan.keys();
        assert_eq!(keys.len(), 8);
        assert_eq!((keys[0].0.mib, keys[0].0.memory), (256, None));
        let last = &keys[7].0;
        assert_eq!((last.mib, last.pattern.as_str(), last.memory), (64, "stride, 1 thread", Some(25)));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_remedy() {
        let said = |plan: Plan| plan.check().unwrap_err().to_string();
        assert!(said(Plan { mode: "fast".into(), ..plan() }).contains("fetch-all"));
        assert!(said(Plan { mib: 8, ..plan() }).contains("16"));
        let raw = || Plan { devices: vec![RAW.into()], memory: vec![None], ..plan() };
        assert!(said(Plan { directory: "/nowhere".into(), ..raw() }).contains("--dir"));
        assert!(said(Plan { directory: "/proc".into(), ..raw() }).contains("--dir"));
        let said = |plan: Plan| plan.check_as(false).unwrap_err().to_string();
        assert!(said(plan()).contains("--devices raw"));
        assert!(said(Plan { memory: vec![Some(50)], ..raw() }).contains("--memory none"));
        assert!(raw().check_as(false).is_ok() && plan().check_as(true).is_ok());
    }
}
