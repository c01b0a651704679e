//! dbench (Andrew Tridgell): the file operations of a file server under office programs, as a load file replays them.
//!
//! dbench tells counts and mean latencies of its operations, no distribution: the histograms stay empty.

use std::path::Path;

use stats::{Direction, OpClass, OpOutcome};

use super::run::program;
use crate::{AppError, Bench, Load, LoadSite, Parameters};

/// The load file of Debian's package.
const LOAD_FILE: &str = "/usr/share/dbench/client.txt";

/// dbench on a directory.
#[derive(Debug)]
pub struct Dbench {
    clients: u64,
    seconds: u64,
    sync_dir: bool,
}

impl Dbench {
    /// Parameters: `clients` (1 to 1000, default 1), `seconds` (1 to 86400, default 60), `sync_dir` (1: changes of directories
    /// are written out at once, as in the OPIMQ paper's artifact; 0 or 1, default 1).
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn new(parameters: &mut Parameters) -> Result<Dbench, AppError> {
        Ok(Dbench {
            clients: parameters.number("clients", 1, 1..=1000)?,
            seconds: parameters.number("seconds", 60, 1..=86_400)?,
            sync_dir: parameters.number("sync_dir", 1, 0..=1)? == 1,
        })
    }
}

impl Load for Dbench {
    fn phases(&self) -> u32 {
        1
    }

    fn seconds_guess(&self) -> f64 {
        self.seconds as f64
    }

    fn programs(&self) -> &'static [&'static str] {
        &["dbench"]
    }

    fn waits_at_gate(&self) -> bool {
        true
    }

    fn provide(&self, _home: &Path, _tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        program("dbench", "dbench")?;
        if Path::new(LOAD_FILE).is_file() {
            return Ok(());
        }
        Err(AppError::Unavailable {
            reason: format!("there is no {LOAD_FILE}"),
            remedy: "install it (scripts/setup.sh dbench, or apt install dbench)".into(),
        })
    }

    fn run(&self, _phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let seconds = self.seconds.to_string();
        let mut dbench =
            program("dbench", "dbench")?.args(["-c", LOAD_FILE, "-t", &seconds, "-D"]).arg(place.root);
        if self.sync_dir {
            dbench = dbench.arg("--sync-dir");
        }
        let dbench = dbench.arg(self.clients.to_string());
        bench.ready()?;
        bench.check()?;
        let output = dbench.output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = operations(&text);
        if told.is_empty() {
            let end: Vec<&str> = text.lines().rev().take(3).collect();
            return Err(AppError::Protocol(format!("dbench told no operations; it ended with {end:?}")));
        }
        for one in &told {
            bench.metric(
                format!("dbench/{}_seconds", one.name),
                "s",
                one.count as f64 * one.mean_ms / 1000.0,
            );
        }
        bench.note("dbench tells counts and mean latencies, no distribution: there are no percentiles");
        bench.counted(self.seconds as f64, told.into_iter().map(DbenchRow::outcome));
        Ok(())
    }
}

/// A line of dbench's table.
#[derive(Debug, PartialEq)]
struct DbenchRow {
    name: String,
    count: u64,
    mean_ms: f64,
}

impl DbenchRow {
    fn outcome(self) -> OpOutcome {
        let direction = match self.name.as_str() {
            "ReadX" => Direction::Read,
            "WriteX" => Direction::Write,
            _ => Direction::Neither,
        };
        OpOutcome { ops: self.count, ..OpOutcome::new(self.name, "dbench", OpClass::Io, direction) }
    }
}

/// The table at the end of dbench's output: `Operation Count AvgLat MaxLat`, latencies in milliseconds.
fn operations(text: &str) -> Vec<DbenchRow> {
    let table = text.lines().skip_while(|line| !line.trim_start().starts_with("Operation")).skip(2);
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, count, mean_ms, _] = words.as_slice() else { return None };
        Some(DbenchRow { name: name.to_string(), count: count.parse().ok()?, mean_ms: mean_ms.parse().ok()? })
    };
    table.map_while(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_and_nothing_else() {
        let text = "   1  13859    45.80 MB/sec  execute   2 sec  latency 8.723 ms\n\n \
                    Operation      Count    AvgLat    MaxLat\n ----------------------------------------\n \
                    NTCreateX       3209     0.019     0.149\n Flush            239     3.158    86.726\n\n\
                    Throughput 45.8048 MB/sec (sync dirs)  1 clients  1 procs  max_latency=86.740 ms\n";
        let told = operations(text);
        assert_eq!(told.len(), 2);
        assert_eq!(told[1], DbenchRow { name: "Flush".into(), count: 239, mean_ms: 3.158 });
        assert!(operations("dbench: cannot open the load file\n").is_empty());
    }
}
