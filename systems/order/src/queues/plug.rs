//! Plug lists: a task's requests gather, merge, and leave together; the last one ends the epoch.

use ssd::Nanos;

use super::{Block, TaskLabel};
use crate::mutation::Mutation;
use crate::request::Request;
use crate::sync::TaskId;

impl Block {
    /// The task's requests gather in a list from here on.
    pub(crate) fn plug(&mut self, task: TaskId) {
        let task = task as usize;
        if self.plugs.len() <= task {
            self.plugs.resize(task + 1, None);
        }
        self.plugs[task] = Some(Vec::new());
    }

    /// Takes a request into the task's plug list, or sends it.
    pub(crate) fn bio(&mut self, request: Request, now: Nanos, who: &[TaskLabel]) {
        let before = request.blocks;
        for part in request.split(self.shape.limits.command_blocks) {
            self.stats.split += u64::from(part.blocks < before);
            self.part(self.damaged(part), now, who);
        }
    }

    /// What the planted bugs of splitting do to a fragment.
    fn damaged(&self, mut part: Request) -> Request {
        if self.planted(Mutation::SplitDropsIds) && part.blocks == self.shape.limits.command_blocks {
            (part.stream, part.minor) = (None, None);
        }
        part
    }

    fn part(&mut self, request: Request, now: Nanos, who: &[TaskLabel]) {
        let (lax, limits) = (self.planted(Mutation::MergeAcrossEpochs), self.shape.limits);
        let Some(Some(plug)) = self.plugs.get_mut(request.task as usize) else {
            self.enqueue(request, now, who);
            return;
        };
        if let Some(last) = plug.last_mut()
            && last.may_merge(&request, lax)
            && last.blocks + request.blocks <= limits.command_blocks
        {
            last.merge(request);
            self.stats.merged += 1;
        } else {
            plug.push(request);
        }
        let full =
            plug.len() >= limits.plug_requests || plug.last().is_some_and(|r| r.blocks >= limits.plug_blocks);
        if full {
            let list = std::mem::take(plug);
            self.send_all(list, now, who);
        }
    }

    fn send_all(&mut self, list: Vec<Request>, now: Nanos, who: &[TaskLabel]) {
        for r in list {
            self.enqueue(r, now, who);
        }
    }

    /// The task is scheduled out: its plug list is sent, its epoch stays open.
    pub(crate) fn schedule_out(&mut self, task: TaskId, now: Nanos, who: &[TaskLabel]) {
        if let Some(Some(plug)) = self.plugs.get_mut(task as usize) {
            let list = std::mem::take(plug);
            self.send_all(list, now, who);
        }
    }

    /// Ends the plug list; with `barrier` its last request ends the epoch of `stream`.
    pub(crate) fn unplug(&mut self, end: &Request, barrier: bool, now: Nanos, who: &[TaskLabel]) {
        let Some(Some(mut list)) = self.plugs.get_mut(end.task as usize).map(Option::take) else { return };
        if !barrier {
            return self.send_all(list, now, who);
        }
        let first = self.planted(Mutation::SplitBarrierFirst);
        if let Some(last) = if first { list.first_mut() } else { list.last_mut() } {
            last.barrier = true;
            return self.send_all(list, now, who);
        }
        // All of it was sent early, without a barrier: one by itself.
        if !self.planted(Mutation::BarrierLostWithPlug) {
            end.groups.iter().chain(&end.on_dispatch).for_each(|g| g.add());
            self.enqueue(Request { barrier: true, ..end.clone() }, now, who);
        }
    }
}
