//! What a read teaches: counters, the latency, the trial, the budget.

use super::{FileState, Look};
use crate::course::Shape;
use crate::device::Wait;
use crate::stream::Stream;
use crate::trial::Sample;
use crate::tuning::T;
use crate::{Mode, PAGE};

impl FileState {
    pub(super) fn account(&mut self, stream: &mut Stream, look: &Look) {
        let Look { ref read, covered, fetched, device, budget, mode } = *look;
        let slow = read.is_slow();
        if let Some(elapsed) = read.elapsed_ns {
            self.counters.timed += 1;
            stream.note_time(slow);
            if slow {
                self.counters.slow += 1;
                self.counters.blocked_ns += elapsed;
                let live = |other: &Stream| other.is_active() && self.streams.is_late(other);
                // Forward reads may wait for the rest of the kernel's own read-ahead only. The first ones of a file may
                // go on where unseen ones were, and what is prefetched for one stream another may meet.
                let partial = match stream.course.shape {
                    _ if self.streams.iter().any(live) => true,
                    Shape::Forward => true,
                    Shape::Unknown if stream.course.run_reads <= 1 => self.counters.reads <= T::SAMPLE,
                    Shape::Unknown => stream.course.is_upwards(),
                    Shape::Backward | Shape::Stride(_) => false,
                };
                if !self.coarse && !self.joined {
                    let rest = partial && stream.course.shape == Shape::Forward;
                    device.learn_pair(read.now_ns, elapsed, read.len, !covered && !fetched && !rest);
                }
                if !covered && !fetched && !self.coarse && !self.joined {
                    match partial {
                        true => device.learn_partial_miss(elapsed, read.len),
                        false => device.learn_miss(elapsed, read.len),
                    }
                }
            }
            if slow || covered {
                device.learn_delivery(read.now_ns, read.len);
            }
            if stream.slow_count() > 0 {
                device.note_traffic(read.now_ns, read.len);
            }
            if mode != Mode::Observe {
                self.try_out(stream, look, elapsed);
            }
        }
        let missed = slow && !covered && !fetched;
        let is_stray = missed && !stream.is_active();
        let is_late = is_stray && {
            let usual_ns = device.typical_ns();
            read.elapsed_ns.is_some_and(|elapsed| elapsed > usual_ns + usual_ns / T::DELAY_PART)
        };
        device.live.note_any(is_stray, is_late);
        if missed {
            device.note_miss(read.now_ns, read.len);
        }
        if covered {
            self.counters.useful += read.len;
            budget.give(stream.ahead.use_up(read.len));
            let timed = stream.ahead.timed_claim(&stream.course, read.offset, read.len);
            if slow {
                self.counters.late += 1;
                if let Some((since_ns, ahead)) = timed.filter(|_| !self.coarse) {
                    let ahead = ahead.saturating_mul(device.streams().max(1));
                    // Pieces of a stride are asked for one by one.
                    let request = if let Shape::Stride(_) = stream.course.shape {
                        stream.course.piece
                    } else {
                        u64::MAX
                    };
                    let elapsed_ns = read.now_ns.saturating_sub(since_ns);
                    device.learn_wait(&Wait { elapsed_ns, ahead, request });
                }
            }
        } else if fetched && !slow {
            // What is read again was useful once.
            let most = if mode == Mode::Observe { u64::MAX } else { self.counters.issued };
            self.counters.useful = (self.counters.useful + read.len).min(most.max(self.counters.useful));
            self.rent.on_hit(device.typical_ns());
        }
        if (covered || fetched) && (mode == Mode::Observe) == slow {
            // Observing, what was slow would have been fast.
            self.counters.saved_ns += device.latency_ns();
        }
    }

    /// Has a read count in the comparison of reads without and with prefetching.
    fn try_out(&self, stream: &Stream, look: &Look, elapsed_ns: u64) {
        let Look { ref read, covered, device, .. } = *look;
        let counts = (stream.is_active() || stream.slow_count() > 0) && !(covered && device.trial.holds());
        if counts && !device.fetching.runs() {
            let ahead = stream.course.shape == Shape::Backward
                || (stream.course.shape == Shape::Forward && self.random_hint);
            let page_ns = device.latency_ns().saturating_mul(read.len.min(PAGE)) / PAGE;
            let alone_ns = if ahead && stream.is_active() { page_ns } else { 0 };
            let sample = Sample { now_ns: read.now_ns, elapsed_ns, bytes: read.len, alone_ns };
            device.trial.count(&sample, device.streams() > 0, device.latency_ns());
        }
    }
}
