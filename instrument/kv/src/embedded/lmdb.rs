//! LMDB through crate `heed`: one map of the whole database, one writer at a time.

use std::ops::RangeInclusive;

use camino::Utf8Path;
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};

use super::session::{Embedded, SerializedSession, Session, Settings, Values};
use crate::KvError;
use crate::record::Names;

/// Size of the map, which is address space, not memory: the file system of the data holds no larger file. This is the least, and
/// what every processor's address space has room for.
const MAP_BYTES: RangeInclusive<u64> = 4 << 30..=16 << 40;
/// Readers beyond the sessions: settling, checking.
const READERS_MORE: u32 = 8;

/// An open environment.
pub(super) struct Lmdb {
    env: Env,
    database: Database<Bytes, Bytes>,
    sync: bool,
}

fn failed(error: heed::Error) -> KvError {
    match error {
        heed::Error::Mdb(heed::MdbError::MapFull) => KvError::Engine(format!(
            "LMDB: its map is full, which is as large as the file system of its data, and has {} to {} GiB; insert less",
            MAP_BYTES.start() >> 30,
            MAP_BYTES.end() >> 30
        )),
        error => KvError::engine("LMDB", error),
    }
}

/// As large as the file system of a directory: its disk is full before the map is.
fn map_bytes(path: &Utf8Path) -> Result<usize, KvError> {
    let stat = rustix::fs::statvfs(path.as_std_path()).map_err(|error| KvError::at(path)(error.into()))?;
    let whole = stat.f_blocks.saturating_mul(stat.f_frsize);
    let map = whole.clamp(*MAP_BYTES.start(), *MAP_BYTES.end());
    Ok(usize::try_from(map).unwrap_or(usize::MAX) & !0xfff)
}

impl Lmdb {
    pub(super) fn open(path: &Utf8Path, settings: &Settings) -> Result<Lmdb, KvError> {
        let mut options = EnvOpenOptions::new();
        options.map_size(map_bytes(path)?);
        options.max_readers(settings.sessions + READERS_MORE);
        // SAFETY: without a sync at each commit a power cut may spoil the database, which the user chose; NO_READ_AHEAD is
        // not set, and no flag that takes locks away.
        unsafe {
            if !settings.sync {
                options.flags(EnvFlags::NO_SYNC);
            }
        }
        // SAFETY: the directory is loadline's own, so that no other process changes or cuts its files while they are mapped.
        let env = unsafe { options.open(path) }.map_err(failed)?;
        let mut transaction = env.write_txn().map_err(failed)?;
        let database = env.create_database(&mut transaction, None).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(Lmdb { env, database, sync: settings.sync })
    }
}

impl Embedded for Lmdb {
    fn session<'a>(&'a self, names: &'a Names) -> Result<Box<dyn Session + 'a>, KvError> {
        Ok(Box::new(SerializedSession::new(Shared(self), names)))
    }

    fn settle(&self, _stopped: &dyn Fn() -> bool) -> Result<(), KvError> {
        self.env.force_sync().map_err(failed)
    }

    fn settings(&self) -> Vec<(String, String)> {
        let version = heed::lmdb_version();
        vec![
            ("version".into(), format!("{}.{}.{}", version.major, version.minor, version.patch)),
            ("no_sync".into(), (!self.sync).to_string()),
            ("map_size".into(), self.env.info().map_size.to_string()),
        ]
    }
}

struct Shared<'a>(&'a Lmdb);

impl Values for Shared<'_> {
    fn get(&mut self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, KvError> {
        let transaction = self.0.env.read_txn().map_err(failed)?;
        let found = self.0.database.get(&transaction, key).map_err(failed)?;
        if let Some(value) = found {
            read(value);
            show(value);
        }
        Ok(found.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        let mut transaction = self.0.env.write_txn().map_err(failed)?;
        self.0.database.put(&mut transaction, key, value).map_err(failed)?;
        transaction.commit().map_err(failed)
    }

    fn load(&mut self, records: &[(Vec<u8>, Vec<u8>)]) -> Result<(), KvError> {
        let mut transaction = self.0.env.write_txn().map_err(failed)?;
        for (key, value) in records {
            self.0.database.put(&mut transaction, key, value).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    fn scan(&mut self, key: &[u8], most: u64, show: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), KvError> {
        use std::ops::Bound;
        let transaction = self.0.env.read_txn().map_err(failed)?;
        // LMDB has no empty key: it is before every other one
        let from = if key.is_empty() { Bound::Unbounded } else { Bound::Included(key) };
        let range = (from, Bound::Unbounded);
        let found = self.0.database.range(&transaction, &range).map_err(failed)?;
        for entry in found.take(usize::try_from(most).unwrap_or(usize::MAX)) {
            let (key, value) = entry.map_err(failed)?;
            read(value);
            show(key, value);
        }
        Ok(())
    }
}

/// Reads every byte of a value. LMDB answers with a place in its map: nothing of a value is read from the device before somebody
/// touches it, whereas the other engines read, check or copy whole values.
#[inline]
fn read(value: &[u8]) {
    let (words, rest) = value.as_chunks::<8>();
    let sum = words.iter().fold(0, |sum, word| sum ^ u64::from_ne_bytes(*word));
    let rest = rest.iter().fold(0, |sum, byte| sum ^ byte);
    std::hint::black_box((sum, rest));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of the mapped file that are in this process's memory.
    fn resident_kib(map: &str) -> u64 {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let of_map = smaps.lines().skip_while(|line| !line.ends_with(map));
        let rss = of_map.take(8).find_map(|line| line.strip_prefix("Rss:"));
        rss.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse().ok())
            .unwrap_or_else(|| panic!("{smaps}"))
    }

    #[test]
    fn a_map_is_not_full_before_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap();
        let settings = Settings { cache_bytes: 0, sync: false, sessions: 1 };
        let db = Lmdb::open(path, &settings).unwrap();
        let stat = rustix::fs::statvfs(path.as_std_path()).unwrap();
        let whole = (stat.f_blocks * stat.f_frsize).min(*MAP_BYTES.end());
        assert!(db.env.info().map_size as u64 + 4096 > whole, "{} of {whole}", db.env.info().map_size);
        let told = failed(heed::Error::Mdb(heed::MdbError::MapFull));
        assert!(matches!(&told, KvError::Engine(text) if text.contains("its map is full")), "{told}");
    }

    #[test]
    fn a_read_touches_every_page_of_its_value() {
        const VALUE_BYTES: usize = 8 << 20;
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap();
        let settings = Settings { cache_bytes: 0, sync: false, sessions: 1 };
        {
            let db = Lmdb::open(path, &settings).unwrap();
            Shared(&db).put(b"key", &vec![7; VALUE_BYTES]).unwrap();
            db.env.prepare_for_closing().wait();
        }
        let db = Lmdb::open(path, &settings).unwrap();
        let map = format!("{path}/data.mdb");
        let before = resident_kib(&map);
        assert!(before < 4096, "{before} KiB are mapped before anything was read");
        let mut seen = 0;
        assert!(Shared(&db).get(b"key", &mut |value| seen = value.len()).unwrap());
        let after = resident_kib(&map);
        assert_eq!(seen, VALUE_BYTES);
        assert!(after >= 8 << 10, "of a value of 8 MiB {after} KiB were read");
    }
}
