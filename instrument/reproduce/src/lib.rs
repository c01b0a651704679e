//! Published evaluations as one command.
//!
//! A run of one is an ordinary run of crate `lab`: this crate writes the study and reads the stored run. Everything
//! but the studies is a pure function of stored records.
//!
//! | module | holds |
//! |---|---|
//! | [`betrfs`] | BetrFS (EuroSys 2022): Table 3 and Figure 2 |
//! | [`crossprefetch`] | CrossPrefetch (ASPLOS 2024): figures 5 to 9, table 4 |
//! | [`cell`] | why a cell has no value; the values of one that has |
//! | [`judged`] | a claim with its answer |
//! | [`text`] | numbers and sections for terminals |
//! | [`markup`] | pages and drawings: escaping, lists, the frame of a page |

pub mod betrfs;
pub mod cell;
pub mod crossprefetch;
pub mod judged;
pub mod markup;
pub mod text;

pub use judged::Judged;

/// How large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Some minutes.
    Quick,
    /// Within an hour.
    Default,
    /// The original sizes as far as the machine has room.
    Paper,
}

impl Scale {
    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Scale::Quick => "quick",
            Scale::Default => "default",
            Scale::Paper => "paper",
        }
    }

    /// The scale that a run was planned at: its title ends with the word in brackets.
    pub fn of_title(title: &str) -> Option<Scale> {
        [Scale::Quick, Scale::Default, Scale::Paper]
            .into_iter()
            .find(|scale| title.ends_with(&format!("({})", scale.word())))
    }
}

/// What is wrong with a request.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// A row, column or scale that does not exist.
    #[error("{0}")]
    Unknown(String),
    /// A stack that cannot be written.
    #[error("{0}")]
    Stack(#[from] spec::ParseError),
    /// A file of published values that cannot be read.
    #[error("published values, line {line}: {why}")]
    Published {
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// The items in their order, each once.
pub(crate) fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}
