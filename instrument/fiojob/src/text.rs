//! Sections and options with their lines.

use crate::error::{JobError, JobErrors};
use crate::names::{FLAGS, is_known, nearest_known};

/// The option of `--set` that chooses a section.
const JOB: &str = "job";

/// The section whose options are those of all below it.
pub const GLOBAL: &str = "global";

/// Options by which a section waits for those above.
const WAITS: [&str; 2] = ["stonewall", "wait_for_previous"];

/// Between the names of several sections in it.
pub const JOINED: &str = "+";

/// A section with its options, those of `[global]` and `--set` included; later ones go before earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// The line of its head.
    pub line: usize,
    /// Name, value, line.
    pub options: Vec<(String, String, usize)>,
}

impl Section {
    /// Whether it begins when those above have ended (`stonewall`).
    pub fn waits(&self) -> bool {
        let last = self.options.iter().rev().find(|(name, ..)| WAITS.contains(&name.as_str()));
        last.is_some_and(|(_, value, _)| value != "0")
    }
}

/// What the lines of a file say.
#[derive(Default)]
struct Lines {
    global: Vec<(String, String, usize)>,
    jobs: Vec<Section>,
    in_global: Option<bool>,
    mistakes: Vec<JobError>,
}

/// The jobs of a file, with the mistakes of its lines.
pub fn jobs(text: &str, set: &[(String, String)]) -> Result<(Vec<Section>, Vec<JobError>), JobErrors> {
    let mut lines = Lines::default();
    for (number, line) in text.lines().enumerate() {
        // fio cuts the line there even within a value
        let line = line.split([';', '#']).next().unwrap_or_default().trim();
        if !line.is_empty()
            && let Err(mistake) = lines.take(number + 1, line)
        {
            lines.mistakes.push(mistake);
        }
    }
    let Lines { mut jobs, mut mistakes, .. } = lines;
    for job in &mut jobs {
        // fio knows a job by its name
        if let Some((_, name, _)) = job.options.iter().rev().find(|(option, ..)| option == "name") {
            job.name = name.clone();
        }
    }
    if let Some((_, wanted)) = set.iter().rev().find(|(name, _)| name == JOB) {
        choose(&mut jobs, wanted)?;
    }
    let own =
        set.iter().filter(|(name, _)| name != JOB).map(|(name, value)| (name.clone(), value.clone(), 0));
    let own: Vec<_> = own.collect();
    jobs.iter_mut().for_each(|job| job.options.extend(own.iter().cloned()));
    if jobs.is_empty() {
        mistakes.push(JobError::new(text.lines().count().max(1), "no job: add a section such as [randread]"));
        return Err(JobErrors::new(mistakes));
    }
    Ok((jobs, mistakes))
}

/// Keeps the jobs that are wanted.
fn choose(jobs: &mut Vec<Section>, wanted: &str) -> Result<(), JobError> {
    let known: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
    // a name may hold a `+` itself
    let names: Vec<&str> = match known.iter().any(|name| name == wanted) {
        true => vec![wanted],
        false => wanted.split(JOINED).collect(),
    };
    if let Some(unknown) = names.iter().find(|name| !known.iter().any(|one| one == *name)) {
        let message = format!("no section is called `{unknown}`; there are: {}", known.join(", "));
        return Err(JobError::new(0, message));
    }
    jobs.retain(|job| names.contains(&job.name.as_str()));
    // those above are not run: there is nothing to wait for
    if let Some(first) = jobs.first_mut() {
        first.options.retain(|(name, ..)| !WAITS.contains(&name.as_str()));
    }
    Ok(())
}

impl Lines {
    fn take(&mut self, number: usize, line: &str) -> Result<(), JobError> {
        if let Some(head) = line.strip_prefix('[') {
            let name = head
                .strip_suffix(']')
                .ok_or_else(|| JobError::new(number, "the `]` of the section is missing"))?;
            self.in_global = Some(name == GLOBAL);
            if name != GLOBAL {
                self.jobs.push(Section {
                    name: name.to_string(),
                    line: number,
                    options: self.global.clone(),
                });
            }
            return Ok(());
        }
        if line.contains('$') {
            let message =
                "a variable that is not known, or a calculation: write the value, or give it by --set";
            return Err(JobError::new(number, message));
        }
        let option = match line.split_once('=') {
            Some((name, value)) => (name.trim().to_string(), value.trim().to_string(), number),
            None if FLAGS.contains(&line) => (line.to_string(), "1".to_string(), number),
            None if is_known(line) => {
                return Err(JobError::new(
                    number,
                    format!("`{line}` is no flag: write `{line}=`, and a value"),
                ));
            }
            None => {
                let message = format!("`{line}` is neither an option nor a section{}", nearest_known(line));
                return Err(JobError::new(number, message));
            }
        };
        match (self.in_global, self.jobs.last_mut()) {
            (Some(true), _) => self.global.push(option),
            (Some(false), Some(job)) => job.options.push(option),
            _ => return Err(JobError::new(number, "an option stands before the first [section]")),
        }
        Ok(())
    }
}

/// Names between colons; `\:` is a colon.
pub fn between_colons(value: &str) -> Vec<String> {
    value.replace("\\:", "\0").split(':').map(|name| name.replace('\0', ":")).collect()
}

/// Whether a text is a job file: its first line that says something is the head of a section.
pub fn is_job_file(text: &str) -> bool {
    let mut said = text.lines().map(|line| line.split([';', '#']).next().unwrap_or_default().trim());
    let first = said.find(|line| !line.is_empty() && !line.starts_with("include "));
    first.is_some_and(|line| line.starts_with('[') && line.ends_with(']'))
}
