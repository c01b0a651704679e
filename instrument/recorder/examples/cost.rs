//! What recording costs: a command without and with its calls recorded, in turns; `cost ROUNDS COMMAND...`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn run(words: &[String], capture: Option<&mut recorder::Capture>) -> (Duration, u64) {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::null());
    let Some(capture) = capture else {
        let begin = Instant::now();
        assert!(command.status().expect("the command starts").success());
        return (begin.elapsed(), 0);
    };
    capture.add(rustix::thread::gettid().as_raw_nonzero().get() as u32).expect("a thread can be added");
    let mut events = 0;
    let begin = Instant::now();
    let mut child = command.spawn().expect("the command starts");
    while child.try_wait().expect("it can be waited for").is_none() {
        capture.drain(|_| events += 1).expect("events can be read");
        std::thread::sleep(Duration::from_millis(1));
    }
    (begin.elapsed(), events)
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let rounds: usize = words[1].parse().expect("a number of rounds");
    for _ in 0..rounds {
        let (alone, _) = run(&words[2..], None);
        let mut capture = recorder::Capture::new().expect("this machine can record");
        let (recorded, events) = run(&words[2..], Some(&mut capture));
        let lost = capture.lost().expect("the number can be read");
        let each = (recorded.as_secs_f64() - alone.as_secs_f64()) * 1e9 / events as f64;
        println!("{alone:?} alone, {recorded:?} recorded, {events} events, {lost} lost, {each:.0} ns each");
    }
}
