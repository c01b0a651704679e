//! The locks of whatever waits for storage or for other threads. `tests/schedules.rs` has the crate over locks of its own, whose
//! schedules it explores; locks that are held for some instructions only are of the standard library everywhere.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How often a thread looks at a lock that others hold for as long as a batch or two (some 10 us) before it goes to sleep.
pub(crate) const LOCK_TRIES: u32 = 500;

/// Waits with a time limit end by themselves.
pub(crate) const TIMED_WAITS: bool = true;
