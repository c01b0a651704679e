//! Workers of a launcher's ranks: ready together, begun at one moment of all clocks, silent while they measure, added without loss.

use std::time::{Duration, Instant};

use apps::span::Span;
use cluster::balance::Balance;
use cluster::{ClusterError, Offset, RankEvent as FromRank};
use stats::metric::{Metric, names};
use stats::{Outcome, parallel};
use study::results::RankPart;

use super::executor::{Executor, Failure, StopReason, Worker, WorkerEvent};
use super::share;
use crate::load::ResolvedWorkload;
use crate::protocol::{Instruction, Message, Release};
use crate::ranks::{LeaderCommand, RankGroup};

/// From the last rank's being ready to the start: enough to tell all of it, and for them to fall asleep.
const LEAD_NS: i64 = 50_000_000;
/// That much more for each rank, which has to be told.
const LEAD_OF_RANK_NS: i64 = 100_000;
/// Between phases the clocks are asked again when the last time is so long ago: at 50 ppm they part by half a millisecond.
const CLOCK_AGE_NS: i64 = 10_000_000_000;
/// How often a rank that is to end is heard.
const TICK: Duration = Duration::from_millis(100);
/// How long ranks may take to end when they are told to: as long as their workers may, and a little.
pub(crate) const END_PATIENCE: Duration = Duration::from_secs(15);

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        Failure::Message(error.to_string())
    }
}

/// What some ranks do at once. Dropped, it ends what still runs, so that the next trial finds the ranks idle.
pub(crate) struct Ranks<'c> {
    crew: &'c mut RankGroup,
    load: &'c ResolvedWorkload,
    /// Which rank does what.
    orders: Vec<(u32, LeaderCommand)>,
    /// Those that have begun and not ended.
    busy: Vec<bool>,
    /// Offsets of all ranks' clocks, each time that they were asked for.
    estimates: Vec<Vec<Offset>>,
    /// When the gate opened first, by rank 0's clock.
    start_ns: i64,
    /// Where the ranks' parts are kept.
    parts: &'c mut Vec<RankPart>,
}

impl<'c> Ranks<'c> {
    pub(crate) fn new(
        crew: &'c mut RankGroup,
        load: &'c ResolvedWorkload,
        orders: Vec<(u32, LeaderCommand)>,
        parts: &'c mut Vec<RankPart>,
    ) -> Ranks<'c> {
        let busy = vec![false; orders.len()];
        Ranks { crew, load, orders, busy, estimates: Vec::new(), start_ns: 0, parts }
    }

    /// Tells a rank something. One that is gone shows by that.
    fn order(&mut self, worker: usize, order: &LeaderCommand) {
        let text = serde_json::to_vec(order).unwrap_or_default();
        let _ = self.crew.leader.send(self.orders[worker].0, &text);
    }

    fn ask_clocks(&mut self) {
        let ranks = 0..self.crew.leader.size();
        let offsets: Result<Vec<Offset>, ClusterError> =
            ranks.map(|rank| self.crew.leader.offset(rank)).collect();
        // of a rank that is gone nothing is measured
        self.estimates.extend(offsets);
    }

    fn busy(&self) -> Vec<usize> {
        (0..self.busy.len()).filter(|at| self.busy[*at]).collect()
    }

    /// The moment here at which a rank's clock shows `there_ns`: on the line between the estimates before and after it.
    fn to_local_time(&self, rank: usize, there_ns: i64) -> i64 {
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
            (Some(before), Some(after)) => {
                before.between(&after, before.to_local(there_ns)).to_local(there_ns)
            }
            _ => there_ns,
        }
    }

    /// All outcomes as one, the parts kept.
    fn sum(&mut self, workers: Vec<Worker<Outcome>>) -> Option<Outcome> {
        let (mut parts, mut tasks, start_ns) = (Vec::new(), Vec::new(), self.start_ns);
        let (before, after) = (self.estimates.first()?.clone(), self.estimates.last()?.clone());
        for (rank, worker) in workers.into_iter().enumerate() {
            let Some(Ok(outcome)) = worker.result else { continue };
            let (began_ns, late_ns) = worker.passed.unwrap_or((before[rank].there(start_ns), 0));
            // the gate comes before what all jobs wait
            let delay = self.load.model().map_or(0.0, workload::Workload::common_delay_seconds);
            let took_ns = ((delay + outcome.warmup_seconds + outcome.measured_seconds) * 1e9) as i64;
            let spans = worker.spans.into_iter();
            let spans: Vec<Span> = spans.map(|span| span.on(|at| self.to_local_time(rank, at))).collect();
            let ended = spans.last().map(|span| span.marks_ns[3]);
            let here = ended.unwrap_or_else(|| self.to_local_time(rank, began_ns + took_ns));
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
        let mut whole = parallel::combine(parts.iter().map(|part| part.outcome.clone()))?;
        let bound_ns = parts.iter().map(|part| part.clock_bound_ns).max().unwrap_or(0);
        if let Some(app) = self.load.app() {
            app.conclude(&tasks, bound_ns, &mut whole);
        }
        describe(&mut whole, &parts, self.load);
        for (name, values) in self.crew.leader.differing_facts() {
            let values: Vec<String> =
                values.into_iter().map(|(value, host)| format!("{value} on {host}")).collect();
            whole.notes.push(format!("the hosts differ in {name}: {}", values.join(", ")));
        }
        *self.parts = parts;
        Some(whole)
    }
}

impl Executor for Ranks<'_> {
    type Result = Outcome;

    fn size(&self) -> usize {
        self.orders.len()
    }

    fn name(&self, worker: usize) -> String {
        self.crew.leader.name(self.orders[worker].0)
    }

    fn spawn(&mut self, worker: usize) -> Result<(), Failure> {
        let order = self.orders[worker].1.clone();
        self.busy[worker] = true;
        self.order(worker, &order);
        Ok(())
    }

    fn poll_events(&mut self, patience: Duration) -> Result<Vec<(usize, WorkerEvent<Outcome>)>, Failure> {
        // those that were given up say nothing any more
        let lost =
            |at: &usize| self.crew.leader.lost(self.orders[*at].0).map(|why| (*at, format!(" ({why})")));
        let gone: Vec<(usize, String)> = self.busy().iter().filter_map(lost).collect();
        let mut heard: Vec<(usize, WorkerEvent<Outcome>)> = Vec::new();
        if gone.is_empty()
            && let FromRank::Said(rank, text) = self.crew.leader.receive(Instant::now() + patience)?
            && let Some(at) = self.orders.iter().position(|(of, _)| *of == rank)
        {
            match serde_json::from_slice::<Message>(&text) {
                Ok(message) => heard.push((at, message.into())),
                Err(error) => self.crew.leader.give_up(rank, &format!("cannot be understood: {error}")),
            }
        }
        heard.extend(gone.into_iter().map(|(at, why)| (at, WorkerEvent::Ended(why))));
        for (at, _) in heard.iter().filter(|(_, heard)| matches!(heard, WorkerEvent::Ended(_))) {
            self.busy[*at] = false;
        }
        Ok(heard)
    }

    fn send(&mut self, worker: usize, what: &Instruction) {
        // ranks never ask for what only rank 0's host knows
        if let Instruction::Proceed(release) = what {
            self.order(worker, &LeaderCommand::Proceed(release.clone()));
        }
    }

    fn release(&mut self, workers: &[usize], release: Release) -> Duration {
        let clock = self.crew.leader.clock();
        let known = self.estimates.last().and_then(|last| last.first()).map(|offset| offset.at_ns);
        if release.aligned && known.is_none_or(|known| clock.now_ns() - known >= CLOCK_AGE_NS) {
            self.ask_clocks();
        }
        let lead_ns = LEAD_NS + LEAD_OF_RANK_NS * self.orders.len() as i64;
        let start_ns = clock.now_ns() + lead_ns;
        if known.is_none() {
            self.start_ns = start_ns;
        }
        for worker in workers {
            let offset = self.estimates.last().and_then(|last| last.get(*worker)).filter(|_| release.aligned);
            let at_ns = offset.map_or(0, |offset| offset.there(start_ns));
            self.order(*worker, &LeaderCommand::Proceed(Release { at_ns, ..release.clone() }));
        }
        if release.aligned { Duration::from_nanos(lead_ns as u64) } else { Duration::ZERO }
    }

    fn stop(&mut self, _reason: StopReason) {
        for worker in self.busy() {
            self.order(worker, &LeaderCommand::Abort);
        }
    }

    fn kill(&mut self) {
        for worker in self.busy() {
            let rank = self.orders[worker].0;
            self.crew.leader.give_up(rank, "hangs: it did not end when it was told to");
        }
    }

    fn collect(&mut self, workers: Vec<Worker<Outcome>>) -> Result<Outcome, Failure> {
        if self.estimates.is_empty() {
            // nothing was measured: files were made, or hosts made cold
            let outcomes = workers.into_iter().filter_map(|worker| worker.result?.ok());
            return parallel::combine(outcomes).ok_or(Failure::Message("the ranks did not get ready".into()));
        }
        self.ask_clocks();
        Ok(self.sum(workers).ok_or("no rank came to a result".to_string())?)
    }
}

impl Drop for Ranks<'_> {
    fn drop(&mut self) {
        self.stop(StopReason::Failed);
        let deadline = Instant::now() + END_PATIENCE;
        while !self.busy().is_empty() && Instant::now() < deadline && self.poll_events(TICK).is_ok() {}
        self.kill();
    }
}

/// What shows how equal the ranks were, as metrics and as sentences.
fn describe(whole: &mut Outcome, parts: &[RankPart], load: &ResolvedWorkload) {
    // those without a share of the work have no rate to compare
    let worked: Vec<&RankPart> = parts.iter().filter(|part| share::had_work(&part.outcome)).collect();
    let rates: Vec<f64> = worked.iter().map(|part| part.outcome.io_ops_per_second()).collect();
    let most = |of: fn(&RankPart) -> f64| parts.iter().map(of).fold(0.0, f64::max);
    let late = most(|part| part.late_ns as f64 / 1e9);
    let bound = most(|part| part.clock_bound_ns as f64 / 1e9);
    let last = most(|part| part.ended_seconds);
    let first = parts.iter().map(|part| part.ended_seconds).fold(f64::INFINITY, f64::min);
    whole.metrics.extend([
        Metric::machine(names::RANKS, "1", parts.len() as f64),
        Metric::duration(names::RANK_START_LATE_MAX_SECONDS, late),
        Metric::duration(names::RANK_CLOCK_BOUND_MAX_SECONDS, bound),
        Metric::duration(names::RANK_FIRST_DONE_SECONDS, first),
        Metric::duration(names::RANK_LAST_DONE_SECONDS, last),
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
        Metric::rate(names::RANK_MEDIAN_OPS_PER_SECOND, "1/s", balance.median),
        Metric::rate(names::RANK_IMBALANCE, "1", balance.imbalance),
        Metric::rate(names::RANK_FAIRNESS, "1", balance.fairness),
    ]);
    for straggler in balance.stragglers {
        let Some(part) = worked.get(straggler as usize) else { continue };
        whole.notes.push(format!(
            "straggler: rank {} on host {} did {:.1} op/s, the median rank {:.1}",
            part.rank, part.host, rates[straggler as usize], balance.median
        ));
    }
}
