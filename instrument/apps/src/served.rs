//! What SQL and key-value loads share: a place for a database, and the machine's counters around its operations.

use std::cell::Cell;
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use journal::{Journal, JournalError};
use probe::Counters;
use serve::{LoadSite as At, Moment};
use stats::Outcome;

use crate::{AppError, Bench, LoadSite};

/// Descriptors that a load with 10,000 terminals and its engine need at most.
const DESCRIPTORS: u64 = 1 << 17;

/// Why parameters of a private server are refused beside an address.
pub(crate) const NOT_OURS: &str =
    "a server at an address has its own settings, which loadline leaves alone; leave it out, or set it there";

/// What `other` and the user's own directories are called must be text.
fn utf8(path: &Path) -> Result<&Utf8Path, AppError> {
    Utf8Path::from_path(path).ok_or_else(|| AppError::Parameter(format!("{} is not UTF-8", path.display())))
}

/// Runs something at a place whose servers are in a journal of that name; what it measured, if it did, goes into `bench`
/// with the counters of the time between its first operation and its last.
pub(crate) fn run<E: Into<AppError> + From<JournalError>>(
    name: &str,
    place: LoadSite<'_>,
    bench: &mut Bench<'_>,
    run: impl FnOnce(&At<'_>) -> Result<Option<Outcome>, E>,
) -> Result<(), AppError> {
    // one for each terminal, and the files of an engine in the process
    host::process::allow_descriptors(DESCRIPTORS);
    let folder = Journal::folder(utf8(place.home)?);
    let journal = Journal::open(&folder, &format!("{name}.{}", std::process::id()));
    let journal = journal.map_err(|error| E::from(error).into())?;
    let temporary = std::env::temp_dir();
    let temporary: Utf8PathBuf =
        utf8(&temporary)?.canonicalize_utf8().map_err(crate::error::at(&temporary))?;
    let (before, after) = (Cell::new(None::<Counters>), Cell::new(None::<Counters>));
    let outcome = {
        let shared: &Bench<'_> = bench;
        let at = At {
            root: utf8(place.root)?,
            temporary: &temporary,
            journal: &journal,
            seed: place.seed,
            stopped: shared.stopped(),
            tell: &|line| shared.report(line),
            moment: &|moment| match moment {
                Moment::Begin => before.set(Some(shared.counters())),
                Moment::End => after.set(Some(shared.counters())),
            },
        };
        run(&at).map_err(E::into)?
    };
    let Some(outcome) = outcome else { return Ok(()) };
    bench.took_over(outcome);
    if let (Some(before), Some(after)) = (before.take(), after.take()) {
        bench.counters_grew(before.growth_until(&after));
    }
    Ok(())
}
