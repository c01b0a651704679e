//! Samples of what a power cut may lawfully leave, whatever the device's firmware would have left.
//!
//! The oracle knows every write, its epochs, and which versions must be there. Any set of the others may survive that
//! keeps the device's contract: with order, all blocks of earlier epochs of each of its streams (transitively, over
//! dual-stream writes); without, any.

use std::collections::BTreeMap;

use ssd::Token;
use ssd::oracle::{Oracle, Write};
use stats::rng::SplitMix;

/// How much of a write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Nothing,
    Some,
    All,
}

/// One lawful image. `ordered` says that epochs bind.
pub(crate) fn sample(oracle: &Oracle, ordered: bool, rng: &mut SplitMix) -> Vec<Token> {
    let writes = oracle.writes();
    let mut parts = vec![Part::Nothing; writes.len()];
    // All but one, none but one, or any: bugs hide at the edges.
    match rng.below(4) {
        0 if !writes.is_empty() => parts[rng.below(writes.len())] = Part::All,
        1 if !writes.is_empty() => {
            parts.fill(Part::All);
            let lost = rng.below(writes.len());
            parts[lost] = Part::Nothing;
            if ordered {
                lose_later(writes, lost, &mut parts);
            }
        }
        _ => {
            let percent = [5, 20, 50, 80, 95][rng.below(5)];
            for part in &mut parts {
                if rng.percent(percent) {
                    *part = if rng.percent(20) { Part::Some } else { Part::All };
                }
            }
        }
    }
    // What must be there anyway needs its predecessors too.
    for (i, w) in writes.iter().enumerate() {
        let held = (w.lba..w.lba + u64::from(w.blocks)).any(|l| oracle.must_hold(l) as usize > i);
        if held && parts[i] == Part::Nothing {
            parts[i] = Part::Some;
        }
    }
    if ordered {
        close(writes, &mut parts);
    }
    let mut image = oracle.base().to_vec();
    for (i, w) in writes.iter().enumerate() {
        for b in 0..u64::from(w.blocks) {
            let there = match parts[i] {
                Part::All => true,
                Part::Some => rng.percent(50),
                Part::Nothing => false,
            };
            let lba = w.lba + b;
            if there || oracle.must_hold(lba) as usize > i {
                image[lba as usize] = w.token.map_or(Token::ZERO, |t| Token(t.0 + b));
            }
        }
    }
    image
}

/// What depends on a lost write is lost too.
fn lose_later(writes: &[Write], lost: usize, parts: &mut [Part]) {
    let mut from: BTreeMap<u64, u64> = writes[lost].epochs.iter().flatten().copied().collect();
    loop {
        let mut more = false;
        for (i, w) in writes.iter().enumerate() {
            let after = w.epochs.iter().flatten().any(|(s, e)| from.get(s).is_some_and(|f| e > f));
            if after && parts[i] != Part::Nothing {
                parts[i] = Part::Nothing;
                for (s, e) in w.epochs.iter().flatten() {
                    let f = from.entry(*s).or_insert(*e);
                    *f = (*f).min(*e);
                }
                more = true;
            }
        }
        if !more {
            return;
        }
    }
}

/// Adds what the survivors need.
fn close(writes: &[Write], parts: &mut [Part]) {
    let mut need: BTreeMap<u64, u64> = BTreeMap::new();
    let mut seen = vec![false; writes.len()];
    loop {
        let mut more = false;
        for (i, w) in writes.iter().enumerate() {
            if parts[i] != Part::All
                && w.epochs.iter().flatten().any(|(s, e)| need.get(s).is_some_and(|n| e < n))
            {
                parts[i] = Part::All;
                more = true;
            }
            if parts[i] != Part::Nothing && !seen[i] {
                seen[i] = true;
                for (s, e) in w.epochs.iter().flatten() {
                    let n = need.entry(*s).or_default();
                    if *e > *n {
                        *n = *e;
                        more = true;
                    }
                }
            }
        }
        if !more {
            return;
        }
    }
}
