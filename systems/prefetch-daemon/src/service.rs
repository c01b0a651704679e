//! Serving the followed files: from events to requests, and what is looked at from time to time.

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use prefetch::Fetched;
use prefetch_os::area::Head;
use prefetch_os::ask::Os;
use prefetch_os::processor::{FULL, Pressure};
use prefetch_os::{Kernel, limits, memory, sys};
use rustix::time::{ClockId, clock_gettime};

use crate::assemble::{Access, Assembler};
use crate::candidates::Candidates;
use crate::files::{self, Holder, Opened};
use crate::moment::{Key, What};
use crate::page::StatisticsPage;
use crate::settings::{DaemonError, Outcome, Settings};
use crate::source::Source;
use crate::table::{Followed, LetGo, Table, Ticket};
use crate::worker::{Answer, Workers};

/// Between two looks at busy buffers, ns: a quarter of the device's latency, within these.
const PAUSE_NS: (u64, u64) = (50_000, 500_000);
/// Files that are looked for in one turn: looking may take milliseconds in a process with many files.
const FINDS_MAX: usize = 4;
/// One in so many requests is preceded by the question whether all of it is there.
const ASK_EVERY: u32 = 32;

/// What is kept for each followed file.
#[derive(Debug)]
struct Handle {
    file: Arc<File>,
    holder: Holder,
    record: usize,
    jobs: u32,
}

/// The daemon's state between events.
#[derive(Debug)]
pub struct Service {
    source: Source,
    table: Table<Handle>,
    assembler: Assembler,
    candidates: Candidates,
    workers: Workers,
    page: StatisticsPage,
    kernel: Kernel,
    pressure: Pressure,
    ready: Vec<Ticket>,
    /// Files with streams that wait for their turn, and when the first of them has it, ns.
    turns: Vec<(Ticket, u64)>,
    events: u64,
    reported_events: u64,
    refilter: bool,
}

impl Service {
    /// Nothing followed yet.
    pub fn new(source: Source, workers: Workers, page: StatisticsPage, settings: &Settings) -> Service {
        let table = Table::new(settings.mode);
        if let Some(mib) = settings.budget_mib {
            table.budget.set_user_max(mib.saturating_mul(1 << 20));
        }
        table.budget.tell(&memory::look());
        let assembler = Assembler::new(source.tells_around());
        Service {
            source,
            table,
            assembler,
            candidates: Candidates::default(),
            workers,
            page,
            kernel: Kernel::new(),
            pressure: Pressure::new(),
            ready: Vec::new(),
            turns: Vec::new(),
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

    /// Waits for an event or a fetched step.
    ///
    /// # Errors
    /// What poll(2) says.
    pub fn wait(&self, bell: BorrowedFd<'_>, timeout: Duration) -> std::io::Result<()> {
        self.source.wait(&[bell], timeout)?;
        let mut count = [0; 8];
        let _ = rustix::io::read(bell, &mut count);
        Ok(())
    }

    /// How long a batch of events may gather: no reader must run through what is ahead of it meanwhile.
    pub fn pause_ns(&self) -> u64 {
        let latencies = self.table.devices.iter().map(|device| device.latency_ns()).filter(|ns| *ns > 0);
        latencies.min().map_or(PAUSE_NS.1, |ns| (ns / 4).clamp(PAUSE_NS.0, PAUSE_NS.1))
    }

    /// Takes what events and answers there are, and asks for what follows from them. Whether there were events.
    ///
    /// # Errors
    /// When the buffers cannot be read or a filter is refused.
    pub fn turn(&mut self) -> Result<bool, DaemonError> {
        let now_ns = sys::now_ns();
        let (mut wanted, mut ended): (Vec<(Key, i32)>, bool) = (Vec::new(), false);
        let (table, ready) = (&mut self.table, &mut self.ready);
        let mut tell = |access: Access| ready.extend(table.access(&access));
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
        self.answers(now_ns);
        self.serve();
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
        let Some(Opened { file, size, device, path, holder }) =
            files::find(key, tid, prefetch::Tuning::FILE_BYTES)
        else {
            self.candidates.refuse(key, now_ns);
            return;
        };
        let at = self.table.device_index(device);
        let learned = &self.table.devices[at];
        if !learned.limits.are_told() {
            let limits = limits::look(device);
            learned.limits.set(limits.readahead_bytes, limits.call_bytes);
        }
        let record = self.page.begin_file(key, &path);
        let handle = Handle { file: Arc::new(file), holder, record, jobs: 0 };
        let (_, replaced) = self.table.follow(key, size, at, now_ns, handle);
        self.refilter = true;
        if let Some(replaced) = replaced {
            self.note(&replaced);
        }
    }

    /// What the kernel said to earlier requests.
    fn answers(&mut self, now_ns: u64) {
        let mode = self.table.mode();
        for Answer { ticket, request, done, fetched_ns } in self.workers.answers() {
            let Some((file, device, budget)) = self.table.get(ticket) else { continue };
            if let Some((elapsed_ns, used_ns)) = fetched_ns {
                file.fetching = false;
                let taken_ns = used_ns * self.pressure.look(now_ns) / FULL;
                let step = Fetched { bytes: request.len, cached: done.untold(request), elapsed_ns, taken_ns };
                file.state.fetched(&step, device, mode);
                if done.meets_writers(request.len) {
                    file.state.fetch_meets_writers(device, mode);
                }
                self.ready.push(ticket);
            } else if done.cached > 0 {
                file.state.redundant(done.cached, device, budget);
            }
            if done.refused {
                let key = file.key;
                self.candidates.refuse(key, now_ns);
                self.table.release(ticket);
                self.refilter = true;
            }
        }
    }

    /// Asks for what lies ahead of the files that were read, or have a stream whose turn it is.
    fn serve(&mut self) {
        let now_ns = sys::now_ns();
        let mut ready = std::mem::take(&mut self.ready);
        ready.extend(self.turns.iter().filter(|(_, turn_ns)| *turn_ns <= now_ns).map(|(ticket, _)| *ticket));
        ready.sort_unstable();
        ready.dedup();
        self.turns.retain(|(ticket, _)| ready.binary_search(ticket).is_err());
        ready.retain(|ticket| !self.serve_one(*ticket, now_ns));
        // What did not fit the queue comes next time.
        self.ready.append(&mut ready);
    }

    /// How long until a stream has its turn, at most `most_ns`, ns.
    pub fn until_turn_ns(&self, most_ns: u64) -> u64 {
        let Some(first) = self.turns.iter().map(|(_, turn_ns)| *turn_ns).min() else { return most_ns };
        first.saturating_sub(sys::now_ns()).min(most_ns)
    }

    /// Whether everything was asked for that need not wait for its turn.
    fn serve_one(&mut self, ticket: Ticket, now_ns: u64) -> bool {
        while self.workers.has_room() {
            let Some(request) = self.table.claim(ticket, now_ns) else { break };
            let Some((file, device, _)) = self.table.get(ticket) else { return true };
            let handle = &mut file.handle;
            handle.jobs = handle.jobs.wrapping_add(1);
            let ask = handle.jobs.is_multiple_of(ASK_EVERY);
            self.workers.ahead(ticket, Arc::clone(&handle.file), request, device.limits.call_bytes(), ask);
        }
        let turn = self.table.next_claim_ns(ticket).filter(|turn_ns| *turn_ns > now_ns);
        self.turns.extend(turn.map(|turn_ns| (ticket, turn_ns)));
        let step = self.table.claim_fetch(ticket, now_ns);
        let Some((file, device, _)) = self.table.get(ticket) else { return true };
        if let Some(step) = step {
            self.workers.fetch(
                ticket,
                Arc::clone(&file.handle.file),
                step,
                device.limits.call_bytes(),
                file.state.size,
            );
        }
        self.workers.has_room()
    }

    /// Lets the tracepoints tell of the files that are followed now.
    fn follow(&mut self) -> Result<(), DaemonError> {
        if std::mem::take(&mut self.refilter) {
            self.source.follow(self.table.filter())?;
        }
        Ok(())
    }

    /// Looks at memory, evictions, sizes, and whether files are still in use; writes the statistics. `release`: lets
    /// go of all files.
    ///
    /// # Errors
    /// When a filter is refused.
    pub fn tick(&mut self, now_ns: u64, release: bool) -> Result<(), DaemonError> {
        if !self.table.is_empty() {
            self.table.budget.tell(&memory::look());
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

    /// What lies ahead may be gone; the file may be longer, shorter or deleted.
    fn look_at(&mut self, ticket: Ticket) {
        let Some((file, _, budget)) = self.table.get(ticket) else { return };
        if let Some(range) = file.state.ahead_range()
            && let Ok(residency) =
                self.kernel.residency(file.handle.file.as_raw_fd(), range.offset, range.len)
            && residency.evicted > range.len / 8
        {
            file.state.evicted(residency.evicted, budget);
        }
        if let Ok(meta) = file.handle.file.metadata() {
            use std::os::unix::fs::MetadataExt;
            file.state.size = meta.len();
            if meta.nlink() == 0 {
                let gone = self.table.release(ticket);
                self.refilter = true;
                gone.inspect(|gone| self.note(gone));
            }
        }
    }

    fn let_go_of(&mut self, unwanted: impl Fn(&mut Handle) -> bool) {
        for ticket in self.table.tickets() {
            if self.table.get(ticket).is_some_and(|(file, _, _)| unwanted(&mut file.handle)) {
                let gone = self.table.release(ticket);
                self.refilter = true;
                gone.inspect(|gone| self.note(gone));
            }
        }
    }

    /// The last figures of a file.
    fn note(&self, file: &Followed<Handle>) {
        self.page.set_file(file.handle.record, &file.state);
    }

    /// Writes the statistics. A full disk is no reason to end.
    pub fn report(&mut self) {
        for ticket in self.table.tickets() {
            if let Some((file, _, _)) = self.table.get(ticket) {
                self.page.set_file(file.handle.record, &file.state);
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
        area.set_head(Head::Workers, 2);
        area.set_head(Head::BudgetTotal, self.table.budget.total());
        area.set_head(Head::BudgetOutstanding, self.table.budget.outstanding());
        let _ = self.page.save();
    }

    /// How it went so far.
    pub fn outcome(&self) -> Outcome {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu_ns = (cpu.tv_sec as u64).saturating_mul(1_000_000_000) + cpu.tv_nsec as u64;
        Outcome { status: None, events: self.events, lost: self.source.lost(), cpu_ns }
    }
}
