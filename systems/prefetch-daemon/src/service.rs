//! Serving the followed files: from events to requests, and what is looked at from time to time.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::Duration;

use prefetch::Mode;
use prefetch_os::area::Head;
use prefetch_os::{Kernel, sys};
use rustix::time::{ClockId, clock_gettime};

use crate::assemble::{Access, Assembler};
use crate::candidates::Candidates;
use crate::files::{self, Holder, Opened};
use crate::moment::{Key, What};
use crate::page::StatisticsPage;
use crate::settings::{DaemonError, Outcome, Settings};
use crate::source::Source;
use crate::table::{Followed, LetGo, Table, Ticket};

/// Between two looks at busy buffers, ns: a quarter of the device's latency, within these.
const PAUSE_NS: (u64, u64) = (50_000, 500_000);
/// Files that are looked for in one turn: looking may take milliseconds in a process with many files.
const FINDS_MAX: usize = 4;

/// What is kept for each followed file.
#[derive(Debug)]
struct Handle {
    file: File,
    holder: Holder,
    record: usize,
}

/// The daemon's state between events.
#[derive(Debug)]
pub struct Service {
    source: Source,
    table: Table<Handle>,
    assembler: Assembler,
    candidates: Candidates,
    page: StatisticsPage,
    events: u64,
    reported_events: u64,
    refilter: bool,
}

impl Service {
    /// Nothing followed yet.
    pub fn new(source: Source, page: StatisticsPage, settings: &Settings) -> Service {
        let mut table = Table::new(settings.mode);
        table.budget = settings.budget_mib.map_or(u64::MAX, |mib| mib.saturating_mul(1 << 20));
        let assembler = Assembler::new(source.tells_around());
        Service {
            source,
            table,
            assembler,
            candidates: Candidates::default(),
            page,
            events: 0,
            reported_events: 0,
            refilter: false,
        }
    }

    /// Whether no file is followed.
    pub fn is_idle(&self) -> bool {
        self.table.is_empty()
    }

    /// Watches more threads.
    pub fn add_threads(&mut self, tids: &[u32]) {
        self.source.add_threads(tids);
    }

    /// Waits for an event.
    ///
    /// # Errors
    /// What poll(2) says.
    pub fn wait(&self, timeout: Duration) -> std::io::Result<()> {
        self.source.wait(timeout)
    }

    /// How long a batch of events may gather: no reader must run through what is ahead of it meanwhile.
    pub fn pause_ns(&self) -> u64 {
        let latencies = self.table.devices.iter().map(|device| device.latency_ns()).filter(|ns| *ns > 0);
        latencies.min().map_or(PAUSE_NS.1, |ns| (ns / 4).clamp(PAUSE_NS.0, PAUSE_NS.1))
    }

    /// Takes what events there are, and asks for what follows from them. Whether there were events.
    ///
    /// # Errors
    /// When the buffers cannot be read or a filter is refused.
    pub fn turn(&mut self) -> Result<bool, DaemonError> {
        let now_ns = sys::now_ns();
        let (mut wanted, mut ended): (Vec<(Key, i32)>, bool) = (Vec::new(), false);
        let table = &mut self.table;
        let observing = table.mode() == Mode::Observe;
        let kernel = |handle: &Handle, size| Kernel::new(handle.file.as_raw_fd(), size, observing);
        let mut tell = |access: Access| table.access(&access, kernel);
        let batch = self.source.take()?;
        let busy = !batch.is_empty();
        self.events += batch.len() as u64;
        for moment in batch {
            if let What::Missed { key, .. } | What::Ahead { key, .. } | What::Fault { key, .. } = moment.what
                && self.candidates.on_miss(key, now_ns)
            {
                wanted.push((key, moment.tid));
            }
            ended |= moment.what == What::Ended;
            self.assembler.on(moment, &mut tell);
        }
        self.assembler.settle(&mut tell);
        for (key, tid) in wanted.into_iter().take(FINDS_MAX) {
            self.begin(key, tid, now_ns);
        }
        if ended {
            self.let_go_of(|handle| !handle.holder.holds());
        }
        if self.table.has_quiet() {
            self.sweep(now_ns);
        }
        self.follow()?;
        Ok(busy)
    }

    /// Follows a file that was missed in, if it can be opened and is worth it.
    fn begin(&mut self, key: Key, tid: i32, now_ns: u64) {
        if self.table.find(key).is_some() {
            return;
        }
        let Some(Opened { file, size, device, path, holder }) = files::find(key, tid, prefetch::FILE_BYTES)
        else {
            self.candidates.refuse(key, now_ns);
            return;
        };
        let at = self.table.device_index(device);
        let record = self.page.begin_file(key, &path);
        let handle = Handle { file, holder, record };
        let (_, replaced) = self.table.follow(key, size, at, now_ns, handle);
        self.refilter = true;
        if let Some(replaced) = replaced {
            self.note(&replaced);
        }
    }

    /// Lets the tracepoints tell of the files that are followed now.
    fn follow(&mut self) -> Result<(), DaemonError> {
        if std::mem::take(&mut self.refilter) {
            self.source.follow(self.table.filter())?;
        }
        Ok(())
    }

    /// Looks at sizes, and whether files are still in use; writes the statistics. `release`: lets
    /// go of all files.
    ///
    /// # Errors
    /// When a filter is refused.
    pub fn tick(&mut self, now_ns: u64, release: bool) -> Result<(), DaemonError> {
        if !self.table.is_empty() {
            self.let_go_of(|handle| release || !handle.holder.holds());
            for ticket in self.table.tickets() {
                self.look_at(ticket);
            }
            self.sweep(now_ns);
            self.follow()?;
        }
        if self.events != self.reported_events {
            self.reported_events = self.events;
            self.report();
        }
        Ok(())
    }

    fn sweep(&mut self, now_ns: u64) {
        for (gone, why) in self.table.sweep(now_ns) {
            if why == LetGo::Quiet {
                self.candidates.strike(gone.key, now_ns);
            }
            self.note(&gone);
            self.refilter = true;
        }
    }

    /// The file may be longer, shorter or deleted.
    fn look_at(&mut self, ticket: Ticket) {
        use std::os::unix::fs::MetadataExt;
        let Some(file) = self.table.get(ticket) else { return };
        let Ok(meta) = file.handle.file.metadata() else { return };
        file.size = meta.len();
        if meta.nlink() == 0 {
            let gone = self.table.release(ticket);
            self.refilter = true;
            gone.inspect(|gone| self.note(gone));
        }
    }

    fn let_go_of(&mut self, unwanted: impl Fn(&mut Handle) -> bool) {
        for ticket in self.table.tickets() {
            if self.table.get(ticket).is_some_and(|file| unwanted(&mut file.handle)) {
                let gone = self.table.release(ticket);
                self.refilter = true;
                gone.inspect(|gone| self.note(gone));
            }
        }
    }

    /// The last figures of a file.
    fn note(&self, file: &Followed<Handle>) {
        self.page.set_file(file.handle.record, file.size, &file.counters, &file.latest);
    }

    /// Writes the statistics. A full disk is no reason to end.
    pub fn report(&mut self) {
        for ticket in self.table.tickets() {
            if let Some(file) = self.table.get(ticket) {
                self.page.set_file(file.handle.record, file.size, &file.counters, &file.latest);
            }
        }
        let area = self.page.area();
        for (at, number) in self.table.numbers.iter().enumerate().filter(|(_, number)| **number != 0) {
            area.set_device(at, *number, &self.table.devices[at]);
        }
        let outcome = self.outcome();
        area.set_head(Head::HookCalls, outcome.events);
        area.set_head(Head::HookNs, outcome.cpu_ns);
        area.set_head(Head::Lost, outcome.lost);
        let _ = self.page.save();
    }

    /// How it went so far.
    pub fn outcome(&self) -> Outcome {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu_ns = (cpu.tv_sec as u64).saturating_mul(1_000_000_000) + cpu.tv_nsec as u64;
        Outcome { status: None, events: self.events, lost: self.source.lost(), cpu_ns }
    }
}
