//! Checking a store that is not open, and repairing it.
//!
//! [`source`] reads what is there, [`walk`] checks nodes and extents, [`salvage`] makes a sound tree of a damaged one,
//! and [`crate::db`] writes it. Here is the judgement: which checkpoint to build on, and what to say.

mod report;
mod salvage;
mod source;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use report::show_range;
pub use report::{Finding, FsckOptions, FsckReport, LossKind, LostKeys, Severity};
pub(crate) use salvage::{BadExtents, Loss, salvage};
pub(crate) use source::{Tree, Unit, checkpoints, units};
pub(crate) use walk::{Walk, WalkCounts};

use crate::db::{Plan, rebuild};
use crate::error::{Doing, Error, Result};
use crate::log::{self, Tail};
use crate::storage::{Storage, UNIT};
use crate::superblock::Superblock;
use source::CheckedCheckpoint;
use std::sync::Arc;

/// Checks everything on storage: superblocks in all copies, the translation table, each node, part and extent with
/// its checksum, order and references, the free space, and the log. Nothing else may have the store open.
///
/// With `repair` it also makes the store sound again, if anything but a torn log tail is wrong with it or not:
///
/// * A damaged copy of a superblock is written anew; if all of the newest are damaged the older generation counts.
/// * If the newest checkpoint is damaged, the older one with the log after it is taken when that loses nothing.
/// * Otherwise unreadable parts of the tree are left out: [`FsckReport::lost`] names the keys.
/// * The log is cut behind its last sound frame; blocks that nothing refers to are freed.
///
/// Without `repair` the storage is not written, and [`FsckReport::lost`] says what a repair would lose.
///
/// # Errors
///
/// [`Error::NotAStore`] if there is no valid superblock, or the storage is too short; [`Error::Corrupt`] from a repair
/// if no translation table can be read; [`Error::NoSpace`] if there is no room for the repaired nodes.
pub fn fsck(storage: impl Storage + 'static, options: FsckOptions) -> Result<FsckReport> {
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let mut report = FsckReport::default();
    let found = units(&*storage);
    let all = checkpoints(&found);
    let Some(newest) = all.first() else {
        return Err(Error::NotAStore("no superblock is valid".into()));
    };
    let length = storage.len().doing("asking for the capacity")? / UNIT as u64;
    if length < newest.units {
        let why = format!("storage has {length} units, the store needs {}", newest.units);
        return Err(Error::NotAStore(why));
    }
    judge_superblocks(&found, newest, &mut report);
    let (chosen, whole) = choose(&storage, &all, &mut report)?;
    report.generation = chosen.sb.generation;
    report.last_msn = chosen.last_msn();
    count(&chosen, &mut report);
    if !whole {
        let slot = chosen.tree.root_slot(&chosen.sb);
        let mut extents = BadExtents::new(&chosen.walked.bad_chunks, None);
        let (_, mut loss) = salvage(&chosen.tree.store, &slot, &chosen.walked.bad, &mut extents)?;
        chosen.logged.replay(&*storage, |_, changes| loss.sift(changes, &mut extents).map(|_| ()))?;
        report.lose(&loss);
    }
    if options.repair && !report.findings.is_empty() {
        let plan = Plan {
            base: &chosen.sb,
            generation: newest.generation,
            life: all.iter().map(|sb| sb.life).max().unwrap_or(0).max(chosen.later.life),
            logged: &chosen.logged,
            walked: &chosen.walked,
        };
        let rebuilt = rebuild(storage.clone(), &plan)?;
        report.last_msn = rebuilt.last_msn;
        report.lost.clear();
        report.lose(&rebuilt.loss);
        let again = fsck(storage, FsckOptions { repair: false })?;
        report.generation = again.generation;
        report.repaired = again.findings.is_empty();
        report.remaining = again.findings;
    }
    Ok(report)
}

/// Says what is wrong with the copies of the superblocks.
fn judge_superblocks(units: &[Unit], newest: &Superblock, report: &mut FsckReport) {
    let pair = |i: usize| &units[i / 2 * 2..][..2];
    for (i, unit) in units.iter().enumerate() {
        match unit {
            Unit::Damaged(why) => report.add(Severity::Warning, format!("superblock in unit {i}: {why}")),
            // A store that has had one checkpoint has nothing in the other place yet.
            Unit::Empty if newest.generation > 1 || pair(i).iter().any(|u| matches!(u, Unit::Valid(_))) => {
                report.add(Severity::Warning, format!("superblock in unit {i} is empty"));
            }
            Unit::Empty => {}
            Unit::Valid(sb) => {
                if sb.generation % 2 != i as u64 / 2 {
                    let what = format!("superblock in unit {i} is of generation {}", sb.generation);
                    report.add(Severity::Error, format!("{what}, which does not belong there"));
                }
                if sb.uuid != newest.uuid {
                    report.add(Severity::Error, format!("superblock in unit {i} is of another store"));
                }
            }
        }
    }
    for (i, two) in units.chunks(2).enumerate() {
        if let [Unit::Valid(a), Unit::Valid(b)] = two
            && a.generation != b.generation
        {
            let (low, high) = (a.generation.min(b.generation), a.generation.max(b.generation));
            let what = format!("superblock {i} has copies of generations {low} and {high}");
            report.add(Severity::Note, format!("{what}: a checkpoint was interrupted"));
        } else if let [Unit::Valid(a), Unit::Valid(b)] = two
            && a != b
        {
            report.add(Severity::Error, format!("the copies of superblock {i} differ"));
        }
    }
}

/// The checkpoint to build on, and whether it holds everything.
fn choose(
    storage: &Arc<dyn Storage>,
    all: &[Superblock],
    report: &mut FsckReport,
) -> Result<(CheckedCheckpoint, bool)> {
    let newest = CheckedCheckpoint::new(storage, &all[0], None);
    if let Ok(e) = &newest {
        judge_table(storage, e, report);
    }
    match &newest {
        Ok(e) => judge(e, report),
        Err(e) => report.add(Severity::Error, format!("checkpoint {}: {e}", all[0].generation)),
    }
    let newest = match newest {
        Ok(e) if e.is_sound() => return Ok((e, true)),
        other => other,
    };
    let older = match all.get(1) {
        Some(sb) if sb.uuid == all[0].uuid => CheckedCheckpoint::new(storage, sb, Some(&all[0])),
        _ => {
            Err(Error::Corrupt { what: "superblock", offset: 0, why: "there is no older checkpoint".into() })
        }
    };
    let reach = newest.as_ref().map_or(all[0].msn, |n| n.last_msn().max(n.sb.msn));
    match (newest, older) {
        (_, Ok(older)) if older.is_sound() && older.last_msn() >= reach => {
            let what = format!("checkpoint {} and the log after it hold everything", older.sb.generation);
            report.add(Severity::Note, what);
            Ok((older, true))
        }
        (Ok(newest), _) => Ok((newest, false)),
        (Err(_), Ok(older)) => {
            judge(&older, report);
            let (have, want) = (older.last_msn(), all[0].msn);
            if have < want {
                let what = format!("batches {} to {want} are lost, at least", have + 1);
                report.add(Severity::Error, what);
            }
            let whole = older.is_sound();
            Ok((older, whole))
        }
        (Err(e), Err(_)) => Err(e),
    }
}

/// Says which copies of the table's pieces cannot be read.
fn judge_table(storage: &Arc<dyn Storage>, e: &CheckedCheckpoint, report: &mut FsckReport) {
    let place = &e.tree.place;
    let named = |what: &'static str| move |(i, piece)| (what, i + 1, piece);
    let pieces = place.pieces.iter().enumerate().map(named("piece"));
    for (what, i, piece) in pieces.chain(place.lists.iter().enumerate().map(named("list"))) {
        for (n, copy) in [&piece.first, &piece.copy].into_iter().enumerate() {
            if !copy.is_empty()
                && let Err(why) = piece.read_copy(&**storage, e.sb.units, copy)
            {
                report.add(Severity::Warning, format!("copy {} of {what} {i} of the table: {why}", n + 1));
            }
        }
    }
}

/// Says what is wrong with a checkpoint and its log.
fn judge(e: &CheckedCheckpoint, report: &mut FsckReport) {
    let problems = e.table.iter().chain(&e.walked.problems).chain(&e.log);
    problems.for_each(|p| report.add(Severity::Error, p.clone()));
    if e.unreachable.0 > 0 {
        let (n, bytes) = e.unreachable;
        report.add(Severity::Warning, format!("nothing refers to {n} blocks of {bytes} bytes"));
    }
    if let Some(offset) = e.logged.unreadable {
        report.add(Severity::Warning, log::unreadable(offset).to_string());
    }
    match e.tail {
        Tail::End => {}
        Tail::Torn { pos, seq } => {
            let what = format!("log frame {seq} at position {pos} is torn or damaged");
            report.add(Severity::Note, format!("{what}; batches after {} are not there", e.last_msn()));
        }
        Tail::Gap { seq, later } => {
            let what =
                format!("log frame {seq} is missing or damaged but {} later ones are there", later.frames);
            report.add(Severity::Warning, format!("{what}; batches after {} are lost", e.last_msn()));
        }
    }
    if let Some(lost) = e.logged.lost(&e.sb, &e.later) {
        report.add(Severity::Error, lost.to_string());
    }
}

fn count(e: &CheckedCheckpoint, report: &mut FsckReport) {
    let w = &e.walked;
    (report.nodes, report.extents, report.bytes, report.entries) = (w.nodes, w.extents, w.bytes, w.entries);
    (report.log_frames, report.log_batches) = (e.logged.frames, e.logged.batches);
}
