//! Streams on a port that is a test's own.

use std::cell::Cell;
use std::ffi::CStr;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use workload::{DataSpec, EndMode};

use super::*;
use crate::control::Control;
use crate::fileset::LiveFileset;
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

/// Issues the first job of a file on a port.
fn issue<P: Port>(text: &str, port: P) -> (LaneEnd, u64, Vec<OpRecord>) {
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
        pace: None,
        ops_left: None,
        lanes: AtomicU64::new(0),
        totals: Vec::new(),
        lines: Mutex::default(),
        periods: Mutex::new(Periods::new(false)),
        cut_back: AtomicU64::new(0),
    };
    let data = DataPool::new(DataSpec { compress_percent: 0, duplicate_percent: 0 }, 1, 0, 0).unwrap();
    let records = [0; OPERATIONS.len()];
    let frame = Frame {
        shared: &shared,
        label: "x-1".into(),
        seed: 1,
        length_told: false,
        common_delay_seconds: 0.0,
        data,
        records,
    };
    let (now, published) = (Clock::get().now(), AtomicU64::new(0));
    let timing = Timing { begin_ns: now, measure_ns: now, deadline_ns: u64::MAX, period_ns: 0 };
    Runner::new(spec, port, frame).run(timing, Recorder::new(1, timing, &published))
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
