//! Sections and options with their lines.

use crate::error::JobError;
use crate::names::{FLAGS, KNOWN, nearest_known};

/// The option of `--set` that chooses a section.
const JOB: &str = "job";

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
        let last = self.options.iter().rev().find(|(name, ..)| name == "stonewall");
        last.is_some_and(|(_, value, _)| value != "0")
    }
}

/// The jobs of a file.
pub fn jobs(text: &str, set: &[(String, String)]) -> Result<Vec<Section>, JobError> {
    let (mut global, mut jobs): (Vec<(String, String, usize)>, Vec<Section>) = (Vec::new(), Vec::new());
    let mut in_global = None;
    for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        // fio cuts the line there even within a value
        let line = line.split([';', '#']).next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if let Some(head) = line.strip_prefix('[') {
            let name = head
                .strip_suffix(']')
                .ok_or_else(|| JobError::new(number, "the `]` of the section is missing"))?;
            in_global = Some(name == "global");
            if name != "global" {
                jobs.push(Section { name: name.to_string(), line: number, options: global.clone() });
            }
            continue;
        }
        if line.starts_with("include ") || line.contains("${") || line.contains('$') {
            let message =
                "include, ${VARIABLE} and $ncpus are not followed: write the values, or give them by --set";
            return Err(JobError::new(number, message));
        }
        let option = match line.split_once('=') {
            Some((name, value)) => (name.trim().to_string(), value.trim().to_string(), number),
            None if FLAGS.contains(&line) => (line.to_string(), "1".to_string(), number),
            None => {
                let remedy = match KNOWN.contains(&line) {
                    true => format!(": write `{line}=`, and it"),
                    false => nearest_known(line),
                };
                return Err(JobError::new(number, format!("`{line}` has no value{remedy}")));
            }
        };
        match (in_global, jobs.last_mut()) {
            (Some(true), _) => global.push(option),
            (Some(false), Some(job)) => job.options.push(option),
            _ => return Err(JobError::new(number, "an option stands before the first [section]")),
        }
    }
    if let Some((_, wanted)) = set.iter().rev().find(|(name, _)| name == JOB) {
        let known: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
        // a name may hold a `+` itself
        let names: Vec<&str> = match known.iter().any(|name| name == wanted) {
            true => vec![wanted],
            false => wanted.split(JOINED).collect(),
        };
        if let Some(unknown) = names.iter().find(|name| !known.iter().any(|one| one == *name)) {
            return Err(JobError::new(
                0,
                format!("no section is called `{unknown}`; there are: {}", known.join(", ")),
            ));
        }
        jobs.retain(|job| names.contains(&job.name.as_str()));
        // those above are not run: there is nothing to wait for
        if let Some(first) = jobs.first_mut() {
            first.options.retain(|(name, ..)| name != "stonewall");
        }
    }
    let own =
        set.iter().filter(|(name, _)| name != JOB).map(|(name, value)| (name.clone(), value.clone(), 0));
    let own: Vec<_> = own.collect();
    jobs.iter_mut().for_each(|job| job.options.extend(own.iter().cloned()));
    if jobs.is_empty() {
        return Err(JobError::new(text.lines().count().max(1), "no job: add a section such as [randread]"));
    }
    Ok(jobs)
}
