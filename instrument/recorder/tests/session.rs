//! Whole recordings of real programs.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use needs::needs;
use recorder::{RecordOptions, Recorded, RecorderError, Subject, record, record_work};
use recording::format::FileKind;
use recording::{Call, Item, Operation, Reader};

fn options(subject: Subject, under: &Path) -> RecordOptions {
    let under = under.canonicalize().unwrap().into_os_string().into_encoded_bytes();
    RecordOptions { subject, length: None, under: vec![under], anonymous: false }
}

fn shell(script: &str) -> Subject {
    Subject::Command(["sh", "-ec", script].map(OsString::from).to_vec())
}

fn recorded(options: &RecordOptions) -> (Recorded, Book) {
    let mut bytes = Vec::new();
    let recorded = record(options, &mut bytes, &|| false, &mut |_| {}).unwrap();
    (recorded, Book::read(&bytes))
}

/// A recording, read.
#[derive(Default)]
struct Book {
    names: Vec<String>,
    paths: Vec<String>,
    found: HashMap<String, FileKind>,
    opened: Vec<String>,
    operations: Vec<Operation>,
}

impl Book {
    fn read(bytes: &[u8]) -> Book {
        let mut book = Book::default();
        for item in Reader::new(bytes).unwrap() {
            match item.unwrap() {
                Item::Thread { name, .. } => book.names.push(name),
                Item::Path(path) => book.paths.push(String::from_utf8(path).unwrap()),
                Item::Found { path, kind } => {
                    book.found.insert(book.paths[path as usize].clone(), kind);
                }
                Item::Inherited { path, .. } => book.opened.push(book.paths[path as usize].clone()),
                Item::Operation(operation) => {
                    if operation.call == Call::Open && operation.succeeded() {
                        book.opened.push(book.paths[operation.path.unwrap() as usize].clone());
                    }
                    book.operations.push(operation);
                }
                Item::Lost(_) | Item::End(_) => {}
            }
        }
        book
    }

    /// Operations of a kind: the file's name, offset and bytes.
    fn of(&self, call: Call) -> Vec<(&str, u64, u64)> {
        let file = |one: &Operation| {
            let path = match (one.path, one.handle) {
                (Some(path), _) => &self.paths[path as usize],
                (None, Some(handle)) => &self.opened[handle as usize],
                (None, None) => panic!("{one:?} names no file"),
            };
            path.rsplit('/').next().unwrap()
        };
        self.operations
            .iter()
            .filter(|one| one.call == call)
            .map(|one| (file(one), one.offset, one.bytes))
            .collect()
    }

    fn found(&self, name: &str) -> FileKind {
        let found = self.found.iter().find(|(path, _)| path.rsplit('/').next() == Some(name));
        *found.unwrap_or_else(|| panic!("nothing was found of {name}")).1
    }
}

#[test]
fn a_shell_and_what_it_starts() {
    needs!(Root, Tracing);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("old"), b"0123456789").unwrap();
    let script = format!(
        "cd {}; exec 3>> log; echo one >&3; (echo two >&3); cat old old > new; mkdir d; mv new d/newer; rm old; \
         dd if=d/newer of=/dev/null bs=8 skip=1 2> /dev/null",
        directory.path().display()
    );
    let (recorded, book) = recorded(&options(shell(&script), directory.path()));
    assert!(recorded.status.unwrap().success());
    assert_eq!((recorded.summary.lost, recorded.summary.operations), (0, book.operations.len() as u64));
    assert_eq!(book.of(Call::Write), [("log", 0, 4), ("log", 4, 4), ("new", 0, 10), ("new", 10, 10)]);
    let reads: Vec<(&str, u64)> =
        book.of(Call::Read).iter().map(|(file, offset, _)| (*file, *offset)).collect();
    assert_eq!(
        reads,
        [("old", 0), ("old", 10), ("old", 0), ("old", 10), ("newer", 8), ("newer", 16), ("newer", 20)]
    );
    assert_eq!(book.of(Call::Unlink), [("old", 0, 0)]);
    assert_eq!(book.found("old"), FileKind::File(10));
    assert_eq!(
        (book.found("log"), book.found("new"), book.found("d")),
        (FileKind::Absent, FileKind::Absent, FileKind::Absent)
    );
    assert!(
        ["sh", "cat", "mv", "rm", "dd"].iter().all(|name| book.names.iter().any(|one| one == name)),
        "{:?}",
        book.names
    );
}

/// What a process has open before it is recorded is known by its path and position.
#[test]
fn a_process_that_runs() {
    needs!(Root, Tracing);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    let script = format!("exec 3> {}; echo before >&3; read go; echo after >&3; read end", path.display());
    let mut child = Command::new("sh")
        .args(["-ec", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while std::fs::read(&path).unwrap_or_default() != b"before\n" {
        std::thread::yield_now();
    }
    let mut stdin = child.stdin.take();
    let options = options(Subject::Processes(vec![child.id()]), directory.path());
    let mut bytes = Vec::new();
    let recorded = record(&options, &mut bytes, &|| false, &mut |_| {
        // the process is recorded by now
        if let Some(mut stdin) = stdin.take() {
            stdin.write_all(b"go\nend\n").unwrap();
        }
        let _ = child.try_wait();
    });
    assert!(recorded.unwrap().status.is_none());
    let book = Book::read(&bytes);
    assert_eq!(book.of(Call::Write), [("f", 7, 6)]);
    assert_eq!(book.opened.len(), 1);
}

#[test]
fn work_of_our_own() {
    needs!(Root, Tracing);
    let directory = tempfile::tempdir().unwrap();
    let options = options(Subject::Processes(Vec::new()), directory.path());
    let mut bytes = Vec::new();
    let work = || {
        std::thread::scope(|scope| {
            for name in ["a", "b", "c"] {
                let path = directory.path().join(name);
                scope.spawn(move || std::fs::write(path, name).unwrap());
            }
        });
        7
    };
    let (recorded, value) = record_work(&options, &mut bytes, work).unwrap();
    assert_eq!((value, recorded.threads), (7, 3));
    let mut writes =
        Book::read(&bytes).of(Call::Write).iter().map(|one| one.0.to_string()).collect::<Vec<_>>();
    writes.sort();
    assert_eq!(writes, ["a", "b", "c"]);
}

#[test]
fn an_end_before_the_command_s() {
    needs!(Root, Tracing);
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(shell("sleep 60"), directory.path());
    options.length = Some(Duration::from_millis(50));
    let (recorded, _) = recorded(&options);
    assert!(!recorded.status.unwrap().success());
    assert!((50_000_000..30_000_000_000).contains(&recorded.summary.length_ns));
}

#[test]
fn what_cannot_be_recorded_is_told() {
    needs!(Root, Tracing);
    let directory = tempfile::tempdir().unwrap();
    let told = |subject| record(&options(subject, directory.path()), Vec::new(), &|| false, &mut |_| {});
    let none = told(Subject::Command(vec!["/no/such/program".into()]));
    assert!(matches!(none, Err(RecorderError::Start { .. })), "{none:?}");
    // the highest number that the kernel allows is no process
    let none = told(Subject::Processes(vec![1 << 22]));
    assert!(matches!(none, Err(RecorderError::Process { .. })), "{none:?}");
}

/// A disk that is full ends the recording, and the command with it.
#[test]
fn a_recording_that_cannot_be_written_ends() {
    needs!(Root, Tracing);
    let directory = tempfile::tempdir().unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let told =
        record(&options(shell("while :; do : > x; done"), directory.path()), full, &|| false, &mut |_| {});
    assert!(matches!(told, Err(RecorderError::Write(_))), "{told:?}");
}
