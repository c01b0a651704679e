//! Block devices: the target's, and what it lies on.

use std::path::{Path, PathBuf};

use crate::root::Root;
use host::mountinfo::{self, MountEntry};
use study::environment::Device;

/// A chain of devices longer than this is cut (loop on dm on md on ...).
const DEVICES_MAX: usize = 16;

/// The device `name` first, then everything below it.
pub fn chain(root: &Root, mounts: &[MountEntry], name: &str) -> Vec<Device> {
    let mut waiting = vec![name.to_string()];
    let mut found: Vec<Device> = Vec::new();
    while let Some(name) = waiting.pop() {
        if found.len() >= DEVICES_MAX || found.iter().any(|device| device.name == name) {
            continue;
        }
        let Some(directory) = directory_of(root, &name) else { continue };
        let mut device = describe(root, &name, &directory);
        let slaves = root.names(directory.join("slaves"));
        waiting.extend(slaves.into_iter().rev());
        if let Some(file) = root.text(directory.join("loop/backing_file"))
            && let Some(mount) = mountinfo::containing_path(mounts, Path::new(&file))
        {
            device.backing_fs = Some(mount.fs_type.clone());
            waiting.extend(name_of_mount(root, &mount.source, &mount.device_number));
        }
        found.push(device);
    }
    found
}

/// Kernel name of the whole device behind a mount, e.g. `loop3`; `None` for tmpfs and the like.
pub fn name_of_mount(root: &Root, source: &str, device_number: &str) -> Option<String> {
    // btrfs mounts carry an anonymous device number, so the source goes first; /dev/root and its like name
    // nothing.
    name_of_node(root, Path::new(source)).or_else(|| {
        let directory = root.resolve(format!("/sys/dev/block/{device_number}"))?;
        whole_disk(root, directory)
    })
}

/// Kernel name of the whole device behind a device node such as `/dev/mapper/data` or `/dev/sda1`.
pub fn name_of_node(root: &Root, node: &Path) -> Option<String> {
    let name = node.strip_prefix("/dev").ok()?;
    let real = root.resolve(node).unwrap_or_else(|| Path::new("/dev").join(name));
    let directory = root.resolve(Path::new("/sys/class/block").join(real.file_name()?))?;
    whole_disk(root, directory)
}

fn whole_disk(root: &Root, directory: PathBuf) -> Option<String> {
    let disk =
        if root.path(directory.join("queue")).is_dir() { directory } else { directory.parent()?.into() };
    root.path(disk.join("queue"))
        .is_dir()
        .then(|| disk.file_name().map(|n| n.to_string_lossy().into_owned()))?
}

fn directory_of(root: &Root, name: &str) -> Option<PathBuf> {
    root.resolve(Path::new("/sys/class/block").join(name))
}

fn describe(root: &Root, name: &str, directory: &Path) -> Device {
    let queue = |file: &str| directory.join("queue").join(file);
    Device {
        name: name.to_string(),
        model: root.text(directory.join("device/model")),
        size_bytes: root.number::<u64>(directory.join("size")).and_then(|sectors| sectors.checked_mul(512)),
        scheduler: root.chosen(queue("scheduler")),
        write_cache: root.text(queue("write_cache")),
        fua: root.switch(queue("fua")),
        rotational: root.switch(queue("rotational")),
        queue_requests: root.number(queue("nr_requests")),
        max_request_kib: root.number(queue("max_sectors_kb")),
        read_ahead_kib: root.number(queue("read_ahead_kb")),
        logical_block_bytes: root.number(queue("logical_block_size")),
        physical_block_bytes: root.number(queue("physical_block_size")),
        discard_bytes_max: root.number(queue("discard_max_bytes")),
        wbt_latency_us: root.number(queue("wbt_lat_usec")),
        loop_direct_io: root.switch(directory.join("loop/dio")),
        backing_fs: None,
    }
}
