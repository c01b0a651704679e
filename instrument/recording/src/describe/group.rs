//! Groups: files of one directory and one order of size whose names differ in numbers only, or that share an ending. What is done
//! to a group is counted together, so that memory does not grow with openings.

use std::collections::HashMap;

/// Where a file belongs: its directory and its name, both without what changes from file to file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pattern {
    pub directory: Vec<String>,
    pub name: String,
    /// The order of size of its files, from [`order`].
    pub order: u8,
}

/// The order of a size: files of one set are to be of one, for a large file among small ones is a thousand times their calls.
pub(crate) fn order(size: u64) -> u8 {
    match size >> SMALL_BITS {
        0 => 0,
        more => (1 + more.ilog2() / ORDER_BITS) as u8,
    }
}

/// Files below 1 MiB are of one order.
const SMALL_BITS: u32 = 20;
/// A larger order holds sizes that differ by a factor of at most 64.
const ORDER_BITS: u32 = 6;

/// From so many hexadecimal digits a name is a hash.
const HASH_DIGITS: usize = 16;
/// The longest ending of a name, `.sqlite-journal` and the like.
const ENDING_MAX: usize = 14;

/// A name with `#` for each number, and for hashes.
fn generalised(name: &str) -> String {
    if name.len() >= HASH_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return "#".into();
    }
    let mut general = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter.is_ascii_digit() {
            true if general.ends_with('#') => {}
            true => general.push('#'),
            false => general.push(letter),
        }
    }
    general
}

impl Pattern {
    pub fn of(path: &[u8]) -> Pattern {
        let path = String::from_utf8_lossy(path);
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let name = parts.pop().unwrap_or_default();
        let ending = name.rsplit_once('.').filter(|(stem, ending)| {
            let begins = ending.starts_with(|letter: char| letter.is_ascii_alphabetic());
            let plain = ending.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
            !stem.is_empty() && begins && plain && ending.len() <= ENDING_MAX
        });
        let name = match ending {
            Some((_, ending)) => format!("*.{}", generalised(ending)),
            None => generalised(name),
        };
        let mut directory: Vec<String> = parts.into_iter().map(generalised).collect();
        // a tree of numbered directories is one place, whatever its depth
        while directory.last().is_some_and(|last| last == "#") {
            directory.pop();
        }
        Pattern { directory, name, order: 0 }
    }
}

/// Numbers for different values, in the order of their first use.
#[derive(Debug, Clone)]
pub(crate) struct Numbers<T> {
    numbers: HashMap<T, u32>,
    pub values: Vec<T>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Numbers { numbers: HashMap::new(), values: Vec::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbers<T> {
    pub fn of(&mut self, value: &T) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = self.values.len() as u32;
        self.numbers.insert(value.clone(), number);
        self.values.push(value.clone());
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_numbers_are_one() {
        let of = |path: &str| {
            let Pattern { directory, name, .. } = Pattern::of(path.as_bytes());
            format!("{}/{name}", directory.join("/"))
        };
        assert_eq!(of("/tmp/homes/00000001/00000017"), "tmp/homes/#");
        assert_eq!(of("/tmp/homes/1/2/3"), of("/tmp/homes/17"));
        assert_eq!(of("/var/db/app.db-wal"), "var/db/*.db-wal");
        assert_eq!(of("/src/a.c"), of("/src/b.c"));
        assert_eq!(of("/db/ib_logfile0"), "db/ib_logfile#");
        assert_eq!(of("/x/0123456789abcdef"), "x/#");
        assert_eq!(of("/x/.hidden"), "x/.hidden");
        assert_eq!((of("/"), of("")), ("/".into(), "/".into()));
    }
}
