//! Requests of the block layer, and the bios that were queued into them.

use std::collections::HashMap;

use study::fsync::Operation;

use super::chain::{Disk, Level};
use super::event::{Blocks, Dev, TraceEvent, TraceEventKind};
use super::rwbs::Rwbs;

/// What was given to a driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The whole disk.
    pub disk: Dev,
    /// First sector.
    pub sector: u64,
    /// Sectors; 0 for a flush.
    pub sectors: u32,
    /// Operation and flags as the driver saw them.
    pub rwbs: Rwbs,
    /// When the driver got it.
    pub issued_ns: u64,
    /// When it was complete; `None`: after the end of the trace.
    pub done_ns: Option<u64>,
    /// The thread that gave it to the driver.
    pub pid: i32,
    /// That thread's name.
    pub comm: String,
    /// The CPU it was given from.
    pub cpu: u16,
    /// The submission queue, when the NVMe driver told it.
    pub nvme_queue: Option<u16>,
}

impl Request {
    fn end(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.sectors))
    }
}

/// What a file system handed to the block layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bio {
    /// The whole disk.
    pub disk: Dev,
    /// First sector.
    pub sector: u64,
    /// Sectors; 0 for an empty flush.
    pub sectors: u32,
    /// Operation and flags as the file system set them.
    pub rwbs: Rwbs,
    /// When it was handed over.
    pub queued_ns: u64,
    /// The thread that did.
    pub pid: i32,
    /// That thread's name.
    pub comm: String,
    /// XFS said that this thread was about to write its log.
    pub log: bool,
    /// When its first request was issued.
    pub issued_ns: Option<u64>,
    /// When its last request was complete.
    pub written_ns: Option<u64>,
    /// When the whole sequence was complete, flushes included.
    pub done_ns: Option<u64>,
    /// The block layer makes several requests of it: flush, write, flush.
    pub sequence: bool,
    /// Sectors found in requests so far.
    covered: u32,
}

impl Bio {
    fn end(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.sectors))
    }
}

/// All block I/O of one level, in order of time.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    /// What the file systems (and everybody else) handed over.
    pub bios: Vec<Bio>,
    /// What the drivers got.
    pub requests: Vec<Request>,
    /// The longest time a bio or a request was under way.
    pub longest_ns: u64,
    /// The bios that were not complete when the trace ended.
    pub unfinished: Vec<usize>,
}

/// Puts the block I/O of one level together. Pure.
pub fn traffic(moments: &[TraceEvent], level: &Level) -> Traffic {
    let mut builder = Builder::default();
    for moment in moments {
        match &moment.what {
            TraceEventKind::Journal { fs, log_io: true, .. } if level.is(*fs) => {
                builder.log_next.push(moment.pid);
            }
            TraceEventKind::NvmeSetup { queue } => {
                builder.nvme_queue.insert(moment.cpu, *queue);
            }
            TraceEventKind::Queue(blocks) => {
                if let Some(disk) = level.disk_of(blocks.dev) {
                    builder.queue(moment, disk, blocks);
                }
            }
            TraceEventKind::Issue(blocks) => {
                if let Some(disk) = level.disk_of(blocks.dev) {
                    builder.issue(moment, disk, blocks);
                }
            }
            TraceEventKind::Complete(blocks) => {
                if let Some(disk) = level.disk_of(blocks.dev) {
                    builder.complete(moment.at_ns, Dev(disk.dev), blocks);
                }
            }
            _ => {}
        }
    }
    builder.finish()
}

#[derive(Default)]
struct Builder {
    traffic: Traffic,
    /// Bios that have not met all of their requests.
    waiting: Vec<usize>,
    /// Bios with flags whose sequence is not complete.
    sequences: Vec<usize>,
    /// Bios with a request that is with the driver.
    flying: Vec<usize>,
    /// Requests with the driver.
    open: Vec<usize>,
    /// Threads whose next bio is log I/O.
    log_next: Vec<i32>,
    nvme_queue: HashMap<u16, u16>,
}

impl Builder {
    fn finish(self) -> Traffic {
        let mut traffic = self.traffic;
        let bios = traffic.bios.iter().filter_map(|bio| Some((bio.queued_ns, bio.done_ns?)));
        let requests =
            traffic.requests.iter().filter_map(|request| Some((request.issued_ns, request.done_ns?)));
        let lengths = bios.chain(requests).map(|(from, to)| to.saturating_sub(from));
        traffic.longest_ns = lengths.max().unwrap_or(0);
        let numbered = traffic.bios.iter().enumerate();
        traffic.unfinished = numbered.filter(|(_, bio)| bio.done_ns.is_none()).map(|(at, _)| at).collect();
        traffic
    }

    fn queue(&mut self, moment: &TraceEvent, disk: &Disk, blocks: &Blocks) {
        // Without a volatile cache the flags are dropped; FUA alone is one command where the device has it.
        let cached = disk.write_back != Some(false);
        let sequence = cached && (blocks.rwbs.preflush || blocks.rwbs.fua && disk.fua != Some(true));
        let before = self.log_next.len();
        self.log_next.retain(|pid| *pid != moment.pid);
        let index = self.traffic.bios.len();
        let bio = Bio {
            disk: Dev(disk.dev),
            sector: blocks.sector,
            sectors: blocks.sectors,
            rwbs: blocks.rwbs,
            queued_ns: moment.at_ns,
            pid: moment.pid,
            comm: blocks.comm.clone(),
            log: self.log_next.len() < before,
            issued_ns: None,
            written_ns: None,
            // An empty flush without a cache to empty is over at once.
            done_ns: (blocks.sectors == 0 && !sequence).then_some(moment.at_ns),
            sequence,
            covered: 0,
        };
        if sequence {
            self.sequences.push(index);
        }
        if bio.sectors > 0 {
            self.waiting.push(index);
        }
        self.traffic.bios.push(bio);
    }

    fn issue(&mut self, moment: &TraceEvent, on: &Disk, blocks: &Blocks) {
        let disk = Dev(on.dev);
        let nvme_queue = if on.name.starts_with("nvme") { self.nvme_queue.remove(&moment.cpu) } else { None };
        let again = |request: &Request| {
            request.disk == disk
                && request.rwbs.operation == blocks.rwbs.operation
                && (request.sector, request.sectors) == (blocks.sector, blocks.sectors)
        };
        // A request the driver could not take is issued once more.
        let requeued = blocks.sectors > 0 && self.open.iter().any(|at| again(&self.traffic.requests[*at]));
        if requeued {
            return;
        }
        self.open.push(self.traffic.requests.len());
        self.traffic.requests.push(Request {
            disk,
            sector: blocks.sector,
            sectors: blocks.sectors,
            rwbs: blocks.rwbs,
            issued_ns: moment.at_ns,
            done_ns: None,
            pid: moment.pid,
            comm: blocks.comm.clone(),
            cpu: moment.cpu,
            nvme_queue,
        });
        let end = blocks.sector.saturating_add(u64::from(blocks.sectors));
        let (bios, flying) = (&mut self.traffic.bios, &mut self.flying);
        self.waiting.retain(|at| {
            let bio = &mut bios[*at];
            let (from, to) = (bio.sector.max(blocks.sector), bio.end().min(end));
            if bio.disk == disk && bio.rwbs.operation == blocks.rwbs.operation && from < to {
                bio.issued_ns.get_or_insert(moment.at_ns);
                bio.covered = bio.covered.saturating_add((to - from) as u32);
                if !flying.contains(at) {
                    flying.push(*at);
                }
            }
            bio.covered < bio.sectors
        });
    }

    fn complete(&mut self, at_ns: u64, disk: Dev, blocks: &Blocks) {
        let flush = blocks.rwbs.operation == Operation::Flush;
        if !flush && blocks.sectors == 0 {
            return self.complete_sequence(at_ns, disk, blocks);
        }
        let end = blocks.sector.wrapping_add(u64::from(blocks.sectors));
        let requests = &mut self.traffic.requests;
        let position = self.open.iter().position(|at| {
            let request = &requests[*at];
            request.disk == disk
                && request.rwbs.operation == blocks.rwbs.operation
                && (flush || (request.sector <= blocks.sector && end <= request.end()))
        });
        let Some(position) = position else { return };
        let request = &mut requests[self.open[position]];
        let whole = flush || end == request.end();
        if !whole {
            return;
        }
        request.done_ns = Some(at_ns);
        let (from, to) = (request.sector, end);
        self.open.remove(position);
        if !flush {
            self.written(at_ns, disk, blocks.rwbs.operation, from, to);
        }
    }

    /// The bios in a request that is complete.
    fn written(&mut self, at_ns: u64, disk: Dev, operation: Operation, from: u64, to: u64) {
        let Traffic { bios, requests, .. } = &mut self.traffic;
        let open = &self.open;
        self.flying.retain(|at| {
            let bio = &mut bios[*at];
            let inside = bio.sector < to && from < bio.end();
            if bio.disk != disk || bio.rwbs.operation != operation || !inside {
                return true;
            }
            bio.written_ns = Some(at_ns);
            let more = open.iter().any(|at| {
                let request = &requests[*at];
                request.disk == disk && request.sector < bio.end() && bio.sector < request.end()
            });
            let whole = bio.covered >= bio.sectors && !more;
            if whole && !bio.sequence {
                bio.done_ns = Some(at_ns);
            }
            !whole
        });
    }

    /// The end of a sequence of flush, write, flush: a completion without sectors.
    fn complete_sequence(&mut self, at_ns: u64, disk: Dev, blocks: &Blocks) {
        let bios = &mut self.traffic.bios;
        let position = self.sequences.iter().position(|at| {
            let bio = &bios[*at];
            let same_place = if bio.sectors == 0 { blocks.sector == 0 } else { bio.sector == blocks.sector };
            bio.disk == disk && same_place && (bio.sectors == 0 || bio.written_ns.is_some())
        });
        if let Some(position) = position {
            bios[self.sequences.remove(position)].done_ns = Some(at_ns);
        }
    }
}
