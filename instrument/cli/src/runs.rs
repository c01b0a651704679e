//! `runs`: lists stored runs, deletes one.

use lab::Store;

use crate::console::{self, Exit, bad_input};
use crate::options::{self, Options};

/// Lists or deletes.
pub fn runs(options: &Options, arguments: &options::Runs) -> anyhow::Result<Exit> {
    let home = crate::run::home(options)?;
    if let Some(wanted) = &arguments.delete {
        let id = Store::open(&home)?.delete(wanted).map_err(bad_input)?;
        console::print(&format!("deleted run {id}"))?;
        return Ok(Exit::Done);
    }
    let store = Store::open_to_show(&home)?;
    let runs = store.runs()?;
    if runs.is_empty() {
        console::print("no runs yet: `loadline run varmail --on ext4,xfs,btrfs` makes one")?;
    }
    let shown = |run: &lab::store::RunSummary| {
        let words = arguments.filter.as_deref().unwrap_or_default();
        lab::store::is_meant(words, &run.id, run.name.as_deref(), &run.title)
    };
    for run in runs.into_iter().filter(shown) {
        let name = run.name.map_or(String::new(), |name| format!("{name}: "));
        let state = if run.finished.is_some() { "complete" } else { "unfinished" };
        console::print(&format!(
            "{}  {:>10}  {:>3}/{:<3} trials  {name}{}",
            run.id, state, run.trials_done, run.trials_planned, run.title
        ))?;
        // a damaged record is told to whoever asks for its run
        for what in store.head(&run.id).iter().flat_map(analysis::corrections::affected) {
            console::print(&format!("    doubt: measured before a correction: {what}"))?;
        }
    }
    Ok(Exit::Done)
}
