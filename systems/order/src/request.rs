//! A block request and the rules of merging and splitting it.

use std::rc::Rc;

use ssd::{Tags, Token};

use crate::sync::{Group, TaskId};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Read,
    Write {
        fua: bool,
    },
    Flush,
    /// Ends the open epoch of its stream without a write.
    Barrier,
    /// Ends the stream.
    Close,
}

/// One request, from `submit_bio` to its completion.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) lba: u64,
    pub(crate) blocks: u32,
    /// Contents of the first block; block `i` holds `token + i`.
    pub(crate) token: Token,
    /// The task whose name the trace shows.
    pub(crate) task: TaskId,
    /// Stream of the submitter; None: no order wanted.
    pub(crate) stream: Option<u32>,
    /// Second stream.
    pub(crate) minor: Option<u32>,
    /// Ends its epoch.
    pub(crate) barrier: bool,
    /// Core it was submitted on, later the core whose software queue holds it.
    pub(crate) core: u16,
    /// Who waits.
    pub(crate) groups: Vec<Rc<Group>>,
    /// Who waits for the ids: they are taken at dispatch, so whatever must come later has to wait for that.
    pub(crate) on_dispatch: Vec<Rc<Group>>,
    /// Once dispatched: command id and tags. They are kept over a requeue.
    pub(crate) sent: Option<(u64, Tags)>,
}

impl Request {
    pub(crate) fn new(verb: Verb, task: TaskId, lba: u64, blocks: u32, token: Token) -> Request {
        Request {
            verb,
            lba,
            blocks,
            token,
            task,
            stream: None,
            minor: None,
            barrier: false,
            core: 0,
            groups: Vec::new(),
            on_dispatch: Vec::new(),
            sent: None,
        }
    }

    pub(crate) fn ordered(mut self, stream: Option<u32>, minor: Option<u32>) -> Request {
        (self.stream, self.minor) = (stream, minor);
        self
    }

    pub(crate) fn waited(mut self, group: &Rc<Group>) -> Request {
        group.add();
        self.groups.push(group.clone());
        self
    }

    /// Whether `later`, submitted after `self` by the same task, may become part of it: contiguous, of the same
    /// streams, and `self` does not end an epoch. Both then belong to the same epoch, and the result ends it if
    /// `later` does. `lax` forgets about streams and epochs (a planted bug).
    pub(crate) fn may_merge(&self, later: &Request, lax: bool) -> bool {
        let plain = self.verb == Verb::Write { fua: false } && later.verb == self.verb && self.sent.is_none();
        let joined = self.lba + u64::from(self.blocks) == later.lba
            && self.token.0 + u64::from(self.blocks) == later.token.0;
        let same = self.stream == later.stream && self.minor == later.minor && !self.barrier;
        plain && joined && (lax || same)
    }

    pub(crate) fn merge(&mut self, later: Request) {
        self.blocks += later.blocks;
        self.barrier = later.barrier;
        self.groups.extend(later.groups);
        self.on_dispatch.extend(later.on_dispatch);
    }

    /// Fragments of at most `most` blocks. Each keeps the ids, the last one the barrier.
    pub(crate) fn split(self, most: u32) -> Vec<Request> {
        if self.blocks <= most || !matches!(self.verb, Verb::Write { .. } | Verb::Read) {
            return vec![self];
        }
        let count = self.blocks.div_ceil(most);
        (0..count)
            .map(|i| {
                let (from, last) = (i * most, i + 1 == count);
                if i > 0 {
                    self.groups.iter().chain(&self.on_dispatch).for_each(|g| g.add());
                }
                Request {
                    lba: self.lba + u64::from(from),
                    token: Token(self.token.0 + u64::from(from)),
                    blocks: most.min(self.blocks - from),
                    barrier: self.barrier && last,
                    ..self.clone()
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(lba: u64, blocks: u32, stream: Option<u32>) -> Request {
        Request::new(Verb::Write { fua: false }, 0, lba, blocks, Token(100 + lba)).ordered(stream, None)
    }

    #[test]
    fn requests_merge_within_an_epoch_only() {
        let a = write(0, 2, Some(1));
        let b = write(2, 1, Some(1));
        assert!(a.may_merge(&b, false));
        let ended = Request { barrier: true, ..a.clone() };
        assert!(!ended.may_merge(&b, false), "the next epoch");
        assert!(!a.may_merge(&write(2, 1, Some(2)), false), "another stream");
        assert!(!a.may_merge(&write(2, 1, None), false), "tagged with untagged");
        assert!(!a.may_merge(&b.clone().ordered(Some(1), Some(9)), false), "dual with single");
        assert!(!a.may_merge(&write(3, 1, Some(1)), false), "a gap");
        let mut merged = a;
        merged.merge(Request { barrier: true, ..b });
        assert_eq!((merged.blocks, merged.barrier), (3, true));
    }

    #[test]
    fn the_last_fragment_ends_the_epoch() {
        let group = Rc::new(Group::default());
        let whole = Request { barrier: true, ..write(10, 20, Some(4)) }.waited(&group);
        let parts = whole.split(8);
        let shape: Vec<_> = parts.iter().map(|p| (p.lba, p.blocks, p.token.0, p.stream, p.barrier)).collect();
        assert_eq!(
            shape,
            [(10, 8, 110, Some(4), false), (18, 8, 118, Some(4), false), (26, 4, 126, Some(4), true)]
        );
        assert!(group.done().is_empty() && !group.is_done(), "waits for all three");
    }
}
