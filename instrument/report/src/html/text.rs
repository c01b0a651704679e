//! Typographic signs.

/// Typographic signs instead of the ASCII of the terminal.
pub(super) fn pretty(text: &str) -> String {
    text.replace(" us", " \u{b5}s").replace(" .. ", " \u{2013} ").replace(' ', "\u{a0}")
}

/// The same for running text: lines may break, but not between a number and its unit.
pub(super) fn prose(text: &str) -> String {
    let mut parts = text.split(' ');
    let mut prose = parts.next().unwrap_or_default().to_string();
    for word in parts {
        let bare = word.trim_end_matches([',', ';', '.', ')', '(']);
        let after_number = prose.ends_with(|c: char| c.is_ascii_digit());
        let is_unit = after_number && ["%", "ns", "us", "ms", "s", "k", "M", "G"].contains(&bare);
        prose.push(if is_unit { '\u{a0}' } else { ' ' });
        match word.strip_prefix("us") {
            Some(rest) if is_unit => prose.extend(["\u{b5}s", rest]),
            _ => prose.push_str(word),
        }
    }
    prose
}
