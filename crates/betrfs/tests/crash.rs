//! Power cuts: what is found afterwards is the state after some operation, none older than the last sync.

mod common;

use betree::SimStorage;
use betree::storage::FaultPlan;
use betrfs::{Fs, Options};
use common::{World, dump, options, threaded};

fn seeds(normal: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let text = std::env::var("BETRFS_SEEDS").unwrap_or_default();
    let bounds = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    bounds.unwrap_or(normal)
}

/// Operates until the power fails; returns the models that may be found.
fn until_cut(world: &mut World, fs: &Fs) -> Vec<common::Model> {
    let mut states = vec![world.model.clone()];
    for _ in 0..500 {
        let dead = world.step(fs, true);
        states.push(world.model.clone());
        if dead {
            break;
        }
        if world.random.below(15) == 0 {
            match fs.sync() {
                Ok(()) => drop(states.drain(..states.len() - 1)),
                Err(_) => break,
            }
        }
    }
    states
}

#[test]
fn a_cut_leaves_a_prefix_of_the_operations() {
    seeds(0..12).for_each(|seed| rounds(seed, 16 << 20, &options()));
}

#[test]
fn a_cut_leaves_a_prefix_when_threads_help() {
    seeds(0..2).for_each(|seed| rounds(seed, 128 << 20, &threaded()));
}

fn rounds(seed: u64, bytes: u64, options: &Options) {
    println!("seed {seed}");
    let mut storage = SimStorage::new(bytes);
    Fs::format(storage.clone(), options).expect("format");
    let mut world = World::new(seed);
    for round in 0..6u64 {
        let fs = Fs::open(storage.clone(), options).expect("open");
        let cut = 1 + world.random.below(150);
        storage.set_faults(FaultPlan { power_off_after: Some(cut), ..FaultPlan::default() });
        let states = until_cut(&mut world, &fs);
        drop(fs);
        storage = storage.power_cut(seed * 100 + round);
        let report = betrfs::check(storage.clone(), false).expect("check");
        assert!(report.is_clean(), "seed {seed} round {round}: {report}");
        let fs = Fs::open(storage.clone(), options).expect("open after the cut");
        let found = dump(&fs);
        let state = states.into_iter().rev().find(|s| s.dump() == found);
        world.model = state.unwrap_or_else(|| panic!("seed {seed} round {round}: found\n{found}"));
        world.held.clear();
        drop(fs);
    }
}
