//! `reproduce`: published evaluations as one command.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum, ValueHint};
use lab::record::{Answer, Run, Status};
use lab::session::{self, Ending};
use lab::study::Study;
use lab::{RealRunner, Runner, Site, Store};
use reproduce::betrfs::scale::Machine;
use reproduce::betrfs::{
    self, Grid, Request, Sizes, claims, columns, csv, html, published, rows, svg, terminal,
};
use stack::Availability;
use stats::Rules;

use crate::options::Options;
use crate::progress::Progress;
use crate::report::write;
use crate::screen::{self, Exit, bad_input};

/// Options of `reproduce`.
#[derive(Debug, Args)]
#[command(after_help = "\
Thirteen rows (file systems, versions of BetrFS) by eight micro-benchmarks (Table 3) and eleven applications (Figure 2),
published claims judged by ratio. Each result is stored as it ends: --resume goes on after an interruption. Programs that
are missing make their columns unavailable; scripts/setup.sh dovecot-imapd rsync git installs them. docs/reproduce-betrfs.md
says what is run and how it differs from the original.

Examples:
  loadline reproduce betrfs --quick
  loadline reproduce betrfs --quick --rows all --columns micro
  loadline reproduce betrfs --rows ext4,betrfs --columns micro,rsync --html betrfs.html --csv results
  loadline reproduce betrfs --scale paper --device /dev/sdx --erase /dev/sdx
  loadline reproduce betrfs --show last --html betrfs.html")]
pub struct Reproduce {
    /// What
    #[arg(value_enum)]
    pub what: What,
    /// Small sizes, some minutes: the same as --scale quick
    #[arg(long, conflicts_with = "scale")]
    pub quick: bool,
    /// Sizes
    #[arg(long, value_enum, default_value_t = Size::Default, value_name = "SCALE")]
    pub scale: Size,
    /// The device of every row: an emulated SSD, image:SIZE, or a real disk [default: 860evo]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// The real device may be formatted; all data on it is lost
    #[arg(long, value_name = "DEVICE", value_hint = ValueHint::FilePath)]
    pub erase: Option<String>,
    /// Rows, such as ext4,xfs,betrfs; `all` adds BetrFS v0.4 and the steps from it to v0.6
    #[arg(long, value_name = "ROWS", default_value = "ext4,btrfs,xfs,f2fs,zfs,betrfs")]
    pub rows: String,
    /// Columns, such as micro or seq-write,grep,mailserver
    #[arg(long, value_name = "COLUMNS", default_value = "micro,applications")]
    pub columns: String,
    /// Trials of each load [default: 5 or 3 by load and scale]
    #[arg(long, short = 'n', value_name = "N")]
    pub trials: Option<u32>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Go on with the latest unfinished run of the same settings
    #[arg(long)]
    pub resume: bool,
    /// Show a stored run instead of running
    #[arg(long, value_name = "RUN")]
    pub show: Option<String>,
    /// The paper's values, as lines of row,column,value, to be shown beside ours
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub published: Option<PathBuf>,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Write the artifact's thirteen CSV files and the drawings to this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub csv: Option<PathBuf>,
    /// Directory for image files [default: images/ in the home of results]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub work_dir: Option<PathBuf>,
    /// No progress, only results
    #[arg(short, long)]
    pub quiet: bool,
}

/// What can be reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// BetrFS v0.6 (EuroSys 2022): Table 3 and Figure 2
    Betrfs,
}

/// How large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Size {
    /// Some minutes
    Quick,
    /// Within an hour
    Default,
    /// The original sizes as far as the machine has room
    Paper,
}

impl From<Size> for reproduce::Scale {
    fn from(size: Size) -> Self {
        match size {
            Size::Quick => reproduce::Scale::Quick,
            Size::Default => reproduce::Scale::Default,
            Size::Paper => reproduce::Scale::Paper,
        }
    }
}

/// Runs, or shows a stored run.
pub fn reproduce(options: &Options, arguments: &Reproduce) -> anyhow::Result<Exit> {
    let What::Betrfs = arguments.what;
    let home = crate::run::home(options)?;
    if let Some(id) = &arguments.show {
        let run = Store::open(&home)?.load_run(id).map_err(bad_input)?;
        tell(options, arguments, &run)?;
        return Ok(Exit::Done);
    }
    let study = study(arguments)?;
    let work = arguments.work_dir.clone().unwrap_or_else(|| home.join("images"));
    if !can_here(&study, &home, &work)? {
        return Ok(Exit::CannotHere);
    }
    let mut store = Store::open(&home)?;
    let mut run = crate::run::begin(&mut store, &study, arguments.resume)?;
    let mut runner = RealRunner::new(&home, &work, &run.id)?;
    runner.site.builder.erase = arguments.erase.as_ref().map(|device| device.as_str().into());
    crate::run::show_devices(&runner, &study)?;
    crate::run::warn_of_leftovers(&home);
    provide(&study, &home, arguments.quiet);
    let stop = crate::run::stop_on_signals(runner.journal().clone())?;
    let mut progress = Progress::new(arguments.quiet, screen::color_on_stderr(options));
    let here = study.stacks.iter().filter(|stack| runner.unavailable(stack).is_none()).count();
    let share = here as f64 / study.stacks.len().max(1) as f64;
    progress.announce(&run, share * session::estimate_seconds(&run, &mut runner)?);
    let ending =
        session::execute(&mut run, &mut store, &mut runner, &stop, &mut |notice| progress.notice(&notice))?;
    progress.finish();
    let undone = runner.journal().undo();
    if undone.has_failures() {
        eprintln!("loadline: some things could not be taken down; `loadline doctor` tries again\n{undone}");
    }
    let answers = tell(options, arguments, &run)?;
    Ok(exit_of(&run, ending, &answers))
}

fn study(arguments: &Reproduce) -> anyhow::Result<Study> {
    let scale: reproduce::Scale =
        if arguments.quick { reproduce::Scale::Quick } else { arguments.scale.into() };
    let machine = Machine {
        memory_bytes: lab::real::machine(None, 0).ram_bytes,
        device_bytes: arguments.device.as_deref().and_then(device_bytes),
    };
    let sizes = Sizes::new(scale, machine);
    let emulated = format!("860evo:{}M", sizes.device_bytes >> 20);
    let request = Request {
        rows: rows::choose(&arguments.rows).map_err(bad_input)?,
        columns: columns::choose(&arguments.columns).map_err(bad_input)?,
        sizes,
        device: arguments.device.clone().unwrap_or(emulated),
        trials: arguments.trials,
        seed: arguments.seed,
    };
    betrfs::study(&request).map_err(bad_input)
}

/// Whether any row can be had here; if not, says why.
fn can_here(study: &Study, home: &Path, work: &Path) -> anyhow::Result<bool> {
    let path = |path| camino::Utf8Path::from_path(path).context("a path is not UTF-8");
    let site = Site::new(path(home)?, path(work)?)?;
    let mut reasons = Vec::new();
    for stack in &study.stacks {
        match site.availability(stack) {
            Availability::Available => return Ok(true),
            Availability::Unavailable(why) => {
                reasons.push(format!("{stack}: {}; {}", why.reason, why.remedy))
            }
        }
    }
    reasons.iter().for_each(|reason| eprintln!("loadline: {reason}"));
    Ok(false)
}

/// The size of a real device.
fn device_bytes(device: &str) -> Option<u64> {
    let path = camino::Utf8Path::new(device);
    path.is_absolute()
        .then(|| stack::BlockInfo::read(&stack::Host::system(), path).size_bytes)
        .filter(|bytes| *bytes > 0)
}

/// Makes sources before the first trial, so that the estimate holds; what cannot be had shows in its trials.
fn provide(study: &Study, home: &Path, quiet: bool) {
    for workload in &study.workloads {
        let text = workload.text.as_deref().unwrap_or_default();
        let Ok(Some(app)) = apps::App::parse(text, &[]) else { continue };
        let mut tell = |line: &str| {
            if !quiet {
                eprintln!("{}: {line}", workload.label());
            }
        };
        if let Err(error) = app.provide(home, &mut tell) {
            eprintln!("{}: unavailable: {error}", workload.label());
        }
    }
}

/// Shows and writes everything; returns the answers to the claims.
fn tell(options: &Options, arguments: &Reproduce, run: &Run) -> anyhow::Result<Vec<Answer>> {
    let study = Study::from_stored(&run.study)?;
    let grid = Grid::new(run);
    let judged = claims::judge(&grid, &Rules::default());
    let mut values = published::examples();
    if let Some(file) = &arguments.published {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        values =
            published::parse(&text).map_err(|error| bad_input(format!("{}: {error}", file.display())))?;
    }
    let lines = Sizes::of_study(&study).map(|sizes| sizes.lines()).unwrap_or_default();
    let style = screen::style(options);
    screen::print(&terminal::report(&grid, &judged, &values, &lines, style.color))?;
    if let Some(file) = &arguments.html {
        write(file, &html::page(&grid, &judged, &values, &lines, &facts(run, &study)))?;
    }
    if let Some(directory) = &arguments.csv {
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let date = run.started.strftime("%Y-%m-%d").to_string();
        let drawings = [("table3.svg", svg::table3(&grid)), ("figure2.svg", svg::figure2(&grid))];
        let drawings = drawings.into_iter().map(|(name, text)| (name.to_string(), text));
        for (name, text) in csv::files(&grid, &date).into_iter().chain(drawings) {
            write(&directory.join(name), &text)?;
        }
    }
    screen::print(&format!("run {}: `loadline reproduce betrfs --show {0}` shows it again", run.id))?;
    Ok(judged.into_iter().map(|one| one.answer).collect())
}

/// What a reader must know of a run.
fn facts(run: &Run, study: &Study) -> Vec<String> {
    let done = run.trials.iter().filter(|trial| trial.status.is_done()).count();
    let mut facts = vec![
        format!(
            "run {} of {}, loadline {}",
            run.id,
            run.started.strftime("%-d %B %Y, %H:%M UTC"),
            run.loadline
        ),
        format!(
            "{done} trials; stacks: {}",
            study.stacks.iter().map(stack::StackSpec::label).collect::<Vec<_>>().join(" ")
        ),
        format!("command: {}", run.command_line.join(" ")),
    ];
    let environment = run.trials.iter().find_map(|trial| trial.environment.as_ref());
    let release = environment.and_then(|environment| environment.kernel.release.as_ref());
    facts.extend(release.map(|release| format!("kernel {release}")));
    let outcomes = run.trials.iter().filter_map(|trial| trial.outcome.as_ref());
    let mut notes: Vec<&String> = outcomes.flat_map(|outcome| &outcome.notes).collect();
    notes.sort();
    notes.dedup();
    facts.extend(notes.into_iter().cloned());
    facts
}

fn exit_of(run: &Run, ending: Ending, answers: &[Answer]) -> Exit {
    if ending == Ending::Interrupted {
        return Exit::Interrupted;
    }
    let failed = |status: &Status| matches!(status, Status::Failed { .. } | Status::TimedOut { .. });
    if run.trials.iter().any(|trial| failed(&trial.status)) || answers.contains(&Answer::NotReproduced) {
        Exit::Failed
    } else if !run.trials.iter().any(|trial| trial.status.is_done()) {
        Exit::CannotHere
    } else if answers.contains(&Answer::CannotTell) {
        Exit::CannotTell
    } else {
        Exit::Done
    }
}
