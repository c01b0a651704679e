//! Power cuts under a database: a server on a file system on an emulated SSD runs TPC-C; the power fails at a random
//! moment; the device's surviving blocks are attached and mounted, the server recovers; then the consistency
//! conditions must hold and everything that was acknowledged before the cut must be there. The next cut goes on from
//! there.
//!
//! Just before the device loses power the ledger is closed: with settings that are not safe the server goes on
//! acknowledging from memory after the device has died.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | the chain of cuts |
//! | `options` | what is asked |
//! | `powered` | device, file system and server, from power-on to the cut |
//! | `found` | what the cuts have shown, for people |

mod found;
mod options;
mod powered;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use journal::Journal;
use sql::job::{LoadSite, Seeds};
use sql::tpcc::{Ledger, Size, conditions};
use sql::{Job, What};
use stats::rng::SplitMix;

pub use found::Cuts;
pub use options::DatabaseOptions;

use crate::CrashError;
use crate::run::place;
use powered::{Bench, PoweredDatabase};

/// The shortest and the longest time from the first transaction of a run to its cut: long enough for some hundred
/// commits, short enough for a hundred cuts.
const RUN_MS: (usize, usize) = (50, 1500);
/// Cache of the server: small, so that pages are written while transactions run.
const CACHE_BYTES: u64 = 32 << 20;
/// Log of the server: small, so that checkpoints fall into runs.
const LOG_BYTES: u64 = 32 << 20;
/// Warehouses of the small database.
const WAREHOUSES: i64 = 2;

/// Makes a database and cuts the power under it again and again. `stop` ends it early. What the cuts show is in `cuts`,
/// also a server that does not come up again, and also when it ends by an error.
///
/// # Errors
/// [`CrashError`]: what the machine would not do.
pub fn run(
    options: &DatabaseOptions,
    journal: &Arc<Journal>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
    cuts: &mut Cuts,
) -> Result<(), CrashError> {
    if let stack::Availability::Unavailable(why) = stack::probe_availability(&options.spec) {
        return Err(why.into());
    }
    let size = Size::small(WAREHOUSES);
    let job = Job {
        what: What::Tpcc { size, waits: false },
        engine: options.engine,
        terminals: options.terminals,
        cache_bytes: CACHE_BYTES,
        log_bytes: LOG_BYTES,
        flush: options.flush,
        address: None,
    };
    job.check()?;
    std::fs::create_dir_all(&options.home).map_err(CrashError::io(format!("make {}", options.home)))?;
    let folder = place(journal, options.work_dir.as_deref(), &options.home)?;
    let bench = Bench { options, job: &job, journal, folder: folder.path() };
    progress("making the database");
    let mut image = fill(&bench, stop)?;
    let mut chain = Chain {
        bench: &bench,
        size,
        ledger: Arc::new(Ledger::new()),
        moments: SplitMix::new(options.seed),
        stop,
    };
    for number in 1..=options.cuts {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let next = folder.path().join(format!("cut-{number}.img"));
        if !chain.one(cuts, number, &image, &next)? {
            return Ok(());
        }
        std::fs::remove_file(&image).map_err(CrashError::io(format!("remove {image}")))?;
        image = next;
        progress(&format!("cut {number} of {}: {}", options.cuts, cuts.short()));
    }
    // the last cut is judged as well
    chain.look(cuts, &image)
}

/// Makes the file system and the database on it: the image that the first run begins with.
fn fill(bench: &Bench<'_>, stop: &AtomicBool) -> Result<Utf8PathBuf, CrashError> {
    let image = bench.folder.join("base.img");
    let mut ssd = bench.attach(&image)?;
    let builder = stack::Builder::new(bench.folder);
    let built = builder.build_on(&bench.options.spec, ssd.device(), bench.journal)?;
    let filled = bench.job.fill(&LoadSite {
        root: built.path(),
        temporary: bench.folder,
        journal: bench.journal,
        seed: bench.options.seed,
        stopped: &|| stop.load(Ordering::Acquire),
        tell: &|_| {},
        moment: &|_| {},
    });
    let down = built.teardown();
    let detached = ssd.detach();
    filled?;
    down?;
    detached?;
    Ok(image)
}

/// Cuts that follow each other on one database.
struct Chain<'a> {
    bench: &'a Bench<'a>,
    size: Size,
    ledger: Arc<Ledger>,
    moments: SplitMix,
    stop: &'a AtomicBool,
}

impl Chain<'_> {
    /// Powers the image up, judges the cut before, runs transactions and cuts the power: what survives is in `next`.
    /// Whether it can go on.
    fn one(
        &mut self,
        cuts: &mut Cuts,
        number: u32,
        image: &Utf8Path,
        next: &Utf8Path,
    ) -> Result<bool, CrashError> {
        let Some(powered) = self.recover(cuts, image)? else { return Ok(false) };
        if number > 1 {
            self.judge(cuts, &powered)?;
        }
        let (shortest, longest) = RUN_MS;
        let after = Duration::from_millis((shortest + self.moments.below(longest - shortest)) as u64);
        let seeds = Seeds { of_run: self.bench.options.seed, run: number };
        powered.run_until_cut(seeds, &self.ledger, after, next, self.stop)?;
        cuts.cuts += 1;
        Ok(true)
    }

    /// Judges the last cut.
    fn look(&mut self, cuts: &mut Cuts, image: &Utf8Path) -> Result<(), CrashError> {
        if cuts.cuts > 0
            && let Some(powered) = self.recover(cuts, image)?
        {
            self.judge(cuts, &powered)?;
            powered.shut_down()?;
        }
        Ok(())
    }

    fn recover(&self, cuts: &mut Cuts, image: &Utf8Path) -> Result<Option<PoweredDatabase>, CrashError> {
        let start = std::time::Instant::now();
        match PoweredDatabase::up(self.bench, image) {
            Ok(powered) => {
                cuts.recovered(start.elapsed());
                Ok(Some(powered))
            }
            // the server says why, the machine would not; when all is to end, somebody may have ended the server
            Err(CrashError::Database(
                error @ (sql::SqlError::Server(_) | sql::SqlError::Database { .. }),
            )) if !self.stop.load(Ordering::Acquire) => {
                cuts.broken = Some(error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn judge(&self, cuts: &mut Cuts, powered: &PoweredDatabase) -> Result<(), CrashError> {
        let mut connection = powered.connect()?;
        let violated: Vec<_> =
            conditions(&mut connection)?.into_iter().filter(|condition| condition.violations > 0).collect();
        let loss = self.ledger.settle(&self.size, &mut connection)?;
        cuts.judged(&violated, &loss);
        Ok(())
    }
}
