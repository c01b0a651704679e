//! For fuzz targets: what a journal's file holds, read from bytes.

use crate::file::Contents;

/// Reads the bytes of a journal's file; whether they are one.
pub fn read(text: &[u8]) -> bool {
    Contents::parse(text).is_ok()
}
