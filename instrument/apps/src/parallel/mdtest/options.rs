//! mdtest's options, of those that make sense in an empty directory.

use crate::AppError;
use crate::parallel::option_parser::{OptionGrammar, ParsedOptions};

/// Which of mdtest's options there are.
pub(crate) const GRAMMAR: OptionGrammar = OptionGrammar {
    program: "mdtest",
    flags: &["-u", "-L", "-F", "-D", "-C", "-T", "-E", "-r", "-U", "-y", "-Y", "-X"],
    valued: &["-n", "-I", "-b", "-z", "-w", "-e", "-N", "-W", "-R", "-i", "-a"],
    idle: &["-v", "-P", "-t", "--posix.odirect"],
    refused: &[
        ("-B", "tasks meet between phases in any case"),
        ("-c", "each task creates its own items"),
        ("-S", "each item has a file of its own"),
        ("-k", "files are created by open, not by mknod"),
        ("-d", "the directory is that of `--on`"),
        ("-x", "the number of items is known to the later phases, which are in the same trial"),
        ("-f", "the launcher says how many tasks there are"),
        ("-l", "the launcher says how many tasks there are"),
        ("-s", "the launcher says how many tasks there are"),
        ("-p", "there is no pause between phases"),
        ("-G", "data says whose it is in any case"),
    ],
};

/// What mdtest is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Options {
    /// Items of a task in each directory of its tree.
    pub items_in_directory: u64,
    /// Directories `test-dir.0-K`, each with a tree, that a task fills one after the other.
    pub loops: u64,
    pub branches: u64,
    pub depth: u64,
    pub only_leaves: bool,
    pub own_tree: bool,
    pub files: bool,
    pub directories: bool,
    pub create: bool,
    pub stat: bool,
    pub read: bool,
    /// Of directories.
    pub rename: bool,
    pub remove: bool,
    pub write_bytes: u64,
    pub read_bytes: u64,
    pub verify: bool,
    pub fsync: bool,
    pub sync: bool,
    pub stride: u64,
    /// Seed of a random order.
    pub random: Option<u64>,
    /// Seconds.
    pub stonewall: Option<f64>,
}

/// Directories of a tree: their names are in memory.
const DIRECTORIES_MAX: u64 = 1 << 20;
/// Items whose order can be shuffled in memory.
const SHUFFLED_MAX: u64 = 1 << 26;
/// Bytes of an item: they are a buffer in memory.
const ITEM_BYTES_MAX: u64 = 1 << 30;

impl Options {
    /// Reads them.
    pub(crate) fn new(words: &ParsedOptions) -> Result<Options, AppError> {
        let wrong = |what: &str| Err(GRAMMAR.wrong(what));
        GRAMMAR.check_common(words)?;
        let (branches, depth) = (words.number("-b", 1)?, words.number("-z", 0)?);
        let (only_leaves, own_tree) = (words.has("-L"), words.has("-u"));
        let directories = directories(branches, depth).filter(|number| *number <= DIRECTORIES_MAX);
        let Some(directories) = directories else {
            return wrong("-b and -z: a tree has at most 2^20 directories, and -b is at least 1");
        };
        let filled = if only_leaves { branches.pow(depth as u32) } else { directories };
        let (items, in_directory) = (words.number("-n", 0)?, words.number("-I", 0)?);
        let (items_in_directory, loops) = match (items, in_directory) {
            (0, 0) => return wrong("-n N (items of each task) or -I N (items in each directory) is needed"),
            (0, each) => (each, 1),
            (items, 0) => (items / filled, 1),
            (_, _) if own_tree || depth > 0 => return wrong("-n with -I: neither with -u nor with -z"),
            (items, each) if !items.is_multiple_of(each) => return wrong("-n must be a multiple of -I"),
            (items, each) => (each, items / each),
        };
        if items_in_directory == 0 {
            return wrong(&format!("-n {items} are fewer than the {filled} directories of the tree"));
        }
        let every = !["-C", "-T", "-E", "-r", "-U"].iter().any(|flag| words.has(flag));
        let both = words.has("-F") == words.has("-D");
        let options = Options {
            items_in_directory,
            loops,
            branches,
            depth,
            only_leaves,
            own_tree,
            files: both || words.has("-F"),
            directories: both || words.has("-D"),
            create: every || words.has("-C"),
            stat: every || words.has("-T"),
            read: every || words.has("-E"),
            rename: every || words.has("-U"),
            remove: every || words.has("-r"),
            write_bytes: words.bytes("-w", 0)?,
            read_bytes: words.bytes("-e", 0)?,
            verify: words.has("-X"),
            fsync: words.has("-y"),
            sync: words.has("-Y"),
            stride: words.number("-N", 0)?,
            random: words.value("-R").map(|_| words.number("-R", 0)).transpose()?,
            stonewall: words.seconds("-W")?,
        };
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<(), AppError> {
        let wrong = |what: &str| Err(GRAMMAR.wrong(what));
        if !self.create {
            return wrong("each trial begins in an empty directory: give -C too");
        }
        if self.read_bytes > self.write_bytes {
            return wrong("-e reads more than -w has written");
        }
        if self.write_bytes > ITEM_BYTES_MAX {
            return wrong("-w is at most 1g");
        }
        if self.verify && self.read_bytes == 0 {
            return wrong("-X needs -w and -e");
        }
        if self.stonewall.is_some() && (self.depth > 0 || self.loops > 1) {
            return wrong("-W: in one directory only, without -z and without -n beside -I");
        }
        if self.items_guess() > 1 << 40 {
            return wrong("more than 2^40 items");
        }
        if self.random.is_some() && self.items_guess() > SHUFFLED_MAX {
            return wrong("-R: at most 2^26 items can be shuffled");
        }
        Ok(())
    }

    /// Directories of a tree that hold items: the first of them, and how many.
    pub(crate) fn filled(&self) -> (u64, u64) {
        let all = directories(self.branches, self.depth).unwrap_or(1);
        let leaves = self.branches.pow(self.depth as u32);
        if self.only_leaves { (all - leaves, leaves) } else { (0, all) }
    }

    /// Items of a task of each kind, without a stonewall.
    pub(crate) fn items_guess(&self) -> u64 {
        self.items_in_directory.saturating_mul(self.filled().1).saturating_mul(self.loops)
    }
}

/// Directories of a tree.
fn directories(branches: u64, depth: u64) -> Option<u64> {
    if branches == 0 {
        return None;
    }
    let mut level = 1_u64;
    let mut all = 1_u64;
    for _ in 0..depth.min(DIRECTORIES_MAX + 1) {
        level = level.checked_mul(branches)?;
        all = all.checked_add(level).filter(|all| *all <= DIRECTORIES_MAX)?;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Options, AppError> {
        Options::new(&GRAMMAR.parse(text)?)
    }

    #[test]
    fn numbers_are_those_of_mdtest() {
        let one = read("-n 1000").unwrap();
        assert_eq!((one.items_in_directory, one.loops, one.filled()), (1000, 1, (0, 1)));
        assert!(one.files && one.directories && one.create && one.stat && one.read && one.remove);
        let tree = read("-n 1000 -z 2 -b 3 -F").unwrap();
        assert_eq!((tree.items_in_directory, tree.filled(), tree.items_guess()), (76, (0, 13), 988));
        let leaves = read("-I 10 -z 2 -b 3 -L -C -r").unwrap();
        assert_eq!((leaves.filled(), leaves.items_guess(), leaves.stat), ((4, 9), 90, false));
        assert_eq!(read("-n 100 -I 10").unwrap().loops, 10);
    }

    #[test]
    fn the_commands_of_io500_are_understood() {
        let easy = read("-n 1000000 -u -L -F -P -N 1 -C -Y -W 300").unwrap();
        assert!(easy.own_tree && easy.files && !easy.directories && easy.sync && easy.stride == 1);
        let hard = read("-n 1000000 -t -w 3901 -e 3901 -P -N 1 -F -C -E -X -Y -W 300").unwrap();
        assert_eq!((hard.write_bytes, hard.read_bytes, hard.verify), (3901, 3901, true));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, part) in [
            ("", "-n N"),
            ("-n 10 -T", "-C"),
            ("-n 10 -e 5", "-w"),
            ("-n 10 -I 3", "multiple"),
            ("-n 10 -I 5 -u", "-u"),
            ("-n 5 -z 3 -b 3", "fewer"),
            ("-n 5 -b 0", "at least 1"),
            ("-n 5 -z 900 -b 2", "2^20"),
            ("-n 5 -z 2 -W 1", "one directory"),
            ("-n 5 -B", "meet"),
            ("-n 5 -X", "-w and -e"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
