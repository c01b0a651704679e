//! `reproduce`: published evaluations as one command.

mod betrfs;
mod crossprefetch;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum, ValueHint};
use lab::Store;
use lab::session::Ending;
use record::results::{Answer, Run, Status};
use record::study::Study;

use crate::options::Options;
use crate::report::write;
use crate::run::{Launch, run_study};
use crate::screen::{self, Exit, bad_input};

/// Options of `reproduce`.
#[derive(Debug, Args)]
#[command(after_help = "\
betrfs: thirteen rows (file systems, versions of BetrFS) by eight micro-benchmarks (Table 3) and eleven applications
(Figure 2). crossprefetch: who reads ahead (seven rows) by file reads, mmap, RocksDB, YCSB and compression (figures 5 to 9,
table 4), by wall time and by the artifact's own timer. Published claims are judged by ratio. Each result is stored as it
ends: --resume goes on after an interruption. Programs that are missing make their columns unavailable;
scripts/setup.sh dovecot-imapd rsync git rocksdb-tools installs them. docs/reproduce-betrfs.md and
docs/reproduce-crossprefetch.md say what is run and how it differs from the originals.

Examples:
  loadline reproduce betrfs --quick
  loadline reproduce betrfs --quick --rows all --columns micro
  loadline reproduce betrfs --rows ext4,betrfs --columns micro,rsync --html betrfs.html --csv results
  loadline reproduce betrfs --scale paper --device /dev/sdx --erase /dev/sdx
  loadline reproduce crossprefetch --quick --html crossprefetch.html --csv results
  loadline reproduce crossprefetch --rows app-only,auto --columns db-bench --device 'slow(20ms,400MB/s)'
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
    /// The device of every row: an emulated SSD, image:SIZE, or a real disk [default: 860evo, slow(1ms,1GB/s)]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// The real device, or backing file that exists, may be overwritten; all data on it is lost
    #[arg(long, value_name = "DEVICE|FILE", value_hint = ValueHint::FilePath)]
    pub erase: Option<String>,
    /// Rows, such as ext4,betrfs or app-only,auto, or `all` [default: the rivals and the final betrfs; all]
    #[arg(long, value_name = "ROWS")]
    pub rows: Option<String>,
    /// Columns, such as micro,grep or multi-read,readseq [default: micro,applications; all]
    #[arg(long, value_name = "COLUMNS")]
    pub columns: Option<String>,
    /// Trials of each load [default: by load and scale]
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
    /// betrfs: the paper's values, as lines of row,column,value, to be shown beside ours
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub published: Option<PathBuf>,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Write the artifact's CSV files and the drawings to this directory
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
    /// CrossPrefetch (ASPLOS 2024): figures 5 to 9 and table 4
    Crossprefetch,
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
    let home = crate::run::home(options)?;
    if let Some(id) = &arguments.show {
        let run = Store::open(&home)?.load_run(&shown(options, arguments, id)?).map_err(bad_input)?;
        arguments.what.check(&run)?;
        tell(options, arguments, &run)?;
        return Ok(Exit::Done);
    }
    let launch = Launch {
        work_dir: arguments.work_dir.as_deref(),
        erase: arguments.erase.as_deref(),
        resume: arguments.resume,
        quiet: arguments.quiet,
        allow_system: false,
    };
    let (run, ending) = run_study(options, study(arguments)?, &launch)?;
    let answers = tell(options, arguments, &run)?;
    Ok(exit_of(&run, ending, &answers))
}

/// The study of a request.
fn study(arguments: &Reproduce) -> anyhow::Result<Study> {
    let scale: reproduce::Scale =
        if arguments.quick { reproduce::Scale::Quick } else { arguments.scale.into() };
    match arguments.what {
        What::Betrfs => betrfs::study(arguments, scale),
        What::Crossprefetch => crossprefetch::study(arguments, scale),
    }
}

impl What {
    /// How the titles of its runs begin.
    fn title(self) -> &'static str {
        match self {
            What::Betrfs => reproduce::betrfs::plan::TITLE,
            What::Crossprefetch => reproduce::crossprefetch::plan::TITLE,
        }
    }

    /// The word on the command line.
    fn word(self) -> &'static str {
        match self {
            What::Betrfs => "betrfs",
            What::Crossprefetch => "crossprefetch",
        }
    }

    /// Refuses a run of something else.
    fn check(self, run: &Run) -> anyhow::Result<()> {
        if run.title.starts_with(self.title()) {
            return Ok(());
        }
        Err(bad_input(format!("run {} is `{}`, not one of `reproduce {}`", run.id, run.title, self.word())))
    }
}

/// The run that `--show` names; `last` is the latest of this evaluation.
fn shown(options: &Options, arguments: &Reproduce, id: &str) -> anyhow::Result<String> {
    if id != "last" {
        return Ok(id.to_string());
    }
    let store = Store::open(&crate::run::home(options)?)?;
    let runs = store.runs()?;
    let ours = runs.iter().rev().find(|run| run.title.starts_with(arguments.what.title()));
    Ok(ours.map_or_else(|| id.to_string(), |run| run.id.clone()))
}

/// Shows and writes everything; returns the answers to the claims.
fn tell(options: &Options, arguments: &Reproduce, run: &Run) -> anyhow::Result<Vec<Answer>> {
    let study = Study::from_stored(&run.study)?;
    let color = screen::style(options).color;
    let told = match arguments.what {
        What::Betrfs => betrfs::tell(arguments, run, &study, color)?,
        What::Crossprefetch => crossprefetch::tell(run, &study, color),
    };
    screen::print(&told.text)?;
    if let Some(file) = &arguments.html {
        write(file, &told.page)?;
    }
    if let Some(directory) = &arguments.csv {
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        for (name, text) in told.files {
            write(&directory.join(name), &text)?;
        }
    }
    let what = arguments.what.word();
    screen::print(&format!("run {}: `loadline reproduce {what} --show {0}` shows it again", run.id))?;
    Ok(told.answers)
}

/// What an evaluation has to tell of a run.
struct Told {
    /// For the terminal.
    text: String,
    /// HTML.
    page: String,
    /// Names and texts.
    files: Vec<(String, String)>,
    answers: Vec<Answer>,
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
            study.stacks.iter().map(spec::StackSpec::label).collect::<Vec<_>>().join(" ")
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
