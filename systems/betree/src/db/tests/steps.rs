//! Without any of the steps the store holds the same; and each does what it says.

use super::*;
use crate::Features;

fn without(name: &str) -> Options {
    let mut steps = Features::ALL;
    assert!(steps.set(name, false));
    Options { steps, ..Options::tiny() }
}

fn create(options: Options) -> Db {
    Db::create(sim(4096), options).expect("create")
}

#[test]
fn random_batches_agree_with_a_map_without_each_step() {
    for (i, name) in Features::NAMES.iter().enumerate() {
        println!("without {name}");
        agree_with_a_map(200 + i as u64..201 + i as u64, &without(name));
    }
    println!("without all");
    agree_with_a_map(300..302, &Options { steps: Features::NONE, ..Options::tiny() });
}

#[test]
fn sfl_makes_plain_flushes_and_prepares_the_log() {
    let flushes = |options: Options| {
        let storage = SimStorage::from_image(vec![0xEE; 1024 * UNIT]);
        let db = Db::create(storage.clone(), options).expect("create");
        for i in 0..5u8 {
            db.put(&[i], b"v").expect("put");
            db.sync().expect("sync");
        }
        let log = storage.image()[40 * UNIT..50 * UNIT].to_vec();
        (db.stats().stacked_flushes, log.iter().all(|b| *b == 0))
    };
    assert_eq!(flushes(Options::tiny()), (0, true));
    let (stacked, prepared) = flushes(without("sfl"));
    assert!(stacked >= 5 && !prepared);
}

#[test]
fn range_makes_one_message_of_a_range_delete() {
    let run = |options: Options| {
        let db = create(options);
        (0..200u8).for_each(|i| _ = db.put(&[b'd', i], &[i; 50]).expect("put"));
        let mut batch = WriteBatch::new();
        batch.put(b"d\xF0", b"of this batch").delete_range(&KeyRange::prefix(b"d"));
        batch.put(b"d\xF1", b"after").put(b"e", b"outside");
        db.write(batch).expect("write");
        assert_eq!(contents(&db).len(), 2);
        let s = db.stats();
        (s.ranges_expanded, s.keys_expanded)
    };
    assert_eq!(run(Options::tiny()), (0, 0));
    assert_eq!(run(without("range")), (1, 201));
    // More keys than a log record takes: one message after all.
    let db = create(Options { log_bytes: 16 * UNIT as u64, ..without("range") });
    (0..3000u32).for_each(|i| _ = db.put(&i.to_be_bytes(), b"v").expect("put"));
    db.delete_range(&KeyRange::all()).expect("delete");
    assert_eq!((contents(&db).len(), db.stats().keys_expanded), (0, 0));
}

#[test]
fn malloc_uses_transfer_buffers_again() {
    let run = |options: Options| {
        let db = create(options);
        (0..500u32).for_each(|i| _ = db.put(&i.to_be_bytes(), &[1; 300]).expect("put"));
        db.checkpoint().expect("checkpoint");
        let s = db.stats();
        (s.buffers_made, s.buffers_reused)
    };
    let (made, reused) = run(Options::tiny());
    assert!(reused > made, "{made} made, {reused} reused");
    let (made_without, reused) = run(without("malloc"));
    assert!(made_without > 2 * made && reused == 0);
}

/// A value in an extent is in the log or tree: bytes of log, extents and nodes after 20 of them.
fn large_values(options: Options) -> (u64, u64, u64, u64) {
    let db = create(options);
    (0..20u8).for_each(|i| _ = db.put(&[i; 4], &[i; 8192]).expect("put"));
    db.checkpoint().expect("checkpoint");
    let s = db.stats();
    assert_eq!(contents(&db).len(), 20);
    (s.log_bytes, s.extent_bytes_written, s.node_bytes_written, s.logged_twice_bytes)
}

#[test]
fn page_sharing_writes_large_values_once() {
    let data = 20 * 8192;
    let (log, extents, nodes, _) = large_values(Options::tiny());
    assert!(log < data / 10 && extents == data && nodes < data);
    let (log, extents, nodes, _) = large_values(without("page-sharing"));
    assert!(log > data && extents == 0 && nodes > data, "{log} {extents} {nodes}");
    // Larger than a log record: by reference after all.
    let db = create(without("page-sharing"));
    db.put(b"big", &[7; 200_000]).expect("put");
    assert!(db.stats().extent_bytes_written >= 200_000);
}

#[test]
fn cond_log_keeps_large_values_out_of_the_log() {
    let data = 20 * 8192;
    assert_eq!(large_values(Options::tiny()).3, 0);
    let (log, extents, nodes, twice) = large_values(without("cond-log"));
    assert!(
        log > data && extents == data && nodes < data && twice == data,
        "{log} {extents} {nodes} {twice}"
    );
}

#[test]
fn query_path_looks_at_one_key_only() {
    let run = |options: Options| {
        let storage = sim(4096);
        let db = Db::create(storage.clone(), options.clone()).expect("create");
        for i in 0..2000u32 {
            db.put(&(i * 7919 % 2000).to_be_bytes(), &i.to_be_bytes()).expect("put");
        }
        db.close().expect("close");
        let db = Db::open(storage, options).expect("open");
        for i in (0..2000u32).step_by(100) {
            assert!(db.get(&i.to_be_bytes()).expect("get").is_some());
        }
        db.stats()
    };
    let (with, without) = (run(Options::tiny()), run(without("query-path")));
    assert_eq!(with.entries_applied, 0);
    assert!(without.entries_applied > 20 * 20 && without.bytes_read > with.bytes_read);
}
