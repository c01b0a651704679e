//! The parts of one fsync, level by level.

use study::fsync::interval::{Interval, divide, union};
use study::fsync::{Breakdown, LevelBreakdown, Mark, Part, Parts, Stage};

use super::bio::{Request, Traffic, traffic};
use super::call::{Call, calls};
use super::chain::{Chain, FsKind, Level};
use super::event::{Dev, TraceEvent, TraceEventKind};
use super::stage::{Waiter, stages};

/// All fsyncs of a trace.
#[derive(Debug, Clone, Default)]
pub struct Analysis {
    /// The fsyncs on the first level's file system, in order of return.
    pub fsyncs: Vec<Breakdown>,
    /// All requests of the first level's disks, in order of issue: fsync or not.
    pub requests: Vec<Request>,
}

/// Explains every fsync on the chain's first file system that began and ended within `moments` (in order of
/// time). Pure; strange traces give strange figures, but the parts always sum up to the total.
pub fn analyse(moments: &[TraceEvent], chain: &Chain) -> Analysis {
    let Some(top) = chain.levels.first() else { return Analysis::default() };
    let calls = calls(moments, top);
    let traffics: Vec<Traffic> = chain.levels.iter().map(|level| traffic(moments, level)).collect();
    let journals: Vec<Vec<Mark>> = chain.levels.iter().map(|level| marks(moments, level)).collect();
    let syncs: Vec<Vec<Interval>> = chain.levels.iter().map(|level| syncs(moments, level)).collect();
    let longest = calls.iter().map(|call| call.window.length()).max().unwrap_or(0);
    let explain = |call: &Call| {
        let mut levels: Vec<LevelBreakdown> = Vec::new();
        let mut windows = vec![call.window];
        for (depth, level) in chain.levels.iter().enumerate() {
            let syncing = if depth == 0 { callers_during(&calls, &call.window, longest) } else { Vec::new() };
            let below = within(&syncs[depth], &windows);
            let waiter = Waiter {
                windows: &windows,
                caller: (depth == 0).then_some(call.pid),
                syncing: &syncing,
                syncs_below: &below,
            };
            let explained = explain_level(level, &traffics[depth], &journals[depth], &waiter);
            let working = explained.stages.iter().filter(|stage| stage.part.on_device()).map(Stage::span);
            windows = union(working.collect());
            levels.push(explained);
        }
        Breakdown {
            pid: call.pid,
            comm: comm_of(call, &traffics[0]),
            inode: call.inode,
            data_only: call.data_only,
            start_ns: call.window.start_ns,
            total_ns: call.window.length(),
            levels,
        }
    };
    let fsyncs = calls.iter().map(explain).collect();
    let requests = traffics.into_iter().next().map(|traffic| traffic.requests).unwrap_or_default();
    Analysis { fsyncs, requests }
}

fn explain_level(level: &Level, traffic: &Traffic, marks: &[Mark], waiter: &Waiter<'_>) -> LevelBreakdown {
    let stages = stages(traffic, level, waiter);
    let spans: Vec<(Part, Interval)> = stages.iter().map(|stage| (stage.part, stage.span())).collect();
    let parts = divide(waiter.windows, &spans);
    let is_write = |stage: &&Stage| stage.bytes > 0 && stage.rwbs.contains('W');
    let mut written: Vec<(u32, u64, u64, &str)> =
        stages.iter().filter(is_write).map(|s| (s.disk, s.sector, s.bytes, s.rwbs.as_str())).collect();
    // A bio cut in two by the end of a window is still one.
    written.dedup();
    let in_windows = |mark: &&Mark| waiter.windows.iter().any(|window| window.contains(mark.at_ns));
    let (Some(first), Some(last)) = (waiter.windows.first(), waiter.windows.last()) else {
        return nothing(level);
    };
    let from = marks.partition_point(|mark| mark.at_ns < first.start_ns);
    let to = marks.partition_point(|mark| mark.at_ns < last.end_ns);
    LevelBreakdown {
        name: level.name(),
        windows_ns: waiter.windows.iter().map(Interval::length).sum(),
        parts,
        marks: marks[from..to.max(from)].iter().filter(in_windows).cloned().collect(),
        writes: written.len() as u64,
        written_bytes: written.iter().map(|(_, _, bytes, _)| bytes).sum(),
        flushes: level.disks.iter().map(|disk| traffic.count_flushes(Dev(disk.dev), waiter.windows)).sum(),
        syncs: waiter.syncs_below.len() as u64,
        stages,
    }
}

fn nothing(level: &Level) -> LevelBreakdown {
    LevelBreakdown {
        name: level.name(),
        windows_ns: 0,
        parts: Parts::default(),
        stages: Vec::new(),
        marks: Vec::new(),
        writes: 0,
        written_bytes: 0,
        flushes: 0,
        syncs: 0,
    }
}

/// The journal steps of a level.
fn marks(moments: &[TraceEvent], level: &Level) -> Vec<Mark> {
    let mark = |moment: &TraceEvent| match moment.what {
        TraceEventKind::Journal { fs, step, .. } if level.is(fs) => {
            Some(Mark { at_ns: moment.at_ns, label: step.into() })
        }
        _ => None,
    };
    moments.iter().filter_map(mark).collect()
}

/// When the file that holds the level above was being synced; ends that are not told stay open.
fn syncs(moments: &[TraceEvent], level: &Level) -> Vec<Interval> {
    let Some((file, _)) = &level.holds else { return Vec::new() };
    let mut found: Vec<(i32, Interval)> = Vec::new();
    for moment in moments {
        match moment.what {
            TraceEventKind::FsEnter { fs, inode, .. } if inode == *file && level.is(fs) => {
                found.push((moment.pid, Interval::new(moment.at_ns, u64::MAX)));
            }
            TraceEventKind::FsExit { fs, inode } if inode == *file && level.is(fs) => {
                let entered = found.iter_mut().rev().take(64).find(|(pid, _)| *pid == moment.pid);
                if let Some((_, sync)) = entered.filter(|(_, sync)| sync.end_ns == u64::MAX) {
                    sync.end_ns = moment.at_ns;
                }
            }
            _ => {}
        }
    }
    found.into_iter().map(|(_, sync)| sync).collect()
}

/// The syncs that began in one of the windows, each cut at the end of its window.
fn within(syncs: &[Interval], windows: &[Interval]) -> Vec<Interval> {
    let of_window = |window: &Interval| {
        let from = syncs.partition_point(|sync| sync.start_ns < window.start_ns);
        let to = syncs.partition_point(|sync| sync.start_ns < window.end_ns);
        let window = *window;
        syncs[from..to.max(from)].iter().filter_map(move |sync| sync.intersection(&window))
    };
    windows.iter().flat_map(of_window).collect()
}

/// The threads that are in a call at some time of `window`. Calls are sorted by their end.
fn callers_during(calls: &[Call], window: &Interval, longest: u64) -> Vec<i32> {
    let from = calls.partition_point(|call| call.window.end_ns <= window.start_ns);
    let begins_later = |call: &&Call| call.window.end_ns <= window.end_ns.saturating_add(longest);
    let near = calls[from..].iter().take_while(begins_later);
    let mut pids: Vec<i32> =
        near.filter(|call| call.window.intersection(window).is_some()).map(|call| call.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

fn comm_of(call: &Call, traffic: &Traffic) -> String {
    let from = traffic.bios.partition_point(|bio| bio.queued_ns < call.window.start_ns);
    let to = traffic.bios.partition_point(|bio| bio.queued_ns < call.window.end_ns);
    let own = traffic.bios[from..to.max(from)].iter().find(|bio| bio.pid == call.pid);
    own.map(|bio| bio.comm.clone()).unwrap_or_default()
}

/// Whether a file system's fsyncs can be explained in full, or only the calling thread's own I/O.
pub fn stages_are_known(chain: &Chain) -> bool {
    chain.levels.first().is_some_and(|level| level.kind != FsKind::Other)
}
