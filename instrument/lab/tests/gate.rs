//! The supervisor of a trial against executors of all tempers, without a process: every order of what workers say, die, hang,
//! and of the user's wish beside them; more workers in drawn orders. Time is the executor's.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::protocol::{Instruction, Message, Release};
use lab::trial::executor::{Executor, Failure, StopReason, Worker, WorkerEvent, WorkerOutcome};
use lab::trial::supervisor::{Observer, Supervision, WorkersOutcome, execute};

/// What becomes of a worker.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Measures,
    /// Comes to the gate once more while it runs, as tasks do that meet.
    MeetsAgain,
    DiesBeforeGate,
    DiesAtGate,
    DiesAfterGate,
    /// Says that it cannot go on, before the gate.
    Refuses,
    /// What it measured is a failure.
    Breaks,
    HangsBeforeGate,
    HangsAfterGate,
    /// Measures, but listens to nobody who asks it to end, and tells nothing then.
    IsDeaf,
}

const FATES: [Fate; 10] = [
    Fate::Measures,
    Fate::MeetsAgain,
    Fate::DiesBeforeGate,
    Fate::DiesAtGate,
    Fate::DiesAfterGate,
    Fate::Refuses,
    Fate::Breaks,
    Fate::HangsBeforeGate,
    Fate::HangsAfterGate,
    Fate::IsDeaf,
];

/// What a worker has measured; less than nothing is a failure.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Measured(i32);

impl WorkerOutcome for Measured {
    fn failure(&self) -> Option<&str> {
        (self.0 < 0).then_some("broke")
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Gate,
    Told(Result<Measured, &'static str>),
    Ends,
    Hangs,
}

impl Fate {
    fn steps(self) -> VecDeque<Step> {
        use Step::*;
        let well = [Gate, Told(Ok(Measured(1))), Ends];
        match self {
            Fate::Measures | Fate::IsDeaf => well.into(),
            Fate::MeetsAgain => [Gate, Gate, Told(Ok(Measured(1))), Ends].into(),
            Fate::DiesBeforeGate => [Ends].into(),
            // it ends while it waits
            Fate::DiesAtGate => [Gate].into(),
            Fate::DiesAfterGate => [Gate, Ends].into(),
            Fate::Refuses => [Told(Err("refused")), Ends].into(),
            Fate::Breaks => [Gate, Told(Ok(Measured(-1))), Ends].into(),
            Fate::HangsBeforeGate => [Hangs].into(),
            Fate::HangsAfterGate => [Gate, Hangs].into(),
        }
    }

    fn hangs(self) -> bool {
        matches!(self, Fate::HangsBeforeGate | Fate::HangsAfterGate)
    }
}

/// Decides what happens next: all ways one after the other, or drawn.
#[derive(Default)]
struct Chooser {
    /// What was chosen of how many.
    taken: Vec<(usize, usize)>,
    at: usize,
    /// State of a linear congruential generator, when choices are drawn.
    seed: Option<u64>,
}

impl Chooser {
    fn choose(&mut self, of: usize) -> usize {
        if let Some(seed) = &mut self.seed {
            // Knuth, MMIX
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            return (*seed >> 33) as usize % of;
        }
        if self.at == self.taken.len() {
            self.taken.push((0, of));
        }
        let (choice, known) = self.taken[self.at];
        assert_eq!(known, of, "the same choices lead to the same place");
        self.at += 1;
        choice
    }

    /// Goes on to the next way; false: that was the last.
    fn next(&mut self) -> bool {
        self.at = 0;
        while let Some((choice, of)) = self.taken.pop() {
            if choice + 1 < of {
                self.taken.push((choice + 1, of));
                return true;
            }
        }
        false
    }
}

struct FakeWorker {
    fate: Fate,
    steps: VecDeque<Step>,
    lives: bool,
    waits: bool,
}

/// What was seen of it from outside.
#[derive(Default)]
struct Seen {
    /// Workers that failed, in the order in which they were heard, and what is to be said of them.
    failures: Vec<String>,
    /// When all were asked to end, and why.
    asked: Option<(StopReason, Instant)>,
    killed: bool,
    /// The gate was opened for all.
    openings: u32,
    living: usize,
}

struct Fake<'s> {
    workers: Vec<FakeWorker>,
    chooser: &'s mut Chooser,
    /// The user's wish, if it comes in this run, and has not yet.
    wish: Option<&'s AtomicBool>,
    now: Instant,
    seen: Rc<RefCell<Seen>>,
}

impl Executor for Fake<'_> {
    type Result = Measured;

    fn size(&self) -> usize {
        self.workers.len()
    }

    fn name(&self, worker: usize) -> String {
        format!("fake {worker}")
    }

    fn spawn(&mut self, worker: usize) -> Result<(), Failure> {
        assert!(self.seen.borrow().asked.is_none(), "nobody is started when all are to end");
        self.workers[worker].lives = true;
        self.seen.borrow_mut().living += 1;
        Ok(())
    }

    fn poll_events(&mut self, patience: Duration) -> Result<Vec<(usize, WorkerEvent<Measured>)>, Failure> {
        let can_go = |worker: &&FakeWorker| {
            let next = worker.steps.front();
            let dies_waiting = worker.fate == Fate::DiesAtGate && next.is_none();
            worker.lives && (dies_waiting || (!worker.waits && next.is_some_and(|step| *step != Step::Hangs)))
        };
        let ways: Vec<usize> = (0..self.workers.len()).filter(|at| can_go(&&self.workers[*at])).collect();
        let wish = usize::from(self.wish.is_some());
        if ways.is_empty() && wish == 0 || patience.is_zero() && self.chooser.choose(2) == 0 {
            self.now += patience;
            return Ok(Vec::new());
        }
        if ways.is_empty() && wish == 0 {
            return Ok(Vec::new());
        }
        let way = self.chooser.choose(ways.len() + wish);
        if way == ways.len() {
            self.wish.take().unwrap().store(true, Ordering::Release);
            return Ok(Vec::new());
        }
        let at = ways[way];
        let mut seen = self.seen.borrow_mut();
        let is_undisturbed = seen.asked.is_none();
        let several = if self.workers.len() > 1 { "; the others were ended" } else { "" };
        let worker = &mut self.workers[at];
        let mut fails = |what: &str| {
            if is_undisturbed {
                seen.failures.push(format!("fake {at}{what}{several}"));
            }
        };
        Ok(vec![(
            at,
            match worker.steps.pop_front() {
                Some(Step::Gate) => {
                    worker.waits = true;
                    WorkerEvent::Said(Message::AtGate { value: at as u64, aligned: true })
                }
                Some(Step::Told(result)) => {
                    match result {
                        Ok(Measured(-1)) if !several.is_empty() => fails(": broke"),
                        Err(why) if !several.is_empty() => fails(&format!(": {why}")),
                        Err(why) => seen.failures.push(why.to_string()),
                        Ok(_) => {}
                    }
                    WorkerEvent::Told(result.map_err(str::to_string))
                }
                Some(Step::Hangs) => unreachable!("it does nothing"),
                Some(Step::Ends) | None => {
                    if matches!(worker.fate, Fate::DiesBeforeGate | Fate::DiesAtGate | Fate::DiesAfterGate) {
                        fails(" ended without a result (killed)");
                    }
                    (worker.lives, worker.waits) = (false, false);
                    seen.living -= 1;
                    WorkerEvent::Ended(" (killed)".into())
                }
            },
        )])
    }

    fn send(&mut self, worker: usize, what: &Instruction) {
        assert!(matches!(what, Instruction::Proceed(_)));
        let worker = &mut self.workers[worker];
        assert!(worker.waits, "only those are let go who wait");
        worker.waits = false;
    }

    fn release(&mut self, workers: &[usize], release: Release) -> Duration {
        let is_asked = self.seen.borrow().asked.is_some();
        if !is_asked {
            let waiting = self.workers.iter().all(|worker| worker.waits || !worker.lives);
            assert!(waiting && workers.len() == self.workers.len(), "the gate opens when all are there");
            assert!(release.aligned);
            assert_eq!(release.values, (0..workers.len() as u64).collect::<Vec<_>>(), "what each brought");
            self.seen.borrow_mut().openings += 1;
        }
        workers.iter().for_each(|worker| self.send(*worker, &Instruction::Proceed(release.clone())));
        Duration::ZERO
    }

    fn stop(&mut self, reason: StopReason) {
        let before = self.seen.borrow_mut().asked.replace((reason, self.now));
        assert!(before.is_none(), "they are asked once");
        for worker in self.workers.iter_mut().filter(|worker| worker.lives) {
            match worker.fate {
                Fate::IsDeaf => worker.steps = [Step::Hangs].into(),
                fate if fate.hangs() => {}
                // who has told its result already ends
                _ if worker.steps.iter().any(|step| matches!(step, Step::Told(_))) => {
                    worker.steps.retain(|step| *step != Step::Gate);
                }
                _ => worker.steps = [Step::Ends].into(),
            }
        }
    }

    fn kill(&mut self) {
        let mut seen = self.seen.borrow_mut();
        let (_, since) = seen.asked.expect("they are asked before they are killed");
        assert!(self.now.duration_since(since) > GRACE, "they get their time");
        assert!(!std::mem::replace(&mut seen.killed, true), "they are killed once");
        self.workers.iter_mut().filter(|worker| worker.lives).for_each(|worker| {
            (worker.steps, worker.waits) = ([Step::Ends].into(), false);
        });
    }

    fn collect(&mut self, workers: Vec<Worker<Measured>>) -> Result<Measured, Failure> {
        let told: Vec<i32> = workers.into_iter().filter_map(|worker| Some(worker.result?.ok()?.0)).collect();
        if told.is_empty() {
            Err(Failure::Message("nothing".into()))
        } else {
            Ok(Measured(told.iter().sum()))
        }
    }

    fn now(&self) -> Instant {
        self.now
    }
}

/// How long workers get to end.
const GRACE: Duration = Duration::from_secs(5);
const DEADLINE: Duration = Duration::from_secs(30);
const STRAGGLING: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Count {
    opened: u32,
    measured: u32,
}

impl Observer for Count {
    fn opens(&mut self) -> Result<(), Failure> {
        self.opened += 1;
        Ok(())
    }

    fn measured(&mut self) {
        self.measured += 1;
    }
}

/// One run, judged; what came of it.
fn run(fates: &[Fate], with_wish: bool, chooser: &mut Chooser) -> WorkersOutcome<Measured> {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let (stop, begin) = (AtomicBool::new(false), Instant::now());
    let worker = |fate: &Fate| FakeWorker { fate: *fate, steps: fate.steps(), lives: false, waits: false };
    let fake = Fake {
        workers: fates.iter().map(worker).collect(),
        chooser,
        wish: with_wish.then_some(&stop),
        now: begin,
        seen: seen.clone(),
    };
    let mut count = Count::default();
    let (deadline, straggling) = (Some(begin + DEADLINE), Some(STRAGGLING));
    let mut by = Supervision { stop: &stop, deadline, grace: GRACE, straggling, observer: &mut count };
    let departure = execute(fake, &mut by).unwrap();
    let seen = seen.borrow();
    assert_eq!(seen.living, 0, "nobody is left");
    assert_eq!(count.opened, seen.openings.min(1), "the load begins once");
    assert_eq!(count.measured, count.opened, "and ends once");
    let said = (departure.stopped, departure.result.clone());
    match (seen.asked, seen.failures.first()) {
        // what one that is alone has measured until it failed is kept
        (None, None) if fates == [Fate::Breaks] => assert_eq!(said, (None, Ok(Measured(-1)))),
        (None, None) => assert_eq!(said, (None, Ok(Measured(fates.len() as i32)))),
        (None, Some(why)) => assert_eq!(said, (None, Err(why.clone())), "one that is alone ends by itself"),
        (Some((StopReason::Failed, _)), Some(why)) => assert_eq!(said, (None, Err(why.clone()))),
        (Some((StopReason::Failed, _)), None) => {
            let why = said.1.unwrap_err();
            assert!(
                why.contains("hangs: not done 10 s after the first") || why.contains("wait for it"),
                "{why}"
            );
        }
        (Some((reason, _)), failure) => {
            assert_eq!(said.0, Some(reason));
            assert_eq!(reason == StopReason::Interrupted, stop.load(Ordering::Acquire), "{failure:?}");
            assert!(reason == StopReason::Interrupted || fates.iter().any(|fate| fate.hangs()));
        }
    }
    departure
}

#[test]
fn every_order_of_two_workers_and_the_users_wish_ends_as_it_should() {
    let (mut runs, mut interrupted, mut timed_out, mut failed) = (0, 0, 0, 0);
    for first in FATES {
        for second in FATES {
            for with_wish in [false, true] {
                let mut chooser = Chooser::default();
                loop {
                    let departure = run(&[first, second], with_wish, &mut chooser);
                    match departure.stopped {
                        Some(StopReason::Interrupted) => interrupted += 1,
                        Some(_) => timed_out += 1,
                        None => failed += u32::from(departure.result.is_err()),
                    }
                    runs += 1;
                    if !chooser.next() {
                        break;
                    }
                }
            }
        }
    }
    let each = [interrupted, timed_out, failed];
    assert!(runs > 1000 && each.iter().all(|some| *some > 3), "{runs} runs: {each:?}");
}

#[test]
fn one_worker_alone_ends_by_itself_or_is_ended() {
    for fate in FATES {
        for with_wish in [false, true] {
            let mut chooser = Chooser::default();
            run(&[fate], with_wish, &mut chooser);
            while chooser.next() {
                run(&[fate], with_wish, &mut chooser);
            }
        }
    }
}

#[test]
fn drawn_orders_of_many_workers_end_as_they_should() {
    for seed in 0..4000 {
        let mut draw = Chooser { seed: Some(seed), ..Chooser::default() };
        let number = 3 + draw.choose(6);
        let fates: Vec<Fate> = (0..number)
            .map(|_| if draw.choose(3) == 0 { FATES[draw.choose(FATES.len())] } else { Fate::Measures })
            .collect();
        let with_wish = draw.choose(2) == 0;
        let told = std::panic::catch_unwind(move || run(&fates, with_wish, &mut draw));
        assert!(told.is_ok(), "seed {seed}");
    }
}
