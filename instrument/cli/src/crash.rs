//! `crash`: what a power cut may leave, brought up and judged.

mod guest;
mod program;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blockdev::Launcher;
use camino::Utf8Path;
use crash::database::{Cuts, DatabaseOptions};
use crash::workload::{NAMES, builtin};
use crash::{CrashError, CrashOptions, Load, Outcome, Progress, Verdict};
use engine::{Control, RunOptions, Stage};
use indicatif::ProgressBar;
use journal::Journal;
use spec::StackSpec;
use workload::Workload;

use crate::cleanup::{utf8, with_journal};
use crate::console::{self, Exit, bad_input};
use crate::options::{Crash, Options};

/// Longest name of a folder for a stack.
const NAME_MAX: usize = 200;

/// Checks each stack.
pub fn crash(options: &Options, arguments: &Crash) -> anyhow::Result<Exit> {
    let stacks = StackSpec::parse_list(&arguments.on).map_err(|error| bad_input(format!("--on: {error}")))?;
    if let Some(engines) = &arguments.engine {
        if let Some(spec) = stacks.iter().find(|spec| spec.guest().is_some()) {
            return Err(bad_input(format!("{spec}: a database's power is cut on this machine only")));
        }
        let parsed = engines.split(',').map(|word| word.trim().parse::<sql::Engine>());
        let engines = parsed.collect::<Result<Vec<_>, _>>();
        let engines = engines.map_err(|error| bad_input(format!("--engine: {error}")))?;
        return with_journal(options, "crash", |home, journal, stop| {
            databases(arguments, &stacks, &engines, home, journal, stop)
        })
        .map_err(console::no_verdict);
    }
    with_journal(options, "crash", |home, journal, stop| check(arguments, stacks, home, journal, stop))
        .map_err(console::no_verdict)
}

/// An error ends it all; a violation that was found before is worth more.
fn ended_by(error: anyhow::Error, worst: Exit) -> anyhow::Result<Exit> {
    if worst != Exit::Failed || console::is_broken_pipe(&error) {
        return Err(error);
    }
    host::note!("loadline: {}", workload::address::redact(&format!("{error:#}")));
    Ok(worst)
}

fn check(
    arguments: &Crash,
    stacks: Vec<StackSpec>,
    home: &Utf8Path,
    journal: &Arc<Journal>,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Exit> {
    let mut worst = Exit::Done;
    let several = stacks.len() > 1;
    for (number, spec) in stacks.into_iter().enumerate() {
        let checked = match spec.guest() {
            Some(_) => guest::check(arguments, &spec, home, journal, stop),
            None => {
                let folder = several.then(|| format!("{}-{}", number + 1, file_name(&spec)));
                run_on_host(arguments, spec, folder.as_deref(), home, journal, stop)
            }
        };
        let exit = match checked {
            Ok(exit) => exit,
            Err(error) => return ended_by(error, worst),
        };
        // a violation is worth more than anything else
        if worst.code() != Exit::Failed.code() && exit.code() != Exit::Done.code() {
            worst = exit;
        }
        if stop.load(Ordering::Acquire) {
            worst = Exit::Interrupted;
            break;
        }
    }
    Ok(worst)
}

/// A stack as the name of a folder.
fn file_name(spec: &StackSpec) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "@,:=._+".contains(c) { c } else { '-' };
    spec.to_string().chars().map(plain).take(NAME_MAX).collect()
}

/// Checks a stack on this machine; `folder` is its own one of several in the directory of what is kept.
fn run_on_host(
    arguments: &Crash,
    spec: StackSpec,
    folder: Option<&str>,
    home: &Utf8Path,
    journal: &Arc<Journal>,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Exit> {
    let mut load = match arguments.program.is_empty() {
        true => load(arguments, stop)?,
        false => Load::Program(program::load(arguments)?),
    };
    let mut asked = resolve_options(arguments, spec, home)?;
    if let (Some(keep), Some(folder)) = (&mut asked.keep, folder) {
        keep.push(folder);
    }
    let (bar, quiet) = (crate::progress::bar(arguments.quiet), arguments.quiet);
    let checked = crash::run(&asked, &mut load, journal, stop, &mut |progress| {
        if !quiet {
            show(&bar, progress);
        }
    });
    bar.finish_and_clear();
    Ok(match checked {
        Ok(verdict) => {
            console::print(&format!("{verdict}\n"))?;
            exit_of(&verdict)
        }
        Err(CrashError::Program { what }) => {
            return Err(bad_input(format!("{}: {what}{}", asked.spec, program::hint(&arguments.program))));
        }
        Err(error @ (CrashError::BadOption { .. } | CrashError::BesideProgram { .. })) => {
            return Err(bad_input(format!("{}: {error}", asked.spec)));
        }
        Err(error) => match error.unavailable() {
            Some(why) => {
                host::note!("loadline: {}: {}; {}", asked.spec, why.reason, why.remedy);
                Exit::CannotHere
            }
            None if stop.load(Ordering::Acquire) => {
                host::note!("loadline: {}: interrupted: {error}", asked.spec);
                Exit::Interrupted
            }
            None => return Err(anyhow::Error::from(error).context(asked.spec.to_string())),
        },
    })
}

/// Cuts the power under each engine on each stack.
fn databases(
    arguments: &Crash,
    stacks: &[StackSpec],
    engines: &[sql::Engine],
    home: &Utf8Path,
    journal: &Arc<Journal>,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Exit> {
    let mut worst = Exit::Done;
    for (spec, engine) in stacks.iter().flat_map(|spec| engines.iter().map(move |engine| (spec, *engine))) {
        let asked = DatabaseOptions {
            spec: spec.clone(),
            engine,
            flush: match arguments.flush {
                0 => sql::Flush::EachSecond,
                1 => sql::Flush::EachCommit,
                _ => sql::Flush::WrittenEachCommit,
            },
            cuts: arguments.cuts,
            terminals: arguments.terminals,
            seed: arguments.seed,
            home: home.to_owned(),
            launcher: Launcher::this_program()?,
            work_dir: arguments.work_dir.clone().map(utf8).transpose()?,
        };
        let bar = crate::progress::bar(arguments.quiet);
        let mut cuts = Cuts::new(&asked);
        let checked = crash::database::run(
            &asked,
            journal,
            stop,
            &mut |line| {
                if !arguments.quiet {
                    bar.set_message(format!("{engine}: {line}"));
                }
            },
            &mut cuts,
        );
        bar.finish_and_clear();
        // what was found stands, whatever ended it
        if checked.is_ok() || cuts.cuts > 0 {
            console::print(&format!("{cuts}\n"))?;
        }
        if !cuts.is_clean() {
            worst = Exit::Failed;
        }
        match checked {
            Ok(()) => {}
            Err(CrashError::Database(sql::SqlError::Unavailable { reason, remedy })) => {
                host::note!("loadline: {engine}: {reason}; {remedy}");
                worst = unavailable_exit(worst);
            }
            Err(error) => match error.unavailable() {
                Some(why) => {
                    host::note!("loadline: {spec}: {}; {}", why.reason, why.remedy);
                    worst = unavailable_exit(worst);
                }
                None if stop.load(Ordering::Acquire) => {
                    host::note!("loadline: {engine} on {spec}: interrupted: {error}");
                }
                None => {
                    return ended_by(
                        anyhow::Error::from(error).context(format!("{engine} on {spec}")),
                        worst,
                    );
                }
            },
        }
        if stop.load(Ordering::Acquire) {
            return Ok(Exit::Interrupted);
        }
    }
    Ok(worst)
}

/// This machine cannot do one of several; a violation found in another says more.
fn unavailable_exit(worst: Exit) -> Exit {
    if worst.code() == Exit::Failed.code() { worst } else { Exit::CannotHere }
}

fn exit_of(verdict: &Verdict) -> Exit {
    match verdict.outcome() {
        Outcome::Clean => Exit::Done,
        Outcome::Violated => Exit::Failed,
        Outcome::Nothing => Exit::CannotTell,
    }
}

fn resolve_options(arguments: &Crash, spec: StackSpec, home: &Utf8Path) -> anyhow::Result<CrashOptions> {
    let mut asked = CrashOptions::new(spec, home, Launcher::this_program()?);
    asked.states = arguments.states;
    asked.seed = arguments.seed;
    asked.jobs = arguments.jobs;
    asked.strict = arguments.strict;
    asked.order_only = arguments.order_only;
    asked.program = Some(asked.launcher.program.clone());
    asked.work_dir = arguments.work_dir.clone().map(utf8).transpose()?;
    asked.keep = arguments.keep.clone().map(utf8).transpose()?;
    asked.budget =
        arguments.budget.as_deref().map(|text| crate::arg_parsers::length("--budget", text)).transpose()?;
    Ok(asked)
}

/// A built-in workload, or a file of Filebench's language.
fn load(arguments: &Crash, stop: &Arc<AtomicBool>) -> anyhow::Result<Load> {
    let name = arguments.workload.as_str();
    if let Some(script) = builtin(name, arguments.seed) {
        return Ok(Load::Script(script));
    }
    if !Path::new(name).exists() {
        let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        return Err(bad_input(format!("{name}: neither a file nor one of {}", known.join(", "))));
    }
    let length = crate::arg_parsers::length("--for", &arguments.length)?;
    let first = crate::explain::load(Path::new(name), arguments.allow_system)?;
    let again = first.clone();
    let (seconds, seed, allow_system) = (length.as_secs_f64(), arguments.seed, arguments.allow_system);
    let stop = stop.clone();
    let stage = move |workload: &Workload, root: &Utf8Path, stage: Stage| {
        let options =
            RunOptions { stage, seconds: Some(seconds), seed, allow_system, ..RunOptions::default() };
        let control = Control::new();
        // the engine tells something several times a second
        let ended = engine::run(workload, root.as_std_path(), &options, &control, &mut |_| {
            if stop.load(Ordering::Acquire) {
                control.interrupt();
            }
        });
        match ended.map_err(|error| error.to_string())?.ended {
            stats::Ended::Failed { message } => Err(message),
            _ => Ok(()),
        }
    };
    Ok(Load::Custom {
        name: name.to_owned(),
        prepare: Box::new({
            let stage = stage.clone();
            move |root| stage(&first, root, Stage::Prepare)
        }),
        run: Box::new(move |root| stage(&again, root, Stage::Measure)),
    })
}

fn show(bar: &ProgressBar, progress: Progress) {
    match progress {
        Progress::Recording => bar.set_message("recording the workload"),
        Progress::Checking { checked, of, failed } => {
            bar.set_length(of as u64);
            bar.set_position(checked as u64);
            bar.set_message(format!("states, {failed} failed"));
        }
        Progress::Shrinking { tried } => bar.set_message(format!("shrinking, {tried} states tried")),
    }
}
