//! The programs in the kernel, run for real.

use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use needs::needs;
use recorder::Capture;
use recording::raw::{RawCall, RawEvent};

/// What is recorded of this thread, and of what it makes, while something is done.
fn events(work: impl FnOnce()) -> Vec<RawEvent> {
    let mut capture = Capture::new().unwrap();
    capture.add(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
    work();
    let mut events = Vec::new();
    capture.drain(|event| events.push(event)).unwrap();
    assert_eq!(capture.lost().unwrap(), 0);
    events
}

fn shell(command: &str) -> Vec<RawEvent> {
    events(|| {
        let mut shell = Command::new("sh");
        assert!(shell.args(["-c", command]).stderr(Stdio::null()).status().unwrap().success());
    })
}

fn calls(events: &[RawEvent], number: libc::c_long) -> impl Iterator<Item = &RawCall> {
    events.iter().filter_map(move |event| match event {
        RawEvent::Call(call) if i64::from(call.number) == number => Some(call),
        _ => None,
    })
}

#[test]
fn paths_results_and_times_are_those_of_the_call() {
    needs!(Root, Tracing);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a file");
    let long = directory.path().join("x".repeat(255)).join("y".repeat(255));
    let seen = events(|| {
        std::fs::write(&path, b"hello").unwrap();
        std::fs::rename(&path, path.with_extension("b")).unwrap();
        std::fs::File::open(&long).unwrap_err();
    });
    let bytes = |path: &std::path::Path| Some(path.as_os_str().as_encoded_bytes().to_vec());
    let opens: Vec<&RawCall> = calls(&seen, libc::SYS_openat).collect();
    assert_eq!(opens[0].paths, [bytes(&path), None]);
    assert_eq!((opens[1].paths[0].clone(), opens[1].result), (bytes(&long), -i64::from(libc::ENOENT)));
    let write = calls(&seen, libc::SYS_write).next().unwrap();
    assert_eq!((write.arguments[0] as i64, write.arguments[2], write.result), (opens[0].result, 5, 5));
    assert!(opens[0].begin_ns < opens[0].end_ns && opens[0].end_ns < write.begin_ns);
    let rename = calls(&seen, libc::SYS_rename).chain(calls(&seen, libc::SYS_renameat2)).next().unwrap();
    assert_eq!(rename.paths, [bytes(&path), bytes(&path.with_extension("b"))]);
}

#[test]
fn children_threads_and_programs_are_followed() {
    needs!(Root, Tracing);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    let seen = events(|| {
        let file = std::fs::File::create(&path).unwrap();
        std::thread::scope(|scope| {
            for at in 0..4 {
                let file = &file;
                scope.spawn(move || file.write_all_at(b"x", at).unwrap());
            }
        });
        assert!(Command::new("sh").args(["-c", "(:; (cat)) < /dev/null"]).status().unwrap().success());
    });
    let own = std::process::id();
    let writers: HashMap<u32, &RawCall> =
        calls(&seen, libc::SYS_pwrite64).map(|call| (call.tid, call)).collect();
    assert_eq!(writers.len(), 4);
    assert!(writers.values().all(|call| call.pid == own));
    let forks: Vec<(u32, u32, u32)> = seen
        .iter()
        .filter_map(|event| match event {
            RawEvent::Fork { parent_pid, tid, pid, .. } => Some((*parent_pid, *tid, *pid)),
            _ => None,
        })
        .collect();
    assert_eq!(forks.iter().filter(|(parent, _, pid)| *parent == own && *pid == own).count(), 4, "{forks:?}");
    let shell = forks.iter().find(|(parent, _, pid)| *parent == own && *pid != own).unwrap().2;
    assert!(forks.iter().any(|(parent, tid, pid)| *parent == shell && tid == pid), "{forks:?}");
    let names: Vec<&str> = seen
        .iter()
        .filter_map(|event| match event {
            RawEvent::Exec { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["sh", "cat"]);
    let ended =
        |tid: u32| seen.iter().any(|event| matches!(event, RawEvent::Exit { tid: one, .. } if *one == tid));
    assert!(writers.keys().all(|tid| ended(*tid)) && ended(shell));
}

/// Neither too many nor too few, from the first to the last.
#[test]
fn every_call_is_counted() {
    needs!(Root, Tracing);
    let seen = shell("dd if=/dev/zero of=/dev/null bs=1 count=50000");
    let of = |number| {
        calls(&seen, number)
            .filter(|call| call.arguments[0] < 2 && call.arguments[2] == 1 && call.result == 1)
            .count()
    };
    assert_eq!((of(libc::SYS_read), of(libc::SYS_write)), (50_000, 50_000));
    let ends: Vec<u64> = calls(&seen, libc::SYS_write).map(|call| call.end_ns).collect();
    assert!(ends.is_sorted());
}

/// What the buffer has no room for is counted.
#[test]
fn what_is_lost_is_told() {
    needs!(Root, Tracing);
    let mut capture = Capture::new().unwrap();
    capture.add(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
    let mut dd = Command::new("dd");
    let dd = dd.args(["if=/dev/zero", "of=/dev/null", "bs=1", "count=400000"]).stderr(Stdio::null());
    assert!(dd.status().unwrap().success());
    let (mut seen, mut lost) = (0, 0);
    capture
        .drain(|event| match event {
            RawEvent::Call(call) if call.arguments[2] == 1 => seen += 1,
            RawEvent::Lost(count) => lost += count,
            _ => {}
        })
        .unwrap();
    assert!(lost > 0 && seen > 400_000, "{seen} seen, {lost} lost");
    assert!((800_000..800_200).contains(&(seen + lost)), "{seen} seen, {lost} lost");
}

#[test]
fn others_are_not_recorded() {
    needs!(Root, Tracing);
    let directory = tempfile::tempdir().unwrap();
    let mut capture = Capture::new().unwrap();
    let mut file = std::fs::File::create(directory.path().join("f")).unwrap();
    file.write_all(b"x").unwrap();
    let mut count = 0;
    capture.drain(|_| count += 1).unwrap();
    assert_eq!(count, 0);
}

/// A program that a thread beside the first one starts is the process from then on.
#[test]
fn a_program_that_a_second_thread_starts_is_followed() {
    needs!(Root, Tracing, Cc);
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("second.c");
    let text = "#include <pthread.h>\n#include <unistd.h>\n\
                static void *second(void *path) { execl(\"/bin/cat\", \"cat\", path, (char *)0); return 0; }\n\
                int main(int count, char **words) { pthread_t id; pthread_create(&id, 0, second, words[count - 1]);\n\
                for (;;) pause(); }\n";
    std::fs::write(&source, text).unwrap();
    let program = directory.path().join("second");
    let mut cc = Command::new("cc");
    assert!(cc.arg("-pthread").arg("-o").arg(&program).arg(&source).status().unwrap().success());
    let seen = events(|| {
        let mut second = Command::new(&program);
        assert!(second.arg(&source).stdout(Stdio::null()).status().unwrap().success());
    });
    let of_cat = |call: &&RawCall| call.paths[0].as_deref() == Some(source.as_os_str().as_encoded_bytes());
    let opened = calls(&seen, libc::SYS_openat).find(of_cat).expect("cat is followed");
    let exit = seen.iter().any(|event| matches!(event, RawEvent::Exit { tid, .. } if *tid == opened.tid));
    assert!(exit && opened.tid == opened.pid);
}
