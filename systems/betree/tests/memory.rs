//! Memory stays within the cache's budget plus 256 MiB, whatever is written. A process of its own, because the peak of
//! the whole process is what counts.

use betree::{Db, FileStorage, KeyRange, Options, WriteBatch};

const MIB: usize = 1 << 20;
const CACHE: usize = 16 * MIB;
const ALLOWED: usize = CACHE + 256 * MIB;

/// Largest resident size of this process so far, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).expect("a line for the peak");
    let kib: usize = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    kib * 1024
}

fn check(db: &Db, before: usize, what: &str) {
    let (used, counted) = (peak() - before, db.stats().memory_bytes);
    println!("{what}: {} MiB at most so far, {} MiB accounted for now", used / MIB, counted / MIB);
    assert!(used <= ALLOWED, "{what}: {} MiB, {} MiB are allowed", used / MIB, ALLOWED / MIB);
    assert!(counted <= ALLOWED, "{what}: {} MiB accounted for", counted / MIB);
}

#[test]
fn a_big_load_stays_within_the_budget() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let storage = FileStorage::create(&dir.path().join("image"), 16 << 30, false).expect("create");
    let options = Options { cache_bytes: CACHE, log_bytes: 512 << 20, ..Options::default() };
    let before = peak();
    let db = Db::create(storage, options).expect("create");
    let data: Vec<u8> = (0..MIB + 4096).map(|i| (i * 31 / 7) as u8).collect();
    // A stream.
    for i in 0..192u64 {
        let mut batch = WriteBatch::new();
        for b in 0..256u64 {
            batch.put(&[b"file", &(i * 256 + b).to_be_bytes()[..]].concat(), &data[b as usize..][..4096]);
        }
        db.write(batch).expect("write");
    }
    check(&db, before, "a stream of 192 MiB");
    let scatter = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for i in 0..50_000u64 {
        let block = scatter(i) % (192 * 256);
        db.patch(&[b"file", &block.to_be_bytes()[..]].concat(), (i % 2048) as u32, &data[..2048])
            .expect("patch");
    }
    check(&db, before, "100 MiB of patches");
    for i in 0..600_000u64 {
        let key = format!("a/directory/with/many/files/{:016x}", scatter(i));
        db.put(key.as_bytes(), &data[(i % 512) as usize..][..200]).expect("put");
    }
    check(&db, before, "600,000 small files");
    let mut rows = 0;
    for item in db.scan(&KeyRange::all()) {
        rows += usize::from(item.is_ok());
    }
    assert_eq!(rows, 192 * 256 + 600_000);
    db.delete_range(&KeyRange::prefix(b"a/")).expect("delete");
    db.checkpoint().expect("checkpoint");
    check(&db, before, "a scan, a range delete, a checkpoint");
}
