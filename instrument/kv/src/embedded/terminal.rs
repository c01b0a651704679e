//! Terminals on an engine in the process, its load, and the reading of all records at the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serve::drive::{Done, Terminal};

use super::session::{Embedded, Session};
use crate::KvError;
use crate::client::{Client, Op, Shared, Step, missing};
use crate::engine::Engine;

/// Records of a batch of the load.
const BATCH: u64 = 500;

/// A terminal.
pub(crate) struct OnSession<'a> {
    client: Client,
    session: Box<dyn Session + 'a>,
    step: Option<Step>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'a> OnSession<'a> {
    pub(crate) fn new(
        db: &'a dyn Embedded,
        shared: &Arc<Shared>,
        number: u32,
        all: u32,
    ) -> Result<OnSession<'a>, KvError> {
        let client = Client::new(shared, number, all);
        Ok(OnSession { client, session: db.session()?, step: None, key: Vec::new(), value: Vec::new() })
    }

    fn read(&mut self, step: &Step) -> Result<u64, KvError> {
        let OnSession { client, session, key, .. } = self;
        let (mut judged, mut bytes) = (Ok(()), 0);
        let found = session.get(key, &mut |value| {
            bytes = value.len() as u64;
            judged = client.look(step, key, value);
        })?;
        client.calls += 1;
        judged?;
        if found { Ok(bytes) } else { Err(missing(step.record, key)) }
    }

    fn write(&mut self, step: &mut Step) -> Result<u64, KvError> {
        self.client.begin_write(step, &self.key, &mut self.value);
        self.session.put(&self.key, &self.value)?;
        self.client.calls += 1;
        self.client.end_write(step);
        Ok(self.value.len() as u64)
    }

    fn scan(&mut self, most: u64) -> Result<u64, KvError> {
        let OnSession { client, session, key, .. } = self;
        let (mut judged, mut bytes) = (Ok(()), 0);
        session.scan(key, most, &mut |key, value| {
            bytes += value.len() as u64;
            if judged.is_ok() {
                judged = client.look_scanned(key, value);
            }
        })?;
        client.calls += 1;
        judged.map(|()| bytes)
    }
}

impl Terminal for OnSession<'_> {
    type Error = KvError;

    fn has_more(&mut self) -> bool {
        self.client.has_more()
    }

    fn choose(&mut self) -> usize {
        let step = self.client.choose();
        self.client.key(step.record, &mut self.key);
        self.step = Some(step);
        step.kind
    }

    fn attempt(&mut self) -> Result<Done, KvError> {
        let Some(mut step) = self.step else { return Err(KvError::Engine("nothing was chosen".into())) };
        let bytes = match step.op {
            Op::Read => self.read(&step)?,
            Op::Update | Op::Insert => self.write(&mut step)?,
            Op::Scan(most) => self.scan(most)?,
            Op::Modify => self.read(&step)? + self.write(&mut step)?,
        };
        Ok(Done::Moved { ops: 1, bytes })
    }
}

/// Loads the workload's records, in the order of their numbers; `tell` hears how far it is.
pub(crate) fn load(
    db: &dyn Embedded,
    engine: Engine,
    shared: &Shared,
    stopped: &(dyn Fn() -> bool + Sync),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), KvError> {
    let workload = shared.workload();
    let (start, end) = (workload.insert_start, workload.insert_start + workload.insert_count);
    let (next, loaded, failed) = (AtomicU64::new(start), AtomicU64::new(0), Mutex::new(None));
    let part = || -> Result<(), KvError> {
        let mut session = db.session()?;
        let mut records = Vec::new();
        loop {
            let first = next.fetch_add(BATCH, Ordering::Relaxed);
            if first >= end {
                return Ok(());
            }
            if stopped() {
                return Err(KvError::Interrupted);
            }
            let last = (first + BATCH).min(end);
            records.clear();
            records.extend((first..last).map(|record| {
                let (key, mut value) = (workload.keys.key(record), Vec::new());
                shared.first_value(record, &key, &mut value);
                (key, value)
            }));
            session.load(&records)?;
            progress(loaded.fetch_add(last - first, Ordering::Relaxed) + last - first);
        }
    };
    // SQLite and LMDB have one writer at a time
    let threads = match engine {
        Engine::RocksDb => std::thread::available_parallelism().map_or(1, usize::from),
        _ => 1,
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                if let Err(error) = part() {
                    // the others end as well
                    next.store(end, Ordering::Relaxed);
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Reads every record that must be there, and judges it; how many there were.
pub(crate) fn read_all(
    db: &dyn Embedded,
    shared: &Shared,
    stopped: &dyn Fn() -> bool,
) -> Result<u64, KvError> {
    let mut session = db.session()?;
    let workload = shared.workload();
    let records = workload.insert_start..shared.counter.limit();
    let number = records.end - records.start;
    for record in records {
        if record % BATCH == 0 && stopped() {
            return Err(KvError::Interrupted);
        }
        let key = workload.keys.key(record);
        let mut judged = Ok(());
        let floor = shared.floor(record);
        if !session.get(&key, &mut |value| judged = shared.judge(record, floor, &key, value))? {
            return Err(missing(record, &key));
        }
        judged?;
    }
    Ok(number)
}
