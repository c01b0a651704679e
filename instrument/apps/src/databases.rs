//! SQL loads: sysbench's OLTP mixes and TPC-C on a private MariaDB or PostgreSQL, whose data is on the stack (crate
//! `sql`).

use std::path::Path;

use sql::drive::Pace;
use sql::random::Distribution;
use sql::sysbench::{Mix, Oltp};
use sql::tpcc::Size;
use sql::{Engine, Flush, Job, SqlError, What};
use workload::Address;
use workload::address::redact_word;

use crate::{AppError, Bench, Load, LoadSite, Parameters, served};

/// Measured seconds when nobody says how many.
const SECONDS: f64 = 30.0;
/// Terminals when nobody says how many: as many as the two published figures have at least.
const TERMINALS: u64 = 32;
/// Bytes of the cache when nobody says how many: InnoDB's and PostgreSQL's own default.
const CACHE_BYTES: u64 = 128 << 20;
/// Bytes of the log when nobody says how many.
const LOG_BYTES: u64 = 256 << 20;
/// Seconds that filling takes, roughly, for each warehouse and for each million rows of sysbench's tables.
const FILL_SECONDS_OF_WAREHOUSE: f64 = 12.0;
const FILL_SECONDS_OF_MILLION: f64 = 40.0;

impl From<SqlError> for AppError {
    fn from(error: SqlError) -> AppError {
        match error {
            SqlError::Unavailable { reason, remedy } => AppError::Unavailable { reason, remedy },
            SqlError::Parameter(text) => AppError::Parameter(text),
            SqlError::Interrupted => AppError::Interrupted,
            SqlError::Io { path, source } => AppError::Io { path: path.into(), source },
            other => AppError::Protocol(other.to_string()),
        }
    }
}

/// A SQL load: the first phase makes and fills the database, the second one runs transactions on it.
#[derive(Debug)]
pub struct Sql {
    job: Job,
}

impl Sql {
    /// `tpcc`. Parameters beside those of [`Sql::oltp`]: `warehouses` (1 to 4000, default 1), `waits` (1: terminals
    /// key and think, default 0), `small` (1: customers and items are few, for checks; default 0).
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn tpcc(parameters: &mut Parameters) -> Result<Sql, AppError> {
        let warehouses = parameters.number("warehouses", 1, 1..=4000)? as i64;
        let waits = parameters.number("waits", 0, 0..=1)? == 1;
        let small = parameters.number("small", 0, 0..=1)? == 1;
        let size = if small { Size::small(warehouses) } else { Size::of(warehouses) };
        Ok(Sql { job: job(What::Tpcc { size, waits }, parameters)? })
    }

    /// A mix of sysbench. Parameters: `engine` (innodb, myrocks, postgres; default innodb), `terminals` (1 to 10,000,
    /// default 32), `tables` (1 to 1000, default 1), `rows` of each (1 to 10^9, default 10,000), `distribution`
    /// (special or uniform, default special), `cache` (bytes, default 128M), `log` (bytes, default 256M), `flush` (1:
    /// each commit is on the device before it is acknowledged, 2: it is written, 0: each second; default 1), `address`
    /// (of a server that runs; default a private one).
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn oltp(mix: Mix, parameters: &mut Parameters) -> Result<Sql, AppError> {
        let tables = parameters.number("tables", 1, 1..=1000)? as i64;
        let rows = parameters.number("rows", 10_000, 1..=1_000_000_000)? as i64;
        let distribution = match parameters.word("distribution", "special").as_str() {
            "special" => Distribution::Special,
            "uniform" => Distribution::Uniform,
            other => {
                return Err(AppError::Parameter(format!(
                    "distribution = {other} is neither special nor uniform"
                )));
            }
        };
        Ok(Sql { job: job(What::Oltp(Oltp { mix, tables, rows, distribution }), parameters)? })
    }
}

fn job(what: What, parameters: &mut Parameters) -> Result<Job, AppError> {
    let address = Some(parameters.word("address", "")).filter(|address| !address.is_empty());
    let address = address.as_deref().map(Address::from);
    let given = match address.as_ref().map(Address::expose) {
        Some(url) if url.starts_with("mysql://") => Some(Engine::InnoDb),
        Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            Some(Engine::Postgres)
        }
        Some(url) => {
            let url = redact_word(url);
            return Err(AppError::Parameter(format!(
                "address = {url} is neither mysql://user:password@host:port/database nor postgres://..."
            )));
        }
        None => None,
    };
    let engine = parameters.word("engine", given.unwrap_or(Engine::InnoDb).name());
    let engine: Engine = engine.parse().map_err(AppError::Parameter)?;
    if let (Some(given), Some(url)) = (given, &address)
        && given.is_mysql() != engine.is_mysql()
    {
        return Err(AppError::Parameter(format!("engine = {engine} does not speak the protocol of {url}")));
    }
    if address.is_some() {
        parameters.refuse(&["cache", "flush", "log"], served::NOT_OURS)?;
    }
    let flush = match parameters.number("flush", 1, 0..=2)? {
        0 => Flush::EachSecond,
        1 => Flush::EachCommit,
        _ => Flush::WrittenEachCommit,
    };
    Ok(Job {
        what,
        engine,
        terminals: parameters.number("terminals", TERMINALS, 1..=10_000)? as u32,
        cache_bytes: parameters.bytes("cache", CACHE_BYTES, 16 << 20..=1 << 44)?,
        log_bytes: parameters.bytes("log", LOG_BYTES, 32 << 20..=1 << 40)?,
        flush,
        address,
    })
}

impl Load for Sql {
    fn phases(&self) -> u32 {
        2
    }

    fn seconds_guess(&self) -> f64 {
        let fill = match &self.job.what {
            What::Oltp(oltp) => (oltp.tables * oltp.rows) as f64 / 1e6 * FILL_SECONDS_OF_MILLION,
            What::Tpcc { size, .. } => {
                size.warehouses as f64 * size.items as f64 / 100_000.0 * FILL_SECONDS_OF_WAREHOUSE
            }
        };
        SECONDS + fill
    }

    fn takes_time(&self) -> bool {
        true
    }

    fn programs(&self) -> &'static [&'static str] {
        match (&self.job.address, self.job.engine) {
            (Some(_), _) => &[],
            (None, Engine::Postgres) => &["initdb", "postgres"],
            (None, Engine::InnoDb | Engine::MyRocks) => &["mariadb-install-db", "mariadbd"],
        }
    }

    fn provide(&self, _home: &Path, _tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        Ok(self.job.check()?)
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let pace = Pace {
            warmup_seconds: place.pace.warmup_seconds.unwrap_or(0.0),
            seconds: place.pace.seconds.unwrap_or(SECONDS),
            rate: place.pace.rate,
        };
        served::run("sql", place, bench, |at| match phase {
            0 => self.job.fill(at).map(|()| None),
            _ => self.job.measure(&pace, at).map(Some),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(set: &[(&str, &str)]) -> Result<Sql, AppError> {
        let set: Vec<(String, String)> =
            set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Sql::tpcc(&mut Parameters::new("tpcc", &set))
    }

    #[test]
    fn parameters_are_taken_and_their_mistakes_are_told() {
        let load = made(&[("engine", "myrocks"), ("warehouses", "32"), ("terminals", "64"), ("cache", "1G")])
            .unwrap();
        assert_eq!(
            (load.job.engine, load.job.terminals, load.job.cache_bytes),
            (Engine::MyRocks, 64, 1 << 30)
        );
        for (wrong, told) in [
            (("engine", "oracle"), "innodb, myrocks, postgres"),
            (("warehouses", "0"), "1 to 4000"),
            (("flush", "3"), "0 to 2"),
            (("address", "http://x"), "mysql://"),
        ] {
            let error = made(&[wrong]).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
        let error = made(&[("engine", "postgres"), ("address", "mysql://root@h/d")]).unwrap_err().to_string();
        assert!(error.contains("does not speak"), "{error}");
        for private in [("flush", "0"), ("cache", "1G"), ("log", "1G")] {
            let error = made(&[("address", "postgres://u@h/d"), private]).unwrap_err().to_string();
            assert!(error.contains(private.0) && error.contains("has its own settings"), "{error}");
        }
        assert_eq!(made(&[("address", "postgres://u@h/d")]).unwrap().job.engine, Engine::Postgres);
    }
}
