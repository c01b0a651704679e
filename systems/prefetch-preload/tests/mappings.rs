//! What a program touches of a mapping is followed: the pages are right, cached files cost no
//! thread. Each test runs this program again under LD_PRELOAD, with a part to play.

mod common;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use prefetch_os::area::Snapshot;

const PART: &str = "LOADLINE_TEST_PART";
const FILE: &str = "LOADLINE_TEST_FILE";
const MIB: usize = 1 << 20;

fn play(part: &str, mib: u64, cold: bool) -> Vec<Snapshot> {
    let directory = common::directory();
    let file = directory.path().join("data");
    common::cold_file(&file, mib);
    if !cold {
        std::fs::read(&file).unwrap();
    }
    let statistics = common::directory();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(PART, part).env(FILE, &file).env("LD_PRELOAD", common::library());
    command.env("LOADLINE_PREFETCH", "auto").env("LOADLINE_PREFETCH_DIR", statistics.path());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("PART DONE"), "{text}");
    let seen = common::pages(statistics.path());
    assert!(!cold || workers(&seen) > 0, "no thread ever looked: {seen:?}");
    seen
}

/// A mapping of a file.
struct Mapped {
    start: *const u8,
    len: usize,
}

impl Mapped {
    fn new(path: &Path) -> Mapped {
        Mapped::with(path, 0)
    }

    fn with(path: &Path, flags: i32) -> Mapped {
        let flags = libc::MAP_SHARED | flags;
        let file = File::open(path).unwrap();
        let len = file.metadata().unwrap().len() as usize;
        // SAFETY: a fresh mapping of an open file, which nothing shortens.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, flags, file.as_raw_fd(), 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Mapped { start: start.cast(), len }
    }

    fn advise(&self, advice: i32) {
        // SAFETY: the mapping is this one.
        assert_eq!(unsafe { libc::madvise(self.start.cast_mut().cast(), self.len, advice) }, 0);
    }

    /// Each word of the file is its own offset.
    fn check(&self, at: usize) {
        assert!(at + 8 <= self.len);
        // SAFETY: inside the mapping, aligned.
        let word = unsafe { self.start.add(at).cast::<u64>().read_volatile() };
        assert_eq!(u64::from_le(word), at as u64);
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one, and nothing points into it any more.
        unsafe { libc::munmap(self.start.cast_mut().cast(), self.len) };
    }
}

/// A mapping of a file is followed, then part of it becomes memory and part a hole, while the library may still
/// ask for what was there: it must neither write to the memory, nor stumble over the hole.
fn map_over(path: &Path, round: usize) {
    common::drop_cache(path);
    let mapped = Mapped::new(path);
    mapped.advise(libc::MADV_RANDOM);
    let (granule, parts) = (64 << 10, 4);
    let part = mapped.len / parts;
    let own = |at: usize| mapped.check(at);
    // Backwards, and each page a miss: towards what is about to be replaced.
    (0..part / granule - 16).for_each(|step| own(part * (round % parts + 1) - (step + 1) * granule));
    let over = part * ((round + 3) % parts);
    let at = mapped.start.wrapping_add(over).cast_mut();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: inside the mapping, to which no reference exists; it is not read as a file there any more.
    let memory = unsafe { libc::mmap(at.cast(), part / 2, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    assert_eq!(memory, at.cast());
    // SAFETY: likewise.
    assert_eq!(unsafe { libc::munmap(at.add(part / 2).cast(), part / 2) }, 0);
    let words = at.cast::<u64>();
    let stamp = |word: usize| !(round as u64) << 20 ^ word as u64;
    for word in (0..part / 16).step_by(512) {
        // SAFETY: the new memory is writable, zeroed, and this thread's own.
        unsafe {
            assert_eq!(words.add(word).read_volatile(), 0);
            words.add(word).write_volatile(stamp(word));
        }
    }
    let others = || (0..mapped.len).step_by(granule).filter(|at| !(over..over + part).contains(at));
    if round.is_multiple_of(16) {
        // SAFETY: the child looks at memory and ends itself.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            others().rev().for_each(own);
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
        let mut status = -1;
        // SAFETY: the status is valid for writing.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(status, 0);
    }
    others().rev().for_each(own);
    for word in (0..part / 16).step_by(512) {
        // SAFETY: as above.
        assert_eq!(unsafe { words.add(word).read_volatile() }, stamp(word));
    }
}

/// The numbers of rounds: at least so many, and as long as the environment asks for.
fn rounds(least: usize) -> impl Iterator<Item = usize> {
    let seconds = std::env::var("LOADLINE_STRESS_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds.unwrap_or(0));
    (0..).take_while(move |round| *round < least || std::time::Instant::now() < end)
}

/// Plays the part that the environment names: run by the tests above only.
#[test]
#[ignore = "no test: a part of the others"]
fn child() {
    let path = std::env::var_os(FILE).unwrap();
    let path = Path::new(&path);
    match std::env::var(PART).unwrap().as_str() {
        "cached" => {
            // What is mapped stays cached, should somebody drop the caches of the whole machine meanwhile.
            let kept = Mapped::with(path, libc::MAP_POPULATE);
            backwards(path);
            drop(kept);
        }
        // Again until the thread has been given a processor at the right time.
        "backwards" => common::until("touches of a mapping are seen", || {
            common::drop_cache(path);
            backwards(path);
            !tells_touches() || common::own_page().is_some_and(|page| touches(&[page]) > 0)
        }),
        "again" => {
            // Mapped and unmapped while the library looks: no address may be taken for what it was before.
            for round in rounds(300) {
                let mapped = Mapped::new(path);
                if round % 8 == 7 {
                    common::drop_cache(path);
                }
                (0..64).for_each(|step| mapped.check((round * 7919 + step * 5) % (mapped.len / 4096) * 4096));
            }
        }
        "over" => {
            rounds(40).for_each(|round| map_over(path, round));
            let mut round = 40;
            common::until("something is asked for where other things come to lie", || {
                map_over(path, round);
                round += 1;
                !tells_touches() || common::own_page().is_some_and(|page| issued(&[page]) > 0)
            });
        }
        "threads" => {
            let mapped = Mapped::new(path);
            let (start, len) = (mapped.start as usize, mapped.len);
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    scope.spawn(move || {
                        let own = std::mem::ManuallyDrop::new(Mapped { start: start as *const u8, len });
                        (0..len / 4 / 4096).step_by(7).for_each(|p| own.check(len / 4 * thread + p * 4096));
                    });
                }
            });
            // SAFETY: the child only ends itself.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                mapped.check(MIB / 2);
                // SAFETY: as above.
                unsafe { libc::_exit(0) };
            }
            let mut status = -1;
            // SAFETY: the status is valid for writing.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            assert_eq!(status, 0);
        }
        part => panic!("unknown part {part}"),
    }
    println!("PART DONE");
}

fn backwards(path: &Path) {
    let mapped = Mapped::new(path);
    mapped.advise(libc::MADV_RANDOM);
    (0..mapped.len / 4096).rev().for_each(|page| mapped.check(page * 4096));
}

/// Whether the kernel says what was touched (PAGEMAP_SCAN, Linux 6.7). Without, a thread finds that out and ends.
fn tells_touches() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|word| word.trim().parse::<u32>().ok());
    let known = (numbers.next(), numbers.next()) >= (Some(6), Some(7));
    if !known {
        eprintln!("not run: that touches of mappings are seen; it needs Linux 6.7");
    }
    known
}

fn workers(seen: &[Snapshot]) -> u64 {
    seen.iter().map(|s| s.workers).sum()
}

fn touches(seen: &[Snapshot]) -> u64 {
    seen.iter().flat_map(|s| &s.files).map(|f| f.counters.reads).sum()
}

fn issued(seen: &[Snapshot]) -> u64 {
    seen.iter().flat_map(|s| &s.files).map(|f| f.counters.issued).sum()
}

#[test]
fn a_cold_mapping_is_followed_backwards() {
    let seen = play("backwards", 64, true);
    assert!(touches(&seen) > 0 || !tells_touches(), "{seen:?}");
}

#[test]
fn a_cached_mapping_costs_no_thread() {
    let seen = play("cached", 16, false);
    assert_eq!(workers(&seen), 0, "{seen:?}");
}

#[test]
fn mappings_come_and_go() {
    play("again", 32, true);
    let seen = play("over", 32, true);
    assert!(issued(&seen) > 0 || !tells_touches(), "{seen:?}");
    play("threads", 32, true);
}
