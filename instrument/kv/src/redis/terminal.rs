//! One terminal on Redis: its connections and the operations that it has under way. An operation is a small program: what
//! it sends, and what each reply means.

use std::collections::VecDeque;
use std::time::Instant;

use crate::KvError;
use crate::client::{Client, Op, Step, missing};

use super::INDEX;
use super::resp::{Reply, command, refusal};
use super::ring::{AT_ONCE_MAX, Redirection, Ring, redirection};

/// How the terminals are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Connections (of a cluster: clients, each with a connection to each master).
    pub terminals: u32,
    /// Operations that each has under way at once.
    pub pipeline: u32,
    /// Threads that serve them.
    pub threads: u32,
    /// Whether the server is one of a cluster.
    pub cluster: bool,
}

/// What one reply is the answer to.
#[derive(Debug, Clone)]
enum Sent {
    Get,
    Set,
    Index,
    Range(u64),
    /// The value of a key that a scan has found.
    Scanned(Vec<u8>),
    /// The values of several: one server has them all.
    AllScanned(Vec<Vec<u8>>),
    /// ASKING: its answer says nothing.
    Asking,
}

#[derive(Debug)]
pub(super) struct Pending {
    op: usize,
    sent: Sent,
    /// How often the command was sent elsewhere, or again.
    pub(super) redirected: u32,
}

/// An operation under way.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) step: Step,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Of values, so far.
    pub(super) bytes: u64,
    /// Replies that are still to come.
    open: u32,
    pub(super) began: Instant,
    pub(super) due: Option<Instant>,
    busy: bool,
}

/// A terminal: its connections, its operations.
pub(super) struct Terminal {
    pub(super) client: Client,
    pub(super) ring: Ring,
    /// For each connection what its replies will be to, in order.
    pending: Vec<VecDeque<Pending>>,
    /// Whether epoll is to say when there is room to send, for each connection.
    pub(super) waits_for_room: Vec<bool>,
    ops: Vec<Running>,
    /// Numbers of the operations that have ended.
    pub(super) idle: Vec<usize>,
    indexed: bool,
    single: bool,
}

impl Terminal {
    pub(super) fn new(client: Client, ring: Ring, layout: &Layout, indexed: bool) -> Terminal {
        let now = Instant::now();
        let op = |_| Running {
            step: Step::nothing(),
            key: Vec::new(),
            value: Vec::new(),
            bytes: 0,
            open: 0,
            began: now,
            due: None,
            busy: false,
        };
        let depth = layout.pipeline as usize;
        Terminal {
            client,
            pending: ring.wires.iter().map(|_| VecDeque::new()).collect(),
            waits_for_room: vec![false; ring.wires.len()],
            ring,
            ops: (0..depth).map(op).collect(),
            idle: (0..depth).rev().collect(),
            indexed,
            single: !layout.cluster,
        }
    }

    /// Begins the next operation, if a place for one is idle.
    pub(super) fn begin(&mut self, now: Instant, due: Option<Instant>) {
        let Some(at) = self.idle.pop() else { return };
        let step = self.client.choose();
        let op = &mut self.ops[at];
        (op.step, op.bytes, op.began, op.due, op.busy) = (step, 0, now, due, true);
        self.client.key(step.record, &mut op.key);
        match step.op {
            Op::Read | Op::Modify => self.send(at, Sent::Get),
            Op::Update => self.write(at),
            Op::Insert => {
                self.write(at);
                if self.indexed {
                    self.send(at, Sent::Index);
                }
            }
            Op::Scan(most) => self.send(at, Sent::Range(most)),
        }
    }

    fn write(&mut self, at: usize) {
        let Running { step, key, value, bytes, .. } = &mut self.ops[at];
        self.client.begin_write(step, key, value);
        *bytes += value.len() as u64;
        self.send(at, Sent::Set);
    }

    fn send(&mut self, at: usize, sent: Sent) {
        let key: &[u8] = match &sent {
            Sent::Index | Sent::Range(_) => INDEX,
            Sent::Scanned(key) => key,
            _ => &self.ops[at].key,
        };
        let node = self.ring.node_of(key);
        self.ops[at].open += 1;
        self.client.calls += 1;
        self.send_to(node, Pending { op: at, sent, redirected: 0 });
    }

    pub(super) fn send_to(&mut self, node: usize, pending: Pending) {
        let Running { key, value, .. } = &self.ops[pending.op];
        let out = &mut self.ring.wires[node].out;
        match &pending.sent {
            Sent::Get => command(out, &[b"GET", key]),
            Sent::Set => command(out, &[b"SET", key, value]),
            Sent::Index => command(out, &[b"ZADD", INDEX, b"0", key]),
            Sent::Range(most) => {
                let from = [b"[", key.as_slice()].concat();
                let most = most.to_string();
                let words: [&[u8]; 7] = [b"ZRANGEBYLEX", INDEX, &from, b"+", b"LIMIT", b"0", most.as_bytes()];
                command(out, &words);
            }
            Sent::Scanned(key) => command(out, &[b"GET", key]),
            Sent::AllScanned(keys) => {
                let mut words: Vec<&[u8]> = vec![b"MGET"];
                words.extend(keys.iter().map(Vec::as_slice));
                command(out, &words);
            }
            Sent::Asking => command(out, &[b"ASKING"]),
        }
        self.pending[node].push_back(pending);
    }

    /// Takes every reply that was read whole; shows operations that ended by them.
    pub(super) fn take(
        &mut self,
        node: usize,
        later: &mut Vec<(usize, Pending)>,
        ended: &mut dyn FnMut(&Running),
    ) -> Result<(), KvError> {
        loop {
            let Some(reply) = self.ring.wires[node].reply()? else { return Ok(()) };
            let Some(pending) = self.pending[node].pop_front() else {
                let from = self.ring.wires[node].address();
                return Err(KvError::Engine(format!("Redis at {from} answers what nobody asked")));
            };
            if matches!(pending.sent, Sent::Asking) {
                continue;
            }
            if let Reply::Error(text) = &reply {
                let text = text.to_vec();
                self.refused(node, &text, pending, later)?;
                continue;
            }
            // what follows from a reply is sent when the reply is no longer needed
            let next =
                meaning(&mut self.client, &mut self.ops[pending.op], &pending.sent, &reply, self.single)?;
            let at = pending.op;
            match next {
                Next::Nothing => {}
                Next::Write => self.write(at),
                Next::Fetch(keys) => keys.into_iter().for_each(|key| self.send(at, Sent::Scanned(key))),
                Next::FetchAll(keys) => self.send(at, Sent::AllScanned(keys)),
            }
            self.ops[at].open -= 1;
            if self.ops[at].open == 0 {
                let op = &mut self.ops[at];
                op.busy = false;
                if matches!(op.step.op, Op::Update | Op::Insert | Op::Modify) {
                    self.client.end_write(&op.step);
                }
                ended(&self.ops[at]);
                self.idle.push(at);
            }
        }
    }

    /// What an error asks for is done; an error that asks for nothing is one of the run.
    fn refused(
        &mut self,
        node: usize,
        text: &[u8],
        mut pending: Pending,
        later: &mut Vec<(usize, Pending)>,
    ) -> Result<(), KvError> {
        let from = self.ring.wires[node].address().clone();
        let Some(redirected) = redirection(text, &from) else {
            return Err(refusal("running operations", text));
        };
        pending.redirected += 1;
        self.ring.redirections += 1;
        let known = self.ring.wires.len();
        let to = match &redirected {
            Redirection::Moved(_, address) | Redirection::Ask(address) => self.ring.node_at(address)?,
            Redirection::Later => node,
        };
        if self.ring.wires.len() > known {
            self.pending.push(VecDeque::new());
            self.waits_for_room.push(false);
        }
        let at_once = pending.redirected <= AT_ONCE_MAX;
        match redirected {
            Redirection::Moved(slot, _) => {
                self.ring.moved(slot, to);
                if at_once {
                    self.send_to(to, pending);
                } else {
                    later.push((to, pending));
                }
            }
            // whoever has the slot is asked again, not whom it names this once
            Redirection::Ask(_) if !at_once => later.push((node, pending)),
            Redirection::Ask(_) => {
                let asking = Pending { op: pending.op, sent: Sent::Asking, redirected: 0 };
                self.send_to(to, asking);
                self.send_to(to, pending);
            }
            Redirection::Later => later.push((to, pending)),
        }
        Ok(())
    }

    pub(super) fn is_idle(&self) -> bool {
        self.idle.len() == self.ops.len()
    }
}

enum Next {
    Nothing,
    Write,
    Fetch(Vec<Vec<u8>>),
    FetchAll(Vec<Vec<u8>>),
}

/// What a reply means to its operation.
fn meaning(
    client: &mut Client,
    op: &mut Running,
    sent: &Sent,
    reply: &Reply<'_>,
    single: bool,
) -> Result<Next, KvError> {
    let mut scanned = |key: &[u8], value: &Reply<'_>| match value {
        Reply::Bytes(Some(value)) => {
            op.bytes += value.len() as u64;
            client.look_scanned(key, value)
        }
        _ => Err(KvError::Wrong(format!(
            "the key {} is in the index and not in the database",
            String::from_utf8_lossy(key)
        ))),
    };
    match (sent, reply) {
        (Sent::Get, Reply::Bytes(Some(value))) => {
            client.look(&op.step, &op.key, value)?;
            op.bytes += value.len() as u64;
            Ok(if op.step.op == Op::Modify { Next::Write } else { Next::Nothing })
        }
        (Sent::Get, _) => Err(missing(op.step.record, &op.key)),
        (Sent::Scanned(key), value) => scanned(key, value).map(|()| Next::Nothing),
        (Sent::AllScanned(keys), Reply::Array(values)) => {
            keys.iter().zip(values).try_for_each(|(key, value)| scanned(key, value))?;
            Ok(Next::Nothing)
        }
        (Sent::Range(_), Reply::Array(keys)) => {
            let keys: Vec<Vec<u8>> = keys.iter().filter_map(|key| key.bytes().map(<[u8]>::to_vec)).collect();
            Ok(match (keys.is_empty(), single) {
                (true, _) => Next::Nothing,
                (false, true) => Next::FetchAll(keys),
                (false, false) => Next::Fetch(keys),
            })
        }
        (Sent::Set | Sent::Index | Sent::Asking, _) => Ok(Next::Nothing),
        (Sent::Range(_) | Sent::AllScanned(_), _) => {
            Err(KvError::Engine("Redis answers a list with something else".into()))
        }
    }
}
