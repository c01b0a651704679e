//! Checking everything on storage while the store is open.

use super::inner::Inner;
use crate::error::Result;
use crate::fsck::Walk;
use crate::key::KeyRange;
use crate::superblock::{LOG_START, Superblock};

/// What [`super::Db::verify`] found.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Nodes read.
    pub nodes: usize,
    /// Extents read.
    pub extents: usize,
    /// Bytes read.
    pub bytes: u64,
    /// Key-value pairs and pending messages seen. Nodes with several parents count once.
    pub entries: u64,
    /// What is wrong, in words; empty for a sound store.
    pub problems: Vec<String>,
}

impl Inner {
    pub(super) fn verify(&self) -> Result<VerifyReport> {
        let _gate = self.failure.unpoisoned(self.gate.write());
        self.checkpoint()?;
        let last = self.lock_checkpoint();
        let _tree = self.lock_tree();
        let mut walk = Walk::new(&self.store);
        if let Some(root) = &last.root {
            walk.node(root, u8::MAX, Some(&KeyRange::all()));
        }
        let found = walk.found;
        let mut problems = found.problems;
        problems.extend(self.store.table.audit(
            LOG_START + self.log_units,
            self.units,
            &last.place.segments(),
        ));
        if Superblock::copies(&*self.store.storage, last.generation) < 2 {
            problems.push("a copy of the superblock is damaged".into());
        }
        let (nodes, extents, bytes, entries) = (found.nodes, found.extents, found.bytes, found.entries);
        Ok(VerifyReport { nodes, extents, bytes, entries, problems })
    }
}
