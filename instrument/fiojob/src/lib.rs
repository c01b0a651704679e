//! fio's job files: text to a workload. An option that is not known, or that the engine cannot do as fio does it, is an
//! error that says where it stands and what to do; nothing is passed over silently.
//!
//! | module | holds |
//! |---|---|
//! | `text` | sections and options with their lines; `[global]` |
//! | `number` | fio's numbers: suffixes, times, percents |
//! | `names` | the options that are known |
//! | `options` | what they mean for a job |
//! | `files` | which files jobs have, and how large |
//! | `lower` | jobs to a workload of streams |
//! | `iolog` | fio's logs of operations (`write_iolog`): text to a trace |
//! | `replay` | options of jobs that replay such logs; the logs, which stand behind a job file as comments; a log alone as a job |
//! | `replayed` | what such jobs issue |
//! | `words` | fio's command line as a job file; variables filled in, files included |
//! | `external` | a job file for fio itself |
//! | `error` | what is wrong, and where |
//!
//! The grammar is that of fio's HOWTO (3.33).

mod error;
mod external;
mod files;
mod iolog;
mod lower;
mod names;
mod number;
mod options;
mod replay;
mod replayed;
mod text;
mod words;

pub use error::{JobError, JobErrors};
pub use external::{External, external};
pub use iolog::is_iolog;
pub use lower::Loaded;
pub use number::seconds;
pub use replay::{SPEED, attach, has_logs};
pub use text::is_job_file;
pub use words::{fill, from_words, include};

/// Reads a job file, behind which stand the logs that it replays ([`attach`]), or an iolog alone ([`is_iolog`]), which one job
/// replays. `set` are options for all jobs that go before the file's own (`--set bs=64k`); `job` among them chooses sections by
/// name, `a+b` several. `name` is the workload's.
///
/// # Errors
/// All mistakes, with their lines.
pub fn load(text: &str, name: &str, set: &[(String, String)]) -> Result<Loaded, JobErrors> {
    if is_iolog(text) {
        let (sections, mistakes) = text::jobs(&replay::job_of(name), set)?;
        return lower::lower(&sections, mistakes, name, &replay::Logs::alone(text));
    }
    let (sections, mistakes) = text::jobs(text, set)?;
    lower::lower(&sections, mistakes, name, &replay::Logs::behind(text))
}

/// The sections that run at once, as values of `job`: each group ends before a section with `stonewall`. One group when all
/// run at once, none when the text has mistakes ([`load`] tells them).
pub fn groups(text: &str) -> Vec<String> {
    if is_iolog(text) {
        return Vec::new();
    }
    let Ok((sections, mistakes)) = text::jobs(text, &[]) else { return Vec::new() };
    if !mistakes.is_empty() {
        return Vec::new();
    }
    let mut groups: Vec<Vec<&str>> = Vec::new();
    for section in &sections {
        match groups.last_mut() {
            Some(group) if !section.waits() => group.push(&section.name),
            _ => groups.push(vec![&section.name]),
        }
    }
    groups.iter().map(|group| group.join(text::JOINED)).collect()
}
