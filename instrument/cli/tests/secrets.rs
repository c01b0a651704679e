//! Passwords of addresses: a run against a server that wants one leaves it nowhere.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Place, text};
use needs::needs;

/// With the letter that separates values of `--set`.
const SECRET: &str = "s3cr,et-W0rd";
/// How long a server may take to come.
const PATIENCE: Duration = Duration::from_secs(300);

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Redis with a password on a free port of loopback.
fn redis(folder: &Path) -> (Server, u16) {
    for _ in 0..100 {
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let settings = format!(
            "port {port}\nbind 127.0.0.1\nsave \"\"\nrequirepass \"{SECRET}\"\ndir {}\n",
            folder.display()
        );
        std::fs::write(folder.join("redis.conf"), settings).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(folder.join("redis.conf")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Server(command.spawn().unwrap());
        let up = host::wait::wait_until(PATIENCE, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
                || server.0.try_wait().unwrap().is_some()
        });
        // somebody may have taken the port in between
        if up && server.0.try_wait().unwrap().is_none() {
            return (server, port);
        }
    }
    panic!("no port for Redis");
}

/// All files below a folder, as they lie there and unpacked.
fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files(&path, found),
            kind if kind.is_file() => found.push((path.display().to_string(), std::fs::read(&path).unwrap())),
            _ => {}
        }
    }
}

/// The records of a store, unpacked.
fn records(database: &Path) -> Vec<(String, Vec<u8>)> {
    let store = rusqlite::Connection::open(database).unwrap();
    let mut all = Vec::new();
    for (table, column) in [("runs", "record"), ("trials", "record"), ("trials", "raw_output")] {
        let mut rows = store.prepare(&format!("SELECT {column} FROM {table}")).unwrap();
        let packed: Vec<Vec<u8>> =
            rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        all.extend(
            packed.iter().map(|packed| (format!("{table}.{column}"), zstd::decode_all(&packed[..]).unwrap())),
        );
    }
    all
}

fn holds(bytes: &[u8]) -> bool {
    // as JSON, HTML and TOML may write it, its first letters are the same
    let mark = b"s3cr";
    bytes.windows(mark.len()).any(|window| window == mark)
}

/// Words of all processes that `of` has started.
fn words_of_children(of: u32) -> Vec<String> {
    let tasks = common::names(Path::new(&format!("/proc/{of}/task")));
    let children = tasks
        .iter()
        .map(|task| std::fs::read_to_string(format!("/proc/{of}/task/{task}/children")).unwrap_or_default());
    let children = children.collect::<String>();
    let children = children.split_whitespace().filter_map(|word| word.parse().ok());
    children
        .flat_map(|child: u32| {
            let words = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
            [vec![words], words_of_children(child)].concat()
        })
        .collect()
}

#[test]
fn a_password_is_in_no_record_report_message_or_process_list() {
    needs!(Redis);
    let place = Place::new();
    let server = tempfile::tempdir().unwrap();
    let (_server, port) = redis(server.path());
    let address = |word: &str| format!("redis://:{word}@127.0.0.1:{port}");
    let mut told: Vec<(String, Vec<u8>)> = Vec::new();
    let words = ["run", "ycsb-a", "--set", "recordcount=500", "--on", "dir:.", "--for", "1s", "-n", "1"];
    let more = ["--html", "r.html", "--csv", "csv", "--name", "first", "--address"];
    let mut command = place.command(&[&words[..], &more[..], &[&address(SECRET)]].concat());
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut seen, id) = (Vec::new(), run.id());
    host::wait::wait_until(PATIENCE, || {
        seen.extend(words_of_children(id));
        seen.iter().any(|words| words.contains("trial"))
    });
    told.push(("process list".into(), seen.join("\n").into_bytes()));
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    told.push(("run".into(), [output.stdout, output.stderr].concat()));
    // a study, a sweep, a wrong password, addresses that are none, a mistake beside one
    let study = format!(
        "stacks = ['dir:.']\n[study]\ntrials = 1\nseconds = 0.5\n[[workload]]\napp = 'ycsb-c'\n\
         set = {{ recordcount = 500, address = '{}' }}\n",
        address(SECRET)
    );
    std::fs::create_dir(place.dir.path().join("own")).unwrap();
    std::fs::write(place.dir.path().join("own/study.toml"), study).unwrap();
    let wrong = address("s3cr-wrong");
    let sql = format!("mysql://u:{SECRET}@127.0.0.1:1/d");
    let set = format!("address=\"{}\"", address(SECRET));
    let short = ["--set", "recordcount=500", "--on", "dir:.", "--for", "300ms", "-n", "1"];
    for (words, code) in [
        (&["run", "own/study.toml"][..], 0),
        (&["run", "ycsb-c", "--set", &set], 0),
        (&["run", "ycsb-c", "--address", &wrong], 1),
        (&["run", "oltp-read-only", "--address", &sql], 1),
        (&["run", "ycsb-c", "--set", &set, "--set", "nonsense"], 2),
        (&["run", "ycsb-c", "--set", &set, "--set", "fieldlength=x"], 2),
        (&["run", "ycsb-c", "--address", &format!("http://u:{SECRET}@h")], 2),
        (&["run", "oltp-read-only", "--engine", "postgres", "--address", &sql], 2),
        (&["check", "own/study.toml"], 0),
    ] {
        let of_study = words.iter().any(|word| word.ends_with(".toml"));
        let all = match of_study || words[1].starts_with("oltp") {
            true if of_study => words.to_vec(),
            true => [words, &short[2..]].concat(),
            false => [words, &short].concat(),
        };
        let output = place.loadline(&all);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", text(&output));
        told.push((words.join(" "), [output.stdout, output.stderr].concat()));
    }
    for words in [
        &["report", "first"][..],
        &["report", "first", "--format", "json"],
        &["report", "first", "--html", "again.html"],
        &["export", "first", "--csv", "tables"],
        &["runs"],
        &["compare", "first"],
    ] {
        let output = place.loadline(words);
        told.push((words.join(" "), [output.stdout, output.stderr].concat()));
    }
    std::fs::remove_dir_all(place.dir.path().join("own")).unwrap();
    files(place.dir.path(), &mut told);
    told.extend(records(&place.dir.path().join("home/loadline.db")));
    assert!(told.iter().any(|(name, _)| name.ends_with("r.html")), "there is a report");
    let all: Vec<String> =
        told.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect();
    assert!(
        all.iter().any(|text| text.contains("redis://:***@127.0.0.1")),
        "the address is shown without it"
    );
    let found: Vec<&String> = told.iter().filter(|(_, bytes)| holds(bytes)).map(|(name, _)| name).collect();
    assert!(found.is_empty(), "{found:?}");
    place.is_clean();
}
