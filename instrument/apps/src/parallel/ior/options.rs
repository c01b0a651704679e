//! IOR's options, of those that make sense in an empty directory without MPI-IO.

use crate::AppError;
use crate::parallel::data::Pattern;
use crate::parallel::option_parser::{OptionGrammar, ParsedOptions};

/// Which of IOR's options there are.
pub(crate) const GRAMMAR: OptionGrammar = OptionGrammar {
    program: "ior",
    flags: &["-w", "-r", "-W", "-R", "-F", "-u", "-C", "-Z", "-z", "-e", "-Y", "-g", "--posix.odirect"],
    valued: &["-b", "-t", "-s", "-D", "-O", "-Q", "-X", "-G", "-l", "-o", "-a", "-i"],
    idle: &["-v", "-k", "-E", "-x"],
    refused: &[
        ("-c", "collective I/O is that of MPI-IO, and there is no MPI here"),
        ("-N", "the launcher says how many tasks there are"),
        ("-d", "use `--trials` for repetitions"),
        ("-M", "use `--memory`"),
        ("-m", "each trial has files of its own"),
        ("-T", "use `-D`, or `--timeout`"),
        ("-f", "give the options here, or make a study of them"),
        ("-p", "files are not preallocated"),
        ("-j", "ranks that are slow are named in any case"),
    ],
};

/// Who reads what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadBack {
    /// Each task its own.
    Own,
    /// `-C`: each task what the one so many nodes (on one host: tasks) further has written.
    Further(u32),
    /// `-Z`: a random order, never one's own.
    Random(u64),
}

/// In which order the transfers of a task are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// One after the other.
    Sequential,
    /// `-z`: each once, shuffled.
    Shuffled,
    /// `-z -z`: drawn, so that some come twice.
    Drawn,
}

/// What IOR is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Options {
    pub block: u64,
    pub transfer: u64,
    pub segments: u64,
    pub file_per_process: bool,
    pub own_directory: bool,
    pub write: bool,
    pub read: bool,
    pub check_read: bool,
    pub check_write: bool,
    pub read_back: ReadBack,
    pub order: Order,
    pub fsync: bool,
    pub fsync_each: bool,
    pub barriers: bool,
    pub direct: bool,
    /// Seconds.
    pub stonewall: Option<f64>,
    pub wear_out: bool,
    pub pattern: Pattern,
    pub signature: u64,
    pub name: String,
}

/// Transfers whose order can be shuffled in memory: 512 MiB of numbers.
const SHUFFLED_MAX: u64 = 1 << 26;
/// The largest transfer: it is a buffer in memory.
const TRANSFER_MAX: u64 = 1 << 30;

impl Options {
    /// Reads them.
    pub(crate) fn new(words: &ParsedOptions) -> Result<Options, AppError> {
        let wrong = |what: &str| Err(GRAMMAR.wrong(what));
        GRAMMAR.check_common(words)?;
        let (write, check_write) = (words.has("-w"), words.has("-W"));
        let (read, check_read) = (words.has("-r"), words.has("-R"));
        let none = !(write || check_write || read || check_read);
        let distance = u32::try_from(words.number("-Q", 1)?).unwrap_or(u32::MAX);
        let (stonewall, wear_out) = wall(words)?;
        let options = Options {
            block: words.bytes("-b", 1 << 20)?,
            transfer: words.bytes("-t", 256 << 10)?,
            segments: words.number("-s", 1)?,
            file_per_process: words.has("-F"),
            own_directory: words.has("-u"),
            write: write || none,
            read: read || check_read || none,
            check_read,
            check_write,
            read_back: match (words.has("-C"), words.has("-Z")) {
                (true, true) => return wrong("-C and -Z are two orders: give one"),
                (true, false) => ReadBack::Further(distance),
                (false, true) => ReadBack::Random(words.number("-X", 0)?),
                (false, false) => ReadBack::Own,
            },
            order: match words.times("-z") {
                0 => Order::Sequential,
                1 => Order::Shuffled,
                _ => Order::Drawn,
            },
            fsync: words.has("-e"),
            fsync_each: words.has("-Y"),
            barriers: words.has("-g"),
            direct: words.has("--posix.odirect"),
            stonewall,
            wear_out,
            pattern: match words.value("-l").unwrap_or("t") {
                "t" | "timestamp" => Pattern::Timestamp,
                "o" | "offset" => Pattern::Offset,
                _ => return wrong("-l: t (the same buffer each time) or o (stamped with the offset)"),
            },
            signature: words.number("-G", 0)?,
            name: words.value("-o").unwrap_or("testFile").to_string(),
        };
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<(), AppError> {
        let wrong = |what: &str| Err(GRAMMAR.wrong(what));
        if !self.write {
            return wrong(
                "each trial begins in an empty directory: what is to be read must be written, give -w too",
            );
        }
        if self.transfer == 0 || self.block == 0 || self.segments == 0 {
            return wrong("-t, -b and -s are at least 1");
        }
        if !self.block.is_multiple_of(self.transfer) {
            return wrong("the block (-b) must be a multiple of the transfer (-t)");
        }
        if !self.transfer.is_multiple_of(8) {
            return wrong("the transfer (-t) must be a multiple of 8");
        }
        if self.transfer > TRANSFER_MAX {
            return wrong("the transfer (-t) is at most 1g");
        }
        if self.block.checked_mul(self.segments).is_none_or(|bytes| bytes > 1 << 60) {
            return wrong("-b times -s is too much");
        }
        if self.own_directory && !self.file_per_process {
            return wrong("-u needs -F");
        }
        if self.order == Order::Shuffled && self.transfers() > SHUFFLED_MAX {
            return wrong("-z: at most 2^26 transfers can be shuffled; -z -z draws them");
        }
        if self.order == Order::Drawn && (self.check_read || self.check_write) {
            return wrong("-z -z leaves holes, which no check can know: leave out -R and -W");
        }
        if self.order == Order::Drawn && self.read {
            return wrong(
                "-z -z with -w leaves holes, and reading them is no I/O: give -z once, or leave out -r",
            );
        }
        if self.name.contains('/') || self.name.is_empty() || self.name.starts_with('.') {
            return wrong("-o is a file name; the directory is that of `--on`");
        }
        Ok(())
    }

    /// Transfers of a task.
    pub(crate) fn transfers(&self) -> u64 {
        self.block / self.transfer * self.segments
    }

    /// Bytes of a task.
    pub(crate) fn bytes_of_task(&self) -> u64 {
        self.block * self.segments
    }
}

/// The stonewall's seconds, and whether all go on to the largest count.
fn wall(words: &ParsedOptions) -> Result<(Option<f64>, bool), AppError> {
    let stonewall = words.seconds("-D")?;
    let mut wear_out = false;
    for (key, value) in words.pairs("-O") {
        match key.as_str() {
            "stonewallingwearout" => wear_out = value != "0",
            // the count is known to the read phase, which is in the same trial
            "stonewallingstatusfile" | "summaryformat" | "summaryfile" => {}
            _ => return Err(GRAMMAR.wrong(&format!("-O {key}: only stoneWallingWearOut=1"))),
        }
    }
    if wear_out && stonewall.is_none() {
        return Err(GRAMMAR.wrong("-O stoneWallingWearOut needs -D"));
    }
    Ok((stonewall, wear_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Options, AppError> {
        Options::new(&GRAMMAR.parse(text)?)
    }

    #[test]
    fn defaults_are_those_of_ior() {
        let options = read("").unwrap();
        assert_eq!((options.block, options.transfer, options.segments), (1 << 20, 256 << 10, 1));
        assert!(options.write && options.read && !options.check_read && !options.file_per_process);
        assert_eq!(
            (options.read_back, options.order, options.transfers()),
            (ReadBack::Own, Order::Sequential, 4)
        );
    }

    #[test]
    fn the_commands_of_io500_are_understood() {
        let hard = read("-C -Q 1 -g -k -e -t 47008 -b 47008 -s 100 -w -r -R -D 300 -O stoneWallingWearOut=1")
            .unwrap();
        assert_eq!(
            (hard.block, hard.segments, hard.stonewall, hard.wear_out),
            (47008, 100, Some(300.0), true)
        );
        assert_eq!(hard.read_back, ReadBack::Further(1));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, part) in [
            ("-r", "empty directory"),
            ("-b 1m -t 300k", "multiple"),
            ("-b 4 -t 4", "multiple of 8"),
            ("-u", "-F"),
            ("-z -z -w -R", "holes"),
            ("-C -Z", "give one"),
            ("-a MPIIO", "POSIX"),
            ("-c", "MPI-IO"),
            ("-i 3", "--trials"),
            ("-o ../x", "file name"),
            ("-O stoneWallingWearOut=1", "needs -D"),
            ("-t 2g -b 2g", "at most 1g"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
