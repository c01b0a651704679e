//! Loop devices: attach through /dev/loop-control and LOOP_CONFIGURE (Linux 5.8), detach, verify.
//!
//! The ioctl numbers and structures are those of the kernel's `include/uapi/linux/loop.h`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::Host;
use crate::wait::wait_until;

const LOOP_CLR_FD: libc::Ioctl = 0x4C01;
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// `BLKPG` of linux/blkpg.h, and its operation that takes a partition off a disk; the table on the disk stays.
const BLKPG: libc::Ioctl = 0x1269;
const BLKPG_DEL_PARTITION: i32 = 2;
/// How long a detached device may take to become free before that counts as deferred.
const DETACH_PATIENCE: Duration = Duration::from_secs(2);

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl Default for LoopInfo64 {
    fn default() -> LoopInfo64 {
        // SAFETY: integers and arrays of bytes, for all of which zeros are a value.
        unsafe { std::mem::zeroed() }
    }
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

/// `struct blkpg_ioctl_arg`.
#[repr(C)]
struct BlkpgArgument {
    operation: i32,
    flags: i32,
    data_bytes: i32,
    data: *mut BlkpgPartition,
}

/// `struct blkpg_partition`.
#[repr(C)]
struct BlkpgPartition {
    start: i64,
    length: i64,
    number: i32,
    device_name: [u8; 64],
    volume_name: [u8; 64],
}

/// What a loop device shows, by number: a name may be gone, or mean another file here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShownFile {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// That of a device node.
    pub(crate) rdevice: Option<u64>,
}

/// Asks the kernel what `device` shows. The kernel asks the file system of the file, which may be a daemon.
pub(crate) fn shown(host: &Host, device: &Utf8Path) -> io::Result<ShownFile> {
    let opened = File::open(host.path(device))?;
    let mut info = LoopInfo64::default();
    // SAFETY: the descriptor is open, and `info` has the kernel's layout and outlives the call.
    if unsafe { libc::ioctl(opened.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let rdevice = Some(info.rdevice).filter(|number| *number != 0);
    Ok(ShownFile { device: info.device, inode: info.inode, rdevice })
}

/// How to attach a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopOptions {
    /// Pass the host's page cache by, where the file allows it.
    pub direct_io: bool,
    /// Logical sector size in bytes; 0 lets the kernel choose (512).
    pub sector_bytes: u32,
}

/// Opens a device or file for reading and writing.
///
/// # Errors
/// As open(2).
pub fn open_rw(path: &Utf8Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// The number of a free loop device, from `/dev/loop-control`.
///
/// # Errors
/// As the ioctl `LOOP_CTL_GET_FREE`.
pub fn get_free(control: &File) -> io::Result<u32> {
    // SAFETY: the descriptor is open, and this request takes no argument.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

/// Attaches `backing` to `device`.
///
/// # Errors
/// `EBUSY` when the device has a file already.
pub fn configure(device: &File, backing: &File, options: LoopOptions) -> io::Result<()> {
    let flags = if options.direct_io { LO_FLAGS_DIRECT_IO } else { 0 };
    let info = LoopInfo64 { flags, ..LoopInfo64::default() };
    let config = LoopConfig {
        fd: backing.as_raw_fd() as u32,
        block_size: options.sector_bytes,
        info,
        reserved: [0; 8],
    };
    // SAFETY: both descriptors are open, and `config` has the layout of the kernel's struct loop_config,
    // which the kernel only reads during the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The file a loop device shows now, without the mark that the kernel adds once it is unlinked; `None` when
/// the device is free.
pub fn backing_file(host: &Host, device: &Utf8Path) -> Option<Utf8PathBuf> {
    let name = device.file_name()?;
    let text = host.read(format!("/sys/block/{name}/loop/backing_file")).ok()?;
    Some(text.strip_suffix(" (deleted)").unwrap_or(&text).into())
}

/// Whether the device really does direct I/O: the kernel falls back silently when the file cannot.
pub fn direct_io(host: &Host, device: &Utf8Path) -> bool {
    let name = device.file_name().unwrap_or_default();
    host.read(format!("/sys/block/{name}/loop/dio")).is_ok_and(|text| text == "1")
}

/// Takes the partitions off a loop device that is open as `opened`. The kernel does so only for a device that scans for
/// them, which ours do not: what partx(8) or another program added would stay, and be found by the device's next user.
/// A partition in use stays until its user leaves; one that has gone meanwhile is none.
///
/// # Errors
/// The first one but `EBUSY` and `ENXIO`; the other partitions are tried all the same.
pub fn remove_partitions(host: &Host, device: &Utf8Path, opened: &File) -> io::Result<()> {
    let name = device.file_name().unwrap_or_default();
    let entries = std::fs::read_dir(host.path(format!("/sys/block/{name}")))?;
    let numbers = entries.flatten().filter_map(|entry| {
        entry.file_name().to_str()?.strip_prefix(name)?.strip_prefix('p')?.parse::<i32>().ok()
    });
    let mut removed = Ok(());
    for number in numbers {
        let (device_name, volume_name) = ([0; 64], [0; 64]);
        let mut partition = BlkpgPartition { start: 0, length: 0, number, device_name, volume_name };
        let data_bytes = size_of::<BlkpgPartition>() as i32;
        let argument =
            BlkpgArgument { operation: BLKPG_DEL_PARTITION, flags: 0, data_bytes, data: &raw mut partition };
        // SAFETY: the descriptor is open, and both structures have the kernel's layout and outlive the call.
        if unsafe { libc::ioctl(opened.as_raw_fd(), BLKPG, &raw const argument) } != 0 {
            let error = io::Error::last_os_error();
            if !matches!(error.raw_os_error(), Some(libc::EBUSY | libc::ENXIO)) {
                removed = removed.and(Err(error));
            }
        }
    }
    removed
}

/// Detaches an open device from its file, at once or at its last close.
///
/// # Errors
/// ENXIO if it is not attached.
pub fn clear(opened: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open, and this request takes no argument.
    if unsafe { libc::ioctl(opened.as_raw_fd(), LOOP_CLR_FD) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Detaches the device from `file`, its partitions with it. False when it is still in use: the kernel then detaches it at the last
/// close.
pub fn detach(host: &Host, device: &Utf8Path, file: &Utf8Path) -> io::Result<bool> {
    {
        let opened = File::open(host.path(device))?;
        // opened first and asked again, so that the device cannot change hands in between
        if backing_file(host, device).as_deref() != Some(file) {
            return Ok(true);
        }
        remove_partitions(host, device, &opened)?;
        match clear(&opened) {
            // not attached any more
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Ok(true),
            cleared => cleared?,
        }
    }
    Ok(wait_until(DETACH_PATIENCE, || backing_file(host, device).as_deref() != Some(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_size_of_the_kernels() {
        assert_eq!(std::mem::size_of::<LoopInfo64>(), 232);
        assert_eq!(std::mem::size_of::<LoopConfig>(), 304);
        assert_eq!([size_of::<BlkpgArgument>(), size_of::<BlkpgPartition>()], [24, 152]);
    }

    #[test]
    fn an_unlinked_backing_file_is_known_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let host = Host::rooted(root);
        let loop_dir = root.join("sys/block/loop3/loop");
        std::fs::create_dir_all(&loop_dir).unwrap();
        std::fs::write(loop_dir.join("backing_file"), "/a/b (deleted)\n").unwrap();
        assert_eq!(backing_file(&host, "/dev/loop3".into()).unwrap(), "/a/b");
        assert_eq!(backing_file(&host, "/dev/loop4".into()), None);
    }
}
