//! IO500's phases and score, scaled: the write phases end at a stonewall of the user's choice.
//!
//! Order, options of each phase, units and means are those of the benchmark's source (IO500/io500, `src/phase-definitions.h`
//! and `src/main.c`): twelve phases count. A stonewall of less than 300 s is no official result, nor is one whose rates stand
//! on the cache of a single host; the result says so.
//!
//! | module | holds |
//! |---|---|
//! | `score` | the score of phases |
//! | `find` | the scan of all files, shared out among the tasks |

mod find;
mod score;

use std::path::Path;

use stats::Outcome;

use super::ior::options::{GRAMMAR as IOR, Options as IorOptions};
use super::ior::task::Task as IorTask;
use super::mdtest::options::{GRAMMAR as MDTEST, Options as MdtestOptions};
use super::mdtest::task::{Item, Task as MdtestTask};
use super::option_parser::{OptionGrammar, ParsedOptions};
use crate::error::at;
use crate::span::PhaseTotals;
use crate::{AppError, Bench, Load, LoadSite, Parameters};

const GRAMMAR: OptionGrammar = OptionGrammar {
    program: "io500",
    flags: &[],
    valued: &["-D", "-b", "-s", "-n"],
    idle: &[],
    refused: &[("-I", "directories are filled as the rules say")],
};

/// Seconds of the stonewall that the rules ask for.
const OFFICIAL_STONEWALL: f64 = 300.0;
/// Of a trial that nobody has asked more of.
const DEFAULT_STONEWALL: f64 = 5.0;
/// What the rules have as the largest file of a task in the easy phase, and as the most of the others.
const EASY_BLOCK: u64 = 9_920_000 << 20;
const HARD_SEGMENTS: u64 = 10_000_000;
const ITEMS: u64 = 1_000_000;
/// Bytes of a hard transfer and of a hard item: of no alignment.
const HARD_TRANSFER: u64 = 47_008;
const HARD_ITEM: u64 = 3_901;

/// The load `io500`.
#[derive(Debug)]
pub struct Io500 {
    stonewall: f64,
    easy_write: IorOptions,
    easy_read: IorOptions,
    hard_write: IorOptions,
    hard_read: IorOptions,
    random_read: IorOptions,
    easy_items: MdtestOptions,
    hard_items: MdtestOptions,
}

impl Io500 {
    /// Parameter `options`: `-D` seconds of the stonewall, `-b` largest file of a task in the easy phase, `-s` most
    /// transfers of a task in the hard phase, `-n` most items of a task.
    ///
    /// # Errors
    /// An option that is not known, a number out of range.
    pub fn new(parameters: &mut Parameters) -> Result<Io500, AppError> {
        let words: ParsedOptions = GRAMMAR.take(parameters)?;
        let stonewall = words.seconds("-D")?.unwrap_or(DEFAULT_STONEWALL);
        let block = words.bytes("-b", EASY_BLOCK)?.next_multiple_of(2 << 20);
        let segments = words.number("-s", HARD_SEGMENTS)?;
        let items = words.number("-n", ITEMS)?;
        let ior = |text: &str| IorOptions::new(&IOR.parse(text)?);
        let mdtest = |text: &str| MdtestOptions::new(&MDTEST.parse(text)?);
        let easy = format!("-g -e -C -Q 1 -t 2m -b {block} -F -w");
        let hard = format!("-g -e -C -Q 1 -t {HARD_TRANSFER} -b {HARD_TRANSFER} -s {segments} -w");
        let wall = format!("-D {stonewall} -O stoneWallingWearOut=1");
        let random = "-g -e -C -Q 2 -t 4k -b 4k -F -w";
        let mut random_read = ior(&format!("{random} -s {HARD_SEGMENTS}"))?;
        random_read.order = super::ior::options::Order::Drawn;
        random_read.stonewall = Some(stonewall);
        Ok(Io500 {
            stonewall,
            easy_write: ior(&format!("{easy} {wall}"))?,
            easy_read: ior(&format!("{easy} -r -R"))?,
            hard_write: ior(&format!("{hard} {wall}"))?,
            hard_read: ior(&format!("{hard} -r -R"))?,
            random_read,
            easy_items: mdtest(&format!("-n {items} -u -L -F -N 1 -Y -W {stonewall}"))?,
            hard_items: mdtest(&format!(
                "-n {items} -t -F -w {HARD_ITEM} -e {HARD_ITEM} -X -N 1 -Y -W {stonewall}"
            ))?,
        })
    }

    fn is_official_length(&self) -> bool {
        self.stonewall >= OFFICIAL_STONEWALL
    }
}

impl Load for Io500 {
    fn phases(&self) -> u32 {
        1
    }

    fn seconds_guess(&self) -> f64 {
        // four phases write until the stonewall and wear out, one reads until it, the others take as long as was written
        self.stonewall * 12.0
    }

    fn takes_ranks(&self) -> bool {
        true
    }

    fn run(&self, _: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let folder = |name: &str| place.root.join(name);
        let (easy, hard) = (folder("ior-easy"), folder("ior-hard"));
        let (easy_items, hard_items) = (folder("mdtest-easy"), folder("mdtest-hard"));
        // rank 0 makes what the others then find
        if bench.rank_info().rank == 0 {
            for folder in [&easy, &hard, &easy_items, &hard_items] {
                std::fs::create_dir(folder).map_err(at(folder))?;
            }
        }
        bench.ready()?;
        let mut easy = IorTask::new(&self.easy_write, &easy, place.seed, bench);
        easy.write(&self.easy_write, "ior-easy-write", bench)?;
        let mut easy_items = MdtestTask::new(&self.easy_items, &easy_items, place.seed, bench)?;
        easy_items.make_tree(None, bench)?;
        easy_items.create(&self.easy_items, Item::File, "mdtest-easy-write", bench)?;
        let stamp = find::stamp(place.root, bench)?;
        let mut hard = IorTask::new(&self.hard_write, &hard, place.seed, bench);
        hard.write(&self.hard_write, "ior-hard-write", bench)?;
        let mut hard_items = MdtestTask::new(&self.hard_items, &hard_items, place.seed, bench)?;
        hard_items.make_tree(None, bench)?;
        hard_items.create(&self.hard_items, Item::File, "mdtest-hard-write", bench)?;
        self.later(place.root, stamp, (&mut easy, &mut hard), (&mut easy_items, &mut hard_items), bench)
    }

    fn conclude(&self, joint: &[PhaseTotals], outcome: &mut Outcome) {
        score::put(joint, outcome);
        if !self.is_official_length() {
            outcome.notes.push(format!(
                "not an official IO500 result: the stonewall is {} s, the rules ask for {OFFICIAL_STONEWALL}",
                self.stonewall
            ));
        } else {
            outcome
                .notes
                .push("not an IO500 submission: the phases are loadline's own, not the benchmark's".into());
        }
        for one in joint {
            if let Some((seconds, ..)) = one.wall
                && one.phase.ends_with("-write")
                && seconds < self.stonewall
            {
                let what =
                    format!("ended after {seconds:.1} s, before the stonewall: give more by -b, -s or -n");
                outcome.notes.push(format!("{}: {what}", one.phase));
            }
        }
    }
}

impl Io500 {
    /// What comes after all has been written.
    fn later(
        &self,
        root: &Path,
        stamp: find::Stamp,
        (easy, hard): (&mut IorTask, &mut IorTask),
        (easy_items, hard_items): (&mut MdtestTask, &mut MdtestTask),
        bench: &mut Bench<'_>,
    ) -> Result<(), AppError> {
        find::find(root, stamp, HARD_ITEM, "find", bench)?;
        easy.read(&self.easy_read, "ior-easy-read", bench)?;
        easy_items.stat(&self.easy_items, Item::File, "mdtest-easy-stat", bench)?;
        hard.read(&self.hard_read, "ior-hard-read", bench)?;
        hard_items.stat(&self.hard_items, Item::File, "mdtest-hard-stat", bench)?;
        easy_items.remove(&self.easy_items, Item::File, "mdtest-easy-delete", bench)?;
        hard_items.read(&self.hard_items, "mdtest-hard-read", bench)?;
        hard_items.remove(&self.hard_items, Item::File, "mdtest-hard-delete", bench)?;
        easy.read(&self.random_read, "ior-rnd4K-easy-read", bench)?;
        easy_items.remove_tree(None, bench)?;
        hard_items.remove_tree(None, bench)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_scaled_by_options() {
        let make = |text: &str| {
            let given = [("options".to_string(), text.to_string())];
            Io500::new(&mut Parameters::new("io500", &given))
        };
        let default = make("").unwrap();
        assert_eq!((default.stonewall, default.is_official_length()), (5.0, false));
        assert_eq!(default.easy_write.block, EASY_BLOCK);
        assert!(
            default.easy_write.wear_out
                && default.easy_read.stonewall.is_none()
                && default.easy_read.check_read
        );
        assert!(make("-D 300").unwrap().is_official_length());
        let small = make("-D 0.2 -b 3m -s 50 -n 100").unwrap();
        assert_eq!((small.easy_write.block, small.hard_write.segments), (4 << 20, 50));
        assert_eq!(small.hard_items.items_in_directory, 100);
        assert!(make("-t 5").unwrap_err().to_string().contains("no option -t"));
    }
}
