//! Private Redis servers: one on a socket, or three masters on loopback that share the slots. Data are on the stack,
//! sockets and logs in a private directory.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use journal::{Journal, PrivateTree};
use rustix::process::Signal;
use serve::process::{self, Identity, Processes, find};

use crate::KvError;

use super::resp::{Address, Login, Reply, Wire};
use super::slots::SLOTS;

/// Masters of a private cluster: the least that makes one.
const MASTERS: u16 = 3;
/// A cluster's nodes speak with each other on their port and this much more (redis.conf, `cluster-port`).
const BUS_OFFSET: u16 = 10_000;
/// Longest wait until servers answer; loading their data is in it.
const START_PATIENCE: Duration = Duration::from_secs(300);
/// Longest wait until one has ended by itself.
const STOP_PATIENCE: Duration = Duration::from_secs(60);
/// How often one that starts is asked.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// How long a master may be silent before the others take it for dead, in ms (`cluster-node-timeout`).
const NODE_TIMEOUT_MS: u32 = 5000;
/// Attempts at finding free ports.
const PORT_ATTEMPTS: u32 = 100;
/// The file in the private directory that says who may use a cluster.
const ACCESS: &str = "access";
/// Bytes of a cluster's password, which are drawn.
const PASSWORD_BYTES: usize = 16;
/// Lines of a log that an error shows.
const LOG_LINES: usize = 8;
/// Longest path of a Unix socket: `sun_path` of sockaddr_un(7) less the final zero.
const SOCKET_PATH_MAX: usize = 107;
/// What a private directory's path adds: its name and the socket's.
const SOCKET_MORE: usize = 40;

/// When a write is on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendPolicy {
    /// There is no log: data are in memory only (`appendonly no`).
    None,
    /// Written before it is acknowledged; the kernel says when it is on the device (`appendfsync no`).
    Written,
    /// On the device each second (`appendfsync everysec`).
    EachSecond,
    /// On the device before it is acknowledged (`appendfsync always`).
    Always,
}

impl AppendPolicy {
    fn appendfsync(self) -> Option<&'static str> {
        match self {
            AppendPolicy::None => None,
            AppendPolicy::Written => Some("no"),
            AppendPolicy::EachSecond => Some("everysec"),
            AppendPolicy::Always => Some("always"),
        }
    }
}

/// One server.
#[derive(Debug)]
struct Node {
    processes: Processes,
    address: Address,
    log: Utf8PathBuf,
}

/// Private servers that run. Dropped, they are killed.
#[derive(Debug)]
pub struct Servers {
    nodes: Vec<Node>,
    cluster: bool,
    /// Of a cluster, whose masters listen on loopback, where every user of the machine can connect.
    password: Option<String>,
    // goes after the processes that use it
    _folder: PrivateTree,
}

const IDENTITY: Identity = Identity { name: "redis", refuses_root: false, stop: Signal::TERM };
const PACKAGE: &str = "redis-server";

/// Whether this machine has what a private server needs.
///
/// # Errors
/// [`KvError::Unavailable`].
pub fn check() -> Result<(), KvError> {
    find("redis-server", &[], PACKAGE).map(drop).map_err(KvError::from)
}

impl Servers {
    /// Starts one server, or a cluster of three masters, on data directories below `data`, which are made when they are
    /// missing; returns when they answer and hold the data that were saved there.
    ///
    /// # Errors
    /// One does not start: with the end of its log.
    pub fn start(
        cluster: bool,
        log: AppendPolicy,
        connections: u32,
        data: &Utf8Path,
        temporary: &Utf8Path,
        journal: &Arc<Journal>,
    ) -> Result<Servers, KvError> {
        check()?;
        // a path that is too long for a socket is left for one that everybody has
        let temporary = if temporary.as_str().len() + SOCKET_MORE > SOCKET_PATH_MAX {
            Utf8Path::new("/tmp")
        } else {
            temporary
        };
        let folder = PrivateTree::new(journal, temporary).map_err(KvError::from)?;
        std::fs::create_dir_all(data).map_err(KvError::at(data))?;
        let run = folder.path().join("run");
        process::private_folder(&run, &IDENTITY)?;
        let mut servers = Servers { nodes: Vec::new(), cluster, password: None, _folder: folder };
        if cluster {
            servers.password = Some(keep_password(&run.join(ACCESS))?);
            for number in 0..MASTERS {
                servers.start_master(number, connections, data, &run, journal)?;
            }
        } else {
            let socket = run.join("s");
            // a killed server leaves its socket
            let words = ["--port".into(), "0".into(), "--unixsocket".into(), socket.to_string()];
            let more = ["--unixsocketperm".to_string(), "700".to_string()];
            let words = [&words[..], &more].concat();
            servers.spawn(0, connections, data, &run, &words, Address::Socket(socket), journal)?;
        }
        servers.wait_until_they_answer()?;
        if cluster {
            servers.form_cluster()?;
        }
        if let Some(appendfsync) = log.appendfsync() {
            servers.begin_log(appendfsync)?;
        }
        Ok(servers)
    }

    fn start_master(
        &mut self,
        number: u16,
        connections: u32,
        data: &Utf8Path,
        run: &Utf8Path,
        journal: &Arc<Journal>,
    ) -> Result<(), KvError> {
        let folder = data.join(number.to_string());
        std::fs::create_dir_all(&folder).map_err(KvError::at(&folder))?;
        // who the nodes were is made anew: ports of the last time may be taken. The data stay.
        let nodes = run.join(format!("nodes-{number}.conf"));
        for attempt in 1.. {
            let port = free_port()?;
            let words = [
                ("--port", port.to_string()),
                ("--bind", "127.0.0.1".into()),
                ("--cluster-enabled", "yes".into()),
                ("--cluster-config-file", nodes.to_string()),
                ("--cluster-node-timeout", NODE_TIMEOUT_MS.to_string()),
            ];
            let words: Vec<String> =
                words.into_iter().flat_map(|(name, value)| [name.to_string(), value]).collect();
            let address = Address::Tcp { host: "127.0.0.1".into(), port };
            self.spawn(number, connections, &folder, run, &words, address, journal)?;
            let at = self.nodes.len() - 1;
            match self.wait_for(at) {
                Ok(()) => return Ok(()),
                // somebody took the port in between
                Err(_) if attempt < PORT_ATTEMPTS && self.log_says(at, "Address already in use") => {
                    self.nodes.pop();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "what a server is told, once")]
    fn spawn(
        &mut self,
        number: u16,
        connections: u32,
        data: &Utf8Path,
        run: &Utf8Path,
        words: &[String],
        address: Address,
        journal: &Arc<Journal>,
    ) -> Result<(), KvError> {
        let program = find("redis-server", &[], PACKAGE)?;
        let log = run.join(format!("log-{number}"));
        let file = std::fs::File::create(&log).map_err(KvError::at(&log))?;
        let errors = file.try_clone().map_err(KvError::at(&log))?;
        let mut command = process::command(&program, &IDENTITY);
        command.stdout(file).stderr(errors).stdin(Stdio::null());
        // no other file is read: the first argument is one
        if self.password.is_some() {
            command.arg(run.join(ACCESS));
        }
        command.args(["--dir", data.as_str(), "--save", "", "--appendonly", "no", "--daemonize", "no"]);
        command.args(["--maxclients", &(connections + 100).to_string()]).args(words);
        let processes = Processes::start(command, &IDENTITY, data, journal)?;
        self.nodes.push(Node { processes, address, log });
        Ok(())
    }

    fn login(&self, node: usize) -> Login {
        Login { address: self.nodes[node].address.clone(), user: None, password: self.password.clone() }
    }

    /// How to reach the first one.
    pub fn first(&self) -> Login {
        self.login(0)
    }

    fn wait_until_they_answer(&mut self) -> Result<(), KvError> {
        (0..self.nodes.len()).try_for_each(|node| self.wait_for(node))
    }

    fn wait_for(&mut self, node: usize) -> Result<(), KvError> {
        let start = Instant::now();
        loop {
            let login = self.login(node);
            let answer = Wire::connect(&login).and_then(|mut wire| {
                wire.ask(&[b"PING"], |reply| match reply {
                    Reply::Simple(b"PONG") => Ok(()),
                    other => Err(KvError::Server(format!("Redis answers {other:?}"))),
                })
            });
            let Err(error) = answer else { return Ok(()) };
            if let Some(status) = self.nodes[node].processes.ended() {
                return Err(KvError::Server(self.explain(node, &format!("Redis ended at once ({status})"))));
            }
            if start.elapsed() > START_PATIENCE {
                let text = format!("Redis does not answer after {} s: {error}", START_PATIENCE.as_secs());
                return Err(KvError::Server(self.explain(node, &text)));
            }
            std::thread::sleep(ASK_EVERY);
        }
    }

    fn wires(&self) -> Result<Vec<Wire>, KvError> {
        (0..self.nodes.len()).map(|node| Wire::connect(&self.login(node))).collect()
    }

    /// Gives each master its third of the slots, and has them meet (redis.io, "Redis cluster specification").
    fn form_cluster(&mut self) -> Result<(), KvError> {
        let mut wires = self.wires()?;
        for (number, wire) in wires.iter_mut().enumerate() {
            wire.must(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
            let first = number as u16 * SLOTS / MASTERS;
            let last = (number as u16 + 1) * SLOTS / MASTERS - 1;
            // one that was started with data has the slots of its keys already
            let owned = owned(&wire.must_nodes()?);
            let mut slot = first;
            while slot <= last {
                if owned.contains(&slot) {
                    slot += 1;
                    continue;
                }
                let end = (slot..=last).take_while(|slot| !owned.contains(slot)).last().unwrap_or(slot);
                wire.must(&["CLUSTER", "ADDSLOTSRANGE", &slot.to_string(), &end.to_string()])?;
                slot = end + 1;
            }
        }
        for node in 1..self.nodes.len() {
            let Address::Tcp { host, port } = &self.nodes[node].address else { continue };
            wires[0].must(&["CLUSTER", "MEET", host, &port.to_string()])?;
        }
        let start = Instant::now();
        loop {
            let mut whole = true;
            for wire in &mut wires {
                let info = wire.must(&["CLUSTER", "INFO"])?;
                whole &= info.contains("cluster_state:ok")
                    && info.contains(&format!("cluster_known_nodes:{MASTERS}"))
                    && info.contains(&format!("cluster_slots_ok:{SLOTS}"));
            }
            if whole {
                return Ok(());
            }
            if start.elapsed() > START_PATIENCE {
                return Err(KvError::Server(
                    self.explain(0, "the masters of the cluster do not find each other"),
                ));
            }
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// Turns the log on, and waits until it holds what is there already.
    fn begin_log(&mut self, appendfsync: &str) -> Result<(), KvError> {
        for wire in &mut self.wires()? {
            wire.must(&["CONFIG", "SET", "appendfsync", appendfsync])?;
            wire.must(&["CONFIG", "SET", "appendonly", "yes"])?;
            let start = Instant::now();
            loop {
                let info = wire.must(&["INFO", "persistence"])?;
                let says = |text: &str| info.contains(text);
                if says("aof_rewrite_in_progress:0") && says("aof_rewrite_scheduled:0") {
                    if says("aof_last_bgrewrite_status:ok") {
                        break;
                    }
                    return Err(KvError::engine("Redis", self.explain(0, "the log cannot be written")));
                }
                if start.elapsed() > START_PATIENCE {
                    return Err(KvError::Server(self.explain(0, "the log is not written after 300 s")));
                }
                std::thread::sleep(ASK_EVERY);
            }
        }
        Ok(())
    }

    /// Writes the data to the stack, from where the next start takes them.
    ///
    /// # Errors
    /// A full disk, above all.
    pub fn save(&mut self) -> Result<(), KvError> {
        for (node, wire) in self.wires()?.iter_mut().enumerate() {
            if let Err(error) = wire.must(&["SAVE"]) {
                return Err(KvError::engine("Redis", self.explain(node, &format!("saving: {error}"))));
            }
        }
        Ok(())
    }

    /// The settings that decide, as the servers say that they are.
    ///
    /// # Errors
    /// What they answer.
    pub fn settings(&self) -> Result<Vec<(String, String)>, KvError> {
        settings(&self.first(), if self.cluster { Some(self.nodes.len()) } else { None })
    }

    /// Processor seconds that they have used so far.
    pub fn cpu_seconds(&self) -> Option<f64> {
        self.nodes.iter().map(|node| node.processes.cpu_seconds()).sum()
    }

    /// How to reach each of them.
    pub fn logins(&self) -> Vec<Login> {
        (0..self.nodes.len()).map(|node| self.login(node)).collect()
    }

    /// Numbers of their processes.
    pub fn pids(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.processes.pid()).collect()
    }

    fn log_says(&self, node: usize, text: &str) -> bool {
        std::fs::read_to_string(&self.nodes[node].log).is_ok_and(|log| log.contains(text))
    }

    fn explain(&self, node: usize, message: &str) -> String {
        let log = std::fs::read(&self.nodes[node].log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        match &lines[lines.len().saturating_sub(LOG_LINES)..] {
            [] => message.to_string(),
            last => format!("{message}; the end of its log:\n  {}", last.join("\n  ")),
        }
    }

    /// What an error of a connection means, now that the servers are looked at: one that has died is named, with its log.
    pub fn judge(&mut self, what: &str, error: KvError) -> KvError {
        if !matches!(error, KvError::Gone(..) | KvError::Refused(_)) {
            return error;
        }
        let start = Instant::now();
        // a server that breaks a connection may be about to end
        while start.elapsed() < Duration::from_secs(2) {
            for node in 0..self.nodes.len() {
                if let Some(status) = self.nodes[node].processes.ended() {
                    let remedy = self.nodes[node].processes.remedy();
                    let text = format!("Redis died ({status}) while {what}{remedy}");
                    return KvError::Server(self.explain(node, &text));
                }
            }
            std::thread::sleep(ASK_EVERY);
        }
        error
    }

    /// Ends them.
    ///
    /// # Errors
    /// One had to be killed, or did not end cleanly.
    pub fn stop(mut self) -> Result<(), KvError> {
        for node in 0..self.nodes.len() {
            let stopped = self.nodes[node].processes.stop(STOP_PATIENCE);
            stopped.map_err(|how| KvError::Server(self.explain(node, &format!("Redis {how}"))))?;
        }
        Ok(())
    }
}

/// The settings that decide, as a server says that they are; `masters` of a cluster.
///
/// # Errors
/// What it answers.
pub fn settings(login: &Login, masters: Option<usize>) -> Result<Vec<(String, String)>, KvError> {
    let mut wire = Wire::connect(login)?;
    let info = wire.must(&["INFO", "server"])?;
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or_default();
    let mut told = vec![("version".to_string(), version.to_string())];
    told.extend(masters.map(|masters| ("masters".to_string(), masters.to_string())));
    for name in ["appendonly", "appendfsync", "save", "maxmemory"] {
        // a server at an address may not allow it
        let value = wire.ask(&[b"CONFIG", b"GET", name.as_bytes()], |reply| {
            Ok(match &reply {
                Reply::Array(pair) => pair
                    .iter()
                    .nth(1)
                    .and_then(|value| value.bytes())
                    .map(|value| String::from_utf8_lossy(value).into_owned()),
                _ => None,
            })
        })?;
        told.extend(value.map(|value| (name.to_string(), value)));
    }
    Ok(told)
}

impl Wire {
    fn must_nodes(&mut self) -> Result<String, KvError> {
        self.must(&["CLUSTER", "NODES"])
    }
}

/// The slots of the node that answered CLUSTER NODES.
fn owned(nodes: &str) -> std::collections::BTreeSet<u16> {
    let own = nodes.lines().find(|line| line.contains("myself")).unwrap_or_default();
    let mut slots = std::collections::BTreeSet::new();
    for word in own.split_whitespace().skip(8) {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        if let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse()) {
            slots.extend(first..=last);
        }
    }
    slots
}

/// Makes a password, and writes it where only the servers' user can read it: arguments can be read by all.
fn keep_password(path: &Utf8Path) -> Result<String, KvError> {
    let mut bytes = [0; PASSWORD_BYTES];
    let random = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    random.map_err(KvError::at(Utf8Path::new("/dev/urandom")))?;
    let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!("requirepass {password}\nmasterauth {password}\n");
    let file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(KvError::at(path))?;
    Ok(password)
}

/// A port of loopback that is free, and the one of its cluster bus as well.
fn free_port() -> Result<u16, KvError> {
    let failed = |error: std::io::Error| KvError::Server(format!("no free port on 127.0.0.1: {error}"));
    for _ in 0..PORT_ATTEMPTS {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let Some(bus) = port.checked_add(BUS_OFFSET) else { continue };
        if TcpListener::bind(("127.0.0.1", bus)).is_ok() {
            return Ok(port);
        }
    }
    // the kernel hands out high ports only: low ones are tried
    for port in 20_000..30_000 {
        if TcpListener::bind(("127.0.0.1", port)).is_ok()
            && TcpListener::bind(("127.0.0.1", port + BUS_OFFSET)).is_ok()
        {
            return Ok(port);
        }
    }
    Err(KvError::Server("no free port on 127.0.0.1 from 20000 to 30000".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_a_node_are_read() {
        let text = "a 127.0.0.1:1@2 master - 0 0 2 connected 5-7\n\
                    b 127.0.0.1:3@4 myself,master - 0 0 1 connected 0-2 4 [9->-x]\n";
        assert_eq!(owned(text).into_iter().collect::<Vec<_>>(), [0, 1, 2, 4]);
        assert!(owned("").is_empty());
    }
}
