//! Reads studies and the workload files that they name.

use std::path::Path;

use study::{AppFile, CommandLine, Load, Study, StudyError, StudyVariant};

/// A workload file larger than this is refused.
const WORKLOAD_BYTES_MAX: u64 = 16 << 20;
/// So is an iolog larger than this: it is kept with the run, and packed for each worker.
const IOLOG_BYTES_MAX: u64 = 64 << 20;
/// What a binary trace of blktrace begins with: the kernel's `BLK_IO_TRACE_MAGIC` and its version 7, in either byte order.
const BLKTRACE: [[u8; 4]; 2] = [*b"\x07tae", *b"eat\x07"];

/// The variable of a job file that chooses sections.
const JOB: &str = "job";

/// Reads a study for a scene, and the workload files that it names, whose paths are relative to the study.
///
/// # Errors
/// A file that cannot be read, a text that is no study (with the place), a study that contradicts itself.
pub fn study(path: &Path, scene: &StudyVariant) -> Result<Study, StudyError> {
    let text = text(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let read = |file: &str| self::text(&folder.join(file));
    let mut study = Study::parse_for(&text, &path.display().to_string(), &read, scene)?;
    one_after_another(&mut study)?;
    Ok(study)
}

/// The study that a command line means, with the WML files that it names; recordings among them are replayed.
///
/// # Errors
/// A file that cannot be read, a recording that was cut, a stack or variable that cannot be understood.
pub fn command_line(line: &CommandLine) -> Result<Study, StudyError> {
    let (recordings, files): (Vec<_>, Vec<_>) =
        line.files.iter().cloned().partition(|file| is_recording(file));
    let recordings = recordings.iter().map(|file| recording(file)).collect::<Result<Vec<_>, _>>()?;
    let app_files = [line.app_files.clone(), recordings].concat();
    let mut study = Study::from_command_line(&CommandLine { files, app_files, ..line.clone() }, &text)?;
    one_after_another(&mut study)?;
    Ok(study)
}

/// The study that a command line means whose load is a command line of fio.
///
/// # Errors
/// As [`command_line`]; words that fio's command line does not have.
pub fn fio_line(line: &CommandLine, words: &[String]) -> Result<Study, StudyError> {
    let workload = "fio".to_string();
    let job = fiojob::from_words(words)
        .map_err(|errors| StudyError::Workload { workload, report: errors.render("fio's command line") })?;
    let job = with_logs(&job, Path::new(""), "fio's command line")?;
    let line = CommandLine { files: vec!["fio.fio".into()], ..line.clone() };
    let mut study = Study::from_command_line(&line, &|_| Ok(job.clone()))?;
    one_after_another(&mut study)?;
    Ok(study)
}

/// What a job file may speak of: the environment, and fio's own words for the machine.
fn of_machine(name: &str) -> Option<String> {
    match name {
        "ncpus" => std::thread::available_parallelism().ok().map(|cores| cores.to_string()),
        "pagesize" => Some(rustix::param::page_size().to_string()),
        "mb_memory" => host::Host::system().memory_bytes().map(|bytes| (bytes >> 20).to_string()),
        name => std::env::var(name).ok(),
    }
}

/// Sections of a job file that wait for each other become cells: one for each group that runs at once. A section that is
/// chosen already stays so.
fn one_after_another(study: &mut Study) -> Result<(), StudyError> {
    let chosen = study.parameters.get(JOB).is_some();
    for workload in &mut study.workloads {
        let Load::Wml { text, origin: Some(origin) } = &workload.load else { continue };
        let known = [&workload.set, &workload.parameters].iter().any(|sweeps| sweeps.get(JOB).is_some());
        if chosen || known || !is_job_file(origin, text) {
            continue;
        }
        let groups = fiojob::groups(text);
        if groups.len() > 1 {
            workload.parameters.put(JOB, groups).map_err(StudyError::Argument)?;
        }
    }
    Ok(())
}

/// Whether a workload's file is a job file of fio, or one of its iologs, which is read as one: by its name, or by what it says.
pub fn is_job_file(file: &str, text: &str) -> bool {
    Path::new(file).extension().is_some_and(|extension| extension == "fio")
        || fiojob::is_job_file(text)
        || fiojob::is_iolog(text)
}

/// Whether a workload's file replays what was recorded: an iolog, or a job file that names some.
pub fn replays(text: &str) -> bool {
    fiojob::is_iolog(text) || fiojob::is_job_file(text) && fiojob::has_logs(text)
}

/// Whether a file is a recording of what a program did to its files, by how it begins.
pub fn is_recording(path: &Path) -> bool {
    apps::recorded::is_recording(path)
}

/// A recording as the load that replays it. Workers have other working directories: its path is absolute.
fn recording(path: &Path) -> Result<AppFile, StudyError> {
    let wrong = |why: String| StudyError::Argument(format!("{}: {why}", path.display()));
    let file = std::path::absolute(path).map_err(|error| wrong(error.to_string()))?;
    if file.to_str().is_none() {
        return Err(wrong("its path is not UTF-8".into()));
    }
    apps::recorded::refuse_cut(path).map_err(|error| StudyError::Argument(error.to_string()))?;
    let (app, parameter) = (apps::recorded::NAME.to_string(), apps::recorded::TRACE.to_string());
    Ok(AppFile { file, app, parameter })
}

/// A job file with the logs that it replays behind it; they are looked for where it was started, then in `beside`.
fn with_logs(job: &str, beside: &Path, shown: &str) -> Result<String, StudyError> {
    let read = |name: &str| {
        let path = if Path::new(name).exists() { Path::new(name).to_path_buf() } else { beside.join(name) };
        let text = plain_text(&path).map_err(|error| error.to_string())?;
        if fiojob::is_iolog(&text) {
            Ok(text)
        } else {
            Err("no iolog of fio: it does not begin with `fio version`".into())
        }
    };
    fiojob::attach(job, &read)
        .map_err(|errors| StudyError::Workload { workload: shown.to_string(), report: errors.render(shown) })
}

/// The text of a file: of an iolog at most 64 MiB, of another one 16 MiB. WML scripts of older times hold Latin-1 in comments.
fn plain_text(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut file = std::fs::File::open(path)?;
    let mut bytes = Vec::new();
    (&mut file).take(4096).read_to_end(&mut bytes)?;
    if BLKTRACE.iter().any(|magic| bytes.starts_with(magic)) {
        let message = "a binary trace of blktrace, which is not replayed: make an iolog of what `blkparse` prints of it \
                       (docs/fio.md)";
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, message));
    }
    let (most, shown) = match fiojob::is_iolog(&String::from_utf8_lossy(&bytes)) {
        true => (IOLOG_BYTES_MAX, "larger than 64 MiB: cut it into several"),
        false => (WORKLOAD_BYTES_MAX, "larger than 16 MiB"),
    };
    file.take(most).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, shown));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text of a workload or study file of at most 16 MiB, or of an iolog of at most 64 MiB. Where there is no such file it is
/// the embedded one of that name ([`study::files::text`]).
///
/// # Errors
/// [`StudyError::Read`], [`StudyError::Missing`].
pub fn text(path: &Path) -> Result<String, StudyError> {
    let shown = || path.display().to_string();
    let failed = |source| StudyError::Read { path: shown(), source };
    let text = match plain_text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let embedded = study::files::text(path).map(str::to_string);
            return embedded.ok_or_else(|| StudyError::Missing { path: shown() });
        }
        Err(error) => return Err(failed(error)),
    };
    if !fiojob::is_job_file(&text) {
        return Ok(text);
    }
    // as fio looks for them: where it was started, then beside the job file
    let beside = path.parent().unwrap_or(Path::new(""));
    let included = |name: &str| {
        let read = std::fs::read(name).or_else(|_| std::fs::read(beside.join(name)));
        read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| error.to_string())
    };
    let whole = fiojob::include(&text, &included)
        .map_err(|errors| StudyError::Workload { workload: shown(), report: errors.render(&shown()) })?;
    with_logs(&fiojob::fill(&whole, &of_machine), beside, &shown())
}
