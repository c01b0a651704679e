//! Small files whole in memory: those that were just written, and those that are read again. To a mount the kernel's page
//! cache is that; who calls the file system in process would have each read put together from the tree's messages and leaves.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::content::{Budget, Content};
use crate::node::{Node, State};

/// Longest file that is kept, in bytes. Of a longer one the copy costs more than putting it together.
const FILE_MAX: usize = 64 << 10;
/// Files that are looked at for one that goes, when one comes.
const LOOKS_MAX: usize = 64;

/// All of them, within a budget.
#[derive(Debug)]
pub(crate) struct Contents {
    /// Of 0 bytes: nothing is kept.
    budget: Arc<Budget>,
    /// Who goes next. Taken while a node's state is held; states are only tried while it is held.
    queue: Mutex<VecDeque<Weak<Node>>>,
}

impl Contents {
    pub fn new(bytes: usize) -> Contents {
        Contents { budget: Arc::new(Budget::new(bytes)), queue: Mutex::default() }
    }

    /// `out` was read of `node` at `off`, whose `state` is held. If that is all of it, and not for the first time, it is
    /// kept.
    pub fn note(&self, node: &Arc<Node>, state: &State, off: u64, out: &[u8]) {
        let whole = off == 0 && out.len() as u64 == state.inode.size;
        if !whole || out.is_empty() || !self.takes(out.len() as u64) {
            return;
        }
        if !state.read_whole.load(Ordering::Relaxed) {
            state.read_whole.store(true, Ordering::Relaxed);
            return;
        }
        self.make_room(out.len());
        let mut content = Content::empty(&self.budget);
        if content.write(0, out) && state.content.set(content).is_ok() {
            self.enqueue(node, state);
        }
    }

    /// `data` was written to `node` at `off`; it had `before` bytes until then, and nothing but this has changed them.
    /// If all of it is known, it is kept.
    pub fn written(&self, node: &Arc<Node>, state: &mut State, off: u64, data: &[u8], before: u64) {
        if data.is_empty() {
            return;
        }
        let content = state.content.take();
        let end = off + data.len() as u64;
        let known = content.is_some() || before == 0 || off == 0 && end >= before;
        if !known || !self.takes(end.max(before)) {
            state.changes();
            return;
        }
        let mut content = content.unwrap_or_else(|| Content::empty(&self.budget));
        self.make_room(content.lacks(end as usize));
        if content.write(off as usize, data) {
            debug_assert_eq!(content.len() as u64, state.inode.size);
            let _ = state.content.set(content);
            self.enqueue(node, state);
        } else {
            state.changes();
        }
    }

    fn takes(&self, bytes: u64) -> bool {
        bytes <= FILE_MAX.min(self.budget.most()) as u64
    }

    /// Sees that the content of `node` has its turn to go some time.
    fn enqueue(&self, node: &Arc<Node>, state: &State) {
        if state.queued.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut queue = self.queue();
        if queue.len() == queue.capacity() {
            // Those that are gone keep memory. With as many places as are left free this is seldom done.
            queue.retain(|node| node.strong_count() > 0);
            let living = queue.len();
            queue.reserve(living);
        }
        queue.push_back(Arc::downgrade(node));
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Weak<Node>>> {
        self.queue.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Lets files go until there is room for `bytes`, or enough were looked at.
    fn make_room(&self, bytes: usize) {
        if self.budget.has_room(bytes) {
            return;
        }
        let mut queue = self.queue();
        for _ in 0..LOOKS_MAX {
            if self.budget.has_room(bytes) {
                return;
            }
            let Some(next) = queue.pop_front() else { return };
            let Some(node) = next.upgrade() else { continue };
            // Whoever has it reads or writes it: another turn, or nothing left to keep.
            let Some(mut state) = node.try_write() else {
                queue.push_back(next);
                continue;
            };
            let again = state.content.get().is_some_and(Content::was_used);
            if again {
                queue.push_back(next);
            } else {
                state.content.take();
                *state.queued.get_mut() = false;
            }
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.budget.kept()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(ino: u64, size: u64) -> Arc<Node> {
        let mut state = State::default();
        state.inode.size = size;
        Arc::new(Node::new(ino, None, state))
    }

    /// Reads all of a file, as often as said.
    fn read(contents: &Contents, node: &Arc<Node>, times: usize) {
        let state = node.read();
        let data = vec![node.ino as u8; state.inode.size as usize];
        for _ in 0..times {
            match state.content.get() {
                Some(content) => content.read(0, &mut vec![0; data.len()]),
                None => contents.note(node, &state, 0, &data),
            }
        }
    }

    fn is_kept(node: &Node) -> bool {
        node.read().content.get().is_some()
    }

    #[test]
    fn the_second_read_of_a_whole_small_file_keeps_it_until_it_changes() {
        let contents = Contents::new(1 << 20);
        let node = file(7, 100);
        read(&contents, &node, 1);
        assert!(!is_kept(&node));
        contents.note(&node, &node.read(), 0, &[7; 99]);
        contents.note(&node, &node.read(), 1, &[7; 99]);
        assert!(!is_kept(&node), "parts");
        read(&contents, &node, 1);
        assert!(is_kept(&node));
        let mut out = [0; 3];
        node.read().content.get().expect("kept").read(97, &mut out);
        assert_eq!((out, contents.bytes()), ([7; 3], 100));
        node.write().changes();
        assert!(!is_kept(&node));
        assert_eq!(contents.bytes(), 0);
        read(&contents, &node, 1);
        assert!(!is_kept(&node), "the first read after a change");
        for large in [FILE_MAX as u64 + 1, 2 << 20] {
            let node = file(8, large);
            read(&contents, &node, 3);
            assert!(!is_kept(&node), "{large} bytes");
        }
    }

    #[test]
    fn the_budget_holds_and_what_is_read_often_stays() {
        let contents = Contents::new(10_000);
        let often = file(1, 1000);
        read(&contents, &often, 3);
        let others: Vec<_> = (2..100).map(|ino| file(ino, 1000)).collect();
        for node in &others {
            read(&contents, node, 2);
            read(&contents, &often, 1);
            assert!(contents.bytes() <= 10_000);
        }
        assert!(is_kept(&often));
        assert!(others.iter().filter(|node| is_kept(node)).count() >= 8);
        drop((others, often));
        assert_eq!(contents.bytes(), 0);
    }

    #[test]
    fn a_file_that_changes_often_does_not_fill_the_queue() {
        let contents = Contents::new(10_000);
        let node = file(1, 10);
        for _ in 0..100 {
            read(&contents, &node, 2);
            node.write().changes();
        }
        assert_eq!(contents.queue().len(), 1);
    }
}
