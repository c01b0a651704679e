//! `system "..."`: programs that a workload starts, and whether it may.

use std::io::{Read, Seek};

use workload::Workload;

use crate::error::Error;
use crate::file_space::FileSpace;
use crate::options::{Event, RunOptions};

/// Refuses a workload that starts programs when the options do not allow it. The caller has asked the user; this holds
/// whatever the caller forgot, in every stage of the run.
pub fn allowed(workload: &Workload, options: &RunOptions) -> Result<(), Error> {
    let commands: Vec<String> = workload.programs().map(|command| format!("{command:?}")).collect();
    if options.allow_system || commands.is_empty() {
        return Ok(());
    }
    Err(Error::SystemNotAllowed { commands: commands.join(", ") })
}

/// What a result says of the programs that were started for it, each once.
pub fn notes(workload: &Workload) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for command in workload.programs() {
        let note = format!("the workload started a program: system {command:?}");
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// Runs a command through the shell, in the target's root; its exit status is told and otherwise ignored. What it prints
/// goes to a file in memory and not to a pipe: a process that it leaves in the background would keep a pipe open, and the
/// run would wait for its end.
pub fn run(ground: FileSpace<'_>, command: &str, on_event: &mut dyn FnMut(Event)) -> Result<(), Error> {
    let FileSpace::Directory { path: root, .. } = ground else {
        let what = format!("`system \"{command}\"` needs a mounted file system");
        return Err(Error::Invalid(what));
    };
    let failed = |error| Error::io("cannot run", "/bin/sh", error);
    let printed = rustix::fs::memfd_create("system", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(|error| failed(error.into()))?;
    let mut printed = std::fs::File::from(printed);
    let status = std::process::Command::new("/bin/sh")
        .args(["-c", command])
        .current_dir(root)
        .stdin(std::process::Stdio::null())
        .stdout(printed.try_clone().map_err(failed)?)
        .stderr(printed.try_clone().map_err(failed)?)
        .status()
        .map_err(failed)?;
    let mut text = Vec::new();
    printed.rewind().and_then(|()| printed.read_to_end(&mut text)).map_err(failed)?;
    for line in String::from_utf8_lossy(&text).lines() {
        on_event(Event::Line { text: line.to_owned() });
    }
    if !status.success() {
        on_event(Event::Line { text: format!("system \"{command}\": {status}") });
    }
    Ok(())
}
