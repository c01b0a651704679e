//! What is on storage, read without changing it: superblocks, and for a checkpoint its tree and the log after it.

use super::walk::{Walk, WalkCounts};
use crate::block::BlockRef;
use crate::codec::Compression;
use crate::db::{LogContents, ring_of};
use crate::error::{Doing, Error, Result};
use crate::key::KeyRange;
use crate::log::{self, LaterFrames, Tail};
use crate::place::TableLocation;
use crate::steps::Features;
use crate::storage::{AlignedBuf, Storage, UNIT};
use crate::store::Store;
use crate::superblock::{LOG_START, Superblock};
use std::sync::Arc;

/// Bytes of nodes that a check keeps in memory.
const CACHE_BYTES: usize = 64 << 20;

/// One of the units in front of the log.
pub(crate) enum Unit {
    /// All zeros: never written, or erased.
    Empty,
    /// Neither, and not valid.
    Damaged(String),
    /// A copy of a superblock.
    Valid(Box<Superblock>),
}

/// The superblock units, in order.
pub(crate) fn units(storage: &dyn Storage) -> Vec<Unit> {
    let read = |unit: u64| {
        let mut buf = AlignedBuf::zeroed(UNIT);
        if let Err(e) = storage.read_at(&mut buf, unit * UNIT as u64) {
            return Unit::Damaged(format!("cannot be read: {e}"));
        }
        match Superblock::decode(&buf) {
            Ok(sb) => Unit::Valid(Box::new(sb)),
            Err(_) if buf.iter().all(|b| *b == 0) => Unit::Empty,
            Err(m) => Unit::Damaged(m.0.into()),
        }
    };
    (0..LOG_START).map(read).collect()
}

/// The checkpoints that have a valid superblock, newest first.
pub(crate) fn checkpoints(units: &[Unit]) -> Vec<Superblock> {
    let mut found: Vec<Superblock> = Vec::new();
    for unit in units {
        if let Unit::Valid(sb) = unit
            && found.iter().all(|f| f.generation != sb.generation)
        {
            found.push((**sb).clone());
        }
    }
    found.sort_by_key(|sb| std::cmp::Reverse(sb.generation));
    found
}

/// A store over the tree of a checkpoint, for reading only, and its root.
pub(crate) struct Tree {
    pub root: BlockRef,
    /// Where its table is.
    pub place: TableLocation,
    pub store: Store,
}

impl Tree {
    /// Reads the table. What is inconsistent in it is left out and added to `wrong`.
    pub fn load(
        storage: &Arc<dyn Storage>,
        sb: &Superblock,
        wrong: &mut Vec<(u64, &'static str)>,
    ) -> Result<Tree> {
        let place = sb.table.resolve(&**storage, sb.units)?;
        let pieces = place.read(&**storage, sb.units)?;
        // Of a storage that was cut off what is there counts.
        let units = sb.units.min(storage.len().doing("measuring the storage")? / UNIT as u64);
        let table = crate::table::Table::new(LOG_START + sb.log_units, units, false);
        let store =
            Store::new(storage.clone(), table, sb.shape, Compression::None, CACHE_BYTES, Features::ALL);
        let corrupt = |why: &str| Error::corrupt("translation table", place.offset(), why);
        let root = store.table.adopt(&pieces, sb.root.0, wrong).map_err(|m| corrupt(m.0))?;
        if !store.table.take(&place.segments()) {
            return Err(corrupt("it overlaps a block"));
        }
        Ok(Tree { root, place, store })
    }

    /// The root as the superblock describes it.
    pub fn root_slot(&self, sb: &Superblock) -> crate::node::NodeRef {
        let (_, level, weight, width) = sb.root;
        let hints = (level, weight, width);
        crate::node::Slot::stored(self.root.clone(), hints, sb.msn, &self.store.meter)
    }
}

/// A checkpoint and everything that belongs to it, checked.
pub(crate) struct CheckedCheckpoint {
    pub sb: Superblock,
    pub tree: Tree,
    /// What is wrong with nodes and extents, those of the log included.
    pub walked: WalkCounts,
    /// What is wrong with the table: blocks in impossible places, references to nothing, free space.
    pub table: Vec<String>,
    /// Blocks that nothing refers to, and their bytes.
    pub unreachable: (usize, u64),
    /// The log after the checkpoint, and what is wrong with it.
    pub logged: LogContents,
    pub tail: Tail,
    /// The frames behind the last one that counts.
    pub later: LaterFrames,
    pub log: Option<String>,
}

impl CheckedCheckpoint {
    /// Reads all that `sb` refers to; fails if not even the table can be had. `successor` is a newer checkpoint whose
    /// log continues this one's.
    pub fn new(
        storage: &Arc<dyn Storage>,
        sb: &Superblock,
        successor: Option<&Superblock>,
    ) -> Result<CheckedCheckpoint> {
        let mut wrong = Vec::new();
        let tree = Tree::load(storage, sb, &mut wrong)?;
        let mut table: Vec<String> =
            wrong.iter().map(|(id, why)| format!("translation table, block {id}: {why}")).collect();
        table.extend(tree.store.table.audit(LOG_START + sb.log_units, sb.units, &tree.place.segments()));
        let left = tree.store.table.unreachable(tree.root.id());
        let bytes = left.iter().filter_map(|id| tree.store.table.info(*id)).map(|i| i.units()).sum::<u64>();
        let (logged, tail) = logged(&**storage, &tree.store, sb, successor)?;
        let mut walk = Walk::new(&tree.store);
        walk.found.bad.extend(wrong.iter().map(|(id, _)| *id));
        walk.node(&tree.root, sb.root.1, Some(&KeyRange::all()));
        logged.extents().for_each(|e| walk.extent(e));
        let walked = walk.found;
        let log = logged.wrong.as_ref().map(|(msn, m)| format!("log, batch {msn}: {}", m.0));
        let unreachable = (left.len(), bytes * UNIT as u64);
        let later = if let Tail::Gap { later, .. } = tail { later } else { LaterFrames::default() };
        Ok(CheckedCheckpoint { sb: sb.clone(), tree, walked, table, unreachable, logged, tail, later, log })
    }

    /// True if every batch up to the end of the log can be had whole.
    pub fn is_sound(&self) -> bool {
        self.walked.problems.is_empty() && self.table.is_empty() && self.log.is_none()
    }

    /// Number of the last batch that can be had.
    pub fn last_msn(&self) -> u64 {
        self.logged.last_msn
    }
}

/// The log after `sb`; with a successor of a later life also that after it, if there is no gap between.
fn logged(
    storage: &dyn Storage,
    store: &Store,
    sb: &Superblock,
    successor: Option<&Superblock>,
) -> Result<(LogContents, Tail)> {
    let mut logged = LogContents::read(storage, &store.table, sb)?;
    let mut ring = ring_of(sb);
    if let Some(next) = successor.filter(|next| next.life != sb.life)
        && logged.go_on(storage, &store.table, next)?
    {
        ring = ring_of(next);
    }
    let tail = log::tail(storage, &ring, logged.end())?;
    Ok((logged, tail))
}
