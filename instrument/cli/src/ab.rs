//! `ab`: two of anything in turns until it is decided.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use analysis::turns::InterimComparison;
use clap::{Args, ValueHint};
use journal::PrivateTree;
use lab::paired::compare::Conditions;
use lab::paired::trial::TrialSetup;
use lab::paired::until::{ComparisonSpec, compare_until_decided};
use lab::session::SessionOutcome;
use stats::Verdict;
use study::InterleavedDesign;
use study::results::MetricName;
use study::{Bytes, CommandLine, Io, Seconds, Settings, Share, Study};

use crate::cleanup::{utf8, with_journal};
use crate::console::{self, Exit, bad_input};
use crate::harm::{unavailable_exit, wrong};
use crate::kernels::{Kernels, Load};
use crate::options::Options;
use crate::run::{RunSettings, run_study};

/// Length of a trial where nothing is said. Short trials are many blocks; machines drift over seconds.
const TRIAL_SECONDS: f64 = 1.0;

/// Options of `ab`.
#[derive(Debug, Args)]
#[command(after_help = "\
With --workload A and B are stacks, mount options included (`loadline run --help` says how they are written); without it, \
lines for the shell, so that two programs, two environments or two sets of options can be compared.

A block is A B B A or B A A B, by lot: a drift of the machine cancels in it. After 8, 10, 13, 17, ... blocks the \
signed-rank test is looked at, with limits so that looking often costs nothing: chance of a false `better` or `worse` \
over all looks 5 %. It ends when B is better, worse, or the same within --target, or when --budget is used up: then \
`cannot tell`, with the difference that would have been seen.

With --slices both stacks are kept for a while, and their loads take turns of a tenth of a second, with equal numbers of \
operations: many times more blocks in the same time. About twelve times in the budget both are built anew, since two builds \
of the same differ; a build is what counts, and eight are the least. Each slice pays for what it has written (syncfs). What a load \
leaves for later all the same (commits of a journal, collection of an SSD) may fall into the other's turn and pull \
the ratio to 1: docs/semantics.md.

With --kernel, given twice, the loads run in guests with either kernel, stack by stack, a verdict for each cell; see docs/guests.md.

Examples:
  loadline ab ext4 xfs -w workloads/randomread.f --slices
  loadline ab ext4@860evo xfs@860evo -w workloads/varmail.f
  loadline ab ext4 'ext4,data=journal' -w varmail.f --for 500ms --budget 2m --metric latency_p99
  loadline ab tmpfs tmpfs -w varmail.f --set-b nthreads=15         a variable of the workload
  loadline ab --kernel debian-6.1 --kernel debian-6.12 -w varmail.f --on ext4@null,xfs@null --deterministic
  loadline ab --kernel debian-6.12 --kernel 'debian-6.12(mitigations=off)' --study study.toml
  loadline ab 'sort big.txt' 'LC_ALL=C sort big.txt' --drop big.txt
  loadline ab './old --check' './new --check' --target 0.5
Exit codes: 0 B is better or the same; 1 worse; 4 cannot tell; 130 interrupted.")]
pub struct Ab {
    /// The baseline: a stack, or a line for the shell
    #[arg(value_name = "A", required_unless_present = "kernel", requires = "b")]
    a: Option<String>,
    /// What is judged
    #[arg(value_name = "B")]
    b: Option<String>,
    /// The load (WML): then A and B are stacks
    #[arg(long, short = 'w', value_name = "FILE", value_hint = ValueHint::FilePath)]
    workload: Option<PathBuf>,
    /// Time for all of it; at least 8 blocks are made
    #[arg(long, value_name = "TIME", default_value = "5m")]
    budget: String,
    /// A difference smaller than this is the same
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    target: f64,
    /// Use up the budget and look once, at the end: the narrowest interval, and an estimate that no early end has drawn aside
    #[arg(long)]
    one_look: bool,
    /// Of a workload: throughput, bandwidth, latency_p50, latency_p99, latency_p999, latency_mean
    #[arg(long, value_name = "METRIC", default_value = "throughput", requires = "workload")]
    metric: String,
    /// Measured time of each trial [default: 1s]
    #[arg(long = "for", value_name = "TIME", requires = "workload")]
    length: Option<String>,
    /// Load before the measured interval of each trial
    #[arg(long, value_name = "TIME", requires = "workload")]
    warmup: Option<String>,
    /// Keep both stacks for a while and take turns in slices of about this length: the loads go on where they stopped
    #[arg(long, value_name = "TIME", requires = "workload", num_args = 0..=1, default_missing_value = "100ms",
          conflicts_with_all = ["length", "ops", "warmup", "rate", "cold", "resume"])]
    slices: Option<String>,
    /// End each trial after this many I/O operations: equal work instead of equal time
    #[arg(long, value_name = "N", requires = "workload")]
    ops: Option<u64>,
    /// Offered load in I/O operations a second
    #[arg(long, value_name = "OPS", requires = "workload")]
    rate: Option<f64>,
    /// How reads and writes are issued: psync, or uring:DEPTH
    #[arg(long, value_name = "ENGINE", requires = "workload")]
    io: Option<String>,
    /// A variable of the workload
    #[arg(long, value_name = "NAME=VALUE", requires = "workload")]
    set: Vec<String>,
    /// The same for A alone
    #[arg(long, value_name = "NAME=VALUE", requires = "workload")]
    set_a: Vec<String>,
    /// The same for B alone
    #[arg(long, value_name = "NAME=VALUE", requires = "workload")]
    set_b: Vec<String>,
    /// Cold caches: a workload's stack is mounted anew; before a command the page cache is dropped (as root)
    #[arg(long)]
    cold: bool,
    /// Before each command drop this file, or the files below this directory, from the page cache
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, conflicts_with = "workload")]
    drop: Vec<PathBuf>,
    /// A line for the shell before each command; it is not timed
    #[arg(long, value_name = "LINE", conflicts_with = "workload")]
    prepare: Option<OsString>,
    /// Memory limit of each trial, page cache included (a cgroup), such as 512M
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Seed of the order and of the load
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A block device, or a file for `backing=`, that may be overwritten; all data on it is lost
    #[arg(long, value_name = "DEVICE|FILE", value_hint = ValueHint::FilePath, requires = "workload")]
    erase: Option<String>,
    /// Let the workload start programs by `system`, with all your rights
    #[arg(long, requires = "workload")]
    allow_system: bool,
    /// Go on with the latest unfinished comparison of the same two
    #[arg(long, requires = "workload")]
    resume: bool,
    /// A name for the run
    #[arg(long, value_name = "NAME", requires = "workload")]
    name: Option<String>,
    /// Directory for image files [default: images/ in the home of results]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "workload")]
    work_dir: Option<PathBuf>,
    /// Write the report as one HTML file too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "workload")]
    html: Option<PathBuf>,
    #[command(flatten)]
    kernels: Kernels,
    /// No progress, only the answer
    #[arg(short, long)]
    quiet: bool,
}

impl Ab {
    /// A and B, which clap has asked for.
    fn sides(&self) -> (&str, &str) {
        (self.a.as_deref().unwrap_or_default(), self.b.as_deref().unwrap_or_default())
    }

    fn launch(&self) -> RunSettings<'_> {
        RunSettings {
            work_dir: self.work_dir.as_deref(),
            erase: self.erase.as_deref(),
            shard: None,
            resume: self.resume,
            name: self.name.as_deref(),
            quiet: self.quiet,
            allow_system: self.allow_system,
            interleave: None,
        }
    }
}

/// Compares, and says what came of it.
pub fn ab(options: &Options, arguments: &Ab) -> anyhow::Result<Exit> {
    if arguments.kernels.are_given() {
        return kernels(options, arguments);
    }
    match &arguments.workload {
        Some(file) => stacks(options, arguments, file),
        None => commands(options, arguments).or_else(unavailable_exit),
    }
}

fn kernels(options: &Options, arguments: &Ab) -> anyhow::Result<Exit> {
    let told = |file: &PathBuf| {
        let title = format!("two kernels: {}", file.display());
        anyhow::Ok((file.clone(), settings(arguments, title)?))
    };
    let workload = arguments.workload.as_ref().map(told).transpose()?;
    let margin = share(arguments.target)?.0;
    let load = Load { workload, set: &arguments.set, margin };
    arguments.kernels.compare(options, load, &arguments.launch())
}

fn stacks(options: &Options, arguments: &Ab, file: &std::path::Path) -> anyhow::Result<Exit> {
    if file.extension().is_some_and(|extension| extension == "toml") {
        return Err(bad_input("--workload takes one workload (*.f), not a study"));
    }
    let (run, ending) = run_study(options, study(arguments, file)?, &arguments.launch())?;
    let Some(so_far) = analysis::turns::of_run(&run) else { anyhow::bail!("the stored study is damaged") };
    console::print(&report::turns::answer(&so_far))?;
    if let Some(html) = &arguments.html {
        crate::report::write(html, &report::html::page(&run, &[])?)?;
        console::print(&format!("report: {}", std::path::absolute(html)?.display()))?;
    }
    console::print(&format!("run {}: `loadline report {0}` shows it in full", run.id))?;
    if ending == SessionOutcome::Interrupted {
        return Ok(Exit::Interrupted);
    }
    if so_far.blocks == 0 {
        // the trials have said why
        return Ok(crate::run::exit_of(&run, ending, &[]));
    }
    Ok(exit(&so_far))
}

fn settings(arguments: &Ab, title: String) -> anyhow::Result<Settings> {
    let told = |text: &Option<String>, name| text.as_deref().map(|text| seconds(name, text)).transpose();
    let length = told(&arguments.length, "--for")?;
    let io = arguments.io.as_deref().map(str::parse::<Io>).transpose();
    let memory = arguments.memory.as_deref().map(units::parse_bytes).transpose();
    Ok(Settings {
        title,
        seed: arguments.seed,
        // without --for, so many operations end a trial by themselves
        seconds: length.or(arguments.ops.is_none().then_some(Seconds(TRIAL_SECONDS))),
        warmup: told(&arguments.warmup, "--warmup")?,
        ops: arguments.ops,
        rate: arguments.rate,
        io: io.map_err(|error| bad_input(format!("--io: {error}")))?.unwrap_or_default(),
        cold: arguments.cold,
        memory: memory.map_err(|error| bad_input(format!("--memory: {error}")))?.map(Bytes),
        allow_system: arguments.allow_system,
        ..Settings::default()
    })
}

fn study(arguments: &Ab, file: &std::path::Path) -> anyhow::Result<Study> {
    let (a, b) = arguments.sides();
    let settings = settings(arguments, format!("{b} against {a} in turns: {}", file.display()))?;
    let both = [("A", a), ("B", b)];
    for (side, text) in both {
        let parsed =
            spec::StackSpec::parse_list(text).map_err(|error| bad_input(format!("{side}: {error}")))?;
        if parsed.len() != 1 {
            return Err(bad_input(format!(
                "{side}: {text} is {} stacks; ab compares one with one",
                parsed.len()
            )));
        }
    }
    let label = |text: &str| spec::StackSpec::parse_list(text).map(|stacks| stacks[0].label());
    let same = label(a).ok() == label(b).ok();
    let on = if same { a.to_string() } else { format!("{a},{b}") };
    let (apps, files) = crate::run::loads(&[file.to_path_buf()]);
    let line =
        CommandLine { files, apps, on, set: arguments.set.clone(), settings, ..CommandLine::default() };
    let mut study = lab::read::command_line(&line).map_err(bad_input)?;
    if !study.parameters.is_empty() {
        return Err(bad_input(
            "--set: ab compares at one point; give a single value, or --set-a and --set-b",
        ));
    }
    let own = |name: &str, words: &[String]| -> anyhow::Result<BTreeMap<String, String>> {
        let one = |word: &String| {
            let parts = word.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
            let (name, value) =
                parts.ok_or_else(|| bad_input(format!("{name} {word}: write {name} name=value")))?;
            Ok((name.to_string(), value.to_string()))
        };
        words.iter().map(one).collect()
    };
    let turns = InterleavedDesign {
        a: own("--set-a", &arguments.set_a)?,
        b: own("--set-b", &arguments.set_b)?,
        ..turns(arguments, metric(&arguments.metric)?)?
    };
    if turns.slices.is_some() && turns.metric != MetricName::Throughput {
        return Err(bad_input("--slices: a slice has a throughput only; compare latencies by whole trials"));
    }
    study.study.trials = turns.trials_max(study.study.seconds.map_or(0.0, |seconds| seconds.0));
    study.study.turns = Some(turns);
    study.hide_secrets().map_err(bad_input)?;
    Ok(study)
}

fn commands(options: &Options, arguments: &Ab) -> anyhow::Result<Exit> {
    let lines = <[&str; 2]>::from(arguments.sides());
    for (side, line) in ["A", "B"].into_iter().zip(lines) {
        if line.trim().is_empty() {
            return Err(bad_input(format!(
                "{side} is empty: give a line for the shell, or a stack and --workload"
            )));
        }
        if spec::StackSpec::parse_list(line).is_ok() && !line.contains(' ') {
            host::note!(
                "loadline: {side} reads like a stack; it runs as a command, since there is no --workload"
            );
        }
    }
    let memory = arguments.memory.as_deref().map(units::parse_bytes).transpose();
    let conditions = Conditions {
        prepare: arguments.prepare.clone(),
        cold: arguments.cold,
        drop: arguments.drop.clone(),
        warm: Vec::new(),
        memory: memory.map_err(|error| bad_input(format!("--memory: {error}")))?,
    };
    conditions.check().map_err(wrong)?;
    let turns = turns(arguments, MetricName::Seconds)?;
    let display = crate::progress::bar(arguments.quiet);
    let contested = with_journal(options, "ab", |_, journal, stop| {
        let temporary = utf8(std::env::temp_dir())?.canonicalize_utf8()?;
        let tree = PrivateTree::new(journal, &temporary)?;
        let setting = TrialSetup { journal, stop, scratch: tree.path().as_std_path() };
        let contest = ComparisonSpec { lines, conditions: &conditions, turns: &turns, seed: arguments.seed };
        let contested = compare_until_decided(setting, contest, &mut |so_far| {
            display.set_length(so_far.blocks_max as u64);
            display.set_position(so_far.blocks as u64);
            display.set_message(report::turns::line(so_far));
            if display.is_hidden() && !arguments.quiet {
                host::note!("{}", report::turns::line(so_far));
            }
        });
        Ok(contested?)
    });
    display.finish_and_clear();
    let contested = contested?;
    console::print(&report::turns::answer(&contested.so_far))?;
    Ok(if contested.so_far.verdict.is_none() { Exit::Interrupted } else { exit(&contested.so_far) })
}

fn turns(arguments: &Ab, metric: MetricName) -> anyhow::Result<InterleavedDesign> {
    let target = share(arguments.target)?;
    let budget = seconds("--budget", &arguments.budget)?;
    let slices = arguments.slices.as_deref().map(|text| seconds("--slices", text)).transpose()?;
    let (a, b) = (BTreeMap::new(), BTreeMap::new());
    let one_look = arguments.one_look;
    Ok(InterleavedDesign { budget, target, metric, one_look, slices, kept_blocks: None, a, b }.in_builds())
}

fn metric(word: &str) -> anyhow::Result<MetricName> {
    let known = MetricName::of_word(word).filter(|metric| *metric != MetricName::Seconds);
    known.ok_or_else(|| {
        let known = "throughput, bandwidth, latency_p50, latency_p99, latency_p999, latency_mean";
        bad_input(format!("--metric {word}: there are {known}"))
    })
}

fn share(percent: f64) -> anyhow::Result<Share> {
    Share::new(percent / 100.0).map_err(|error| bad_input(format!("--target: {error}")))
}

fn seconds(option: &str, text: &str) -> anyhow::Result<Seconds> {
    let seconds = Seconds::new(crate::arg_parsers::length(option, text)?.as_secs_f64());
    seconds.map_err(|error| bad_input(format!("{option}: {error}")))
}

fn exit(so_far: &InterimComparison) -> Exit {
    match so_far.verdict {
        Some(Verdict::Better | Verdict::Same) => Exit::Done,
        Some(Verdict::Worse) => Exit::Failed,
        Some(Verdict::CannotTell { .. }) | None => Exit::CannotTell,
    }
}
