use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn operation(threads: u32, paths: u32) -> impl Strategy<Value = Operation> {
    let numbers = (0..threads, 0..Call::ALL.len(), any::<u64>(), any::<u64>(), any::<i64>());
    let files = (proptest::option::of(0..paths), proptest::option::of(0..paths));
    (numbers, files, any::<u64>(), any::<u64>(), any::<u32>()).prop_map(
        |((thread, call, begin_ns, took_ns, result), (path, to), offset, bytes, flags)| Operation {
            thread,
            call: Call::ALL[call],
            begin_ns,
            took_ns,
            result,
            path,
            to,
            handle: None,
            offset,
            bytes,
            flags,
        },
    )
}

fn write(items: &[Item], summary: Option<Summary>) -> Vec<u8> {
    let header = Header { command: vec!["a b".into()], ..Header::default() };
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &header).unwrap();
    items.iter().for_each(|item| writer.push(item).unwrap());
    if let Some(summary) = summary {
        writer.finish(summary).unwrap();
    }
    bytes
}

fn read(bytes: &[u8]) -> Result<Vec<Item>, RecordingError> {
    Reader::new(bytes)?.collect()
}

/// Two threads, three paths, then operations; opens that succeed get their handles.
fn items(operations: Vec<Operation>) -> Vec<Item> {
    let mut items = vec![
        Item::Thread { tid: 7, pid: 7, name: "a".into() },
        Item::Thread { tid: 8, pid: 7, name: "b".into() },
    ];
    items.extend([&b"/a"[..], b"/b\xff", b""].map(|path| Item::Path(path.to_vec())));
    items.push(Item::Found { path: 0, kind: FileKind::File(u64::MAX) });
    items.push(Item::Found { path: 1, kind: FileKind::Link });
    items.push(Item::Inherited { path: 1, flags: u32::MAX });
    items.push(Item::Lost(3));
    let mut handles = 1;
    items.extend(operations.into_iter().map(|mut operation| {
        operation.handle = Some(handles - 1);
        if operation.call == Call::Open && operation.result >= 0 {
            operation.handle = Some(handles);
            handles += 1;
        }
        Item::Operation(operation)
    }));
    items
}

proptest! {
    #[test]
    fn what_is_written_is_read(operations in vec(operation(2, 3), 0..50), length_ns: u64, lost: u64) {
        let summary = Summary { length_ns, operations: operations.len() as u64, lost, unseen_requests: 1 };
        let mut items = items(operations);
        let bytes = write(&items, Some(summary));
        items.push(Item::End(summary));
        prop_assert_eq!(read(&bytes).unwrap(), items);
        prop_assert_eq!(summary_at_end(&bytes[bytes.len().saturating_sub(64)..]), Some(summary));
    }

    /// A recording that was cut says so, wherever it was.
    #[test]
    fn a_cut_is_told(operations in vec(operation(2, 3), 0..10), share in 0.0..1.0) {
        let bytes = write(&items(operations), Some(Summary::default()));
        let body = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0 + 1;
        let cut = body + ((bytes.len() - body) as f64 * share) as usize;
        let told = read(&bytes[..cut]);
        prop_assert!(matches!(told, Err(RecordingError::Cut { byte }) if byte == cut as u64), "{told:?}");
    }

    #[test]
    fn any_bytes_end(bytes in vec(any::<u8>(), 0..200)) {
        let whole = [write(&[], None), bytes].concat();
        let count = Reader::new(&whole[..]).unwrap().count();
        prop_assert!(count <= whole.len());
    }

    #[test]
    fn a_changed_byte_ends(operations in vec(operation(2, 3), 0..10), at: prop::sample::Index, to: u8) {
        let mut bytes = write(&items(operations), Some(Summary::default()));
        let at = at.index(bytes.len());
        bytes[at] = to;
        let _ = read(&bytes);
    }
}

#[test]
fn an_operation_takes_few_bytes() {
    let one = |number: u64| Operation {
        thread: 0,
        call: Call::Read,
        begin_ns: number * 20_000,
        took_ns: 3_000,
        result: 4096,
        path: None,
        to: None,
        handle: Some(0),
        offset: number * 4096,
        bytes: 4096,
        flags: 0,
    };
    let operations: Vec<Operation> = (0..1000).map(one).collect();
    let bytes = write(&items(operations), Some(Summary::default())).len();
    assert!(bytes < 20_000, "{bytes}");
}

#[test]
fn numbers_that_nothing_stands_for_are_told() {
    let open = |result, handle| {
        let call = if handle == Some(9) { Call::Read } else { Call::Open };
        let one = Operation { path: Some(0), handle, ..Operation::blank(call, result) };
        [
            Item::Thread { tid: 1, pid: 1, name: String::new() },
            Item::Path(b"/a".to_vec()),
            Item::Operation(one),
        ]
    };
    let told = |items: &[Item]| read(&write(items, None)).unwrap_err().to_string();
    assert!(told(&open(3, None)).contains("an open has handle None, not 0"));
    assert!(told(&open(0, Some(9))).contains("handle 9, there are 0 before it"));
    assert!(told(&open(3, Some(0))[1..]).contains("thread 0, there are 0 before it"));
    assert!(told(&[Item::Found { path: 0, kind: FileKind::Absent }]).contains("path 0"));
    assert!(told(&[]).contains("was cut at byte"));
    let claimed = [write(&[], None), vec![END, 0, 5, 0, 0]].concat();
    assert!(read(&claimed).unwrap_err().to_string().contains("5 operations, 0 were there"));
    assert!(matches!(read(b"fio version 3 iolog\n"), Err(RecordingError::Other)));
    assert!(matches!(read(b"loadline recording 1\n{\n"), Err(RecordingError::Header(_))));
}
