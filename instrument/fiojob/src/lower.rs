//! Jobs to a workload: each clone is a process with files of its own.

use workload::{
    Distribution, Draw, Fileset, FlowOp, IoMode, Kind, Node, Process, Rounding, Step, TableRow, Thread,
    Value, Workload,
};

use crate::error::JobError;
use crate::options::Job;
use crate::text::Section;

/// A job file that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// What to run.
    pub workload: workload::Workload,
    /// How reads and writes are issued.
    pub io: IoMode,
    /// What differs from fio, a sentence each.
    pub notes: Vec<String>,
    /// The options of the jobs as they were worked out.
    pub variables: Vec<(String, String)>,
}

/// Slots of a thread for reads; those for writes follow, so that each direction has a position of its own, as in fio.
const SLOTS: u8 = 32;
/// Most transfers of a pass: its list is kept for each clone.
const PASS_MAX: u64 = 16_384;

/// The workload of some sections.
pub fn lower(sections: &[Section], name: &str) -> Result<Loaded, JobError> {
    let jobs = sections.iter().map(Job::of).collect::<Result<Vec<_>, _>>()?;
    let first = &jobs[0];
    if let Some(job) = jobs.iter().skip(1).find(|job| job.stonewall) {
        let message = format!(
            "[{}] waits for those above (stonewall): they are not one load; choose one with --set job={0}",
            job.name
        );
        return Err(JobError::new(job.line, message));
    }
    let length = |job: &Job| (job.seconds, job.time_based, job.ramp_seconds, job.asynchronous, job.depth);
    if let Some(job) = jobs.iter().find(|job| length(job) != length(first)) {
        let message = format!(
            "[{}]: jobs that run at once need the same runtime, ramp_time, ioengine and iodepth here",
            job.name
        );
        return Err(JobError::new(job.line, message));
    }
    let mut workload = Workload { name: name.to_string(), seed: first.seed, ..Workload::default() };
    for job in &jobs {
        for clone in 0..job.clones {
            add(&mut workload, job, clone)?;
        }
    }
    let transfers: u64 = jobs.iter().map(|job| job.clones * (transfers(job) + syncs(job))).sum();
    workload.script = vec![Step::Run {
        seconds: first.seconds,
        ops: (!first.time_based).then_some(transfers),
        report_period_seconds: None,
        warmup_seconds: first.ramp_seconds,
    }];
    let io = if first.asynchronous { IoMode::Uring { depth: first.depth } } else { IoMode::Psync };
    Ok(Loaded { io, notes: notes(&jobs), variables: variables(&jobs), workload })
}

/// Transfers of one pass over the files of a job: by the mean size.
fn transfers(job: &Job) -> u64 {
    let mean = job.split.iter().map(|(size, share)| *size as f64 * share / 100.0).sum::<f64>();
    if job.split.is_empty() { job.size / job.block } else { (job.size as f64 / mean) as u64 }
}

/// Syncs of one pass over the files of a job.
fn syncs(job: &Job) -> u64 {
    let writes = transfers(job) * (100 - job.way.reads) / 100;
    writes.checked_div(job.fsync).unwrap_or(0)
}

fn add(workload: &mut Workload, job: &Job, clone: u64) -> Result<(), JobError> {
    let label = format!("{}.{clone}", job.name.replace('/', "-"));
    let from = workload.filesets.len();
    workload.filesets.extend((0..job.files).map(|file| Fileset {
        name: format!("{label}.{file}"),
        path: "/tmp".into(),
        single: true,
        entries: 1,
        leafdirs: 0,
        dir_width: Value::Int(1024),
        dir_gamma: 0.0,
        dir_depth: None,
        size: Value::Int(job.size / job.files / job.block * job.block),
        prealloc_percent: 100,
        parallel_alloc: true,
        reuse: false,
        trust_tree: false,
        read_only: false,
        write_only: false,
    }));
    let size = match job.split.is_empty() {
        true => Value::Int(job.block),
        false => Value::Draw(drawn(workload, job)),
    };
    let thread = Thread {
        name: job.name.clone(),
        instances: 1,
        memory_bytes: Value::Int(0),
        io_priority: None,
        body: body(job, from, size)?,
    };
    workload.processes.push(Process { name: label, instances: 1, nice: 0, threads: vec![thread] });
    Ok(())
}

/// One pass of a thread: as many transfers as give the mix of reads and writes exactly, over the files in turn, a sync
/// after so many writes.
fn body(job: &Job, from: usize, size: Value) -> Result<Vec<Node>, JobError> {
    let reads = job.way.reads;
    let shared = gcd(reads, 100 - reads);
    let (of_reads, of_all) = (reads / shared, 100 / shared);
    // a pass is whole when mix, files and syncs are back where they began
    let writes = of_all - of_reads;
    let mut length = of_all * job.files / gcd(of_all, job.files);
    if job.fsync > 0 && writes > 0 {
        let of_length = length / of_all * writes;
        length *= job.fsync / gcd(job.fsync, of_length);
    }
    if length > PASS_MAX {
        let message = format!(
            "[{}]: nrfiles, rwmixread and fsync together repeat after {length} transfers; {PASS_MAX} at most",
            job.name
        );
        return Err(JobError::new(job.line, message));
    }
    let (mut body, mut written, mut due) = (Vec::new(), 0, 0);
    for at in 0..length {
        // Bresenham: reads are spread evenly over the pass
        due += of_reads;
        let is_read = due >= of_all;
        due -= if is_read { of_all } else { 0 };
        let file = at % job.files;
        body.push(transfer(job, is_read, (from + file as usize, file), size));
        written += u64::from(!is_read);
        if !is_read && job.fsync > 0 && written % job.fsync == 0 {
            let word = if job.data_only { "fdatasync" } else { "fsync" };
            let mut sync = FlowOp::new(format!("{}-{word}", job.name), Kind::Fsync);
            sync.dsync = job.data_only;
            sync.fd = SLOTS + file as u8;
            body.push(Node::Op(sync));
        }
    }
    Ok(body)
}

/// The sizes of a job's transfers as something to draw from; its index.
fn drawn(workload: &mut Workload, job: &Job) -> usize {
    let row =
        |(size, percent): &(u64, f64)| TableRow { percent: *percent, low: *size as f64, high: *size as f64 };
    workload.draws.push(Draw {
        name: format!("{}.bssplit", job.name),
        seed: workload.draws.len() as u64,
        distribution: Distribution::Table {
            rows: job.split.iter().map(row).collect(),
            factor: 1.0,
            shift: 0.0,
        },
        round: 0,
        rounding: Rounding::Nearest,
        clamp_min: None,
        clamp_max: None,
    });
    workload.draws.len() - 1
}

fn transfer(job: &Job, is_read: bool, (fileset, file): (usize, u64), size: Value) -> Node {
    let (kind, word, slot) = if is_read { (Kind::Read, "read", 0) } else { (Kind::Write, "write", SLOTS) };
    let mut op = FlowOp::new(format!("{}-{word}", job.name), kind);
    op.fileset = Some(fileset);
    op.fd = slot + file as u8;
    op.io_size = size;
    op.random = job.way.random;
    op.direct_io = job.direct;
    op.dsync = job.sync;
    // fio advises the kernel so for random jobs (fadvise_hint)
    op.no_read_ahead = job.way.random;
    Node::Op(op)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}

/// What differs from fio.
fn notes(jobs: &[Job]) -> Vec<String> {
    let any = |what: &dyn Fn(&Job) -> bool| jobs.iter().any(what);
    let mut notes = Vec::new();
    if any(&|job| job.way.random) {
        notes.push("random offsets are drawn anew each time (fio: norandommap)".to_string());
    }
    if any(&|job| job.asynchronous && job.depth > 1 && !job.way.random) {
        notes.push(
            "iodepth: each place of the queue goes through the file for itself; fio's places share one position".to_string(),
        );
    }
    if any(&|job| !job.asynchronous && job.depth > 1) {
        notes.push("iodepth above 1 has no effect with sync or psync, as in fio".to_string());
    }
    if any(&|job| !job.split.is_empty()) {
        notes.push(
            "bssplit: random offsets are multiples of the drawn size (fio: of the smallest one)".to_string(),
        );
    }
    if any(&|job| job.way.reads < 100) {
        notes.push(
            "files are written before the run, so that writes overwrite (fio: overwrite=1)".to_string(),
        );
    }
    notes
}

fn variables(jobs: &[Job]) -> Vec<(String, String)> {
    let of = |job: &Job| {
        let values = [
            ("bs", job.block.to_string()),
            ("size", job.size.to_string()),
            ("iodepth", job.depth.to_string()),
            ("numjobs", job.clones.to_string()),
            ("direct", u8::from(job.direct).to_string()),
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

    fn ops(loaded: &Loaded) -> Vec<String> {
        let name = |node: &Node| match node {
            Node::Op(op) => op.name.clone(),
            Node::Group { name, .. } => name.clone(),
        };
        loaded.workload.processes[0].threads[0].body.iter().map(name).collect()
    }

    #[test]
    fn a_job_file_becomes_a_workload() {
        let text = "; comment\n[global]\nioengine=libaio\niodepth=16\ndirect=1 # cut here\ntime_based\nruntime=20\n\
                    ramp_time=5s\n[a]\nrw=randread\nbs=4k\nsize=1m\nnumjobs=2\n[b]\nrw=write\nbs=64k\nsize=2m\n";
        let loaded = read(text);
        assert_eq!(loaded.io, IoMode::Uring { depth: 16 });
        let names: Vec<&str> =
            loaded.workload.processes.iter().map(|process| process.name.as_str()).collect();
        assert_eq!(names, ["a.0", "a.1", "b.0"]);
        let run = Step::Run { seconds: Some(20), ops: None, report_period_seconds: None, warmup_seconds: 5 };
        assert_eq!(loaded.workload.script, [run]);
        let Node::Op(op) = &loaded.workload.processes[0].threads[0].body[0] else { panic!() };
        assert!(op.direct_io && op.random && op.io_size == Value::Int(4096) && op.kind == Kind::Read);
        assert!(loaded.notes.iter().any(|note| note.contains("norandommap")));
    }

    #[test]
    fn mixes_are_exact_and_syncs_follow_writes() {
        let mixed = read("[m]\nrw=randrw\nrwmixread=75\nsize=1m\n");
        assert_eq!(ops(&mixed), ["m-write", "m-read", "m-read", "m-read"]);
        let synced = read("[s]\nrw=write\nfsync=2\nnrfiles=2\nsize=1m\n");
        assert_eq!(ops(&synced), ["s-write", "s-write", "s-fsync"]);
        let Step::Run { ops: Some(all), seconds: None, .. } = synced.workload.script[0] else { panic!() };
        assert_eq!(all, 256 + 128);
    }

    #[test]
    fn sizes_are_drawn_by_their_shares_and_data_alone_is_synced() {
        let loaded = read("[m]\nrw=randwrite\nbssplit=4k/75:64k/\nfdatasync=2\nsize=1m\n");
        let Distribution::Table { rows, .. } = &loaded.workload.draws[0].distribution else { panic!() };
        let shares: Vec<(f64, f64)> = rows.iter().map(|row| (row.low, row.percent)).collect();
        assert_eq!(shares, [(4096.0, 75.0), (65536.0, 25.0)]);
        assert_eq!(ops(&loaded), ["m-write", "m-write", "m-fdatasync"]);
        let body = &loaded.workload.processes[0].threads[0].body;
        let (Node::Op(write), Node::Op(sync)) = (&body[0], &body[2]) else { panic!() };
        assert!(write.io_size == Value::Draw(0) && sync.dsync && !write.dsync);
        // 1 MiB by 19 KiB on average
        let Step::Run { ops: Some(all), .. } = loaded.workload.script[0] else { panic!() };
        assert_eq!(all, 53 + 26);
        let bare = read("[m]\nrw=randwrite\nnorandommap\nrefill_buffers\nsize=1m\n");
        assert_eq!(
            bare.workload,
            read("[m]\nrw=randwrite\nnorandommap=1\nrefill_buffers=1\nsize=1m\n").workload
        );
        let even = read("[m]\nbssplit=4k:8k:16k/50\nsize=1m\n");
        let Distribution::Table { rows, .. } = &even.workload.draws[0].distribution else { panic!() };
        assert_eq!(rows.iter().map(|row| row.percent).collect::<Vec<_>>(), [25.0, 25.0, 50.0]);
    }

    #[test]
    fn sections_that_wait_are_groups_of_their_own() {
        let text =
            "[a]\nrw=read\nsize=1m\n[b]\nstonewall\nsize=1m\n[c]\nsize=2m\n[d]\nstonewall=1\nsize=1m\n";
        assert_eq!(crate::groups(text), ["a", "b+c", "d"]);
        assert_eq!(crate::groups("[a]\nsize=1m\n[b]\nsize=1m\n"), ["a+b"]);
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
        let error = load(text, "j", &set(&[("job", "c")])).unwrap_err();
        assert_eq!((error.line, error.message.as_str()), (0, "no section is called `c`; there are: a, b"));
    }

    #[test]
    fn mistakes_name_line_option_and_remedy() {
        for (text, line, part) in [
            ("[a]\nrw=read\nsize=1m\nblocksise=4k\n", 4, "did you mean `blocksize`?"),
            ("[a]\nsize=1m\nrate_iops=100\n", 3, "loadline sweep"),
            ("[a]\nsize=1m\nbs=4q\n", 3, "bs: `4q` is not a number"),
            ("[a]\nrw=read\n", 1, "`size` is missing"),
            ("rw=read\n[a]\n", 1, "before the first"),
            ("[a]\nsize=1m\ndirect\n", 3, "`direct` has no value: write `direct=`"),
            ("[a]\nsize=1m\nbssplit=4k/60:64k/50\n", 3, "add up to 110 %"),
            ("[a]\nsize=1m\nbssplit=4k,8k\n", 3, "reads and writes"),
            ("[a]\nsize=1m\nbssplit=0/100\n", 3, "a size is 0"),
            ("[a]\nsize=1m\nfsync=1\nfdatasync=2\n", 4, "not both"),
            ("[a]\nsize=8*$mb_memory\n", 2, "not followed"),
            ("[a]\nsize=1m\nrw=trim\n", 3, "`trim` is none of"),
            ("[a]\nsize=1m\nioengine=mmap\n", 3, "`mmap` is none of"),
            ("[a\n", 1, "`]`"),
            ("", 1, "no job"),
            ("[global]\nbs=4k\n", 2, "no job"),
            ("[a]\nsize=1m\nnumjobs=9999\n", 1, "numjobs is out of range"),
            ("[a]\nsize=1k\n", 1, "does not hold a block"),
            ("[a]\nsize=1m\ntime_based\n", 1, "needs `runtime`"),
            ("[a]\nsize=1m\nnrfiles=0\n", 1, "nrfiles is out of range"),
        ] {
            let error = load(text, "j", &[]).expect_err(text);
            assert!(error.line == line && error.message.contains(part), "{text}: {error:?}");
        }
    }
}
