//! db_bench's patterns on RocksDB: the same keys, values, order and counting as RocksDB 7.8's own program.
//!
//! | pattern | what it does |
//! |---|---|
//! | fillseq | keys 0, 1, 2 ... into a fresh database |
//! | fillrandom, overwrite | random keys, with repeats, into a fresh one, or one that is filled |
//! | readrandom | a random key that may be missing |
//! | multireadrandom | several at once |
//! | readseq, readreverse | all entries with one iterator |
//! | readwhilewriting | readrandom beside one thread that writes, which is not counted |
//! | readwhilescanning | readrandom beside one thread that scans, which is counted apart (db_bench adds it in) |

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serve::drive::{Kind, Terminal, TransactionEnd};
use stats::{Direction, Metric};
use workload::rng::{Purpose, Rng, StreamId};

use crate::KvError;
use crate::embedded::rocksdb::{Db, Iterator, Writer};
use crate::values::Pool;

/// Bytes of a key (`key_size`).
pub const KEY_BYTES: usize = 16;
/// Entries of an iterator that are one call: a clock reading for each would cost more than the entry.
const ENTRIES_AT_ONCE: u64 = 100;

/// A pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// `fillseq`
    FillSeq,
    /// `fillrandom`
    FillRandom,
    /// `overwrite`
    Overwrite,
    /// `readrandom`
    ReadRandom,
    /// `multireadrandom`
    MultiReadRandom,
    /// `readseq`
    ReadSeq,
    /// `readreverse`
    ReadReverse,
    /// `readwhilewriting`
    ReadWhileWriting,
    /// `readwhilescanning`
    ReadWhileScanning,
}

/// Every pattern with its name.
pub const PATTERNS: [(&str, Pattern); 9] = [
    ("fillseq", Pattern::FillSeq),
    ("fillrandom", Pattern::FillRandom),
    ("overwrite", Pattern::Overwrite),
    ("readrandom", Pattern::ReadRandom),
    ("multireadrandom", Pattern::MultiReadRandom),
    ("readseq", Pattern::ReadSeq),
    ("readreverse", Pattern::ReadReverse),
    ("readwhilewriting", Pattern::ReadWhileWriting),
    ("readwhilescanning", Pattern::ReadWhileScanning),
];

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        PATTERNS.iter().find(|(name, _)| *name == text).map(|(_, pattern)| *pattern).ok_or_else(|| {
            let known: Vec<&str> = PATTERNS.iter().map(|(name, _)| *name).collect();
            format!("`{text}` is not a pattern; known are {}", known.join(", "))
        })
    }
}

impl Pattern {
    /// Its name.
    pub fn name(self) -> &'static str {
        PATTERNS.iter().find(|(_, pattern)| *pattern == self).map_or("", |(name, _)| name)
    }

    /// Whether it begins with an empty database.
    pub fn is_fresh(self) -> bool {
        matches!(self, Pattern::FillSeq | Pattern::FillRandom)
    }

    /// Whether it ends by itself after all keys.
    pub fn is_one_pass(self) -> bool {
        matches!(self, Pattern::FillSeq | Pattern::ReadSeq | Pattern::ReadReverse)
    }

    /// The kinds of operations: what is counted, then what runs beside it.
    pub fn kinds(self) -> Vec<Kind> {
        let (read, write) = (Direction::Read, Direction::Write);
        let one = |direction| Kind { name: self.name(), direction };
        match self {
            Pattern::FillSeq | Pattern::FillRandom | Pattern::Overwrite => vec![one(write)],
            Pattern::ReadWhileScanning => vec![one(read), Kind { name: "scan beside it", direction: read }],
            _ => vec![one(read)],
        }
    }
}

/// A pattern with its sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bench {
    /// What is done.
    pub pattern: Pattern,
    /// Keys (`num`).
    pub keys: u64,
    /// Bytes of a value (`value_size`).
    pub value_bytes: usize,
    /// Keys of one call of multireadrandom (`batch_size`).
    pub batch: u64,
    /// Operations of each thread (`reads`) in the measured interval, of readseq and readreverse no more than a pass has; 0: one
    /// pass (fillseq; of readseq and readreverse what the warm-up has left of one), else as many as there is time for.
    pub ops: u64,
}

/// What all threads share.
#[derive(Debug)]
pub struct Shared {
    db: Db,
    bench: Bench,
    pool: Pool,
    seed: u64,
    counted: AtomicU64,
    over: AtomicBool,
    found: AtomicU64,
    asked: AtomicU64,
    written: AtomicU64,
}

/// Writes db_bench's key of a number: eight bytes, the most significant first, then zeros as text.
#[inline]
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

impl Shared {
    /// A run on an open database with so many threads.
    pub fn new(db: Db, bench: &Bench, threads: u32, seed: u64) -> Shared {
        let mut rng = StreamId::of_run(seed, Purpose::Data).rng();
        Shared {
            db,
            bench: *bench,
            pool: Pool::new(bench.value_bytes, &mut rng),
            seed,
            counted: u64::from(threads).into(),
            over: AtomicBool::new(false),
            found: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }

    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The threads: those that count, and the one beside them if the pattern has one.
    pub fn threads(&self, threads: u32) -> Vec<Thread<'_>> {
        let beside = match self.bench.pattern {
            Pattern::ReadWhileWriting => Some(Part::Writer),
            Pattern::ReadWhileScanning => Some(Part::Scanner),
            _ => None,
        };
        let counting = (0..threads).map(|number| Thread::new(self, number, Part::Counting));
        counting.chain(beside.map(|part| Thread::new(self, threads, part))).collect()
    }

    /// Fills the keys 0 to `keys` - 1, in this order, and compacts nothing.
    ///
    /// # Errors
    /// What RocksDB says; interrupted.
    pub fn fill(&self, stopped: &dyn Fn() -> bool, progress: &dyn Fn(u64)) -> Result<(), KvError> {
        const BATCH: u64 = 1000;
        let mut rng = StreamId::of_run(self.seed, Purpose::Existence(0)).rng();
        let mut first = 0;
        while first < self.bench.keys {
            if stopped() {
                return Err(KvError::Interrupted);
            }
            let last = (first + BATCH).min(self.bench.keys);
            let records: Vec<_> = (first..last)
                .map(|number| {
                    (key(number).to_vec(), self.pool.slice(self.bench.value_bytes, &mut rng).to_vec())
                })
                .collect();
            self.db.put_all(&records)?;
            progress(last);
            first = last;
        }
        Ok(())
    }

    /// What was counted beside operations.
    pub fn metrics(&self) -> Vec<Metric> {
        let one =
            |name: &str, value: &AtomicU64| Metric::process(name, "1", value.load(Ordering::Relaxed) as f64);
        let mut metrics = Vec::new();
        if self.asked.load(Ordering::Relaxed) > 0 {
            metrics.push(one("keys_asked", &self.asked));
            metrics.push(one("keys_found", &self.found));
        }
        if self.written.load(Ordering::Relaxed) > 0 {
            metrics.push(one("written_beside", &self.written));
        }
        metrics
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Counting,
    Writer,
    Scanner,
}

/// One thread.
#[derive(Debug)]
pub struct Thread<'a> {
    shared: &'a Shared,
    part: Part,
    rng: Rng,
    iterator: Option<Iterator<'a>>,
    writer: Writer<'a>,
    /// Where the next value begins in the pool.
    at: usize,
    keys: Vec<Vec<u8>>,
    next: u64,
    left: u64,
    ended: bool,
    found: u64,
    asked: u64,
    written: u64,
}

impl<'a> Thread<'a> {
    fn new(shared: &'a Shared, number: u32, part: Part) -> Thread<'a> {
        let Bench { pattern, ops, keys, .. } = shared.bench;
        let left = match (part, ops, pattern) {
            (Part::Counting, 0, Pattern::FillSeq) => keys,
            (Part::Counting, 0, _) | (Part::Writer | Part::Scanner, ..) => u64::MAX,
            // it ends with the pass, as db_bench does
            (Part::Counting, ops, Pattern::ReadSeq | Pattern::ReadReverse) => ops.min(keys),
            (Part::Counting, ops, _) => ops,
        };
        let id = StreamId { seed: shared.seed, process: 1, thread: number, purpose: Purpose::Operations };
        Thread {
            shared,
            part,
            rng: id.rng(),
            iterator: None,
            writer: shared.db.writer(),
            at: 0,
            keys: Vec::new(),
            next: 0,
            left,
            ended: false,
            found: 0,
            asked: 0,
            written: 0,
        }
    }

    fn get(&mut self) -> Result<TransactionEnd, KvError> {
        let key = key(self.rng.below(self.shared.bench.keys));
        let mut bytes = 0;
        self.asked += 1;
        // a missing key is an operation too, as it is with db_bench
        if self.shared.db.get(&key, |value| bytes = KEY_BYTES as u64 + value.len() as u64)? {
            self.found += 1;
        }
        Ok(TransactionEnd::Moved { ops: 1, bytes })
    }

    fn multi_get(&mut self) -> Result<TransactionEnd, KvError> {
        let batch = self.shared.bench.batch;
        self.keys.resize(batch as usize, Vec::new());
        for place in &mut self.keys {
            place.clear();
            place.extend_from_slice(&key(self.rng.below(self.shared.bench.keys)));
        }
        let (found, bytes) = self.shared.db.multi_get(&self.keys)?;
        self.found += found;
        self.asked += batch;
        Ok(TransactionEnd::Moved { ops: batch, bytes: bytes + found * KEY_BYTES as u64 })
    }

    fn put(&mut self, number: u64) -> Result<TransactionEnd, KvError> {
        let value = self.shared.pool.next(&mut self.at, self.shared.bench.value_bytes);
        self.writer.put(&key(number), value)?;
        Ok(TransactionEnd::Moved { ops: 1, bytes: (KEY_BYTES + value.len()) as u64 })
    }

    /// Some entries on; at the end either from the beginning again, or it has no more.
    fn entries(&mut self, reverse: bool, again: bool) -> Result<TransactionEnd, KvError> {
        let db = &self.shared.db;
        let (mut ops, mut bytes) = (0, 0);
        let iterator = match &mut self.iterator {
            Some(iterator) => iterator,
            none => {
                let mut iterator = db.iterator();
                if reverse {
                    iterator.last()
                } else {
                    iterator.first()
                }
                none.insert(iterator)
            }
        };
        let most = ENTRIES_AT_ONCE.min(self.left);
        while ops < most {
            let Some((key, value)) = iterator.entry() else { break };
            bytes += (key.len() + value.len()) as u64;
            ops += 1;
            if reverse { iterator.previous() } else { iterator.next() }
        }
        if !iterator.valid() {
            iterator.check()?;
            self.iterator = None;
            // of a number of entries those that the warm-up has read are read once more
            self.ended |= !again && (self.shared.bench.ops == 0 || ops == 0);
        }
        Ok(TransactionEnd::Moved { ops, bytes })
    }
}

impl Terminal for Thread<'_> {
    type Error = KvError;

    fn has_more(&mut self) -> bool {
        match self.part {
            Part::Counting => self.left > 0 && !self.ended,
            // what runs beside ends with the others
            Part::Writer | Part::Scanner => !self.shared.over.load(Ordering::Acquire),
        }
    }

    /// A pass that ended in the warm-up begins anew.
    fn give_back(&mut self, ops: u64) {
        if self.left != u64::MAX {
            self.left = self.left.saturating_add(ops);
        }
        self.ended = false;
    }

    fn choose(&mut self) -> usize {
        usize::from(self.part == Part::Scanner)
    }

    fn ops_at_rate(&self) -> u64 {
        match (self.part, self.shared.bench.pattern) {
            (Part::Writer | Part::Scanner, _) => 0,
            (_, Pattern::MultiReadRandom) => self.shared.bench.batch,
            (_, Pattern::ReadSeq | Pattern::ReadReverse) => ENTRIES_AT_ONCE.min(self.left),
            _ => 1,
        }
    }

    fn attempt(&mut self) -> Result<TransactionEnd, KvError> {
        let keys = self.shared.bench.keys;
        let done = match (self.part, self.shared.bench.pattern) {
            (Part::Writer, _) => {
                let number = self.rng.below(keys);
                self.put(number)?;
                self.written += 1;
                // it is not among the operations of the pattern
                TransactionEnd::Moved { ops: 0, bytes: 0 }
            }
            (Part::Scanner, _) => self.entries(false, true)?,
            (_, Pattern::FillSeq) => {
                let number = self.next;
                self.next += 1;
                self.put(number % keys)?
            }
            (_, Pattern::FillRandom | Pattern::Overwrite) => {
                let number = self.rng.below(keys);
                self.put(number)?
            }
            (_, Pattern::MultiReadRandom) => self.multi_get()?,
            (_, Pattern::ReadSeq) => self.entries(false, false)?,
            (_, Pattern::ReadReverse) => self.entries(true, false)?,
            (_, Pattern::ReadRandom | Pattern::ReadWhileWriting | Pattern::ReadWhileScanning) => {
                self.get()?
            }
        };
        if let (TransactionEnd::Moved { ops, .. }, false) = (done, self.left == u64::MAX) {
            self.left = self.left.saturating_sub(ops);
        }
        Ok(done)
    }
}

impl Drop for Thread<'_> {
    fn drop(&mut self) {
        if self.part == Part::Counting && self.shared.counted.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.over.store(true, Ordering::Release);
        }
        self.shared.found.fetch_add(self.found, Ordering::Relaxed);
        self.shared.asked.fetch_add(self.asked, Ordering::Relaxed);
        self.shared.written.fetch_add(self.written, Ordering::Relaxed);
    }
}
