//! fio's job files: text to a workload. An option that is not known, or that the engine cannot do as fio does it, is an
//! error that says where it stands and what to do; nothing is passed over silently.
//!
//! | module | holds |
//! |---|---|
//! | `text` | sections and options with their lines; `[global]` |
//! | `number` | fio's numbers: suffixes, times, percents |
//! | `names` | the options that are known |
//! | `options` | what they mean for a job |
//! | `lower` | jobs to a workload |
//! | `external` | a job file for fio itself |
//! | `error` | what is wrong, and where |
//!
//! The grammar is that of fio's HOWTO (3.33).

mod error;
mod external;
mod lower;
mod names;
mod number;
mod options;
mod text;

pub use error::JobError;
pub use external::{External, external};
pub use lower::Loaded;

/// Reads a job file. `set` are options for all jobs that go before the file's own (`--set bs=64k`); `job` among them
/// chooses sections by name, `a+b` several. `name` is the workload's.
///
/// # Errors
/// The first mistake, with its line.
pub fn load(text: &str, name: &str, set: &[(String, String)]) -> Result<Loaded, JobError> {
    lower::lower(&text::jobs(text, set)?, name)
}

/// The sections that run at once, as values of `job`: each group ends before a section with `stonewall`. One group when all
/// run at once, none when the text has mistakes ([`load`] tells them).
pub fn groups(text: &str) -> Vec<String> {
    let Ok(sections) = text::jobs(text, &[]) else { return Vec::new() };
    let mut groups: Vec<Vec<&str>> = Vec::new();
    for section in &sections {
        match groups.last_mut() {
            Some(group) if !section.waits() => group.push(&section.name),
            _ => groups.push(vec![&section.name]),
        }
    }
    groups.iter().map(|group| group.join(text::JOINED)).collect()
}
