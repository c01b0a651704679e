//! betrfs's commands: the program `loadline` mounts and checks it, as mount(8) and e2fsck do for ext4.

use std::ffi::OsStr;
use std::io;
use std::process::{Command, Output, Stdio};

use camino::{Utf8Path, Utf8PathBuf};

/// How a mount came to nothing.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The machine's reason.
    Machine(io::Error),
    /// The image's: what was said.
    Image(String),
}

/// The program that mounts and checks.
#[derive(Clone, Debug)]
pub(crate) struct Helper {
    program: Utf8PathBuf,
}

impl Helper {
    pub(crate) fn new(program: Utf8PathBuf) -> Helper {
        Helper { program }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).stdin(Stdio::null());
        command
    }

    /// The command that checks an image: the log is replayed in memory, nothing is written.
    pub(crate) fn check(&self, image: &Utf8Path) -> Command {
        self.command(&["fsck", "betrfs", image.as_str()])
    }

    /// Mounts; the daemon stays in the background.
    pub(crate) fn mount(&self, device: &Utf8Path, target: &Utf8Path, options: &str) -> Result<(), Refusal> {
        let mut command = self.command(&["mount", "betrfs", device.as_str(), target.as_str()]);
        if !options.is_empty() {
            command.args([OsStr::new("-o"), OsStr::new(options)]);
        }
        let output = command.output().map_err(Refusal::Machine)?;
        if output.status.success() { Ok(()) } else { Err(refusal(&output)) }
    }
}

fn refusal(output: &Output) -> Refusal {
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    // of what betrfs's mount says, only these have nothing to do with the bytes of the image
    let of_the_machine = ["is in use", "/dev/fuse", "Cannot allocate memory", "Too many open files"];
    if of_the_machine.iter().any(|words| text.contains(words)) {
        return Refusal::Machine(io::Error::other(text));
    }
    Refusal::Image(if text.is_empty() { output.status.to_string() } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(script: &str) -> Refusal {
        refusal(&Command::new("sh").args(["-c", script]).output().unwrap())
    }

    #[test]
    fn what_the_image_cannot_help_is_the_machines_reason() {
        let busy = told("echo 'loadline: /dev/loop3 is in use' >&2; exit 1");
        assert!(matches!(&busy, Refusal::Machine(error) if error.to_string().contains("loop3")), "{busy:?}");
        let broken = told("echo 'loadline: /dev/loop3: no betrfs file system' >&2; exit 1");
        assert!(matches!(&broken, Refusal::Image(text) if text.contains("no betrfs")), "{broken:?}");
        let killed = told("kill -9 $$");
        assert!(matches!(&killed, Refusal::Image(text) if text.contains("signal: 9")), "{killed:?}");
    }

    #[test]
    fn a_program_that_is_not_there_is_the_machines_reason() {
        let helper = Helper::new("/nowhere/loadline".into());
        let refused = helper.mount("/dev/loop0".into(), "/mnt".into(), "").unwrap_err();
        assert!(matches!(refused, Refusal::Machine(error) if error.kind() == io::ErrorKind::NotFound));
        assert!(format!("{:?}", helper.check("/i".into())).contains("\"fsck\" \"betrfs\" \"/i\""));
    }
}
