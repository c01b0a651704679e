//! The run itself: one thread for each WML thread, grouped in processes that have file tables of their own.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Mutex, OnceLock};

use stats::Histogram;
use workload::stream::OPERATIONS;
use workload::{
    DataPool, DataSpec, Draws, EndMode, IoMode, Process, Purpose, Stream, StreamId, Thread, Workload,
};

use crate::aligned::AlignedBuffer;
use crate::error::Error;
use crate::event::Event;
use crate::file_space::FileSpace;
use crate::fileset::RotorCache;
use crate::lane::{Lane, LaneEnd, Slot};
use crate::options::RunOptions;
use crate::program::{Program, Programs};
use crate::psync::Psync;
use crate::record::{OpRecord, Recorder, Timing};
use crate::shared::Shared;
use crate::stream::{self, Frame, Runner};
use crate::target::Target;
use crate::transfers::TRANSFER_BYTES_MAX;
use crate::uring::Uring;
use crate::volume::InProcess;

/// Stack of a load thread: the interpreter needs a few KiB, and there may be thousands.
const STACK_BYTES: usize = 512 << 10;

/// What one lane came back with.
pub struct LaneResult {
    /// `[process][thread]` of its program.
    pub program: (usize, usize),
    /// How it ended.
    pub end: LaneEnd,
    /// When, on the target's clock.
    pub end_ns: u64,
    /// Of a stream: when its own measured interval began, on the same clock.
    pub own_begin_ns: Option<u64>,
    /// Of a stream: nanoseconds of that interval in which it read back what it had written, and nothing else.
    pub read_back_ns: u64,
    /// What it did.
    pub ops: Vec<OpRecord>,
    /// Values drawn by `testrandvar`.
    pub drawn: (u64, f64, f64),
    /// How late it woke from its waits for due times, in nanoseconds.
    pub late: Option<Box<Histogram>>,
}

/// Everything that the threads of a run need.
pub struct RunContext<'r> {
    /// The workload.
    pub workload: &'r Workload,
    /// Its programs.
    pub programs: &'r Programs,
    /// What the lanes share.
    pub shared: &'r Shared<'r>,
    /// The options.
    pub options: &'r RunOptions,
    /// Where the files are; `None`: somebody else polls the lanes ([`crate::simulated`]).
    pub ground: Option<FileSpace<'r>>,
    /// Counts of operations, one for each thread.
    pub published: &'r [AtomicU64],
    /// `psrun` with a negative period: each report counts from the one before.
    pub periods_start_anew: bool,
    /// Where threads wait until all are ready.
    pub gate: &'r Gate,
    /// Threads at work.
    pub alive: &'r LiveThreads,
    /// Where the lanes' results go.
    pub results: &'r Mutex<Vec<LaneResult>>,
    /// The first failure to start.
    pub failure: &'r Mutex<Option<Error>>,
}

/// Where threads wait until all are ready and the times are set.
#[derive(Default)]
pub struct Gate {
    ready: AtomicUsize,
    timing: OnceLock<Option<Timing>>,
    event: Event,
}

impl Gate {
    /// Threads that are ready.
    pub fn ready(&self) -> usize {
        self.ready.load(Acquire)
    }

    /// Lets all threads go; `None`: the run does not take place.
    pub fn open(&self, timing: Option<Timing>) {
        let _ = self.timing.set(timing);
        self.event.notify();
    }

    fn pass(&self) -> Option<Timing> {
        self.ready.fetch_add(1, AcqRel);
        loop {
            let seen = self.event.seen();
            if let Some(timing) = self.timing.get() {
                return *timing;
            }
            self.event.block(seen, 1_000_000_000);
        }
    }
}

/// Threads that have not ended.
pub struct LiveThreads {
    count: AtomicUsize,
    /// Moves on when the last of them has.
    ended: Event,
}

impl LiveThreads {
    /// So many are to be started.
    pub fn new(count: usize) -> LiveThreads {
        LiveThreads { count: AtomicUsize::new(count), ended: Event::default() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Acquire)
    }

    /// So many have ended, or never began.
    pub(crate) fn leave(&self, ended: usize) {
        if self.count.fetch_sub(ended, AcqRel) == ended {
            self.ended.notify();
        }
    }

    /// Waits until the last has ended, at the longest for `nanoseconds`.
    pub(crate) fn wait(&self, nanoseconds: u64) {
        if self.ended.seen() == 0 {
            self.ended.block(0, nanoseconds);
        }
    }
}

/// Place of a thread in the run.
#[derive(Clone, Copy)]
pub struct ThreadPlace {
    process_definition: usize,
    process_instance: u64,
    process: usize,
    thread_definition: usize,
    thread_instance: u64,
    /// Number within its process.
    in_process: u32,
    /// Number over all.
    overall: usize,
}

/// Number of threads that a workload runs.
pub fn count(workload: &Workload) -> u64 {
    let threads = |process: &Process| {
        process.threads.iter().map(|thread| thread.instances).fold(0, u64::saturating_add)
    };
    workload
        .processes
        .iter()
        .map(|process| process.instances.saturating_mul(threads(process)))
        .fold(0, u64::saturating_add)
}

/// Number of process instances.
pub fn processes(workload: &Workload) -> u64 {
    workload.processes.iter().map(|process| process.instances).fold(0, u64::saturating_add)
}

impl<'r> RunContext<'r> {
    /// Runs every thread of the workload, and `watch` in the calling thread meanwhile.
    pub fn run(&'r self, watch: impl FnOnce()) {
        std::thread::scope(|scope| {
            let (mut process, mut overall) = (0, 0);
            for (definition, spec) in self.workload.processes.iter().enumerate() {
                for instance in 0..spec.instances {
                    let places = self.places(definition, instance, process, &mut overall);
                    process += 1;
                    if places.is_empty() {
                        continue;
                    }
                    let count = places.len();
                    let leader = std::thread::Builder::new()
                        .name(short_name(&spec.name))
                        .stack_size(STACK_BYTES)
                        .spawn_scoped(scope, move || self.process(places));
                    if let Err(source) = leader {
                        self.cannot_start(&spec.name, 0, source, count);
                    }
                }
            }
            watch();
        });
    }

    /// The threads of a process instance; `overall` counts those of all.
    pub fn places(
        &self,
        definition: usize,
        instance: u64,
        process: usize,
        overall: &mut usize,
    ) -> Vec<ThreadPlace> {
        let mut places = Vec::new();
        for (thread_definition, thread) in self.workload.processes[definition].threads.iter().enumerate() {
            for thread_instance in 0..thread.instances {
                places.push(ThreadPlace {
                    process_definition: definition,
                    process_instance: instance,
                    process,
                    thread_definition,
                    thread_instance,
                    in_process: places.len() as u32,
                    overall: *overall,
                });
                *overall += 1;
            }
        }
        places
    }

    /// A process: a group of threads with a file table of their own, as Filebench's processes have. The leader leaves the
    /// shared table and starts the others, which inherit its own; it then is one of the threads itself, so that a process
    /// of one thread has an unshared table, which the kernel looks files up in without counting references.
    fn process(&self, places: Vec<ThreadPlace>) {
        // A volume's own threads use descriptors that are opened here.
        if let Some(FileSpace::Directory { .. }) = self.ground {
            // SAFETY: giving this thread a copy of the file table affects no memory, and the copy holds every descriptor that
            // is borrowed here. A refusal only means that the table stays shared.
            let _ = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FILES) };
        }
        std::thread::scope(|scope| {
            for place in &places[1..] {
                let spec = self.spec(place);
                let started = std::thread::Builder::new()
                    .name(short_name(&spec.name))
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, move || self.thread(*place));
                if let Err(source) = started {
                    self.cannot_start(&spec.name, place.thread_instance, source, 1);
                }
            }
            self.thread(places[0]);
        });
    }

    pub(crate) fn spec(&self, place: &ThreadPlace) -> &'r Thread {
        &self.workload.processes[place.process_definition].threads[place.thread_definition]
    }

    fn cannot_start(&self, process: &str, thread: u64, source: std::io::Error, missing: usize) {
        self.fail(Error::Spawn { process: process.to_owned(), thread, source });
        self.alive.leave(missing);
    }

    fn fail(&self, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        failure.get_or_insert(error);
        self.shared.control.finish();
    }

    fn thread(&self, place: ThreadPlace) {
        let spec = self.spec(&place);
        wake_on_time();
        set_priorities(self.workload.processes[place.process_definition].nice, spec.io_priority);
        if let Some(stream) = &spec.stream {
            self.stream(&place, stream);
            self.alive.leave(1);
            return;
        }
        match (self.ground, self.options.io) {
            (None, _) => {}
            (Some(FileSpace::Volume(volume)), _) => {
                self.alone(&InProcess::new(volume, self.shared.control), &place);
            }
            (Some(FileSpace::Directory { fd, .. }), IoMode::Psync) => {
                self.alone(&Psync::new(fd, self.shared.control), &place);
            }
            (Some(FileSpace::Directory { fd, .. }), IoMode::Uring { depth }) => {
                let target = Uring::new(fd, self.shared.control, depth);
                let kits: Option<Vec<LaneResources>> =
                    (0..depth.max(1)).map(|lane| self.kit(&place, lane)).collect();
                let target = match target {
                    Ok(target) => Some(target),
                    Err(error) => {
                        self.fail(Error::Invalid(error.to_string()));
                        None
                    }
                };
                if let (Some(timing), Some(kits), Some(target)) = (self.gate.pass(), kits, &target) {
                    let lanes = kits.into_iter().map(|kit| self.lane(target, &place, kit, timing)).collect();
                    for (lane, end) in target.run(lanes) {
                        self.collect(&place, lane, end);
                    }
                }
            }
        }
        self.alive.leave(1);
    }

    /// One lane, whose operations block.
    fn alone<T: Target>(&self, target: &T, place: &ThreadPlace) {
        let kit = self.kit(place, 0);
        if let (Some(timing), Some(kit)) = (self.gate.pass(), kit) {
            let mut lane = self.lane(target, place, kit, timing);
            let end = crate::exec::block_on(lane.run());
            self.collect(place, lane, end);
        }
    }

    /// A stream of transfers.
    fn stream(&self, place: &ThreadPlace, spec: &'r Stream) {
        let frame = match self.frame(place) {
            Ok(frame) => frame,
            Err(error) => return self.fail(error),
        };
        match self.ground {
            None => {}
            Some(FileSpace::Volume(volume)) => self.issue(place, stream::on_volume(spec, volume, frame)),
            Some(FileSpace::Directory { fd, .. }) => match stream::on_directory(spec, fd, frame) {
                Ok(runner) => self.issue(place, runner),
                Err(error) => self.fail(Error::Invalid(error.to_string())),
            },
        }
    }

    fn frame(&self, place: &ThreadPlace) -> Result<Frame<'r>, Error> {
        let program = self.program(place);
        let mut records = [0; OPERATIONS.len()];
        for (number, op) in program.ops.iter().enumerate() {
            let operation = op.flow.value.fixed().and_then(|operation| usize::try_from(operation).ok());
            if let Some(record) = operation.and_then(|operation| records.get_mut(operation)) {
                *record = number;
            }
        }
        Ok(Frame {
            shared: self.shared,
            label: self.label(place),
            seed: self.options.seed,
            length_told: self.options.seconds.is_some(),
            common_delay_seconds: self.workload.common_delay_seconds(),
            data: self.data(place, 0)?,
            records,
        })
    }

    fn issue<P: stream::Port>(&self, place: &ThreadPlace, mut runner: Runner<'r, P>) {
        let Some(timing) = self.gate.pass() else { return };
        let (end, end_ns, ops) = runner.run(timing, self.recorder(place, timing));
        self.collected(LaneResult {
            program: (place.process_definition, place.thread_definition),
            end,
            end_ns,
            own_begin_ns: Some(runner.measured_from_ns()),
            read_back_ns: runner.read_back_ns,
            ops,
            drawn: (0, 0.0, 0.0),
            late: runner.late.take(),
        });
    }

    pub(crate) fn collect<T: Target>(&self, place: &ThreadPlace, lane: Lane<'_, T>, end: LaneEnd) {
        self.collected(LaneResult {
            program: (place.process_definition, place.thread_definition),
            end,
            end_ns: lane.ended_ns.saturating_sub(lane.waited_ns),
            own_begin_ns: None,
            read_back_ns: 0,
            ops: lane.recorder.ops,
            drawn: lane.drawn,
            late: lane.late,
        });
    }

    fn collected(&self, result: LaneResult) {
        let ends_run = match &result.end {
            LaneEnd::Failed(_) => true,
            LaneEnd::Done => self.shared.end_mode != EndMode::AllDone,
            LaneEnd::Stopped | LaneEnd::OpsReached => false,
        };
        if ends_run {
            self.shared.control.finish();
        }
        self.results.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(result);
    }

    /// What a lane needs, made before the clock starts.
    fn kit(&self, place: &ThreadPlace, lane: u32) -> Option<LaneResources> {
        match self.try_kit(place, lane, true) {
            Ok(kit) => Some(kit),
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// The same, or why not; without `data` its buffers are address space that nobody is to touch.
    pub(crate) fn try_kit(&self, place: &ThreadPlace, lane: u32, data: bool) -> Result<LaneResources, Error> {
        let carries = data;
        let (process, thread) = (place.process as u32, place.in_process | lane << 20);
        let seed = self.options.seed;
        let spec = self.spec(place);
        let mut draws = Draws::new(&self.workload.draws, seed, process, thread)
            .map_err(|error| Error::Draw(error.to_string()))?;
        let data = self.data(place, lane)?;
        let program = self.program(place);
        let memory =
            draws.eval(spec.memory_bytes).max(program.transfer_bytes).min(TRANSFER_BYTES_MAX) as usize;
        let buffer = |bytes: usize| {
            if carries { Ok(AlignedBuffer::new(bytes)) } else { AlignedBuffer::reserve(bytes) }
                .map_err(|error| Error::io("no address space", "for buffers", error))
        };
        let read_buffer = buffer(memory.max(4096))?;
        // Not `memsize`: data that was just stamped is still in the cache, and a larger pool would not be.
        let writes = program.write_bytes.min(TRANSFER_BYTES_MAX) as usize;
        let mut write_buffer = buffer(if writes > 0 { workload::data::pool_bytes(writes) } else { 0 })?;
        if writes > 0 && carries {
            data.fill(&mut write_buffer);
        }
        let rng = StreamId { seed, process, thread, purpose: Purpose::Operations }.rng();
        Ok(LaneResources { draws, data, rng, read_buffer, write_buffer })
    }

    fn data(&self, place: &ThreadPlace, lane: u32) -> Result<DataPool, Error> {
        let spec = DataSpec {
            compress_percent: self.options.compress_percent,
            duplicate_percent: self.options.duplicate_percent,
        };
        let (process, thread) = (place.process as u32, place.in_process | lane << 20);
        DataPool::new(spec, self.options.seed, process, thread)
            .map_err(|error| Error::Invalid(error.to_string()))
    }

    fn label(&self, place: &ThreadPlace) -> String {
        format!("{}-{}", self.spec(place).name, place.thread_instance + 1)
    }

    /// The record of a thread.
    fn recorder(&self, place: &ThreadPlace, timing: Timing) -> Recorder<'r> {
        let program = self.program(place);
        let mut recorder = Recorder::new(program.ops.len(), timing, &self.published[place.overall]);
        if timing.period_ns > 0 {
            let shared = self.shared;
            let lines = self.programs.lines.len();
            recorder.report_to(
                Box::new(move |what, ops| shared.add_period(what, program, ops, lines)),
                self.periods_start_anew,
            );
        }
        if let Some(diaries) = self.shared.control.wanted_diaries() {
            recorder.keep_diary(program.ops.iter().map(|op| op.line).collect(), diaries.pen());
        }
        recorder
    }

    fn program(&self, place: &ThreadPlace) -> &'r Program {
        &self.programs.programs[place.process_definition][place.thread_definition]
    }

    pub(crate) fn lane<'t, T: Target>(
        &self,
        target: &'t T,
        place: &ThreadPlace,
        kit: LaneResources,
        timing: Timing,
    ) -> Lane<'t, T>
    where
        'r: 't,
    {
        let program = self.program(place);
        let spec = self.spec(place);
        let watches = program.ops.iter().any(|op| {
            matches!(
                op.flow.kind,
                workload::Kind::IopsLimit
                    | workload::Kind::OpsLimit
                    | workload::Kind::BwLimit
                    | workload::Kind::FinishOnCount
                    | workload::Kind::FinishOnBytes
            )
        });
        let recorder = self.recorder(place, timing);
        Lane {
            target,
            shared: self.shared,
            program,
            process: place.process,
            instance: (place.process_instance * spec.instances + place.thread_instance) as usize,
            timing,
            waited_ns: 0,
            end_ns: timing.deadline_ns,
            ended_ns: 0,
            label: self.label(place),
            draws: kit.draws,
            rng: kit.rng,
            slots: (0..program.slots).map(|_| Slot::default()).collect(),
            next_slot: 0,
            own_rotors: vec![0; self.shared.filesets.len()],
            turns: vec![RotorCache::default(); self.shared.filesets.len()],
            read_buffer: kit.read_buffer,
            write_buffer: kit.write_buffer,
            write_position: 0,
            data: kit.data,
            path: Vec::with_capacity(256),
            recorder,
            places: 0.0,
            lag_ns: None,
            late: None,
            done: if watches || self.programs.needs_totals {
                vec![(0, 0); program.ops.len()]
            } else {
                Vec::new()
            },
            charged: if watches { vec![0; program.ops.len()] } else { Vec::new() },
            quota: 0,
            advanced: false,
            idle: false,
            drawn: (0, 0.0, 0.0),
        }
    }
}

/// What a lane owns.
pub(crate) struct LaneResources {
    draws: Draws,
    data: DataPool,
    rng: workload::Rng,
    read_buffer: AlignedBuffer,
    write_buffer: AlignedBuffer,
}

fn short_name(name: &str) -> String {
    name.chars().filter(|character| *character != '\0').take(15).collect()
}

/// Timers of the calling thread end when they are due: the kernel's default lets them come 50 us later, to wake several at once.
fn wake_on_time() {
    const SLACK_NS: libc::c_ulong = 1;
    // SAFETY: the call takes integers, and is about the calling thread alone.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS) };
}

/// `nice` and `ioprio` of the calling thread; both are wishes that an unprivileged user may be refused.
fn set_priorities(nice: i32, io_priority: Option<u8>) {
    const BEST_EFFORT: i32 = 2 << 13;
    if nice != 0 {
        let _ = rustix::process::nice(nice);
    }
    if let Some(level) = io_priority.filter(|level| *level < 8) {
        // SAFETY: the call takes three integers; 1 is IOPRIO_WHO_PROCESS, 0 the calling thread.
        unsafe { libc::syscall(libc::SYS_ioprio_set, 1, 0, BEST_EFFORT | i32::from(level)) };
    }
}
