//! Man pages, completions and the reference of all commands, from the one definition of the options.

use std::fmt::Write as _;

use anyhow::Context;
use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::console::Exit;
use crate::front;
use crate::options::{Completions, Man, Options};

/// Prints completions.
pub fn completions(arguments: &Completions) -> anyhow::Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Options::command(), "loadline", &mut text);
    crate::console::print(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Done)
}

/// Writes a man page for the command and for each of its commands, or one page of Markdown.
pub fn man(arguments: &Man) -> anyhow::Result<Exit> {
    let folder = arguments.directory.display();
    std::fs::create_dir_all(&arguments.directory).with_context(|| folder.to_string())?;
    if arguments.markdown {
        std::fs::write(arguments.directory.join("commands.md"), reference())
            .with_context(|| folder.to_string())?;
    } else {
        clap_mangen::generate_to(Options::command(), &arguments.directory)
            .with_context(|| folder.to_string())?;
    }
    Ok(Exit::Done)
}

/// All commands and options, as Markdown.
fn reference() -> String {
    let mut command = front::command();
    command.build();
    let mut text =
        "# Commands and options\n\nMade from the program itself; `loadline COMMAND --help` shows the same.\n"
            .to_string();
    let global: Vec<&Arg> = command.get_arguments().filter(|arg| arg.is_global_set()).collect();
    text += "\nEvery command takes these:\n\n";
    text += &table(&global);
    chapters(&command, "loadline", &mut text);
    text
}

/// A chapter for each command below one.
fn chapters(command: &Command, words: &str, text: &mut String) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        let words = format!("{words} {}", sub.get_name());
        let said = |text: Option<&StyledStr>| text.map(StyledStr::to_string).unwrap_or_default();
        let _ = write!(text, "\n## {words}\n\n{}\n", escaped(&said(sub.get_about())));
        let examples = said(sub.get_before_help());
        let examples: Vec<&str> = examples.lines().filter(|line| line.starts_with("  ")).collect();
        if !examples.is_empty() {
            let _ = write!(text, "\n```text\n{}\n```\n", examples.join("\n"));
        }
        let own: Vec<&Arg> = sub
            .get_arguments()
            .filter(|arg| !arg.is_global_set() && !arg.is_hide_set())
            .filter(|arg| !["help", "version"].contains(&arg.get_id().as_str()))
            .collect();
        if !own.is_empty() {
            let _ = write!(text, "\n{}", table(&own));
        }
        let after = said(sub.get_after_help());
        if !after.is_empty() {
            let _ = write!(text, "\n```text\n{after}\n```\n");
        }
        chapters(sub, &words, text);
    }
}

/// Arguments and options as a table.
fn table(arguments: &[&Arg]) -> String {
    let mut text = "| option | default | meaning |\n|---|---|---|\n".to_string();
    for arg in arguments {
        let values = arg.get_value_names().unwrap_or_default();
        let values: Vec<String> = values.iter().map(|value| format!("<{value}>")).collect();
        let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
        let mut words: Vec<String> = arg.get_short().map(|short| format!("-{short}")).into_iter().collect();
        words.extend(arg.get_long().map(|long| format!("--{long}")));
        let mut name = words.join(", ");
        if takes || name.is_empty() {
            name = format!("{name} {}", values.join(" ")).trim().to_string();
        }
        let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let default = if takes { defaults.join(" ") } else { String::new() };
        let help = arg.get_help().map(StyledStr::to_string).unwrap_or_default();
        let name = name.replace('|', "\\|");
        let _ = writeln!(text, "| `{name}` | {} | {} |", escaped(&default), escaped(&help));
    }
    text
}

/// As text of a cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_every_command_and_option() {
        let text = reference();
        for words in ["## loadline run\n", "## loadline explain fsync\n", "--trials <N>`", "`--home <DIR>`"] {
            assert!(text.contains(words), "{words}");
        }
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        assert!(rows.clone().count() > 150);
        rows.for_each(|row| assert_eq!(row.replace("\\|", "").matches('|').count(), 4, "{row}"));
    }
}
