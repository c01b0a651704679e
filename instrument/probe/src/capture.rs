//! Captures an [`Environment`].

use std::path::Path;

use host::mountinfo;
use study::environment::{Environment, Target};

use crate::root::Root;
use crate::{device, machine, speed, tools};

/// What an environment is captured for. Everything is optional.
#[derive(Debug, Clone, Copy, Default)]
pub struct CaptureSubject<'a> {
    /// A directory on the target.
    pub path: Option<&'a Path>,
    /// The target's block device node, when the mount does not tell it.
    pub device: Option<&'a Path>,
    /// The mkfs command line that made the file system.
    pub mkfs: Option<&'a str>,
    /// Memory limit of the load in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Programs whose versions matter, e.g. `mkfs.ext4`.
    pub programs: &'a [&'a str],
}

/// Captures the machine and the subject as they are now.
pub fn capture(subject: &CaptureSubject<'_>) -> Environment {
    let mut environment = capture_below(&Root::default(), subject);
    environment.tools = tools::versions(subject.programs);
    environment.load.copied_bytes_per_second =
        Some(speed::copied_bytes_per_second()).filter(|rate| *rate > 0);
    if let (Some(target), Some(path)) = (&mut environment.target, subject.path)
        && let Ok(space) = rustix::fs::statvfs(path)
    {
        target.size_bytes = space.f_blocks.checked_mul(space.f_frsize);
        target.free_bytes = space.f_bavail.checked_mul(space.f_frsize);
    }
    environment
}

/// Captures what the files below `root` tell: all but program versions and free space.
pub fn capture_below(root: &Root, subject: &CaptureSubject<'_>) -> Environment {
    let mounts = mountinfo::parse(&root.text("/proc/self/mountinfo").unwrap_or_default());
    let path = subject.path.map(|path| root.resolve(path).unwrap_or_else(|| path.to_path_buf()));
    let mount = path.as_deref().and_then(|path| mountinfo::containing_path(&mounts, path));
    let device = subject
        .device
        .and_then(|node| device::name_of_node(root, node))
        .or_else(|| mount.and_then(|m| device::name_of_mount(root, &m.source, &m.device_number)));
    Environment {
        loadline: env!("CARGO_PKG_VERSION").to_string(),
        kernel: machine::kernel(root),
        cpu: machine::cpu(root),
        memory: machine::memory(root, subject.memory_limit_bytes),
        target: mount.map(|mount| Target {
            fs_type: Some(mount.fs_type.clone()),
            source: Some(mount.source.clone()),
            mount_options: sorted(&mount.options),
            mkfs: subject.mkfs.map(str::to_string),
            size_bytes: None,
            free_bytes: None,
        }),
        devices: device.map(|name| device::chain(root, &mounts, &name)).unwrap_or_default(),
        load: machine::load(root),
        tools: Vec::new(),
        guest: None,
    }
}

/// Options of the mount and of the file system, sorted, each once.
fn sorted(options: &str) -> Vec<String> {
    let mut words: Vec<String> =
        options.split(',').filter(|option| !option.is_empty()).map(str::to_owned).collect();
    words.sort();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_sorted_and_unique() {
        assert_eq!(sorted("rw,noatime,rw,noatime,data=journal,"), ["data=journal", "noatime", "rw"]);
    }
}
