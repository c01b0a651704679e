//! What a sync says of what could not be written.

use betree::SimStorage;

use super::stream::Planted;
use super::{Fs, IoPath, NewFile, Options, RenameMode, SetAttr};
use crate::error::Error;

const MIB: u64 = 1 << 20;

fn options() -> Options {
    let mut store = betree::Options::tiny();
    store.background = true;
    Options::with_store(store)
}

fn new(bytes: u64) -> (SimStorage, Fs) {
    let storage = SimStorage::new(bytes);
    Fs::format(storage.clone(), &options()).expect("format");
    let fs = Fs::open(storage.clone(), &options()).expect("open");
    (storage, fs)
}

fn file(fs: &Fs, name: &[u8]) -> u64 {
    let new = NewFile { mode: libc::S_IFREG | 0o644, ..NewFile::default() };
    fs.make(1, name, new).expect("make").ino
}

fn is_clean(storage: SimStorage) {
    let report = crate::check(storage, false).expect("check");
    assert!(report.is_clean() && report.findings.is_empty(), "{report}");
}

#[test]
fn a_sync_of_an_inode_that_was_not_written_is_refused_until_it_is() {
    let (storage, fs) = new(64 * MIB);
    let (cut, other) = (file(&fs, b"cut"), file(&fs, b"other"));
    fs.write(cut, 0, &vec![3; 9000], false).expect("write");
    fs.sync().expect("sync");
    // As a truncation leaves it that found space for what it frees only. Without a name there is no place for the record
    // either, whatever space there is.
    let node = fs.node(cut).expect("the file");
    let names = {
        let mut state = node.write();
        state.inode.size = 5000;
        state.unsaved = true;
        std::mem::take(&mut state.names)
    };
    fs.unsaved.store(true, std::sync::atomic::Ordering::Release);
    for round in 0..3 {
        assert!(matches!(fs.sync_of(cut), Err(Error::NoSpace)), "{round}: its size is in memory only");
        assert!(matches!(fs.sync(), Err(Error::NoSpace)), "{round}: a sync of all is one of it");
        fs.sync_of(other).expect("another file is not concerned");
    }
    node.write().names = names;
    fs.sync_of(cut).expect("now it can be written");
    fs.sync().expect("all is");
    let left = storage.power_cut(5);
    let again = Fs::open(left, &options()).expect("open");
    let ino = again.lookup(1, b"cut").expect("the file").ino;
    assert_eq!(again.attr(ino).expect("its size").size, 5000);
}

/// A file of 9,000 synced bytes of which only the memory knows that it is 5,000 bytes long, as a truncation leaves it that found
/// space for what it frees only.
fn unsaved_file(fs: &Fs, name: &[u8]) -> u64 {
    let cut = file(fs, name);
    fs.write(cut, 0, &vec![3; 9000], false).expect("write");
    fs.sync().expect("sync");
    let node = fs.node(cut).expect("the file");
    let mut state = node.write();
    state.inode.size = 5000;
    state.unsaved = true;
    fs.unsaved.store(true, std::sync::atomic::Ordering::Release);
    cut
}

fn size_in(left: SimStorage, name: &[u8]) -> u64 {
    let again = Fs::open(left, &options()).expect("open");
    let ino = again.lookup(1, name).expect("the file").ino;
    again.attr(ino).expect("its size").size
}

/// A write within one tick of the clock changes nothing of the inode; it saves what is in memory alone all the same.
#[test]
fn a_write_that_changes_nothing_more_of_an_unsaved_inode_saves_it() {
    let (storage, fs) = new(64 * MIB);
    let cut = unsaved_file(&fs, b"cut");
    let node = fs.node(cut).expect("the file");
    for _ in 0..100_000 {
        // The state in which such a write finds it: unsaved, with the time that it would set.
        let before = {
            let mut state = node.write();
            state.unsaved = true;
            state.inode.mtime = crate::fs::now();
            state.inode.ctime = state.inode.mtime;
            state.inode.clone()
        };
        fs.write(cut, 0, b"x", false).expect("write");
        if node.read().inode == before {
            fs.sync_of(cut).expect("sync");
            assert_eq!(size_in(storage.power_cut(5), b"cut"), 5000);
            return;
        }
    }
    panic!("the clock never stood still for a write");
}

/// While one sync saves an inode, no other one says that it is durable.
#[test]
fn a_sync_waits_for_one_that_saves_inodes() {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    let (storage, fs) = new(64 * MIB);
    let other = file(&fs, b"other");
    let cut = unsaved_file(&fs, b"cut");
    let (node, fs, storage) = (fs.node(cut).expect("the file"), &fs, &storage);
    let (sender, ended) = std::sync::mpsc::channel();
    let left = std::thread::scope(|scope| {
        // The first sync looks at the inode and cannot take it.
        let held = node.read();
        scope.spawn(move || fs.sync_of(other));
        while fs.unsaved.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        scope.spawn(move || sender.send(fs.sync().map(|()| storage.power_cut(1))));
        // Far longer than it takes one that does not wait; one that waits would wait as long as the inode is held.
        let early = ended.recv_timeout(Duration::from_millis(200)).ok();
        drop(held);
        early.or_else(|| ended.recv().ok()).expect("it ends").expect("the second sync")
    });
    assert_eq!(size_in(left, b"cut"), 5000);
}

/// What was taken before a reservation is asked for has its space.
#[test]
fn a_reservation_takes_no_space_of_what_was_collected() {
    const PIECE: usize = 128 << 10;
    let (_storage, fs) = new(256 * MIB);
    let (log, other) = (file(&fs, b"log"), file(&fs, b"other"));
    let piece = vec![7; PIECE];
    fs.append(log, &piece[..64 << 10]).expect("append");
    fs.sync().expect("sync");
    fs.store().checkpoint().expect("checkpoint");
    fs.streams.hold(true);
    (0..8).for_each(|_| _ = fs.append(log, &piece).expect("append"));
    let blocks = (fs.space().available - (300 << 10)) / super::reserve::BLOCK_SPACE;
    let fs = &fs;
    std::thread::scope(|scope| {
        scope.spawn(move || fs.allocate(other, libc::FALLOC_FL_KEEP_SIZE, 0, blocks * 4096));
        // Until it has got its promise, or waits for what was collected.
        let asked = std::time::Instant::now();
        while fs.store().stats().promised_bytes == 0 && asked.elapsed().as_millis() < 200 {
            std::thread::yield_now();
        }
        fs.streams.hold(false);
    });
    fs.sync_of(log).expect("what was taken is there");
    assert_eq!(fs.attr(log).expect("its size").size, (64 << 10) + 8 * PIECE as u64);
}

#[test]
fn a_streamed_write_that_failed_is_reported_once_and_its_size_comes_back() {
    const PIECE: usize = 256 << 10;
    let (storage, fs) = new(64 * MIB);
    let (log, other) = (file(&fs, b"log"), file(&fs, b"other"));
    let piece: Vec<u8> = (0..PIECE).map(|at| (at % 251) as u8).collect();
    (0..8).for_each(|_| _ = fs.append(log, &piece).expect("append"));
    fs.sync_of(log).expect("all of it");
    // As if the look at the free space had been wrong: more is taken than fits.
    fs.streams.take_without_space();
    let refused = (0..1000).find(|_| fs.append(log, &piece).is_err());
    assert!(refused.is_some(), "250 MiB in 64");
    let size = fs.attr(log).expect("its size").size;
    assert!((8 * PIECE as u64..64 * MIB).contains(&size), "{size}");
    let found = fs.read(log, 0, 64 << 20).expect("read");
    assert!(found.len() as u64 == size && found.chunks(PIECE).all(|got| *got == piece[..got.len()]));
    // What was taken is not there: the file's own sync says so, and no other.
    fs.sync_of(other).expect("another file");
    assert!(matches!(fs.sync(), Err(Error::NoSpace)), "a sync of all is one of it");
    fs.sync().expect("it was said");
    assert!(matches!(fs.sync_of(log), Err(Error::NoSpace)), "taken, and not written");
    fs.sync_of(log).expect("it was said");
    assert_eq!(fs.attr(log).expect("its size").size, size);
    // The file goes on from there.
    fs.set_attr(log, &SetAttr { size: Some(PIECE as u64), ..SetAttr::default() }).expect("truncate");
    fs.store().checkpoint().expect("checkpoint");
    (1..6).for_each(|_| _ = fs.append(log, &piece).expect("append"));
    fs.close().expect("close");
    is_clean(storage.clone());
    let fs = Fs::open(storage, &options()).expect("open");
    let ino = fs.lookup(1, b"log").expect("the file").ino;
    let found = fs.read(ino, 0, 64 << 20).expect("read");
    assert!(found.len() == 6 * PIECE && found.chunks(PIECE).all(|got| *got == piece[..]));
}

/// Attributes change while a rename waits for what was collected: they are not lost, and nothing is put back under the old name.
#[test]
fn what_changes_during_a_rename_is_kept() {
    for round in 0..24 {
        let (storage, fs) = new(64 * MIB);
        let (log, moved, replaced) = (file(&fs, b"log"), file(&fs, b"old"), file(&fs, b"new"));
        fs.write(moved, 0, b"moved", false).expect("write");
        fs.append(log, &[7; 256 << 10]).expect("append");
        fs.sync().expect("sync");
        fs.streams.hold(true);
        fs.append(log, &[7; 256 << 10]).expect("append");
        let changed = if round % 2 == 0 { moved } else { replaced };
        let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
        let fs_ref = &fs;
        std::thread::scope(|scope| {
            let renamed = scope.spawn(move || fs_ref.rename(1, b"old", 1, b"new", RenameMode::Replace));
            let set = scope.spawn(move || {
                std::thread::sleep(std::time::Duration::from_micros(round * 50));
                fs_ref.set_attr(changed, &mode)
            });
            std::thread::sleep(std::time::Duration::from_millis(5));
            fs_ref.streams.hold(false);
            renamed.join().expect("no panic").expect("rename");
            set.join().expect("no panic").expect("chmod");
        });
        let expected = if changed == moved { 0o600 } else { 0o644 };
        let mut open = Some(fs);
        for _ in 0..2 {
            let fs = open.take().unwrap_or_else(|| Fs::open(storage.clone(), &options()).expect("open"));
            let now = fs.lookup(1, b"new").expect("the new name");
            assert_eq!((now.ino, now.mode & 0o777), (moved, expected), "round {round}");
            assert!(fs.read(moved, 0, 10).expect("read") == b"moved", "round {round}");
            assert!(matches!(fs.lookup(1, b"old"), Err(Error::NotFound)), "round {round}");
            fs.close().expect("close");
        }
        is_clean(storage);
    }
}

/// One file has lost what was collected of it: what others do at that moment is done all the same.
#[test]
fn what_one_file_loses_is_no_reason_to_refuse_others() {
    type Change = (&'static str, fn(&Fs, u64) -> Result<(), Error>);
    const PIECE: usize = 256 << 10;
    let changes: [Change; 5] = [
        ("unlink", |fs, _| fs.unlink(1, b"other")),
        ("truncate", |fs, ino| {
            fs.set_attr(ino, &SetAttr { size: Some(5), ..SetAttr::default() }).map(|_| ())
        }),
        ("rmdir", |fs, _| fs.rmdir(1, b"dir")),
        ("remove an attribute", |fs, ino| fs.remove_xattr(ino, b"user.a")),
        ("unlink the one that lost", |fs, _| fs.unlink(1, b"log")),
    ];
    for (name, change) in changes {
        let (storage, fs) = new(64 * MIB);
        let (log, other) = (file(&fs, b"log"), file(&fs, b"other"));
        fs.make(1, b"dir", NewFile { mode: libc::S_IFDIR | 0o755, ..NewFile::default() }).expect("mkdir");
        fs.write(other, 0, b"kept for now", false).expect("write");
        fs.set_xattr(other, b"user.a", b"b", false, false).expect("an attribute");
        let piece = vec![7; PIECE];
        fs.append(log, &piece).expect("append");
        fs.sync().expect("sync");
        // More is taken than fits, and waits for the change to be written first.
        fs.streams.hold(true);
        fs.streams.take_without_space();
        let all = fs.store().stats().capacity_bytes;
        fs.db.promise_again(all);
        fs.append(log, &piece).expect("taken");
        std::thread::scope(|scope| {
            let done = scope.spawn(|| change(&fs, other));
            // The change is under way, or has not begun yet: then it finds the loss.
            let asked = std::time::Instant::now();
            while !done.is_finished() && asked.elapsed().as_millis() < 50 {
                std::thread::yield_now();
            }
            fs.streams.hold(false);
            done.join().expect("no panic").unwrap_or_else(|e| panic!("{name}: {e}"));
        });
        fs.db.take_back(all);
        if !name.ends_with("lost") {
            assert!(matches!(fs.sync_of(log), Err(Error::NoSpace)), "{name}: the loss is told");
            assert_eq!(fs.attr(log).expect("its size").size, PIECE as u64, "{name}");
        }
        _ = fs.sync();
        fs.close().expect("close");
        is_clean(storage);
    }
}

/// Two files with a piece each, and a third in the first that was taken and is lost: for want of space, or as `planted`.
fn lossy(planted: Option<Planted>) -> (SimStorage, Fs, [u64; 2]) {
    let (storage, fs) = new(64 * MIB);
    let files = [file(&fs, b"log"), file(&fs, b"other")];
    files.iter().for_each(|&ino| _ = fs.append(ino, &[7; LOST]).expect("append"));
    fs.sync().expect("sync");
    fs.streams.hold(true);
    fs.streams.take_without_space();
    let all = fs.store().stats().capacity_bytes;
    match planted {
        Some(planted) => fs.streams.plant(planted),
        None => fs.db.promise_again(all),
    }
    fs.append(files[0], &[8; LOST]).expect("taken");
    fs.streams.hold(false);
    assert!(fs.streams.flush().is_err(), "it is lost");
    if planted.is_none() {
        fs.db.take_back(all);
    }
    (storage, fs, files)
}

/// Bytes that are lost, and as many lie before them.
const LOST: usize = 256 << 10;

#[test]
fn nothing_is_written_behind_what_a_file_has_lost_before_a_sync_has_said_so() {
    let (storage, fs, [log, other]) = lossy(None);
    let (end, behind) = (LOST as u64, 2 * LOST as u64);
    for turn in 0..3 {
        let written = fs.write(log, behind, &[9; LOST], false);
        assert!(matches!(written, Err(Error::LostForSpace)), "{turn}: {written:?}");
        fs.write(other, behind, &[9; LOST], false).expect("another file is not concerned");
        fs.sync_of(other).expect("nor is its sync");
    }
    assert_eq!(fs.attr(log).expect("its size").size, end);
    // Where the data end it goes on, and from there as far as anybody likes.
    fs.write(log, end - 5, &[9; 10], false).expect("no hole");
    fs.write(log, end + 5, &[9; 10], false).expect("no hole");
    assert!(matches!(fs.write(log, behind, &[9; 10], false), Err(Error::LostForSpace)));
    assert!(matches!(fs.sync_of(log), Err(Error::NoSpace)), "taken, and not written");
    fs.sync_of(log).expect("it was said");
    fs.write(log, behind, &[9; 10], false).expect("who made the hole knows of it");
    assert_eq!(fs.attr(log).expect("its size").size, behind + 10);
    _ = fs.sync();
    fs.close().expect("close");
    is_clean(storage);
}

#[test]
fn who_appends_to_a_file_that_lost_data_hears_of_it_once() {
    let (_storage, fs, [log, _]) = lossy(None);
    assert!(matches!(fs.append(log, b"line"), Err(Error::LostForSpace)), "the first one hears");
    fs.append(log, b"line").expect("it was said");
    fs.append(log, b"line").expect("it was said");
    assert_eq!(fs.attr(log).expect("its size").size, LOST as u64 + 8);
    assert!(matches!(fs.sync_of(log), Err(Error::NoSpace)), "a sync says so as well");
    fs.sync_of(log).expect("it was said");
}

/// Whoever cuts the file off in front of what was lost misses nothing.
#[test]
fn a_file_that_lost_data_is_written_anew_when_it_is_cut_off() {
    let (_storage, fs, [log, _]) = lossy(None);
    let cut = |size| fs.set_attr(log, &SetAttr { size: Some(size), ..SetAttr::default() }).expect("truncate");
    cut(2 * LOST as u64);
    let written = fs.write(log, 2 * LOST as u64, b"x", false);
    assert!(matches!(written, Err(Error::LostForSpace)), "zeros before it: {written:?}");
    cut(0);
    fs.write(log, 5 * LOST as u64, b"x", false).expect("write");
    assert!(matches!(fs.sync_of(log), Err(Error::NoSpace)), "a sync says so all the same");
}

/// An error that leaves the store whole concerns one file: its loss is said as what it was, and the mount goes on.
#[test]
fn a_bad_sector_under_one_file_stops_no_other() {
    let (storage, fs, [log, other]) = lossy(Some(Planted::BadSector));
    fs.write(other, LOST as u64, &[9; LOST], false).expect("another file is not concerned");
    fs.sync_of(other).expect("nor is its sync");
    let new = file(&fs, b"new");
    fs.write(new, 0, b"new", false).expect("nor is a new one");
    let errno = |done: Result<(), Error>| done.map_err(|e| e.errno());
    let write = || fs.write(log, 3 * LOST as u64, b"x", false).map(|_| ());
    assert_eq!([errno(write()), errno(write())], [Err(libc::EIO); 2]);
    assert_eq!([errno(fs.sync_of(log)), errno(fs.sync_of(log))], [Err(libc::EIO), Ok(())]);
    assert_eq!([errno(fs.sync()), errno(fs.sync())], [Err(libc::EIO), Ok(())], "a sync of all is one of it");
    write().expect("it was said");
    assert!(fs.failure().is_none());
    fs.close().expect("close");
    is_clean(storage);
}

/// The same of a file that goes when it is let go.
#[test]
fn what_one_file_loses_keeps_no_space_of_another_that_is_gone() {
    const PIECE: usize = 256 << 10;
    let (storage, fs) = new(64 * MIB);
    let (log, gone) = (file(&fs, b"log"), file(&fs, b"gone"));
    fs.write(gone, 0, &vec![1; PIECE], false).expect("write");
    fs.allocate(gone, libc::FALLOC_FL_KEEP_SIZE, MIB, MIB).expect("allocate");
    fs.append(log, &vec![7; PIECE]).expect("append");
    fs.unlink(1, b"gone").expect("unlink");
    fs.sync().expect("sync");
    let all = fs.store().stats().capacity_bytes;
    fs.db.promise_again(all);
    fs.streams.hold(true);
    fs.streams.take_without_space();
    fs.append(log, &vec![7; PIECE]).expect("taken");
    std::thread::scope(|scope| {
        let forgotten = scope.spawn(|| fs.forget(gone, 1));
        std::thread::sleep(std::time::Duration::from_millis(5));
        fs.streams.hold(false);
        forgotten.join().expect("no panic");
    });
    assert_eq!(fs.store().stats().promised_bytes, all, "what was promised for it");
    assert_eq!(fs.db.get(&crate::key::orphan(gone)).expect("get"), None, "it is still noted");
    fs.db.take_back(all);
    assert!(matches!(fs.sync_of(log), Err(Error::NoSpace)), "the loss is told");
    _ = fs.sync();
    fs.close().expect("close");
    is_clean(storage);
}

#[test]
fn after_a_failure_of_the_store_reads_go_on() {
    use betree::storage::FaultPlan;

    const PIECE: usize = 256 << 10;
    let (storage, fs) = new(256 * MIB);
    let (log, other, holey) = (file(&fs, b"log"), file(&fs, b"other"), file(&fs, b"holey"));
    let piece: Vec<u8> = (0..PIECE).map(|at| (at % 251) as u8).collect();
    fs.write(other, 0, &piece, false).expect("write");
    fs.write(holey, 10 * MIB, &piece, false).expect("write");
    (0..8).for_each(|_| _ = fs.append(log, &piece).expect("append"));
    fs.sync().expect("sync");
    storage.set_faults(FaultPlan { write_error_at: Some(0), ..FaultPlan::default() });
    assert!((0..1000).any(|_| fs.append(log, &piece).is_err()), "no write failed");
    for round in 0..3 {
        let read = fs.read(other, 0, 1 << 20);
        assert!(read.unwrap_or_else(|e| panic!("{round}: {e}")) == piece);
        assert_eq!(fs.seek(holey, 0, super::Whence::Data).expect("seek"), 10 * MIB);
        // Of the file itself there is what was synced; behind that an error, but never what was not written.
        let found = fs.read(log, 0, 8 * PIECE).expect("read");
        assert!(found.len() == 8 * PIECE && found.chunks(PIECE).all(|got| *got == piece[..]));
        let right = |found: Vec<u8>| found.chunks(PIECE).all(|got| *got == piece[..got.len()]);
        assert!(fs.read(log, 0, 64 << 20).map_or(true, right), "{round}");
        for ino in [log, other] {
            assert!(matches!(fs.sync_of(ino), Err(Error::ReadOnly(_))), "{round}");
        }
        assert!(matches!(fs.append(other, &piece), Err(Error::ReadOnly(_))), "{round}");
    }
}

#[test]
fn what_was_reserved_and_lost_its_data_is_reserved_again() {
    const PIECE: u64 = 256 << 10;
    const FIRST: u64 = 64 << 10;
    let (storage, fs) = new(64 * MIB);
    let log = file(&fs, b"log");
    let promised = |fs: &Fs| fs.store().stats().promised_bytes;
    fs.write(log, 0, &[7; FIRST as usize], false).expect("write");
    fs.allocate(log, libc::FALLOC_FL_KEEP_SIZE, FIRST, 24 * MIB).expect("allocate");
    fs.sync().expect("sync");
    // All else is promised to others, and more is taken than fits.
    let all = fs.store().stats().capacity_bytes;
    fs.db.promise_again(all);
    fs.streams.take_without_space();
    let piece = vec![9; PIECE as usize];
    assert!((0..1000).any(|_| fs.append(log, &piece).is_err()), "250 MiB in 64");
    let size = fs.attr(log).expect("its size").size;
    assert!(size < 20 * MIB, "{size}");
    let left = (FIRST + 24 * MIB).saturating_sub(size.max(FIRST)).div_ceil(4096);
    assert_eq!(promised(&fs) - all, left * ((4096 + 128) / 4 * 5), "{size} bytes are there");
    fs.db.take_back(all);
    fs.set_attr(log, &SetAttr { size: Some(0), ..SetAttr::default() }).expect("truncate");
    assert_eq!(promised(&fs), 0);
    _ = fs.sync();
    fs.close().expect("close");
    is_clean(storage);
}

/// Of the thread that writes what was collected, or of a caller who does it for him: the others wait for a batch that never ends.
#[test]
fn a_panic_while_what_was_collected_is_written_fails_the_file_system_and_nobody_waits() {
    let (storage, fs) = new(256 * MIB);
    let fs = std::sync::Arc::new(fs);
    let kept = file(&fs, b"kept");
    fs.write(kept, 0, b"synced", false).expect("write");
    fs.sync().expect("sync");
    let files = [file(&fs, b"one"), file(&fs, b"two")];
    fs.streams.plant(Planted::Panic);
    let (done, ended) = std::sync::mpsc::channel();
    for ino in files {
        let (fs, done) = (fs.clone(), done.clone());
        std::thread::spawn(move || {
            let error =
                (0..1000u64).find_map(|n| fs.write(ino, (1 + n) * MIB / 4, &[5; 256 << 10], false).err());
            let _ = done.send((error, fs.sync()));
        });
    }
    for _ in 0..2 {
        let (error, synced) = ended.recv_timeout(std::time::Duration::from_secs(120)).expect("it hangs");
        assert!(matches!(error, Some(Error::ReadOnly(_))), "{error:?}");
        assert!(matches!(synced, Err(Error::ReadOnly(_))), "{synced:?}");
    }
    let reason = fs.failure().expect("a reason").to_string();
    assert!(reason.contains("panicked: planted"), "{reason}");
    let again = Fs::open(storage.power_cut(3), &options()).expect("open");
    let ino = again.lookup(1, b"kept").expect("the file").ino;
    assert_eq!(again.read(ino, 0, 100).expect("read"), b"synced");
}

/// What found its space in the last moment is as durable as the rest: the device is given away next.
#[test]
fn what_is_settled_last_is_durable() {
    let (storage, fs) = new(48 * MIB);
    let (cut, big) = (file(&fs, b"cut"), file(&fs, b"big"));
    fs.write(cut, 0, &[3; 9000], false).expect("write");
    fs.sync().expect("sync");
    let full = (0..).find_map(|n| fs.write(big, n * 65536, &[7; 65536], false).and_then(|_| fs.sync()).err());
    assert!(matches!(full, Some(Error::NoSpace)), "{full:?}");
    // Its data stay until it is let go.
    fs.unlink(1, b"big").expect("unlink");
    // And what is left is somebody else's.
    [20, 16, 12, 8, 4, 0].into_iter().for_each(|bits| while fs.db.promise(1 << bits).is_ok() {});
    let node = fs.node(cut).expect("the file");
    {
        let mut state = node.write();
        state.inode.size = 5000;
        state.unsaved = true;
    }
    fs.unsaved.store(true, std::sync::atomic::Ordering::Release);
    assert!(matches!(fs.sync_of(cut), Err(Error::NoSpace)), "there is no space for it yet");
    fs.settle().expect("settle");
    for seed in 0..8 {
        let again = Fs::open(storage.power_cut(seed), &options()).expect("open");
        let ino = again.lookup(1, b"cut").expect("the file").ino;
        assert_eq!(again.attr(ino).expect("its size").size, 5000, "seed {seed}");
    }
}

/// The piece that was taken while room was made for it is written later: an error would have the caller take its data for lost, and
/// they would show when the file grows again.
#[test]
fn a_write_that_was_taken_is_not_refused_because_another_file_has_lost_something() {
    const PIECE: usize = 20 << 10;
    const LARGE: usize = 600 << 10;
    const BEGIN: u64 = 64 << 10;
    let (storage, fs) = new(64 * MIB);
    let fs = std::sync::Arc::new(fs);
    let (large, small) = (file(&fs, b"large"), file(&fs, b"small"));
    [large, small]
        .into_iter()
        .for_each(|ino| _ = fs.write(ino, 0, &[1; BEGIN as usize], false).expect("write"));
    fs.sync().expect("sync");
    // Space for what the small file gets, and not for the other.
    [20, 16, 12].into_iter().for_each(|bits| while fs.db.promise(1 << bits).is_ok() {});
    fs.db.take_back(LARGE as u64 / 2);
    fs.streams.take_without_space();
    fs.streams.hold(true);
    for turn in 0..2 {
        let [to_large, to_small] = [LARGE, PIECE].map(|len| BEGIN + (turn * len) as u64);
        fs.write(large, to_large, &[2; LARGE], false).expect("taken");
        fs.write(small, to_small, &[3; PIECE], false).expect("taken");
    }
    fs.write(large, BEGIN + 2 * LARGE as u64, &[2; LARGE], false).expect("taken");
    // One too many: it waits until the first is written, which finds no space.
    let waits = {
        let fs = fs.clone();
        std::thread::spawn(move || fs.write(small, BEGIN + 2 * PIECE as u64, &[3; PIECE], false))
    };
    while !fs.streams.is_crowded() {
        std::thread::yield_now();
    }
    fs.streams.hold(false);
    let written = waits.join().expect("no panic");
    assert!(matches!(written, Ok(PIECE)), "{written:?}");
    assert!(matches!(fs.sync_of(large), Err(Error::NoSpace)), "taken, and not written");
    fs.sync_of(small).expect("all of it found space");
    let sizes = [large, small].map(|ino| fs.attr(ino).expect("its size").size);
    assert_eq!(sizes, [BEGIN, BEGIN + 3 * PIECE as u64]);
    let found = fs.read(small, BEGIN, 3 * PIECE + 1).expect("read");
    assert!(found == [3; 3 * PIECE]);
    drop(fs);
    is_clean(storage);
}

/// A mount whose store has failed may be read for days: whoever walks through it must not fill the memory.
#[test]
fn inodes_are_let_go_after_a_failure_of_the_store() {
    use betree::storage::FaultPlan;

    const FILES: u32 = 400;
    const IDLE_MAX: usize = 20;
    let storage = SimStorage::new(64 * MIB);
    let options = Options { idle_nodes_max: IDLE_MAX, ..options() };
    Fs::format(storage.clone(), &options).expect("format");
    let fs = Fs::open(storage.clone(), &options).expect("open");
    let log = file(&fs, b"log");
    for n in 0..FILES {
        fs.forget(file(&fs, n.to_string().as_bytes()), 1);
    }
    let piece = [5; 256 << 10];
    fs.write(log, 0, &piece, false).expect("write");
    fs.sync().expect("sync");
    // A batch that was collected is what meets the failure.
    fs.streams.take_without_space();
    storage.set_faults(FaultPlan { write_error_at: Some(0), ..FaultPlan::default() });
    let failed = (1..1000u64).find_map(|n| fs.write(log, n * MIB / 4, &piece, false).err());
    // By which of them it is heard depends on whether the batch or the next write meets the store first.
    assert!(matches!(failed, Some(Error::ReadOnly(_) | Error::DataLost(_))), "{failed:?}");
    assert!(fs.streams.is_in_doubt(), "it was not one of a stream");
    for n in 0..FILES {
        let ino = fs.lookup(1, n.to_string().as_bytes()).expect("reads go on").ino;
        fs.forget(ino, 1);
    }
    let known = fs.inodes_in_memory();
    assert!(known <= IDLE_MAX + 5, "{known} inodes in memory");
    // What only memory had of the file, and could not be written, is an error or right: never other bytes.
    fs.forget(log, 1);
    let size = fs.attr(fs.lookup(1, b"log").expect("the file").ino).expect("its size").size;
    match fs.read(log, 0, size as usize) {
        Ok(found) => assert!(found.iter().all(|byte| *byte == 5)),
        Err(error) => assert!(matches!(error, Error::Store(_)), "{error}"),
    }
}

/// It has no record that tells its size.
#[test]
fn a_file_without_a_name_that_loses_what_was_written_over_it_keeps_its_size() {
    const BEGIN: usize = 64 << 10;
    let (_storage, fs) = new(64 * MIB);
    let log = file(&fs, b"log");
    fs.write(log, 0, &[7; MIB as usize], false).expect("write");
    fs.unlink(1, b"log").expect("unlink");
    fs.write(log, 0, &[8; BEGIN], false).expect("write");
    fs.streams.take_without_space();
    fs.streams.plant(Planted::BadSector);
    fs.write(log, BEGIN as u64, &[8; LOST], false).expect("taken");
    assert!(fs.streams.flush().is_err(), "it is lost");
    assert_eq!(fs.attr(log).expect("its size").size, MIB);
    let found = fs.read(log, 0, 2 << 20).expect("read");
    assert!(found[..BEGIN] == [8; BEGIN] && found[BEGIN..].iter().all(|byte| *byte == 7));
}

/// Does `change`, which takes the state of `watched`, and has what was collected of `log` lost meanwhile.
fn while_lost<T: Send>(fs: &Fs, log: u64, watched: u64, change: impl FnOnce() -> T + Send) -> T {
    let watched = fs.node(watched).expect("the inode");
    fs.streams.hold(true);
    fs.streams.take_without_space();
    fs.streams.plant(Planted::BadSector);
    fs.append(log, &[8; LOST]).expect("taken");
    std::thread::scope(|scope| {
        let done = scope.spawn(change);
        while watched.try_write().is_some() && !done.is_finished() {
            std::thread::yield_now();
        }
        fs.streams.hold(false);
        done.join().expect("no panic")
    })
}

/// Two files with a piece each.
fn two_files() -> (SimStorage, Fs, [u64; 2]) {
    let (storage, fs) = new(64 * MIB);
    let files = [file(&fs, b"log"), file(&fs, b"other")];
    files.iter().for_each(|&ino| _ = fs.append(ino, &[7; LOST]).expect("append"));
    fs.sync().expect("sync");
    (storage, fs, files)
}

#[test]
fn a_long_write_is_not_cut_short_because_another_file_has_lost_something() {
    let (_storage, fs, [_, other]) = two_files();
    fs.streams.plant(Planted::Settled);
    let written = fs.write(other, 0, &[9; MIB as usize], false);
    assert!(matches!(written, Ok(n) if n == MIB as usize), "{written:?}");
}

/// The first piece is written by the time that the loss shows, which is before the second.
#[test]
fn a_write_of_two_pieces_is_whole_though_another_file_has_lost_something_in_between() {
    let (_storage, fs, [_, other]) = two_files();
    fs.streams.plant(Planted::SettledAtNext);
    let written = fs.write(other, 100, &[9; MIB as usize], false);
    assert!(matches!(written, Ok(n) if n == MIB as usize), "{written:?}");
    let found = fs.read(other, 100, 2 << 20).expect("read");
    assert!(found.len() == MIB as usize && found.iter().all(|byte| *byte == 9));
}

/// A change that found no space is made in a smaller form; one that another file was in the way of is made as it is.
#[test]
fn a_file_is_cut_off_as_a_whole_though_another_file_has_lost_something() {
    let (_storage, fs, [_, other]) = two_files();
    fs.streams.plant(Planted::Settled);
    fs.set_attr(other, &SetAttr { size: Some(4096), ..SetAttr::default() }).expect("truncate");
    assert!(!fs.node(other).expect("the file").read().unsaved);
}

/// A piece that was taken before the loss showed is lost with it: it does not count.
#[test]
fn a_write_counts_nothing_of_what_it_has_lost_itself() {
    let (_storage, fs, [log, _]) = two_files();
    fs.streams.hold(true);
    fs.streams.take_without_space();
    fs.streams.plant(Planted::BadSector);
    fs.append(log, &[8; LOST]).expect("taken");
    let lost = std::thread::scope(|scope| {
        let written = scope.spawn(|| fs.append(log, &vec![9; 3 * MIB as usize]));
        fs.streams.hold(false);
        written.join().expect("no panic")
    });
    // If all was taken before the loss showed, the next one hears of it.
    _ = fs.streams.flush();
    assert!(lost.is_err() || fs.append(log, b"x").is_err(), "{lost:?}");
}

/// Whoever unmounts is the last to hear of it.
#[test]
fn what_was_lost_and_not_said_is_an_error_of_the_end() {
    let (_storage, fs, _) = lossy(None);
    assert!(matches!(fs.settle(), Err(Error::NoSpace)), "taken, and not written");
    let (_storage, fs, _) = lossy(None);
    fs.sync_without_report().expect("as a signal asks");
    assert!(matches!(fs.settle(), Err(Error::NoSpace)), "a signal has no answer");
    let (_storage, fs, _) = lossy(None);
    assert!(fs.sync().is_err());
    fs.settle().expect("all was said");
    let (_storage, fs, [log, _]) = lossy(None);
    let state = |fs: &Fs| String::from_utf8(fs.xattr(1, b"betrfs.state").expect("state")).expect("text");
    assert!(state(&fs).starts_with(super::LOST_DATA), "umount asks for it: {}", state(&fs));
    assert!(fs.sync_of(log).is_err());
    assert_eq!(state(&fs), super::TAKES_WRITES);
    fs.settle().expect("it was said");
}

#[test]
fn what_a_file_has_lost_is_said_also_after_nobody_held_it() {
    let (_storage, mut fs, [log, _]) = lossy(None);
    fs.idle_nodes_max = 0;
    assert_eq!(fs.attr(log).expect("its size").size, LOST as u64);
    fs.forget(log, 1);
    let log = fs.lookup(1, b"log").expect("the file").ino;
    assert!(matches!(fs.sync_of(log), Err(Error::NoSpace)), "taken, and not written");
    fs.sync_of(log).expect("it was said");
}

/// Whoever reads finds what there is.
#[test]
fn a_read_that_meets_a_loss_of_its_file_is_not_refused() {
    let (_storage, fs, [log, _]) = two_files();
    fs.write(log, MIB, &[7; LOST], false).expect("write");
    let end = MIB + LOST as u64;
    let read = while_lost(&fs, log, log, || fs.read(log, MIB, 2 * LOST));
    assert!(read.expect("read") == [7; LOST]);
    let _ = fs.sync_of(log);
    fs.write(log, end - 4096, &[7; 4096], false).expect("write");
    let hole = while_lost(&fs, log, log, || fs.seek(log, MIB, super::Whence::Hole));
    assert_eq!(hole.expect("seek"), end);
    let synced = fs.sync_of(log);
    assert!(matches!(synced, Err(Error::DataLost(_))), "{synced:?}");
}

/// Another one is no reason to try again, which would go well.
#[test]
fn a_write_hears_of_a_loss_also_while_another_file_loses_something() {
    let (_storage, fs, [log, other]) = lossy(None);
    assert_eq!(fs.attr(log).expect("its size").size, LOST as u64);
    fs.streams.hold(true);
    fs.streams.take_without_space();
    fs.streams.plant(Planted::BadSector);
    fs.append(other, &[8; LOST]).expect("taken");
    let node = fs.node(log).expect("the file");
    std::thread::scope(|scope| {
        let held = node.write();
        let written = scope.spawn(|| fs.write(log, LOST as u64, b"x", false));
        // The write is under way.
        while fs.tree.try_write().is_ok() {
            std::thread::yield_now();
        }
        fs.streams.hold(false);
        assert!(fs.streams.flush().is_err(), "it is lost");
        drop(held);
        let written = written.join().expect("no panic");
        assert_eq!(written.map_err(|e| e.errno()), Err(libc::ENOSPC));
    });
}

/// What another file loses meanwhile is no reason that an inode is not saved.
#[test]
fn an_inode_is_saved_whatever_others_lose_meanwhile() {
    use std::sync::atomic::Ordering;

    let (storage, fs, [log, _]) = two_files();
    let cut = unsaved_file(&fs, b"cut");
    let node = fs.node(cut).expect("the file");
    std::thread::scope(|scope| {
        // The sync looks at the inode and cannot take it.
        let held = node.read();
        let synced = scope.spawn(|| fs.sync_of(cut));
        while fs.unsaved.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        fs.streams.take_without_space();
        fs.streams.plant(Planted::BadSector);
        fs.append(log, &[8; LOST]).expect("taken");
        assert!(fs.streams.flush().is_err(), "it is lost");
        drop(held);
        synced.join().expect("no panic").expect("there is space");
    });
    assert_eq!(size_in(storage.power_cut(5), b"cut"), 5000);
}

#[test]
fn what_is_removed_at_the_second_attempt_counts_once() {
    use std::sync::atomic::Ordering;

    let (_storage, fs, [log, other]) = two_files();
    fs.forget(other, 1);
    let before = fs.removed_blocks.load(Ordering::Relaxed);
    while_lost(&fs, log, 1, || fs.unlink(1, b"other")).expect("unlink");
    let removed = fs.removed_blocks.load(Ordering::Relaxed) - before;
    assert_eq!(removed, LOST as u64 / 4096);
}

/// The kernel says so itself, and asks for no sync then.
#[test]
fn a_refused_write_of_what_the_kernel_has_collected_is_the_report_of_a_loss() {
    let (_storage, fs, [log, _]) = lossy(None);
    let write = || fs.serve_write(log, Some(2 * LOST as u64), b"x", false, IoPath::WriteBack);
    let written = write();
    assert!(matches!(written, Err(Error::LostForSpace)), "{written:?}");
    assert_eq!(fs.read(log, 2 * LOST as u64, 2).expect("read"), b"x", "there is space for these");
    assert_eq!(write().expect("it was said").bytes, 1);
    fs.sync_of(log).expect("it was said");
}

/// A program that writes by write(2) as well does not hear what the kernel heard for its mapping.
#[test]
fn a_page_of_a_mapping_leaves_the_report_of_a_loss_to_writes_and_the_end() {
    let page = |fs: &Fs, log| fs.serve_write(log, Some(2 * LOST as u64), b"x", false, IoPath::Mapping);
    let (_storage, fs, [log, _]) = lossy(None);
    assert!(matches!(page(&fs, log), Err(Error::LostForSpace)), "the kernel hears of it");
    assert_eq!(page(&fs, log).expect("once").bytes, 1);
    for _ in 0..2 {
        let behind = fs.write(log, 3 * LOST as u64, b"y", false);
        assert!(matches!(behind, Err(Error::LostForSpace)), "{behind:?}");
    }
    assert!(fs.sync_of(log).is_err());
    fs.write(log, 3 * LOST as u64, b"y", false).expect("it was said");
    fs.settle().expect("it was said");
    let (_storage, fs, [log, _]) = lossy(None);
    assert!(page(&fs, log).is_err());
    assert!(matches!(fs.settle(), Err(Error::NoSpace)), "no program has heard of it");
}
