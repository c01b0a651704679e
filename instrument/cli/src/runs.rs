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
        screen::print("no runs yet: `loadline run varmail --on ext4,xfs,btrfs` makes one")?;
    }
    let shown = |run: &lab::store::Summary| {
        let words = arguments.filter.as_deref().unwrap_or_default();
        lab::store::is_meant(words, &run.id, run.name.as_deref(), &run.title)
    };
    for run in runs.into_iter().filter(shown) {
        let name = run.name.map_or(String::new(), |name| format!("{name}: "));
        let state = if run.finished.is_some() { "complete" } else { "unfinished" };
        screen::print(&format!(
            "{}  {:>10}  {:>3}/{:<3} trials  {name}{}",
            run.id, state, run.trials_done, run.trials_planned, run.title
        ))?;
    }
    Ok(Exit::Done)
}
