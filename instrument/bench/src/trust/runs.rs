//! Runs compared with each other, and stacks within a run.

use super::device::Device;
use super::options::{SLOWER, Trust};
use super::program::Program;
use super::spin;
use super::tally::{Limit, Tally};

/// Runs of which each is compared with each.
const RUNS: usize = 10;
/// Runs before and after a device became slower: 45 pairs.
const ANCHORED: (usize, usize) = (9, 5);
/// Blocks are worth their order when ratios within them vary less than this share of what both sides vary.
const UNPAIRED_SHARE: f64 = 0.8;

fn is_called(verdict: &str) -> bool {
    verdict == "better" || verdict == "worse"
}

/// Runs of the same, one after another, each compared with all before it: nothing is better or worse.
pub fn between(trust: &Trust, program: &Program, tally: &mut Tally, stack: &str) -> anyhow::Result<()> {
    let home = program.home()?;
    // two of six pairs say nothing
    let limit = if trust.quick { Limit::Told } else { Limit::AtMost(2, 45) };
    let row = tally.row("R1", format!("between runs, {stack}: wrong"), limit);
    let runs = if trust.quick { 4 } else { RUNS };
    let mut same = 0;
    let mut names: Vec<String> = Vec::new();
    while tally.next(names.len(), runs) {
        let name = format!("same-{}", names.len());
        home.run(&["run", "mail.f", "--on", stack, "--for", "1s", "-n", "6", "--name", &name])?;
        names.push(name);
    }
    // only now: each pair is judged by the history of all others
    for (at, a) in names.iter().enumerate() {
        for b in &names[at + 1..] {
            let said = home.json(&["compare", a, b, "--json"])?;
            let verdict = said.verdict("/pairs/0/lines/0/finding");
            tally.count(row, is_called(verdict));
            same += usize::from(verdict == "same");
            tally.beside(row, format!("same {same}"));
        }
    }
    Ok(())
}

/// Runs on a device and on one whose every request takes 10 % longer, beside an anchor that stays the same: pair by
/// pair the slower one is found, and among the runs on the same device nothing.
pub fn anchored(trust: &Trust, program: &Program, tally: &mut Tally) -> anyhow::Result<()> {
    let what = "between runs with an anchor, a device 10 % slower: found";
    let found = tally.row("R1", what, Limit::AtLeast(36, 45));
    let limit = if trust.quick { Limit::Told } else { Limit::AtMost(2, 45) };
    let wrong = tally.row("R1", "between runs with an anchor, the same device: wrong", limit);
    let home = program.home()?;
    let (before, after) = if trust.quick { (2, 2) } else { ANCHORED };
    let anchor = home.directory("anchor")?;
    let stacks = format!("{},{anchor}", home.directory("cell")?);
    let _anchor = Device::mounted(&home, "anchor", 1.0)?;
    let mut names = [Vec::new(), Vec::new()];
    for (slower, (runs, scale)) in [(before, 1.0), (after, 1.0 + SLOWER)].into_iter().enumerate() {
        let _cell = Device::mounted(&home, "cell", scale)?;
        while tally.next(names[slower].len(), runs) {
            let name = format!("{}-{}", ["before", "after"][slower], names[slower].len());
            home.run(&["run", "fsyncs.f", "--on", &stacks, "--for", "1s", "-n", "6", "--name", &name])?;
            names[slower].push(name);
        }
    }
    let verdict = |a: &str, b: &str| -> anyhow::Result<(String, f64)> {
        let said = home.json(&["compare", a, b, "--anchor", &anchor, "--json"])?;
        let finding = "/pairs/0/lines/0/finding";
        Ok((said.verdict(finding).to_string(), said.number(&format!("{finding}/ratio"))))
    };
    let [before, after] = &names;
    let mut ratios = Vec::new();
    for (a, b) in before.iter().flat_map(|a| after.iter().map(move |b| (a, b))) {
        let (word, ratio) = verdict(a, b)?;
        tally.count(found, word == "worse");
        ratios.push(ratio);
        tally.beside(found, format!("ratio {:.3}", crate::pairs::median(&ratios)));
    }
    for names in &names {
        for (at, a) in names.iter().enumerate() {
            for b in &names[at + 1..] {
                tally.count(wrong, is_called(&verdict(a, b)?.0));
            }
        }
    }
    Ok(())
}

/// One run beside a competing load: it is no ground for a verdict.
pub fn crowded(trust: &Trust, program: &Program, tally: &mut Tally) -> anyhow::Result<()> {
    let what = "a run beside a competing load: `the machine was another`";
    let row = tally.row("R5", what, Limit::AtLeast(19, 20));
    let home = program.home()?;
    let run =
        |name: &str| home.run(&["run", "mail.f", "--on", "tmpfs", "--for", "1s", "-n", "3", "--name", name]);
    let times = trust.times(20, 3);
    let mut made = 0;
    while tally.next(made, times) {
        run("quiet")?;
        let competing = spin::compete(std::thread::available_parallelism().map_or(1, |cores| cores.get()))?;
        run("crowded")?;
        drop(competing);
        let said = home.json(&["compare", "quiet", "crowded", "--json"])?;
        tally.count(row, said.text("/pairs/0/lines/0/finding/verdict/why/doubt") == "other_machine");
        made += 1;
    }
    Ok(())
}

/// A file system in a daemon beside one in the kernel, with and without a competing load: one process, as a compiler beside would
/// be. Told, not judged: where each request waits for a processor twice, a crowded machine is no fair judge, and no share of
/// the CPU that was left says how unfair. With no processor free at all the ratio goes to either side.
pub fn daemon(trust: &Trust, program: &Program, tally: &mut Tally) -> anyhow::Result<()> {
    let what = "a FUSE daemon and ext4 beside a competing load: ratio as when quiet";
    let row = tally.row("R5", what, Limit::Told);
    let home = program.home()?;
    let run = || -> anyhow::Result<[f64; 3]> {
        let stacks = "ext4@image,betrfs@image";
        home.run(&["run", "mail.f", "--on", stacks, "--for", "1s", "-n", "8"])?;
        let said = home.json(&["compare", "last", "--json"])?;
        let finding = "/pairs/0/lines/0/finding";
        Ok(["ratio", "interval/low", "interval/high"].map(|at| said.number(&format!("{finding}/{at}"))))
    };
    let (times, mut made, mut crowded) = (trust.times(5, 1), 0, Vec::new());
    let mut quiet = None;
    while tally.next(made, times) {
        let [ratio, low, high] = match quiet {
            Some(quiet) => quiet,
            None => *quiet.insert(run()?),
        };
        let competing = spin::compete(1)?;
        let [beside, ..] = run()?;
        drop(competing);
        tally.count(row, (low..=high).contains(&beside));
        crowded.push(beside);
        let median = crate::pairs::median(&crowded);
        tally.beside(row, format!("{ratio:.3} ({low:.3} .. {high:.3}) quiet, {median:.3} beside"));
        made += 1;
    }
    Ok(())
}

/// Two equal directories within a run: the interval of their ratio holds 1, and their blocks vary less than trials do.
pub fn within(trust: &Trust, program: &Program, tally: &mut Tally) -> anyhow::Result<()> {
    let home = program.home()?;
    let held = tally.row("R6", "within a run, equal stacks: the interval holds 1", Limit::AtLeast(91, 100));
    let called = tally.row("R6", "within a run, equal stacks: better or worse", Limit::AtMost(9, 100));
    let stacks = format!("{},{}", home.directory("one")?, home.directory("two")?);
    let times = trust.times(100, 5);
    let (mut shares, mut made) = (Shares::default(), 0);
    while tally.next(made, times) {
        let seed = made.to_string();
        home.run(&["run", "mail.f", "--on", &stacks, "--for", "200ms", "-n", "6", "--seed", &seed])?;
        let said = home.json(&["compare", "last", "--json"])?;
        let finding = "/pairs/0/lines/0/finding";
        let end = |name: &str| said.number(&format!("{finding}/interval/{name}"));
        tally.count(held, end("low") <= 1.0 && end("high") >= 1.0);
        tally.count(called, is_called(said.verdict(finding)));
        let cells = home.logarithms()?;
        shares.add(&cells[0], &cells[1])?;
        tally.beside(held, format!("paired / unpaired variance {:.2} (0.8 wanted)", shares.ratio()));
        made += 1;
    }
    Ok(())
}

/// One stack twice in a run of five trials of 2 s, in turns: the same within 5 %.
pub fn alike(trust: &Trust, program: &Program, tally: &mut Tally, stack: &str) -> anyhow::Result<()> {
    let what = |found: &str| format!("run in turns, {stack} twice, five trials of 2 s: {found}");
    let same = tally.row("R8", what("same within 5 %"), Limit::AtLeast(80, 100));
    let wrong = tally.row("R8", what("better or worse"), Limit::AtMost(5, 100));
    let (mut made, mut ratios) = (0, Vec::new());
    let times = trust.times(100, 2);
    while tally.next(made, times) {
        let home = program.home()?;
        let seed = made.to_string();
        let both = format!("{stack},{}", written_otherwise(stack));
        let trials = ["--for", "2s", "-n", "5", "--seed", &seed, "--interleave", "auto", "-q"];
        home.run(&[&["run", "mail.f", "--on", &both][..], &trials].concat())?;
        let said = home.json(&["compare", "last", "--json"])?;
        let finding = "/pairs/0/lines/0/finding";
        let verdict = said.verdict(finding);
        tally.count(same, verdict == "same");
        tally.count(wrong, is_called(verdict));
        ratios.push(said.number(&format!("{finding}/ratio")).ln().abs());
        tally.beside(same, format!("off by {:.1} % (median)", crate::pairs::median(&ratios) * 100.0));
        made += 1;
    }
    Ok(())
}

/// The same stack in other words, so that it is another one of a run: mounted with `rw`, which is the default.
fn written_otherwise(stack: &str) -> String {
    let end = stack.find(['@', ',']).unwrap_or(stack.len());
    format!("{},rw{}", &stack[..end], &stack[end..])
}

/// A study of 54 cells: the two stacks of a set of parameters run right after each other, so that their ratio varies less than
/// they do.
pub fn study(trust: &Trust, program: &Program, tally: &mut Tally) -> anyhow::Result<()> {
    let (cells, files) =
        if trust.quick { (12, "100,200") } else { (54, "100,200,300,400,500,600,700,800,900") };
    let what = format!("{cells} cells: variance in blocks below {UNPAIRED_SHARE} of that of trials");
    let row = tally.row("R6", what, Limit::AtLeast(1, 1));
    let home = program.home()?;
    let stacks = format!("{},{}", home.directory("one")?, home.directory("two")?);
    let sets = [format!("nfiles={files}"), "nthreads=2,4,8".into()];
    if tally.next(0, 1) {
        let words = ["run", "mail.f", "--on", &stacks, "--for", "250ms", "-n", "4"];
        home.run(&[&words[..], &["--set", &sets[0], "--set", &sets[1]]].concat())?;
        let cells = home.logarithms()?;
        let mut shares = Shares::default();
        for (a, b) in home.pairs()? {
            shares.add(&cells[a], &cells[b])?;
        }
        tally.count(row, shares.ratio() < UNPAIRED_SHARE);
        tally.beside(row, format!("{} cells, {:.2}", cells.len(), shares.ratio()));
    }
    Ok(())
}

/// Sums over pairs of cells: the variance of `ln(B/A)` in blocks, and the variances of both sides.
#[derive(Default)]
struct Shares {
    paired: f64,
    unpaired: f64,
}

impl Shares {
    fn add(&mut self, a: &[f64], b: &[f64]) -> anyhow::Result<()> {
        let d: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
        let variance = |values: &[f64]| stats::history::Summary::of_logs(values).map(|all| all.variance);
        self.paired += variance(&d)?;
        self.unpaired += variance(a)? + variance(b)?;
        Ok(())
    }

    fn ratio(&self) -> f64 {
        self.paired / self.unpaired
    }
}
