//! What a command makes: in a journal of its own, and taken away at its end or at a signal.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use camino::{Utf8Path, Utf8PathBuf};
use journal::Journal;

use crate::console::bad_input;
use crate::options::Options;

/// Does something that makes things, with the home of results, the journal, and the wish to end. The first signal sets
/// that wish, the second one ends at once.
pub fn with_journal<T>(
    options: &Options,
    command: &str,
    work: impl FnOnce(&Utf8Path, &Arc<Journal>, &Arc<AtomicBool>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let home = utf8(crate::run::home(options)?)?;
    let journal = Journal::open(&Journal::folder(&home), &format!("{command}.{}", std::process::id()))?;
    let stop = lab::stop::on_signals(journal.clone(), crate::run::on_signal)?;
    let worked = work(&home, &journal, &stop);
    // the thread of the signals keeps the journal: it is not dropped at the end
    journal.undo();
    worked
}

/// A path as the other rooms want it.
pub fn utf8(path: PathBuf) -> anyhow::Result<Utf8PathBuf> {
    Utf8PathBuf::from_path_buf(path).map_err(|path| bad_input(format!("{} is not UTF-8", path.display())))
}
