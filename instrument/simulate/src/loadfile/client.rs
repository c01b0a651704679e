//! A client that replays a load file for ever, with `--sync-dir`, as the OPIMQ artifact runs dbench.

use std::rc::Rc;

use order::{FileId, Layout, Op, Simulation, Sync, View};
use stats::rng::SplitMix;

use super::parse::{Line, LoadFile};
use crate::disk::{BLOCKS_MAX, DiskFull, ENTRIES_PER_BLOCK, INODES_PER_BLOCK, JOURNAL_BLOCKS, PAGE_BYTES};

/// The disk for so many clients.
///
/// # Errors
/// Their files are larger than the simulated disk.
pub fn layout(file: &LoadFile, containers: u32) -> Result<Layout, DiskFull> {
    let data: u64 = file.pages.iter().map(|pages| u64::from(*pages)).sum();
    if data.saturating_mul(containers.into()) > BLOCKS_MAX {
        let gib = BLOCKS_MAX >> 18;
        return Err(DiskFull(format!(
            "{containers} clients with files of {} MiB each do not fit into the {gib} GiB of a simulated disk: take fewer",
            data >> 8
        )));
    }
    let names = file.names.len() + 1;
    Ok(Layout {
        journal: JOURNAL_BLOCKS,
        groups: containers,
        inodes: names.div_ceil(INODES_PER_BLOCK) as u32,
        dirs: names.div_ceil(ENTRIES_PER_BLOCK) as u32,
        data: data as u32,
    })
}

/// Where a client is in its file.
struct Client {
    file: Rc<LoadFile>,
    dir: FileId,
    /// The file that each name stands for now.
    of: Vec<FileId>,
    /// Which of them are there; for the way to the first line.
    there: Vec<bool>,
    at: usize,
    line_ns: u64,
    /// Processor time that is still to be spent.
    debt: u64,
    next: std::collections::VecDeque<Op>,
}

/// Starts the client of one container in block group `group`. It begins at a line of its own, chosen by the seed: so a short
/// time sees the whole mix. None if its files do not fit.
pub fn client(
    sim: &mut Simulation<'_>,
    file: &Rc<LoadFile>,
    group: u32,
    seed: u64,
    line_ns: u64,
) -> Option<()> {
    let begin = SplitMix::new(seed).below(file.lines.len());
    let replayed = replay(sim, file, group, begin, line_ns)?;
    sim.spawn("dbench", replayed);
    Some(())
}

/// The client of one container as a program: it begins at line `begin`, with the files that are there by then. None if its files
/// do not fit.
pub fn replay(
    sim: &mut Simulation<'_>,
    file: &Rc<LoadFile>,
    group: u32,
    begin: usize,
    line_ns: u64,
) -> Option<impl FnMut(View) -> Op + use<>> {
    let dir = sim.dir(group)?;
    // what each name stands for and holds after the lines before
    let mut sizes: Vec<Option<u32>> = vec![None; file.names.len()];
    for line in &file.lines[..begin] {
        match *line {
            Line::Create { name, anew } => {
                let size = &mut sizes[name as usize];
                *size = Some(size.filter(|_| !anew).unwrap_or(0));
            }
            Line::Mkdir { name } => sizes[name as usize] = Some(0),
            Line::Write { name, offset, bytes } => {
                let end = (offset + bytes).div_ceil(PAGE_BYTES) as u32;
                let size = &mut sizes[name as usize];
                *size = Some(size.unwrap_or(0).max(end));
            }
            Line::Rename { from, to } => sizes[to as usize] = sizes[from as usize].take(),
            Line::Unlink { name } => sizes[name as usize] = None,
            Line::Deltree { name } => below(file, name).for_each(|name| sizes[name] = None),
            Line::Flush { .. } | Line::SyncDir | Line::Other => {}
        }
    }
    let of: Option<Vec<FileId>> =
        file.pages.iter().zip(&sizes).map(|(pages, size)| sim.file(dir, *pages, *size)).collect();
    let client = Client {
        file: file.clone(),
        dir,
        of: of?,
        there: sizes.iter().map(Option::is_some).collect(),
        at: begin,
        line_ns,
        debt: 0,
        next: Default::default(),
    };
    Some(client.into_program())
}

/// Names of files below a directory.
fn below(file: &LoadFile, dir: u32) -> impl Iterator<Item = usize> + '_ {
    let prefix = format!("{}\\", file.names[dir as usize]);
    (0..file.names.len())
        .filter(move |name| !file.directories[*name] && file.names[*name].starts_with(&prefix))
}

impl Client {
    fn into_program(mut self) -> impl FnMut(View) -> Op {
        move |_| {
            loop {
                if let Some(op) = self.next.pop_front() {
                    return op;
                }
                self.line();
            }
        }
    }

    /// The next line becomes operations; lines that the file system does not see cost processor time alone.
    fn line(&mut self) {
        let line = self.file.lines[self.at];
        self.at = (self.at + 1) % self.file.lines.len();
        let id = |name: u32| self.of[name as usize];
        let mut ops: Vec<Op> = Vec::new();
        match line {
            Line::Create { name, anew } => {
                let there = std::mem::replace(&mut self.there[name as usize], true);
                if there && anew {
                    ops.push(Op::Delete(id(name)));
                }
                if !there || anew {
                    ops.push(Op::Create(id(name)));
                }
            }
            Line::Mkdir { name } => {
                if !std::mem::replace(&mut self.there[name as usize], true) {
                    ops.push(Op::Create(id(name)));
                }
            }
            Line::Write { name, offset, bytes } => {
                let page = (offset / PAGE_BYTES) as u32;
                let pages = (offset + bytes).div_ceil(PAGE_BYTES) as u32 - page;
                ops.push(Op::Write { file: id(name), page, pages });
            }
            Line::Flush { name } => ops.push(Op::Sync(id(name), Sync::Fsync)),
            Line::Rename { from, to } => {
                if self.there[to as usize] {
                    ops.push(Op::Delete(id(to)));
                }
                self.there[to as usize] = self.there[from as usize];
                ops.extend([Op::Rename(id(from)), Op::Sync(self.dir, Sync::Fsync)]);
                self.there[from as usize] = false;
                self.of.swap(from as usize, to as usize);
            }
            Line::Unlink { name } => {
                self.there[name as usize] = false;
                ops.extend([Op::Delete(id(name)), Op::Sync(self.dir, Sync::Fsync)]);
            }
            Line::SyncDir => ops.push(Op::Sync(self.dir, Sync::Fsync)),
            Line::Deltree { name } => {
                let file = self.file.clone();
                for name in below(&file, name) {
                    if std::mem::replace(&mut self.there[name], false) {
                        ops.push(Op::Delete(self.of[name]));
                    }
                }
            }
            Line::Other => {}
        }
        self.debt += self.line_ns;
        ops.push(Op::Count(1));
        if line != Line::Other {
            self.next.push_back(Op::Compute(std::mem::take(&mut self.debt)));
        }
        self.next.extend(ops);
    }
}
