//! `simulate`: a workload in virtual time, over containers and stacks.

use std::path::{Path, PathBuf};

use ::simulate::Job;
use ::simulate::job::{PROGRAMS, SECONDS, WARMUP_SECONDS};
use clap::{Args, ValueHint};
use engine::options::RunOptions;
use lab::load::ResolvedLoad;
use report::scaling::Scaling;
use spec::StackSpec;
use study::results::Parameter;
use study::{Load, Order, Seconds, Settings, Study, Sweeps, Workload};

use crate::console::{self, Exit, bad_input};
use crate::options::Options;
use crate::run::{RunSettings, exit_of, run_study};

/// Virtual seconds of a trace of what is not `write-fsync`, which ends by itself: some thousand commands.
const TRACE_SECONDS: f64 = 0.02;

/// Options of `simulate`.
#[derive(Debug, Args)]
#[command(after_help = "\
WORKLOAD is a script in Filebench's WML (*.f), a dbench load file (such as Debian's /usr/share/dbench/client.txt), or a built-in
program: varmail, dbench, sysbench (oltp_insert's commits), write-fsync. Every container runs it in files of its own; they share
journal, cores, queues and device. Stacks: ext4, ext4-nofua, ext4-nobarrier, opext4 (OPIMQ), bfs-sq (BarrierFS, one queue), mqfs,
horae. Time is virtual: no disk is touched, and the same seed gives the same figures. docs/order.md says what is modelled.

Examples:
  loadline simulate workloads/varmail.f --stack ext4,opext4 --containers 40,100,200 --set nthreads=40 --set nfiles=1000
  loadline simulate /usr/share/dbench/client.txt --stack ext4,opext4,bfs-sq,mqfs,horae --containers 40 --for 5s --svg dbench.svg
  loadline simulate write-fsync --stack opext4 --trace")]
pub struct Simulate {
    /// What runs in each container
    #[arg(value_name = "WORKLOAD", value_hint = ValueHint::FilePath)]
    pub workload: String,
    /// Stacks to compare; ratios are to the first
    #[arg(long, value_name = "STACKS", value_delimiter = ',', default_value = "ext4,opext4")]
    pub stack: Vec<String>,
    /// Containers that run at the same time; several numbers are swept
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "40")]
    pub containers: Vec<String>,
    /// Cores of the simulated host
    #[arg(long, value_name = "N", default_value = "40")]
    pub cores: String,
    /// I/O queues of the simulated host
    #[arg(long, value_name = "N", default_value = "40")]
    pub queues: String,
    /// Profile of the simulated SSD: 860evo, 980pro, optane, plp-datacenter, hdd, ideal
    #[arg(long, value_name = "PROFILE", default_value = "980pro")]
    pub device: String,
    /// Epoch pinning of opext4: on or off
    #[arg(long, value_name = "WHEN", default_value = "on")]
    pub pinning: String,
    /// Processor time of each operation, such as 120us [default: 33us for scripts, 29.9us for lines of a load file]
    #[arg(long, value_name = "TIME")]
    pub cpu: Option<String>,
    /// Measured virtual time
    #[arg(long = "for", value_name = "TIME", default_value = "2s")]
    pub length: String,
    /// Virtual time of load before it
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    pub warmup: String,
    /// A variable of the script
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Trials of each point, with a seed each
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub trials: u32,
    /// Print the commands that the device gets, with stream and epoch ids, instead of figures
    #[arg(long)]
    pub trace: bool,
    /// Print JSON instead of the table
    #[arg(long, conflicts_with = "trace")]
    pub json: bool,
    /// Write the points as CSV
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,
    /// Draw operations a second over containers
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Go on with the latest unfinished run of the same settings
    #[arg(long)]
    pub resume: bool,
    /// A name for the run, by which other commands find it
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// No progress, only results
    #[arg(short, long)]
    pub quiet: bool,
}

/// Simulates, and tells what came of it.
pub fn simulate(options: &Options, arguments: &Simulate) -> anyhow::Result<Exit> {
    let study = study(arguments)?;
    if arguments.trace {
        return trace(&study, arguments);
    }
    let launch = RunSettings {
        work_dir: None,
        erase: None,
        shard: None,
        resume: arguments.resume,
        name: arguments.name.as_deref(),
        quiet: arguments.quiet,
        allow_system: false,
        interleave: None,
    };
    let (run, ending) = run_study(options, study, &launch)?;
    let scaling = Scaling::of(&run).ok_or_else(|| anyhow::anyhow!("the run has no points"))?;
    if arguments.json {
        console::print(&scaling.json()?)?;
    } else {
        console::print(&scaling.terminal(console::style(options)))?;
    }
    for note in notes(&run) {
        host::note!("{note}");
    }
    if let Some(file) = &arguments.csv {
        crate::report::write(file, &scaling.csv())?;
    }
    if let Some(file) = &arguments.svg {
        crate::report::write(file, &scaling.drawing())?;
    }
    if !arguments.quiet {
        host::note!("run {}: `loadline report {0}` shows it in full", run.id);
    }
    Ok(exit_of(&run, ending, &[]))
}

/// What went wrong, and what a reader must see beside the figures.
fn notes(run: &study::results::Run) -> Vec<String> {
    let mut out = Vec::new();
    for trial in &run.trials {
        let label = run.cell(trial.cell).map_or(String::new(), |cell| cell.label());
        if let study::results::Status::Failed { message } = &trial.status {
            out.push(format!("{label}: failed: {message}"));
        }
        // that it is simulated stands above the table
        let said = trial.outcome.iter().flat_map(|outcome| &outcome.notes);
        let said = said.filter(|note| !note.starts_with("simulated in virtual time"));
        out.extend(said.map(|note| format!("{label}: {note}")));
        let starved: u64 = trial.outcome.iter().flat_map(|outcome| &outcome.ops).map(|op| op.starved).sum();
        if starved > 0 {
            out.push(format!("{label}: {starved} operations found no file: add entries to the fileset"));
        }
    }
    out
}

/// The study that the options mean.
fn study(arguments: &Simulate) -> anyhow::Result<Study> {
    let (name, program, script, loadfile) = workload(&arguments.workload)?;
    let seconds = |text: &str, option: &str| -> anyhow::Result<Option<Seconds>> {
        let seconds = Seconds::new(crate::arg_parsers::time(option, text)?.as_secs_f64());
        Ok(Some(seconds.map_err(|error| bad_input(format!("{option}: {error}")))?))
    };
    let is_script = script.is_some();
    let (mut set, mut parameters) = (Sweeps::default(), Sweeps::default());
    let mut one = |name: &str, value: String| set.put(name, vec![value]).map_err(bad_input);
    one("cores", arguments.cores.clone())?;
    one("queues", arguments.queues.clone())?;
    one("device", arguments.device.clone())?;
    one("pinning", arguments.pinning.clone())?;
    if let Some(cpu) = &arguments.cpu {
        one("cpu", cpu.clone())?;
    }
    if let Some(loadfile) = loadfile {
        one("loadfile", loadfile)?;
    }
    for word in &arguments.set {
        let Some((name, value)) = word.split_once('=').filter(|_| is_script) else {
            let right =
                if is_script { "write --set name=value" } else { "only scripts (*.f) have variables" };
            return Err(bad_input(format!("--set {word}: {right}")));
        };
        one(name, value.to_string())?;
    }
    let swept = |values: &[String], option: &str| -> anyhow::Result<Vec<String>> {
        match values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)) {
            Some((_, twice)) => Err(bad_input(format!("{option}: {twice} stands there twice"))),
            None => Ok(values.to_vec()),
        }
    };
    parameters
        .put("stack", swept(&arguments.stack, "--stack")?)
        .map_err(|error| bad_input(format!("--stack: {error}")))?;
    let containers = swept(&arguments.containers, "--containers")?;
    parameters.put("containers", containers).map_err(|error| bad_input(format!("--containers: {error}")))?;
    let stack: StackSpec = "virtual".parse()?;
    let study = Study {
        stacks: vec![stack],
        study: Settings {
            title: format!("simulated: {name} on {}", arguments.stack.join(" ")),
            seed: arguments.seed,
            trials: arguments.trials,
            order: Order::Listed,
            seconds: seconds(&arguments.length, "--for")?,
            warmup: seconds(&arguments.warmup, "--warmup")?,
            ..Settings::default()
        },
        workloads: vec![Workload {
            set,
            parameters,
            ..Workload::new(name, Load::Simulated { program, script })
        }],
        ..Study::default()
    };
    // checked as any study is
    Study::from_stored(&study.to_toml()).map_err(bad_input)
}

/// Label, program, script with its origin, load file.
type What = (String, String, Option<(String, Option<String>)>, Option<String>);

fn workload(word: &str) -> anyhow::Result<What> {
    if PROGRAMS.contains(&word) {
        return Ok((word.into(), word.into(), None, None));
    }
    let path = Path::new(word);
    let name = path.file_stem().map_or_else(|| word.to_string(), |stem| stem.to_string_lossy().into_owned());
    let is_script = path.extension().is_some_and(|extension| extension == "f");
    let is_there = path.exists() || (is_script && study::files::text(path).is_some());
    if !is_there {
        let message = format!(
            "there is no file {word}; a workload is a script (*.f), a dbench load file, or one of {}",
            PROGRAMS.join(", ")
        );
        return Err(bad_input(message));
    }
    if is_script {
        let text = lab::read::text(path).map_err(bad_input)?;
        return Ok((name, "wml".into(), Some((text, Some(word.into()))), None));
    }
    let absolute = std::path::absolute(path)?.to_string_lossy().into_owned();
    Ok((name, "dbench".into(), None, Some(absolute)))
}

/// The trace of the first number of containers, on each stack.
fn trace(study: &Study, arguments: &Simulate) -> anyhow::Result<Exit> {
    let machine = lab::load::machine(None, 0);
    let Some(workload) = study.workloads.first() else { return Ok(Exit::Done) };
    let told = |text: &str, default: f64, otherwise: f64| {
        let length = units::parse_duration(text).map_or(otherwise, |length| length.as_secs_f64());
        // a trace of the usual length would have millions of lines
        if (length - default).abs() < f64::EPSILON { otherwise } else { length }
    };
    let run_options = RunOptions {
        seed: arguments.seed,
        seconds: Some(told(&arguments.length, SECONDS, TRACE_SECONDS)),
        warmup_seconds: Some(told(&arguments.warmup, WARMUP_SECONDS, 0.0)),
        ..RunOptions::default()
    };
    for stack in &arguments.stack {
        let parameter = |name: &str, value: &String| Parameter { name: name.into(), value: value.clone() };
        let mut parameters = vec![parameter("stack", stack)];
        parameters.extend(arguments.containers.first().map(|count| parameter("containers", count)));
        let prepared = lab::load::prepare(workload, &parameters, &study.study, machine).map_err(bad_input)?;
        let ResolvedLoad::Simulated(job) = prepared.load else { continue };
        if arguments.stack.len() > 1 {
            console::print(&format!("# {stack}"))?;
        }
        console::print(&table(&job, &run_options)?)?;
    }
    Ok(Exit::Done)
}

fn table(job: &Job, options: &RunOptions) -> anyhow::Result<String> {
    let control = engine::Control::new();
    let trace = ::simulate::trace(job, options, &control).map_err(bad_input)?;
    Ok(trace.table())
}
