//! Speed of the store on a file: `cargo run --release -p loadline-betree --example bench -- [DIR] [MIB] [MODE]`.
//!
//! DIR is where the file goes (default: the temporary directory), MIB how much data to write first (default 1024),
//! MODE `buffered` (default), `direct`, or `uring` (direct through io_uring). The store's cache is a quarter of
//! the data, so reads are not all from memory. Each figure of writes includes a closing sync; the line after it
//! says what the sync alone, and then a checkpoint, took.

use betree::{Db, FileStorage, KeyRange, Options, Storage, UringStorage, WriteBatch};
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;

/// xorshift64*: the offsets only need to be spread.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % n
    }
}

struct File {
    path: PathBuf,
    mode: String,
    len: u64,
}

impl File {
    fn open(&self, create: bool) -> io::Result<Box<dyn Storage>> {
        let direct = self.mode != "buffered";
        if create {
            FileStorage::create(&self.path, self.len, direct)?;
        }
        let file = FileStorage::open(&self.path, direct)?;
        Ok(if self.mode == "uring" { Box::new(UringStorage::new(file)?) } else { Box::new(file) })
    }
}

fn key(block: u64) -> [u8; 12] {
    let mut key = *b"file\0\0\0\0\0\0\0\0";
    key[4..].copy_from_slice(&block.to_be_bytes());
    key
}

fn report(what: &str, ops: u64, bytes: u64, time: Duration) {
    let s = time.as_secs_f64();
    println!("{what:<28} {:>10.0} op/s {:>9.1} MB/s   {s:.2} s", ops as f64 / s, bytes as f64 / s / 1e6);
}

fn settle(db: &Db, what: &str, ops: u64, bytes: u64, start: Instant) -> betree::Result<()> {
    let written = start.elapsed();
    db.sync()?;
    report(what, ops, bytes, start.elapsed());
    let synced = start.elapsed();
    db.checkpoint()?;
    let checkpoint = (start.elapsed() - synced).as_secs_f64();
    let stats = db.stats();
    println!(
        "{:<28} sync {:.2} s, checkpoint {checkpoint:.2} s; since creation {} MB of nodes, {} MB of extents",
        "",
        (synced - written).as_secs_f64(),
        stats.node_bytes_written / 1_000_000,
        stats.extent_bytes_written / 1_000_000,
    );
    Ok(())
}

fn run(file: &File, mib: u64) -> Result<(), Box<dyn Error>> {
    let options = Options { cache_bytes: (mib << 20) as usize / 4, ..Options::default() };
    let db = Db::create(file.open(true)?, options.clone())?;
    let blocks = (mib << 20) / BLOCK as u64;
    let mut random = Random(42);
    let data: Vec<u8> = (0..BLOCK + 256).map(|_| random.below(256) as u8).collect();
    let block = |i: u64| &data[(i % 256) as usize..][..BLOCK];

    let start = Instant::now();
    for first in (0..blocks).step_by(256) {
        let mut batch = WriteBatch::new();
        (first..blocks.min(first + 256)).for_each(|i| _ = batch.put(&key(i), block(i)));
        db.write(batch)?;
    }
    settle(&db, "sequential put, 1 MiB batch", blocks, mib << 20, start)?;

    let n = 262_144.min(blocks);
    let start = Instant::now();
    for i in 0..n {
        db.put(&key(blocks + i), block(i))?;
    }
    settle(&db, "sequential put, 4 KiB", n, n * BLOCK as u64, start)?;

    let start = Instant::now();
    for i in 0..n {
        db.put(&key(random.below(blocks)), block(i))?;
    }
    settle(&db, "random put, 4 KiB", n, n * BLOCK as u64, start)?;

    let start = Instant::now();
    for i in 0..n {
        db.patch(&key(random.below(blocks)), random.below(4092) as u32, &(i as u32).to_le_bytes())?;
    }
    settle(&db, "random patch, 4 B", n, n * 4, start)?;

    let start = Instant::now();
    for i in 0..n {
        db.put(format!("name/{:016x}", random.below(u64::MAX)).as_bytes(), &block(i)[..200])?;
    }
    settle(&db, "random put, 200 B new keys", n, n * 200, start)?;
    db.close()?;

    let db = Db::open(file.open(false)?, options)?;
    let gets = 20_000;
    let start = Instant::now();
    for _ in 0..gets {
        db.get(&key(random.below(blocks)))?.ok_or("a block is missing")?;
    }
    report("point get, 4 KiB, cold start", gets, gets * BLOCK as u64, start.elapsed());

    let (start, mut rows, mut bytes) = (Instant::now(), 0, 0);
    for item in db.scan(&KeyRange::prefix(b"file")) {
        rows += 1;
        bytes += item?.1.len() as u64;
    }
    report("scan, 4 KiB values", rows, bytes, start.elapsed());

    let (start, mut rows, mut bytes) = (Instant::now(), 0, 0);
    for item in db.scan(&KeyRange::prefix(b"name/")) {
        rows += 1;
        bytes += item?.1.len() as u64;
    }
    report("scan, 200 B values", rows, bytes, start.elapsed());

    let start = Instant::now();
    db.rename_range(b"file", b"moved")?;
    println!("{:<28} {:.1} ms", "rename of all blocks", start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    db.delete_range(&KeyRange::prefix(b"moved"))?;
    db.sync()?;
    println!("{:<28} {:.1} ms", "range delete of all blocks", start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    let syncs = 500;
    for i in 0..syncs {
        db.put(b"fsync", &[i as u8; 100])?;
        db.sync()?;
    }
    report("put + sync", syncs, syncs * 100, start.elapsed());
    println!("{:?}", db.stats());
    db.close()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().map_or_else(std::env::temp_dir, |d| Path::new(&d).to_path_buf());
    let mib: u64 = args.next().map_or(Ok(1024), |n| n.parse())?;
    let mode = args.next().unwrap_or_else(|| "buffered".into());
    let path = dir.join(format!("betree-bench-{}", std::process::id()));
    let file = File { path, mode, len: (mib << 20) * 6 };
    println!("{mib} MiB of data, {} I/O", file.mode);
    let done = run(&file, mib);
    std::fs::remove_file(&file.path)?;
    done
}
