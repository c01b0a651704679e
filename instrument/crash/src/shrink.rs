//! Shrinking a failing state: fewest lost blocks (delta debugging, Zeller and Hildebrandt, TSE'02), each as
//! new as it can be, at the earliest cut.

use crate::history::{History, State};
use crate::recording::Event;

/// Makes a failing state smaller as long as `fails` says that it still fails. `fails` may say no to
/// everything once it has had enough.
pub fn shrink(history: &History<'_>, state: State, fails: &mut dyn FnMut(&State) -> bool) -> State {
    let mut fails = |state: &State| history.is_lawful(state) && fails(state);
    let mut state = fewest(state, &mut fails);
    loop {
        let before = state.clone();
        state = earliest(history, state, &mut fails);
        state = fewest(state, &mut fails);
        state = newest(history, state, &mut fails);
        if state == before {
            return state;
        }
    }
}

/// Delta debugging over the lost blocks.
fn fewest(state: State, fails: &mut dyn FnMut(&State) -> bool) -> State {
    let mut state = state;
    let mut pieces = 2;
    while !state.lost.is_empty() {
        let length = state.lost.len().div_ceil(pieces).max(1);
        let smaller = (0..state.lost.len().div_ceil(length)).find_map(|piece| {
            let (from, to) = (piece * length, ((piece + 1) * length).min(state.lost.len()));
            let alone = State { lost: state.lost[from..to].to_vec(), ..state.clone() };
            let without = State { lost: [&state.lost[..from], &state.lost[to..]].concat(), ..state.clone() };
            // for two pieces one is the rest of the other
            let candidates = if pieces == 2 { vec![without] } else { vec![alone, without] };
            candidates.into_iter().find(|s| s.lost.len() < state.lost.len() && fails(s))
        });
        match smaller {
            Some(smaller) => {
                state = smaller;
                pieces = 2.max(pieces - 1);
            }
            None if length == 1 => return state,
            None => pieces = (pieces * 2).min(state.lost.len()),
        }
    }
    state
}

/// The state at an earlier cut: the same blocks hold the same old versions.
fn at(history: &History<'_>, state: &State, cut: usize) -> State {
    let still = |(block, version): &(u32, u32)| *version < history.newest_at(*block, cut);
    State { cut, lost: state.lost.iter().filter(|lost| still(lost)).copied().collect() }
}

fn earliest(history: &History<'_>, state: State, fails: &mut dyn FnMut(&State) -> bool) -> State {
    let events = &history.recording().events[..state.cut];
    // cuts at which the image, or what had been promised, is another
    let after = |event: &Event| matches!(event, Event::Write(_) | Event::Mark(_));
    let cuts = (0..events.len()).filter(|i| after(&events[*i])).map(|i| i + 1);
    let found = cuts.filter(|cut| *cut < state.cut).map(|cut| at(history, &state, cut)).find(|s| fails(s));
    found.unwrap_or(state)
}

fn newest(history: &History<'_>, state: State, fails: &mut dyn FnMut(&State) -> bool) -> State {
    let mut state = state;
    for i in 0..state.lost.len() {
        let (block, version) = state.lost[i];
        for newer in (version + 1..history.newest_at(block, state.cut)).rev() {
            let mut raised = state.clone();
            raised.lost[i].1 = newer;
            if fails(&raised) {
                state = raised;
                break;
            }
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Contract;
    use crate::recording::{BLOCK, Mark, Recording};
    use ssd::Regime;
    use stats::rng::SplitMix;

    /// 40 writes of one block each, over 20 blocks.
    fn recording() -> Recording {
        let mut r = Recording::new(64);
        for id in 0..40u64 {
            r.mark(Mark::Begin(id as usize));
            let mut bytes = [0; BLOCK];
            bytes[..8].copy_from_slice(&(id + 1).to_le_bytes());
            let content = r.contents.intern(&bytes);
            let w = r.write(id, id % 20, vec![content], false, [None; 2]);
            r.write_done(w);
            r.mark(Mark::Return(id as usize));
        }
        r
    }

    #[test]
    fn the_smallest_case_is_found() {
        let recording = recording();
        let history = History::new(&recording, Contract::new(Regime::None, false));
        let end = recording.events.len();
        for seed in 0..20 {
            let rng = &mut SplitMix::new(seed);
            // fails if write 24 is there while 3 and 7 are not
            let (there, missing) = (24u32, [3u32, 7]);
            let mut tests = 0;
            let mut fails = |state: &State| {
                tests += 1;
                let version = |block: u32| {
                    let lost = state.lost.iter().find(|(b, _)| *b == block);
                    lost.map_or(history.newest_at(block, state.cut), |(_, v)| *v)
                };
                version(there % 20) == 2 && missing.iter().all(|w| version(*w) == 0)
            };
            let mut lost: Vec<(u32, u32)> = missing.map(|b| (b, 0)).to_vec();
            for block in (0..20).filter(|b| *b != 4 && !missing.contains(b)) {
                let version = rng.below(2) as u32;
                lost.extend(rng.percent(60).then_some((block, version)));
            }
            lost.sort_unstable();
            let state = State { cut: end, lost };
            assert!(fails(&state));
            let small = shrink(&history, state, &mut fails);
            assert_eq!(small.lost, [(3, 0), (7, 0)], "seed {seed}");
            assert_eq!(small.cut, recording.writes[24].submitted + 1, "seed {seed}");
            assert!(tests < 400, "{tests} tests");
        }
    }

    #[test]
    fn what_fails_whatever_is_lost_shrinks_to_nothing() {
        let recording = recording();
        let history = History::new(&recording, Contract::new(Regime::None, false));
        let state = State { cut: recording.events.len(), lost: (0..20).map(|b| (b, 0)).collect() };
        let small = shrink(&history, state, &mut |_| true);
        assert_eq!(small, State { cut: 1, lost: vec![] });
    }

    #[test]
    fn an_unlawful_state_is_never_tried() {
        let mut recording = recording();
        let f = recording.flush(99, None);
        recording.flush_done(f);
        let history = History::new(&recording, Contract::new(Regime::Flush, false));
        let cut = *history.windows().first().unwrap();
        let state = State { cut, lost: (0..20).map(|b| (b, 1)).collect() };
        let small = shrink(&history, state, &mut |s| {
            assert!(history.is_lawful(s));
            s.lost.len() >= 5
        });
        assert_eq!(small.lost.len(), 5);
    }
}
