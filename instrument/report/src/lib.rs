//! Tables, HTML, CSV, JSON and Filebench text from stored results.
//!
//! Every function here is a pure function of stored records: it returns text and reads nothing else. The numbers
//! are computed in one place, [`view`], so that the terminal, the page and the machine-readable forms agree.
//!
//! | module | holds |
//! |---|---|
//! | [`view`] | what a run says: the grid of stacks and loads, shares, verdicts, notices, the answer in a sentence |
//! | [`evaluation`] | what a published evaluation says: its tables, figures, result files |
//! | [`sheet`] | a table as a model, from which terminal and page are drawn |
//! | `plot`, `ink` | drawings: scales, ticks, SVG; the colour and dash of a stack |
//! | [`terminal`] | tables for people: the compleat table, the summary, comparisons, claims |
//! | [`html`] | one self-contained page: tables and charts, readable without scripts and on paper |
//! | [`json`], [`csv`] | for programs; the forms are described in `docs/formats.md` |
//! | [`data`] | trials, series and histograms as tables with typed columns: CSV and Parquet |
//! | [`filebench`] | the text that Filebench 1.5 prints, for parsers that expect it |
//! | [`fsync`], [`cache_table`], [`fuse_table`] | what `loadline explain` shows |
//! | [`harm`] | what `loadline prefetch harm` and `prefetch compare` show |
//! | [`trend`] | what `loadline trend` shows: terminal, drawing, page |
//! | [`turns`] | what `loadline ab` shows |
//! | [`hdr`] | histograms as an HdrHistogram log |
//! | [`load_curve`] | what a sweep of offered rates says: table, CSV, JSON, drawing |
//! | [`scaling`] | what a simulation of containers says: table, CSV, JSON, drawing |
//! | [`web`] | the pages of `loadline serve` |
//! | [`format`](mod@format) | how numbers are written |

pub mod cache_table;
pub mod csv;
pub mod data;
pub mod evaluation;
pub mod filebench;
pub mod format;
pub mod fsync;
pub mod fuse_table;
pub mod harm;
pub mod hdr;
pub mod html;
mod ink;
pub mod json;
pub mod load_curve;
mod plot;
pub mod scaling;
pub mod sheet;
pub mod terminal;
pub mod trend;
pub mod turns;
pub mod view;
pub mod web;
