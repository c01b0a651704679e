//! dbench 4.00 with `--sync-dir`, one client in each container: what it synchronises, and the processor time between.

use ssd::Nanos;
use stats::rng::SplitMix;

use crate::files::FileId;
use crate::program::{Op, View};
use crate::protocol::Sync;
use crate::setup::Layout;
use crate::sim::Simulation;

/// Operations that dbench counts for each synchronous one (18.4, shipped result files), in tenths.
const COUNTED_TENTHS: u64 = 184;
/// Of 100 synchronous operations: Flush (fsync of a file), Rename and Unlink (fsync of the directory).
const FLUSHES: usize = 22;
const RENAMES: usize = 14;
/// Processor time between two synchronous operations: by Little's law the shipped clients spend 0.49 to 0.80 ms outside
/// of them, median 0.55 ms.
const THINK_NS: Nanos = 550_000;
/// Files of a client.
const FILES: u32 = 32;
/// Pages of a file; a Flush finds up to so many dirty: about seven WriteX of some 20 KiB come before it.
const PAGES: u32 = 64;

/// The disk for so many containers.
pub fn dbench_layout(containers: u32, journal: u32) -> Layout {
    Layout { journal, groups: containers, inodes: 4, dirs: 2, data: FILES * PAGES }
}

/// Starts the client of one container in block group `group`.
pub fn dbench(sim: &mut Simulation<'_>, group: u32, seed: u64) -> Option<()> {
    let dir = sim.dir(group)?;
    let files: Option<Vec<FileId>> =
        (0..FILES).map(|i| sim.file(dir, PAGES, (i % 2 == 0).then_some(PAGES))).collect();
    let rng = SplitMix::new(seed ^ u64::from(group + 1).wrapping_mul(0x9e37_79b9));
    sim.spawn("dbench", client(dir, files?, rng));
    Some(())
}

fn client(dir: FileId, files: Vec<FileId>, mut rng: SplitMix) -> impl FnMut(View) -> Op {
    let (mut step, mut kind, mut file, mut tenths) = (0u32, 0usize, files[0], 0u64);
    move |_| {
        step = step % 5 + 1;
        match step {
            1 => {
                kind = rng.below(100);
                file = files[rng.below(files.len())];
                Op::Compute(THINK_NS)
            }
            2 => Op::Create(file),
            3 if kind < FLUSHES => Op::Write { file, page: 0, pages: 1 + rng.below(PAGES as usize) as u32 },
            3 if kind < FLUSHES + RENAMES => Op::Rename(file),
            3 => Op::Delete(file),
            4 => Op::Sync(if kind < FLUSHES { file } else { dir }, Sync::Fsync),
            _ => {
                tenths += COUNTED_TENTHS;
                let whole = tenths / 10;
                tenths %= 10;
                Op::Count(whole)
            }
        }
    }
}
