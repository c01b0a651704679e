//! Reserving through the calls that do it.

use super::*;

use betree::SimStorage;

use crate::fs::{NewFile, Options, SetAttr};

const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
const SIZE: u64 = BLOCK as u64;

fn open(storage: &SimStorage) -> Fs {
    let store = betree::Options { cache_bytes: 8 << 20, memtable_bytes: 1 << 20, ..Default::default() };
    Fs::open(storage.clone(), &Options::with_store(store)).expect("open")
}

fn formatted(bytes: u64) -> SimStorage {
    let storage = SimStorage::new(bytes);
    Fs::format(storage.clone(), &Options::default()).expect("format");
    storage
}

fn make(fs: &Fs, name: &[u8]) -> u64 {
    fs.make(1, name, NewFile { mode: libc::S_IFREG | 0o644, ..NewFile::default() }).expect("make").ino
}

fn blocks_promised(fs: &Fs) -> u64 {
    fs.store().stats().promised_bytes / BLOCK_SPACE
}

/// Writes large pieces, then small ones, until neither fits.
fn fill(fs: &Fs, name: &[u8]) -> u64 {
    let ino = make(fs, name);
    let mut at = 0;
    for len in [1 << 20, 4096, 100] {
        let data: Vec<u8> = (0..len).map(|n: usize| ((n * n) >> 5) as u8).collect();
        loop {
            match fs.write(ino, at, &data, false).and_then(|n| fs.sync().map(|()| n)) {
                Ok(n) => at += n as u64,
                Err(Error::NoSpace) => break,
                Err(e) => panic!("{at} bytes: {e}"),
            }
            if at % (8 << 20) == 0 && len == 4096 {
                fs.store().checkpoint().expect("checkpoint");
            }
        }
    }
    at
}

/// As xfstests generic/274 has it: what was allocated, in the file and behind its end, can be written when the file system
/// is full, in any order, and written over.
#[test]
fn what_was_allocated_can_be_written_on_a_full_file_system_and_written_over() {
    const BLOCKS: u64 = 1024;
    for (mode, reopened) in [(KEEP, false), (0, false), (KEEP, true)] {
        let storage = formatted(96 << 20);
        let mut fs = open(&storage);
        let mut file = make(&fs, b"file");
        fs.write(file, 0, &[1; 4096], false).expect("write");
        let before = fs.space();
        fs.allocate(file, mode, SIZE, BLOCKS * SIZE).expect("allocate");
        assert_eq!(blocks_promised(&fs), BLOCKS);
        assert!(fs.space().free + BLOCKS * SIZE <= before.free, "df does not show it");
        assert!(fs.space().available + BLOCKS * SIZE <= before.available);
        let size = if mode == KEEP { SIZE } else { (BLOCKS + 1) * SIZE };
        assert_eq!(fs.attr(file).expect("attr").size, size);
        if reopened {
            // A power cut, after which it is still reserved.
            fs.sync().expect("sync");
            let cut = storage.power_cut(7);
            drop(fs);
            fs = open(&cut);
            assert_eq!(blocks_promised(&fs), BLOCKS);
            file = fs.lookup(1, b"file").expect("lookup").ino;
        }
        assert!(fill(&fs, b"filler") > 30 << 20, "full at once");
        for pass in 2..6u8 {
            for n in 0..BLOCKS {
                let block = 1 + n * 389 % BLOCKS;
                let written = fs.write(file, block * SIZE, &[pass; 4096], false);
                assert_eq!(written.unwrap_or_else(|e| panic!("pass {pass}, the {n}th: {e}")), 4096);
                if n % 256 == 0 {
                    fs.sync().expect("sync");
                }
            }
            assert_eq!(blocks_promised(&fs), 0);
            let all = fs.read(file, SIZE, (BLOCKS * SIZE) as usize).expect("read");
            assert!(all.len() as u64 == BLOCKS * SIZE && all.iter().all(|byte| *byte == pass));
        }
        fs.sync().expect("sync");
        // What was written over may have freed a little by now.
        let more = fill(&fs, b"more");
        assert!(more < 4 << 20, "not full: {more} bytes fit");
        fs.unlink(1, b"filler").expect("unlink");
        fs.close().expect("close");
    }
}

/// What the kernel has collected is dropped where it is refused, so the reserved part of it must be taken, wherever it lies.
#[test]
fn what_is_reserved_is_written_though_what_is_beside_it_finds_no_space() {
    const HALF: usize = 512 << 10;
    for reserved in [0, HALF as u64] {
        let storage = formatted(96 << 20);
        let fs = open(&storage);
        let file = make(&fs, b"file");
        fs.set_attr(file, &SetAttr { size: Some(2 * HALF as u64), ..SetAttr::default() }).expect("size");
        fs.allocate(file, KEEP, reserved, HALF as u64).expect("allocate");
        fill(&fs, b"filler");
        let written = fs.serve_write(file, Some(0), &[9; 2 * HALF], false, crate::fs::IoPath::Mapping);
        assert_eq!(written.map_err(|e| e.errno()), Err(libc::ENOSPC));
        let found = fs.read(file, reserved, HALF).expect("read");
        assert!(found.len() == HALF && found.iter().all(|byte| *byte == 9), "reserved at {reserved}");
        assert_eq!(blocks_promised(&fs), 0);
        fs.close().expect("close");
    }
}

#[test]
fn truncating_punching_and_removing_give_back_what_was_reserved() {
    let storage = formatted(64 << 20);
    let fs = open(&storage);
    let (file, other) = (make(&fs, b"file"), make(&fs, b"other"));
    assert!(matches!(fs.allocate(file, 0, 0, 1 << 40), Err(Error::NoSpace)));
    assert_eq!(blocks_promised(&fs), 0);
    fs.allocate(file, 0, 0, 100 * SIZE).expect("allocate");
    fs.allocate(file, 0, 50 * SIZE, 100 * SIZE).expect("the same again, and more");
    assert_eq!(blocks_promised(&fs), 150);
    fs.write(file, 10 * SIZE, &[1; 4096 * 20], false).expect("write");
    fs.write(file, 15 * SIZE, &[2; 4096 * 20], false).expect("over it and on");
    assert_eq!(blocks_promised(&fs), 125);
    fs.write(file, 500 * SIZE, &[1; 4096], false).expect("outside");
    assert_eq!(blocks_promised(&fs), 125);
    // What has data is not reserved again, what has lost them is.
    fs.allocate(file, KEEP, 0, 150 * SIZE).expect("again");
    assert_eq!(blocks_promised(&fs), 125);
    fs.allocate(file, libc::FALLOC_FL_ZERO_RANGE, 0, 20 * SIZE).expect("zero");
    assert_eq!(blocks_promised(&fs), 135);
    fs.allocate(file, PUNCH, 40 * SIZE + 1, 10 * SIZE).expect("punch");
    assert_eq!(blocks_promised(&fs), 126);
    let truncate = |size: u64| SetAttr { size: Some(size), ..SetAttr::default() };
    fs.set_attr(file, &truncate(100 * SIZE + 1)).expect("truncate");
    assert_eq!(blocks_promised(&fs), 126 - 49);
    fs.set_attr(file, &truncate(0)).expect("truncate");
    assert_eq!(blocks_promised(&fs), 0);
    for held in [false, true] {
        let name: &[u8] = if held { b"file" } else { b"other" };
        let ino = if held { file } else { other };
        fs.allocate(ino, KEEP, 0, 30 * SIZE).expect("allocate");
        assert_eq!(blocks_promised(&fs), 30);
        if !held {
            fs.forget(ino, 1);
        }
        fs.unlink(1, name).expect("unlink");
        assert_eq!(blocks_promised(&fs), if held { 30 } else { 0 });
        if held {
            fs.forget(ino, 1);
        }
        assert_eq!(blocks_promised(&fs), 0);
    }
    // One replaces another.
    let (one, two) = (make(&fs, b"one"), make(&fs, b"two"));
    fs.allocate(one, KEEP, 0, 7 * SIZE).expect("allocate");
    fs.allocate(two, KEEP, 0, 11 * SIZE).expect("allocate");
    fs.forget(one, 1);
    fs.rename(1, b"two", 1, b"one", crate::fs::RenameMode::Replace).expect("rename");
    assert_eq!(blocks_promised(&fs), 11);
    fs.close().expect("close");
    let report = crate::check(storage.clone(), false).expect("check");
    assert!(report.is_clean() && report.findings.is_empty(), "{report}");
    assert_eq!(blocks_promised(&open(&storage)), 11);
}

/// The next numbers of a row that `seed` begins.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |n| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 8) % n
    }
}

/// What the file's key tells is what has no data, and what is promised.
fn counts_are_right(fs: &Fs, ino: u64, what: &str) {
    let node = fs.node(ino).expect("the file");
    let state = node.read();
    fs.streams.flush_file(ino).expect("flush");
    let home = node.home(&state).expect("its home");
    let value = fs.db.get(&key::reserved(ino)).expect("get");
    assert_eq!(value.is_some(), state.inode.flags & RESERVED != 0, "{what}");
    let (unwritten, areas) = value.map_or((0, vec![]), |value| decode(&value).expect("decode"));
    let blocks = areas.iter().flat_map(|(first, end)| *first..*end);
    let lacking = blocks.filter(|block| fs.db.get(&key::block(&home, *block)).expect("get").is_none());
    assert_eq!(lacking.count() as u64, unwritten, "{what}: {areas:?}");
    assert_eq!(blocks_promised(fs), unwritten, "{what}: promised");
}

#[test]
fn what_is_promised_is_what_has_no_data_whatever_was_done() {
    const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
    for seed in 0..12 {
        let storage = formatted(64 << 20);
        let mut fs = open(&storage);
        let ino = make(&fs, b"file");
        let mut below = random(seed);
        let mut model: Vec<u8> = Vec::new();
        for step in 0..150u64 {
            let what = format!("seed {seed} step {step}");
            // Often in the middle of a block, and around the end of the file.
            let at = |below: &mut dyn FnMut(u64) -> u64, size: u64| match below(4) {
                0 => below(60) * SIZE,
                1 => (size + below(3)).saturating_sub(below(3)),
                2 => size / SIZE * SIZE + below(2) * SIZE,
                _ => below(60 * SIZE),
            };
            let size = model.len() as u64;
            let (a, b) = (at(&mut below, size), at(&mut below, size));
            let (off, end) = (a.min(b), a.max(b).max(a.min(b) + 1));
            let (from, to) = (off as usize, end as usize);
            match below(9) {
                0 | 1 => {
                    let mode = [0, KEEP, ZERO, ZERO | KEEP][below(4) as usize];
                    fs.allocate(ino, mode, off, end - off).unwrap_or_else(|e| panic!("{what}: {e}"));
                    if mode & KEEP == 0 {
                        model.resize(model.len().max(to), 0);
                    }
                    if mode & ZERO != 0 {
                        let to = to.min(model.len());
                        model[from.min(to)..to].fill(0);
                    }
                }
                2 | 3 => {
                    fs.allocate(ino, PUNCH, off, end - off).unwrap_or_else(|e| panic!("{what}: {e}"));
                    let to = to.min(model.len());
                    model[from.min(to)..to].fill(0);
                }
                4 | 5 => {
                    let size = if below(4) == 0 { 0 } else { off };
                    let set = SetAttr { size: Some(size), ..SetAttr::default() };
                    fs.set_attr(ino, &set).unwrap_or_else(|e| panic!("{what}: {e}"));
                    model.resize(size as usize, 0);
                }
                6 => {
                    fs.close().expect("close");
                    fs = open(&storage);
                    assert_eq!(fs.lookup(1, b"file").expect("lookup").ino, ino);
                }
                _ => {
                    let end = end.min(off + 9000);
                    let data = vec![1 + below(250) as u8; (end - off) as usize];
                    fs.write(ino, off, &data, false).unwrap_or_else(|e| panic!("{what}: {e}"));
                    model.resize(model.len().max(end as usize), 0);
                    model[from..end as usize].copy_from_slice(&data);
                }
            }
            counts_are_right(&fs, ino, &what);
            assert!(fs.read(ino, 0, 1 << 20).expect("read") == model, "{what}");
        }
        fs.close().expect("close");
        let report = crate::check(storage, false).expect("check");
        assert!(report.is_clean() && report.findings.is_empty(), "seed {seed}: {report}");
    }
}

/// Earlier versions gave some blocks data without saying so in the key.
#[test]
fn a_key_that_tells_a_wrong_number_is_set_right_once() {
    for wrong in [0, 90] {
        let storage = formatted(64 << 20);
        let fs = open(&storage);
        let ino = make(&fs, b"file");
        fs.allocate(ino, KEEP, 0, 100 * SIZE).expect("allocate");
        fs.write(ino, 0, &[1; 30 * 4096], false).expect("write");
        let value: Vec<u8> = [wrong, 0, 100u64].iter().flat_map(|n| n.to_le_bytes()).collect();
        fs.db.put(&key::reserved(ino), &value).expect("put");
        fs.close().expect("close");
        let fs = open(&storage);
        let other = make(&fs, b"other");
        fs.allocate(other, KEEP, 0, 50 * SIZE).expect("allocate");
        assert_eq!(blocks_promised(&fs), wrong + 50);
        assert_eq!(fs.lookup(1, b"file").expect("lookup").ino, ino);
        fs.write(ino, 0, &[2; 4096], false).expect("write over what is written");
        assert_eq!(blocks_promised(&fs), 70 + 50, "{wrong}");
        // Whoever looks next finds it right, also after it was out of memory.
        fs.node(ino).expect("held").write().reserved = None;
        fs.set_attr(ino, &SetAttr { size: Some(0), ..SetAttr::default() }).expect("truncate");
        assert_eq!(blocks_promised(&fs), 50, "{wrong}");
        fs.forget(ino, 1);
        fs.unlink(1, b"file").expect("unlink");
        assert_eq!(blocks_promised(&fs), 50, "{wrong}");
        fs.close().expect("close");
    }
}

#[test]
fn numbers_that_no_device_can_have_promise_nothing_and_the_file_can_be_removed() {
    let numbers: [&[u64]; 3] = [&[1 << 40, 0, 100], &[1 << 40, 0, 1 << 41], &[1 << 63, 7, 1]];
    for numbers in numbers {
        let storage = formatted(64 << 20);
        let fs = open(&storage);
        let ino = make(&fs, b"file");
        fs.allocate(ino, KEEP, 0, 100 * SIZE).expect("allocate");
        let value: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        fs.db.put(&key::reserved(ino), &value).expect("put");
        fs.close().expect("close");
        let fs = open(&storage);
        assert_eq!(blocks_promised(&fs), 0, "{numbers:?}");
        let other = make(&fs, b"other");
        fs.write(other, 0, &[1; 9000], false).expect("write");
        assert_eq!(fs.lookup(1, b"file").expect("lookup").ino, ino);
        assert!(matches!(fs.write(ino, 0, &[1; 9000], false), Err(Error::Corrupt(_))), "{numbers:?}");
        fs.forget(ino, 1);
        fs.unlink(1, b"file").expect("unlink");
        assert_eq!(blocks_promised(&fs), 0, "{numbers:?}");
        fs.close().expect("close");
    }
}

#[test]
fn what_does_not_fit_takes_no_memory_for_its_blocks() {
    let storage = formatted(64 << 20);
    let fs = open(&storage);
    let ino = make(&fs, b"file");
    fs.set_attr(ino, &SetAttr { size: Some(1 << 40), ..SetAttr::default() }).expect("truncate");
    fs.write(ino, 0, &[1; 4096], false).expect("write");
    let capacity = fs.store().stats().capacity_bytes;
    let before = bitmap::WORDS.get();
    for mode in [0, KEEP, libc::FALLOC_FL_ZERO_RANGE] {
        for len in [capacity, DEVICES_MAX * capacity - SIZE, DEVICES_MAX * capacity + SIZE, 1 << 50] {
            assert!(matches!(fs.allocate(ino, mode, 0, len), Err(Error::NoSpace)), "{len}");
        }
    }
    assert_eq!((bitmap::WORDS.get(), blocks_promised(&fs)), (before, 0));
}

#[test]
fn space_can_be_given_back_when_there_is_none() {
    let storage = formatted(96 << 20);
    let fs = open(&storage);
    let (kept, cut, holey) = (make(&fs, b"kept"), make(&fs, b"cut"), make(&fs, b"holey"));
    let truncate = |ino, size: u64| fs.set_attr(ino, &SetAttr { size: Some(size), ..SetAttr::default() });
    fs.allocate(kept, KEEP, 0, 256 * SIZE).expect("allocate");
    for (ino, byte) in [(cut, 1), (holey, 2)] {
        fs.write(ino, 0, &[byte; 256 * 4096], false).expect("write");
    }
    fs.allocate(holey, 0, 256 * SIZE, 256 * SIZE).expect("allocate");
    fs.sync().expect("sync");
    fill(&fs, b"filler");
    let mut n = 0u64;
    // Until what is left is too little for a record even, and for a file. A checkpoint in the background may free something after
    // a refusal: so it is full when no checkpoint changes that.
    let mut fill_up = || {
        let new = || NewFile { mode: libc::S_IFREG | 0o644, ..NewFile::default() };
        let mut refused = 0;
        while refused < 3 {
            let put = fs.db.put(&[b"\x7f".to_vec(), n.to_be_bytes().to_vec()].concat(), b"");
            let made = fs.make(1, format!("another{n}").as_bytes(), new());
            n += 1;
            refused = if put.is_err() && matches!(made, Err(Error::NoSpace)) { refused + 1 } else { 0 };
            fs.store().checkpoint().expect("checkpoint");
        }
    };
    fill_up();
    truncate(kept, 0).expect("what was reserved behind the end");
    assert_eq!(blocks_promised(&fs), 256);
    fs.db.promise_again(256 * BLOCK_SPACE);
    fill_up();
    fs.allocate(holey, PUNCH, SIZE + 7, 300 * SIZE).expect("punch");
    let unwritten = blocks_promised(&fs) - 256;
    assert_eq!(unwritten, 256 - 45);
    fs.db.promise_again((45 + 256) * BLOCK_SPACE);
    fill_up();
    truncate(cut, 100).expect("truncate");
    truncate(holey, 5).expect("truncate");
    assert_eq!(fs.attr(cut).expect("attr").size, 100);
}

/// A storage that has something called at each write.
#[derive(Clone)]
struct Watched {
    storage: SimStorage,
    at_write: std::sync::Arc<std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>>,
}

impl betree::Storage for Watched {
    fn len(&self) -> std::io::Result<u64> {
        self.storage.len()
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> std::io::Result<()> {
        self.storage.read_at(buf, off)
    }

    fn write_at(&self, buf: &[u8], off: u64) -> std::io::Result<()> {
        self.at_write.get().inspect(|call| call());
        self.storage.write_at(buf, off)
    }

    fn flush(&self) -> std::io::Result<()> {
        self.storage.flush()
    }

    fn discard(&self, off: u64, len: u64) -> std::io::Result<()> {
        self.storage.discard(off, len)
    }
}

#[test]
fn who_makes_a_file_does_not_wait_for_one_that_reserves() {
    use std::sync::atomic::AtomicU64;
    use std::sync::{Arc, OnceLock};

    let storage = Watched { storage: formatted(64 << 20), at_write: Arc::default() };
    let at_write: Arc<OnceLock<_>> = storage.at_write.clone();
    // Without threads of its own: writes of the storage are made within the call that waits for them.
    let store = betree::Options { background: false, ..betree::Options::tiny() };
    let fs = Arc::new(Fs::open(storage, &Options::with_store(store)).expect("open"));
    let ino = make(&fs, b"file");
    fs.allocate(ino, KEEP, 0, SIZE).expect("allocate");
    let (writes, held) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (all, of_those, weak) = (writes.clone(), held.clone(), Arc::downgrade(&fs));
    let look = move || {
        if let Some(fs) = weak.upgrade() {
            all.fetch_add(1, Ordering::Relaxed);
            of_those.fetch_add(u64::from(fs.numbers.try_lock().is_err()), Ordering::Relaxed);
        }
    };
    at_write.set(Box::new(look)).unwrap_or_else(|_| panic!("set twice"));
    (0..200).for_each(|n| fs.allocate(ino, KEEP, n * SIZE, SIZE).expect("allocate"));
    let (writes, held) = (writes.load(Ordering::Relaxed), held.load(Ordering::Relaxed));
    assert!(writes > 0, "nothing was written: this shows nothing");
    assert_eq!(held, 0, "of {writes} writes");
}
