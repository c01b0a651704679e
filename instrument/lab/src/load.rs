//! Loads resolved for a cell: typed, sized, ready to run. It is done once for each cell at the beginning of a campaign;
//! checks, estimates and time-outs stand on the same answer as the trials.

use apps::{App, AppError};
use host::Host;
use serde::{Deserialize, Serialize};
use study::counts::CONTAINERS;
use study::offered::OFFERED;
use study::results::Parameter;
use study::{Load, Secrets, Settings, StudyError, Workload};
use workload::address::redact_word;
use workload::stream::Replay;
use workload::{Address, IoMode, Step};

/// Free bytes that are assumed for `$free` as long as there is no target: those of a default image.
pub const FREE_BYTES_ASSUMED: u64 = 8 << 30;
/// Length of a run for which neither study nor script gives one.
const RUN_SECONDS: f64 = 60.0;
/// The least memory limit that a container gets unasked: the load's process needs some of it itself.
const CONTAINER_BYTES_MIN: u64 = 16 << 20;
/// The variable of a job file that says who runs it: loadline (the default) or fio.
pub const WITH: &str = "with";
/// The variable of an iolog, or of a job file that names some, that says how fast it is replayed.
pub const SPEED: &str = fiojob::SPEED;
/// A job file runs on loadline's own engine.
const BY_LOADLINE: &str = "loadline";
/// The variable that depends on the target.
const FREE: &str = "free";

/// A load resolved for a workload with one combination of parameters.
#[derive(Debug)]
pub struct ResolvedWorkload {
    /// The workload's label.
    pub workload: String,
    /// The combination of swept parameters.
    pub parameters: Vec<Parameter>,
    /// What runs.
    pub load: ResolvedLoad,
    /// Warnings as WML renders them; empty when there are none.
    pub warnings: String,
    /// Final values of a script's variables; the parameters of an application. Without passwords.
    pub variables: Vec<(String, String)>,
    /// The passwords among them.
    secrets: Secrets,
    /// Programs that its script starts by `system`, in the order in which it does.
    pub programs: Vec<ScriptProgram>,
    /// Measured seconds that a trial is planned to take.
    pub seconds: f64,
    /// Seconds of load before them.
    pub warmup_seconds: f64,
    /// The machine that it is sized for.
    pub machine: wml::Machine,
    /// How many containers run it at once; without a number it runs without.
    pub containers: Option<u32>,
    /// It speaks of `$free`, so that it is another one on another target.
    pub sized_by_target: bool,
}

/// What runs.
#[derive(Debug)]
pub enum ResolvedLoad {
    /// The model of a script in Filebench's language.
    Wml(Box<workload::Workload>),
    /// An application.
    App(App),
    /// A simulation.
    Simulated(Box<simulate::Job>),
}

/// What is run: nothing is left to be read or resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum LoadSpec {
    /// The model of a script in Filebench's language.
    Wml {
        /// The model.
        model: Box<workload::Workload>,
    },
    /// An application of crate `apps`.
    App {
        /// Its name.
        name: String,
        /// Its parameters.
        variables: Vec<(String, String)>,
    },
    /// A simulation.
    Simulated {
        /// All of it.
        job: Box<simulate::Job>,
    },
}

/// A program that a script starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptProgram {
    /// Where this stands: file and line, or workload and line of its `text`.
    pub place: String,
    /// The command for `/bin/sh`, variables filled in.
    pub command: String,
}

/// Resolves a workload's load for a combination of parameters.
///
/// # Errors
/// A script that cannot run, with its diagnostics; an application or a parameter that is not known.
pub fn prepare(
    workload: &Workload,
    parameters: &[Parameter],
    settings: &Settings,
    machine: wml::Machine,
) -> Result<ResolvedWorkload, StudyError> {
    let (containers, mut swept) = crowd(parameters, settings);
    if !settings.offered.is_empty() {
        swept.retain(|parameter| parameter.name != OFFERED);
    }
    let variables = workload.variables(&swept);
    let machine = match containers {
        Some(number) => wml::Machine { ram_bytes: container_bytes(number, settings), ..machine },
        None => machine,
    };
    if let Some((name, value)) = variables.iter().find(|(_, value)| is_lost(value, &settings.secrets)) {
        let report = format!(
            "workload {}: {name} = {value} is from a record, which keeps no password; give the address again",
            workload.label()
        );
        return Err(StudyError::Workload { workload: workload.label().to_string(), report });
    }
    let mut prepared = match &workload.load {
        Load::Wml { text, origin } => {
            let file = origin.as_deref().unwrap_or(workload.label());
            let set = [engine_of(text, settings), settings.secrets.reveal_all(&variables)].concat();
            script(workload, text, file, set, machine)?
        }
        Load::App { name } => application(workload, name, variables, machine)?,
        Load::Simulated { program, script } => simulated(workload, program, script.as_ref(), variables)?,
    };
    prepared.parameters = parameters.to_vec();
    prepared.secrets = settings.secrets.clone();
    prepared.variables.iter_mut().for_each(|(_, value)| *value = redact_word(value).into_owned());
    prepared.containers = containers;
    let alone = match &prepared.load {
        ResolvedLoad::App(app) if !app.waits_at_gate() || app.reads_host_files() => Some(app.name()),
        ResolvedLoad::Simulated(_) => Some("simulate"),
        ResolvedLoad::App(_) | ResolvedLoad::Wml(_) => None,
    };
    if containers.is_some()
        && let Some(name) = alone
    {
        let report = format!(
            "workload {}: the load `{}` does not run in containers; workloads in WML do, and {}",
            workload.label(),
            name,
            apps::App::that_wait_at_gate().join(", ")
        );
        return Err(StudyError::Workload { workload: workload.label().to_string(), report });
    }
    if !settings.offered.is_empty()
        && let Some(name) = without_rate(&prepared.load)
    {
        let report = format!(
            "workload {}: the load `{name}` has no rate that could be offered; workloads in WML have one, and databases",
            workload.label()
        );
        return Err(StudyError::Workload { workload: workload.label().to_string(), report });
    }
    let is_paced = !settings.offered.is_empty() || settings.rate.or(workload.rate).is_some();
    if is_paced && prepared.model().is_some_and(reads_back) {
        let report = format!(
            "workload {}: a job with `verify` reads back what it has written, and those reads are due at no moment, so that no rate can be \
             offered; leave out the rate, or set do_verify=0",
            workload.label()
        );
        return Err(StudyError::Workload { workload: workload.label().to_string(), report });
    }
    if is_paced && prepared.model().is_some_and(is_paced_replay) {
        let report = format!(
            "workload {}: what is replayed has times of its own; leave out the rate, or the times: --set {}=max",
            workload.label(),
            SPEED
        );
        return Err(StudyError::Workload { workload: workload.label().to_string(), report });
    }
    // most applications end when they are done
    if prepared.app().is_none_or(App::takes_time) {
        let told = |own: Option<study::Seconds>, all| own.or(all).map(|seconds| seconds.0);
        let seconds = told(workload.seconds, settings.seconds);
        let warmup_seconds = told(workload.warmup, settings.warmup);
        prepared.seconds = seconds.unwrap_or(prepared.seconds);
        prepared.warmup_seconds = warmup_seconds.unwrap_or(prepared.warmup_seconds);
        // what all jobs wait comes before it
        prepared.warmup_seconds += prepared.model().map_or(0.0, workload::Workload::common_delay_seconds);
    }
    Ok(prepared)
}

/// Whether a value is an address whose password nobody has given.
fn is_lost(value: &str, secrets: &Secrets) -> bool {
    Address::from(value).is_redacted() && secrets.reveal(value) == value
}

/// The name of a load that runs as fast as it goes, whatever is offered.
fn without_rate(load: &ResolvedLoad) -> Option<&'static str> {
    match load {
        ResolvedLoad::App(app) if !app.takes_time() || app.name() == apps::app::FIO => Some(app.name()),
        ResolvedLoad::Simulated(_) => Some("simulate"),
        ResolvedLoad::App(_) | ResolvedLoad::Wml(_) => None,
    }
}

/// Whether a load reads back what it has written: such reads have no intended start, and come beside what is offered.
fn reads_back(model: &workload::Workload) -> bool {
    model.streams().filter_map(|stream| stream.verify.as_ref()).any(|verify| verify.read_back)
}

/// Whether a load replays a trace at the times of its recording.
fn is_paced_replay(model: &workload::Workload) -> bool {
    model.streams().filter_map(|stream| stream.replay.as_ref()).any(Replay::is_paced)
}

/// How an iolog issues what it says: as `--io` does. (A job file has an `ioengine`.)
fn engine_of(text: &str, settings: &Settings) -> Vec<(String, String)> {
    match settings.io.0 {
        IoMode::Uring { depth } if fiojob::is_iolog(text) => {
            vec![("ioengine".into(), "io_uring".into()), ("iodepth".into(), depth.to_string())]
        }
        _ => Vec::new(),
    }
}

/// The number of containers of a cell, and the parameters that are the load's.
fn crowd(parameters: &[Parameter], settings: &Settings) -> (Option<u32>, Vec<Parameter>) {
    if settings.containers.is_empty() {
        return (None, parameters.to_vec());
    }
    let (number, others): (Vec<Parameter>, _) =
        parameters.iter().cloned().partition(|parameter| parameter.name == CONTAINERS);
    (number.first().and_then(|number| number.value.parse().ok()), others)
}

/// Memory limit of each of so many containers: what the study says, else an equal part of half of the machine's memory.
pub fn container_bytes(number: u32, settings: &Settings) -> u64 {
    let half = || Host::system().memory_bytes().unwrap_or(1 << 30) / 2;
    let share = || (half() / u64::from(number.max(1))).max(CONTAINER_BYTES_MIN);
    settings.memory.map_or_else(share, |limit| limit.0)
}

fn script(
    workload: &Workload,
    text: &str,
    file: &str,
    set: Vec<(String, String)>,
    machine: wml::Machine,
) -> Result<ResolvedWorkload, StudyError> {
    // a value that is set may speak of it as well
    let set_by_target = set.iter().any(|(_, value)| value.contains(FREE));
    let settings = wml::Settings { machine, set, name: workload.label().to_string() };
    if crate::read::is_job_file(file, text) {
        return job_file(workload, text, file, &settings);
    }
    let text = text.as_bytes();
    let loaded = wml::load(text, &settings).map_err(|found| StudyError::Workload {
        workload: workload.label().to_string(),
        report: found.render(file, text, false),
    })?;
    let (seconds, warmup_seconds) = length(&loaded.workload);
    Ok(ResolvedWorkload {
        workload: workload.label().to_string(),
        parameters: Vec::new(),
        warnings: loaded.warnings.render(file, text, false),
        programs: started(&loaded, file, text),
        seconds,
        warmup_seconds,
        machine,
        containers: None,
        sized_by_target: set_by_target || loaded.variables.iter().any(|(name, _)| name == FREE),
        variables: loaded.variables,
        secrets: Secrets::default(),
        load: ResolvedLoad::Wml(Box::new(loaded.workload)),
    })
}

/// A job file of fio.
fn job_file(
    workload: &Workload,
    text: &str,
    file: &str,
    settings: &wml::Settings,
) -> Result<ResolvedWorkload, StudyError> {
    let wrong = |report: String| StudyError::Workload { workload: workload.label().to_string(), report };
    let (with, set): (Vec<_>, Vec<_>) = settings.set.iter().cloned().partition(|(name, _)| name == WITH);
    match with.last().map_or(BY_LOADLINE, |(_, value)| value.as_str()) {
        BY_LOADLINE => {}
        apps::app::FIO => {
            let job = fiojob::external(text, &set).map_err(|error| wrong(error.render(file)))?;
            let variables = vec![("job".to_string(), job.text)];
            let mut prepared = application(workload, apps::app::FIO, variables, settings.machine)?;
            prepared.seconds = job.seconds.unwrap_or(RUN_SECONDS);
            prepared.warmup_seconds = job.ramp_seconds;
            return Ok(prepared);
        }
        other => return Err(wrong(format!("{file}: {WITH} = {other} is neither {BY_LOADLINE} nor fio"))),
    }
    let loaded = fiojob::load(text, &settings.name, &set).map_err(|error| wrong(error.render(file)))?;
    let (mut seconds, warmup_seconds) = length(&loaded.workload);
    if loaded.replay_seconds > 0.0 && !loaded.workload.script.iter().any(has_seconds) {
        seconds = loaded.replay_seconds;
    }
    Ok(ResolvedWorkload {
        workload: workload.label().to_string(),
        parameters: Vec::new(),
        warnings: loaded.notes.iter().map(|note| format!("{file}: note: {note}\n")).collect(),
        programs: Vec::new(),
        seconds,
        warmup_seconds,
        machine: settings.machine,
        containers: None,
        sized_by_target: false,
        variables: loaded.variables,
        secrets: Secrets::default(),
        load: ResolvedLoad::Wml(Box::new(loaded.workload)),
    })
}

fn application(
    workload: &Workload,
    name: &str,
    variables: Vec<(String, String)>,
    machine: wml::Machine,
) -> Result<ResolvedWorkload, StudyError> {
    let app = App::new(name, &variables).map_err(|error| {
        let near = match &error {
            AppError::Unknown { name, known } => units::nearest(name, known.iter().copied()),
            _ => None,
        };
        let help = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let report = format!("workload {}: {error}{help}", workload.label());
        StudyError::Workload { workload: workload.label().to_string(), report }
    })?;
    Ok(ResolvedWorkload {
        workload: workload.label().to_string(),
        parameters: Vec::new(),
        warnings: String::new(),
        programs: Vec::new(),
        seconds: app.seconds_guess(),
        warmup_seconds: 0.0,
        machine,
        containers: None,
        sized_by_target: false,
        variables,
        secrets: Secrets::default(),
        load: ResolvedLoad::App(app),
    })
}

/// The machine that simulated scripts are sized for: the host's memory, and what each container may fill of the disk. Its
/// cores are those of the simulation.
const SIMULATED: wml::Machine = wml::Machine { ram_bytes: 64 << 30, cores: 40, free_bytes: 1 << 30 };

fn simulated(
    workload: &Workload,
    program: &str,
    text: Option<&(String, Option<String>)>,
    variables: Vec<(String, String)>,
) -> Result<ResolvedWorkload, StudyError> {
    let of_job = |(name, _): &(String, String)| simulate::job::VARIABLES.contains(&name.as_str());
    let (job, own): (Vec<_>, Vec<_>) = variables.iter().cloned().partition(of_job);
    let mut prepared = match text {
        Some((text, origin)) => {
            let cores = job.iter().rev().find(|(name, _)| name == "cores");
            let cores = cores.and_then(|(_, value)| value.parse().ok()).unwrap_or(SIMULATED.cores);
            let file = origin.as_deref().unwrap_or(workload.label());
            script(workload, text, file, own, wml::Machine { cores, ..SIMULATED })?
        }
        None => ResolvedWorkload {
            workload: workload.label().to_string(),
            parameters: Vec::new(),
            warnings: String::new(),
            programs: Vec::new(),
            seconds: 0.0,
            warmup_seconds: 0.0,
            containers: None,
            machine: SIMULATED,
            sized_by_target: false,
            variables: Vec::new(),
            secrets: Secrets::default(),
            load: ResolvedLoad::Wml(Box::default()),
        },
    };
    let model = match (text, prepared.load) {
        (Some(_), ResolvedLoad::Wml(model)) => Some(*model),
        _ => None,
    };
    // without a script all variables are the simulation's, and one that it does not know is an error
    let of_job = if model.is_some() { &job } else { &variables };
    let made = simulate::Job::new(program, model, of_job).map_err(|error| StudyError::Workload {
        workload: workload.label().to_string(),
        report: format!("workload {}: {error}", workload.label()),
    })?;
    prepared.load = ResolvedLoad::Simulated(Box::new(made));
    prepared.seconds = simulate::job::SECONDS;
    prepared.warmup_seconds = simulate::job::WARMUP_SECONDS;
    // the disk that `$free` speaks of is simulated as well
    prepared.sized_by_target = false;
    prepared.variables.extend(job);
    Ok(prepared)
}

impl ResolvedWorkload {
    /// Seconds of load, warm-up included.
    pub fn load_seconds(&self) -> f64 {
        self.seconds + self.warmup_seconds
    }

    /// The model of its script, when it is one.
    pub fn model(&self) -> Option<&workload::Workload> {
        match &self.load {
            ResolvedLoad::Wml(model) => Some(model),
            ResolvedLoad::App(_) | ResolvedLoad::Simulated(_) => None,
        }
    }

    /// The application, when it is one.
    pub fn app(&self) -> Option<&App> {
        match &self.load {
            ResolvedLoad::Wml(_) | ResolvedLoad::Simulated(_) => None,
            ResolvedLoad::App(app) => Some(app),
        }
    }

    /// What a worker is told.
    pub(crate) fn spec(&self) -> LoadSpec {
        match &self.load {
            ResolvedLoad::Wml(model) => LoadSpec::Wml { model: model.clone() },
            ResolvedLoad::App(app) => {
                let variables = self.secrets.reveal_all(&self.variables);
                LoadSpec::App { name: app.name().to_string(), variables }
            }
            ResolvedLoad::Simulated(job) => LoadSpec::Simulated { job: job.clone() },
        }
    }
}

/// What a script that was loaded from `text` starts; `file` is what people know it by.
pub fn started(loaded: &wml::Loaded, file: &str, text: &[u8]) -> Vec<ScriptProgram> {
    let one = |program: &wml::Program| ScriptProgram {
        place: format!("{file}:{}", program.span.line(text)),
        command: program.command.clone(),
    };
    loaded.programs.iter().map(one).collect()
}

/// The machine as workloads see it: `$ram` is the memory limit when there is one.
pub fn machine(memory_limit_bytes: Option<u64>, free_bytes: u64) -> wml::Machine {
    let total = || Host::system().memory_bytes().unwrap_or(1 << 30);
    wml::Machine {
        ram_bytes: memory_limit_bytes.unwrap_or_else(total),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        free_bytes,
    }
}

/// Whether a step is a run of a set length.
fn has_seconds(step: &Step) -> bool {
    matches!(step, Step::Run { seconds: Some(_), .. })
}

/// Measured and warm-up seconds that a script asks for.
fn length(model: &workload::Workload) -> (f64, f64) {
    let run = model.script.iter().find_map(|step| match step {
        Step::Run { seconds, warmup_seconds, .. } => Some((*seconds, *warmup_seconds)),
        _ => None,
    });
    run.map_or((RUN_SECONDS, 0.0), |(seconds, warmup)| {
        (seconds.map_or(RUN_SECONDS, |seconds| seconds as f64), warmup as f64)
    })
}
