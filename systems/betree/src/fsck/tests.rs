//! Damage of every kind: what matters is found, a repair leaves a store that opens and verifies, and only keys that the
//! report names differ from what was written.

use super::*;
use crate::block::{BlockInfo, BlockKind, Segment};
use crate::db::LogContents;
use crate::db::tests::model::{Model, World, contents};
use crate::db::tests::{seeds, sim};
use crate::error::Result;
use crate::header::{self, PartLocation};
use crate::key::KeyRange;
use crate::node::{Inner, NOT_BELOW, Node, Slot};
use crate::place::{PieceList, StoredPiece};
use crate::storage::{AlignedBuf, SimStorage, Storage};
use crate::superblock::LOG_START;
use crate::table::Table;
use crate::wire::Malformed;
use crate::{Db, Options};
use std::collections::BTreeMap;

const REPAIR: FsckOptions = FsckOptions { repair: true };
const CHECK: FsckOptions = FsckOptions { repair: false };

/// A store's image, and its states by batch number.
struct Written {
    image: Vec<u8>,
    states: BTreeMap<u64, Model>,
    last: u64,
}

/// A store with clones, extents and pending messages; `open` leaves batches in the log.
fn written(seed: u64, open: bool) -> Written {
    let storage = sim(3072);
    let db = Db::create(storage.clone(), Options::tiny()).expect("create");
    let mut world = World::new(seed);
    let mut states = BTreeMap::from([(0, Model::new())]);
    for i in 0..140 {
        world.write(&db);
        states.insert(db.last_msn(), world.model.clone());
        if i == 90 {
            db.checkpoint().expect("checkpoint");
        }
        if i % 10 == 3 {
            db.sync().expect("sync");
        }
    }
    let last = db.last_msn();
    if open {
        db.sync().expect("sync");
        drop(db);
    } else {
        db.close().expect("close");
    }
    Written { image: storage.image(), states, last }
}

fn flip(storage: &SimStorage, at: u64, bit: u64) {
    let old = storage.image()[at as usize];
    storage.corrupt(at, &[old ^ (1 << bit)]);
}

/// Opens a repaired store and compares it with the state it says it has; returns the number of keys lost.
fn check_repaired(storage: &SimStorage, w: &Written, report: &FsckReport, what: &str) -> usize {
    assert!(report.repaired, "{what}: {report}");
    let again = fsck(storage.clone(), CHECK).expect(what);
    assert_eq!(again.findings, vec![], "{what}");
    let db = Db::open(storage.clone(), Options::tiny()).expect(what);
    assert_eq!(db.verify().expect(what).problems, Vec::<String>::new(), "{what}");
    let state = w.states.get(&report.last_msn).unwrap_or_else(|| panic!("{what}: {report}"));
    let found = contents(&db);
    let named =
        |key: &[u8], kind: LossKind| report.lost.iter().any(|l| l.kind == kind && l.range.contains(key));
    let mut lost = 0;
    for (key, value) in state {
        if found.get(key) != Some(value) {
            let gone = named(key, LossKind::Gone) && !found.contains_key(key);
            assert!(gone || named(key, LossKind::Doubtful), "{what}: key {key:?} differs: {report}");
            lost += 1;
        }
    }
    for key in found.keys().filter(|k| !state.contains_key(*k)) {
        assert!(named(key, LossKind::Doubtful), "{what}: key {key:?} should not be there: {report}");
    }
    // The repaired store can be used.
    db.put(b"new", b"value").expect(what);
    db.checkpoint().expect(what);
    lost
}

#[test]
fn a_sound_store_is_clean_and_is_not_written() {
    for open in [false, true] {
        let w = written(3, open);
        let storage = SimStorage::from_image(w.image.clone());
        let report = fsck(storage.clone(), CHECK).expect("fsck");
        assert_eq!(report.findings, vec![], "{report}");
        assert_eq!((report.last_msn, report.log_batches > 0), (w.last, open));
        assert!(report.nodes > 5 && report.extents > 0 && report.entries > 100, "{report}");
        let report = fsck(storage.clone(), REPAIR).expect("fsck");
        assert!(!report.repaired && report.is_clean());
        assert!(storage.image() == w.image, "a sound store was written");
    }
}

#[test]
fn random_bit_flips_are_found_and_repaired_without_losing_what_is_whole() {
    let (mut mattered, mut total, mut lost_all) = (0, 0, 0);
    for seed in seeds(8) {
        println!("seed {seed}");
        let w = written(seed, seed.is_multiple_of(2));
        let used: Vec<u64> = (0..w.image.len() / UNIT)
            .filter(|u| w.image[u * UNIT..(u + 1) * UNIT].iter().any(|b| *b != 0))
            .map(|u| (u * UNIT) as u64)
            .collect();
        let mut random = World::new(seed + 1000);
        for trial in 0..25 {
            let storage = SimStorage::from_image(w.image.clone());
            let mut flips = Vec::new();
            for _ in 0..1 + random.below(3) {
                let at = used[random.below(used.len() as u64) as usize] + random.below(UNIT as u64);
                flip(&storage, at, random.below(8));
                flips.push(at);
            }
            let what = format!("seed {seed} trial {trial} flips {flips:?}");
            let damaged = storage.image();
            let report = fsck(storage.clone(), CHECK).expect(&what);
            assert!(storage.image() == damaged, "{what}: a check wrote");
            total += 1;
            if report.findings.is_empty() {
                // Then it must not matter: as if nothing had happened.
                let db = Db::open(storage.clone(), Options::tiny()).expect(&what);
                assert!(db.last_msn() == w.last && contents(&db) == w.states[&w.last], "{what}: missed");
                continue;
            }
            mattered += 1;
            let predicted = report.lost;
            let report = fsck(storage.clone(), REPAIR).expect(&what);
            assert_eq!(report.lost, predicted, "{what}: the check foresaw another loss");
            lost_all += check_repaired(&storage, &w, &report, &what);
        }
    }
    println!("{mattered} of {total} mattered, {lost_all} keys lost");
    assert!(mattered * 5 > total, "{mattered} of {total} images mattered: is anything checked?");
}

/// Blocks of a kind in the newest checkpoint.
fn blocks(image: &[u8], kind: BlockKind) -> Vec<(u64, Arc<BlockInfo>)> {
    let storage: Arc<dyn Storage> = Arc::new(SimStorage::from_image(image.to_vec()));
    let sb = checkpoints(&units(&*storage)).remove(0);
    let tree = Tree::load(&storage, &sb, &mut Vec::new()).expect("table");
    let list = tree.store.table.list();
    list.into_iter().filter(|(_, i, _)| i.kind == kind).map(|(id, i, _)| (id, i)).collect()
}

/// Wipes the older generation, so that only the newest is left to repair from.
fn without_older(image: &[u8]) -> SimStorage {
    let storage = SimStorage::from_image(image.to_vec());
    let newest = checkpoints(&units(&storage)).remove(0);
    let older = (newest.generation + 1) % 2 * 2 * UNIT as u64;
    storage.corrupt(older, &[0; 2 * UNIT]);
    storage
}

#[test]
fn a_damaged_basement_loses_its_own_keys_only() {
    let w = written(11, false);
    let all: usize = w.states[&w.last].iter().map(|(k, v)| k.len() + v.len()).sum();
    for (id, info) in blocks(&w.image, BlockKind::Leaf).into_iter().take(40) {
        let storage = without_older(&w.image);
        // Inside the last basement.
        flip(&storage, info.segments[0].start * UNIT as u64 + info.len.min(UNIT as u32) as u64 - 1, 3);
        let what = format!("leaf {id}");
        let report = fsck(storage.clone(), REPAIR).expect(&what);
        assert!(report.worst() == Some(Severity::Error), "{what}: {report}");
        assert!(report.lost.iter().all(|l| l.kind == LossKind::Gone), "{what}: {report}");
        let lost = check_repaired(&storage, &w, &report, &what);
        assert!(lost < w.states[&w.last].len() / 4, "{what}: {lost} keys of {all} bytes lost");
    }
}

#[test]
fn a_damaged_extent_chunk_loses_only_the_values_in_it() {
    let w = written(12, false);
    let extents = blocks(&w.image, BlockKind::Extent);
    assert!(!extents.is_empty());
    for (id, info) in extents {
        let storage = without_older(&w.image);
        flip(&storage, info.segments[0].start * UNIT as u64 + 5, 0);
        let what = format!("extent {id}");
        let report = fsck(storage.clone(), REPAIR).expect(&what);
        let lost = check_repaired(&storage, &w, &report, &what);
        assert!(lost <= 40, "{what}: {lost} keys lost: {report}");
    }
}

#[test]
fn below_a_damaged_inner_node_the_leaves_are_found_again() {
    let w = written(13, false);
    let mut kept = 0;
    for (id, info) in blocks(&w.image, BlockKind::Inner) {
        let storage = without_older(&w.image);
        flip(&storage, info.segments[0].start * UNIT as u64 + 9, 1);
        let what = format!("inner node {id}");
        let report = fsck(storage.clone(), REPAIR).expect(&what);
        let lost = check_repaired(&storage, &w, &report, &what);
        kept += usize::from(lost < w.states[&w.last].len() / 2);
    }
    assert!(kept > 0, "no damaged inner node left half of the keys");
}

#[test]
fn an_older_checkpoint_with_the_log_after_it_loses_nothing() {
    // Nothing was written after closing, so the checkpoint before and its log are whole.
    let w = written(14, false);
    let newest = checkpoints(&units(&SimStorage::from_image(w.image.clone()))).remove(0);
    let at = |place: &[Segment]| place[0].start * UNIT as u64 + 3;
    let places =
        newest.table.resolve(&SimStorage::from_image(w.image.clone()), newest.units).expect("a table");
    let table = places.pieces.last().expect("a piece");
    let root = blocks(&w.image, BlockKind::Inner).into_iter().find(|(id, _)| *id == newest.root.0);
    let root = root.expect("a tall tree").1.segments[0].start * UNIT as u64;
    for bytes in [vec![at(&table.first), at(&table.copy)], vec![root + 9]] {
        let storage = SimStorage::from_image(w.image.clone());
        bytes.iter().for_each(|at| flip(&storage, *at, 2));
        let report = fsck(storage.clone(), REPAIR).expect("fsck");
        assert!(report.lost.is_empty() && report.last_msn == w.last, "bytes {bytes:?}: {report}");
        assert_eq!(check_repaired(&storage, &w, &report, "older"), 0);
    }
    // One damaged copy of the table costs nothing, and the store can even be opened.
    for place in [&table.first, &table.copy] {
        let storage = without_older(&w.image);
        flip(&storage, at(place), 2);
        assert!(Db::open(storage.copy(), Options::tiny()).is_ok());
        let report = fsck(storage.clone(), REPAIR).expect("fsck");
        assert!(report.lost.is_empty() && report.worst() == Some(Severity::Warning), "{report}");
        assert_eq!(check_repaired(&storage, &w, &report, "table copy"), 0);
    }
}

#[test]
fn damaged_superblock_copies_are_written_anew() {
    let w = written(15, false);
    for unit in 0..LOG_START {
        let storage = SimStorage::from_image(w.image.clone());
        flip(&storage, unit * UNIT as u64 + 40, 2);
        let report = fsck(storage.clone(), REPAIR).expect("fsck");
        assert_eq!(report.worst(), Some(Severity::Warning), "{report}");
        assert_eq!(check_repaired(&storage, &w, &report, "superblock"), 0);
        assert_eq!(report.last_msn, w.last);
    }
    let storage = SimStorage::from_image(w.image.clone());
    storage.corrupt(0, &[0; LOG_START as usize * UNIT]);
    assert!(matches!(fsck(storage, REPAIR), Err(Error::NotAStore(_))));
}

#[test]
fn a_torn_log_tail_and_a_gap_are_told_apart_and_cut() {
    let w = written(16, true);
    let storage: Arc<dyn Storage> = Arc::new(SimStorage::from_image(w.image.clone()));
    let sb = checkpoints(&units(&*storage)).remove(0);
    let table = Table::new(LOG_START + sb.log_units, sb.units, false);
    let logged = LogContents::read(&*storage, &table, &sb).expect("read the log");
    let frames: Vec<_> = logged.frames(&*storage).map(|frame| frame.expect("frame")).collect();
    assert!(frames.len() > 2);
    let place = |pos: u64| LOG_START * UNIT as u64 + pos % (sb.log_units * UNIT as u64);
    let (mut lost, mut undecided) = (0, 0);
    for (i, f) in frames.iter().enumerate() {
        // In the magic number, the store's number, the life, the sequence, the payload.
        for byte in [1, 9, 17, 25, 60] {
            let storage = SimStorage::from_image(w.image.clone());
            flip(&storage, place(f.pos) + byte, 4);
            let report = fsck(storage.clone(), CHECK).expect("fsck");
            let durable = frames[i + 1..].iter().map(|later| later.durable).max();
            let expected = match durable {
                None => Severity::Note,
                Some(durable) if durable.max(sb.durable) < f.first_msn => Severity::Warning,
                Some(_) => Severity::Error,
            };
            (lost, undecided) = (lost + u32::from(expected == Severity::Error), undecided + 1);
            assert_eq!(report.worst(), Some(expected), "frame {i} byte {byte}: {report}");
            assert_eq!(report.last_msn, sb.msn.max(f.first_msn - 1));
            let report = fsck(storage.clone(), REPAIR).expect("fsck");
            assert_eq!(check_repaired(&storage, &w, &report, "log"), 0);
        }
    }
    assert!(lost > 0 && lost < undecided, "{lost} of {undecided} gaps lost what was durable");
}

/// Replaces the table of the newest checkpoint, with a matching checksum: what only a fault of the store could do.
fn with_table(image: &[u8], change: impl Fn(&mut Vec<(u64, BlockInfo)>)) -> SimStorage {
    let storage = without_older(image);
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut sb = checkpoints(&units(&storage)).remove(0);
    let tree = Tree::load(&shared, &sb, &mut Vec::new()).expect("table");
    let copy = |i: &BlockInfo| BlockInfo {
        kind: i.kind,
        segments: i.segments.clone(),
        len: i.len,
        head_len: i.head_len,
        sums: i.sums.clone(),
        out: i.out.clone(),
    };
    let mut list: Vec<(u64, BlockInfo)> =
        tree.store.table.list().iter().map(|(id, i, _)| (*id, copy(i))).collect();
    change(&mut list);
    let bytes = crate::table::encode_list(&list);
    let place = tree.place.pieces[0].first[0];
    assert!(
        bytes.len() <= place.units as usize * UNIT,
        "the changed table must fit the place of the old one"
    );
    let buf = AlignedBuf::from_slice(&bytes);
    storage.corrupt(place.start * UNIT as u64, &buf);
    let first = vec![Segment { start: place.start, units: (buf.len() / UNIT) as u32 }];
    let crc = crc32c::crc32c(&bytes);
    sb.table = PieceList::of(&[StoredPiece { len: bytes.len() as u64, crc, first, copy: Vec::new() }]);
    sb.write_in_turn(&storage).expect("write");
    storage
}

#[test]
fn a_table_that_contradicts_itself_is_found() {
    let w = written(17, false);
    let far = Segment { start: 3000, units: 1 };
    let stray = move |list: &mut Vec<(u64, BlockInfo)>| {
        let id = list.iter().map(|(id, _)| *id).max().unwrap_or(0) + 1;
        let (kind, segments) = (BlockKind::Extent, vec![far]);
        list.push((id, BlockInfo { kind, segments, len: 10, head_len: 0, sums: vec![0], out: vec![] }));
    };
    let storage = with_table(&w.image, stray);
    let report = fsck(storage.clone(), REPAIR).expect("fsck");
    assert!(report.to_string().contains("nothing refers to 1 blocks"), "{report}");
    assert_eq!(check_repaired(&storage, &w, &report, "unreachable"), 0);

    let outside = with_table(&w.image, |list| {
        let leaf = list.iter_mut().find(|(_, i)| i.kind == BlockKind::Leaf).expect("a leaf");
        leaf.1.segments[0].start = 1 << 40;
    });
    let wild = with_table(&w.image, |list| {
        let leaf = list.iter_mut().find(|(_, i)| i.kind == BlockKind::Leaf).expect("a leaf");
        leaf.1.segments[0].start = u64::MAX - 1;
    });
    let overlap = with_table(&w.image, |list| {
        let taken = list[0].1.segments[0].start;
        let i = list.iter().rposition(|(_, i)| i.kind == BlockKind::Leaf).expect("a leaf");
        list[i].1.segments[0].start = taken;
    });
    let dangling = with_table(&w.image, |list| {
        let i = list.iter().position(|(_, i)| i.kind == BlockKind::Leaf).expect("a leaf");
        list.remove(i);
    });
    for (what, storage) in
        [("outside", outside), ("wild", wild), ("overlap", overlap), ("dangling", dangling)]
    {
        assert!(Db::open(storage.clone(), Options::tiny()).is_err(), "{what}");
        let report = fsck(storage.clone(), REPAIR).expect(what);
        assert_eq!(report.worst(), Some(Severity::Error), "{what}: {report}");
        check_repaired(&storage, &w, &report, what);
    }
}

#[test]
fn a_repair_that_is_interrupted_can_be_taken_up_again() {
    use crate::storage::FaultPlan;
    let w = written(18, true);
    let leaf = blocks(&w.image, BlockKind::Leaf).remove(2).1;
    for cut in (0..40).chain((40..1000).step_by(17)) {
        let storage = SimStorage::from_image(w.image.clone());
        flip(&storage, leaf.segments[0].start * UNIT as u64 + 2, 2);
        flip(&storage, 44, 2);
        storage.set_faults(FaultPlan { power_off_after: Some(cut), ..FaultPlan::default() });
        let done = fsck(storage.clone(), REPAIR).is_ok();
        for seed in 0..3 {
            let storage = storage.power_cut(seed);
            let what = format!("cut {cut} seed {seed}");
            let mut report = fsck(storage.clone(), REPAIR).expect(&what);
            report.repaired |= report.findings.is_empty();
            assert_eq!(report.last_msn, w.last, "{what}");
            let db = Db::open(storage, Options::tiny()).expect(&what);
            assert_eq!(db.verify().expect(&what).problems, Vec::<String>::new(), "{what}");
        }
        if done {
            assert!(cut > 6, "the repair wrote next to nothing");
            return;
        }
    }
    panic!("the repair never ended");
}

/// An image whose root has itself below, as a child that is said to be of `level`, with matching checksums.
fn with_root_below_itself(image: &[u8], level: impl Fn(u8) -> u8) -> SimStorage {
    let shared: Arc<dyn Storage> = Arc::new(SimStorage::from_image(image.to_vec()));
    let sb = checkpoints(&units(&*shared)).remove(0);
    let Tree { root, store, .. } = Tree::load(&shared, &sb, &mut Vec::new()).expect("table");
    let info = root.info();
    let (buf, skip) = store.read_block(info, 0, info.head_len as usize).expect("the header");
    let head = &buf[skip..skip + info.head_len as usize];
    let mut resolve = |id| store.table.reference(id).ok_or(Malformed("child does not exist"));
    let node = header::decode(head, &root, &store.meter, &mut resolve).expect("a header");
    let Node::Inner(inner) = node else { panic!("the root is a leaf") };
    let placed: Vec<PartLocation> = inner
        .edges
        .iter()
        .filter_map(|edge| edge.buffer.as_ref()?.lock().home.clone())
        .map(|h| {
            let off = h.off - info.head_len;
            PartLocation { off, stored: h.stored, raw: h.raw, codec: h.codec, crc: h.crc, extents: h.extents }
        })
        .collect();
    // As long as the one before: the parts lie behind it.
    let changed = (0..inner.edges.len()).flat_map(|i| (0..4).map(move |digits| (i, 1 << (7 * digits))));
    let mut changed = changed.map(|(i, weight)| {
        let mut edges = inner.edges.clone();
        edges[i].child = Slot::stored(root.clone(), (level(sb.root.1), weight, 1), sb.msn, &store.meter);
        let child = inner.edges[i].child.block().expect("it was written").id();
        (child, header::encode(&Node::Inner(Inner { edges }), sb.msn, &placed))
    });
    let (child, changed) = changed.find(|(_, changed)| changed.len() == head.len()).expect("one as long");
    let (id, crc) = (root.id(), crc32c::crc32c(&changed));
    let storage = with_table(image, |list| {
        let (_, root) = list.iter_mut().find(|(block, _)| *block == id).expect("the root");
        root.sums[0] = crc;
        root.out.iter_mut().filter(|out| **out == child).for_each(|out| *out = id);
    });
    assert!(changed.len() <= UNIT, "in one segment, whatever there are");
    storage.corrupt(info.segments[0].start * UNIT as u64, &changed);
    storage
}

#[test]
fn a_node_below_itself_is_damage_that_ends_whoever_goes_down() {
    let w = written(19, false);
    // What it is, and a lie that lets one go down to it once.
    for level in [|root: u8| root, |_: u8| 0] {
        let storage = with_root_below_itself(&w.image, level);
        let what = format!("level {}", level(7));
        match Db::open(storage.clone(), Options::tiny()) {
            Ok(db) => {
                let read: Result<Model> = db.scan(&KeyRange::all()).collect();
                let error = read.expect_err(&what).to_string();
                assert!(error.contains(NOT_BELOW), "{what}: {error}");
                assert!(!db.verify().expect(&what).problems.is_empty(), "{what}");
            }
            Err(error) => assert!(error.to_string().contains(NOT_BELOW), "{what}: {error}"),
        }
        let report = fsck(storage.clone(), CHECK).expect(&what);
        assert_eq!(report.worst(), Some(Severity::Error), "{what}: {report}");
        assert!(report.to_string().contains(NOT_BELOW), "{what}: {report}");
        let report = fsck(storage.clone(), REPAIR).expect(&what);
        check_repaired(&storage, &w, &report, &what);
    }
}
