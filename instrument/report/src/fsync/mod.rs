//! Where the time of an fsync goes, drawn.
//!
//! | module | holds |
//! |---|---|
//! | [`terminal`] | the table of the parts, the waterfall of one fsync |
//! | [`flame`] | all fsyncs as a picture, level below level |
//! | [`svg`] | the waterfall as a picture |
//! | [`artifact`] | the tables of the OPIMQ artifact |

pub mod artifact;
pub mod flame;
pub mod svg;
pub mod terminal;
