//! A private tracefs instance: created, set up, removed when dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::format::EventFormat;
use crate::page::PageLayout;
use host::Unavailable;
use host::text::value_of;

use crate::error::{TraceError, at};

/// Names of instances: this, the process, a number.
const PREFIX: &str = "loadline-";
/// Names of private mount points: as above.
const MOUNT_PREFIX: &str = "loadline-tracefs-";
static NEXT: AtomicU32 = AtomicU32::new(0);

/// One tracepoint to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The group, e.g. `block`.
    pub system: &'static str,
    /// The event, e.g. `block_rq_issue`.
    pub name: &'static str,
    /// A filter in the kernel's language, e.g. `dev == 7340032 || common_pid == 12`.
    pub filter: Option<String>,
    /// Whether tracing makes no sense without it.
    pub required: bool,
}

/// Where tracefs is, and whether it was mounted here for this purpose.
#[derive(Debug)]
struct Tracefs {
    root: PathBuf,
    own: bool,
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if self.own && unmount(&self.root, UnmountFlags::DETACH).is_ok() {
            let _ = fs::remove_dir(&self.root);
        }
    }
}

/// A private set of ring buffers with its own events, clock and filters: other users of tracing are not
/// disturbed. Dropping it turns its events off and removes it; instances of killed processes are removed
/// when the next one is created.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    formats: Vec<Arc<EventFormat>>,
    tracefs: Tracefs,
}

impl Instance {
    /// Creates an instance that records nothing yet, its clock set to `mono`.
    ///
    /// # Errors
    /// [`TraceError::Unavailable`] without root, without tracefs in the kernel, or when the kernel is locked
    /// down.
    pub fn create() -> Result<Self, TraceError> {
        let tracefs = find_tracefs()?;
        let instances = tracefs.root.join("instances");
        sweep_in(&instances);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = instances.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(|error| denied(&error, &path))?;
        let instance = Instance { path, formats: Vec::new(), tracefs };
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", "mono")?;
        Ok(instance)
    }

    /// Turns one event on. `false`: this kernel does not have it, and it is not required.
    ///
    /// # Errors
    /// When a required event is missing or the kernel refuses the filter.
    pub fn enable(&mut self, selection: &Selection) -> Result<bool, TraceError> {
        let directory = self.path.join("events").join(selection.system).join(selection.name);
        let event = format!("{}/{}", selection.system, selection.name);
        if !directory.is_dir() {
            return if selection.required { Err(TraceError::NoEvent(event)) } else { Ok(false) };
        }
        let path = directory.join("format");
        let format = EventFormat::parse(&fs::read_to_string(&path).map_err(at(&path))?)?;
        if let Some(filter) = &selection.filter {
            let refused = |source| TraceError::Filter { event, filter: filter.clone(), source };
            fs::write(directory.join("filter"), filter).map_err(refused)?;
        }
        let path = directory.join("enable");
        fs::write(&path, "1").map_err(at(&path))?;
        self.formats.push(Arc::new(format));
        Ok(true)
    }

    /// Sets the size of each CPU's buffer.
    ///
    /// # Errors
    /// When the kernel has not that much memory.
    pub fn set_buffer_kib_per_cpu(&self, kib: u32) -> Result<(), TraceError> {
        self.write("buffer_size_kb", &kib.to_string())
    }

    /// Replaces the filter of an event that is on; `None` turns the event off. It stays on while its filter changes.
    ///
    /// # Errors
    /// When the kernel refuses the filter or has no such event.
    pub fn refilter(&self, system: &str, name: &str, filter: Option<&str>) -> Result<(), TraceError> {
        let directory = self.path.join("events").join(system).join(name);
        if let Some(filter) = filter {
            let event = || format!("{system}/{name}");
            let refused = |source| TraceError::Filter { event: event(), filter: filter.to_owned(), source };
            fs::write(directory.join("filter"), filter).map_err(refused)?;
        }
        let path = directory.join("enable");
        fs::write(&path, if filter.is_some() { "1" } else { "0" }).map_err(at(&path))
    }

    /// Adds an event that is turned on later, by [`Instance::refilter`]: its layout is known from now on.
    ///
    /// # Errors
    /// When the format cannot be read. `false`: this kernel does not have the event.
    pub fn know(&mut self, system: &str, name: &str) -> Result<bool, TraceError> {
        let path = self.path.join("events").join(system).join(name).join("format");
        if !path.exists() {
            return Ok(false);
        }
        let format = EventFormat::parse(&fs::read_to_string(&path).map_err(at(&path))?)?;
        self.formats.push(Arc::new(format));
        Ok(true)
    }

    /// Records only what the threads of `set_event_pid` do; and, when `children`, what threads and processes that
    /// they make do. Returns the file that takes more thread numbers (decimal, apart by blanks).
    ///
    /// # Errors
    /// When the kernel does not have it, or a number is beyond its highest.
    pub fn only_threads(&self, tids: &[u32], children: bool) -> Result<fs::File, TraceError> {
        if children {
            self.write("options/event-fork", "1")?;
        }
        // An empty list would mean all threads; the highest number is hardly ever in use.
        let text = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
        let nobody = text.trim().parse::<u32>().unwrap_or(32_768) - 1;
        let path = self.path.join("set_event_pid");
        let words: Vec<String> = tids.iter().chain([&nobody]).map(u32::to_string).collect();
        fs::write(&path, words.join(" ")).map_err(at(&path))?;
        fs::OpenOptions::new().append(true).open(&path).map_err(at(&path))
    }

    /// Wakes readers when this percentage of a buffer is filled; older kernels do not have it.
    pub(super) fn wake_readers_at_percent(&self, percent: u32) {
        let _ = self.write("buffer_percent", &percent.to_string());
    }

    /// Turns recording on or off.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn record(&self, on: bool) -> Result<(), TraceError> {
        self.write("tracing_on", if on { "1" } else { "0" })
    }

    /// The layouts of the enabled events.
    pub fn formats(&self) -> &[Arc<EventFormat>] {
        &self.formats
    }

    /// The layout of pages.
    ///
    /// # Errors
    /// When `events/header_page` is not understood.
    pub fn page_layout(&self) -> Result<PageLayout, TraceError> {
        let path = self.tracefs.root.join("events/header_page");
        PageLayout::parse(&read_at_once(&path).map_err(at(&path))?)
    }

    /// The raw buffers: CPU and the file `trace_pipe_raw`.
    pub(super) fn raw_buffers(&self) -> Result<Vec<(u16, PathBuf)>, TraceError> {
        let directory = self.path.join("per_cpu");
        let mut found = Vec::new();
        for entry in fs::read_dir(&directory).map_err(at(&directory))?.flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse().ok());
            if let Some(cpu) = number {
                found.push((cpu, entry.path().join("trace_pipe_raw")));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Events the kernel overwrote or dropped, over all CPUs since the instance was created.
    pub fn overrun(&self) -> u64 {
        let cpus = self.raw_buffers().unwrap_or_default();
        let stats = cpus.iter().filter_map(|(_, path)| read_at_once(&path.with_file_name("stats")).ok());
        stats.map(|text| lost_in_stats(&text)).sum()
    }

    fn write(&self, file: &str, value: &str) -> Result<(), TraceError> {
        let path = self.path.join(file);
        fs::write(&path, value).map_err(at(&path))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Reads a file that the kernel gives in one piece or not at all: `events/header_page` ends after the first
/// read, however small that was, and the standard library begins with a small one.
fn read_at_once(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut bytes = vec![0; 1 << 16];
    let count = fs::File::open(path)?.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

fn remove(instance: &Path) {
    let _ = fs::write(instance.join("tracing_on"), "0");
    let _ = fs::write(instance.join("events/enable"), "0");
    let _ = fs::remove_dir(instance);
}

/// Removes instances whose process is gone, and private mounts of tracefs; what was removed. Without root or tracefs
/// there are none.
pub fn sweep() -> Vec<PathBuf> {
    let table = mount_table();
    let mut removed = Vec::new();
    for root in mounted_at(&table) {
        removed.extend(sweep_in(&root.join("instances")));
    }
    removed.extend(sweep_mounts(&table));
    removed
}

/// Removes the instances of one tracefs whose process is gone.
fn sweep_in(instances: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(instances).into_iter().flatten().flatten();
    let left = entries.map(|entry| entry.path()).filter(|path| owner_of(path, PREFIX).is_some_and(is_gone));
    left.inspect(|path| remove(path)).filter(|path| !path.exists()).collect()
}

/// Unmounts private mounts of tracefs whose process is gone.
fn sweep_mounts(table: &str) -> Vec<PathBuf> {
    let left = mounted_at(table).filter(|root| owner_of(root, MOUNT_PREFIX).is_some_and(is_gone));
    left.inspect(|root| drop(Tracefs { root: root.clone(), own: true }))
        .filter(|root| !root.exists())
        .collect()
}

/// The process in the name of what one of ours made: `PREFIX PID - NUMBER`.
fn owner_of(path: &Path, prefix: &str) -> Option<u32> {
    let (pid, number) = path.file_name()?.to_str()?.strip_prefix(prefix)?.split_once('-')?;
    number.parse::<u32>().ok()?;
    pid.parse().ok()
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// The lost events in a `per_cpu/cpuN/stats` file: overwritten, dropped, and lost while being written.
fn lost_in_stats(text: &str) -> u64 {
    let keys = ["overrun", "commit overrun", "dropped events"];
    let value = |key| value_of(text, key, ':').and_then(|value| value.parse::<u64>().ok());
    keys.into_iter().filter_map(value).sum()
}

fn find_tracefs() -> Result<Tracefs, TraceError> {
    if !rustix::process::geteuid().is_root() {
        return Err(Unavailable::new("reading tracepoints needs root", "run this command as root").into());
    }
    let table = mount_table();
    // A private mount of another run goes away with it.
    sweep_mounts(&table);
    let mut public = mounted_at(&table).filter(|root| owner_of(root, MOUNT_PREFIX).is_none());
    if let Some(root) = public.find(|root| root.join("instances").is_dir()) {
        return Ok(Tracefs { root, own: false });
    }
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.lines().any(|line| line.trim_end().ends_with("\ttracefs")) {
        let remedy = "use a kernel with CONFIG_TRACEPOINTS and CONFIG_FTRACE";
        return Err(Unavailable::new("this kernel has no tracefs", remedy).into());
    }
    mount_privately()
}

/// The mount table; what is not UTF-8 in it is replaced.
fn mount_table() -> String {
    String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").unwrap_or_default()).into_owned()
}

/// Mount points of tracefs in a mount table (proc_pid_mountinfo(5)).
fn mounted_at(table: &str) -> impl Iterator<Item = PathBuf> {
    table.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        right.starts_with("tracefs ").then(|| left.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// Mounts tracefs in a directory only root can enter.
fn mount_privately() -> Result<Tracefs, TraceError> {
    use std::os::unix::fs::DirBuilderExt;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let root = std::env::temp_dir().join(format!("{MOUNT_PREFIX}{}-{number}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&root).map_err(at(&root))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match mount("tracefs", &root, "tracefs", flags, None) {
        Ok(()) => Ok(Tracefs { root, own: true }),
        Err(error) => {
            let _ = fs::remove_dir(&root);
            let remedy = "mount it: mount -t tracefs tracefs /sys/kernel/tracing";
            Err(Unavailable::new(format!("tracefs cannot be mounted: {error}"), remedy).into())
        }
    }
}

fn denied(error: &std::io::Error, path: &Path) -> TraceError {
    let remedy = "run as root outside of containers, on a kernel not locked down for confidentiality";
    Unavailable::new(format!("{} cannot be created: {error}", path.display()), remedy).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_loss_is_counted() {
        let text = "entries: 9\noverrun: 3\ncommit overrun: 1\nbytes: 80\noldest event ts: 1.0\nnow ts: 2.0\n\
                    dropped events: 2\nread events: 4\n";
        assert_eq!(lost_in_stats(text), 6);
        assert_eq!(lost_in_stats(""), 0);
    }

    #[test]
    fn only_what_was_made_here_has_an_owner() {
        assert_eq!(owner_of(Path::new("/t/instances/loadline-77-0"), PREFIX), Some(77));
        assert_eq!(owner_of(Path::new("/tmp/loadline-tracefs-78-12"), MOUNT_PREFIX), Some(78));
        for other in [
            "/t/loadline-x-1",
            "/t/loadline-7",
            "/t/other-7-1",
            "/t/loadline-7-x",
            "/t/loadline-tracefs-7-1",
            "/",
        ] {
            assert_eq!(owner_of(Path::new(other), PREFIX), None, "{other}");
        }
    }

    #[test]
    fn tracefs_is_found_in_the_mount_table() {
        let table = "42 27 0:13 / /sys/kernel/tracing rw,relatime - tracefs nodev rw\n\
                     43 27 7:0 / /mnt rw - ext4 /dev/loop0 rw\n\n";
        assert_eq!(mounted_at(table).collect::<Vec<_>>(), [PathBuf::from("/sys/kernel/tracing")]);
    }
}
