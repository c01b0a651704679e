//! `explain`: where the time of each fsync goes, what the page cache did for each file, what FUSE requests cost.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use engine::{Control, RunOptions, Stage};
use lab::load::started;
use lab::stack_factory::{BuiltStack, StackFactory};
use probe::fsync::Recording;
use report::fsync::{artifact, flame, svg, terminal};
use spec::StackSpec;
use study::fsync::{Summary, summary};
use workload::Workload;

use crate::cleanup::with_journal;
use crate::console::{self, Exit, bad_input};
use crate::options::{Explain, ExplainCache, ExplainFsync, ExplainFuse, Options, Watched};
use crate::programs::{self, Permission};
use crate::report::write;

/// Bytes that are appended before each fsync.
const APPEND_BYTES: usize = 4096;

/// Explains.
pub fn explain(options: &Options, what: &Explain) -> anyhow::Result<Exit> {
    match what {
        Explain::Fsync(arguments) => fsync(options, arguments),
        Explain::Cache(arguments) => cache(options, arguments),
        Explain::Fuse(arguments) => fuse(options, arguments),
    }
}

fn fsync(options: &Options, arguments: &ExplainFsync) -> anyhow::Result<Exit> {
    let spec: StackSpec = arguments.on.parse().map_err(|error| bad_input(format!("--on: {error}")))?;
    let wanted = Fsyncs {
        count: arguments.count,
        warmup: 0,
        job: arguments
            .job
            .as_deref()
            .map(|job| load_with(job, &arguments.set, arguments.allow_system))
            .transpose()?,
        seconds: seconds(&arguments.length)?,
        allow_system: arguments.allow_system,
    };
    let (recorded, note) = on_stack(options, &spec, |built| {
        let recorded = wanted.record(built.path().as_std_path())?;
        Ok((recorded, built.ssd_status().and_then(|status| lab::real::fua_note(&status))))
    })?;
    match recorded {
        Ok(recording) => print_recording(arguments, &spec, &recording, note),
        Err(error) => explain_unavailable(error.unavailable(), &error),
    }
}

/// What makes the fsyncs that are recorded.
pub(crate) struct Fsyncs {
    /// Without a job: so many appends, each with its fsync.
    pub(crate) count: u64,
    /// So many appends before them that are not recorded.
    pub(crate) warmup: u64,
    pub(crate) job: Option<Workload>,
    /// How long the job runs.
    pub(crate) seconds: f64,
    pub(crate) allow_system: bool,
}

/// The fsyncs on a stack that is built for them.
pub(crate) fn fsyncs_on(options: &Options, spec: &StackSpec, wanted: &Fsyncs) -> anyhow::Result<Recorded> {
    on_stack(options, spec, |built| wanted.record(built.path().as_std_path()))
}

/// Bytes of trace that are kept: some five million events.
const TRACE_BYTES_MAX: u64 = 256 << 20;

/// Stack, load and seconds.
fn resolve_request(watched: &Watched) -> anyhow::Result<(StackSpec, Workload, f64)> {
    let spec = watched.on.parse().map_err(|error| bad_input(format!("--on: {error}")))?;
    Ok((spec, load_with(&watched.job, &watched.set, watched.allow_system)?, seconds(&watched.length)?))
}

fn cache(options: &Options, arguments: &ExplainCache) -> anyhow::Result<Exit> {
    let allow = arguments.watched.allow_system;
    let (spec, workload, length) = resolve_request(&arguments.watched)?;
    on_stack(options, &spec, |built| {
        let root = built.path().as_std_path();
        run_stage(&workload, root, Stage::Prepare, length, allow)?;
        if !arguments.warm {
            built.remount_cold()?;
        }
        let measured = || run_stage(&workload, root, Stage::Measure, length, allow);
        match probe::cache::record(root, TRACE_BYTES_MAX, measured) {
            Ok((recording, measured)) => {
                measured.context("the explained work")?;
                show_cache(arguments, &spec, &recording, root)
            }
            Err(error) => explain_unavailable(error.unavailable(), &error),
        }
    })
}

fn show_cache(
    arguments: &ExplainCache,
    spec: &StackSpec,
    recording: &analysis::cache::Recording,
    root: &Path,
) -> anyhow::Result<Exit> {
    if recording.lost > 0 {
        host::note!("loadline: {} trace events were lost; the figures are too small", recording.lost);
    }
    if recording.ended_early {
        host::note!(
            "loadline: the recording was full before the workload ended; the figures are of its beginning"
        );
    }
    if arguments.json {
        console::print(&serde_json::to_string_pretty(&recording.account)?)?;
        return Ok(Exit::Done);
    }
    let table = report::cache_table::table(recording, root, arguments.files);
    console::print(&format!("page cache of {spec}\n{table}"))?;
    Ok(Exit::Done)
}

fn fuse(options: &Options, arguments: &ExplainFuse) -> anyhow::Result<Exit> {
    let allow = arguments.watched.allow_system;
    let (spec, workload, length) = resolve_request(&arguments.watched)?;
    on_stack(options, &spec, |built| {
        let root = built.path().as_std_path();
        run_stage(&workload, root, Stage::Prepare, length, allow)?;
        let control = Control::with_diaries();
        let measured = || run_controlled(&workload, root, Stage::Measure, length, allow, &control);
        match probe::fuse::record(root, TRACE_BYTES_MAX, measured) {
            Ok((recording, measured)) => {
                let outcome = measured.context("the explained work")?;
                show_fuse(arguments, &spec, &recording, &account_of(&recording, &outcome, &control))
            }
            Err(error) => explain_unavailable(error.unavailable(), &error),
        }
    })
}

/// The requests beside what the load's threads did.
fn account_of(
    recording: &analysis::fuse::Recording,
    outcome: &stats::Outcome,
    control: &Control,
) -> analysis::fuse::Account {
    let of_thread = |diary: engine::ThreadDiary| {
        let operation = |entry: engine::diary::Entry| analysis::fuse::Operation {
            flowop: entry.line,
            start_ns: entry.start_ns,
            end_ns: entry.end_ns,
        };
        (diary.tid, diary.entries.into_iter().map(operation).collect())
    };
    let flowop = |op: &stats::OpOutcome| analysis::fuse::Flowop {
        name: op.name.clone(),
        operations: op.ops,
        total_ns: u64::try_from(op.service.sum()).unwrap_or(u64::MAX),
    };
    let threads = control.diaries().into_iter().map(of_thread).collect();
    let flowops: Vec<analysis::fuse::Flowop> = outcome.ops.iter().map(flowop).collect();
    analysis::fuse::account(&recording.requests, &threads, &flowops)
}

fn show_fuse(
    arguments: &ExplainFuse,
    spec: &StackSpec,
    recording: &analysis::fuse::Recording,
    account: &analysis::fuse::Account,
) -> anyhow::Result<Exit> {
    if recording.lost > 0 {
        host::note!("loadline: {} trace events were lost; the counts are too small", recording.lost);
    }
    if recording.ended_early {
        host::note!(
            "loadline: the recording was full before the workload ended; the requests are of its beginning, so \
             `elsewhere` is too large: use a shorter --for"
        );
    }
    if arguments.json {
        console::print(&serde_json::to_string_pretty(account)?)?;
        return Ok(Exit::Done);
    }
    console::print(&format!("FUSE requests of {spec}\n{}", report::fuse_table::tables(account)))?;
    Ok(Exit::Done)
}

/// A machine that cannot trace is told so, anything else is wrong input.
pub(crate) fn explain_unavailable(
    unavailable: Option<&host::Unavailable>,
    error: &impl std::fmt::Display,
) -> anyhow::Result<Exit> {
    match unavailable {
        Some(why) => {
            host::note!("loadline: {}; {}", why.reason, why.remedy);
            Ok(Exit::CannotHere)
        }
        None => Err(bad_input(error)),
    }
}

pub(crate) fn seconds(text: &str) -> anyhow::Result<f64> {
    Ok(crate::arg_parsers::length("--for", text)?.as_secs_f64())
}

/// Runs one stage of a workload in this process.
pub(crate) fn run_stage(
    workload: &Workload,
    root: &Path,
    stage: Stage,
    seconds: f64,
    allow_system: bool,
) -> anyhow::Result<()> {
    run_controlled(workload, root, stage, seconds, allow_system, &Control::new()).map(|_| ())
}

fn run_controlled(
    workload: &Workload,
    root: &Path,
    stage: Stage,
    seconds: f64,
    allow_system: bool,
    control: &Control,
) -> anyhow::Result<stats::Outcome> {
    let options = RunOptions { stage, seconds: Some(seconds), allow_system, ..RunOptions::default() };
    let outcome = engine::run(workload, root, &options, control, &mut |_| {})?;
    match outcome.ended {
        stats::Ended::Failed { message } => Err(anyhow::anyhow!(message)),
        _ => Ok(outcome),
    }
}

/// Builds the stack, works on it, and takes it down whatever came of the work.
pub(crate) fn on_stack<T>(
    options: &Options,
    spec: &StackSpec,
    work: impl FnOnce(&BuiltStack) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    with_journal(options, "explain", |home, journal, _| {
        let built = StackFactory::new(home, &home.join("images"))?.build(spec, journal)?;
        let worked = work(&built);
        let down = built.teardown();
        let worked = worked?;
        down?;
        Ok(worked)
    })
}

pub(crate) type Recorded = Result<Recording, probe::fsync::RecordError>;

impl Fsyncs {
    fn record(&self, root: &Path) -> anyhow::Result<Recorded> {
        let Some(workload) = &self.job else {
            let mut file = OpenOptions::new().append(true).create(true).open(root.join("explained"))?;
            let mut work = |count: u64| -> std::io::Result<()> {
                for _ in 0..count {
                    file.write_all(&[0x5a; APPEND_BYTES])?;
                    file.sync_all()?;
                }
                Ok(())
            };
            work(self.warmup)?;
            return worked(probe::fsync::record(root, || work(self.count)));
        };
        let run = |stage| run_stage(workload, root, stage, self.seconds, self.allow_system);
        run(Stage::Prepare)?;
        worked(probe::fsync::record(root, || run(Stage::Measure)))
    }
}

/// What went wrong in the work goes before what was recorded.
fn worked<E: Into<anyhow::Error>>(
    recorded: Result<(Recording, Result<(), E>), probe::fsync::RecordError>,
) -> anyhow::Result<Recorded> {
    Ok(match recorded {
        Ok((recording, work)) => {
            work.map_err(Into::into).context("the explained work")?;
            Ok(recording)
        }
        Err(error) => Err(error),
    })
}

/// Reads a workload; one that starts programs only when that is allowed.
pub(crate) fn load(file: &Path, allow_system: bool) -> anyhow::Result<Workload> {
    load_with(file, &[], allow_system)
}

/// The same with variables, each as `name=value`.
fn load_with(file: &Path, set: &[String], allow_system: bool) -> anyhow::Result<Workload> {
    let set = crate::arg_parsers::variables(set)?;
    let text = lab::read::text(file).map_err(bad_input)?.into_bytes();
    let name = file.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
    let permission = if allow_system { Permission::Option } else { Permission::Missing };
    load_text(text, name, &file.display().to_string(), set, permission)
}

/// The workload of a text in Filebench's language, which is `shown` so in messages.
pub(crate) fn load_text(
    text: Vec<u8>,
    name: String,
    shown: &str,
    set: Vec<(String, String)>,
    permission: Permission,
) -> anyhow::Result<Workload> {
    let settings = wml::Settings { machine: lab::load::machine(None, 2 << 30), set, name };
    match wml::load(&text, &settings) {
        Ok(loaded) => {
            programs::check_permission(&started(&loaded, shown, &text), permission)?;
            Ok(loaded.workload)
        }
        Err(errors) => Err(bad_input(errors.render(shown, &text, false).trim_end())),
    }
}

fn print_recording(
    arguments: &ExplainFsync,
    spec: &StackSpec,
    recording: &Recording,
    note: Option<String>,
) -> anyhow::Result<Exit> {
    let breakdowns = recording.breakdowns();
    if recording.lost > 0 {
        host::note!("loadline: {} trace events were lost; some fsyncs may be missing", recording.lost);
    }
    if breakdowns.is_empty() {
        host::note!("loadline: no fsync was seen on {spec}");
        return Ok(Exit::Failed);
    }
    let typical = summary::typical(breakdowns);
    if let Some(file) = &arguments.svg
        && let Some(typical) = typical
    {
        write(file, &svg::waterfall(typical))?;
    }
    if let Some(file) = &arguments.flame {
        let label = format!("fsync on {spec}");
        if let Some(drawing) = flame::flame(&Summary::of(breakdowns), &label) {
            write(file, &drawing.file(&label))?;
        }
    }
    if let Some(file) = &arguments.table {
        write(file, &artifact::trace_table(&recording.commands()))?;
    }
    if arguments.json {
        console::print(&serde_json::to_string_pretty(breakdowns)?)?;
        return Ok(Exit::Done);
    }
    let mut text = format!("fsync on {spec}\n{}", terminal::table(&Summary::of(breakdowns)));
    if let Some(note) = note {
        text += &format!("  ({note})\n");
    }
    if let Some(typical) = typical {
        text += &format!("\nThe fsync of median length:\n{}", terminal::waterfall(typical));
    }
    text += &format!("\n{}", artifact::four_lines(breakdowns));
    console::print(&text)?;
    Ok(Exit::Done)
}
