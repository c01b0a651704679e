//! Scans and removal of a source tree, by the programs that everybody has.

use std::path::Path;

use stats::Direction;

use crate::programs::{copy_tree, program, time};
use crate::source::{self, Subset};
use crate::{AppError, Bench, Load, LoadSite, Parameters};

/// `find`: `find TREE -name wait.c`. `grep`: `grep -r cpu_to_be64 TREE`. `del`: `rm -rf` of a directory with two
/// copies of the tree, without a sync in the timer, as in the artifact; `del-synced` has one. Each cold.
#[derive(Debug)]
pub struct Tree {
    subset: Subset,
}

impl Tree {
    /// Parameter `subset`.
    ///
    /// # Errors
    /// A subset that is not known.
    pub fn new(parameters: &mut Parameters) -> Result<Tree, AppError> {
        Ok(Tree { subset: Subset::take(parameters)? })
    }
}

impl Load for Tree {
    fn phases(&self) -> u32 {
        4
    }

    fn seconds_guess(&self) -> f64 {
        self.subset.files_guess() as f64 / 1200.0
    }

    fn programs(&self) -> &'static [&'static str] {
        &["find", "grep", "rm", "cp"]
    }

    fn provide(&self, home: &Path, tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        ["find", "grep", "rm", "cp"].iter().try_for_each(|name| program(name, name).map(drop))?;
        source::tree(home, self.subset, tell).map(drop)
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let top = place.root.join("del");
        let first = top.join("linux-a");
        match phase {
            0 => {
                let tree = source::tree(place.home, self.subset, &mut |_| {})?;
                bench.note(format!("source tree: {}", tree.label));
                std::fs::create_dir(&top).map_err(crate::error::at(&top))?;
                bench.report("copying two source trees");
                copy_tree(&tree.path, &first)?;
                copy_tree(&tree.path, &top.join("linux-b"))
            }
            1 => {
                let find = program("find", "findutils")?.args([".", "-name", "wait.c"]).in_folder(&first);
                let found = time(bench, "find", Direction::Read, None, find)?;
                expect(&found.stdout, "find -name wait.c")
            }
            2 => {
                let grep = program("grep", "grep")?.args(["-r", "cpu_to_be64", "."]).in_folder(&first);
                let found = time(bench, "grep", Direction::Read, None, grep)?;
                expect(&found.stdout, "grep -r cpu_to_be64")
            }
            _ => {
                let rm = program("rm", "coreutils")?.arg("-rf").arg(&top);
                time(bench, "del", Direction::Neither, Some(place.root), rm).map(drop)
            }
        }
    }
}

/// A scan that finds nothing has not read the tree.
fn expect(found: &[u8], what: &str) -> Result<(), AppError> {
    if found.is_empty() {
        Err(AppError::Protocol(format!("`{what}` found nothing in the source tree")))
    } else {
        Ok(())
    }
}
