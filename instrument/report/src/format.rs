//! How numbers are written: three significant digits, a blank before the unit, ASCII only.

/// Three significant digits with a decimal prefix: `474 k`, `36.5 k`, `8.12`, `0`.
///
/// Values that are not finite are written as `-`.
pub fn scaled(value: f64) -> String {
    const PREFIXES: [&str; 6] = ["", " k", " M", " G", " T", " P"];
    if !value.is_finite() {
        return "-".into();
    }
    let mut size = value.abs();
    let mut prefix = 0;
    // 999.5 would be written as 1000.
    while size >= 999.5 && prefix + 1 < PREFIXES.len() {
        size /= 1000.0;
        prefix += 1;
    }
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}{}", digits(size), PREFIXES[prefix])
}

/// Three significant digits of a value of 0 or more, without a prefix.
pub fn digits(size: f64) -> String {
    match size {
        0.0 => "0".into(),
        _ if size >= 99.95 => format!("{size:.0}"),
        _ if size >= 9.995 => format!("{size:.1}"),
        _ if size >= 0.9995 => format!("{size:.2}"),
        _ if size >= 0.001 => format!("{size:.3}"),
        _ => format!("{size:.1e}"),
    }
}

/// A duration given in nanoseconds: `850 ns`, `1.24 us`, `12.4 ms`, `1.20 s`.
pub fn duration_ns(ns: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    if !ns.is_finite() {
        return "-".into();
    }
    // Compared after rounding to three digits, so that 999.9 us becomes 1.00 ms.
    let unit = UNITS.iter().find(|(size, _)| ns.abs() >= 0.9995 * size);
    match unit {
        Some((size, name)) => format!("{} {name}", digits(ns / size)),
        None => format!("{ns:.0} ns"),
    }
}

/// A duration in whole nanoseconds that may be missing (an empty histogram): then `-`.
pub fn latency(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".into(), |ns| duration_ns(ns as f64))
}

/// A span of wall time given in seconds: `12 s`, `3 min 20 s`, `1 h 05 min`.
pub fn span_seconds(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, _) if seconds < 10.0 => format!("{} s", digits(seconds.max(0.0))),
        (0, 0, s) => format!("{s} s"),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

/// Bytes per second in MiB/s, three significant digits.
pub fn mebibytes(bytes: f64) -> String {
    if bytes.is_finite() { digits(bytes / f64::from(1 << 20)) } else { "-".into() }
}

/// A share of the best as whole percent, rounded down, so that `85 %` is never written for a share below 85 %.
/// Ceilings far above the best are written as a factor: `50 x`.
pub fn share(share: f64) -> String {
    match share {
        _ if !share.is_finite() => "-".into(),
        _ if share >= 10.0 => format!("{share:.0} x"),
        _ => format!("{:.0} %", (share * 100.0 + 1e-9).floor()),
    }
}

/// A share of operations in percent with two significant digits, never `0 %` for a share above 0.
pub fn small_share(part: u64, whole: u64) -> String {
    if whole == 0 || part == 0 {
        return "0 %".into();
    }
    let percent = part as f64 * 100.0 / whole as f64;
    match percent {
        _ if percent >= 9.95 => format!("{percent:.0} %"),
        _ if percent >= 0.1 => format!("{percent:.1} %"),
        _ => "<0.1 %".into(),
    }
}

/// A ratio: `1.84`, `0.97`, `12.3`, `0.003`.
pub fn ratio(value: f64) -> String {
    if !value.is_finite() {
        "-".into()
    } else if !(0.0995..9.995).contains(&value) {
        digits(value)
    } else {
        format!("{value:.2}")
    }
}

/// A p-value; never written as 0.
pub fn p_value(p: f64) -> String {
    if p < 0.001 { "<0.001".into() } else { format!("{p:.3}") }
}

/// A whole number with commas between groups of three digits: `4,745,767`.
pub fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut text = String::with_capacity(plain.len() + plain.len() / 3);
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && (plain.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 trial`, `5 trials`.
pub fn plural(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// A line that a POSIX shell reads as these words.
pub fn shell_line(words: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=+:,./@%".contains(c))
    };
    let quote = |word: &String| {
        if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_prefix() {
        let cases = [
            (0.0, "0"),
            (0.0123, "0.012"),
            (0.5, "0.500"),
            (8.123, "8.12"),
            (9.996, "10.0"),
            (99.96, "100"),
            (812.4, "812"),
            (999.6, "1.00 k"),
            (36_456.0, "36.5 k"),
            (4_745_767.0, "4.75 M"),
            (-1_500.0, "-1.50 k"),
            (f64::NAN, "-"),
        ];
        for (value, text) in cases {
            assert_eq!(scaled(value), text, "{value}");
        }
    }

    #[test]
    fn durations_take_the_unit_that_leaves_three_digits() {
        let cases = [
            (0.0, "0 ns"),
            (850.0, "850 ns"),
            (999.9, "1.00 us"),
            (1_240.0, "1.24 us"),
            (12.44e6, "12.4 ms"),
        ];
        for (ns, text) in cases {
            assert_eq!(duration_ns(ns), text, "{ns}");
        }
        assert_eq!(duration_ns(125e9), "125 s");
        assert_eq!(latency(None), "-");
    }

    #[test]
    fn shares_are_never_rounded_up_across_a_threshold() {
        assert_eq!(share(0.8499), "84 %");
        assert_eq!(share(0.85), "85 %");
        assert_eq!(share(0.29999), "29 %");
        assert_eq!(share(0.29), "29 %", "0.29 * 100 is 28.999999999999996");
        assert_eq!(small_share(1, 1_000_000), "<0.1 %");
        assert_eq!(small_share(0, 0), "0 %");
        assert_eq!(small_share(21, 1000), "2.1 %");
    }

    #[test]
    fn small_ratios_are_not_nothing() {
        let cases = [(0.003, "0.003"), (0.0123, "0.012"), (0.000_1, "1.0e-4"), (0.12, "0.12"), (0.0, "0")];
        for (value, text) in cases {
            assert_eq!(ratio(value), text);
        }
    }

    #[test]
    fn counts_spans_and_shell_lines() {
        assert_eq!((count(0), count(999), count(1_000)), ("0".into(), "999".into(), "1,000".into()));
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(span_seconds(3.2), "3.20 s");
        assert_eq!(span_seconds(200.0), "3 min 20 s");
        assert_eq!(span_seconds(3_900.0), "1 h 05 min");
        let words = ["loadline", "run", "it's here.toml", "--on", "ext4,data=journal@image:2G", ""];
        let line = shell_line(&words.map(String::from));
        assert_eq!(line, r"loadline run 'it'\''s here.toml' --on ext4,data=journal@image:2G ''");
    }
}
