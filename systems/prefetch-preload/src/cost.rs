//! What the library costs this process and what it gives: when it costs more, it rests, longer each time.
//!
//! Cost is the time in the hooks, sampled, and the CPU time of the threads that follow the program. (The one that
//! fetches whole files has its own account: ski rental.) Gain is what the core counts as saved: a latency for each
//! read that found what was prefetched.

use core::cmp::Ordering;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use prefetch::experiment::{Experiment, Terms, Verdict};
use prefetch_os::area::Head;
use prefetch_os::sys;

use crate::table::{self, BUDGET, HIGH};
use crate::watch::{self, ON, RESTING, STATE};
use crate::{mappings, report, worker};

/// One of so many calls is timed.
const SAMPLE: u64 = 64;
/// A call that took longer was interrupted, ns.
const CALL_NS_MAX: u64 = 20_000;
/// How long costs and gains are summed before they are compared, ns.
const WINDOW_NS: u64 = 2_000_000_000;
/// So many comparisons in a row must be bad; the least and the longest rest, ns.
const TERMS: Terms = Terms { losses: 2, least: 4_000_000_000, most: 300_000_000_000 };
/// What a file fetched in its order is taken to save on a device that was not measured, ns.
const FILE_NS: u64 = 100_000;

/// Calls that were looked at.
static LOOKED: AtomicU64 = AtomicU64::new(1);
static HOOK_NS: AtomicU64 = AtomicU64::new(0);
static THREAD_NS: AtomicU64 = AtomicU64::new(0);
static GAIN_NS: AtomicU64 = AtomicU64::new(0);

static JUDGED_NS: AtomicU64 = AtomicU64::new(0);
static JUDGED_COST: AtomicU64 = AtomicU64::new(0);
static JUDGED_GAIN: AtomicU64 = AtomicU64::new(0);
static LIBRARY: Experiment = Experiment::new(TERMS);
static CALLS: AtomicU32 = AtomicU32::new(0);

/// What each call is said to cost instead of what it does, ns, and a shorter window; `u64::MAX`: as it is. Only in debug
/// builds, for the tests.
#[cfg(debug_assertions)]
pub static INJECTED_NS: AtomicU64 = AtomicU64::new(u64::MAX);

#[cfg(debug_assertions)]
fn injected() -> Option<u64> {
    Some(INJECTED_NS.load(Relaxed)).filter(|ns| *ns != u64::MAX)
}

#[cfg(not(debug_assertions))]
fn injected() -> Option<u64> {
    None
}

/// Does a call's work, and times one of [`SAMPLE`].
#[inline]
pub fn sampled(work: impl FnOnce()) {
    if !LOOKED.fetch_add(1, Relaxed).is_multiple_of(SAMPLE) {
        return work();
    }
    let begin_ns = sys::now_ns();
    work();
    let now_ns = sys::now_ns();
    let elapsed_ns = injected().unwrap_or(now_ns.saturating_sub(begin_ns).min(CALL_NS_MAX));
    HOOK_NS.fetch_add(elapsed_ns * SAMPLE, Relaxed);
    judge(now_ns);
}

/// Something was saved, ns.
#[inline]
pub fn gained(ns: u64) {
    if ns > 0 {
        GAIN_NS.fetch_add(ns, Relaxed);
    }
}

/// The program opened so many files that had been fetched in their order.
pub fn opened(files: u64) {
    let latency_ns = table::DEVICE.iter().map(prefetch::Device::latency_ns).max().unwrap_or(0);
    gained(files.saturating_mul(if latency_ns == 0 { FILE_NS } else { latency_ns }));
}

/// The CPU time of a thread of the library since it was last asked.
pub struct Meter(u64);

impl Meter {
    /// From now on.
    pub fn begin() -> Meter {
        Meter(sys::thread_ns())
    }

    /// Charges what was used, ns.
    pub fn charge(&mut self) -> u64 {
        let now = sys::thread_ns();
        let used = now.saturating_sub(self.0);
        self.0 = now;
        if injected().is_none() {
            THREAD_NS.fetch_add(used, Relaxed);
        }
        used
    }
}

/// Compares cost and gain every few seconds.
///
/// Rule: Rest.
pub fn judge(now_ns: u64) {
    let since_ns = JUDGED_NS.load(Relaxed);
    let elapsed_ns = now_ns.saturating_sub(since_ns);
    let window_ns = if injected().is_some() { WINDOW_NS / 100 } else { WINDOW_NS };
    if since_ns != 0 && elapsed_ns < window_ns
        || JUDGED_NS.compare_exchange(since_ns, now_ns, Relaxed, Relaxed).is_err()
    {
        return;
    }
    let (cost, gain) = (HOOK_NS.load(Relaxed) + THREAD_NS.load(Relaxed), GAIN_NS.load(Relaxed));
    let spent = cost.saturating_sub(JUDGED_COST.swap(cost, Relaxed));
    let saved = gain.saturating_sub(JUDGED_GAIN.swap(gain, Relaxed));
    if since_ns == 0 || STATE.load(Relaxed) != ON || table::is_kept_awake() {
        return;
    }
    // Under a two-hundredth of the time it is not worth a thought.
    let verdict = match saved.cmp(&spent) {
        Ordering::Greater => Verdict::Gain,
        Ordering::Less if spent >= elapsed_ns / 200 => Verdict::Loss,
        _ => Verdict::Even,
    };
    if LIBRARY.learn(verdict, now_ns) {
        rest();
    }
}

/// Turns the library off for a while.
fn rest() {
    if STATE.compare_exchange(ON, RESTING, Relaxed, Relaxed).is_err() {
        return;
    }
    for slot in (0..HIGH.load(Relaxed) as usize).filter_map(table::slot) {
        watch::lose(slot);
        if let Some(mut file) = slot.try_lock() {
            file.forget(slot.device(), &BUDGET);
        }
    }
    if let Some(area) = report::area() {
        area.add_head(Head::Off, 1);
    }
    tell();
    report::process();
}

/// A call that is not let pass while the library rests: now and then the clock is asked whether that is over.
#[cold]
pub fn while_resting() {
    if CALLS.fetch_add(1, Relaxed).is_multiple_of(16) {
        resume(sys::coarse_ns());
    }
}

/// Goes on if it is time.
pub fn resume(now_ns: u64) {
    if LIBRARY.rests(now_ns) || STATE.compare_exchange(RESTING, ON, Relaxed, Relaxed).is_err() {
        return;
    }
    JUDGED_NS.store(0, Relaxed);
    tell();
    if mappings::any() {
        worker::rouse(worker::Role::Mapper);
    }
}

/// Writes costs and gains into the statistics.
pub fn tell() {
    if let Some(area) = report::area() {
        area.set_head(Head::HookCalls, LOOKED.load(Relaxed));
        area.set_head(Head::HookNs, HOOK_NS.load(Relaxed));
        area.set_head(Head::ThreadNs, THREAD_NS.load(Relaxed));
        area.set_head(Head::Resting, u64::from(STATE.load(Relaxed) == RESTING));
    }
}
