//! The one device of a run, and the oracle that watches it.

use std::collections::HashMap;

use ssd::oracle::{Oracle, Property, Violation};
use ssd::{Command, Completion, Config, Nanos, Op, Regime, Ssd, Status, Tags};

use crate::request::{Request, Verb};

/// Durable writes are dropped from the oracle's memory in lots of this size.
const FORGET_AT: usize = 4096;

#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) ssd: Ssd,
    pub(crate) oracle: Option<Oracle>,
    pub(crate) regime: Regime,
    sent: HashMap<u64, (Request, u16)>,
    next_id: u64,
    next_token: u64,
    done: Vec<Completion>,
    pub(crate) breaches: Vec<Violation>,
    /// With pinning off an epoch may be on several queues: P9 is not asked for.
    pub(crate) pinned: bool,
}

impl Device {
    pub(crate) fn new(
        config: Config,
        watched: bool,
        pinned: bool,
    ) -> Result<Device, ssd::error::ConfigError> {
        let (regime, plp) = (config.regime, config.profile.power.plp);
        let ssd = Ssd::new(config)?;
        let oracle = watched.then(|| Oracle::new(regime, plp, ssd.capacity_blocks()));
        Ok(Device {
            ssd,
            oracle,
            regime,
            sent: HashMap::new(),
            next_id: 0,
            next_token: 0,
            done: Vec::new(),
            breaches: Vec::new(),
            pinned,
        })
    }

    /// Fresh contents for `blocks` blocks: later versions have higher tokens.
    pub(crate) fn tokens(&mut self, blocks: u32) -> ssd::Token {
        let first = self.next_token + 1;
        self.next_token += u64::from(blocks);
        ssd::Token(first)
    }

    pub(crate) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) fn breach(&mut self, property: Property, detail: String) {
        if self.breaches.len() < 64 {
            self.breaches.push(Violation { property, detail });
        }
    }

    fn command(request: &Request, id: u64, tags: Tags, queue: u16) -> Command {
        let c = match request.verb {
            Verb::Read => Command::read_tokens(id, request.lba, request.blocks),
            Verb::Write { fua: false } => Command::write(id, request.lba, request.blocks, request.token),
            Verb::Write { fua: true } => Command::write_fua(id, request.lba, request.blocks, request.token),
            Verb::Flush => Command::flush(id),
            Verb::Barrier => Command::barrier(id),
            Verb::Close => Command { op: Op::CloseStream, ..Command::flush(id) },
        };
        c.tagged(tags).on_queue(queue)
    }

    /// Tells the oracle what the host means; `tags` are those the host believes it sends.
    pub(crate) fn announce(&mut self, request: &Request, id: u64, tags: Tags, queue: u16) {
        let Some(oracle) = &mut self.oracle else { return };
        let queue = if self.pinned { queue } else { 0 };
        let noted = oracle.submitted(&Self::command(request, id, tags, queue));
        if let Err(v) = noted {
            self.breach(v.property, v.detail);
        }
    }

    /// Puts the request, whose id is chosen, in hardware queue `queue`; gives it back if there is no room.
    pub(crate) fn submit(
        &mut self,
        request: Request,
        id: u64,
        tags: Tags,
        queue: u16,
        now: Nanos,
    ) -> Result<(), Box<Request>> {
        match self.ssd.submit(Self::command(&request, id, tags, queue), now) {
            Ok(()) => {
                self.sent.insert(id, (request, queue));
                Ok(())
            }
            Err(ssd::error::SubmitError::QueueFull { .. }) => Err(Box::new(request)),
            Err(e) => {
                // A model's fault, not a device's: nothing may wait for ever.
                self.breach(Property::Liveness, format!("{e}: {request:?}"));
                self.sent.insert(id, (request, queue));
                self.done.push(Completion { id, at: now, status: Status::Ok, tokens: None });
                Ok(())
            }
        }
    }

    pub(crate) fn next_event(&self) -> Option<Nanos> {
        if self.done.is_empty() { self.ssd.next_event() } else { Some(0) }
    }

    /// Requests that ended by `now` with their queue and time; refused ones come with `false`.
    pub(crate) fn advance(&mut self, now: Nanos, ended: &mut Vec<(Request, u16, Nanos, bool)>) {
        let mut done = std::mem::take(&mut self.done);
        self.ssd.advance(now, &mut done);
        for c in done.drain(..) {
            let Some((request, queue)) = self.sent.remove(&c.id) else { continue };
            let refused = matches!(c.status, Status::SuspensionFull { .. });
            if let Some(oracle) = self.oracle.as_mut().filter(|_| !refused) {
                let seen = match c.status {
                    Status::Ok => oracle.completed(c.id, c.tokens.as_deref()),
                    status => Err(Violation {
                        property: Property::NoLostPage,
                        detail: format!("{status:?} for {request:?}"),
                    }),
                };
                if request.verb == Verb::Flush && oracle.writes().len() > 2 * FORGET_AT {
                    oracle.forget_durable(FORGET_AT);
                }
                if let Err(v) = seen {
                    self.breach(v.property, v.detail);
                }
            }
            ended.push((request, queue, c.at, !refused));
        }
        self.done = done;
    }

    /// A refused command goes out again under another id.
    pub(crate) fn renamed(&mut self, old: u64) -> u64 {
        let new = self.new_id();
        if let Some(oracle) = &mut self.oracle {
            oracle.resent(old, new);
        }
        new
    }
}
