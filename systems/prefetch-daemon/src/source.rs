//! The tracepoints: which are on, for whom, and reading them.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use trace::{Instance, Rings, Selection, TraceError};

use crate::moment::{Decoder, Moment};

/// Each CPU's buffer: 2 MiB take 30,000 reads, some 10 ms of the busiest program.
const BUFFER_KIB: u32 = 2048;
/// Misses: always on. The second is used on older kernels, which do not have the first.
const MISSES: [(&str, &str); 2] = [("readahead", "page_cache_sync_ra"), ("readahead", "page_cache_async_ra")];
const ADDED: (&str, &str) = ("filemap", "mm_filemap_add_to_page_cache");
/// What is done with followed files: on while there are some, for them only.
const FOLLOWED: [(&str, &str); 2] =
    [("filemap", "mm_filemap_get_pages"), ("filemap", "mm_filemap_map_pages")];
/// What the kernel reads around their faults; older kernels do not tell.
const AROUND: [(&str, &str); 2] =
    [("readahead", "page_cache_ra_order"), ("readahead", "page_cache_ra_unbounded")];
/// Threads that wait: on while files are followed. 2 is the state D.
const SWITCH: (&str, &str, &str) = ("sched", "sched_switch", "prev_state == 2");

/// The events of the watched threads.
#[derive(Debug)]
pub struct Source {
    // Before the instance: an open buffer keeps it from being removed.
    rings: Rings,
    threads: File,
    instance: Instance,
    decoder: Decoder,
    /// The events that are on for followed files.
    followed: Vec<(&'static str, &'static str)>,
    filter: Option<String>,
    batch: Vec<Moment>,
    lost_in_pages: u64,
}

impl Source {
    /// Watches the misses of these threads and of all that they make.
    ///
    /// # Errors
    /// When tracing is not available or a tracepoint is missing.
    pub fn open(tids: &[u32]) -> Result<Source, TraceError> {
        let mut instance = Instance::create()?;
        instance.set_buffer_kib_per_cpu(BUFFER_KIB)?;
        let threads = instance.only_threads(tids, true)?;
        for (system, name) in FOLLOWED {
            if !instance.know(system, name)? {
                return Err(TraceError::NoEvent(format!("{system}/{name}")));
            }
        }
        let mut followed = FOLLOWED.to_vec();
        if instance.know(AROUND[0].0, AROUND[0].1)? && instance.know(AROUND[1].0, AROUND[1].1)? {
            followed.extend(AROUND);
        }
        instance.know(SWITCH.0, SWITCH.1)?;
        let on = |system, name, required| Selection { system, name, filter: None, required };
        instance.enable(&on("filemap", "mm_filemap_fault", true))?;
        instance.enable(&on("sched", "sched_process_exit", true))?;
        if instance.enable(&on(MISSES[0].0, MISSES[0].1, false))? {
            instance.enable(&on(MISSES[1].0, MISSES[1].1, false))?;
        } else {
            instance.enable(&on(ADDED.0, ADDED.1, true))?;
        }
        let decoder = Decoder::new(instance.formats());
        let rings = Rings::open(&instance)?;
        instance.record(true)?;
        Ok(Source {
            rings,
            threads,
            instance,
            decoder,
            followed,
            filter: None,
            batch: Vec::new(),
            lost_in_pages: 0,
        })
    }

    /// Whether the kernel tells when it reads around a fault.
    pub fn tells_around(&self) -> bool {
        self.followed.len() > FOLLOWED.len()
    }

    /// A file that takes more thread numbers.
    ///
    /// # Errors
    /// When the descriptor cannot be duplicated.
    pub fn threads(&self) -> std::io::Result<File> {
        self.threads.try_clone()
    }

    /// Watches more threads. Those that have ended meanwhile do not matter.
    pub fn add_threads(&mut self, tids: &[u32]) {
        for part in tids.chunks(256) {
            let text: Vec<String> = part.iter().map(u32::to_string).collect();
            let _ = self.threads.write_all(text.join(" ").as_bytes());
        }
    }

    /// Tells of every read and touch of the files that a filter lets pass; `None`: of misses only.
    ///
    /// # Errors
    /// When the kernel refuses the filter.
    pub fn follow(&mut self, filter: Option<String>) -> Result<(), TraceError> {
        if self.filter == filter {
            return Ok(());
        }
        for (system, name) in &self.followed {
            self.instance.refilter(system, name, filter.as_deref())?;
        }
        if self.filter.is_none() != filter.is_none() {
            let on = filter.is_some().then_some(SWITCH.2);
            self.instance.refilter(SWITCH.0, SWITCH.1, on)?;
        }
        self.filter = filter;
        Ok(())
    }

    /// Waits for an event, for one of `others`, or so long.
    ///
    /// # Errors
    /// What poll(2) says; a signal is no error.
    pub fn wait(&self, timeout: Duration) -> std::io::Result<()> {
        let mut waits: Vec<PollFd<'_>> =
            self.rings.descriptors().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = Timespec::try_from(timeout).map_err(std::io::Error::other)?;
        match poll(&mut waits, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the events that are there, in order of time.
    ///
    /// # Errors
    /// What reading the buffers says.
    pub fn take(&mut self) -> std::io::Result<&[Moment]> {
        self.batch.clear();
        let (decoder, batch) = (&self.decoder, &mut self.batch);
        self.lost_in_pages +=
            self.rings.drain(|record| batch.extend(decoder.decode(record.at_ns, record.data)))?;
        self.batch.sort_by_key(|moment| moment.at_ns);
        Ok(&self.batch)
    }

    /// Events that the kernel could not keep until they were read.
    pub fn lost(&self) -> u64 {
        self.lost_in_pages.max(self.instance.overrun())
    }
}
