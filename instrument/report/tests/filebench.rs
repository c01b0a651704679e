//! The text of Filebench 1.5, read back by a parser that accepts nothing else.

mod fixture;

use proptest::prelude::*;
use report::filebench::{Options, session, text};
use stats::outcome::Ended;
use stats::{Direction, Metric, OpClass, OpOutcome, Outcome};

fn op(
    name: &str,
    class: OpClass,
    direction: Direction,
    ops: u64,
    bytes: u64,
    latencies_ns: &[u64],
) -> OpOutcome {
    OpOutcome {
        ops,
        bytes,
        service: latencies_ns.iter().copied().collect(),
        ..OpOutcome::new(name, name.trim_end_matches(|c: char| c.is_ascii_digit()), class, direction)
    }
}

fn outcome(measured_seconds: f64, ops: Vec<OpOutcome>) -> Outcome {
    Outcome {
        measured_seconds,
        warmup_seconds: 0.0,
        ended: Ended::TimeUp,
        ops,
        metrics: vec![],
        notes: vec![],
    }
}

#[test]
fn every_byte_of_a_small_run() {
    let run = outcome(
        10.0,
        vec![
            op("deletefile1", OpClass::Io, Direction::Neither, 365_066, 0, &[2_000, 90_000, 122_133_000]),
            op("readfile4", OpClass::Io, Direction::Read, 365_053, 6_054_789_120, &[1_000, 14_000]),
            op("a_flowop_with_a_long_name", OpClass::Aio, Direction::Write, 7, 1 << 20, &[1_500]),
            op("limit", OpClass::Other, Direction::Neither, 12, 0, &[]),
        ],
    );
    let expected = "\
11.147: Per-Operation Breakdown
limit                12ops        1ops/s   0.0mb/s    0.000ms/op [0.000ms - 0.000ms]
a_flowop_with_a_long_name 7ops        1ops/s   0.1mb/s    0.002ms/op [0.002ms - 0.002ms]
readfile4            365053ops    36505ops/s 577.4mb/s    0.007ms/op [0.001ms - 0.014ms]
deletefile1          365066ops    36507ops/s   0.0mb/s   40.742ms/op [0.002ms - 122.133ms]
11.147: IO Summary: 730126 ops 73012.600 ops/s 36505/1 rd/wr 577.5mb/s 20.374ms/op
";
    assert_eq!(text(&run, &Options { clock_seconds: 11.147, lathist: false }), expected);
}

#[test]
fn an_operation_of_a_shorter_part_divides_by_its_parts_seconds() {
    let mut run = outcome(
        10.0,
        vec![
            op("late", OpClass::Io, Direction::Read, 500, 500 << 20, &[1_000]),
            op("whole", OpClass::Io, Direction::Read, 500, 500 << 20, &[1_000]),
        ],
    );
    run.metrics.push(Metric::duration("late/seconds", 2.0));
    let text = text(&run, &Options::default());
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("late").contains(" 250ops/s 250.0mb/s"), "{text}");
    assert!(line("whole").contains(" 50ops/s  50.0mb/s"), "{text}");
    assert!(text.contains("IO Summary:  1000 ops 100.000 ops/s"), "{text}");
}

#[test]
fn counters_of_powers_of_two_follow_a_tab() {
    let run = outcome(1.0, vec![op("x", OpClass::Io, Direction::Read, 3, 0, &[0, 1, 1_000])]);
    let text = text(&run, &Options { clock_seconds: 1.0, lathist: true });
    let line = text.lines().nth(1).unwrap();
    let (_, counters) = line.split_once('\t').unwrap();
    let mut expected = vec!["0"; 64];
    // 1000 lies in 2^9 .. 2^10.
    (expected[0], expected[1], expected[10]) = ("1", "1", "1");
    assert_eq!(counters, format!("[ {} ]", expected.join(" ")));
}

#[test]
fn what_is_no_result_is_not_printed_as_one() {
    for ended in [Ended::Interrupted, Ended::Failed { message: "write: EIO".into() }] {
        let run = Outcome { ended, ..outcome(1.0, vec![op("x", OpClass::Io, Direction::Read, 1, 1, &[1])]) };
        let text = text(&run, &Options { clock_seconds: 2.5, lathist: false });
        assert_eq!(text, "2.500: NO VALID RESULTS! Filebench run terminated prematurely\n");
    }
}

#[test]
fn a_session_has_the_messages_in_their_order() {
    let run = fixture::run();
    let trial = run.trials.iter().find(|trial| trial.cell == 0).unwrap();
    let text = session(trial);
    let heads: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once(": ").map(|(_, rest)| rest))
        .map(|rest| rest.split([':', '.']).next().unwrap())
        .collect();
    let expected =
        ["bigfileset populated", "Running", "Run took 30 seconds", "Per-Operation Breakdown", "IO Summary"];
    assert_eq!(heads[..5], expected, "{text}");
    assert!(text.ends_with(": Shutting down processes\n"), "{text}");
    let unavailable = run.trials.iter().find(|trial| trial.outcome.is_none()).unwrap();
    assert!(session(unavailable).contains("NO VALID RESULTS"));
}

/// A trial whose script has `enable lathist` and `psrun -1 2`.
fn trial_with_extras() -> study::results::Trial {
    let run = |seconds, ops, latencies: &[u64]| {
        outcome(
            seconds,
            vec![
                op("open1", OpClass::Io, Direction::Neither, 1, 0, &[2_000]),
                op("read1", OpClass::Io, Direction::Read, ops, ops << 20, latencies),
            ],
        )
    };
    let mut trial = fixture::run().trials.into_iter().find(|trial| trial.cell == 0).unwrap();
    trial.log = vec!["x populated".into()];
    trial.seconds = 3.5;
    trial.outcome = Some(run(2.0, 4, &[0, 1, 1_000, 5_000]));
    trial.extras.latency_counters = true;
    for (at, ops, latencies) in [(1.0, 3, &[0, 1, 1_000][..]), (2.0, 1, &[5_000][..])] {
        trial.extras.keep(study::results::Period::of(at, &run(1.0, ops, latencies), true));
    }
    trial
}

/// `[ c0 ... c63 ]` with these counters at these places.
fn counters(set: &[(usize, u64)]) -> String {
    let mut all = [0; 64];
    set.iter().for_each(|&(at, count)| all[at] = count);
    format!("[ {} ]", all.map(|count| count.to_string()).join(" "))
}

#[test]
fn every_byte_of_a_session_with_periodic_reports_and_latency_counters() {
    let open = counters(&[(11, 1)]);
    let (all, first, second) = (
        counters(&[(0, 1), (1, 1), (10, 1), (13, 1)]),
        counters(&[(0, 1), (1, 1), (10, 1)]),
        counters(&[(13, 1)]),
    );
    let expected = format!(
        "\
0.000: x populated
1.500: Running...
2.500: Per-Operation Breakdown
read1                3ops        3ops/s   3.0mb/s    0.000ms/op [0.000ms - 0.001ms]\t{first}
open1                1ops        1ops/s   0.0mb/s    0.002ms/op [0.002ms - 0.002ms]\t{open}
2.500: IO Summary:     4 ops 4.000 ops/s 3/0 rd/wr   3.0mb/s 0.001ms/op
3.500: Per-Operation Breakdown
read1                1ops        1ops/s   1.0mb/s    0.005ms/op [0.005ms - 0.005ms]\t{second}
open1                1ops        1ops/s   0.0mb/s    0.002ms/op [0.002ms - 0.002ms]\t{open}
3.500: IO Summary:     2 ops 2.000 ops/s 1/0 rd/wr   1.0mb/s 0.004ms/op
3.500: Run took 2 seconds...
3.500: Per-Operation Breakdown
read1                4ops        2ops/s   2.0mb/s    0.002ms/op [0.000ms - 0.005ms]\t{all}
open1                1ops        0ops/s   0.0mb/s    0.002ms/op [0.002ms - 0.002ms]\t{open}
3.500: IO Summary:     5 ops 2.500 ops/s 2/0 rd/wr   2.0mb/s 0.002ms/op
3.500: Shutting down processes
"
    );
    assert_eq!(session(&trial_with_extras()), expected);
}

#[test]
fn the_terminal_shows_latency_counters_where_they_were_asked_for_and_else_nothing() {
    let mut run = fixture::run();
    let style = report::terminal::Style::default();
    let before = report::terminal::summary(&run, style);
    assert!(!before.contains("lathist"), "{before}");
    let trial = run.trials.iter_mut().find(|trial| trial.cell == 0).unwrap();
    *trial = study::results::Trial { outcome: trial.outcome.clone(), ..trial_with_extras() };
    let after = report::terminal::summary(&run, style);
    let added: Vec<&str> = after.lines().filter(|line| !before.contains(line)).collect();
    let flowops = run.outcomes_of(0)[0].ops.len();
    assert_eq!(added.iter().filter(|line| line.contains("\t[ ") && line.ends_with(" ]")).count(), flowops);
    assert!(added.iter().any(|line| line.contains("lathist")), "{added:?}");
}

/// Takes text apart as a parser of the original's output does.
struct Strict<'a>(&'a str);

impl<'a> Strict<'a> {
    fn literal(&mut self, literal: &str) {
        self.0 = self.0.strip_prefix(literal).unwrap_or_else(|| panic!("no {literal:?} before {:?}", self.0));
    }

    /// `%WIDTH.DECIMALSf` or, with `decimals` 0, `%WIDTHd`: right-justified, no more blanks than the width needs.
    fn number(&mut self, width: usize, decimals: usize) -> f64 {
        let blanks = self.0.len() - self.0.trim_start_matches(' ').len();
        let rest = &self.0[blanks..];
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let digits = &rest[..end];
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        assert!(!whole.is_empty() && fraction.len() == decimals, "{digits:?} in {:?}", self.0);
        let blanks_wanted = width.saturating_sub(digits.len());
        assert_eq!(blanks, blanks_wanted, "{:?}", self.0);
        self.0 = &rest[end..];
        digits.parse().unwrap()
    }

    fn name(&mut self) -> &'a str {
        let end = self.0.find(' ').unwrap();
        let name = &self.0[..end];
        let padding = 20usize.saturating_sub(name.len());
        self.0 = &self.0[end..];
        self.literal(&" ".repeat(padding));
        name
    }
}

fn check_line(line: &str, op: &OpOutcome, seconds: f64) {
    let mut strict = Strict(line);
    assert_eq!(strict.name(), op.name);
    strict.literal(" ");
    assert_eq!(strict.number(0, 0) as u64, op.ops);
    strict.literal("ops ");
    assert!((strict.number(8, 0) - op.ops as f64 / seconds).abs() <= 0.5 + 1e-6);
    strict.literal("ops/s ");
    assert!((strict.number(5, 1) - op.bytes as f64 / seconds / 1_048_576.0).abs() <= 0.05 + 1e-6);
    strict.literal("mb/s ");
    let mean = strict.number(8, 3);
    strict.literal("ms/op [");
    let min = strict.number(0, 3);
    strict.literal("ms - ");
    let max = strict.number(5, 3);
    strict.literal("ms]");
    assert_eq!(strict.0, "");
    assert!(min <= mean + 0.001 && mean <= max + 0.001, "{line}");
}

fn check_summary(line: &str, clock: f64) -> f64 {
    let mut strict = Strict(line);
    assert!((strict.number(0, 3) - clock).abs() <= 0.0005 + 1e-9);
    strict.literal(": IO Summary: ");
    let ops = strict.number(5, 0);
    strict.literal(" ops ");
    strict.number(5, 3);
    strict.literal(" ops/s ");
    strict.number(0, 0);
    strict.literal("/");
    strict.number(0, 0);
    strict.literal(" rd/wr ");
    strict.number(5, 1);
    strict.literal("mb/s ");
    strict.number(5, 3);
    strict.literal("ms/op");
    assert_eq!(strict.0, "");
    ops
}

fn any_op() -> impl Strategy<Value = OpOutcome> {
    let class =
        prop_oneof![Just(OpClass::Io), Just(OpClass::Aio), Just(OpClass::Sync), Just(OpClass::Composite)];
    let direction = prop_oneof![Just(Direction::Read), Just(Direction::Write), Just(Direction::Neither)];
    let latencies = prop::collection::vec(0u64..200_000_000_000, 0..20);
    ("[a-z][a-z_-]{0,29}", class, direction, 0u64..10_000_000_000, 0u64..1 << 50, latencies).prop_map(
        |(name, class, direction, ops, bytes, latencies)| op(&name, class, direction, ops, bytes, &latencies),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_format_holds_for_every_outcome(
        ops in prop::collection::vec(any_op(), 0..6),
        seconds in 0.5f64..10_000.0,
        clock in 0.0f64..100_000.0,
    ) {
        let run = outcome(seconds, ops);
        let text = text(&run, &Options { clock_seconds: clock, lathist: false });
        let lines: Vec<&str> = text.lines().collect();
        prop_assert_eq!(lines.len(), run.ops.len() + 2);
        prop_assert!(lines[0].ends_with(": Per-Operation Breakdown"));
        for (line, op) in lines[1..].iter().zip(run.ops.iter().rev()) {
            check_line(line, op, seconds);
        }
        let printed = check_summary(lines[lines.len() - 1], clock);
        prop_assert_eq!(printed as u64, run.io_ops());
    }
}

#[test]
fn an_interval_of_no_length_divides_by_nothing() {
    let run = Outcome {
        measured_seconds: 0.0,
        ..outcome(1.0, vec![op("x", OpClass::Io, Direction::Read, 1, 1, &[])])
    };
    let text = text(&run, &Options::default());
    assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
}
