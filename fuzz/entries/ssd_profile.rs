//! Any text gives an emulated SSD's profile or an error that can be shown.

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let named = ssd::Profile::named(text).map_err(|error| error.to_string());
    let written = ssd::Profile::parse("fuzz", text).map_err(|error| error.to_string());
    // A device of 64 MiB of it, which takes a write and a read.
    for profile in [named, written].into_iter().flatten() {
        device(&profile);
    }
}

/// Most events of a device that are waited for: a write and a read take some dozens.
const EVENTS_MAX: usize = 100_000;

fn device(profile: &ssd::Profile) {
    use ssd::{Command, Config, Ssd, Token};
    let Ok(mut ssd) = Ssd::new(Config::new(profile.clone(), 64 << 20)) else { return };
    let _ = ssd.submit(Command::write_fua(1, 0, 1, Token(7)), 0);
    let _ = ssd.submit(Command::read(2, 0, 1), 0);
    let _ = ssd.submit(Command::flush(3), 0);
    let mut done = Vec::new();
    for _ in 0..EVENTS_MAX {
        let Some(at) = ssd.next_event().filter(|_| done.len() < 3) else { return };
        ssd.advance(at, &mut done);
    }
}
