//! Speed of the store: `cargo run --release -p loadline-betree --example bench -- [WHERE] [MIB] [MODE] [CASES] [STEPS]`.
//!
//! WHERE is a directory for a file (default: the temporary directory) or a block device **whose content is lost**; MIB
//! how much sequential data to write (default 1024); MODE `buffered` (default), `direct`, or `uring` (direct through
//! io_uring); CASES a comma-separated list of those below, or `all`; STEPS a step as `Features::up_to` has it. The store's
//! cache is a quarter of the data, so that reads are not all from memory. Each figure of writes includes a closing
//! sync.

mod load;

use betree::{Db, Features, FileStorage, KeyRange, Options, Storage, UringStorage, WriteBatch};
use load::{Random, key};
use std::error::Error;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const BLOCK: usize = load::BLOCK as usize;
const RANDOM_WRITES: u64 = 262_144;
/// Of writes with a sync each: hundreds on a device, hundreds of thousands in memory.
const SYNCS_TIME: Duration = Duration::from_secs(1);

struct Place {
    path: PathBuf,
    mode: String,
    device: bool,
}

impl Place {
    fn new(path: &Path, mode: String, len: u64) -> io::Result<Self> {
        let device = std::fs::metadata(path)?.file_type().is_block_device();
        let name = format!("betree-bench-{}", std::process::id());
        let path = if device { path.to_path_buf() } else { path.join(name) };
        if !device {
            FileStorage::create(&path, len, false)?;
        }
        Ok(Place { path, mode, device })
    }

    fn open(&self) -> io::Result<Box<dyn Storage>> {
        let file = FileStorage::open(&self.path, self.mode != "buffered")?;
        Ok(if self.mode == "uring" { Box::new(UringStorage::new(file)?) } else { Box::new(file) })
    }
}

/// Full path of a small file: 128 directories of 128 each.
fn name(i: u64) -> Vec<u8> {
    let dir = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50;
    let file = i.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 2;
    format!("Msrv/toku/dir-{:03}/dir-{:03}//benchfile.{file:019}", dir / 128, dir % 128).into_bytes()
}

fn report(what: &str, ops: u64, bytes: u64, time: Duration) {
    let s = time.as_secs_f64();
    println!("{what:<34} {:>10.0} op/s {:>9.1} MB/s {s:>8.2} s", ops as f64 / s, bytes as f64 / s / 1e6);
}

/// Syncs, reports, and takes a checkpoint outside the time.
fn settle(db: &Db, what: &str, ops: u64, bytes: u64, start: Instant) -> betree::Result<()> {
    let written = start.elapsed();
    db.sync()?;
    report(what, ops, bytes, start.elapsed());
    let synced = start.elapsed();
    db.checkpoint()?;
    let checkpoint = (start.elapsed() - synced).as_secs_f64();
    let stats = db.stats();
    println!(
        "{:<34} sync {:.2} s, checkpoint {checkpoint:.2} s; so far {} MB of nodes, {} MB of extents, {} MB of log",
        "",
        (synced - written).as_secs_f64(),
        stats.node_bytes_written / 1_000_000,
        stats.extent_bytes_written / 1_000_000,
        stats.log_bytes / 1_000_000,
    );
    Ok(())
}

struct Bench {
    place: Place,
    options: Options,
    db: Option<Db>,
    blocks: u64,
    files: u64,
    data: Vec<u8>,
    random: Random,
}

impl Bench {
    fn db(&self) -> Result<&Db, Box<dyn Error>> {
        self.db.as_ref().ok_or_else(|| "the store is closed".into())
    }

    fn block(&self, i: u64) -> &[u8] {
        &self.data[(i % 256) as usize..][..BLOCK]
    }

    /// Closes and opens, so that nothing is in the store's cache.
    fn cold(&mut self) -> Result<(), Box<dyn Error>> {
        if let Some(db) = self.db.take() {
            db.close()?;
        }
        if self.place.mode == "buffered" {
            // Not for a direct store: others may be using the page cache.
            let _ = std::fs::write("/proc/sys/vm/drop_caches", "1");
        }
        self.db = Some(Db::open(self.place.open()?, self.options.clone())?);
        Ok(())
    }

    fn sequential_write(&mut self) -> Result<(), Box<dyn Error>> {
        let (db, start) = (self.db()?, Instant::now());
        for first in (0..self.blocks).step_by(256) {
            let mut batch = WriteBatch::new();
            (first..self.blocks.min(first + 256)).for_each(|i| _ = batch.put(&key(i), self.block(i)));
            db.write(batch)?;
        }
        settle(db, "sequential write, 1 MiB batches", self.blocks, self.blocks * BLOCK as u64, start)?;
        Ok(())
    }

    fn sequential_read(&mut self) -> Result<(), Box<dyn Error>> {
        self.cold()?;
        let (start, mut rows, mut bytes) = (Instant::now(), 0, 0);
        for item in self.db()?.scan(&KeyRange::prefix(b"D")) {
            rows += 1;
            bytes += item?.1.len() as u64;
        }
        report("sequential read, cold", rows, bytes, start.elapsed());
        Ok(())
    }

    fn random_put(&mut self) -> Result<(), Box<dyn Error>> {
        let n = RANDOM_WRITES.min(self.blocks);
        let places: Vec<u64> = (0..n).map(|_| self.random.below(self.blocks)).collect();
        let (db, start) = (self.db()?, Instant::now());
        for (i, place) in places.iter().enumerate() {
            db.put(&key(*place), self.block(i as u64))?;
        }
        settle(db, "random put, 4 KiB", n, n * BLOCK as u64, start)?;
        Ok(())
    }

    /// Writes of `len` bytes at any offset, which may concern two blocks.
    fn random_patch(&mut self, len: usize) -> Result<(), Box<dyn Error>> {
        let n = RANDOM_WRITES.min(self.blocks);
        let end = self.blocks * BLOCK as u64 - len as u64;
        let places: Vec<u64> = (0..n).map(|_| self.random.below(end)).collect();
        let (db, start) = (self.db()?, Instant::now());
        for (i, at) in places.iter().enumerate() {
            let bytes = &self.block(i as u64)[..len];
            let (block, off) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
            let here = bytes.len().min(BLOCK - off);
            let mut batch = WriteBatch::new();
            batch.patch(&key(block), off as u32, &bytes[..here]);
            if here < bytes.len() {
                batch.patch(&key(block + 1), 0, &bytes[here..]);
            }
            db.write(batch)?;
        }
        let what = format!("random patch, {len} B, any offset");
        settle(db, &what, n, n * len as u64, start)?;
        Ok(())
    }

    fn create_files(&mut self, threads: u64) -> Result<(), Box<dyn Error>> {
        let (db, start) = (self.db()?, Instant::now());
        let share = self.files.div_ceil(threads);
        std::thread::scope(|s| {
            let work = |t: u64| {
                (t * share..self.files.min((t + 1) * share))
                    .try_for_each(|i| db.put(&name(i), &self.block(i)[..200]).map(|_| ()))
            };
            let running: Vec<_> = (0..threads).map(|t| s.spawn(move || work(t))).collect();
            running.into_iter().try_for_each(|t| t.join().unwrap_or(Ok(())))
        })?;
        let what = format!("create, 200 B, full paths, {threads} threads");
        settle(db, &what, self.files, self.files * 200, start)?;
        Ok(())
    }

    fn find(&mut self) -> Result<(), Box<dyn Error>> {
        self.cold()?;
        for what in ["find (scan of all names), cold", "find, warm"] {
            let (start, mut rows, mut bytes) = (Instant::now(), 0, 0);
            for item in self.db()?.scan(&KeyRange::prefix(b"M")) {
                rows += 1;
                bytes += item?.1.len() as u64;
            }
            report(what, rows, bytes, start.elapsed());
        }
        Ok(())
    }

    fn gets(&mut self) -> Result<(), Box<dyn Error>> {
        self.cold()?;
        let n = 20_000;
        let few: Vec<u64> = (0..n).map(|_| self.random.below(self.files)).collect();
        for what in ["point query, 200 B, cold", "point query, 200 B, warm"] {
            let (db, start) = (self.db()?, Instant::now());
            for i in &few {
                db.get(&name(*i))?.ok_or("a file is missing")?;
            }
            report(what, n, n * 200, start.elapsed());
        }
        let few: Vec<u64> = (0..n).map(|_| self.random.below(self.blocks)).collect();
        let (db, start) = (self.db()?, Instant::now());
        for i in &few {
            db.get(&key(*i))?.ok_or("a block is missing")?;
        }
        report("point query, 4 KiB, cold", n, n * BLOCK as u64, start.elapsed());
        Ok(())
    }

    fn deletes(&mut self) -> Result<(), Box<dyn Error>> {
        self.cold()?;
        let (db, start) = (self.db()?, Instant::now());
        for i in 0..self.files {
            db.delete(&name(i))?;
        }
        settle(db, "delete, one by one", self.files, 0, start)?;
        let start = Instant::now();
        db.rename_range(b"D", b"E")?;
        println!("{:<34} {:.1} ms", "rename of all blocks", start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        db.delete_range(&KeyRange::prefix(b"E"))?;
        db.sync()?;
        println!("{:<34} {:.1} ms", "range delete of all blocks", start.elapsed().as_secs_f64() * 1e3);
        Ok(())
    }

    fn syncs(&mut self) -> Result<(), Box<dyn Error>> {
        let (db, start, mut n) = (self.db()?, Instant::now(), 0);
        while start.elapsed() < SYNCS_TIME {
            db.put(b"fsync", &[n as u8; 100])?;
            db.sync()?;
            n += 1;
        }
        report("put + sync", n, n * 100, start.elapsed());
        Ok(())
    }

    fn case(&mut self, name: &str) -> Result<(), Box<dyn Error>> {
        match name {
            "seq-write" => self.sequential_write(),
            "seq-read" => self.sequential_read(),
            "rand-4k" => self.random_put(),
            "rand-4b" => self.random_patch(4),
            "rand-4ku" => self.random_patch(BLOCK),
            "toku1" => self.create_files(1),
            "toku" => self.create_files(4),
            "find" => self.find(),
            "get" => self.gets(),
            "delete" => self.deletes(),
            "sync" => self.syncs(),
            other => Err(format!("there is no case {other}").into()),
        }
    }
}

const CASES: &str = "seq-write,seq-read,rand-4k,rand-4ku,rand-4b,toku,find,get,delete,sync";

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().map_or_else(std::env::temp_dir, |d| Path::new(&d).to_path_buf());
    let mib: u64 = args.next().map_or(Ok(1024), |n| n.parse())?;
    let mode = args.next().unwrap_or_else(|| "buffered".into());
    let cases = args.next().filter(|c| c != "all").unwrap_or_else(|| CASES.into());
    let steps = args.next().unwrap_or_else(|| "v0.6".into());
    let steps = Features::up_to(&steps).ok_or("there is no such step")?;
    let place = Place::new(&path, mode, (mib << 20) * 3 + (4 << 30))?;
    println!("{mib} MiB of data, {} I/O", place.mode);
    let options = Options { cache_bytes: (mib << 20) as usize / 4, steps, ..Options::default() };
    let env = |n: &str, d: usize| std::env::var(n).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
    let options = Options {
        memtable_bytes: env("MEMTABLE", options.memtable_bytes),
        buffer_bytes: env("BUFFER", options.buffer_bytes),
        leaf_bytes: env("LEAF", options.leaf_bytes),
        fanout: env("FANOUT", options.fanout),
        ..options
    };
    let db = Some(Db::create(place.open()?, options.clone())?);
    let mut random = Random(42);
    let data = (0..BLOCK + 256).map(|_| random.below(256) as u8).collect();
    let (blocks, files) = ((mib << 20) / BLOCK as u64, 1_000_000.min(mib * 1000));
    let mut bench = Bench { place, options, db, blocks, files, data, random };
    let done = cases.split(',').try_for_each(|c| bench.case(c));
    if let Some(db) = bench.db.take() {
        println!("{:?}", db.stats());
        db.close()?;
    }
    if !bench.place.device {
        std::fs::remove_file(&bench.place.path)?;
    }
    done
}
