//! A store of made-up runs in a private folder, a server on it, and a client that speaks HTTP by hand.
#![allow(dead_code, reason = "not every test file uses all of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;

use jiff::Timestamp;
use lab::Store;
use stats::over_time::Follower;
use stats::{Direction, Ended, Histogram, Metric, OpClass, OpOutcome, Outcome};
use study::Study;
use study::results::{Run, Status, Trial};
use web::Service;

/// Trials of each of the two cells.
const TRIALS: u32 = 6;

/// A home of results.
pub struct Home {
    folder: tempfile::TempDir,
}

fn study(title: &str) -> Study {
    let text = format!(
        "stacks = ['ext4', 'xfs']\n[study]\ntitle = '{title}'\ntrials = {TRIALS}\nseconds = 10\n[[workload]]\nname = 'hog'\n\
         text = 'define process name=p {{ thread name=t {{ flowop hog name=h }} }} run 10'\n"
    );
    Study::parse(&text, "test.toml", &|file| panic!("no file {file} here"))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn trial(cell: u32, index: u32, ops: u64) -> Trial {
    let mut service = Histogram::new();
    service.record_n(1_000, ops);
    let mut follower = Follower::default();
    follower.close(1, &service);
    let outcome = Outcome {
        measured_seconds: 1.0,
        warmup_seconds: 0.0,
        ended: Ended::TimeUp,
        ops: vec![OpOutcome {
            ops,
            bytes: ops * 4096,
            service,
            ops_per_second: vec![ops],
            bytes_per_second: vec![ops * 4096],
            over_time: follower.finish(),
            ..OpOutcome::new("write1", "write", OpClass::Io, Direction::Write)
        }],
        metrics: vec![Metric::machine("disk_writes", "1", ops as f64)],
        notes: Vec::new(),
    };
    Trial {
        cell,
        index,
        order: index * 2 + cell,
        status: Status::Done,
        outcome: Some(outcome),
        environment: None,
        commands: Vec::new(),
        log: Vec::new(),
        raw_output: String::new(),
        started: Timestamp::now(),
        seconds: 2.0,
        fsync: None,
        extras: Default::default(),
        variables: Vec::new(),
    }
}

impl Home {
    /// One with so many whole runs. In memory where that can be had: thousands of commits would wait for the disk.
    pub fn with_runs(number: usize) -> Home {
        let memory = std::path::Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let home = Home { folder: folder.unwrap() };
        let mut store = home.store();
        for run in 0..number {
            let id =
                store.begin(&study(&format!("run {run}")), &["loadline".into(), "run".into()]).unwrap().id;
            let noise = |index: u32| u64::from(index * 7 % 5);
            let trials: Vec<Trial> = (0..TRIALS)
                .flat_map(|index| {
                    [trial(0, index, 1000 + noise(index)), trial(1, index, 2000 + noise(index))]
                })
                .collect();
            store.add_trials(&id, &trials).unwrap();
            store.finish(&id).unwrap();
        }
        home
    }

    /// One with so many copies of a run.
    pub fn with_copies(run: &Run, number: usize) -> Home {
        let home = Home::with_runs(0);
        let mut store = home.store();
        let study = Study::from_stored(&run.study).unwrap_or_else(|error| panic!("{error}"));
        for _ in 0..number {
            let id = store.begin(&study, &run.command_line).unwrap().id;
            store.add_trials(&id, &run.trials).unwrap();
            store.finish(&id).unwrap();
        }
        drop(store);
        home
    }

    /// One with a whole run of this title.
    pub fn with_title(title: &str) -> Home {
        let home = Home::with_runs(0);
        let mut store = home.store();
        let mut study = study("a title");
        study.study.title = title.into();
        small(&mut store, &study);
        drop(store);
        home
    }

    /// One with many whole runs of one trial.
    pub fn with_small_runs(number: usize) -> Home {
        let home = Home::with_runs(0);
        let (mut store, study) = (home.store(), study("small"));
        (0..number).for_each(|_| small(&mut store, &study));
        home
    }

    /// Adds another.
    pub fn add_small_run(&self) {
        small(&mut self.store(), &study("small"));
    }

    /// Begins a run that goes on.
    pub fn begin(&self) -> Going {
        let mut store = self.store();
        let id = store.begin(&study("going on"), &["loadline".into(), "run".into()]).unwrap().id;
        Going { store, id }
    }

    pub fn store(&self) -> Store {
        Store::open(self.path()).unwrap()
    }

    pub fn path(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Ids, the oldest first.
    pub fn ids(&self) -> Vec<String> {
        self.store().runs().unwrap().into_iter().map(|run| run.id).collect()
    }
}

fn small(store: &mut Store, study: &Study) {
    let id = store.begin(study, &["loadline".into()]).unwrap().id;
    store.add_trial(&id, &trial(0, 0, 1000)).unwrap();
    store.finish(&id).unwrap();
}

/// A run that goes on.
pub struct Going {
    store: Store,
    id: String,
}

impl Going {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn trial(&mut self, cell: u32, index: u32, ops: u64) {
        self.store.add_trial(&self.id, &trial(cell, index, ops)).unwrap();
    }

    pub fn finish(&mut self) {
        self.store.finish(&self.id).unwrap();
    }
}

/// A server in a thread of its own, which ends with the test.
pub struct Server {
    pub port: u16,
    pub token: Option<String>,
}

/// Serves a home; `words` may hold an address.
pub fn serve(home: &Home, words: &[&str]) -> Server {
    let listen: SocketAddr = words.first().unwrap_or(&"127.0.0.1:0").parse().unwrap();
    let service = Service { home: home.path().to_path_buf(), listen, token: None };
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || service.run(|address| tell.send(address.to_string()).unwrap()).unwrap());
    let address = told.recv().expect("the server says its address");
    let (_, port) = address.split('/').nth(2).unwrap().rsplit_once(':').unwrap();
    let token = address.split_once("token=").map(|(_, token)| token.to_string());
    Server { port: port.parse().unwrap(), token }
}

/// What was answered.
pub struct Answer {
    pub status: u16,
    pub heads: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.heads.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Asks a server.
pub struct Client {
    port: u16,
}

impl Client {
    pub fn of(server: &Server) -> Client {
        Client { port: server.port }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[])
    }

    pub fn ask(&self, method: &str, path: &str, heads: &[&str]) -> Answer {
        self.ask_as(&format!("127.0.0.1:{}", self.port), method, path, heads)
    }

    /// With a Host header.
    pub fn ask_as(&self, host: &str, method: &str, path: &str, heads: &[&str]) -> Answer {
        // HTTP/1.0: the body ends with the connection, and is not in chunks
        let mut stream = self.send(&format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\n"), heads);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let heads =
            lines.filter_map(|line| line.split_once(": ")).map(|(a, b)| (a.to_string(), b.to_string()));
        Answer { status, heads: heads.collect(), body: body.to_string() }
    }

    fn send(&self, begin: &str, heads: &[&str]) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let heads: String = heads.iter().map(|head| format!("{head}\r\n")).collect();
        stream.write_all(format!("{begin}{heads}\r\n").as_bytes()).unwrap();
        stream
    }

    /// Listens to a stream of events.
    pub fn events(&self, path: &str) -> Events {
        let host = format!("127.0.0.1:{}", self.port);
        let stream = self.send(&format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n"), &[]);
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains(" 200 "), "{line}");
        while line != "\r\n" {
            line.clear();
            lines.read_line(&mut line).unwrap();
        }
        Events { lines }
    }
}

/// Events as they come.
pub struct Events {
    lines: BufReader<TcpStream>,
}

impl Events {
    /// The next event as it was sent; waits for it.
    pub fn next(&mut self) -> String {
        let mut event = String::new();
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).unwrap();
            assert!(read > 0, "the stream ended after {event}");
            let is_end = line == "\n";
            // comments keep the connection alive
            if is_end && !event.is_empty() {
                return event;
            }
            if !is_end && !line.starts_with(':') {
                event.push_str(&line);
            }
        }
    }
}
