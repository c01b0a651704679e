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
}
