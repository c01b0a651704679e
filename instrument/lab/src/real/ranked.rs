//! A trial whose load many ranks run: ready together, begun at one moment, silent while they measure, added without loss.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use apps::ranks::Roll;
use apps::span::Span;
use cluster::balance::Balance;
use cluster::{ClusterError, Heard, Offset};
use engine::options::{Event, RunOptions, Stage};
use record::results::RankPart;
use stats::{Ended, Metric, Outcome, parallel};

use super::ending::Failure;
use super::trial::{Part, Processes, Trial, traced};
use crate::load::Prepared;
use crate::protocol::{Begin, Request};
use crate::ranks::{Answer, Crew, Order, Share, TOKEN};
use crate::runner::Progress;
use crate::site::Built;
use crate::supervise::{Departure, Told};

/// How often the user's wish and the time are looked at; no message is sent then.
const TICK: Duration = Duration::from_millis(100);
/// From the last rank's being ready to the start: enough to tell all of it, and for them to fall asleep.
const LEAD_NS: i64 = 50_000_000;
/// That much more for each rank, which has to be told.
const LEAD_OF_RANK_NS: i64 = 100_000;
/// Between phases the clocks are asked again when the last time is so long ago: at 50 ppm they part by half a millisecond.
const CLOCK_AGE_NS: i64 = 10_000_000_000;
/// After the first rank is done the others may take as long as the load, and this much more.
const HANG_PATIENCE: Duration = Duration::from_secs(60);
/// How long ranks may take to end when they are told to: as long as their processes may, and a little.
const END_PATIENCE: Duration = Duration::from_secs(15);
/// Seeds of a trial's ranks are so far apart.
const SEED_STEP: u64 = 1_000_003;

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        Failure::Message(error.to_string())
    }
}

/// What is known of one rank.
#[derive(Debug, Default)]
struct Seat {
    ready: bool,
    ended: bool,
    /// It makes its host cold.
    cools: bool,
    began: Option<(i64, i64)>,
    outcome: Option<Outcome>,
    spans: Vec<Span>,
    /// What it has brought to where all meet, and whether it wants to go on at one moment.
    met: Option<(u64, bool)>,
}

impl Trial<'_> {
    /// Runs the load on all ranks.
    pub(super) fn ranked(
        &mut self,
        crew: &Mutex<Crew>,
        load: &Prepared,
        built: &Built,
        processes: &Processes,
    ) -> Result<Departure, Failure> {
        let mut crew = crew.lock().unwrap_or_else(PoisonError::into_inner);
        let refuse = |why: &str| Err(Failure::Message(format!("with several ranks: {why}")));
        let settings = &self.job.study.study;
        let app = load.app();
        if !app.map_or_else(|| load.model().is_some(), |app| app.takes_ranks()) {
            return refuse("only workloads in WML, ior, mdtest and io500 can be run");
        }
        if load.containers.is_some() {
            return refuse("leave out --containers: the ranks are the many");
        }
        // what lies between the files and the load
        let is_staged = settings.cold || settings.explain;
        if is_staged && app.is_some() {
            return refuse(
                "this load writes and reads its files in one go: leave out --cold and --explain \
                 (--posix.odirect goes past the caches)",
            );
        }
        let hosts = crew.leader.firsts().len();
        if settings.explain && hosts > 1 {
            let why = format!("--explain traces this host alone, and the ranks are on {hosts}: leave it out");
            return refuse(&why);
        }
        if built.in_process().is_some() || !self.job.stack.label().starts_with("dir:") {
            return refuse("the target must be a directory that all hosts see: --on dir:/shared");
        }
        if crew.share == Share::Shared && load.model().is_some_and(engine::changes_files) {
            return refuse(
                "this workload makes or deletes files, so that each rank needs its own: --share per-rank",
            );
        }
        if let Some(lost) = crew.leader.first_lost() {
            return Err(lost.into());
        }
        // a load of many tasks says itself what is shared
        let share = if app.is_some() { Share::Shared } else { crew.share };
        if share == Share::Shared && app.is_none() {
            let prepared = self.child(Part::Stage(Stage::Prepare), processes);
            if prepared.told.is_some() || prepared.result.is_err() {
                return Ok(prepared);
            }
        }
        let size = crew.leader.size();
        let secret = format!("{} {} {}", self.job.run, self.place.number, std::process::id());
        let token = built.path().join(TOKEN);
        let failed = |error: std::io::Error| Failure::Message(format!("{token}: {error}"));
        std::fs::write(&token, &secret).map_err(failed)?;
        let mut way = Way {
            trial: self,
            crew: &mut crew,
            share,
            seats: Vec::new(),
            estimates: Vec::new(),
            notes: Vec::new(),
            raw_output: String::new(),
        };
        let parts: Vec<Request> =
            (0..size).map(|rank| way.part(rank, size, load, &processes.request)).collect();
        if share == Share::PerRank {
            parts.iter().try_for_each(|part| std::fs::create_dir(&part.root)).map_err(failed)?;
        }
        let give = Give { parts: &parts, token: token.as_std_path(), secret: &secret };
        let result = way.all(load, built, &give);
        if !matches!(result, Ok(Departure { told: None, .. })) {
            way.abort();
        }
        result
    }
}

/// What the ranks are given to do.
struct Give<'a> {
    parts: &'a [Request],
    token: &'a Path,
    secret: &'a str,
}

struct Way<'t, 'a, 'c> {
    trial: &'t mut Trial<'a>,
    crew: &'c mut Crew,
    share: Share,
    seats: Vec<Seat>,
    /// Offsets of all ranks' clocks, each time that they were asked for.
    estimates: Vec<Vec<Offset>>,
    /// What the reader of the result should know.
    notes: Vec<String>,
    raw_output: String,
}

impl Way<'_, '_, '_> {
    /// The part of a rank in what is asked for.
    fn part(&self, rank: u32, size: u32, load: &Prepared, whole: &Request) -> Request {
        let seed = whole.options.seed;
        let shared = self.share == Share::Shared;
        if load.app().is_some() {
            let hosts = (0..size).map(|rank| self.crew.leader.host(rank).to_string()).collect();
            // all tasks draw the same orders from one seed
            return Request { roll: Some(Roll { rank, hosts }), ..self.alone(rank, whole) };
        }
        let options = RunOptions {
            seed: seed.wrapping_add(u64::from(rank).wrapping_mul(SEED_STEP)),
            files_seed: shared.then_some(seed),
            stage: if shared { Stage::Measure } else { Stage::All },
            rate: whole.options.rate.map(|rate| rate / f64::from(size)),
            ops: whole.options.ops.map(|ops| ops.div_ceil(u64::from(size))),
            ..whole.options.clone()
        };
        let root = if shared { whole.root.clone() } else { whole.root.join(format!("rank-{rank:05}")) };
        Request { root, options, ..self.alone(rank, whole) }
    }

    /// What is asked for, the device's counters of rank 0's own load alone.
    fn alone(&self, rank: u32, whole: &Request) -> Request {
        let own = |name: &Option<String>| name.clone().filter(|_| rank == 0);
        Request { device: own(&whole.device), disk: own(&whole.disk), ..whole.clone() }
    }

    fn tell(&mut self, rank: u32, order: &Order) -> Result<(), Failure> {
        let text = serde_json::to_vec(order).map_err(|error| Failure::Message(error.to_string()))?;
        Ok(self.crew.leader.say(rank, &text)?)
    }

    /// The files and the load; between them what the study wants.
    fn all(&mut self, load: &Prepared, built: &Built, give: &Give<'_>) -> Result<Departure, Failure> {
        let settings = &self.trial.job.study.study;
        let (cold, explain) = (settings.cold, settings.explain);
        if !cold && !explain {
            self.give(give, None)?;
            return self.run(load);
        }
        if self.share == Share::PerRank {
            self.give(give, Some(Stage::Prepare))?;
            if let Some(told) = self.until(|seat| seat.ended, None)? {
                return Ok(self.departed(Err("the ranks did not make their files".into()), Some(told)));
            }
        }
        if cold {
            (self.trial.progress)(Progress::Cooling);
            if let Some(told) = self.cool(built.path().as_std_path())? {
                return Ok(self.departed(Err("the hosts did not get cold".into()), Some(told)));
            }
        }
        self.give(give, Some(Stage::Measure))?;
        if !explain {
            return self.run(load);
        }
        let (split, departure) = traced(built, || self.run(load))?;
        self.trial.report.fsync = Some(split);
        departure
    }

    /// Gives all ranks their parts, of which nothing is known yet.
    fn give(&mut self, give: &Give<'_>, stage: Option<Stage>) -> Result<(), Failure> {
        self.seats.clear();
        self.seats.resize_with(give.parts.len(), Seat::default);
        let limit = self.trial.job.study.study.memory.map(|limit| limit.0);
        for (rank, part) in give.parts.iter().enumerate() {
            let mut request = Box::new(part.clone());
            request.options.stage = stage.unwrap_or(request.options.stage);
            let order = Order::Run {
                request,
                token: give.token.to_path_buf(),
                secret: give.secret.to_string(),
                // the limit is that of a host
                memory_bytes: limit.map(|limit| limit / u64::from(self.crew.leader.beside(rank as u32))),
            };
            self.tell(rank as u32, &order)?;
        }
        Ok(())
    }

    /// Makes all hosts cold, by the first rank of each.
    fn cool(&mut self, root: &Path) -> Result<Option<Told>, Failure> {
        for rank in self.crew.leader.firsts() {
            self.tell(rank, &Order::Cool { root: root.to_path_buf() })?;
            if let Some(seat) = self.seats.get_mut(rank as usize) {
                seat.cools = true;
            }
        }
        self.until(|seat| !seat.cools, None)
    }

    fn run(&mut self, load: &Prepared) -> Result<Departure, Failure> {
        if let Some(told) = self.until(|seat| seat.ready, None)? {
            return Ok(self.departed(Err("the ranks did not get ready".into()), Some(told)));
        }
        let start_ns = self.go_on(Some(0), &[])?;
        (self.trial.progress)(Progress::Engine(Event::Line {
            text: format!("{} ranks begin together", self.seats.len()),
        }));
        let seconds = Duration::from_secs_f64(self.trial.job.load.load_seconds());
        let told = self.until(|seat| seat.ended, Some(seconds + HANG_PATIENCE))?;
        if told.is_some() {
            self.abort();
        }
        if told.is_none() {
            let last = self.offsets()?;
            self.estimates.push(last);
        }
        let outcome = self.sum(start_ns, load);
        Ok(self.departed(outcome.ok_or_else(|| "no rank came to a result".into()), told))
    }

    fn departed(&mut self, result: Result<Outcome, String>, told: Option<Told>) -> Departure {
        Departure { result, told, raw_output: std::mem::take(&mut self.raw_output) }
    }

    /// Lets all go on: at one moment that is told, or at once. Gives that moment. The clocks are asked when the last time
    /// is so many nanoseconds ago.
    fn go_on(&mut self, old_ns: Option<i64>, values: &[u64]) -> Result<i64, Failure> {
        let size = self.crew.leader.size();
        let mut at_ns = vec![0; size as usize];
        let mut start_ns = self.crew.leader.clock().now_ns();
        if let Some(old_ns) = old_ns {
            let known = self.estimates.last().and_then(|last| last.first()).map(|offset| offset.at_ns);
            if known.is_none_or(|known| start_ns - known >= old_ns) {
                let now = self.offsets()?;
                self.estimates.push(now);
            }
            start_ns = self.crew.leader.clock().now_ns() + LEAD_NS + LEAD_OF_RANK_NS * i64::from(size);
            let offsets = self.estimates.last().into_iter().flatten();
            at_ns = offsets.map(|offset| offset.there(start_ns)).collect();
        }
        for (rank, at_ns) in at_ns.into_iter().enumerate() {
            self.tell(rank as u32, &Order::Begin(Begin { at_ns, values: values.to_vec() }))?;
        }
        Ok(start_ns)
    }

    /// Lets all go on when all are where they meet.
    fn met(&mut self) -> Result<(), Failure> {
        let met: Option<Vec<(u64, bool)>> = self.seats.iter().map(|seat| seat.met).collect();
        let Some(met) = met else { return Ok(()) };
        self.seats.iter_mut().for_each(|seat| seat.met = None);
        let aligned = met.iter().any(|(_, aligned)| *aligned);
        let values: Vec<u64> = met.into_iter().map(|(value, _)| value).collect();
        self.go_on(aligned.then_some(CLOCK_AGE_NS), &values).map(drop)
    }

    /// The moment here at which a rank's clock shows `there_ns`: on the line between the estimates before and after it.
    fn here(&self, rank: usize, there_ns: i64) -> i64 {
        let of_rank = |all: &Vec<Offset>| all.get(rank).copied();
        let after = self
            .estimates
            .iter()
            .filter_map(of_rank)
            .position(|offset| offset.there(offset.at_ns) >= there_ns);
        let last = self.estimates.len().saturating_sub(1);
        let at = after.unwrap_or(last).max(1).min(last);
        let estimate = |at: usize| self.estimates.get(at).and_then(of_rank);
        match (estimate(at.saturating_sub(1)), estimate(at)) {
            (Some(before), Some(after)) => before.between(&after, before.here(there_ns)).here(there_ns),
            _ => there_ns,
        }
    }

    fn offsets(&mut self) -> Result<Vec<Offset>, Failure> {
        (0..self.crew.leader.size()).map(|rank| Ok(self.crew.leader.offset(rank)?)).collect()
    }

    /// Hears until all seats are as wanted; `Some` when the user or the clock wants an end. `hang`: so long after the first
    /// rank has ended the others are given up.
    ///
    /// # Errors
    /// A rank that failed, died or hangs.
    fn until(&mut self, done: fn(&Seat) -> bool, hang: Option<Duration>) -> Result<Option<Told>, Failure> {
        let mut first_ended: Option<Instant> = None;
        while !self.seats.iter().all(done) {
            if self.trial.stop.load(Ordering::Acquire) {
                return Ok(Some(Told::Interrupted));
            }
            if Instant::now() >= self.trial.deadline {
                return Ok(Some(Told::TimedOut));
            }
            if let Some((since, hang)) = first_ended.zip(hang)
                && since.elapsed() > hang
                && let Some(rank) = self.seats.iter().position(|seat| !seat.ended)
            {
                let why = format!("hangs: not done {} s after the first", hang.as_secs());
                self.crew.leader.give_up(rank as u32, &why);
                return Err(Failure::Message(format!("{} {why}", self.crew.leader.name(rank as u32))));
            }
            self.hear(TICK)?;
            if first_ended.is_none() && self.seats.iter().any(|seat| seat.ended) {
                first_ended = Some(Instant::now());
            }
        }
        Ok(None)
    }

    fn hear(&mut self, patience: Duration) -> Result<(), Failure> {
        match self.crew.leader.hear(Instant::now() + patience)? {
            Heard::Nothing => Ok(()),
            Heard::Lost(rank) => {
                let why = self.crew.leader.lost(rank).unwrap_or("is gone");
                Err(Failure::Message(format!("{} {why}; the others were ended", self.crew.leader.name(rank))))
            }
            Heard::Said(rank, text) => {
                let name = self.crew.leader.name(rank);
                let wrong = |error| Failure::Message(format!("{name} cannot be understood: {error}"));
                let answer = serde_json::from_slice::<Answer>(&text).map_err(wrong)?;
                let seat = &mut self.seats[rank as usize];
                match answer {
                    Answer::Ready => seat.ready = true,
                    Answer::Cooled { result } => {
                        seat.cools = false;
                        let host = self.crew.leader.host(rank);
                        let told = |why| format!("the caches of host {host} were not dropped: {why}");
                        self.notes.extend(result.err().map(told));
                    }
                    Answer::Meet { value, aligned } => {
                        seat.met = Some((value, aligned));
                        return self.met();
                    }
                    Answer::Ended { began, result, raw_output, spans } => {
                        (seat.ended, seat.began, seat.spans) = (true, began, spans);
                        self.raw_output.push_str(&raw_output);
                        let failed = match result {
                            Ok(outcome) => match outcome.ended {
                                Ended::Failed { message } => message,
                                _ => {
                                    seat.outcome = Some(*outcome);
                                    return Ok(());
                                }
                            },
                            Err(why) => why,
                        };
                        return Err(Failure::Message(format!("{name}: {failed}; the others were ended")));
                    }
                }
                Ok(())
            }
        }
    }

    /// Ends what still runs, so that the next trial finds the ranks idle; a rank that does not end is given up.
    fn abort(&mut self) {
        let open = |way: &Self| -> Vec<u32> {
            let ranks = 0..way.crew.leader.size();
            ranks
                .filter(|rank| !way.seats[*rank as usize].ended && way.crew.leader.lost(*rank).is_none())
                .collect()
        };
        for rank in open(self) {
            // one that is gone needs no order
            let _ = self.tell(rank, &Order::Abort);
        }
        let deadline = Instant::now() + END_PATIENCE;
        while !open(self).is_empty() && Instant::now() < deadline {
            // the first failure is the one that is told
            let _ = self.hear(TICK);
        }
        for rank in open(self) {
            self.crew.leader.give_up(rank, "hangs: it did not end when it was told to");
        }
    }

    /// All outcomes as one, the parts kept.
    fn sum(&mut self, start_ns: i64, load: &Prepared) -> Option<Outcome> {
        let (mut parts, mut tasks) = (Vec::new(), Vec::new());
        let mut seats = std::mem::take(&mut self.seats);
        let (before, after) = (self.estimates.first()?.clone(), self.estimates.last()?.clone());
        for (rank, seat) in seats.iter_mut().enumerate() {
            let Some(outcome) = seat.outcome.take() else { continue };
            let (began_ns, late_ns) = seat.began.unwrap_or((before[rank].there(start_ns), 0));
            let took_ns = ((outcome.warmup_seconds + outcome.measured_seconds) * 1e9) as i64;
            let spans = std::mem::take(&mut seat.spans);
            let spans: Vec<Span> = spans.into_iter().map(|span| span.on(|at| self.here(rank, at))).collect();
            let ended = spans.last().map(|span| span.marks_ns[3]);
            let here = ended.unwrap_or_else(|| self.here(rank, began_ns + took_ns));
            tasks.push(spans);
            parts.push(RankPart {
                rank: rank as u32,
                host: self.crew.leader.host(rank as u32).to_string(),
                clock_offset_ns: before[rank].ns,
                clock_bound_ns: self.estimates.iter().map(|all| all[rank].bound_ns).max().unwrap_or(0),
                clock_drift_ppm: before[rank].drift_ppm(&after[rank]),
                late_ns,
                ended_seconds: (here - start_ns) as f64 / 1e9,
                outcome,
            });
        }
        self.seats = seats;
        let mut whole = parallel::together(parts.iter().map(|part| part.outcome.clone()))?;
        let bound_ns = parts.iter().map(|part| part.clock_bound_ns).max().unwrap_or(0);
        if let Some(app) = load.app() {
            app.conclude(&tasks, bound_ns, &mut whole);
        }
        describe(&mut whole, &parts, load);
        whole.notes.append(&mut self.notes);
        for (name, values) in self.crew.leader.differing_facts() {
            let values: Vec<String> =
                values.into_iter().map(|(value, host)| format!("{value} on {host}")).collect();
            whole.notes.push(format!("the hosts differ in {name}: {}", values.join(", ")));
        }
        self.trial.report.extras.ranks = parts;
        Some(whole)
    }
}

fn metric(name: &str, unit: &str, value: f64) -> Metric {
    Metric { name: name.into(), unit: unit.into(), value }
}

/// What shows how equal the ranks were, as metrics and as sentences.
fn describe(whole: &mut Outcome, parts: &[RankPart], load: &Prepared) {
    let rates: Vec<f64> = parts.iter().map(|part| part.outcome.io_ops_per_second()).collect();
    let most = |of: fn(&RankPart) -> f64| parts.iter().map(of).fold(0.0, f64::max);
    let late = most(|part| part.late_ns as f64 / 1e9);
    let bound = most(|part| part.clock_bound_ns as f64 / 1e9);
    let last = most(|part| part.ended_seconds);
    let first = parts.iter().map(|part| part.ended_seconds).fold(f64::INFINITY, f64::min);
    whole.metrics.extend([
        metric("ranks", "1", parts.len() as f64),
        metric("rank_start_late_max_seconds", "s", late),
        metric("rank_clock_bound_max_seconds", "s", bound),
        metric("rank_first_done_seconds", "s", first),
        metric("rank_last_done_seconds", "s", last),
    ]);
    let mut hosts: Vec<&str> = parts.iter().map(|part| part.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    whole.notes.push(format!(
        "{} ranks on {} {}: begun within {:.6} s of one moment, clocks known to {:.6} s; the first done after \
         {first:.3} s, the last after {last:.3} s",
        parts.len(),
        hosts.len(),
        if hosts.len() == 1 { "host" } else { "hosts" },
        late,
        bound,
    ));
    if bound > load.load_seconds().max(f64::MIN_POSITIVE) * 0.01 {
        whole.notes.push(
            "the clocks are known to less than 1 % of the load: trust each rank's own times only".into(),
        );
    }
    let Some(balance) = Balance::of(&rates) else { return };
    whole.metrics.extend([
        metric("rank_median_ops_per_second", "1/s", balance.median),
        metric("rank_imbalance", "1", balance.imbalance),
        metric("rank_fairness", "1", balance.fairness),
    ]);
    for straggler in balance.stragglers {
        let Some(part) = parts.get(straggler as usize) else { continue };
        whole.notes.push(format!(
            "straggler: rank {} on host {} did {:.1} op/s, the median rank {:.1}",
            part.rank, part.host, rates[straggler as usize], balance.median
        ));
    }
}
