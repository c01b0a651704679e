//! The load of the records through pipelines, and the reading of all of them.

use crate::KvError;
use crate::client::{Shared, missing};

use super::INDEX;
use super::resp::{Reply, refusal};
use super::ring::{Ring, text};

/// Commands that are sent before their replies are read.
const BATCH: u64 = 200;

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
    let workload = shared.workload();
    let (start, end) = (workload.insert_start, workload.insert_start + workload.insert_count);
    let indexed = workload.shares.scan > 0.0;
    let mut first = start;
    while first < end {
        if stopped() {
            return Err(KvError::Interrupted);
        }
        let last = (first + BATCH).min(end);
        let keys: Vec<Vec<u8>> = (first..last).map(|record| workload.keys.key(record)).collect();
        let mut commands: Vec<(&[u8], Vec<u8>)> = Vec::new();
        for (record, key) in (first..last).zip(&keys) {
            let mut value = Vec::new();
            shared.first_value(record, key, &mut value);
            commands.push((key, text(&[b"SET", key, &value])));
            if indexed {
                commands.push((INDEX, text(&[b"ZADD", INDEX, b"0", key])));
            }
        }
        ring.pipeline(&commands, &mut |_, reply| match reply {
            Reply::Error(text) => Err(refusal("loading", text)),
            _ => Ok(()),
        })?;
        progress(last - start);
        first = last;
    }
    Ok(())
}

/// Reads every record that must be there, and judges it; how many there were.
///
/// # Errors
/// A record is missing or wrong.
pub fn read_all(ring: &mut Ring, shared: &Shared, stopped: &dyn Fn() -> bool) -> Result<u64, KvError> {
    let workload = shared.workload();
    let (start, end) = (workload.insert_start, shared.counter.limit());
    let mut first = start;
    while first < end {
        if stopped() {
            return Err(KvError::Interrupted);
        }
        let last = (first + BATCH).min(end);
        let keys: Vec<Vec<u8>> = (first..last).map(|record| workload.keys.key(record)).collect();
        let commands: Vec<(&[u8], Vec<u8>)> =
            keys.iter().map(|key| (key.as_slice(), text(&[b"GET", key]))).collect();
        ring.pipeline(&commands, &mut |number, reply| {
            let record = first + number as u64;
            match reply {
                Reply::Bytes(Some(value)) => shared.judge(record, shared.floor(record), &keys[number], value),
                Reply::Error(text) => Err(refusal("reading", text)),
                _ => Err(missing(record, &keys[number])),
            }
        })?;
        first = last;
    }
    Ok(end - start)
}

/// Takes away what a load has written at an address.
///
/// # Errors
/// What Redis answers.
pub fn take_away(ring: &mut Ring, shared: &Shared) -> Result<(), KvError> {
    let workload = shared.workload();
    let (start, end) = (workload.insert_start, shared.counter.next());
    let mut first = start;
    while first < end {
        let last = (first + BATCH).min(end);
        let keys: Vec<Vec<u8>> = (first..last).map(|record| workload.keys.key(record)).collect();
        let commands: Vec<(&[u8], Vec<u8>)> =
            keys.iter().map(|key| (key.as_slice(), text(&[b"DEL", key]))).collect();
        ring.pipeline(&commands, &mut |_, _| Ok(()))?;
        first = last;
    }
    if workload.shares.scan > 0.0 {
        ring.pipeline(&[(INDEX, text(&[b"DEL", INDEX]))], &mut |_, _| Ok(()))?;
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
