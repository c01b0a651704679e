//! What was measured of a device: latency, bandwidth, caps.

mod fetching;
mod limits;
mod live;
mod queue;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fetching::Fetching;
use limits::Limits;
use live::Live;
use queue::Queue;

use crate::latency::Latency;
use crate::model::{Model, bytes_in, ns_of, scale};
use crate::pace::Pace;
use crate::pairs::Pairs;
use crate::traffic::{Delivery, Traffic};
use crate::trial::Trial;
use crate::tuning::T;
use crate::window::Window;

/// The most steps of fetching that are under way at a time.
pub const FETCH_WIDTH_MAX: usize = 16;

/// A prefetch that a read waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// From the request to the end of the read, ns.
    pub elapsed_ns: u64,
    /// How far ahead all streams were, bytes.
    pub ahead: u64,
    /// Requests of this stream are no longer, bytes; [`Model::chunk_bytes`] at most.
    pub request: u64,
}

shared! {
    /// One device, as learned from reads. All methods may race: a lost update costs a sample.
    pub struct Device {
        latency: Latency,
        /// What it delivers.
        pub delivery: Delivery,
        pace: Pace,
        pairs: Pairs,
        /// What the kernel allows.
        pub limits: Limits,
        /// The streams that prefetch from it.
        pub live: Live,
        /// The fetch of a whole file.
        pub fetching: Fetching,
        /// What was asked of it.
        pub queue: Queue,
        window: Window,
        traffic: Traffic,
        /// Whether files are fetched in their order: reads of others wait behind them then, and say nothing of the latency.
        pub ordered: AtomicBool,
        /// Whether prefetching streams pays.
        pub trial: Trial,
    }
}

impl Device {
    /// What is believed of it now.
    pub fn model(&self) -> Model {
        let latency_ns = self.latency_ns();
        Model {
            latency_ns,
            miss_ns: self.typical_ns(),
            bandwidth: self.believed_rate(),
            is_told_by_ours: self.is_told_by_ours(),
            has_strays: self.live.has_strays(),
            bandwidth_max: self.full_rate(),
            is_steady: self.window.is_settled(),
            demand: self.traffic.demand(),
            queue: self.window.bytes(latency_ns),
            queue_first: self.window.first(latency_ns),
            streams: self.streams(),
            readahead: self.limits.readahead_bytes(),
            call: self.limits.call_bytes(),
        }
    }

    fn own_transfer_ns(&self, bytes: u64) -> u64 {
        ns_of(bytes, self.full_rate())
    }

    /// Learns from a slow read that ended at `now_ns`, a full miss or not, what the device delivers. What is prefetched
    /// lies between the program's own reads: pairs of these look slower than the device, but one of them and what was
    /// asked for just before it are a pair, too.
    pub fn learn_pair(&self, now_ns: u64, elapsed_ns: u64, bytes: u64, full: bool) {
        let begin_ns = now_ns.saturating_sub(elapsed_ns);
        match (full, self.queue.before(begin_ns)) {
            (true, _) if !self.is_prefetching() => self.pairs.note(now_ns, elapsed_ns, bytes),
            (true, Some(before)) => self.pairs.collide(now_ns, elapsed_ns, bytes, before, self.latency_ns()),
            _ => self.pairs.pass(now_ns),
        }
    }

    /// A miss of the program ended: once it is known what that takes of the device, so much less is asked for.
    pub fn note_miss(&self, now_ns: u64, bytes: u64) {
        let model = self.model();
        if model.is_queued() {
            self.queue.serve(now_ns, bytes, &model);
        }
    }

    /// See [`Model::is_told_by_ours`].
    fn is_told_by_ours(&self) -> bool {
        self.pairs.rate_behind_ours() > 0
    }

    /// When it has served what was asked for, ns; 0 for those who do not wait in one queue.
    pub fn free_ns(&self, is_queued: bool) -> u64 {
        if is_queued { self.queue.free_ns() } else { 0 }
    }

    /// The bandwidth that misses in one queue told, or what is assumed, bytes/s.
    fn believed_rate(&self) -> u64 {
        match self.pairs.rate() {
            0 => self.full_rate(),
            rate => rate.max(self.delivery.highest()),
        }
    }

    /// Learns from a miss that no prefetch had covered. Long reads are several requests, of which the program may have
    /// asked for some before.
    pub fn learn_miss(&self, elapsed_ns: u64, bytes: u64) {
        if self.is_prefetching() || self.fetching.take_left_over() {
            return;
        }
        // The kernel asks for two of its windows at a time, one while the other is copied.
        let requests =
            if bytes > T::RAMP_BYTES { (bytes / (2 * self.limits.readahead_bytes())).max(1) } else { 1 };
        let (elapsed_ns, transfer_ns) = (elapsed_ns / requests, self.own_transfer_ns(bytes) / requests);
        // What took hardly longer than its transfer had been asked for before, or the device is faster than was assumed; what
        // took less than twice as long may have been there in part.
        if bytes <= T::RAMP_BYTES || elapsed_ns / 2 > transfer_ns {
            self.latency.note_miss(elapsed_ns, transfer_ns);
        } else if elapsed_ns > transfer_ns.saturating_add(transfer_ns / 8) {
            self.latency.note_partial(elapsed_ns - transfer_ns);
        }
    }

    /// Learns from a read that may have waited for the rest only of what the kernel had read ahead.
    pub fn learn_partial_miss(&self, elapsed_ns: u64, bytes: u64) {
        // Better a guess than none: streams of a database's opening may be prefetched before any latency was seen.
        if !self.is_prefetching() || self.latency_ns() == 0 {
            self.latency.note_partial(elapsed_ns.saturating_sub(self.own_transfer_ns(bytes)));
        }
    }

    fn is_prefetching(&self) -> bool {
        self.streams() > 0 || self.fetching.runs() || self.ordered.load(Relaxed)
    }

    /// Learns from bytes that came from the device: the fastest window of 20 ms counts, slowly forgotten.
    pub fn learn_delivery(&self, now_ns: u64, bytes: u64) {
        self.delivery.note(now_ns, bytes, self.latency_ns());
    }

    /// Notes a read of a stream that misses, whether this one did or not: what the device is busy with.
    pub fn note_traffic(&self, now_ns: u64, bytes: u64) {
        self.traffic.note(now_ns, bytes, self.latency_ns());
    }

    /// Latency of a small read on an idle device, ns; 0 when unknown.
    pub fn latency_ns(&self) -> u64 {
        self.latency.ns()
    }

    /// The highest rate seen, bytes/s, or what is assumed of a device until it was seen to be busy.
    pub fn full_rate(&self) -> u64 {
        self.delivery.full()
    }

    /// Learns that a step of fetching so many bytes took so long.
    pub fn learn_fetch(&self, bytes: u64, elapsed_ns: u64) {
        self.pace.learn(bytes, elapsed_ns, self.own_transfer_ns(bytes), self.latency_ns());
    }

    /// How long fetching so many bytes takes, ns.
    pub fn transfer_ns(&self, bytes: u64) -> u64 {
        match self.pace.price_ns(self.latency_ns()) {
            None => self.own_transfer_ns(bytes),
            Some(price) => scale(bytes, price, 1 << 20),
        }
    }

    /// Learns from a prefetch that a read waited for.
    pub fn learn_wait(&self, wait: &Wait) {
        let Wait { elapsed_ns, ahead, request } = *wait;
        let latency = self.latency_ns();
        if elapsed_ns == 0 {
            return;
        }
        if latency == 0 {
            self.latency.note_partial(elapsed_ns);
            return;
        }
        let model = self.model();
        // Each stream has one request before the device, also in turn.
        let (streams, chunk) = (model.streams.max(1), model.chunk_bytes());
        // Threads may share a stream, so that several of its pieces are.
        let requests = request.saturating_mul(streams.max(4)).min(chunk * streams);
        let idle = latency + ns_of(requests, self.full_rate());
        let patience = self.window.patience_ns(idle);
        // Of the request that each stream reads at the moment half has been read.
        let ample = model.ample_bytes().saturating_add(requests / 2);
        if self.window.learn(elapsed_ns, (latency, patience), self.streams(), (ahead, ample)) && ahead > 0 {
            // What was delivered is known better than what was on its way.
            if let rate @ 1.. = self.delivery.highest() {
                self.delivery.learn_full(rate);
            }
        }
    }

    /// Notes the time: streams that nobody reads any more are counted no longer, whoever reads now.
    pub fn note_time(&self, now_ns: u64) {
        self.live.note_time(now_ns, self.latency_ns());
    }

    /// A stream that prefetches was read. `epoch` is kept with the stream, 0 before its first read here.
    pub fn stream_reads(&self, epoch: &mut u64, now_ns: u64) {
        self.note_time(now_ns);
        self.live.note_read(epoch);
    }

    /// Notes how long a miss took in another file than the one that is fetched, if any is.
    pub fn note_wait_beside(&self, elapsed_ns: u64) {
        if self.fetching.runs() {
            self.fetching.charge(self.waited_ns(elapsed_ns));
        }
    }

    /// How much longer than usual without a fetch a miss took, ns; negative: shorter. What is longer than twice the
    /// usual is a busy CPU rather than a tenth of a latency in the queue.
    pub fn waited_ns(&self, elapsed_ns: u64) -> i64 {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX / 2);
        signed(elapsed_ns.min(self.typical_ns().saturating_mul(2))) - signed(self.typical_ns())
    }

    /// Streams that prefetch and were read lately. One whose file is read no more (a database reads the end of each file
    /// when it opens it) takes nothing of the device, and nobody tells that it is over.
    pub fn streams(&self) -> u64 {
        self.live.count()
    }

    /// One step of fetching a file, bytes: a read that comes after it waits a part of a latency, three quarters of what it
    /// may wait for a stream since two steps may meet.
    pub fn fetch_step_bytes(&self) -> u64 {
        (self.fetch_bdp() * 3 / 4 / T::DELAY_PART)
            .clamp(crate::PAGE, 6 * T::RAMP_BYTES)
            .next_multiple_of(crate::PAGE)
    }

    /// Steps of fetching that may be under way at a time: five eighths of what the program leaves of latency x
    /// bandwidth, so that the device is not idle and nobody waits long.
    pub fn fetch_width(&self) -> usize {
        let free = self.free_bdp();
        (free * 5 / 8 / self.fetch_step_bytes()).clamp(1, FETCH_WIDTH_MAX as u64) as usize
    }

    /// What the program leaves of [`Device::fetch_bdp`], bytes.
    fn free_bdp(&self) -> u64 {
        self.fetch_bdp().saturating_sub(bytes_in(self.latency_ns(), self.traffic.demand().rate))
    }

    /// How long fetching so many bytes takes in what the program leaves of the device, ns.
    pub fn fetch_ns(&self, bytes: u64) -> u64 {
        let (all, free) = (self.fetch_bdp(), self.free_bdp());
        scale(self.transfer_ns(bytes), all.max(1), free.max(all / 64))
    }

    /// Latency x bandwidth, bytes; with the bandwidth that fetching found.
    fn fetch_bdp(&self) -> u64 {
        let latency_ns = self.latency_ns();
        let found = match self.pace.price_ns(latency_ns) {
            None => bytes_in(latency_ns, self.believed_rate()),
            // Where streams found it full others may have been the reason.
            Some(price) => {
                let most = T::BANDWIDTH.max(self.delivery.highest());
                scale(latency_ns, 1 << 20, price).min(bytes_in(latency_ns, most))
            }
        };
        found.min(1 << 40)
    }

    /// How long a miss took lately while nothing was prefetched, ns; the latency before that was seen.
    pub fn typical_ns(&self) -> u64 {
        self.latency.typical_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(elapsed_ns: u64, ahead: u64) -> Wait {
        Wait { elapsed_ns, ahead, request: u64::MAX }
    }

    #[test]
    fn reads_beside_files_fetched_in_order_teach_no_latency() {
        let device = Device::new();
        device.learn_miss(1_100_000, 64 << 10);
        let latency_ns = device.latency_ns();
        device.ordered.store(true, Relaxed);
        for _ in 0..100 {
            device.learn_miss(60_000_000, 64 << 10);
            device.learn_miss(60_000_000, 4 << 20);
            device.learn_partial_miss(60_000_000, 64 << 10);
        }
        assert_eq!(device.latency_ns(), latency_ns);
        device.ordered.store(false, Relaxed);
        (0..2).for_each(|_| device.learn_miss(2_000_000, 64 << 10));
        assert!(device.latency_ns() > latency_ns);
    }

    #[test]
    fn more_may_be_under_way_while_ever_more_arrives() {
        let device = Device::new();
        (0..3).for_each(|_| device.learn_miss(20_000_000, 4096));
        assert_eq!(device.model().ample_bytes(), u64::MAX);
        let mut now_ns = 1;
        device.note_traffic(now_ns, 0);
        // How many times what arrives in a latency, in two of which so many bytes did.
        let mut times = |bytes: u64| {
            now_ns += 40_000_000;
            device.note_traffic(now_ns, bytes);
            (device.model().ample_bytes() as f64 / (bytes as f64 / 2.0)).round()
        };
        assert_eq!(times(16 << 20), 2.0, "nothing to compare with");
        assert_eq!(times(32 << 20), 4.0, "twice as much arrives");
        assert_eq!(times(33 << 20), 2.0, "it is full");
    }

    #[test]
    fn a_request_beside_others_is_a_twelfth_of_their_wait() {
        let device = Device::new();
        (0..3).for_each(|_| device.learn_miss(1_200_000, 4096));
        assert_eq!(device.model().quantum_bytes(), 100_000 / 4096 * 4096, "of the assumed 1 GB/s");
        // Four threads begin together: each read of 100 kB takes 1 ms of the device.
        (2..=5u64).for_each(|at| device.learn_pair(at * 1_000_000, at * 1_000_000, 100_000, true));
        assert_eq!(device.model().quantum_bytes(), 8192);
        let near = Device::new();
        near.learn_miss(20_000, 4096);
        assert_eq!(near.model().quantum_bytes(), crate::PAGE);
    }

    #[test]
    fn latency_follows_the_fast_misses() {
        let device = Device::new();
        device.learn_miss(1_000_000, 4096);
        (0..100).for_each(|_| device.learn_miss(50_000_000, 4096));
        (0..30).for_each(|_| device.learn_miss(1_000_000, 4096));
        assert!((900_000..1_100_000).contains(&device.latency_ns()), "{}", device.latency_ns());
    }

    #[test]
    fn partial_waits_count_until_there_are_misses() {
        let device = Device::new();
        let wait = |us: u64| device.learn_partial_miss(us * 1_000, 0);
        (0..8).for_each(|_| wait(200));
        assert_eq!(device.latency_ns(), 200_000);
        (0..8).for_each(|at| wait(if at % 4 == 0 { 20_000 } else { 200 }));
        assert_eq!(device.latency_ns(), 20_000_000);
        // One hiccup of eight is none.
        let disk = Device::new();
        (0..80u64).for_each(|at| disk.learn_partial_miss(if at % 8 == 3 { 5_000_000 } else { 50_000 }, 0));
        assert_eq!(disk.latency_ns(), 50_000);
        // What is surely a miss is believed.
        disk.learn_miss(50_000, 0);
        (0..2).for_each(|_| disk.learn_miss(50_000, 0));
        (0..8).for_each(|_| disk.learn_partial_miss(20_000_000, 0));
        assert!(disk.latency_ns() < 60_000, "{}", disk.latency_ns());
    }

    #[test]
    fn long_reads_say_nothing_of_a_known_latency() {
        let device = Device::new();
        (0..4).for_each(|_| device.learn_miss(1_000_000, 4096));
        (0..50).for_each(|_| device.learn_miss(330_000, 320 << 10));
        assert_eq!(device.latency_ns(), 995_904);
    }

    /// A database opens its files: their indexes are long, and the kernel has read a part of most of them already.
    #[test]
    fn a_long_read_that_was_there_in_part_is_a_guess_at_most() {
        let device = Device::new();
        device.learn_miss(420_000, 320_000);
        assert_eq!(device.latency_ns(), 0);
        device.learn_miss(1_320_000, 320_000);
        assert_eq!(device.latency_ns(), 1_000_000);
        (0..7).for_each(|_| device.learn_miss(420_000, 320_000));
        (0..3).for_each(|_| device.learn_miss(1_000_000, 4096));
        assert!((900_000..=1_000_000).contains(&device.latency_ns()), "{}", device.latency_ns());
    }

    #[test]
    fn a_queue_of_our_own_is_no_latency() {
        let queued = Device::new();
        queued.learn_miss(1_000_000, 0);
        (0..64).for_each(|_| queued.learn_wait(&wait(3_000_000, 128 << 10)));
        assert_eq!(queued.latency_ns(), 1_000_000);
    }

    #[test]
    fn bandwidth_is_the_best_window() {
        let device = Device::new();
        for step in 0..1000u64 {
            device.learn_delivery(1 + step * 1_000_000, 250_000);
        }
        let rate = device.delivery.highest();
        assert!((240_000_000..280_000_000).contains(&rate), "{rate}");
    }

    #[test]
    fn a_slow_device_gets_a_small_queue_and_a_far_one_a_deep_queue() {
        let slow = Device::new();
        slow.learn_miss(1_000_000, 0);
        slow.delivery.learn_full(250_000_000);
        slow.learn_wait(&wait(1_300_000, 256 << 10));
        (0..50).for_each(|_| slow.learn_wait(&wait(4_000_000, 1 << 20)));
        assert!(slow.model().queue <= 256 << 10, "{}", slow.model().queue);
        let far = Device::new();
        far.learn_miss(20_000_000, 0);
        let first = far.model().queue;
        (0..8).for_each(|_| far.learn_wait(&wait(20_500_000, far.model().queue)));
        assert!(far.model().queue >= 8 * first && far.delivery.saturated() == 0, "{}", far.model().queue);
        for _ in 0..2 {
            far.live.begin();
            far.stream_reads(&mut 0, 1);
        }
        assert_eq!(far.model().share_bytes(0), far.model().queue / 2);
    }

    #[test]
    fn the_kernel_has_a_fast_disk_but_not_a_far_one() {
        let disk = Device::new();
        disk.limits.set(8 << 20, 8 << 20);
        disk.learn_miss(18_000, 0);
        assert!(disk.model().bdp() <= disk.limits.readahead_bytes());
        let far = Device::new();
        far.limits.set(128 << 10, 128 << 10);
        far.learn_miss(1_000_000, 0);
        assert!(far.model().bdp() > far.limits.readahead_bytes());
    }

    #[test]
    fn a_guess_is_better_than_no_latency_while_streams_are_prefetched() {
        let learners: [fn(&Device); 2] = [
            |device| device.learn_partial_miss(1_000_000, 4096),
            |device| device.learn_wait(&wait(1_000_000, 0)),
        ];
        for learn in learners {
            let device = Device::new();
            device.live.begin();
            device.stream_reads(&mut 0, 1_000_000);
            assert_eq!((device.streams(), device.latency_ns()), (1, 0));
            (0..8).for_each(|_| learn(&device));
            assert!((900_000..1_100_000).contains(&device.latency_ns()), "{}", device.latency_ns());
        }
    }

    #[test]
    fn streams_that_are_read_no_more_do_not_count() {
        let device = Device::new();
        let mut epochs = [0; 20];
        for epoch in &mut epochs {
            device.live.begin();
            device.stream_reads(epoch, 1);
        }
        assert_eq!(device.streams(), 20);
        // one goes on
        (1..60).for_each(|ms| device.stream_reads(&mut epochs[0], ms * 1_000_000));
        assert_eq!(device.streams(), 1);
        // after a pause the others are back
        epochs.iter_mut().for_each(|epoch| device.stream_reads(epoch, 900_000_000));
        assert_eq!(device.streams(), 20);
        (0..20).for_each(|_| device.live.end());
        assert_eq!(device.streams(), 0);
    }

    #[test]
    fn streams_never_go_below_none() {
        let device = Device::new();
        device.live.end();
        assert_eq!(device.streams(), 0);
    }
}
