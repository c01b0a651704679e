//! The core workloads beside YCSB's RocksDB binding, by RocksDB's own statistics.
//!
//! What YCSB did: 0.18.0-SNAPSHOT, commit d9faaac8, its RocksDB binding with rocksdbjni 6.2.2, to whose options a `Statistics`
//! was added whose tickers are printed when the database is closed; `site.ycsb.Client -db site.ycsb.db.rocksdb.RocksDBClient
//! -P workloads/workloada -p recordcount=1000 -p operationcount=10000 -threads 1 -load`, then the same with `-t`.

use std::ffi::CStr;
use std::path::Path;

use camino::Utf8Path;
use needs::needs;
use serve::drive::{self, Pace};

use super::library::{Handle, symbol};
use super::{Db, Options};
use crate::client::{self, Shared};
use crate::embedded::terminal::{SessionTerminal, load};
use crate::embedded::{Embedded, Settings};
use crate::engine::Engine;
use crate::workload::{Workload, builtin};

/// RocksDB counts what it does, in these tests alone: it costs time.
pub(super) fn count_all(library: Handle, options: Handle) {
    let found = symbol(library, "rocksdb_options_enable_statistics").expect("every version has it");
    // SAFETY: `void rocksdb_options_enable_statistics(rocksdb_options_t*)` (rocksdb/c.h), and options that are open.
    unsafe { std::mem::transmute::<Handle, unsafe extern "C" fn(Handle)>(found)(options) }
}

const OPERATIONS: u32 = 10_000;
const TICKERS: [&str; 7] = [
    "number.keys.read",
    "number.keys.written",
    "bytes.read",
    "bytes.written",
    "number.db.seek",
    "number.db.next",
    "db.iter.bytes.read",
];
/// Letter of a workload, other properties, and what YCSB's run counted, in the order of [`TICKERS`].
type Row = (char, &'static [(&'static str, &'static str)], [u64; 7]);
const GOLDEN: [Row; 7] = [
    ('a', &[], [10_000, 4972, 11_400_000, 5_866_425, 0, 0, 0]),
    ('b', &[], [10_000, 526, 11_400_000, 620_628, 0, 0, 0]),
    ('c', &[], [10_000, 0, 11_400_000, 0, 0, 0, 0]),
    ('d', &[], [9543, 457, 10_879_020, 539_207, 0, 0, 0]),
    ('e', &[], [0, 476, 0, 561_624, 9524, 463_528, 549_693_530]),
    ('f', &[], [15_002, 5002, 17_102_280, 5_901_833, 0, 0, 0]),
    (
        'a',
        &[("writeallfields", "true"), ("readallfields", "false")],
        [10_000, 5037, 11_400_000, 5_943_128, 0, 0, 0],
    ),
];

fn tickers(db: &Db) -> [u64; 7] {
    const STATISTICS: &CStr = c"rocksdb.options-statistics";
    let text = db.property(STATISTICS).expect("statistics are on");
    TICKERS.map(|ticker| {
        let start = format!("rocksdb.{ticker} COUNT : ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("{ticker}: {text}")).trim().parse().unwrap()
    })
}

fn ours(letter: char, more: &[(&str, &str)]) -> [u64; 7] {
    let mut properties = builtin(letter).unwrap();
    properties.set("recordcount", "1000");
    properties.set("operationcount", &OPERATIONS.to_string());
    more.iter().for_each(|(name, value)| properties.set(name, value));
    let workload = Workload::of(&properties, false).unwrap();
    let shared = Shared::new(&workload, 7).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path: &Path = Utf8Path::from_path(folder.path()).unwrap().as_std_path();
    let settings = Settings { cache_bytes: 8 << 20, sync: false, sessions: 1 };
    let open = || Db::open(path, &Options::of(&settings)).unwrap();
    {
        let db = open();
        load(&db, Engine::RocksDb, &shared, &|| false, &|_| {}).unwrap();
        db.settle(&|| false).unwrap();
    }
    let db = open();
    let terminal = SessionTerminal::new(&db, &shared, 0, 1).unwrap();
    let pace = Pace { warmup_seconds: 0.0, seconds: 600.0, rate: None };
    let driven = drive::drive(&client::kinds(&workload), vec![terminal], &pace, &|| false);
    assert!(driven.failed.is_none(), "{:?}", driven.failed);
    assert_eq!(driven.outcome.io_ops(), u64::from(OPERATIONS));
    tickers(&db)
}

#[test]
fn workloads_do_what_they_do_with_ycsbs_rocksdb_binding() {
    needs!(RocksDb);
    for (letter, more, theirs) in GOLDEN {
        let ours = ours(letter, more);
        // what is drawn: two points of the operations; how long scans are: 3 %
        for at in [0, 1, 4, 5] {
            let most = f64::from(OPERATIONS) * 0.02;
            let most = if at == 5 { most.max(0.03 * theirs[5] as f64) } else { most };
            let difference = theirs[at].abs_diff(ours[at]) as f64;
            assert!(difference <= most, "{letter} {more:?}: {}: {theirs:?}, {ours:?}", TICKERS[at]);
        }
        // bytes of a Get, of a Put with its key, of a record that a scan passes: 1 %
        for (bytes, calls) in [(2, 0), (3, 1), (6, 5)] {
            let of = |all: &[u64; 7]| all[bytes] as f64 / all[calls].max(1) as f64;
            let (theirs, ours) = (of(&theirs), of(&ours));
            let difference = (theirs - ours).abs();
            assert!(difference <= 0.01 * theirs, "{letter} {more:?}: {}: {theirs}, {ours}", TICKERS[bytes]);
        }
    }
}
