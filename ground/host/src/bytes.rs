//! Numbers of bytes for people.

const UNITS: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];

/// Bytes for people: `7.4 GiB`. For messages only.
pub fn human(bytes: u64) -> String {
    for (letter, shift) in UNITS {
        let unit = 1u64 << shift;
        if bytes >= unit {
            return format!("{:.1} {letter}iB", bytes as f64 / unit as f64);
        }
    }
    format!("{bytes} B")
}
