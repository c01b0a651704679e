//! Bringing a filled database to rest: statistics, checkpoint, no compaction left. What is measured right after
//! filling is the work that filling has put off.

use std::time::{Duration, Instant};

use crate::SqlError;
use crate::db::{Connection, Value};
use crate::engine::Engine;

/// Longest wait for compactions.
const COMPACTION_PATIENCE: Duration = Duration::from_secs(600);
/// How often they are asked for.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Brings tables to rest; of a server that is `ours` also what all of it does in the background.
pub(crate) fn settle(
    connection: &mut Connection,
    tables: &[String],
    ours: bool,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<(), SqlError> {
    let what = || SqlError::doing("bringing the tables to rest");
    let engine = connection.engine();
    for table in tables {
        match engine {
            Engine::Postgres => connection.plain(&format!("VACUUM ANALYZE {table}")).map_err(what())?,
            // it answers with a row
            Engine::InnoDb | Engine::MyRocks => {
                connection.ask(&format!("ANALYZE TABLE {table}")).map(drop).map_err(what())?;
            }
        }
    }
    if !ours {
        return Ok(());
    }
    match engine {
        Engine::Postgres => connection.plain("CHECKPOINT").map_err(what()),
        // its clean end writes every page
        Engine::InnoDb => Ok(()),
        Engine::MyRocks => {
            connection.plain("SET GLOBAL rocksdb_force_flush_memtable_now=1").map_err(what())?;
            wait_for_compactions(connection, stopped)
        }
    }
}

fn wait_for_compactions(
    connection: &mut Connection,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<(), SqlError> {
    let start = Instant::now();
    let query = "SELECT COALESCE(SUM(VALUE),0) FROM information_schema.ROCKSDB_CFSTATS \
                 WHERE STAT_TYPE IN ('COMPACTION_PENDING','NUM_IMMUTABLE_MEM_TABLE','MEM_TABLE_FLUSH_PENDING')";
    loop {
        let rows = connection.ask(query).map_err(SqlError::doing("asking for compactions"))?;
        let pending = rows.first().and_then(|row| row.first()).and_then(Value::int).unwrap_or(0);
        if pending == 0 {
            return Ok(());
        }
        if stopped() {
            return Err(SqlError::Interrupted);
        }
        if start.elapsed() > COMPACTION_PATIENCE {
            return Err(SqlError::Server(format!(
                "MyRocks still compacts after {} s ({pending} things are pending)",
                COMPACTION_PATIENCE.as_secs()
            )));
        }
        std::thread::sleep(ASK_EVERY);
    }
}
