//! Who makes a container: runc, or plain namespaces where that is missing.

use std::fmt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};
use host::{Host, Unavailable};

use crate::init;

/// Who makes a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runtime {
    /// runc, this program of this version.
    Runc {
        /// Its path.
        path: Utf8PathBuf,
        /// Its version.
        version: String,
    },
    /// loadline itself: the same namespaces, root and memory limit, without dropped capabilities.
    Namespaces,
}

impl Runtime {
    /// runc where it is installed, else plain namespaces. `LOADLINE_CONTAINERS=namespaces` chooses those all the same.
    ///
    /// # Errors
    /// This user cannot make containers; another value of that variable.
    pub fn choose(host: &Host) -> Result<Runtime, Unavailable> {
        if !rustix::process::geteuid().is_root() {
            return Err(Unavailable::new("containers need root", "run as root, or leave out --containers"));
        }
        let known = host.read("/proc/filesystems").unwrap_or_default();
        if !known.lines().any(|line| line.split_whitespace().last() == Some("overlay"))
            && !host.exists("/sys/module/overlay")
            && !modprobe(host)
        {
            let remedy = "modprobe overlay, or use a kernel with CONFIG_OVERLAY_FS";
            return Err(Unavailable::new("this kernel has no overlay file system", remedy));
        }
        match std::env::var("LOADLINE_CONTAINERS").as_deref() {
            Ok("namespaces") => Ok(Runtime::Namespaces),
            Err(_) | Ok("" | "runc") => Ok(runc(host).unwrap_or(Runtime::Namespaces)),
            Ok(other) => Err(Unavailable::new(
                format!("LOADLINE_CONTAINERS={other} is not known"),
                "set it to runc or namespaces, or unset it",
            )),
        }
    }

    /// What a reader must know of it.
    pub fn remark(&self) -> Option<String> {
        match self {
            Runtime::Runc { .. } => None,
            Runtime::Namespaces => Some(
                "runc is not used (not installed, or LOADLINE_CONTAINERS=namespaces): the containers are plain \
                 namespaces with the same root and memory limit; `apt install runc` gives OCI containers"
                    .into(),
            ),
        }
    }

    /// The command that starts a container and returns as soon as it runs; it writes its process number to `pid_file`.
    pub(crate) fn command(
        &self,
        program: &Utf8Path,
        state: &Utf8Path,
        bundle: &Utf8Path,
        pid_file: &Utf8Path,
        id: &str,
    ) -> Command {
        let mut command = match self {
            Runtime::Runc { path, .. } => {
                let mut command = Command::new(path);
                let root = ["--root", state.as_str(), "run", "--detach", "--no-new-keyring"];
                command.args(root).args(["--bundle", bundle.as_str(), "--pid-file", pid_file.as_str(), id]);
                command
            }
            Runtime::Namespaces => {
                let mut command = Command::new(program);
                command.args([init::START, bundle.join("config.json").as_str(), pid_file.as_str()]);
                command
            }
        };
        // the terminal's Ctrl-C reaches loadline only
        command.process_group(0).stdin(Stdio::null());
        command
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Runtime::Runc { version, .. } => write!(out, "runc {version}"),
            Runtime::Namespaces => out.write_str("plain namespaces"),
        }
    }
}

fn runc(host: &Host) -> Option<Runtime> {
    let path = host.find_program("runc")?;
    let told = Command::new(&path).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let version = text.lines().next()?.split_whitespace().last()?.to_string();
    Some(Runtime::Runc { path, version })
}

fn modprobe(host: &Host) -> bool {
    let Some(program) = host.find_program("modprobe") else { return false };
    Command::new(program).arg("overlay").output().is_ok_and(|output| output.status.success())
}
