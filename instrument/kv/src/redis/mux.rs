//! Terminals on Redis: many connections on few threads, each with one operation under way, or several (a pipeline).
//!
//! A thread waits for all its connections at once (epoll), as redis-benchmark does; a thread for each connection would
//! spend its time in switches between threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use serve::drive::{Clock, Counts, TransactionEnd};

use crate::KvError;
use crate::client::{Client, Shared};

use super::records::Commands;
use super::resp::Login;
use super::ring::Ring;
pub use super::terminal::Layout;
use super::terminal::{Pending, Running, Terminal};
use super::{LATER, LATER_TIMES, never_whole};

/// Events that are taken at once.
const EVENTS: usize = 256;
/// Longest sleep before the clock is looked at again.
const NAP: Duration = Duration::from_millis(50);
/// How long replies are asked for before the thread sleeps. Waking a processor that has gone to sleep is the server's
/// work and costs a virtual machine more than many commands: a client that is quicker than its server would sleep, and
/// be woken, between any two replies.
const AWAKE: Duration = Duration::from_micros(100);
/// How long replies are waited for when the run was interrupted, or has failed elsewhere.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);
/// How long a server may answer nothing at all.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The terminals of one thread.
pub struct ThreadTerminals {
    terminals: Vec<Terminal>,
    redirections: Arc<AtomicU64>,
}

/// Connects all terminals and hands them out to threads; `redirections` will hold how often a cluster redirected.
///
/// # Errors
/// A connection is refused.
pub fn parts(
    login: &Login,
    layout: &Layout,
    shared: &Arc<Shared>,
    redirections: &Arc<AtomicU64>,
) -> Result<Vec<ThreadTerminals>, KvError> {
    let threads = layout.threads.clamp(1, layout.terminals);
    let mut parts: Vec<ThreadTerminals> = (0..threads)
        .map(|_| ThreadTerminals { terminals: Vec::new(), redirections: redirections.clone() })
        .collect();
    let commands = Arc::new(Commands::of(shared));
    for number in 0..layout.terminals {
        let ring = Ring::connect(login, layout.cluster)?;
        let client = Client::new(shared, number, layout.terminals);
        let terminal = Terminal::new(client, ring, layout, &commands);
        parts[(number % threads) as usize].terminals.push(terminal);
    }
    Ok(parts)
}

/// Where a thread is.
struct Loop<'a, 'b> {
    clock: &'a Clock<'b>,
    epoll: std::os::fd::OwnedFd,
    counts: Counts,
    /// An operation that is due, or will be, and has no terminal yet.
    ticket: Option<Instant>,
    /// Whether a terminal was idle before it was due.
    waited: bool,
    /// Commands to be sent again: terminal, connection, command.
    later: Vec<(usize, usize, Pending)>,
    next_later: Instant,
}

/// Operations of one kind that began, were due and ended at the same moments, as those of a pipeline do: counted at once.
struct CompletionBatch<'a> {
    now: Instant,
    second: Option<usize>,
    counts: &'a mut Counts,
    kind: usize,
    began: Instant,
    due: Option<Instant>,
    ops: u64,
    bytes: u64,
}

impl<'a> CompletionBatch<'a> {
    fn new(now: Instant, second: Option<usize>, counts: &'a mut Counts) -> CompletionBatch<'a> {
        CompletionBatch { now, second, counts, kind: 0, began: now, due: None, ops: 0, bytes: 0 }
    }

    fn add(&mut self, op: &Running) {
        if (op.step.kind, op.began, op.due) != (self.kind, self.began, self.due) {
            self.count();
            (self.kind, self.began, self.due) = (op.step.kind, op.began, op.due);
        }
        self.ops += 1;
        self.bytes += op.bytes;
    }

    fn count(&mut self) {
        let (ops, bytes) = (std::mem::take(&mut self.ops), std::mem::take(&mut self.bytes));
        if let (Some(second), true) = (self.second, ops > 0) {
            let due = self.due.map(|due| self.now.saturating_duration_since(due));
            let service = self.now.saturating_duration_since(self.began);
            self.counts.count(self.kind, Some(TransactionEnd::Moved { ops, bytes }), service, due, second);
            self.counts.ended(self.now);
        }
    }
}

impl ThreadTerminals {
    /// Runs its terminals as long as the clock says.
    pub fn run(mut self, clock: &Clock<'_>, kinds: usize) -> (Counts, Option<KvError>) {
        let created = epoll::create(epoll::CreateFlags::CLOEXEC);
        let failed = |error: rustix::io::Errno| KvError::Engine(format!("epoll: {error}"));
        let epoll = match created {
            Ok(epoll) => epoll,
            Err(error) => {
                clock.fail();
                return (Counts::new(kinds), Some(failed(error)));
            }
        };
        let now = Instant::now();
        let counts = Counts::new(kinds);
        let mut state =
            Loop { clock, epoll, counts, ticket: None, waited: false, later: Vec::new(), next_later: now };
        let result = state.run(&mut self.terminals);
        let redirections: u64 = self.terminals.iter().map(|terminal| terminal.ring.redirections).sum();
        self.redirections.fetch_add(redirections, Ordering::Relaxed);
        let error = result.err();
        if error.is_some() {
            clock.fail();
        }
        (state.counts, error)
    }
}

impl Loop<'_, '_> {
    fn run(&mut self, terminals: &mut [Terminal]) -> Result<(), KvError> {
        for (number, terminal) in terminals.iter().enumerate() {
            for node in 0..terminal.ring.wires.len() {
                self.add(number, terminal, node)?;
            }
        }
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let mut over_since: Option<Instant> = None;
        let mut answered = Instant::now();
        // who begins first takes turns: with a rate the first terminal would have everything
        let mut turn = 0;
        loop {
            let now = Instant::now();
            if over_since.is_none() && self.clock.is_over(now) {
                over_since = Some(now);
            }
            let begun = over_since.is_none() && self.begin(terminals, &mut turn, now);
            let idle = terminals.iter().all(Terminal::is_idle);
            if idle
                && (over_since.is_some() || (!begun && terminals.iter().all(|one| !one.client.has_more())))
            {
                return Ok(());
            }
            // what is under way when the time is up is waited for, and counts
            if self.clock.is_abandoned() && over_since.is_some_and(|since| now - since > DRAIN_PATIENCE) {
                return Ok(());
            }
            if idle {
                answered = now;
            } else if now - answered > SILENCE_MAX {
                return Err(KvError::Engine(format!(
                    "Redis gave no answer within {} s",
                    SILENCE_MAX.as_secs()
                )));
            }
            self.send_later(terminals, now)?;
            self.flush(terminals)?;
            events.clear();
            self.wait(&mut events, if idle { None } else { Some(now + AWAKE) }, &self.timeout(now))?;
            for event in &events {
                answered = now;
                let data = event.data.u64();
                let (number, node) = ((data >> 32) as usize, (data & 0xffff_ffff) as usize);
                if (event.flags - epoll::EventFlags::OUT).is_empty() {
                    continue;
                }
                let terminal = &mut terminals[number];
                let at = self.take(number, terminal, node)?;
                if over_since.is_none() && !self.clock.is_paced() {
                    // the server works on what comes next while the other replies are read here
                    while !terminal.idle.is_empty() && terminal.client.has_more() {
                        terminal.begin(at, None);
                    }
                    self.flush_one(number, terminal)?;
                }
            }
        }
    }

    /// Waits for replies; until `awake` without sleeping, but never while somebody else wants this processor.
    fn wait(
        &self,
        events: &mut Vec<epoll::Event>,
        awake: Option<Instant>,
        timeout: &Timespec,
    ) -> Result<(), KvError> {
        let mut ask = |timeout: &Timespec| match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(events),
            Some(timeout),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!events.is_empty()),
            Err(error) => Err(KvError::Engine(format!("epoll: {error}"))),
        };
        while awake.is_some_and(|until| Instant::now() < until) {
            if ask(&Timespec { tv_sec: 0, tv_nsec: 0 })? {
                return Ok(());
            }
            rustix::thread::sched_yield();
        }
        ask(timeout).map(drop)
    }

    fn add(&self, number: usize, terminal: &Terminal, node: usize) -> Result<(), KvError> {
        let data = epoll::EventData::new_u64((number as u64) << 32 | node as u64);
        epoll::add(&self.epoll, &terminal.ring.wires[node], data, epoll::EventFlags::IN)
            .map_err(|error| KvError::Engine(format!("epoll: {error}")))
    }

    /// Begins operations as far as they are due and terminals are idle; whether it began one.
    fn begin(&mut self, terminals: &mut [Terminal], turn: &mut usize, now: Instant) -> bool {
        let (count, mut begun) = (terminals.len(), false);
        for step in 0..count {
            let at = (*turn + step) % count;
            let terminal = &mut terminals[at];
            while !terminal.idle.is_empty() && terminal.client.has_more() {
                if self.ticket.is_none() {
                    self.ticket = self.clock.next_due(1);
                }
                match self.ticket {
                    Some(due) if due > now => {
                        *turn = at;
                        self.waited = true;
                        return begun;
                    }
                    due => terminal.begin(now, due),
                }
                if let Some(due) = self.ticket.take().filter(|_| std::mem::take(&mut self.waited)) {
                    self.clock.woke(due, now, &mut self.counts);
                }
                begun = true;
            }
        }
        begun
    }

    /// Takes the replies on a connection; the moment at which they had come.
    fn take(&mut self, number: usize, terminal: &mut Terminal, node: usize) -> Result<Instant, KvError> {
        let (known, mut later) = (terminal.ring.wires.len(), Vec::new());
        terminal.ring.wires[node].fill()?;
        // all of them were here by now: a clock for each would count the reading of those before it as well
        let now = Instant::now();
        let second = self.clock.second(now);
        let mut alike = CompletionBatch::new(now, second, &mut self.counts);
        let mut ended = 0;
        let taken = terminal.take(node, &mut later, &mut |op| {
            ended += 1;
            alike.add(op);
        });
        alike.count();
        taken?;
        if second.is_none() {
            terminal.client.give_back(ended);
        }
        for node in known..terminal.ring.wires.len() {
            self.add(number, terminal, node)?;
        }
        if !later.is_empty() {
            if self.later.is_empty() {
                self.next_later = now + LATER;
            }
            self.later.extend(later.into_iter().map(|(node, pending)| (number, node, pending)));
        }
        Ok(now)
    }

    /// Sends again what a changing cluster refused.
    fn send_later(&mut self, terminals: &mut [Terminal], now: Instant) -> Result<(), KvError> {
        if self.later.is_empty() || now < self.next_later {
            return Ok(());
        }
        for (number, node, pending) in std::mem::take(&mut self.later) {
            if pending.redirected > LATER_TIMES {
                return Err(never_whole());
            }
            terminals[number].send_to(node, pending);
        }
        Ok(())
    }

    fn flush(&self, terminals: &mut [Terminal]) -> Result<(), KvError> {
        terminals.iter_mut().enumerate().try_for_each(|(number, terminal)| self.flush_one(number, terminal))
    }

    /// Sends what a terminal has to send, as far as there is room.
    fn flush_one(&self, number: usize, terminal: &mut Terminal) -> Result<(), KvError> {
        let Terminal { ring, waits_for_room, .. } = terminal;
        for (node, wire) in ring.wires.iter_mut().enumerate() {
            if wire.out.is_empty() {
                continue;
            }
            wire.flush()?;
            let waits = wire.is_full();
            if waits != waits_for_room[node] {
                waits_for_room[node] = waits;
                let mut flags = epoll::EventFlags::IN;
                if waits {
                    flags |= epoll::EventFlags::OUT;
                }
                let data = epoll::EventData::new_u64((number as u64) << 32 | node as u64);
                epoll::modify(&self.epoll, &*wire, data, flags)
                    .map_err(|error| KvError::Engine(format!("epoll: {error}")))?;
            }
        }
        Ok(())
    }

    fn timeout(&self, now: Instant) -> Timespec {
        let mut until = NAP;
        // one that is due already waits for a terminal: a reply ends that wait
        if let Some(due) = self.ticket.filter(|due| *due > now) {
            until = until.min(due - now);
        }
        if !self.later.is_empty() {
            until = until.min(self.next_later.saturating_duration_since(now));
        }
        Timespec { tv_sec: 0, tv_nsec: i64::from(until.subsec_nanos()) }
    }
}
