//! Records as they are stored: JSON, compressed, without passwords of addresses; those that older programs have stored are left
//! out where they are read.

use workload::address::redact;

use super::error::StoreError;

/// zstd level of stored records: the histograms of a trial shrink to a few KiB in a few milliseconds.
const ZSTD_LEVEL: i32 = 6;

/// Largest record that is read back, after decompression.
const RECORD_BYTES_MAX: usize = 1 << 30;

/// A record of a run that cannot be read, or written.
pub(super) fn damaged(run: &str, why: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged { run: run.to_string(), why: why.to_string() }
}

/// Packs a record of a run.
pub(super) fn pack(run: &str, record: &impl serde::Serialize) -> Result<Vec<u8>, StoreError> {
    let text = serde_json::to_string(record).map_err(|error| damaged(run, error))?;
    compress(run, redact(&text).as_bytes())
}

/// Unpacks it.
pub(super) fn unpack<T: serde::de::DeserializeOwned>(run: &str, bytes: &[u8]) -> Result<T, StoreError> {
    let text = String::from_utf8(decompress(run, bytes)?).map_err(|error| damaged(run, error))?;
    serde_json::from_str(&redact(&text)).map_err(|error| damaged(run, error))
}

/// Compresses what belongs to a run.
pub(super) fn compress(run: &str, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    zstd::bulk::compress(bytes, ZSTD_LEVEL).map_err(|error| damaged(run, error))
}

/// What was compressed.
pub(super) fn decompress(run: &str, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    use std::io::Read;
    let mut plain = Vec::new();
    let reader = zstd::Decoder::new(bytes).map_err(|error| damaged(run, error))?;
    reader.take(RECORD_BYTES_MAX as u64).read_to_end(&mut plain).map_err(|error| damaged(run, error))?;
    Ok(plain)
}
