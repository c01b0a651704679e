//! A program that reads a file in a known pattern, to find out what prefetching does to it.
//!
//! | module | holds |
//! |---|---|
//! | [`order`] | the reads that a pattern consists of |
//! | [`reader`] | the program: does them, and says how long it took |

use std::ffi::OsString;
use std::path::Path;
use std::str::FromStr;

use crate::AppError;

pub mod order;
pub mod reader;

pub use reader::Reader;

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

const MATRIX: &str = "seq:1,seq,seq:4:4,reverse,stride,small-stride:4:16,interleaved,interleaved:4:64:shared,\
    permutation,windows,runs,random:4:4,random:1:64,variable,hot:2:4";
const HELD_OUT: &str = "zipf:4:4,phases,gaps,two-strides,backward-stride,pingpong,btree:4:4,burst:2";

/// Reads `matrix`, `held-out`, or a list of `NAME[:THREADS[:BLOCK_KIB[:shared]]]`.
///
/// # Errors
/// [`AppError::Parameter`] for what is no pattern.
pub fn list(text: &str) -> Result<Vec<Pattern>, AppError> {
    let text = match text {
        "matrix" => MATRIX,
        "held-out" => HELD_OUT,
        names => names,
    };
    text.split(',').map(str::parse).collect()
}

impl FromStr for Pattern {
    type Err = AppError;

    fn from_str(text: &str) -> Result<Pattern, AppError> {
        let wrong = |what: &str| {
            let known = order::NAMES;
            AppError::Parameter(format!(
                "{text}: {what}; say NAME[:THREADS[:BLOCK_KIB[:shared]]] with one of {known}"
            ))
        };
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default().to_owned();
        if !order::NAMES.split(", ").any(|known| known == name) {
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
    /// The words after `loadline` that have it read a file and say what [`reader::told`] reads.
    pub fn words(&self, file: &Path) -> Vec<OsString> {
        let (threads, block) = (self.threads.to_string(), self.block_kib.to_string());
        let before = ["prefetch".into(), "reader".into(), file.into()];
        let options = [&self.name, "--raw", "--histogram", "--threads", &threads, "--block", &block];
        let shared = self.shared.then_some("--shared");
        before.into_iter().chain(options.into_iter().chain(shared).map(OsString::from)).collect()
    }

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
    fn a_pattern_says_only_what_is_unusual() {
        let title = |text: &str| text.parse::<Pattern>().unwrap().title();
        assert_eq!(title("seq"), "seq");
        assert_eq!(title("seq:1"), "seq, 1 thread");
        assert_eq!(title("hot:2:4"), "hot, 2 threads, 4 KiB");
        assert_eq!(title("interleaved:4:64:shared"), "interleaved, one descriptor");
        assert_eq!(list("matrix").unwrap().len(), 15);
        assert_eq!(list("held-out").unwrap().len(), 8);
    }

    #[test]
    fn wrong_words_name_what_would_be_right() {
        for text in ["sequential", "seq:many", "seq:0", "seq:4:3", "seq:4:64:own", ""] {
            let said = text.parse::<Pattern>().unwrap_err().to_string();
            assert!(said.contains("NAME[:THREADS") && said.contains("small-stride"), "{said}");
        }
    }
}
