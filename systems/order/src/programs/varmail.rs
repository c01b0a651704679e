//! Filebench's varmail, as the artifact runs it: 40 threads in each container, 1000 mails of 16 KiB, one directory.

use ssd::Nanos;
use stats::rng::SplitMix;

use crate::files::FileId;
use crate::program::{Op, View};
use crate::protocol::Sync;
use crate::setup::Layout;
use crate::sim::Simulation;

/// Threads of a container: by Little's law from its operations per second and their latency.
pub const THREADS: u32 = 40;
/// Flowops of one loop: delete; create, append, fsync, close; open, read, append, fsync, close; open, read, close.
const FLOWOPS: u64 = 13;
/// Processor time of one loop (two fsyncs) beside the fsyncs: paths, copies, the benchmark itself. Fit.
const LOOP_NS: Nanos = 800_000;
/// Mails of a container.
const MAILS: u32 = 1000;
/// Pages of a new mail and of what is appended: 16 KiB each.
const PAGES: u32 = 4;

/// The disk for so many containers.
pub fn varmail_layout(containers: u32, journal: u32) -> Layout {
    Layout { journal, groups: containers, inodes: 64, dirs: 10, data: 2 * PAGES * MAILS }
}

/// Starts the threads of one container in block group `group`.
pub fn varmail(sim: &mut Simulation, group: u32, seed: u64) -> Option<()> {
    let dir = sim.dir(group)?;
    let mails: Option<Vec<FileId>> = (0..MAILS).map(|i| sim.file(dir, 2 * PAGES, i % 2 == 0)).collect();
    let mails = mails?;
    for thread in 0..THREADS {
        let rng = SplitMix::new(seed ^ u64::from(group * THREADS + thread + 1).wrapping_mul(0x9e37_79b9));
        sim.spawn("filebench", thread_loop(mails.clone(), rng));
    }
    Some(())
}

fn thread_loop(mails: Vec<FileId>, mut rng: SplitMix) -> impl FnMut(View) -> Op {
    let mut step = 0u32;
    let mut mail = mails[0];
    move |_| {
        step = step % 9 + 1;
        if matches!(step, 2 | 3 | 6) {
            mail = mails[rng.below(mails.len())];
        }
        match step {
            1 => Op::Compute(LOOP_NS / 2),
            2 => Op::Delete(mail),
            3 => Op::Create(mail),
            4 => Op::Append { file: mail, pages: PAGES },
            5 | 8 => Op::Sync(mail, Sync::Fsync),
            6 => Op::Compute(LOOP_NS / 2),
            7 => Op::Append { file: mail, pages: PAGES },
            _ => Op::Count(FLOWOPS),
        }
    }
}
