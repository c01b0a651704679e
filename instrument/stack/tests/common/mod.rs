//! What the integration tests share.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use camino::Utf8Path;
use host::{CommandLine, CommandOutput, Host, Runner, SystemRunner};

#[path = "../../../../ground/journal/tests/common/mod.rs"]
mod machine;
#[allow(unused_imports, reason = "each test binary uses a part of it")]
pub use machine::{TempDir, fake_host, names, temp_dir};

/// The loop device that shows a file below `dir` now, if any.
pub fn loop_on(dir: &Utf8Path) -> Option<String> {
    let host = Host::system();
    host.names("/sys/block").into_iter().find(|name| {
        host.read(format!("/sys/block/{name}/loop/backing_file"))
            .is_ok_and(|file| file.starts_with(dir.as_str()))
    })
}

pub fn mounts_below(dir: &Utf8Path) -> usize {
    Host::system().mounts().unwrap().iter().filter(|mount| mount.target.starts_with(dir)).count()
}

/// Runs everything for real but one program, of which every call fails or is only pretended.
pub struct Faulty {
    pub program: &'static str,
    pub fault: Fault,
    pub calls: AtomicUsize,
}

pub enum Fault {
    /// Exit code 1 and a message.
    Fails,
    /// Cannot be started.
    Missing,
    /// Exit code 0, but nothing was done.
    Pretends,
    /// Really done, and then reported as failed.
    DoesAndFails,
}

impl Faulty {
    pub fn new(program: &'static str, fault: Fault) -> Self {
        Self { program, fault, calls: AtomicUsize::new(0) }
    }
}

impl Runner for Faulty {
    fn run(&self, command: &CommandLine) -> io::Result<CommandOutput> {
        if command.program != self.program || command.args.len() < 2 {
            return SystemRunner::default().run(command);
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        let output = |code, stderr: &str| CommandOutput {
            code: Some(code),
            stdout: String::new(),
            stderr: stderr.into(),
            elapsed_ms: 0,
        };
        match self.fault {
            Fault::Fails => Ok(output(1, "injected failure\n")),
            Fault::Missing => Err(io::ErrorKind::NotFound.into()),
            Fault::Pretends => Ok(output(0, "")),
            Fault::DoesAndFails => {
                SystemRunner::default().run(command)?;
                Ok(output(32, "injected failure\n"))
            }
        }
    }
}
