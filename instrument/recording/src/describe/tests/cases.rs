//! Recordings of known loads.

use super::load::Load;
use crate::call::Call;
use crate::format::{FileKind, Item};

const NEW: i32 = libc::O_CREAT | libc::O_WRONLY;

/// A pool of file names: those that are there, and those that are not.
struct Pool {
    there: Vec<(u32, u64)>,
    absent: Vec<u32>,
}

impl Pool {
    fn new(load: &mut Load, directory: &str, existing: u64, absent: u64, size: fn(&mut Load) -> u64) -> Pool {
        let name = |number: u64| format!("{directory}/{:08}/{:08}", number % 20, number);
        let there = (0..existing).map(|number| {
            let size = size(load);
            (load.file(&name(number), FileKind::File(size)), size)
        });
        let there = there.collect();
        let absent = (existing..existing + absent).map(|number| load.file(&name(number), FileKind::Absent));
        Pool { there, absent: absent.collect() }
    }

    fn some(&self, load: &mut Load) -> (u32, u64) {
        self.there[load.below(self.there.len() as u64) as usize]
    }
}

/// Creates and writes, appends, reads, deletes, asks: each once a pass, four threads.
pub fn fileserver() -> Vec<Item> {
    let mut load = Load::new();
    let size = |load: &mut Load| 4096 * (1 + load.below(60));
    let mut pool = Pool::new(&mut load, "/srv/homes", 800, 200, size);
    let threads: Vec<u32> = (0..4).map(|_| load.thread(7, "fileserver")).collect();
    for _ in 0..500 {
        for thread in threads.clone() {
            let path = pool.absent.remove(0);
            let size = size(&mut load);
            let file = load.open(thread, path, NEW);
            load.write_whole(thread, file, size, 65536);
            load.close(thread, file);
            let at = load.below(pool.there.len() as u64) as usize;
            let (other, end) = pool.there[at];
            let file = load.open(thread, other, libc::O_WRONLY | libc::O_APPEND);
            let bytes = 1 + load.below(16384);
            load.transfer(thread, Call::Write, file, end, bytes, bytes);
            load.close(thread, file);
            pool.there[at].1 += bytes;
            let (other, end) = pool.some(&mut load);
            let file = load.open(thread, other, libc::O_RDONLY);
            load.read_whole(thread, file, end, 1 << 20);
            load.close(thread, file);
            let at = load.below(pool.there.len() as u64) as usize;
            let (gone, _) = pool.there.swap_remove(at);
            load.named(thread, Call::Unlink, gone);
            pool.absent.push(gone);
            let (asked, _) = pool.some(&mut load);
            load.named(thread, Call::Stat, asked);
            pool.there.push((path, size));
            load.think(thread, 900_000);
        }
    }
    load.items()
}

/// A mail spool: delete; create, append, fsync; open, read, append, fsync; open, read.
pub fn varmail() -> Vec<Item> {
    let mut load = Load::new();
    load.took_ns = 20_000;
    let size = |load: &mut Load| 1 + load.below(32768);
    let mut pool = Pool::new(&mut load, "/var/spool", 800, 200, size);
    let threads: Vec<u32> = (0..8).map(|number| load.thread(7, &format!("session-{number}"))).collect();
    for _ in 0..200 {
        for thread in threads.clone() {
            let at = load.below(pool.there.len() as u64) as usize;
            let (gone, _) = pool.there.swap_remove(at);
            load.named(thread, Call::Unlink, gone);
            pool.absent.push(gone);
            let path = pool.absent.remove(0);
            let file = load.open(thread, path, NEW | libc::O_APPEND);
            let bytes = 1 + load.below(16384);
            load.transfer(thread, Call::Write, file, 0, bytes, bytes);
            load.sync(thread, Call::Fsync, file);
            load.close(thread, file);
            let at = load.below(pool.there.len() as u64) as usize;
            let (other, end) = pool.there[at];
            let file = load.open(thread, other, libc::O_RDWR | libc::O_APPEND);
            load.read_whole(thread, file, end, 1 << 20);
            let more = 1 + load.below(16384);
            load.transfer(thread, Call::Write, file, end, more, more);
            load.sync(thread, Call::Fsync, file);
            load.close(thread, file);
            pool.there[at].1 += more;
            let (other, end) = pool.some(&mut load);
            let file = load.open(thread, other, libc::O_RDONLY);
            load.read_whole(thread, file, end, 1 << 20);
            load.close(thread, file);
            pool.there.push((path, bytes));
            load.think(thread, 1_000_000);
        }
    }
    load.items()
}

/// A database: one thread appends to a log, with an fdatasync after every third append; six read and write pages of one file.
pub fn database() -> Vec<Item> {
    let mut load = Load::new();
    let data = load.file("/db/table.ibd", FileKind::File(256 << 20));
    let log = load.file("/db/redo.log", FileKind::File(1 << 20));
    let writer = load.thread(9, "redo");
    let (file, mut end) = (load.open(writer, log, libc::O_WRONLY | libc::O_APPEND), 1 << 20);
    for number in 0..1500 {
        let bytes = if load.below(4) == 0 { 4096 } else { 512 };
        load.transfer(writer, Call::Write, file, end, bytes, bytes);
        end += bytes;
        if number % 3 == 2 {
            load.sync(writer, Call::Fdatasync, file);
            load.think(writer, 3_000_000);
        }
    }
    for _ in 0..6 {
        let worker = load.thread(9, "worker");
        let file = load.open(worker, data, libc::O_RDWR);
        for _ in 0..1000 {
            let offset = load.below(16384) * 16384;
            let call = if load.below(10) < 3 { Call::Write } else { Call::Read };
            load.transfer(worker, call, file, offset, 16384, 16384);
            load.think(worker, 1_500_000);
        }
    }
    load.items()
}

/// A build: a program that asks for attributes, and many short processes, two at a time, that read sources and write an object.
pub fn build() -> Vec<Item> {
    let mut load = Load::new();
    let make = load.thread(1, "make");
    let names: [Vec<u32>; 2] = ["c", "h"].map(|ending| {
        let one =
            |number: u64| (format!("/src/part{}/name{number}.{ending}", number % 7), 2000 + 13 * number);
        (0..300).map(one).map(|(name, size)| load.file(&name, FileKind::File(size))).collect()
    });
    for number in 0..300_u64 {
        let compiler = load.thread(1000 + number as u32, "cc1");
        load.wait_until(compiler, number / 2 * 2_000_000);
        for _ in 0..4 {
            load.named(make, Call::Stat, names[0][number as usize]);
        }
        load.wait_until(make, number / 2 * 2_000_000);
        let file = load.open(compiler, names[0][number as usize], libc::O_RDONLY);
        load.read_whole(compiler, file, 2000 + 13 * number, 65536);
        load.close(compiler, file);
        for _ in 0..10 {
            let header = load.below(300).min(load.below(300));
            let file = load.open(compiler, names[1][header as usize], libc::O_RDONLY);
            load.read_whole(compiler, file, 2000 + 13 * header, 65536);
            load.close(compiler, file);
            load.think(compiler, 150_000);
        }
        let object = load.file(&format!("/src/out/name{number}.o"), FileKind::Absent);
        let file = load.open(compiler, object, NEW | libc::O_TRUNC);
        load.write_whole(compiler, file, 30_000, 4096);
        load.close(compiler, file);
    }
    load.items()
}

/// Eight workers read pages, a few of them often, and each adds a line to one log, which it keeps open, after ten pages. Two
/// rare programs do nearly nothing.
pub fn webserver() -> Vec<Item> {
    let mut load = Load::new();
    let pages: Vec<(u32, u64)> = (0..200)
        .map(|number| {
            let size = 1000 + 100 * (number % 50);
            (load.file(&format!("/www/{number}.html"), FileKind::File(size)), size)
        })
        .collect();
    let log = load.file("/logs/access.log", FileKind::File(0));
    let mut end = 0;
    let workers: Vec<u32> = (0..8).map(|number| load.thread(3, &format!("worker{number}"))).collect();
    let logs: Vec<_> = workers.iter().map(|worker| load.open(*worker, log, NEW | libc::O_APPEND)).collect();
    for _ in 0..60 {
        for (worker, log) in workers.iter().zip(&logs) {
            for _ in 0..10 {
                let hot = if load.below(2) == 0 { 20 } else { 200 };
                let (page, size) = pages[load.below(hot) as usize];
                let file = load.open(*worker, page, libc::O_RDONLY);
                load.read_whole(*worker, file, size, 65536);
                load.close(*worker, file);
            }
            load.transfer(*worker, Call::Write, *log, end, 120, 120);
            end += 120;
            load.think(*worker, 5_000_000);
        }
    }
    for name in ["cron", "rotate"] {
        let rare = load.thread(4, name);
        load.wait_until(rare, 1_000_000);
        load.named(rare, Call::Stat, pages[0].0);
    }
    load.items()
}

/// Three threads make a file, write it, and remove it at once; every other file is synced.
pub fn temporary() -> Vec<Item> {
    let mut load = Load::new();
    for _ in 0..3 {
        let thread = load.thread(5, "sort");
        for number in 0..400_u64 {
            let path = load.file(&format!("/tmp/sort{thread}/run{}", number % 5), FileKind::Absent);
            let file = load.open(thread, path, NEW);
            load.write_whole(thread, file, 40_000, 8192);
            if number % 2 == 0 {
                load.sync(thread, Call::Fsync, file);
            }
            load.close(thread, file);
            load.named(thread, Call::Unlink, path);
            load.think(thread, 2_000_000);
        }
    }
    load.items()
}

/// One thread walks a tree of many directories of small files and reads each; a file beside them is a hundred times as large as all.
pub fn tree() -> Vec<Item> {
    let mut load = Load::new();
    let walker = load.thread(1, "walk");
    let letter = |number: u64| char::from(b'a' + number as u8);
    for number in 0..400_u64 {
        let place = [letter(number / 26), letter(number % 26)].iter().collect::<String>();
        let mut read = |name: &str, size: u64| {
            let path = load.file(&format!("/tree/{place}/{name}"), FileKind::File(size));
            load.named(walker, Call::Stat, path);
            let file = load.open(walker, path, libc::O_RDONLY);
            load.read_whole(walker, file, size, 8192);
            load.close(walker, file);
        };
        read("one.txt", 1000 + number);
        read("two.c", 3000 + number);
        if number == 0 {
            read("large.pack", 16 << 20);
        }
    }
    load.items()
}
