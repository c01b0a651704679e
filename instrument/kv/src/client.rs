//! One client of a core workload: which operation comes next, on which record, with which value, and whether what it
//! finds is right. It does no I/O itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serve::drive::Kind;
use stats::{Direction, Metric};
use workload::rng::{Purpose, Rng, StreamId, hash_name};

use crate::KvError;
use crate::generators::request::Range;
use crate::generators::zipf::Gray;
use crate::generators::{Counter, Draw, Request};
use crate::values::{self, Pool};
use crate::versions::{Versions, Write};
use crate::workload::{Length, Workload};

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Reads a record.
    Read,
    /// Writes a record that is there.
    Update,
    /// Writes a new one.
    Insert,
    /// Reads so many records from one on.
    Scan(u64),
    /// Reads a record and writes it again.
    Modify,
}

/// Operations in the order in which YCSB weighs them.
const KINDS: [Kind; 5] = [
    Kind { name: "read", direction: Direction::Read },
    Kind { name: "update", direction: Direction::Write },
    Kind { name: "insert", direction: Direction::Write },
    Kind { name: "scan", direction: Direction::Read },
    Kind { name: "read-modify-write", direction: Direction::Neither },
];

/// What all clients of a run share.
#[derive(Debug)]
pub struct Shared {
    workload: Workload,
    /// Records that are there.
    pub counter: Arc<Counter>,
    versions: Option<Versions>,
    request: Request,
    pool: Option<Arc<Pool>>,
    fields: Vec<String>,
    tallies: Tallies,
    seed: u64,
}

#[derive(Debug, Default)]
struct Tallies {
    calls: AtomicU64,
    checked: AtomicU64,
    scanned: AtomicU64,
}

/// The next operation.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// What it does.
    pub op: Op,
    /// Number of its kind.
    pub kind: usize,
    /// The record.
    pub record: u64,
    /// The oldest version that a read may find.
    pub floor: u64,
    write: Option<Write>,
}

impl Step {
    /// No operation: a place for one.
    pub(crate) fn nothing() -> Step {
        Step { op: Op::Read, kind: 0, record: 0, floor: 0, write: None }
    }
}

/// One client.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    request: Request,
    rng: Rng,
    scan_ranks: Option<Gray>,
    left: u64,
    /// Calls of the engine, for the tally.
    pub calls: u64,
    checked: u64,
    scanned: u64,
}

/// The kinds of operations that a workload has.
pub fn kinds(workload: &Workload) -> Vec<Kind> {
    weights(workload)
        .into_iter()
        .zip(KINDS)
        .filter(|(weight, _)| *weight > 0.0)
        .map(|(_, kind)| kind)
        .collect()
}

fn weights(workload: &Workload) -> [f64; 5] {
    let shares = workload.shares;
    [shares.read, shares.update, shares.insert, shares.scan, shares.modify]
}

impl Shared {
    /// A run on a database that holds the workload's records.
    ///
    /// # Errors
    /// No records, or too many for the distribution.
    pub fn new(workload: &Workload, seed: u64) -> Result<Arc<Shared>, KvError> {
        let counter = Arc::new(Counter::new(workload.insert_start + workload.insert_count));
        // the growth that YCSB expects of its scrambled form
        let expected = (2.0 * workload.operations as f64 * workload.shares.insert) as u64;
        let range = Range {
            start: workload.insert_start,
            count: workload.insert_count,
            expected,
            records: workload.records,
        };
        let random = !workload.verify && !workload.integrity;
        let mut rng = StreamId::of_run(seed, Purpose::Data).rng();
        let pool = random.then(|| Arc::new(Pool::new(workload.value_bytes_max() as usize, &mut rng)));
        Ok(Arc::new(Shared {
            request: Request::new(workload.requests, range, counter.clone(), seed)?,
            counter,
            versions: workload.verify.then(Versions::default),
            pool,
            fields: (0..workload.fields).map(|number| format!("field{number}")).collect(),
            tallies: Tallies::default(),
            workload: workload.clone(),
            seed,
        }))
    }

    /// The workload.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// What was counted beside operations; `seconds` of the run, warm-up included.
    pub fn metrics(&self) -> Vec<Metric> {
        let one = |name: &str, value: &AtomicU64| Metric {
            name: name.into(),
            unit: "1".into(),
            value: value.load(Ordering::Relaxed) as f64,
        };
        let mut metrics = vec![one("engine_calls", &self.tallies.calls)];
        if self.workload.shares.scan > 0.0 {
            metrics.push(one("scanned_records", &self.tallies.scanned));
        }
        if self.workload.verify || self.workload.integrity {
            metrics.push(one("verified_values", &self.tallies.checked));
        }
        metrics
    }

    /// Fills `value` with the first version of a record, for the load.
    pub fn first_value(&self, record: u64, key: &[u8], value: &mut Vec<u8>) {
        let purpose = Purpose::Other(hash_name("kv.load") ^ record);
        let mut rng = StreamId::of_run(self.seed, purpose).rng();
        self.write_value(record, 0, key, value, &mut rng);
    }

    fn write_value(&self, record: u64, version: u64, key: &[u8], value: &mut Vec<u8>, rng: &mut Rng) {
        value.clear();
        if self.workload.integrity {
            for field in &self.fields {
                let bytes = values::integrity(key, field, self.workload.field_length.high as usize);
                value.extend_from_slice(&bytes);
            }
            return;
        }
        let length = self.value_length(rng);
        match &self.pool {
            Some(pool) => value.extend_from_slice(pool.slice(length, rng)),
            None => values::derive(record, version, length, value),
        }
    }

    fn value_length(&self, rng: &mut Rng) -> usize {
        let Length { low, high, zipfian } = self.workload.field_length;
        if low == high {
            return (self.workload.fields * high) as usize;
        }
        let ranks = zipfian.then(|| Gray::new(high - low + 1));
        let one = |rng: &mut Rng| match &ranks {
            Some(ranks) => low + ranks.rank(Draw::unit(rng)),
            None => low + rng.below(high - low + 1),
        };
        (0..self.workload.fields).map(|_| one(rng)).sum::<u64>() as usize
    }

    /// Judges a value of a record that was read when `floor` was its oldest version.
    ///
    /// # Errors
    /// [`KvError::Wrong`].
    pub fn judge(&self, record: u64, floor: u64, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        let wrong = |why: String| {
            KvError::Wrong(format!("record {record} ({}) is wrong: {why}", String::from_utf8_lossy(key)))
        };
        if let Some(versions) = &self.versions {
            let found = values::version_of(record, value).map_err(wrong)?;
            return versions.judge(record, floor, found).map_err(wrong);
        }
        let mut whole = Vec::new();
        let mut rng = StreamId::of_run(0, Purpose::Data).rng();
        self.write_value(record, 0, key, &mut whole, &mut rng);
        if whole != value {
            return Err(wrong("it is not what YCSB's dataintegrity writes".into()));
        }
        Ok(())
    }

    /// The oldest version that a read of a record may find now.
    pub fn floor(&self, record: u64) -> u64 {
        self.versions.as_ref().map_or(0, |versions| versions.floor(record))
    }

    fn checks(&self) -> bool {
        self.workload.verify || self.workload.integrity
    }
}

/// A record that ought to be there and is not.
pub fn missing(record: u64, key: &[u8]) -> KvError {
    KvError::Wrong(format!("record {record} ({}) is not there", String::from_utf8_lossy(key)))
}

impl Client {
    /// Client `number` of `all`.
    pub fn new(shared: &Arc<Shared>, number: u32, all: u32) -> Client {
        let workload = &shared.workload;
        let operations = workload.operations;
        let share = operations / u64::from(all) + u64::from(u64::from(number) < operations % u64::from(all));
        let Length { low, high, zipfian } = workload.scan_length;
        let id = StreamId { seed: shared.seed, process: 0, thread: number, purpose: Purpose::Operations };
        Client {
            request: shared.request.clone(),
            rng: id.rng(),
            scan_ranks: zipfian.then(|| Gray::new(high - low + 1)),
            left: if operations == 0 { u64::MAX } else { share },
            calls: 0,
            checked: 0,
            scanned: 0,
            shared: shared.clone(),
        }
    }

    /// Whether there is something left to do.
    pub fn has_more(&self) -> bool {
        self.left > 0
    }

    /// Chooses the next operation. One number decides which, in the order read, update, insert, scan, read-modify-write.
    pub fn choose(&mut self) -> Step {
        self.left -= u64::from(self.left != u64::MAX);
        let weights = weights(&self.shared.workload);
        let mut rest = self.rng.unit() * self.shared.workload.shares.sum();
        let mut which = 0;
        // rounding may leave a rest beyond the last weight: then it is the last operation there is
        for (number, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            which = number;
            if rest < *weight {
                break;
            }
            rest -= weight;
        }
        let kind = weights[..which].iter().filter(|weight| **weight > 0.0).count();
        let record = if which == 2 { self.shared.counter.take() } else { self.request.record(&mut self.rng) };
        let op = match which {
            0 => Op::Read,
            1 => Op::Update,
            2 => Op::Insert,
            3 => Op::Scan(self.scan_length()),
            _ => Op::Modify,
        };
        let floor = self.shared.floor(record);
        Step { op, kind, record, floor, write: None }
    }

    fn scan_length(&mut self) -> u64 {
        let Length { low, high, .. } = self.shared.workload.scan_length;
        match &self.scan_ranks {
            Some(ranks) => low + ranks.rank(self.rng.unit()),
            None => low + self.rng.below(high - low + 1),
        }
    }

    /// Writes the key of a record.
    pub fn key(&self, record: u64, key: &mut Vec<u8>) {
        self.shared.workload.keys.write(record, key);
    }

    /// A write of the step's record begins: its value.
    pub fn begin_write(&mut self, step: &mut Step, key: &[u8], value: &mut Vec<u8>) {
        // an insert is the first version of its record, and nobody reads it before it is acknowledged
        let insert = step.op == Op::Insert;
        step.write = self.shared.versions.as_ref().filter(|_| !insert).map(|all| all.begin(step.record));
        let version = step.write.map_or(0, |write| write.version);
        self.shared.write_value(step.record, version, key, value, &mut self.rng);
    }

    /// It was acknowledged.
    pub fn end_write(&mut self, step: &Step) {
        if let (Some(versions), Some(write)) = (&self.shared.versions, step.write) {
            versions.end(write);
        }
        if step.op == Op::Insert {
            self.shared.counter.acknowledge(step.record);
        }
    }

    /// Looks at a value that a read has found.
    ///
    /// # Errors
    /// [`KvError::Wrong`].
    #[inline]
    pub fn look(&mut self, step: &Step, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        if !self.shared.checks() {
            return Ok(());
        }
        self.checked += 1;
        self.shared.judge(step.record, step.floor, key, value)
    }

    /// Looks at a record that a scan has found.
    ///
    /// # Errors
    /// [`KvError::Wrong`].
    pub fn look_scanned(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.scanned += 1;
        if !self.shared.workload.verify {
            return Ok(());
        }
        self.checked += 1;
        let number =
            value.get(..8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
        if self.shared.workload.keys.key(number) != key {
            let key = String::from_utf8_lossy(key);
            return Err(KvError::Wrong(format!("under the key {key} lies a value of record {number}")));
        }
        // writes ran beside the scan: only what it is can be judged
        let judged = values::version_of(number, value);
        judged.map(drop).map_err(|why| KvError::Wrong(format!("record {number} in a scan is wrong: {why}")))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let tallies = &self.shared.tallies;
        tallies.calls.fetch_add(self.calls, Ordering::Relaxed);
        tallies.checked.fetch_add(self.checked, Ordering::Relaxed);
        tallies.scanned.fetch_add(self.scanned, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use crate::properties::Properties;

    use super::*;

    fn shared(text: &str, verify: bool) -> Arc<Shared> {
        let workload = Workload::of(&Properties::parse(text).unwrap(), verify).unwrap();
        Shared::new(&workload, 3).unwrap()
    }

    #[test]
    fn operations_come_as_often_as_the_shares_say() {
        let shared = shared(
            "recordcount=100\nreadproportion=0.5\nupdateproportion=0\ninsertproportion=0.25\nscanproportion=0.25\n\
             maxscanlength=10",
            false,
        );
        assert_eq!(kinds(shared.workload()).len(), 3);
        let mut client = Client::new(&shared, 0, 1);
        let mut counts = [0; 3];
        for _ in 0..40_000 {
            let step = client.choose();
            counts[step.kind] += 1;
            match step.op {
                Op::Insert => client.end_write(&step),
                Op::Scan(length) => assert!((1..=10).contains(&length)),
                Op::Read => assert!(step.record < shared.counter.limit()),
                other => panic!("{other:?} has no share"),
            }
        }
        // deviation of a cell of a quarter: 87
        assert!(counts.iter().zip([20_000, 10_000, 10_000]).all(|(n, m): (&i32, i32)| n.abs_diff(m) < 500));
        assert_eq!(shared.counter.limit(), 100 + counts[1] as u64, "every insert was acknowledged");
    }

    #[test]
    fn a_number_of_operations_is_shared_out() {
        let shared = shared("recordcount=10\noperationcount=10", false);
        let mut done = 0;
        for number in 0..3 {
            let mut client = Client::new(&shared, number, 3);
            while client.has_more() {
                client.choose();
                done += 1;
            }
        }
        assert_eq!(done, 10);
    }

    #[test]
    fn planted_faults_are_found() {
        let shared = shared("recordcount=10\nreadproportion=0\nupdateproportion=1", true);
        let mut client = Client::new(&shared, 0, 1);
        let (mut key, mut old, mut new) = (Vec::new(), Vec::new(), Vec::new());
        let mut step = client.choose();
        client.key(step.record, &mut key);
        shared.first_value(step.record, &key, &mut old);
        client.begin_write(&mut step, &key, &mut new);
        client.end_write(&step);
        let floor = shared.floor(step.record);
        assert!(shared.judge(step.record, floor, &key, &new).is_ok());
        let lost = shared.judge(step.record, floor, &key, &old).unwrap_err().to_string();
        assert!(lost.contains("version 1 was acknowledged before"), "{lost}");
        let foreign = shared.judge(step.record + 1, 0, b"k", &new).unwrap_err().to_string();
        assert!(foreign.contains("it is the value of record"), "{foreign}");
        assert!(client.look_scanned(&key, &new).is_ok());
        assert!(client.look_scanned(b"user1", &new).unwrap_err().to_string().contains("under the key user1"));
    }

    #[test]
    fn the_same_seed_gives_the_same_operations_and_values() {
        let run = || {
            let shared = shared("recordcount=100\nrequestdistribution=zipf", false);
            let mut client = Client::new(&shared, 1, 2);
            let mut value = Vec::new();
            shared.first_value(7, b"k", &mut value);
            let steps: Vec<_> = (0..50).map(|_| client.choose()).map(|step| (step.op, step.record)).collect();
            (steps, value)
        };
        assert_eq!(run(), run());
    }
}
