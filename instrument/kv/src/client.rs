//! One client of a core workload: which operation comes next, on which record, with which value, and whether what it
//! finds is right. It does no I/O itself.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serve::drive::Kind;
use stats::{Direction, Metric};
use workload::rng::{Purpose, Rng, StreamId, hash_name};

use crate::KvError;
use crate::generators::request;
use crate::generators::zipf::YcsbZipf;
use crate::generators::{Counter, Draw, Request};
use crate::record::Names;
use crate::values::{self, FieldValues, Pool};
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

/// The fields that a read asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedFields {
    /// All there are.
    All,
    /// All, each by its name.
    Named,
    /// One.
    One(usize),
}

impl RequestedFields {
    /// Whether a field is among them.
    #[inline]
    pub fn has(self, field: usize) -> bool {
        self == RequestedFields::One(field) || !matches!(self, RequestedFields::One(_))
    }
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
    pool: Option<Pool>,
    names: Names,
    /// For lengths of fields of which short ones come most.
    length_ranks: Option<YcsbZipf>,
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
    /// The fields that it reads.
    pub asked: RequestedFields,
    /// The first field that it writes, and how many.
    writes: (usize, usize),
    write: Option<Write>,
}

impl Step {
    /// No operation: a place for one.
    pub(crate) fn nothing() -> Step {
        Step { op: Op::Read, kind: 0, record: 0, asked: RequestedFields::All, writes: (0, 0), write: None }
    }
}

/// What an operation works with; used again, it allocates nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The key of its record.
    pub key: Vec<u8>,
    /// What it writes.
    pub written: FieldValues,
    /// The oldest versions that its read may find, by field.
    floors: Vec<u64>,
}

/// One client.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    request: Request,
    rng: Rng,
    scan_ranks: Option<YcsbZipf>,
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
        // what other loads of the same database insert is not there, and its numbers are not used
        let counter = Arc::new(Counter::new(workload.records));
        // the growth that YCSB expects of its scrambled form
        let expected = (2.0 * workload.operations as f64 * workload.shares.insert) as u64;
        let range = request::Range {
            start: workload.insert_start,
            count: workload.insert_count,
            expected,
            records: workload.records,
        };
        let random = !workload.verify && !workload.integrity;
        let mut rng = StreamId::of_run(seed, Purpose::Data).rng();
        let pool = random.then(|| Pool::new(workload.value_bytes_max() as usize, &mut rng));
        let Length { low, high, zipfian } = workload.field_length;
        Ok(Arc::new(Shared {
            request: Request::new(workload.requests, range, counter.clone(), seed)?,
            counter,
            versions: workload.verify.then(Versions::default),
            pool,
            names: Names::of(workload),
            length_ranks: zipfian.then(|| YcsbZipf::new(high - low + 1)),
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
        let one =
            |name: &str, value: &AtomicU64| Metric::process(name, "1", value.load(Ordering::Relaxed) as f64);
        let mut metrics = vec![one("engine_calls", &self.tallies.calls)];
        if self.workload.shares.scan > 0.0 {
            metrics.push(one("scanned_records", &self.tallies.scanned));
        }
        if self.workload.verify || self.workload.integrity {
            metrics.push(one("verified_values", &self.tallies.checked));
        }
        metrics
    }

    /// The names of fields.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Numbers of the records that are there when all below `end` that were inserted are.
    pub fn records(&self, end: u64) -> [Range<u64>; 2] {
        let Workload { insert_start, insert_count, records, .. } = self.workload;
        [insert_start..insert_start + insert_count, records..end.max(records)]
    }

    /// Writes the first version of a record, for the load.
    pub fn first_values(&self, record: u64, key: &[u8], written: &mut FieldValues) {
        let purpose = Purpose::Other(hash_name("kv.load") ^ record);
        let mut rng = StreamId::of_run(self.seed, purpose).rng();
        self.write_values(record, 0, key, (0, self.names.len()), written, &mut rng);
    }

    fn write_values(
        &self,
        record: u64,
        version: u64,
        key: &[u8],
        (first, count): (usize, usize),
        written: &mut FieldValues,
        rng: &mut Rng,
    ) {
        written.begin(first);
        // values that are written together lie together in the pool: one miss of the processor's cache, not one for each
        let mut at = self.pool.as_ref().map_or(0, |_| Pool::place(rng));
        for field in first..first + count {
            let length = self.value_length(rng);
            written.add(|bytes| match &self.pool {
                Some(pool) => bytes.extend_from_slice(pool.next(&mut at, length)),
                None if self.workload.integrity => self.add_integrity(key, field, bytes),
                None => values::derive(self.number(record, field), version, length, bytes),
            });
        }
    }

    /// Appends what YCSB's `dataintegrity` writes; a record that is one value has all fields' one after the other.
    fn add_integrity(&self, key: &[u8], field: usize, bytes: &mut Vec<u8>) {
        let length = self.workload.field_length.high as usize;
        if !self.names.is_value() {
            return bytes.extend(values::integrity(key, self.names.name(field).as_bytes(), length));
        }
        for number in 0..self.workload.fields {
            let name = format!("{}{number}", self.workload.field_prefix);
            bytes.extend(values::integrity(key, name.as_bytes(), length));
        }
    }

    fn value_length(&self, rng: &mut Rng) -> usize {
        let Length { low, high, .. } = self.workload.field_length;
        let together = if self.names.is_value() { self.workload.fields } else { 1 };
        if low == high {
            return (together * high) as usize;
        }
        let one = |rng: &mut Rng| match &self.length_ranks {
            Some(ranks) => low + ranks.rank(Draw::unit(rng)),
            None => low + rng.below(high - low + 1),
        };
        (0..together).map(|_| one(rng)).sum::<u64>() as usize
    }

    /// The number of a field among all fields of the database.
    fn number(&self, record: u64, field: usize) -> u64 {
        record.wrapping_mul(self.names.len() as u64).wrapping_add(field as u64)
    }

    fn version_of(&self, record: u64, field: usize, value: &[u8]) -> Result<u64, String> {
        let name = |number: u64| {
            let fields = self.names.len() as u64;
            format!("{} of record {}", self.names.name((number % fields) as usize), number / fields)
        };
        values::version_of(self.number(record, field), value, name)
    }

    fn judge_field(
        &self,
        record: u64,
        floors: &[u64],
        key: &[u8],
        field: usize,
        value: &[u8],
    ) -> Result<(), KvError> {
        let wrong = |why: String| {
            let (key, name) = (String::from_utf8_lossy(key), self.names.name(field));
            KvError::Wrong(format!("record {record} ({key}) is wrong: {name}: {why}"))
        };
        if let Some(versions) = &self.versions {
            let found = self.version_of(record, field, value).map_err(wrong)?;
            let floor = floors.get(field).copied().unwrap_or(0);
            return versions.judge(record, floor, found).map_err(wrong);
        }
        let mut whole = Vec::new();
        self.add_integrity(key, field, &mut whole);
        if whole != value {
            return Err(wrong("it is not what YCSB's dataintegrity writes".into()));
        }
        Ok(())
    }

    /// Judges a record that was read when nothing was written.
    ///
    /// # Errors
    /// [`KvError::Wrong`].
    pub fn judge<'a>(
        &self,
        record: u64,
        key: &[u8],
        fields: impl IntoIterator<Item = (usize, &'a [u8])>,
    ) -> Result<(), KvError> {
        let (mut floors, mut found) = (Vec::new(), 0);
        if let Some(versions) = &self.versions {
            versions.floors(record, &mut floors);
        }
        for (field, value) in fields {
            found += 1;
            self.judge_field(record, &floors, key, field, value)?;
        }
        whole(record, key, found, self.names.len())
    }

    fn checks(&self) -> bool {
        self.workload.verify || self.workload.integrity
    }
}

/// Whether a record has all its fields.
fn whole(record: u64, key: &[u8], found: usize, expected: usize) -> Result<(), KvError> {
    if found == expected {
        return Ok(());
    }
    if found == 0 {
        return Err(missing(record, key));
    }
    let key = String::from_utf8_lossy(key);
    Err(KvError::Wrong(format!(
        "record {record} ({key}) is wrong: {found} of its {expected} fields are there"
    )))
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
            scan_ranks: zipfian.then(|| YcsbZipf::new(high - low + 1)),
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

    /// So many operations ended in the warm-up, which takes nothing from the workload's number of them.
    pub(crate) fn give_back(&mut self, ops: u64) {
        if self.left != u64::MAX {
            self.left = self.left.saturating_add(ops);
        }
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
        let workload = &self.shared.workload;
        let (read_all, write_all) = (workload.read_all, workload.write_all);
        // YCSB names all fields of reads only: a scan, or a read before a write, asks for all there are
        let named = workload.by_name || workload.integrity;
        let asked = match op {
            Op::Update | Op::Insert => RequestedFields::All,
            _ if !read_all => RequestedFields::One(self.field()),
            Op::Read if named => RequestedFields::Named,
            _ => RequestedFields::All,
        };
        let writes = match op {
            Op::Update | Op::Modify if !write_all => (self.field(), 1),
            _ => (0, self.shared.names.len()),
        };
        Step { op, kind, record, asked, writes, write: None }
    }

    /// A field, each as likely as each other.
    fn field(&mut self) -> usize {
        match self.shared.names.len() {
            1 => 0,
            fields => self.rng.below(fields as u64) as usize,
        }
    }

    fn scan_length(&mut self) -> u64 {
        let Length { low, high, .. } = self.shared.workload.scan_length;
        match &self.scan_ranks {
            Some(ranks) => low + ranks.rank(self.rng.unit()),
            None => low + self.rng.below(high - low + 1),
        }
    }

    /// Prepares the room of an operation: the key of its record, and what its read may find.
    pub fn prepare(&self, step: &Step, room: &mut Scratch) {
        self.shared.workload.keys.write(step.record, &mut room.key);
        if let Some(versions) = &self.shared.versions {
            versions.floors(step.record, &mut room.floors);
        }
    }

    /// A write of the step's record begins: its values.
    pub fn begin_write(&mut self, step: &mut Step, room: &mut Scratch) {
        // an insert is the first version of its record, and nobody reads it before it is acknowledged
        let insert = step.op == Op::Insert;
        step.write = self.shared.versions.as_ref().filter(|_| !insert).map(|all| all.begin(step.record));
        let version = step.write.map_or(0, |write| write.version);
        let Scratch { key, written, .. } = room;
        self.shared.write_values(step.record, version, key, step.writes, written, &mut self.rng);
    }

    /// It was acknowledged.
    pub fn end_write(&mut self, step: &Step) {
        if let (Some(versions), Some(write)) = (&self.shared.versions, step.write) {
            versions.end(write, step.writes.0..step.writes.0 + step.writes.1);
        }
        if step.op == Op::Insert {
            self.shared.counter.acknowledge(step.record);
        }
    }

    /// Whether values are looked at.
    #[inline]
    pub fn checks(&self) -> bool {
        self.shared.checks()
    }

    /// Looks at a value that a read has found.
    ///
    /// # Errors
    /// [`KvError::Wrong`].
    #[inline]
    pub fn look(&mut self, step: &Step, room: &Scratch, field: usize, value: &[u8]) -> Result<(), KvError> {
        if !self.checks() {
            return Ok(());
        }
        self.checked += 1;
        self.shared.judge_field(step.record, &room.floors, &room.key, field, value)
    }

    /// A read has found so many fields.
    ///
    /// # Errors
    /// [`KvError::Wrong`]: it asked for more.
    #[inline]
    pub fn end_read(&self, step: &Step, key: &[u8], found: usize) -> Result<(), KvError> {
        whole(step.record, key, found, self.asked(step))
    }

    /// How many fields of each record the step reads.
    pub fn asked(&self, step: &Step) -> usize {
        if let RequestedFields::One(_) = step.asked { 1 } else { self.shared.names.len() }
    }

    /// A scan has found so many records.
    #[inline]
    pub fn count_scanned(&mut self, records: u64) {
        self.scanned += records;
    }

    /// Looks at a value of a record that a scan has found.
    ///
    /// # Errors
    /// [`KvError::Wrong`].
    #[inline]
    pub fn look_scanned(&mut self, key: &[u8], field: usize, value: &[u8]) -> Result<(), KvError> {
        if !self.shared.workload.verify {
            return Ok(());
        }
        self.checked += 1;
        let fields = self.shared.names.len() as u64;
        let number = values::number_of(value).unwrap_or_default();
        let (record, key_text) = (number / fields, String::from_utf8_lossy(key));
        if self.shared.workload.keys.key(record) != key {
            return Err(KvError::Wrong(format!("under the key {key_text} lies a value of record {record}")));
        }
        // writes ran beside the scan: only what it is can be judged
        let judged = self.shared.version_of(record, field, value);
        judged.map(drop).map_err(|why| {
            let name = self.shared.names.name(field);
            KvError::Wrong(format!("record {record} ({key_text}) in a scan is wrong: {name}: {why}"))
        })
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
        let (mut room, mut old) = (Scratch::default(), FieldValues::default());
        let mut step = client.choose();
        client.prepare(&step, &mut room);
        shared.first_values(step.record, &room.key, &mut old);
        client.begin_write(&mut step, &mut room);
        client.end_write(&step);
        let (field, new) = room.written.iter().map(|(field, value)| (field, value.to_vec())).next().unwrap();
        assert_eq!(room.written.fields(), 1, "an update writes one field");
        let record = step.record;
        let judge = |record: u64, key: &[u8], changed: &[u8]| {
            let fields = old.iter().map(|(at, value)| (at, if at == field { changed } else { value }));
            shared.judge(record, key, fields)
        };
        assert!(judge(record, &room.key, &new).is_ok());
        let lost = judge(record, &room.key, old.get(field).unwrap()).unwrap_err().to_string();
        assert!(lost.contains("version 1 was acknowledged before"), "{lost}");
        let torn = shared.judge(record, &room.key, old.iter().skip(1)).unwrap_err().to_string();
        assert!(torn.contains("9 of its 10 fields") || torn.contains("was acknowledged before"), "{torn}");
        let foreign = judge(record + 1, b"k", &new).unwrap_err().to_string();
        assert!(foreign.contains(&format!("it is the value of field0 of record {record}")), "{foreign}");
        let other = judge(record, &room.key, old.get((field + 1) % 10).unwrap()).unwrap_err().to_string();
        assert!(other.contains(&format!("it is the value of field{}", (field + 1) % 10)), "{other}");
        assert!(client.look_scanned(&room.key, field, &new).is_ok());
        let moved = client.look_scanned(b"user1", field, &new).unwrap_err().to_string();
        assert!(moved.contains("under the key user1"), "{moved}");
    }

    #[test]
    fn properties_say_which_fields_are_read_and_written() {
        for (text, read, written) in [
            ("", "all", 1),
            ("writeallfields=true", "all", 10),
            ("readallfields=false", "one", 1),
            ("readallfieldsbyname=true", "named", 1),
            ("dataintegrity=true", "named", 1),
        ] {
            let shares =
                "readproportion=0.4\nupdateproportion=0.2\nreadmodifywriteproportion=0.2\nscanproportion=0.2";
            let shared = shared(&format!("recordcount=10\n{shares}\n{text}"), false);
            let mut client = Client::new(&shared, 0, 1);
            let mut fields = std::collections::BTreeSet::new();
            for _ in 0..500 {
                let step = client.choose();
                let found = match step.asked {
                    RequestedFields::All => "all",
                    RequestedFields::Named => "named",
                    RequestedFields::One(field) => {
                        fields.insert(field);
                        "one"
                    }
                };
                match step.op {
                    Op::Read => assert_eq!(found, read, "{text}"),
                    Op::Scan(_) | Op::Modify if read == "one" => assert_eq!(found, "one", "{text}"),
                    _ => assert_eq!(found, "all", "{text}"),
                }
                if matches!(step.op, Op::Update | Op::Modify) {
                    assert_eq!(step.writes.1, written, "{text}");
                    fields.insert(step.writes.0);
                }
            }
            assert_eq!(fields.len() == 10, written == 1, "{text}: {fields:?}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_operations_and_values() {
        let run = || {
            let shared = shared("recordcount=100\nrequestdistribution=zipf", false);
            let mut client = Client::new(&shared, 1, 2);
            let mut written = FieldValues::default();
            shared.first_values(7, b"k", &mut written);
            let steps: Vec<_> = (0..50).map(|_| client.choose()).map(|step| (step.op, step.record)).collect();
            (steps, written)
        };
        assert_eq!(run(), run());
    }
}
