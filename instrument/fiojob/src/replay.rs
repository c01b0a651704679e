//! The options of jobs that replay logs (`read_iolog`), and where the logs come from: behind a job file they stand as comments, so
//! that the text is whole and fio still reads it; a log alone is a job of its own.

use std::collections::HashMap;

use workload::trace::Action;

use crate::error::{JobError, JobErrors};
use crate::iolog::Shape;
use crate::number::{Base, boolean, integer};
use crate::text::{GLOBAL, between_colons};

/// The variable that says how fast logs are replayed: `2x`, `0.5`, `max`. fio has `replay_time_scale` and `replay_no_stall` for it.
pub const SPEED: &str = "speed";
/// The option that names logs.
const READ_IOLOG: &str = "read_iolog";
/// What stands before the name of a log behind a job file, and before each of its lines.
const NAMES: &str = ";iolog ";
const LINE: &str = ";|";
/// The name of the log in the job of a log alone, which no file has.
pub const ALONE: &str = "";

/// The options of a job about its replay.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayOptions {
    /// Names of logs; clones take turns. Empty: the job replays nothing.
    pub logs: Vec<String>,
    /// `None`: as fast as possible.
    pub speed: Option<f64>,
    /// How records are changed.
    pub shape: Shape,
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

    /// What is wrong with them in a job file of which no section replays a log.
    pub fn without_logs(&self) -> Option<String> {
        let name = self.said.as_ref()?;
        Some(format!("`{name}` is for jobs that replay a log: read_iolog=FILE"))
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

/// Logs by the names that jobs have for them.
pub struct Logs(HashMap<String, String>);

impl Logs {
    /// A log that is all there is.
    pub fn alone(text: &str) -> Logs {
        Logs(HashMap::from([(ALONE.to_string(), text.to_string())]))
    }

    /// The text of a log.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
    let name = match name.as_str() {
        // no job is called so
        "" | GLOBAL => "iolog",
        name => name,
    };
    format!("[{name}]\n{READ_IOLOG}={ALONE}\n")
}

/// A job file with the logs that its lines `read_iolog=FILE` name behind it; `read` knows their texts. Logs that stand there stay
/// as they are.
///
/// # Errors
/// A log that cannot be read, with the line.
pub fn attach(text: &str, read: &dyn Fn(&str) -> Result<String, String>) -> Result<String, JobErrors> {
    let (mut whole, mut mistakes) = (text.to_string(), Vec::new());
    // a job file that was kept with a run has its logs already
    let mut known: Vec<String> = Logs::behind(text).0.into_keys().collect();
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
