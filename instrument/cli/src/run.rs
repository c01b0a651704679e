//! `run`: from a command line to stored results.

use std::path::{Path, PathBuf};
use std::time::Duration;

use analysis::grid::Grid;
use anyhow::Context;
use kv::properties::Properties;
use lab::campaign::{CampaignError, Opened, Opening};
use lab::check::Loads;
use lab::load::FREE_BYTES_ASSUMED;
use lab::ranks::{RankGroup, RendezvousConfig};
use lab::session::SessionOutcome;
use lab::stop::StopRequest;
use lab::store::StoreError;
use lab::trial::process::Program;
use lab::{Campaign, StackFactory};
use rustix::process::Signal;
use stats::Thresholds;
use study::results::{Judgement, Run, Status};
use study::shard::Shard;
use study::{Bytes, CommandLine, Io, Percent, Seconds, Settings, Share, Study, StudyError};

use crate::arg_parsers;
use crate::console::{self, Exit, bad_input, unavailable_error};
use crate::evaluation::Source;
use crate::options::{self, Options};
use crate::programs::{self, Permission};
use crate::progress::Progress;

/// Runs, and tells what came of it.
pub fn run(options: &Options, arguments: &options::Run) -> anyhow::Result<Exit> {
    let launch = RunSettings::of(arguments);
    let study = study(arguments)?;
    let ranked = cluster::Launch::of_environment().map_err(bad_input)?;
    let (run, ending) = match ranked {
        None => run_study(options, study, &launch)?,
        Some(ranked) => match gather_ranks(options, arguments, &study, ranked)? {
            None => return Ok(Exit::Done),
            Some(crew) => run_with(options, study, &launch, Some(crew))?,
        },
    };
    let shown = ReportOutputs { html: arguments.html.as_deref(), csv: arguments.csv.as_deref() };
    let judgements = print_report(options, &shown, &run)?;
    Ok(exit_of(&run, ending, &judgements))
}

/// What a command line says of running a study, whatever the study is.
#[derive(Debug, Clone, Copy)]
pub struct RunSettings<'a> {
    /// Where image files go; `images` in the home of results when it is left out.
    pub work_dir: Option<&'a Path>,
    /// The one thing that may be overwritten.
    pub erase: Option<&'a str>,
    /// Go on with the latest unfinished run.
    pub resume: bool,
    /// The part of the plan that is run.
    pub shard: Option<Shard>,
    /// What the user calls the run.
    pub name: Option<&'a str>,
    /// No progress.
    pub quiet: bool,
    /// Workloads may start programs.
    pub allow_system: bool,
    /// Whether the trials of a block take turns: `auto`, `off`, or the length of a turn; without it as the study says.
    pub interleave: Option<&'a str>,
}

impl<'a> RunSettings<'a> {
    /// What the options of `run` say.
    pub fn of(arguments: &'a options::Run) -> RunSettings<'a> {
        RunSettings {
            work_dir: arguments.work_dir.as_deref(),
            erase: arguments.erase.as_deref(),
            resume: arguments.resume,
            shard: arguments.shard,
            name: arguments.name.as_deref(),
            quiet: arguments.quiet,
            allow_system: arguments.allow_system,
            interleave: arguments.interleave.as_deref(),
        }
    }
}

/// The study with turns, where they are wanted and valid.
fn interleaved(
    mut study: Study,
    loads: &Loads,
    launch: &RunSettings<'_>,
    is_ranked: bool,
) -> anyhow::Result<Study> {
    let own = study.study.interleave;
    let valid = || match is_ranked {
        true => Err("ranks of a launcher run a load as a whole"),
        false => lab::interleave::turn(&study, loads),
    };
    let wanted = match (launch.interleave, own) {
        (Some("off"), _) | (None, None) => None,
        (Some("auto"), own) => valid().ok().map(|turn| own.unwrap_or(turn)),
        (None, own) => own,
        (Some(text), _) => {
            let length = arg_parsers::length("--interleave", text)?.as_secs_f64();
            Some(Seconds::new(length).map_err(|error| bad_input(format!("--interleave: {error}")))?)
        }
    };
    if wanted.is_some()
        && launch.interleave != Some("auto")
        && let Err(why) = valid()
    {
        return Err(bad_input(format!("--interleave: trials do not take turns, since {why}")));
    }
    study.study.interleave = wanted;
    if let Some(turn) = study.study.interleave.filter(|_| !launch.quiet) {
        host::note!(
            "the stacks of a block stand side by side and take turns of {:.0} ms, so that the machine's noise hits all \
             alike; --interleave off runs them one after the other",
            turn.0 * 1e3
        );
    }
    Ok(study)
}

/// Runs a study to its end, or until the user stops it; shows what happens. What came of it is in the run.
pub fn run_study(
    options: &Options,
    study: Study,
    launch: &RunSettings<'_>,
) -> anyhow::Result<(Run, SessionOutcome)> {
    run_with(options, study, launch, None)
}

/// Brings the ranks of a launcher together. Rank 0 gets them all; the others serve it, and are done when this returns `None`.
fn gather_ranks(
    options: &Options,
    arguments: &options::Run,
    study: &Study,
    ranked: cluster::Launch,
) -> anyhow::Result<Option<RankGroup>> {
    let rank = ranked.rank;
    // rank 0 undoes what it has made; the others have made nothing
    let signal = if rank == 0 { Signal::TERM } else { Signal::KILL };
    cluster::launch::end_with_launcher(signal)?;
    let home = home(options)?;
    let folder = match &arguments.rendezvous {
        Some(folder) => std::path::absolute(folder)?,
        None => home.join("rendezvous"),
    };
    let plan = format!(
        "study {} of loadline {}, --share {:?}",
        study.hash(),
        env!("CARGO_PKG_VERSION"),
        arguments.share
    );
    let transport = match arguments.transport {
        options::Transport::Tcp => lab::ranks::Transport::Tcp,
        options::Transport::Mpi => lab::ranks::Transport::Mpi,
    };
    let program = Program::new(std::env::current_exe()?, &[lab::protocol::ARGUMENT]);
    let meeting = RendezvousConfig { folder, launch: ranked, transport, plan, home, program };
    if rank > 0 {
        meeting.serve().map_err(without_mpi)?;
        return Ok(None);
    }
    let share = match arguments.share {
        options::Share::PerRank => lab::ranks::TargetSharing::PerRank,
        options::Share::Shared => lab::ranks::TargetSharing::Shared,
    };
    Ok(Some(meeting.gather_ranks(share).map_err(without_mpi)?))
}

/// What this program cannot do is no failure of the ranks.
fn without_mpi(error: cluster::ClusterError) -> anyhow::Error {
    match error {
        cluster::ClusterError::NoMpi => unavailable_error(error),
        other => other.into(),
    }
}

fn run_with(
    options: &Options,
    study: Study,
    launch: &RunSettings<'_>,
    crew: Option<RankGroup>,
) -> anyhow::Result<(Run, SessionOutcome)> {
    let home = home(options)?;
    let loads = check_workloads(&study, launch.allow_system)?;
    let study = interleaved(study, &loads, launch, crew.is_some())?;
    let site = site(&home, launch.work_dir.unwrap_or(&home.join("images")), launch.erase)?;
    let name = launch.name.map(str::to_string);
    let opening = Opening {
        resume: launch.resume,
        shard: launch.shard,
        name,
        command_line: std::env::args().collect(),
        on_signal,
    };
    let mut campaign = Campaign::open(study, loads, site, &opening, &mut say_opened).map_err(refused)?;
    if let Some(crew) = crew {
        campaign.use_ranks(crew);
    }
    campaign.provide(&mut |label, line| {
        if !launch.quiet {
            host::note!("{label}: {line}");
        }
    });
    let mut progress = Progress::new(launch.quiet, console::color_on_stderr(options));
    let seconds = campaign.estimate_seconds();
    progress.announce(campaign.run(), seconds);
    let ending = campaign.execute(&mut |notice| progress.notice(&notice));
    progress.finish();
    let (run, left) = campaign.close();
    if let Some(left) = left {
        host::note!("loadline: some things could not be taken down; `loadline doctor` tries again\n{left}");
    }
    Ok((run, ending?))
}

fn refused(error: CampaignError) -> anyhow::Error {
    match error {
        CampaignError::Overwrite(error) => bad_input(error),
        CampaignError::Store(error @ StoreError::Name { .. }) => bad_input(error),
        CampaignError::Shard(error) => bad_input(format!("--shard: {error}")),
        CampaignError::Unavailable(_) => unavailable_error(error),
        other => other.into(),
    }
}

fn say_opened(opened: Opened<'_>) {
    match opened {
        Opened::Overwrites(what) => host::note!("{what}"),
        Opened::Resumes { run, done, planned } => {
            host::note!("resuming run {run}: {done} of {planned} trials are done");
        }
        Opened::NothingToResume => {
            host::note!("no unfinished run of this study with these settings: a new one begins");
        }
        Opened::Leftovers => {
            host::note!("an earlier run was killed and left things behind: `loadline doctor` cleans up");
        }
    }
}

/// Says what a signal does.
pub fn on_signal(wish: StopRequest) {
    match wish {
        StopRequest::End => host::note!("\nloadline: ending this trial; once more ends at once"),
        StopRequest::EndNow => host::note!("\nloadline: ended at once; taking down what was made"),
    }
}

/// Where results are kept.
pub fn home(options: &Options) -> anyhow::Result<PathBuf> {
    Ok(match &options.home {
        Some(home) => std::path::absolute(home)?,
        None => lab::store::default_home()?,
    })
}

/// The study, on devices whose time is stretched as is asked for.
pub fn study(arguments: &options::Run) -> anyhow::Result<Study> {
    let mut study = unscaled(arguments)?;
    if arguments.deterministic {
        study = made_deterministic(study)?;
    }
    let Some(factor) = arguments.time_scale else { return Ok(study) };
    if study.rows.iter().any(|row| row.stack.is_some()) {
        return Err(bad_input("--time-scale: the rows of this study name their stacks"));
    }
    for stack in &mut study.stacks {
        *stack = stack.with_word(&format!("scale={factor}")).ok_or_else(|| {
            bad_input(format!(
                "--time-scale: {stack} has no emulated SSD; {}@980pro has one",
                stack.fs().name()
            ))
        })?;
    }
    Ok(study)
}

/// The stacks in deterministic guests, when that is asked for.
fn made_deterministic(mut study: Study) -> anyhow::Result<Study> {
    if study.rows.iter().any(|row| row.stack.is_some()) {
        return Err(bad_input("--deterministic: the rows of this study name their stacks themselves"));
    }
    for stack in &mut study.stacks {
        *stack = stack.deterministic(lab::guests::KERNEL, 1).ok_or_else(|| {
            bad_input(format!(
                "--deterministic: {stack} is of this machine; name a device, such as ext4@null"
            ))
        })?;
    }
    Ok(study)
}

fn unscaled(arguments: &options::Run) -> anyhow::Result<Study> {
    let is_study = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "toml");
    if !arguments.files.iter().any(is_study) {
        arguments.evaluating.refuse()?;
        let settings = overrides(Settings::default(), arguments)?;
        let on = arguments.on.clone().map_or_else(current_directory, Ok)?;
        let (mut apps, files) = loads(&arguments.files);
        let (files, properties) = property_files(files)?;
        let mut set = database_settings(arguments, files.is_empty())?;
        if apps == [apps::app::FIO] && files.is_empty() && !arguments.own.is_empty() {
            set.extend(arguments.with.as_ref().map(|with| format!("{}={with}", lab::load::WITH)));
            set.extend(arguments.speed.as_ref().map(|speed| format!("{}={speed}", lab::load::SPEED)));
            let line = CommandLine { on, set, settings, ..CommandLine::default() };
            return lab::read::fio_line(&line, &arguments.own).map_err(not_found_or_bad);
        }
        set.extend(by_fio(arguments, &files)?);
        set.extend(at_speed(arguments, &files)?);
        set.extend(own_options(arguments, &apps, files.is_empty())?);
        if let Some(properties) = properties {
            if !files.is_empty() || !apps.is_empty() {
                return Err(bad_input("property files of YCSB are one workload: give no others beside them"));
            }
            apps.push(apps::key_values::CORE.to_string());
            set = [properties_as_settings(&properties, &set)?, set].concat();
        }
        let line = CommandLine { files, apps, on, set, settings, ..CommandLine::default() };
        return lab::read::command_line(&line).map_err(not_found_or_bad);
    }
    own_options(arguments, &[], false)?;
    at_speed(arguments, &[])?;
    let [file] = arguments.files.as_slice() else {
        return Err(bad_input("give one study (*.toml), or workloads (*.f), but not both"));
    };
    let mut study =
        arguments.evaluating.study(Source::File(file), &arguments.set, arguments.on.as_deref())?;
    study.study = overrides(study.study, arguments)?;
    if let Some(trials) = arguments.trials {
        study.all_trials(trials);
    }
    Ok(study)
}

/// A name that no file has may have meant a load.
fn not_found_or_bad(error: StudyError) -> anyhow::Error {
    if let StudyError::Missing { path } = &error
        && let Some(near) = units::nearest(path, apps::App::names())
    {
        return bad_input(format!(
            "{path}: there is no such file, nor a load of this name; did you mean `{near}`?"
        ));
    }
    bad_input(error)
}

/// What `run` is given: names of built-in loads, and files. A file of such a name goes before.
pub fn loads(words: &[PathBuf]) -> (Vec<String>, Vec<PathBuf>) {
    let (apps, files): (Vec<_>, Vec<_>) = words.iter().cloned().partition(|word| {
        let is_app = word.to_str().is_some_and(apps::App::is_known);
        is_app && !word.is_file()
    });
    (apps.iter().map(|app| app.display().to_string()).collect(), files)
}

/// Takes out property files of YCSB, which together are one workload: of two values of one name the later counts, as with
/// its `-P`.
pub fn property_files(files: Vec<PathBuf>) -> anyhow::Result<(Vec<PathBuf>, Option<Properties>)> {
    let (mut others, mut all) = (Vec::new(), None::<Properties>);
    for file in files {
        // what is not read as a text may be of any length
        if lab::read::is_recording(&file) {
            others.push(file);
            continue;
        }
        crate::check::refuse_load_file(&file)?;
        // one that cannot be read is told of by whoever reads workloads
        let text = lab::read::text(&file).unwrap_or_default();
        if !Properties::is_workload(&text) {
            others.push(file);
            continue;
        }
        let told = |error: &dyn std::fmt::Display| bad_input(format!("{}: {error}", file.display()));
        let read = Properties::parse(&text).map_err(|error| told(&error))?;
        let mistakes = kv::Workload::mistakes(&read);
        if !mistakes.is_empty() {
            let line = |name: &str| read.line(name).map_or(String::new(), |line| format!("line {line}: "));
            let all = mistakes.iter().map(|(name, what)| format!("{}{what}", line(name)));
            return Err(told(&all.collect::<Vec<_>>().join("\n  ")));
        }
        all.get_or_insert_default().merge(&read);
    }
    Ok((others, all))
}

/// Properties as parameters; what the command line sets itself goes before them, what is not known is named.
pub fn properties_as_settings(properties: &Properties, set: &[String]) -> anyhow::Result<Vec<String>> {
    let unused = kv::Workload::unused(properties).map_err(bad_input)?;
    if !unused.is_empty() {
        host::note!("properties of another database's binding, not used here: {}", unused.join(", "));
    }
    let given = |name: &str| set.iter().any(|word| word.split('=').next() == Some(name));
    let taken = properties
        .iter()
        .filter(|(name, value)| !unused.contains(name) && !value.trim().is_empty())
        .map(|(name, value)| (apps::key_values::parameter(name), value.trim()))
        .filter(|(name, _)| !given(name))
        .map(|(name, value)| format!("{name}=\"{value}\""));
    Ok(taken.collect())
}

/// `--set`, and the options that are parameters of databases.
fn database_settings(arguments: &options::Run, only_apps: bool) -> anyhow::Result<Vec<String>> {
    let mut set = arguments.set.clone();
    let address = arguments.address.as_deref().map(address).transpose()?;
    let options = [
        ("engine", &arguments.engine),
        ("terminals", &arguments.terminals),
        ("verify", &arguments.verify.then(|| "1".to_string())),
        // a password may hold a comma
        ("address", &address.map(|address| format!("\"{address}\""))),
    ];
    for (name, value) in options {
        let Some(value) = value else { continue };
        if !only_apps {
            return Err(bad_input(format!(
                "--{name} is for databases (tpcc, oltp-insert, ycsb-a ...), not for files in WML"
            )));
        }
        set.push(format!("{name}={value}"));
    }
    Ok(set)
}

/// The address that `--address` names: itself, or what a file says.
fn address(word: &str) -> anyhow::Result<String> {
    let Some(file) = word.strip_prefix('@') else { return Ok(word.to_string()) };
    let text =
        std::fs::read_to_string(file).map_err(|error| bad_input(format!("--address {word}: {error}")))?;
    Ok(text.trim().to_string())
}

/// `--with` as the variable of job files that says who runs them.
fn by_fio(arguments: &options::Run, files: &[PathBuf]) -> anyhow::Result<Option<String>> {
    let is_job = |file: &Path, text: &str| lab::read::is_job_file(&file.display().to_string(), text);
    variable_of_all(&arguments.with, lab::load::WITH, files, is_job, "--with is for job files of fio")
}

/// `--speed` as the variable of replayed traces that says how fast they are.
fn at_speed(arguments: &options::Run, files: &[PathBuf]) -> anyhow::Result<Option<String>> {
    let replays = |file: &Path, text: &str| lab::read::is_recording(file) || lab::read::replays(text);
    let refused =
        "--speed is for what was recorded: recordings, iologs of fio, and job files with `read_iolog`";
    variable_of_all(&arguments.speed, lab::load::SPEED, files, replays, refused)
}

/// What an option says as a variable of workload files, each of which has to fit it.
fn variable_of_all(
    said: &Option<String>,
    variable: &str,
    files: &[PathBuf],
    fits: impl Fn(&Path, &str) -> bool,
    refused: &str,
) -> anyhow::Result<Option<String>> {
    let Some(value) = said else { return Ok(None) };
    let fits = |file: &PathBuf| fits(file, &lab::read::text(file).unwrap_or_default());
    if files.is_empty() || !files.iter().all(fits) {
        return Err(bad_input(refused));
    }
    Ok(Some(format!("{variable}={value}")))
}

/// What stands after `--` as the parameter of loads that have options of their own.
fn own_options(arguments: &options::Run, apps: &[String], only_apps: bool) -> anyhow::Result<Option<String>> {
    if arguments.own.is_empty() {
        return Ok(None);
    }
    if !only_apps || apps.is_empty() || !apps.iter().all(|app| apps::App::has_options(app)) {
        return Err(bad_input(
            "options after `--` are for ior, mdtest and io500: loadline run ior --on dir:. -- -F -t 1m",
        ));
    }
    let text = arguments.own.join(" ");
    if text.contains('"') {
        return Err(bad_input("options after `--` hold no quotation marks"));
    }
    Ok(Some(format!("{}=\"{text}\"", apps::parallel::OPTIONS)))
}

fn current_directory() -> anyhow::Result<String> {
    let directory = std::env::current_dir().context("the current directory")?;
    // Quoted, since a path may hold a comma.
    Ok(format!("dir:\"{}\"", directory.display()))
}

/// What the command line says goes before what the study says.
fn overrides(mut settings: Settings, arguments: &options::Run) -> anyhow::Result<Settings> {
    let seconds = |text: &Option<String>,
                   option: &str,
                   read: fn(&str, &str) -> anyhow::Result<Duration>|
     -> anyhow::Result<Option<Seconds>> {
        let Some(text) = text else { return Ok(None) };
        let seconds = Seconds::new(read(option, text)?.as_secs_f64());
        Ok(Some(seconds.map_err(|error| bad_input(format!("{option}: {error}")))?))
    };
    settings.seconds = seconds(&arguments.length, "--for", arg_parsers::length)?.or(settings.seconds);
    settings.warmup = seconds(&arguments.warmup, "--warmup", arg_parsers::time)?.or(settings.warmup);
    settings.timeout = seconds(&arguments.timeout, "--timeout", arg_parsers::length)?.or(settings.timeout);
    settings.trials = arguments.trials.unwrap_or(settings.trials);
    settings.seed = arguments.seed.unwrap_or(settings.seed);
    settings.ops = arguments.ops.or(settings.ops);
    settings.rate = arguments.rate.or(settings.rate);
    if let Some(io) = &arguments.io {
        settings.io = io.parse::<Io>().map_err(|error| bad_input(format!("--io: {error}")))?;
    }
    if let Some(memory) = &arguments.memory {
        let bytes = units::parse_bytes(memory).map_err(|error| bad_input(format!("--memory: {error}")))?;
        settings.memory = Some(Bytes(bytes));
    }
    if let Some(numbers) = &arguments.containers {
        settings.containers =
            numbers.parse().map_err(|error| bad_input(format!("--containers {numbers}: {error}")))?;
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
fn site(home: &Path, work: &Path, erase: Option<&str>) -> anyhow::Result<StackFactory> {
    let path = |path| camino::Utf8Path::from_path(path).context("a path is not UTF-8");
    let mut site = StackFactory::new(path(home)?, path(work)?)?;
    site.builder.erase = erase.map(camino::absolute_utf8).transpose().context("--erase")?;
    Ok(site)
}

/// Tells what the loads of a study warn of, each text once.
pub fn say_warnings(loads: &Loads) {
    let mut told: Vec<&str> = Vec::new();
    for warnings in loads.iter().map(|load| load.warnings.trim_end()) {
        if !warnings.is_empty() && !told.contains(&warnings) {
            host::note!("{warnings}");
            told.push(warnings);
        }
    }
}

/// Resolves every load as a trial would, so that a mistake shows now, and programs that nobody allowed.
fn check_workloads(study: &Study, by_option: bool) -> anyhow::Result<Loads> {
    let machine = lab::load::machine(study.study.memory.map(|bytes| bytes.0), FREE_BYTES_ASSUMED);
    let loads = lab::check::workloads(study, machine).map_err(bad_input)?;
    say_warnings(&loads);
    let permission = match (by_option, study.study.allow_system) {
        (true, _) => Permission::Option,
        (false, true) => Permission::Study,
        (false, false) => Permission::Missing,
    };
    programs::check_permission(loads.iter().flat_map(|load| &load.programs), permission)?;
    Ok(loads)
}

/// What is written beside the terminal.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReportOutputs<'a> {
    /// The page.
    pub html: Option<&'a Path>,
    /// A directory for CSV files and drawings.
    pub csv: Option<&'a Path>,
}

/// Shows a run, and writes what is asked for; gives the answers to its claims.
pub fn print_report(
    options: &Options,
    shown: &ReportOutputs<'_>,
    run: &Run,
) -> anyhow::Result<Vec<Judgement>> {
    let style = console::style(options);
    let judgements = analysis::judge::claims(run, &Thresholds::default())?;
    // files first: a reader of standard output that went away ends the rest
    if let Some(file) = shown.html {
        crate::report::write(file, &report::html::page(run, &judgements)?)?;
    }
    if let Some(directory) = shown.csv {
        crate::report::write_csv(directory, run)?;
    }
    console::print(&report::terminal::summary(run, style))?;
    if let Some(curves) = report::load_curve::LoadCurves::of(run, None) {
        console::print(&curves.terminal(style))?;
    }
    if !judgements.is_empty() {
        console::print(&report::terminal::claims(&judgements, style))?;
    }
    if let Some(file) = shown.html {
        console::print(&format!("report: {}", std::path::absolute(file)?.display()))?;
    }
    console::print(&format!("run {}: `loadline report {0} --html report.html` shows it in full", run.id))?;
    Ok(judgements)
}

/// How a command ended that ran a study.
pub fn exit_of(run: &Run, ending: SessionOutcome, judgements: &[Judgement]) -> Exit {
    if ending == SessionOutcome::Interrupted {
        return Exit::Interrupted;
    }
    let bad = |trial: &study::results::Trial| {
        matches!(trial.status, Status::Failed { .. } | Status::TimedOut { .. })
    };
    if run.trials.iter().any(bad) {
        return Exit::Failed;
    }
    if !run.trials.iter().any(|trial| trial.status.is_done()) {
        return Exit::CannotHere;
    }
    let empty =
        |trial: &study::results::Trial| trial.outcome.as_ref().is_none_or(|outcome| outcome.io_ops() == 0);
    // the columns of an evaluation need not be operations
    if Grid::of(run).is_none() && run.trials.iter().filter(|trial| trial.status.is_done()).all(empty) {
        host::note!(
            "loadline: not one I/O operation was done: see `starved` in the report, and `loadline check`"
        );
        return Exit::Failed;
    }
    if judgements.is_empty() { Exit::Done } else { Exit::of_code(analysis::judge::exit_code(judgements)) }
}
