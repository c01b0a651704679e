//! What host and guest say to each other. A guest that serves gets and sends lines of JSON through a port. A deterministic
//! one finds its job in the firmware's configuration and, when all is measured, writes one block to its second serial port:
//! compressed, in base64, with a checksum.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use xxhash_rust::xxh3::xxh3_64;

use crate::GuestError;

/// Name of the port.
pub(crate) const PORT: &str = "loadline";
/// Name of the job in the firmware's configuration (docs/specs/fw_cfg.rst of QEMU: users' names begin with `opt/`).
pub(crate) const JOB: &str = "opt/loadline/job";
/// First and last line of a block.
const BEGIN: &str = "LOADLINE-BEGIN";
const END: &str = "LOADLINE-END";
/// Letters in a line of a block.
const LINE_LETTERS: usize = 120;
/// Strength of the compression: time in the guest costs more than letters.
const LEVEL: i32 = 1;

/// A block of `payload` as lines.
pub(crate) fn block(payload: &[u8]) -> Result<String, GuestError> {
    let packed = zstd::stream::encode_all(payload, LEVEL).map_err(GuestError::at("zstd"))?;
    let text = STANDARD.encode(packed);
    let mut lines = format!("{BEGIN} {:016x}\n", xxh3_64(payload));
    for line in text.as_bytes().chunks(LINE_LETTERS) {
        lines.push_str(&String::from_utf8_lossy(line));
        lines.push('\n');
    }
    lines.push_str(END);
    lines.push('\n');
    Ok(lines)
}

/// The payload of the block in `text`; `None` when there is no whole one.
///
/// # Errors
/// [`GuestError::Damaged`].
pub fn unblock(text: &str) -> Result<Option<Vec<u8>>, GuestError> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with(BEGIN));
    let Some(head) = lines.next() else { return Ok(None) };
    let mut letters = String::new();
    loop {
        match lines.next() {
            None => return Ok(None),
            Some(END) => break,
            Some(line) => letters.push_str(line),
        }
    }
    let damaged = |what: String| GuestError::Damaged(what);
    let packed = STANDARD.decode(letters).map_err(|error| damaged(error.to_string()))?;
    let payload = zstd::stream::decode_all(packed.as_slice()).map_err(|error| damaged(error.to_string()))?;
    let told = head.strip_prefix(BEGIN).map(str::trim).and_then(|sum| u64::from_str_radix(sum, 16).ok());
    match told == Some(xxh3_64(&payload)) {
        true => Ok(Some(payload)),
        false => Err(damaged("its checksum does not match".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_comes_back_whole_or_not_at_all() {
        let payload: Vec<u8> = (0..5000u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        let text = block(&payload).unwrap();
        let on_a_console = format!("[ 1.0] noise\r\n{}", text.replace('\n', "\r\n"));
        assert_eq!(unblock(&on_a_console).unwrap(), Some(payload.clone()));
        assert_eq!(unblock(&text[..text.len() / 2]).unwrap(), None);
        assert_eq!(unblock("").unwrap(), None);
        let wrong = text.replacen(&text[15..31], "0000000000000000", 1);
        assert!(matches!(unblock(&wrong), Err(GuestError::Damaged(_))), "{}", &wrong[..40]);
    }
}
