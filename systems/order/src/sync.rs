//! What tasks wait for: groups of requests.

use std::cell::{Cell, RefCell};

/// Number of a task.
pub(crate) type TaskId = u32;

/// Requests that are waited for together.
#[derive(Debug, Default)]
pub(crate) struct Group {
    left: Cell<u32>,
    waiters: RefCell<Vec<TaskId>>,
}

impl Group {
    /// One more request belongs to it.
    pub(crate) fn add(&self) {
        self.left.set(self.left.get() + 1);
    }

    /// One request has ended; the tasks to wake if it was the last.
    pub(crate) fn done(&self) -> Vec<TaskId> {
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 { self.waiters.take() } else { Vec::new() }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.left.get() == 0
    }

    pub(crate) fn wait(&self, task: TaskId) {
        self.waiters.borrow_mut().push(task);
    }
}
