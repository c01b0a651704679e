//! Runs what a fuzz target begins with, and every input that once failed, through its entry point: without a fuzzer.
//!
//! A panic fails the test, in whatever thread it happens. So does a single allocation of more than [`ALLOCATION_BYTES_MAX`]:
//! no input of some kilobytes is worth that much memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most bytes that one allocation may have: what `fuzz/run.sh` tells the fuzzer as well.
const ALLOCATION_BYTES_MAX: usize = 512 << 20;

/// The system's memory, but for what no input may ask for.
struct Bounded;

// SAFETY: each call goes to the system's allocator as it came, or fails as an allocator may.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > ALLOCATION_BYTES_MAX {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > ALLOCATION_BYTES_MAX {
            return std::ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > ALLOCATION_BYTES_MAX {
            return std::ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static MEMORY: Bounded = Bounded;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// So many more inputs are made of the seeds at random, where no fuzzer can be had; none unless it is set. Each lies in
/// `fuzz/artifacts/TARGET.input` while it is run.
const MORE: &str = "LOADLINE_FUZZ_MORE";

/// Runs every file of `fuzz/corpus_seeds/TARGET`.
pub fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus_seeds").join(target);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        usual(info);
    }));
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds no seed", folder.display());
    let mut seeds = Vec::new();
    for file in files {
        println!("{}", file.display());
        let bytes = std::fs::read(&file).expect("a seed");
        run(&bytes);
        assert_eq!(PANICS.load(Ordering::SeqCst), 0, "another thread panicked over {}", file.display());
        seeds.push(bytes);
    }
    let Some(more) = std::env::var(MORE).ok().map(|number| number.parse().expect("a number")) else { return };
    let artifacts = folder.join("../../artifacts");
    std::fs::create_dir_all(&artifacts).expect("a folder");
    let place = artifacts.join(format!("{target}.input"));
    let mut random = Random(std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64) | 1);
    for _ in 0..more {
        let input = random.changed(&seeds);
        std::fs::write(&place, &input).expect("an input");
        run(&input);
        assert_eq!(PANICS.load(Ordering::SeqCst), 0, "another thread panicked over {}", place.display());
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }

    /// One of the seeds with some bytes changed, or bytes at random.
    fn changed(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        if self.below(3) == 0 {
            bytes = vec![0; 1 + self.below(300)];
            bytes.iter_mut().for_each(|byte| *byte = self.below(256) as u8);
        }
        for _ in 0..1 + self.below(8) {
            let at = self.below(bytes.len() + 1);
            match self.below(4) {
                0 => bytes.insert(at, self.below(256) as u8),
                1 => bytes.truncate(at),
                _ if at < bytes.len() => bytes[at] = self.below(256) as u8,
                _ => {}
            }
        }
        bytes
    }
}
