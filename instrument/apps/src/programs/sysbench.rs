//! sysbench's `oltp_insert` (Alexey Kopytov): clients that insert rows into a table of one MariaDB server.
//!
//! In containers, one of them has the server and each of the others a client, as in the artifact of OPIMQ (FAST 2025);
//! without, server and clients run side by side. The server's files lie on the file system under test.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stats::{Direction, Histogram, OpClass, OpOutcome};

use super::mariadb::MariaDb;
use super::program;
use crate::error::at;
use crate::{AppError, Bench, Load, LoadSite, Parameters};

/// How long a client waits for the server's tables.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often it is looked for.
const TICK: Duration = Duration::from_millis(20);
/// Bytes of a socket's path that the kernel takes (unix(7)), the closing zero left out.
const SOCKET_BYTES_MAX: usize = 107;

/// Who a process is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Role {
    /// Server and clients.
    Both,
    /// The server; clients find it at this socket.
    Server(PathBuf),
    /// One client.
    Client(PathBuf),
}

/// sysbench against a server on a directory.
#[derive(Debug)]
pub struct Sysbench {
    clients: u64,
    seconds: u64,
    rows: u64,
    role: Role,
}

impl Sysbench {
    /// Parameters: `clients` (threads of each sysbench, 1 to 1000, default 1), `seconds` (1 to 86400, default 60), `rows`
    /// (in the table at the start, 0 to 10000000, default 1000). `role` and `socket` are for who starts containers.
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn new(parameters: &mut Parameters) -> Result<Sysbench, AppError> {
        let (role, socket) = (parameters.word("role", "both"), parameters.word("socket", ""));
        let role = match role.as_str() {
            "both" => Role::Both,
            "server" => Role::Server(socket.into()),
            "client" => Role::Client(socket.into()),
            other => {
                return Err(AppError::Parameter(format!("role = {other}: both, server or client is right")));
            }
        };
        Ok(Sysbench {
            clients: parameters.number("clients", 1, 1..=1000)?,
            seconds: parameters.number("seconds", 60, 1..=86_400)?,
            rows: parameters.number("rows", 1000, 0..=10_000_000)?,
            role,
        })
    }

    /// sysbench with what all its runs have in common.
    fn sysbench(&self, socket: &Path) -> Result<super::Program, AppError> {
        let mut with = std::ffi::OsString::from("--mysql-socket=");
        with.push(socket);
        Ok(program("sysbench", "sysbench")?
            .args([
                "oltp_insert",
                "--db-driver=mysql",
                "--mysql-user=root",
                "--mysql-db=sbtest",
                "--tables=1",
            ])
            .arg(with)
            .arg(format!("--table-size={}", self.rows)))
    }

    /// A server with its table.
    fn serve(&self, root: &Path, socket: &Path, bench: &Bench<'_>) -> Result<MariaDb, AppError> {
        if socket.as_os_str().len() > SOCKET_BYTES_MAX {
            return Err(AppError::Parameter(format!(
                "socket = {}: at most {SOCKET_BYTES_MAX} bytes are right",
                socket.display()
            )));
        }
        bench.report("starting MariaDB");
        let server = MariaDb::start(&root.join("mariadb"), socket)?;
        self.sysbench(socket)?.arg("prepare").output()?;
        Ok(server)
    }

    fn insert(&self, socket: &Path, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let output = self
            .sysbench(socket)?
            .args([format!("--threads={}", self.clients), format!("--time={}", self.seconds)])
            .args(["--histogram=on", "run"])
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = SysbenchReport::read(&text).ok_or_else(|| {
            let end: Vec<&str> = text.lines().rev().take(3).collect();
            AppError::Protocol(format!("sysbench told no transactions; it ended with {end:?}"))
        })?;
        bench.metric("transactions_per_second", "1/s", told.per_second);
        bench.note("latencies are those of sysbench's histogram, whose steps are 1.8 % wide");
        bench.counted(told.seconds, std::iter::once(told.outcome()));
        Ok(())
    }

    /// Waits until the server's table is there.
    fn find(socket: &Path, bench: &Bench<'_>) -> Result<(), AppError> {
        let (marker, start) = (marker(socket), Instant::now());
        while !marker.exists() {
            bench.check()?;
            if start.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                return Err(AppError::Protocol(format!("the server was not ready within {seconds} s")));
            }
            std::thread::sleep(TICK);
        }
        Ok(())
    }
}

/// The file that says that the server's table is there.
fn marker(socket: &Path) -> PathBuf {
    socket.with_extension("ready")
}

impl Load for Sysbench {
    fn phases(&self) -> u32 {
        1
    }

    fn seconds_guess(&self) -> f64 {
        self.seconds as f64 + 20.0
    }

    fn programs(&self) -> &'static [&'static str] {
        &["mariadb-install-db", "mariadbd", "sysbench"]
    }

    fn waits_at_gate(&self) -> bool {
        true
    }

    fn server_memory_bytes(&self) -> Option<u64> {
        Some(1 << 30)
    }

    fn provide(&self, _home: &Path, _tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        program("sysbench", "sysbench")?;
        program("mariadbd", "mariadb-server")?;
        program("mariadb-install-db", "mariadb-server").map(drop)
    }

    fn run(&self, _phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        match &self.role {
            Role::Both => {
                let folder = tempfile::Builder::new()
                    .prefix("loadline-db-")
                    .tempdir()
                    .map_err(at(&std::env::temp_dir()))?;
                let socket = folder.path().join("db.sock");
                let server = self.serve(place.root, &socket, bench)?;
                bench.ready()?;
                bench.check()?;
                self.insert(&socket, bench)?;
                drop(server);
                Ok(())
            }
            Role::Server(socket) => {
                let mut server = self.serve(place.root, socket, bench)?;
                let ready = marker(socket);
                std::fs::write(&ready, "").map_err(at(&ready))?;
                bench.ready()?;
                // it ends when the clients have ended, and who started them says so
                while !(bench.stopped())() {
                    if !server.is_alive() {
                        return Err(server.failure("ended"));
                    }
                    std::thread::sleep(TICK);
                }
                Ok(())
            }
            Role::Client(socket) => {
                Sysbench::find(socket, bench)?;
                bench.ready()?;
                bench.check()?;
                self.insert(socket, bench)
            }
        }
    }
}

/// What sysbench tells.
#[derive(Debug)]
struct SysbenchReport {
    transactions: u64,
    per_second: f64,
    seconds: f64,
    latencies: Histogram,
}

impl SysbenchReport {
    fn read(text: &str) -> Option<SysbenchReport> {
        let after = |label: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(label))?;
            line.trim_start().strip_prefix(label).map(str::trim)
        };
        // transactions:   1234   (123.40 per sec.)
        let (count, rate) = after("transactions:")?.split_once('(')?;
        let seconds = after("total time:")?.strip_suffix('s')?.parse().ok()?;
        let mut latencies = Histogram::new();
        for line in text.lines() {
            // 3.187 |**************   42
            let Some((value, rest)) = line.split_once('|') else { continue };
            let Ok(ms) = value.trim().parse::<f64>() else { continue };
            let Some(Ok(count)) = rest.split_whitespace().last().map(str::parse) else { continue };
            latencies.record_n((ms * 1e6) as u64, count);
        }
        Some(SysbenchReport {
            transactions: count.trim().parse().ok()?,
            per_second: rate.split_whitespace().next()?.parse().ok()?,
            seconds,
            latencies,
        })
    }

    fn outcome(self) -> OpOutcome {
        OpOutcome {
            ops: self.transactions,
            service: self.latencies,
            ..OpOutcome::new("transaction", "sysbench", OpClass::Io, Direction::Write)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sysbench_tells_is_read() {
        let text = "Latency histogram (values are in milliseconds)\n       value  ------------- distribution ------------- count\n\
            \x20      1.453 |*                                        2\n       3.187 |****************************************  130\n \n\
            SQL statistics:\n    queries performed:\n        write:    132\n    transactions:                        132    (43.96 per sec.)\n\
            General statistics:\n    total time:                          3.0021s\n";
        let told = SysbenchReport::read(text).unwrap();
        assert_eq!((told.transactions, told.latencies.count()), (132, 132));
        assert!((told.per_second - 43.96).abs() < 1e-9 && (told.seconds - 3.0021).abs() < 1e-9);
        assert!(SysbenchReport::read("FATAL: unable to connect to MySQL server\n").is_none());
    }

    #[test]
    fn roles_that_are_not_are_refused() {
        let role = [("role".to_string(), "king".to_string())];
        let told = Sysbench::new(&mut Parameters::new("sysbench", &role)).unwrap_err();
        assert!(told.to_string().contains("both, server or client"), "{told}");
    }
}
