//! A stack behind a network file system: its server, the link, the client's mount. The server shows the stack's directory and
//! nothing listens anywhere: client and server have the two ends of a pair of sockets.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use host::runner::{CommandLine, CommandOutput};
use host::{Host, Unavailable, mountinfo};
use journal::{EntryId, Journal, JournalError, Resource};
use spec::{Client, Network};

use crate::availability::sftp_server;
use crate::error::StackError;
use crate::link;
use crate::record::ExecutedCommand;
use crate::steps::io_error;

/// The kernel's name of the client's file system.
const FS_TYPE: &str = "fuse.sshfs";
/// How long the mount may take to appear.
const MOUNT_PATIENCE: Duration = Duration::from_secs(20);
/// How long client and server may take to end when the mount has gone.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// How a stack is served and mounted, so that it can be mounted again.
pub(crate) struct Over {
    pub(crate) network: Network,
    /// The executable of loadline, which is the link.
    pub(crate) program: Option<Utf8PathBuf>,
    /// What the server shows.
    pub(crate) served: Utf8PathBuf,
    /// Where the client mounts it.
    pub(crate) target: Utf8PathBuf,
    /// A word that proves later that the mount is ours.
    pub(crate) source: String,
    pub(crate) host: Host,
    pub(crate) journal: Arc<Journal>,
    pub(crate) running: Mutex<Vec<Running>>,
}

/// A process of ours.
pub(crate) struct Running {
    child: Child,
    /// Without one it had ended before it could be noted.
    entry: Option<EntryId>,
}

impl Over {
    /// What undoes the mount.
    pub(crate) fn resource(&self) -> Resource {
        Resource::Mount {
            target: self.target.clone(),
            source: self.source.clone(),
            fs_type: FS_TYPE.to_string(),
        }
    }

    /// The lines that start the server and the client.
    fn commands(&self) -> Result<[CommandLine; 2], StackError> {
        let Client::Sshfs = self.network.client;
        let sftp = sftp_server(&self.host)?;
        let server = match (self.network.is_shaped(), &self.program) {
            (false, _) => CommandLine::new(sftp, Vec::<String>::new()),
            (true, Some(program)) => link::command(program, &self.network, sftp),
            (true, None) => {
                let remedy = "run it from the command `loadline`";
                return Err(Unavailable::new("a link is made by the program `loadline`", remedy).into());
            }
        };
        let mut options = vec!["passive".to_string(), format!("fsname={}", self.source)];
        options.extend(self.network.options.iter().cloned());
        let what = format!("loadline:{}", self.served);
        let client = ["-f", &what, self.target.as_str(), "-o", &options.join(",")].map(str::to_string);
        Ok([server, CommandLine::new("sshfs", client)])
    }

    /// Starts server and client, and waits for the mount; what was run.
    pub(crate) fn start(&self) -> Result<Vec<ExecutedCommand>, StackError> {
        let lines = self.commands()?;
        let (server_end, client_end) = UnixStream::pair().map_err(io_error("a pair of sockets".into()))?;
        let begun = std::time::Instant::now();
        self.spawn(&lines[0], server_end, Stdio::null())?;
        let (mut messages, writer) = std::io::pipe().map_err(io_error("a pipe".into()))?;
        self.spawn(&lines[1], client_end, writer.into())?;
        let mut ended = false;
        let mounted = host::wait::wait_until(MOUNT_PATIENCE, || {
            ended = self.client_has_ended();
            ended || self.is_mounted()
        });
        if ended || !mounted {
            self.end();
            // what is there: another process that was forked meanwhile may hold the other end
            let mut message = Vec::new();
            let _ = rustix::io::ioctl_fionbio(&messages, true).map(|()| messages.read_to_end(&mut message));
            let message = String::from_utf8_lossy(&message);
            let status = if ended { "it has ended" } else { "no mount appeared" };
            return Err(StackError::Mount {
                command: lines[1].to_string(),
                status: status.into(),
                message: message.trim().to_string(),
                kernel: String::new(),
            });
        }
        let elapsed_ms = begun.elapsed().as_millis() as u64;
        let output =
            CommandOutput { code: Some(0), stdout: String::new(), stderr: String::new(), elapsed_ms };
        Ok(lines
            .iter()
            .map(|line| ExecutedCommand { line: line.to_string(), output: output.clone() })
            .collect())
    }

    /// One process, with its end of the sockets as standard input and output.
    fn spawn(&self, line: &CommandLine, end: UnixStream, messages: Stdio) -> Result<(), StackError> {
        let spawned = |source| StackError::Spawn { command: line.to_string(), source };
        let end: OwnedFd = end.into();
        let input = end.try_clone().map_err(spawned)?;
        let mut command = Command::new(&line.program);
        command.args(&line.args).stdin(input).stdout(end).stderr(messages);
        host::process::end_with_parent(&mut command);
        let _making = self.journal.begin()?;
        let mut child = command.spawn().map_err(spawned)?;
        match self.journal.record_process(child.id(), &format!("{} of a stack", line.program)) {
            Ok(entry) => {
                self.running().push(Running { child, entry: Some(entry) });
                Ok(())
            }
            // it says why on standard error
            Err(JournalError::NoSuchProcess { .. }) => {
                self.running().push(Running { child, entry: None });
                Ok(())
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client_has_ended(&self) -> bool {
        self.running().last_mut().is_none_or(|client| !matches!(client.child.try_wait(), Ok(None)))
    }

    fn is_mounted(&self) -> bool {
        let mounts = self.host.mounts().unwrap_or_default();
        mountinfo::topmost_at(&mounts, &self.target)
            .is_some_and(|top| top.source == self.source && top.fs_type == FS_TYPE)
    }

    /// Why the mount does not answer, when it does not.
    pub(crate) fn server_problem(&self) -> Option<String> {
        self.client_has_ended().then(|| {
            "sshfs, the process behind the mount, died: was it killed, or for want of memory (dmesg)?".into()
        })
    }

    /// Waits for the processes of a mount that has gone, and kills those that stay.
    pub(crate) fn end(&self) {
        for mut running in self.running().drain(..).rev() {
            if !host::wait::wait_until(END_PATIENCE, || !matches!(running.child.try_wait(), Ok(None))) {
                let _ = running.child.kill();
                let _ = running.child.wait();
            }
            if let Some(Err(error)) = running.entry.map(|entry| self.journal.forget(entry)) {
                tracing::warn!("a network's entry in the journal: {error}");
            }
        }
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where the client mounts what is served from `path`: beside it.
pub(crate) fn target(path: &Utf8Path) -> Utf8PathBuf {
    path.parent().unwrap_or(path).join("net")
}
