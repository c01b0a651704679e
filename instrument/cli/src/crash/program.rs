//! A user's own program, as the options name it.

use std::path::Path;

use crash::{Checker, Program};

use crate::cleanup::utf8;
use crate::console::bad_input;
use crate::options::Crash;

/// The program, its setup and its checker.
pub(super) fn load(arguments: &Crash) -> anyhow::Result<Program> {
    let mut words = arguments.program.clone();
    if let Some(program) = words.first_mut()
        && program.contains('/')
    {
        // it starts in another directory than this one
        let path =
            std::path::absolute(&*program).map_err(|error| bad_input(format!("{program}: {error}")))?;
        *program = utf8(path)?.into_string();
    }
    let limit = crate::arg_parsers::length("--check-limit", &arguments.check_limit)?;
    let checker = arguments.check.clone().map(|command| Checker { command, limit });
    let loadline = Some(utf8(std::env::current_exe()?)?);
    Ok(Program { words, setup: arguments.setup.clone(), checker, loadline })
}

/// What may be wrong with the arguments of a program that has failed: files that are here may not be where it runs.
pub(super) fn hint(words: &[String]) -> String {
    let is_here =
        |word: &&String| Path::new(word.as_str()).is_relative() && Path::new(word.as_str()).is_file();
    match words.iter().skip(1).find(is_here) {
        Some(word) => {
            format!(
                "\nit runs in the stack's directory, not here: if the {word} of this directory is meant, write $PWD/{word}"
            )
        }
        None => String::new(),
    }
}
