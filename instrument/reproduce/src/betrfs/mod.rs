//! Table 3 and Figure 2 of "BetrFS: A Compleat File System for Commodity SSDs" (Jiao et al., EuroSys 2022, doi
//! 10.1145/3492321.3519571).
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
pub use scale::Sizes;
