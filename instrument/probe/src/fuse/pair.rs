//! Puts what was sent, taken and answered together.
//!
//! No event says that a daemon takes a request. But a thread that takes one comes back from a system call, and the same
//! thread answers: so the request was taken at the first such return after it was sent and after the thread had answered
//! the one before. What another thread answers, which takes none itself, has a whole time only.

use std::collections::{HashMap, VecDeque};

use analysis::fuse::Request;

use super::event::{FuseEvent, FuseEventKind};

/// Requests that have no answer: FORGET, INTERRUPT, BATCH_FORGET.
const WITHOUT_ANSWER: [u32; 3] = [2, 36, 42];

/// Requests, and how many had only one end within the recording.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Paired {
    /// In order of sending.
    pub requests: Vec<Request>,
    /// Sent and not answered, or answered and not sent.
    pub halves: u64,
}

/// When a thread of the daemon came back since it answered last.
#[derive(Default)]
struct Server {
    backs_ns: VecDeque<u64>,
}

/// Returns that are remembered of a thread that does not answer: it takes what is answered by another, or nothing.
const BACKS_MAX: usize = 64;

impl Server {
    fn back(&mut self, at_ns: u64) {
        if self.backs_ns.len() == BACKS_MAX {
            self.backs_ns.pop_front();
        }
        self.backs_ns.push_back(at_ns);
    }

    /// When it took what was sent at `sent_ns` and is answered now.
    fn took(&mut self, sent_ns: u64) -> Option<u64> {
        let taken = self.backs_ns.iter().copied().find(|at| *at >= sent_ns);
        self.backs_ns.clear();
        taken
    }
}

/// Pairs `moments`, which are in order of time.
pub fn pair(moments: impl IntoIterator<Item = FuseEvent>) -> Paired {
    let mut paired = Paired::default();
    let mut open: HashMap<u64, (u32, u32, u64)> = HashMap::new();
    let mut servers: HashMap<u32, Server> = HashMap::new();
    for moment in moments {
        match moment.what {
            FuseEventKind::Sent { opcode, .. } if WITHOUT_ANSWER.contains(&opcode) => {}
            FuseEventKind::Sent { unique, opcode } => {
                if open.insert(unique, (opcode, moment.tid, moment.at_ns)).is_some() {
                    paired.halves += 1;
                }
            }
            FuseEventKind::Back => servers.entry(moment.tid).or_default().back(moment.at_ns),
            FuseEventKind::Ended { unique } => {
                let Some((opcode, tid, sent_ns)) = open.remove(&unique) else {
                    paired.halves += 1;
                    continue;
                };
                let taken_ns = servers.get_mut(&moment.tid).and_then(|server| server.took(sent_ns));
                paired.requests.push(Request { opcode, tid, sent_ns, taken_ns, ended_ns: moment.at_ns });
            }
        }
    }
    paired.halves += open.len() as u64;
    paired.requests.sort_by_key(|request| request.sent_ns);
    paired
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(at_ns: u64, tid: u32, unique: u64, opcode: u32) -> FuseEvent {
        FuseEvent { at_ns, tid, what: FuseEventKind::Sent { unique, opcode } }
    }

    fn back(at_ns: u64, tid: u32) -> FuseEvent {
        FuseEvent { at_ns, tid, what: FuseEventKind::Back }
    }

    fn ended(at_ns: u64, tid: u32, unique: u64) -> FuseEvent {
        FuseEvent { at_ns, tid, what: FuseEventKind::Ended { unique } }
    }

    fn taken(moments: &[FuseEvent]) -> Vec<Option<u64>> {
        pair(moments.iter().copied()).requests.iter().map(|request| request.taken_ns).collect()
    }

    #[test]
    fn a_request_is_taken_at_the_first_return_after_it() {
        let moments = [
            sent(10, 1, 2, 16),
            back(15, 9),
            ended(30, 9, 2),
            sent(40, 1, 4, 3),
            back(44, 9),
            ended(50, 9, 4),
        ];
        assert_eq!(taken(&moments), [Some(15), Some(44)]);
    }

    #[test]
    fn a_thread_that_is_busy_takes_the_next_one_later() {
        // The second is sent while the thread has the first.
        let moments = [
            sent(10, 1, 2, 16),
            back(15, 9),
            sent(20, 3, 4, 16),
            ended(30, 9, 2),
            back(31, 9),
            ended(39, 9, 4),
        ];
        assert_eq!(taken(&moments), [Some(15), Some(31)]);
    }

    #[test]
    fn what_is_answered_later_was_taken_at_the_first_return() {
        // A ring's thread: it comes back with the request, and again when another thread has the answer for it.
        let moments = [back(5, 9), sent(10, 1, 2, 20), back(15, 9), back(80, 9), ended(81, 9, 2)];
        assert_eq!(taken(&moments), [Some(15)]);
    }

    #[test]
    fn an_answer_by_a_thread_that_takes_none_has_a_whole_time_only() {
        let moments = [sent(10, 1, 2, 20), back(15, 9), ended(80, 12, 2)];
        assert_eq!(taken(&moments), [None]);
    }

    #[test]
    fn halves_are_counted_and_forgets_are_not() {
        let moments =
            [ended(1, 9, 8), sent(2, 1, 10, 1), sent(3, 1, 12, 2), sent(4, 1, 14, 3), ended(5, 9, 14)];
        let paired = pair(moments);
        assert_eq!((paired.halves, paired.requests.len()), (2, 1));
        assert_eq!((paired.requests[0].opcode, paired.requests[0].tid), (3, 1));
    }

    proptest::proptest! {
        #[test]
        fn any_moments_give_sound_times(
            all in proptest::collection::vec((0_u64..3, 0_u32..3, 0_u64..6, 1_u32..40), 0..60),
        ) {
            let moments = all.iter().enumerate().map(|(at, (what, tid, unique, opcode))| {
                let at = at as u64;
                match what {
                    0 => sent(at, *tid, *unique, *opcode),
                    1 => back(at, *tid),
                    _ => ended(at, *tid, *unique),
                }
            });
            for request in pair(moments).requests {
                assert!(request.sent_ns <= request.ended_ns);
                assert!(request.taken_ns.is_none_or(|at| (request.sent_ns..=request.ended_ns).contains(&at)));
            }
        }
    }
}
