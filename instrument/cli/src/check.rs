//! `check`: reads a workload or a study and says what it would do.

use std::io::Read;
use std::path::Path;

use kv::properties::Properties;
use lab::load::{FREE_BYTES_ASSUMED, ResolvedLoad, ScriptProgram, started};
use study::{CommandLine, Study};
use workload::stream::{OPERATIONS, QueueEngine, Replay, Stream};
use workload::{Draws, EndMode, Step, Value, Workload};

use crate::console::{self, Exit, bad_input};
use crate::evaluation::Source;
use crate::options::{self, Options};
use crate::programs;

/// What of a file tells its kind.
const HEAD_BYTES: u64 = 4096;

/// Checks a file.
pub fn check(options: &Options, arguments: &options::Check) -> anyhow::Result<Exit> {
    if arguments.file.extension().is_some_and(|extension| extension == "toml") {
        return check_study(arguments);
    }
    arguments.evaluating.refuse()?;
    let set = crate::arg_parsers::variables(&arguments.set)?;
    if lab::read::is_recording(&arguments.file) {
        return check_recording(arguments);
    }
    refuse_load_file(&arguments.file)?;
    let text = lab::read::text(&arguments.file).map_err(bad_input)?.into_bytes();
    let file = arguments.file.display().to_string();
    let read = String::from_utf8_lossy(&text);
    if lab::read::is_job_file(&file, &read) {
        return check_jobs(arguments, &file, set);
    }
    if Properties::is_workload(&read) {
        return check_properties(arguments, &file);
    }
    let name = arguments.file.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
    let settings = wml::Settings { machine: lab::load::machine(None, FREE_BYTES_ASSUMED), set, name };
    match wml::load(&text, &settings) {
        Ok(loaded) => {
            if !loaded.warnings.is_empty() {
                host::note!(
                    "{}",
                    loaded.warnings.render(&file, &text, console::color_on_stderr(options)).trim_end()
                );
            }
            let starts = starts(&started(&loaded, &file, &text), false);
            console::print(&format!("{file}: ok\n{}{starts}", describe(&loaded.workload)))?;
            if !loaded.variables.is_empty() {
                let variables: Vec<String> =
                    loaded.variables.iter().map(|(name, value)| format!("  ${name} = {value}")).collect();
                console::print(&format!(
                    "variables (change them with --set name=value):\n{}",
                    variables.join("\n")
                ))?;
            }
            Ok(Exit::Done)
        }
        Err(errors) => {
            host::note!("{}", errors.render(&file, &text, console::color_on_stderr(options)).trim_end());
            Ok(Exit::BadInput)
        }
    }
}

/// Reads a recording to its end and tells what is in it.
fn check_recording(arguments: &options::Check) -> anyhow::Result<Exit> {
    let line = CommandLine {
        files: vec![arguments.file.clone()],
        on: "tmpfs".into(),
        set: arguments.set.clone(),
        ..CommandLine::default()
    };
    // what is set is checked as `run` does
    let study = lab::read::command_line(&line).map_err(bad_input)?;
    lab::check::workloads(&study, lab::load::machine(None, FREE_BYTES_ASSUMED)).map_err(bad_input)?;
    let survey = apps::recorded::Survey::of(&arguments.file).map_err(bad_input)?;
    console::print(format!("{}: ok\n{survey}", arguments.file.display()).trim_end())?;
    Ok(Exit::Done)
}

/// Checks a property file of YCSB, as `run` reads it.
fn check_properties(arguments: &options::Check, file: &str) -> anyhow::Result<Exit> {
    let (_, properties) = crate::run::property_files(vec![arguments.file.clone()])?;
    let set = crate::run::properties_as_settings(&properties.unwrap_or_default(), &arguments.set)?;
    let set = [set, arguments.set.clone()].concat();
    let apps = vec![apps::key_values::CORE.to_string()];
    let line = CommandLine { apps, on: "tmpfs".into(), set, ..CommandLine::default() };
    let study = lab::read::command_line(&line).map_err(bad_input)?;
    let machine = lab::load::machine(None, FREE_BYTES_ASSUMED);
    let checked =
        lab::check::workloads(&study, machine).map_err(|error| bad_input(format!("{file}: {error}")))?;
    let mut text = format!("{file}: ok\n  a workload of YCSB\n");
    for (name, value) in checked.iter().take(1).flat_map(|load| &load.variables) {
        text += &format!("  {name} = {value}\n");
    }
    console::print(text.trim_end())?;
    Ok(Exit::Done)
}

/// A load file of dbench is a load of `simulate`, and of dbench itself. It is known by how it begins: Debian's is larger than
/// any workload that is read.
pub fn refuse_load_file(file: &Path) -> anyhow::Result<()> {
    // what a pipe gives is gone once it is read
    if !file.is_file() {
        return Ok(());
    }
    let mut head = Vec::new();
    // one that cannot be read is told of by whoever reads it whole
    let read = std::fs::File::open(file).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    if read.is_err() || !simulate::loadfile::is_load_file(&String::from_utf8_lossy(&head)) {
        return Ok(());
    }
    Err(bad_input(format!(
        "{0} is a load file of dbench: `loadline simulate {0}` runs it in virtual time, and the load `dbench` runs dbench itself \
         with its own one",
        file.display()
    )))
}

/// Checks a job file of fio: each group of sections that runs at once.
fn check_jobs(arguments: &options::Check, file: &str, set: Vec<(String, String)>) -> anyhow::Result<Exit> {
    let words: Vec<String> = set.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let line = CommandLine {
        files: vec![arguments.file.clone()],
        on: "tmpfs".into(),
        set: words,
        ..CommandLine::default()
    };
    let study = lab::read::command_line(&line).map_err(bad_input)?;
    let checked =
        lab::check::workloads(&study, lab::load::machine(None, FREE_BYTES_ASSUMED)).map_err(bad_input)?;
    let mut text = format!("{file}: ok\n");
    for load in checked.iter() {
        let parameters: Vec<String> =
            load.parameters.iter().map(|p| format!("{}={}", p.name, p.value)).collect();
        if !parameters.is_empty() {
            text += &format!("{}\n", parameters.join(" "));
        }
        match &load.load {
            ResolvedLoad::Wml(model) => text += &describe(model),
            _ => text += "  runs by fio itself\n",
        }
    }
    crate::run::say_warnings(&checked);
    console::print(text.trim_end())?;
    Ok(Exit::Done)
}

fn check_study(arguments: &options::Check) -> anyhow::Result<Exit> {
    let file = arguments.file.as_path();
    let study = arguments.evaluating.study(Source::File(file), &arguments.set, None)?;
    let machine = lab::load::machine(study.study.memory.map(|bytes| bytes.0), FREE_BYTES_ASSUMED);
    let checked = lab::check::workloads(&study, machine).map_err(bad_input)?;
    let (cells, trials) = (study::plan::cells(&study), study::plan::order(&study));
    let mut text = format!(
        "{}: ok\n{}: {} cells, {} trials\n{}",
        file.display(),
        study.study.title,
        cells.len(),
        trials.len(),
        evaluation(&study)
    );
    for stack in &study::plan::stacks(&study) {
        if stack.fs() == spec::FsKind::Virtual {
            text += "stack virtual: simulated, nothing is built\n";
            continue;
        }
        text += &format!("stack {stack}: {}\n", lab::stack_factory::availability(stack, false));
    }
    for load in checked.iter() {
        let parameters: String = load.parameters.iter().map(|p| format!(" {}={}", p.name, p.value)).collect();
        text += &format!("\nworkload {}{parameters}\n", load.workload);
        match &load.load {
            ResolvedLoad::Wml(model) => {
                text += &describe(model);
                text += &starts(&load.programs, study.study.allow_system);
            }
            ResolvedLoad::Simulated(job) => {
                text += &format!(
                    "  simulated in virtual time: {} containers on {}, {} cores, {} queues, device {}\n",
                    job.containers, job.stack, job.cores, job.queues, job.device
                );
            }
            ResolvedLoad::App(app) => {
                text += &format!("  the built-in load {}\n", app.name());
                if !app.programs().is_empty() {
                    text += &format!("  starts programs of its own choice: {}\n", app.programs().join(", "));
                }
            }
        }
    }
    crate::run::say_warnings(&checked);
    console::print(&text)?;
    Ok(Exit::Done)
}

/// The rows, columns and claims of a study that has such.
fn evaluation(study: &Study) -> String {
    let mut text = String::new();
    let mut line = |what: &str, words: Vec<&str>| {
        if !words.is_empty() {
            text += &format!("{what}: {}\n", words.join(", "));
        }
    };
    line("rows", study.rows.iter().filter(|row| !row.skip).map(|row| row.id.as_str()).collect());
    line("not run", study.rows.iter().filter(|row| row.skip).map(|row| row.id.as_str()).collect());
    for table in &study.tables {
        let runs = |load: &str| study.workloads.iter().any(|workload| workload.label() == load);
        let of_table = study.columns.iter().filter(|column| column.table == table.id && runs(&column.load));
        line(&table.title, of_table.map(|column| column.id.as_str()).collect());
    }
    if !study.claims.is_empty() {
        text += &format!("claims: {}\n", study.claims.len());
    }
    for size in study.evaluation.iter().flat_map(|evaluation| &evaluation.sizes) {
        text += &format!("  {size}\n");
    }
    text
}

/// What a workload would start by `system`, if anything.
fn starts(started: &[ScriptProgram], allowed: bool) -> String {
    if started.is_empty() {
        return String::new();
    }
    let permission = if allowed { "allowed by the study" } else { "refused without --allow-system" };
    let listed = programs::list(started).replace("\n  ", "\n    ");
    format!("  starts programs, with all your rights ({permission}):\n  {listed}")
}

/// How a job of fio issues what.
fn issued(stream: &Stream) -> String {
    let engine = match stream.queue.engine {
        QueueEngine::Blocking => "psync",
        QueueEngine::LibAio => "libaio",
        QueueEngine::Uring => "io_uring",
        QueueEngine::Mapped => "mmap",
    };
    if let Some(replay) = &stream.replay {
        return format!("{}, {} in flight by {engine}", replayed(replay, stream), stream.queue.depth);
    }
    let length = match (stream.budget.time_based, stream.budget.seconds) {
        (true, Some(seconds)) => format!("for {seconds} s"),
        (_, Some(seconds)) => {
            format!("{}, for {seconds} s at most", units::format_bytes(stream.budget.bytes))
        }
        _ => units::format_bytes(stream.budget.bytes),
    };
    format!("{length}, {} in flight by {engine}", stream.queue.depth)
}

/// What a trace does.
fn replayed(replay: &Replay, stream: &Stream) -> String {
    let trace = &replay.trace;
    let operations: Vec<String> = (OPERATIONS.iter().zip(trace.operations).zip(trace.bytes))
        .filter(|((_, count), _)| *count > 0)
        .map(|((name, count), bytes)| match bytes {
            0 => format!("{count} {name}"),
            bytes => format!("{count} {name} of {}", units::format_bytes(bytes)),
        })
        .collect();
    let length = match (replay.speed, trace.is_timed) {
        (Some(speed), true) => format!("{:.3} s at speed {speed}x", trace.length_ns as f64 / 1e9 / speed),
        _ => "as fast as possible".to_string(),
    };
    let sum = stream.files.iter().map(|file| file.size).fold(0, u64::saturating_add);
    let buffers = u64::from(trace.transfer_bytes_max).saturating_mul(u64::from(stream.queue.depth));
    let [sum, memory, buffers] = [sum, trace.packed_bytes() as u64, buffers].map(units::format_bytes);
    format!(
        "replays {} on {} files of {sum} together, {length}, {memory} of memory and {buffers} of buffers",
        operations.join(", "),
        stream.files.len()
    )
}

/// What a workload would do, in a few lines.
fn describe(workload: &Workload) -> String {
    let mut text = String::new();
    for fileset in &workload.filesets {
        let size = match workload::Layout::build(fileset, &workload.draws, 1) {
            Ok(layout) => format!(
                "{} files, {}, {} directories, {} leaf directories",
                layout.len(),
                units::format_bytes(layout.total_bytes()),
                layout.dir_count(),
                layout.leafdir_count()
            ),
            Err(error) => error.to_string(),
        };
        text += &format!(
            "  fileset {}: {size}, {} % there at the start\n",
            fileset.name, fileset.prealloc_percent
        );
    }
    let mut draws = Draws::new(&workload.draws, 1, 0, 0).ok();
    for process in &workload.processes {
        for thread in &process.threads {
            if let Some(stream) = &thread.stream {
                let copies =
                    if process.instances > 1 { format!(" x {}", process.instances) } else { String::new() };
                text += &format!("  job {}{copies}: {}\n", process.name, issued(stream));
                continue;
            }
            let memory = match thread.memory_bytes {
                Value::Int(bytes) => bytes,
                drawn => draws.as_mut().map_or(0, |draws| draws.eval(drawn)),
            };
            text += &format!(
                "  process {} x {}, thread {} x {}: {} flowops a pass, {} of buffer\n",
                process.name,
                process.instances,
                thread.name,
                thread.instances,
                thread.body.len(),
                units::format_bytes(memory)
            );
        }
    }
    for step in &workload.script {
        if let Step::Run { seconds, ops, .. } = step {
            let length = match (seconds, workload.end) {
                (Some(seconds), _) => format!("{seconds} s"),
                (None, EndMode::Timeout) => "60 s".to_owned(),
                (None, _) => "until done".to_owned(),
            };
            let ops = ops.map_or(String::new(), |ops| format!(", at most {ops} operations"));
            text += &format!("  runs {length}{ops} (change it with --for)\n");
        }
    }
    if let Some(rate) = engine::run::event_rate(workload) {
        text += &format!("  eventgen: {rate} events a second\n");
    }
    text
}
