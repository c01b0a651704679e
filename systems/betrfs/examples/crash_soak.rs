//! Power cuts of the file system on simulated storage, until the given number of states was checked:
//! `crash_soak [STATES [FIRST_SEED [KIND]]]`, 10,000 from seed 0 if nothing is said; of the kinds of trials in turn, or of one
//! such as `Scattered`.
//!
//! Random operations on the file system and on a model, until the power fails at a random write or flush. What was
//! not flushed then is lost, kept or torn, sector by sector. Several such images of each cut are checked by fsck,
//! opened and compared: each must be the state after some operation not older than the last sync. Then the power
//! fails while the file system recovers, up to three times in a row, and it all goes on from what is left.

use std::process::ExitCode;

#[path = "../tests/common/mod.rs"]
mod common;

use common::cuts::{Kind, Tally, Trial};

const ROUNDS: u64 = 8;
const IMAGES: u64 = 3;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: u64| words.get(at).map_or(Some(usual), |word| word.parse::<u64>().ok());
    let only = words.get(2);
    let known = only.is_none_or(|name| (0..10).any(|seed| Kind::of(seed).name() == *name));
    let (Some(states), Some(first), true) = (number(0, 10_000), number(1, 0), known) else {
        eprintln!("crash_soak [STATES [FIRST_SEED [KIND]]]");
        return ExitCode::FAILURE;
    };
    let mut tally = Tally::default();
    let mut seed = first;
    while tally.states < states {
        let kind = Kind::of(seed);
        if only.is_none_or(|name| kind.name() == *name) {
            // A panic names seed, round and image.
            tally += Trial::new(seed, kind).run(ROUNDS, IMAGES);
        }
        seed += 1;
        if seed.is_multiple_of(20) {
            println!("seeds {first} to {}: {tally}", seed - 1);
        }
    }
    println!("seeds {first} to {}: {tally}: all as they must be", seed - 1);
    ExitCode::SUCCESS
}
