//! `record`: what a program does to its files, as a file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueHint};
use indicatif::{ProgressBar, ProgressStyle};
use recorder::{Progress, RecordOptions, Recorded, RecorderError, Subject};

use crate::console::{self, Exit, bad_input};

/// Options of `record`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each system call on a file is recorded at its end: thread, call, file, offset, bytes, flags, result, begin and duration; of data
nothing. Sockets, pipes, /proc, /sys, /dev and /run are left out. It needs root, and ends with the command. Requests of io_uring
and libaio are counted and not recorded (--help of your database says how to turn them off: innodb_use_native_aio=0).

Examples:
  loadline record -o app.trace -- git gc                             a command and all that it starts
  loadline record -o db.trace --pid 4711 --for 30s                   a process that runs, and what it starts
  loadline record -o db.trace --under /var/lib/mysql --pid 4711      only files below a directory
  loadline record -o app.trace --anonymous -- ./app                  no name of a file or directory is kept
  loadline describe app.trace > app.f; loadline run app.f --on xfs,btrfs
  loadline run app.trace --on xfs,btrfs --speed max                  exactly what was recorded, again
Exit codes: those of the command; with --pid 0; 3 this machine cannot; 126, 127 the command cannot be started.")]
pub struct Record {
    /// The recording; another recording of that name is replaced, no other file is
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// A process that runs, with all its threads and what they start; may be repeated
    #[arg(long, value_name = "PID", conflicts_with = "command", required_unless_present = "command")]
    pid: Vec<u32>,
    /// End after so long; a command is asked to end then
    #[arg(long = "for", value_name = "TIME")]
    length: Option<String>,
    /// Only files below this directory; may be repeated
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    under: Vec<PathBuf>,
    /// Replace each name of a directory or file by a hash; that there is an extension, and names of programs, are kept
    #[arg(long)]
    anonymous: bool,
    /// No progress, only the result
    #[arg(short, long)]
    quiet: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Records.
pub fn record(arguments: &Record) -> anyhow::Result<Exit> {
    let length = arguments.length.as_deref().map(units::parse_duration).transpose();
    let length = length.map_err(|error| bad_input(format!("--for: {error}")))?;
    let under: anyhow::Result<Vec<_>> = arguments.under.iter().map(|one| directory(one)).collect();
    let under = under?.concat();
    let subject = match arguments.pid.is_empty() {
        true => Subject::Command(arguments.command.clone()),
        false => Subject::Processes(arguments.pid.clone()),
    };
    let with_command = arguments.pid.is_empty();
    let options = RecordOptions { subject, length, under, anonymous: arguments.anonymous };
    check_replaceable(&arguments.output)?;
    let stop = signals(with_command)?;
    let bar = spinner(arguments.quiet);
    let mut show = |progress: Progress| bar.set_message(shown(progress));
    let output = PendingFile::create(&arguments.output)?;
    let recorded =
        recorder::record(&options, BufWriter::new(&output.file), &|| stop.load(Ordering::Acquire), &mut show);
    bar.finish_and_clear();
    let recorded = match recorded {
        Ok(recorded) => recorded,
        Err(error) => return ended(error),
    };
    let bytes = output.keep()?;
    if !arguments.quiet {
        host::note!("{}", told(&arguments.output, &recorded, bytes));
    }
    match recorded.status {
        Some(status)
            if !stop.load(Ordering::Acquire)
                && length.is_none_or(|length| ended_before(&recorded, length)) =>
        {
            std::process::exit(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
        }
        _ if with_command && stop.load(Ordering::Acquire) => Ok(Exit::Interrupted),
        _ => Ok(Exit::Done),
    }
}

fn ended_before(recorded: &Recorded, length: Duration) -> bool {
    Duration::from_nanos(recorded.summary.length_ns) < length
}

/// A recording that is being written beside its name, which it gets when it is whole: a failure leaves what was there.
struct PendingFile<'n> {
    file: File,
    name: &'n Path,
    pending: PathBuf,
    kept: bool,
}

impl<'n> PendingFile<'n> {
    fn create(name: &'n Path) -> anyhow::Result<Self> {
        let mut pending = name.as_os_str().to_owned();
        pending.push(format!(".{}.part", std::process::id()));
        let pending = PathBuf::from(pending);
        let made = File::create_new(&pending);
        let file = made.map_err(|error| bad_input(format!("{}: {error}", pending.display())))?;
        Ok(PendingFile { file, name, pending, kept: false })
    }

    /// Gives it its name; its bytes.
    fn keep(mut self) -> anyhow::Result<u64> {
        let bytes = self.file.metadata()?.len();
        std::fs::rename(&self.pending, self.name).with_context(|| format!("{}", self.name.display()))?;
        self.kept = true;
        Ok(bytes)
    }
}

impl Drop for PendingFile<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.pending);
        }
    }
}

/// A recording replaces only another recording.
fn check_replaceable(path: &Path) -> anyhow::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.is_file() {
        return Err(bad_input(format!("{} is no regular file; name one", path.display())));
    }
    let file = File::open(path).map_err(|error| bad_input(format!("{}: {error}", path.display())))?;
    let mut magic = Vec::new();
    let length = recording::format::MAGIC.len() as u64;
    let read = file.take(length).read_to_end(&mut magic);
    if read.is_ok() && magic == recording::format::MAGIC.as_bytes() {
        return Ok(());
    }
    Err(bad_input(format!("{} is there and is no recording; name another file", path.display())))
}

/// A directory as calls may name it: as it was given, and without links.
fn directory(path: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let real =
        path.canonicalize().map_err(|error| bad_input(format!("--under {}: {error}", path.display())))?;
    let given = std::path::absolute(path)?;
    let mut names: Vec<Vec<u8>> = [real, given].map(|name| name.into_os_string().into_vec()).into();
    names.dedup();
    Ok(names)
}

/// The wish to end. Of a command the terminal's Ctrl-C is its own, and its end ends the recording.
fn signals(with_command: bool) -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(libc::SIGTERM, stop.clone())?;
    signal_hook::flag::register(libc::SIGHUP, stop.clone())?;
    let interrupt = if with_command { Arc::default() } else { stop.clone() };
    signal_hook::flag::register(libc::SIGINT, interrupt)?;
    Ok(stop)
}

fn spinner(quiet: bool) -> ProgressBar {
    let bar = crate::progress::bar(quiet);
    bar.set_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

fn shown(progress: Progress) -> String {
    let lost = if progress.lost > 0 { format!(", {} LOST", progress.lost) } else { String::new() };
    format!("recording: {:.1} s, {} operations{lost}", progress.elapsed.as_secs_f64(), progress.operations)
}

/// What was recorded, and what was not.
fn told(name: &Path, recorded: &Recorded, bytes: u64) -> String {
    let summary = recorded.summary;
    let mut lines = vec![format!(
        "{}: {} operations of {} threads on {} paths in {:.2} s, {}",
        name.display(),
        summary.operations,
        recorded.threads,
        recorded.paths,
        summary.length_ns as f64 / 1e9,
        host::bytes::human(bytes),
    )];
    if summary.lost > 0 {
        lines.push(format!(
            "LOST: {} calls, the buffer was full: what follows from this recording is too small",
            summary.lost
        ));
    }
    if summary.unseen_requests > 0 {
        lines.push(format!(
            "not recorded: {} requests of io_uring or libaio, or calls of msync; turn them off in the program to see them as calls",
            summary.unseen_requests
        ));
    }
    if recorded.unknown > 0 {
        lines.push(format!(
            "not recorded: {} calls on descriptors that nothing is known of",
            recorded.unknown
        ));
    }
    if recorded.compat > 0 {
        lines.push(format!("not recorded: {} calls of 32-bit programs", recorded.compat));
    }
    if recorded.dropped_faults > 0 {
        lines.push(format!(
            "not recorded: {} page faults on mapped files that are not known",
            recorded.dropped_faults
        ));
    }
    if !recorded.sees_faults {
        lines.push(
            "reads through mappings are not seen: this kernel has no tracepoint mm_filemap_fault".into(),
        );
    }
    lines.join("\nloadline: ")
}

fn ended(error: RecorderError) -> anyhow::Result<Exit> {
    match error {
        RecorderError::Unavailable(why) | RecorderError::Trace(trace::TraceError::Unavailable(why)) => {
            host::note!("loadline: {why}");
            Ok(Exit::CannotHere)
        }
        RecorderError::Start { program, source } => Err(console::cannot_start(&program, &source)),
        RecorderError::Process { .. } | RecorderError::OtherFiles { .. } => Err(bad_input(error)),
        error => Err(error.into()),
    }
}
