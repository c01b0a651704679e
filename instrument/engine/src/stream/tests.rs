//! Streams on a port that is a test's own.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use workload::{DataSpec, EndMode};

use super::*;
use crate::control::Control;
use crate::fileset::LiveFileset;
use crate::limit::Schedule;
use crate::shared::Periods;

/// Submissions that a refused one may be followed by.
const PATIENCE: usize = 100;

/// Takes every transfer, and moves all of it at once unless it refuses what is handed over.
struct Fake<'a> {
    refuses: bool,
    asked: usize,
    /// When the last transfer was done, and when a file was closed and removed after it.
    moved_ns: &'a Cell<u64>,
    closed_ns: &'a Cell<u64>,
    removed_ns: &'a Cell<u64>,
}

impl Fake<'_> {
    fn refuse(&mut self) -> io::Result<()> {
        self.asked += 1;
        assert!(self.asked < PATIENCE, "it is asked again and again");
        if self.refuses { Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)) } else { Ok(()) }
    }
}

impl Port for Fake<'_> {
    type File = ();

    fn open(&self, _path: &CStr, _how: OpenMode) -> io::Result<()> {
        Ok(())
    }

    fn close(&self, (): ()) -> io::Result<()> {
        self.closed_ns.set(Clock::get().now());
        Ok(())
    }

    fn unlink(&self, _path: &CStr) -> io::Result<()> {
        self.removed_ns.set(Clock::get().now());
        Ok(())
    }

    fn invalidate(&self, (): &()) {}

    fn sync(&self, (): &(), _data_only: bool) -> io::Result<()> {
        Ok(())
    }

    unsafe fn begin(&mut self, _place: usize, (): &(), transfer: Transfer) -> io::Result<Option<usize>> {
        self.moved_ns.set(Clock::get().now());
        Ok((!self.refuses).then_some(transfer.bytes))
    }

    fn submit(&mut self) -> io::Result<()> {
        self.refuse()
    }

    fn wait(&mut self, _at_least: usize, _nanoseconds: Option<u64>, _done: &mut Done) -> io::Result<()> {
        self.refuse()
    }
}

/// Gives results one by one, and those of one time that all are awaited after the warm-up alone.
struct Late<'a> {
    depth: usize,
    queue: RefCell<Vec<(usize, usize)>>,
    /// Results are awaited though there was room for more.
    emptying: bool,
    emptied: &'a Cell<u32>,
    /// The time whose results come late, and from when on.
    late: u32,
    from_ns: u64,
}

impl Port for Late<'_> {
    type File = ();

    fn open(&self, _path: &CStr, _how: OpenMode) -> io::Result<()> {
        Ok(())
    }

    fn close(&self, (): ()) -> io::Result<()> {
        Ok(())
    }

    fn unlink(&self, _path: &CStr) -> io::Result<()> {
        Ok(())
    }

    fn invalidate(&self, (): &()) {}

    fn sync(&self, (): &(), _data_only: bool) -> io::Result<()> {
        Ok(())
    }

    fn begin_sync(&mut self, place: usize, (): &(), _data_only: bool) -> io::Result<bool> {
        self.queue.get_mut().push((place, 0));
        self.emptying = false;
        Ok(false)
    }

    unsafe fn begin(&mut self, place: usize, (): &(), transfer: Transfer) -> io::Result<Option<usize>> {
        self.queue.get_mut().push((place, transfer.bytes));
        self.emptying = false;
        Ok(None)
    }

    fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, _at_least: usize, _nanoseconds: Option<u64>, done: &mut Done) -> io::Result<()> {
        let queue = self.queue.get_mut();
        if queue.len() < self.depth && !self.emptying {
            self.emptying = true;
            self.emptied.set(self.emptied.get() + 1);
            while self.emptied.get() == self.late && Clock::get().now() < self.from_ns {
                std::thread::yield_now();
            }
        }
        let (place, bytes) = queue.remove(0);
        done.push((place, Ok(bytes)));
        Ok(())
    }
}

/// Issues a job of queue depth 8, whose warm-up ends while its queue is emptied for the `late`th time; how it ended, its records,
/// and how often the queue was emptied after that.
fn issue_late(job: &str, late: u32, begun_seconds: u64) -> (LaneEnd, Vec<OpRecord>, u32) {
    let now = Clock::get().now();
    let timing = Timing {
        begin_ns: now - begun_seconds * 1_000_000_000,
        measure_ns: now + 300_000_000,
        deadline_ns: now + 30_000_000_000,
        period_ns: 0,
    };
    let emptied = Cell::new(0);
    let queue = RefCell::default();
    let from_ns = timing.measure_ns;
    let port = Late { depth: 8, queue, emptying: false, emptied: &emptied, late, from_ns };
    let text = format!("[x]\nbs=4k\nioengine=libaio\niodepth=8\n{job}");
    let (end, _, ops) = issue_in(&text, port, timing, None);
    (end, ops, emptied.get().saturating_sub(late))
}

/// Moves everything at once, and takes its time to close a file.
struct SlowToClose(Duration);

impl Port for SlowToClose {
    type File = ();

    fn open(&self, _path: &CStr, _how: OpenMode) -> io::Result<()> {
        Ok(())
    }

    fn close(&self, (): ()) -> io::Result<()> {
        std::thread::sleep(self.0);
        Ok(())
    }

    fn unlink(&self, _path: &CStr) -> io::Result<()> {
        Ok(())
    }

    fn invalidate(&self, (): &()) {}

    fn sync(&self, (): &(), _data_only: bool) -> io::Result<()> {
        Ok(())
    }

    unsafe fn begin(&mut self, _place: usize, (): &(), transfer: Transfer) -> io::Result<Option<usize>> {
        Ok(Some(transfer.bytes))
    }

    fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, _at_least: usize, _nanoseconds: Option<u64>, _done: &mut Done) -> io::Result<()> {
        Ok(())
    }
}

/// Issues the first job of a file on a port, at once and measured from the begin.
fn issue<P: Port>(text: &str, port: P) -> (LaneEnd, u64, Vec<OpRecord>) {
    let now = Clock::get().now();
    issue_in(text, port, Timing { begin_ns: now, measure_ns: now, deadline_ns: u64::MAX, period_ns: 0 }, None)
}

/// The same with times, and with an offered rate.
fn issue_in<P: Port>(
    text: &str,
    port: P,
    timing: Timing,
    per_second: Option<f64>,
) -> (LaneEnd, u64, Vec<OpRecord>) {
    let workload = fiojob::load(text, "job", &[]).unwrap_or_else(|error| panic!("{error}")).workload;
    let spec = workload.processes[0].threads[0].stream.as_deref().unwrap();
    let control = Control::new();
    let layouts = crate::run::layouts(&workload, 1).unwrap();
    let fileset = |layout| LiveFileset::new(layout, "x", false, 100, 1);
    let shared = Shared {
        filesets: layouts.into_iter().map(fileset).collect(),
        end_mode: EndMode::AllDone,
        strict: false,
        control: &control,
        pace: per_second.and_then(Schedule::new),
        ops_left: None,
        lanes: AtomicU64::new(0),
        totals: Vec::new(),
        lines: Mutex::default(),
        periods: Mutex::new(Periods::new(false)),
        cut_back: AtomicU64::new(0),
    };
    let data = DataPool::new(DataSpec { compress_percent: 0, duplicate_percent: 0 }, 1, 0, 0).unwrap();
    // transfers, and syncs
    let mut records = [0; OPERATIONS.len()];
    (records[FSYNC], records[FDATASYNC]) = (1, 1);
    let frame = Frame {
        shared: &shared,
        label: "x-1".into(),
        seed: 1,
        length_told: false,
        common_delay_seconds: 0.0,
        data,
        records,
    };
    let published = AtomicU64::new(0);
    Runner::new(spec, port, frame).run(timing, Recorder::new(2, timing, &published))
}

#[test]
fn a_refused_submission_is_not_repeated_for_ever() {
    let times = [Cell::new(0), Cell::new(0), Cell::new(0)];
    let [moved_ns, closed_ns, removed_ns] = &times;
    let port = Fake { refuses: true, asked: 0, moved_ns, closed_ns, removed_ns };
    let (end, ..) = issue("[x]\nrw=write\nbs=4k\nsize=64k\nioengine=libaio\niodepth=4\n", port);
    let LaneEnd::Failed(fault) = end else { panic!("{end:?}") };
    assert!(fault.what.contains("cannot submit"), "{}", fault.what);
}

#[test]
fn the_interval_ends_before_files_are_closed_and_removed() {
    let times = [Cell::new(0), Cell::new(0), Cell::new(0)];
    let [moved_ns, closed_ns, removed_ns] = &times;
    let port = Fake { refuses: false, asked: 0, moved_ns, closed_ns, removed_ns };
    let (end, end_ns, ops) = issue("[x]\nrw=write\nbs=4k\nsize=16k\nunlink=1\n", port);
    assert_eq!((end, ops[0].ops), (LaneEnd::Done, 4));
    let [moved, closed, removed] = times.map(Cell::into_inner);
    assert!(moved <= end_ns && end_ns <= closed && closed <= removed, "{moved} {end_ns} {closed} {removed}");
}

/// A minute of a rate was due before the warm-up ended: the next transfer is not due a minute after that.
#[test]
fn a_rate_does_not_wait_for_what_was_due_in_the_warm_up() {
    let (end, ..) = issue_late("rw=read\nsize=64m\nio_size=2432k\nrate_iops=10\n", 1, 60);
    assert_eq!(end, LaneEnd::Done);
}

#[test]
fn pauses_go_on_after_the_warm_up() {
    let (end, _, emptied) =
        issue_late("rw=read\nsize=64m\nio_size=400k\nthinktime=1\nthinktime_blocks=4\n", 10, 0);
    assert_eq!(end, LaneEnd::Done);
    assert!(emptied > 2, "{emptied}");
}

#[test]
fn syncs_in_flight_are_not_among_the_number_of_transfers() {
    let job = "rw=write\nsize=64m\nfsync=1\nnumber_ios=20\nthinktime=1\nthinktime_blocks=4\n";
    let (end, ops, _) = issue_late(job, 1, 0);
    assert_eq!((end, ops[0].ops), (LaneEnd::Done, 20));
}

/// The longest latency from the intended start of a job that is offered a rate.
fn longest_intended(job: &str, per_second: f64, close: Duration) -> Duration {
    let now = Clock::get().now();
    let timing = Timing { begin_ns: now, measure_ns: now, deadline_ns: u64::MAX, period_ns: 0 };
    let text = format!("[x]\nrw=write\nbs=4k\n{job}\n");
    let (end, _, ops) = issue_in(&text, SlowToClose(close), timing, Some(per_second));
    assert_eq!(end, LaneEnd::Done);
    let intended = ops[0].intended.as_ref().expect("a rate is offered");
    assert!(intended.count() > 0, "nothing was measured");
    Duration::from_nanos(intended.max().expect("an operation"))
}

/// An operation that was due when the file before it was closed is late by what the closing took.
#[test]
fn what_a_close_takes_is_in_the_latency_from_the_intended_start() {
    let close = Duration::from_millis(80);
    for job in ["size=16k\nnrfiles=4", "size=16k\nnrfiles=4\nfsync=1"] {
        let longest = longest_intended(&format!("{job}\nfile_service_type=sequential"), 10.0, close);
        assert!(longest >= close, "{job}: {longest:?}");
    }
}

/// Five operations are due within 4 ms; the job's own rate lets the last of them begin after 200 ms.
#[test]
fn the_wait_for_the_own_rate_is_in_the_latency_from_the_intended_start() {
    let longest = longest_intended("size=20k\nrate_iops=20", 1000.0, Duration::ZERO);
    assert!(longest >= Duration::from_millis(190), "{longest:?}");
}

/// Offsets of a log may be as large as those of any file.
#[test]
fn the_bytes_of_a_pass_do_not_overflow() {
    let file = |name: &str| format!("0 {name} add\n0 {name} open\n0 {name} write {} 1\n", i64::MAX - 1);
    let log = format!("fio version 3 iolog\n{}", ["a", "b", "c"].map(file).concat());
    let workload = fiojob::load(&log, "log", &[]).unwrap().workload;
    let stream = workload.processes[0].threads[0].stream.as_deref().unwrap();
    assert_eq!(pass_ends(stream), u64::MAX);
}
