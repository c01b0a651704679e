//! Published evaluations as one command: Table 3 and Figure 2 of "BetrFS: A Compleat File System for Commodity SSDs"
//! (Jiao et al., EuroSys 2022, doi 10.1145/3492321.3519571).
//!
//! A run of it is an ordinary run of crate `lab`: this crate writes the study and reads the stored run. Everything but
//! [`plan::study`] is a pure function of stored records.
//!
//! | module | holds |
//! |---|---|
//! | [`rows`] | the thirteen rows: artifact names, stacks, or why there is none |
//! | [`columns`] | the columns: artifact names, units, which load measures them |
//! | [`scale`] | sizes as ratios of memory and device |
//! | [`plan`] | the study: loads of crate `apps` and Filebench personalities on the rows' stacks |
//! | [`grid`] | rows x columns from a stored run: medians, shares of the best, compleat |
//! | [`claims`] | the paper's claims against the grid |
//! | [`explain`] | what the counters say about a bad cell |
//! | [`published`] | the paper's cell values, where a person has them |
//! | [`terminal`], [`html`], [`svg`], [`csv`] | outputs |

pub mod claims;
pub mod columns;
pub mod csv;
pub mod explain;
pub mod grid;
pub mod html;
pub mod plan;
pub mod published;
pub mod rows;
pub mod scale;
pub mod svg;
pub mod terminal;

pub use columns::{COLUMNS, Column, Group};
pub use grid::Grid;
pub use plan::{Request, study};
pub use rows::{ROWS, Row};
pub use scale::{Scale, Sizes};

/// What is wrong with a request.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// A row, column or scale that does not exist.
    #[error("{0}")]
    Unknown(String),
    /// A stack that cannot be written.
    #[error("{0}")]
    Stack(#[from] stack::ParseError),
    /// A file of published values that cannot be read.
    #[error("published values, line {line}: {why}")]
    Published {
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}
