//! What reaches a Redis, as its MONITOR tells it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kv::redis::resp::{Login, Wire};

/// A server of the test's own, in memory.
pub struct Server {
    child: Child,
    pub port: u16,
}

impl Server {
    pub fn start(folder: &camino::Utf8Path) -> Server {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()]);
        let child = command.arg("--dir").arg(folder).stdout(Stdio::null()).spawn().unwrap();
        let mut server = Server { child, port };
        let start = Instant::now();
        while Wire::connect(&server.login()).is_err() {
            assert!(server.child.try_wait().unwrap().is_none(), "redis-server ended");
            assert!(start.elapsed() < Duration::from_secs(60), "redis-server does not listen");
            std::thread::yield_now();
        }
        server
    }

    pub fn login(&self) -> Login {
        Login::parse(&format!("redis://127.0.0.1:{}", self.port)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Listens to a server until it is told to end.
pub struct Monitor {
    lines: JoinHandle<Vec<Vec<Vec<u8>>>>,
    login: Login,
}

const OVER: &[u8] = b"the test is over";

impl Monitor {
    pub fn begin(login: &Login) -> Monitor {
        let address = login.address.to_string();
        let mut stream = TcpStream::connect(&address).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let access = login.password.iter().map(|password| format!("AUTH {password}"));
        for command in access.chain(["MONITOR".to_string()]) {
            stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
            let mut answer = Vec::new();
            lines.read_until(b'\n', &mut answer).unwrap();
            assert_eq!(answer, b"+OK\r\n");
        }
        let lines = std::thread::spawn(move || {
            let mut all = Vec::new();
            loop {
                let mut line = Vec::new();
                assert!(lines.read_until(b'\n', &mut line).unwrap() > 0, "the server ended");
                let words = words(&line);
                if words.get(1).is_some_and(|word| word == OVER) {
                    return all;
                }
                all.push(words);
            }
        });
        Monitor { lines, login: login.clone() }
    }

    /// The commands, in the order in which the server took them.
    pub fn end(self) -> Vec<Vec<Vec<u8>>> {
        Wire::connect(&self.login).unwrap().must(&["ECHO", std::str::from_utf8(OVER).unwrap()]).unwrap();
        self.lines.join().unwrap()
    }
}

/// The words of a line, which are in quotes.
fn words(line: &[u8]) -> Vec<Vec<u8>> {
    let (mut all, mut word, mut bytes) = (Vec::new(), None::<Vec<u8>>, line.iter().copied());
    while let Some(byte) = bytes.next() {
        match (&mut word, byte) {
            (None, b'"') => word = Some(Vec::new()),
            (None, _) => {}
            (Some(_), b'"') => all.extend(word.take()),
            (Some(word), b'\\') => word.push(match bytes.next() {
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'a') => 7,
                Some(b'b') => 8,
                Some(b'x') => {
                    let digits: String = bytes.by_ref().take(2).map(char::from).collect();
                    u8::from_str_radix(&digits, 16).unwrap()
                }
                Some(other) => other,
                None => panic!("a line ends within a word"),
            }),
            (Some(word), other) => word.push(other),
        }
    }
    all
}

/// What was counted: numbers and texts by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    pub numbers: BTreeMap<String, f64>,
    pub texts: BTreeMap<String, String>,
}

/// How many first keys are kept.
const FIRST: usize = 4;

/// A mean, the least and the most.
fn spread(counts: &mut Counts, name: &str, values: &[usize]) {
    if values.is_empty() {
        return;
    }
    let mean = values.iter().sum::<usize>() as f64 / values.len() as f64;
    let ends = [values.iter().min(), values.iter().max()].map(|end| end.copied().unwrap_or_default() as f64);
    for (part, value) in [("mean", mean), ("min", ends[0]), ("max", ends[1])] {
        counts.numbers.insert(format!("{name}.{part}"), value);
    }
}

/// Counts commands for records.
pub fn count(commands: &[Vec<Vec<u8>>]) -> Counts {
    let mut counts = Counts::default();
    let (mut fields, mut bytes, mut names, mut lengths) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut read, mut begun, mut inserted) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    for words in commands {
        let Some(name) = words.first().map(|name| text(name).to_lowercase()) else { continue };
        match name.as_str() {
            "hmset" => {
                assert_eq!(words.len() % 2, 0, "{words:?}");
                fields.push((words.len() - 2) / 2);
                bytes.extend(words[3..].iter().step_by(2).map(Vec::len));
                *read.entry(words[1].clone()).or_insert(0u64) += 1;
            }
            "hgetall" => *read.entry(words[1].clone()).or_insert(0) += 1,
            "hmget" => {
                names.push(words.len() - 2);
                *read.entry(words[1].clone()).or_insert(0) += 1;
            }
            "zrangebyscore" => {
                lengths.push(text(&words[6]).parse().unwrap());
                *begun.entry(words[2].clone()).or_insert(0) += 1;
            }
            "zadd" if inserted.len() < FIRST => {
                // the score as a number: Java writes 1.2E9
                let score: f64 = text(&words[2]).parse().unwrap();
                inserted.push(format!("{}:{score}", text(&words[3])));
            }
            "zadd" => {}
            // connections, and what takes the records away at the end
            _ => continue,
        }
        *counts.numbers.entry(format!("commands.{name}")).or_default() += 1.0;
    }
    for (name, values) in
        [("fields written", &fields), ("field bytes", &bytes), ("fields named", &names), ("scan", &lengths)]
    {
        spread(&mut counts, &name.replace(' ', "."), values);
    }
    // a scan is known by the score where it begins
    let asked = if begun.is_empty() { read } else { begun };
    let mut by_count: Vec<(&Vec<u8>, u64)> = asked.iter().map(|(key, count)| (key, *count)).collect();
    by_count.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let all: u64 = asked.values().sum();
    counts.numbers.insert("keys".into(), asked.len() as f64);
    for top in [1, 10, 100] {
        let share = by_count.iter().take(top).map(|(_, count)| count).sum::<u64>() as f64 / all.max(1) as f64;
        counts.numbers.insert(format!("top.{top}"), share);
    }
    if let [(hottest, first), (_, second), ..] = by_count[..]
        && first >= second + all / 100
    {
        let number: Result<f64, _> = text(hottest).parse();
        counts.texts.insert("hottest".into(), number.map_or(text(hottest), |score| score.to_string()));
    }
    counts.texts.insert("inserted".into(), inserted.join(","));
    counts
}
