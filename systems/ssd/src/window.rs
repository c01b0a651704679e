//! Tickets handed out in order and returned in any order; how far all are back.

use std::collections::VecDeque;

/// Tickets `0, 1, 2, ...`; [`Window::floor`] is the lowest one still out. A flush notes
/// [`Window::next`] and waits until the floor reaches it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    base: u64,
    back: VecDeque<bool>,
}

impl Window {
    pub(crate) fn open(&mut self) -> u64 {
        self.back.push_back(false);
        self.base + self.back.len() as u64 - 1
    }

    pub(crate) fn close(&mut self, ticket: u64) {
        let i = (ticket - self.base) as usize;
        self.back[i] = true;
        while self.back.front() == Some(&true) {
            self.back.pop_front();
            self.base += 1;
        }
    }

    pub(crate) fn next(&self) -> u64 {
        self.base + self.back.len() as u64
    }

    pub(crate) fn floor(&self) -> u64 {
        self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_waits_for_the_oldest() {
        let mut w = Window::default();
        let t: Vec<u64> = (0..4).map(|_| w.open()).collect();
        w.close(t[1]);
        w.close(t[3]);
        assert_eq!((w.floor(), w.next()), (0, 4));
        w.close(t[0]);
        assert_eq!(w.floor(), 2);
        w.close(t[2]);
        assert_eq!((w.floor(), w.next()), (4, 4));
        assert_eq!(w.open(), 4);
    }

    proptest::proptest! {
        /// Against the plain definition: the floor is the lowest ticket that is out.
        #[test]
        fn floor_is_the_lowest_ticket_out(steps in proptest::collection::vec(0usize..12, 1..200)) {
            let mut w = Window::default();
            let mut out: Vec<u64> = Vec::new();
            let mut next = 0;
            for s in steps {
                if s < 6 || out.is_empty() {
                    out.push(w.open());
                    next += 1;
                } else {
                    let ticket = out.remove(s % out.len());
                    w.close(ticket);
                }
                assert_eq!(w.next(), next);
                assert_eq!(w.floor(), out.iter().min().copied().unwrap_or(next));
            }
        }
    }
}
