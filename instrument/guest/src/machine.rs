//! A running guest: started, heard, ended. Process and files are in the journal; when loadline is killed, the kernel kills
//! QEMU with it.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use journal::{EntryId, Journal};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::setup::Setup;
use crate::{GuestError, QEMU, wire};

/// The descriptor at which QEMU finds the port.
const PORT_DESCRIPTOR: i32 = 3;
/// Lines of the console that an error shows.
const TAIL_LINES: usize = 6;
/// Lines of a failing kernel that are shown: its registers, and most of the calls that led there.
const PANIC_LINES: usize = 48;
/// How long a guest that was told to end may take.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// A running guest. Dropped, it is killed.
#[derive(Debug)]
pub struct Machine {
    child: Child,
    journal: Arc<Journal>,
    entry: EntryId,
    /// What is sent goes there: to the guest, or to the monitor of a deterministic one.
    port: UnixStream,
    heard: Receiver<String>,
    console: Utf8PathBuf,
    /// QEMU's own messages.
    messages: Utf8PathBuf,
}

impl Machine {
    /// Boots `setup`. Its console goes to the file `console`, QEMU's messages beside it.
    ///
    /// # Errors
    /// QEMU cannot be started, or the journal refuses.
    pub fn boot(setup: &Setup, console: &Utf8Path, journal: &Arc<Journal>) -> Result<Machine, GuestError> {
        let messages = console.with_extension("qemu");
        let file = std::fs::File::create(&messages).map_err(GuestError::at(messages.as_str()))?;
        let (ours, theirs) = UnixStream::pair().map_err(GuestError::at("a socket"))?;
        let mut command = Command::new(QEMU);
        command.args(setup.arguments(console, PORT_DESCRIPTOR));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        host::process::end_with_parent(&mut command);
        // Ctrl-C in a terminal is loadline's: the guest tells what it has measured, and ends then
        command.process_group(0);
        let theirs: OwnedFd = theirs.into();
        let descriptor = theirs.as_raw_fd();
        // SAFETY: between fork and exec two system calls are made, and nothing is allocated; the descriptor lives until
        // `theirs` is dropped below.
        unsafe { command.pre_exec(move || hand_over(descriptor)) };
        tracing::debug!(?command, "guest");
        let _making = journal.begin()?;
        let mut child = command.spawn().map_err(GuestError::at(QEMU))?;
        drop(theirs);
        let entry = match journal.record_process(child.id(), &format!("guest {}", setup.kernel.name)) {
            Ok(entry) => entry,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                let text = std::fs::read_to_string(&messages).unwrap_or_default();
                return Err(match error {
                    journal::JournalError::NoSuchProcess { .. } => {
                        GuestError::Program { program: QEMU.into(), message: text.trim().to_string() }
                    }
                    error => error.into(),
                });
            }
        };
        let heard = ours.try_clone().map_err(GuestError::at("a socket")).map(listen);
        let mut machine = Machine {
            child,
            journal: journal.clone(),
            entry,
            port: ours,
            heard: channel().1,
            console: console.to_owned(),
            messages,
        };
        machine.heard = heard?;
        Ok(machine)
    }

    /// Number of QEMU's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The console's log.
    pub fn console(&self) -> &Utf8Path {
        &self.console
    }

    /// Sends a line.
    ///
    /// # Errors
    /// The guest has ended.
    pub fn send(&mut self, what: &impl Serialize) -> Result<(), GuestError> {
        let mut line = serde_json::to_vec(what).map_err(|error| GuestError::Damaged(error.to_string()))?;
        line.push(b'\n');
        self.port.write_all(&line).map_err(|_| self.ended("the guest has ended"))
    }

    /// The next line, if one comes within `patience`.
    ///
    /// # Errors
    /// The guest has ended, or said what cannot be understood.
    pub fn receive<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<Option<T>, GuestError> {
        match self.heard.recv_timeout(patience) {
            Ok(line) => serde_json::from_str(&line).map(Some).map_err(|error| {
                let start: String = line.chars().take(200).collect();
                GuestError::Damaged(format!("{error}: {start}"))
            }),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended("the guest has ended by itself")),
        }
    }

    /// Whether QEMU has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// An error that says `why`, with what console and QEMU said last, or where the guest's kernel began to fail.
    pub fn ended(&self, why: &str) -> GuestError {
        let text =
            |path: &Utf8Path| std::fs::read(path).map(|text| String::from_utf8_lossy(&text).into_owned());
        let mut tail = String::new();
        for path in [&self.console, &self.messages] {
            let text = text(path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            telling(&lines).iter().for_each(|line| {
                tail.push_str("\n  ");
                tail.extend(line.chars().filter(|c| !c.is_control()));
            });
        }
        GuestError::Ended { why: why.to_string(), console: self.console.clone(), tail }
    }

    /// Ends it: waits until it has switched itself off, when it was told so, else kills it.
    pub fn end(mut self, told: bool) {
        if told {
            host::wait::wait_until(END_PATIENCE, || self.has_ended());
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::fs::metadata(&self.messages).is_ok_and(|meta| meta.len() == 0) {
            let _ = std::fs::remove_file(&self.messages);
        }
        if let Err(error) = self.journal.forget(self.entry) {
            tracing::warn!("the guest's entry in the journal: {error}");
        }
    }
}

/// The lines that tell most of an end: from where a kernel begins to say that it fails, else the last ones.
fn telling<'a>(lines: &'a [&'a str]) -> &'a [&'a str] {
    const FAILS: [&str; 4] = ["BUG: ", "Oops: ", "general protection fault", "Kernel panic"];
    let fails = lines.iter().position(|line| FAILS.iter().any(|begin| line.contains(begin)));
    match fails {
        Some(at) => &lines[at..lines.len().min(at + PANIC_LINES)],
        None => &lines[lines.len().saturating_sub(TAIL_LINES)..],
    }
}

/// What a deterministic guest wrote, when it has ended by itself.
///
/// # Errors
/// It is damaged, or there is none.
pub fn result(machine: &Machine, file: &Utf8Path) -> Result<Vec<u8>, GuestError> {
    let text = std::fs::read(file).map_err(GuestError::at(file.as_str()))?;
    let found = wire::unblock(&String::from_utf8_lossy(&text))?;
    found.ok_or_else(|| machine.ended("the guest has ended without a result"))
}

/// Puts the port's descriptor where QEMU looks for it, open beyond exec.
fn hand_over(descriptor: i32) -> std::io::Result<()> {
    // SAFETY: plain system calls on descriptors of this process.
    let moved = unsafe {
        match descriptor == PORT_DESCRIPTOR {
            true => libc::fcntl(descriptor, libc::F_SETFD, 0),
            false => libc::dup2(descriptor, PORT_DESCRIPTOR),
        }
    };
    if moved < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Lines that come from the port, until it closes.
fn listen(port: UnixStream) -> Receiver<String> {
    let (send, heard) = channel();
    let listener = std::thread::Builder::new().name("guest".into());
    let started = listener.spawn(move || {
        for line in BufReader::new(port).lines() {
            let Ok(line) = line else { return };
            if send.send(line).is_err() {
                return;
            }
        }
    });
    if let Err(error) = started {
        // nothing will be heard, and the time limit ends the guest
        tracing::warn!("the guest's listener: {error}");
    }
    heard
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_kernel_that_failed_the_begin_is_told_and_of_others_the_end() {
        let quiet: Vec<String> = (0..100).map(|n| format!("[{n}] line")).collect();
        let mut lines: Vec<&str> = quiet.iter().map(String::as_str).collect();
        assert_eq!(telling(&lines), &lines[100 - TAIL_LINES..]);
        lines[30] = "[30] BUG: kernel NULL pointer dereference, address: 0000000000000000";
        lines[99] = "[99] Kernel panic - not syncing: Fatal exception in interrupt";
        assert_eq!(telling(&lines), &lines[30..30 + PANIC_LINES]);
        assert!(telling(&[]).is_empty());
    }
}
