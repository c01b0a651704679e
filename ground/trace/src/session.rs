//! Runs a closure under tracing.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::at;
use crate::event::{CpuPages, Decoded, decode};
use crate::page::{self, PageLayout};
use crate::{Event, Instance, Selection, TraceError};

/// How often the reader looks whether the work has ended, when no buffer is half full before.
const POLL_NS: i64 = 20_000_000;

/// How to trace.
#[derive(Debug, Clone)]
pub struct Options {
    /// The events.
    pub events: Vec<Selection>,
    /// Size of each CPU's buffer. Half of it must take what comes in the time the reader needs to wake.
    pub buffer_kib_per_cpu: u32,
    /// Pages beyond this many bytes are not kept; their events count as lost.
    pub bytes_max: u64,
    /// End the recording instead when `bytes_max` is reached: what happens later is not recorded, and not lost.
    pub end_when_full: bool,
}

impl Options {
    /// The events with buffers of 4 MiB per CPU and at most 1 GiB in all.
    pub fn new(events: Vec<Selection>) -> Self {
        Options { events, buffer_kib_per_cpu: 4096, bytes_max: 1 << 30, end_when_full: false }
    }
}

/// What was recorded.
#[derive(Debug, Clone, Default)]
pub struct Capture {
    /// All events in order of time.
    pub events: Vec<Event>,
    /// Events that were recorded by nobody: overwritten before they were read, or dropped.
    pub lost: u64,
    /// Optional events this kernel does not have, as `system/name`.
    pub missing: Vec<String>,
    /// When the recording ended, if it did before the work ([`Options::end_when_full`]), by the trace clock.
    pub full_at_ns: Option<u64>,
}

/// Runs `work` while the events are recorded; its result comes with the capture.
///
/// # Errors
/// When tracing is not available, an event is missing or a filter is refused: `work` has not run then. Errors
/// of reading the buffers come after it has run.
pub fn capture<T>(options: &Options, work: impl FnOnce() -> T) -> Result<(Capture, T), TraceError> {
    let mut instance = Instance::create()?;
    instance.set_buffer_kib_per_cpu(options.buffer_kib_per_cpu)?;
    instance.wake_readers_at_percent(50);
    let mut missing = Vec::new();
    for selection in &options.events {
        if !instance.enable(selection)? {
            missing.push(format!("{}/{}", selection.system, selection.name));
        }
    }
    let layout = instance.page_layout()?;
    let mut reader = Reader::open(&instance, layout, options)?;
    let ended = AtomicBool::new(false);
    let (outcome, read) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| reader.follow(&ended));
        let outcome = {
            // Also when `work` panics the reader must end, or the scope would wait for ever.
            let _ending = SetOnDrop(&ended);
            instance.record(true).map(|()| (work(), instance.record(false)))
        };
        (outcome, reading.join())
    });
    let (value, stopped) = outcome?;
    stopped?;
    let read = read.map_err(|_| std::io::Error::other("the reader of the trace buffers panicked"));
    read.and_then(|read| read).map_err(at(&PathBuf::from("trace_pipe_raw")))?;
    let Decoded { mut events, missed, unknown, damaged_pages } =
        decode(&layout, instance.formats(), &reader.cpus);
    // A page tells of the same losses as the statistics of its buffer; each may know of some the other does
    // not.
    let lost = missed.max(instance.overrun()) + unknown + damaged_pages + reader.left_out;
    let full_at_ns = reader.full_at_ns;
    if let Some(full_at_ns) = full_at_ns {
        events.retain(|event| event.at_ns < full_at_ns);
    }
    Ok((Capture { events, lost, missing, full_at_ns }, value))
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Takes whole pages out of the buffers and keeps them as they are.
struct Reader<'a> {
    instance: &'a Instance,
    files: Vec<File>,
    cpus: Vec<CpuPages>,
    layout: PageLayout,
    page: Vec<u8>,
    bytes: u64,
    bytes_max: u64,
    end_when_full: bool,
    full_at_ns: Option<u64>,
    /// Events that were read and not kept.
    left_out: u64,
}

impl<'a> Reader<'a> {
    fn open(instance: &'a Instance, layout: PageLayout, options: &Options) -> Result<Self, TraceError> {
        let (mut files, mut cpus) = (Vec::new(), Vec::new());
        for (cpu, path) in instance.raw_buffers()? {
            let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
            let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(&path);
            files.push(file.map_err(at(&path))?);
            cpus.push(CpuPages { cpu, pages: Vec::new() });
        }
        let page = vec![0; layout.page_size];
        let Options { bytes_max, end_when_full, .. } = *options;
        Ok(Reader {
            instance,
            files,
            cpus,
            layout,
            page,
            bytes: 0,
            bytes_max,
            end_when_full,
            full_at_ns: None,
            left_out: 0,
        })
    }

    /// Reads until `ended`, then what is left.
    fn follow(&mut self, ended: &AtomicBool) -> std::io::Result<()> {
        loop {
            let last = ended.load(Ordering::Acquire);
            if last {
                return self.drain();
            }
            let mut waits: Vec<PollFd<'_>> =
                self.files.iter().map(|file| PollFd::new(file, PollFlags::IN)).collect();
            let patience = Timespec { tv_sec: 0, tv_nsec: POLL_NS };
            match poll(&mut waits, Some(&patience)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => self.drain()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn drain(&mut self) -> std::io::Result<()> {
        for (file, cpu) in self.files.iter_mut().zip(&mut self.cpus) {
            loop {
                match file.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(count) if self.bytes + count as u64 <= self.bytes_max => {
                        self.bytes += count as u64;
                        cpu.pages.push(self.page[..count].into());
                    }
                    Ok(count) => {
                        let page = page::parse(&self.layout, &self.page[..count]);
                        if !self.end_when_full {
                            self.left_out += page.records.len() as u64;
                        } else if let Some(first) = page.records.first() {
                            if self.full_at_ns.is_none() {
                                // an error here only means that more is recorded than is wanted
                                let _ = self.instance.record(false);
                            }
                            let full_at_ns = self.full_at_ns.get_or_insert(first.at_ns);
                            *full_at_ns = first.at_ns.min(*full_at_ns);
                        }
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}
