//! Containers that belong together: made, heard, told to end, taken down.

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
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::config::{Config, Given, Mount};
use crate::error::{ContainerError, failed};
use crate::gate::Gate;
use crate::group::Groups;
use crate::inside::{DATA, OWN, PROGRAM, READY, SHARED};
use crate::root;
use crate::runtime::Runtime;

/// How long a runtime may take to start a container.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of what a container has said on standard error that are told.
const MESSAGE_BYTES: usize = 600;
/// File descriptors beside one for each container.
const OTHER_DESCRIPTORS: u64 = 256;

/// What containers of a crowd have in common.
#[derive(Debug)]
pub struct Setting<'a> {
    /// What is made is noted there.
    pub journal: &'a Arc<Journal>,
    /// Who makes them.
    pub runtime: &'a Runtime,
    /// Where bundles and FIFOs go.
    pub work_dir: &'a Utf8Path,
    /// Name of their control group: letters, digits, `.`, `_` and `-`.
    pub name: &'a str,
    /// The program that containers find as [`PROGRAM`].
    pub program: &'a Utf8Path,
}

/// A container that is wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
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
    /// Files that it finds in [`OWN`].
    pub files: Vec<(String, Vec<u8>)>,
    /// Its memory limit, page cache included.
    pub memory_bytes: u64,
}

/// What happened to a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// It waits at the gate.
    Ready(usize),
    /// It has ended.
    Ended(usize),
}

/// The containers. Dropped, they are taken down.
#[derive(Debug)]
pub struct Crowd {
    scope: Scope,
    runtime: Runtime,
    program: Utf8PathBuf,
    tree: Utf8PathBuf,
    groups: Groups,
    gate: Gate,
    containers: Vec<Container>,
}

#[derive(Debug)]
struct Container {
    name: String,
    folder: Utf8PathBuf,
    memory_bytes: u64,
    /// The first process, as long as it lives.
    process: Option<OwnedFd>,
}

impl Container {
    fn own(&self) -> Utf8PathBuf {
        self.folder.join("own")
    }

    fn log(&self) -> Utf8PathBuf {
        self.folder.join("log")
    }
}

impl Crowd {
    /// Makes roots, bundles, FIFOs and control groups of `wanted`; nothing runs yet.
    ///
    /// # Errors
    /// What could not be made; nothing is left then.
    pub fn make(
        setting: &Setting<'_>,
        wanted: &[Wanted],
        stopped: &dyn Fn() -> bool,
    ) -> Result<Crowd, ContainerError> {
        let mut scope = Scope::new(setting.journal);
        let made = Draft { setting, scope: &mut scope }.make(wanted, stopped);
        match made {
            Ok((tree, groups, gate, containers)) => {
                let (runtime, program) = (setting.runtime.clone(), setting.program.to_owned());
                Ok(Crowd { scope, runtime, program, tree, groups, gate, containers })
            }
            Err(error) => {
                scope.undo();
                Err(error)
            }
        }
    }

    /// Starts a container.
    ///
    /// # Errors
    /// [`ContainerError::Start`] with its name and what was said.
    pub fn start(&mut self, number: usize) -> Result<(), ContainerError> {
        let one = &self.containers[number];
        let (name, folder) = (one.name.clone(), one.folder.clone());
        let start = |message: String| ContainerError::Start { name: name.clone(), message };
        let pid_file = folder.join("pid");
        let id = format!("loadline-{}", one.name);
        let mut command =
            self.runtime.command(&self.program, &self.tree.join("state"), &folder, &pid_file, &id);
        let log = one.log();
        let out = File::create(&log).map_err(failed("writing", &log))?;
        let err = out.try_clone().map_err(failed("writing", &log))?;
        command.stdout(out).stderr(err);
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
        self.containers[number].process =
            opened(pid).ok_or_else(|| start(format!("it ended at once{}", self.end_of(number)))).map(Some)?;
        Ok(())
    }

    /// Waits until something happens, at most for `limit`.
    ///
    /// # Errors
    /// poll(2) failed.
    pub fn hear(&mut self, limit: Duration) -> Result<Vec<Happening>, ContainerError> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.gate.news_fd(), PollFlags::IN)];
        let living: Vec<usize> =
            (0..self.containers.len()).filter(|number| self.containers[*number].process.is_some()).collect();
        let of = |number: &usize| self.containers[*number].process.as_ref();
        fds.extend(living.iter().filter_map(of).map(|fd| PollFd::new(fd, PollFlags::IN)));
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed("waiting for containers below", &self.tree)(error)),
        }
        let gone: Vec<usize> = living
            .iter()
            .zip(&fds[1..])
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(number, _)| *number)
            .collect();
        drop(fds);
        // what one said before it ended comes first
        let news = self.gate.news().into_iter().filter(|(_, what)| what == READY);
        let mut happened: Vec<Happening> = news.map(|(number, _)| Happening::Ready(number)).collect();
        for number in gone {
            self.containers[number].process = None;
            happened.push(Happening::Ended(number));
        }
        Ok(happened)
    }

    /// Lets all go that wait at the gate.
    ///
    /// # Errors
    /// The FIFO is gone.
    pub fn release(&mut self) -> Result<(), ContainerError> {
        self.gate.open()
    }

    /// Sends a signal to the first process of every container that lives.
    pub fn signal(&self, signal: Signal) {
        for process in self.containers.iter().filter_map(|one| one.process.as_ref()) {
            // one that has ended meanwhile needs none
            let _ = pidfd_send_signal(process, signal);
        }
    }

    /// Number of containers that live.
    pub fn living(&self) -> usize {
        self.containers.iter().filter(|one| one.process.is_some()).count()
    }

    /// Whether a container lives.
    pub fn lives(&self, number: usize) -> bool {
        self.containers.get(number).is_some_and(|one| one.process.is_some())
    }

    /// A container's name.
    pub fn name(&self, number: usize) -> &str {
        self.containers.get(number).map_or("?", |one| &one.name)
    }

    /// A file that a container wrote in [`OWN`].
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, number: usize, file: &str) -> std::io::Result<Vec<u8>> {
        std::fs::read(self.containers[number].own().join(file))
    }

    /// Why a container that came to nothing may have ended, as far as is known; for the end of a sentence.
    pub fn end_of(&self, number: usize) -> String {
        let killed = match self.memory(number).1 {
            0 => "",
            _ => " (its memory limit was met and the kernel killed it; --memory gives each more)",
        };
        format!("{killed}{}", self.said(number))
    }

    /// The end of what it wrote to its standard output and error, after `: `; empty when that is nothing.
    pub fn said(&self, number: usize) -> String {
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
    pub fn take_down(self) -> Result<(), UndoReport> {
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
struct Draft<'a> {
    setting: &'a Setting<'a>,
    scope: &'a mut Scope,
}

type Parts = (Utf8PathBuf, Groups, Gate, Vec<Container>);

impl Draft<'_> {
    fn make(&mut self, wanted: &[Wanted], stopped: &dyn Fn() -> bool) -> Result<Parts, ContainerError> {
        allow_descriptors(wanted.len() as u64 + OTHER_DESCRIPTORS);
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
        let gate = Gate::make(&shared)?;
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
        Ok((tree, groups, gate, containers))
    }

    /// Directories and the overlay of a container.
    fn container(
        &mut self,
        tree: &Utf8Path,
        lower: &Utf8Path,
        one: &Wanted,
    ) -> Result<Container, ContainerError> {
        let folder = tree.join(&one.name);
        let (upper, work) = (one.home.join("upper"), one.home.join("work"));
        let own = ["rootfs", "own", "upper", "work"].map(|name| folder.join(name));
        for path in own.iter().chain([&upper, &work, &one.home.join("data")]) {
            std::fs::create_dir_all(path).map_err(failed("making the directory", path))?;
        }
        for (name, bytes) in &one.files {
            let path = folder.join("own").join(name);
            std::fs::write(&path, bytes).map_err(failed("writing", &path))?;
        }
        let target = folder.join("rootfs");
        let source = format!("loadline-{}", random_word());
        let on_stack = overlay_data(lower, &upper, &work);
        // for a file system that cannot hold an upper layer (betrfs)
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
        Ok(Container { name: one.name.clone(), folder, memory_bytes: one.memory_bytes, process: None })
    }

    /// Writes a container's configuration.
    fn configure(
        &self,
        tree: &Utf8Path,
        common: &[Mount],
        groups: &Groups,
        one: &Wanted,
    ) -> Result<(), ContainerError> {
        let folder = tree.join(&one.name);
        let mut mounts = common.to_vec();
        mounts.push(Mount::bind(folder.join("own"), OWN, false));
        mounts.push(Mount::bind(one.home.join("data"), DATA, false));
        mounts.extend(one.mounts.iter().cloned());
        let config = Config::new(Given {
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

/// One descriptor for each container; the usual soft limit is 1,024.
fn allow_descriptors(number: u64) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < number) {
        limit.current = limit.maximum.map(|most| most.min(number));
        // a refusal shows as EMFILE when the limit is met
        let _ = setrlimit(Resource::Nofile, limit);
    }
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
