//! A private MariaDB server in a directory of its own: a socket, no port, nothing of the machine's configuration.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::program;
use crate::AppError;
use crate::error::at;

/// How long it may take to listen, and to end: on a slow device it writes out its buffers.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes of its pages that it keeps in memory: the tables of the tests fit, so reads do not matter.
const POOL: &str = "64M";
/// Bytes of its log.
const LOG: &str = "48M";
/// Lines of its error log that an error shows.
const LINES: usize = 3;

/// A server that runs. Dropped, it is ended.
#[derive(Debug)]
pub(super) struct MariaDb {
    child: Child,
    socket: PathBuf,
    errors: PathBuf,
}

impl MariaDb {
    /// Makes a server's files in `folder`, which must not exist, starts it, and waits until it listens at `socket`. Every
    /// transaction is durable: redo log and binary log are synced at each commit, as by default in MySQL 8.
    pub(super) fn start(folder: &Path, socket: &Path) -> Result<MariaDb, AppError> {
        std::fs::create_dir(folder).map_err(at(folder))?;
        let (data, errors, first) = (folder.join("data"), folder.join("errors"), folder.join("first.sql"));
        program("mariadb-install-db", "mariadb-server")?
            .args([
                "--no-defaults",
                "--user=root",
                "--skip-test-db",
                "--auth-root-authentication-method=normal",
                // also where no name server knows the host, as in a container
                "--force",
            ])
            .arg(argument("--datadir=", &data))
            .output()?;
        std::fs::write(&first, "CREATE DATABASE IF NOT EXISTS sbtest;\n").map_err(at(&first))?;
        let child = program("mariadbd", "mariadb-server")?
            .args(["--no-defaults", "--user=root", "--skip-networking", "--skip-name-resolve"])
            .args(["--max-connections=1100", "--server-id=1", "--log-bin=binlog", "--sync-binlog=1"])
            .args(["--innodb-flush-log-at-trx-commit=1".to_string()])
            .args([format!("--innodb-buffer-pool-size={POOL}"), format!("--innodb-log-file-size={LOG}")])
            .arg(argument("--datadir=", &data))
            .arg(argument("--socket=", socket))
            .arg(argument("--pid-file=", &folder.join("pid")))
            .arg(argument("--log-error=", &errors))
            .arg(argument("--init-file=", &first))
            .command()
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| AppError::Protocol(format!("MariaDB cannot be started: {error}")))?;
        let mut server = MariaDb { child, socket: socket.to_owned(), errors };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self) -> Result<(), AppError> {
        let start = Instant::now();
        while UnixStream::connect(&self.socket).is_err() {
            if !self.is_alive() || start.elapsed() > PATIENCE {
                let why = if self.is_alive() { "does not listen" } else { "ended" };
                return Err(self.failure(why));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Whether it still runs.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// What happened to it, with the end of its log.
    pub(super) fn failure(&self, what: &str) -> AppError {
        let log = std::fs::read_to_string(&self.errors).unwrap_or_default();
        let mut lines: Vec<&str> =
            log.lines().filter(|line| line.contains("[ERROR]")).rev().take(LINES).collect();
        lines.reverse();
        AppError::Protocol(format!("MariaDB {what}: {}", lines.join("; ")))
    }

    fn end(&mut self) {
        if !self.is_alive() {
            return;
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let start = Instant::now();
        while self.is_alive() && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        self.end();
    }
}

fn argument(option: &str, path: &Path) -> std::ffi::OsString {
    let mut word = std::ffi::OsString::from(option);
    word.push(path);
    word
}
