//! Work whose amount is known.

use std::hint::black_box;
use std::process::{Child, Command};

/// Adds so many times, each addition after the one before.
pub fn spin(additions: u64) {
    let mut sum = 0_u64;
    for _ in 0..additions {
        sum = black_box(sum + 1);
    }
    black_box(sum);
}

/// Stores to memory a second, as the flowop `hog` makes them.
pub fn stores_per_second() -> f64 {
    const STORES: u64 = 20_000_000;
    let mut buffer = [0_u8; 4096];
    let begin = std::time::Instant::now();
    for store in 0..STORES {
        buffer[store as usize % 4096] = black_box(store as u8);
    }
    black_box(&buffer);
    STORES as f64 / begin.elapsed().as_secs_f64()
}

/// Processes that want all of a processor each, until they are dropped.
pub struct Competing(Vec<Child>);

/// Starts them.
///
/// # Errors
/// They cannot be started.
pub fn compete(number: usize) -> anyhow::Result<Competing> {
    let this = std::env::current_exe()?;
    let mut competing = Competing(Vec::new());
    for _ in 0..number {
        competing.0.push(Command::new(&this).args(["spin", &u64::MAX.to_string()]).spawn()?);
    }
    Ok(competing)
}

impl Drop for Competing {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
