//! The evaluation of "CrossPrefetch: Accelerating I/O Prefetching for Modern Storage" (ASPLOS 2024, doi
//! 10.1145/3617232.3624872) with loadline's own prefetcher on a stock kernel.
//!
//! | module | holds |
//! |---|---|
//! | [`rows`] | the paper's five configurations, and two baselines that it lacks |
//! | [`columns`] | the columns: figure, unit, load; what cannot run anywhere yet |
//! | [`scale`] | sizes as ratios of memory |
//! | [`plan`] | the study: loads of crate `apps`, the configuration as a parameter |
//! | [`grid`] | rows x columns from a stored run: by wall time, by the artifact's timer, costs |
//! | [`published`] | figures of the artifact's repository and README, and what they rest on |
//! | [`claims`] | the published gains against the grid |
//! | [`terminal`], [`html`], [`svg`], [`csv`] | outputs |

pub mod claims;
pub mod columns;
pub mod csv;
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
