//! The engines by name.

use std::fmt;
use std::str::FromStr;

/// What stores the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// RocksDB, through the library that the machine has.
    RocksDb,
    /// SQLite, in the process.
    Sqlite,
    /// LMDB, in the process.
    Lmdb,
    /// One Redis server.
    Redis,
    /// Three Redis masters that share the keys.
    RedisCluster,
}

/// Every engine, in the order in which they are listed.
pub const ENGINES: [Engine; 5] =
    [Engine::RocksDb, Engine::Sqlite, Engine::Lmdb, Engine::Redis, Engine::RedisCluster];

impl Engine {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Engine::RocksDb => "rocksdb",
            Engine::Sqlite => "sqlite",
            Engine::Lmdb => "lmdb",
            Engine::Redis => "redis",
            Engine::RedisCluster => "redis-cluster",
        }
    }

    /// Whether it runs in the process of the load.
    pub fn is_embedded(self) -> bool {
        !matches!(self, Engine::Redis | Engine::RedisCluster)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Engine, String> {
        ENGINES.into_iter().find(|engine| engine.name() == text).ok_or_else(|| {
            let known: Vec<&str> = ENGINES.iter().map(|engine| engine.name()).collect();
            format!("`{text}` is not an engine of key-value loads; known are {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_names() {
        for engine in ENGINES {
            assert_eq!(engine.name().parse(), Ok(engine));
        }
        assert!("etcd".parse::<Engine>().unwrap_err().contains("rocksdb, sqlite, lmdb, redis"));
    }
}
