//! The states between operations: what a file system that keeps the order of all operations is allowed to be in.
//!
//! A write is one operation for each request that the kernel makes of it, and it may end one at any page: it does, within
//! FUSE, at a page of which only a part is written and which is not cached.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::breach::{Breach, Kind, Window};
use super::tree::{Node, Tree};
use crate::workload::data::{SECTOR, Sector};
use crate::workload::{Op, Script};

/// Sectors of a page of the kernel's cache.
const PAGE_SECTORS: u32 = (4096 / SECTOR) as u32;

/// What is there after each number of operations.
#[derive(Clone, Debug, Default)]
pub(super) struct States {
    /// One for each number of operations, from 0 to all.
    trees: Vec<Tree>,
    /// For each operation what may be there while it is under way: the first pages of a write.
    within: Vec<Vec<Tree>>,
    /// The operations, for people.
    told: Vec<String>,
    /// Those that sync.
    syncs: Vec<usize>,
}

/// A model of the file system: names and contents.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Path -> file; `None` for a directory.
    names: BTreeMap<String, Option<u32>>,
    files: BTreeMap<u32, Vec<Sector>>,
}

impl Model {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Create { path, file } => {
                self.names.insert(path.clone(), Some(*file));
                self.files.insert(*file, Vec::new());
            }
            Op::Write { file, version, place, sectors, .. } => {
                let contents = self.files.entry(*file).or_default();
                let end = (place + sectors) as usize;
                contents.resize(contents.len().max(end), Sector::Zero);
                for at in *place..place + sectors {
                    contents[at as usize] = Sector::Data { file: *file, version: *version, place: at };
                }
            }
            Op::Truncate { path, sectors } => {
                if let Some(Some(file)) = self.names.get(path) {
                    self.files.entry(*file).or_default().resize(*sectors as usize, Sector::Zero);
                }
            }
            // of two names of one file POSIX leaves both
            Op::Rename(from, to) if self.names.get(from) != self.names.get(to) => {
                if let Some(moved) = self.names.remove(from) {
                    self.names.insert(to.clone(), moved);
                }
            }
            Op::Link(from, to) => {
                if let Some(file) = self.names.get(from).copied() {
                    self.names.insert(to.clone(), file);
                }
            }
            Op::Unlink(path) | Op::Rmdir(path) => {
                self.names.remove(path);
            }
            Op::Mkdir(path) => {
                self.names.insert(path.clone(), None);
            }
            Op::Rename(..) | Op::Fsync(_) | Op::Fdatasync(_) | Op::FsyncDir(_) | Op::Sync => {}
        }
    }

    fn tree(&self) -> Tree {
        let node = |file: &Option<u32>| match file {
            None => Node::Dir,
            Some(file) => {
                let sectors = self.files.get(file).cloned().unwrap_or_default();
                Node::File { bytes: (sectors.len() * SECTOR) as u64, sectors }
            }
        };
        Tree { nodes: self.names.iter().map(|(path, file)| (path.clone(), node(file))).collect() }
    }
}

impl States {
    pub(super) fn new(script: &Script) -> States {
        let mut states = States { trees: vec![Tree::default()], ..States::default() };
        let mut model = Model::default();
        for (at, op) in script.ops.iter().enumerate() {
            let mut pages = model.clone();
            let first = pages_of(op).into_iter().map(|page| {
                pages.apply(&page);
                pages.tree()
            });
            states.within.push(first.collect());
            model.apply(op);
            states.trees.push(model.tree());
            states.told.push(op.to_string());
            if matches!(op, Op::Fsync(_) | Op::Fdatasync(_) | Op::FsyncDir(_) | Op::Sync) {
                states.syncs.push(at);
            }
        }
        states
    }

    /// What is wrong unless the tree is that after some number of operations: at least those before the last sync
    /// that must be there, at most those that had begun.
    pub(super) fn check(&self, window: Window, tree: &Tree) -> Option<Breach> {
        let synced = self.syncs.partition_point(|op| *op < window.must).checked_sub(1);
        let least = synced.map_or(0, |i| self.syncs[i] + 1);
        let most = window.may.min(self.trees.len() - 1).max(least);
        let allowed = || (least..=most).rev();
        let within = || self.within.iter().take(most).skip(least).flatten();
        if allowed().any(|n| self.trees[n] == *tree) || within().any(|state| state == tree) {
            return None;
        }
        let nearest = allowed().min_by_key(|n| differences(&self.trees[*n], tree).count())?;
        let mut detail =
            format!("is no state between two operations, from {least} to {most} of them; nearest is ");
        let _ = match nearest.checked_sub(1) {
            Some(last) => write!(detail, "that after operation {last}, {}", self.told[last]),
            None => write!(detail, "that before the first"),
        };
        if let Some(path) = differences(&self.trees[nearest], tree).next() {
            let _ = write!(detail, ", but for {path}");
        }
        Some(Breach::new(Kind::NoPrefix, detail))
    }
}

/// A write, page after page, but for the last.
fn pages_of(op: &Op) -> Vec<Op> {
    let Op::Write { path, file, version, place, sectors } = op else { return Vec::new() };
    let (mut pages, mut from, end) = (Vec::new(), *place, place + sectors);
    while let Some(next) = Some((from / PAGE_SECTORS + 1) * PAGE_SECTORS).filter(|next| *next < end) {
        let (path, file, version) = (path.clone(), *file, *version);
        pages.push(Op::Write { path, file, version, place: from, sectors: next - from });
        from = next;
    }
    pages
}

/// Paths at which two trees are not the same.
fn differences<'t>(due: &'t Tree, found: &'t Tree) -> impl Iterator<Item = &'t String> {
    let changed = due.nodes.iter().filter(|(path, node)| found.nodes.get(*path) != Some(*node));
    let added = found.nodes.keys().filter(|path| !due.nodes.contains_key(*path));
    changed.map(|(path, _)| path).chain(added)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{NAMES, ScriptBuilder, builtin, drive};
    use camino::Utf8Path;

    #[test]
    fn the_model_is_what_a_real_file_system_does() {
        for (name, _) in NAMES {
            for seed in 0..8 {
                let dir = tempfile::tempdir().unwrap();
                let root = Utf8Path::from_path(dir.path()).unwrap();
                let script = builtin(name, seed).unwrap();
                let states = States::new(&script);
                for n in 0..script.ops.len() {
                    drive::<crate::workload::DriveError>(&script, n..n + 1, root, |_| Ok(())).unwrap();
                    // reading all of it after each operation takes its time
                    if n % 7 == 0 || n + 1 == script.ops.len() {
                        let found = super::super::observe(root);
                        assert_eq!(
                            found,
                            states.trees[n + 1],
                            "{name} seed {seed} after {n}: {}",
                            script.ops[n]
                        );
                        let exactly = Window { must: n + 1, may: n + 1 };
                        assert_eq!(states.check(exactly, &found), None, "{name} seed {seed} {n}");
                    }
                }
            }
        }
    }

    /// Two files written, one of them synced in between.
    fn script() -> Script {
        let mut a = ScriptBuilder::new();
        a.begin();
        a.create("a");
        a.write("a", 0, 2);
        a.then(Op::Fsync("a".into()));
        a.create("b");
        a.write("b", 0, 1);
        a.write("a", 1, 1);
        a.finish("two")
    }

    #[test]
    fn a_write_is_found_up_to_a_page() {
        let mut a = ScriptBuilder::new();
        a.create("a");
        a.begin();
        a.write("a", 2, 23);
        a.write("a", 0, 8);
        let states = States::new(&a.finish("pages"));
        assert_eq!(states.within.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 3, 0]);
        let window = Window { must: 2, may: 3 };
        let length = |n: usize| Node::File {
            bytes: (n * SECTOR) as u64,
            sectors: (0..n as u32)
                .map(|place| match place {
                    0..2 => Sector::Zero,
                    _ => Sector::Data { file: 0, version: 1, place },
                })
                .collect(),
        };
        for n in [0, 2, 7, 8, 16, 20, 24, 25] {
            let tree = Tree { nodes: BTreeMap::from([("a".to_owned(), length(n))]) };
            let lawful = [0, 8, 16, 24, 25].contains(&n);
            assert_eq!(states.check(window, &tree).is_none(), lawful, "{n} sectors");
            assert_eq!(states.check(Window { must: 2, may: 2 }, &tree).is_none(), n == 0, "{n} sectors");
        }
    }

    #[test]
    fn a_later_operation_without_an_earlier_one_is_told() {
        let states = States::new(&script());
        let all = Window { must: 7, may: 7 };
        for n in 0..=7 {
            let told = states.check(all, &states.trees[n]);
            // the fsync itself changes nothing
            assert_eq!(told.is_none(), n >= 3, "{n}: {told:?}");
        }
        let mut skipped = states.trees[7].clone();
        skipped.nodes.remove("b");
        let told = states.check(all, &skipped).unwrap();
        assert_eq!(told.kind, Kind::NoPrefix);
        assert!(told.detail.contains("from 4 to 7") && told.detail.contains("but for"), "{told}");
        // what had not begun cannot be there; what was not demanded may be missing
        assert!(states.check(Window { must: 4, may: 5 }, &states.trees[6]).is_some());
        assert!(states.check(Window { must: 3, may: 5 }, &states.trees[1]).is_none());
    }
}
