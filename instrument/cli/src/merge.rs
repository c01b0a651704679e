//! `merge`: the runs of shards joined to one.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use lab::Store;
use lab::store::MergeError;

use crate::console::{self, Exit, bad_input};
use crate::options::Options;

/// Options of `merge`.
#[derive(Debug, Args)]
#[command(after_help = "\
The new run goes to the store of --home. What does not fit is refused: another study, version or number of shards, two results of
one trial. Trials that are missing are named (exit code 1); `loadline run STUDY --resume` fills them.

Examples:
  loadline merge /shared/shard1 /shared/shard2 --name whole; loadline report whole --html report.html
  loadline --home results merge shards/*")]
pub struct Merge {
    /// Stores: what --home or LOADLINE_HOME named when the shards ran
    #[arg(required = true, value_name = "STORE", value_hint = ValueHint::AnyPath)]
    pub stores: Vec<PathBuf>,
    /// Only the study whose hash begins so
    #[arg(long, value_name = "HASH")]
    pub study: Option<String>,
    /// A name for the new run
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

/// Joins, and says what came of it.
pub fn merge(options: &Options, arguments: &Merge) -> anyhow::Result<Exit> {
    if let Some(name) = &arguments.name {
        lab::store::check_name(name).map_err(bad_input)?;
    }
    let mut store = Store::open(&crate::run::home(options)?)?;
    let words: Vec<String> = std::env::args().collect();
    let merged =
        store.merge(&arguments.stores, arguments.study.as_deref(), &words).map_err(|error| match error {
            MergeError::Store(error) => error.into(),
            other => bad_input(other),
        })?;
    if let Some(name) = &arguments.name {
        store.name(&merged.run, name)?;
    }
    console::print(&format!(
        "run {}: {} runs joined, {} of {} trials have a result ({} met twice)",
        merged.run, merged.parts, merged.done, merged.planned, merged.repeated
    ))?;
    for (shard, trials) in &merged.holes {
        console::print(&format!("shard {shard}/{}: {trials} trials are missing", merged.shards))?;
    }
    Ok(if merged.holes.is_empty() { Exit::Done } else { Exit::Failed })
}
