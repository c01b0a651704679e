//! Any text gives a size, a duration, a rate or an error that can be shown; a duration that was read is written so that it can
//! be read again.

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match units::parse_bytes(text) {
        Ok(size) => {
            // A size is shown rounded.
            let _ = units::parse_bytes(&units::format_bytes(size));
        }
        Err(error) => _ = error.to_string(),
    }
    match units::parse_duration(text) {
        Ok(duration) => {
            let shown = units::format_duration(duration);
            assert_eq!(units::parse_duration(&shown), Ok(duration), "{shown}");
        }
        Err(error) => _ = error.to_string(),
    }
    let _ = units::parse_latency(text).map_err(|error| error.to_string());
    let _ = units::parse_rate(text).map_err(|error| error.to_string());
}
