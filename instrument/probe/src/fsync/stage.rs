//! What of all block I/O one fsync waited for, as stages in time. The rules are told in docs/explain.md.

use study::fsync::interval::{Interval, union};
use study::fsync::{Operation, Part, Stage};

use super::bio::{Bio, Request, Traffic};
use super::chain::{FsKind, Level};
use super::event::Dev;

/// Who waits, on one level.
pub(super) struct Waiter<'a> {
    /// When: one span at the top, the device's working times of the level above below it.
    pub windows: &'a [Interval],
    /// The calling thread at the top; below, work is done by kernel threads.
    pub caller: Option<i32>,
    /// Threads that are in an fsync of this file system at some time of the windows.
    pub syncing: &'a [i32],
    /// Times in which the file that holds the level above is being synced.
    pub syncs_below: &'a [Interval],
}

/// The stages of I/O that `waiter` waited for, clipped to its windows and sorted.
pub(super) fn stages(traffic: &Traffic, level: &Level, waiter: &Waiter<'_>) -> Vec<Stage> {
    let Some((first, last)) = waiter.windows.first().zip(waiter.windows.last()) else { return Vec::new() };
    let whole = Interval::new(first.start_ns, last.end_ns);
    let bios = traffic.overlapping(&whole);
    let own_flushes: Vec<&Bio> =
        bios.iter().copied().filter(|bio| is_own(bio, waiter) && is_flush(bio)).collect();
    let concerned = bios.iter().filter(|bio| {
        is_own(bio, waiter) || (is_shared(bio, level, waiter) && before_own_flush(bio, &own_flushes, waiter))
    });
    let flushes = traffic.flushes(&whole);
    let mut found: Vec<Stage> =
        concerned.flat_map(|bio| stages_of(bio, &flushes, level, whole.end_ns)).collect();
    found = found.iter().flat_map(|stage| clip(stage, waiter.windows)).collect();
    found.sort_by_key(|stage| (stage.start_ns, stage.part, stage.end_ns));
    found
}

fn clip<'a>(stage: &'a Stage, windows: &'a [Interval]) -> impl Iterator<Item = Stage> + 'a {
    windows.iter().filter_map(|window| {
        let span = stage.span().intersection(window)?;
        Some(Stage { start_ns: span.start_ns, end_ns: span.end_ns, ..stage.clone() })
    })
}

fn is_flush(bio: &Bio) -> bool {
    bio.sectors == 0 && (bio.rwbs.preflush || bio.rwbs.operation == Operation::Flush)
}

/// Submitted by the waiter itself.
fn is_own(bio: &Bio, waiter: &Waiter<'_>) -> bool {
    let Some(window) = waiter.windows.iter().find(|window| window.contains(bio.queued_ns)) else {
        return false;
    };
    match waiter.caller {
        Some(pid) => bio.pid == pid,
        // Below a loop device its workers write and sync the backing file; background write-back, which
        // nobody waits for, comes without the sync flag.
        None => {
            let worker = bio.comm.starts_with("kworker/") || bio.comm.starts_with("loop");
            let waited_for = bio.rwbs.sync || bio.rwbs.operation != Operation::Write;
            worker && waited_for && window.length() > 0
        }
    }
}

/// Submitted for all who wait for the journal.
fn is_shared(bio: &Bio, level: &Level, waiter: &Waiter<'_>) -> bool {
    let in_a_sync = waiter.caller.is_some() || waiter.syncs_below.iter().any(|sync| overlaps(bio, sync));
    let to_journal = bio.rwbs.meta || bio.rwbs.preflush || bio.rwbs.fua;
    in_a_sync
        && match level.kind {
            // The journal thread also writes the file data that must precede the commit.
            FsKind::Ext4 => bio.comm.starts_with("jbd2/"),
            FsKind::Xfs => bio.log,
            FsKind::Btrfs => {
                let helper = bio.comm.starts_with("kworker/") && bio.rwbs.sync;
                let commit = bio.comm.starts_with("btrfs-transac");
                commit || helper || (to_journal && waiter.syncing.contains(&bio.pid))
            }
            FsKind::Other => false,
        }
}

fn overlaps(bio: &Bio, span: &Interval) -> bool {
    bio.queued_ns < span.end_ns && bio.done_ns.is_none_or(|done| done > span.start_ns)
}

/// A file system issues a flush of its own only when no commit did it; shared I/O still going on then is not
/// waited for. Below a loop device this holds sync by sync.
fn before_own_flush(bio: &Bio, own_flushes: &[&Bio], waiter: &Waiter<'_>) -> bool {
    let in_same_sync = |flush: &Bio| {
        let syncs = if waiter.caller.is_some() { waiter.windows } else { waiter.syncs_below };
        syncs.iter().any(|sync| sync.contains(flush.queued_ns) && overlaps(bio, sync))
    };
    own_flushes
        .iter()
        .filter(|flush| in_same_sync(flush))
        .all(|flush| bio.done_ns.is_some_and(|done| done <= flush.queued_ns))
}

/// The stages of one bio: in the queue, flush before, the write, flush after.
fn stages_of(bio: &Bio, flushes: &[&Request], level: &Level, end_ns: u64) -> Vec<Stage> {
    let mut found = Vec::new();
    let mut add = |start_ns: u64, end_ns: u64, part, label: &'static str| {
        if start_ns < end_ns {
            let moves_data = part != Part::Queue && !label.starts_with("flush");
            let bytes = if moves_data { u64::from(bio.sectors) * 512 } else { 0 };
            let rwbs = bio.rwbs.to_string();
            found.push(Stage {
                start_ns,
                end_ns,
                part,
                label: label.into(),
                rwbs,
                disk: bio.disk.0,
                sector: bio.sector,
                bytes,
            });
        }
    };
    let disk = level.disks.iter().find(|disk| disk.dev == bio.disk.0);
    let device_fua = disk.and_then(|disk| disk.fua) == Some(true);
    // A FUA write that needs no second flush is over when it is written.
    let written = bio.written_ns.unwrap_or(end_ns);
    let done = bio.done_ns.unwrap_or(end_ns);
    let issued = bio.issued_ns.unwrap_or(done.min(end_ns));
    let mut flush_stage = |from: u64, to: u64, part: Part, label| {
        let span = Interval::new(from, to);
        let service = |flush: &&Request| {
            let flush = Interval::new(flush.issued_ns, flush.done_ns.unwrap_or(end_ns));
            flush.intersection(&span)
        };
        let working =
            union(flushes.iter().filter(|flush| flush.disk == bio.disk).filter_map(service).collect());
        let mut at = from;
        for flush in &working {
            add(at, flush.start_ns, Part::Queue, "flush queued");
            add(flush.start_ns, flush.end_ns, part, label);
            at = flush.end_ns;
        }
        add(
            at,
            to,
            Part::Queue,
            if part == Part::Flush && bio.sectors > 0 { "write queued" } else { "completing" },
        );
    };
    if bio.sectors == 0 {
        if bio.sequence {
            flush_stage(bio.queued_ns, done, Part::Flush, "flush");
        }
        return found;
    }
    if bio.sequence && bio.rwbs.preflush {
        flush_stage(bio.queued_ns, issued, Part::Flush, "flush before commit");
        if bio.rwbs.fua && !device_fua && bio.written_ns.is_some() {
            flush_stage(written, done, Part::Fua, "flush instead of FUA");
        }
    } else {
        if bio.sequence && bio.written_ns.is_some() {
            flush_stage(written, done, Part::Fua, "flush instead of FUA");
        }
        add(bio.queued_ns, issued, Part::Queue, "queued");
    }
    let (part, label) = kind_of(bio, device_fua);
    add(issued, written, part, label);
    found
}

fn kind_of(bio: &Bio, device_fua: bool) -> (Part, &'static str) {
    match bio.rwbs.operation {
        Operation::Write if bio.rwbs.fua && bio.sequence | device_fua => {
            (Part::Fua, if device_fua { "commit with FUA" } else { "commit record" })
        }
        Operation::Write if bio.rwbs.meta || bio.log => (Part::JournalWrite, "journal write"),
        Operation::Write => (Part::DataWrite, "data write"),
        Operation::Read => (Part::Other, "read"),
        Operation::Discard => (Part::Other, "discard"),
        Operation::Flush | Operation::Other => (Part::Other, "other"),
    }
}

impl Traffic {
    /// Bios that were under way at some time of `span`.
    fn overlapping(&self, span: &Interval) -> Vec<&Bio> {
        let until = self.bios.partition_point(|bio| bio.queued_ns < span.end_ns);
        let from =
            self.bios.partition_point(|bio| bio.queued_ns.saturating_add(self.longest_ns) < span.start_ns);
        let older = self.unfinished.iter().filter(|at| **at < from).map(|at| &self.bios[*at]);
        older.chain(&self.bios[from..until.max(from)]).filter(|bio| overlaps(bio, span)).collect()
    }

    fn flushes(&self, span: &Interval) -> Vec<&Request> {
        let until = self.requests.partition_point(|request| request.issued_ns < span.end_ns);
        let from =
            self.requests.partition_point(|r| r.issued_ns.saturating_add(self.longest_ns) < span.start_ns);
        let requests = self.requests[from..until.max(from)].iter();
        requests
            .filter(|request| request.rwbs.operation == Operation::Flush)
            .filter(|request| request.done_ns.is_none_or(|done| done > span.start_ns))
            .collect()
    }

    /// How many flushes the disk `disk` worked on in `span`.
    pub(super) fn count_flushes(&self, disk: Dev, spans: &[Interval]) -> u64 {
        let Some((first, last)) = spans.first().zip(spans.last()) else { return 0 };
        let flushes = self.flushes(&Interval::new(first.start_ns, last.end_ns));
        let seen = flushes.iter().filter(|flush| flush.disk == disk).filter(|flush| {
            let service = Interval::new(flush.issued_ns, flush.done_ns.unwrap_or(last.end_ns));
            spans.iter().any(|span| span.intersection(&service).is_some())
        });
        seen.count() as u64
    }
}
