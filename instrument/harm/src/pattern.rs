//! Names of patterns and devices, as the command line has them.

use std::str::FromStr;

use crate::HarmError;
use crate::order;

/// One pattern of the reader: name, threads, block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// As the reader calls it.
    pub name: String,
    /// Threads.
    pub threads: u64,
    /// Bytes of a read, KiB.
    pub block_kib: u64,
    /// One descriptor for all threads.
    pub shared: bool,
}

const PATTERNS: &str = "seq:1,seq,seq:4:4,reverse,stride,small-stride:4:16,interleaved,interleaved:4:64:shared,\
    permutation,windows,runs,random:4:4,random:1:64,variable,hot:2:4";
const DEVICES: &str = "raw,slow(100us,3GB/s),slow(1ms,1GB/s),slow(20ms,400MB/s),slow(1ms,250MB/s)";
const HELD_OUT_PATTERNS: &str = "zipf:4:4,phases,gaps,two-strides,backward-stride,pingpong,btree:4:4,burst:2";
const HELD_OUT_DEVICES: &str = "slow(300us,600MB/s),slow(5ms,200MB/s)";

/// The device that is this machine's own file system.
pub const RAW: &str = "raw";

/// Reads `matrix`, `held-out`, or a list of devices separated by commas outside of parentheses.
pub fn devices(text: &str) -> Vec<String> {
    match text {
        "matrix" => list(DEVICES),
        "held-out" => list(HELD_OUT_DEVICES),
        names => list(names),
    }
}

/// Reads `matrix`, `held-out`, or a list of `NAME[:THREADS[:BLOCK_KIB[:shared]]]`.
///
/// # Errors
/// [`HarmError::Input`] for what is no pattern.
pub fn patterns(text: &str) -> Result<Vec<Pattern>, HarmError> {
    let text = match text {
        "matrix" => PATTERNS,
        "held-out" => HELD_OUT_PATTERNS,
        names => names,
    };
    text.split(',').map(str::parse).collect()
}

/// Reads percents of the file, and `none` for no limit.
///
/// # Errors
/// [`HarmError::Input`] for what is neither.
pub fn memory(text: &str) -> Result<Vec<Option<u64>>, HarmError> {
    let percent = |word: &str| match word.trim_end_matches('%').parse() {
        _ if word == "none" => Ok(None),
        Ok(percent) if percent > 0 => Ok(Some(percent)),
        _ => Err(HarmError::Input(format!("{word}: say percents of the file, or none, such as none,50,25"))),
    };
    text.split(',').map(percent).collect()
}

fn list(text: &str) -> Vec<String> {
    let mut depth = 0;
    text.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    })
    .map(str::to_owned)
    .collect()
}

impl FromStr for Pattern {
    type Err = HarmError;

    fn from_str(text: &str) -> Result<Pattern, HarmError> {
        let wrong = |what: &str| {
            let known = order::NAMES.join(", ");
            HarmError::Input(format!(
                "{text}: {what}; say NAME[:THREADS[:BLOCK_KIB[:shared]]] with one of {known}"
            ))
        };
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default().to_owned();
        if !order::NAMES.contains(&name.as_str()) {
            return Err(wrong("no such pattern"));
        }
        let mut number = |default| match words.next().map_or(Ok(default), str::parse::<u64>) {
            Ok(number) if (1..=1024).contains(&number) => Ok(number),
            _ => Err(wrong("threads and KiB are numbers from 1 to 1024")),
        };
        let (threads, block_kib) = (number(4)?, number(64)?);
        let shared = match words.next() {
            None => false,
            Some("shared") => true,
            Some(_) => return Err(wrong("only `shared` may follow")),
        };
        if block_kib % 4 != 0 {
            return Err(wrong("a block is a multiple of 4 KiB"));
        }
        Ok(Pattern { name, threads, block_kib, shared })
    }
}

impl Pattern {
    /// How tables call it: what is not said is 4 threads, 64 KiB, a descriptor a thread.
    pub fn title(&self) -> String {
        let threads = match self.threads {
            1 => ", 1 thread".into(),
            4 => String::new(),
            n => format!(", {n} threads"),
        };
        let block = if self.block_kib == 64 { String::new() } else { format!(", {} KiB", self.block_kib) };
        let shared = if self.shared { ", one descriptor" } else { "" };
        format!("{}{threads}{block}{shared}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_within_parentheses_separate_nothing() {
        assert_eq!(devices("raw,slow(1ms,1GB/s)"), ["raw", "slow(1ms,1GB/s)"]);
        assert_eq!(devices("matrix").len(), 5);
        assert_eq!(devices("held-out").len(), 2);
    }

    #[test]
    fn a_pattern_says_only_what_is_unusual() {
        let title = |text: &str| text.parse::<Pattern>().unwrap().title();
        assert_eq!(title("seq"), "seq");
        assert_eq!(title("seq:1"), "seq, 1 thread");
        assert_eq!(title("hot:2:4"), "hot, 2 threads, 4 KiB");
        assert_eq!(title("interleaved:4:64:shared"), "interleaved, one descriptor");
        assert_eq!(patterns("matrix").unwrap().len(), 15);
        assert_eq!(patterns("held-out").unwrap().len(), 8);
    }

    #[test]
    fn wrong_words_name_what_would_be_right() {
        for text in ["sequential", "seq:many", "seq:0", "seq:4:3", "seq:4:64:own", ""] {
            let said = text.parse::<Pattern>().unwrap_err().to_string();
            assert!(said.contains("NAME[:THREADS") && said.contains("small-stride"), "{said}");
        }
        assert!(memory("none,x").unwrap_err().to_string().contains("none,50,25"));
        assert!(memory("0").is_err());
        assert_eq!(memory("none,25,75%").unwrap(), [None, Some(25), Some(75)]);
    }
}
