//! Block devices that a process serves (ublk, Linux 6.0): made, started and taken away through /dev/ublk-control.
//!
//! Commands and structures are those of the kernel's `include/uapi/linux/ublk_cmd.h`; the numbers are those that it makes
//! with `_IOR` and `_IOWR` (Linux 6.4).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use io_uring::squeue::Entry128;
use io_uring::{IoUring, opcode, types};

use crate::Host;

/// Where devices are made.
pub const CONTROL: &str = "/dev/ublk-control";
/// What a kernel needs to have it.
pub const NEEDS: &str = "Linux 6.4 with CONFIG_BLK_DEV_UBLK and the module ublk_drv";
/// Most requests of a queue at a time.
pub const DEPTH_MAX: u16 = 4096;
/// Bytes of what tells a server of one request (`struct ublksrv_io_desc`).
pub const DESCRIPTOR_BYTES: usize = 24;
/// How long a command may take; starting a device reads its partition table through its server.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the kernel may take to let go of a device: as long as its server's threads take to end.
const DELETE_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of `struct ublksrv_ctrl_cmd`.
const COMMAND_BYTES: u32 = 32;
/// No queue: the command is the device's.
const NO_QUEUE: u16 = u16::MAX;
/// The only one that the kernel numbers with `_IOR`.
const GET_DEV_INFO: u32 = read_write(0x02, COMMAND_BYTES) & !(1 << 30);
const ADD_DEV: u32 = read_write(0x04, COMMAND_BYTES);
const DEL_DEV: u32 = read_write(0x05, COMMAND_BYTES);
const START_DEV: u32 = read_write(0x06, COMMAND_BYTES);
const STOP_DEV: u32 = read_write(0x07, COMMAND_BYTES);
const SET_PARAMS: u32 = read_write(0x08, COMMAND_BYTES);
const TYPE_BASIC: u32 = 1;
const TYPE_DISCARD: u32 = 2;
/// A device that spins.
const ROTATIONAL: u32 = 1 << 1;
/// It has a cache that loses its contents, and takes flushes and writes past it.
const VOLATILE_CACHE: u32 = 1 << 2;
const FUA: u32 = 1 << 3;
/// Bytes of a sector in parameters and descriptors, whatever the device's own are.
pub const SECTOR: u64 = 512;

/// `_IOWR('u', number, ...)`: a command of ublk with an argument of so many bytes.
pub const fn read_write(number: u32, bytes: u32) -> u32 {
    3 << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

/// `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct DeviceInfo {
    queues: u16,
    depth: u16,
    state: u16,
    pad0: u16,
    request_bytes_max: u32,
    number: u32,
    server: i32,
    pad1: u32,
    flags: u64,
    /// Of the server's own use.
    tag: u64,
    owner: [u32; 2],
    reserved: [u64; 2],
}

/// `struct ublk_params`, as far as it is used.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Parameters {
    len: u32,
    types: u32,
    attributes: u32,
    logical_shift: u8,
    physical_shift: u8,
    io_opt_shift: u8,
    io_min_shift: u8,
    sectors_max: u32,
    chunk_sectors: u32,
    sectors: u64,
    virt_boundary_mask: u64,
    discard_alignment: u32,
    discard_granularity: u32,
    discard_sectors_max: u32,
    zero_sectors_max: u32,
    discard_segments_max: u16,
    reserved: u16,
}

/// Bytes of [`Parameters`] that the kernel is told of: those behind are padding.
const PARAMETER_BYTES: u16 = 60;

/// A device to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Hardware queues; the kernel makes no more than there are CPUs.
    pub queues: u16,
    /// Requests of a queue at a time.
    pub depth: u16,
    /// Bytes of a request at most, a multiple of the page.
    pub request_bytes_max: u32,
    /// By what the device is known again.
    pub tag: u64,
}

/// What its users are told of a device. It has a volatile cache, and knows flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceGeometry {
    /// Capacity in bytes.
    pub bytes: u64,
    /// Bytes of a block, as a power of two.
    pub block_shift: u8,
    /// Bytes of a request at most.
    pub request_bytes_max: u32,
    /// Bytes of a discard at most.
    pub discard_bytes_max: u32,
    /// It spins.
    pub rotating: bool,
    /// It knows FUA; otherwise the kernel sends a flush after such a write.
    pub fua: bool,
}

/// The kernel's door to its devices.
#[derive(Debug)]
pub struct Control {
    file: File,
}

/// Path of a device's door for its server.
pub fn server_path(number: u32) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("/dev/ublkc{number}"))
}

/// Path of the block device.
pub fn device_path(number: u32) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("/dev/ublkb{number}"))
}

impl Control {
    /// Opens [`CONTROL`].
    ///
    /// # Errors
    /// The kernel has no ublk, or the module `ublk_drv` is not loaded; not root.
    pub fn open(host: &Host) -> io::Result<Control> {
        let path = host.path(Utf8Path::new(CONTROL));
        File::options().read(true).write(true).open(path).map(|file| Control { file })
    }

    /// Makes the device of this number, which has no server yet; how many queues it has.
    ///
    /// # Errors
    /// `EEXIST` when the number is taken.
    pub fn add(&self, number: u32, wanted: DeviceSpec) -> io::Result<u16> {
        let DeviceSpec { queues, depth, request_bytes_max, tag } = wanted;
        let mut info = DeviceInfo { queues, depth, request_bytes_max, number, tag, ..Default::default() };
        self.command(ADD_DEV, number, info_bytes(&mut info), 0, PATIENCE)?;
        Ok(info.queues)
    }

    /// The tag of a device, if there is such a device.
    ///
    /// # Errors
    /// As the kernel's, but for a device that is not there.
    pub fn tag(&self, number: u32) -> io::Result<Option<u64>> {
        let mut info = DeviceInfo::default();
        match self.command(GET_DEV_INFO, number, info_bytes(&mut info), 0, PATIENCE) {
            Ok(()) => Ok(Some(info.tag)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says what the device is.
    ///
    /// # Errors
    /// What the kernel does not take.
    pub fn set(&self, number: u32, shape: DeviceGeometry) -> io::Result<()> {
        let sectors = |bytes: u32| bytes / SECTOR as u32;
        let mut parameters = Parameters {
            len: PARAMETER_BYTES.into(),
            types: TYPE_BASIC | TYPE_DISCARD,
            attributes: VOLATILE_CACHE
                | if shape.fua { FUA } else { 0 }
                | if shape.rotating { ROTATIONAL } else { 0 },
            logical_shift: shape.block_shift,
            physical_shift: shape.block_shift,
            io_opt_shift: shape.block_shift,
            io_min_shift: shape.block_shift,
            sectors_max: sectors(shape.request_bytes_max),
            sectors: shape.bytes / SECTOR,
            discard_granularity: 1 << shape.block_shift,
            discard_sectors_max: sectors(shape.discard_bytes_max),
            zero_sectors_max: sectors(shape.discard_bytes_max),
            discard_segments_max: 1,
            ..Default::default()
        };
        // SAFETY: a plain structure without padding before its last field, which these bytes end with.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut((&raw mut parameters).cast::<u8>(), PARAMETER_BYTES.into())
        };
        self.command(SET_PARAMS, number, bytes, 0, PATIENCE)
    }

    /// Shows the block device, which is served by this process. Every queue must be served already.
    ///
    /// # Errors
    /// `ETIME` when a queue is not.
    pub fn start(&self, number: u32) -> io::Result<()> {
        let server = u64::from(std::process::id());
        self.command(START_DEV, number, &mut [], server, PATIENCE)
    }

    /// Takes a device away, its block device first; false if there is none. Its server, if it lives, ends by that.
    ///
    /// # Errors
    /// `ETIME` when somebody keeps the server's door open.
    pub fn delete(&self, number: u32) -> io::Result<bool> {
        let done = |command, patience| self.command(command, number, &mut [], 0, patience);
        match done(STOP_DEV, PATIENCE).and_then(|()| done(DEL_DEV, DELETE_PATIENCE)) {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn command(
        &self,
        command: u32,
        number: u32,
        memory: &mut [u8],
        data: u64,
        patience: Duration,
    ) -> io::Result<()> {
        // struct ublksrv_ctrl_cmd
        let mut words = [0; 80];
        words[..4].copy_from_slice(&number.to_ne_bytes());
        words[4..6].copy_from_slice(&NO_QUEUE.to_ne_bytes());
        let mut kept = memory.to_vec();
        let address = if kept.is_empty() { 0 } else { kept.as_mut_ptr() as u64 };
        words[6..8].copy_from_slice(&(kept.len() as u16).to_ne_bytes());
        words[8..16].copy_from_slice(&address.to_ne_bytes());
        words[16..24].copy_from_slice(&data.to_ne_bytes());
        let mut ring: IoUring<Entry128> = IoUring::builder().build(2)?;
        let entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), command).cmd(words).build();
        // SAFETY: `kept` lives until the command has completed; if that is not seen, for ever.
        unsafe { ring.submission().push(&entry) }.map_err(|_| io::Error::from_raw_os_error(libc::EBUSY))?;
        let limit = types::Timespec::new().sec(patience.as_secs()).nsec(patience.subsec_nanos());
        let arguments = types::SubmitArgs::new().timespec(&limit);
        loop {
            let entered = ring.submitter().submit_with_args(1, &arguments);
            if let Some(done) = ring.completion().next() {
                return match done.result() {
                    0.. => {
                        memory.copy_from_slice(&kept);
                        Ok(())
                    }
                    error => Err(io::Error::from_raw_os_error(-error)),
                };
            }
            match entered {
                Err(error) if error.raw_os_error() != Some(libc::EINTR) => {
                    std::mem::forget(kept);
                    return Err(error);
                }
                _ => {}
            }
        }
    }
}

fn info_bytes(info: &mut DeviceInfo) -> &mut [u8] {
    // SAFETY: a plain structure of numbers without padding.
    unsafe { std::slice::from_raw_parts_mut((&raw mut *info).cast::<u8>(), size_of::<DeviceInfo>()) }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_and_numbers_are_the_kernels() {
        assert_eq!(size_of::<DeviceInfo>(), 64);
        assert_eq!(std::mem::offset_of!(DeviceInfo, tag), 32);
        assert_eq!(std::mem::offset_of!(Parameters, discard_alignment), 40);
        assert_eq!(std::mem::offset_of!(Parameters, reserved) + 2, usize::from(PARAMETER_BYTES));
        assert_eq!((GET_DEV_INFO, ADD_DEV), (0x8020_7502, 0xc020_7504));
    }

    #[test]
    fn a_kernel_without_it_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::rooted(Utf8Path::from_path(dir.path()).unwrap());
        assert_eq!(Control::open(&host).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
