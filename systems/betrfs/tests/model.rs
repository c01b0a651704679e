//! Random operations on the file system and on a model of it, with remounts.
//! `BETRFS_SEEDS=100..200` chooses other seeds.

mod common;

use betree::SimStorage;
use betrfs::{DirStream, Fs, Options, RenameMode};
use common::{World, dump, options, threaded};

fn seeds(normal: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let text = std::env::var("BETRFS_SEEDS").unwrap_or_default();
    let bounds = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    bounds.unwrap_or(normal)
}

#[test]
fn agrees_with_the_model() {
    seeds(0..6).for_each(|seed| agrees(seed, 64 << 20, &options()));
}

#[test]
fn agrees_with_the_model_when_threads_help() {
    seeds(0..2).for_each(|seed| agrees(seed, 256 << 20, &threaded()));
}

fn agrees(seed: u64, bytes: u64, options: &Options) {
    println!("seed {seed}");
    let storage = SimStorage::new(bytes);
    Fs::format(storage.clone(), options).expect("format");
    let mut fs = Fs::open(storage.clone(), options).expect("open");
    let mut world = World::new(seed);
    for step in 0..1500 {
        world.step(&fs, false);
        match world.random.below(150) {
            0 => assert_eq!(dump(&fs), world.model.dump(), "seed {seed} step {step}"),
            1 => {
                // With and without a word of farewell.
                world.held.clear();
                if world.random.below(2) == 0 {
                    fs.close().expect("close");
                } else {
                    fs.sync().expect("sync");
                    drop(fs);
                }
                fs = Fs::open(storage.clone(), options).expect("open");
                assert_eq!(dump(&fs), world.model.dump(), "seed {seed} step {step}, opened again");
            }
            _ => {}
        }
    }
    assert_eq!(dump(&fs), world.model.dump(), "seed {seed} at the end");
    world.held.clear();
    fs.close().expect("close");
    let report = betrfs::check(storage, false).expect("check");
    assert!(report.is_clean() && report.findings.is_empty(), "seed {seed}: {report}");
}

#[test]
fn the_root_tells_what_the_store_has_done() {
    let storage = SimStorage::new(64 << 20);
    Fs::format(storage.clone(), &options()).expect("format");
    let fs = Fs::open(storage, &options()).expect("open");
    let told = || {
        let text = fs.xattr(1, b"betrfs.statistics").expect("statistics");
        let text = String::from_utf8(text).expect("text");
        let line = |line: &str| {
            let (name, value) = line.split_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse::<u64>().expect("a number"))
        };
        text.lines().map(line).collect::<std::collections::BTreeMap<_, _>>()
    };
    let before = told();
    let file = fs.make(1, b"file", betrfs::NewFile { mode: libc::S_IFREG | 0o644, ..Default::default() });
    fs.sync().expect("sync");
    let after = told();
    assert!(after["log_position_bytes"] > before["log_position_bytes"], "{before:?} {after:?}");
    assert!(after["log_ring_bytes"] > 0 && after.contains_key("checkpoints"), "{after:?}");
    assert!(fs.xattrs(1).expect("a list").is_empty(), "it is in no list");
    let other = fs.xattr(file.expect("a file").ino, b"betrfs.statistics");
    assert!(matches!(other, Err(betrfs::Error::NotSupported)));
}

/// A kernel does so for files that it caches; what is written past its cache it leaves to the file system.
#[test]
fn a_write_takes_capabilities_away_and_nothing_else() {
    let storage = SimStorage::new(64 << 20);
    Fs::format(storage.clone(), &options()).expect("format");
    let fs = Fs::open(storage.clone(), &options()).expect("open");
    let new = betrfs::NewFile { mode: libc::S_IFREG | 0o755, ..betrfs::NewFile::default() };
    let file = fs.make(1, b"program", new).expect("a file").ino;
    let capability = b"security.capability";
    let mut end = 0;
    // A part of a block, whole blocks one after the other, and once more when there are none.
    for bytes in [100, 4096 - 100, 4096, 8192, 1] {
        fs.set_xattr(file, b"user.note", b"stays", false, false).expect("set");
        fs.set_xattr(file, capability, b"cap", false, false).expect("set");
        assert_eq!(fs.xattr(file, capability).expect("there"), b"cap");
        for _ in 0..2 {
            end += fs.write(file, end, &vec![7; bytes], false).expect("write") as u64;
            assert!(matches!(fs.xattr(file, capability), Err(betrfs::Error::NoAttribute)), "{bytes}");
            assert_eq!(fs.xattr(file, b"user.note").expect("stays"), b"stays");
        }
    }
    fs.forget(file, 1);
    fs.close().expect("close");
    let fs = Fs::open(storage, &options()).expect("open");
    let file = fs.lookup(1, b"program").expect("the file").ino;
    assert!(matches!(fs.xattr(file, capability), Err(betrfs::Error::NoAttribute)));
    assert_eq!(fs.xattr(file, b"user.note").expect("stays"), b"stays");
}

/// xfstests generic/568: a write into an allocated range does not make the file larger on the device.
#[test]
fn an_unaligned_allocation_counts_every_block_that_it_touches() {
    let storage = SimStorage::new(64 << 20);
    Fs::format(storage.clone(), &options()).expect("format");
    let fs = Fs::open(storage.clone(), &options()).expect("open");
    let new = betrfs::NewFile { mode: libc::S_IFREG | 0o644, ..betrfs::NewFile::default() };
    let file = fs.make(common::ROOT, b"allocated", new).expect("make").ino;
    let units = |fs: &Fs| fs.attr(file).expect("attr").blocks;
    fs.allocate(file, 0, 4095, 2).expect("allocate across two blocks");
    assert_eq!((fs.attr(file).expect("attr").size, units(&fs)), (4097, 16));
    fs.write(file, 4095, b"ab", false).expect("write");
    assert_eq!(units(&fs), 16);
    fs.allocate(file, libc::FALLOC_FL_KEEP_SIZE, 4096, 4 << 20).expect("behind the end");
    assert_eq!(units(&fs), 16, "what lies behind the end does not count");
    fs.allocate(file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, 0, 4096).expect("punch");
    assert_eq!(units(&fs), 8);
    fs.allocate(file, libc::FALLOC_FL_ZERO_RANGE, 4000, 10_000).expect("zero");
    assert_eq!((fs.attr(file).expect("attr").size, units(&fs)), (14_000, 32));
    fs.forget(file, 1);
    fs.close().expect("close");
    let report = betrfs::check(storage, false).expect("check");
    assert!(report.is_clean() && report.findings.is_empty(), "{report}");
}

/// xfstests generic/676: who goes back to the beginning and then to an offset from before finds the same name there.
#[test]
fn a_directory_offset_is_found_again_after_the_beginning_was_read() {
    const FILES: usize = 300;
    let storage = SimStorage::new(64 << 20);
    Fs::format(storage.clone(), &options()).expect("format");
    let fs = Fs::open(storage, &options()).expect("open");
    for number in 0..FILES {
        let new = betrfs::NewFile { mode: libc::S_IFREG | 0o644, ..betrfs::NewFile::default() };
        let made = fs.make(common::ROOT, format!("file {number:03}").as_bytes(), new).expect("make");
        fs.forget(made.ino, 1);
    }
    let next = |stream: &mut DirStream, off: u64| {
        let mut found = None;
        fs.read_dir(common::ROOT, stream, off, false, &mut |item| {
            let first = found.is_none();
            found.get_or_insert_with(|| (item.name.to_vec(), item.next));
            first
        })
        .expect("read_dir");
        found
    };
    let mut stream = DirStream::default();
    let mut offsets = vec![0];
    let mut names = Vec::new();
    while let Some((name, after)) = next(&mut stream, *offsets.last().expect("one")) {
        names.push(name);
        offsets.push(after);
    }
    assert_eq!(names.len(), FILES + 2, "all files, and two dots");
    for at in [218, 0, 250, 7, 0, FILES + 1, 100] {
        assert_eq!(next(&mut stream, offsets[at]).expect("a name").0, names[at], "at {at}");
    }
    // One who never read the beginning.
    assert_eq!(next(&mut DirStream::default(), offsets[150]).expect("a name").0, names[150]);
    assert_eq!(next(&mut stream, 0).expect("a name").0, names[0]);
    assert_eq!(next(&mut stream, offsets[FILES + 2]), None);
    let never = fs.read_dir(common::ROOT, &mut stream, u64::MAX, false, &mut |_| true);
    assert!(matches!(never, Err(betrfs::Error::Invalid(_))), "no place that was ever given");
}

/// xfstests generic/078: a rename that leaves a whiteout, of a file and of a directory, onto a free name and a taken one.
#[test]
fn a_rename_may_leave_a_whiteout() {
    let storage = SimStorage::new(64 << 20);
    Fs::format(storage.clone(), &options()).expect("format");
    let fs = Fs::open(storage.clone(), &options()).expect("open");
    let whiteout = RenameMode::Whiteout { uid: 3, gid: 4 };
    let make = |parent, name: &[u8], mode| {
        let new = betrfs::NewFile { mode: mode | 0o755, ..betrfs::NewFile::default() };
        fs.make(parent, name, new).expect("make").ino
    };
    let dir = make(common::ROOT, b"dir", libc::S_IFDIR);
    let file = make(dir, b"file", libc::S_IFREG);
    let sub = make(dir, b"sub", libc::S_IFDIR);
    let taken = make(common::ROOT, b"taken", libc::S_IFREG);
    fs.write(file, 0, b"moves", false).expect("write");
    fs.rename(dir, b"file", common::ROOT, b"taken", whiteout).expect("onto a file");
    fs.rename(dir, b"sub", dir, b"below", whiteout).expect("within a directory");
    let held = [(dir, 1), (file, 1), (sub, 1), (taken, 1)];
    let check = |fs: &Fs, held: &[(u64, u64)]| {
        let found = |parent: u64, name: &[u8]| {
            let attr = fs.lookup(parent, name).expect("there");
            fs.forget(attr.ino, 1);
            attr
        };
        let dir = fs.lookup(common::ROOT, b"dir").expect("the directory");
        // Two whiteouts and a directory.
        assert_eq!((dir.nlink, dir.size), (3, 3 * 32));
        for name in [b"file".as_slice(), b"sub"] {
            let left = found(dir.ino, name);
            assert_eq!((left.mode, left.rdev, left.uid, left.gid, left.nlink), (libc::S_IFCHR, 0, 3, 4, 1));
        }
        assert_eq!(found(dir.ino, b"below").mode & libc::S_IFMT, libc::S_IFDIR);
        let moved = fs.lookup(common::ROOT, b"taken").expect("the file");
        assert_eq!(fs.read(moved.ino, 0, 100).expect("read"), b"moves");
        held.iter().chain(&[(dir.ino, 1), (moved.ino, 1)]).for_each(|(ino, count)| fs.forget(*ino, *count));
    };
    check(&fs, &held);
    fs.close().expect("close");
    let report = betrfs::check(storage.clone(), false).expect("check");
    assert!(report.is_clean() && report.findings.is_empty(), "{report}");
    check(&Fs::open(storage, &options()).expect("open"), &[]);
}

/// After a crash a file without a name is gone, and one that was given its name is there.
#[test]
fn a_file_without_a_name_goes_with_a_crash() {
    let storage = SimStorage::new(64 << 20);
    Fs::format(storage.clone(), &options()).expect("format");
    let fs = Fs::open(storage.clone(), &options()).expect("open");
    let new = betrfs::NewFile { mode: libc::S_IFREG | 0o644, ..betrfs::NewFile::default() };
    let [lost, named] = [0, 1].map(|n| {
        let ino = fs.make_nameless(common::ROOT, new).expect("make").ino;
        fs.write(ino, 0, &vec![n; 100_000], false).expect("write");
        ino
    });
    fs.link(named, common::ROOT, b"named").expect("link");
    assert!(matches!(fs.lookup(common::ROOT, b"lost"), Err(betrfs::Error::NotFound)));
    fs.sync().expect("sync");
    std::mem::forget(fs);
    let note = betrfs::check(storage.clone(), false).expect("check");
    assert!(note.is_clean(), "{note}");
    let fs = Fs::open(storage.clone(), &options()).expect("open");
    assert!(fs.attr(lost).is_err());
    let attr = fs.lookup(common::ROOT, b"named").expect("the file");
    assert_eq!((attr.nlink, attr.ino), (1, named));
    assert_eq!(fs.read(attr.ino, 0, 200_000).expect("read"), vec![1; 100_000]);
    fs.forget(attr.ino, 1);
    fs.close().expect("close");
    let report = betrfs::check(storage, false).expect("check");
    assert!(report.is_clean() && report.findings.is_empty(), "{report}");
}

/// xfstests generic/371: an allocation finds the space of what was just removed, as a write does.
#[test]
fn an_allocation_finds_the_space_of_what_was_removed() {
    const PIECE: usize = 1 << 20;
    let storage = SimStorage::new(128 << 20);
    Fs::format(storage.clone(), &options()).expect("format");
    let fs = Fs::open(storage, &options()).expect("open");
    let new = betrfs::NewFile { mode: libc::S_IFREG | 0o644, ..betrfs::NewFile::default() };
    let full = fs.make(common::ROOT, b"full", new).expect("make").ino;
    let piece = vec![1; PIECE];
    let count = (0..).find(|n| fs.write(full, n * PIECE as u64, &piece, false).is_err()).expect("an end");
    assert!(count > 32, "{count} MiB found room");
    fs.unlink(common::ROOT, b"full").expect("unlink");
    fs.forget(full, 1);
    let file = fs.make(common::ROOT, b"file", new).expect("make").ino;
    fs.allocate(file, 0, 0, count / 2 * PIECE as u64).expect("half of it");
    for beyond in [256 << 20, 1 << 59] {
        assert!(matches!(fs.allocate(file, 0, 0, beyond), Err(betrfs::Error::NoSpace)), "{beyond}");
    }
}

/// xfstests generic/626: on a full device a rename with a whiteout is done as a whole or not at all.
#[test]
fn a_whiteout_on_a_full_device_loses_no_name() {
    const FILES: u32 = 300;
    let storage = SimStorage::new(64 << 20);
    Fs::format(storage.clone(), &options()).expect("format");
    let fs = Fs::open(storage.clone(), &options()).expect("open");
    let new = betrfs::NewFile { mode: libc::S_IFREG | 0o644, ..betrfs::NewFile::default() };
    let make = |name: &str| fs.make(common::ROOT, name.as_bytes(), new).map(|attr| fs.forget(attr.ino, 1));
    (0..FILES).for_each(|n| make(&format!("from {n}")).expect("make"));
    let full = fs.make(common::ROOT, b"full", new).expect("make").ino;
    for piece in [1 << 20, 4096] {
        let data = vec![1; piece];
        while fs.attr(full).is_ok_and(|attr| fs.write(full, attr.size, &data, false).is_ok()) {}
    }
    let long = "x".repeat(200);
    let filled = (0..1_000_000).find(|n| make(&format!("{n} {long}")).is_err()).expect("an end");
    fs.forget(full, 1);
    let whiteout = RenameMode::Whiteout { uid: 0, gid: 0 };
    let done: Vec<bool> = (0..FILES)
        .map(|n| {
            let (from, to) = (format!("from {n}"), format!("to {n}"));
            fs.rename(common::ROOT, from.as_bytes(), common::ROOT, to.as_bytes(), whiteout).is_ok()
        })
        .collect();
    println!("{filled} names until it was full; {} of {FILES} renames", done.iter().filter(|d| **d).count());
    fs.close().expect("close");
    let report = betrfs::check(storage.clone(), false).expect("check");
    assert!(report.is_clean() && report.findings.is_empty(), "{report}");
    let fs = Fs::open(storage, &options()).expect("open");
    let kind =
        |name: String| fs.lookup(common::ROOT, name.as_bytes()).ok().map(|attr| attr.mode & libc::S_IFMT);
    for (n, done) in done.into_iter().enumerate() {
        let found = (kind(format!("from {n}")), kind(format!("to {n}")));
        let wanted = match done {
            true => (Some(libc::S_IFCHR), Some(libc::S_IFREG)),
            false => (Some(libc::S_IFREG), None),
        };
        assert_eq!(found, wanted, "{n}");
    }
}
