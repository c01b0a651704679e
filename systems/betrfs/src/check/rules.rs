//! What must hold of a file system, and how to make it so.

use std::collections::{BTreeMap, HashMap, HashSet};

use betree::{Finding, Severity, WriteBatch};

use super::survey::{Object, Survey};
use crate::fs::now;
use crate::key;
use crate::record::{self, Inode, LENT, MOVED, RESERVED, SPARSE, Superblock, XATTRS};

/// Name of the directory for what lost its name.
const LOST_AND_FOUND: &[u8] = b"lost+found";

pub(super) struct Rules {
    survey: Survey,
    pub findings: Vec<Finding>,
    pub fixes: WriteBatch,
    blocks: u64,
}

impl Rules {
    pub fn new(survey: Survey) -> Rules {
        Rules { survey, findings: Vec::new(), fixes: WriteBatch::new(), blocks: 0 }
    }

    /// Directories, files, blocks.
    pub fn counts(&self) -> (u64, u64, u64) {
        let all = self.survey.objects().count() as u64;
        let directories = self.survey.directories().count() as u64;
        (directories, all - directories, self.blocks)
    }

    fn find(&mut self, severity: Severity, what: String) {
        self.findings.push(Finding { severity, what });
    }

    fn error(&mut self, what: String) {
        self.find(Severity::Error, what);
    }

    pub fn apply(&mut self) {
        self.values();
        self.pointers();
        self.strays();
        self.directories();
        self.links();
        self.homes();
        self.lenders();
        self.reserved();
        let said = self.survey.superblock;
        if said.next_ino <= self.survey.most_ino {
            let next_ino = self.survey.most_ino + 1;
            if self.fixes.is_empty() {
                self.error(format!("inode numbers from {} on are said to be free", said.next_ino));
            }
            self.fixes.put(key::SUPERBLOCK, &Superblock { next_ino, ..said }.encode());
        }
        self.places();
    }

    /// What is reserved for files that are not there, or do not know of it.
    fn reserved(&mut self) {
        let wanted = |o: &&Object| o.inode.flags & RESERVED != 0;
        let known: HashSet<u64> = self.survey.objects().filter(wanted).map(|o| o.ino).collect();
        for ino in std::mem::take(&mut self.survey.reserved) {
            if !known.contains(&ino) && !self.survey.orphans.contains_key(&ino) {
                self.error(format!("space is reserved for inode {ino}, which does not know of it"));
                self.fixes.delete(&key::reserved(ino));
            }
        }
    }

    /// Where inodes are said to be: without that, or with another place, a handle of NFS does not lead to them.
    fn places(&mut self) {
        let Some(mut noted) = self.survey.noted.take() else { return };
        let numbers: HashMap<&[u8], u64> = self.survey.directories().map(|d| (&d.home[..], d.ino)).collect();
        let mut wrong = Vec::new();
        for (home, named) in self.survey.all_entries().filter(|(_, n)| n.object.is_some()) {
            let Some(&dir) = numbers.get(home) else { continue };
            let place = [&*key::InoBytes::of(dir), &named.name].concat();
            if noted.remove(&named.ino).as_ref() != Some(&place) {
                wrong.push((named.ino, dir, named.name.clone()));
            }
        }
        for (ino, dir, name) in wrong {
            self.find(
                Severity::Warning,
                format!("inode {ino} is said to be elsewhere than in directory {dir}"),
            );
            key::put_place(&mut self.fixes, ino, dir, &name);
        }
        for ino in noted.into_keys() {
            self.find(Severity::Warning, format!("inode {ino} is said to be where it is not"));
            self.fixes.delete(&key::place(ino));
        }
    }

    /// Keys and values that mean nothing.
    fn values(&mut self) {
        for key in std::mem::take(&mut self.survey.strange) {
            self.error(format!("key \"{}\" has no meaning", key.escape_ascii()));
            self.fixes.delete(&key);
        }
        for (key, why) in std::mem::take(&mut self.survey.broken) {
            self.error(format!("record \"{}\": {why}", key.escape_ascii()));
            self.fixes.delete(&key);
        }
        for (key, ino) in std::mem::take(&mut self.survey.twice) {
            self.error(format!("inode {ino} is in a second place, \"{}\"", key.escape_ascii()));
            self.fixes.delete(&key);
        }
    }

    /// Names of what does not exist.
    fn pointers(&mut self) {
        let mut gone = Vec::new();
        for (home, list) in &mut self.survey.entries {
            for named in list.iter_mut().filter(|n| n.object.is_none()) {
                if !self.survey.linked.contains_key(&named.ino) {
                    gone.push(key::entry(home, &named.name));
                    // Stays in its place, which others are counted by, but is nothing from now on.
                    named.kind = 0;
                }
            }
        }
        for key in gone {
            self.error(format!("entry \"{}\" leads nowhere", key.escape_ascii()));
            self.fixes.delete(&key);
        }
    }

    /// Directories and files that no name leads to get one in `lost+found`.
    fn strays(&mut self) {
        let reached = self.reached();
        let known: HashSet<Vec<u8>> = self.survey.directories().map(|d| d.home.clone()).collect();
        let ringed = self.survey.directories().filter(|d| !reached.contains(&d.home)).count();
        let strays: Vec<Vec<u8>> =
            self.survey.entries.keys().filter(|home| !known.contains(*home)).cloned().collect();
        if strays.is_empty() && ringed > 0 {
            self.error(format!("{ringed} directories lie only in one another; not repaired"));
        }
        let pointed: HashSet<u64> =
            self.survey.all_entries().filter(|(_, n)| n.object.is_none()).map(|(_, n)| n.ino).collect();
        let nameless: Vec<(u64, u32)> =
            self.survey.linked.values().map(|o| (o.ino, o.inode.kind())).collect();
        let nameless: Vec<_> = nameless.into_iter().filter(|(ino, _)| !pointed.contains(ino)).collect();
        if strays.is_empty() && nameless.is_empty() {
            return;
        }
        let lost = self.lost_and_found();
        for home in strays {
            self.error(format!("directory at \"{}\" has no name", home.escape_ascii()));
            let ino = self.survey.fresh_ino();
            let inode = Inode { flags: MOVED | LENT, ..new_directory() };
            self.add(
                &lost,
                format!("#{ino}").into_bytes(),
                Object { ino, inode, home, target: Box::default() },
            );
        }
        for (ino, kind) in nameless {
            self.error(format!("file {ino} has no name"));
            let name = format!("#{ino}").into_bytes();
            self.fixes.put(&key::entry(&lost, &name), &record::encode_pointer(ino, kind));
            let named = super::survey::Named { name, ino, kind, object: None };
            self.survey.entries.entry(lost.clone()).or_default().push(named);
        }
    }

    /// Homes of the directories that can be reached from the root, or from a directory without a name.
    fn reached(&self) -> HashSet<Vec<u8>> {
        let mut reached = HashSet::new();
        let mut left = vec![key::ROOT_HOME.to_vec()];
        while let Some(home) = left.pop() {
            // Damaged ones may lie in one another.
            if !reached.insert(home.clone()) {
                continue;
            }
            let entries = self.survey.entries.get(&home).into_iter().flatten();
            let inner = entries.filter_map(|n| n.object.as_ref()).filter(|o| o.inode.is_dir());
            left.extend(inner.map(|o| o.home.clone()));
        }
        reached
    }

    fn add(&mut self, dir: &[u8], name: Vec<u8>, object: Object) {
        let (key, value) = self.survey.add(dir, name, object);
        self.fixes.put(&key, &value);
    }

    fn lost_and_found(&mut self) -> Vec<u8> {
        let in_root = self.survey.entries.get(key::ROOT_HOME).into_iter().flatten();
        let there = in_root.filter(|n| n.name == LOST_AND_FOUND).find_map(|n| n.object.as_ref());
        if let Some(object) = there {
            return object.home.clone();
        }
        let ino = self.survey.fresh_ino();
        let home = key::home(key::ROOT_HOME, true, LOST_AND_FOUND, ino);
        let object = Object { ino, inode: new_directory(), home: home.clone(), target: Box::default() };
        self.add(key::ROOT_HOME, LOST_AND_FOUND.to_vec(), object);
        home
    }

    /// Counts of entries and subdirectories.
    fn directories(&mut self) {
        let mut wrong = Vec::new();
        for dir in self.survey.directories() {
            let entries = || self.survey.entries.get(&dir.home).into_iter().flatten().filter(|n| n.kind != 0);
            let size = entries().count() as u64;
            let nlink = 2 + entries().filter(|n| n.kind == libc::S_IFDIR).count() as u32;
            if (dir.inode.size, dir.inode.nlink) != (size, nlink) {
                wrong.push((dir.ino, dir.inode.size, dir.inode.nlink, size, nlink));
            }
        }
        for (ino, old_size, old_nlink, size, nlink) in wrong {
            // More is what a crash on a full device may leave; less would hide entries.
            let severity = if old_size > size { Severity::Warning } else { Severity::Error };
            self.find(
                severity,
                format!(
                    "directory {ino} says {old_size} entries, {old_nlink} links; it has {size} and {nlink}"
                ),
            );
            self.rewrite(ino, |inode| (inode.size, inode.nlink) = (size, nlink));
        }
    }

    /// Links of files with several names.
    fn links(&mut self) {
        let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
        for (_, named) in self.survey.all_entries().filter(|(_, n)| n.object.is_none() && n.kind != 0) {
            *counts.entry(named.ino).or_default() += 1;
        }
        for (ino, count) in counts {
            let says = self.survey.linked.get(&ino).map(|o| o.inode.nlink);
            if let Some(says) = says
                && says != count
            {
                self.error(format!("file {ino} says {says} links, it has {count}"));
                self.rewrite(ino, |inode| inode.nlink = count);
            }
        }
        let single: Vec<u64> = self
            .survey
            .all_entries()
            .filter_map(|(_, n)| n.object.as_ref())
            .filter(|o| !o.inode.is_dir() && o.inode.nlink != 1)
            .map(|o| o.ino)
            .collect();
        for ino in single {
            self.error(format!("file {ino} has one name and says something else"));
            self.rewrite(ino, |inode| inode.nlink = 1);
        }
    }

    /// What lies in homes must belong to somebody and fit.
    fn homes(&mut self) {
        let orphans: HashSet<Vec<u8>> = self.survey.orphans.values().cloned().collect();
        if !orphans.is_empty() {
            self.find(Severity::Note, format!("{} unlinked files will go at the next mount", orphans.len()));
        }
        let mut owners: HashMap<Vec<u8>, u64> = HashMap::new();
        let all: Vec<(Vec<u8>, u64)> = self.survey.objects().map(|o| (o.home.clone(), o.ino)).collect();
        for (home, ino) in all {
            if let Some(other) = owners.insert(home, ino) {
                self.error(format!("inodes {ino} and {other} have the same home; not repaired"));
            }
        }
        let used = std::mem::take(&mut self.survey.used);
        for (home, usage) in &used {
            self.blocks += usage.blocks;
            match owners.get(home) {
                _ if orphans.contains(home) => {}
                Some(ino) => self.content(*ino, home, usage),
                None => {
                    let what = format!("{} blocks and {} attributes of nobody", usage.blocks, usage.xattrs);
                    self.find(Severity::Warning, format!("{what} at \"{}\"", home.escape_ascii()));
                    self.fixes.delete_range(&key::blocks(home, 0, None)).delete_range(&key::xattrs(home));
                }
            }
        }
        let dense = |o: &&Object| o.inode.is_file() && o.inode.size > 0 && o.inode.flags & SPARSE == 0;
        let empty: Vec<u64> = self
            .survey
            .objects()
            .filter(dense)
            .filter(|o| !used.contains_key(&o.home))
            .map(|o| o.ino)
            .collect();
        for ino in empty {
            self.error(format!("file {ino} has none of its data"));
            self.rewrite(ino, |inode| (inode.flags, inode.blocks) = (inode.flags | SPARSE, 0));
        }
    }

    fn content(&mut self, ino: u64, home: &[u8], usage: &super::survey::HomeUsage) {
        let Some(inode) = self.survey.find(ino).map(|(_, o)| o.inode.clone()) else { return };
        let whole = if inode.is_file() { inode.size.div_ceil(key::BLOCK as u64) } else { 0 };
        if usage.blocks > 0 && usage.last_block >= whole {
            self.error(format!("file {ino} has data behind its end"));
            self.fixes.delete_range(&key::blocks(home, whole, None));
        } else if usage.blocks < whole && inode.flags & SPARSE == 0 {
            self.error(format!("file {ino} has only {} of its {whole} blocks", usage.blocks));
            self.rewrite(ino, |inode| (inode.flags, inode.blocks) = (inode.flags | SPARSE, usage.blocks));
        }
        if usage.xattrs > 0 && inode.flags & XATTRS == 0 {
            self.error(format!("inode {ino} hides its attributes"));
            self.rewrite(ino, |inode| inode.flags |= XATTRS);
        }
    }

    /// A directory that holds data of others must say so, or the data would go with it.
    fn lenders(&mut self) {
        let alive: HashMap<&[u8], (u64, u8)> =
            self.survey.directories().map(|d| (&d.home[..], (d.ino, d.inode.flags))).collect();
        let mut wrong = HashSet::new();
        for object in self.survey.objects().filter(|o| o.inode.flags & MOVED != 0) {
            let Some(lengths) = key::homes(&object.home) else { continue };
            let outer = lengths.iter().rev().skip(1).find_map(|len| alive.get(&object.home[..*len]));
            if let Some((ino, flags)) = outer
                && flags & LENT == 0
            {
                wrong.insert(*ino);
            }
        }
        for ino in wrong {
            self.error(format!("directory {ino} does not say that it holds data of others"));
            self.rewrite(ino, |inode| inode.flags |= LENT);
        }
    }

    fn rewrite(&mut self, ino: u64, change: impl FnOnce(&mut Inode)) {
        if let Some((key, value)) = self.survey.change(ino, change) {
            self.fixes.put(&key, &value);
        }
    }
}

fn new_directory() -> Inode {
    let now = now();
    Inode {
        mode: libc::S_IFDIR | 0o700,
        nlink: 2,
        mtime: now,
        ctime: now,
        atime: now,
        btime: now,
        ..Inode::default()
    }
}
