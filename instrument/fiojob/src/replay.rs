//! Jobs that replay logs (`read_iolog`), and where the logs come from: behind a job file they stand as comments, so that the text
//! is whole and fio still reads it; a log alone is a job of its own.

use std::collections::HashMap;

use workload::Stream;
use workload::stream::{OPERATIONS, Replay, TransferDirection, TransferSizes};
use workload::trace::Action;

use crate::error::{JobError, JobErrors};
use crate::files::Files;
use crate::iolog::{self, Iolog, Shape};
use crate::number::{Base, boolean, integer};
use crate::options::{Job, between_colons};
use crate::text::Section;

/// The variable that says how fast logs are replayed: `2x`, `0.5`, `max`. fio has `replay_time_scale` and `replay_no_stall` for it.
pub const SPEED: &str = "speed";
/// The option that names logs.
const READ_IOLOG: &str = "read_iolog";
/// What stands before the name of a log behind a job file, and before each of its lines.
const NAMES: &str = ";iolog ";
const LINE: &str = ";|";
/// The name of the log in the job of a log alone, which no file has.
const ALONE: &str = "";

/// Options that say nothing where a log says it.
const LEFT_TO_THE_LOG: [&str; 20] = [
    "rw",
    "readwrite",
    "bs",
    "blocksize",
    "bsrange",
    "blocksize_range",
    "bssplit",
    "blockalign",
    "size",
    "filesize",
    "nrfiles",
    "filename",
    "file_service_type",
    "offset",
    "offset_increment",
    "random_distribution",
    "fsync",
    "fdatasync",
    "end_fsync",
    "fsync_on_close",
];

/// The options of a job about its replay.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayOptions {
    /// Names of logs; clones take turns. Empty: the job replays nothing.
    logs: Vec<String>,
    /// `None`: as fast as possible.
    speed: Option<f64>,
    shape: Shape,
    /// The last option about a replay that was read.
    said: Option<String>,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        ReplayOptions { logs: Vec::new(), speed: Some(1.0), shape: Shape::default(), said: None }
    }
}

impl ReplayOptions {
    /// Whether the job replays a log.
    pub fn replays(&self) -> bool {
        !self.logs.is_empty()
    }

    /// Takes an option; false: it is about something else.
    pub fn option(&mut self, base: Base, name: &str, value: &str) -> Result<bool, String> {
        match name {
            READ_IOLOG => {
                self.logs = between_colons(value);
                return Ok(true);
            }
            SPEED => self.speed = speed(value)?,
            "replay_no_stall" => {
                self.speed = if boolean(value)? { None } else { self.speed.or(Some(1.0)) };
            }
            "replay_time_scale" => match integer(value.trim_end_matches('%'), base)? {
                0 => return Err("a percentage above 0: 200 is twice as fast".into()),
                percent => self.speed = self.speed.map(|_| percent as f64 / 100.0),
            },
            "replay_redirect" => {
                self.shape.redirect = Some(value.to_string()).filter(|name| !name.is_empty())
            }
            "replay_scale" => self.shape.scale = integer(value, base)?,
            "replay_align" => match integer(value, base)? {
                align if align == 0 || align.is_power_of_two() => self.shape.align = align,
                align => return Err(format!("{align} is not a power of two")),
            },
            "replay_skip" => {
                for word in value.split(',').map(str::trim) {
                    let action = match word {
                        "read" => Action::Read,
                        "write" => Action::Write,
                        "trim" => Action::Trim,
                        "sync" => Action::Fsync,
                        other => return Err(format!("`{other}` is none of read, write, trim, sync")),
                    };
                    self.shape.skip[action as usize] = true;
                }
            }
            _ => return Ok(false),
        }
        self.said = Some(name.to_string());
        Ok(true)
    }

    /// What is wrong with the options together.
    pub fn check(&self) -> Result<(), String> {
        match &self.said {
            Some(name) if !self.replays() => {
                Err(format!("`{name}` is for jobs that replay a log: read_iolog=FILE"))
            }
            _ => Ok(()),
        }
    }

    /// The speed as [`SPEED`] takes it.
    pub fn shown_speed(&self) -> String {
        self.speed.map_or("max".into(), |speed| format!("{speed}x"))
    }
}

/// `2x`, `0.5x`, `2`, `max`.
fn speed(value: &str) -> Result<Option<f64>, String> {
    if value.trim() == "max" {
        return Ok(None);
    }
    let factor = value.trim().trim_end_matches('x').parse().ok();
    let factor = factor.filter(|factor: &f64| factor.is_finite() && *factor >= 1e-6 && *factor <= 1e6);
    factor.map(Some).ok_or_else(|| format!("`{value}` is no speed: write 2x, 0.5x, or max"))
}

/// Seconds that a log was recorded for, at the speed of its replay.
pub fn seconds(replay: &Replay) -> f64 {
    replay.trace.length_ns as f64 / 1e9 / replay.speed.unwrap_or(1.0)
}

/// Logs by the names that jobs have for them.
pub struct Logs(HashMap<String, String>);

impl Logs {
    /// A log that is all there is.
    pub fn alone(text: &str) -> Logs {
        Logs(HashMap::from([(ALONE.to_string(), text.to_string())]))
    }

    /// The logs behind a job file.
    pub fn behind(text: &str) -> Logs {
        let mut logs: HashMap<String, String> = HashMap::new();
        let mut name = None;
        for line in text.split_inclusive('\n') {
            if let Some(new) = line.strip_prefix(NAMES) {
                name = Some(new.trim_end_matches('\n'));
            } else if let (Some(name), Some(part)) = (name, line.strip_prefix(LINE)) {
                match logs.get_mut(name) {
                    Some(log) => log.push_str(part),
                    None => drop(logs.insert(name.to_string(), part.to_string())),
                }
            } else {
                name = None;
            }
        }
        Logs(logs)
    }
}

/// The job file of a log alone.
pub fn job_of(name: &str) -> String {
    // a section's name ends with its line
    let name: String = name.chars().filter(|letter| !matches!(letter, '\n' | ';' | '#')).collect();
    format!("[{}]\n{READ_IOLOG}={ALONE}\n", if name.is_empty() { "iolog" } else { &name })
}

/// A job file with the logs that its lines `read_iolog=FILE` name behind it; `read` knows their texts.
///
/// # Errors
/// A log that cannot be read, with the line.
pub fn attach(text: &str, read: &dyn Fn(&str) -> Result<String, String>) -> Result<String, JobErrors> {
    let (mut whole, mut known, mut mistakes) = (text.to_string(), Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let said = line.split([';', '#']).next().unwrap_or_default();
        let Some((READ_IOLOG, names)) = said.split_once('=').map(|(name, names)| (name.trim(), names.trim()))
        else {
            continue;
        };
        for name in between_colons(names).into_iter().filter(|name| !name.is_empty()) {
            if known.contains(&name) {
                continue;
            }
            match read(&name) {
                Ok(log) => add(&mut whole, &name, &log),
                Err(error) => {
                    mistakes.push(JobError::new(number + 1, format!("{READ_IOLOG}: {name}: {error}")));
                }
            }
            known.push(name);
        }
    }
    if mistakes.is_empty() { Ok(whole) } else { Err(JobErrors::new(mistakes)) }
}

/// Whether logs stand behind a job file.
pub fn has_logs(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(NAMES))
}

fn add(whole: &mut String, name: &str, log: &str) {
    if !whole.ends_with('\n') {
        whole.push('\n');
    }
    whole.push_str(NAMES);
    whole.push_str(name);
    whole.push('\n');
    for line in log.split_inclusive('\n') {
        whole.push_str(LINE);
        whole.push_str(line);
    }
}

/// What the clones of a job replay: each log is read once.
pub struct Replays<'l> {
    logs: Vec<Result<Iolog, Vec<JobError>>>,
    names: &'l [String],
}

impl<'l> Replays<'l> {
    /// Reads the logs of a job.
    pub fn of(job: &'l Job, logs: &Logs) -> Replays<'l> {
        let read = |name: &String| {
            let Some(text) = logs.0.get(name) else {
                let message = format!(
                    "[{}]: the log `{name}` was not read: only those that the job file itself names are",
                    job.name
                );
                return Err(vec![JobError::new(job.line, message)]);
            };
            iolog::parse(text, &job.replay.shape).map_err(|found| {
                // of a log alone the lines are the file's; of others the log has a name
                let of_job = |one: JobError| match name.as_str() {
                    ALONE => one,
                    name => JobError::new(job.line, format!("{name}:{}: {}", one.line, one.message)),
                };
                found.into_iter().map(of_job).collect()
            })
        };
        // a log without a clone is not replayed
        let used = job.clones.min(job.replay.logs.len() as u64) as usize;
        Replays { logs: job.replay.logs[..used].iter().map(read).collect(), names: &job.replay.logs }
    }

    /// Logs that have clones.
    pub fn len(&self) -> usize {
        self.logs.len()
    }

    /// How many clones replay a log: they take the logs in turn.
    pub fn clones(&self, at: usize, job: &Job) -> u64 {
        let (at, logs) = (at as u64, self.names.len() as u64);
        job.clones / logs + u64::from(at < job.clones % logs)
    }

    /// What the clones of a log issue, as the stream of that number.
    pub fn stream(
        &self,
        at: usize,
        job: &Job,
        number: u64,
        files: &mut Files,
    ) -> Result<Stream, Vec<JobError>> {
        let log = match &self.logs[at] {
            Ok(log) => log,
            Err(mistakes) => return Err(mistakes.clone()),
        };
        let does = |action: Action| log.trace.operations[action as usize] > 0;
        let changes = does(Action::Write) || does(Action::Trim);
        let way = match (does(Action::Read), changes) {
            (true, true) => TransferDirection::Mixed { read_percent: 50 },
            (false, true) => TransferDirection::Write,
            (_, false) => TransferDirection::Read,
        };
        let mut order = job.order.clone();
        (order.random, order.visit_once) = (false, false);
        let sizes = TransferSizes::One(u64::from(log.trace.transfer_bytes_max.max(1)));
        let mut budget = job.budget;
        budget.bytes = log.trace.bytes[..=Action::Write as usize].iter().sum();
        Ok(Stream {
            number,
            seed: job.seed,
            repeat: job.repeat,
            usual_offsets: job.usual_offsets,
            files: files.of_log(job, log),
            turns: job.turns,
            way,
            order,
            sizes: [sizes.clone(), sizes],
            queue: job.queue,
            budget,
            pace: job.pace,
            syncs: workload::stream::SyncPolicy::default(),
            open: job.open,
            verify: None,
            replay: Some(Replay { trace: log.trace.clone(), speed: job.replay.speed }),
        })
    }

    /// What to know of the replay.
    pub fn notes(&self, section: &Section) -> Vec<String> {
        let mut notes = Vec::new();
        for (name, log) in self.names.iter().zip(&self.logs) {
            let of = |note: &String| if name == ALONE { note.clone() } else { format!("{name}: {note}") };
            notes.extend(log.iter().flat_map(|log| &log.notes).map(of));
        }
        let left: Vec<&str> = LEFT_TO_THE_LOG
            .into_iter()
            .filter(|name| section.options.iter().any(|(set, ..)| set == name))
            .collect();
        if !left.is_empty() {
            notes.push(format!(
                "[{}] replays a log, which says what {} would",
                section.name,
                left.join(", ")
            ));
        }
        notes
    }
}

// `replay_skip` names operations by their places.
const _: () = assert!(OPERATIONS.len() == 5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Loaded, load};

    const LOG: &str = "fio version 3 iolog\n0 /a add\n0 /a open\n0 /a read 0 4096\n2000000 /a write 4096 8192\n2000001 /a sync 0 0\n";

    fn attached(job: &str) -> String {
        let read = |name: &str| match name {
            "app.iolog" => Ok(LOG.to_string()),
            "two.iolog" => Ok(LOG.replace("/a", "b")),
            _ => Err("no such file".to_string()),
        };
        attach(job, &read).unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn loaded(text: &str, set: &[(&str, &str)]) -> Loaded {
        let set: Vec<_> = set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        load(text, "app", &set).unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn stream(loaded: &Loaded, number: usize) -> &Stream {
        loaded.workload.processes[number].threads[0].stream.as_deref().unwrap()
    }

    #[test]
    fn a_log_alone_is_a_job() {
        let app = loaded(LOG, &[("speed", "2x"), ("direct", "1")]);
        let stream = stream(&app, 0);
        let replay = stream.replay.as_ref().unwrap();
        assert_eq!((replay.speed, app.replay_seconds, stream.open.direct), (Some(2.0), 1.000_000_5, true));
        assert_eq!(replay.due_ns(2_000_000_000), Some(1_000_000_000));
        assert_eq!(stream.way, TransferDirection::Mixed { read_percent: 50 });
        assert_eq!(stream.sizes, [TransferSizes::One(8192), TransferSizes::One(8192)]);
        let files = &app.workload.filesets;
        assert_eq!(
            (files.len(), files[0].path.as_str(), files[0].name.as_str(), files[0].size.fixed()),
            (1, "", "a", Some(12288))
        );
        let names: Vec<&str> = app.workload.processes[0].threads[0]
            .body
            .iter()
            .filter_map(|node| match node {
                workload::Node::Op(op) => Some(op.name.as_str()),
                workload::Node::Group { .. } => None,
            })
            .collect();
        assert_eq!(names, ["app-read", "app-write", "app-fsync"]);
        assert!(app.variables.contains(&("app.speed".into(), "2x".into())));
        assert!(!loaded(LOG, &[("speed", "max")]).workload.processes.is_empty());
    }

    #[test]
    fn a_job_replays_the_logs_behind_its_file() {
        let text = attached(
            "[x]\nread_iolog=app.iolog:two.iolog\nnumjobs=3\nreplay_time_scale=50\nrw=read ; no\n[y]\nrw=read\nsize=1m\n",
        );
        assert!(crate::is_job_file(&text));
        let job = loaded(&text, &[]);
        let clones =
            |number: usize| (stream(&job, number).files[0].fileset, job.workload.processes[number].instances);
        assert_eq!((clones(0), clones(1), job.replay_seconds), ((0, 2), (1, 1), 4.000_002));
        assert!(stream(&job, 2).replay.is_none());
        assert!(job.notes.iter().any(|note| note.contains("says what rw would")), "{:?}", job.notes);
        let names: Vec<&str> = job.workload.filesets.iter().map(|set| set.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "y.0.0"]);
    }

    /// Written files are made as `fallocate` says, others with data.
    #[test]
    fn files_that_are_read_hold_data() {
        use workload::Contents::{Allocated, Data, Hole};
        let contents = |text: &str, set: &[(&str, &str)]| {
            loaded(text, set).workload.filesets.iter().map(|set| set.contents).collect::<Vec<_>>()
        };
        let both = "fio version 2 iolog\na add\nb add\na open\nb open\na read 0 1\nb write 0 1\n";
        assert_eq!(contents(both, &[]), [Data, Allocated]);
        assert_eq!(contents(both, &[("overwrite", "1")]), [Data, Data]);
        assert_eq!(contents(both, &[("fallocate", "truncate")]), [Data, Hole]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let errors = |text: &str, set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            load(text, "app", &set).expect_err(text).render("app.iolog")
        };
        let broken = LOG.replace("read 0 4096", "read 0");
        assert!(errors(&broken, &[]).starts_with("app.iolog:4: "), "{}", errors(&broken, &[]));
        let job = attach("[x]\nread_iolog=l\n", &|_| Ok(broken.clone())).unwrap();
        assert!(errors(&job, &[]).contains("l:4: "), "{}", errors(&job, &[]));
        assert!(
            attach("[x]\nread_iolog=l\n", &|_| Err("gone".into())).unwrap_err().0[0]
                .message
                .contains("l: gone")
        );
        for (set, part) in [
            (("speed", "0"), "write 2x, 0.5x, or max"),
            (("speed", "nan"), "write 2x"),
            (("replay_time_scale", "0"), "above 0"),
            (("replay_align", "3000"), "not a power of two"),
            (("replay_skip", "open"), "none of read, write, trim, sync"),
            (("verify", "md5"), "`verify` beside read_iolog"),
            (("rate_iops", "5"), "`rate` beside read_iolog"),
            (("read_iolog", "other"), "`other` was not read"),
        ] {
            let found = errors(LOG, &[set]);
            assert!(found.contains(part), "{set:?}: {found}");
        }
        let lost = errors("[x]\nsize=1m\nreplay_no_stall=1\n", &[]);
        assert!(lost.contains("`replay_no_stall` is for jobs that replay a log"), "{lost}");
        assert!(crate::external(LOG, &[]).unwrap_err().0[0].message.contains("not passed on"));
        assert!(crate::groups(LOG).is_empty());
    }
}
