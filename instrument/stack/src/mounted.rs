//! A stack in use: where it is, making it cold, taking it down.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::error::StackError;
use crate::over::Over;
use crate::record::{BuildRecord, DeviceInfo};
use crate::steps::{io_error, run, status};
use crate::{image, mount};
use host::runner::{CommandLine, CommandOutput, Runner};
use host::{Host, mountinfo};
use journal::{DeadMount, UndoReport, dead_mount};
use journal::{Resource, Scope};
use spec::{Device, FsKind, StackSpec};

/// How long a busy mount is tried again before a cold remount gives up.
const REMOUNT_PATIENCE: Duration = Duration::from_secs(5);

/// A file system with less free space than this is full: for an image that grows, and behind a network, where a client
/// has more than that under way.
const FULL_BYTES: u64 = 4 << 20;

/// How a stack is mounted, so that it can be mounted again.
#[derive(Debug, Clone)]
pub(crate) struct MountPlan {
    pub command: CommandLine,
    pub target: Utf8PathBuf,
    pub source: String,
    pub fs_type: String,
    pub options: Vec<String>,
}

impl MountPlan {
    pub(crate) fn resource(&self) -> Resource {
        Resource::Mount {
            target: self.target.clone(),
            source: self.source.clone(),
            fs_type: self.fs_type.clone(),
        }
    }

    /// Mounts, and makes sure that what is seen at the target afterwards is this.
    pub(crate) fn mount(&self, host: &Host, runner: &dyn Runner) -> Result<CommandOutput, StackError> {
        let output = run(runner, &self.command)?;
        if !output.success() {
            let kernel = mount::explain(&self.fs_type, &self.options, &self.source);
            return Err(StackError::Mount {
                command: self.command.to_string(),
                status: status(&output),
                message: output.message().to_string(),
                kernel: kernel.map_or(String::new(), |why| format!("\nthe kernel says: {why}")),
            });
        }
        let mounts = host.mounts().map_err(io_error("/proc/self/mountinfo".into()))?;
        let found = match mountinfo::topmost_at(&mounts, &self.target) {
            Some(top) if top.source == self.source && top.fs_type == self.fs_type => return Ok(output),
            Some(top) => format!("{} ({}) is mounted at {}", top.source, top.fs_type, self.target),
            None => format!("nothing is mounted at {}", self.target),
        };
        Err(StackError::NotMounted { command: self.command.to_string(), found })
    }

    pub(crate) fn options_in_effect(&self, host: &Host) -> Option<String> {
        let mounts = host.mounts().ok()?;
        mountinfo::topmost_at(&mounts, &self.target).map(|mount| mount.options.clone())
    }
}

/// How cold [`MountedStack::remount_cold`] left the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Coldness {
    /// Unmounted, the machine's caches dropped, mounted again.
    Remounted,
    /// Written back and the machine's caches dropped; a directory cannot be unmounted, nor `fuse-limit`.
    CachesDropped,
    /// Written back only: dropping caches needs root.
    WrittenBack,
    /// Nothing done: its only copy is in memory.
    InMemory,
}

/// A stack that is built and mounted. Taken down by [`MountedStack::teardown`], or else when dropped.
pub struct MountedStack {
    spec: StackSpec,
    scope: Scope,
    host: Host,
    runner: Arc<dyn Runner>,
    path: Utf8PathBuf,
    plan: Option<MountPlan>,
    /// The network file system through which it is reached.
    over: Option<Over>,
    record: BuildRecord,
    down: bool,
}

impl MountedStack {
    pub(crate) fn new(
        spec: StackSpec,
        scope: Scope,
        (host, runner): (Host, Arc<dyn Runner>),
        (path, plan, over): (Utf8PathBuf, Option<MountPlan>, Option<Over>),
        record: BuildRecord,
    ) -> Self {
        Self { spec, scope, host, runner, path, plan, over, record, down: false }
    }

    /// The directory on which workloads run: absolute, writable, empty on a fresh stack but for what mkfs
    /// puts there (`lost+found`).
    pub fn path(&self) -> &Utf8Path {
        self.over.as_ref().map_or(&self.path, |over| &over.target)
    }

    /// The stack as written.
    pub fn spec(&self) -> &StackSpec {
        &self.spec
    }

    /// What holds the blocks.
    pub fn device(&self) -> &DeviceInfo {
        &self.record.device
    }

    /// The block device node, when there is one: whose counters and events belong to this stack.
    pub fn device_path(&self) -> Option<&Utf8Path> {
        match &self.record.device {
            DeviceInfo::Block(info) => Some(&info.path),
            _ => None,
        }
    }

    /// The device and the mount options of a file system that the load's own process is to open; `None` when it is
    /// mounted at [`MountedStack::path`].
    pub fn in_process(&self) -> Option<(&Utf8Path, String)> {
        let device = self.device_path().filter(|_| self.spec.in_process())?;
        Some((device, self.spec.options_to_open()))
    }

    /// What outside of a load can be why it failed, and what to do: the daemon behind the mount has died, or the file
    /// system that is served or that holds the image is full. `None` when nothing of that is so.
    pub fn problem(&self) -> Option<String> {
        if self.daemon_is_dead() {
            return Some(
                "the daemon behind the mount died: was it killed, or for want of memory (dmesg)?".into(),
            );
        }
        if let Some(trouble) = self.over.as_ref().and_then(Over::server_problem) {
            return Some(trouble);
        }
        if let Some(trouble) = self.served_is_full() {
            return Some(trouble);
        }
        // the private directory holds the image, and the mount point unless it is opened in process
        let mounted = self.plan.as_ref().and_then(|plan| plan.target.parent());
        let dir = self.record.backing.as_ref().map(|_| mounted.unwrap_or(&self.path))?;
        let free = image::free_bytes(dir).ok().filter(|free| *free < FULL_BYTES)?;
        Some(format!(
            "{dir}, which holds the image, has only {} left: make room there or choose another with --work-dir",
            host::bytes::human(free)
        ))
    }

    /// SFTP has no code for a full disk: the client tells it as an input/output error.
    fn served_is_full(&self) -> Option<String> {
        self.over.as_ref()?;
        let full = "so that a write was told as an input/output error";
        let remedy = "use fewer or smaller files, or a larger device";
        let room = image::room(&self.path).ok()?;
        if room.bytes < FULL_BYTES {
            let left = host::bytes::human(room.bytes);
            return Some(format!("the file system that is served has only {left} left, {full}: {remedy}"));
        }
        let no_files = room.files == Some(0);
        no_files.then(|| format!("the file system that is served can hold no more files, {full}: {remedy}"))
    }

    /// Every call on such a mount fails with ENOTCONN or ECONNABORTED.
    fn daemon_is_dead(&self) -> bool {
        let Some(plan) = self.plan.as_ref().filter(|plan| plan.fs_type == dead_mount::BETRFS_TYPE) else {
            return false;
        };
        DeadMount::find(&self.host).is_ok_and(|dead| dead.iter().any(|dead| dead.target == plan.target))
    }

    /// How it was built: command lines, versions, device, notes.
    pub fn record(&self) -> &BuildRecord {
        &self.record
    }

    /// Bytes that an unprivileged writer may still use.
    pub fn free_bytes(&self) -> Result<u64, StackError> {
        if let (true, DeviceInfo::Block(info)) = (self.spec.in_process(), &self.record.device) {
            // only who opens it can tell; the store keeps a sixteenth for itself
            return Ok(info.size_bytes / 16 * 15);
        }
        image::free_bytes(self.path()).map_err(io_error(self.path()))
    }

    /// Makes the stack cold: writes it back, unmounts it, drops the machine's clean caches, mounts it again.
    /// All files on it must be closed. After an error it may be left unmounted; take it down then.
    pub fn remount_cold(&self) -> Result<Coldness, StackError> {
        if self.spec.fs() == FsKind::Tmpfs {
            return Ok(Coldness::InMemory);
        }
        // an interrupt waits until the mount is back, and then takes it off for good
        let _making = self.scope.journal().begin()?;
        self.write_back()?;
        let Some(over) = &self.over else { return self.remount_served() };
        // the client first, whose server holds the rest; it has caches of its own
        self.unmount(&over.target)?;
        over.end();
        let coldness = self.remount_served()?;
        over.start()?;
        Ok(coldness)
    }

    /// As [`MountedStack::remount_cold`], without what a network has in front of it.
    fn remount_served(&self) -> Result<Coldness, StackError> {
        // a daemon keeps what it has in memory, behind the kernel's caches
        let Some(plan) = self.plan.as_ref().filter(|_| *self.spec.device() != Device::Memory) else {
            let dropped = self.host.drop_caches();
            return Ok(if dropped.is_ok() { Coldness::CachesDropped } else { Coldness::WrittenBack });
        };
        self.unmount(&plan.target)?;
        host::mount::wait_released(&plan.fs_type, &plan.source);
        let dropped = self.host.drop_caches().map_err(io_error("/proc/sys/vm/drop_caches".into()));
        plan.mount(&self.host, &*self.runner)?;
        dropped.map(|()| Coldness::Remounted)
    }

    fn unmount(&self, target: &Utf8Path) -> Result<(), StackError> {
        match host::mount::unmount(target, REMOUNT_PATIENCE) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                let users = host::mount::users_text(&host::mount::users(&self.host, target));
                Err(StackError::Busy { target: target.to_owned(), users })
            }
            result => result.map_err(io_error(target)),
        }
    }

    /// Takes the stack down: unmounts, detaches, removes. An error carries the whole report: what stays until
    /// its users let go (a busy mount is detached lazily) and what failed.
    pub fn teardown(mut self) -> Result<UndoReport, StackError> {
        self.down = true;
        let report = self.scope.undo();
        if report.is_clean() { Ok(report) } else { Err(StackError::Teardown(report)) }
    }

    /// Writes back this file system only: a sync of all of them would wait for every other stack.
    fn write_back(&self) -> Result<(), StackError> {
        // through a network first what its client holds, then what the stack does
        for path in [self.path(), &self.path] {
            let dir = File::open(path).map_err(io_error(path))?;
            rustix::fs::syncfs(&dir).map_err(|error| io_error(path)(error.into()))?;
        }
        Ok(())
    }
}

impl Drop for MountedStack {
    fn drop(&mut self) {
        if !self.down {
            let report = self.scope.undo();
            if !report.is_clean() {
                tracing::warn!(stack = %self.spec, "not taken down cleanly:\n{report}");
            }
        }
    }
}

impl std::fmt::Debug for MountedStack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MountedStack")
            .field("spec", &self.spec)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
