//! Any recording of a device gives the events whose power losses are explored, or an error.

#[path = "recording.rs"]
mod recording;

pub fn run(bytes: &[u8]) {
    recording::with_file(bytes, |path| _ = crash::fuzzing::recording(path));
}
