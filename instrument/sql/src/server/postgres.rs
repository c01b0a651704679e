//! How PostgreSQL is made and started. It refuses root always: then it runs as `nobody`, who must be able to reach the
//! data directory.

use std::process::{Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};

use serve::ServeError;
use serve::process::{self, find};

use super::settings::{Flush, Settings};
use crate::SqlError;
use crate::db::{Address, DATABASE};
use crate::engine::Engine;

/// Where Debian puts a version's programs: below a directory for each.
const VERSIONS: &str = "/usr/lib/postgresql";
const PACKAGE: &str = "postgresql";

/// Directories of the programs, the newest version first.
fn folders() -> Vec<Utf8PathBuf> {
    let Ok(entries) = Utf8Path::new(VERSIONS).read_dir_utf8() else { return Vec::new() };
    let mut versions: Vec<(u32, Utf8PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.into_path();
            Some((path.file_name()?.parse().ok()?, path.join("bin")))
        })
        .collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.into_iter().map(|(_, path)| path).collect()
}

pub(super) fn check() -> Result<(), SqlError> {
    find("postgres", &folders(), PACKAGE)?;
    find("initdb", &folders(), PACKAGE)?;
    Ok(())
}

pub(super) fn create(data: &Utf8Path) -> Result<(), SqlError> {
    let initdb = find("initdb", &folders(), PACKAGE)?;
    process::private_folder(data, &Engine::Postgres.identity())?;
    let mut command = process::command(&initdb, &Engine::Postgres.identity());
    command.args([
        "-D",
        data.as_str(),
        "-U",
        DATABASE,
        "-A",
        "trust",
        "--no-locale",
        "-E",
        "UTF8",
        "--no-sync",
    ]);
    process::run(command).map_err(|error| match error {
        ServeError::Server(text)
            if text.contains("ermission denied") && Engine::Postgres.identity().other_user() =>
        {
            SqlError::Unavailable {
                reason: format!("PostgreSQL, which runs as `nobody`, cannot reach {data}"),
                remedy:
                    "use a stack of its own (ext4, xfs@980pro ...), or a directory that everybody can enter"
                        .into(),
            }
        }
        other => other.into(),
    })
}

pub(super) fn command(
    settings: &Settings,
    data: &Utf8Path,
    run: &Utf8Path,
    log: &Utf8Path,
) -> Result<(Command, Utf8PathBuf, Address), SqlError> {
    let program = find("postgres", &folders(), PACKAGE)?;
    let mut command = process::command(&program, &Engine::Postgres.identity());
    let file = std::fs::File::options().append(true).open(log).map_err(SqlError::at(log))?;
    command.stdout(Stdio::null()).stderr(file);
    command.args(["-D", data.as_str(), "-k", run.as_str()]);
    let synchronous = if settings.flush == Flush::EachCommit { "on" } else { "off" };
    let kib = |bytes: u64| format!("{}kB", bytes >> 10);
    let mebibytes = |bytes: u64| format!("{}MB", (bytes >> 20).max(MAX_WAL_MIB_MIN));
    for (name, value) in [
        ("listen_addresses", String::new()),
        ("unix_socket_permissions", "0700".into()),
        ("max_connections", settings.connections.to_string()),
        ("shared_buffers", kib(settings.cache_bytes)),
        ("max_wal_size", mebibytes(settings.log_bytes)),
        ("synchronous_commit", synchronous.into()),
        ("fsync", "on".into()),
        ("full_page_writes", "on".into()),
        ("wal_sync_method", "fdatasync".into()),
        ("default_transaction_isolation", "read committed".into()),
        ("jit", "off".into()),
    ] {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    Ok((command, run.join(".s.PGSQL.5432"), Address::Socket(run.to_owned())))
}

/// The least that `max_wal_size` can be: two segments of 16 MiB.
const MAX_WAL_MIB_MIN: u64 = 32;

/// The query for the settings, and the names of those that decide.
pub(super) fn told() -> (String, &'static [&'static str]) {
    const NAMES: [&str; 8] = [
        "shared_buffers",
        "max_wal_size",
        "synchronous_commit",
        "fsync",
        "full_page_writes",
        "wal_sync_method",
        "default_transaction_isolation",
        "jit",
    ];
    ("SELECT name, current_setting(name) FROM pg_settings".to_string(), &NAMES)
}
