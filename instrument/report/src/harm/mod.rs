//! Programs without and with the prefetching library in turns.
//!
//! | module | holds |
//! |---|---|
//! | [`cells`] | a matrix of known programs: lines of a CSV file, tables of markdown |
//! | [`program`] | one program of the user's own |

pub mod cells;
pub mod program;
