//! A worker as a child of this process, with shell scripts as workers.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::outcome;
use engine::Event;
use lab::load::LoadSpec;
use lab::protocol::{Message, Request};
use lab::trial::executor::{Failure, StopReason};
use lab::trial::process::{Process, Program};
use lab::trial::supervisor::{Observer, Supervision, WorkersOutcome, execute};

fn request() -> Request {
    let load = LoadSpec::App { name: "w".into(), variables: vec![] };
    Request::new(load, "/".as_ref(), "/".as_ref(), Default::default())
}

/// The event that holds a line.
fn line(text: &str) -> Event {
    Event::Line { text: text.into() }
}

/// Has a program as a worker; `hear` gets what happens in its load.
fn supervise(
    program: &Program,
    deadline: Option<Instant>,
    stop: &AtomicBool,
    hear: &mut dyn FnMut(Event),
) -> Result<WorkersOutcome, Failure> {
    struct Hear<'h>(&'h mut dyn FnMut(Event));
    impl Observer for Hear<'_> {
        fn on_message(&mut self, message: &Message) {
            if let Message::Event { event } = message {
                (self.0)(event.clone());
            }
        }
    }
    let (grace, observer) = (program.grace, &mut Hear(hear));
    let process = Process::new(program, request(), None);
    execute(process, &mut Supervision { stop, deadline, grace, straggling: None, observer })
}

/// Runs a script that may print the outcome by `cat $1`.
fn child(script: &str, deadline: Option<Duration>, stop: &AtomicBool) -> (WorkersOutcome, Vec<Event>) {
    patient_child(script, deadline, PATIENCE, stop)
}

/// Longer than any child needs here that ends by itself.
const PATIENCE: Duration = Duration::from_secs(300);

/// The line of a child that wants the user's wish to end it.
const STOP: &str = "interrupt me";

/// As [`child`], which has so long from the first signal to the last.
fn patient_child(
    script: &str,
    deadline: Option<Duration>,
    grace: Duration,
    stop: &AtomicBool,
) -> (WorkersOutcome, Vec<Event>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("outcome");
    let message = Message::Outcome { outcome: Box::new(outcome(77)) };
    std::fs::write(&file, serde_json::to_string(&message).unwrap() + "\n").unwrap();
    // A shell cannot trap a signal that was ignored when it began, as SIGINT is in what runs in the background.
    let words = ["--default-signal=INT", "/bin/sh", "-c", script, "sh", file.to_str().unwrap()];
    let mut program = Program::new("/usr/bin/env", &words);
    program.grace = grace;
    let mut heard = Vec::new();
    let deadline = deadline.map(|time| Instant::now() + time);
    let departure = supervise(&program, deadline, stop, &mut |event| {
        stop.fetch_or(event == line(STOP), Ordering::Release);
        heard.push(event);
    });
    (departure.unwrap(), heard)
}

fn never() -> AtomicBool {
    AtomicBool::new(false)
}

#[test]
fn the_outcome_is_read_from_between_other_output() {
    let script = r#"read request; echo noise; echo '{"say":"event","event":{"event":"line","text":"careful"}}'; echo raw >&2; cat $1"#;
    let (departure, heard) = child(script, None, &never());
    assert_eq!(
        departure,
        WorkersOutcome { result: Ok(outcome(77)), stopped: None, raw_output: "raw\n".into() }
    );
    assert_eq!(heard, [line("careful")]);
}

#[test]
fn the_request_arrives_whole() {
    let script = r#"read -r request; text=$(printf %s "$request" | tr -d '"'); printf '{"say":"error","message":"%s"}\n' "$text""#;
    let (departure, _) = child(script, None, &never());
    let arrived = departure.result.unwrap_err();
    let sent = serde_json::to_string(&request()).unwrap().replace('"', "");
    // last comes the counter's speed, which only the sender knows
    let (whole, speed) = arrived.rsplit_once(':').unwrap();
    assert_eq!(whole, sent.rsplit_once(':').unwrap().0);
    let speed = speed.strip_suffix('}').unwrap();
    assert!(speed == "null" || speed.parse::<u64>().is_ok(), "{speed}");
}

#[test]
fn an_end_without_a_result_is_an_error_that_says_how_it_ended() {
    let (departure, _) = child("read request; exit 3", None, &never());
    assert_eq!(departure.result, Err("the trial's process ended without a result (exit code 3)".into()));
    let (departure, _) = child("read request; kill -SEGV $$", None, &never());
    assert_eq!(
        departure.result,
        Err("the trial's process ended without a result (killed by signal 11)".into())
    );
    let (departure, _) = child("read request; kill -ABRT $$", None, &never());
    let error = departure.result.unwrap_err();
    assert!(error.ends_with("(killed by signal 6: it gave up, or a library in it did)"), "{error}");
    // a load that maps its files, when one of them is cut
    let (departure, _) = child("read request; kill -BUS $$", None, &never());
    let error = departure.result.unwrap_err();
    assert!(
        error.contains(": a page of a mapped file could not be had, since the file is shorter"),
        "{error}"
    );
}

#[test]
fn a_child_that_takes_no_request_is_an_error() {
    let program = Program::new("/no/such/program", &[]);
    let Err(Failure::Message(message)) = supervise(&program, None, &never(), &mut |_| {}) else { panic!() };
    assert!(message.contains("/no/such/program cannot be started"), "{message}");
}

/// Says that its traps are set.
const READY: &str = r#"read request; echo '{"say":"event","event":{"event":"line","text":"ready"}}'; while :; do sleep 0.01; done"#;

/// The departure of a child whose time is up after its traps are set. On a busy machine the time may be up before; then
/// another child gets more.
fn timed_out(traps: &str, grace: Duration) -> WorkersOutcome {
    for millis in [100, 1000, 10_000, 100_000] {
        let script = format!("{traps}; {READY}");
        let (departure, heard) = patient_child(&script, Some(Duration::from_millis(millis)), grace, &never());
        assert_eq!(departure.stopped, Some(StopReason::TimedOut));
        if !heard.is_empty() {
            return departure;
        }
    }
    panic!("the child never began");
}

#[test]
fn a_time_out_lets_the_child_tell_what_it_has() {
    assert_eq!(timed_out("trap 'cat $1; exit' TERM", PATIENCE).result, Ok(outcome(77)));
}

#[test]
fn a_child_that_does_not_listen_is_killed() {
    let departure = timed_out("trap '' TERM INT", Duration::from_millis(200));
    assert!(departure.result.unwrap_err().contains("killed by signal 9"));
}

#[test]
fn the_users_wish_reaches_the_child_as_sigint() {
    let stop = never();
    let script = format!("trap 'cat $1; exit' INT; {}", READY.replace("ready", STOP));
    let (departure, _) = child(&script, None, &stop);
    assert_eq!((departure.stopped, departure.result), (Some(StopReason::Interrupted), Ok(outcome(77))));
}

#[test]
fn what_a_child_leaves_running_is_killed_and_not_waited_for() {
    // The background process holds both pipes.
    let script = r#"read request; sleep 600 & printf '{"say":"event","event":{"event":"line","text":"%s"}}\n' $!; cat $1"#;
    let start = Instant::now();
    let (departure, heard) = child(script, None, &never());
    assert_eq!(departure.result, Ok(outcome(77)));
    assert!(start.elapsed() < Duration::from_secs(300));
    let [Event::Line { text: pid }] = heard.as_slice() else { panic!("{heard:?}") };
    let gone = || match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // A zombie waits for whoever reaps orphans here.
        Ok(stat) => stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z')),
        Err(_) => true,
    };
    let deadline = Instant::now() + PATIENCE;
    while !gone() {
        assert!(Instant::now() < deadline, "process {pid} still runs");
        std::thread::yield_now();
    }
}

#[test]
fn more_raw_output_than_is_kept_does_not_block() {
    let script = "read request; head -c 3000000 /dev/zero >&2; cat $1";
    let (departure, _) = child(script, None, &never());
    assert_eq!((departure.result.is_ok(), departure.raw_output.len()), (true, 1 << 20));
}
