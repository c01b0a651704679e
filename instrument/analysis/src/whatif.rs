//! What the same fsyncs would take if the device kept order: a prediction from their parts.
//!
//! A recorded fsync is divided into parts. Under another contract some parts shrink by a known factor and all others
//! stay, and the callers do as much between two fsyncs as before. A part is scaled as a whole, so a caller that waits
//! for somebody else's commit as well as for its own is treated alike.

use std::collections::BTreeSet;

use serde::Serialize;

use study::fsync::interval::{Interval, Part};
use study::fsync::{Breakdown, Stage};

/// Share of throughput that keeping order costs in the device: the figure of the OPIMQ artifact (FAST 2025) for its
/// firmware.
pub const COST_OF_ORDER: f64 = 0.0105;

/// Why nothing can be predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WhatIfError {
    /// One fsync has no rate.
    #[error("{0} fsyncs are too few: two at least are needed")]
    TooFew(usize),
    /// No flush was seen that took time.
    #[error(
        "the fsyncs wait for no flush: record them on a device with regime `flush`, such as ext4@980pro, with a file \
         system that flushes"
    )]
    NoFlush,
}

/// What was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Observed {
    /// Fsyncs.
    pub syncs: u64,
    /// Threads that called them.
    pub callers: u64,
    /// From the first call to the last return.
    pub seconds: f64,
    /// Mean of a call, ns.
    pub sync_ns: f64,
    /// Mean time of a caller between two calls, ns.
    pub think_ns: f64,
    /// One flush, mean, ns.
    pub flush_ns: f64,
    /// One commit record with FUA, or its write and the flush that stands in for it, ns.
    pub fua_ns: f64,
    /// One commit record as a plain write, ns.
    pub record_ns: f64,
    /// Share of the calls that waited for a commit.
    pub commits: f64,
    parts: Shares,
}

/// Mean times of a call, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct Shares {
    data_write: f64,
    /// Flushes before a commit record.
    commit_flush: f64,
    /// Flushes of calls without a commit.
    plain_flush: f64,
    fua: f64,
    rest: f64,
}

/// A contract of the device, and who makes use of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Contract {
    /// Flush and FUA, as recorded.
    Flush,
    /// A flush in the place of FUA.
    FlushForFua,
    /// Epochs in order: the flush before the commit record is acknowledged at once, the one after it is a flush. The
    /// file system does not know.
    Ordered,
    /// Streams and epochs, and a file system that knows (OPEXT4): it waits neither for data nor for the commit record,
    /// and flushes once.
    OrderedStreams,
    /// Flushes are acknowledged at once: nothing is safe.
    Nothing,
}

impl Contract {
    /// All, in the order of tables.
    pub const ALL: [Contract; 5] = [
        Contract::Flush,
        Contract::FlushForFua,
        Contract::Ordered,
        Contract::OrderedStreams,
        Contract::Nothing,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Contract::Flush => "flush and FUA, as recorded",
            Contract::FlushForFua => "a flush in the place of FUA",
            Contract::Ordered => "order kept, file system as it is",
            Contract::OrderedStreams => "order kept, OPEXT4",
            Contract::Nothing => "no order, no flush: nothing is safe",
        }
    }
}

/// What would be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Predicted {
    /// Under which contract.
    pub contract: Contract,
    /// Mean of a call, ns.
    pub sync_ns: f64,
    /// Calls a second.
    pub syncs_per_second: f64,
    /// Over what was recorded.
    pub ratio: f64,
}

/// Where keeping order stops paying, file system as it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BreakEven {
    /// Share of throughput that order costs in the device.
    pub cost: f64,
    /// FUA must take longer than this, ns, the flush being as recorded; `None`: it pays at any.
    pub fua_ns: Option<f64>,
    /// On a device without FUA: a flush must take longer than this, ns; `None`: it never pays.
    pub flush_ns: Option<f64>,
}

/// Distinct stages: several calls wait for the same one.
fn mean_of<'b>(breakdowns: &'b [Breakdown], wanted: impl Fn(&Stage) -> bool + 'b) -> Option<f64> {
    let stages = breakdowns.iter().filter_map(|one| one.levels.first()).flat_map(|level| &level.stages);
    let spans: BTreeSet<Interval> = stages.filter(|stage| wanted(stage)).map(Stage::span).collect();
    let sum: f64 = spans.iter().map(|span| span.length() as f64).sum();
    (!spans.is_empty()).then(|| sum / spans.len() as f64)
}

impl Observed {
    /// Takes a recording together.
    ///
    /// # Errors
    /// [`WhatIfError`].
    pub fn of(breakdowns: &[Breakdown]) -> Result<Observed, WhatIfError> {
        let syncs = breakdowns.len();
        if syncs < 2 {
            return Err(WhatIfError::TooFew(syncs));
        }
        let ends = breakdowns.iter().map(|one| one.start_ns + one.total_ns);
        let begin = breakdowns.iter().map(|one| one.start_ns).min().unwrap_or(0);
        let span = ends.max().unwrap_or(0).saturating_sub(begin) as f64;
        let callers = breakdowns.iter().map(|one| one.pid).collect::<BTreeSet<_>>().len();
        let n = syncs as f64;
        let sync_ns = breakdowns.iter().map(|one| one.total_ns as f64).sum::<f64>() / n;
        // the time of one caller for a call and what is before it; the first call begins the span
        let cycle = span * callers as f64 / n;
        let (mut shares, mut commits) = (Shares::default(), 0.0);
        for parts in breakdowns.iter().map(Breakdown::parts) {
            let of = |part| parts.get(part) as f64;
            let committed = parts.fua_ns > 0;
            commits += f64::from(u8::from(committed)) / n;
            shares.data_write += of(Part::DataWrite) / n;
            let flush = of(Part::Flush) / n;
            *(if committed { &mut shares.commit_flush } else { &mut shares.plain_flush }) += flush;
            shares.fua += of(Part::Fua) / n;
        }
        shares.rest = sync_ns - shares.data_write - shares.commit_flush - shares.plain_flush - shares.fua;
        let flush_ns = mean_of(breakdowns, |stage| stage.part == Part::Flush).unwrap_or(0.0);
        let is_fua = |stage: &Stage| stage.part == Part::Fua;
        let standing_in = mean_of(breakdowns, move |stage| is_fua(stage) && stage.bytes == 0);
        let record = mean_of(breakdowns, move |stage| is_fua(stage) && stage.bytes > 0).unwrap_or(0.0);
        let (fua_ns, record_ns) = match standing_in {
            Some(flush) => (record + flush, record),
            // with true FUA the record's own write is not seen: a write of the log takes as long
            None => {
                let write = mean_of(breakdowns, |stage| stage.part == Part::JournalWrite && stage.bytes > 0);
                (record, write.unwrap_or(0.0).min(record))
            }
        };
        if flush_ns <= 0.0 || shares.commit_flush + shares.plain_flush <= 0.0 {
            return Err(WhatIfError::NoFlush);
        }
        Ok(Observed {
            syncs: syncs as u64,
            callers: callers as u64,
            seconds: span / 1e9,
            sync_ns,
            think_ns: (cycle - sync_ns).max(0.0),
            flush_ns,
            fua_ns,
            record_ns,
            commits,
            parts: shares,
        })
    }

    /// Commits that a call waited for, as the time of their records says.
    fn records(&self) -> f64 {
        if self.fua_ns > 0.0 { self.parts.fua / self.fua_ns } else { 0.0 }
    }

    fn call_ns(&self, contract: Contract) -> f64 {
        let (parts, records) = (&self.parts, self.records());
        let always = parts.rest + parts.plain_flush;
        let record_and_flush = records * (self.record_ns + self.flush_ns);
        let (before, plain) = (self.times(parts.commit_flush), self.times(parts.plain_flush));
        match contract {
            Contract::Flush => self.sync_ns,
            Contract::FlushForFua => always + parts.data_write + parts.commit_flush + record_and_flush,
            Contract::Ordered => always + parts.data_write + before * self.way_ns() + record_and_flush,
            Contract::OrderedStreams => always + records * self.flush_ns,
            Contract::Nothing => {
                let ways = (before + plain + records) * self.way_ns();
                parts.rest + parts.data_write + ways + records * self.record_ns
            }
        }
    }

    /// Flushes in this much time of flushing.
    fn times(&self, ns: f64) -> f64 {
        ns / self.flush_ns
    }

    /// What is left of a flush that the device acknowledges at once, ns: the way through the kernel, which a write of one
    /// block goes too.
    fn way_ns(&self) -> f64 {
        self.record_ns.min(self.flush_ns)
    }

    /// What would be under a contract.
    pub fn predict(&self, contract: Contract) -> Predicted {
        let (cycle, call) = (self.think_ns + self.sync_ns, self.call_ns(contract));
        let ratio = cycle / (self.think_ns + call);
        let rate = self.callers as f64 / (self.think_ns + call) * 1e9;
        Predicted { contract, sync_ns: call, syncs_per_second: rate, ratio }
    }

    /// Where order stops paying, if it costs this share of throughput.
    pub fn break_even(&self, cost: f64) -> BreakEven {
        let (parts, records) = (&self.parts, self.records());
        let think = self.think_ns;
        let ordered = (think + self.call_ns(Contract::Ordered)) / (1.0 - cost);
        let without_fua = think + self.sync_ns - parts.fua;
        let fua_ns = (records > 0.0).then(|| (ordered - without_fua) / records);
        // without FUA: m flushes before records, p of other calls, `records` behind records
        let (m, p) = (self.times(parts.commit_flush), self.times(parts.plain_flush));
        let still = think + parts.rest + parts.data_write + records * self.record_ns;
        let grows = (1.0 - cost) * (m + p + records) - (p + records);
        let flush_ns = (grows > 0.0).then(|| (cost * still + m * self.way_ns()) / grows);
        BreakEven { cost, fua_ns: fua_ns.filter(|ns| *ns > self.record_ns), flush_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::fsync::LevelBreakdown;
    use study::fsync::interval::divide;

    /// Lengths in us, one after another: data, journal, flush, record, flush instead of FUA, host.
    fn sync(pid: i32, start_us: u64, lengths: [u64; 6]) -> Breakdown {
        let kinds = [
            (Part::DataWrite, 4096),
            (Part::JournalWrite, 8192),
            (Part::Flush, 0),
            (Part::Fua, 4096),
            (Part::Fua, 0),
        ];
        let (mut at, mut stages) = (start_us * 1000, Vec::new());
        for ((part, bytes), us) in kinds.into_iter().zip(lengths) {
            let stage = Stage {
                start_ns: at,
                end_ns: at + us * 1000,
                part,
                label: "".into(),
                rwbs: String::new(),
                disk: 0,
                sector: 0,
                bytes,
            };
            at += us * 1000;
            if us > 0 {
                stages.push(stage);
            }
        }
        let whole = Interval::new(start_us * 1000, at + lengths[5] * 1000);
        let spans: Vec<_> = stages.iter().map(|stage| (stage.part, stage.span())).collect();
        let level = LevelBreakdown {
            name: "ext4".into(),
            windows_ns: whole.length(),
            parts: divide(&[whole], &spans),
            stages,
            marks: Vec::new(),
            writes: 3,
            written_bytes: 0,
            flushes: 2,
            syncs: 0,
        };
        Breakdown {
            pid,
            comm: String::new(),
            inode: None,
            data_only: false,
            start_ns: whole.start_ns,
            total_ns: whole.length(),
            levels: vec![level],
        }
    }

    #[test]
    fn the_drive_of_figure_11() {
        // one thread, 1 ms between calls of 20 + 10 + 1600 + 20 + 4160 + 190 us
        let lengths = [20, 10, 1600, 20, 4160, 190];
        let syncs: Vec<Breakdown> = (0..100).map(|n| sync(1, n * 7000, lengths)).collect();
        let seen = Observed::of(&syncs).unwrap();
        assert_eq!((seen.syncs, seen.callers), (100, 1));
        assert!((seen.flush_ns - 1.6e6).abs() < 1.0 && (seen.fua_ns - 4.18e6).abs() < 1.0);
        assert!((seen.think_ns - 1e6).abs() < 11e3, "the last call has nothing after it: {}", seen.think_ns);
        let us = |contract| (seen.predict(contract).sync_ns / 1000.0).round();
        let found = Contract::ALL.map(us);
        // the way of a flush through the kernel is taken to be the write's of 20 us
        assert_eq!(found, [6000.0, 3440.0, 1860.0, 1800.0, 280.0]);
        let ordered = seen.predict(Contract::Ordered);
        assert!((ordered.ratio - 7000.0 / 2860.0).abs() < 0.02, "{ordered:?}");
        let even = seen.break_even(0.0);
        let fua = even.fua_ns.unwrap();
        assert!((fua - 40e3).abs() < 1.0, "one flush either way, so FUA must cost more than two ways: {fua}");
        // at the break-even both have the same rate: with a cost of half there is a FUA that is just dear enough
        let even = seen.break_even(0.5);
        let dear = even.fua_ns.unwrap();
        let flush = seen.think_ns + seen.sync_ns - 4.18e6 + dear;
        let order = (seen.think_ns + ordered.sync_ns) / 0.5;
        assert!((flush - order).abs() < 1.0, "{flush} {order}");
        // without FUA, flushes of f: 0.24 + 2 f + think against 0.24 + 0.02 + f + think
        let even = seen.break_even(0.1);
        let f = even.flush_ns.unwrap();
        let still = seen.think_ns + 0.24e6;
        assert!(((still + seen.record_ns + f) / (still + 2.0 * f) - 0.9).abs() < 1e-6);
    }

    #[test]
    fn calls_without_a_commit_keep_their_flush() {
        let syncs: Vec<Breakdown> = (0..10).map(|n| sync(1, n * 2000, [20, 0, 1600, 0, 0, 80])).collect();
        let seen = Observed::of(&syncs).unwrap();
        for contract in [Contract::Flush, Contract::FlushForFua, Contract::Ordered] {
            assert!((seen.predict(contract).ratio - 1.0).abs() < 1e-9);
        }
        assert!(seen.predict(Contract::Nothing).ratio > 5.0);
        assert_eq!(seen.break_even(COST_OF_ORDER).flush_ns, None, "order gains nothing");
    }

    #[test]
    fn too_little_is_told() {
        let one = sync(1, 0, [20, 0, 1600, 0, 0, 80]);
        assert_eq!(Observed::of(std::slice::from_ref(&one)), Err(WhatIfError::TooFew(1)));
        let dry = sync(1, 5000, [20, 0, 0, 0, 0, 80]);
        let told = Observed::of(&[dry.clone(), dry]).unwrap_err();
        assert!(told.to_string().contains("regime `flush`"), "{told}");
    }

    #[test]
    fn callers_that_share_a_commit_count_it_once() {
        let syncs: Vec<Breakdown> = (0..4)
            .flat_map(|n| [1, 2].map(|pid| sync(pid, n * 7000, [20, 10, 1600, 20, 4160, 190])))
            .collect();
        let seen = Observed::of(&syncs).unwrap();
        assert_eq!(seen.callers, 2);
        assert!((seen.flush_ns - 1.6e6).abs() < 1.0);
    }
}
