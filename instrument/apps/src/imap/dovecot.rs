//! A private Dovecot: own configuration, own directory, a loopback port, started and ended by us.
//!
//! The mail directory is mounted within the server's private mount namespace, so that the mail user reaches it
//! wherever the file system under test is mounted.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::AppError;
use crate::error::at;
use crate::programs::{Program, program};

/// User and group number that mail is served as: `nobody`. Dovecot refuses root.
pub(super) const MAIL_UID: u32 = 65_534;
/// How long it may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that runs. Dropped, it is ended.
#[derive(Debug)]
pub(super) struct Dovecot {
    child: Child,
    port: u16,
    folder: TempDir,
}

/// Whether a server can be had: the programs, and root.
pub(super) fn check() -> Result<(), AppError> {
    program("dovecot", "dovecot-imapd")?;
    program("unshare", "util-linux")?;
    if !std::path::Path::new("/usr/lib/dovecot/imap").exists() {
        return Err(AppError::Unavailable {
            reason: "Dovecot has no IMAP here".into(),
            remedy: "install it (scripts/setup.sh dovecot-imapd, or apt install dovecot-imapd)".into(),
        });
    }
    if !rustix::process::geteuid().is_root() {
        return Err(AppError::Unavailable {
            reason: "Dovecot needs root to serve mail as another user".into(),
            remedy: "run with sudo".into(),
        });
    }
    Ok(())
}

/// The configuration. Users of Dovecot's own package serve where they exist; else `nobody` does.
fn configuration(folder: &Path, port: u16) -> String {
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = |name: &'static str| {
        if known.lines().any(|line| line.starts_with(&format!("{name}:"))) { name } else { "nobody" }
    };
    let group = if user("dovecot") == "dovecot" { "dovecot" } else { "nogroup" };
    format!(
        "base_dir = {folder}/run\nstate_dir = {folder}/state\nlog_path = {folder}/log\nprotocols = imap\n\
         listen = 127.0.0.1\nssl = no\ndisable_plaintext_auth = no\n\
         default_internal_user = {internal}\ndefault_internal_group = {group}\ndefault_login_user = {login}\n\
         mail_location = maildir:{folder}/mail/%u/Maildir:LAYOUT=fs\nmaildir_very_dirty_syncs = yes\n\
         mail_uid = {MAIL_UID}\nmail_gid = {MAIL_UID}\nfirst_valid_uid = 1\nfirst_valid_gid = 1\n\
         mail_max_userip_connections = 100\n\
         passdb {{\n driver = static\n args = nopassword=y\n}}\n\
         userdb {{\n driver = static\n args = uid={MAIL_UID} gid={MAIL_UID} home={folder}/mail/%u\n}}\n\
         service imap-login {{\n inet_listener imap {{\n port = {port}\n }}\n inet_listener imaps {{\n port = 0\n }}\n}}\n",
        folder = folder.display(),
        internal = user("dovecot"),
        login = user("dovenull"),
    )
}

impl Dovecot {
    /// Starts a server for the mail below `mail`, and waits until it listens.
    pub(super) fn start(mail: &Path) -> Result<Dovecot, AppError> {
        let folder =
            tempfile::Builder::new().prefix("loadline-imap-").tempdir().map_err(at(Path::new("/tmp")))?;
        let path = folder.path();
        for name in ["run", "state", "mail"] {
            std::fs::create_dir(path.join(name)).map_err(at(path))?;
        }
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).map_err(at(path))?;
        // Free now; if somebody takes it before the server does, the server says so.
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).map_err(at(path))?.port();
        let file = path.join("dovecot.conf");
        std::fs::write(&file, configuration(path, port)).map_err(at(&file))?;
        let script = "mount --bind \"$1\" \"$2\" && exec dovecot -F -c \"$3\"";
        let command: Program = program("unshare", "util-linux")?
            .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"])
            .args([mail, &path.join("mail"), &file]);
        let child = command
            .command()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| AppError::Protocol(format!("Dovecot cannot be started: {error}")))?;
        let mut server = Dovecot { child, port, folder };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    fn wait_until_it_listens(&mut self) -> Result<(), AppError> {
        let start = Instant::now();
        loop {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            let ended = self.child.try_wait().ok().flatten().is_some();
            if ended || start.elapsed() > PATIENCE {
                let mut text = String::new();
                if let (true, Some(mut stderr)) = (ended, self.child.stderr.take()) {
                    let _ = stderr.read_to_string(&mut text);
                }
                let why = if ended { "ended at once" } else { "does not listen" };
                return Err(self.explain(AppError::Protocol(format!("Dovecot {why}: {}", text.trim()))));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Adds the end of the server's log to an error.
    pub(super) fn explain(&self, error: AppError) -> AppError {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> =
            log.lines().rev().filter(|line| line.contains("Error") || line.contains("Fatal")).collect();
        match (error, lines.first()) {
            (AppError::Protocol(message), Some(line)) => {
                AppError::Protocol(format!("{message}; Dovecot says: {line}"))
            }
            (error, _) => error,
        }
    }

    /// Ends the server and waits for it: its processes hold the file system.
    pub(super) fn stop(mut self) -> Result<(), AppError> {
        self.end();
        Ok(())
    }

    fn end(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Dovecot {
    fn drop(&mut self) {
        self.end();
    }
}
