//! `loadline serve` as a process: the address, a run of the same program watched to its end, Ctrl-C, a port in use.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const WORKLOAD: &str = "define fileset name=files,path=/tmp,size=4k,entries=20,prealloc=100\n\
    define process name=p { thread name=t { flowop statfile name=stat,filesetname=files } }\nrun 60\n";

/// A server, stopped at the latest with the test.
struct Server {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn loadline(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.arg("--home").arg(home).args(words).stdin(Stdio::null());
    command
}

impl Server {
    fn start(home: &Path) -> Server {
        let mut child =
            loadline(home, &["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://127.0.0.1:").and_then(|rest| rest.strip_suffix('/'));
        let port = address.unwrap_or_else(|| panic!("no address: {line}")).parse().unwrap();
        Server { child, out, port }
    }

    fn ask(&self, path: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\n\r\n", self.port).unwrap();
        BufReader::new(stream)
    }

    fn get(&self, path: &str) -> String {
        let mut text = String::new();
        self.ask(path).read_to_string(&mut text).unwrap();
        text
    }
}

/// A run of so many trials of a second each, in the folder of the home.
fn run(home: &Path, trials: &str) -> Command {
    let folder = home.parent().unwrap();
    std::fs::write(folder.join("work.f"), WORKLOAD).unwrap();
    let mut command = loadline(home, &["run", "work.f", "--on", "dir:data", "--for", "1s", "-n", trials]);
    command.current_dir(folder);
    command
}

/// A home that is not there yet, beside a folder for data.
fn place(folder: &Path) -> PathBuf {
    std::fs::create_dir(folder.join("data")).unwrap();
    folder.join("home")
}

#[test]
fn a_run_of_the_program_is_watched_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let home = place(folder.path());
    let first = run(&home, "1").output().unwrap();
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    let server = Server::start(&home);
    assert!(server.get("/").contains("1 run stored"));
    let mut going = run(&home, "6").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // the list is asked again until the second run is in it: it begins as soon as the study is read
    let id = loop {
        assert!(going.try_wait().unwrap().is_none(), "the run ended before it was in the list");
        let list = server.get("/");
        if let Some((_, rest)) = list.split_once("/live\">") {
            let before = &list[..list.len() - rest.len() - "/live\">".len()];
            break before.rsplit_once("/runs/").unwrap().1.to_string();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    // to the end of the stream, which comes with the end of the run
    let events = server.get(&format!("/runs/{id}/events"));
    assert!(going.wait().unwrap().success());
    // of the first trials some may be done when a busy machine comes to the stream
    assert!((0..5).any(|done| events.contains(&format!("Running: {done} of 6"))), "{events}");
    assert!(events.contains("Running: 5 of 6") && events.contains("event: end"), "{events}");
    assert!(server.get(&format!("/runs/{id}/live")).contains("Complete: 6 of 6"));
    let report = server.get(&format!("/runs/{id}"));
    assert!(report.contains("6 of 6 trials") && report.contains("Throughput"), "{report}");
}

#[test]
fn interrupts_end_it_and_leave_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let home = place(folder.path());
    assert!(run(&home, "1").output().unwrap().status.success());
    for signal in ["INT", "TERM"] {
        let mut server = Server::start(&home);
        // a stream that is open does not hold it up
        let _open = server.ask("/runs/last/events");
        let pid = server.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        assert_eq!(server.child.wait().unwrap().code(), Some(0), "{signal}");
        let mut rest = String::new();
        server.out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest.trim(), "Ctrl-C ends it.", "{signal}");
    }
}

#[test]
fn what_cannot_be_is_said_with_what_to_type() {
    let folder = tempfile::tempdir().unwrap();
    let home = place(folder.path());
    let none = loadline(&home, &["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    let said = String::from_utf8(none.stderr).unwrap();
    assert!(said.contains("loadline run"), "{said}");
    assert!(run(&home, "1").output().unwrap().status.success());
    let server = Server::start(&home);
    let listen = format!("127.0.0.1:{}", server.port);
    let second = loadline(&home, &["serve", "--listen", &listen]).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains(&format!("--listen 127.0.0.1:{}", server.port + 1)), "{said}");
}
