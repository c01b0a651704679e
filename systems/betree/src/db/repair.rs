//! Making a sound store of a damaged one, offline.

use super::Options;
use super::inner::View;
use super::open::{RecoveredState, assemble, stored_options};
use super::recover::LogContents;
use crate::error::Result;
use crate::fsck::{BadExtents, Loss, Walk, WalkCounts, salvage};
use crate::log;
use crate::storage::Storage;
use crate::superblock::Superblock;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a repair starts from.
pub(crate) struct Plan<'a> {
    /// The checkpoint to build on.
    pub base: &'a Superblock,
    /// Highest generation found, in a superblock that may itself be of no use.
    pub generation: u64,
    /// Highest life found.
    pub life: u64,
    /// The log that follows `base`.
    pub logged: &'a LogContents,
    /// What is damaged below `base`.
    pub walked: &'a WalkCounts,
}

/// The outcome of a repair.
pub(crate) struct Rebuilt {
    pub loss: Loss,
    pub last_msn: u64,
}

/// Writes a new checkpoint, into both superblocks, with all that can be had of `plan`. A power cut meanwhile leaves the
/// damaged store as it was, or the repaired one.
pub(crate) fn rebuild(storage: Arc<dyn Storage>, plan: &Plan<'_>) -> Result<Rebuilt> {
    let sb = plan.base;
    let options = Options { background: false, sync_interval: None, ..Options::default() };
    let options = stored_options(sb, options);
    options.check(sb.units)?;
    let found = RecoveredState {
        uuid: sb.uuid,
        life: plan.life + 1,
        generation: plan.generation,
        units: sb.units,
        log_units: sb.log_units,
        shape: sb.shape,
        log: plan.logged.end(),
        msn: sb.msn,
    };
    let inner = assemble(storage, options, &found);
    let mut wrong = Vec::new();
    inner.load_tree(sb, Some(&mut wrong))?;
    inner.lock_checkpoint().in_turn = true;
    let mut bad_chunks = plan.walked.bad_chunks.clone();
    // Space of extents in the log must be taken before anything is allocated.
    let logged = plan.logged.again(&*inner.store.storage, &inner.store.table)?;
    let mut walk = Walk::new(&inner.store);
    logged.extents().for_each(|e| walk.extent(e));
    bad_chunks.extend(walk.found.bad_chunks);
    let mut extents = BadExtents::new(&bad_chunks, Some(&inner.store));
    let mut loss = Loss::default();
    if !plan.walked.bad.is_empty() {
        inner.store.msn.store(sb.msn, Ordering::Relaxed);
        let (root, lost) = salvage(&inner.store, &inner.view().root, &plan.walked.bad, &mut extents)?;
        loss = lost;
        inner.write_front().view = Arc::new(View { frozen: Vec::new(), root, applied: sb.msn });
    }
    logged.replay(&*inner.store.storage, |msn, changes| {
        inner.apply_logged(msn, &loss.sift(changes, &mut extents)?)
    })?;
    inner.end_replay(&logged)?;
    // Once for each superblock, so that nothing old or damaged stays.
    inner.checkpoint()?;
    inner.checkpoint()?;
    if let Some(offset) = logged.unreadable {
        log::overwrite_unreadable(&*inner.store.storage, offset)?;
    }
    Ok(Rebuilt { loss, last_msn: inner.read_front().last_msn })
}
