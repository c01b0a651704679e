//! `runs`: lists stored runs, deletes one.

use lab::Store;

use crate::options::{self, Options};
use crate::screen::{self, Exit, bad_input};

/// Lists or deletes.
pub fn runs(options: &Options, arguments: &options::Runs) -> anyhow::Result<Exit> {
    let mut store = Store::open(&crate::run::home(options)?)?;
    if let Some(wanted) = &arguments.delete {
        let id = store.delete(wanted).map_err(bad_input)?;
        screen::print(&format!("deleted run {id}"))?;
        return Ok(Exit::Done);
    }
    let runs = store.runs()?;
    if runs.is_empty() {
        screen::print("no runs yet: `loadline run workloads/varmail.f --on ext4,xfs,btrfs` makes one")?;
    }
    for run in runs {
        let state = if run.finished.is_some() { "complete" } else { "unfinished" };
        screen::print(&format!(
            "{}  {:>10}  {:>3}/{:<3} trials  {}",
            run.id, state, run.trials_done, run.trials_planned, run.title
        ))?;
    }
    Ok(Exit::Done)
}
