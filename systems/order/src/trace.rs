//! The trace of commands, in the formats of the OPIMQ artifact.

use std::fmt::Write;

use ssd::{Nanos, StreamTag, Tags};

/// Kind of a traced command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `nvme_cmd_read`.
    Read,
    /// `nvme_cmd_write`.
    Write,
    /// `nvme_cmd_flush`.
    Flush,
    /// A barrier or the end of a stream: commands the published interface has not.
    Other,
}

impl Kind {
    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "nvme_cmd_read",
            Kind::Write => "nvme_cmd_write",
            Kind::Flush => "nvme_cmd_flush",
            Kind::Other => "nvme_cmd_order",
        }
    }
}

/// One command, as it was dispatched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Nanos,
    /// When it completed; 0 until then.
    pub done_at: Nanos,
    /// Name of the task that dispatched it.
    pub name: &'static str,
    /// Its process id.
    pub pid: u32,
    /// The core it ran on.
    pub core: u16,
    /// Ids and barrier flag.
    pub tags: Tags,
    /// Hardware queue, from 1 as in NVMe (0 is the admin queue).
    pub queue: u16,
    /// Kind.
    pub kind: Kind,
    /// Force unit access.
    pub fua: bool,
    /// First block and number of blocks.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Command id.
    pub id: u64,
}

fn pair(tag: Option<StreamTag>) -> (u32, u32) {
    tag.map_or((0, 0), |t| (t.stream, t.epoch))
}

/// Commands in dispatch order.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The commands.
    pub entries: Vec<Entry>,
    pub(crate) on: bool,
}

impl Trace {
    /// The artifact's parsed table: tab-separated, set-up events only.
    pub fn table(&self) -> String {
        let mut out = String::from("Timestamp\tPName\tPID\t[sid1, eid1]\t[sid2, eid2]\tbflag\tqid\toptype\n");
        for e in &self.entries {
            let ((s1, e1), (s2, e2)) = (pair(e.tags.major), pair(e.tags.minor));
            let _ = writeln!(
                out,
                "{:.6}\t{}\t{}\t[{s1}, {e1}]\t[{s2}, {e2}]\t{}\t{}\t{}",
                e.at as f64 / 1e9,
                e.name,
                e.pid,
                u8::from(e.tags.barrier),
                e.queue,
                e.kind.name()
            );
        }
        out
    }

    /// The artifact's raw lines: set-up and completion events in order of time.
    pub fn raw(&self) -> String {
        let mut lines: Vec<(Nanos, u64, String)> = Vec::new();
        for e in &self.entries {
            let ((s1, e1), (s2, e2)) = (pair(e.tags.major), pair(e.tags.minor));
            let (kind, seconds) = (e.kind.name(), e.at as f64 / 1e9);
            let setup = format!(
                "{}-{} [{:03}] .... {seconds:.6}: nvme_setup_cmd: cmd_type:{kind} sid1: {s1} eid1: {e1} sid2: {s2} \
                 eid2: {e2} bflag: {} qid: {} cmdid:{}",
                e.name,
                e.pid,
                e.core,
                u8::from(e.tags.barrier),
                e.queue,
                e.id
            );
            lines.push((e.at, e.id * 2, setup));
            if e.done_at > 0 {
                let done = format!(
                    "{}-{} [{:03}] .... {:.6}: nvme_sq:  PID {} qid {} cpuid {} iolat {} cmd=({kind}) cmdid:{}",
                    e.name,
                    e.pid,
                    e.core,
                    e.done_at as f64 / 1e9,
                    e.pid,
                    e.queue,
                    e.core,
                    e.done_at - e.at,
                    e.id
                );
                lines.push((e.done_at, e.id * 2 + 1, done));
            }
        }
        lines.sort();
        lines.into_iter().fold(String::new(), |all, (_, _, line)| all + &line + "\n")
    }

    /// Where the time of one synchronous call went, from the commands dispatched in `from..=to`.
    pub fn split(&self, from: Nanos, to: Nanos) -> Split {
        let mut s = Split { total: to - from, ..Split::default() };
        let mut intervals: Vec<(Nanos, Nanos)> = Vec::new();
        for e in self.entries.iter().filter(|e| e.at >= from && e.at <= to && e.done_at > 0) {
            let took = e.done_at - e.at;
            match (e.kind, e.fua) {
                (Kind::Flush, _) => s.flush += took,
                (Kind::Write, true) => s.fua += took,
                (Kind::Write, false) => s.dma += took,
                _ => continue,
            }
            intervals.push((e.at, e.done_at.min(to)));
        }
        intervals.sort_unstable();
        let mut reached = from;
        for (a, b) in intervals {
            s.device += b.saturating_sub(a.max(reached));
            reached = reached.max(b);
        }
        s.host = s.total - s.device;
        s
    }
}

/// Parts of a synchronous call, ns. The artifact's script adds device intervals up, which may overlap; `host` is what
/// is left when no command is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// From call to return.
    pub total: Nanos,
    /// Sum over plain writes.
    pub dma: Nanos,
    /// Sum over flushes.
    pub flush: Nanos,
    /// Sum over FUA writes.
    pub fua: Nanos,
    /// Time with at least one command in flight.
    pub device: Nanos,
    /// The rest.
    pub host: Nanos,
}
