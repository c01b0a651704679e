//! Programs that open one file after another: numbered ones, and those of a tree. What is fetched before they are opened
//! must gain, and must cost little where nothing comes of the order.

mod files;

use files::cells::{self, DEVICES};
use files::{Program, replay};

/// What each program whose order can be told gains at least, on every device. What one thread reads of the nearest one and
/// of one of 0.3 ms and 600 MB/s is bound by their bandwidth; four threads that read from 250 MB/s have it busy.
const LEAST: [(&str, f64); 11] = [
    ("series of 16 KiB", 6.0),
    ("series of 1 MiB", 2.2),
    ("series of 8 MiB", 2.2),
    ("series downward", 2.2),
    ("series, every third", 2.2),
    ("series, computing 3 ms", 1.3),
    ("series of four folders", 0.94),
    ("walk", 5.3),
    ("walk, computing 0.3 ms", 1.3),
    ("walk, every second", 1.3),
    ("walk of numbers as listed in no order", 3.4),
];

/// Of the programs of which nothing comes, the limit of `harm`.
const GAIN_LEAST: f64 = 0.97;

struct Cell {
    program: &'static str,
    /// What is said of it.
    text: String,
    gain: f64,
    /// p99 in multiples of that without.
    tail: f64,
    /// Bytes of the device in multiples of those without.
    bytes: f64,
}

impl Cell {
    /// By the strict rule of `harm`.
    fn fails(&self) -> bool {
        self.gain < GAIN_LEAST || self.tail > 1.1
    }
}

/// All programs on all devices. Memory does not limit them: that is another test's.
fn play(programs: &[(&'static str, Program)]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (name, program) in programs {
        for device in DEVICES {
            let options = cells::options(device, program, None);
            let (alone, helped) = (replay(program, &options, false), replay(program, &options, true));
            let gain = alone.elapsed_ns as f64 / helped.elapsed_ns as f64;
            let tail = helped.p99_ns as f64 / alone.p99_ns as f64;
            let bytes = helped.device_bytes as f64 / (alone.device_bytes as f64).max(1.0);
            let text = format!(
                "{name} on {}: gain {gain:.3}, p99 {tail:.3}, bytes {bytes:.3}, fetched {}",
                device.0, helped.fetched
            );
            println!("{text}");
            cells.push(Cell { program: name, text, gain, tail, bytes });
        }
    }
    cells
}

#[test]
fn files_in_an_order_are_there_before_they_are_opened() {
    let programs = cells::ordered();
    let named: Vec<&str> = programs.iter().map(|(name, _)| *name).collect();
    assert_eq!(named, LEAST.map(|(name, _)| name));
    for cell in play(&programs) {
        let (_, least) = LEAST.iter().find(|(name, _)| *name == cell.program).unwrap();
        assert!(cell.gain >= *least, "{least}: {}", cell.text);
        // A walk past files that are not opened costs no more than as many again.
        assert!(cell.bytes <= if cell.program == "walk, every second" { 2.0 } else { 1.01 }, "{}", cell.text);
    }
}

#[test]
fn what_only_looks_like_an_order_costs_little() {
    for cell in play(&cells::misleading()) {
        assert!(cell.gain >= GAIN_LEAST, "{}", cell.text);
        assert!(cell.bytes <= 1.6, "{}", cell.text);
    }
}

/// The cells that fail by the strict rule, nearly all by p99: what is fetched of a file arrives in long requests, for which
/// its first read waits, and on a device that is short of bandwidth that is longer than it was alone.
const FAILS_MOST: usize = 27;

#[test]
fn no_more_cells_fail_than_are_known_to() {
    let all = play(&cells::ordered()).into_iter().chain(play(&cells::misleading()));
    let fails: Vec<String> = all.filter(Cell::fails).map(|cell| cell.text).collect();
    assert!(fails.len() <= FAILS_MOST, "{}: {fails:#?}", fails.len());
}

/// What was fetched and is evicted before it is opened would be read twice.
#[test]
fn little_memory_is_not_fetched_over() {
    for (name, program) in cells::ordered().into_iter().chain(cells::misleading()) {
        if program.warm {
            continue;
        }
        for percent in [25, 5] {
            let options = cells::options(DEVICES[2], &program, Some(percent));
            let (alone, helped) = (replay(&program, &options, false), replay(&program, &options, true));
            let gain = alone.elapsed_ns as f64 / helped.elapsed_ns as f64;
            let bytes = helped.device_bytes as f64 / alone.device_bytes as f64;
            println!("{name}, {percent} %: gain {gain:.3}, bytes {bytes:.3}");
            assert!(gain >= GAIN_LEAST && bytes <= 2.0, "{name}, {percent} %: {gain} {bytes}");
        }
    }
}
