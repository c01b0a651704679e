//! Any bytes in a recording's file are events or an error; so are records whose checksums are right.

use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use arbitrary::Unstructured;
use blockdev::record::Reader;
use camino::{Utf8Path, Utf8PathBuf};

/// Bytes of a header, of a record's fixed part, and of that under the checksum: see `blockdev::record`.
const HEADER: usize = 32;
const RECORD: usize = 48;
const SUMMED: usize = 44;

#[allow(dead_code, reason = "another target has the file read by something else")]
pub fn run(bytes: &[u8]) {
    with_file(bytes, read);
}

/// Gives `see` a file that the bytes make. The first byte says how: even, the others as they are; odd, records that are put
/// together from them.
pub fn with_file(bytes: &[u8], see: impl FnOnce(&Utf8Path)) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let bytes = match kind % 2 {
        0 => bytes.to_vec(),
        _ => written(&mut Unstructured::new(bytes)).unwrap_or_default(),
    };
    // SAFETY: the name is a text that ends with a zero.
    let memory = unsafe { libc::memfd_create(c"recording".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(memory >= 0, "a file in memory");
    // SAFETY: it was just made, and nobody else has it.
    let mut memory = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(memory) });
    memory.write_all(&bytes).expect("written to memory");
    see(&Utf8PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd())));
}

fn written(u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
    let mut file = vec![0; HEADER];
    file[..8].copy_from_slice(b"LLREQLOG");
    file[8..12].copy_from_slice(&1_u32.to_le_bytes());
    file[12..16].copy_from_slice(&4096_u32.to_le_bytes());
    let device: u64 = *u.choose(&[0, 4096, 1 << 20, 1 << 40, u64::MAX])?;
    file[16..24].copy_from_slice(&device.to_le_bytes());
    while !u.is_empty() {
        let mut record = [0; RECORD];
        record[0] = u.int_in_range(0..=9)?;
        record[1] = u.arbitrary()?;
        record[4..8].copy_from_slice(&i32::to_le_bytes(u.arbitrary()?));
        record[8..16].copy_from_slice(&u64::to_le_bytes(u.int_in_range(0..=8)?));
        record[16..24].copy_from_slice(&u64::to_le_bytes(u.arbitrary()?));
        for at in [24, 32] {
            let number = match u.int_in_range(0..=3)? {
                0 => u.int_in_range(0..=16)? * 4096,
                1 => u.int_in_range(0..=4)?,
                2 => u64::MAX - u.int_in_range(0..=4096)?,
                _ => u.arbitrary()?,
            };
            record[at..at + 8].copy_from_slice(&u64::to_le_bytes(number));
        }
        let sum = crc32c::crc32c(&record[..SUMMED]);
        record[SUMMED..].copy_from_slice(&sum.to_le_bytes());
        file.extend_from_slice(&record);
        let data = u.int_in_range(0..=2)?;
        let text: &[u8] = [&b""[..], b"base", &[7; 4096]][data];
        file.extend_from_slice(text);
    }
    Ok(file)
}

#[allow(dead_code, reason = "as above")]
fn read(path: &Utf8Path) {
    let Ok(mut reader) = Reader::open(path) else { return };
    let bound = reader.device_bytes();
    let events: Vec<_> = reader.by_ref().collect();
    let _ = (reader.position(), reader.torn_at());
    for event in events {
        match event {
            Ok(event) => inside(&event.what, bound),
            Err(error) => _ = error.to_string(),
        }
    }
}

#[allow(dead_code, reason = "as above")]
/// What was recorded lies on the device.
fn inside(what: &blockdev::record::EventKind, device: u64) {
    use blockdev::record::EventKind::{Discard, Write, WriteZeroes};
    let (offset, length) = match what {
        Write { offset, data, .. } => (*offset, data.len() as u64),
        Discard { offset, length, .. } | WriteZeroes { offset, length, .. } => (*offset, *length),
        _ => return,
    };
    assert!(offset.checked_add(length).is_some_and(|end| end <= device), "{offset} + {length} of {device}");
}
