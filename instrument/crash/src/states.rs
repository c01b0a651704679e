//! Choosing states: all of them when there are few, else a sample by seed that begins with the likely
//! culprits.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::history::{History, Open, State};
use crate::recording::{Event, Mark};
use stats::rng::SplitMix;

/// How many of the writes before a cut are taken for the ones that an unlucky cut would lose.
const NEAR: usize = 48;
/// Random states generated for each one wanted, before the search for new ones is given up.
const PATIENCE: u64 = 50;
/// Where marks count, one of so many states is for images with fewer of them passed.
const FEWER_MARKS: usize = 4;
/// Prefixes, dropped and kept writes of one window that are tried one by one.
const EACH_MAX: usize = 400;

/// The states to check.
#[derive(Debug)]
pub struct Plan {
    /// Distinct by the bytes of their images, and by the marks passed if these count, in the order in which they should be checked.
    pub states: Vec<State>,
    /// Whether these are all there are.
    pub exhaustive: bool,
    /// States generated, duplicates included.
    pub tried: u64,
    /// Logarithm to base 2 of the number of lawful choices (versions of blocks, over all windows; several may
    /// give the same bytes, and in ordered regimes some are not lawful).
    pub choices_log2: f64,
}

/// One window: a cut and what is open there.
#[derive(Debug)]
struct Window {
    cut: usize,
    open: Vec<Open>,
    /// Every version a block may have got, in the order of submission: (index in `open`, version, write).
    atoms: Vec<(usize, u32, u32)>,
    choices_log2: f64,
}

impl Window {
    fn new(history: &History<'_>, cut: usize) -> Window {
        let open = history.open_at(cut);
        let mut atoms: Vec<(usize, u32, u32)> = Vec::new();
        for (i, o) in open.iter().enumerate() {
            let versions =
                (o.floor + 1..=o.newest).filter_map(|v| Some((i, v, history.write_of(o.block, v)?)));
            atoms.extend(versions);
        }
        atoms.sort_by_key(|(i, _, write)| (*write, *i));
        let choices_log2 = open.iter().map(|o| f64::from(o.newest - o.floor + 1).log2()).sum();
        Window { cut, open, atoms, choices_log2 }
    }

    fn floors(&self) -> Vec<u32> {
        self.open.iter().map(|o| o.floor).collect()
    }

    fn newest(&self) -> Vec<u32> {
        self.open.iter().map(|o| o.newest).collect()
    }

    /// The first `n` atoms persisted.
    fn prefix(&self, n: usize) -> Vec<u32> {
        let mut choice = self.floors();
        for (i, version, _) in &self.atoms[..n.min(self.atoms.len())] {
            choice[*i] = *version;
        }
        choice
    }

    /// Where each write begins among the atoms, and the end.
    fn boundaries(&self) -> Vec<usize> {
        let starts = (0..self.atoms.len()).filter(|a| *a == 0 || self.atoms[*a].2 != self.atoms[a - 1].2);
        starts.chain([self.atoms.len()]).collect()
    }
}

/// Which states are distinct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distinct {
    /// Those with different images: what is promised only grows, so each is judged at its latest cut.
    Images,
    /// Also those with different marks passed: a mark may take back what an earlier one has promised.
    Marks,
}

/// Chooses up to `limit` distinct states, each at the latest cut at which it is lawful, and if marks count also at earlier ones. Once
/// `stop` is set, what was chosen until then is all.
pub fn plan(history: &History<'_>, distinct: Distinct, limit: usize, seed: u64, stop: &AtomicBool) -> Plan {
    let cuts = history.windows().iter().rev().take_while(|_| !stop.load(Ordering::Relaxed));
    let windows: Vec<Window> = cuts.map(|cut| Window::new(history, *cut)).collect();
    let total: f64 = windows.iter().map(|w| w.choices_log2.exp2()).sum();
    let marks = match distinct {
        Distinct::Images => Vec::new(),
        Distinct::Marks => marks(history),
    };
    // images before anything else
    let room = if marks.is_empty() { limit } else { limit - limit / FEWER_MARKS };
    let mut collector = Collector {
        history,
        marks,
        limit: room,
        stop,
        seen: HashSet::new(),
        spans: HashSet::new(),
        spanning: Vec::new(),
        states: Vec::new(),
        tried: 0,
    };
    let rng = &mut SplitMix::new(seed);
    let exhaustive = total <= room as f64;
    if exhaustive {
        windows.iter().for_each(|window| collector.all(window));
    } else {
        collector.sample(&windows, rng);
    }
    collector.limit = limit;
    let all_marks = collector.with_fewer_marks(rng);
    if !exhaustive {
        rng.shuffle(&mut collector.states);
    }
    let Collector { states, tried, .. } = collector;
    let exhaustive = exhaustive && all_marks && !stop.load(Ordering::Relaxed);
    Plan { states, exhaustive, tried, choices_log2: total.max(1.0).log2() }
}

struct Collector<'h, 'a> {
    history: &'h History<'a>,
    /// Positions of the marks, if they count.
    marks: Vec<usize>,
    limit: usize,
    stop: &'h AtomicBool,
    /// Image and marks passed.
    seen: HashSet<(u128, usize)>,
    /// Image, and the fewest and the most marks passed with which it is lawful, if these differ; and such states, at their latest cut.
    spans: HashSet<(u128, usize, usize)>,
    spanning: Vec<State>,
    states: Vec<State>,
    tried: u64,
}

impl Collector<'_, '_> {
    fn is_full(&self) -> bool {
        self.states.len() >= self.limit || self.stop.load(Ordering::Relaxed)
    }

    /// Takes a choice, made lawful by persisting what it needs.
    fn offer(&mut self, window: &Window, mut choice: Vec<u32>) {
        if self.is_full() {
            return;
        }
        self.tried += 1;
        self.history.settle(window.cut, &window.open, &mut choice);
        let state = self.history.state(window.cut, &window.open, &choice);
        let hash = self.history.hash(&state);
        if self.marks.is_empty() && self.seen.contains(&(hash, 0)) {
            return;
        }
        let latest = self.history.latest(state);
        let most = self.marks.partition_point(|mark| *mark < latest.cut);
        // other versions with the same bytes may be lawful from another cut on
        let fewest = most - self.history.earlier_cuts(&latest, &self.marks).len();
        if fewest < most && self.spans.insert((hash, fewest, most)) {
            self.spanning.push(latest.clone());
        }
        if self.seen.insert((hash, most)) {
            self.states.push(latest);
        }
    }

    fn all(&mut self, window: &Window) {
        let mut choice = window.floors();
        loop {
            self.offer(window, choice.clone());
            if self.is_full() {
                return;
            }
            // counts up in a mixed radix
            let Some(i) = window.open.iter().zip(&choice).position(|(o, v)| *v < o.newest) else { return };
            choice[i] += 1;
            for (version, o) in choice.iter_mut().zip(&window.open).take(i) {
                *version = o.floor;
            }
        }
    }

    fn sample(&mut self, windows: &[Window], rng: &mut SplitMix) {
        for window in windows {
            self.offer(window, window.newest());
        }
        let mut likely: Vec<(usize, Vec<u32>)> = Vec::new();
        for (w, window) in windows.iter().enumerate() {
            if self.is_full() {
                return;
            }
            let mut of_window = systematic(window);
            rng.shuffle(&mut of_window);
            of_window.truncate(EACH_MAX);
            likely.extend(of_window.into_iter().map(|choice| (w, choice)));
        }
        rng.shuffle(&mut likely);
        // half of the room is for chance
        likely.truncate(self.limit.div_ceil(2));
        for (w, choice) in likely {
            self.offer(&windows[w], choice);
        }
        let weights: Vec<f64> = windows.iter().map(|w| w.choices_log2).collect();
        let patience = self.tried + PATIENCE * self.limit as u64;
        while !self.is_full() && self.tried < patience {
            let window = &windows[weighted(&weights, rng)];
            let choice = random(window, rng);
            self.offer(window, choice);
        }
    }

    /// Images that were found, at earlier cuts, with fewer marks passed; whether these are all.
    fn with_fewer_marks(&mut self, rng: &mut SplitMix) -> bool {
        let marks = std::mem::take(&mut self.marks);
        let spanning = std::mem::take(&mut self.spanning);
        let images: Vec<(&State, &[usize])> =
            spanning.iter().map(|state| (state, self.history.earlier_cuts(state, &marks))).collect();
        let all: usize = images.iter().map(|(_, cuts)| cuts.len()).sum();
        if all <= self.limit.saturating_sub(self.states.len()) {
            for (state, cuts) in &images {
                cuts.iter().for_each(|cut| self.offer_at(state, *cut, &marks));
            }
            return true;
        }
        let patience = self.tried + PATIENCE * self.limit as u64;
        while !self.is_full() && self.tried < patience {
            if let Some((state, cuts)) = rng.pick(&images)
                && let Some(cut) = rng.pick(cuts)
            {
                self.offer_at(state, *cut, &marks);
            }
        }
        false
    }

    fn offer_at(&mut self, state: &State, cut: usize, marks: &[usize]) {
        if self.is_full() {
            return;
        }
        self.tried += 1;
        let earlier = self.history.at_cut(state, cut);
        let key = (self.history.hash(&earlier), marks.partition_point(|mark| *mark < cut));
        if self.history.is_lawful(&earlier) && self.seen.insert(key) {
            self.states.push(earlier);
        }
    }
}

/// Where marks were passed.
fn marks(history: &History<'_>) -> Vec<usize> {
    let events = history.recording().events.iter().enumerate();
    events.filter(|(_, event)| matches!(event, Event::Mark(Mark::Return(_)))).map(|(at, _)| at).collect()
}

fn weighted(weights: &[f64], rng: &mut SplitMix) -> usize {
    let total: f64 = weights.iter().sum();
    let mut left = rng.below(1 << 30) as f64 / f64::from(1 << 30) * total;
    for (i, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return i;
        }
    }
    weights.len() - 1
}

/// Nothing persisted; each prefix; all but one write or block; one write or block alone.
fn systematic(window: &Window) -> Vec<Vec<u32>> {
    let mut choices = vec![window.floors()];
    let boundaries = window.boundaries();
    for (start, end) in boundaries.iter().zip(boundaries.iter().skip(1)) {
        choices.push(window.prefix(*end));
        let atoms = &window.atoms[*start..*end];
        let (mut dropped, mut kept) = (window.newest(), window.floors());
        for (i, version, _) in atoms {
            dropped[*i] = dropped[*i].min(version - 1);
            kept[*i] = *version;
            if atoms.len() > 1 {
                let (mut all_but_it, mut alone) = (window.newest(), window.floors());
                all_but_it[*i] = version - 1;
                alone[*i] = *version;
                choices.extend([all_but_it, alone]);
            }
        }
        choices.extend([dropped, kept]);
    }
    choices
}

fn random(window: &Window, rng: &mut SplitMix) -> Vec<u32> {
    match rng.below(4) {
        0 => {
            let lost = [10, 50, 90][rng.below(3)];
            let versions = window.open.iter().map(|o| match rng.percent(lost) {
                true => o.floor + rng.below((o.newest - o.floor) as usize) as u32,
                false => o.newest,
            });
            versions.collect()
        }
        1 => by_whole_writes(window, rng),
        _ => near_a_prefix(window, rng),
    }
}

/// Each write whole or not at all.
fn by_whole_writes(window: &Window, rng: &mut SplitMix) -> Vec<u32> {
    let kept = [20, 50, 80][rng.below(3)];
    let mut choice = window.floors();
    let boundaries = window.boundaries();
    for (start, end) in boundaries.iter().zip(boundaries.iter().skip(1)) {
        if rng.percent(kept) {
            for (i, version, _) in &window.atoms[*start..*end] {
                choice[*i] = *version;
            }
        }
    }
    choice
}

/// A prefix, but a few of its last blocks are lost, and perhaps a few of the next are there.
fn near_a_prefix(window: &Window, rng: &mut SplitMix) -> Vec<u32> {
    let end = rng.below(window.atoms.len() + 1);
    let mut choice = window.prefix(end);
    let near = &window.atoms[end.saturating_sub(NEAR)..end];
    for _ in 0..rng.below(5) {
        if let Some((i, version, _)) = rng.pick(near) {
            choice[*i] = choice[*i].min(version - 1);
        }
    }
    let next = &window.atoms[end..(end + NEAR / 4).min(window.atoms.len())];
    for _ in 0..rng.below(3) {
        if let Some((i, version, _)) = rng.pick(next) {
            choice[*i] = *version;
        }
    }
    choice
}

#[cfg(test)]
mod tests;
