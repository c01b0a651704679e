//! What flowops wait on: events, semaphores and broadcast blocks, shared by all processes of a workload.
//!
//! Everything stands on [`Event`], a counter that moves on when something has changed.

use std::sync::atomic::{AtomicI64, Ordering::*};

use crate::control::Control;
pub use crate::event::Event;
use crate::target::Target;

/// The semaphore of one `semblock` instance, with its high-water twin.
#[derive(Debug)]
pub struct Semaphore {
    value: AtomicI64,
    highwater: AtomicI64,
    event: Event,
}

impl Semaphore {
    /// An empty semaphore whose high-water mark allows `highwater` posts ahead.
    pub fn new(highwater: u64) -> Semaphore {
        let highwater = i64::try_from(highwater).unwrap_or(i64::MAX);
        Semaphore { value: AtomicI64::new(0), highwater: AtomicI64::new(highwater), event: Event::default() }
    }

    /// `sempost`: adds `count`; when `blocking`, first takes `count` from the high-water mark. False: stopped.
    pub async fn post<T: Target>(&self, target: &T, control: &Control, count: i64, blocking: bool) -> bool {
        if blocking && !take(&self.highwater, &self.event, target, control, count).await {
            return false;
        }
        self.value.fetch_add(count, AcqRel);
        self.event.notify();
        target.notified(&self.event);
        true
    }

    /// `semblock`: gives `count` back to the high-water mark, then takes `count`. False: stopped.
    pub async fn block<T: Target>(&self, target: &T, control: &Control, count: i64) -> bool {
        self.highwater.fetch_add(count, AcqRel);
        self.event.notify();
        target.notified(&self.event);
        take(&self.value, &self.event, target, control, count).await
    }
}

async fn take<T: Target>(from: &AtomicI64, event: &Event, target: &T, control: &Control, count: i64) -> bool {
    loop {
        let seen = event.seen();
        if from.fetch_update(AcqRel, Acquire, |value| (value >= count).then(|| value - count)).is_ok() {
            return true;
        }
        if control.stopped() {
            return false;
        }
        control.idle(target.wait(event, seen)).await;
    }
}
