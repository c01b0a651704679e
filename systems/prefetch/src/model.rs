//! What is believed of a device at a moment, in figures: what all decisions about streams are made of.
//!
//! [`Device`](crate::Device) gathers the evidence and says what it believes; here is only arithmetic, without a clock and
//! without anything that changes.

use crate::PAGE;
use crate::tuning::T;

const SECOND_NS: u64 = 1_000_000_000;

/// What the program by itself has a device deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// The latest rate, bytes/s; 0 before one is known.
    pub rate: u64,
    /// The highest one lately, bytes/s.
    pub peak: u64,
    /// Whether the latest rate was half as much again as the one before.
    pub grows: bool,
    /// Whether any read was seen.
    pub is_noted: bool,
}

/// What is believed of a device.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// Latency of a small read on an idle device, ns; 0 when unknown.
    pub latency_ns: u64,
    /// What a miss takes lately, the program's own queue included, ns: the cost of a miss.
    pub miss_ns: u64,
    /// Bandwidth, bytes/s, as it is told by misses in one queue, or assumed: the lower bound.
    pub bandwidth: u64,
    /// Whether misses behind our own requests are what told the bandwidth.
    pub is_told_by_ours: bool,
    /// Whether others read beside the streams what nobody foresaw: strays of the latest reads.
    pub has_strays: bool,
    /// The most that the device may deliver as far as is known, bytes/s: the upper bound.
    pub bandwidth_max: u64,
    /// Whether queueing was seen: the window is no longer what limits it.
    pub is_steady: bool,
    /// What the program has it deliver by itself.
    pub demand: Demand,
    /// What all streams may be ahead, bytes, by the queueing they cause.
    pub queue: u64,
    /// The same before anything was timed, bytes.
    pub queue_first: u64,
    /// Streams that are prefetched and read.
    pub streams: u64,
    /// The kernel's read-ahead window, bytes.
    pub readahead: u64,
    /// The most that one call prefetches, bytes.
    pub call: u64,
}

/// `a` x `b` / `c`, in full width.
pub(crate) fn scale(a: u64, b: u64, c: u64) -> u64 {
    u64::try_from(u128::from(a) * u128::from(b) / u128::from(c.max(1))).unwrap_or(u64::MAX)
}

/// How many bytes come in a time.
pub(crate) fn bytes_in(ns: u64, rate: u64) -> u64 {
    scale(ns, rate, SECOND_NS)
}

/// So many bytes in a time, bytes/s.
pub(crate) fn rate(bytes: u64, ns: u64) -> u64 {
    scale(bytes, SECOND_NS, ns)
}

/// How long bytes take, ns.
pub(crate) fn ns_of(bytes: u64, rate: u64) -> u64 {
    scale(bytes, SECOND_NS, rate)
}

impl Model {
    /// Latency x bandwidth (Little's law): what must be on its way for the device to be busy, bytes. Of the upper bound,
    /// since what is too much shows itself as a queue.
    pub fn bdp(&self) -> u64 {
        bytes_in(self.latency_ns, self.bandwidth_max).min(1 << 40)
    }

    /// Whether the kernel's window is a small part of what must be on its way: there is nothing to compare with.
    pub fn is_far(&self) -> bool {
        self.bdp() >= T::SAMPLE * self.readahead
    }

    /// Whether all that is asked for waits in one queue, instead of in turns.
    pub fn is_queued(&self) -> bool {
        self.is_told_by_ours || self.has_strays
    }

    /// Whether so much is of others, too, than one reader of so many bytes/s; 0: not known.
    pub fn is_shared(&self, own_rate: u64) -> bool {
        self.streams > 1 || self.has_strays || own_rate != 0 && self.demand.rate / 3 > own_rate / 2
    }

    /// How much sooner a second's worth of the program's reads may come, ns: its waits are no more than what the device is
    /// idle for (Little's law), and where others read, a read costs a thread that is woken first, unless it is awake from
    /// the read before: two of five misses at most.
    /// `rate` is what the program has the device deliver.
    pub fn gain_ns(&self, rate: u64, shared: bool) -> i64 {
        let second = SECOND_NS as i64;
        let busy_ns = ns_of(rate, self.bandwidth).min(SECOND_NS) as i64;
        let woken = if shared { ns_of(T::WAKE_NS, self.latency_ns) } else { 0 };
        second - busy_ns - woken.min(SECOND_NS * 2 / 5) as i64
    }

    /// Whether so much is worth the trouble.
    pub fn is_gain(&self, gain_ns: i64) -> bool {
        gain_ns > (SECOND_NS as i64 / 100) * T::GAIN_PERCENT as i64
    }

    /// The longest request beside which others read, bytes: one of theirs that comes after it waits a part of a miss longer.
    /// A page at least.
    ///
    /// Rule: Short requests.
    pub fn quantum_bytes(&self) -> u64 {
        let bytes = bytes_in(self.miss_ns, self.bandwidth) / T::DELAY_PART;
        (bytes / PAGE * PAGE).max(PAGE)
    }

    /// One request of a stream that reads alone, bytes: pages of a request arrive together, so that a long one makes the
    /// reads of all streams wait in turn. All streams' requests together take a quarter of a latency.
    pub fn chunk_bytes(&self) -> u64 {
        let (least, share) = (T::REQUEST_BYTES, self.bdp() / 4 / self.streams.max(1));
        share.clamp(least, self.call.max(least)).next_multiple_of(PAGE)
    }

    /// With more than this under way the device is busy: twice what arrives in a latency, four times while that still grows,
    /// and what one begins with at least, bytes.
    pub fn ample_bytes(&self) -> u64 {
        if self.demand.rate == 0 || self.latency_ns == 0 {
            return u64::MAX;
        }
        let times = if self.demand.grows { 4 } else { 2 };
        bytes_in(self.latency_ns, self.demand.rate).saturating_mul(times).max(self.queue_first)
    }

    /// The share of one stream in what all may be ahead, and at least `least`, bytes: what is in flight for it without
    /// prefetching.
    pub fn share_bytes(&self, least: u64) -> u64 {
        (self.queue / self.streams.max(1)).max(least)
    }

    /// How long a stream waits after asking for so many bytes, ns; `None` while it may ask for more at once. The streams
    /// of a device take turns, or one that asked for several pieces at once would get them at once, again and again,
    /// and every other one would wait for all of them. Turns are shorter than they could be, by a quarter once the
    /// bandwidth is known, by half before, and long enough not to wake a thread all the time. Until then a stream that
    /// the kernel does not read ahead of, and that read so much alone (`own_rate`, bytes/s; else 0), begins no faster than with
    /// what is ample: else the reads beside which it begins would wait for all that it asks for.
    ///
    /// Rule: Turns.
    pub fn turn_ns(&self, bytes: u64, own_rate: u64) -> Option<u64> {
        if self.is_queued() || !self.is_shared(own_rate) {
            return None;
        }
        let known = self.bandwidth;
        let ample = if own_rate == 0 { u64::MAX } else { ns_of(self.ample_bytes(), self.latency_ns) };
        let rate = if self.is_steady { known + known / 3 } else { known.saturating_mul(2).min(ample) };
        let turn = ns_of(bytes.saturating_mul(self.streams.max(1)), rate);
        let turn = turn.min(self.latency_ns.max(T::WAKE_NS));
        (bytes >= T::REQUEST_BYTES.min(self.quantum_bytes()) && turn >= T::WAKE_NS).then_some(turn)
    }
}
