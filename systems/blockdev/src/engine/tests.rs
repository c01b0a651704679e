//! Random hosts against a history of every block: reads see the newest bytes, a power cut brings back a
//! version that the regime allows, and every such version was kept.

use std::collections::{HashMap, HashSet};

use ssd::{Config, Profile, Regime, Ssd};

use super::*;
use crate::image::{Image, Memory};

const BLOCKS: u64 = 4096;

/// A small generator: the tests need no more than well spread numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn engine(profile: &str, regime: Regime, seed: u64, filled: bool) -> Engine<u64> {
    let mut config = Config::new(Profile::named(profile).unwrap(), BLOCKS * 4096).regime(regime);
    (config.seed, config.program_jitter) = (seed, 0.5);
    let mut image = Image::Ram(Memory::new(BLOCKS * 4096).unwrap());
    if filled {
        for lba in 0..BLOCKS {
            image.write(lba, &[0xbb; BLOCK]).unwrap();
        }
    }
    Engine::new(Ssd::new(config).unwrap(), Versions::new(image, BLOCKS, filled))
}

fn pattern(number: u64, lba: u64) -> [u8; BLOCK] {
    let mut block = [number as u8; BLOCK];
    block[..8].copy_from_slice(&number.to_le_bytes());
    block[8..16].copy_from_slice(&lba.to_le_bytes());
    block
}

/// Per block: every content it had, oldest first, and the request that gave it.
struct History {
    contents: Vec<Vec<(u64, Vec<u8>)>>,
    /// Per block, how many of its contents are surely overwritten for good (index of the oldest possible).
    floor: Vec<usize>,
}

impl History {
    /// A flush has failed: every block shows its newest content still, or an older one that is then the newest. The number
    /// of the latter.
    fn roll_back(&mut self, engine: &Engine<u64>, completed: &HashMap<u64, bool>, seed: u64) -> u64 {
        let mut lost = 0;
        for (lba, contents) in self.contents.iter_mut().enumerate() {
            let mut bytes = vec![0; BLOCK];
            engine.peek(lba as u64, &mut bytes).unwrap();
            let (newest, content) = contents.last().unwrap();
            if *content == bytes {
                continue;
            }
            assert!(completed[newest], "seed {seed}: block {lba} was lost before it was acknowledged");
            let found = contents.iter().rposition(|(_, content)| *content == bytes);
            let found = found.filter(|at| *at >= self.floor[lba]);
            let found = found.unwrap_or_else(|| panic!("seed {seed}: block {lba} shows what it never was"));
            contents.truncate(found + 1);
            // zeroes may be those of a discard, which is not durable yet
            if bytes.iter().any(|byte| *byte != 0) {
                self.floor[lba] = found;
            }
            lost += 1;
        }
        lost
    }
}

/// One flush in `fails` fails; none if it is 0. The number of blocks that were lost by that.
fn drive(profile: &str, regime: Regime, seed: u64, filled: bool, prune_at: usize, fails: u64) -> u64 {
    let mut engine = engine(profile, regime, seed, filled);
    engine.versions_mut().unwrap().prune_at(prune_at);
    let mut dice = Dice(seed);
    let first = if filled { vec![0xbb; BLOCK] } else { vec![0; BLOCK] };
    let mut history =
        History { contents: vec![vec![(0, first)]; BLOCKS as usize], floor: vec![0; BLOCKS as usize] };
    let mut flushes: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut failing = HashSet::new();
    let mut completed: HashMap<u64, bool> = HashMap::from([(0, true)]);
    let (mut now, mut done, mut lost) = (0, Vec::new(), 0);
    for id in 1..=6000u64 {
        now += dice.below(30_000);
        // few addresses, so that versions pile up; one change of a block at a time, as hosts do
        let lba = dice.below(600);
        let blocks = 1 + dice.below(8);
        let busy = (lba..lba + blocks).any(|b| !completed[&history.contents[b as usize].last().unwrap().0]);
        match dice.below(20) {
            0 if fails > 0 && dice.below(fails) == 0 => {
                engine.set_faults(Faults::new(vec!["flush:1".parse().unwrap()]));
                engine.submit(now, Request::Flush, id);
                failing.extend(flushes.drain().map(|(under_way, _)| under_way));
                lost += history.roll_back(&engine, &completed, seed);
                failing.insert(id);
            }
            0 => {
                let safe = history.contents.iter().map(|c| c.iter().rposition(|(id, _)| completed[id]));
                flushes.insert(id, safe.map(Option::unwrap).collect());
                engine.submit(now, Request::Flush, id);
            }
            1 if !busy => {
                for b in lba..lba + blocks {
                    history.contents[b as usize].push((id, vec![0; BLOCK]));
                }
                completed.insert(id, false);
                engine.submit(now, Request::Discard { lba, blocks: blocks as u32 }, id);
            }
            2..6 if !busy => engine.submit(now, Request::Read { lba, blocks: blocks as u32 }, id),
            _ if !busy => {
                let data: Vec<u8> = (lba..lba + blocks).flat_map(|b| pattern(id, b)).collect();
                for b in lba..lba + blocks {
                    history.contents[b as usize].push((id, pattern(id, b).to_vec()));
                }
                completed.insert(id, false);
                engine.submit(now, Request::Write { lba, data: &data, fua: false }, id);
            }
            _ => {}
        }
        engine.advance(now, &mut done);
        for end in done.drain(..) {
            match end.outcome {
                Outcome::Failed(error) if failing.remove(&end.reply) => assert_eq!(error, libc::EIO),
                Outcome::Failed(error) => panic!("seed {seed}: request {} failed with {error}", end.reply),
                Outcome::Data(_) => {}
                Outcome::Done => {
                    assert!(!failing.contains(&end.reply), "seed {seed}: a flush that was to fail");
                    completed.insert(end.reply, true);
                    if regime.honours_flush()
                        && let Some(floor) = flushes.remove(&end.reply)
                    {
                        for (have, new) in history.floor.iter_mut().zip(floor) {
                            *have = (*have).max(new);
                        }
                    }
                }
            }
        }
        let mut bytes = vec![0; BLOCK];
        engine.peek(lba, &mut bytes).unwrap();
        assert!(bytes == history.contents[lba as usize].last().unwrap().1, "seed {seed}: block {lba}");
    }
    assert_eq!(engine.failed().lost_blocks, lost);
    check_cut(engine, &history, seed);
    lost
}

fn check_cut(mut engine: Engine<u64>, history: &History, seed: u64) {
    let (cut, versions, _) = engine.power_cut().unwrap();
    let mut after = vec![vec![0; BLOCK]; BLOCKS as usize];
    let keep = |lba: u64, bytes: &[u8], _: bool| {
        after[lba as usize] = bytes.to_vec();
        Ok(())
    };
    versions.after_cut(&cut.image, keep).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    for (lba, found) in after.iter().enumerate() {
        let allowed = &history.contents[lba][history.floor[lba]..];
        let fine = allowed.iter().any(|(_, bytes)| bytes == found);
        assert!(fine, "seed {seed}: block {lba} came back as none of its {} versions", allowed.len());
    }
    let mut done = Vec::new();
    engine.submit(u64::MAX / 2, Request::Flush, 1);
    engine.advance(u64::MAX / 2, &mut done);
    assert!(matches!(done[0].outcome, Outcome::Failed(libc::EIO)), "a device without power fails");
}

#[test]
fn a_power_cut_brings_back_what_the_regime_allows() {
    for seed in 0..3 {
        for regime in Regime::ALL {
            drive("980pro", regime, seed, false, 1_000_000, 0);
        }
        drive("980pro", Regime::Flush, seed, true, 1_000_000, 0);
        drive("plp-datacenter", Regime::Flush, seed, false, 1_000_000, 0);
        drive("ideal", Regime::None, seed, true, 1_000_000, 0);
        drive("hdd", Regime::Flush, seed, false, 1_000_000, 0);
    }
}

#[test]
fn asking_the_model_forgets_nothing_that_may_come_back() {
    for seed in 0..3 {
        drive("980pro", Regime::None, seed, false, 100, 0);
        drive("980pro", Regime::Flush, seed, true, 100, 0);
        drive("980pro", Regime::Streams, seed, false, 100, 0);
        drive("optane", Regime::None, seed, true, 100, 0);
    }
}

/// What a flush that failed has lost stays lost, and nothing else does; a later flush covers what came since.
#[test]
fn a_flush_that_fails_loses_what_was_cached_and_nothing_else() {
    let mut lost = 0;
    for seed in 0..5 {
        for (profile, regime) in
            [("980pro", Regime::Flush), ("980pro", Regime::Barrier), ("hdd", Regime::Flush)]
        {
            lost += drive(profile, regime, seed, false, 1_000_000, 4);
            lost += drive(profile, regime, seed, true, 100, 4);
        }
        let protected = drive("plp-datacenter", Regime::Flush, seed, false, 1_000_000, 4);
        assert_eq!(protected, 0, "a protected cache loses nothing");
    }
    assert!(lost > 10_000, "{lost}");
}

#[test]
fn reads_and_writes_fail_once_and_a_failed_write_changes_nothing() {
    let mut engine = engine("980pro", Regime::Flush, 1, false);
    engine.set_faults(Faults::new(["write:2", "read@5"].map(|fault| fault.parse().unwrap()).into()));
    let mut done = Vec::new();
    let mut outcome = |engine: &mut Engine<u64>, request: Request<'_>| {
        let now = engine.now + 1_000_000;
        engine.submit(now, request, 0);
        engine.advance(now + 900_000, &mut done);
        done.pop().unwrap().outcome
    };
    let data = [1, 2, 3].map(|number| pattern(number, 5));
    for (data, fails) in data.iter().zip([false, true, false]) {
        let written = outcome(&mut engine, Request::Write { lba: 5, data, fua: false });
        assert_eq!(matches!(written, Outcome::Failed(libc::EIO)), fails);
        let mut bytes = [0; BLOCK];
        engine.peek(5, &mut bytes).unwrap();
        assert_eq!(bytes[0], if fails { 1 } else { data[0] });
    }
    let read = |lba| Request::Read { lba, blocks: 2 };
    assert!(matches!(outcome(&mut engine, read(6)), Outcome::Data(_)));
    assert!(matches!(outcome(&mut engine, read(4)), Outcome::Failed(libc::EIO)));
    assert!(matches!(outcome(&mut engine, read(4)), Outcome::Data(data) if data[BLOCK] == 3));
    assert_eq!(engine.failed(), Failed { requests: 2, lost_blocks: 0 });
}

#[test]
fn old_versions_go_when_a_flush_ends() {
    let mut engine = engine("980pro", Regime::Flush, 1, false);
    let mut done = Vec::new();
    for id in 1..=10 {
        engine.submit(id * 1_000_000, Request::Write { lba: 5, data: &pattern(id, 5), fua: false }, id);
        engine.advance(id * 1_000_000 + 500_000, &mut done);
    }
    assert_eq!(engine.superseded_bytes(), 9 * 4096);
    engine.submit(20_000_000, Request::Flush, 11);
    engine.advance(40_000_000, &mut done);
    assert_eq!((done.len(), engine.superseded_bytes()), (11, 0));
}

#[test]
fn bad_requests_are_refused_and_a_full_queue_waits() {
    let mut engine = engine("hdd", Regime::Flush, 1, false);
    let mut done = Vec::new();
    engine.submit(0, Request::Read { lba: BLOCKS, blocks: 1 }, 1);
    engine.submit(0, Request::Discard { lba: u64::MAX, blocks: 2 }, 2);
    engine.submit(0, Request::Write { lba: 0, data: &[], fua: false }, 3);
    engine.advance(0, &mut done);
    assert!(done.iter().all(|d| matches!(d.outcome, Outcome::Failed(libc::EINVAL))) && done.len() == 3);
    let depth = u64::from(engine.ssd().profile().host.queue_depth);
    for id in 0..depth * 3 {
        engine.submit(1, Request::Read { lba: id, blocks: 1 }, 100 + id);
    }
    while let Some(due) = engine.due() {
        engine.advance(due, &mut done);
    }
    assert_eq!(done.len() as u64, 3 + depth * 3);
}

/// A write, its completion, host time, a flush: how long the flush took, and what the device calls it.
fn flush_after(data: &[u8], modelled: bool) -> (Nanos, u64) {
    let mut engine = engine("980pro", Regime::Flush, 1, false);
    if modelled {
        engine.model_fua();
    }
    let mut done = Vec::new();
    engine.submit(0, Request::Write { lba: 5, data, fua: false }, 1);
    engine.advance(50_000, &mut done);
    engine.submit(60_000, Request::Flush, 2);
    engine.advance(100_000_000, &mut done);
    (done[1].at - done[1].submitted, engine.ssd().stats().fua_flushes)
}

#[test]
fn the_flush_after_a_commit_record_takes_the_time_of_fua() {
    let mut commit = [0; BLOCK];
    commit[..8].copy_from_slice(&[0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, 2]);
    let (plain, none) = flush_after(&pattern(1, 5), true);
    let (fua, one) = flush_after(&commit, true);
    assert_eq!((none, one, flush_after(&commit, false)), (0, 1, (plain, 0)));
    let overheads = Profile::named("980pro").unwrap().flush;
    let longer = overheads.fua_overhead_ns - overheads.overhead_ns;
    // the flush came 60 us after the write was submitted
    assert!((fua - plain).abs_diff(longer - 60_000) < 2000, "{fua} {plain}");
}

/// A block of jbd2's log of this type.
fn jbd2(kind: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..8].copy_from_slice(&[0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, kind]);
    block
}

#[test]
fn with_order_kept_the_first_flush_of_a_commit_only_orders() {
    let mut engine = engine("980pro", Regime::Barrier, 1, false);
    engine.model_fua();
    engine.order_commits();
    let mut done = Vec::new();
    let (data, log, commit) = (pattern(1, 5), [jbd2(1), pattern(2, 7)].concat(), jbd2(2));
    let mut now = 0;
    let mut took = |engine: &mut Engine<u64>, request: Request<'_>| {
        engine.submit(now, request, 0);
        now += 10_000_000;
        engine.advance(now, &mut done);
        let end = done.pop().unwrap();
        end.at - end.submitted
    };
    took(&mut engine, Request::Write { lba: 5, data: &data, fua: false });
    let flush = took(&mut engine, Request::Flush);
    assert!(flush > 1_000_000, "no transaction is in the log: {flush}");
    took(&mut engine, Request::Write { lba: 6, data: &log, fua: false });
    let boundary = took(&mut engine, Request::Flush);
    assert!(boundary < 10_000, "{boundary}");
    assert_eq!(engine.ssd().stats().flushes, 1);
    took(&mut engine, Request::Write { lba: 8, data: &commit, fua: false });
    let last = took(&mut engine, Request::Flush);
    assert!(last.abs_diff(flush) < 500_000, "a flush and not FUA's time: {last} {flush}");
    assert_eq!((engine.ssd().stats().flushes, engine.ssd().stats().fua_flushes), (2, 0));
}

#[test]
fn a_power_cut_after_a_boundary_leaves_epochs_in_order() {
    for cut_at in (0..3_000_000).step_by(150_000) {
        let mut engine = engine("980pro", Regime::Barrier, cut_at, false);
        engine.order_commits();
        let mut done = Vec::new();
        for epoch in 0..40u64 {
            let at = epoch * 50_000;
            engine.submit(
                at,
                Request::Write { lba: 2 * epoch, data: &[jbd2(1), jbd2(1)].concat(), fua: false },
                epoch,
            );
            engine.advance(at + 40_000, &mut done);
            engine.submit(at + 40_000, Request::Flush, epoch);
            engine.advance(at + 50_000, &mut done);
        }
        assert_eq!(engine.ssd().stats().flushes, 0);
        engine.advance(2_000_000 + cut_at, &mut done);
        let (cut, versions, _) = engine.power_cut().unwrap();
        let mut found = vec![false; BLOCKS as usize];
        let keep = |lba: u64, bytes: &[u8], _: bool| {
            found[lba as usize] = bytes.iter().any(|byte| *byte != 0);
            Ok(())
        };
        versions.after_cut(&cut.image, keep).unwrap();
        let whole = found.chunks(2).take(40).take_while(|epoch| epoch[0] && epoch[1]).count();
        // of one more epoch a part may be there, nothing of those after it
        assert!(found[2 * whole + 2..].iter().all(|there| !there), "cut at {cut_at}: {whole} whole epochs");
    }
}
