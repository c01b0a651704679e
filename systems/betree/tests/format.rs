//! Stores of every format version stay readable: `tests/fixtures` holds packed images, and this file what is in them.
//!
//! `cargo test -p loadline-betree --test format -- --ignored` writes images of the current version for a new set; those
//! committed are never replaced.

use betree::{Compression, Db, FsckOptions, KeyRange, Options, SimStorage, WriteBatch, fsck};
use std::collections::BTreeMap;
use std::path::PathBuf;

const UNIT: usize = 4096;
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("{name}.zst"))
}

/// A store together with the map that it should hold.
struct Pair {
    db: Db,
    model: Model,
}

impl Pair {
    fn new(storage: SimStorage, options: Options) -> Self {
        Pair { db: Db::create(storage, options).expect("create"), model: Model::new() }
    }

    fn put(&mut self, key: &str, value: &[u8]) {
        self.db.put(key.as_bytes(), value).expect("put");
        self.model.insert(key.as_bytes().to_vec(), value.to_vec());
    }

    fn patch(&mut self, key: &str, off: usize, bytes: &[u8]) {
        self.db.patch(key.as_bytes(), off as u32, bytes).expect("patch");
        let value = self.model.entry(key.as_bytes().to_vec()).or_default();
        value.resize(value.len().max(off + bytes.len()), 0);
        value[off..off + bytes.len()].copy_from_slice(bytes);
    }

    fn delete(&mut self, key: &str) {
        self.db.delete(key.as_bytes()).expect("delete");
        self.model.remove(key.as_bytes());
    }

    fn truncate(&mut self, key: &str, len: u32) {
        let mut batch = WriteBatch::new();
        batch.truncate(key.as_bytes(), len);
        self.db.write(batch).expect("truncate");
        self.model.get_mut(key.as_bytes()).expect("exists").truncate(len as usize);
    }

    fn set_len(&mut self, key: &str, len: u32) {
        let mut batch = WriteBatch::new();
        batch.set_len(key.as_bytes(), len);
        self.db.write(batch).expect("set_len");
        self.model.entry(key.as_bytes().to_vec()).or_default().resize(len as usize, 0);
    }

    fn delete_range(&mut self, prefix: &str) {
        self.db.delete_range(&KeyRange::prefix(prefix.as_bytes())).expect("delete_range");
        self.model.retain(|k, _| !k.starts_with(prefix.as_bytes()));
    }

    fn clone_range(&mut self, from: &str, to: &str, rename: bool) {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        let done = if rename { self.db.rename_range(from, to) } else { self.db.clone_range(from, to) };
        done.expect("clone");
        self.model.retain(|k, _| !k.starts_with(to));
        let source: Vec<_> = self.model.iter().filter(|(k, _)| k.starts_with(from)).collect();
        let copy: Model =
            source.iter().map(|(k, v)| ([to, &k[from.len()..]].concat(), (*v).clone())).collect();
        if rename {
            self.model.retain(|k, _| !k.starts_with(from));
        }
        self.model.extend(copy);
    }

    /// Every kind of change, on small values, values in extents, and cloned ones.
    fn fill(&mut self, first: u32) {
        for i in first..first + 150 {
            self.put(&format!("dir/{:03}", i * 7 % 400), &[i as u8; 90][..(i % 90) as usize]);
        }
        self.put(&format!("big/{first}"), &vec![first as u8; 30_000]);
        self.put(&format!("big/{}", first + 1), &vec![1; 9_000]);
        self.patch(&format!("big/{first}"), 12_345, b"patched in place");
        self.clone_range("dir/", &format!("clone{first}/"), false);
        self.delete_range(&format!("clone{first}/1"));
        self.patch(&format!("clone{first}/200"), 3, b"changed after the clone");
        self.clone_range("big/", "large/", first.is_multiple_of(2));
        for i in 0..40 {
            let key = format!("dir/{:03}", i * 9 + 1);
            match i % 4 {
                0 => self.delete(&key),
                1 => self.patch(&key, i as usize, b"xyz"),
                2 => self.set_len(&key, i as u32),
                _ => self.put(&key, b"again"),
            }
        }
        self.put("dir/long", &[9; 500]);
        self.truncate("dir/long", 123);
    }

    /// A little in each of many leaves, which format 2 leaves in extents.
    fn scatter(&mut self) {
        for i in 0..1200 {
            self.put(&format!("wide/{i:04}"), &[i as u8; 200]);
        }
        self.db.checkpoint().expect("checkpoint");
        for i in 0..600 {
            let key = format!("wide/{:04}", i * 797 % 1200);
            match i % 3 {
                0 => self.put(&key, &[i as u8; 150]),
                1 => self.patch(&key, 20, &[i as u8; 70]),
                _ => self.truncate(&key, 100),
            }
        }
    }

    /// Checkpoints of little that is new, after the last of which the table is in two pieces in format 4: the one before wrote it whole.
    fn few_changes(&mut self) {
        for checkpoint in ["first", "second", "third"] {
            self.put("few/1", checkpoint.as_bytes());
            self.db.checkpoint().expect("checkpoint");
        }
    }

    /// More of each in fewer leaves, and nothing synced: no checkpoint comes of it.
    fn scatter_a_little(&mut self) {
        for i in 0..40 {
            self.put(&format!("wide/{:04}", i * 797 % 1200), &[i as u8; 350]);
        }
    }

    /// More of each, and nothing synced: format 3 leaves that out of the log.
    fn scatter_more(&mut self) {
        for i in 0..160 {
            let key = format!("wide/{:04}", i * 797 % 1200);
            match i % 2 {
                0 => self.put(&key, &[i as u8; 350]),
                _ => self.patch(&key, 40, &[i as u8; 250]),
            }
        }
    }
}

/// Writes one fixture to `storage`; returns what it holds.
fn write(name: &str, storage: &SimStorage) -> Model {
    let compression = match name {
        "v1-lz4" | "v2-lz4" => Compression::Lz4,
        "v1-zstd" => Compression::Zstd(3),
        _ => Compression::None,
    };
    let options = Options { log_bytes: 40 * UNIT as u64, compression, ..Options::tiny() };
    let mut pair = Pair::new(storage.clone(), options);
    for round in 0..4 {
        pair.fill(round * 100);
        pair.db.sync().expect("sync");
    }
    if !name.starts_with("v1") {
        pair.scatter();
        assert!(pair.db.stats().spilled_bytes > 10_000, "{name}: a store of format 1 would do");
    }
    if name.ends_with("-log") {
        pair.db.checkpoint().expect("checkpoint");
        if name >= "v3" {
            pair.scatter_more();
            assert!(pair.db.stats().bound_bytes > 10_000, "{name}: a log of format 2 would do");
        }
        if name >= "v4" {
            pair.few_changes();
            pair.scatter_a_little();
        }
        pair.fill(500);
        pair.db.sync().expect("sync");
        drop(pair.db);
    } else {
        pair.db.close().expect("close");
    }
    pair.model
}

fn fixture(name: &str) -> SimStorage {
    let packed = std::fs::read(path(name)).expect("a committed fixture");
    SimStorage::from_image(zstd::decode_all(&packed[..]).expect("zstd"))
}

const ALL: [&str; 9] =
    ["v1-plain", "v1-lz4", "v1-zstd", "v1-log", "v2-plain", "v2-lz4", "v2-log", "v3-log", "v4-log"];

#[test]
fn stores_of_every_format_open_and_hold_what_was_written() {
    for name in ALL {
        let storage = fixture(name);
        let report = fsck(storage.clone(), FsckOptions::default()).expect(name);
        assert_eq!(report.findings, vec![], "{name}: {report}");
        assert_eq!(report.log_batches > 50, name.ends_with("-log"), "{name}: {report}");
        let expected = write(name, &SimStorage::new(1024 * UNIT as u64));
        let db = Db::open(storage.clone(), Options::tiny()).expect(name);
        let found: Model = db.scan(&KeyRange::all()).map(|r| r.expect(name)).collect();
        assert!(found == expected, "{name}: contents differ");
        assert!(found.iter().all(|(k, v)| db.get(k).expect(name).as_ref() == Some(v)));
        assert_eq!(db.verify().expect(name).problems, Vec::<String>::new(), "{name}");
        // And it can be written on.
        db.put(b"new", b"value").expect(name);
        db.close().expect(name);
        let db = Db::open(storage, Options::tiny()).expect(name);
        assert_eq!(db.get(b"new").expect(name), Some(b"value".to_vec()));
    }
}

/// Reads an `int` and moves on.
fn int(image: &[u8], at: &mut usize) -> u64 {
    let mut n = 0;
    for shift in (0..).step_by(7) {
        let byte = image[*at];
        *at += 1;
        n |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            break;
        }
    }
    n
}

/// The fixed parts of the format, read as `docs/betrfs-format.md` describes them and not with the crate's decoders.
#[test]
fn the_bytes_are_where_the_description_says() {
    for version in *b"1234" {
        look_at(version, &fixture(&format!("v{}-log", version as char)).image());
    }
}

fn look_at(version: u8, image: &[u8]) {
    let u32_at = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().expect("four bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().expect("eight bytes"));
    for unit in 0..4 {
        let at = unit * UNIT;
        assert_eq!((&image[at..at + 7], image[at + 7]), (&b"\"BEtree"[..], version));
        assert_eq!(u32_at(at + UNIT - 4), crc32c::crc32c(&image[at..at + UNIT - 4]));
        assert_eq!(u64_at(at + 8), u64_at(8), "one store");
        assert_eq!(u64_at(at + 16) % 2, unit as u64 / 2, "generations by parity");
    }
    let newest = if u64_at(16) > u64_at(2 * UNIT + 16) { 0 } else { 2 * UNIT };
    let mut at = newest + 32;
    // Format 4 says in superblocks and frames what was durable.
    let says_durable = version >= b'4';
    let ints = |n: usize, at: &mut usize| (0..n).map(|_| int(image, at)).collect::<Vec<u64>>();
    assert_eq!(
        ints(6, &mut at),
        [4096, 1024, 4096, 6, 1024, 40],
        "leaf, basement, buffers, fanout, units, log units"
    );
    let old_len = if version < b'4' { int(image, &mut at) } else { 0 };
    let _root_and_hints = ints(4, &mut at);
    let (msn, log_pos, log_seq) = (int(image, &mut at), int(image, &mut at), int(image, &mut at));
    if says_durable {
        assert!(int(image, &mut at) >= msn, "durable is at least what the tree has");
    }
    if version < b'4' {
        look_at_piece(image, old_len as usize, &mut at);
    } else {
        assert_eq!(image[at], 0, "no list of lists");
        at += 1;
        let end = int(image, &mut at) as usize + at;
        let pieces = int(image, &mut at);
        assert!(pieces > 1, "the whole table, and changes");
        for _ in 0..pieces {
            let len = int(image, &mut at) as usize;
            look_at_piece(image, len, &mut at);
        }
        assert_eq!(at, end);
    }
    let ring = 40 * UNIT as u64;
    let frame = |pos: u64| 4 * UNIT + (pos % ring) as usize;
    let (magic, header) = if says_durable { (b"BLO2", 60) } else { (b"BLOG", 52) };
    let mut at = frame(log_pos);
    if &image[at..at + 4] != magic || u64_at(at + 24) != log_seq {
        at = frame(log_pos.next_multiple_of(ring));
    }
    assert_eq!(&image[at..at + 4], magic);
    assert_eq!(
        (u64_at(at + 8), u64_at(at + 16)),
        (u64_at(newest + 8), u64_at(newest + 24)),
        "store and life"
    );
    assert_eq!(u64_at(at + 24), log_seq);
    assert!(u64_at(at + 32) <= msn + 1 && u64_at(at + 40) > msn, "first and last batch");
    let len = u32_at(at + 48) as usize;
    assert_eq!(u32_at(at + 4), crc32c::crc32c(&image[at + 8..at + header + len]));
    if says_durable {
        assert_eq!(u64_at(at + 52), msn, "the first frame after a checkpoint");
    }
}

/// The checksum and the two places of a piece of the table that has `len` bytes.
fn look_at_piece(image: &[u8], len: usize, at: &mut usize) {
    let crc = image[*at..*at + 4].to_vec();
    *at += 4;
    for _copy in 0..2 {
        assert_eq!(int(image, at), 1, "one segment");
        let (start, units) = (int(image, at) as usize, int(image, at) as usize);
        assert!(len <= units * UNIT);
        assert_eq!(crc32c::crc32c(&image[start * UNIT..][..len]).to_le_bytes()[..], crc);
    }
}

#[test]
#[ignore = "no test: writes new fixtures"]
fn write_fixtures_that_do_not_exist() {
    for name in ALL.into_iter().filter(|n| !path(n).exists()) {
        let storage = SimStorage::new(1024 * UNIT as u64);
        write(name, &storage);
        let packed = zstd::encode_all(&storage.image()[..], 19).expect("zstd");
        std::fs::write(path(name), packed).expect("write");
    }
}
