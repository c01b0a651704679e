//! What a newcomer reads: `loadline` alone, and each command's help with its examples before its options.

use clap::builder::StyledStr;
use clap::{Command, CommandFactory};

use crate::options::Options;

/// What people do with it, when nothing is said.
const FRONT: &str = "\
loadline: how much load a storage stack carries, where the time goes, and which of two is better.

  loadline run varmail --on ext4,xfs,btrfs                 compare file systems under a load
  loadline ab ext4 ext4,data=journal -w varmail            which of two is better, until it is decided
  loadline explain fsync --on ext4 --job varmail           where the time of each fsync goes
  loadline crash create-fsync --on ext4@980pro             what a power cut may leave behind
  loadline reproduce betrfs --quick                        whether a published result holds here

`loadline doctor` says what this machine can run, `loadline new study` writes a study to change,
`loadline --help` lists all commands, and `loadline COMMAND --help` begins with examples.";

/// The word before examples in the text behind a command's options.
const EXAMPLES: &str = "Examples:\n";

/// Help: what it is, examples, usage, arguments, the rest.
const TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

/// What people run, when they say nothing more than `run`.
const RUN: &str = "\
nothing to run: name a load, and the stacks that carry it

  loadline run varmail --on ext4,xfs,btrfs                 a load that loadline has with it; compared, each on a device of its own
  loadline run mine.f --on dir:/mnt/data                   a file (WML, a job of fio, YCSB), on a directory that is there
  loadline run study.toml                                  loads, stacks and numbers of trials in one file

`loadline new workload mine.f --from varmail` and `loadline new study` write such files, `loadline run --help` lists all options.";

/// What `loadline run` lacks.
pub fn nothing_to_run() -> &'static str {
    RUN
}

/// The front page.
pub fn page() -> &'static str {
    FRONT
}

/// The command as its help shows it. Man pages show examples behind the options, where [`Options`] has them.
pub fn command() -> Command {
    arranged(Options::command())
}

/// Examples of a command stand behind its options where they are written: they are what is read first.
fn arranged(command: Command) -> Command {
    let text = command.get_after_help().map(StyledStr::to_string).unwrap_or_default();
    let command = match split(&text) {
        Some((examples, rest)) => {
            command.help_template(TEMPLATE).before_help(examples).after_help(StyledStr::from(rest))
        }
        None => command,
    };
    command.mut_subcommands(arranged)
}

/// The examples with their heading, and what else there is.
fn split(text: &str) -> Option<(String, String)> {
    let at = text.find(EXAMPLES)?;
    let (before, from) = text.split_at(at);
    let lines = from[EXAMPLES.len()..].split_inclusive('\n');
    let length: usize = lines.take_while(|line| line.starts_with("  ")).map(str::len).sum();
    let (examples, after) = from.split_at(EXAMPLES.len() + length);
    Some((examples.trim_end().to_string(), format!("{before}{}", after.trim_start()).trim_end().to_string()))
}

#[cfg(test)]
mod documents;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_told_from_the_rest() {
        let text = "Words:\n  a  b\n\nExamples:\n  one\n  two\nExit codes: 0";
        let (examples, rest) = split(text).unwrap();
        assert_eq!(examples, "Examples:\n  one\n  two");
        assert_eq!(rest, "Words:\n  a  b\n\nExit codes: 0");
        assert_eq!(split("no such word"), None);
    }

    /// Commands that people type, in words: hidden ones are for machines.
    fn all(command: &Command, words: &str, found: &mut Vec<(String, Command)>) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
            let words = format!("{words} {}", sub.get_name());
            found.push((words.clone(), sub.clone()));
            all(sub, &words, found);
        }
    }

    /// Reads a line as a shell and the program would; what a shell does beside that is left out, and behind two blanks
    /// stands what the line is for.
    pub fn typed(line: &str) -> Result<(), String> {
        let line = line.trim();
        for part in line.split(['|', ';', '>', '&']).map(|part| part.split("  ").next().unwrap_or_default()) {
            let Some(words) = shlex::split(part.trim()) else {
                return Err(format!("{line}: a quote is open"));
            };
            if words.first().is_none_or(|word| word != "loadline") {
                continue;
            }
            command().try_get_matches_from(words).map_err(|error| format!("{line}: {error}"))?;
        }
        Ok(())
    }

    #[test]
    fn every_command_has_examples_and_they_parse() {
        let command = command();
        let mut found = Vec::new();
        all(&command, "loadline", &mut found);
        let mut wrong = Vec::new();
        for (words, sub) in found {
            // what only groups others
            if sub.has_subcommands() && sub.is_subcommand_required_set() {
                continue;
            }
            let examples = sub.get_before_help().map(StyledStr::to_string).unwrap_or_default();
            let lines: Vec<&str> = examples.strip_prefix(EXAMPLES).unwrap_or_default().lines().collect();
            if lines.is_empty() {
                wrong.push(format!("{words}: no examples"));
            }
            wrong.extend(lines.iter().filter_map(|line| typed(line).err()));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn the_front_page_can_be_typed() {
        let lines = FRONT.lines().filter(|line| line.starts_with("  loadline "));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), 5);
        for line in lines {
            typed(line).unwrap();
        }
    }
}
