//! Directories of a tree and names of items, as mdtest names them.

use std::fmt::Write;

use super::options::Options;

/// The trees of a task: one in each directory `test-dir.0-K`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trees {
    /// Directories of all trees, those above before those below; relative to the root.
    pub directories: Vec<String>,
    /// Of those the ones that hold items, in the order of items.
    filled: Vec<usize>,
    /// The number of the first item of each of them.
    first: Vec<u64>,
    in_directory: u64,
}

impl Trees {
    /// The trees of task `rank`, or those of all.
    pub(crate) fn of(options: &Options, rank: u32) -> Trees {
        let base = if options.own_tree { format!("mdtest_tree.{rank}") } else { "mdtest_tree".into() };
        let (skipped, number) = options.filled();
        let mut trees = Trees {
            directories: Vec::new(),
            filled: Vec::new(),
            first: Vec::new(),
            in_directory: options.items_in_directory,
        };
        for turn in 0..options.loops {
            let start = trees.directories.len();
            for index in 0..skipped + number {
                let above = match index {
                    0 => format!("test-dir.0-{turn}"),
                    _ => trees.directories[start + ((index - 1) / options.branches) as usize].clone(),
                };
                trees.directories.push(format!("{above}/{base}.{index}"));
                if index >= skipped {
                    trees.filled.push(start + index as usize);
                    trees.first.push(index * options.items_in_directory);
                }
            }
        }
        trees
    }

    /// How many items a task has.
    pub(crate) fn items(&self) -> u64 {
        self.in_directory * self.filled.len() as u64
    }

    /// Lets a task that has one directory have so many items.
    pub(crate) fn resize(&mut self, items: u64) {
        if self.filled.len() == 1 {
            self.in_directory = items;
        }
    }

    /// Writes the path of item number `number` of task `rank` into `path`; gives its number within the tree.
    pub(crate) fn path(&self, kind: &str, rank: u32, number: u64, path: &mut String) -> u64 {
        let at = (number / self.in_directory) as usize;
        let item = self.first[at] + number % self.in_directory;
        path.clear();
        path.push_str(&self.directories[self.filled[at]]);
        // a string takes all
        let _ = write!(path, "/{kind}.mdtest.{rank}.{item}");
        item
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::GRAMMAR;
    use super::*;

    fn trees(text: &str, rank: u32) -> Trees {
        Trees::of(&Options::new(&GRAMMAR.parse(text).unwrap()).unwrap(), rank)
    }

    /// Names as a run of mdtest left them (`-n 9 -z 1 -b 2 -u -C`, and `-n 4 -I 2 -C`).
    #[test]
    fn names_are_those_of_mdtest() {
        let own = trees("-n 9 -z 1 -b 2 -u", 3);
        let tree = "test-dir.0-0/mdtest_tree.3.0";
        assert_eq!(
            own.directories,
            [tree, &format!("{tree}/mdtest_tree.3.1"), &format!("{tree}/mdtest_tree.3.2")]
        );
        let mut path = String::new();
        assert_eq!(own.path("file", 3, 7, &mut path), 7);
        assert_eq!(path, format!("{tree}/mdtest_tree.3.2/file.mdtest.3.7"));
        let turns = trees("-n 4 -I 2", 0);
        turns.path("dir", 1, 3, &mut path);
        assert_eq!((path.as_str(), turns.items()), ("test-dir.0-1/mdtest_tree.0/dir.mdtest.1.1", 4));
        let leaves = trees("-I 5 -z 1 -b 2 -L", 0);
        assert_eq!(leaves.path("file", 0, 0, &mut path), 5);
        assert_eq!(path, "test-dir.0-0/mdtest_tree.0/mdtest_tree.1/file.mdtest.0.5");
    }

    #[test]
    fn every_item_has_a_name_of_its_own() {
        for text in ["-n 1000 -z 3 -b 3", "-n 60 -I 6", "-I 4 -z 4 -b 2 -L -u", "-n 17"] {
            let trees = trees(text, 0);
            let mut names = std::collections::BTreeSet::new();
            let mut path = String::new();
            for number in 0..trees.items() {
                trees.path("file", 0, number, &mut path);
                assert!(names.insert(path.clone()), "{text}: {path}");
            }
        }
    }
}
