//! The guest's side: the first process of a guest runs trials as this machine would, and says what they came to.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use camino::Utf8Path;
use guest::init::{self, Channel};
use spec::StackSpec;
use study::Study;
use study::plan;
use study::results::Status;

use crate::load::{self, FREE_BYTES_ASSUMED};
use crate::protocol::{self, GuestJob, Instruction, Message};
use crate::real::RealRunner;
use crate::runner::{Job, Progress, Report, Runner};
use crate::stack_factory::StackFactory;

pub use guest::setup::ARGUMENT;

/// Where a guest's stacks are built.
const WORK: &str = "/work/images";
/// How often it is looked whether a command has ended or is to end.
const TICK: Duration = Duration::from_millis(20);

/// The guest's first process. It does not return.
pub fn main() -> ! {
    let role = std::env::args().nth(2).unwrap_or_default();
    if std::process::id() != 1 {
        host::note!("loadline: this is for loadline's own use: it is the first process of a guest");
        std::process::exit(2);
    }
    match init::begin(&role) {
        Ok(Channel::Lines { from, to }) => serve(from, to),
        Ok(Channel::Once { job }) => once(&job),
        Err(error) => host::note!("loadline: the guest cannot begin: {error}"),
    }
    init::power_off()
}

/// One trial, and its answer when nothing is measured any more.
fn once(job: &[u8]) {
    let answer = match serde_json::from_slice::<GuestJob>(job) {
        Ok(errand) => {
            let stop = AtomicBool::new(false);
            carried_out(&mut None, &errand, &stop, &mut |_| {})
        }
        Err(error) => Message::Error { message: format!("the job cannot be read: {error}") },
    };
    let told = serde_json::to_vec(&answer).map_err(|error| error.to_string());
    if let Err(message) = told.and_then(|bytes| init::answer(&bytes).map_err(|error| error.to_string())) {
        host::note!("loadline: the answer cannot be sent: {message}");
    }
}

/// One trial or command after the other, until the host says that it is enough, or has gone.
fn serve(from: BufReader<std::fs::File>, to: std::fs::File) {
    let stop = Arc::new(AtomicBool::new(false));
    let to = Mutex::new(to);
    let say = |answer: &Message| {
        let Ok(line) = protocol::line(answer) else { return };
        // when nobody listens, the host has ended and QEMU with it
        if let Ok(mut to) = to.lock() {
            let _ = to.write_all(&line);
        }
    };
    let work = listen(from, stop.clone());
    say(&Message::Booted);
    let mut runner = None;
    while let Ok(work) = work.recv() {
        stop.store(false, Ordering::Release);
        let answer = match work {
            Instruction::Trial { job } => {
                let mut tell = |progress| say(&Message::Progress { progress });
                carried_out(&mut runner, &job, &stop, &mut tell)
            }
            Instruction::Command { words, stack } => match command(&words, &stack, &stop, &say) {
                Ok(code) => Message::Exited { code },
                Err(message) => Message::Error { message },
            },
            _ => continue,
        };
        say(&answer);
    }
}

/// Carries out a command of this program, whose lines are told as they come; its exit code.
fn command(
    words: &[String],
    stack: &StackSpec,
    stop: &AtomicBool,
    say: &(impl Fn(&Message) + Sync),
) -> Result<Option<i32>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    guest::devices::load_modules(stack).map_err(|error| text(&error))?;
    let mut command = Command::new(guest::image::PROGRAM);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| text(&error))?;
    let tell = |from: Option<&mut dyn Read>, error: bool| {
        let lines = from.into_iter().flat_map(|from| BufReader::new(from).lines());
        lines.map_while(Result::ok).for_each(|line| say(&Message::Printed { line, error }));
    };
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(|| tell(out.as_mut().map(|pipe| pipe as &mut dyn Read), false));
        scope.spawn(|| tell(err.as_mut().map(|pipe| pipe as &mut dyn Read), true));
        let mut told = false;
        loop {
            if let Some(status) = child.try_wait().map_err(|error| text(&error))? {
                return Ok(status.code());
            }
            if stop.load(Ordering::Acquire) && !told {
                told = true;
                // SAFETY: a plain system call; the child has not been waited for, so the number is its own.
                unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
            }
            std::thread::sleep(TICK);
        }
    })
}

/// Hears what the host asks; the work that it sends.
fn listen(mut from: BufReader<std::fs::File>, stop: Arc<AtomicBool>) -> Receiver<Instruction> {
    let (send, work) = channel();
    std::thread::spawn(move || {
        while let Some(line) = init::next_line(&mut from) {
            match serde_json::from_str(&line) {
                Ok(Instruction::Stop) => stop.store(true, Ordering::Release),
                Ok(Instruction::End) => return,
                Ok(work) => {
                    if send.send(work).is_err() {
                        return;
                    }
                }
                Err(error) => host::note!("loadline: the host said what cannot be read: {error}"),
            }
        }
    });
    work
}

fn carried_out(
    runner: &mut Option<RealRunner>,
    errand: &GuestJob,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Message {
    match carry_out(runner, errand, stop, progress) {
        Ok(report) => Message::Report { report: Box::new(report) },
        Err(message) => Message::Error { message },
    }
}

fn carry_out(
    runner: &mut Option<RealRunner>,
    errand: &GuestJob,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let study = Study::from_stored(&errand.study).map_err(|error| text(&error))?;
    let workload =
        plan::workload_of(&study, &errand.cell).ok_or("the cell's workload is not in the study")?;
    guest::devices::load_modules(&errand.stack).map_err(|error| text(&error))?;
    let machine = load::machine(study.study.memory.map(|limit| limit.0), FREE_BYTES_ASSUMED);
    let load = load::prepare(workload, &errand.cell.parameters, &study.study, machine)
        .map_err(|error| text(&error))?;
    if runner.is_none() {
        let mut site = StackFactory::new(Utf8Path::new(init::HOME), Utf8Path::new(WORK))
            .map_err(|error| text(&error))?;
        site.in_guest = true;
        *runner = Some(RealRunner::new(site, &errand.run).map_err(|error| text(&error))?);
    }
    let Some(runner) = runner else { return Err("no runner".into()) };
    if let Some((reason, remedy)) = runner.unavailable(&errand.stack) {
        return Ok(Report::empty(Status::Unavailable { reason: format!("in the guest: {reason}"), remedy }));
    }
    let job = Job {
        run: &errand.run,
        slot: errand.slot,
        cell: &errand.cell,
        stack: &errand.stack,
        workload,
        load: &load,
        study: &study,
        rate: errand.rate,
        last: false,
    };
    Ok(runner.run(&job, stop, progress))
}
