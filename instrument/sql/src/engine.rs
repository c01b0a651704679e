//! The engines by name, and where their dialects of SQL differ.

use std::fmt;
use std::str::FromStr;

use rustix::process::Signal;
use serve::process::Identity;

/// What stores the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// MariaDB with InnoDB.
    InnoDb,
    /// MariaDB with MyRocks (plugin `rocksdb`).
    MyRocks,
    /// PostgreSQL.
    Postgres,
}

/// Every engine, in the order in which they are listed.
pub const ENGINES: [Engine; 3] = [Engine::InnoDb, Engine::MyRocks, Engine::Postgres];

impl Engine {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Engine::InnoDb => "innodb",
            Engine::MyRocks => "myrocks",
            Engine::Postgres => "postgres",
        }
    }

    /// What its server is to the processes: PostgreSQL refuses root, and waits for clients on SIGTERM.
    pub(crate) fn identity(self) -> Identity {
        Identity {
            name: self.name(),
            refuses_root: !self.is_mysql(),
            stop: if self.is_mysql() { Signal::TERM } else { Signal::INT },
        }
    }

    /// Whether a MariaDB (or MySQL) server has it.
    pub fn is_mysql(self) -> bool {
        !matches!(self, Engine::Postgres)
    }

    /// Writes a statement in the engine's dialect. Words in braces differ between engines: `{now}` the type of a date
    /// and time, `{signed}` the whole number to cast a sum to, `{text}` and `{table}` what follows a text column and a
    /// table. Each `?` is a parameter.
    pub(crate) fn dialect(self, text: &str) -> String {
        let mysql = self.is_mysql();
        let table = match self {
            Engine::InnoDb => " ENGINE=InnoDB DEFAULT CHARACTER SET latin1 COLLATE latin1_bin",
            Engine::MyRocks => " ENGINE=ROCKSDB DEFAULT CHARACTER SET latin1 COLLATE latin1_bin",
            Engine::Postgres => "",
        };
        let serial = if mysql { "INT NOT NULL AUTO_INCREMENT" } else { "SERIAL" };
        let words = [
            ("{now}", if mysql { "DATETIME" } else { "TIMESTAMP" }),
            ("{signed}", if mysql { "SIGNED" } else { "BIGINT" }),
            ("{table}", table),
            ("{serial}", serial),
        ];
        let mut text = words.iter().fold(text.to_string(), |text, (word, by)| text.replace(word, by));
        if !mysql && text.contains('?') {
            let mut parts = text.split('?');
            let mut numbered = parts.next().unwrap_or_default().to_string();
            for (number, part) in parts.enumerate() {
                numbered += &format!("${}{part}", number + 1);
            }
            text = numbered;
        }
        text
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
            format!("`{text}` is not an engine of SQL loads; known are {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_written_in_each_dialect() {
        let text = "SELECT CAST(SUM(x) AS {signed}) FROM t WHERE a=? AND b=?";
        assert_eq!(Engine::InnoDb.dialect(text), "SELECT CAST(SUM(x) AS SIGNED) FROM t WHERE a=? AND b=?");
        assert_eq!(
            Engine::Postgres.dialect(text),
            "SELECT CAST(SUM(x) AS BIGINT) FROM t WHERE a=$1 AND b=$2"
        );
        assert!(Engine::MyRocks.dialect("CREATE TABLE t (a INT){table}").contains("ENGINE=ROCKSDB"));
    }

    #[test]
    fn engines_have_names() {
        for engine in ENGINES {
            assert_eq!(engine.name().parse(), Ok(engine));
        }
        let wrong = "oracle".parse::<Engine>().unwrap_err();
        assert!(wrong.contains("innodb, myrocks, postgres"), "{wrong}");
    }
}
