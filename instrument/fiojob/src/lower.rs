//! Jobs to a workload: each clone is a process of its own, with a stream of transfers.

use workload::stream::{
    OPERATIONS, OffsetDistribution, QueueEngine, Stream, TransferDirection, TransferSizes,
};
use workload::trace::TRACE_BYTES_MAX;
use workload::{EndMode, FlowOp, Kind, Node, Process, Step, Thread, Value, Workload};

use crate::error::{JobError, JobErrors};
use crate::files::Files;
use crate::options::Job;
use crate::replay::{Logs, SPEED};
use crate::replayed::{self, Replays};
use crate::text::Section;

/// A job file that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// What to run.
    pub workload: workload::Workload,
    /// What differs from fio, a sentence each.
    pub notes: Vec<String>,
    /// The options of the jobs as they were worked out.
    pub variables: Vec<(String, String)>,
    /// Seconds that the longest log was recorded for, at the speed of its replay and as often as it is repeated; 0 without one.
    /// (One that is replayed as fast as possible has those of the recording.)
    pub replay_seconds: f64,
}

/// The workload of some sections; `mistakes` are those found before.
pub fn lower(
    sections: &[Section],
    mut mistakes: Vec<JobError>,
    name: &str,
    logs: &Logs,
) -> Result<Loaded, JobErrors> {
    let mut jobs = Vec::with_capacity(sections.len());
    for section in sections {
        let (job, found) = Job::of(section);
        mistakes.extend(found);
        jobs.push(job);
    }
    // a section beside one that replays is not what they are for; such a one may not be chosen
    if logs.is_empty() && !jobs.iter().any(|job| job.replay.replays()) {
        for job in &jobs {
            if let Some(message) = job.replay.without_logs() {
                mistakes.push(JobError::new(job.line, format!("[{}]: {message}", job.name)));
            }
        }
    }
    let mut replay_notes = Vec::new();
    if let Some(job) = jobs.iter().skip(1).find(|job| job.stonewall) {
        let message = format!(
            "[{}] waits for those above (stonewall): they are not one load; choose one with --set job={0}",
            job.name
        );
        mistakes.push(JobError::new(job.line, message));
    }
    let ramp_seconds = jobs[0].budget.ramp_seconds;
    if let Some(job) = jobs.iter().find(|job| job.budget.ramp_seconds != ramp_seconds) {
        let message = format!("[{}]: jobs that run at once need the same ramp_time here", job.name);
        mistakes.push(JobError::new(job.line, message));
    }
    if ramp_seconds.fract() != 0.0 {
        mistakes.push(JobError::new(
            jobs[0].line,
            "ramp_time: whole seconds only; `--warmup` takes parts of one",
        ));
    }
    let mut workload =
        Workload { name: name.to_string(), seed: jobs[0].seed, end: EndMode::AllDone, ..Workload::default() };
    // what cannot be read has no files
    if mistakes.is_empty() {
        let mut files = Files::default();
        for (section, job) in sections.iter().zip(&jobs) {
            if job.replay.replays() {
                let replays = Replays::of(job, logs);
                for at in 0..replays.len() {
                    let number = workload.processes.len() as u64 + 1;
                    match replays.stream(at, job, number, &mut files) {
                        Ok(stream) => {
                            let instances = replays.clones(at, job);
                            workload.processes.push(Process { instances, ..process(job, at as u64, stream) });
                        }
                        Err(mut found) => mistakes.append(&mut found),
                    }
                }
                replay_notes.extend(replays.notes(section));
                continue;
            }
            for clone in 0..job.clones {
                match stream(job, clone, workload.processes.len() as u64 + 1, &mut files) {
                    Ok(stream) => workload.processes.push(process(job, clone, stream)),
                    Err(mistake) => mistakes.push(mistake),
                }
            }
        }
        workload.filesets = files.filesets;
    }
    let replays = workload.streams().filter_map(|stream| stream.replay.as_ref());
    let traces = replays.map(|replay| replay.trace.packed_bytes()).sum::<usize>();
    if traces > TRACE_BYTES_MAX {
        let message = format!(
            "the logs of all jobs take {traces} bytes, and {TRACE_BYTES_MAX} are possible: replay parts of them"
        );
        mistakes.push(JobError::new(jobs[0].line, message));
    }
    if !mistakes.is_empty() {
        return Err(JobErrors::new(mistakes));
    }
    workload.script = vec![Step::Run {
        seconds: seconds(&jobs),
        ops: None,
        report_period_seconds: None,
        warmup_seconds: ramp_seconds as u64,
    }];
    let notes = [notes(&jobs), replay_notes].concat();
    let replay_seconds = workload.streams().filter_map(replayed::seconds).fold(0.0, f64::max);
    Ok(Loaded { notes, variables: variables(&jobs), replay_seconds, workload })
}

/// When the last job's time is up, if each has one, from the begin of the first one.
fn seconds(jobs: &[Job]) -> Option<u64> {
    let first = jobs.iter().map(|job| job.budget.delay_seconds).fold(f64::INFINITY, f64::min);
    let of = |job: &Job| {
        job.budget.seconds.map(|seconds| (seconds + job.budget.delay_seconds - first).ceil() as u64)
    };
    jobs.iter().map(of).collect::<Option<Vec<u64>>>()?.into_iter().max()
}

fn stream(job: &Job, clone: u64, number: u64, files: &mut Files) -> Result<Stream, JobError> {
    let part = files.of(job, clone)?;
    let mut budget = job.budget;
    budget.bytes = part.bytes;
    Ok(Stream {
        number,
        seed: job.seed,
        repeat: job.repeat,
        usual_offsets: job.usual_offsets,
        files: part.files,
        turns: job.turns,
        way: job.way,
        order: job.order.clone(),
        sizes: job.sizes.clone(),
        queue: job.queue,
        budget,
        pace: job.pace,
        syncs: job.syncs,
        open: job.open,
        verify: job.verify.clone(),
        replay: None,
    })
}

fn process(job: &Job, clone: u64, stream: Stream) -> Process {
    let thread = Thread {
        name: job.name.clone(),
        instances: 1,
        memory_bytes: Value::Int(0),
        io_priority: job.priority,
        body: body(job, &stream),
        stream: Some(Box::new(stream)),
    };
    let name = format!("{}.{clone}", job.name.replace('/', "-"));
    Process { name, instances: 1, nice: job.nice, threads: vec![thread] }
}

/// The operations of a job, as lines of the result: their `value` is the operation's number.
fn body(job: &Job, stream: &Stream) -> Vec<Node> {
    let (ways, syncs) = (
        stream.way,
        [job.syncs.fsync > 0, job.syncs.fdatasync > 0].map(|syncs| syncs && stream.way.writes()),
    );
    let (reads, writes, trims, syncs) = match &stream.replay {
        None => (ways.reads(), ways.writes(), ways.trims(), syncs),
        Some(replay) => {
            let does = replay.trace.operations.map(|operations| operations > 0);
            (does[READ], does[WRITE], does[TRIM], [does[FSYNC], does[FDATASYNC]])
        }
    };
    let operation = |word: &str, kind: Kind, number: usize, way: usize| {
        let mut op = FlowOp::new(format!("{}-{word}", job.name), kind);
        op.fileset = stream.files.first().map(|file| file.fileset);
        op.io_size = Value::Int(stream.sizes[way].max());
        op.random = stream.order.random;
        op.direct_io = job.open.direct;
        op.value = Value::Int(number as u64);
        Node::Op(op)
    };
    let sync = |number: usize| {
        let mut op = FlowOp::new(format!("{}-{}", job.name, OPERATIONS[number]), Kind::Fsync);
        op.dsync = number == FDATASYNC;
        op.value = Value::Int(number as u64);
        Node::Op(op)
    };
    let mut body = Vec::new();
    let reads_back = job.verify.as_ref().is_some_and(|verify| verify.read_back);
    if reads {
        body.push(operation("read", Kind::Read, READ, 0));
    } else if writes && reads_back {
        body.push(operation("verify", Kind::Read, READ, 1));
    }
    if trims {
        // it changes a device, as a write does
        body.push(operation("trim", Kind::Write, TRIM, 1));
    }
    if writes {
        body.push(operation("write", Kind::Write, WRITE, 1));
    }
    for (number, does) in [FSYNC, FDATASYNC].into_iter().zip(syncs) {
        if does {
            body.push(sync(number));
        }
    }
    body
}

/// Places in [`OPERATIONS`].
const READ: usize = 0;
const WRITE: usize = 1;
const FSYNC: usize = 2;
const FDATASYNC: usize = 3;
const TRIM: usize = 4;

/// What differs from fio.
fn notes(jobs: &[Job]) -> Vec<String> {
    let any = |what: &dyn Fn(&Job) -> bool| jobs.iter().any(what);
    let mut notes = Vec::new();
    if any(&|job| {
        matches!(job.order.spread, OffsetDistribution::Zipf { .. } | OffsetDistribution::Pareto { .. })
    }) {
        notes
            .push("which blocks are the likely ones depends on the file's path in fio, not here".to_string());
    }
    if any(&|job| {
        matches!(job.way, TransferDirection::Mixed { .. }) && (job.syncs.fsync > 0 || job.syncs.fdatasync > 0)
    }) {
        notes.push("syncs follow writes alone; fio before 3.36 syncs behind reads as well".to_string());
    }
    let timed =
        |job: &Job| job.budget.time_based && job.verify.as_ref().is_some_and(|verify| verify.read_back);
    if any(&timed) {
        let note = "blocks of a pass that the time ends are not read back; an engine that blocks has one such pass, as in fio";
        notes.push(note.to_string());
    }
    notes
}

fn variables(jobs: &[Job]) -> Vec<(String, String)> {
    let of = |job: &Job| {
        let size = |sizes: &TransferSizes| match sizes {
            TransferSizes::One(size) => size.to_string(),
            sizes => format!("{}-{}", sizes.min(), sizes.max()),
        };
        let engine = match job.queue.engine {
            QueueEngine::Blocking => "psync",
            QueueEngine::LibAio => "libaio",
            QueueEngine::Uring => "io_uring",
            QueueEngine::Mapped => "mmap",
        };
        let way = usize::from(!job.way.reads());
        let first = match job.replay.replays() {
            true => (SPEED, job.replay.shown_speed()),
            false => ("bs", size(&job.sizes[way])),
        };
        let values = [
            first,
            ("ioengine", engine.to_string()),
            ("iodepth", job.queue.depth.to_string()),
            ("numjobs", job.clones.to_string()),
            ("direct", u8::from(job.open.direct).to_string()),
        ];
        values.map(|(name, value)| (format!("{}.{name}", job.name), value))
    };
    jobs.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    fn read(text: &str) -> Loaded {
        load(text, "job", &[]).unwrap_or_else(|error| panic!("{error}"))
    }

    fn streams(loaded: &Loaded) -> Vec<&Stream> {
        loaded.workload.threads().map(|thread| thread.stream.as_deref().unwrap()).collect()
    }

    fn stream(text: &str) -> Stream {
        streams(&read(text))[0].clone()
    }

    #[test]
    fn each_job_and_clone_has_budget_engine_depth_and_length_of_its_own() {
        let text = "; comment\n[global]\nsize=1m\n[a]\nrw=randread\nioengine=libaio\niodepth=16\ndirect=1 # cut here\n\
                    time_based\nruntime=20\nnumjobs=2\n[b]\nrw=write\nbs=64k\nsize=2m\nfsync=1\nruntime=1500ms\n";
        let loaded = read(text);
        let names: Vec<&str> =
            loaded.workload.processes.iter().map(|process| process.name.as_str()).collect();
        assert_eq!(names, ["a.0", "a.1", "b.0"]);
        let streams = streams(&loaded);
        assert_eq!(
            streams.iter().map(|stream| stream.budget.bytes).collect::<Vec<_>>(),
            [1 << 20, 1 << 20, 2 << 20]
        );
        assert_eq!(streams.iter().map(|stream| stream.number).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((streams[0].queue.engine, streams[0].queue.depth), (QueueEngine::LibAio, 16));
        assert_eq!((streams[2].queue.engine, streams[2].queue.depth), (QueueEngine::Blocking, 1));
        assert_eq!((streams[0].budget.seconds, streams[2].budget.seconds), (Some(20.0), Some(1.5)));
        assert!(streams[0].open.direct && streams[0].budget.time_based && !streams[2].budget.time_based);
        let run = Step::Run { seconds: Some(20), ops: None, report_period_seconds: None, warmup_seconds: 0 };
        assert_eq!((&loaded.workload.script[..], loaded.workload.end), (&[run][..], EndMode::AllDone));
        let files: Vec<_> =
            loaded.workload.filesets.iter().map(|set| (set.name.as_str(), set.contents)).collect();
        use workload::Contents::*;
        assert_eq!(files, [("a.0.0", Data), ("a.1.0", Data), ("b.0.0", Allocated)]);
    }

    #[test]
    fn files_are_as_large_as_fio_makes_them() {
        let sizes = |text: &str| -> Vec<u64> {
            read(text).workload.filesets.iter().map(|set| set.size.fixed().unwrap()).collect()
        };
        assert_eq!(sizes("[a]\nsize=1m\nnrfiles=4\n"), [1 << 18; 4]);
        assert_eq!(sizes("[a]\nfilesize=64k\nnrfiles=3\n"), [65536; 3]);
        // the first ones get the blocks that are left
        assert_eq!(sizes("[a]\nsize=36k\nnrfiles=5\n"), [7372; 5]);
        assert_eq!(sizes("[a]\nsize=1m\noffset=64k\n"), [(1 << 20) + 65536]);
        assert_eq!(sizes("[a]\nbs=4KiB\nsize=1MiB\n"), [1_000_000]);
        assert_eq!(sizes("[a]\nkb_base=1000\nbs=4KiB\nsize=1MiB\n"), [1 << 20]);
        let limited = stream("[a]\nfilesize=64k\nnrfiles=4\nsize=100k\n");
        assert_eq!((limited.budget.bytes, limited.files.len()), (102_400, 4));
        let part = stream("[a]\nfilesize=1m\nsize=50%\n");
        assert_eq!((part.files[0].offset, part.files[0].bytes, part.files[0].size), (0, 1 << 19, 1 << 19));
        assert_eq!(stream("[a]\nsize=1m\nio_size=3m\n").budget.bytes, 3 << 20);
    }

    #[test]
    fn a_file_that_is_named_is_there_once() {
        let loaded =
            read("[global]\nfilename=data\nsize=1m\n[a]\nrw=read\nnumjobs=2\n[b]\nrw=write\nsize=2m\n");
        let files = &loaded.workload.filesets;
        assert_eq!((files.len(), files[0].name.as_str(), files[0].size), (1, "data", Value::Int(2 << 20)));
        assert!(streams(&loaded).iter().all(|stream| stream.files[0].fileset == 0));
        let two = read("[a]\nfilename=one:two\nsize=1m\n");
        assert_eq!(
            two.workload.filesets.iter().map(|set| set.size).collect::<Vec<_>>(),
            [Value::Int(1 << 19); 2]
        );
        // as in fio, whose files are called by the section and the number of the clone in it
        assert_eq!(read("[a]\nsize=1m\n[a]\nsize=1m\n").workload.filesets.len(), 1);
    }

    #[test]
    fn options_of_transfers_are_read() {
        let mixed = stream("[m]\nrw=randrw\nrwmixwrite=30\nbs=4k,8k\nsize=1m\n");
        assert_eq!(
            (mixed.way, mixed.sizes),
            (
                TransferDirection::Mixed { read_percent: 70 },
                [TransferSizes::One(4096), TransferSizes::One(8192)]
            )
        );
        let split = stream("[m]\nbssplit=16k/50:4k:8k\nsize=1m\nnorandommap\n");
        assert_eq!(split.sizes[0], TransferSizes::Split(vec![(4096, 25), (8192, 25), (16384, 50)]));
        assert!(!split.order.visit_once);
        let step = stream("[m]\nrw=read:-4k\nsize=1m\n");
        assert_eq!((step.order.step, step.order.random), (-4096, false));
        assert_eq!(stream("[m]\nrw=randread:8\nsize=1m\n").order.every, 8);
        let paced = stream("[m]\nrate_iops=100,50\nthinktime=20\nbs=8k\nsize=1m\n");
        assert_eq!(paced.pace.bytes_per_second, [819_200, 409_600]);
        assert_eq!((paced.pace.pause_every, paced.pace.pause_us), (1, 20));
        let zoned = stream("[m]\nrandom_distribution=zoned:60/10:40/90\nsize=1m\n");
        assert_eq!(
            zoned.order.spread,
            OffsetDistribution::Zoned([vec![(60, 10), (40, 90)], vec![(60, 10), (40, 90)]])
        );
        let open = stream("[m]\nrandom_distribution=zoned:60/10:40/\nsize=1m\n");
        assert_eq!(open.order.spread, zoned.order.spread);
        let synced = stream("[m]\nrw=write\nfsync=2\nfdatasync=3\nend_fsync=1\nsize=1m\n");
        assert_eq!((synced.syncs.fsync, synced.syncs.fdatasync, synced.syncs.at_end), (2, 3, true));
        let queue =
            stream("[m]\nioengine=io_uring\niodepth=8\niodepth_batch=4\niodepth_low=2\nsize=1m\n").queue;
        assert_eq!((queue.depth, queue.submit, queue.low), (8, 4, 2));
        assert_eq!(stream("[m]\nrandrepeat=0\nsize=1m\n").seed, None);
    }

    #[test]
    fn options_of_checks_discards_and_flags_are_read() {
        use workload::stream::Check;
        let verify = |text: &str| stream(&format!("[v]\nrw=randwrite\nsize=1m\n{text}")).verify.unwrap();
        let md5 = verify("verify=md5\n");
        assert_eq!((md5.method, md5.interval, md5.read_back, md5.backlog), (Check::Md5, 0, true, 0));
        // blocks of several sizes are checked by the smallest
        assert_eq!(verify("verify=crc32c-intel\nbssplit=4k/50:12k/50\n").interval, 4096);
        assert_eq!(verify("verify=crc32c\nbs=8k\nverify_interval=16k\n").interval, 8192);
        assert_eq!(verify("verify=crc32c\nbs=8k\nverify_interval=512\ndo_verify=0\n").interval, 512);
        let backlog = verify("verify=meta\nverify_backlog=16\n");
        assert_eq!((backlog.method, backlog.backlog, backlog.batch), (Check::Header, 16, 16));
        assert_eq!(verify("verify=meta\nverify_backlog=16\nverify_backlog_batch=4\n").batch, 4);
        for (text, bytes) in
            [("0xdeadBEEF", &[0xde, 0xad, 0xbe, 0xef][..]), ("0xabc", &[0x0a, 0xbc]), ("258", &[2, 1])]
        {
            assert_eq!(verify(&format!("verify=pattern\nverify_pattern={text}\n")).pattern, bytes, "{text}");
        }
        assert_eq!(verify("verify=pattern\nverify_pattern=\"abc\"0xff-12\n").pattern, b"abc\xff\xf4");
        let lines = |text: &str| -> Vec<String> {
            let loaded = read(text);
            let mut names = Vec::new();
            for node in &loaded.workload.processes[0].threads[0].body {
                let Node::Op(op) = node else { continue };
                names.push(format!("{} {}", op.name, op.value.fixed().unwrap()));
            }
            names
        };
        assert_eq!(lines("[v]\nrw=write\nsize=1m\nverify=md5\n"), ["v-verify 0", "v-write 1"]);
        assert_eq!(lines("[v]\nrw=write\nsize=1m\nverify=md5\ndo_verify=0\n"), ["v-write 1"]);
        assert_eq!(lines("[t]\nrw=randtrimwrite\nsize=1m\nfilename=/dev/x\n"), ["t-trim 4", "t-write 1"]);
        let trim = stream("[t]\nrw=randtrim\nbs=4k,8k,16k\nsize=1m\nfilename=/dev/x\n");
        assert_eq!((trim.way, &trim.sizes[1]), (TransferDirection::Trim, &TransferSizes::One(16384)));
        let mapped = stream("[m]\nioengine=mmap\niodepth=8\nsize=1m\n").queue;
        assert_eq!((mapped.engine, mapped.depth), (QueueEngine::Mapped, 1));
        let flags = stream("[m]\nioengine=pvsync2\nuncached=1\nsize=1m\n").queue;
        assert!(flags.uncached && !flags.atomic);
        let flags = stream("[m]\nioengine=libaio\natomic=1\ndirect=1\nrw=write\nsize=1m\n").queue;
        assert!(flags.atomic && !flags.uncached);
    }

    #[test]
    fn sections_that_wait_are_groups_of_their_own() {
        let text =
            "[a]\nrw=read\nsize=1m\n[b]\nstonewall\nsize=1m\n[c]\nsize=2m\n[d]\nstonewall=1\nsize=1m\n";
        assert_eq!(crate::groups(text), ["a", "b+c", "d"]);
        assert_eq!(crate::groups("[a]\nsize=1m\n[b]\nsize=1m\n"), ["a+b"]);
        assert_eq!(crate::groups("[x]\nname=one\nsize=1m\n[y]\nwait_for_previous\nsize=1m\n"), ["one", "y"]);
        assert!(crate::groups("[a\n").is_empty());
        let names = |job: &str| -> Vec<String> {
            let loaded = load(text, "j", &[("job".into(), job.into())]).unwrap();
            loaded.workload.processes.iter().map(|process| process.name.clone()).collect()
        };
        assert_eq!(names("b+c"), ["b.0", "c.0"]);
        assert_eq!(names("d"), ["d.0"]);
    }

    #[test]
    fn what_is_set_goes_before_the_file_and_chooses_a_job() {
        let text = "[a]\nrw=read\nsize=1m\n[b]\nstonewall\nrw=write\nsize=1m\nbs=8k\n";
        let set = |words: &[(&str, &str)]| -> Vec<(String, String)> {
            words.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        assert!(load(text, "j", &[]).unwrap_err().to_string().contains("--set job=b"));
        let loaded = load(text, "j", &set(&[("job", "b"), ("bs", "64k")])).unwrap();
        assert!(loaded.variables.contains(&("b.bs".into(), "65536".into())));
        let errors = load(text, "j", &set(&[("job", "c")])).unwrap_err().0;
        assert_eq!(
            (errors[0].line, errors[0].message.as_str()),
            (0, "no section is called `c`; there are: a, b")
        );
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let text = "[global]\nbs=4q\n[a]\nsize=1m\ndirect\nblocksise=4k\n[b]\nrw=up\n";
        let errors = load(text, "j", &[]).unwrap_err().0;
        assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [2, 5, 6, 8], "{errors:?}");
    }

    #[test]
    fn what_a_file_is_shows_in_its_text() {
        for (text, is) in [
            ("; x\n\n[global]\nbs=4k\n", true),
            ("# x\n[a]\n", true),
            ("set $x=1\n", false),
            ("", false),
            ("recordcount=1\n", false),
            ("define fileset name=a\n[x]\n", false),
        ] {
            assert_eq!(crate::is_job_file(text), is, "{text}");
        }
    }

    #[test]
    fn options_that_change_nothing_are_taken() {
        let plain = read("[a]\nsize=1m\n").workload;
        for line in [
            "verify=0",
            "gtod_reduce=1",
            "loops=1",
            "offset=0",
            "openfiles=4",
            "group_reporting",
            "end_fsync=0",
            "zero_buffers=0",
        ] {
            assert_eq!(read(&format!("[a]\nsize=1m\n{line}\n")).workload, plain, "{line}");
        }
    }

    #[test]
    fn mistakes_name_line_option_and_remedy() {
        for (text, line, part) in [
            ("[a]\nrw=read\nsize=1m\nblocksise=4k\n", 4, "did you mean `blocksize`?"),
            ("[a]\nsize=1m\nlatency_target=100\n", 3, "loadline sweep"),
            ("[a]\nsize=1m\nbs=4q\n", 3, "bs: `4q` is not a number"),
            ("[a]\nrw=read\n", 1, "`size` is missing"),
            ("rw=read\n[a]\nsize=1m\n", 1, "before the first"),
            ("[a]\nsize=1m\ndirect\n", 3, "`direct` is no flag: write `direct=`"),
            ("[a]\nsize=1m\nbssplit=4k/60:64k/50\n", 3, "add up to 110 %"),
            ("[a]\nsize=1m\nbssplit=0/100\n", 3, "a size is 0"),
            ("[a]\nsize=8*$mb_memory\n", 2, "a calculation"),
            ("[a]\nsize=1m\nrw=trim\n", 1, "a block device: filename=/dev/"),
            (
                "[a]\nsize=1m\nrw=randtrim\nverify=md5\nfilename=/dev/x\n",
                1,
                "discarded blocks are not checked",
            ),
            ("[a]\nsize=1m\nrw=up\n", 3, "`up` is none of"),
            ("[a]\nsize=1m\nioengine=rbd\n", 3, "`rbd`"),
            ("[a]\nsize=1m\nioengine=mmap\nbs=1k\nfsync=1\n", 1, "multiples of 4096"),
            ("[a]\nsize=1m\nuncached=1\n", 1, "ioengine=pvsync2 or io_uring"),
            ("[a]\nsize=1m\nioengine=pvsync2\natomic=1\n", 1, "direct=1"),
            ("[a]\nsize=1m\nrw=write\nverify=sha7\n", 4, "none of md5, crc32c"),
            ("[a]\nsize=1m\nrw=write\nverify=pattern\n", 1, "verify_pattern"),
            ("[a]\nsize=1m\nrw=write\nverify=pattern\nverify_pattern=é1\n", 5, "is no pattern"),
            ("[a]\nsize=1m\nrw=write\nverify=md5\nbs=32\n", 1, "hold no header"),
            ("[a]\nsize=1m\nrw=write\nverify=md5\nverify_only\n", 5, "verify_only"),
            ("[a]\nsize=1m\nfilename=/etc/x\n", 3, "a plain name"),
            ("[a]\nsize=1m\nfilename=..\n", 3, "a plain name"),
            ("[a]\nsize=1m\nverify=md5\n", 1, "nothing that could be checked"),
            ("[a\n", 1, "`]`"),
            ("", 1, "no job"),
            ("[global]\nbs=4k\n", 2, "no job"),
            ("[a]\nsize=1m\nnumjobs=9999\n", 1, "numjobs is out of range"),
            ("[a]\nsize=1k\n", 1, "do not hold a block"),
            ("[a]\nsize=1m\ntime_based\n", 1, "needs `runtime`"),
            (
                "[a]\nsize=1m\nrw=write\nzero_buffers\n",
                4,
                "zero_buffers: 1 is not done: written data is never",
            ),
            ("[a]\nsize=1m\nrw=write\nbuffer_pattern=0xff\n", 4, "`--duplicate` say how much"),
            ("[a]\nsize=1m\nnrfiles=0\n", 1, "nrfiles is out of range"),
        ] {
            let errors = load(text, "j", &[]).expect_err(text).0;
            let found = errors.iter().any(|error| error.line == line && error.message.contains(part));
            assert!(found, "{text}: {errors:?}");
        }
    }
}
