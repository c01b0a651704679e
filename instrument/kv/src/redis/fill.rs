//! The load of the records through pipelines, and the reading of all of them.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::KvError;
use crate::client::{RequestedFields, Shared};
use crate::values::FieldValues;

use super::records::Commands;
use super::resp::{Login, Reply, refusal};
use super::ring::{Ring, text};
use super::{INDEX, LATER};

/// Commands that are sent before their replies are read.
const BATCH: u64 = 200;
/// How long a server may take to see that a load's connections are gone.
const GONE_PATIENCE: Duration = Duration::from_secs(2);

/// Loads the workload's records; `progress` hears how many there are.
///
/// # Errors
/// What Redis answers.
pub fn load(
    ring: &mut Ring,
    shared: &Shared,
    stopped: &dyn Fn() -> bool,
    progress: &dyn Fn(u64),
) -> Result<(), KvError> {
    let (workload, commands) = (shared.workload(), Commands::of(shared));
    let (start, end) = (workload.insert_start, workload.insert_start + workload.insert_count);
    let mut fields = FieldValues::default();
    for keys in batches(shared, start..end) {
        if stopped() {
            return Err(KvError::Interrupted);
        }
        let mut texts: Vec<(&[u8], Vec<u8>)> = Vec::new();
        for (record, key) in &keys {
            shared.first_values(*record, key, &mut fields);
            texts.push((key, written(|out| commands.write(key, &fields, out))));
            if commands.indexed {
                texts.push((INDEX, written(|out| commands.index(key, out))));
            }
        }
        ring.pipeline(&texts, &mut |_, reply| match reply {
            Reply::Error(text) => Err(refusal("loading", text)),
            _ => Ok(()),
        })?;
        progress(keys.last().map_or(0, |(record, _)| record + 1 - start));
    }
    Ok(())
}

/// Numbers and keys of records, in batches.
fn batches(shared: &Shared, records: Range<u64>) -> impl Iterator<Item = Vec<(u64, Vec<u8>)>> {
    let keys = shared.workload().keys;
    (records.start..records.end).step_by(BATCH as usize).map(move |first| {
        (first..(first + BATCH).min(records.end)).map(|record| (record, keys.key(record))).collect()
    })
}

/// A command as it is sent.
fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// Reads every record that must be there, and judges it; how many there were.
///
/// # Errors
/// A record is missing or wrong.
pub fn read_all(ring: &mut Ring, shared: &Shared, stopped: &dyn Fn() -> bool) -> Result<u64, KvError> {
    let (commands, mut number) = (Commands::of(shared), 0);
    let there = shared.records(shared.counter.limit());
    for keys in there.into_iter().flat_map(|records| batches(shared, records)) {
        if stopped() {
            return Err(KvError::Interrupted);
        }
        let texts: Vec<(&[u8], Vec<u8>)> = keys
            .iter()
            .map(|(_, key)| (key.as_slice(), written(|out| commands.read(key, RequestedFields::All, out))))
            .collect();
        ring.pipeline(&texts, &mut |at, reply| {
            let (record, key) = &keys[at];
            if let Reply::Error(text) = reply {
                return Err(refusal("reading", text));
            }
            let mut fields: Vec<(usize, Vec<u8>)> = Vec::new();
            commands.fields(RequestedFields::All, reply, |field, value| {
                fields.push((field, value.to_vec()));
            });
            shared.judge(*record, key, fields.iter().map(|(field, value)| (*field, value.as_slice())))
        })?;
        number += keys.len() as u64;
    }
    Ok(number)
}

/// Takes away what a load has written at an address. For a moment the server may still count connections that are gone.
///
/// # Errors
/// What Redis answers.
pub fn take_away(login: &Login, cluster: bool, shared: &Shared) -> Result<(), KvError> {
    let start = Instant::now();
    loop {
        let deleted = Ring::connect(login, cluster).and_then(|mut ring| delete(&mut ring, shared));
        if deleted.is_ok() || start.elapsed() > GONE_PATIENCE {
            return deleted;
        }
        std::thread::sleep(LATER);
    }
}

fn delete(ring: &mut Ring, shared: &Shared) -> Result<(), KvError> {
    let mut deleted = |_, reply: &Reply<'_>| match reply {
        Reply::Error(text) => Err(refusal("deleting the load's keys", text)),
        _ => Ok(()),
    };
    for keys in shared.records(shared.counter.next()).into_iter().flat_map(|all| batches(shared, all)) {
        let texts: Vec<(&[u8], Vec<u8>)> =
            keys.iter().map(|(_, key)| (key.as_slice(), text(&[b"DEL", key]))).collect();
        ring.pipeline(&texts, &mut deleted)?;
    }
    if Commands::of(shared).indexed {
        ring.pipeline(&[(INDEX, text(&[b"DEL", INDEX]))], &mut deleted)?;
    }
    Ok(())
}

/// Finds out whether the database is empty, at an address: what is there is not overwritten.
///
/// # Errors
/// It is not; what Redis answers.
pub fn must_be_empty(ring: &mut Ring) -> Result<(), KvError> {
    for wire in &mut ring.wires {
        let keys = wire.ask(&[b"DBSIZE"], |reply| match reply {
            Reply::Number(keys) => Ok(keys),
            Reply::Error(text) => Err(refusal("DBSIZE", text)),
            _ => Ok(0),
        })?;
        if keys > 0 {
            return Err(KvError::Parameter(format!(
                "Redis at {} holds {keys} keys already, which loadline does not overwrite; name an empty one",
                wire.address()
            )));
        }
    }
    Ok(())
}
