//! fio's command line as a job file: `--name=x --rw=randread --bs 4k`.

use crate::error::{JobError, JobErrors};
use crate::names::FLAGS;

/// Options of the program that change nothing of the load.
const OF_THE_PROGRAM: [&str; 11] = [
    "output",
    "output-format",
    "minimal",
    "append-terse",
    "eta",
    "eta-newline",
    "eta-interval",
    "status-interval",
    "max-jobs",
    "alloc-size",
    "bandwidth-log",
];
/// Those among them that stand without a value.
const BARE: [&str; 3] = ["minimal", "append-terse", "bandwidth-log"];

/// The job file that words of fio's command line mean: options before the first `--name` are for all jobs.
///
/// # Errors
/// Words that are no options, options without a value, with what to do.
pub fn from_words(words: &[String]) -> Result<String, JobErrors> {
    let (mut text, mut mistakes) = (String::from("[global]\n"), Vec::new());
    let mut words = words.iter().peekable();
    let mut wrong = |message: String| mistakes.push(JobError::new(0, message));
    let mut named = false;
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            wrong(format!("`{word}` is no option: give a job file as `loadline run {word}`"));
            continue;
        };
        let (name, mut value) =
            option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value.to_string())));
        let is_bare = FLAGS.contains(&name) || BARE.contains(&name);
        if value.is_none() && !is_bare {
            value = words.next_if(|next| !next.starts_with('-')).cloned();
        }
        if OF_THE_PROGRAM.contains(&name) {
            continue;
        }
        match value {
            Some(value) if name == "name" => {
                named = true;
                text += &format!("[{}]\n", value.trim_matches(['[', ']']));
            }
            Some(value) => text += &format!("{name}={value}\n"),
            None if is_bare => text += &format!("{name}\n"),
            None => wrong(format!("--{name}: it needs a value, as in --{name}=1")),
        }
    }
    if !named {
        wrong("no job: add --name=NAME".into());
    }
    if mistakes.is_empty() { Ok(text) } else { Err(JobErrors::new(mistakes)) }
}

/// Files that include each other, at most: one that includes itself has no end.
const INCLUDED_DEPTH_MAX: usize = 16;

/// A job file with the files in it that its lines `include NAME` name; `read` knows their texts.
///
/// # Errors
/// A file that cannot be read, or that includes itself, with the line.
pub fn include(text: &str, read: &dyn Fn(&str) -> Result<String, String>) -> Result<String, JobErrors> {
    let mut whole = String::with_capacity(text.len());
    add_included(text, read, &mut Vec::new(), &mut whole).map_err(|mistake| JobErrors::new(vec![mistake]))?;
    Ok(whole)
}

fn add_included(
    text: &str,
    read: &dyn Fn(&str) -> Result<String, String>,
    within: &mut Vec<String>,
    whole: &mut String,
) -> Result<(), JobError> {
    for (number, line) in text.lines().enumerate() {
        let said = line.split([';', '#']).next().unwrap_or_default().trim();
        let Some(name) =
            said.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])).map(str::trim)
        else {
            whole.push_str(line);
            whole.push('\n');
            continue;
        };
        let wrong = |message: String| JobError::new(number + 1, format!("include {name}: {message}"));
        if within.len() >= INCLUDED_DEPTH_MAX || within.iter().any(|outer| outer == name) {
            return Err(wrong(format!("it includes itself, by way of {}", within.join(", "))));
        }
        let inner = read(name).map_err(wrong)?;
        within.push(name.to_string());
        add_included(&inner, read, within, whole)?;
        within.pop();
    }
    Ok(())
}

/// A job file with its variables filled in: `${NAME}`, `$ncpus`. What `value` does not know stays as it is.
pub fn fill(text: &str, value: &dyn Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        filled += &rest[..at];
        let behind = &rest[at + 1..];
        let (name, length) = match behind.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, _)) => (name, name.len() + 3),
            None => {
                let end = behind.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
                let name = &behind[..end.unwrap_or(behind.len())];
                (name, name.len() + 1)
            }
        };
        match value(name) {
            Some(value) => filled += &value,
            None => filled += &rest[at..at + length],
        }
        rest = &rest[at + length..];
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn a_command_line_is_a_job_file() {
        let line = "--ioengine=libaio --direct=1 --name=one --rw=randread --bs 4k --time_based --runtime 5 --output=x.json \
                    --name two --size=1m -rw=write --group_reporting";
        let text = from_words(&words(line)).unwrap();
        assert_eq!(
            text,
            "[global]\nioengine=libaio\ndirect=1\n[one]\nrw=randread\nbs=4k\ntime_based\nruntime=5\n[two]\nsize=1m\nrw=write\n\
             group_reporting\n"
        );
        assert!(crate::is_job_file(&text));
    }

    #[test]
    fn what_is_wrong_with_it_is_told_at_once() {
        let errors = from_words(&words("job.fio --direct")).unwrap_err().0;
        let all = errors.iter().map(|error| error.message.as_str()).collect::<Vec<_>>().join("; ");
        for part in ["loadline run job.fio", "--direct: it needs a value", "add --name=NAME"] {
            assert!(all.contains(part), "{all}");
        }
    }

    #[test]
    fn files_are_included() {
        let read = |name: &str| match name {
            "a.inc" => Ok("bs=4k\ninclude b.inc\n".to_string()),
            "b.inc" => Ok("[x]\nrw=read\n".to_string()),
            "self" => Ok("include self\n".to_string()),
            _ => Err("no such file".to_string()),
        };
        let text = "[global]\nsize=1m ; all\n\tinclude a.inc # common\n[y]\nincluded=1\n";
        let whole = include(text, &read).unwrap();
        assert_eq!(whole, "[global]\nsize=1m ; all\nbs=4k\n[x]\nrw=read\n[y]\nincluded=1\n");
        let error = |text: &str| include(text, &read).unwrap_err().0.remove(0);
        assert_eq!(error("[a]\ninclude c\n"), JobError::new(2, "include c: no such file"));
        assert!(error("include self\n").message.contains("includes itself"));
    }

    #[test]
    fn variables_are_filled_in() {
        let value = |name: &str| match name {
            "SIZE" => Some("1m".to_string()),
            "ncpus" => Some("2".to_string()),
            _ => None,
        };
        assert_eq!(fill("size=${SIZE}\nnumjobs=$ncpus\nx=${NO} $", &value), "size=1m\nnumjobs=2\nx=${NO} $");
    }
}
