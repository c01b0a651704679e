//! Random schedules: small machines, random programs, shortages of resources, a power cut at a random instant. Each
//! repeats from its seed.

use std::fmt;

use ssd::soak::{Plan as DevicePlan, small_device};
use stats::rng::SplitMix;

use crate::files::FileId;
use crate::mutation::Mutation;
use crate::program::{Op, View};
use crate::protocol::Sync;
use crate::setup::{Layout, Limits, Protocol, Setup};
use crate::sim::{FIRST_PID, Simulation, Verdict};

/// Images judged at the cut beside the device's own.
const LAWFUL_IMAGES: u64 = 6;
/// Virtual time that no schedule needs.
const END_NS: u64 = 60_000_000_000;

/// One schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The protocol.
    pub protocol: Protocol,
    /// Of everything random.
    pub seed: u64,
    /// A planted bug of the host.
    #[doc(hidden)]
    pub mutation: Option<Mutation>,
    /// A planted bug of the firmware.
    #[doc(hidden)]
    pub firmware: Option<ssd::mutation::Mutation>,
}

impl Schedule {
    /// Without planted bugs.
    pub fn new(protocol: Protocol, seed: u64) -> Schedule {
        Schedule { protocol, seed, mutation: None, firmware: None }
    }
}

/// What a schedule found, and how to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The schedule.
    pub schedule: Schedule,
    /// When the power was cut, ns.
    pub at: u64,
    /// What is wrong.
    pub verdict: Verdict,
    /// The commands up to then, as a table.
    pub trace: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.schedule;
        writeln!(f, "{} seed {} cut at {} ns:", s.protocol.name(), s.seed, self.at)?;
        self.verdict.violations.iter().take(4).try_for_each(|v| writeln!(f, "  {v}"))?;
        self.verdict.findings.iter().take(4).try_for_each(|v| writeln!(f, "  {v}"))
    }
}

impl std::error::Error for Failure {}

fn setup(schedule: &Schedule, rng: &mut SplitMix) -> Setup {
    let device = small_device(&DevicePlan::new(schedule.protocol.regime(), 0, schedule.seed));
    let cores = 1 + rng.below(4) as u16;
    let mut setup = Setup::testbed(schedule.protocol, device.profile, 1);
    setup.cores = cores;
    setup.queues = 1 + rng.below(usize::from(cores)) as u16;
    setup.tags = [1, 2, 4, 64][rng.below(4)];
    setup.pinning = rng.percent(60);
    setup.program_jitter = [0.0, 4.0, 20.0][rng.below(3)];
    // Room for the largest transaction in each core's share, small enough to wrap.
    let journal = if schedule.protocol == Protocol::Mqfs { 160 } else { [48, 160][rng.below(2)] };
    setup.layout = Layout { journal, groups: 1, inodes: 2, dirs: 1, data: 256 };
    setup.limits = Limits {
        command_blocks: [2, 4, 256][rng.below(3)],
        plug_requests: [1, 2, 32][rng.below(3)],
        plug_blocks: [2, 32][rng.below(2)],
        requeue_ns: 50_000,
    };
    setup.seed = schedule.seed;
    setup.shortage = [0.0, 0.05, 0.3][rng.below(3)];
    setup.chained = true;
    setup.mutation = schedule.mutation;
    setup.firmware = schedule.firmware;
    setup
}

/// A thread's random program over files that threads share.
fn program(
    files: Vec<FileId>,
    dir: FileId,
    mut rng: SplitMix,
    ops: usize,
    relaxed: bool,
) -> impl FnMut(View) -> Op {
    let mut left = ops;
    move |_| {
        if left == 0 {
            return Op::End;
        }
        left -= 1;
        let file = files[rng.below(files.len())];
        let pages = 1 + rng.below(6) as u32;
        match rng.below(22) {
            0 => Op::Compute(1000 * rng.below(200) as u64),
            1 => Op::Sleep(1000 * rng.below(400) as u64),
            2..=4 => Op::Write { file, page: rng.below(12) as u32, pages },
            5..=7 => Op::Append { file, pages },
            8 | 9 => Op::Create(file),
            10 => Op::Delete(file),
            11 => Op::Rename(file),
            12 => Op::Read { file, page: rng.below(12) as u32, pages },
            13 => Op::WriteOut(file),
            14 | 15 if relaxed => Op::Sync(file, Sync::Fbarrier),
            16 | 17 if relaxed => Op::Sync(file, Sync::Fdatabarrier),
            14 => Op::Sync(dir, Sync::Fsync),
            15 | 16 => Op::Sync(file, Sync::Fsync),
            17 => Op::Sync(file, Sync::Fdatasync),
            18 | 19 => Op::Sync(file, Sync::Fbarrier),
            _ => Op::Sync(file, Sync::Fdatabarrier),
        }
    }
}

/// Runs a schedule; one that fails runs again with a trace.
///
/// # Errors
/// [`Failure`] if a property is broken or recovery would lose something.
pub fn soak(schedule: &Schedule) -> Result<(), Box<Failure>> {
    run(schedule, false).or_else(|_| run(schedule, true))
}

fn run(schedule: &Schedule, traced: bool) -> Result<(), Box<Failure>> {
    let mut rng = SplitMix::new(schedule.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x50a4);
    let fail = |at, verdict, trace| Err(Box::new(Failure { schedule: schedule.clone(), at, verdict, trace }));
    let setup = Setup { traced, ..setup(schedule, &mut rng) };
    let mut sim = match Simulation::new(setup) {
        Ok(sim) => sim,
        Err(e) => unreachable!("the small machine is well formed: {e}"),
    };
    let files = make_files(&mut sim, &mut rng);
    let Some((dir, files)) = files else { unreachable!("the files fit") };
    // Long ones wrap the journal; relaxed ones ask for order only.
    let (long, relaxed) = (rng.percent(30), rng.percent(25));
    for thread in 0..1 + rng.below(4) as u32 {
        let ops = 2 + rng.below(if long { 40 } else { 10 });
        let own = SplitMix::new(rng.next_u64());
        // Ids that are the same in their lower 16 bits.
        sim.spawn_as("soak", FIRST_PID + (thread << 16), program(files.clone(), dir, own, ops, relaxed));
    }
    let horizon = if rng.percent(25) {
        END_NS
    } else {
        1000 * (1 + rng.below(if long { 12_000 } else { 3_000 })) as u64
    };
    sim.run(horizon);
    let at = sim.report().now;
    let (early, trace) = (sim.verdict(), sim.trace().table());
    if !early.is_clean() {
        return fail(at, early, trace);
    }
    for image in 0..LAWFUL_IMAGES {
        let verdict = sim.lawful_image(schedule.seed ^ (image << 40));
        if let Some(verdict) =
            verdict.filter(|v| !v.is_clean() && schedule.protocol != Protocol::Ext4NoBarrier)
        {
            return fail(at, verdict, trace);
        }
    }
    let mut verdict = sim.power_cut();
    if schedule.protocol == Protocol::Ext4NoBarrier {
        // It promises nothing over a power cut.
        verdict.findings.clear();
    }
    if verdict.is_clean() { Ok(()) } else { fail(at, verdict, trace) }
}

fn make_files(sim: &mut Simulation<'_>, rng: &mut SplitMix) -> Option<(FileId, Vec<FileId>)> {
    let dir = sim.dir(0)?;
    let count = 1 + rng.below(6);
    let files: Option<Vec<FileId>> =
        (0..count).map(|i| sim.file(dir, 16, (i % 2 == 0).then_some(16))).collect();
    Some((dir, files?))
}
