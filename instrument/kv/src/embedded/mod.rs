//! Engines that run in the process of the load.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | opening by name |
//! | [`session`] | what every engine can do |
//! | [`rocksdb`] | RocksDB through the library that the machine has |
//! | `sqlite` | SQLite |
//! | `lmdb` | LMDB |
//! | `terminal` | terminals, the load, the reading of all records |

#[cfg(feature = "lmdb")]
mod lmdb;
pub mod rocksdb;
pub mod session;
pub(crate) mod sqlite;
pub(crate) mod terminal;

use camino::Utf8Path;

pub use session::{Embedded, Session, Settings};

use crate::KvError;
use crate::engine::Engine;
use crate::record::Names;

/// Whether this machine has what an engine needs.
///
/// # Errors
/// [`KvError::Unavailable`].
pub fn check(engine: Engine) -> Result<(), KvError> {
    match engine {
        Engine::RocksDb => rocksdb::available(),
        #[cfg(not(feature = "lmdb"))]
        Engine::Lmdb => Err(without_lmdb()),
        _ => Ok(()),
    }
}

/// Why a build without the feature `lmdb` does not run it, and what to do.
#[cfg(not(feature = "lmdb"))]
fn without_lmdb() -> KvError {
    KvError::Unavailable {
        reason: "this loadline was built without LMDB, as `make demo` builds it".into(),
        remedy: "build all of it: make build (then target/release/loadline)".into(),
    }
}

/// Opens an engine on a directory, which is made when it is missing, for records with fields of these names.
///
/// # Errors
/// What the engine says.
pub fn open(
    engine: Engine,
    path: &Utf8Path,
    settings: &Settings,
    names: &Names,
) -> Result<Box<dyn Embedded>, KvError> {
    std::fs::create_dir_all(path).map_err(KvError::at(path))?;
    Ok(match engine {
        Engine::Sqlite => Box::new(sqlite::Sqlite::open(path, settings, names)?),
        #[cfg(feature = "lmdb")]
        Engine::Lmdb => Box::new(lmdb::Lmdb::open(path, settings)?),
        #[cfg(not(feature = "lmdb"))]
        Engine::Lmdb => return Err(without_lmdb()),
        _ => Box::new(rocksdb::Db::open(path.as_std_path(), &rocksdb::Options::of(settings))?),
    })
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;
    use needs::needs;

    use super::*;
    use crate::client::RequestedFields;
    use crate::properties::Properties;
    use crate::values::FieldValues;
    use crate::workload::Workload;

    fn names(form: &str) -> Names {
        let text = format!("recordcount=1\nfieldcount=3\nrecord={form}");
        Names::of(&Workload::of(&Properties::parse(&text).unwrap(), false).unwrap())
    }

    fn record(first: usize, values: &[&[u8]]) -> FieldValues {
        let mut record = FieldValues::default();
        record.begin(first);
        values.iter().for_each(|value| record.add(|bytes| bytes.extend_from_slice(value)));
        record
    }

    fn read(session: &mut dyn Session, key: &[u8], asked: RequestedFields) -> Option<Vec<(usize, Vec<u8>)>> {
        let mut all = Vec::new();
        session
            .read(key, asked, &mut |field, value| all.push((field, value.to_vec())))
            .unwrap()
            .then_some(all)
    }

    /// What every engine must do, in a directory of its own, opened twice.
    fn behaves(engine: Engine, sync: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().join("db")).unwrap();
        let settings = Settings { cache_bytes: 8 << 20, sync, sessions: 2 };
        let names = names("fields");
        {
            let db = open(engine, &path, &settings, &names).unwrap();
            let mut one = db.session(&names).unwrap();
            let records: Vec<_> = (0..100u8)
                .map(|n| (format!("k{n:03}").into_bytes(), record(0, &[&[n; 300], b"", &[n, 0, 255]])))
                .collect();
            one.load(&records).unwrap();
            assert!(one.update(b"k050", &record(1, &[b"changed"])).unwrap().is_some());
            assert_eq!(one.update(b"k999", &record(1, &[b"changed"])).unwrap(), None, "{engine}");
            one.insert(b"k100", &record(0, &[b"a", b"b", b"c"])).unwrap();
            let mut other = db.session(&names).unwrap();
            let found = read(&mut *other, b"k050", RequestedFields::Named).unwrap();
            let expected = [(0, vec![50; 300]), (1, b"changed".to_vec()), (2, vec![50, 0, 255])];
            assert_eq!(found, expected, "{engine}: another session sees it, and what was not changed");
            let one_field = read(&mut *other, b"k050", RequestedFields::One(2));
            assert_eq!(one_field, Some(vec![(2, vec![50, 0, 255])]), "{engine}");
            assert_eq!(read(&mut *other, b"k999", RequestedFields::All), None);
            drop((one, other));
            db.settle(&|| false).unwrap();
            let told = db.settings();
            assert!(told.iter().any(|(name, _)| name == "version"), "{told:?}");
        }
        let db = open(engine, &path, &settings, &names).unwrap();
        let mut session = db.session(&names).unwrap();
        let mut scan = |key: &[u8], most, asked| {
            let mut found = Vec::new();
            let mut show = |key: &[u8], field, value: &[u8]| found.push((key.to_vec(), field, value.len()));
            session.scan(key, most, asked, &mut show).unwrap();
            found
        };
        let expected =
            [("k050", 7), ("k051", 0), ("k052", 0)].map(|(key, n)| (key.as_bytes().to_vec(), 1, n));
        assert_eq!(scan(b"k0495", 3, RequestedFields::One(1)), expected, "{engine}");
        assert_eq!(scan(b"k099", 10, RequestedFields::All).len(), 6, "{engine}: the last records end a scan");
    }

    #[test]
    fn a_record_that_is_one_value_is_written_without_a_read() {
        for engine in [Engine::Sqlite, Engine::Lmdb, Engine::RocksDb] {
            if check(engine).is_err() {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let path = Utf8PathBuf::from_path_buf(folder.path().join("db")).unwrap();
            let settings = Settings { cache_bytes: 8 << 20, sync: false, sessions: 1 };
            let names = names("value");
            let db = open(engine, &path, &settings, &names).unwrap();
            let mut session = db.session(&names).unwrap();
            for text in [b"first", b"other"] {
                assert_eq!(session.update(b"k", &record(0, &[text])).unwrap(), Some(1), "{engine}");
                assert_eq!(
                    read(&mut *session, b"k", RequestedFields::All),
                    Some(vec![(0, text.to_vec())]),
                    "{engine}"
                );
            }
        }
    }

    #[test]
    fn sqlite_behaves() {
        behaves(Engine::Sqlite, false);
        behaves(Engine::Sqlite, true);
    }

    #[test]
    fn lmdb_behaves() {
        behaves(Engine::Lmdb, false);
        behaves(Engine::Lmdb, true);
    }

    #[test]
    fn rocksdb_behaves() {
        needs!(RocksDb);
        behaves(Engine::RocksDb, false);
        behaves(Engine::RocksDb, true);
    }

    #[test]
    fn several_threads_write_at_once() {
        for engine in [Engine::Sqlite, Engine::Lmdb, Engine::RocksDb] {
            if check(engine).is_err() {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let path = Utf8PathBuf::from_path_buf(folder.path().join("db")).unwrap();
            let settings = Settings { cache_bytes: 8 << 20, sync: false, sessions: 4 };
            let names = names("fields");
            let db = open(engine, &path, &settings, &names).unwrap();
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (db, names) = (&db, &names);
                    scope.spawn(move || {
                        let mut session = db.session(names).unwrap();
                        for n in 0..200 {
                            let key = format!("{thread}-{n}");
                            session.insert(key.as_bytes(), &record(0, &[b"x", b"y", b"z"])).unwrap();
                        }
                    });
                }
            });
            let mut found = 0;
            let mut session = db.session(&names).unwrap();
            session.scan(b"", 10_000, RequestedFields::One(0), &mut |_, _, _| found += 1).unwrap();
            assert_eq!(found, 800, "{engine}");
        }
    }
}
