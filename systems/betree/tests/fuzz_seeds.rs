//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/betree_image.rs"]
mod betree_image_entry;
#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;

#[test]
fn no_seed_of_betree_image_panics_or_takes_much_memory() {
    seeds::replay("betree_image", betree_image_entry::run);
}

#[test]
#[ignore = "no test: writes a new image for fuzz target betree_image"]
fn write_a_small_store_with_some_of_everything() {
    use betree::{Compression, Db, KeyRange, Options, SimStorage, WriteBatch};
    const UNIT: u64 = 4096;
    let storage = SimStorage::new(192 * UNIT);
    let options = Options { log_bytes: 24 * UNIT, compression: Compression::Lz4, ..Options::tiny() };
    let db = Db::create(storage.clone(), options).expect("a new store");
    for i in 0..90_u8 {
        db.put(format!("dir/{i:02}").as_bytes(), &[i; 90]).expect("put");
    }
    db.put(b"big", &[7; 20_000]).expect("an extent");
    db.clone_range(b"dir/", b"copy/").expect("clone");
    db.checkpoint().expect("checkpoint");
    for i in (0..90_u8).step_by(2) {
        db.patch(format!("dir/{i:02}").as_bytes(), 20, &[i; 70]).expect("patch");
    }
    db.delete_range(&KeyRange::prefix(b"copy/3")).expect("delete");
    db.patch(b"copy/40", 3, b"changed after the clone").expect("patch");
    db.checkpoint().expect("checkpoint");
    // What an opening replays.
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"line\n").patch(b"big", 5, b"xy").delete(b"dir/00").truncate(b"dir/01", 3);
    batch.put(b"large", &[8; 10_000]).delete_range(&KeyRange::prefix(b"dir/2"));
    db.write(batch).expect("written");
    db.sync().expect("synced");
    db.rename_range(b"copy/", b"new/").expect("rename");
    db.put(b"last", &[1; 500]).expect("put");
    db.sync().expect("synced");
    drop(db);
    let packed = zstd::encode_all(&storage.image()[..], 19).expect("zstd");
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/images/betree.zst");
    std::fs::write(place, packed).expect("written");
}
