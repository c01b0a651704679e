//! `reproduce`: the run of an embedded study, by its word.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use lab::Store;
use study::Study;
use study::embedded::{EmbeddedStudy, STUDIES};
use study::results::Run;

use crate::console::{Exit, bad_input};
use crate::evaluation::{Evaluating, Source};
use crate::options::Options;
use crate::run::{ReportOutputs, RunSettings, exit_of, print_report, run_study};

/// Options of `reproduce`.
#[derive(Debug, Args)]
#[command(after_help = "\
betrfs: thirteen rows (file systems, versions of BetrFS) by eight micro-benchmarks (Table 3) and eleven applications
(Figure 2). crossprefetch: who reads ahead (seven rows) by file reads, mmap, RocksDB, YCSB and compression (figures 5 to 9,
table 4), by wall time and by the artifact's own timer. hotos11: random reads by size of the file. opimq: fsync and containers on order-preserving
stacks (figures 10 to 12), simulated in virtual time. swissknife: key-value engines, databases under TPC-C, fio's sweeps and the disk
suite on ext4 and btrfs (figures 1 to 12), by trend. Published claims are judged by
ratio. Each result is stored as it ends: --resume goes on after an interruption. Programs that are missing make their columns
unavailable; scripts/setup.sh dovecot-imapd rsync git rocksdb-tools installs them. docs/reproduce-betrfs.md,
docs/reproduce-crossprefetch.md and docs/reproduce-swissknife.md say what is run and how it differs from the originals; docs/studies.md how to write one of your own.

Examples:
  loadline reproduce betrfs --quick
  loadline reproduce betrfs --quick --rows all --columns micro
  loadline reproduce betrfs --rows ext4,betrfs --columns micro,rsync --html betrfs.html --csv results
  loadline reproduce betrfs --scale paper --device /dev/sdx --erase /dev/sdx
  loadline reproduce crossprefetch --quick --html crossprefetch.html --csv results
  loadline reproduce crossprefetch --rows app-only,auto --columns db-bench --device 'slow(20ms,400MB/s)'
  loadline reproduce opimq --quick --html opimq.html
  loadline reproduce swissknife --quick --html swissknife.html
  loadline reproduce swissknife --columns fig6,fig9 --device /dev/sdx --erase /dev/sdx
  loadline reproduce betrfs --show last --html betrfs.html")]
pub struct Reproduce {
    /// What
    #[arg(value_name = "WHAT", value_parser = PossibleValuesParser::new(STUDIES.map(|study| study.name)))]
    pub what: String,
    #[command(flatten)]
    pub evaluating: Evaluating,
    /// A variable of the study, such as memory=256M
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// The real device, or backing file that exists, may be overwritten; all data on it is lost
    #[arg(long, value_name = "DEVICE|FILE", value_hint = ValueHint::FilePath)]
    pub erase: Option<String>,
    /// Trials of each cell [default: by load, row and scale]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub trials: Option<u32>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Go on with the latest unfinished run of the same settings
    #[arg(long)]
    pub resume: bool,
    /// A name for the run, by which other commands find it
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Show a stored run instead of running
    #[arg(long, value_name = "RUN")]
    pub show: Option<String>,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Write CSV files, those of the artifact's form too, and the drawings to this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub csv: Option<PathBuf>,
    /// Directory for image files [default: images/ in the home of results]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub work_dir: Option<PathBuf>,
    /// No progress, only results
    #[arg(short, long)]
    pub quiet: bool,
}

/// Runs, or shows a stored run.
pub fn reproduce(options: &Options, arguments: &Reproduce) -> anyhow::Result<Exit> {
    let embedded =
        EmbeddedStudy::named(&arguments.what).ok_or_else(|| bad_input("there is no such study"))?;
    let shown = ReportOutputs { html: arguments.html.as_deref(), csv: arguments.csv.as_deref() };
    if let Some(id) = &arguments.show {
        print_report(options, &shown, &stored(options, arguments, embedded, id)?)?;
        return Ok(Exit::Done);
    }
    let launch = RunSettings {
        work_dir: arguments.work_dir.as_deref(),
        erase: arguments.erase.as_deref(),
        shard: None,
        resume: arguments.resume,
        name: arguments.name.as_deref(),
        quiet: arguments.quiet,
        allow_system: false,
        interleave: None,
    };
    let mut study = arguments.evaluating.study(Source::Embedded(embedded), &arguments.set, None)?;
    study.study.seed = arguments.seed;
    if let Some(trials) = arguments.trials {
        study.all_trials(trials);
    }
    let (run, ending) = run_study(options, study, &launch)?;
    let judgements = print_report(options, &shown, &run)?;
    Ok(exit_of(&run, ending, &judgements))
}

/// The stored run that `--show` names; `last` is the latest of this evaluation. Values of `--published` are added.
fn stored(
    options: &Options,
    arguments: &Reproduce,
    embedded: EmbeddedStudy,
    id: &str,
) -> anyhow::Result<Run> {
    let store = Store::open_to_show(&crate::run::home(options)?)?;
    // a title ends with the scale
    let title = embedded.title().unwrap_or_default();
    let id = match id {
        "last" => {
            let runs = store.runs()?;
            let latest =
                runs.iter().rev().find(|run| run.title.starts_with(&title)).map(|run| run.id.clone());
            latest.ok_or_else(|| bad_input(format!("there is no run of `{}` yet", embedded.name)))?
        }
        id => id.to_string(),
    };
    let mut run = store.load_run(&id).map_err(bad_input)?;
    if !run.title.starts_with(&title) {
        let message = format!("run {} is `{}`, not one of `reproduce {}`", run.id, run.title, embedded.name);
        return Err(bad_input(message));
    }
    if arguments.evaluating.published.is_some() {
        let mut study = Study::from_stored(&run.study)?;
        arguments.evaluating.publish(&mut study)?;
        run.study = study.to_toml();
    }
    Ok(run)
}
