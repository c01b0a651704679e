//! The texts of /proc, /sys and tracefs.

/// The value of `key` in text of lines `key<separator>value`.
pub fn value_of<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// The bytes of `key` in /proc/meminfo, whose values are in KiB.
pub fn kib_of(meminfo: &str, key: &str) -> Option<u64> {
    let value = value_of(meminfo, key, ':')?;
    value.strip_suffix("kB").unwrap_or(value).trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_lines_are_in_bytes() {
        assert_eq!(kib_of("MemTotal:       24684084 kB\n", "MemTotal"), Some(24_684_084 * 1024));
        assert_eq!(kib_of("MemTotal: kB\n", "MemTotal"), None);
    }
}
