//! The cells of a plan in virtual time: what the policy does on a simulated device, page cache and read-ahead.
//!
//! No library is loaded and no device emulated: it takes no root, no quiet machine and little time, and the same plan
//! gives the same figures. What the simulator does not know (processors that are busy, the kernel's own queues) it
//! does not tell.

use analysis::paired::{Cell, Key};
use apps::prefetch::patterns::Pattern;
use prefetch::Mode;
use prefetch::sim::{MachineOptions, Outcome, Trace, replay};
use stats::Histogram;
use stats::harmless::{CellVerdict, Figure, Pair, gain, tail};

use super::PairedError;
use super::plan::{Device, Plan};

/// Without a limit the page cache holds the file so many times.
const UNLIMITED: u64 = 10;
/// The longest request of the simulated device, bytes: Linux's usual max_sectors_kb.
const REQUEST_BYTES: u64 = 1 << 20;
/// A simulated cell is one round that would be the same again; the judge's sign test asks for five.
const ROUNDS: usize = 5;

/// The cells of a plan, in its order.
///
/// # Errors
/// A device that is not of one latency and one bandwidth; a pattern that is not known; whatever `tell` says.
pub fn cells(
    plan: &Plan,
    tell: &mut dyn FnMut(&Cell) -> Result<(), PairedError>,
) -> Result<Vec<Cell>, PairedError> {
    plan.check_sizes()?;
    let mut cells = Vec::new();
    for device in &plan.devices {
        let machine = machine(device)?;
        for (key, pattern) in plan.keys().into_iter().filter(|(key, _)| key.device == device.name) {
            let cell = cell(key, pattern, device, &machine, plan.library.mode.unwrap_or(Mode::AppOnly))?;
            tell(&cell)?;
            cells.push(cell);
        }
    }
    Ok(cells)
}

fn machine(device: &Device) -> Result<MachineOptions, PairedError> {
    let Device { name, readahead_kib, .. } = device;
    let simple = name.starts_with("slow(").then(|| ssd::Profile::named(name).ok()).flatten();
    let host = simple.map(|profile| profile.host).ok_or_else(|| {
        PairedError::Input(format!(
            "{name}: only devices such as slow(1ms,1GB/s) are simulated; choose some with --devices"
        ))
    })?;
    Ok(MachineOptions {
        latency_ns: host.read_ns,
        bandwidth: host.read_bytes_per_s,
        readahead_bytes: readahead_kib << 10,
        memory_bytes: 0,
        request_bytes: REQUEST_BYTES,
        request_ns: 0,
    })
}

fn cell(
    key: Key,
    pattern: &Pattern,
    device: &Device,
    machine: &MachineOptions,
    mode: Mode,
) -> Result<Cell, PairedError> {
    let size = device.mib << 20;
    let limit = key.memory.map(|percent| size * percent / 100);
    let machine = MachineOptions { memory_bytes: limit.unwrap_or(size * UNLIMITED), ..*machine };
    let trace = trace(pattern, size)
        .ok_or_else(|| PairedError::Input(format!("{}: no such pattern", pattern.name)))?;
    let sides =
        Pair { baseline: replay(&trace, &machine, Mode::AppOnly), candidate: replay(&trace, &machine, mode) };
    let walls = [sides.map(|run| run.elapsed_ns as f64 / 1e9); ROUNDS];
    let times = sides.map(p99_only);
    let ((wall, speed), tail) = (gain(&walls)?, tail(&[times.map(|times| times); ROUNDS])?);
    let CellVerdict { verdict, strict } = CellVerdict::of(&wall, speed, &tail);
    Ok(Cell {
        key: Key { device: format!("simulated {}", key.device), ..key },
        verdict,
        strict,
        rounds: 1,
        wall,
        p99: Figure { sides: tail.figure.sides.map(|ns| ns / 1e6), ..tail.figure },
        limit_mib: limit.unwrap_or(0) as f64 / f64::from(1 << 20),
        peak_mib: Pair::default(),
    })
}

/// The simulator tells p99 alone: as if all reads had taken so long.
fn p99_only(run: &Outcome) -> Histogram {
    std::iter::once(run.p99_ns).collect()
}

fn trace(pattern: &Pattern, size: u64) -> Option<Trace> {
    let threads = (0..pattern.threads).map(|thread| pattern.reads(size, thread));
    let threads = threads.collect::<Option<Vec<_>>>()?;
    let nanos = |work: std::time::Duration| work.as_nanos() as u64;
    Some(Trace {
        size,
        shared: pattern.shared,
        pauses_ns: threads.iter().map(|reads| reads.iter().map(|read| nanos(read.work)).collect()).collect(),
        threads: threads
            .iter()
            .map(|reads| reads.iter().map(|read| (read.offset, read.len)).collect())
            .collect(),
        ..Trace::default()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use apps::prefetch::{Library, patterns};
    use stats::harmless::Verdict;

    use super::super::Budget;
    use super::*;

    fn plan(devices: &[&str], patterns: &str) -> Plan {
        Plan {
            devices: devices.iter().map(|name| Device::new((*name).into(), 64, 128)).collect(),
            patterns: patterns::list(patterns).unwrap(),
            memory: vec![None, Some(50)],
            effort: Budget { rounds: 5, rounds_max: 15, time: Duration::from_secs(60) },
            time: Duration::MAX,
            held_out: None,
            directory: ".".into(),
            library: Library { path: "/lib.so".into(), mode: Some(Mode::Auto) },
            home: "/home".into(),
        }
    }

    #[test]
    fn a_far_reader_backwards_gains_in_virtual_time_and_always_as_much() {
        let plan = plan(&["slow(1ms,1GB/s)"], "reverse:1,burst:2");
        let mut told = 0;
        let cells = super::cells(&plan, &mut |_| {
            told += 1;
            Ok(())
        });
        let cells = cells.unwrap();
        assert_eq!((cells.len(), told), (4, 4));
        assert_eq!(cells[0].key.device, "simulated slow(1ms,1GB/s)");
        assert_eq!(cells[0].verdict, Verdict::Harmless);
        assert!(cells[0].wall.ratio.value > 4.0, "{:?}", cells[0]);
        assert_eq!(cells[1].limit_mib, 32.0);
        assert_eq!(super::cells(&plan, &mut |_| Ok(())).unwrap(), cells);
        // 64 bursts of a thread, 5 ms of computing before each
        assert!(cells[2].wall.sides.candidate > 0.1, "{:?}", cells[2]);
    }

    #[test]
    fn what_cannot_be_simulated_is_refused_with_a_remedy() {
        for device in ["raw", "860evo"] {
            let refused = super::cells(&plan(&[device], "seq"), &mut |_| Ok(())).unwrap_err().to_string();
            assert!(refused.contains("slow(1ms,1GB/s)"), "{refused}");
        }
    }
}
