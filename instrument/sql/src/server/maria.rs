//! How MariaDB is made and started.
//!
//! `--no-defaults` comes first, so that no configuration of the machine counts. The server runs as the user that
//! loadline runs as: its socket is in a directory that nobody else can enter, it has no network.

use std::process::{Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};

use serve::process::{self, find};

use super::settings::Settings;
use crate::SqlError;
use crate::db::Address;
use crate::engine::Engine;

/// Where Debian puts the plugin.
const PLUGINS: [&str; 2] = ["/usr/lib/mysql/plugin", "/usr/lib64/mysql/plugin"];
/// `innodb_io_capacity`: pages a second that are flushed in the background. The default of 200 is for disks.
const IO_CAPACITY: u32 = 2000;

pub(super) fn check(engine: Engine) -> Result<(), SqlError> {
    find("mariadbd", &[], "mariadb-server")?;
    find("mariadb-install-db", &[], "mariadb-server")?;
    let plugin = |folder: &str| Utf8Path::new(folder).join("ha_rocksdb.so").is_file();
    if engine == Engine::MyRocks && !PLUGINS.iter().any(|folder| plugin(folder)) {
        return Err(SqlError::Unavailable {
            reason: "MariaDB has no MyRocks here".into(),
            remedy:
                "install it (scripts/setup.sh mariadb-plugin-rocksdb, or apt install mariadb-plugin-rocksdb)"
                    .into(),
        });
    }
    Ok(())
}

/// The user that the server is told to run as: it refuses root unless root is named.
fn user() -> String {
    let root = rustix::process::geteuid().is_root();
    if root { "root".into() } else { std::env::var("USER").unwrap_or_else(|_| "nobody".into()) }
}

pub(super) fn create(settings: &Settings, data: &Utf8Path) -> Result<(), SqlError> {
    let program = find("mariadb-install-db", &[], "mariadb-server")?;
    let mut command = process::command(&program, &settings.engine.identity());
    command.arg("--no-defaults").arg(format!("--user={}", user())).arg(format!("--datadir={data}"));
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]);
    // what is made is written out when the server is shut down for the first time; the log gets its size then
    command.args(["--innodb-flush-method=nosync", "--innodb-log-file-size=8M"]);
    // a directory of its own: every MariaDB that starts removes the temporary tables of others from the common one
    let temporary = Utf8PathBuf::from(format!("{data}-tmp"));
    std::fs::create_dir_all(&temporary).map_err(SqlError::at(&temporary))?;
    command.arg(format!("--tmpdir={temporary}"));
    let made = process::run(command);
    std::fs::remove_dir_all(&temporary).map_err(SqlError::at(&temporary))?;
    Ok(made?)
}

pub(super) fn command(
    settings: &Settings,
    data: &Utf8Path,
    run: &Utf8Path,
    log: &Utf8Path,
) -> Result<(Command, Utf8PathBuf, Address), SqlError> {
    let program = find("mariadbd", &[], "mariadb-server")?;
    let socket = run.join("mysql.sock");
    let mut command = process::command(&program, &settings.engine.identity());
    let file = std::fs::File::options().append(true).open(log).map_err(SqlError::at(log))?;
    command.stdout(Stdio::null()).stderr(file);
    command.arg("--no-defaults").arg(format!("--user={}", user())).arg(format!("--datadir={data}"));
    command
        .arg(format!("--socket={socket}"))
        .arg(format!("--pid-file={run}/pid"))
        .arg(format!("--tmpdir={run}"));
    command.args(["--skip-networking", "--skip-name-resolve", "--skip-log-bin", "--skip-stack-trace"]);
    command.args([
        "--transaction-isolation=READ-COMMITTED",
        "--query-cache-type=0",
        "--performance-schema=0",
    ]);
    command.args(["--character-set-server=latin1", "--collation-server=latin1_bin"]);
    command.arg(format!("--max-connections={}", settings.connections));
    command.arg("--max-prepared-stmt-count=1000000");
    let flush = settings.flush.number();
    command.arg(format!("--innodb-flush-log-at-trx-commit={flush}"));
    command.args(["--innodb-doublewrite=1", "--innodb-flush-method=O_DIRECT", "--innodb-flush-neighbors=0"]);
    command.arg(format!("--innodb-io-capacity={IO_CAPACITY}"));
    // InnoDB is there with MyRocks as well, for the system's tables: it gets what it needs and no more
    let (cache, log_bytes) = match settings.engine {
        Engine::MyRocks => (SMALL_BYTES, SMALL_BYTES),
        Engine::InnoDb | Engine::Postgres => (settings.cache_bytes, settings.log_bytes),
    };
    command.arg(format!("--innodb-buffer-pool-size={cache}"));
    command.arg(format!("--innodb-log-file-size={log_bytes}"));
    if settings.engine == Engine::MyRocks {
        command.args(["--plugin-load-add=ha_rocksdb.so", "--plugin-maturity=unknown"]);
        // an engine that cannot be opened ends the server: else it would run without its tables
        command.arg("--rocksdb=FORCE");
        // a power cut tears the end of the log: all before it counts
        command.arg("--rocksdb-wal-recovery-mode=2");
        command.arg(format!("--rocksdb-block-cache-size={}", settings.cache_bytes));
        command.arg(format!("--rocksdb-flush-log-at-trx-commit={flush}"));
        // RocksDB would use the page cache beside its own cache, and InnoDB does not
        command.args(["--rocksdb-use-direct-reads=1", "--rocksdb-use-direct-io-for-flush-and-compaction=1"]);
        command.arg("--rocksdb-lock-wait-timeout=10");
        // as InnoDB and PostgreSQL do; without it two transactions that wait for each other wait for that timeout
        command.arg("--rocksdb-deadlock-detect=ON");
    }
    Ok((command, socket.clone(), Address::Socket(socket)))
}

/// Cache and log of an InnoDB that holds nothing but the system's tables.
const SMALL_BYTES: u64 = 16 << 20;

/// The query for the settings, and the names of those that decide.
pub(super) fn told(engine: Engine) -> (String, &'static [&'static str]) {
    const INNODB: [&str; 8] = [
        "innodb_buffer_pool_size",
        "innodb_log_file_size",
        "innodb_flush_log_at_trx_commit",
        "innodb_doublewrite",
        "innodb_flush_method",
        "innodb_io_capacity",
        "log_bin",
        "tx_isolation",
    ];
    const ROCKSDB: [&str; 9] = [
        "rocksdb_block_cache_size",
        "rocksdb_flush_log_at_trx_commit",
        "rocksdb_wal_recovery_mode",
        "rocksdb_use_direct_reads",
        "rocksdb_use_direct_io_for_flush_and_compaction",
        "rocksdb_lock_wait_timeout",
        "rocksdb_deadlock_detect",
        "log_bin",
        "tx_isolation",
    ];
    let names: &[&str] = if engine == Engine::MyRocks { &ROCKSDB } else { &INNODB };
    ("SHOW GLOBAL VARIABLES".to_string(), names)
}
