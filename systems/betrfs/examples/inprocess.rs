//! The file system without FUSE: `cargo run --release -p loadline-betrfs --example inprocess -- IMAGE [MIB] [FILES] [OPTIONS] [LAST]`.
//!
//! The micro-benchmarks of BetrFS v0.6 (EuroSys'22), smaller: a file of MIB written and read in 40 KiB pieces, random
//! writes of 4 KiB and of 4 B at any offset, FILES files of 200 B by four threads (TokuBench), then find, grep and rm of
//! them. Everything is made anew in IMAGE; each reading begins with an empty cache. Rates with the closing sync are in
//! brackets; behind them stands the processor time of an operation, with all threads and the closing checkpoint. With
//! LAST (`create`, `find`, `grep`) the phases after it are left out.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use betrfs::{DirStream, FormatOptions, Fs, MountOptions, NewFile};

const ROOT: u64 = 1;
const PIECE: usize = 40_960;

type Done<T> = Result<T, Box<dyn Error>>;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) % n
    }
}

type Phase = fn(&Bench) -> Done<()>;

struct Bench {
    image: String,
    options: MountOptions,
}

/// What a phase did, printed when the file system is closed.
struct Report {
    what: String,
    ops: u64,
    bytes: u64,
    time: Duration,
    all: Duration,
}

/// Processor time of this process.
fn processor_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

impl Bench {
    /// The file system, with nothing in memory.
    fn open(&self) -> Done<Fs> {
        Ok(betrfs::mount::open(Path::new(&self.image), &self.options)?)
    }

    /// Runs a phase on the file system with nothing in memory.
    fn phase(&self, run: impl FnOnce(&Fs) -> Done<Report>) -> Done<()> {
        let before = processor_time();
        let fs = self.open()?;
        let Report { what, ops, bytes, time, all } = run(&fs)?;
        fs.close()?;
        let processor = (processor_time() - before).as_secs_f64() / ops as f64 * 1e6;
        let rate = |t: Duration| ops as f64 / t.as_secs_f64();
        let mb = |t: Duration| bytes as f64 / t.as_secs_f64() / 1e6;
        println!(
            "{what:<18} {:>9.0} op/s {:>8.1} MB/s   [{:>9.0} op/s {:>8.1} MB/s]  {processor:>6.2} us/op",
            rate(time),
            mb(time),
            rate(all),
            mb(all),
        );
        Ok(())
    }
}

fn make(fs: &Fs, parent: u64, name: &str, kind: u32) -> Done<u64> {
    let new = NewFile { mode: kind | 0o755, ..NewFile::default() };
    Ok(fs.make(parent, name.as_bytes(), new)?.ino)
}

fn sequential(bench: &Bench, mib: u64) -> Done<()> {
    let mut random = Random(42);
    let data: Vec<u8> = (0..PIECE * 50).map(|_| random.below(256) as u8).collect();
    let pieces = (mib << 20) / PIECE as u64;
    bench.phase(|fs| {
        let start = Instant::now();
        let file = make(fs, ROOT, "big", libc::S_IFREG)?;
        for i in 0..pieces {
            fs.write(file, i * PIECE as u64, &data[(i % 50) as usize * PIECE..][..PIECE], false)?;
        }
        let time = start.elapsed();
        fs.sync()?;
        let (what, bytes) = ("sequential write".into(), pieces * PIECE as u64);
        Ok(Report { what, ops: pieces, bytes, time, all: start.elapsed() })
    })?;
    bench.phase(|fs| {
        let file = fs.lookup(ROOT, b"big")?.ino;
        let start = Instant::now();
        let mut bytes = 0;
        // What the kernel's read-ahead asks for.
        for i in 0..mib * 2 {
            bytes += fs.read(file, i << 19, 1 << 19)?.len() as u64;
        }
        let time = start.elapsed();
        Ok(Report { what: "sequential read".into(), ops: mib * 2, bytes, time, all: time })
    })
}

fn random_writes(bench: &Bench, mib: u64, bytes: usize) -> Done<()> {
    bench.phase(|fs| {
        let file = fs.lookup(ROOT, b"big")?.ino;
        let size = fs.attr(file)?.size;
        let writes = 262_144 * mib / 1024;
        let mut random = Random(42);
        let data = vec![0xA5; bytes];
        let start = Instant::now();
        for _ in 0..writes {
            fs.write(file, random.below(size - 4), &data, false)?;
        }
        let time = start.elapsed();
        fs.sync()?;
        let what = format!("random {bytes} B write");
        Ok(Report { what, ops: writes, bytes: writes * bytes as u64, time, all: start.elapsed() })
    })
}

/// A tree of directories with up to 128 subdirectories each; returns the leaves.
fn skeleton(fs: &Fs, parent: u64, files: u64, leaves: &mut Vec<u64>) -> Done<()> {
    if files <= 128 {
        leaves.push(parent);
        return Ok(());
    }
    for i in 0..files.div_ceil(128).min(128) {
        let dir = make(fs, parent, &format!("{i}"), libc::S_IFDIR)?;
        skeleton(fs, dir, files / 128, leaves)?;
    }
    Ok(())
}

fn create(bench: &Bench, files: u64) -> Done<()> {
    bench.phase(|fs| {
        let mut leaves = Vec::new();
        let top = make(fs, ROOT, "toku", libc::S_IFDIR)?;
        skeleton(fs, top, files, &mut leaves)?;
        let start = Instant::now();
        std::thread::scope(|scope| {
            for (thread, share) in leaves.chunks(leaves.len().div_ceil(4)).enumerate() {
                scope.spawn(move || {
                    let mut random = Random(thread as u64 + 1);
                    for i in 0..files / 4 {
                        let name = format!("benchfile.{}", random.below(1 << 52));
                        let dir = share[i as usize % share.len()];
                        // As the kernel does.
                        let _ = fs.lookup(dir, name.as_bytes());
                        let _ = fs.attr(dir);
                        let file = make(fs, dir, &name, libc::S_IFREG).expect("make");
                        fs.write(file, 0, &[b'x'; 200], false).expect("write");
                    }
                });
            }
        });
        let time = start.elapsed();
        fs.sync()?;
        Ok(Report { what: "create".into(), ops: files, bytes: files * 200, time, all: start.elapsed() })
    })
}

type Visit<'a> = &'a mut dyn FnMut(u64, &[u8], u64, bool) -> Done<()>;

/// Everything below `dir`; `visit` gets directory, name, inode and type.
fn walk(fs: &Fs, dir: u64, visit: Visit<'_>) -> Done<()> {
    let (mut stream, mut off) = (DirStream::default(), 0);
    loop {
        let (mut batch, before) = (Vec::new(), off);
        fs.read_dir(dir, &mut stream, off, true, &mut |item| {
            if batch.len() == 200 {
                return false;
            }
            off = item.next;
            batch.push((item.name.to_vec(), item.ino, item.kind == libc::S_IFDIR));
            true
        })?;
        if off == before {
            return Ok(());
        }
        for (name, ino, is_dir) in batch.iter().filter(|(name, ..)| name != b"." && name != b"..") {
            if *is_dir {
                walk(fs, *ino, visit)?;
            }
            visit(dir, name, *ino, *is_dir)?;
            fs.forget(*ino, 1);
        }
    }
}

fn find(bench: &Bench) -> Done<()> {
    bench.phase(|fs| {
        let (start, mut found) = (Instant::now(), 0);
        walk(fs, ROOT, &mut |_, _, _, _| {
            found += 1;
            Ok(())
        })?;
        let time = start.elapsed();
        Ok(Report { what: "find".into(), ops: found, bytes: 0, time, all: time })
    })
}

fn grep(bench: &Bench) -> Done<()> {
    bench.phase(|fs| {
        let (start, mut bytes, mut files) = (Instant::now(), 0, 0);
        let top = fs.lookup(ROOT, b"toku")?.ino;
        walk(fs, top, &mut |_, _, ino, is_dir| {
            if !is_dir {
                files += 1;
                bytes += fs.read(ino, 0, 1 << 17)?.len() as u64;
            }
            Ok(())
        })?;
        let time = start.elapsed();
        Ok(Report { what: "grep".into(), ops: files, bytes, time, all: time })
    })
}

fn rm(bench: &Bench) -> Done<()> {
    bench.phase(|fs| {
        let (start, mut gone) = (Instant::now(), 0);
        let top = fs.lookup(ROOT, b"toku")?.ino;
        walk(fs, top, &mut |dir, name, _, is_dir| {
            gone += 1;
            if is_dir {
                fs.rmdir(dir, name)?
            } else {
                fs.unlink(dir, name)?
            }
            Ok(())
        })?;
        fs.rmdir(ROOT, b"toku")?;
        let time = start.elapsed();
        fs.sync()?;
        Ok(Report { what: "rm".into(), ops: gone, bytes: 0, time, all: start.elapsed() })
    })
}

fn main() -> Done<()> {
    let mut arguments = std::env::args().skip(1);
    let image = arguments.next().ok_or("inprocess IMAGE [MIB] [FILES] [OPTIONS] [LAST]")?;
    let mib = arguments.next().map_or(Ok(1024), |n| n.parse())?;
    let files = arguments.next().map_or(Ok(200_000), |n| n.parse())?;
    let options = MountOptions::parse_in_process(&arguments.next().unwrap_or_default())?;
    let last = arguments.next().unwrap_or_default();
    let mut format = FormatOptions::default();
    (format.erase, format.size) = (true, Some((mib << 20) * 4 + (2 << 30)));
    betrfs::format(Path::new(&image), &format)?;
    let bench = Bench { image, options };
    if mib > 0 {
        sequential(&bench, mib)?;
        random_writes(&bench, mib, 4096)?;
        random_writes(&bench, mib, 4)?;
    }
    if files > 0 {
        create(&bench, files)?;
        let phases: [(&str, Phase); 3] = [("create", find), ("find", grep), ("grep", rm)];
        for (before, phase) in phases {
            if before == last {
                break;
            }
            phase(&bench)?;
        }
    }
    Ok(())
}
