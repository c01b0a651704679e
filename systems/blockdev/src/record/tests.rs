//! What was recorded is read back, whatever is missing at the end.

use std::io::Write;

use camino::Utf8PathBuf;

use super::*;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(self.0.path().join("record")).unwrap()
    }
}

fn record(path: &camino::Utf8Path) -> Vec<Event> {
    let recorder = Recorder::create(path, 1 << 20).unwrap();
    let mut events = Vec::new();
    let mut put = |at_ns, what| events.push(Event { at_ns, what });
    let first = recorder.write(1, 4096, &[7; 8192], true);
    put(1, EventKind::Write { id: first, offset: 4096, data: vec![7; 8192], fua: true });
    let second = recorder.flush(2);
    put(2, EventKind::Flush { id: second });
    recorder.complete(3, second, 0);
    put(3, EventKind::Complete { id: second, errno: 0 });
    recorder.complete(3, first, libc::EIO);
    put(3, EventKind::Complete { id: first, errno: libc::EIO });
    let third = recorder.discard(4, 0, 1 << 20);
    put(4, EventKind::Discard { id: third, offset: 0, length: 1 << 20 });
    let fourth = recorder.write_zeroes(5, 8192, 4096);
    put(5, EventKind::WriteZeroes { id: fourth, offset: 8192, length: 4096 });
    recorder.mark(6, "fsync of \u{e4} done");
    put(6, EventKind::Mark { text: "fsync of \u{e4} done".into() });
    recorder.power_cut(u64::MAX);
    put(u64::MAX, EventKind::PowerCut);
    assert_eq!([first, second, third, fourth], [1, 2, 3, 4]);
    assert_eq!(recorder.sync().unwrap().events, events.len() as u64);
    let read: Vec<Event> = Reader::open(path).unwrap().map(Result::unwrap).collect();
    assert_eq!(read, events, "readable while it is being recorded");
    events
}

#[test]
fn events_come_back_and_a_torn_end_is_told() {
    let place = Place::new();
    let events = record(&place.file());
    let whole = std::fs::read(place.file()).unwrap();
    let mut boundaries = Vec::new();
    let mut reader = Reader::open(&place.file()).unwrap();
    assert_eq!(reader.device_bytes(), 1 << 20);
    loop {
        boundaries.push(reader.position());
        let Some(event) = reader.next() else { break };
        assert_eq!(event.unwrap(), events[boundaries.len() - 1]);
    }
    assert_eq!(*boundaries.last().unwrap(), whole.len() as u64);
    assert!(matches!(Recorder::create(&place.file(), 1), Err(RecordError::Io { .. })), "never overwritten");
    for length in (0..whole.len() as u64).filter(|l| *l < 400 || *l % 97 == 0 || boundaries.contains(l)) {
        std::fs::write(place.file(), &whole[..length as usize]).unwrap();
        if length < 32 {
            assert!(matches!(Reader::open(&place.file()), Err(RecordError::NotOne { .. })));
            continue;
        }
        let mut reader = Reader::open(&place.file()).unwrap();
        let read: Vec<Event> = reader.by_ref().map(Result::unwrap).collect();
        let fit = boundaries.iter().filter(|b| **b <= length).count() - 1;
        assert_eq!(read, events[..fit], "{length} bytes");
        assert_eq!(reader.torn_at(), (boundaries[fit] < length).then_some(boundaries[fit]), "{length} bytes");
    }
}

#[test]
fn damage_is_told_and_zeroes_at_the_end_are_a_torn_end() {
    let place = Place::new();
    let events = record(&place.file());
    let whole = std::fs::read(place.file()).unwrap();
    for at in 32..80 {
        let mut bad = whole.clone();
        bad[at] ^= 0x10;
        std::fs::write(place.file(), bad).unwrap();
        let first = Reader::open(&place.file()).unwrap().next().unwrap();
        assert!(matches!(first, Err(RecordError::Damaged { at: 32, .. })), "byte {at}");
    }
    std::fs::write(place.file(), &whole).unwrap();
    std::fs::File::options().append(true).open(place.file()).unwrap().write_all(&[0; 100]).unwrap();
    let mut reader = Reader::open(&place.file()).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).count(), events.len());
    assert_eq!(reader.torn_at(), Some(whole.len() as u64));
}

#[test]
fn threads_record_without_losing_anything() {
    let place = Place::new();
    let recorder = Recorder::create(&place.file(), 1 << 20).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let recorder = &recorder;
            scope.spawn(move || {
                for i in 0..500 {
                    let id = recorder.write(i, u64::from(thread) * 4096, &vec![thread; 4096], false);
                    if i % 50 == 0 {
                        recorder.sync().unwrap();
                    }
                    recorder.complete(i, id, 0);
                }
            });
        }
    });
    drop(recorder);
    let (mut open, mut writes) = (std::collections::HashSet::new(), 0);
    for (i, event) in Reader::open(&place.file()).unwrap().map(Result::unwrap).enumerate() {
        match event.what {
            EventKind::Write { id, offset, data, fua: false } => {
                assert!(open.insert(id) && data.iter().all(|b| u64::from(*b) * 4096 == offset), "event {i}");
                writes += 1;
                assert_eq!(id, writes, "ids in the order of submission");
            }
            EventKind::Complete { id, .. } => assert!(open.remove(&id), "event {i}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(open.is_empty() && writes == 2000);
}

#[test]
fn a_full_disk_is_told_and_holds_nothing_up() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let recorder = Recorder::start(full, "full".into()).unwrap();
    let id = recorder.write(1, 0, &[1; 4096], false);
    let error = recorder.sync().unwrap_err().to_string();
    assert!(error.contains("full: No space"), "{error}");
    recorder.complete(2, id, 0);
    let status = recorder.status();
    assert!(status.events == 1 && status.error.is_some_and(|e| e.contains("No space")));
}

#[test]
fn what_lies_beyond_the_device_or_is_no_whole_block_is_damage() {
    for (offset, length) in [(0, 1 << 40), (u64::MAX - 4095, 4096), (1 << 20, 4096), (1, 4096), (0, 1)] {
        let place = Place::new();
        let recorder = Recorder::create(&place.file(), 1 << 20).unwrap();
        recorder.discard(1, offset, length);
        recorder.sync().unwrap();
        let first = Reader::open(&place.file()).unwrap().next().unwrap();
        assert!(matches!(first, Err(RecordError::Damaged { at: 32, .. })), "{offset} {length}");
    }
}
