//! The texts of /proc, /sys and tracefs.

/// The value of `key` in text of lines `key<separator>value`.
pub fn value_of<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim())
    })
}
