//! mdtest's patterns: each task creates, stats, reads and removes directories and files, in one tree of all or in a tree of
//! its own.
//!
//! | module | holds |
//! |---|---|
//! | `options` | mdtest's options |
//! | `tree` | directories and names of items |
//! | `task` | what one task does in each phase |

pub(crate) mod options;
pub(crate) mod task;
pub(crate) mod tree;

use crate::{AppError, Bench, Load, LoadSite, Parameters};
use options::Options;
use task::{Item, Names, Task};

/// The load `mdtest`.
#[derive(Debug)]
pub struct Mdtest {
    options: Options,
}

impl Mdtest {
    /// Parameter `options`, a text as mdtest has it, and each option of one letter by its name.
    ///
    /// # Errors
    /// An option that is not known or refused, numbers that do not fit.
    pub fn new(parameters: &mut Parameters) -> Result<Mdtest, AppError> {
        Ok(Mdtest { options: Options::new(&options::GRAMMAR.take(parameters)?)? })
    }
}

/// What a file system does at least, for a guess of a load's length.
const GUESSED_OPS_PER_SECOND: f64 = 20_000.0;

const DIRECTORIES: Names = Names {
    create: "directory-create",
    stat: "directory-stat",
    read: "directory-read",
    remove: "directory-remove",
};
const FILES: Names =
    Names { create: "file-create", stat: "file-stat", read: "file-read", remove: "file-remove" };

impl Load for Mdtest {
    fn phases(&self) -> u32 {
        1
    }

    fn seconds_guess(&self) -> f64 {
        let whole = 8.0 * self.options.items_guess() as f64 / GUESSED_OPS_PER_SECOND;
        self.options.stonewall.map_or(whole, |wall| whole.min(8.0 * wall)) + 0.2
    }

    fn takes_ranks(&self) -> bool {
        true
    }

    fn run(&self, _: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let options = &self.options;
        let mut task = Task::new(options, place.root, place.seed, bench)?;
        bench.ready()?;
        task.make_tree(Some("tree-create"), bench)?;
        for (item, names) in [(Item::Directory, DIRECTORIES), (Item::File, FILES)] {
            let wanted = if item == Item::File { options.files } else { options.directories };
            if wanted {
                phases(options, &mut task, item, &names, bench)?;
            }
        }
        if options.remove { task.remove_tree(Some("tree-remove"), bench) } else { Ok(()) }
    }
}

fn phases(
    options: &Options,
    task: &mut Task,
    item: Item,
    names: &Names,
    bench: &mut Bench<'_>,
) -> Result<(), AppError> {
    if options.create {
        task.create(options, item, names.create, bench)?;
    }
    if options.stat {
        task.stat(options, item, names.stat, bench)?;
    }
    if options.read && item == Item::File {
        task.read(options, names.read, bench)?;
    }
    if options.rename && item == Item::Directory {
        task.rename(options, "directory-rename", bench)?;
    }
    if options.remove {
        task.remove(options, item, names.remove, bench)?;
    }
    Ok(())
}
