//! Filebench's varmail, as the artifact runs it: 40 threads in each container, 1000 mails of 16 KiB, one directory.

use std::cell::RefCell;
use std::rc::Rc;

use ssd::Nanos;
use stats::rng::SplitMix;

use crate::files::FileId;
use crate::program::{Op, View};
use crate::protocol::Sync;
use crate::setup::Layout;
use crate::sim::Simulation;

/// Threads of a container: by Little's law from its operations per second and their latency.
pub const THREADS: u32 = 40;
/// Flowops of one loop, 13: delete; create, append, fsync, close; then open, read, append, fsync, close; open, read, close.
const FLOWOPS: [u64; 2] = [5, 8];
/// Processor time of one loop (two fsyncs) beside the fsyncs: paths, copies, the benchmark itself. Fit.
const LOOP_NS: Nanos = 360_000;
/// Mails of a container.
const MAILS: u32 = 1000;
/// Pages of a new mail and of what is appended: 16 KiB each.
const PAGES: u32 = 4;
/// Pages of a mail after as many appends as are ever likely before it is deleted.
const PAGES_MAX: u32 = 16;

/// The disk for so many containers.
pub fn varmail_layout(containers: u32, journal: u32) -> Layout {
    Layout { journal, groups: containers, inodes: 64, dirs: 10, data: PAGES_MAX * MAILS }
}

/// Starts the threads of one container in block group `group`.
pub fn varmail(sim: &mut Simulation<'_>, group: u32, seed: u64) -> Option<()> {
    let dir = sim.dir(group)?;
    let mails: Option<Vec<Mail>> = (0..MAILS)
        .map(|i| {
            let exists = i % 2 == 0;
            Some(Mail { file: sim.file(dir, PAGES_MAX, exists.then_some(PAGES))?, exists })
        })
        .collect();
    let mails = Rc::new(RefCell::new(mails?));
    for thread in 0..THREADS {
        let rng = SplitMix::new(seed ^ u64::from(group * THREADS + thread + 1).wrapping_mul(0x9e37_79b9));
        sim.spawn("filebench", thread_loop(mails.clone(), thread, rng));
    }
    Some(())
}

/// A mail of a container, as its threads know it.
struct Mail {
    file: FileId,
    exists: bool,
}

/// A mail that exists or does not, as asked for.
fn pick(mails: &mut [Mail], exists: bool, rng: &mut SplitMix) -> usize {
    const TRIES: u32 = 64;
    let mut found = rng.below(mails.len());
    for _ in 0..TRIES {
        if mails[found].exists == exists {
            break;
        }
        found = rng.below(mails.len());
    }
    found
}

/// Every other thread begins with the second half, so that a short time sees both alike where a loop takes long.
fn thread_loop(mails: Rc<RefCell<Vec<Mail>>>, thread: u32, mut rng: SplitMix) -> impl FnMut(View) -> Op {
    let mut step = if thread.is_multiple_of(2) { 0 } else { 6 };
    let mut mail = 0;
    move |_| {
        let mails = &mut *mails.borrow_mut();
        step = step % 10 + 1;
        if matches!(step, 2 | 3 | 7) {
            mail = pick(mails, step != 3, &mut rng);
            mails[mail].exists = step != 2;
        }
        let file = mails[mail].file;
        match step {
            1 => Op::Compute(LOOP_NS / 2),
            2 => Op::Delete(file),
            3 => Op::Create(file),
            4 => Op::Append { file, pages: PAGES },
            5 | 9 => Op::Sync(file, Sync::Fsync),
            6 => Op::Count(FLOWOPS[0]),
            7 => Op::Compute(LOOP_NS / 2),
            8 => Op::Append { file, pages: PAGES },
            _ => Op::Count(FLOWOPS[1]),
        }
    }
}
