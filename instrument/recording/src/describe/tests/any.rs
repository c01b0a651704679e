//! Recordings that make no sense.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{describe, lowered, profile};
use crate::call::{Call, Operation};
use crate::format::{FileKind, Item, Summary};

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..20_000_u64, any::<u64>(), Just(4096)]
}

fn operation() -> impl Strategy<Value = Operation> {
    let who = (0..6_u32, 0..Call::ALL.len(), number(), number());
    let what = (prop_oneof![Just(0), Just(4096), any::<i64>()], proptest::option::of(0..8_u32));
    let where_ = (proptest::option::of(0..8_u32), proptest::option::of(0..12_u32), number(), number());
    (who, what, where_, any::<u32>()).prop_map(
        |((thread, call, begin_ns, took_ns), (result, path), (to, handle, offset, bytes), flags)| Operation {
            thread,
            call: Call::ALL[call],
            begin_ns,
            took_ns,
            result,
            path,
            to,
            handle,
            offset,
            bytes,
            flags,
        },
    )
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        1 => (any::<u32>(), ".{0,20}").prop_map(|(tid, name)| Item::Thread { tid, pid: tid, name }),
        1 => "(/[a-z0-9$#{}\" \n.é-]{0,9}){0,4}".prop_map(|path| Item::Path(path.into_bytes())),
        1 => vec(any::<u8>(), 0..9).prop_map(Item::Path),
        1 => (0..9_u32, number()).prop_map(|(path, size)| Item::Found { path, kind: FileKind::File(size) }),
        1 => (0..9_u32).prop_map(|path| Item::Found { path, kind: FileKind::Absent }),
        1 => (0..9_u32, any::<u32>()).prop_map(|(path, flags)| Item::Inherited { path, flags }),
        30 => operation().prop_map(Item::Operation),
        1 => number().prop_map(|length_ns| Item::End(Summary { length_ns, ..Summary::default() })),
    ]
}

/// Threads and paths that most operations find.
fn beginning() -> Vec<Item> {
    let threads = (0..4).map(|tid| Item::Thread { tid, pid: tid, name: format!("name {}", tid % 3) });
    let paths = ["/a/b", "/a/c.log", "/a", "", "/d/1", "/d/2"].map(|path| Item::Path(path.into()));
    threads.chain(paths).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_items_give_a_personality(items in vec(item(), 0..200), name: String) {
        let items = [beginning(), items].concat();
        let text = describe(&profile(&items), &name);
        lowered(&text);
        prop_assert_eq!(&text, &describe(&profile(&items), &name));
    }
}
