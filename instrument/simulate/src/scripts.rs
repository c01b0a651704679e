//! WML scripts: the files of each container, and its lanes as programs of the simulation.

use std::rc::Rc;

use engine::record::Timing;
use engine::simulated::{EntryKind, Simulated};
use order::{Layout, Op, Simulation, View};

use crate::disk::{BLOCKS_MAX, DiskFull, ENTRIES_PER_BLOCK, INODES_PER_BLOCK, JOURNAL_BLOCKS, PAGE_BYTES};
use crate::target::{Container, LaneProgram, VirtualTarget};

/// A file has room for so many times its nominal size: appends grow it until it is deleted.
const GROWTH: u64 = 4;
/// Room of a file at least, in pages, where a container has few files: logs grow from nothing.
const ROOM_PAGES_MIN: u64 = 4096;
/// A container with at most so many files has few.
const FEW_FILES: usize = 64;
/// Pages that a file of this nominal size may have.
fn room(size: u64, files: usize) -> u64 {
    let pages = size.div_ceil(PAGE_BYTES).max(1).saturating_mul(GROWTH);
    if files <= FEW_FILES { pages.max(ROOM_PAGES_MIN) } else { pages }
}

/// The disk for so many containers, each with the files of its run.
///
/// # Errors
/// The files are larger than the simulated disk.
pub fn layout(runs: &[Simulated<'_>]) -> Result<Layout, DiskFull> {
    let (mut data, mut inodes, mut dirs) = (1u64, 1, 1);
    for run in runs {
        let entries = run.entries();
        let pages = |what| match what {
            EntryKind::File { size } => room(size, entries.len()),
            EntryKind::Directory => 1,
        };
        let all: u64 = entries.iter().map(|entry| pages(entry.what)).fold(0, u64::saturating_add);
        data = data.max(all);
        // and the root
        inodes = inodes.max((entries.len() + 1).div_ceil(INODES_PER_BLOCK));
        dirs = dirs.max(entries.len().div_ceil(ENTRIES_PER_BLOCK));
    }
    if data.saturating_mul(runs.len() as u64) > BLOCKS_MAX {
        let gib = |blocks: u64| blocks / (1 << 18);
        return Err(DiskFull(format!(
            "{} containers with files of {} GiB each (room to grow included) do not fit into the {} GiB of a simulated \
             disk: take fewer containers, or smaller files by --set",
            runs.len(),
            gib(data) + 1,
            gib(BLOCKS_MAX)
        )));
    }
    let groups = runs.len() as u32;
    Ok(Layout {
        journal: JOURNAL_BLOCKS,
        groups,
        inodes: inodes as u32,
        dirs: dirs as u32,
        data: data as u32,
    })
}

/// Makes the files of container number `group` and starts its lanes; `lanes` counts those of all containers.
///
/// # Errors
/// The files do not fit.
pub fn start<'r>(
    sim: &mut Simulation<'r>,
    run: &'r Simulated<'r>,
    group: u32,
    timing: Timing,
    call_ns: u64,
    lanes: &mut u32,
) -> Result<Rc<Container>, DiskFull> {
    let full = || DiskFull("the files of a container do not fit into its block group".into());
    let root = sim.dir(group).ok_or_else(full)?;
    let entries = run.entries();
    let mut container = Container::default();
    let files = entries.len();
    for entry in entries {
        let (pages, size) = match entry.what {
            EntryKind::File { size } => (room(size, files), size),
            EntryKind::Directory => (1, 0),
        };
        let there = entry.exists.then(|| size.div_ceil(PAGE_BYTES) as u32);
        let id = sim.file(root, pages as u32, there).ok_or_else(full)?;
        let size = if entry.exists { size } else { 0 };
        container.add(entry.path, id, pages as u32, size, entry.exists);
    }
    let container = Rc::new(container);
    for thread in 0..run.threads() {
        let target = VirtualTarget::new(container.clone(), *lanes, call_ns);
        *lanes += 1;
        let mailbox = target.mailbox();
        let lane = async move { run.lane(thread, &target, timing).await };
        sim.spawn("loadline", LaneProgram::new(lane, mailbox, container.clone()));
    }
    sim.spawn("deadline", end_of(run, container.clone(), timing.deadline_ns));
    Ok(container)
}

/// A program that ends the load at the deadline: it wakes all lanes that wait for one another.
fn end_of<'r>(
    run: &'r Simulated<'r>,
    container: Rc<Container>,
    deadline_ns: u64,
) -> impl FnMut(View) -> Op + 'r {
    let mut slept = false;
    move |view: View| {
        if !std::mem::replace(&mut slept, true) && deadline_ns > view.now && deadline_ns < u64::MAX {
            return Op::Sleep(deadline_ns - view.now);
        }
        if deadline_ns == u64::MAX {
            return Op::End;
        }
        run.finish();
        container.wake_all();
        container.next_due().map_or(Op::End, |event| Op::Post { event, by: 1 })
    }
}
