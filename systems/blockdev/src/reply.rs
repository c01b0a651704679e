//! Who waits for an answer of the device, whichever way the request came.

use crate::driver::Waiter;
use crate::engine::Outcome;
use crate::{fuse, ublk};

/// A request's way back.
#[derive(Debug)]
pub(crate) enum Reply {
    Fuse(fuse::Reply),
    Ublk(ublk::Waiting),
}

impl From<fuse::Reply> for Reply {
    fn from(reply: fuse::Reply) -> Reply {
        Reply::Fuse(reply)
    }
}

impl From<ublk::Waiting> for Reply {
    fn from(waiting: ublk::Waiting) -> Reply {
        Reply::Ublk(waiting)
    }
}

impl Waiter for Reply {
    fn answer(self, outcome: Outcome) {
        match self {
            Reply::Fuse(reply) => reply.answer(outcome),
            Reply::Ublk(reply) => reply.answer(outcome),
        }
    }
}
