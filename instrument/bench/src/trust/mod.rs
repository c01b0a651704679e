//! Are the verdicts right? The same is compared with the same, and a planted difference is looked for, with the
//! program as its user runs it, on this machine as it is.
//!
//! The checks are those of docs/statistics.md, "Real checks". Each says a count and its limit. Beside a competing load
//! the same command says what holds then.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | the checks |
//! | `device` | a file system on an emulated SSD of its own: where a slower device is planted |
//! | `program` | runs of `loadline` in a home of their own, and what they say |
//! | `spin` | work whose amount is known: what is planted in commands |

mod device;
mod program;
pub mod spin;

use std::io::Write;

use clap::Args;
use stats::Thresholds;
use stats::slices::{self, Slice};

use device::Device;
use program::{Program, Said};

/// Options of `trust`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline-bench trust --quick                       a few of each, some minutes
  loadline-bench trust --only between                all ten runs of each stack, 45 pairs each
  loadline-bench trust --only slices --count 100
Exit code: 1 when a limit is passed.")]
pub struct Trust {
    /// Few of each: whether it works at all, no evidence
    #[arg(long)]
    quick: bool,
    /// Only checks whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// How often each comparison is made; pairs between runs come of ten runs
    #[arg(long)]
    count: Option<usize>,
    /// Stacks of the checks between runs and of those in slices
    #[arg(long, value_delimiter = ';', default_value = "tmpfs;ext4@image;ext4@860evo")]
    on: Vec<String>,
    /// Seconds that one comparison in turns may take
    #[arg(long, default_value_t = 30.0)]
    budget: f64,
    /// The program [default: loadline beside this one]
    #[arg(long)]
    program: Option<std::path::PathBuf>,
}

/// Runs of which each is compared with each.
const RUNS: usize = 10;
/// Work of a spinning command, in additions: about a hundredth of a second.
const SPIN: u64 = 30_000_000;
/// The planted difference of commands.
const PLANTED: f64 = 0.02;

/// Runs before and after a device became slower: 45 pairs.
const ANCHORED: (usize, usize) = (9, 5);
/// What is planted in a device: every request takes this much longer.
const SLOWER: f64 = 0.10;

/// A check's outcome.
struct Counted {
    what: String,
    count: usize,
    of: usize,
    limit: Limit,
    beside: String,
}

enum Limit {
    AtMost(usize),
    AtLeast(usize),
    /// It is told, and no limit is known.
    Told,
}

impl Counted {
    fn holds(&self) -> bool {
        match self.limit {
            Limit::AtMost(limit) => self.count <= limit,
            Limit::AtLeast(limit) => self.count >= limit,
            Limit::Told => true,
        }
    }

    fn print(&self) -> anyhow::Result<()> {
        let limit = match self.limit {
            Limit::AtMost(limit) => format!("at most {limit}"),
            Limit::AtLeast(limit) => format!("at least {limit}"),
            Limit::Told => "told".into(),
        };
        let word = if self.holds() { "holds" } else { "MISSED" };
        println!(
            "{:<58} {:>4} of {:<4} {limit:<13} {word:<7} {}",
            self.what, self.count, self.of, self.beside
        );
        std::io::stdout().flush()?;
        Ok(())
    }
}

/// Makes the checks; whether all limits hold.
pub fn trust(trust: &Trust) -> anyhow::Result<bool> {
    let program = Program::new(trust.program.as_deref())?;
    crate::pairs::print_machine();
    println!("\n{:<58} {:>12} limit", "check", "count");
    let mut all = true;
    let mut say = |counted: Vec<Counted>| -> anyhow::Result<()> {
        for one in &counted {
            one.print()?;
            all &= one.holds();
        }
        Ok(())
    };
    let wanted = |name: &str| name.contains(&trust.only);
    if wanted("between") {
        for stack in &trust.on {
            say(between(trust, &program, stack)?)?;
        }
    }
    if wanted("anchored") {
        say(anchored(trust, &program)?)?;
    }
    if wanted("crowded") {
        say(vec![crowded(trust, &program)?])?;
    }
    if wanted("commands") {
        say(commands(trust, &program)?)?;
    }
    if wanted("slices") {
        for stack in &trust.on {
            say(vec![in_slices(trust, &program, stack)?])?;
        }
    }
    if wanted("planted") {
        for stack in &trust.on {
            say(planted(trust, &program, stack)?)?;
        }
    }
    Ok(all)
}

impl Trust {
    fn times(&self, full: usize, quick: usize) -> usize {
        self.count.unwrap_or(if self.quick { quick } else { full })
    }
}

/// Ten runs of the same, compared pair by pair: nothing is better or worse.
fn between(trust: &Trust, program: &Program, stack: &str) -> anyhow::Result<Vec<Counted>> {
    let home = program.home()?;
    let runs = if trust.quick { 4 } else { RUNS };
    let names: Vec<String> = (0..runs).map(|run| format!("same-{run}")).collect();
    for name in &names {
        home.run(&["run", "mail.f", "--on", stack, "--for", "1s", "-n", "6", "--name", name])?;
    }
    let (mut wrong, mut same, mut pairs) = (0, 0, 0);
    for (at, a) in names.iter().enumerate() {
        for b in &names[at + 1..] {
            let said = home.json(&["compare", a, b, "--json"])?;
            let verdict = said.verdict("/pairs/0/lines/0/finding");
            pairs += 1;
            wrong += usize::from(verdict == "better" || verdict == "worse");
            same += usize::from(verdict == "same");
        }
    }
    let limit = if runs == RUNS { Limit::AtMost(2) } else { Limit::Told };
    let beside = format!("same {same}, cannot tell {}", pairs - wrong - same);
    Ok(vec![Counted {
        what: format!("between runs, {stack}: wrong"),
        count: wrong,
        of: pairs,
        limit,
        beside,
    }])
}

/// Runs on a device and on one whose every request takes 10 % longer, beside an anchor that stays the same: pair by
/// pair the slower one is found, and among the runs on the same device nothing.
fn anchored(trust: &Trust, program: &Program) -> anyhow::Result<Vec<Counted>> {
    let home = program.home()?;
    let (before, after) = if trust.quick { (2, 2) } else { ANCHORED };
    let stacks = format!("{},{}", home.directory("cell")?, home.directory("anchor")?);
    let anchor = home.directory("anchor")?;
    let _anchor = Device::mounted(&home, "anchor", 1.0)?;
    let mut names = [Vec::new(), Vec::new()];
    for (slower, (runs, scale)) in [(before, 1.0), (after, 1.0 + SLOWER)].into_iter().enumerate() {
        let _cell = Device::mounted(&home, "cell", scale)?;
        for run in 0..runs {
            let name = format!("{}-{run}", if slower == 0 { "before" } else { "after" });
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
    let (mut found, mut ratios) = (0, Vec::new());
    for a in before {
        for b in after {
            let (word, ratio) = verdict(a, b)?;
            found += usize::from(word == "worse");
            ratios.push(ratio);
        }
    }
    let pairs = ratios.len();
    let (mut wrong, mut alike) = (0, 0);
    for names in &names {
        for (at, a) in names.iter().enumerate() {
            for b in &names[at + 1..] {
                let (word, _) = verdict(a, b)?;
                wrong += usize::from(word == "better" || word == "worse");
                alike += 1;
            }
        }
    }
    let found = Counted {
        what: "between runs with an anchor, a device 10 % slower: found".into(),
        count: found,
        of: pairs,
        limit: Limit::AtLeast(pairs * 36 / 45),
        beside: format!("ratio {:.3}", crate::pairs::median(&ratios)),
    };
    let what = "between runs with an anchor, the same device: wrong".into();
    // of 46 pairs
    let limit = if trust.quick { Limit::Told } else { Limit::AtMost(2) };
    Ok(vec![found, Counted { what, count: wrong, of: alike, limit, beside: String::new() }])
}

/// One run beside a competing load: it is no ground for a verdict.
fn crowded(trust: &Trust, program: &Program) -> anyhow::Result<Counted> {
    let home = program.home()?;
    let times = trust.times(20, 3);
    let mut seen = 0;
    for _ in 0..times {
        home.run(&["run", "mail.f", "--on", "tmpfs", "--for", "1s", "-n", "3", "--name", "quiet"])?;
        let competing = spin::compete(std::thread::available_parallelism().map_or(1, |cores| cores.get()))?;
        home.run(&["run", "mail.f", "--on", "tmpfs", "--for", "1s", "-n", "3", "--name", "crowded"])?;
        drop(competing);
        let said = home.json(&["compare", "quiet", "crowded", "--json"])?;
        seen += usize::from(said.text("/pairs/0/lines/0/finding/verdict/why/doubt") == "other_machine");
    }
    Ok(Counted {
        what: "a run beside a competing load: `the machine was another`".into(),
        count: seen,
        of: times,
        limit: Limit::AtLeast(times * 19 / 20),
        beside: String::new(),
    })
}

/// Two commands in turns: the same, and one with 2 % more work.
fn commands(trust: &Trust, program: &Program) -> anyhow::Result<Vec<Counted>> {
    let times = trust.times(100, 3);
    let this = std::env::current_exe()?;
    let line = |work: u64| format!("'{}' spin {work}", this.display());
    let more = (SPIN as f64 * (1.0 + PLANTED)) as u64;
    let (mut wrong, mut found, mut inverted) = (0, 0, 0);
    let mut seconds = 0.0;
    for time in 0..times {
        let home = program.home()?;
        let budget = format!("{}s", trust.budget);
        // quotes have no use in a seed: each comparison has an order of its own
        let seed = time.to_string();
        let ab = |a: &str, b: &str| home.ab(&["ab", a, b, "--budget", &budget, "--seed", &seed, "-q"]);
        let same = ab(&line(SPIN), &line(SPIN))?;
        wrong += usize::from(same.contains("is better") || same.contains("is worse"));
        let begin = std::time::Instant::now();
        let planted = ab(&line(SPIN), &line(more))?;
        seconds += begin.elapsed().as_secs_f64();
        found += usize::from(planted.contains("B is worse"));
        inverted += usize::from(planted.contains("B is better"));
    }
    // a true 5 % passes 5 of 100 in 38 % of attempts, 9 in 3 %
    let beside = format!("budget {} s", trust.budget);
    let limit = Limit::AtMost((times * 9).div_ceil(100));
    let same = Counted {
        what: "ab, the same command: better or worse".into(),
        count: wrong,
        of: times,
        limit,
        beside,
    };
    let beside = format!("{:.0} s each, wrong way {inverted}", seconds / times.max(1) as f64);
    let limit = Limit::AtLeast(times * 80 / 100);
    let what = "ab, 2 % more work: found".into();
    Ok(vec![same, Counted { what, count: found, of: times, limit, beside }])
}

/// The same stack twice, in slices for 20 s: the same within 5 %.
fn in_slices(trust: &Trust, program: &Program, stack: &str) -> anyhow::Result<Counted> {
    let times = trust.times(100, 2);
    let (mut same, mut wrong, mut widths) = (0, 0, Vec::new());
    for time in 0..times {
        let home = program.home()?;
        let seed = time.to_string();
        // with a target of nothing it is never the same, so that the whole budget is used
        let words = ["ab", stack, stack, "-w", "mail.f", "--slices", "50ms", "--budget", "20s"];
        home.ab(&[&words[..], &["--target", "0.01", "--seed", &seed, "-q"]].concat())?;
        let found = sliced(&home.report()?)?;
        let verdict = found.finding.verdict;
        same += usize::from(verdict == stats::Verdict::Same);
        wrong += usize::from(matches!(verdict, stats::Verdict::Better | stats::Verdict::Worse));
        widths.push((found.finding.interval.high / found.finding.interval.low).sqrt() - 1.0);
    }
    let width = crate::pairs::median(&widths) * 100.0;
    Ok(Counted {
        what: format!("slices, {stack} twice, 20 s in 20 blocks: same"),
        count: same,
        of: times,
        limit: Limit::AtLeast(times * 90 / 100),
        beside: format!("wrong {wrong} (at most {}), +-{width:.1} %", (times * 9).div_ceil(100)),
    })
}

/// 10 % more work an operation on B, by slices and by whole trials: they must say the same ratio.
fn planted(trust: &Trust, program: &Program, stack: &str) -> anyhow::Result<Vec<Counted>> {
    let budget = format!("{}s", trust.budget);
    let mut all = Vec::new();
    for name in program::LOADS.map(|(name, _)| name) {
        let home = program.home()?;
        // a tenth of the time of an operation, in stores to memory
        home.run(&["run", name, "--on", stack, "--for", "500ms", "-n", "1"])?;
        let alone =
            home.report()?.trials().next().map(|trial| trial.seconds / trial.operations.max(1) as f64);
        let seconds = alone.unwrap_or(0.0) * f64::from(program::THREADS) * 0.1;
        let b = format!("work={:.0}", (seconds * spin::stores_per_second()).max(1.0));
        let common =
            ["ab", stack, stack, "-w", name, "--set-b", &b, "--budget", &budget, "--target", "0.01", "-q"];
        home.ab(&[&common[..], &["--slices", "50ms"]].concat())?;
        let by_slices = home.differences()?;
        home.ab(&[&common[..], &["--for", "500ms"]].concat())?;
        let by_whole = home.differences()?;
        let trust = slices::trust(&by_slices, &by_whole)?;
        let mean = |values: &[f64]| (values.iter().sum::<f64>() / values.len().max(1) as f64).exp();
        let beside = format!(
            "B/A by slices {:.3}, by whole trials {:.3}: {}",
            mean(&by_slices),
            mean(&by_whole),
            match trust {
                slices::Trust::Trusted { .. } => "trusted".to_string(),
                slices::Trust::Refused { apart } =>
                    format!("apart by {:.1} %: refused", (apart - 1.0) * 100.0),
                slices::Trust::Unproven { half_width, .. } =>
                    format!("+-{:.1} %: unproven", half_width * 100.0),
            }
        );
        all.push(Counted {
            what: format!(
                "planted 10 %, {}, {stack}: slices agree with whole trials",
                name.trim_end_matches(".f")
            ),
            count: usize::from(matches!(trust, slices::Trust::Trusted { .. })),
            of: 1,
            limit: Limit::Told,
            beside,
        });
    }
    Ok(all)
}

/// The slices of a stored comparison, in the order of time, judged as `stats::slices` does.
fn sliced(report: &Said) -> anyhow::Result<slices::Sliced> {
    let found: Vec<Slice> = report
        .trials()
        .map(|trial| Slice {
            candidate: trial.cell == 1,
            operations: trial.operations,
            seconds: trial.seconds,
        })
        .collect();
    Ok(slices::compare(&in_pairs(&found), slices::BLOCKS, &Thresholds::default())?)
}

/// A B B A is A B and B A.
fn in_pairs(slices: &[Slice]) -> Vec<Slice> {
    slices.chunks_exact(2).filter(|pair| pair[0].candidate != pair[1].candidate).flatten().copied().collect()
}
