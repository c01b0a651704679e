//! Creating, opening and recovering a store.

use super::background::Background;
use super::inner::{Checkpoint, CurrentViews, Inner, ReplayedLog, Signals, View};
use super::recover::{LogContents, place_of, ring};
use super::space::memtable_bytes_max;
use super::{Db, Options};
use crate::error::{Doing, Error, LostBatches, Result};
use crate::log::{self, Log, LogPosition};
use crate::memtable::Memtable;
use crate::node::Slot;
use crate::place::TableLocation;
use crate::storage::{AlignedBuf, Latched, Stacked, Storage, UNIT};
use crate::store::{NodeSizes, Store};
use crate::superblock::{LOG_START, Superblock};
use crate::sync::{Condvar, Mutex, RwLock};
use crate::table::Table;
use crate::wire::COUNT_MAX;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// Longest stretch of the log that may be unreadable and is still noticed when a store is opened whose superblocks are all whole.
/// Reading it takes 0.1 s on a SATA device.
const GAP_BYTES_MAX: u64 = 64 << 20;

/// Threads that help to flush subtrees: they wait for reads most of the time.
const HELPERS: usize = 3;

/// What `assemble` needs besides the options.
pub(super) struct RecoveredState {
    pub uuid: u64,
    pub life: u64,
    pub generation: u64,
    pub units: u64,
    pub log_units: u64,
    pub shape: NodeSizes,
    /// Where the log goes on.
    pub log: LogPosition,
    pub msn: u64,
}

impl Db {
    /// Makes an empty store on `storage`; whatever it held is lost.
    pub fn create(storage: impl Storage + 'static, options: Options) -> Result<Db> {
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let units = storage.len().doing("asking for the capacity")? / UNIT as u64;
        options.check(units)?;
        Superblock::erase(&*storage)?;
        if options.steps.sfl {
            prepare_log(&*storage, options.log_units(units))?;
        }
        let found = RecoveredState {
            uuid: RandomState::new().hash_one(units),
            life: 1,
            generation: 0,
            units,
            log_units: options.log_units(units),
            shape: options.shape(),
            log: LogPosition { pos: 0, seq: 1 },
            msn: 0,
        };
        let inner = assemble(storage, options, &found);
        inner.checkpoint()?;
        Db::start(inner)
    }

    /// Opens a store, replaying its log.
    ///
    /// # Errors
    /// [`Error::Lost`] if the log has lost what was durable, and [`Error::Corrupt`] if its end cannot be read, unless
    /// [`Options::recover`] is set; [`Error::Corrupt`] if the checkpoint or the log is damaged; [`Error::NotAStore`]; the storage's.
    pub fn open(storage: impl Storage + 'static, options: Options) -> Result<Db> {
        let LoadedStore { inner, logged, lost } = load(Arc::new(storage), options)?;
        inner.recover(&logged)?;
        // From here on the old frames are not needed, and frames of the new life count.
        inner.checkpoint()?;
        if let Some(offset) = logged.unreadable {
            log::overwrite_unreadable(&*inner.store.storage, offset)?;
        }
        drop(logged);
        let mut db = Db::start(inner)?;
        db.lost = lost;
        Ok(db)
    }

    fn start(mut inner: Inner) -> Result<Db> {
        // Nobody would write them before the threads run.
        inner.store.behind = inner.options.background;
        let inner = Arc::new(inner);
        let background = inner.options.background.then(|| Background::start(&inner)).transpose()?;
        Ok(Db { lost: None, inner, background })
    }
}

/// A checkpoint in memory, before the log that follows it is replayed.
pub(super) struct LoadedStore {
    pub inner: Inner,
    pub logged: LogContents,
    /// What was durable and is not there.
    pub lost: Option<LostBatches>,
}

/// Reads the checkpoint in force and the log that follows it, whose extents keep their space. See [`Db::open`] for the errors.
pub(super) fn load(storage: Arc<dyn Storage>, options: Options) -> Result<LoadedStore> {
    let (sb, whole) = Superblock::read(&*storage)?;
    let units = storage.len().doing("asking for the capacity")? / UNIT as u64;
    if units < sb.units {
        return Err(Error::NotAStore(format!("storage has {units} units, the store needs {}", sb.units)));
    }
    let stored = stored_options(&sb, options);
    stored.check(sb.units)?;
    let found = RecoveredState {
        uuid: sb.uuid,
        life: sb.life + 1,
        generation: sb.generation,
        units: sb.units,
        log_units: sb.log_units,
        shape: sb.shape,
        log: place_of(&sb),
        msn: sb.msn,
    };
    let mut inner = assemble(storage, stored, &found);
    inner.load_tree(&sb, None)?;
    let logged = LogContents::read(&*inner.store.storage, &inner.store.table, &sb)?;
    // A newer superblock may be lost, and frames of its life lie anywhere.
    let later = logged.later(&*inner.store.storage, if whole { GAP_BYTES_MAX } else { u64::MAX })?;
    let lost = logged.lost(&sb, &later);
    if let Some(lost) = lost.clone().filter(|_| !inner.options.recover) {
        return Err(Error::Lost(lost));
    }
    if let Some(offset) = logged.unreadable.filter(|_| !inner.options.recover) {
        return Err(log::unreadable(offset));
    }
    // Frames that are given up must not be taken for those of the new life.
    inner.life = inner.life.max(later.life + 1);
    inner.log.set_life(inner.life);
    if sb.life.max(later.life).max(sb.generation).max(logged.last_msn) > COUNT_MAX / 2 {
        return Err(Error::corrupt("superblock", 0, "a number that no store reaches"));
    }
    // Beside a damaged superblock, or with frames behind the end, what was found must be found again: only one checkpoint is taken.
    let (last_msn, durable) = (logged.last_msn, sb.durable.max(logged.last_msn));
    inner.lock_checkpoint().replayed = (whole && later.frames == 0).then(|| ReplayedLog {
        life: sb.life,
        from: place_of(&sb),
        last_msn,
        durable,
    });
    Ok(LoadedStore { inner, logged, lost })
}

/// `options` with what was chosen at creation.
pub(super) fn stored_options(sb: &Superblock, options: Options) -> Options {
    Options {
        leaf_bytes: sb.shape.leaf_bytes,
        basement_bytes: sb.shape.basement_bytes,
        buffer_bytes: sb.shape.buffer_bytes,
        fanout: sb.shape.fanout,
        log_bytes: sb.log_units * UNIT as u64,
        ..options
    }
}

/// Writes zeros over the log, so that a file system below has its blocks ready and a log write needs no allocation.
fn prepare_log(storage: &dyn Storage, units: u64) -> Result<()> {
    let zeros = AlignedBuf::zeroed(1 << 20);
    let end = (LOG_START + units) * UNIT as u64;
    let mut at = LOG_START * UNIT as u64;
    while at < end {
        let n = (zeros.len() as u64).min(end - at);
        storage.write_at(&zeros[..n as usize], at).doing("preparing the log")?;
        at += n;
    }
    Ok(())
}

/// Records of so many full memtables may be held: of the one that fills, and of the one that is being applied.
const MEMTABLES_HELD: usize = 2;

pub(super) fn assemble(storage: Arc<dyn Storage>, options: Options, found: &RecoveredState) -> Inner {
    let (shape, steps) = (found.shape, options.steps);
    let flushes = Arc::new(AtomicU64::new(0));
    let storage: Arc<dyn Storage> = match steps.sfl {
        true => storage,
        false => Arc::new(Stacked { below: storage, flushes: flushes.clone() }),
    };
    // Around everything, so that no part can pass over what another one was told.
    let storage = Arc::new(Latched::new(storage));
    let failure = storage.latch().clone();
    let table = Table::new(LOG_START + found.log_units, found.units, options.discard).failing(&failure);
    let (compression, cache) = (options.compression, options.cache_bytes);
    let mut store = Store::new(storage.clone(), table, shape, compression, cache, steps);
    store.failure = failure.clone();
    store.counters.stacked_flushes = flushes;
    store.extents = options.cached_extents;
    if options.background {
        store.helpers = HELPERS.into();
    }
    let ring = ring(found.uuid, found.life, found.log_units);
    let held = MEMTABLES_HELD * memtable_bytes_max(&options, found.units);
    let root = store.empty_tree();
    Inner {
        options,
        log: Log::new(storage, ring, found.log.pos, found.log.seq, found.msn)
            .behind(&store.flight)
            .holding(held),
        uuid: found.uuid,
        life: found.life,
        units: found.units,
        log_units: found.log_units,
        gate: RwLock::new(()),
        checkpoint: Mutex::new(Checkpoint {
            generation: found.generation,
            root: None,
            place: TableLocation::default(),
            msn: None,
            replayed: None,
            in_turn: false,
        }),
        tree: Mutex::new(()),
        front: RwLock::new(CurrentViews {
            active: Memtable::default(),
            last_msn: found.msn,
            view: Arc::new(View { frozen: Vec::new(), root, applied: found.msn }),
        }),
        waiting: AtomicUsize::new(0),
        pins: Mutex::default(),
        failure,
        refused_at: AtomicU64::new(0),
        refusals: AtomicU64::new(0),
        promised: AtomicU64::new(0),
        promising: Mutex::default(),
        checkpoints: AtomicU64::new(0),
        starved: AtomicU32::new(0),
        starved_at: AtomicU64::new(0),
        written_at_checkpoint: AtomicU64::new(0),
        drained_at_checkpoint: AtomicU64::new(0),
        drain: Mutex::default(),
        signals: Mutex::new(Signals::default()),
        progress: Condvar::new(),
        store,
    }
}

impl Inner {
    /// Reads the table of a checkpoint and hangs its root in.
    ///
    /// With `wrong`, blocks with impossible places or references are noted there and left out, see
    /// [`Table::adopt`]; else they are an error.
    pub(super) fn load_tree(
        &self,
        sb: &Superblock,
        wrong: Option<&mut Vec<(u64, &'static str)>>,
    ) -> Result<()> {
        let place = sb.table.resolve(&*self.store.storage, sb.units)?;
        let corrupt = |why: &str| Error::corrupt("translation table", place.offset(), why);
        let pieces = place.read(&*self.store.storage, sb.units)?;
        let (id, level, weight, width) = sb.root;
        let root = match wrong {
            None => self.store.table.decode(&pieces, id),
            Some(wrong) => self.store.table.adopt(&pieces, id, wrong),
        };
        let root = root.map_err(|m| corrupt(m.0))?;
        if !self.store.table.take(&place.segments()) {
            return Err(corrupt("it overlaps a block"));
        }
        let mut last = self.lock_checkpoint();
        last.place = place;
        last.root = Some(root.clone());
        let slot = Slot::stored(root, (level, weight, width), sb.msn, &self.store.meter);
        self.write_front().view = Arc::new(View { frozen: Vec::new(), root: slot, applied: sb.msn });
        Ok(())
    }
}
