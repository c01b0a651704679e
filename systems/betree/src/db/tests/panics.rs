//! Panics in the store's threads and in calls of its users: each is a failure of the store, nobody waits for a thread that is gone,
//! and nothing is acknowledged that is lost.

use super::*;
use crate::error::StopReason;
use crate::storage::Storage;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(120);
/// Keys of each user.
const KEYS: u64 = 100;

/// What is called when it panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Read,
    Write,
    Flush,
}

/// Panics once it is armed, once, at a call by threads of one name.
struct Panicking {
    below: SimStorage,
    thread: &'static str,
    call: Call,
    armed: Arc<AtomicBool>,
}

impl Panicking {
    fn meet(&self, call: Call) {
        let here = call == self.call && std::thread::current().name() == Some(self.thread);
        assert!(!here || !self.armed.swap(false, Ordering::SeqCst), "planted");
    }
}

impl Storage for Panicking {
    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()> {
        self.meet(Call::Read);
        self.below.read_at(buf, off)
    }

    fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()> {
        self.meet(Call::Write);
        self.below.write_at(buf, off)
    }

    fn flush(&self) -> io::Result<()> {
        self.meet(Call::Flush);
        self.below.flush()
    }

    fn discard(&self, off: u64, len: u64) -> io::Result<()> {
        self.below.discard(off, len)
    }
}

/// What a user's batch `n` puts. Every fourth is large enough for an extent.
fn value(n: u64) -> Vec<u8> {
    let len = if n.is_multiple_of(4) { 20_000 } else { 300 };
    n.to_le_bytes().repeat(len / 8)
}

fn key(user: u8, n: u64) -> [u8; 10] {
    let mut key = [b'u', user, 0, 0, 0, 0, 0, 0, 0, 0];
    key[2..].copy_from_slice(&(n % KEYS).to_be_bytes());
    key
}

/// Writes, syncs and reads until something fails. `acknowledged` is the last batch that a sync has answered for.
fn use_until_failure(db: &Db, user: u8, acknowledged: &AtomicU64) -> Result<()> {
    for n in 1.. {
        let mut batch = WriteBatch::new();
        batch.put(&key(user, n), &value(n)).put(&[b'n', user], &n.to_le_bytes());
        db.write(batch)?;
        if n.is_multiple_of(5) {
            db.sync()?;
            acknowledged.store(n, Ordering::SeqCst);
        }
        if n.is_multiple_of(40) {
            db.scan(&KeyRange::prefix(&[b'u', user])).try_for_each(|pair| pair.map(|_| ()))?;
        }
    }
    Ok(())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Receiver<()> {
    let (done, ended) = channel();
    let run = move || {
        let ended = catch_unwind(AssertUnwindSafe(work));
        let _ = done.send(());
        drop(ended);
    };
    std::thread::Builder::new().name(name.into()).spawn(run).expect("a thread");
    ended
}

/// The failure that the store keeps after a panic at `call` in `thread`.
fn panicked(thread: &'static str, call: Call) -> StopReason {
    let below = sim(8192);
    let options = Options {
        background: true,
        memtable_bytes: 64 << 10,
        checkpoint_interval: Duration::from_millis(20),
        sync_interval: Some(Duration::from_millis(5)),
        ..Options::tiny()
    };
    let armed = Arc::new(AtomicBool::new(false));
    let storage = Panicking { below: below.clone(), thread, call, armed: armed.clone() };
    let db = Arc::new(Db::create(storage, options.clone()).expect("create"));
    let users: Vec<_> = (0..2u8)
        .map(|user| {
            let (db, acknowledged) = (db.clone(), Arc::new(AtomicU64::new(0)));
            let last = acknowledged.clone();
            let ended = spawn("user", move || _ = use_until_failure(&db, user, &acknowledged));
            (ended, last)
        })
        .collect();
    armed.store(true, Ordering::SeqCst);
    let what = format!("{call:?} in {thread}");
    for (ended, _) in &users {
        ended.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: a user waits for ever"));
    }
    assert!(!armed.load(Ordering::SeqCst), "{what}: it was never met");
    let later = [db.sync(), db.checkpoint(), db.put(b"x", b"y").map(|_| ()), db.sync_to(1).map(|_| ())];
    for refused in later {
        assert!(matches!(refused, Err(Error::ReadOnly(_))), "{what}: {refused:?}");
    }
    let reason = db.failure().expect("a reason").clone();
    let found = below.power_cut(1);
    let closed = spawn("closes", move || drop(db));
    closed.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: it cannot be closed"));
    let again = Db::open(found, Options { background: false, ..options }).expect("open");
    for (user, (_, acknowledged)) in users.iter().enumerate() {
        let (user, acknowledged) = (user as u8, acknowledged.load(Ordering::SeqCst));
        let last = again.get(&[b'n', user]).expect("get");
        let last = last.map_or(0, |n| u64::from_le_bytes(n.try_into().expect("8 bytes")));
        assert!(last >= acknowledged, "{what}: {acknowledged} was acknowledged, {last} is there");
        for n in last.saturating_sub(KEYS - 1).max(1)..=last {
            assert!(again.get(&key(user, n)).expect("get") == Some(value(n)), "{what}: batch {n}");
        }
    }
    assert_sound(&again);
    reason
}

fn is_the_cause(thread: &'static str, calls: &[Call]) {
    for &call in calls {
        let reason = panicked(thread, call);
        // A lock whose holder panicked may be met before the panic itself is known.
        let known = call != Call::Read || !reason.cause.starts_with("a thread panicked while");
        let expected = format!("thread {thread} panicked: planted");
        assert!(!known || reason.cause == expected, "{call:?} in {thread}: {reason}");
    }
}

#[test]
fn a_panic_of_the_thread_that_applies_memtables_fails_the_store() {
    is_the_cause("betree-flush", &[Call::Read, Call::Write]);
}

#[test]
fn a_panic_of_the_thread_that_writes_nodes_fails_the_store() {
    is_the_cause("betree-write", &[Call::Write]);
}

#[test]
fn a_panic_of_the_checkpointer_fails_the_store() {
    is_the_cause("betree-checkpoint", &[Call::Write, Call::Flush]);
}

#[test]
fn a_panic_of_the_thread_that_writes_the_log_fails_the_store() {
    is_the_cause("betree-log", &[Call::Write, Call::Flush]);
}

#[test]
fn a_panic_of_a_thread_that_writes_extents_fails_the_store() {
    is_the_cause("betree-extents", &[Call::Write]);
}

#[test]
fn a_panic_of_a_thread_that_reads_ahead_fails_the_store() {
    is_the_cause("betree-prefetch", &[Call::Read]);
}

#[test]
fn a_panic_in_a_call_of_a_user_fails_the_store() {
    is_the_cause("user", &[Call::Read, Call::Write, Call::Flush]);
}
