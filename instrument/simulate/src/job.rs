//! What is simulated: a load, a stack, and how many containers.

use order::{Protocol, Setup};
use serde::{Deserialize, Serialize};
use ssd::Profile;
use workload::{FlowOp, Kind, Node, Workload};

use crate::loadfile::{LoadFile, LoadFileError};

/// Most containers of a simulation.
pub const CONTAINERS_MAX: u32 = 10_000;
/// Most cores and queues.
const WIDTH_MAX: u16 = 1024;
/// Measured virtual seconds when nobody says how many: throughput is steady long before.
pub const SECONDS: f64 = 2.0;
/// Virtual seconds of load before them, until the first commits have gathered their callers.
pub const WARMUP_SECONDS: f64 = 0.5;
/// Processor time of one operation of a script beside what the stack itself costs, ns. `order::programs::varmail` fits
/// 0.36 ms to a loop of the published varmail, which has 11 operations beside its two fsyncs.
pub const CALL_NS: u64 = 33_000;
/// The same of one line of a dbench load file, ns: 0.55 ms between two synchronous operations (see
/// `order::programs::dbench`), of which every 18.4th is one.
pub const LINE_NS: u64 = 29_900;

/// A simulated stack: a journal protocol with the host's part of it, by the name that options use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack {
    /// The protocol.
    pub protocol: Protocol,
}

impl Stack {
    /// Its name in options and results.
    pub fn name(self) -> &'static str {
        match self.protocol {
            Protocol::BarrierFs => "bfs-sq",
            other => other.name(),
        }
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Protocol::ALL.into_iter().map(|protocol| Stack { protocol }.name())
    }

    /// The stack of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> Result<Stack, JobError> {
        let found =
            Protocol::ALL.into_iter().map(|protocol| Stack { protocol }).find(|one| one.name() == name);
        found.ok_or_else(|| JobError::Stack {
            name: name.into(),
            known: Stack::names().collect::<Vec<_>>().join(", "),
        })
    }
}

/// What is wrong with a simulation that is asked for.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is; the fields are the words it quotes")]
pub enum JobError {
    #[error("unknown stack `{name}`; known are {known}")]
    Stack { name: String, known: String },
    #[error("unknown device: {0}")]
    Device(#[from] ssd::error::ProfileError),
    #[error("{name} = `{value}`: {right}")]
    Value { name: &'static str, value: String, right: String },
    #[error("unknown program `{name}`; known are {known}, a WML script (*.f) and a dbench load file")]
    Program { name: String, known: String },
    #[error("`{name}` is no variable of this program; known are {known}")]
    Variable { name: String, known: String },
    #[error("flowop {flowop} ({kind}): {why}")]
    Flowop { flowop: String, kind: &'static str, why: &'static str },
    #[error("`system` starts programs, which virtual time has none of: {0}")]
    System(String),
    #[error(transparent)]
    LoadFile(#[from] LoadFileError),
}

/// Programs that need no file.
pub const PROGRAMS: [&str; 4] = ["varmail", "dbench", "sysbench", "write-fsync"];
/// Names of the variables that describe a simulation; all others belong to the script.
pub const VARIABLES: [&str; 9] =
    ["stack", "containers", "cores", "queues", "device", "pinning", "cpu", "idle", "loadfile"];

/// What runs in each container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Load {
    /// A script in Filebench's language.
    Wml {
        /// The model.
        model: Box<Workload>,
    },
    /// A dbench load file; read again by who runs it, since it is large.
    LoadFile {
        /// Where it is.
        path: String,
        /// [`LoadFile::digest`] of what it held when it was checked.
        digest: String,
    },
    /// One of [`PROGRAMS`].
    Program {
        /// Its name.
        name: String,
    },
}

/// A simulation: everything but its length and its seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What runs.
    pub load: Load,
    /// Name of the [`Stack`].
    pub stack: String,
    /// Containers that run it at the same time.
    pub containers: u32,
    /// Cores of the host.
    pub cores: u16,
    /// I/O queues of the host.
    pub queues: u16,
    /// Name of the device's profile.
    pub device: String,
    /// Epoch pinning, of `opext4` alone.
    pub pinning: bool,
    /// Processor time of each operation, ns; of scripts and load files.
    pub call_ns: u64,
    /// Of `write-fsync`: the device was idle before, and needs its time to wake up.
    pub cold: bool,
}

impl Job {
    /// A job from its variables ([`VARIABLES`]). A script is given by its `model`, with the variables that are not its own.
    ///
    /// # Errors
    /// A program, stack, device or value that does not exist; a script with a flowop that cannot be simulated; a load file
    /// that cannot be read.
    pub fn new(
        program: &str,
        model: Option<Workload>,
        variables: &[(String, String)],
    ) -> Result<Job, JobError> {
        let load = load(program, model, variables)?;
        let call_ns = if matches!(load, Load::LoadFile { .. }) { LINE_NS } else { CALL_NS };
        let mut job = Job {
            load,
            stack: "ext4".into(),
            containers: 1,
            cores: 40,
            queues: 40,
            device: "980pro".into(),
            pinning: true,
            call_ns,
            cold: false,
        };
        variables.iter().try_for_each(|(name, value)| job.set(name, value))?;
        Ok(job)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), JobError> {
        match name {
            "stack" => self.stack = Stack::named(value)?.name().into(),
            "containers" => self.containers = number("containers", value, CONTAINERS_MAX)?,
            "cores" => self.cores = number("cores", value, WIDTH_MAX.into())? as u16,
            "queues" => self.queues = number("queues", value, WIDTH_MAX.into())? as u16,
            "device" => {
                Profile::named(value)?;
                self.device = value.into();
            }
            "pinning" => self.pinning = one_of("pinning", value, ["on", "off"])?,
            "idle" => self.cold = one_of("idle", value, ["cold", "warm"])?,
            "cpu" => self.call_ns = duration("cpu", value)?,
            "loadfile" => {}
            other => {
                let known = VARIABLES.join(", ");
                return Err(JobError::Variable { name: other.into(), known });
            }
        }
        Ok(())
    }

    /// The host, for a disk of this layout.
    ///
    /// # Errors
    /// A stack or device that does not exist.
    pub fn setup(&self, layout: order::Layout, seed: u64) -> Result<Setup, JobError> {
        let protocol = Stack::named(&self.stack)?.protocol;
        let mut setup = Setup::testbed(protocol, Profile::named(&self.device)?, self.containers);
        setup.cores = self.cores;
        setup.queues = if protocol == Protocol::BarrierFs { 1 } else { self.queues };
        setup.pinning = self.pinning;
        setup.layout = layout;
        setup.seed = seed;
        Ok(setup)
    }
}

fn load(program: &str, model: Option<Workload>, variables: &[(String, String)]) -> Result<Load, JobError> {
    if let Some(model) = model {
        check(&model)?;
        return Ok(Load::Wml { model: Box::new(model) });
    }
    if let Some((_, path)) = variables.iter().find(|(name, _)| name == "loadfile") {
        let digest = LoadFile::open(path)?.digest;
        return Ok(Load::LoadFile { path: path.clone(), digest });
    }
    if PROGRAMS.contains(&program) {
        return Ok(Load::Program { name: program.into() });
    }
    Err(JobError::Program { name: program.into(), known: PROGRAMS.join(", ") })
}

fn number(name: &'static str, value: &str, max: u32) -> Result<u32, JobError> {
    let read = value.parse().ok().filter(|number| (1..=max).contains(number));
    read.ok_or_else(|| JobError::Value {
        name,
        value: value.into(),
        right: format!("a whole number from 1 to {max} is right"),
    })
}

/// Whether it is the first of two words.
fn one_of(name: &'static str, value: &str, words: [&str; 2]) -> Result<bool, JobError> {
    match value {
        word if word == words[0] => Ok(true),
        word if word == words[1] => Ok(false),
        _ => Err(JobError::Value {
            name,
            value: value.into(),
            right: format!("`{}` or `{}` is right", words[0], words[1]),
        }),
    }
}

fn duration(name: &'static str, value: &str) -> Result<u64, JobError> {
    let wrong = |right: String| JobError::Value { name, value: value.into(), right };
    let length = units::parse_duration(value)
        .map_err(|error| wrong(format!("{error}; a time such as 120us is right")))?;
    match u64::try_from(length.as_nanos()) {
        Ok(ns) if ns <= 1_000_000_000 => Ok(ns),
        _ => Err(wrong("at most 1s is right".into())),
    }
}

/// Refuses what virtual time has no answer to.
fn check(model: &Workload) -> Result<(), JobError> {
    let programs: Vec<&str> = model.programs().collect();
    if !programs.is_empty() {
        return Err(JobError::System(programs.join("; ")));
    }
    for thread in model.threads() {
        let mut flows = Vec::new();
        thread.body.iter().for_each(|node| flatten(node, &mut flows));
        let direct = flows.iter().any(|flow| flow.direct_io);
        flows.iter().try_for_each(|flow| check_flowop(flow, direct))?;
    }
    Ok(())
}

fn flatten<'w>(node: &'w Node, into: &mut Vec<&'w FlowOp>) {
    match node {
        Node::Op(flow) => into.push(flow),
        Node::Group { body, .. } => body.iter().for_each(|node| flatten(node, into)),
    }
}

/// `direct`: some flowop of its thread opens files with `directio`.
fn check_flowop(flow: &FlowOp, direct: bool) -> Result<(), JobError> {
    let why = match flow.kind {
        Kind::AioWrite | Kind::AioWait => {
            "the simulated file system has no asynchronous writes: use `write`, and more threads"
        }
        Kind::Hog => "it spends real processor time: use `delay`, or the variable cpu",
        Kind::Write | Kind::WriteWholeFile | Kind::AppendFile | Kind::AppendFileRand if direct => {
            "`directio` is simulated for reads alone: write without it and use `dsync`, or `fsync`"
        }
        _ => return Ok(()),
    };
    Err(JobError::Flowop { flowop: flow.name.clone(), kind: flow.kind.name(), why })
}
