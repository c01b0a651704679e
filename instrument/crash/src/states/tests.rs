//! The plan against a brute force, and what a sample must contain.

use super::*;
use crate::history::Contract;
use crate::history::tests::{combinations, random_host};
use crate::recording::{BLOCK, Event, Mark, Recording};
use ssd::Regime;

fn chosen(history: &History<'_>, limit: usize, seed: u64) -> Plan {
    plan(history, Distinct::Images, limit, seed, &AtomicBool::new(false))
}

#[test]
fn an_interrupted_plan_claims_nothing() {
    let recording = long(4);
    let history = History::new(&recording, Contract::new(Regime::Flush, false));
    let stopped = plan(&history, Distinct::Images, 1 << 20, 1, &AtomicBool::new(true));
    assert!(stopped.states.is_empty() && !stopped.exhaustive);
    assert!(!chosen(&history, 1 << 20, 1).states.is_empty());
}

#[test]
fn a_small_plan_is_the_brute_force() {
    for regime in Regime::ALL {
        for seed in 0..20 {
            let (both, _) = random_host(regime, false, &mut SplitMix::new(seed));
            let history = History::new(&both.recording, Contract::new(regime, false));
            let all: HashSet<u128> = (0..=both.recording.events.len())
                .flat_map(|cut| combinations(&history, cut))
                .filter(|state| history.is_lawful(state))
                .map(|state| history.hash(&state))
                .collect();
            let plan = chosen(&history, 1 << 20, 1);
            let planned: HashSet<u128> = plan.states.iter().map(|s| history.hash(s)).collect();
            assert!(plan.exhaustive && planned == all, "{regime:?} seed {seed}");
            assert_eq!(planned.len(), plan.states.len(), "no image twice");
        }
    }
}

/// The same events, with marks between them.
fn marked(recording: &Recording, rng: &mut SplitMix) -> Recording {
    let mut r = Recording { contents: recording.contents.clone(), ..Recording::new(recording.blocks) };
    let mut marks = 0;
    for event in &recording.events {
        while rng.percent(30) {
            r.mark(Mark::Return(marks));
            marks += 1;
        }
        match *event {
            Event::Write(w) => {
                let write = recording.writes[w as usize].clone();
                r.write(write.id, write.lba, write.contents, write.fua, write.epochs);
            }
            Event::WriteDone(w) => r.write_done(w),
            Event::Flush(f) => {
                r.flush(recording.flushes[f as usize].id, recording.flushes[f as usize].stream);
            }
            Event::FlushDone(f) => r.flush_done(f),
            Event::Mark(_) => {}
        }
    }
    r
}

/// A mark may take back what an earlier one has promised: an image that is lawful with both is judged with both.
#[test]
fn where_marks_count_each_image_is_there_with_all_that_may_have_been_passed() {
    for regime in Regime::ALL {
        let mut more = 0;
        for seed in 0..20 {
            let rng = &mut SplitMix::new(seed);
            let (both, _) = random_host(regime, false, rng);
            let recording = marked(&both.recording, rng);
            let history = History::new(&recording, Contract::new(regime, false));
            let told = |state: &State| (history.hash(state), recording.progress_at(state.cut).returned);
            let all: HashSet<(u128, usize)> = (0..=recording.events.len())
                .flat_map(|cut| combinations(&history, cut))
                .filter(|state| history.is_lawful(state))
                .map(|state| told(&state))
                .collect();
            let plan = |limit| plan(&history, Distinct::Marks, limit, 1, &AtomicBool::new(false));
            let whole = plan(1 << 20);
            let planned: HashSet<(u128, usize)> = whole.states.iter().map(told).collect();
            assert!(whole.exhaustive && planned == all, "{regime:?} seed {seed}");
            assert_eq!(planned.len(), whole.states.len(), "nothing twice");
            let images: HashSet<u128> = planned.iter().map(|(image, _)| *image).collect();
            more += all.len() - images.len();
            let few = plan(all.len() / 2);
            assert!(!few.exhaustive && few.states.len() <= all.len() / 2, "{regime:?} seed {seed}");
            assert!(few.states.iter().all(|state| all.contains(&told(state))), "{regime:?} seed {seed}");
        }
        assert!(more > 100, "{regime:?}: {more}");
    }
}

/// `flushes` windows of three writes of two blocks each.
fn long(flushes: u64) -> Recording {
    let mut r = Recording::new(64);
    for window in 0..flushes {
        for i in 0..3 {
            let id = window * 4 + i + 1;
            let contents = [1u8, 2].map(|half| {
                let mut bytes = [half; BLOCK];
                bytes[8..16].copy_from_slice(&id.to_le_bytes());
                r.contents.intern(&bytes)
            });
            let w = r.write(id, (id * 7) % 63, contents.to_vec(), false, [None; 2]);
            r.write_done(w);
        }
        let f = r.flush(window * 4 + 4, None);
        r.flush_done(f);
    }
    r
}

/// The counting formula 1 + sum(2^w - 1) over windows of w blocks each, all different.
#[test]
fn windows_of_flushes_and_epochs_of_barriers_count_alike() {
    let sizes = [9u32, 1, 9, 1, 5, 1, 7];
    for order_only in [false, true] {
        let mut r = Recording::new(64);
        let mut id = 0;
        for (epoch, size) in (0..).zip(sizes) {
            for _ in 0..size {
                id += 1;
                let mut bytes = [1; BLOCK];
                bytes[..8].copy_from_slice(&u64::to_le_bytes(id));
                let content = r.contents.intern(&bytes);
                let epochs = [order_only.then_some((0, epoch)), None];
                let w = r.write(id, id, vec![content], false, epochs);
                r.write_done(w);
            }
            let f = r.flush(1000 + id, None);
            r.flush_done(f);
        }
        let regime = if order_only { Regime::Barrier } else { Regime::Flush };
        let history = History::new(&r, Contract { order_only, ..Contract::new(regime, false) });
        let expected = 1 + sizes.iter().map(|w| (1 << w) - 1).sum::<usize>();
        assert_eq!(expected, 1184);
        if !order_only {
            let plan = chosen(&history, 1 << 20, 1);
            assert_eq!((plan.states.len(), plan.exhaustive), (expected, true));
        } else {
            // 2^33 combinations of one window: a sample finds all that are lawful, and nothing else
            let plan = chosen(&history, 4000, 1);
            assert!(plan.states.len() > 1000 && plan.states.len() <= expected, "{}", plan.states.len());
            assert!(plan.states.iter().all(|state| history.is_lawful(state)));
        }
    }
}

#[test]
fn a_sample_is_lawful_repeatable_and_holds_the_likely_culprits() {
    let recording = long(60);
    for regime in [Regime::None, Regime::Flush] {
        let history = History::new(&recording, Contract::new(regime, false));
        let first = chosen(&history, 900, 7);
        assert_eq!((first.states.len(), first.exhaustive), (900, false), "{regime:?}");
        assert!(first.states.iter().all(|s| history.is_lawful(s)), "{regime:?}");
        let hashes: HashSet<u128> = first.states.iter().map(|s| history.hash(s)).collect();
        assert_eq!(hashes.len(), 900);
        assert_eq!(chosen(&history, 900, 7).states, first.states, "same seed, same states");
        assert_ne!(chosen(&history, 900, 8).states, first.states);
        for state in &first.states {
            assert_eq!(history.latest(state.clone()), *state, "at the latest cut");
        }
        for cut in history.windows() {
            let whole = State { cut: *cut, lost: vec![] };
            assert!(hashes.contains(&history.hash(&whole)), "{regime:?}: all persisted at {cut}");
        }
    }
}

#[test]
fn the_likely_culprits_of_a_window() {
    let recording = long(1);
    let history = History::new(&recording, Contract::new(Regime::Flush, false));
    // three writes, then their completions and the flush: one window before, one after the flush
    assert_eq!(history.windows().len(), 2);
    let window = Window::new(&history, history.windows()[0]);
    let choices: HashSet<Vec<u32>> = systematic(&window).into_iter().collect();
    assert_eq!(window.boundaries(), [0, 2, 4, 6]);
    let alone = (0..6).filter(|i| choices.contains(&(0..6).map(|j| u32::from(j == *i)).collect::<Vec<_>>()));
    assert_eq!(alone.count(), 6, "each block alone");
    let lost = (0..6).filter(|i| choices.contains(&(0..6).map(|j| u32::from(j != *i)).collect::<Vec<_>>()));
    assert_eq!(lost.count(), 6, "each block lost alone");
    assert!(choices.contains(&vec![0; 6]) && choices.contains(&vec![1; 6]));
    assert_eq!(history.floor_at(0, recording.events.len()), 1);
}

#[test]
fn an_image_is_judged_by_the_latest_cut_that_allows_it() {
    let recording = long(3);
    let history = History::new(&recording, Contract::new(Regime::Flush, false));
    let windows = history.windows();
    let whole = State { cut: windows[0], lost: vec![] };
    let latest = history.latest(whole.clone());
    // all of the first window is there: that is also what the next one begins with
    assert_eq!((latest.cut, history.hash(&latest)), (windows[1], history.hash(&whole)));
    assert!(history.is_lawful(&latest) && latest.lost.len() == 6);
    let torn = State { cut: windows[0], lost: vec![(history.open_at(windows[0])[0].block, 0)] };
    assert_eq!(history.latest(torn.clone()), torn, "the flush forbids it");
    // where nothing is promised every image is lawful to the end
    let history = History::new(&recording, Contract::new(Regime::None, false));
    assert_eq!(history.latest(State { cut: 3, lost: vec![] }).cut, recording.events.len());
}

#[test]
fn nothing_open_is_one_state() {
    let recording = Recording::new(8);
    let history = History::new(&recording, Contract::new(Regime::Flush, false));
    let plan = chosen(&history, 10, 1);
    assert_eq!((plan.states.len(), plan.exhaustive, plan.choices_log2), (1, true, 0.0));
}
