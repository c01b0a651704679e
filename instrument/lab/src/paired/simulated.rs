//! The cells of a plan in virtual time: what the policy does on a simulated device, page cache and read-ahead.
//!
//! No library is loaded and no device emulated: it takes no root, no quiet machine and little time, and the same plan
//! gives the same figures. What the simulator does not know (processors that are busy, the kernel's own queues) it
//! does not tell.

use analysis::paired::{Cell, Key};
use apps::prefetch::patterns::Pattern;
use prefetch::Mode;
use prefetch::sim::{Late, MachineOptions, Noise, Outcome, Trace, replay};
use stats::Histogram;
use stats::harmless::{CellVerdict, Figure, Pair, gain, tail};

use super::PairedError;
use super::plan::{Device, Plan};

/// Without a limit the page cache holds the file so many times.
const UNLIMITED: u64 = 10;
/// The longest request of the simulated device, bytes: Linux's usual max_sectors_kb.
const REQUEST_BYTES: u64 = 1 << 20;
/// The judge's sign test asks for five. Without noise a simulated cell is one round that would be the same again.
const ROUNDS: usize = 5;
/// What is late with [`Noise`]: one read in a hundred that waits, one request in a thousand.
const READER: Late = Late { one_in: 100, mean_ns: 1_000_000 };
const SERVED: Late = Late { one_in: 1000, mean_ns: 10_000_000 };

/// The cells of a plan, in its order. `noisy`: readers and device are late now and then, as on a machine with few processors;
/// both sides by the same law.
///
/// # Errors
/// A device that is not of one latency and one bandwidth; a pattern that is not known; whatever `tell` says.
pub fn cells(
    plan: &Plan,
    noisy: bool,
    tell: &mut dyn FnMut(&Cell) -> Result<(), PairedError>,
) -> Result<Vec<Cell>, PairedError> {
    plan.check_sizes()?;
    let mut cells = Vec::new();
    for device in &plan.devices {
        let machine = machine(device)?;
        for (key, pattern) in plan.keys().into_iter().filter(|(key, _)| key.device == device.name) {
            let mode = plan.library.mode.unwrap_or(Mode::AppOnly);
            let cell = cell(key, pattern, device, &machine, mode, noisy.then_some(cells.len() as u64))?;
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
    seed: Option<u64>,
) -> Result<Cell, PairedError> {
    let size = device.mib << 20;
    let limit = key.memory.map(|percent| size * percent / 100);
    let machine = MachineOptions { memory_bytes: limit.unwrap_or(size * UNLIMITED), ..*machine };
    let trace = trace(pattern, size)
        .ok_or_else(|| PairedError::Input(format!("{}: no such pattern", pattern.name)))?;
    let run = |mode, number: u64| match seed {
        None => replay(&trace, &machine, mode),
        Some(seed) => {
            let seed = (seed * 1000 + number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let noise = Noise { seed, reader: READER, device: SERVED };
            replay(&Trace { noise, ..trace.clone() }, &machine, mode)
        }
    };
    let round = |at: usize| Pair {
        baseline: run(Mode::AppOnly, 2 * at as u64),
        candidate: run(mode, 2 * at as u64 + 1),
    };
    let rounds: Vec<_> = (0..if seed.is_some() { ROUNDS } else { 1 }).map(round).collect();
    let all = || rounds.iter().cycle().take(ROUNDS);
    let walls: Vec<_> = all().map(|pair| pair.map(|run| run.elapsed_ns as f64 / 1e9)).collect();
    let times: Vec<_> = rounds.iter().map(|pair| pair.map(|run| times(run, seed.is_some()))).collect();
    let times: Vec<_> = times.iter().cycle().take(ROUNDS).map(|pair| pair.map(|times| times)).collect();
    let ((wall, speed), tail) = (gain(&walls)?, tail(&times)?);
    let CellVerdict { verdict, strict } = CellVerdict::of(&wall, speed, &tail);
    Ok(Cell {
        key: Key { device: format!("simulated {}", key.device), ..key },
        verdict,
        strict,
        rounds: rounds.len(),
        wall,
        p99: Figure { sides: tail.figure.sides.map(|ns| ns / 1e6), ..tail.figure },
        limit_mib: limit.unwrap_or(0) as f64 / f64::from(1 << 20),
        peak_mib: Pair::default(),
    })
}

/// How long the reads took; without noise p99 alone, exactly: as if all reads had taken so long.
fn times(run: &Outcome, noisy: bool) -> Histogram {
    if noisy { run.reads_ns.iter().copied().collect() } else { std::iter::once(run.p99_ns).collect() }
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
        let cells = super::cells(&plan, false, &mut |_| {
            told += 1;
            Ok(())
        });
        let cells = cells.unwrap();
        assert_eq!((cells.len(), told), (4, 4));
        assert_eq!(cells[0].key.device, "simulated slow(1ms,1GB/s)");
        assert_eq!(cells[0].verdict, Verdict::Harmless);
        assert!(cells[0].wall.ratio.value > 4.0, "{:?}", cells[0]);
        assert_eq!(cells[1].limit_mib, 32.0);
        assert_eq!(super::cells(&plan, false, &mut |_| Ok(())).unwrap(), cells);
        let noisy = super::cells(&plan, true, &mut |_| Ok(())).unwrap();
        assert!(noisy[0].rounds == 5 && noisy[0].wall.sides.baseline > cells[0].wall.sides.baseline);
        assert_eq!(super::cells(&plan, true, &mut |_| Ok(())).unwrap(), noisy);
        // 64 bursts of a thread, 5 ms of computing before each
        assert!(cells[2].wall.sides.candidate > 0.1, "{:?}", cells[2]);
    }

    #[test]
    fn what_cannot_be_simulated_is_refused_with_a_remedy() {
        for device in ["raw", "860evo"] {
            let refused =
                super::cells(&plan(&[device], "seq"), false, &mut |_| Ok(())).unwrap_err().to_string();
            assert!(refused.contains("slow(1ms,1GB/s)"), "{refused}");
        }
    }
}
