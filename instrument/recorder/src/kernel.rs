//! The system calls `bpf` and `perf_event_open`: maps, programs, what they are attached to. Layouts and numbers are those of the
//! kernel's include/uapi/linux/bpf.h and perf_event.h.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: usize = 0;
const MAP_LOOKUP: usize = 1;
const MAP_UPDATE: usize = 2;
const PROGRAM_LOAD: usize = 5;
const RAW_TRACEPOINT_OPEN: usize = 17;

const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_FLAG_FD_CLOEXEC: usize = 8;
const PERF_EVENT_IOC_ENABLE: libc::c_ulong = 0x2400;
const PERF_EVENT_IOC_SET_BPF: libc::c_ulong = 0x4004_2408;

/// Bytes of the verifier's words that are kept for an error.
const LOG_BYTES: usize = 1 << 18;

/// Kinds of maps: `enum bpf_map_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// Keys of any kind.
    Hash = 1,
    /// Keys from 0.
    Array = 2,
    /// An array for each CPU.
    PerCpuArray = 6,
    /// A ring buffer.
    Ring = 27,
}

/// Kinds of programs: `enum bpf_prog_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// Sees the record of a tracepoint.
    Tracepoint = 5,
    /// Sees the arguments of a tracepoint.
    RawTracepoint = 17,
}

#[repr(C)]
#[derive(Default)]
struct MapAttributes {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct ElementAttributes {
    map: u32,
    zero: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramAttributes {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
}

#[repr(C)]
struct RawTracepointAttributes {
    name: u64,
    program: u32,
    zero: u32,
}

#[repr(C)]
#[derive(Default)]
struct PerfAttributes {
    kind: u32,
    size: u32,
    config: u64,
    rest: [u64; 6],
}

fn bpf<T>(command: usize, attributes: &mut T) -> io::Result<i32> {
    let at = std::ptr::from_mut(attributes);
    // SAFETY: the attributes live through the call, and their size is told; pointers in them are valid by the callers' borrows.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, at, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// A descriptor that a call has returned.
fn owned(descriptor: i32) -> OwnedFd {
    // SAFETY: the kernel has just made it for us.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Makes a map. Of a ring, `entries` is its size in bytes, a power of two of pages.
///
/// # Errors
/// What the kernel says.
pub fn create_map(kind: MapKind, key_bytes: u32, value_bytes: u32, entries: u32) -> io::Result<OwnedFd> {
    let mut attributes = MapAttributes { kind: kind as u32, key_bytes, value_bytes, entries, flags: 0 };
    bpf(MAP_CREATE, &mut attributes).map(owned)
}

/// Sets the value of a key; lengths are those of the map.
///
/// # Errors
/// What the kernel says: no room (E2BIG).
pub fn update(map: &OwnedFd, key: u32, value: &[u8]) -> io::Result<()> {
    let (key, value) = (std::ptr::from_ref(&key) as u64, value.as_ptr() as u64);
    let mut attributes = ElementAttributes { map: map.as_raw_fd() as u32, zero: 0, key, value, flags: 0 };
    bpf(MAP_UPDATE, &mut attributes).map(drop)
}

/// A value of 64 bits.
///
/// # Errors
/// What the kernel says: no such key (ENOENT).
pub fn number(map: &OwnedFd, key: u32) -> io::Result<u64> {
    let mut number = 0_u64;
    let (key, value) = (std::ptr::from_ref(&key) as u64, std::ptr::from_mut(&mut number) as u64);
    let mut attributes = ElementAttributes { map: map.as_raw_fd() as u32, zero: 0, key, value, flags: 0 };
    bpf(MAP_LOOKUP, &mut attributes)?;
    Ok(number)
}

/// Loads a program.
///
/// # Errors
/// What the kernel says; with the verifier's last words when it refuses the program.
pub fn load(kind: ProgramKind, code: &[[u8; 8]]) -> io::Result<OwnedFd> {
    let once = |log: &mut [u8]| {
        let mut attributes = ProgramAttributes {
            kind: kind as u32,
            instructions: code.len() as u32,
            code: code.as_ptr() as u64,
            // the functions that read memory are for programs under the GPL, too
            license: c"Dual MIT/GPL".as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_bytes: log.len() as u32,
            log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        };
        bpf(PROGRAM_LOAD, &mut attributes)
    };
    let first = match once(&mut []) {
        Ok(program) => return Ok(owned(program)),
        Err(error) => error,
    };
    if !matches!(first.raw_os_error(), Some(libc::EACCES | libc::EINVAL)) {
        return Err(first);
    }
    let mut log = vec![0; LOG_BYTES];
    match once(&mut log) {
        Ok(program) => Ok(owned(program)),
        Err(error) => {
            let text = String::from_utf8_lossy(&log);
            let words: Vec<&str> = text.trim_end_matches('\0').lines().rev().take(4).collect();
            Err(io::Error::new(error.kind(), format!("{error}: {}", words.join(" / "))))
        }
    }
}

/// Runs a program at a raw tracepoint until the descriptor is closed.
///
/// # Errors
/// What the kernel says: no such tracepoint (ENOENT).
pub fn attach_raw(name: &str, program: &OwnedFd) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    let mut attributes =
        RawTracepointAttributes { name: name.as_ptr() as u64, program: program.as_raw_fd() as u32, zero: 0 };
    bpf(RAW_TRACEPOINT_OPEN, &mut attributes).map(owned)
}

/// Runs a program at a tracepoint, by the number in its `format` file, until the descriptor is closed. It runs on all CPUs,
/// whatever the one that the event is opened on.
///
/// # Errors
/// What the kernel says.
pub fn attach(event: u16, program: &OwnedFd) -> io::Result<OwnedFd> {
    let size = size_of::<PerfAttributes>() as u32;
    let attributes =
        PerfAttributes { kind: PERF_TYPE_TRACEPOINT, size, config: u64::from(event), rest: [0; 6] };
    let (anyone, first_cpu, no_group) = (-1_isize, 0_usize, -1_isize);
    // SAFETY: the attributes live through the call.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            anyone,
            first_cpu,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    let event = owned(opened as i32);
    for (request, argument) in [(PERF_EVENT_IOC_SET_BPF, program.as_raw_fd()), (PERF_EVENT_IOC_ENABLE, 0)] {
        // SAFETY: these requests take a number.
        if unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(event)
}
