//! A script worked out: what every name and file is after each operation, and what each sync covers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::prefix::States;
use super::tree::{Node, Tree};
use crate::workload::data::Sector;
use crate::workload::{Op, Script, parent};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Binding {
    Absent,
    Dir,
    File(u32),
}

/// A name through time. Times are numbers of operations.
#[derive(Clone, Debug, Default)]
pub(super) struct Name {
    /// (operation, what it is from then on); absent before the first.
    pub(super) bindings: Vec<(usize, Binding)>,
    /// Operations that make it durable.
    pub(super) syncs: Vec<usize>,
}

/// A file through time.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    /// (operation, version, first sector, sectors).
    pub(super) writes: Vec<(usize, u32, u32, u32)>,
    /// (operation, sectors it has from then on).
    pub(super) sizes: Vec<(usize, u32)>,
    /// Truncations: (operation, sectors left).
    pub(super) cuts: Vec<(usize, u32)>,
    /// (operation, its names from then on).
    pub(super) names: Vec<(usize, BTreeSet<String>)>,
    /// Operations that make bytes and size durable.
    pub(super) data_syncs: Vec<usize>,
    /// Operations that make its names durable.
    pub(super) name_syncs: Vec<usize>,
}

/// A script worked out.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    pub(super) names: BTreeMap<String, Name>,
    pub(super) files: Vec<Line>,
    /// For a file system that keeps the order of all operations; then every sync covers everything.
    pub(super) states: Option<States>,
}

/// The last of ascending `times` before `end`.
pub(super) fn last_before(times: &[usize], end: usize) -> Option<usize> {
    times.partition_point(|t| *t < end).checked_sub(1).map(|i| times[i])
}

impl Name {
    /// What it stands for after the operation.
    pub(super) fn after(&self, op: usize) -> Binding {
        let i = self.bindings.partition_point(|(t, _)| *t <= op);
        i.checked_sub(1).map_or(Binding::Absent, |i| self.bindings[i].1)
    }

    fn now(&self) -> Binding {
        self.bindings.last().map_or(Binding::Absent, |(_, binding)| *binding)
    }
}

impl Line {
    fn sectors(&self) -> u32 {
        self.sizes.last().map_or(0, |(_, sectors)| *sectors)
    }

    /// Sectors after the operation.
    pub(super) fn sectors_after(&self, op: usize) -> u32 {
        let i = self.sizes.partition_point(|(t, _)| *t <= op);
        i.checked_sub(1).map_or(0, |i| self.sizes[i].1)
    }
}

impl Timeline {
    /// Works out a script for a file system of which each sync covers what POSIX says.
    pub fn new(script: &Script) -> Timeline {
        Timeline::default().of(script)
    }

    /// Works out a script for a file system that is always in the state after some operation, no older than the last
    /// sync of anything.
    pub fn in_order(script: &Script) -> Timeline {
        Timeline { states: Some(States::new(script)), ..Timeline::default() }.of(script)
    }

    fn of(self, script: &Script) -> Timeline {
        let mut timeline = self;
        for (at, op) in script.ops.iter().enumerate() {
            timeline.step(at, op);
        }
        timeline
    }

    /// The newest operation of which data is found: on a device that keeps the order, every sync that had
    /// returned before it began must be found as well.
    pub fn newest_seen(&self, tree: &Tree) -> usize {
        let mut op_of: HashMap<u32, usize> = HashMap::new();
        for line in &self.files {
            op_of.extend(line.writes.iter().map(|(op, version, _, _)| (*version, *op)));
        }
        let sectors = tree.nodes.values().flat_map(|node| match node {
            Node::File { sectors, .. } => sectors.as_slice(),
            _ => &[],
        });
        let versions = sectors.filter_map(|sector| match sector {
            Sector::Data { version, .. } => op_of.get(version).copied(),
            _ => None,
        });
        versions.max().unwrap_or(0)
    }

    fn step(&mut self, at: usize, op: &Op) {
        match op {
            Op::Create { path, file } => {
                self.files.resize_with(self.files.len().max(*file as usize + 1), Line::default);
                self.files[*file as usize].sizes.push((at, 0));
                self.bind(at, path, Binding::File(*file));
            }
            Op::Write { file, version, place, sectors, .. } => {
                let Some(line) = self.files.get_mut(*file as usize) else { return };
                line.writes.push((at, *version, *place, *sectors));
                let length = line.sectors().max(place + sectors);
                line.sizes.push((at, length));
            }
            Op::Truncate { path, sectors } => {
                if let Some(line) = self.file_at(path) {
                    line.cuts.push((at, *sectors));
                    line.sizes.push((at, *sectors));
                }
            }
            Op::Rename(from, to) => {
                let moved = self.now(from);
                if moved != self.now(to) {
                    self.bind(at, from, Binding::Absent);
                    self.bind(at, to, moved);
                }
            }
            Op::Link(from, to) => self.bind(at, to, self.now(from)),
            Op::Unlink(path) | Op::Rmdir(path) => self.bind(at, path, Binding::Absent),
            Op::Mkdir(path) => self.bind(at, path, Binding::Dir),
            Op::Fsync(_) | Op::Fdatasync(_) | Op::FsyncDir(_) | Op::Sync if self.states.is_some() => {
                self.sync(at, &Op::Sync);
            }
            Op::Fsync(_) | Op::Fdatasync(_) | Op::FsyncDir(_) | Op::Sync => self.sync(at, op),
        }
    }

    fn sync(&mut self, at: usize, op: &Op) {
        match op {
            Op::Fsync(path) => {
                let Some(line) = self.file_at(path) else { return };
                line.data_syncs.push(at);
                line.name_syncs.push(at);
                let names = line.names.last().map(|(_, names)| names.clone()).unwrap_or_default();
                names.iter().for_each(|name| self.sync_name(at, name));
            }
            Op::Fdatasync(path) => {
                if let Some(line) = self.file_at(path) {
                    line.data_syncs.push(at);
                }
            }
            Op::FsyncDir(dir) => {
                let within: Vec<String> =
                    self.names.keys().filter(|path| parent(path) == dir).cloned().collect();
                within.iter().for_each(|name| self.sync_name(at, name));
                self.sync_name(at, dir);
            }
            _ => {
                self.names.values_mut().for_each(|name| name.syncs.push(at));
                for line in &mut self.files {
                    line.data_syncs.push(at);
                    line.name_syncs.push(at);
                }
            }
        }
    }

    /// The name and the directories above it are durable.
    fn sync_name(&mut self, at: usize, path: &str) {
        let mut path = path;
        while !path.is_empty() {
            if let Some(name) = self.names.get_mut(path)
                && name.syncs.last() != Some(&at)
            {
                name.syncs.push(at);
            }
            path = parent(path);
        }
    }

    fn now(&self, path: &str) -> Binding {
        self.names.get(path).map_or(Binding::Absent, Name::now)
    }

    fn file_at(&mut self, path: &str) -> Option<&mut Line> {
        match self.now(path) {
            Binding::File(file) => self.files.get_mut(file as usize),
            _ => None,
        }
    }

    fn bind(&mut self, at: usize, path: &str, binding: Binding) {
        let before = self.now(path);
        self.names.entry(path.to_owned()).or_default().bindings.push((at, binding));
        for (side, gains) in [(before, false), (binding, true)] {
            let Binding::File(file) = side else { continue };
            let line = &mut self.files[file as usize];
            let mut names = line.names.last().map(|(_, names)| names.clone()).unwrap_or_default();
            if gains {
                names.insert(path.to_owned())
            } else {
                names.remove(path)
            };
            match line.names.last_mut() {
                // a rename is one step: its two halves are never seen apart
                Some((t, same)) if *t == at => *same = names,
                _ => line.names.push((at, names)),
            }
        }
    }
}
