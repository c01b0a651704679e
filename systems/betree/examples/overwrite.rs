//! What random writes cost as they go on: `cargo run --release -p loadline-betree --example overwrite -- IMAGE MIB WRITES
//! [aligned|any] [IMAGE_MIB]`.
//!
//! A large file, MIB of 4 KiB blocks as a file system keeps them, then WRITES of 4 KiB to places drawn at random, at block
//! boundaries or at any offset (two blocks change in part). IMAGE is made anew; it has IMAGE_MIB, by default four times the file.
//! A line for each sixteenth of the writes says how fast they were, what was written for each byte of them, and where the
//! space is.

mod load;

use betree::{Db, FileStorage, Options, WriteBatch};
use load::{BLOCK, Random, key};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

const MIB: u64 = 1 << 20;
const LINES: u64 = 16;

fn written(db: &Db) -> u64 {
    let stats = db.stats();
    stats.node_bytes_written + stats.extent_bytes_written + stats.log_bytes
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| args.get(i).map(|a| a.parse::<u64>()).transpose();
    let (Some(image), Some(mib), Some(writes)) = (args.first(), number(1)?, number(2)?) else {
        return Err("overwrite IMAGE MIB WRITES [aligned|any] [IMAGE_MIB]".into());
    };
    if mib == 0 {
        return Err("MIB must be 1 at least: a file without blocks has no places to write to".into());
    }
    let aligned = args.get(3).is_none_or(|a| a == "aligned");
    let image_mib = number(4)?.unwrap_or(4 * mib);
    let storage = FileStorage::create(Path::new(image), image_mib * MIB, false)?;
    let db = Db::create(Box::new(storage), Options { cache_bytes: 192 << 20, ..Options::default() })?;
    let blocks = mib * MIB / BLOCK;
    let data: Vec<u8> = (0..BLOCK + 256).map(|i| (i * 7 % 251) as u8).collect();
    for first in (0..blocks).step_by(256) {
        let mut batch = WriteBatch::new();
        (first..blocks.min(first + 256))
            .for_each(|i| _ = batch.put(&key(i), &data[(i % 256) as usize..][..BLOCK as usize]));
        db.write(batch)?;
    }
    db.checkpoint()?;
    let mut random = Random(1);
    let start = Instant::now();
    let (mut before, mut read, mut from, mut bytes) =
        (written(&db), db.stats().bytes_read, start.elapsed(), 0);
    println!("     MiB   MB/s  bytes written for each  read for each  free MiB  memory MiB");
    for i in 1..=writes {
        let block = &data[(i % 256) as usize..][..BLOCK as usize];
        let mut batch = WriteBatch::new();
        if aligned {
            batch.put(&key(random.below(blocks)), block);
        } else {
            let at = random.below((blocks - 1) * BLOCK);
            let (first, off) = (at / BLOCK, (at % BLOCK) as usize);
            batch.patch(&key(first), off as u32, &block[off..]);
            batch.patch(&key(first + 1), 0, &block[..off]);
        }
        db.write(batch)?;
        bytes += BLOCK;
        if i % (writes / LINES).max(1) == 0 {
            let (now, time, stats) = (written(&db), start.elapsed(), db.stats());
            println!(
                "{:>8} {:>6.1} {:>23.2} {:>14.2} {:>9} {:>11}",
                i * BLOCK / MIB,
                bytes as f64 / (time - from).as_secs_f64() / 1e6,
                (now - before) as f64 / bytes as f64,
                (stats.bytes_read - read) as f64 / bytes as f64,
                stats.free_bytes / MIB,
                stats.memory_bytes as u64 / MIB,
            );
            (before, read, from, bytes) = (now, stats.bytes_read, time, 0);
        }
    }
    db.close()?;
    Ok(())
}
