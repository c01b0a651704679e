//! `crash`: what a power cut may leave, brought up and judged.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blockdev::Launcher;
use camino::Utf8Path;
use crash::workload::{NAMES, builtin};
use crash::{CrashOptions, Load, Outcome, Progress, Verdict};
use engine::{Control, RunOptions, Stage};
use indicatif::ProgressBar;
use journal::Journal;
use spec::StackSpec;
use workload::Workload;

use crate::making::{utf8, with_journal};
use crate::options::{Crash, Options};
use crate::screen::{self, Exit, bad_input};

/// Checks each stack.
pub fn crash(options: &Options, arguments: &Crash) -> anyhow::Result<Exit> {
    let stacks = StackSpec::parse_list(&arguments.on).map_err(|error| bad_input(format!("--on: {error}")))?;
    with_journal(options, "crash", |home, journal, stop| check(arguments, stacks, home, journal, stop))
}

fn check(
    arguments: &Crash,
    stacks: Vec<StackSpec>,
    home: &Utf8Path,
    journal: &Arc<Journal>,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Exit> {
    let mut worst = Exit::Done;
    for spec in stacks {
        let mut load = load(arguments, stop)?;
        let asked = asked(arguments, spec, home)?;
        let (bar, quiet) = (crate::progress::bar(arguments.quiet), arguments.quiet);
        let checked = crash::run(&asked, &mut load, journal, stop, &mut |progress| {
            if !quiet {
                show(&bar, progress);
            }
        });
        bar.finish_and_clear();
        let exit = match checked {
            Ok(verdict) => {
                screen::print(&format!("{verdict}\n"))?;
                exit_of(&verdict)
            }
            Err(error) => match error.unavailable() {
                Some(why) => {
                    eprintln!("loadline: {}: {}; {}", asked.spec, why.reason, why.remedy);
                    Exit::CannotHere
                }
                None if stop.load(Ordering::Acquire) => {
                    eprintln!("loadline: {}: interrupted: {error}", asked.spec);
                    Exit::Interrupted
                }
                None => return Err(anyhow::Error::from(error).context(asked.spec.to_string())),
            },
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

fn exit_of(verdict: &Verdict) -> Exit {
    match verdict.outcome() {
        Outcome::Clean => Exit::Done,
        Outcome::Violated => Exit::Failed,
        Outcome::Nothing => Exit::CannotTell,
    }
}

fn asked(arguments: &Crash, spec: StackSpec, home: &Utf8Path) -> anyhow::Result<CrashOptions> {
    let mut asked = CrashOptions::new(spec, home, Launcher::this_program()?);
    asked.states = arguments.states;
    asked.seed = arguments.seed;
    asked.jobs = arguments.jobs;
    asked.strict = arguments.strict;
    asked.order_only = arguments.order_only;
    asked.program = Some(asked.launcher.program.clone());
    asked.work_dir = arguments.work_dir.clone().map(utf8).transpose()?;
    asked.keep = arguments.keep.clone().map(utf8).transpose()?;
    let budget = arguments.budget.as_deref().map(workload::size::parse_duration).transpose();
    asked.budget = budget.map_err(|error| bad_input(format!("--budget: {error}")))?;
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
    let length = workload::size::parse_duration(&arguments.length)
        .map_err(|error| bad_input(format!("--for: {error}")))?;
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
