//! One terminal on Redis: its connections and the operations that it has under way. An operation is a small program: what
//! it sends, and what each reply means.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::KvError;
use crate::client::{Client, Op, Scratch, Step};

use super::INDEX;
use super::records::Commands;
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
#[derive(Debug, Clone, Copy)]
enum PendingReply {
    Read,
    Write,
    Index,
    Range(u64),
    /// The record of the next key that a scan has found.
    Scanned,
    /// ASKING: its answer says nothing.
    Asking,
}

/// The keys that a scan has found, and which of them is next; used again, it allocates nothing.
#[derive(Debug, Default)]
struct ScannedKeys {
    keys: Vec<u8>,
    ends: Vec<usize>,
    next: usize,
}

impl ScannedKeys {
    fn begin(&mut self) {
        self.keys.clear();
        self.ends.clear();
        self.next = 0;
    }

    fn add(&mut self, key: &[u8]) {
        self.keys.extend_from_slice(key);
        self.ends.push(self.keys.len());
    }

    fn key(&self) -> Option<&[u8]> {
        let end = *self.ends.get(self.next)?;
        let start = self.next.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.keys[start..end])
    }
}

#[derive(Debug)]
pub(super) struct Pending {
    op: usize,
    sent: PendingReply,
    /// How often the command was sent elsewhere, or again.
    pub(super) redirected: u32,
}

/// An operation under way.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) step: Step,
    room: Scratch,
    found: ScannedKeys,
    /// Of values, so far.
    pub(super) bytes: u64,
    pub(super) began: Instant,
    pub(super) due: Option<Instant>,
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
    commands: Arc<Commands>,
}

impl Terminal {
    pub(super) fn new(client: Client, ring: Ring, layout: &Layout, commands: &Arc<Commands>) -> Terminal {
        let now = Instant::now();
        let op = |_| Running {
            step: Step::nothing(),
            room: Scratch::default(),
            found: ScannedKeys::default(),
            bytes: 0,
            began: now,
            due: None,
        };
        let depth = layout.pipeline as usize;
        Terminal {
            client,
            pending: ring.wires.iter().map(|_| VecDeque::new()).collect(),
            waits_for_room: vec![false; ring.wires.len()],
            ring,
            ops: (0..depth).map(op).collect(),
            idle: (0..depth).rev().collect(),
            commands: commands.clone(),
        }
    }

    /// Begins the next operation, if a place for one is idle.
    pub(super) fn begin(&mut self, now: Instant, due: Option<Instant>) {
        let Some(at) = self.idle.pop() else { return };
        let step = self.client.choose();
        let op = &mut self.ops[at];
        (op.step, op.bytes, op.began, op.due) = (step, 0, now, due);
        self.client.prepare(&step, &mut op.room);
        match step.op {
            Op::Read | Op::Modify => self.send(at, PendingReply::Read),
            Op::Update | Op::Insert => self.write(at),
            Op::Scan(most) => self.send(at, PendingReply::Range(most)),
        }
    }

    fn write(&mut self, at: usize) {
        let Running { step, room, bytes, .. } = &mut self.ops[at];
        self.client.begin_write(step, room);
        *bytes += room.written.bytes().len() as u64;
        self.send(at, PendingReply::Write);
    }

    fn send(&mut self, at: usize, sent: PendingReply) {
        let Running { room, found, .. } = &self.ops[at];
        let key: &[u8] = match sent {
            PendingReply::Index | PendingReply::Range(_) => INDEX,
            PendingReply::Scanned => found.key().unwrap_or_default(),
            _ => &room.key,
        };
        let node = self.ring.node_of(key);
        self.client.calls += 1;
        self.send_to(node, Pending { op: at, sent, redirected: 0 });
    }

    pub(super) fn send_to(&mut self, node: usize, pending: Pending) {
        let Running { step, room, found, .. } = &self.ops[pending.op];
        let (commands, out) = (&self.commands, &mut self.ring.wires[node].out);
        match pending.sent {
            PendingReply::Read => commands.read(&room.key, step.asked, out),
            PendingReply::Write => commands.write(&room.key, &room.written, out),
            PendingReply::Index => commands.index(&room.key, out),
            PendingReply::Range(most) => commands.range(&room.key, most, out),
            PendingReply::Scanned => commands.read(found.key().unwrap_or_default(), step.asked, out),
            PendingReply::Asking => command(out, &[b"ASKING"]),
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
            if matches!(pending.sent, PendingReply::Asking) {
                continue;
            }
            if let Reply::Error(text) = &reply {
                let text = text.to_vec();
                self.refused(node, &text, pending, later)?;
                continue;
            }
            // what follows from a reply is sent when the reply is no longer needed
            let at = pending.op;
            match meaning(&mut self.client, &self.commands, &mut self.ops[at], pending.sent, &reply)? {
                Some(PendingReply::Write) => self.write(at),
                Some(next) => self.send(at, next),
                None => {
                    let op = &self.ops[at];
                    if matches!(op.step.op, Op::Update | Op::Insert | Op::Modify) {
                        self.client.end_write(&op.step);
                    }
                    ended(op);
                    self.idle.push(at);
                }
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
                let asking = Pending { op: pending.op, sent: PendingReply::Asking, redirected: 0 };
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

/// What a reply means to its operation, and what is sent next; none: it has ended.
fn meaning(
    client: &mut Client,
    commands: &Commands,
    op: &mut Running,
    sent: PendingReply,
    reply: &Reply<'_>,
) -> Result<Option<PendingReply>, KvError> {
    match sent {
        PendingReply::Read => {
            let Running { step, room, bytes, .. } = op;
            read(client, commands, step, reply, bytes, |client, field, value| {
                client.look(step, room, field, value)
            })
            .and_then(|fields| client.end_read(step, &room.key, fields))?;
            Ok((step.op == Op::Modify).then_some(PendingReply::Write))
        }
        PendingReply::Write => {
            Ok((op.step.op == Op::Insert && commands.indexed).then_some(PendingReply::Index))
        }
        PendingReply::Index | PendingReply::Asking => Ok(None),
        PendingReply::Range(_) => {
            let Reply::Array(keys) = reply else { return Err(something_else()) };
            op.found.begin();
            keys.iter().filter_map(|key| key.bytes()).for_each(|key| op.found.add(key));
            Ok((!keys.is_empty()).then_some(PendingReply::Scanned))
        }
        PendingReply::Scanned => {
            let Running { step, found, bytes, .. } = op;
            let key = found.key().unwrap_or_default();
            let fields = read(client, commands, step, reply, bytes, |client, field, value| {
                client.look_scanned(key, field, value)
            })?;
            if fields != client.asked(step) {
                return Err(KvError::Wrong(format!(
                    "the key {} is in the index; of the record {fields} of {} fields are there",
                    String::from_utf8_lossy(key),
                    client.asked(step)
                )));
            }
            client.count_scanned(1);
            found.next += 1;
            Ok(found.key().map(|_| PendingReply::Scanned))
        }
    }
}

/// Looks at a record; how many fields there are.
#[inline]
fn read(
    client: &mut Client,
    commands: &Commands,
    step: &Step,
    reply: &Reply<'_>,
    bytes: &mut u64,
    look: impl Fn(&mut Client, usize, &[u8]) -> Result<(), KvError>,
) -> Result<usize, KvError> {
    let (mut fields, mut judged) = (0, Ok(()));
    let shown = commands.fields(step.asked, reply, |field, value| {
        fields += 1;
        *bytes += value.len() as u64;
        if judged.is_ok() {
            judged = look(client, field, value);
        }
    });
    judged?;
    shown.map(|()| fields).ok_or_else(something_else)
}

fn something_else() -> KvError {
    KvError::Engine("Redis answers with something else than what was asked for".into())
}
