//! Two candidates in turns: commands, and stacks in slices.

use std::time::Instant;

use anyhow::{Context, bail};
use stats::slices;

use super::options::{PLANTED, SLOWER, Trust};
use super::program::{self, Program};
use super::spin::Spins;
use super::tally::{Limit, Tally};

/// Of slices in the checks: the shortest that there are ([`slices::SHORTEST`]), since what a machine with others on it remembers is
/// forgotten within a tenth of a second.
const SLICE: &str = "20ms";
/// Seconds of a comparison of one stack with itself: half of it is measured, ten seconds of each side.
const BUDGET: &str = "40s";
/// Whole trials get so many times the time of slices: their intervals are still wider by a half.
const WHOLE_TIMES: f64 = 4.0;

/// Two commands in turns: the same, and one with 2 % more work.
pub fn commands(trust: &Trust, program: &Program, tally: &mut Tally) -> anyhow::Result<()> {
    // a true 5 % passes 5 of 100 in 38 % of attempts, 9 in 3 %
    let wrong = tally.row("R3", "ab, the same command: better or worse", Limit::AtMost(9, 100));
    let found = tally.row("R3", "ab, 2 % more work: found", Limit::AtLeast(80, 100));
    let this = std::env::current_exe()?;
    let spins = Spins::calibrated(PLANTED);
    let line = |work: u64| format!("'{}' spin {work}", this.display());
    let (mut inverted, mut same) = (0, 0);
    let mut seconds = [Vec::new(), Vec::new()];
    let (times, budget) = (trust.times(100, 3), format!("{}s", trust.budget));
    let mut made = 0;
    while tally.next(made, times) {
        let home = program.home()?;
        // each comparison has an order of its own
        let seed = made.to_string();
        let mut ab = |more: usize| -> anyhow::Result<String> {
            let (a, b) = (line(spins.work), line(if more == 1 { spins.more } else { spins.work }));
            let begin = Instant::now();
            let said = home.ab(&["ab", &a, &b, "--budget", &budget, "--seed", &seed, "-q"]);
            seconds[more].push(begin.elapsed().as_secs_f64());
            said
        };
        let alike = ab(0)?;
        tally.count(wrong, alike.contains("B is better") || alike.contains("B is worse"));
        same += usize::from(alike.contains("The same within"));
        let planted = ab(1)?;
        tally.count(found, planted.contains("B is worse"));
        inverted += usize::from(planted.contains("B is better"));
        made += 1;
        let each = |side: usize| crate::pairs::median(&seconds[side]);
        tally.beside(wrong, format!("same {same}; {:.0} s each, budget {budget}", each(0)));
        let cpu = spins.cpu_ratio;
        tally.beside(found, format!("{:.0} s each, wrong way {inverted}; CPU time x{cpu:.3}", each(1)));
    }
    Ok(())
}

/// The same stack twice, in slices, for ten seconds of each: the same within 5 %.
pub fn in_slices(trust: &Trust, program: &Program, tally: &mut Tally, stack: &str) -> anyhow::Result<()> {
    let what = |found: &str| format!("slices, {stack} twice, 10 s of each: {found}");
    let least = if trust.beside.is_some() { 80 } else { 90 };
    let same = tally.row("R2", what("same within 5 %"), Limit::AtLeast(least, 100));
    let wrong = tally.row("R2", what("better or worse"), Limit::AtMost(9, 100));
    let (mut widths, mut unlike, mut made) = (Vec::new(), Vec::new(), 0);
    let times = trust.times(100, 2);
    while tally.next(made, times) {
        let home = program.home()?;
        let seed = made.to_string();
        let words = ["ab", stack, stack, "-w", "mail.f", "--slices", SLICE, "--budget", BUDGET];
        let said = home.ab(&[&words[..], &["--target", "5", "--seed", &seed, "-q"]].concat())?;
        tally.count(same, said.contains("The same within"));
        tally.count(wrong, said.contains("B is better") || said.contains("B is worse"));
        made += 1;
        unlike.extend(number_before(&said, " % from build to build"));
        widths.extend(half_width(&said));
        // *same* can be decided at a look that is too early for an interval at 95 %
        if !widths.is_empty() {
            tally.beside(same, format!("+-{:.1} %", crate::pairs::median(&widths) * 100.0));
        }
        tally.beside(wrong, format!("builds differ by {:.1} % (sd)", crate::pairs::median(&unlike)));
    }
    Ok(())
}

/// 10 % more work an operation on B, by slices and by whole trials: they must say the same ratio.
pub fn planted(trust: &Trust, program: &Program, tally: &mut Tally, stack: &str) -> anyhow::Result<()> {
    let found = tally.row("R2", format!("slices, {stack}, 10 % more work: found"), Limit::Told);
    let mut ratios = Vec::new();
    let mut made = 0;
    while tally.next(made, program::LOADS.len()) {
        let name = program::LOADS[made].0;
        let home = program.home()?;
        let b = format!("work={:.0}", stores_for(&home, name, stack)?);
        // what ends at the first sight of a difference shows it too large
        let common = ["ab", stack, stack, "-w", name, "--set-b", &b, "--one-look", "-q", "--budget"];
        let of = |seconds: f64| format!("{seconds}s");
        let said = home.ab(&[&common[..], &[&of(trust.budget), "--slices", SLICE]].concat())?;
        let by_slices = home.differences()?;
        tally.count(found, said.contains("B is worse"));
        let long = of(WHOLE_TIMES * trust.budget);
        home.ab(&[&common[..], &[&long, "--for", "200ms"]].concat())?;
        let by_whole = home.differences()?;
        let load = name.trim_end_matches(".f");
        let what = format!("slices, {stack}, {load}: as whole trials within 2 %");
        let row = tally.row("R4", what, Limit::Told);
        let agreed = slices::trust(&by_slices, &by_whole)?;
        tally.count(row, matches!(agreed, slices::SliceValidity::Trusted { .. }));
        let mean = |values: &[f64]| (values.iter().sum::<f64>() / values.len().max(1) as f64).exp();
        let words = match agreed {
            slices::SliceValidity::Trusted { .. } => "trusted".to_string(),
            slices::SliceValidity::Refused { apart } => {
                format!("apart by {:.1} %: refused", (apart - 1.0) * 100.0)
            }
            slices::SliceValidity::Unproven { half_width, .. } => {
                format!("+-{:.1} %: unproven", half_width * 100.0)
            }
        };
        let (few, whole) = (mean(&by_slices), mean(&by_whole));
        tally.beside(row, format!("B/A {few:.3} by slices, {whole:.3} by whole trials: {words}"));
        ratios.push(few);
        tally.beside(found, format!("B/A {:.3}", crate::pairs::median(&ratios)));
        made += 1;
    }
    Ok(())
}

/// Stores to memory that make an operation of this load take a tenth longer. So many are made that it takes twice as long: that says
/// what one costs in the program as it was built, whatever else an operation is.
fn stores_for(home: &program::Home, load: &str, stack: &str) -> anyhow::Result<f64> {
    /// Stores of the first guess; each next one has four times as many.
    const FEW: u64 = 10_000;
    /// About half a second: no operation of these loads takes so long.
    const MOST: u64 = 1_000_000_000;
    let seconds = |stores: u64| -> anyhow::Result<f64> {
        let work = format!("work={stores}");
        home.run(&["run", load, "--on", stack, "--set", &work, "--for", "500ms", "-n", "1"])?;
        let report = home.report()?;
        let trial = report.trials().next().context("a run without a trial")?;
        Ok(trial.seconds / trial.operations.max(1) as f64)
    };
    let without = seconds(0)?;
    let mut stores = FEW;
    while stores <= MOST {
        let with = seconds(stores)?;
        if with > 2.0 * without {
            return Ok((SLOWER * stores as f64 * without / (with - without)).max(1.0));
        }
        stores *= 4;
    }
    bail!(
        "{MOST} stores to memory before each operation of {load} on {stack} do not make it take twice as long"
    )
}

/// The number that stands before some words.
fn number_before(text: &str, words: &str) -> Option<f64> {
    text.split_once(words)?.0.split_whitespace().next_back()?.parse().ok()
}

/// Relative half width of `(0.981 .. 1.019)`.
fn half_width(text: &str) -> Option<f64> {
    let inside = text.split_once("B/A ")?.1.split_once('(')?.1.split_once(')')?.0;
    let (low, high) = inside.split_once(" .. ")?;
    Some((high.parse::<f64>().ok()? / low.parse::<f64>().ok()?).sqrt() - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_answer() {
        let said = "A and B are both ext4. The same within 5 %: B/A 1.003 (0.980 .. 1.020). Mean: A 1, B 1. \
                    Built anew, the same two differ by 1.3 % from build to build (sd); more.";
        assert_eq!(number_before(said, " % from build to build"), Some(1.3));
        assert!((half_width(said).unwrap() - 0.0202).abs() < 1e-3);
        assert_eq!(half_width("Not decided yet: B/A 1.003."), None);
    }
}
