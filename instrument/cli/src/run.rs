//! `run`: from a command line to stored results.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use journal::Journal;
use lab::check::Checked;
use lab::session::{self, Ending};
use lab::{RealRunner, Site, Store};
use record::results::{Run, Status};
use record::study::{Bytes, CommandLine, Io, Percent, Seconds, Settings, Share, Study};
use spec::StackSpec;
use stats::Rules;

use crate::options::{self, Options};
use crate::programs::{self, Permission};
use crate::progress::Progress;
use crate::screen::{self, Exit, bad_input};

/// Trials of each cell when nothing is said.
const TRIALS: u32 = 3;

/// Runs, and tells what came of it.
pub fn run(options: &Options, arguments: &options::Run) -> anyhow::Result<Exit> {
    let home = home(options)?;
    let study = study(arguments)?;
    let checked = check_workloads(&study, arguments.allow_system)?;
    let work = arguments.work_dir.clone().unwrap_or_else(|| home.join("images"));
    let site = site(&home, &work, arguments.erase.as_deref())?;
    let workloads = checked.iter().map(|one| (one.workload.as_str(), &one.model));
    lab::overwrite::check(&site, &study, workloads, &mut |line| eprintln!("{line}")).map_err(bad_input)?;
    let mut store = Store::open(&home)?;
    let mut run = begin(&mut store, &study, arguments.resume)?;
    let mut runner = RealRunner::new(&home, &work, &run.id)?;
    runner.site = site;
    warn_of_leftovers(&home);
    let stop = stop_on_signals(runner.journal().clone())?;
    let mut progress = Progress::new(arguments.quiet, screen::color_on_stderr(options));
    progress.announce(&run, session::estimate_seconds(&run, &mut runner)?);
    let ending =
        session::execute(&mut run, &mut store, &mut runner, &stop, &mut |notice| progress.notice(&notice))?;
    progress.finish();
    if !study.study.keep {
        // Nothing is left by now; this closes the journal.
        let undone = runner.journal().undo();
        if undone.has_failures() {
            eprintln!(
                "loadline: some things could not be taken down; `loadline doctor` tries again\n{undone}"
            );
        }
    }
    tell(options, arguments, &run)?;
    exit_of(&run, ending)
}

/// Where results are kept.
pub fn home(options: &Options) -> anyhow::Result<PathBuf> {
    Ok(match &options.home {
        Some(home) => std::path::absolute(home)?,
        None => lab::store::default_home()?,
    })
}

fn study(arguments: &options::Run) -> anyhow::Result<Study> {
    let is_study = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "toml");
    if !arguments.files.iter().any(is_study) {
        let settings = overrides(Settings { trials: TRIALS, ..Settings::default() }, arguments)?;
        let on = arguments.on.clone().map_or_else(current_directory, Ok)?;
        let line = CommandLine { files: arguments.files.clone(), on, set: arguments.set.clone(), settings };
        return lab::read::command_line(&line).map_err(bad_input);
    }
    let [file] = arguments.files.as_slice() else {
        return Err(bad_input("give one study (*.toml), or workloads (*.f), but not both"));
    };
    if !arguments.set.is_empty() {
        return Err(bad_input("--set is for workloads; a study has [parameters] and set = {...} of its own"));
    }
    let mut study = lab::read::study(file).map_err(bad_input)?;
    study.study = overrides(study.study, arguments)?;
    if let Some(on) = &arguments.on {
        study.stacks = StackSpec::parse_list(on).map_err(|error| bad_input(format!("--on: {error}")))?;
    }
    Ok(study)
}

fn current_directory() -> anyhow::Result<String> {
    let directory = std::env::current_dir().context("the current directory")?;
    // Quoted, since a path may hold a comma.
    Ok(format!("dir:\"{}\"", directory.display()))
}

/// What the command line says goes before what the study says.
fn overrides(mut settings: Settings, arguments: &options::Run) -> anyhow::Result<Settings> {
    let seconds = |text: &Option<String>, name: &str| -> anyhow::Result<Option<Seconds>> {
        let Some(text) = text else { return Ok(None) };
        let length =
            workload::size::parse_duration(text).map_err(|error| bad_input(format!("{name}: {error}")))?;
        Ok(Some(Seconds::new(length.as_secs_f64()).map_err(|error| bad_input(format!("{name}: {error}")))?))
    };
    settings.seconds = seconds(&arguments.length, "--for")?.or(settings.seconds);
    settings.warmup = seconds(&arguments.warmup, "--warmup")?.or(settings.warmup);
    settings.timeout = seconds(&arguments.timeout, "--timeout")?.or(settings.timeout);
    settings.trials = arguments.trials.unwrap_or(settings.trials);
    settings.seed = arguments.seed.unwrap_or(settings.seed);
    settings.ops = arguments.ops.or(settings.ops);
    settings.rate = arguments.rate.or(settings.rate);
    if let Some(io) = &arguments.io {
        settings.io = io.parse::<Io>().map_err(|error| bad_input(format!("--io: {error}")))?;
    }
    if let Some(memory) = &arguments.memory {
        let bytes =
            workload::size::parse_bytes(memory).map_err(|error| bad_input(format!("--memory: {error}")))?;
        settings.memory = Some(Bytes(bytes));
    }
    if let Some(percent) = arguments.compress {
        settings.compress = percent_of("--compress", percent)?;
    }
    if let Some(percent) = arguments.duplicate {
        settings.duplicate = percent_of("--duplicate", percent)?;
    }
    if let Some(percent) = arguments.stop_early {
        settings.stop_early =
            Some(Share::new(percent / 100.0).map_err(|error| bad_input(format!("--stop-early: {error}")))?);
    }
    if let Some(title) = &arguments.title {
        settings.title.clone_from(title);
    }
    settings.cold |= arguments.cold;
    settings.explain |= arguments.explain;
    settings.strict |= arguments.strict;
    settings.keep |= arguments.keep;
    settings.allow_system |= arguments.allow_system;
    Ok(settings)
}

fn percent_of(option: &str, percent: u8) -> anyhow::Result<Percent> {
    if percent > 100 {
        return Err(bad_input(format!("{option} {percent}: a share lies between 0 and 100")));
    }
    Ok(Percent(percent))
}

/// Where stacks are built; `erase` is the one thing that may be overwritten.
pub fn site(home: &Path, work: &Path, erase: Option<&str>) -> anyhow::Result<Site> {
    let path = |path| camino::Utf8Path::from_path(path).context("a path is not UTF-8");
    let mut site = Site::new(path(home)?, path(work)?)?;
    site.builder.erase = erase.map(camino::absolute_utf8).transpose().context("--erase")?;
    Ok(site)
}

/// Reads every workload as a trial would, so that a mistake shows now, and programs that nobody allowed.
fn check_workloads(study: &Study, by_option: bool) -> anyhow::Result<Vec<Checked>> {
    let machine = lab::real::machine(study.study.memory.map(|bytes| bytes.0), 8 << 30);
    let checked = lab::check::workloads(study, machine).map_err(bad_input)?;
    for one in checked.iter().filter(|one| !one.warnings.is_empty()) {
        eprintln!("{}", one.warnings.trim_end());
    }
    let permission = match (by_option, study.study.allow_system) {
        (true, _) => Permission::Option,
        (false, true) => Permission::Study,
        (false, false) => Permission::Missing,
    };
    programs::admit(checked.iter().flat_map(|one| &one.programs), permission)?;
    Ok(checked)
}

/// A new run of a study, or the latest unfinished one.
pub fn begin(store: &mut Store, study: &Study, resume: bool) -> anyhow::Result<Run> {
    let command_line: Vec<String> = std::env::args().collect();
    if !resume {
        return Ok(store.begin(study, &command_line)?);
    }
    match store.unfinished(&study.hash())?.first() {
        Some(unfinished) => {
            eprintln!(
                "resuming run {}: {} of {} trials are done",
                unfinished.id, unfinished.trials_done, unfinished.trials_planned
            );
            Ok(store.resume(&unfinished.id)?)
        }
        None => {
            eprintln!("no unfinished run of this study with these settings: a new one begins");
            Ok(store.begin(study, &command_line)?)
        }
    }
}

/// Says when an earlier run left things behind.
pub fn warn_of_leftovers(home: &Path) {
    let Some(home) = camino::Utf8Path::from_path(home) else { return };
    let leftovers = Journal::leftovers(&lab::real::journal_folder(home)).unwrap_or_default();
    if !leftovers.is_empty() {
        eprintln!("an earlier run was killed and left things behind: `loadline doctor` cleans up");
    }
}

/// The first signal ends the run with partial results, the second one at once; both undo what was made.
pub fn stop_on_signals(journal: Arc<Journal>) -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            if seen.swap(true, Ordering::AcqRel) {
                eprintln!("\nloadline: ended at once; taking down what was made");
                journal.undo();
                std::process::exit(i32::from(Exit::Interrupted.code()));
            }
            eprintln!("\nloadline: ending this trial; once more ends at once");
        }
    })?;
    Ok(stop)
}

fn tell(options: &Options, arguments: &options::Run, run: &Run) -> anyhow::Result<()> {
    let style = screen::style(options);
    screen::print(&report::terminal::summary(run, style))?;
    let judgements = record::judge::claims(run, &Rules::default())?;
    if !judgements.is_empty() {
        screen::print(&report::terminal::claims(&judgements, style))?;
    }
    if let Some(file) = &arguments.html {
        crate::report::write(file, &report::html::page(run, &judgements)?)?;
        screen::print(&format!("report: {}", std::path::absolute(file)?.display()))?;
    }
    screen::print(&format!("run {}: `loadline report {0} --html report.html` shows it in full", run.id))
}

fn exit_of(run: &Run, ending: Ending) -> anyhow::Result<Exit> {
    if ending == Ending::Interrupted {
        return Ok(Exit::Interrupted);
    }
    let bad = |trial: &record::results::Trial| {
        matches!(trial.status, Status::Failed { .. } | Status::TimedOut { .. })
    };
    if run.trials.iter().any(bad) {
        return Ok(Exit::Failed);
    }
    if !run.trials.iter().any(|trial| trial.status.is_done()) {
        return Ok(Exit::CannotHere);
    }
    let empty =
        |trial: &record::results::Trial| trial.outcome.as_ref().is_none_or(|outcome| outcome.io_ops() == 0);
    if run.trials.iter().filter(|trial| trial.status.is_done()).all(empty) {
        eprintln!(
            "loadline: not one I/O operation was done: see `starved` in the report, and `loadline check`"
        );
        return Ok(Exit::Failed);
    }
    let judgements = record::judge::claims(run, &Rules::default())?;
    Ok(if judgements.is_empty() { Exit::Done } else { Exit::of_code(record::judge::exit_code(&judgements)) })
}
