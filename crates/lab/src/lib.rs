//! Studies, plans, trials and the store: from a question to evidence.
//!
//! | module | holds |
//! |---|---|
//! | [`record`] | stored results as plain data: runs, cells, trials. What `report` draws |

pub mod record;
