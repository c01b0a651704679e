//! A program that reads a file in a known pattern, to find out what prefetching does to it.
//!
//! | module | holds |
//! |---|---|
//! | [`order`] | the reads that a pattern consists of |
//! | [`mixture`] | patterns drawn from a seed |
//! | [`reader`] | the program: does them, and says how long it took |

use std::ffi::OsString;
use std::path::Path;
use std::str::FromStr;

use stats::rng::SplitMix;

use crate::AppError;

pub mod mixture;
pub mod order;
pub mod reader;

use mixture::{Mixture, MixtureParseError};
use order::{Read, Shape};

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
/// Once kept from those who chose the policy's constants. Their failures were looked into and tests assert them since:
/// they are as known as the matrix.
const RETIRED: &str = "zipf:4:4,phases,gaps,two-strides,backward-stride,pingpong,btree:4:4,burst:2";

/// Reads `matrix`, `retired`, `known` (both), or a list of `NAME[:THREADS[:BLOCK_KIB[:shared]]]`.
///
/// # Errors
/// [`AppError::Parameter`] for what is no pattern.
pub fn list(text: &str) -> Result<Vec<Pattern>, AppError> {
    let text = match text {
        "matrix" => MATRIX,
        "retired" => RETIRED,
        "known" => return Ok([list("matrix")?, list("retired")?].concat()),
        "held-out" => {
            let why = "these patterns are known by now: say `retired`, or draw new ones with --held-out SEED";
            return Err(AppError::Parameter(format!("{text}: {why}")));
        }
        names => names,
    };
    text.split(',').map(str::parse).collect()
}

/// So many patterns that nobody has seen before the seed was chosen; the same seed gives the same ones.
pub fn drawn(seed: u64, number: usize) -> Vec<Pattern> {
    let mut random = SplitMix::new(seed);
    let all = (0..number).map(|_| {
        let mixture::Drawn { mixture, threads, block_kib, shared } = mixture::draw(&mut random);
        Pattern { name: mixture.to_string(), threads, block_kib, shared }
    });
    all.collect()
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
        if name.starts_with(mixture::PREFIX) {
            let _: Mixture = name.parse().map_err(|MixtureParseError| {
                wrong("no such mixture; one is mix@SEED[wMICROSECONDS]/WALKxREADS+WALK.WALKxREADS")
            })?;
        } else if !order::NAMES.split(", ").any(|known| known == name) {
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
    /// The words after `loadline` that have it read a file and say what [`reader::parse_output`] reads.
    pub fn words(&self, file: &Path) -> Vec<OsString> {
        let (threads, block) = (self.threads.to_string(), self.block_kib.to_string());
        let before = ["prefetch".into(), "reader".into(), file.into()];
        let options = [&self.name, "--raw", "--histogram", "--threads", &threads, "--block", &block];
        let shared = self.shared.then_some("--shared");
        before.into_iter().chain(options.into_iter().chain(shared).map(OsString::from)).collect()
    }

    /// The reads of one thread of a file of `size` bytes; `None` when there is no such pattern.
    pub fn reads(&self, size: u64, thread: u64) -> Option<Vec<Read>> {
        let shape = Shape { threads: self.threads.max(1), block: self.block_kib.max(4) << 10 };
        match self.name.parse::<Mixture>() {
            Ok(mixture) => Some(mixture.reads(shape, size, thread)),
            Err(MixtureParseError) => order::reads(&self.name, shape, size, thread),
        }
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
        assert_eq!((list("retired").unwrap().len(), list("known").unwrap().len()), (8, 23));
        assert!(list("held-out").unwrap_err().to_string().contains("--held-out SEED"));
    }

    /// Another set from the same seed would not be the one that the notebook has figures of.
    #[test]
    fn a_seed_draws_the_same_patterns_for_ever() {
        let texts = |seed| -> Vec<String> {
            drawn(seed, 3)
                .iter()
                .map(|one| format!("{} {} {}", one.name, one.threads, one.block_kib))
                .collect()
        };
        assert_eq!(
            texts(1),
            [
                "mix@28571/shuffle13.hot64x231+runs10x231 4 64",
                "mix@65388/up3x857+gaps1x857+random1x857 1 64",
                "mix@56944/random1x177+hot186.down5x177 4 64"
            ]
        );
        assert_ne!(texts(1), texts(2));
        for pattern in drawn(3, 50) {
            let words = format!("{}:{}:{}", pattern.name, pattern.threads, pattern.block_kib);
            let again: Pattern =
                if pattern.shared { format!("{words}:shared") } else { words }.parse().unwrap();
            assert_eq!(again, pattern);
        }
    }

    #[test]
    fn wrong_words_name_what_would_be_right() {
        for text in ["sequential", "mix@1/aroundx3", "seq:many", "seq:0", "seq:4:3", "seq:4:64:own", ""] {
            let said = text.parse::<Pattern>().unwrap_err().to_string();
            assert!(said.contains("NAME[:THREADS") && said.contains("small-stride"), "{said}");
        }
    }
}
