//! Containers that belong together: made, started, taken down.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use host::ProcessId;
use journal::{Journal, Resource, Scope, UndoReport, create_tree, random_word};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::MountFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::config::{Config, ContainerParams, Mount};
use crate::error::{ContainerError, failed};
use crate::group::Groups;
use crate::inside::{DATA, OWN, PROGRAM, SHARED};
use crate::root;
use crate::runtime::Runtime;

/// How long a runtime may take to start a container.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of what a container has said on standard error that are told.
const MESSAGE_BYTES: usize = 600;
/// File descriptors that are held for each container: its process, its standard input and output.
const DESCRIPTORS: u64 = 3;
/// File descriptors beside those.
const OTHER_DESCRIPTORS: u64 = 256;

/// What containers of a crowd have in common.
#[derive(Debug)]
pub struct SharedSettings<'a> {
    /// What is made is noted there.
    pub journal: &'a Arc<Journal>,
    /// Who makes them.
    pub runtime: &'a Runtime,
    /// Where bundles go.
    pub work_dir: &'a Utf8Path,
    /// Name of their control group: letters, digits, `.`, `_` and `-`.
    pub name: &'a str,
    /// The program that containers find as [`PROGRAM`].
    pub program: &'a Utf8Path,
}

/// A container that is wanted.
#[derive(Debug, Clone)]
pub struct ContainerSpec {
    /// Its name, unlike that of any other of the crowd: letters, digits and `-`.
    pub name: String,
    /// A directory of its own on the stack under test, which is made: the upper layer of its root, and [`DATA`].
    pub home: Utf8PathBuf,
    /// The program and its arguments.
    pub args: Vec<String>,
    /// Further environment, as `NAME=VALUE`.
    pub env: Vec<String>,
    /// Further mounts; places in its root are made as needed.
    pub mounts: Vec<Mount>,
    /// Its memory limit, page cache included.
    pub memory_bytes: u64,
}

/// The containers. Dropped, they are taken down.
#[derive(Debug)]
pub struct Crowd {
    scope: Scope,
    runtime: Runtime,
    program: Utf8PathBuf,
    tree: Utf8PathBuf,
    groups: Groups,
    containers: Vec<Container>,
}

#[derive(Debug)]
struct Container {
    name: String,
    folder: Utf8PathBuf,
    memory_bytes: u64,
}

impl Container {
    fn log(&self) -> Utf8PathBuf {
        self.folder.join("log")
    }
}

impl Crowd {
    /// Makes roots, bundles and control groups of `wanted`; nothing runs yet.
    ///
    /// # Errors
    /// What could not be made; nothing is left then.
    pub fn make(
        setting: &SharedSettings<'_>,
        wanted: &[ContainerSpec],
        stopped: &dyn Fn() -> bool,
    ) -> Result<Crowd, ContainerError> {
        let mut scope = Scope::new(setting.journal);
        let made = CrowdBuilder { setting, scope: &mut scope }.make(wanted, stopped);
        match made {
            Ok((tree, groups, containers)) => {
                let (runtime, program) = (setting.runtime.clone(), setting.program.to_owned());
                Ok(Crowd { scope, runtime, program, tree, groups, containers })
            }
            Err(error) => {
                scope.undo();
                Err(error)
            }
        }
    }

    /// Starts a container whose program reads and writes these pipes; its first process, pinned.
    ///
    /// # Errors
    /// [`ContainerError::Start`] with its name and what was said.
    pub fn start(
        &mut self,
        number: usize,
        stdin: OwnedFd,
        stdout: OwnedFd,
    ) -> Result<OwnedFd, ContainerError> {
        let one = &self.containers[number];
        let (name, folder) = (one.name.clone(), one.folder.clone());
        let start = |message: String| ContainerError::Start { name: name.clone(), message };
        let pid_file = folder.join("pid");
        let id = format!("loadline-{}", one.name);
        let mut command =
            self.runtime.command(&self.program, &self.tree.join("state"), &folder, &pid_file, &id);
        let log = one.log();
        let err = File::create(&log).map_err(failed("writing", &log))?;
        command.stdin(stdin).stdout(stdout).stderr(err);
        host::process::end_with_parent(&mut command);
        match self.runtime {
            Runtime::Runc { .. } => self.groups.start_in(None, &mut command)?,
            Runtime::Namespaces => {
                self.groups.limited(&one.name, one.memory_bytes)?;
                self.groups.start_in(Some(&one.name), &mut command)?;
            }
        }
        run(&mut command).map_err(|why| start(format!("{why}{}", self.end_of(number))))?;
        let pid = std::fs::read_to_string(&pid_file).map_err(failed("reading", &pid_file))?;
        let pid = pid.trim().parse().map_err(|_| start(format!("`{pid}` is no process number")))?;
        opened(pid).ok_or_else(|| start(format!("it ended at once{}", self.end_of(number))))
    }

    /// A container's name.
    pub fn name(&self, number: usize) -> &str {
        self.containers.get(number).map_or("?", |one| &one.name)
    }

    /// Why a container that came to nothing may have ended, as far as is known; for the end of a sentence.
    pub fn end_of(&self, number: usize) -> String {
        let killed = match self.memory(number).1 {
            0 => "",
            _ => " (its memory limit was met and the kernel killed it; --memory gives each more)",
        };
        format!("{killed}{}", self.stderr_of(number))
    }

    /// The end of what it wrote to its standard error, after `: `; empty when that is nothing.
    pub fn stderr_of(&self, number: usize) -> String {
        let bytes = std::fs::read(self.containers[number].log()).unwrap_or_default();
        let tail = &bytes[bytes.len().saturating_sub(MESSAGE_BYTES)..];
        let text = String::from_utf8_lossy(tail);
        if text.trim().is_empty() { String::new() } else { format!(": {}", text.trim()) }
    }

    /// The most memory that a container has used, in bytes, and how many of its processes were killed for want of it.
    pub fn memory(&self, number: usize) -> (Option<u64>, u64) {
        self.groups.used(&self.containers[number].name)
    }

    /// Kills what still runs and takes everything away.
    ///
    /// # Errors
    /// What stays.
    pub fn take_down(&mut self) -> Result<(), UndoReport> {
        let report = self.scope.undo();
        if report.is_clean() { Ok(()) } else { Err(report) }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // what was taken down already is not in the journal any more
        self.scope.undo();
    }
}

/// What the making of a crowd needs.
struct CrowdBuilder<'a> {
    setting: &'a SharedSettings<'a>,
    scope: &'a mut Scope,
}

type Parts = (Utf8PathBuf, Groups, Vec<Container>);

impl CrowdBuilder<'_> {
    fn make(
        &mut self,
        wanted: &[ContainerSpec],
        stopped: &dyn Fn() -> bool,
    ) -> Result<Parts, ContainerError> {
        host::process::allow_descriptors(DESCRIPTORS * wanted.len() as u64 + OTHER_DESCRIPTORS);
        let tree = create_tree::<TreeError>(self.scope, self.setting.work_dir).map_err(|error| error.0)?;
        let (lower, shared) = (tree.join("lower"), tree.join("shared"));
        for folder in [&lower, &shared, &tree.join("state")] {
            std::fs::create_dir(folder).map_err(failed("making the directory", folder))?;
        }
        let mut common = root::kernel_mounts();
        common.extend(root::make(&lower)?);
        common.push(Mount::bind(self.setting.program.as_str(), PROGRAM, true));
        common.push(Mount::bind(shared.as_str(), SHARED, false));
        for place in wanted.iter().flat_map(|one| &one.mounts).map(|mount| &mount.destination) {
            let path = root::within(&lower, place.as_str());
            std::fs::create_dir_all(&path).map_err(failed("making the directory", &path))?;
        }
        let mut containers = Vec::with_capacity(wanted.len());
        for one in wanted {
            if stopped() {
                return Err(ContainerError::Interrupted);
            }
            containers.push(self.container(&tree, &lower, one)?);
        }
        // after the overlays: undone before them, with all processes that use them
        let groups = Groups::make(self.scope, self.setting.name, self.setting.runtime)?;
        for one in wanted {
            self.configure(&tree, &common, &groups, one)?;
        }
        Ok((tree, groups, containers))
    }

    /// Directories and the overlay of a container.
    fn container(
        &mut self,
        tree: &Utf8Path,
        lower: &Utf8Path,
        one: &ContainerSpec,
    ) -> Result<Container, ContainerError> {
        let folder = tree.join(&one.name);
        let (upper, work) = (one.home.join("upper"), one.home.join("work"));
        let own = ["rootfs", "own", "upper", "work"].map(|name| folder.join(name));
        for path in own.iter().chain([&upper, &work, &one.home.join("data")]) {
            std::fs::create_dir_all(path).map_err(failed("making the directory", path))?;
        }
        let target = folder.join("rootfs");
        let source = format!("loadline-{}", random_word());
        let on_stack = overlay_data(lower, &upper, &work);
        // for a file system that overlayfs refuses as an upper layer
        let beside = overlay_data(lower, &folder.join("upper"), &folder.join("work"));
        let mount =
            Resource::Mount { target: target.clone(), source: source.clone(), fs_type: "overlay".into() };
        self.scope.create(mount, || {
            let mount = |data: &std::ffi::CStr| {
                rustix::mount::mount(&*source, target.as_str(), "overlay", MountFlags::empty(), Some(data))
            };
            match mount(&on_stack) {
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => mount(&beside),
                mounted => mounted,
            }
            .map_err(failed("mounting the overlay at", &target))
        })?;
        Ok(Container { name: one.name.clone(), folder, memory_bytes: one.memory_bytes })
    }

    /// Writes a container's configuration.
    fn configure(
        &self,
        tree: &Utf8Path,
        common: &[Mount],
        groups: &Groups,
        one: &ContainerSpec,
    ) -> Result<(), ContainerError> {
        let folder = tree.join(&one.name);
        let mut mounts = common.to_vec();
        mounts.push(Mount::bind(folder.join("own"), OWN, false));
        mounts.push(Mount::bind(one.home.join("data"), DATA, false));
        mounts.extend(one.mounts.iter().cloned());
        let config = Config::new(ContainerParams {
            hostname: one.name.clone(),
            root: folder.join("rootfs"),
            args: &one.args,
            env: &one.env,
            mounts,
            memory_bytes: one.memory_bytes,
            group: groups.oci_path(&one.name),
        });
        let path = folder.join("config.json");
        let text =
            serde_json::to_vec(&config).map_err(std::io::Error::from).map_err(failed("writing", &path))?;
        std::fs::write(&path, text).map_err(failed("writing", &path))
    }
}

/// What [`create_tree`] needs of an error.
struct TreeError(ContainerError);

impl From<journal::JournalError> for TreeError {
    fn from(error: journal::JournalError) -> Self {
        TreeError(error.into())
    }
}

impl From<(Utf8PathBuf, std::io::Error)> for TreeError {
    fn from((path, error): (Utf8PathBuf, std::io::Error)) -> Self {
        TreeError(failed("making the private directory", &path)(error))
    }
}

/// Options of an overlay; within a path, `\`, `:` and `,` are written with a `\` before them.
fn overlay_data(lower: &Utf8Path, upper: &Utf8Path, work: &Utf8Path) -> std::ffi::CString {
    let plain = |path: &Utf8Path| {
        let mut text = String::new();
        for letter in path.as_str().chars() {
            if matches!(letter, '\\' | ':' | ',') {
                text.push('\\');
            }
            text.push(letter);
        }
        text
    };
    let text = format!("lowerdir={},upperdir={},workdir={}", plain(lower), plain(upper), plain(work));
    // no path of the system holds a zero byte
    std::ffi::CString::new(text).unwrap_or_default()
}

/// The living process of that number, pinned.
fn opened(pid: u32) -> Option<OwnedFd> {
    let host = host::Host::system();
    let process = ProcessId::read(&host, pid)?;
    let fd = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
    process.is_alive(&host).then_some(fd)
}

/// Runs a runtime's command to its end.
fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let pid = Pid::from_child(&child);
    let fd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| format!("{program}: {error}"))?;
    let begin = Instant::now();
    loop {
        let left = START_PATIENCE.saturating_sub(begin.elapsed());
        if let Some(status) = child.try_wait().map_err(|error| format!("{program}: {error}"))? {
            return if status.success() { Ok(()) } else { Err(format!("{program} failed ({status})")) };
        }
        if left.is_zero() {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!(
                "{program} did not end within {} s and was killed",
                START_PATIENCE.as_secs()
            ));
        }
        let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        // whatever wakes it, the child is asked again
        let _ = poll(&mut [PollFd::new(&fd.as_fd(), PollFlags::IN)], Some(&limit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_commas_and_colons_stay_one_path() {
        let data = overlay_data("/a,b".into(), "/c:d".into(), r"/e\f".into());
        assert_eq!(data.to_str().unwrap(), r"lowerdir=/a\,b,upperdir=/c\:d,workdir=/e\\f");
    }
}
