//! Linux's asynchronous I/O (libaio's) by its system calls: `io_setup`, `io_submit`, `io_getevents`.

use std::io;
use std::os::fd::RawFd;

/// `IOCB_CMD_PREAD`, `IOCB_CMD_PWRITE`.
const COMMANDS: [u16; 2] = [0, 1];

/// The kernel's `struct iocb`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct ControlBlock {
    data: u64,
    key: u32,
    flags: i32,
    command: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    event_flags: u32,
    event_file: u32,
}

/// The kernel's `struct io_event`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Completion {
    data: u64,
    block: u64,
    result: i64,
    result2: i64,
}

/// A context with room for some transfers.
#[derive(Debug)]
pub(super) struct Aio {
    context: libc::c_ulong,
    blocks: Vec<ControlBlock>,
    /// Blocks that the kernel does not have yet.
    queued: Vec<*mut ControlBlock>,
    events: Vec<Completion>,
}

impl Aio {
    /// A context for `depth` transfers.
    pub(super) fn new(depth: u32) -> io::Result<Aio> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one word, which is there.
        checked(unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) }).map_err(|error| {
            let hint = "io_setup failed: see /proc/sys/fs/aio-max-nr";
            io::Error::new(error.kind(), format!("{hint} ({error})"))
        })?;
        Ok(Aio {
            context,
            blocks: vec![ControlBlock::default(); depth as usize],
            queued: Vec::with_capacity(depth as usize),
            events: vec![Completion::default(); depth as usize],
        })
    }

    /// Queues a read (0) or write (1) of some bytes at `buffer`, with flags (`RWF_`), for place `place`, which has none in flight.
    ///
    /// # Safety
    /// The buffer stays, and nobody else touches it, until the completion of the place was reaped.
    pub(super) unsafe fn begin(
        &mut self,
        place: usize,
        way: usize,
        file: RawFd,
        (buffer, bytes): (*mut u8, usize),
        offset: u64,
        flags: i32,
    ) {
        self.blocks[place] = ControlBlock {
            data: place as u64,
            flags,
            command: COMMANDS[way],
            file: file as u32,
            buffer: buffer as u64,
            bytes: bytes as u64,
            offset: offset as i64,
            ..ControlBlock::default()
        };
        self.queued.push(&raw mut self.blocks[place]);
    }

    /// Transfers queued that the kernel does not have.
    pub(super) fn queued(&self) -> usize {
        self.queued.len()
    }

    /// Hands over what is queued. The kernel may take a part of it; it is asked again.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        while !self.queued.is_empty() {
            let count = self.queued.len() as libc::c_long;
            // SAFETY: the pointers are to blocks of this context, whose memory does not move.
            let taken = checked(unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, count, self.queued.as_mut_ptr())
            });
            match taken {
                Ok(taken) => drop(self.queued.drain(..(taken as usize).min(self.queued.len()))),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for `at_least` completions, at the longest for `nanoseconds`; (place, bytes or error) of each.
    pub(super) fn wait(
        &mut self,
        at_least: usize,
        nanoseconds: Option<u64>,
        done: &mut Vec<(usize, io::Result<usize>)>,
    ) -> io::Result<()> {
        let time = nanoseconds.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let room = self.events.len();
        // SAFETY: the kernel writes at most `room` events, for which there is room, and reads a time that lives.
        let reaped = checked(unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                at_least,
                room,
                self.events.as_mut_ptr(),
                time,
            )
        });
        let reaped = match reaped {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => 0,
            reaped => reaped? as usize,
        };
        done.extend(self.events[..reaped].iter().map(|event| {
            let result =
                usize::try_from(event.result).map_err(|_| io::Error::from_raw_os_error(-event.result as i32));
            (event.data as usize, result)
        }));
        Ok(())
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // waits for what is in flight
        // SAFETY: the context is this one's, and is not used again.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
