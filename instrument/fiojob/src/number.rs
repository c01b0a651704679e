//! fio's numbers: `4k` is 4,096; `4KiB` is 4,000 unless `kb_base=1000` turns the two round; `30s`, `500ms`; `0x10`; `50%`.

/// What `k` and `ki` stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Base {
    /// `k` is 1,024, `ki` 1,000: fio's default, against the standard.
    #[default]
    Compatible,
    /// `k` is 1,000, `ki` 1,024 (`kb_base=1000`).
    Standard,
}

/// An integer with a suffix: k, m, g, t, p, with or without `b` or `ib`, in any case.
///
/// # Errors
/// What is wrong with it, as a sentence.
pub fn integer(word: &str, base: Base) -> Result<u64, String> {
    let wrong = || format!("`{word}` is not a number; write 4096, 4k, 1m, 0x1000");
    let lower = word.trim().to_ascii_lowercase();
    if let Some(hexadecimal) = lower.strip_prefix("0x") {
        return u64::from_str_radix(hexadecimal, 16).map_err(|_| wrong());
    }
    let digits = lower.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let suffix = lower[digits.len()..].trim_end_matches('b');
    let (prefix, binary) = match suffix.strip_suffix('i') {
        Some(prefix) if !prefix.is_empty() => (prefix, base == Base::Standard),
        Some(_) => return Err(wrong()),
        None => (suffix, base == Base::Compatible),
    };
    let power = match prefix {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let unit: u64 = if binary { 1024 } else { 1000 };
    let scaled = unit.checked_pow(power).and_then(|unit| number.checked_mul(unit));
    scaled.ok_or_else(|| format!("{word} is too large"))
}

/// Microseconds of a time; bare numbers are of `unit` microseconds; d, h, m, s, ms, us.
///
/// # Errors
/// What is wrong with it.
pub fn microseconds(word: &str, unit: u64) -> Result<u64, String> {
    let wrong = || format!("`{word}` is not a time; write 30, 30s, 5m, 1h, 500ms");
    let lower = word.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let microseconds = match &lower[digits.len()..] {
        "" => unit,
        "s" | "sec" | "seconds" => 1_000_000,
        "us" | "usec" => 1,
        "ms" | "msec" => 1_000,
        "m" | "min" => 60_000_000,
        "h" | "hours" => 3_600_000_000,
        "d" | "days" => 86_400_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(microseconds).ok_or_else(|| format!("{word} is too long"))
}

/// Seconds of a time: bare numbers are seconds.
///
/// # Errors
/// What is wrong with it.
pub fn seconds(word: &str) -> Result<f64, String> {
    Ok(microseconds(word, 1_000_000)? as f64 / 1e6)
}

/// `0` or `1`.
///
/// # Errors
/// Anything else.
pub fn boolean(word: &str) -> Result<bool, String> {
    match word.trim() {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(format!("`{other}` is neither 0 nor 1")),
    }
}

/// A percentage, with or without `%`.
///
/// # Errors
/// No number from 0 to 100.
pub fn percent(word: &str) -> Result<u64, String> {
    match integer(word.trim().trim_end_matches('%'), Base::Compatible)? {
        share @ 0..=100 => Ok(share),
        other => Err(format!("{other} is no percentage")),
    }
}

/// A number with a fraction.
///
/// # Errors
/// No such number.
pub fn fraction(word: &str) -> Result<f64, String> {
    let number = word.trim().parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| format!("`{word}` is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_those_of_fio() {
        for (word, compatible, standard) in [
            ("4k", 4096, 4000),
            ("1M", 1 << 20, 1_000_000),
            ("2GiB", 2_000_000_000, 2 << 30),
            ("4KiB", 4000, 4096),
            ("512", 512, 512),
            ("0x10", 16, 16),
            ("3kb", 3072, 3000),
        ] {
            assert_eq!(integer(word, Base::Compatible), Ok(compatible), "{word}");
            assert_eq!(integer(word, Base::Standard), Ok(standard), "{word}");
        }
        for wrong in ["", "k", "4x", "-1", "1.5k", "99999999p", "$ncpus", "4i"] {
            assert!(integer(wrong, Base::Compatible).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_a_unit() {
        for (word, value) in [("30", 30.0), ("30s", 30.0), ("2m", 120.0), ("1h", 3600.0), ("1500ms", 1.5)] {
            assert_eq!(seconds(word), Ok(value), "{word}");
        }
        assert_eq!(microseconds("20", 1), Ok(20));
        for wrong in ["", "1y", "s", "99999999999999999d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert!(boolean("1").unwrap() && boolean("yes").is_err());
        assert!(percent("50%") == Ok(50) && percent("101").is_err());
    }
}
