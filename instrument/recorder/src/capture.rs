//! System calls of chosen threads, and of all that they make, as the kernel ends them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use host::Unavailable;
use recording::raw::{self, RawCall, RawEvent};
use trace::EventFormat;

use crate::RecorderError;
use crate::kernel::{self, MapKind, ProgramKind};
use crate::program::{self, FaultFields, Maps, kind, record, spec, state};
use crate::ring::Ring;

/// Threads that are recorded at a time at most.
const THREADS_MAX: u32 = 1 << 16;
/// Bytes of the ring buffer: at 100 bytes a call it holds the calls of half a second at a million calls a second.
const RING_BYTES: u32 = 64 << 20;
/// `CLONE_THREAD` of clone(2): the new thread belongs to the maker's process.
const CLONE_THREAD: u64 = 0x1_0000;
/// Bits of a device's minor number within the kernel (`MINORBITS`).
const MINOR_BITS: u32 = 20;

/// Programs in the kernel that record; they are gone when this value is dropped, or the process ends.
#[derive(Debug)]
pub struct Capture {
    threads: OwnedFd,
    lost: OwnedFd,
    ring: Ring,
    /// Maps and attachments live as long as their descriptors.
    _kept: Vec<OwnedFd>,
    /// Whether page faults on mapped files are seen: the kernel has the tracepoint since Linux 6.13.
    pub sees_faults: bool,
    told_lost: u64,
}

impl Capture {
    /// Loads and attaches the programs. Nothing is recorded before [`Capture::add`].
    ///
    /// # Errors
    /// [`RecorderError::Unavailable`] where the kernel or the user's rights do not allow it.
    pub fn new() -> Result<Self, RecorderError> {
        let made = |what: &'static str| move |error: io::Error| refused(what, error);
        let map = |kind, key, value, entries| {
            kernel::create_map(kind, key, value, entries).map_err(made("a map of BPF"))
        };
        let threads = map(MapKind::Hash, 4, state::BYTES, THREADS_MAX)?;
        let calls = map(MapKind::Array, 4, 4, program::NUMBERS_MAX)?;
        let scratch = map(MapKind::PerCpuArray, 4, program::SCRATCH_BYTES, 1)?;
        let lost = map(MapKind::Array, 4, 8, 2)?;
        let ring_map = map(MapKind::Ring, 0, 0, RING_BYTES)?;
        set_calls(&calls).map_err(made("the map of system calls"))?;
        let maps = Maps {
            threads: threads.as_raw_fd(),
            calls: calls.as_raw_fd(),
            scratch: scratch.as_raw_fd(),
            ring: ring_map.as_raw_fd(),
            lost: lost.as_raw_fd(),
        };
        let (mut kept, sees_faults) = attach_all(maps)?;
        let ring = Ring::new(&ring_map, RING_BYTES).map_err(made("the ring buffer"))?;
        kept.extend([calls, scratch, ring_map]);
        Ok(Capture { threads, lost, ring, _kept: kept, sees_faults, told_lost: 0 })
    }

    /// Records a thread from its next system call on, and every thread that it makes.
    ///
    /// # Errors
    /// What the kernel says: too many threads.
    pub fn add(&self, tid: u32) -> io::Result<()> {
        kernel::update(&self.threads, tid, &[0; state::BYTES as usize])
    }

    /// Hands over what has happened since the last time.
    ///
    /// # Errors
    /// What reading the number of lost records says.
    pub fn drain(&mut self, mut each: impl FnMut(RawEvent)) -> io::Result<()> {
        self.ring.drain(|bytes| {
            if let Some(event) = decode(bytes) {
                each(event);
            }
        });
        let lost = self.lost()?;
        if lost > self.told_lost {
            each(RawEvent::Lost(lost - self.told_lost));
            self.told_lost = lost;
        }
        Ok(())
    }

    /// Records that did not fit into the ring buffer so far.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn lost(&self) -> io::Result<u64> {
        kernel::number(&self.lost, program::LOST_KEY as u32)
    }

    /// Calls of 32-bit programs so far, which are not recorded.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn compat(&self) -> io::Result<u64> {
        kernel::number(&self.lost, program::COMPAT_KEY as u32)
    }

    /// Share of the ring buffer that waits to be read, 0 to 1.
    pub fn fill(&self) -> f64 {
        self.ring.waiting_bytes() as f64 / f64::from(RING_BYTES)
    }
}

/// What the kernel refused, as a reason with a remedy where one is known.
fn refused(what: &'static str, source: io::Error) -> RecorderError {
    match source.raw_os_error() {
        Some(libc::EPERM) => RecorderError::Unavailable(Unavailable::new(
            "system calls cannot be recorded: BPF programs need root",
            "run it as root (`sudo loadline record ...`); in a container: on the host",
        )),
        Some(libc::ENOSYS) => RecorderError::Unavailable(Unavailable::new(
            "system calls cannot be recorded: this kernel has no BPF (CONFIG_BPF_SYSCALL)",
            "use a kernel of a distribution",
        )),
        _ => RecorderError::Kernel { what, source },
    }
}

/// Says which system calls are recorded, and which make threads.
fn set_calls(calls: &OwnedFd) -> io::Result<()> {
    let set = |number: u32, spec: u32| match number < program::NUMBERS_MAX {
        true => kernel::update(calls, number, &spec.to_ne_bytes()),
        false => Ok(()),
    };
    for (number, paths) in raw::recorded_calls() {
        let path = |at: usize| paths.get(at).map_or(0, |argument| u32::from(*argument) + 1);
        let pair = raw::pair_argument(number).map_or(0, |argument| u32::from(argument) + 1);
        let pointers =
            path(0) << spec::FIRST_SHIFT | path(1) << spec::SECOND_SHIFT | pair << spec::PAIR_SHIFT;
        set(number, spec::RECORDED | pointers)?;
    }
    set(libc::SYS_clone as u32, spec::CLONE)?;
    // fork and vfork have no flags, as a thread has at the begin of every call
    set(libc::SYS_clone3 as u32, spec::CLONE3)
}

/// Attaches all programs; whether page faults are among what they see.
fn attach_all(maps: Maps) -> Result<(Vec<OwnedFd>, bool), RecorderError> {
    let mut kept = Vec::new();
    let mut formats = trace::Instance::create()?;
    let mut format = |system: &str, name: &str| -> Result<Option<EventFormat>, RecorderError> {
        let known = formats.know(system, name)?;
        Ok(formats.formats().last().filter(|_| known).map(|format| EventFormat::clone(format)))
    };
    let fork = format("sched", "sched_process_fork")?
        .ok_or_else(|| RecorderError::Trace(trace::TraceError::NoEvent("sched/sched_process_fork".into())))?;
    let child = place(&fork, "child_pid")?;
    let load = |what, kind, code: &[[u8; 8]]| kernel::load(kind, code).map_err(|error| refused(what, error));
    let program = load("the program for forks", ProgramKind::Tracepoint, &program::fork(maps, child))?;
    kept.push(kernel::attach(fork.id, &program).map_err(|error| refused("the tracepoint of forks", error))?);
    let fault = format("filemap", "mm_filemap_fault")?;
    if let Some(fault) = &fault {
        let fields = FaultFields {
            inode: place(fault, "i_ino")?,
            device: place(fault, "s_dev")?,
            page: place(fault, "index")?,
        };
        let code = program::fault(maps, fields);
        let program = load("the program for page faults", ProgramKind::Tracepoint, &code)?;
        let attached = kernel::attach(fault.id, &program);
        kept.push(attached.map_err(|error| refused("the tracepoint of page faults", error))?);
    }
    // ends of calls are seen before begins are: a call that was begun before is no call without a begin
    for (name, code) in [
        ("sched_process_exec", program::exec(maps)),
        ("sched_process_exit", program::end(maps)),
        ("sys_exit", program::exit(maps)),
        ("sys_enter", program::enter(maps)),
    ] {
        let program = load("a program for system calls", ProgramKind::RawTracepoint, &code)?;
        let attached = kernel::attach_raw(name, &program);
        kept.push(attached.map_err(|error| refused("a tracepoint of system calls", error))?);
    }
    Ok((kept, fault.is_some()))
}

/// Where a field stands in the record of a tracepoint.
fn place(format: &EventFormat, name: &str) -> Result<i16, RecorderError> {
    let field = format.field(name).and_then(|field| i16::try_from(field.offset).ok());
    field.ok_or_else(|| {
        let what = format!("no field `{name}`");
        RecorderError::Trace(trace::TraceError::Format { event: format.name.clone(), what })
    })
}

/// What a record of the ring buffer tells; `None` of one that makes no sense.
fn decode(bytes: &[u8]) -> Option<RawEvent> {
    let word = |at: i16| bytes.get(at as usize..)?.first_chunk().map(|four| u32::from_le_bytes(*four));
    let double = |at: i16| bytes.get(at as usize..)?.first_chunk().map(|eight| u64::from_le_bytes(*eight));
    let (tid, pid) = (word(record::THREAD)?, word(record::THREAD + 4)?);
    let (number, begin_ns) = (word(record::NUMBER)?, double(record::BEGIN)?);
    let argument = |at: i16| double(record::ARGUMENTS + 8 * at);
    Some(match word(record::KIND)? {
        kind::CALL => {
            let (first, second) = (word(record::FIRST)? as usize, word(record::SECOND)? as usize);
            let paths = bytes.get(record::BYTES as usize..)?;
            let mut arguments = [0; 6];
            for (at, value) in arguments.iter_mut().enumerate() {
                *value = argument(at as i16)?;
            }
            RawEvent::Call(RawCall {
                pid,
                tid,
                number,
                begin_ns,
                end_ns: double(record::END)?,
                arguments,
                result: double(record::RESULT)? as i64,
                paths: [path(paths.get(..first)?), path(paths.get(first..first + second)?)],
            })
        }
        kind::FORK => {
            let thread = argument(0)? & CLONE_THREAD != 0;
            let child = if thread { pid } else { number };
            RawEvent::Fork { parent_pid: pid, tid: number, pid: child, at_ns: begin_ns }
        }
        kind::EXEC => {
            let name = bytes.get(record::ARGUMENTS as usize..record::RESULT as usize)?;
            let name = path(name.get(..16)?).unwrap_or_default();
            RawEvent::Exec { pid, name: String::from_utf8_lossy(&name).into_owned(), at_ns: begin_ns }
        }
        kind::EXIT => RawEvent::Exit { pid, tid, at_ns: begin_ns },
        kind::FAULT => {
            let device = argument(0)?;
            let (major, minor) = (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
            RawEvent::Fault {
                pid,
                tid,
                at_ns: begin_ns,
                device: libc::makedev(major as u32, minor as u32),
                inode: argument(1)?,
                offset: argument(2)?.checked_mul(rustix::param::page_size() as u64)?,
            }
        }
        _ => return None,
    })
}

/// A path up to its zero; `None` when nothing was read.
fn path(bytes: &[u8]) -> Option<Vec<u8>> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.get(..end).filter(|_| !bytes.is_empty()).map(<[u8]>::to_vec)
}
