//! Whether anything is written there at all.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use camino::Utf8Path;
use rustix::io::Errno;

const MIB: u64 = 1 << 20;
/// Places of a device that are looked at besides its two ends.
const SAMPLES: u64 = 64;
/// Bytes of each.
const SAMPLE_BYTES: u64 = 64 << 10;

/// Whether a file holds nothing but zeros. Holes are not read.
pub(super) fn file_is_blank(path: &Utf8Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut at = 0;
    loop {
        let (from, to) = match next_data(&file, at)? {
            None => return Ok(true),
            Some(found) => found,
        };
        if !range_is_blank(&mut file, from, to - from)? {
            return Ok(false);
        }
        at = to;
    }
}

/// The next part from `at` on that is not a hole.
fn next_data(file: &File, at: u64) -> io::Result<Option<(u64, u64)>> {
    use rustix::fs::{SeekFrom as Seek, seek};
    match seek(file, Seek::Data(at)) {
        Ok(from) => Ok(Some((from, seek(file, Seek::Hole(from))?))),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a device of `size` bytes holds nothing but zeros at both its ends and at places in between. Reading all of
/// a disk would take hours.
pub(super) fn device_is_blank(path: &Utf8Path, size: u64) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let ends = [(0, MIB), (size.saturating_sub(MIB), MIB)];
    let between = (1..SAMPLES).map(|n| (size / SAMPLES * n / SAMPLE_BYTES * SAMPLE_BYTES, SAMPLE_BYTES));
    for (from, length) in ends.into_iter().chain(between) {
        if !range_is_blank(&mut file, from, length)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn range_is_blank(file: &mut File, from: u64, length: u64) -> io::Result<bool> {
    let mut buffer = vec![0; length.min(MIB) as usize];
    file.seek(SeekFrom::Start(from))?;
    let mut rest = file.take(length);
    loop {
        match rest.read(&mut buffer)? {
            0 => return Ok(true),
            read if buffer[..read].iter().any(|byte| *byte != 0) => return Ok(false),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn one_byte_behind_a_hole_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(dir.path()).unwrap().join("f");
        let file = File::create(&path).unwrap();
        assert!(file_is_blank(&path).unwrap());
        file.set_len(64 << 20).unwrap();
        file.write_all_at(&[0; 8192], 1 << 20).unwrap();
        assert!(file_is_blank(&path).unwrap() && device_is_blank(&path, 64 << 20).unwrap());
        file.write_all_at(&[1], (40 << 20) + 7).unwrap();
        assert!(!file_is_blank(&path).unwrap());
        file.write_all_at(&[1], (64 << 20) - 1).unwrap();
        assert!(!device_is_blank(&path, 64 << 20).unwrap());
    }
}
