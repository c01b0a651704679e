//! Scheduling on a fake runner: order, resumption, early stop, failures, interruption.

mod common;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;

use common::{Fake, Fate, eight_cells, loads};
use lab::Store;
use lab::check::Loads;
use lab::queue::Queue;
use lab::session::{Session, SessionContext, SessionEvent, SessionOutcome};
use stats::rng::SplitMix;
use study::results::{Run, Status};
use study::{Study, plan};

struct Bench {
    _folder: tempfile::TempDir,
    store: Store,
}

impl Bench {
    fn new() -> Self {
        // In memory, where there is such a place: the store forces every trial to disk.
        let shm = std::path::Path::new("/dev/shm");
        let folder = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap();
        let store = Store::open(folder.path()).unwrap();
        Bench { _folder: folder, store }
    }

    fn begin(&mut self, study: &Study) -> Run {
        self.store.begin(study, &["loadline".into(), "run".into()]).unwrap()
    }

    fn execute(&mut self, run: &mut Run, fake: &mut Fake) -> SessionOutcome {
        self.hear(run, fake, &mut |_| {})
    }

    fn hear(
        &mut self,
        run: &mut Run,
        fake: &mut Fake,
        notify: &mut dyn FnMut(SessionEvent<'_>),
    ) -> SessionOutcome {
        self.until(run, fake, &AtomicBool::new(false), notify)
    }

    fn until(
        &mut self,
        run: &mut Run,
        fake: &mut Fake,
        stop: &AtomicBool,
        notify: &mut dyn FnMut(SessionEvent<'_>),
    ) -> SessionOutcome {
        let (study, loads) = opened(run);
        let means = SessionContext { loads: &loads, store: &mut self.store, runner: fake, stop, notify };
        Session::new(&study, run, means).execute().unwrap()
    }
}

/// The study of a run, as it is stored, and its loads.
fn opened(run: &Run) -> (Study, Loads) {
    let study = Study::from_stored(&run.study).unwrap();
    let loads = loads(&study);
    (study, loads)
}

#[test]
fn every_block_holds_one_trial_of_each_cell_in_an_order_that_the_seed_decides() {
    let order = |seed: u64| plan::order(&eight_cells(20, &format!("seed = {seed}")));
    let slots = order(7);
    assert_eq!(slots.len(), 160);
    let mut orders = HashSet::new();
    for (index, block) in slots.chunks(8).enumerate() {
        assert!(block.iter().all(|slot| slot.index as usize == index));
        let cells: Vec<u32> = block.iter().map(|slot| slot.cell).collect();
        assert_eq!(cells.iter().copied().collect::<HashSet<_>>(), (0..8).collect());
        orders.insert(cells);
    }
    assert!(orders.len() > 15, "blocks are shuffled on their own: {} of 20 differ", orders.len());
    assert_eq!(order(7), slots);
    assert_ne!(order(8), slots);
    let listed = plan::order(&eight_cells(2, "order = 'listed'"));
    assert_eq!(
        listed.iter().map(|slot| slot.cell).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7]
    );
}

#[test]
fn a_workload_may_want_fewer_trials_than_the_study() {
    let mut study = eight_cells(5, "");
    study.workloads[1].trials = Some(2);
    let slots = plan::order(&study);
    let of = |cells: std::ops::Range<u32>| slots.iter().filter(|slot| cells.contains(&slot.cell)).count();
    assert_eq!((of(0..4), of(4..8)), (20, 8));
    assert!(slots.iter().enumerate().all(|(at, slot)| slot.order as usize == at));
}

#[test]
fn a_study_of_a_thousand_trials_runs_as_planned() {
    let mut bench = Bench::new();
    let study = eight_cells(125, "");
    let mut run = bench.begin(&study);
    let mut fake = Fake::steady();
    assert_eq!(bench.execute(&mut run, &mut fake), SessionOutcome::Complete);
    let planned: Vec<(u32, u32)> = plan::order(&study).iter().map(|slot| (slot.cell, slot.index)).collect();
    assert_eq!(fake.ran, planned);
    let stored = bench.store.load_run(&run.id).unwrap();
    assert_eq!(stored, run);
    assert_eq!(stored.trials.len(), 1000);
    assert!(stored.finished.is_some());
    assert_eq!(stored.throughputs_of(3), vec![1003.0; 125]);
}

#[test]
fn an_interrupted_run_is_balanced_and_resumes_with_what_is_missing() {
    let mut bench = Bench::new();
    let study = eight_cells(5, "");
    let mut run = bench.begin(&study);
    let mut left = 20;
    let mut fake = Fake::new(move |_| {
        left -= 1;
        if left == 0 { Fate::Interrupt } else { Fate::Ops(5) }
    });
    assert_eq!(bench.execute(&mut run, &mut fake), SessionOutcome::Interrupted);
    let mut stored = bench.store.resume(&run.id).unwrap();
    assert_eq!(stored, run);
    assert_eq!(stored.finished, None);
    assert_eq!(stored.trials.last().unwrap().status, Status::Interrupted);
    assert!(stored.trials.last().unwrap().outcome.is_some(), "partial figures are kept");
    let done: Vec<usize> = (0..8).map(|cell| stored.throughputs_of(cell).len()).collect();
    assert!(done.iter().all(|n| (2..=3).contains(n)), "{done:?}");

    let mut fake = Fake::steady();
    assert_eq!(bench.execute(&mut stored, &mut fake), SessionOutcome::Complete);
    let planned: Vec<(u32, u32)> = plan::order(&study).iter().map(|slot| (slot.cell, slot.index)).collect();
    assert_eq!(fake.ran, planned[19..], "the interrupted trial is repeated, the others are not");
    let finished = bench.store.load_run(&run.id).unwrap();
    assert_eq!(finished.trials.len(), 40);
    assert!(finished.trials.iter().all(|trial| trial.status == Status::Done));
}

#[test]
fn a_killed_process_leaves_everything_that_had_ended() {
    let mut bench = Bench::new();
    let mut run = bench.begin(&eight_cells(2, ""));
    let mut left = 5;
    let mut fake = Fake::new(move |_| {
        left -= 1;
        assert!(left > 0, "killed here");
        Fate::Ops(5)
    });
    let killed =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bench.execute(&mut run, &mut fake)));
    assert!(killed.is_err());
    let mut stored = bench.store.resume(&run.id).unwrap();
    assert_eq!(stored.trials.len(), 4);
    let mut fake = Fake::steady();
    assert_eq!(bench.execute(&mut stored, &mut fake), SessionOutcome::Complete);
    assert_eq!(fake.ran.len(), 12);
}

#[test]
fn a_failing_cell_stops_no_other_and_is_given_up_after_two_failures() {
    let mut bench = Bench::new();
    let mut run = bench.begin(&eight_cells(5, ""));
    let mut fake = Fake::new(|job| match job.slot.cell {
        2 => Fate::Status(Status::Failed { message: "broken".into() }),
        4 => Fate::Status(Status::TimedOut { after_seconds: 3.0 }),
        // Fails once, then works: not given up.
        6 if job.slot.index == 0 => Fate::Status(Status::Failed { message: "once".into() }),
        _ => Fate::Ops(7),
    });
    let mut given_up = Vec::new();
    let ending = bench.hear(&mut run, &mut fake, &mut |notice| {
        if let SessionEvent::GivenUp { cell } = notice {
            given_up.push(cell.id);
        }
    });
    assert_eq!(ending, SessionOutcome::Complete);
    given_up.sort_unstable();
    assert_eq!(given_up, [2, 4]);
    let mut attempts: HashMap<u32, u32> = HashMap::new();
    fake.ran.iter().for_each(|(cell, _)| *attempts.entry(*cell).or_default() += 1);
    assert_eq!((attempts[&2], attempts[&4], attempts[&6], attempts[&0]), (2, 2, 5, 5));
    assert_eq!(run.throughputs_of(6).len(), 4);
    assert_eq!(run.throughputs_of(2).len(), 0);
}

#[test]
fn unavailable_stacks_are_told_beforehand_and_tried_again_on_resume() {
    let mut bench = Bench::new();
    let mut run = bench.begin(&eight_cells(3, ""));
    let mut fake = Fake::steady();
    fake.unavailable.insert("xfs".into(), ("no mkfs.xfs".into(), "apt install xfsprogs".into()));
    let mut told = Vec::new();
    bench.hear(&mut run, &mut fake, &mut |notice| {
        if let SessionEvent::Unavailable { stack, reason, .. } = notice {
            told.push(format!("{stack}: {reason}"));
        }
    });
    assert_eq!(told, ["xfs: no mkfs.xfs"]);
    assert_eq!(fake.ran.len(), 12);
    let mut unavailable: Vec<u32> = run
        .trials
        .iter()
        .filter(|trial| matches!(trial.status, Status::Unavailable { .. }))
        .map(|trial| trial.cell)
        .collect();
    unavailable.sort_unstable();
    assert_eq!(unavailable, [1, 3, 5, 7], "one record for each cell");

    let mut again = bench.store.resume(&run.id).unwrap();
    let mut fake = Fake::steady();
    assert_eq!(bench.execute(&mut again, &mut fake), SessionOutcome::Complete);
    assert_eq!(fake.ran.len(), 12);
    assert!(again.trials.iter().all(|trial| trial.status.is_done()));
}

#[test]
fn a_cell_stops_early_when_its_interval_is_narrow_and_a_noisy_one_goes_on() {
    let mut bench = Bench::new();
    let mut run = bench.begin(&eight_cells(30, "stop_early = 0.05"));
    let mut fake = Fake::new(|job| match job.slot.cell {
        0 => Fate::Ops(if job.slot.index.is_multiple_of(2) { 500 } else { 2000 }),
        _ => Fate::Ops(1000 + u64::from(job.slot.index)),
    });
    let mut settled = HashMap::new();
    bench.hear(&mut run, &mut fake, &mut |notice| {
        if let SessionEvent::Settled { cell, trials, half_width } = notice {
            assert!(half_width <= 0.05);
            settled.insert(cell.id, trials);
        }
    });
    // Six trials are the fewest whose range covers the median at 95 %.
    assert_eq!(settled, (1..8).map(|cell| (cell, 6)).collect());
    assert_eq!(run.throughputs_of(0).len(), 30);
    assert!(run.finished.is_some());

    let mut again = bench.store.resume(&run.id).unwrap();
    let mut fake = Fake::steady();
    bench.execute(&mut again, &mut fake);
    assert_eq!(fake.ran, [], "what is settled stays settled");
}

#[test]
fn the_estimate_begins_with_a_guess_and_learns() {
    let mut bench = Bench::new();
    let mut run = bench.begin(&eight_cells(2, ""));
    let mut fake = Fake::steady();
    // 16 trials of 10 s and a guess of 2 s each.
    let (study, loads) = opened(&run);
    assert!((Queue::new(&study, &run, &loads).seconds() - 192.0).abs() < 1e-9);
    let mut remaining = Vec::new();
    bench.hear(&mut run, &mut fake, &mut |notice| {
        if let SessionEvent::Begins { remaining_seconds, ended, planned, .. } = notice {
            assert_eq!((ended, planned), (remaining.len(), 16));
            remaining.push(remaining_seconds);
        }
    });
    // The fake's trials take 15 s: from the second one on that is known.
    let expected: Vec<f64> =
        std::iter::once(192.0).chain((1..16).map(|n| 15.0 * f64::from(16 - n))).collect();
    assert_eq!(remaining, expected);
}

#[test]
fn a_wish_to_stop_before_the_first_trial_runs_nothing() {
    let mut bench = Bench::new();
    let mut run = bench.begin(&eight_cells(2, ""));
    let mut fake = Fake::steady();
    let ending = bench.until(&mut run, &mut fake, &AtomicBool::new(true), &mut |_| {});
    assert_eq!((ending, fake.ran.len()), (SessionOutcome::Interrupted, 0));
}

#[test]
fn only_the_very_last_trial_may_keep_its_stack() {
    let mut bench = Bench::new();
    let mut run = bench.begin(&eight_cells(2, "keep = true"));
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut fake = Fake::new(move |job| {
        sender.send(job.last).unwrap();
        Fate::Ops(1)
    });
    bench.execute(&mut run, &mut fake);
    let last: Vec<bool> = receiver.try_iter().collect();
    assert_eq!(last.iter().filter(|last| **last).count(), 1);
    assert_eq!(last.last(), Some(&true));
}

#[test]
fn whatever_happens_every_trial_is_done_once_and_never_again() {
    for seed in 0..30_u64 {
        let mut bench = Bench::new();
        let study = eight_cells(4, &format!("seed = {seed}"));
        let id = bench.begin(&study).id;
        let mut done: HashSet<(u32, u32)> = HashSet::new();
        let mut rng = SplitMix::new(seed);
        for session in 0.. {
            assert!(session < 1000, "seed {seed}: no end");
            let mut run = bench.store.resume(&id).unwrap();
            let (mut luck, known) = (SplitMix::new(rng.next_u64()), done.clone());
            let mut fake = Fake::new(move |job| {
                assert!(
                    !known.contains(&(job.slot.cell, job.slot.index)),
                    "seed {seed}: {:?} again",
                    job.slot
                );
                match luck.next_u64() % 10 {
                    0 => Fate::Interrupt,
                    1 | 2 => Fate::Status(Status::Failed { message: "x".into() }),
                    _ => Fate::Ops(1),
                }
            });
            bench.execute(&mut run, &mut fake);
            assert_eq!(bench.store.load_run(&id).unwrap(), run, "seed {seed}");
            done = run.trials.iter().filter(|t| t.status.is_done()).map(|t| (t.cell, t.index)).collect();
            if done.len() == 32 {
                assert_eq!(run.trials.len(), 32, "seed {seed}");
                break;
            }
        }
    }
}

/// A system that carries so much, whatever is offered.
fn carries(job: &lab::runner::Job<'_>) -> Fate {
    let capacity = if job.cell.stack.starts_with("ext4") { 1_000.0 } else { 4_000.0 };
    Fate::Seconds(job.rate.unwrap_or(f64::INFINITY).min(capacity) as u64)
}

fn swept(trials: u32) -> Study {
    eight_cells(trials, "offered = 'max,50%,100%,110%,120%,150%,3000'")
}

#[test]
fn rates_rise_until_each_stack_falls_behind_twice() {
    let mut bench = Bench::new();
    let mut run = bench.begin(&swept(2));
    bench.execute(&mut run, &mut Fake::new(carries));
    let curves = analysis::sweep::curves(&run, None);
    assert_eq!(curves.len(), 8, "two loads, two parameters, two stacks");
    for curve in &curves {
        let capacity = if curve.stack == "ext4" { 1_000.0 } else { 4_000.0 };
        let shares =
            if curve.stack == "ext4" { &[0.5, 1.0, 1.1, 1.2][..] } else { &[0.5, 0.75, 1.0, 1.1, 1.2] };
        let offered: Vec<f64> = curve.points.iter().map(|point| point.offered / capacity).collect();
        for (offered, share) in offered.iter().zip(shares) {
            assert!((offered - share).abs() < 1e-9, "{offered} {share}");
        }
        assert_eq!(offered.len(), shares.len(), "{offered:?}");
        assert_eq!(curve.saturation, Some(capacity));
        assert!((curve.knee.unwrap().value - capacity).abs() < 1.0, "{curve:?}");
        assert!(curve.points.iter().all(|point| point.trials == 2), "{curve:?}");
    }
    assert_eq!(bench.store.load_run(&run.id).unwrap(), run);
}

#[test]
fn a_sweep_that_is_interrupted_goes_on_where_it_was() {
    let mut bench = Bench::new();
    let mut run = bench.begin(&swept(1));
    let mut left = 10;
    let mut fake = Fake::new(move |job| {
        left -= 1;
        if left == 0 { Fate::Interrupt } else { carries(job) }
    });
    assert_eq!(bench.execute(&mut run, &mut fake), SessionOutcome::Interrupted);
    assert!(
        analysis::sweep::curves(&run, None).iter().any(|curve| !curve.points.is_empty()),
        "partial results are kept"
    );
    let mut run = bench.store.resume(&run.id).unwrap();
    assert_eq!(bench.execute(&mut run, &mut Fake::new(carries)), SessionOutcome::Complete);
    assert!(analysis::sweep::curves(&run, None).iter().all(|curve| curve.knee.is_some()));
}

#[test]
fn without_a_saturation_nothing_is_offered() {
    let mut bench = Bench::new();
    let mut run = bench.begin(&eight_cells(1, "offered = 'max,50%,100%'"));
    let mut fake = Fake::new(|_| Fate::Status(Status::Failed { message: "x".into() }));
    bench.execute(&mut run, &mut fake);
    assert_eq!(fake.ran.len(), 8, "only the closed loops were tried");
}
