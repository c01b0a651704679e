//! Against the reference model of crate ssd: random hosts on a small device, every image judged by both.

use std::collections::HashSet;

use ssd::oracle::Oracle;
use ssd::tags::EpochCounters;
use ssd::{Command, Op, Regime, StreamTag, Tags, Token};

use super::*;
use crate::recording::BLOCK;
use stats::rng::SplitMix;

const BLOCKS: u64 = 5;

/// The same requests for the oracle and for a recording.
pub(crate) struct Both {
    pub(crate) oracle: Oracle,
    pub(crate) recording: Recording,
    regime: Regime,
    counters: EpochCounters,
    tokens: Vec<Token>,
    barrier_epoch: u64,
    next: u64,
    open: Vec<(u64, Event)>,
}

impl Both {
    fn new(regime: Regime, plp: bool) -> Both {
        Both {
            oracle: Oracle::new(regime, plp, BLOCKS),
            recording: Recording::new(BLOCKS),
            regime,
            counters: EpochCounters::default(),
            tokens: vec![Token::ZERO],
            barrier_epoch: 0,
            next: 1,
            open: Vec::new(),
        }
    }

    fn content(&mut self, token: Token) -> ContentId {
        let mut bytes = [0; BLOCK];
        bytes[..8].copy_from_slice(&token.0.to_le_bytes());
        let id = self.recording.contents.intern(&bytes);
        if self.tokens.len() <= id.0 as usize {
            self.tokens.push(token);
        }
        id
    }

    fn write(&mut self, rng: &mut SplitMix) {
        let lba = rng.below(BLOCKS as usize) as u64;
        let blocks = (1 + rng.below(3) as u64).min(BLOCKS - lba);
        if self.oracle.is_busy(lba, blocks as u32) {
            return;
        }
        let barrier = rng.percent(50);
        let minor = rng.percent(30).then_some(9);
        let tags = match self.regime {
            Regime::Streams if rng.percent(70) => {
                self.counters.write(1 + rng.below(2) as u32, minor, barrier)
            }
            Regime::Barrier => Tags { barrier, ..Tags::default() },
            _ => Tags::default(),
        };
        let (id, token, fua) = (self.next, Token(self.next * 100), rng.percent(10));
        let mut command = Command::write(id, lba, blocks as u32, token).tagged(tags);
        // discards make equal versions, which the oracle may only judge leniently in ordered regimes
        let zero = !self.regime.is_ordered() && rng.percent(15);
        command.op = if zero { Op::WriteZeroes { fua } } else { Op::Write { token, fua } };
        self.oracle.submitted(&command).unwrap();
        let contents = (0..blocks).map(|i| match zero {
            true => ContentId::ZERO,
            false => self.content(Token(token.0 + i)),
        });
        let contents = contents.collect();
        let epochs = self.oracle.writes().last().unwrap().epochs;
        match self.regime {
            Regime::Barrier => {
                assert_eq!(epochs, [Some((0, self.barrier_epoch)), None]);
                self.barrier_epoch += u64::from(tags.barrier);
            }
            _ => {
                let plain = |t: Option<StreamTag>| t.map(|t| (t.stream.into(), t.epoch.into()));
                assert_eq!(epochs, [plain(tags.major), plain(tags.minor)]);
            }
        }
        let w = self.recording.write(id, lba, contents, fua, epochs);
        self.open.push((id, Event::WriteDone(w)));
        self.next += 1;
    }

    fn flush(&mut self, rng: &mut SplitMix) {
        let id = self.next;
        let tagged = self.regime == Regime::Streams && rng.percent(70);
        let tags = if tagged { self.counters.flush(1 + rng.below(2) as u32) } else { Tags::default() };
        self.oracle.submitted(&Command::flush(id).tagged(tags)).unwrap();
        let stream = tags.major.map(|t| (t.stream.into(), t.epoch.into()));
        let f = self.recording.flush(id, stream);
        self.open.push((id, Event::FlushDone(f)));
        self.next += 1;
    }

    fn complete(&mut self, rng: &mut SplitMix) {
        if self.open.is_empty() {
            return;
        }
        let (id, event) = self.open.remove(rng.below(self.open.len()));
        self.oracle.completed(id, None).unwrap();
        match event {
            Event::WriteDone(w) => self.recording.write_done(w),
            Event::FlushDone(f) => self.recording.flush_done(f),
            _ => unreachable!(),
        }
    }

    fn step(&mut self, rng: &mut SplitMix) {
        match rng.below(10) {
            0..4 => self.write(rng),
            4..6 => self.flush(rng),
            _ => self.complete(rng),
        }
    }

    fn tokens_of(&self, history: &History<'_>, state: &State) -> Vec<Token> {
        let mut image = vec![Token::ZERO; BLOCKS as usize];
        for (lba, content) in history.image(state) {
            image[lba as usize] = self.tokens[content.0 as usize];
        }
        image
    }
}

/// A random host, and the oracle as it was after each event.
pub(crate) fn random_host(regime: Regime, plp: bool, rng: &mut SplitMix) -> (Both, Vec<(usize, Oracle)>) {
    let mut both = Both::new(regime, plp);
    let mut then = vec![(0, both.oracle.clone())];
    // few enough versions that every combination can be judged
    while both.recording.events.len() < 30 && both.recording.writes.len() < 9 {
        both.step(rng);
        then.push((both.recording.events.len(), both.oracle.clone()));
    }
    (both, then)
}

/// Every combination of versions submitted before the cut, lawful or not.
pub(crate) fn combinations(history: &History<'_>, cut: usize) -> Vec<State> {
    let open: Vec<Open> = (0..history.lbas.len() as u32)
        .map(|block| Open { block, floor: 0, newest: history.newest_at(block, cut) })
        .collect();
    let mut all = vec![Vec::new()];
    for o in &open {
        let longer = |choice: &Vec<u32>| {
            let choice = choice.clone();
            (0..=o.newest).map(move |v| [&choice[..], &[v]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.iter().map(|choice| history.state(cut, &open, choice)).collect()
}

const CONTRACTS: [(Regime, bool); 8] = [
    (Regime::None, false),
    (Regime::None, true),
    (Regime::Flush, false),
    (Regime::Flush, true),
    (Regime::Barrier, false),
    (Regime::Barrier, true),
    (Regime::Streams, false),
    (Regime::Streams, true),
];

#[test]
fn the_lawful_images_are_those_of_the_oracle() {
    for (regime, plp) in CONTRACTS {
        let (mut lawful, mut unlawful) = (0, 0);
        for seed in 0..25 {
            let rng = &mut SplitMix::new(seed);
            let (both, then) = random_host(regime, plp, rng);
            let history = History::new(&both.recording, Contract::new(regime, plp));
            for (cut, oracle) in then.iter().filter(|_| rng.percent(30)).chain(then.last()) {
                // the same image may come from several choices: one of them must be lawful
                let (mut fine, mut wrong) = (HashSet::new(), HashSet::new());
                for state in combinations(&history, *cut) {
                    let image = both.tokens_of(&history, &state);
                    let fits = if history.is_lawful(&state) { &mut fine } else { &mut wrong };
                    fits.insert(image);
                }
                for image in &fine {
                    let breaches = oracle.check(image);
                    assert!(breaches.is_empty(), "{regime:?} plp {plp} seed {seed} cut {cut}: {breaches:?}");
                }
                for image in wrong.difference(&fine) {
                    let told = !oracle.check(image).is_empty();
                    assert!(told, "{regime:?} plp {plp} seed {seed} cut {cut}: {image:?} is lawful");
                }
                lawful += fine.len();
                unlawful += wrong.difference(&fine).count();
            }
        }
        assert!(lawful > 500, "{regime:?} {plp}: {lawful} lawful images");
        assert_eq!(unlawful > 500, regime != Regime::None || plp, "{regime:?} {plp}: {unlawful}");
    }
}

#[test]
fn the_windows_hold_the_images_of_every_cut() {
    for (regime, plp) in CONTRACTS {
        for seed in 100..115 {
            let (both, _) = random_host(regime, plp, &mut SplitMix::new(seed));
            let history = History::new(&both.recording, Contract::new(regime, plp));
            let images = |cut: usize| -> HashSet<u128> {
                let states = combinations(&history, cut);
                states.iter().filter(|s| history.is_lawful(s)).map(|s| history.hash(s)).collect()
            };
            let of_windows: HashSet<u128> = history.windows().iter().flat_map(|cut| images(*cut)).collect();
            for cut in 0..=both.recording.events.len() {
                assert!(images(cut).is_subset(&of_windows), "{regime:?} {plp} seed {seed} cut {cut}");
            }
        }
    }
}

#[test]
fn an_image_is_told_by_its_bytes() {
    let mut r = Recording::new(8);
    let a = r.contents.intern(&[1; BLOCK]);
    let b = r.contents.intern(&[2; BLOCK]);
    r.base.insert(3, a);
    for (id, contents) in [(1, vec![a, b]), (2, vec![b, b]), (3, vec![a, b])] {
        r.write(id, 3, contents, false, [None; 2]);
    }
    let history = History::new(&r, Contract::new(Regime::Flush, false));
    let newest = State { cut: r.events.len(), lost: vec![] };
    let same = State { lost: vec![(0, 0), (1, 1)], ..newest.clone() };
    let other = State { lost: vec![(1, 0)], ..newest.clone() };
    assert_eq!(history.image(&newest), [(4, b)], "block 3 holds what it held");
    assert_eq!(history.hash(&newest), history.hash(&same));
    assert_ne!(history.hash(&newest), history.hash(&other));
    assert!(!history.is_lawful(&State { lost: vec![(0, 3)], ..newest }), "the newest is not lost");
}
