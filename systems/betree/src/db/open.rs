//! Creating, opening and recovering a store.

use super::background::Background;
use super::inner::{Checkpoint, Front, Inner, Signals, View};
use super::recover::{Logged, place_of, ring};
use super::space::memtable_bytes_max;
use super::{Db, Options};
use crate::error::{Doing, Error, Result};
use crate::log::{Log, Place};
use crate::memtable::Memtable;
use crate::node::Slot;
use crate::storage::{AlignedBuf, Stacked, Storage, UNIT};
use crate::store::{Shape, Store};
use crate::superblock::{LOG_START, Superblock};
use crate::table::Table;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, OnceLock, RwLock};

/// Threads that help to flush subtrees: they wait for reads most of the time.
const HELPERS: usize = 3;

/// What `assemble` needs besides the options.
pub(super) struct Found {
    pub uuid: u64,
    pub life: u64,
    pub generation: u64,
    pub units: u64,
    pub log_units: u64,
    pub shape: Shape,
    /// Where the log goes on.
    pub log: Place,
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
        let found = Found {
            uuid: RandomState::new().hash_one(units),
            life: 1,
            generation: 0,
            units,
            log_units: options.log_units(units),
            shape: options.shape(),
            log: Place { pos: 0, seq: 1 },
            msn: 0,
        };
        let inner = assemble(storage, options, &found);
        inner.checkpoint()?;
        Db::start(inner)
    }

    /// Opens a store, replaying its log.
    pub fn open(storage: impl Storage + 'static, options: Options) -> Result<Db> {
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let sb = Superblock::read(&*storage)?;
        let units = storage.len().doing("asking for the capacity")? / UNIT as u64;
        if units < sb.units {
            return Err(Error::NotAStore(format!("storage has {units} units, the store needs {}", sb.units)));
        }
        let stored = stored_options(&sb, options);
        stored.check(sb.units)?;
        let found = Found {
            uuid: sb.uuid,
            life: sb.life + 1,
            generation: sb.generation,
            units: sb.units,
            log_units: sb.log_units,
            shape: sb.shape,
            log: place_of(&sb),
            msn: sb.msn,
        };
        let inner = assemble(storage, stored, &found);
        inner.load_tree(&sb, None)?;
        let logged = Logged::read(&*inner.store.storage, &inner.store.table, &sb)?;
        inner.recover(&logged)?;
        // From here on the old frames are not needed, and frames of the new life count.
        inner.checkpoint()?;
        drop(logged);
        Db::start(inner)
    }

    fn start(mut inner: Inner) -> Result<Db> {
        // Nobody would write them before the threads run.
        inner.store.behind = inner.options.background;
        let inner = Arc::new(inner);
        let background = inner.options.background.then(|| Background::start(&inner)).transpose()?;
        Ok(Db { inner, background })
    }
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

pub(super) fn assemble(storage: Arc<dyn Storage>, options: Options, found: &Found) -> Inner {
    let table = Table::new(LOG_START + found.log_units, found.units, options.discard);
    let (shape, steps) = (found.shape, options.steps);
    let flushes = Arc::new(AtomicU64::new(0));
    let storage: Arc<dyn Storage> = match steps.sfl {
        true => storage,
        false => Arc::new(Stacked { below: storage, flushes: flushes.clone() }),
    };
    let (compression, cache) = (options.compression, options.cache_bytes);
    let mut store = Store::new(storage.clone(), table, shape, compression, cache, steps);
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
            table: Vec::new(),
            in_turn: false,
        }),
        tree: Mutex::new(()),
        front: RwLock::new(Front {
            active: Memtable::default(),
            last_msn: found.msn,
            view: Arc::new(View { frozen: Vec::new(), root, applied: found.msn }),
        }),
        waiting: AtomicUsize::new(0),
        pins: Mutex::default(),
        failure: OnceLock::new(),
        refused_at: AtomicU64::new(0),
        refusals: AtomicU64::new(0),
        checkpoints: AtomicU64::new(0),
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
        let first = sb.table.first().map_or(0, |s| s.start) * UNIT as u64;
        let corrupt = |why: &str| Error::corrupt("translation table", first, why);
        let bytes = sb.read_table(&*self.store.storage)?;
        let (id, level, weight, width) = sb.root;
        let root = match wrong {
            None => self.store.table.decode(&bytes, id),
            Some(wrong) => self.store.table.adopt(&bytes, id, wrong),
        };
        let root = root.map_err(|m| corrupt(m.0))?;
        if !self.store.table.take(&sb.table_segments()) {
            return Err(corrupt("it overlaps a block"));
        }
        let mut last = self.checkpoint.lock().unwrap_or_else(|e| e.into_inner());
        last.table = sb.table_segments();
        last.root = Some(root.clone());
        let slot = Slot::stored(root, (level, weight, width), sb.msn, &self.store.meter);
        self.write_front().view = Arc::new(View { frozen: Vec::new(), root: slot, applied: sb.msn });
        Ok(())
    }
}
