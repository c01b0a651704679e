//! Any bytes are a recording of a program, with a description that is the same twice, or an error that can be shown.

use std::io::Cursor;

use recording::describe::{Profile, describe};
use recording::format::MAGIC;
use recording::{Reader, RecordingError};

/// The header of a recording without words.
const HEADER: &str =
    r#"{"command":[],"directory":"","began_unix_seconds":0,"under":[],"anonymous":false,"kernel":""}"#;

/// The first byte says how: even, the others as they are; odd, behind a sound header.
pub fn run(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let whole = match kind % 2 {
        0 => bytes.to_vec(),
        _ => [MAGIC.as_bytes(), HEADER.as_bytes(), b"\n", bytes].concat(),
    };
    let profile =
        |whole: &[u8]| -> Result<Profile, RecordingError> { Profile::of(Reader::new(Cursor::new(whole))?) };
    match profile(&whole) {
        Ok(found) => {
            assert_eq!(describe(&found, "fuzz"), describe(&profile(&whole).expect("as before"), "fuzz"))
        }
        Err(error) => drop(error.to_string()),
    }
}
