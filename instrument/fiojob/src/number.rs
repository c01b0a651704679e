//! fio's numbers: `4k` is 4,096; `30s`, `500ms`; `0x10`.

/// An integer with a suffix of powers of 1,024: k, m, g, t, p, with or without `b` or `ib`, in any case.
///
/// # Errors
/// What is wrong with it, as a sentence.
pub fn integer(word: &str) -> Result<u64, String> {
    let wrong = || format!("`{word}` is not a number; write 4096, 4k, 1m, 0x1000");
    let lower = word.trim().to_ascii_lowercase();
    if let Some(hexadecimal) = lower.strip_prefix("0x") {
        return u64::from_str_radix(hexadecimal, 16).map_err(|_| wrong());
    }
    let digits = lower.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let power = match lower[digits.len()..].trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    1024u64
        .checked_pow(power)
        .and_then(|unit| number.checked_mul(unit))
        .ok_or_else(|| format!("{word} is too large"))
}

/// Whole seconds of a time: bare numbers are seconds; d, h, m, s, ms, us.
///
/// # Errors
/// What is wrong with it; a part of a second.
pub fn seconds(word: &str) -> Result<u64, String> {
    let wrong = || format!("`{word}` is not a time; write 30, 30s, 5m, 1h");
    let lower = word.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let microseconds = match &lower[digits.len()..] {
        "" | "s" | "sec" => 1_000_000,
        "us" | "usec" => 1,
        "ms" | "msec" => 1_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(wrong()),
    };
    let all = number.checked_mul(microseconds).ok_or_else(|| format!("{word} is too long"))?;
    if all % 1_000_000 != 0 {
        return Err(format!("{word}: whole seconds only; `--for` takes parts of one"));
    }
    Ok(all / 1_000_000)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_suffixes_of_1024() {
        for (word, value) in
            [("4k", 4096), ("1M", 1 << 20), ("2GiB", 2 << 30), ("512", 512), ("0x10", 16), ("3kb", 3072)]
        {
            assert_eq!(integer(word), Ok(value), "{word}");
        }
        for wrong in ["", "k", "4x", "-1", "1.5k", "99999999p", "$ncpus"] {
            assert!(integer(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_seconds() {
        for (word, value) in [("30", 30), ("30s", 30), ("2m", 120), ("1h", 3600), ("3000ms", 3)] {
            assert_eq!(seconds(word), Ok(value), "{word}");
        }
        for wrong in ["", "1500ms", "1y", "s", "99999999999999999d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert!(boolean("1").unwrap() && boolean("yes").is_err());
    }
}
