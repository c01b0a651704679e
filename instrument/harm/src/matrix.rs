//! Do no harm, measured: every pattern on every device with every size of memory, the same program without and
//! with the library in turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use journal::Journal;

use crate::device::Device;
use crate::judge::{Judged, Verdict};
use crate::run::{Round, Runner};
use crate::{Cell, HarmError, Key, Pattern, Plan};

/// Rounds that are added before a cell is judged again.
pub(crate) const STEP: usize = 3;

/// How a measurement ended that met no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every cell is there.
    Done,
    /// No more cells were begun.
    TimeIsUp,
}

/// What a measurement tells while it runs.
#[derive(Debug)]
pub enum Notice<'a> {
    /// A device is attached and its file is written.
    Device {
        /// Its name.
        name: &'a str,
        /// Size of the file, MiB.
        mib: u64,
    },
    /// A cell begins.
    Begins {
        /// Which.
        key: &'a Key,
        /// Cells that are there.
        done: usize,
        /// Cells that are not, this one included.
        left: usize,
        /// How long these will take, when that is known.
        remaining: Option<Duration>,
    },
    /// A round begins.
    Round {
        /// Its number, from 1.
        number: usize,
        /// How many there will be as far as is known.
        of: usize,
    },
    /// A run of a cell did not end; the cell is left out.
    GivenUp {
        /// Which.
        key: &'a Key,
        /// How long it had.
        time: Duration,
    },
    /// A cell is there.
    Ended {
        /// The cell.
        cell: &'a Cell,
    },
}

/// Who is told.
pub type Tell<'a> = dyn FnMut(Notice<'_>) -> Result<(), HarmError> + 'a;

fn measure(
    runner: &Runner<'_>,
    plan: &Plan,
    device: &Device,
    (key, pattern): &(Key, &Pattern),
    tell: &mut Tell<'_>,
) -> Result<Cell, HarmError> {
    let begin = Instant::now();
    let limit = key.memory.map(|percent| device.bytes() * percent / 100);
    let mut rounds: Vec<Round> = Vec::new();
    let mut wanted = plan.rounds.max(1);
    let mut before = None;
    let judged = loop {
        while rounds.len() < wanted {
            tell(Notice::Round { number: rounds.len() + 1, of: wanted })?;
            rounds.push(runner.round(device.file(), pattern, limit, rounds.len() % 2 == 1)?);
        }
        let judged = Judged::of(&rounds)?;
        let per_round = begin.elapsed() / rounds.len() as u32;
        let room = begin.elapsed() + per_round * STEP as u32 <= plan.cell_time;
        let verdict = judged.verdict();
        // A failure is believed when it still is one after more rounds.
        let told = verdict == Verdict::Ok || verdict == Verdict::Fails && before == Some(Verdict::Fails);
        if told || wanted >= plan.rounds_max || !room {
            break judged;
        }
        before = Some(verdict);
        wanted = (wanted + STEP).min(plan.rounds_max);
    };
    Ok(Cell::new(key.clone(), &rounds, limit, &judged))
}

/// Measures what is not in `cells` yet, and adds it there as soon as it is measured. All that is made for it is in
/// `journal`.
///
/// # Errors
/// What `tell` or a run says; [`HarmError::Interrupted`] when `stop` was set.
pub fn measure_all(
    plan: &Plan,
    cells: &mut Vec<Cell>,
    journal: &Arc<Journal>,
    stop: &AtomicBool,
    tell: &mut Tell<'_>,
) -> Result<Ended, HarmError> {
    // Not in /tmp, where programs may be forbidden to run or files lie in memory.
    std::fs::create_dir_all(&plan.home).map_err(crate::at("make", &plan.home))?;
    let tree = crate::private_tree(journal, &plan.home)?;
    let scratch = tree.path().as_std_path();
    let keys = plan.keys();
    let is_there = |cells: &[Cell], key: &Key| cells.iter().any(|cell| cell.key == *key);
    let (begin, before) = (Instant::now(), cells.len());
    let runner = Runner::new(plan, journal, stop, scratch)?;
    for name in &plan.devices {
        let mine = keys.iter().filter(|(key, _)| key.device == *name);
        let todo: Vec<_> = mine.filter(|(key, _)| !is_there(cells, key)).collect();
        let Some((_, first)) = todo.first() else { continue };
        if begin.elapsed() >= plan.time {
            return Ok(Ended::TimeIsUp);
        }
        tell(Notice::Device { name, mib: plan.mib_of(name) })?;
        let device = Device::prepare(name, plan, scratch, journal, stop)?;
        // Warms the program, the library and the file system's own blocks.
        runner.round(device.file(), first, None, false)?;
        for one in todo {
            if begin.elapsed() >= plan.time {
                return Ok(Ended::TimeIsUp);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(HarmError::Interrupted);
            }
            let left = keys.iter().filter(|(key, _)| !is_there(cells, key)).count();
            let done = (cells.len() - before) as u32;
            let remaining = begin.elapsed().checked_div(done).map(|each| each * left as u32);
            tell(Notice::Begins { key: &one.0, done: cells.len(), left, remaining })?;
            let cell = match measure(&runner, plan, &device, one, tell) {
                Err(HarmError::TooLong(time)) => {
                    tell(Notice::GivenUp { key: &one.0, time })?;
                    continue;
                }
                measured => measured?,
            };
            tell(Notice::Ended { cell: &cell })?;
            cells.push(cell);
        }
    }
    Ok(Ended::Done)
}

/// The cells of a plan, in its order; those of other plans are left out.
pub fn sorted(plan: &Plan, mut cells: Vec<Cell>) -> Vec<Cell> {
    let order: Vec<Key> = plan.keys().into_iter().map(|(key, _)| key).collect();
    cells.retain(|cell| order.contains(&cell.key));
    cells.sort_by_key(|cell| order.iter().position(|key| *key == cell.key));
    cells
}
