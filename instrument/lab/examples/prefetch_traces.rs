//! Writes the reads of `loadline prefetch harm --simulate` to a file, for the example `mutate` of the prefetcher's core:
//! that one needs no other crate then, and is built anew in seconds for each rule that is left out.
//!
//!     cargo run -p loadline-lab --example prefetch_traces -- FILE SEED...
//!
//! The matrix and the retired set are always there, then 36 cells of each seed.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use apps::prefetch::patterns::{self, Pattern};
use lab::paired::held_out;
use lab::paired::plan::{self, Device};

/// The kernel's read-ahead of the known devices, KiB, and the size of their file, MiB, as `harm` has them.
const READAHEAD_KIB: u64 = 128;
const MIB: u64 = 256;
/// Without a limit the page cache holds the file so many times.
const UNLIMITED: u64 = 10;

fn number(out: &mut impl Write, value: u64) -> io::Result<()> {
    out.write_all(&value.to_le_bytes())
}

fn text(out: &mut impl Write, text: &str) -> io::Result<()> {
    number(out, text.len() as u64)?;
    out.write_all(text.as_bytes())
}

/// A trace, then the cells of it: one for each device of this size and each size of memory.
fn trace(
    out: &mut impl Write,
    set: &str,
    pattern: &Pattern,
    mib: u64,
    devices: &[&Device],
    memory: &[Option<u64>],
) -> io::Result<()> {
    let size = mib << 20;
    text(out, &format!("{set}/{}", pattern.title()))?;
    number(out, size)?;
    number(out, u64::from(pattern.shared))?;
    number(out, pattern.threads)?;
    for thread in 0..pattern.threads {
        let reads = pattern.reads(size, thread).expect("patterns that are drawn or listed are known");
        number(out, reads.len() as u64)?;
        for read in &reads {
            number(out, read.offset)?;
            number(out, read.len)?;
            number(out, read.work.as_nanos() as u64)?;
        }
    }
    number(out, (devices.len() * memory.len()) as u64)?;
    for device in devices {
        let host = ssd::Profile::named(&device.name).expect("a simple device").host;
        for percent in memory {
            text(
                out,
                &format!("{}/{}", device.name, percent.map_or("none".into(), |percent| percent.to_string())),
            )?;
            number(out, host.read_ns)?;
            number(out, host.read_bytes_per_s)?;
            number(out, device.readahead_kib << 10)?;
            number(out, percent.map_or(size * UNLIMITED, |percent| size * percent / 100))?;
        }
    }
    Ok(())
}

fn set(
    out: &mut impl Write,
    name: &str,
    patterns: &[Pattern],
    devices: &[Device],
    memory: &[Option<u64>],
) -> io::Result<()> {
    let mut sizes: Vec<u64> = devices.iter().map(|device| device.mib).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for pattern in patterns {
        for mib in &sizes {
            let devices: Vec<&Device> = devices.iter().filter(|device| device.mib == *mib).collect();
            trace(out, name, pattern, *mib, &devices, memory)?;
        }
    }
    Ok(())
}

fn known(name: &str) -> Vec<Device> {
    let names = plan::devices(name).expect("known");
    let simple = names.into_iter().filter(|name| name != plan::RAW);
    simple.map(|name| Device::new(name, MIB, READAHEAD_KIB)).collect()
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("FILE SEED...");
    let mut out = BufWriter::new(File::create(file)?);
    for name in ["matrix", "retired"] {
        let memory = [None, Some(75), Some(50), Some(25)];
        set(&mut out, name, &patterns::list(name).expect("known"), &known(name), &memory)?;
    }
    for seed in arguments {
        let drawn = held_out::set(seed.parse().expect("a number"));
        set(&mut out, &seed, &drawn.patterns, &drawn.devices, &drawn.memory)?;
    }
    out.flush()
}
