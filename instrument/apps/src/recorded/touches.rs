//! Who has touched what: which operations of other threads one has to wait for.
//!
//! An operation waits for those that had ended before it began in the recording, and touched the same thing (a name, an open
//! file, a file's contents), where one of the two changes it. What ran side by side then may do so again. An operation is numbered
//! by its place in the recording, where they stand as they ended: who waits has a larger number than whom it waits for, so that
//! no two can wait for each other.

/// Marks that one thread has on one thing. An operation that took so long that others did more than these meanwhile waits for the
/// oldest that is known, though it began before that one ended.
const OF_THREAD_MAX: usize = 4;
/// Marks on one thing; the older half becomes a [`Crowd`] then.
const MARKS_MAX: usize = 256;
/// The same of directories on the way to a name: thousands may pass, and hardly anybody changes them.
const PASSED_MAX: usize = 16;
/// After so many nanoseconds nothing runs any more that began before a change, as a rule.
const LONG_AGO_NS: u64 = 1_000_000_000;

/// An operation that touched something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Its thread.
    pub thread: u32,
    /// Its place in the recording, from 1.
    pub number: u64,
    /// Nanoseconds since the recording's begin.
    pub begin_ns: u64,
    /// The same of its end.
    pub end_ns: u64,
    /// Who began at or after this waits for it: its end, or that of an older mark that it stands for.
    from_ns: u64,
}

impl Mark {
    /// An operation.
    pub(super) fn new(thread: u32, number: u64, begin_ns: u64, end_ns: u64) -> Mark {
        Mark { thread, number, begin_ns, end_ns, from_ns: end_ns }
    }
}

/// Operations of many threads, of which only the last one's number is kept: who waits for them waits for all that is before it.
#[derive(Debug, Clone, Copy)]
struct Crowd {
    number: u64,
    end_ns: u64,
    from_ns: u64,
}

/// What an operation waits for.
#[derive(Debug, Default)]
pub(super) struct Edges {
    /// Threads, and the number up to which each has to have ended its operations.
    pub of_threads: Vec<(u32, u64)>,
    /// The number up to which all threads have; 0: none.
    pub of_all: u64,
}

impl Edges {
    /// Nothing.
    pub(super) fn clear(&mut self) {
        self.of_threads.clear();
        self.of_all = 0;
    }

    /// Waits for that operation too.
    pub(super) fn add(&mut self, thread: u32, number: u64) {
        match self.of_threads.iter_mut().find(|(one, _)| *one == thread) {
            Some((_, known)) => *known = number.max(*known),
            None => self.of_threads.push((thread, number)),
        }
    }
}

/// The latest operations that touched something.
#[derive(Debug, Default)]
pub(super) struct Touches {
    changes: Marks,
    uses: Marks,
}

#[derive(Debug, Default)]
struct Marks {
    latest: Vec<Mark>,
    before: Option<Crowd>,
}

impl Touches {
    /// Uses it: waits for changes, and keeps later changes waiting.
    pub(super) fn used(&mut self, by: Mark, edges: &mut Edges) {
        self.changes.collect(by, self.covered(by), edges);
        self.uses.push(by, OF_THREAD_MAX, MARKS_MAX);
    }

    /// Passes by it on the way to something below: the same, remembered less exactly.
    pub(super) fn passed(&mut self, by: Mark, edges: &mut Edges) {
        self.changes.collect(by, self.covered(by), edges);
        self.uses.push(by, 1, PASSED_MAX);
    }

    /// Changes it: waits for whoever touched it, and keeps everybody later waiting.
    pub(super) fn changed(&mut self, by: Mark, edges: &mut Edges) {
        let covered = self.covered(by);
        self.changes.collect(by, covered, edges);
        self.uses.collect(by, covered, edges);
        let mut by = by;
        self.changes.forget_before(&mut by);
        self.uses.forget_before(&mut by);
        self.changes.push(by, OF_THREAD_MAX, MARKS_MAX);
    }

    /// The latest change that `by` follows in any case: that one has waited itself for what was before it.
    fn covered(&self, by: Mark) -> Option<Mark> {
        let behind = self.changes.latest.iter().filter(|mark| mark.end_ns <= by.begin_ns);
        behind.max_by_key(|mark| (mark.begin_ns, mark.number)).copied()
    }
}

impl Marks {
    fn collect(&self, by: Mark, covered: Option<Mark>, edges: &mut Edges) {
        let is_covered = |number: u64, end_ns: u64| {
            covered.is_some_and(|change| number < change.number && end_ns <= change.begin_ns)
        };
        for mark in &self.latest {
            let is_before = mark.thread != by.thread && mark.from_ns <= by.begin_ns;
            if is_before && !is_covered(mark.number, mark.end_ns) {
                edges.add(mark.thread, mark.number);
            }
        }
        if let Some(crowd) = self.before
            && crowd.from_ns <= by.begin_ns
            && !is_covered(crowd.number, crowd.end_ns)
        {
            edges.of_all = edges.of_all.max(crowd.number);
        }
    }

    fn push(&mut self, mark: Mark, of_thread_max: usize, marks_max: usize) {
        let mut own = (0..self.latest.len()).filter(|at| self.latest[*at].thread == mark.thread);
        let (oldest, next) = (own.next(), own.next());
        let count = [oldest, next].iter().flatten().count() + own.count();
        let mut mark = mark;
        if let Some(oldest) = oldest.filter(|_| count >= of_thread_max) {
            let from_ns = self.latest[oldest].from_ns;
            let heir = next.map_or(&mut mark, |next| &mut self.latest[next]);
            heir.from_ns = heir.from_ns.min(from_ns);
            self.latest.remove(oldest);
        }
        self.latest.push(mark);
        if self.latest.len() > marks_max {
            self.crowd(marks_max / 2);
        }
    }

    /// Makes a crowd of the oldest.
    fn crowd(&mut self, count: usize) {
        for mark in self.latest.drain(..count) {
            let crowd = self.before.get_or_insert(Crowd { number: 0, end_ns: 0, from_ns: u64::MAX });
            crowd.number = crowd.number.max(mark.number);
            crowd.end_ns = crowd.end_ns.max(mark.end_ns);
            crowd.from_ns = crowd.from_ns.min(mark.from_ns);
        }
    }

    /// A change stands for what had ended long before it began.
    fn forget_before(&mut self, change: &mut Mark) {
        let long_before = |end_ns: u64| end_ns.saturating_add(LONG_AGO_NS) <= change.begin_ns;
        let mut from_ns = change.from_ns;
        self.latest.retain(|mark| {
            let goes = long_before(mark.end_ns);
            if goes {
                from_ns = from_ns.min(mark.from_ns);
            }
            !goes
        });
        if let Some(crowd) = self.before.filter(|crowd| long_before(crowd.end_ns)) {
            from_ns = from_ns.min(crowd.from_ns);
            self.before = None;
        }
        change.from_ns = from_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(thread: u32, number: u64, begin_ns: u64, end_ns: u64) -> Mark {
        Mark::new(thread, number, begin_ns, end_ns)
    }

    /// What the last of some operations waits for; true ones change the thing.
    fn waits(operations: &[(Mark, bool)]) -> (Vec<(u32, u64)>, u64) {
        let mut touches = Touches::default();
        let mut edges = Edges::default();
        for (mark, changes) in operations {
            edges.clear();
            match changes {
                true => touches.changed(*mark, &mut edges),
                false => touches.used(*mark, &mut edges),
            }
        }
        edges.of_threads.sort_unstable();
        (edges.of_threads, edges.of_all)
    }

    #[test]
    fn what_had_ended_is_waited_for() {
        let write = (mark(0, 1, 0, 10), true);
        assert_eq!(waits(&[write, (mark(1, 2, 10, 20), false)]).0, [(0, 1)]);
        assert_eq!(waits(&[write, (mark(1, 2, 9, 20), false)]).0, [], "they ran side by side");
        assert_eq!(waits(&[write, (mark(0, 2, 10, 20), false)]).0, [], "a thread is in order anyhow");
        let read = (mark(1, 2, 10, 20), false);
        assert_eq!(waits(&[write, read, (mark(2, 3, 30, 40), false)]).0, [(0, 1)], "reads change nothing");
        assert_eq!(waits(&[write, read, (mark(2, 3, 30, 40), true)]).0, [(0, 1), (1, 2)]);
    }

    #[test]
    fn a_change_covers_what_it_waited_for() {
        let all = [(mark(0, 1, 0, 10), true), (mark(1, 2, 11, 20), true), (mark(2, 3, 30, 40), true)];
        assert_eq!(waits(&all).0, [(1, 2)]);
        let beside = [(mark(0, 1, 0, 15), true), (mark(1, 2, 11, 20), true), (mark(2, 3, 30, 40), true)];
        assert_eq!(waits(&beside).0, [(0, 1), (1, 2)], "the second did not wait for the first");
        let instant = [(mark(0, 1, 5, 5), true), (mark(1, 2, 5, 5), true), (mark(2, 3, 5, 5), true)];
        assert_eq!(waits(&instant).0, [(1, 2)], "without duration too");
    }

    /// However many there were, none is forgotten: who stands for it has to have ended.
    #[test]
    fn many_are_waited_for_as_a_crowd() {
        let many = 5_000;
        let mut all: Vec<(Mark, bool)> = (0..many)
            .map(|at| (mark(at, u64::from(at) + 1, u64::from(at), u64::from(at) + 1), false))
            .collect();
        all.push((mark(many, 6_000, 10_000, 10_001), true));
        let (of_threads, of_all) = waits(&all);
        assert!(of_threads.len() <= MARKS_MAX, "{}", of_threads.len());
        assert!(of_all > 4_000 && of_threads.iter().all(|(_, number)| *number > of_all), "{of_all}");
    }

    #[test]
    fn one_that_took_long_waits_for_the_oldest_that_is_known() {
        let mut all: Vec<(Mark, bool)> =
            (0..9).map(|at| (mark(0, at + 1, at * 10, at * 10 + 9), true)).collect();
        all.push((mark(1, 20, 25, 1_000), true));
        assert_eq!(waits(&all).0, [(0, 6)], "2 had ended; of the four that are kept 6 is the oldest");
        all.pop();
        all.push((mark(1, 20, 5, 1_000), true));
        assert_eq!(waits(&all).0, [], "none had ended");
    }

    #[test]
    fn what_was_long_ago_is_kept_in_one() {
        let mut touches = Touches::default();
        let mut edges = Edges::default();
        for at in 0..1_000u64 {
            let begin_ns = at * 2 * LONG_AGO_NS;
            touches.changed(mark(at as u32, at + 1, begin_ns, begin_ns + 1), &mut edges);
        }
        assert_eq!(touches.changes.latest.len(), 1);
        edges.clear();
        touches.used(mark(5_000, 2_000, 3, u64::MAX), &mut edges);
        assert_eq!(
            edges.of_threads,
            [(999, 1_000)],
            "one that began at 3 ns follows the first, and so the last"
        );
    }
}
