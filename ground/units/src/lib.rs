//! Sizes, durations and rates as people write them: `16k`, `1.5G`, `2MiB`, `30s`, `1h30m`, `500MB/s`, `100mbit`.
//!
//! And [`nearest`], "did you mean", for words that are not known.
//!
//! Sizes go in powers of 1024, whether or not the unit has an `i`; letters in either case. Rates go in powers of 1000, as
//! devices and networks are sold.

mod suggestion;

use std::time::Duration;

pub use suggestion::nearest;
use thiserror::Error;

/// A size, duration or rate that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum UnitError {
    #[error("nothing here; write a number such as {example}")]
    Empty { example: &'static str },
    #[error("`{text}` is not a number; write one such as {example}")]
    NotANumber { text: String, example: &'static str },
    #[error("`{text}` is negative; sizes, durations and rates start at 0")]
    Negative { text: String },
    #[error("`{text}`: there is no unit `{unit}`; use one of {known}")]
    UnknownUnit { text: String, unit: String, known: &'static str },
    #[error("`{text}` has a fraction of a byte; give a whole number, or a unit such as k")]
    Fraction { text: String },
    #[error("`{text}` is too large; the limit is {limit}")]
    TooLarge { text: String, limit: &'static str },
}

const SIZE_EXAMPLE: &str = "16k, 1.5G or 4096";
const SIZE_UNITS: &str = "b, k, m, g, t, p (also kb, KiB ...)";
const SIZE_LIMIT: &str = "16 EiB (2^64 - 1 bytes)";
const DURATION_EXAMPLE: &str = "30s, 5m, 1h30m or 250ms";
const DURATION_UNITS: &str = "ns, us, ms, s, m (min), h, d";
const DURATION_LIMIT: &str = "2^64 - 1 nanoseconds (584 years)";
const RATE_EXAMPLE: &str = "500MB/s, 1.5GB/s or 100mbit";
const RATE_UNITS: &str = "B/s, kB/s, MB/s, GB/s, TB/s, kbit, mbit, gbit";
const RATE_LIMIT: &str = "2^64 - 1 bits in a second";

/// Powers of 1024 and what they are called.
const SIZES: [(u64, &str); 5] =
    [(1 << 50, "P"), (1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
/// Durations in nanoseconds, the largest first.
const DURATIONS: [(u64, &str); 7] = [
    (86_400_000_000_000, "d"),
    (3_600_000_000_000, "h"),
    (60_000_000_000, "m"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
    (1, "ns"),
];

/// Bits in a second that units of a rate stand for. `B` is a byte and `b` is none: who writes `Mb/s` may mean either.
const RATES: [(u64, &str); 8] = [
    (8, "B/s"),
    (8_000, "kB/s"),
    (8_000_000, "MB/s"),
    (8_000_000_000, "GB/s"),
    (8_000_000_000_000, "TB/s"),
    (1_000, "kbit"),
    (1_000_000, "mbit"),
    (1_000_000_000, "gbit"),
];

/// Bytes of a size; fractions of a unit are rounded down to whole bytes.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let number = Number::split(trimmed, SIZE_EXAMPLE)?;
    let unit = number.rest.trim().to_ascii_lowercase();
    let unknown = || UnitError::UnknownUnit {
        text: trimmed.into(),
        unit: number.rest.trim().into(),
        known: SIZE_UNITS,
    };
    let factor = match unit.as_str() {
        "" | "b" => 1,
        unit => {
            let letter = &unit[..unit.char_indices().nth(1).map_or(unit.len(), |(index, _)| index)];
            let known = SIZES.iter().find(|(_, name)| name.eq_ignore_ascii_case(letter));
            match (known, &unit[letter.len()..]) {
                (Some(&(factor, _)), "" | "b" | "ib") => factor,
                _ => return Err(unknown()),
            }
        }
    };
    if factor == 1 && number.has_fraction() {
        return Err(UnitError::Fraction { text: trimmed.into() });
    }
    number.times(factor).ok_or(UnitError::TooLarge { text: trimmed.into(), limit: SIZE_LIMIT })
}

/// A duration: numbers with units, the largest usually first (`1h30m`); a number without a unit is seconds.
/// Fractions are rounded down to nanoseconds.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let trimmed = text.trim();
    let too_large = || UnitError::TooLarge { text: trimmed.into(), limit: DURATION_LIMIT };
    let (mut left, mut total_ns) = (trimmed, 0u64);
    loop {
        let number = Number::split(left, DURATION_EXAMPLE)?;
        let rest = number.rest.trim_start();
        let unit_len = rest.find(|c: char| c.is_ascii_digit() || c.is_whitespace()).unwrap_or(rest.len());
        let (unit, after) = rest.split_at(unit_len);
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" if total_ns == 0 && after.is_empty() => 1_000_000_000,
            "min" => 60_000_000_000,
            "sec" => 1_000_000_000,
            name => match DURATIONS.iter().find(|(_, known)| *known == name) {
                Some(&(factor, _)) => factor,
                None => {
                    let (text, unit) = (trimmed.into(), unit.into());
                    return Err(UnitError::UnknownUnit { text, unit, known: DURATION_UNITS });
                }
            },
        };
        let part_ns = number.times(factor).ok_or_else(too_large)?;
        total_ns = total_ns.checked_add(part_ns).ok_or_else(too_large)?;
        left = after.trim_start();
        if left.is_empty() {
            return Ok(Duration::from_nanos(total_ns));
        }
    }
}

/// A duration that says its unit, as [`parse_duration`] reads it: for what is seldom a matter of seconds.
pub fn parse_latency(text: &str) -> Result<Duration, UnitError> {
    let trimmed = text.trim();
    if trimmed.ends_with(|last: char| last.is_ascii_digit() || last == '.') {
        let text = trimmed.into();
        return Err(UnitError::UnknownUnit { text, unit: String::new(), known: DURATION_UNITS });
    }
    parse_duration(trimmed)
}

/// Bytes in a second of a rate; fractions of a byte are rounded down.
pub fn parse_rate(text: &str) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let number = Number::split(trimmed, RATE_EXAMPLE)?;
    let unit = number.rest.trim();
    let named = |name: &str| match name.strip_suffix("B/s") {
        Some(prefix) => unit.strip_suffix("B/s").is_some_and(|given| given.eq_ignore_ascii_case(prefix)),
        None => unit.strip_suffix("/s").unwrap_or(unit).eq_ignore_ascii_case(name),
    };
    let Some((bits, _)) = RATES.iter().find(|(_, name)| named(name)) else {
        return Err(UnitError::UnknownUnit { text: trimmed.into(), unit: unit.into(), known: RATE_UNITS });
    };
    let bits = number.times(*bits).ok_or(UnitError::TooLarge { text: trimmed.into(), limit: RATE_LIMIT })?;
    Ok(bits / 8)
}

/// A size for people: exact if it is a whole number of some unit below 10,000 (`16KiB`), else with one decimal
/// (`1.4GiB`), which [`parse_bytes`] reads back only approximately.
pub fn format_bytes(bytes: u64) -> String {
    if let Some((factor, name)) =
        SIZES.iter().find(|(factor, _)| bytes >= *factor && bytes.is_multiple_of(*factor))
        && bytes / factor < 10_000
    {
        return format!("{}{name}iB", bytes / factor);
    }
    match SIZES.iter().find(|(factor, _)| bytes >= *factor) {
        Some((factor, name)) => format!("{:.1}{name}iB", bytes as f64 / *factor as f64),
        None => format!("{bytes}B"),
    }
}

/// A duration for people that [`parse_duration`] reads back exactly: `1h30m`, `250ms`, `1s500ms`, `0s`.
pub fn format_duration(duration: Duration) -> String {
    let mut left_ns = duration.as_nanos();
    let mut text = String::new();
    for (unit_ns, name) in DURATIONS {
        let count = left_ns / u128::from(unit_ns);
        left_ns %= u128::from(unit_ns);
        if count != 0 {
            text += &format!("{count}{name}");
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

/// A decimal number and what follows it; exact, unlike a float.
struct Number<'a> {
    digits: u128,
    /// The number is `digits / 10^decimals`.
    decimals: u32,
    rest: &'a str,
}

/// More digits than these are cut off after the point, and too large before it.
const DIGITS_MAX: u32 = 20;

impl<'a> Number<'a> {
    fn split(text: &'a str, example: &'static str) -> Result<Self, UnitError> {
        if text.is_empty() {
            return Err(UnitError::Empty { example });
        }
        if text.starts_with('-') {
            return Err(UnitError::Negative { text: text.into() });
        }
        let (mut digits, mut decimals, mut seen, mut after_point) = (0u128, 0, false, false);
        let mut end = text.len();
        for (index, character) in text.char_indices() {
            match character.to_digit(10) {
                Some(_) if after_point && decimals >= DIGITS_MAX / 2 => {}
                Some(digit) => {
                    digits = digits.saturating_mul(10).saturating_add(u128::from(digit));
                    decimals += u32::from(after_point);
                    seen = true;
                }
                None if character == '.' && !after_point => after_point = true,
                None => {
                    end = index;
                    break;
                }
            }
        }
        if !seen {
            return Err(UnitError::NotANumber { text: text.into(), example });
        }
        Ok(Number { digits, decimals, rest: &text[end..] })
    }

    fn has_fraction(&self) -> bool {
        !self.digits.is_multiple_of(10u128.pow(self.decimals))
    }

    fn times(&self, factor: u64) -> Option<u64> {
        let product = self.digits.checked_mul(u128::from(factor))?;
        u64::try_from(product / 10u128.pow(self.decimals)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("16k", 16 << 10),
            ("16K", 16 << 10),
            ("2MiB", 2 << 20),
            ("2mb", 2 << 20),
            ("1.5G", 3 << 29),
            ("1.5 GiB", 3 << 29),
            ("  8 t ", 8 << 40),
            ("3P", 3 << 50),
            ("512b", 512),
            ("2.0", 2),
            (".5k", 512),
            ("0.3k", 307),
            ("18446744073709551615", u64::MAX),
            ("15.99999999999999999999999999999999999k", 16383),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn wrong_sizes_say_what_would_be_right() {
        for (text, message) in [
            ("", "nothing here; write a number such as 16k, 1.5G or 4096"),
            ("k", "`k` is not a number; write one such as 16k, 1.5G or 4096"),
            (".", "`.` is not a number; write one such as 16k, 1.5G or 4096"),
            ("-1", "`-1` is negative; sizes, durations and rates start at 0"),
            ("16x", "`16x`: there is no unit `x`; use one of b, k, m, g, t, p (also kb, KiB ...)"),
            ("16kk", "`16kk`: there is no unit `kk`; use one of b, k, m, g, t, p (also kb, KiB ...)"),
            ("1.5", "`1.5` has a fraction of a byte; give a whole number, or a unit such as k"),
            ("1.2.3k", "`1.2.3k`: there is no unit `.3k`; use one of b, k, m, g, t, p (also kb, KiB ...)"),
            ("20000P", "`20000P` is too large; the limit is 16 EiB (2^64 - 1 bytes)"),
            (
                "16\u{e4}",
                "`16\u{e4}`: there is no unit `\u{e4}`; use one of b, k, m, g, t, p (also kb, KiB ...)",
            ),
        ] {
            let error = parse_bytes(text).map_err(|error| error.to_string());
            assert_eq!(error, Err(message.into()), "{text}");
        }
        let many_nines = "9".repeat(60);
        assert!(matches!(parse_bytes(&many_nines), Err(UnitError::TooLarge { .. })));
    }

    #[test]
    fn durations_are_read() {
        for (text, nanoseconds) in [
            ("30", 30_000_000_000),
            ("30s", 30_000_000_000),
            ("0.5", 500_000_000),
            ("1.5m", 90_000_000_000),
            ("5min", 300_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1h 30m 5s", 5_405_000_000_000),
            ("250ms", 250_000_000),
            ("10us", 10_000),
            ("7ns", 7),
            ("1d", 86_400_000_000_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn wrong_durations_say_what_would_be_right() {
        for (text, message) in [
            ("", "nothing here; write a number such as 30s, 5m, 1h30m or 250ms"),
            ("soon", "`soon` is not a number; write one such as 30s, 5m, 1h30m or 250ms"),
            ("-5s", "`-5s` is negative; sizes, durations and rates start at 0"),
            ("5y", "`5y`: there is no unit `y`; use one of ns, us, ms, s, m (min), h, d"),
            ("1h30", "`1h30`: there is no unit ``; use one of ns, us, ms, s, m (min), h, d"),
            ("1000000d", "`1000000d` is too large; the limit is 2^64 - 1 nanoseconds (584 years)"),
        ] {
            let error = parse_duration(text).map_err(|error| error.to_string());
            assert_eq!(error, Err(message.into()), "{text}");
        }
    }

    #[test]
    fn latencies_say_their_unit() {
        assert_eq!(parse_latency(" 1.5ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(parse_latency("80us"), Ok(Duration::from_micros(80)));
        for text in ["1", "1.", "1h30"] {
            let error = parse_latency(text).map_err(|error| error.to_string());
            let wanted = format!("`{text}`: there is no unit ``; use one of ns, us, ms, s, m (min), h, d");
            assert_eq!(error, Err(wanted));
        }
    }

    #[test]
    fn rates_are_read() {
        for (text, bytes) in [
            ("1B/s", 1),
            ("1kB/s", 1_000),
            ("1KB/s", 1_000),
            ("500MB/s", 500_000_000),
            ("1.5 GB/s", 1_500_000_000),
            ("2TB/s", 2_000_000_000_000),
            ("100mbit", 12_500_000),
            ("100Mbit/s", 12_500_000),
            ("1gbit", 125_000_000),
            ("1kbit", 125),
            ("0.5B/s", 0),
        ] {
            assert_eq!(parse_rate(text), Ok(bytes), "{text}");
        }
        for (text, message) in [
            ("", "nothing here; write a number such as 500MB/s, 1.5GB/s or 100mbit"),
            ("fast", "`fast` is not a number; write one such as 500MB/s, 1.5GB/s or 100mbit"),
            ("-1B/s", "`-1B/s` is negative; sizes, durations and rates start at 0"),
            (
                "1Mb/s",
                "`1Mb/s`: there is no unit `Mb/s`; use one of B/s, kB/s, MB/s, GB/s, TB/s, kbit, mbit, gbit",
            ),
            ("5", "`5`: there is no unit ``; use one of B/s, kB/s, MB/s, GB/s, TB/s, kbit, mbit, gbit"),
            ("99999999999TB/s", "`99999999999TB/s` is too large; the limit is 2^64 - 1 bits in a second"),
        ] {
            assert_eq!(parse_rate(text).map_err(|error| error.to_string()), Err(message.into()), "{text}");
        }
    }

    #[test]
    fn sizes_and_durations_are_written() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1KiB"),
            (1536, "1.5KiB"),
            (16 << 10, "16KiB"),
            (3 << 29, "1536MiB"),
            (1_500_000_000, "1.4GiB"),
            (u64::MAX, "16384.0PiB"),
        ] {
            assert_eq!(format_bytes(bytes), text);
        }
        assert_eq!(format_duration(Duration::ZERO), "0s");
        assert_eq!(format_duration(Duration::from_millis(5_400_250)), "1h30m250ms");
        assert_eq!(format_duration(Duration::from_nanos(1)), "1ns");
    }

    proptest! {
        #[test]
        fn durations_come_back(nanoseconds: u64) {
            let duration = Duration::from_nanos(nanoseconds);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn sizes_come_back_within_a_twentieth(bytes: u64) {
            let back = parse_bytes(&format_bytes(bytes)).or_else(|error| match error {
                // The largest ones are rounded up beyond the limit.
                UnitError::TooLarge { .. } => Ok(u64::MAX),
                error => Err(error),
            });
            prop_assert!(back.is_ok_and(|back| back.abs_diff(bytes) <= bytes / 20));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,12}|[0-9.]{0,40}[a-zA-Z ]{0,4}[0-9]{0,3}") {
            let _ = parse_bytes(&text);
            let _ = parse_duration(&text);
        }
    }
}
