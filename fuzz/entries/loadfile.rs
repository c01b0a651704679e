//! Any text gives dbench's load or an error that can be shown.

use simulate::loadfile::LoadFile;

pub fn run(bytes: &[u8]) {
    if let Err(error) = LoadFile::parse("fuzz", &String::from_utf8_lossy(bytes)) {
        let _ = error.to_string();
    }
}
