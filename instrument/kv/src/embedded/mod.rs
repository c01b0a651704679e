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
mod sqlite;
pub(crate) mod terminal;

use camino::Utf8Path;

pub use session::{Embedded, Session, Settings};

use crate::KvError;
use crate::engine::Engine;

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

/// Opens an engine on a directory, which is made when it is missing.
///
/// # Errors
/// What the engine says.
pub fn open(engine: Engine, path: &Utf8Path, settings: &Settings) -> Result<Box<dyn Embedded>, KvError> {
    std::fs::create_dir_all(path).map_err(KvError::at(path))?;
    Ok(match engine {
        Engine::Sqlite => Box::new(sqlite::Sqlite::open(path, settings)?),
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

    /// What every engine must do, in a directory of its own, opened twice.
    fn behaves(engine: Engine, sync: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().join("db")).unwrap();
        let settings = Settings { cache_bytes: 8 << 20, sync, sessions: 2, bytes: 1 << 20 };
        {
            let db = open(engine, &path, &settings).unwrap();
            let mut one = db.session().unwrap();
            let records: Vec<_> =
                (0..100).map(|n| (format!("k{n:03}").into_bytes(), vec![n as u8; 300])).collect();
            one.load(&records).unwrap();
            one.put(b"k050", b"changed").unwrap();
            let mut other = db.session().unwrap();
            let mut found = Vec::new();
            assert!(other.get(b"k050", &mut |value| found = value.to_vec()).unwrap());
            assert_eq!(found, b"changed", "{engine}: another session sees it");
            assert!(!other.get(b"k999", &mut |_| panic!("shown")).unwrap());
            drop((one, other));
            db.settle(&|| false).unwrap();
            let told = db.settings();
            assert!(told.iter().any(|(name, _)| name == "version"), "{told:?}");
        }
        let db = open(engine, &path, &settings).unwrap();
        let mut session = db.session().unwrap();
        let mut keys = Vec::new();
        session.scan(b"k0495", 3, &mut |key, value| keys.push((key.to_vec(), value.len()))).unwrap();
        let expected =
            [("k050", 7), ("k051", 300), ("k052", 300)].map(|(key, n)| (key.as_bytes().to_vec(), n));
        assert_eq!(keys, expected, "{engine}");
        keys.clear();
        session.scan(b"k098", 10, &mut |key, _| keys.push((key.to_vec(), 0))).unwrap();
        assert_eq!(keys.len(), 2, "{engine}: the last records end a scan");
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
            let settings = Settings { cache_bytes: 8 << 20, sync: false, sessions: 4, bytes: 1 << 20 };
            let db = open(engine, &path, &settings).unwrap();
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let db = &db;
                    scope.spawn(move || {
                        let mut session = db.session().unwrap();
                        (0..200).for_each(|n| session.put(format!("{thread}-{n}").as_bytes(), b"x").unwrap());
                    });
                }
            });
            let mut found = 0;
            db.session().unwrap().scan(b"", 10_000, &mut |_, _| found += 1).unwrap();
            assert_eq!(found, 800, "{engine}");
        }
    }
}
