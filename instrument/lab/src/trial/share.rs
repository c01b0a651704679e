//! The share of a container or a rank in a number of operations that all do together.

use stats::{Ended, Outcome};

/// How many of `ops` operations part `at` (from 0) of `parts` does: the shares add up, and differ by one at most. A share of 0 is
/// no load without a bound: that part does nothing.
pub(crate) fn of(ops: u64, at: u32, parts: u32) -> u64 {
    let (at, parts) = (u64::from(at), u64::from(parts.max(1)));
    ops / parts + u64::from(at < ops % parts)
}

/// Whether a part had something to do: one with a share of 0 has reached it with nothing done.
pub(crate) fn had_work(outcome: &Outcome) -> bool {
    outcome.ended != Ended::OpsReached || outcome.ops.iter().any(|op| op.ops > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        let shares = |ops, parts| (0..parts).map(|at| of(ops, at, parts)).collect::<Vec<u64>>();
        assert_eq!(shares(10, 4), [3, 3, 2, 2]);
        assert_eq!(shares(2, 4), [1, 1, 0, 0]);
        assert_eq!(shares(12, 4), [3; 4]);
        assert_eq!(shares(0, 2), [0, 0]);
        assert_eq!(shares(u64::MAX, 3).iter().sum::<u64>(), u64::MAX);
    }
}
