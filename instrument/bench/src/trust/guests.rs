//! Deterministic guests: the same again is the same to the bit, and a difference of half a percent is found by two trials,
//! whatever else the machine does.

use std::cell::Cell;

use anyhow::{Context, bail};

use super::options::Trust;
use super::program::{Home, Program};
use super::tally::{Limit, Row, Tally};

/// Difference that is planted: more work before each fsync, as a share of the time of a round.
const PLANTED: f64 = 0.005;
/// The same as a number of instructions: what a change of a file system's own path may be.
const INSTRUCTIONS: f64 = 300.0;
/// Writes and fsyncs of a trial. A file system's commits fall now into one round, now into the next; so many rounds hide
/// it.
const OPERATIONS: &str = "10000";
/// The same on the emulated SSD, whose model runs in the guest too and takes its share of the machine's time.
const OPERATIONS_SSD: &str = "4000";
/// How often what is so much larger, or takes so much longer, is looked for.
const FEW: usize = 5;
/// Turns of the planted work by which an instruction is weighed.
const WEIGHED_TURNS: u64 = 1000;
/// What makes a stack a deterministic guest; the seeds of its two trials are 1 and 2, whose boots are kept.
const GUEST: &str = "+kernel:debian-6.12+deterministic";
const MITIGATIONS_OFF: &str = "+kernel:debian-6.12(mitigations=off)+deterministic";

/// All checks of deterministic guests.
pub fn deterministic(trust: &Trust, program: &Program, tally: &mut Tally) -> anyhow::Result<()> {
    let bench = Bench { home: program.home()?, runs: Cell::new(0) };
    let stack = |device: &str| format!("ext4@{device}:256M{GUEST}");
    let flat = stack("null");
    let ssd = stack("860evo");
    let same = tally.row("R7", "deterministic guest, the same: raw data equal", Limit::AtLeast(20, 20));
    let half = tally.row("R7", "deterministic guest, 0.5 % more work: found", Limit::AtLeast(19, 20));
    let few = tally.row("R7", "deterministic guest, 300 instructions more: found", Limit::Told);
    let on_ssd = tally.row("R7", "deterministic guest, 860evo, 0.5 % more work: found", Limit::Told);
    let barrier = tally.row("R7", "deterministic guest, nobarrier: found", Limit::AtLeast(1, 1));
    let mitigations = tally.row("R7", "deterministic guest, mitigations=off: found", Limit::AtLeast(1, 1));
    let mut planted = Vec::new();
    for (stack, row) in [(&flat, half), (&ssd, on_ssd)] {
        let (round_ns, turn_ns) = bench.weigh(stack)?;
        planted.push(Planted::new(PLANTED * round_ns, round_ns, turn_ns, row));
        if row.is(half) {
            planted.push(Planted::new(INSTRUCTIONS, round_ns, turn_ns, few));
        }
    }
    let (times, mut made) = (trust.times(20, 2), 0);
    while tally.next(made, times) {
        let seed = made.to_string();
        let base = bench.run(&flat, &seed, 0)?;
        let again = bench.run(&flat, &seed, 0)?;
        let (verdict, _) = bench.compare(&base, &again)?;
        tally.count(same, verdict == "same" && bench.raw_data(&base)? == bench.raw_data(&again)?);
        for plant in planted.iter_mut().filter(|plant| plant.row.is(half)) {
            let other = bench.run(&flat, &seed, plant.turns)?;
            plant.count(tally, bench.compare(&base, &other)?);
        }
        made += 1;
        if made > trust.times(FEW, 1) {
            continue;
        }
        let base_ssd = bench.run(&ssd, &seed, 0)?;
        for plant in planted.iter_mut().filter(|plant| !plant.row.is(half)) {
            let (stack, base) = if plant.row.is(on_ssd) { (&ssd, &base_ssd) } else { (&flat, &base) };
            let other = bench.run(stack, &seed, plant.turns)?;
            plant.count(tally, bench.compare(base, &other)?);
        }
        let options = [
            (barrier, flat.replace("ext4@", "ext4,nobarrier@")),
            (mitigations, flat.replace(GUEST, MITIGATIONS_OFF)),
        ];
        for (row, stack) in options {
            let other = bench.run(&stack, &seed, 0)?;
            let (verdict, ratio) = bench.compare(&base, &other)?;
            tally.count(row, verdict == "better");
            tally.beside(row, format!("last ratio {ratio:.4}"));
        }
    }
    Ok(())
}

/// A planted difference.
struct Planted {
    row: Row,
    turns: u64,
    /// What is planted, in instructions and as a share of a round.
    instructions: f64,
    share: f64,
    ratios: Vec<f64>,
}

impl Planted {
    fn new(instructions: f64, round_ns: f64, turn_ns: f64, row: Row) -> Planted {
        let turns = (instructions / turn_ns).round();
        let instructions = turns * turn_ns;
        Planted { row, turns: turns as u64, instructions, share: instructions / round_ns, ratios: Vec::new() }
    }

    fn count(&mut self, tally: &mut Tally, (verdict, ratio): (String, f64)) {
        tally.count(self.row, verdict == "worse");
        self.ratios.push(ratio);
        let (low, high) = self.ratios.iter().fold((f64::MAX, 0.0f64), |(l, h), r| (l.min(*r), h.max(*r)));
        let median = crate::pairs::median(&self.ratios);
        tally.beside(
            self.row,
            format!(
                "{:.0} instructions, {:.2} % of a round; ratio {median:.4} ({low:.4} .. {high:.4})",
                self.instructions,
                100.0 * self.share
            ),
        );
    }
}

/// Where runs are made.
struct Bench<'p> {
    home: Home<'p>,
    runs: Cell<usize>,
}

impl Bench<'_> {
    /// Two trials; the run's name.
    fn run(&self, stack: &str, seed: &str, turns: u64) -> anyhow::Result<String> {
        self.runs.set(self.runs.get() + 1);
        let name = format!("guest-{}", self.runs.get());
        // written into the workload: as a variable it would be another cell
        let text = std::fs::read_to_string(self.home.place("")?.join("fsyncs.f"))?;
        let work = self.home.place("planted")?.join("fsyncs.f");
        std::fs::write(&work, text.replacen("$work=0", &format!("$work={turns}"), 1))?;
        let work = work.to_string_lossy();
        let operations = if stack.contains("null") { OPERATIONS } else { OPERATIONS_SSD };
        let words = ["run", &work, "--on", stack, "--ops", operations, "-n", "2", "--seed", seed, "--name"];
        self.home.run(&[&words[..], &[&name]].concat())?;
        Ok(name)
    }

    /// Verdict on the second run and ratio of throughputs.
    fn compare(&self, a: &str, b: &str) -> anyhow::Result<(String, f64)> {
        let said = self.home.json(&["compare", a, b, "--json"])?;
        let finding = "/pairs/0/lines/0/finding";
        Ok((said.verdict(finding).to_string(), said.number(&format!("{finding}/ratio"))))
    }

    /// Checksums of the trials' raw data.
    fn raw_data(&self, run: &str) -> anyhow::Result<Vec<String>> {
        let report = self.home.report_of(run)?;
        let sums =
            (0..2).map(|n| report.text(&format!("/run/trials/{n}/environment/guest/raw_data")).to_string());
        let mut sums: Vec<String> = sums.collect();
        sums.sort();
        if sums.iter().any(String::is_empty) {
            bail!("run {run} has no two trials of a deterministic guest");
        }
        Ok(sums)
    }

    /// How long a round of the load takes in a stack's guest, and a turn of the planted work, in virtual ns, which are
    /// instructions.
    fn weigh(&self, stack: &str) -> anyhow::Result<(f64, f64)> {
        let mean = |turns: u64| -> anyhow::Result<(f64, f64)> {
            let report = self.home.report_of(&self.run(stack, "1", turns)?)?;
            let rounds = report.number("/run/trials/0/outcome/ops/0/ops");
            let sum = report.number("/run/trials/0/outcome/ops/0/service/sum");
            let seconds = report.number("/run/trials/0/outcome/measured_seconds");
            Ok((sum / rounds, 1e9 * seconds / rounds))
        };
        let (none, round) = mean(0)?;
        let (some, _) = mean(WEIGHED_TURNS)?;
        let turn = (some - none) / WEIGHED_TURNS as f64;
        (turn > 0.0 && round > 0.0).then_some((round, turn)).context("the planted work takes no time")
    }
}
