//! Opening a store takes as much memory as its cache and its memtable allow, however long its log is. A process of its own,
//! because all that it allocates is counted.

use betree::{Db, FileStorage, Options, WriteBatch};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The system's allocator, and how many bytes are taken from it.
struct Counting;

static TAKEN: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(TAKEN.fetch_add(layout.size(), Ordering::Relaxed) + layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const MIB: usize = 1 << 20;
const CACHE: usize = 8 * MIB;
/// A memtable is a 128th of the storage.
const STORAGE: u64 = 512 << 20;
/// Twice what is written.
const LOG: u64 = 240 << 20;
const BATCHES: u64 = 1600;
/// Values of a batch, and bytes of each.
const VALUES: u64 = 32;
const BYTES: usize = 1800;
/// The cache's budget, and for all that a memtable becomes on its way to the tree what a store of this size may take, about.
const ALLOWED: usize = 64 * MIB;

/// Keys anywhere among those that there are, so that a memtable concerns many leaves.
fn key(i: u64) -> [u8; 8] {
    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (BATCHES * VALUES / 4)).to_be_bytes()
}

#[test]
fn a_log_of_many_times_the_cache_is_opened_in_little_memory() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("image");
    let options = Options {
        cache_bytes: CACHE,
        log_bytes: LOG,
        checkpoint_interval: Duration::from_secs(1 << 20),
        background: false,
        ..Options::default()
    };
    let storage = FileStorage::create(&path, STORAGE, false).expect("create");
    let db = Db::create(storage, options.clone()).expect("create");
    for b in 0..BATCHES {
        let mut batch = WriteBatch::new();
        (b * VALUES..(b + 1) * VALUES).for_each(|i| _ = batch.put(&key(i), &[(i % 251) as u8; BYTES]));
        db.write(batch).expect("write");
        // Nothing is held to be bound to extents.
        if b % 16 == 0 {
            db.sync().expect("sync");
        }
    }
    let (log, before) = (db.stats().log_fill * LOG / 1000, db.stats().last_msn);
    assert!(log as usize > 8 * CACHE, "only {log} bytes of log: this shows nothing");
    drop(db);
    let taken = TAKEN.load(Ordering::Relaxed);
    MOST.store(taken, Ordering::Relaxed);
    let db = Db::open(FileStorage::open(&path, false).expect("open"), options).expect("open");
    let most = MOST.load(Ordering::Relaxed) - taken;
    println!("{} MiB at most for {} MiB of log", most / MIB, log as usize / MIB);
    assert!(most <= ALLOWED, "{} MiB, {} MiB are allowed", most / MIB, ALLOWED / MIB);
    assert_eq!(db.last_msn(), before);
    for i in BATCHES * VALUES - 1000..BATCHES * VALUES {
        let newest = (i..BATCHES * VALUES).rev().find(|j| key(*j) == key(i)).unwrap_or(i);
        assert_eq!(db.get(&key(i)).expect("get"), Some(vec![(newest % 251) as u8; BYTES]));
    }
}
