//! Terminals on an engine in the process, its load, and the reading of all records at the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serve::drive::{Terminal, TransactionEnd};

use super::session::{Embedded, Session};
use crate::KvError;
use crate::client::{Client, Op, RequestedFields, Scratch, Shared, Step, missing};
use crate::engine::Engine;
use crate::values::FieldValues;

/// Records of a batch of the load.
const BATCH: u64 = 500;

/// A terminal.
pub(crate) struct SessionTerminal<'a> {
    client: Client,
    session: Box<dyn Session + 'a>,
    step: Option<Step>,
    room: Scratch,
}

impl<'a> SessionTerminal<'a> {
    pub(crate) fn new(
        db: &'a dyn Embedded,
        shared: &'a Arc<Shared>,
        number: u32,
        all: u32,
    ) -> Result<SessionTerminal<'a>, KvError> {
        let client = Client::new(shared, number, all);
        Ok(SessionTerminal {
            client,
            session: db.session(shared.names())?,
            step: None,
            room: Scratch::default(),
        })
    }

    fn read(&mut self, step: &Step) -> Result<u64, KvError> {
        let SessionTerminal { client, session, room, .. } = self;
        let (mut judged, mut bytes, mut fields) = (Ok(()), 0, 0);
        session.read(&room.key, step.asked, &mut |field, value| {
            bytes += value.len() as u64;
            fields += 1;
            if judged.is_ok() {
                judged = client.look(step, room, field, value);
            }
        })?;
        client.calls += 1;
        judged?;
        client.end_read(step, &room.key, fields)?;
        Ok(bytes)
    }

    fn write(&mut self, step: &mut Step) -> Result<u64, KvError> {
        let SessionTerminal { client, session, room, .. } = self;
        client.begin_write(step, room);
        if step.op == Op::Insert {
            session.insert(&room.key, &room.written)?;
            client.calls += 1;
        } else {
            let calls = session.update(&room.key, &room.written)?;
            client.calls += calls.ok_or_else(|| missing(step.record, &room.key))?;
        }
        client.end_write(step);
        Ok(room.written.bytes().len() as u64)
    }

    fn scan(&mut self, step: &Step, most: u64) -> Result<u64, KvError> {
        let SessionTerminal { client, session, room, .. } = self;
        let (mut judged, mut bytes, mut fields) = (Ok(()), 0, 0);
        session.scan(&room.key, most, step.asked, &mut |key, field, value| {
            bytes += value.len() as u64;
            fields += 1;
            if judged.is_ok() {
                judged = client.look_scanned(key, field, value);
            }
        })?;
        client.calls += 1;
        client.count_scanned((fields / client.asked(step)) as u64);
        judged.map(|()| bytes)
    }
}

impl Terminal for SessionTerminal<'_> {
    type Error = KvError;

    fn has_more(&mut self) -> bool {
        self.client.has_more()
    }

    fn give_back(&mut self, ops: u64) {
        self.client.give_back(ops);
    }

    fn choose(&mut self) -> usize {
        let step = self.client.choose();
        self.client.prepare(&step, &mut self.room);
        self.step = Some(step);
        step.kind
    }

    fn attempt(&mut self) -> Result<TransactionEnd, KvError> {
        let Some(mut step) = self.step else { return Err(KvError::Engine("nothing was chosen".into())) };
        let bytes = match step.op {
            Op::Read => self.read(&step)?,
            Op::Update | Op::Insert => self.write(&mut step)?,
            Op::Scan(most) => self.scan(&step, most)?,
            Op::Modify => self.read(&step)? + self.write(&mut step)?,
        };
        Ok(TransactionEnd::Moved { ops: 1, bytes })
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
        let mut session = db.session(shared.names())?;
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
                let (key, mut fields) = (workload.keys.key(record), FieldValues::default());
                shared.first_values(record, &key, &mut fields);
                (key, fields)
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
    let mut session = db.session(shared.names())?;
    let workload = shared.workload();
    let mut number = 0;
    for record in shared.records(shared.counter.limit()).into_iter().flatten() {
        if number % BATCH == 0 && stopped() {
            return Err(KvError::Interrupted);
        }
        number += 1;
        let key = workload.keys.key(record);
        let mut fields: Vec<(usize, Vec<u8>)> = Vec::new();
        session.read(&key, RequestedFields::All, &mut |field, value| fields.push((field, value.to_vec())))?;
        shared.judge(record, &key, fields.iter().map(|(field, value)| (*field, value.as_slice())))?;
    }
    Ok(number)
}
