//! Whether the trials of a block can take turns: stacks side by side, their loads in slices of time.
//!
//! What the machine does for longer than a turn then hits every stack of the block alike, and the ratio within the block is known
//! several times better in the same time. A trial stays what it is: a fresh stack, a load of its full length, all that is
//! measured of it; only the clock of a load stands still while another one has its turn. It is valid where no stack pays in its turn
//! for what another one did, and nothing in the load goes by the wall clock. [`slices`] says it of kept stacks, whose loads go on by
//! numbers of operations.

use host::Host;
use rustix::fs::statfs;
use spec::{Device, FsKind, StackSpec};
use study::plan;
use study::{Seconds, Study};
use workload::stream::Replay;
use workload::{EndMode, Kind, Node, Step, Thread, Value, Workload};

use crate::load::ResolvedWorkload;

/// Length of a turn where nothing is written that is not in memory, in seconds. Noise has structure from 10 ms to 5 s: shorter turns
/// catch more of it, until switching counts.
const TURN_SECONDS: f64 = stats::slices::SHORTEST;
/// The same where a load waits for a device: an operation that straddles the end of a turn is then a small part of it.
const TURN_SECONDS_SYNCED: f64 = 0.1;
/// Fewest turns of a trial: of fewer the last, which may be cut short, counts.
const TURNS_MIN: f64 = 10.0;
/// Most lanes of a load: each wakes at the begin of a turn.
const THREADS_MAX: u64 = 64;
/// `f_type` of file systems in memory (linux/magic.h): tmpfs, ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// Part of the memory that the files of all stacks may fill together: one trial at a time would find it all free, and an emulated
/// drive holds its data in memory a second time.
const MEMORY_SHARE: u64 = 4;

/// How long turns are to be, or why there are none.
///
/// # Errors
/// The reason, as the end of a sentence that begins with "trials do not take turns, since".
pub fn turn(study: &Study, loads: &[ResolvedWorkload]) -> Result<Seconds, &'static str> {
    settings(study)?;
    let in_memory = study.stacks.iter().all(is_in_memory);
    let mut synced = false;
    let room = memory_bytes() / MEMORY_SHARE / study.stacks.len() as u64;
    for load in loads.iter() {
        let model = load.model().ok_or("applications and simulations run as a whole")?;
        timing(load, model)?;
        if load.sized_by_target {
            return Err("the size of the load's files depends on the target");
        }
        if file_bytes(model) > room {
            return Err("the files of all stacks would fill more than a quarter of the memory together");
        }
        for thread in model.threads() {
            let ops = kinds(thread)?;
            let writes = ops.iter().any(|kind| leaves_more(*kind));
            let pays = ops.iter().any(|kind| matches!(kind, Kind::Fsync | Kind::FsyncSet));
            if writes && !in_memory && !pays {
                return Err(
                    "the load leaves written data for later, which another stack's turn would pay for",
                );
            }
            synced |= writes && !in_memory;
        }
    }
    if synced && plan::stacks(study).iter().filter(|stack| is_on_a_common_disk(stack)).count() > 1 {
        return Err("stacks that sync share a disk, and with it what one has left in its cache and journal");
    }
    let seconds = if synced { TURN_SECONDS_SYNCED } else { TURN_SECONDS };
    let shortest = loads.iter().map(|load| load.seconds).fold(f64::INFINITY, f64::min);
    if shortest < TURNS_MIN * seconds {
        return Err("the trials are too short to be cut into turns");
    }
    Seconds::new(seconds).map_err(|_| "the length of a turn is out of range")
}

/// Memory that loads may have: the machine's, or a limit that this process is under.
fn memory_bytes() -> u64 {
    let host = Host::system();
    let limit = host::cgroup::memory_limit(&host).unwrap_or(u64::MAX);
    host.memory_bytes().map_or(limit, |all| all.min(limit))
}

/// Bytes of all files that a load may have at once. One that is not known yet is refused elsewhere, with a message of its own.
fn file_bytes(model: &Workload) -> u64 {
    let of = |set| workload::Layout::build(set, &model.draws, 1).map_or(0, |layout| layout.total_bytes());
    model.filesets.iter().map(of).fold(0, u64::saturating_add)
}

fn settings(study: &Study) -> Result<(), &'static str> {
    let settings = &study.study;
    let by_workload = |workload: &study::Workload| {
        workload.rate.is_some() || workload.ops.is_some() || workload.warmup.is_some_and(|w| w.0 > 0.0)
    };
    if study.stacks.len() < 2 || !study.rows.is_empty() {
        Err("there are no stacks to compare")
    } else if settings.turns.is_some() || !settings.offered.is_empty() || !settings.containers.is_empty() {
        Err("the study has an order of its own")
    } else if settings.rate.is_some() || study.workloads.iter().any(by_workload) {
        Err("the load goes by a rate, by a number of operations, or is warmed up")
    } else if settings.ops.is_some() || settings.warmup.is_some_and(|warmup| warmup.0 > 0.0) {
        Err("the load goes by a number of operations, or is warmed up")
    } else if settings.cold || settings.explain || settings.keep || settings.stop_early.is_some() {
        Err("--cold, --explain, --keep and --stop-early are for trials one by one")
    } else {
        side_by_side(study)
    }
}

/// Whether all stacks can be there at once.
fn side_by_side(study: &Study) -> Result<(), &'static str> {
    let stacks = plan::stacks(study);
    let devices: Vec<_> = stacks.iter().filter_map(StackSpec::block_device).collect();
    let is_twice = |at: usize| devices[..at].contains(&devices[at]);
    if (0..devices.len()).any(is_twice) {
        return Err("two stacks are on one device");
    }
    match stacks
        .iter()
        .any(|stack| stack.guest().is_some() || stack.network().is_some() || stack.in_process())
    {
        true => Err("guests, networks and file systems in the load's process run as a whole"),
        false => Ok(()),
    }
}

/// What goes by the wall clock.
fn timing(load: &ResolvedWorkload, model: &Workload) -> Result<(), &'static str> {
    let steps = |wanted: fn(&Step) -> bool| model.script.iter().any(wanted);
    let counts = |step: &Step| {
        matches!(step, Step::Run { ops: Some(_), .. })
            || matches!(step, Step::Run { warmup_seconds: 1.., .. })
            || matches!(step, Step::Run { report_period_seconds: Some(_), .. })
    };
    if model.end != EndMode::Timeout || load.warmup_seconds > 0.0 || model.script.iter().any(counts) {
        return Err("the script counts operations, reports by periods, or is warmed up");
    }
    if steps(|step| matches!(step, Step::System(_))) {
        return Err("the script starts programs");
    }
    let threads = |thread: &Thread| thread.instances;
    let number: u64 = (model.processes.iter())
        .map(|process| process.instances * process.threads.iter().map(threads).sum::<u64>())
        .sum();
    if number > THREADS_MAX {
        return Err("the load has more than 64 threads");
    }
    Ok(())
}

/// Whether a load can go in slices (`ab --slices`). One that is due by the clock cannot: the clock runs on while the other stack has
/// its slice, and what was due meanwhile follows at once, without any limit. (A pause that begins in a slice also ends in it.)
///
/// # Errors
/// The reason, as the end of a sentence that begins with "it does not go in slices, since".
pub fn slices(study: &Study, load: &ResolvedWorkload) -> Result<(), &'static str> {
    let Some(model) = load.model() else { return Ok(()) };
    let of_workload = study.workloads.iter().find(|workload| workload.label() == load.workload);
    if study.study.rate.or(of_workload.and_then(|workload| workload.rate)).is_some() {
        return Err("it is offered at a rate");
    }
    let is_limiter =
        |kind: &Kind| matches!(kind, Kind::EventLimit | Kind::IopsLimit | Kind::OpsLimit | Kind::BwLimit);
    // without events limiters let everything pass
    let is_limited = model.events_per_second.and_then(Value::fixed).is_some_and(|rate| rate > 0);
    if is_limited && model.threads().any(|thread| flowops(thread).iter().any(is_limiter)) {
        return Err("its limiters let pass what is due by the clock (`eventgen`)");
    }
    for stream in model.streams() {
        if stream.pace.bytes_per_second != [0, 0] {
            return Err("a job has a rate (`rate`, `rate_iops`)");
        }
        if stream.budget.delay_seconds > 0.0 {
            return Err("a job begins by the clock (`startdelay`)");
        }
        if stream.replay.as_ref().is_some_and(Replay::is_paced) {
            return Err("a trace is replayed by the clock (speed=max replays it without)");
        }
    }
    Ok(())
}

/// All flowops of a thread.
fn flowops(thread: &Thread) -> Vec<Kind> {
    let mut all = Vec::new();
    let mut bodies = vec![&thread.body];
    while let Some(body) = bodies.pop() {
        for node in body {
            match node {
                Node::Group { body, .. } => bodies.push(body),
                Node::Op(op) => all.push(op.kind),
            }
        }
    }
    all
}

/// The flowops of a thread; none of them waits for a time or for another thread.
fn kinds(thread: &Thread) -> Result<Vec<Kind>, &'static str> {
    if thread.stream.is_some() {
        return Err("jobs of fio run as a whole");
    }
    let all = flowops(thread);
    let waits = |kind: &Kind| {
        use Kind::*;
        matches!(
            kind,
            SemBlock
                | SemPost
                | Block
                | Wakeup
                | EventLimit
                | IopsLimit
                | OpsLimit
                | BwLimit
                | Delay
                | AioWrite
                | AioWait
                | FinishOnCount
                | FinishOnBytes
        )
    };
    if all.iter().any(waits) { Err("a thread of the load waits for a time or for another") } else { Ok(all) }
}

/// Whether a flowop leaves anything to be written later.
fn leaves_more(kind: Kind) -> bool {
    use Kind::*;
    matches!(
        kind,
        CreateFile | DeleteFile | Write | WriteWholeFile | AppendFile | AppendFileRand | MakeDir | RemoveDir
    )
}

/// Whether a stack's data are on a disk of the machine that other stacks' are on, too.
fn is_on_a_common_disk(stack: &StackSpec) -> bool {
    matches!(stack.device(), Device::Image(_) | Device::Directory(_)) && !is_in_memory(stack)
}

fn is_in_memory(stack: &StackSpec) -> bool {
    match stack.device() {
        Device::Memory => stack.fs() == FsKind::Tmpfs,
        Device::Directory(path) => {
            statfs(path.as_std_path()).is_ok_and(|found| IN_MEMORY.contains(&(found.f_type as u64)))
        }
        _ => false,
    }
}
