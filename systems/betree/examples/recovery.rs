//! What opening a store with a long log takes: `cargo run --release -p loadline-betree --example recovery -- IMAGE LOG_MIB [IMAGE_GIB
//! [CACHE_MIB]]`.
//!
//! Writes blocks of 4 KiB to places drawn at random among those of 1 GiB, until the log has LOG_MIB since the last checkpoint, and
//! leaves the store as a crash would. Another process opens it, and its time and its memory are printed. IMAGE is made anew; it
//! has IMAGE_GIB, 16 by default, of which the log has a sixteenth, at most 1 GiB, and a half of that may wait for a checkpoint.

mod load;

use betree::{Db, FileStorage, Options, WriteBatch};
use load::{BLOCK, Random, key};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Blocks that are written.
const BLOCKS: u64 = (1 << 30) / BLOCK;
/// Writes between two syncs: so nothing is bound to extents, and all is in the log.
const SYNCED: u64 = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, usual: u64| args.get(i).map_or(Ok(usual), |a| a.parse::<u64>());
    let usage = "recovery IMAGE LOG_MIB [IMAGE_GIB [CACHE_MIB]]";
    let image = Path::new(args.first().ok_or(usage)?);
    let options = Options {
        cache_bytes: (number(3, 256)? * MIB) as usize,
        checkpoint_interval: Duration::from_secs(1 << 20),
        ..Options::default()
    };
    if args.get(1).is_some_and(|word| word == "open") {
        return open(image, options);
    }
    let log_mib = args.get(1).ok_or(usage)?.parse::<u64>()?;
    let storage = FileStorage::create(image, number(2, 16)? << 30, false)?;
    let db = Db::create(storage, options)?;
    let began = db.stats();
    let mut random = Random(log_mib | 1);
    let data: Vec<u8> = (0..BLOCK + 256).map(|i| (i * 7 % 251) as u8).collect();
    let mut count = 0;
    while db.stats().log_position_bytes - began.log_position_bytes < log_mib * MIB {
        for i in 0..SYNCED {
            let mut batch = WriteBatch::new();
            batch.put(&key(random.below(BLOCKS)), &data[(i % 256) as usize..][..BLOCK as usize]);
            db.write(batch)?;
        }
        db.sync()?;
        count += SYNCED;
    }
    let stats = db.stats();
    if stats.checkpoints > began.checkpoints {
        return Err("so much never waits for a checkpoint: ask for less, or for a larger image".into());
    }
    let log = (stats.log_position_bytes - began.log_position_bytes) / MIB;
    println!("{count} writes, {log} MiB of log; {} MiB bound", stats.bound_bytes / MIB);
    // Without closing: as after a crash, the log is there.
    drop(db);
    let opened = Command::new(std::env::current_exe()?)
        .arg(image)
        .args(["open", "0", &number(3, 256)?.to_string()])
        .status()?;
    if opened.success() { Ok(()) } else { Err("it cannot be opened".into()) }
}

/// What the kernel says of this process, in MiB.
fn mib_of(field: &str) -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|l| l.starts_with(field)).ok_or("no such line")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse::<u64>()? >> 10)
}

fn open(image: &Path, options: Options) -> Result<(), Box<dyn Error>> {
    let storage = FileStorage::open(image, false)?;
    let begin = Instant::now();
    let db = Db::open(storage, options)?;
    let seconds = begin.elapsed().as_secs_f64();
    let (most, now) = (mib_of("VmHWM:")?, mib_of("RssAnon:")?);
    println!("opened in {seconds:.2} s; {most} MiB at most, {now} MiB now; batch {}", db.last_msn());
    Ok(())
}
