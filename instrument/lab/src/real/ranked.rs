//! A trial whose load many ranks run: ready together, begun at one moment, silent while they measure, added without loss.

use std::sync::{Mutex, PoisonError};

use apps::ranks::RankInfo;
use engine::options::{RunOptions, Stage};

use super::trial::{ProcessTask, Processes, Trial, traced};
use crate::load::ResolvedWorkload;
use crate::protocol::Request;
use crate::ranks::{LeaderCommand, RankGroup, TOKEN, TargetSharing};
use crate::runner::Progress;
use crate::stack_factory::BuiltStack;
use crate::trial::executor::Failure;
use crate::trial::ranks::Ranks;
use crate::trial::share;
use crate::trial::supervisor::WorkersOutcome;

/// Seeds of a trial's ranks are so far apart.
const SEED_STEP: u64 = 1_000_003;

impl Trial<'_> {
    /// Runs the load on all ranks.
    pub(super) fn ranked(
        &mut self,
        crew: &Mutex<RankGroup>,
        built: &BuiltStack,
        processes: &Processes<'_>,
    ) -> Result<WorkersOutcome, Failure> {
        let load = processes.load;
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
        if crew.share == TargetSharing::Shared && load.model().is_some_and(engine::changes_files) {
            return refuse(
                "this workload makes or deletes files, so that each rank needs its own: --share per-rank",
            );
        }
        if let Some(lost) = crew.leader.first_lost() {
            return Err(lost.into());
        }
        // a load of many tasks says itself what is shared
        let share = if app.is_some() { TargetSharing::Shared } else { crew.share };
        if share == TargetSharing::Shared && app.is_none() {
            let prepared = self.alone(ProcessTask::Stage(Stage::Prepare), processes)?;
            if prepared.stopped.is_some() || prepared.result.is_err() {
                return Ok(prepared);
            }
        }
        let secret = format!("{} {} {}", self.job.run, self.place.number, std::process::id());
        let token = built.path().join(TOKEN);
        let failed = |error: std::io::Error| Failure::Message(format!("{token}: {error}"));
        std::fs::write(&token, &secret).map_err(failed)?;
        let ranks = 0..crew.leader.size();
        let requests: Vec<Request> =
            ranks.map(|rank| part(rank, &crew, share, load, &processes.request)).collect();
        if share == TargetSharing::PerRank {
            requests.iter().try_for_each(|part| std::fs::create_dir(&part.root)).map_err(failed)?;
        }
        // the limit is that of a host
        let limit = settings.memory.map(|limit| limit.0);
        let shares: Vec<Option<u64>> = (0..crew.leader.size())
            .map(|rank| limit.map(|limit| limit / u64::from(crew.leader.ranks_on_host_of(rank))))
            .collect();
        let orders = |stage: Option<Stage>| {
            let order = |(rank, (request, memory_bytes)): (usize, (&Request, &Option<u64>))| {
                let mut request = Box::new(request.clone());
                request.options.stage = stage.unwrap_or(request.options.stage);
                let (token, secret) = (token.clone().into(), secret.clone());
                (rank as u32, LeaderCommand::Run { request, token, secret, memory_bytes: *memory_bytes })
            };
            requests.iter().zip(&shares).enumerate().map(order).collect::<Vec<_>>()
        };
        let (cold, explain) = (settings.cold, settings.explain);
        let mut notes = Vec::new();
        let mut before: Vec<Vec<(u32, LeaderCommand)>> = Vec::new();
        if is_staged && share == TargetSharing::PerRank {
            before.push(orders(Some(Stage::Prepare)));
        }
        if cold {
            let cool = |rank| (rank, LeaderCommand::Cool { root: built.path().as_std_path().to_path_buf() });
            before.push(crew.leader.firsts().into_iter().map(cool).collect());
        }
        for orders in before {
            if let Some((_, LeaderCommand::Cool { .. })) = orders.first() {
                (self.progress)(Progress::Cooling);
            }
            let departure = self.by_ranks(&mut crew, processes, orders)?;
            match departure {
                WorkersOutcome { stopped: None, result: Ok(outcome), .. } => notes.extend(outcome.notes),
                ended => return Ok(ended),
            }
        }
        let orders = orders(is_staged.then_some(Stage::Measure));
        let mut departure = if explain {
            let (split, departure) = traced(built, || self.by_ranks(&mut crew, processes, orders))?;
            self.report.fsync = Some(split);
            departure?
        } else {
            self.by_ranks(&mut crew, processes, orders)?
        };
        if let Ok(outcome) = &mut departure.result {
            outcome.notes.extend(notes);
        }
        Ok(departure)
    }

    /// Lets ranks do what they are ordered to, at once.
    fn by_ranks(
        &mut self,
        crew: &mut RankGroup,
        processes: &Processes<'_>,
        orders: Vec<(u32, LeaderCommand)>,
    ) -> Result<WorkersOutcome, Failure> {
        let mut parts = Vec::new();
        let ranks = Ranks::new(crew, processes.load, orders, &mut parts);
        let departure = self.execute(processes, ranks, Some("ranks"))?;
        self.report.extras.ranks = parts;
        Ok(departure)
    }
}

/// The part of a rank in what is asked for.
fn part(
    rank: u32,
    crew: &RankGroup,
    share: TargetSharing,
    load: &ResolvedWorkload,
    whole: &Request,
) -> Request {
    let (size, seed, shared) = (crew.leader.size(), whole.options.seed, share == TargetSharing::Shared);
    if load.app().is_some() {
        let hosts = (0..size).map(|rank| crew.leader.host(rank).to_string()).collect();
        // all tasks draw the same orders from one seed
        return Request { roll: Some(RankInfo { rank, hosts }), one_of_many: true, ..whole.clone() };
    }
    let options = RunOptions {
        seed: seed.wrapping_add(u64::from(rank).wrapping_mul(SEED_STEP)),
        files_seed: shared.then_some(seed),
        stage: if shared { Stage::Measure } else { Stage::All },
        rate: whole.options.rate.map(|rate| rate / f64::from(size)),
        ops: whole.options.ops.map(|ops| share::of(ops, rank, size)),
        ..whole.options.clone()
    };
    let root = if shared { whole.root.clone() } else { whole.root.join(format!("rank-{rank:05}")) };
    Request { root, options, one_of_many: true, ..whole.clone() }
}
