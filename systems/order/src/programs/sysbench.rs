//! sysbench `oltp_insert` on one MySQL server: clients in groups, each transaction in the redo log and in the binary log.
//!
//! MySQL commits in stages. The first client to reach an empty stage leads: it waits for the stage, takes everybody who
//! has queued meanwhile, does the stage's work for all of them, and moves on with them. Stage one writes and syncs the
//! redo log and writes the binary log; stage two syncs the binary log; then each client is told.

use std::cell::RefCell;
use std::rc::Rc;

use ssd::Nanos;
use stats::rng::SplitMix;

use crate::files::FileId;
use crate::program::{Op, View};
use crate::protocol::Sync;
use crate::setup::Layout;
use crate::sim::Simulation;

/// Processor time of one insert before its commit, client and server. Fit.
const INSERT_NS: Nanos = 1_000_000;
/// Outside of the server: network, client, what wakes them, there and back; up to twice this. Fit.
const ROUND_TRIP_NS: u64 = 900_000;
/// Serial work of a leader for each transaction of its group. Fit.
const GROUP_NS: Nanos = 5_000;
/// Serial work of the second leader for each transaction, before anybody is told. Fit.
const COMMIT_NS: Nanos = 5_000;
/// From a leader to the threads that write and sync the redo log in MySQL 8.0 (`log_writer`, `log_flusher`), and back from the
/// latter through `log_flush_notifier`: two wake-ups each way, of 25 us with what the
/// woken thread does before the next. (The shipped traces have 26 to 30 us for one wake-up, 50 to 73 for two.)
const HANDOVER_NS: Nanos = 50_000;
/// Transactions whose log records fill a page.
const PER_PAGE: u32 = 8;
/// Pages of a log before it starts again.
const LOG_PAGES: u32 = 16_384;

/// Counters: place in line and now serving of each stage, then one for each client.
const SERVING: [u32; 2] = [0, 1];
const FIRST_CLIENT: u32 = 2;

#[derive(Default)]
struct Stage {
    queue: Vec<u32>,
    /// Leaders that have lined up.
    line: u64,
}

struct Server {
    stages: [Stage; 2],
    redo: FileId,
    binlog: FileId,
    pages: [u32; 2],
}

/// The disk: one server.
pub fn sysbench_layout(journal: u32) -> Layout {
    Layout { journal, groups: 1, inodes: 64, dirs: 10, data: 4 * LOG_PAGES }
}

/// Starts the server's files in block group 0 and `clients` clients.
pub fn sysbench(sim: &mut Simulation<'_>, clients: u32, seed: u64) -> Option<()> {
    let dir = sim.dir(0)?;
    let redo = sim.file(dir, LOG_PAGES, Some(LOG_PAGES))?;
    let binlog = sim.file(dir, LOG_PAGES, None)?;
    let server = Server { stages: Default::default(), redo, binlog, pages: [0; 2] };
    let server = Rc::new(RefCell::new(server));
    for client in 0..clients {
        let rng = SplitMix::new(seed ^ u64::from(client + 1).wrapping_mul(0x9e37_79b9));
        let state =
            Client { id: client, server: server.clone(), step: Step::Start, group: Vec::new(), done: 0, rng };
        sim.spawn("mysqld", state.into_program());
    }
    Some(())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Start,
    Travel,
    Insert,
    Enqueue,
    Lead(usize),
    Work(usize),
    Charged(usize),
    Handed,
    Written(usize),
    Synced(usize),
    Told(usize),
    Release(usize),
    Commit,
    Tell,
    Wait,
    Count,
}

struct Client {
    id: u32,
    server: Rc<RefCell<Server>>,
    step: Step,
    group: Vec<u32>,
    /// Transactions so far: the counter to wait for.
    done: u64,
    rng: SplitMix,
}

impl Client {
    fn into_program(mut self) -> impl FnMut(View) -> Op {
        move |_| {
            loop {
                if let Some(op) = self.advance() {
                    return op;
                }
            }
        }
    }

    /// The next operation; None if only the state has changed.
    fn advance(&mut self) -> Option<Op> {
        let (next, op) = match self.step {
            Step::Start => {
                let create = self.id == 0 && self.done == 0;
                (Step::Travel, create.then(|| Op::Create(self.server.borrow().binlog)))
            }
            Step::Travel => {
                (Step::Insert, Some(Op::Sleep(1 + self.rng.below(2 * ROUND_TRIP_NS as usize) as u64)))
            }
            Step::Insert => (Step::Enqueue, Some(Op::Compute(INSERT_NS))),
            Step::Enqueue => {
                self.group = vec![self.id];
                self.enqueue(0)
            }
            Step::Lead(stage) => self.lead(stage),
            Step::Work(stage) => self.work(stage),
            Step::Charged(0) => (Step::Handed, Some(Op::Sleep(HANDOVER_NS))),
            Step::Handed => {
                let write = self.append(0);
                (Step::Written(0), Some(write))
            }
            Step::Charged(stage) => (Step::Written(stage), None),
            Step::Written(0) => (Step::Synced(0), Some(self.sync(0))),
            Step::Written(stage) => (Step::Release(stage), Some(self.sync(1))),
            Step::Synced(stage) => (Step::Told(stage), Some(Op::Sleep(HANDOVER_NS))),
            Step::Told(stage) => {
                // The binary log is written in the first stage, after the redo log is safe.
                let op = self.append(1);
                (Step::Release(stage), Some(op))
            }
            Step::Release(stage) => {
                let post = Op::Post { event: SERVING[stage], by: 1 };
                if stage == 0 {
                    let (next, _) = self.enqueue(1);
                    (next, Some(post))
                } else {
                    (Step::Commit, Some(post))
                }
            }
            Step::Commit => (Step::Tell, Some(Op::Compute(COMMIT_NS * self.group.len() as u64))),
            Step::Tell => match self.group.pop() {
                Some(client) => (Step::Tell, Some(Op::Post { event: FIRST_CLIENT + client, by: 1 })),
                None => (Step::Wait, None),
            },
            Step::Wait => {
                self.done += 1;
                (Step::Count, Some(Op::WaitFor { event: FIRST_CLIENT + self.id, value: self.done }))
            }
            Step::Count => (Step::Travel, Some(Op::Count(1))),
        };
        self.step = next;
        op
    }

    /// Queues the group for a stage: whoever finds the queue empty leads.
    fn enqueue(&mut self, stage: usize) -> (Step, Option<Op>) {
        let queue = &mut self.server.borrow_mut().stages[stage].queue;
        let leads = queue.is_empty();
        queue.append(&mut self.group);
        (if leads { Step::Lead(stage) } else { Step::Wait }, None)
    }

    fn lead(&mut self, stage: usize) -> (Step, Option<Op>) {
        let mut server = self.server.borrow_mut();
        let line = server.stages[stage].line;
        server.stages[stage].line += 1;
        (Step::Work(stage), Some(Op::WaitFor { event: SERVING[stage], value: line }))
    }

    /// The stage is the leader's: it takes the queue.
    fn work(&mut self, stage: usize) -> (Step, Option<Op>) {
        self.group = std::mem::take(&mut self.server.borrow_mut().stages[stage].queue);
        let cost = if stage == 0 { GROUP_NS * self.group.len() as u64 } else { 0 };
        (Step::Charged(stage), Some(Op::Compute(cost)))
    }

    fn append(&mut self, log: usize) -> Op {
        let pages = (self.group.len() as u32).div_ceil(PER_PAGE);
        let mut server = self.server.borrow_mut();
        let at = server.pages[log] % (LOG_PAGES - 64);
        server.pages[log] += pages;
        let file = if log == 0 { server.redo } else { server.binlog };
        Op::Write { file, page: at, pages }
    }

    fn sync(&mut self, log: usize) -> Op {
        let server = self.server.borrow();
        Op::Sync(if log == 0 { server.redo } else { server.binlog }, Sync::Fsync)
    }
}
