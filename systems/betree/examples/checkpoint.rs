//! What a checkpoint writes: `cargo run --release -p loadline-betree --example checkpoint -- FILE [GIB]`.
//!
//! Fills a store in FILE, which it makes, with GIB (default 4) of values of 1 MiB, and prints the bytes that reach the storage in
//! checkpoints with nothing new, with one small value, and with 64 MiB.

use betree::{Db, FileStorage, Options, Storage};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MIB: usize = 1 << 20;
/// Checkpoints of each kind.
const ROUNDS: u64 = 100;
/// Values of the last kind.
const VALUES: u64 = 64;

struct Counted {
    below: FileStorage,
    written: Arc<AtomicU64>,
    flushes: Arc<AtomicU64>,
}

impl Storage for Counted {
    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()> {
        self.below.read_at(buf, off)
    }

    fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()> {
        self.written.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.below.write_at(buf, off)
    }

    fn flush(&self) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn discard(&self, off: u64, len: u64) -> io::Result<()> {
        self.below.discard(off, len)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().ok_or("which file?")?);
    let gib: u64 = args.next().map_or(Ok(4), |n| n.parse())?;
    let (written, flushes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let below = FileStorage::create(&path, (gib + 2) << 30, false)?;
    let storage = Counted { below, written: written.clone(), flushes: flushes.clone() };
    let db = Db::create(storage, Options { background: false, sync_interval: None, ..Options::default() })?;
    let mut value = vec![0; MIB];
    let mut put = |n: u64| {
        value[..8].copy_from_slice(&n.to_le_bytes());
        db.put(&n.to_be_bytes(), &value)
    };
    for n in 0..gib << 10 {
        put(n)?;
    }
    db.checkpoint()?;
    println!("{gib} GiB in {} extents and {} nodes", db.stats().extents, db.stats().nodes);
    for (what, rounds, values) in [("nothing new", ROUNDS, 0), ("64 MiB", ROUNDS / 10, VALUES)] {
        let (mut bytes, mut most, before) = (0, 0, flushes.load(Ordering::Relaxed));
        for round in 0..rounds {
            (0..values).try_for_each(|n| put((round * 97 + n * 31) % (gib << 10)).map(drop))?;
            let from = written.load(Ordering::Relaxed);
            db.checkpoint()?;
            let now = written.load(Ordering::Relaxed) - from;
            (bytes, most) = (bytes + now, most.max(now));
        }
        let flushed = flushes.load(Ordering::Relaxed) - before;
        println!("{what}: {} B for each checkpoint, {most} B at most, {flushed} flushes", bytes / rounds);
    }
    let (mut bytes, mut most) = (0, 0);
    for round in 0..ROUNDS {
        db.put(b"small", &round.to_le_bytes())?;
        let from = written.load(Ordering::Relaxed);
        db.checkpoint()?;
        let now = written.load(Ordering::Relaxed) - from;
        (bytes, most) = (bytes + now, most.max(now));
    }
    println!("one small value: {} B for each checkpoint, {most} B at most", bytes / ROUNDS);
    Ok(())
}
