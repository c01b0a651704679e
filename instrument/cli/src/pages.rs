//! Man pages and completions, from the one definition of the options.

use anyhow::Context;
use clap::CommandFactory;

use crate::options::{Completions, Man, Options};
use crate::screen::Exit;

/// Prints completions.
pub fn completions(arguments: &Completions) -> anyhow::Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Options::command(), "loadline", &mut text);
    crate::screen::print(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Done)
}

/// Writes a man page for the command and for each of its commands.
pub fn man(arguments: &Man) -> anyhow::Result<Exit> {
    std::fs::create_dir_all(&arguments.directory)
        .with_context(|| arguments.directory.display().to_string())?;
    clap_mangen::generate_to(Options::command(), &arguments.directory)
        .with_context(|| arguments.directory.display().to_string())?;
    Ok(Exit::Done)
}
