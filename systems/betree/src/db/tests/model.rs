//! A map that does what the store should do, and a source of random batches for both.

use crate::key::KeyRange;
use crate::{Db, WriteBatch};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Everything the store holds.
pub fn contents(db: &Db) -> Model {
    db.scan(&KeyRange::all()).map(|r| r.expect("scan")).collect()
}

pub struct World {
    random: Xoshiro256PlusPlus,
    pub model: Model,
    pub batches: u64,
}

impl World {
    pub fn new(seed: u64) -> Self {
        World { random: Xoshiro256PlusPlus::seed_from_u64(seed), model: Model::new(), batches: 0 }
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    fn dir(&mut self) -> Vec<u8> {
        format!("{}/", (b'a' + self.below(5) as u8) as char).into_bytes()
    }

    pub fn key(&mut self) -> Vec<u8> {
        let mut key = self.dir();
        if self.below(3) == 0 {
            key.extend(self.dir());
        }
        key.extend(format!("{:03}", self.below(150)).bytes());
        key
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.below(20) {
            0 => self.below(30_000),
            1..4 => 2048 + self.below(4000),
            _ => self.below(200),
        };
        vec![self.below(256) as u8; len as usize]
    }

    /// A random batch; the model already has its effect.
    pub fn batch(&mut self) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for _ in 0..1 + self.below(8) {
            self.change(&mut batch);
        }
        self.batches += 1;
        batch
    }

    /// A batch that changes a little here and there, and seldom something large; the model already has its effect.
    pub fn scattered(&mut self) -> WriteBatch {
        let mut batch = WriteBatch::new();
        let key = |i: u64| format!("s/{i:04}").into_bytes();
        for _ in 0..1 + self.below(3) {
            let (i, byte) = (self.below(1200), self.below(256) as u8);
            match self.below(60) {
                0..30 => {
                    let value = vec![byte; 60 + self.below(240) as usize];
                    batch.put(&key(i), &value);
                    self.model.insert(key(i), value);
                }
                30..55 => {
                    let (off, bytes) = (self.below(200) as usize, vec![byte; 60 + self.below(90) as usize]);
                    batch.patch(&key(i), off as u32, &bytes);
                    let value = self.model.entry(key(i)).or_default();
                    value.resize(value.len().max(off + bytes.len()), 0);
                    value[off..off + bytes.len()].copy_from_slice(&bytes);
                }
                55..58 => {
                    batch.delete(&key(i));
                    self.model.remove(&key(i));
                }
                58 => {
                    let range = KeyRange::new(&key(i), &key(i + 20));
                    batch.delete_range(&range);
                    self.model.retain(|k, _| !range.contains(k));
                }
                _ => {
                    let value = vec![byte; 9000];
                    batch.put(&key(i), &value);
                    self.model.insert(key(i), value);
                }
            }
        }
        self.batches += 1;
        batch
    }

    pub fn write(&mut self, db: &Db) {
        let batch = self.batch();
        assert_eq!(db.write(batch).expect("write"), db.last_msn());
    }

    fn change(&mut self, batch: &mut WriteBatch) {
        let key = self.key();
        match self.below(40) {
            0..18 => {
                let value = self.value();
                batch.put(&key, &value);
                self.model.insert(key, value);
            }
            18..26 => {
                let (off, len) = (self.below(300), self.below(20));
                let bytes = vec![self.below(256) as u8; len as usize];
                batch.patch(&key, off as u32, &bytes);
                let value = self.model.entry(key).or_default();
                if len > 0 {
                    value.resize(value.len().max((off + len) as usize), 0);
                    value[off as usize..(off + len) as usize].copy_from_slice(&bytes);
                }
            }
            26..32 => {
                batch.delete(&key);
                self.model.remove(&key);
            }
            32..35 => {
                let len = self.below(300) as u32;
                batch.truncate(&key, len);
                if let Some(v) = self.model.get_mut(&key) {
                    v.truncate(len as usize);
                }
            }
            35 => {
                let len = self.below(3000) as u32;
                batch.set_len(&key, len);
                self.model.entry(key).or_default().resize(len as usize, 0);
            }
            36..38 => {
                let range = if self.below(6) == 0 {
                    KeyRange::prefix(&self.dir())
                } else {
                    KeyRange::new(&key, &[&key[..key.len() - 1], b"9"].concat())
                };
                batch.delete_range(&range);
                self.model.retain(|k, _| !range.contains(k));
            }
            _ => self.clone_or_rename(batch),
        }
    }

    fn clone_or_rename(&mut self, batch: &mut WriteBatch) {
        let (mut from, to) = (self.dir(), self.dir());
        if self.below(2) == 0 {
            from.extend(self.dir());
        }
        if from.starts_with(&to) || to.starts_with(&from) {
            return;
        }
        let rename = self.below(2) == 0;
        if rename {
            batch.rename_range(&from, &to);
        } else {
            batch.clone_range(&from, &to);
        }
        self.model.retain(|k, _| !k.starts_with(&to));
        let moved: Vec<_> = self.model.iter().filter(|(k, _)| k.starts_with(&from)).collect();
        let moved: Model =
            moved.into_iter().map(|(k, v)| ([&to, &k[from.len()..]].concat(), v.clone())).collect();
        if rename {
            self.model.retain(|k, _| !k.starts_with(&from));
        }
        self.model.extend(moved);
    }

    /// Compares a few keys and a short scan.
    pub fn check_some(&mut self, db: &Db) {
        for _ in 0..4 {
            let key = self.key();
            assert_eq!(db.get(&key).expect("get"), self.model.get(&key).cloned(), "key {key:?}");
        }
        let from = self.key();
        let found: Vec<_> = db.scan(&KeyRange::from(&from)).take(5).map(|r| r.expect("scan")).collect();
        let expected: Vec<_> =
            self.model.range(from..).take(5).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(found, expected);
    }
}
