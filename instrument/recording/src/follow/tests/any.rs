//! Any events end, and give a recording that its reader takes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::raw::recorded_calls;

/// Answers by a hash of the question: anything, but the same each time it is asked at the same moment.
#[derive(Debug)]
struct Oracle(u64);

impl Oracle {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn path(&mut self) -> Vec<u8> {
        let paths = PATHS.len() as u64;
        PATHS[(self.next() % paths) as usize].to_vec()
    }

    fn seen(&mut self) -> Seen {
        match self.next() % 6 {
            0 => Seen::Absent,
            1 => Seen::Directory,
            2 => Seen::Link(self.path()),
            3 => Seen::Other,
            _ => Seen::File {
                size: self.next() % 10_000,
                born_unix_ns: self.next().is_multiple_of(2).then_some(self.0),
                device: self.next() % 2,
                inode: self.next() % 5,
            },
        }
    }
}

const PATHS: [&[u8]; 14] = [
    b"",
    b"/",
    b"a",
    b"/a",
    b"/a/b",
    b"/a/b/c",
    b"../x",
    b"b/./c",
    b"/dev/null",
    b"/dev/fd/3",
    b"/proc/self/fd/4",
    b"/\xff\xfe",
    b"//a//",
    b"/d",
];

impl Lookup for Oracle {
    fn directory_at_begin(&mut self, _: u32) -> Option<Vec<u8>> {
        None
    }
    fn at_begin(&mut self, pid: u32, fd: i32) -> Option<Descriptor> {
        self.next().is_multiple_of(2).then(|| self.descriptor(pid, fd))
    }
    fn descriptor(&mut self, _: u32, _: i32) -> Descriptor {
        match self.next() % 4 {
            0 => Descriptor::Gone,
            1 => Descriptor::Other,
            _ => Descriptor::File(OpenFile {
                path: self.path(),
                flags: self.next() as u32,
                position: self.0,
                seen: self.seen(),
            }),
        }
    }
    fn directory(&mut self, _: u32) -> Option<Vec<u8>> {
        self.next().is_multiple_of(4).then(|| self.path())
    }
    fn found(&mut self, _: &[u8]) -> Seen {
        self.seen()
    }
    fn name(&mut self, _: u32, _: u32) -> Option<String> {
        self.next().is_multiple_of(2).then(|| "name".into())
    }
    fn threads(&mut self, pid: u32) -> Vec<u32> {
        vec![pid, 50 + self.next() as u32 % 3]
    }
}

fn argument() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0_u64..8,
        1 => Just(CWD),
        1 => any::<u64>(),
        1 => any::<u32>().prop_map(u64::from),
        1 => Just(CREAT),
        1 => Just(libc::O_TMPFILE as u64),
    ]
}

fn given_path() -> impl Strategy<Value = Option<Vec<u8>>> {
    let known = (0..PATHS.len()).prop_map(|at| PATHS[at].to_vec());
    prop_oneof![8 => known.prop_map(Some), 1 => Just(None), 1 => vec(any::<u8>(), 0..9).prop_map(Some)]
}

fn result() -> impl Strategy<Value = i64> {
    prop_oneof![5 => 0_i64..8, 2 => -40_i64..0, 1 => any::<i64>(), 1 => Just(-512)]
}

fn call() -> impl Strategy<Value = RawEvent> {
    let calls: Vec<u32> = recorded_calls().into_iter().map(|(number, _)| number).collect();
    let number = prop_oneof![9 => proptest::sample::select(calls), 1 => any::<u32>()];
    let times = (prop_oneof![9 => 0_u64..2000, 1 => any::<u64>()], 0_u64..500);
    let arguments = proptest::array::uniform6(argument());
    (1_u32..4, 0_u32..3, number, times, arguments, result(), given_path(), given_path()).prop_map(
        |(pid, thread, number, (begin_ns, took), arguments, result, first, second)| {
            let (tid, end_ns) = (pid + 10 * thread, begin_ns.wrapping_add(took));
            let paths = [first, second];
            RawEvent::Call(RawCall { pid, tid, number, begin_ns, end_ns, arguments, result, paths })
        },
    )
}

fn event() -> impl Strategy<Value = RawEvent> {
    let who = || (1_u32..4, 1_u32..4, 0_u64..2000);
    prop_oneof![
        20 => call(),
        1 => who().prop_map(|(parent_pid, pid, at_ns)| RawEvent::Fork { parent_pid, tid: pid, pid, at_ns }),
        1 => who().prop_map(|(parent_pid, tid, at_ns)| {
            RawEvent::Fork { parent_pid, tid: tid + 10, pid: parent_pid, at_ns }
        }),
        1 => who().prop_map(|(pid, name, at_ns)| RawEvent::Exec { pid, name: name.to_string(), at_ns }),
        1 => who().prop_map(|(pid, tid, at_ns)| RawEvent::Exit { pid, tid, at_ns }),
        1 => (who(), any::<u64>()).prop_map(|((pid, inode, at_ns), offset)| {
            RawEvent::Fault { pid, tid: pid, at_ns, device: 1, inode: u64::from(inode), offset }
        }),
        1 => any::<u64>().prop_map(RawEvent::Lost),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    let under =
        prop_oneof![Just(vec![]), Just(vec![b"/a".to_vec()]), Just(vec![b"/a/b".to_vec(), b"/dev".to_vec()])];
    let key = proptest::option::of(any::<[u64; 2]>());
    (any::<i64>(), under, key, 0_u64..100).prop_map(|(unix_ahead_ns, under, anonymous, begin_ns)| Options {
        begin_ns,
        unix_ahead_ns,
        under,
        anonymous,
    })
}

/// All threads of all processes end.
fn end(follower: &mut Follower, oracle: &mut Oracle, out: &mut Vec<Item>) {
    let of =
        |(pid, process): (&u32, &Process)| process.threads.iter().map(|tid| (*pid, *tid)).collect::<Vec<_>>();
    let all: Vec<(u32, u32)> = follower.processes.iter().flat_map(of).collect();
    for (pid, tid) in all {
        follower.event(RawEvent::Exit { pid, tid, at_ns: 9999 }, oracle, out);
    }
}

/// Each path that an operation does something to has an item that says what was there; a further one only says that it was larger.
fn assert_found(items: &[Item]) {
    let mut found: HashMap<u32, u64> = HashMap::new();
    for item in items {
        match item {
            Item::Found { path, kind } => {
                let size = if let FileKind::File(size) = kind { *size } else { 0 };
                let before = found.insert(*path, size);
                assert!(before.is_none_or(|before| before < size), "path {path} was found twice");
            }
            Item::Operation(operation) => {
                let to = operation.to.filter(|_| operation.call != Call::Symlink);
                let mut paths = operation.path.into_iter().chain(to);
                let fault = operation.call == Call::Fault;
                assert!(paths.all(|path| fault || found.contains_key(&path)), "{operation:?}");
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_events_end(options in options(), seed in any::<u64>(), events in vec(event(), 0..120)) {
        let (mut follower, mut oracle, mut out) = (Follower::new(options), Oracle(seed), Vec::new());
        for event in events {
            follower.event(event, &mut oracle, &mut out);
        }
        end(&mut follower, &mut oracle, &mut out);
        prop_assert!(follower.processes.is_empty());
        prop_assert!(follower.opens.is_empty());
        prop_assert!(follower.threads.is_empty());
        prop_assert_eq!(follower.names.unused(), 0);
        prop_assert_eq!(round_trip(&out), &out[..]);
        let operations = out.iter().filter(|item| matches!(item, Item::Operation(_))).count();
        prop_assert_eq!(follower.counts().operations, operations as u64);
        assert_found(&out);
    }
}
