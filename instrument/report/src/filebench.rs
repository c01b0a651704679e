//! The text that Filebench 1.5 prints, for parsers that expect it.
//!
//! The widths are those of its `printf` formats: a flowop's name takes 20 columns, numbers are followed at once
//! by their unit, one blank stands between fields. `mb` is 2^20 bytes. Flowops come in reverse order of
//! definition. Rates divide by the measured interval, of a load of several parts by that of the part. Where
//! Filebench prints 2^64 - 1 ns as the minimum of a flowop that never ran, 0 is printed.

use std::fmt::Write;

use stats::outcome::Ended;
use stats::{Direction, Outcome};
use study::results::{Period, PeriodOp, Trial};

const MIB: f64 = (1 << 20) as f64;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// Seconds since the program started, printed before each message.
    pub clock_seconds: f64,
    /// Append 64 power-of-two counters to each flowop (`enable lathist`).
    pub lathist: bool,
}

/// The statistics of one outcome: the breakdown and the I/O summary, each line ended by a newline.
///
/// An outcome that is not a result (failed or interrupted) gives Filebench's line about that instead.
pub fn text(outcome: &Outcome, options: &Options) -> String {
    let clock = options.clock_seconds;
    if matches!(outcome.ended, Ended::Failed { .. } | Ended::Interrupted) {
        return format!("{clock:.3}: NO VALID RESULTS! Filebench run terminated prematurely\n");
    }
    statistics(&Period::of(outcome.measured_seconds, outcome, options.lathist), clock)
}

/// The same statistics of a period (`psrun`); `clock_seconds` as in [`Options`].
pub fn statistics(period: &Period, clock_seconds: f64) -> String {
    // Writing to a String cannot fail.
    let mut text = String::new();
    let _ = writeln!(text, "{clock_seconds:.3}: Per-Operation Breakdown");
    for op in period.ops.iter().rev() {
        let _ = writeln!(text, "{}", breakdown_line(op, op.seconds.unwrap_or(period.seconds)));
    }
    let _ = writeln!(text, "{clock_seconds:.3}: {}", summary(period));
    text
}

/// What Filebench prints around the statistics of one trial, from the creation of files to its end; periodic reports and
/// latency counters when the script asked for them.
///
/// The lines that the workload printed come first, with the time of the trial's begin, since the records do not
/// keep when each was printed.
pub fn session(trial: &Trial) -> String {
    let mut text = String::new();
    for line in &trial.log {
        let _ = writeln!(text, "0.000: {line}");
    }
    let Some(outcome) = &trial.outcome else {
        let _ =
            writeln!(text, "{:.3}: NO VALID RESULTS! Filebench run terminated prematurely", trial.seconds);
        return text;
    };
    let extras = &trial.extras;
    let begin = (trial.seconds - outcome.measured_seconds).max(0.0);
    let end = begin + outcome.measured_seconds;
    let _ = writeln!(text, "{begin:.3}: Running...");
    for period in &extras.periods {
        text.push_str(&statistics(period, begin + period.at_seconds));
    }
    if extras.periods_left_out > 0 {
        let _ = writeln!(text, "{end:.3}: {} more periodic reports were not kept", extras.periods_left_out);
    }
    let _ = writeln!(text, "{end:.3}: Run took {:.0} seconds...", outcome.measured_seconds);
    let options = Options { clock_seconds: end, lathist: extras.latency_counters };
    text.push_str(&self::text(outcome, &options));
    let _ = writeln!(text, "{end:.3}: Shutting down processes");
    text
}

fn breakdown_line(op: &PeriodOp, seconds: f64) -> String {
    let ms = |ns: Option<f64>| ns.unwrap_or(0.0) / 1e6;
    let mut line = format!(
        "{:<20} {}ops {:8.0}ops/s {:5.1}mb/s {:8.3}ms/op [{:.3}ms - {:5.3}ms]",
        op.name,
        op.ops,
        per(op.ops as f64, seconds),
        per(op.bytes as f64 / MIB, seconds),
        ms(op.mean_ns),
        ms(op.min_ns.map(|ns| ns as f64)),
        ms(op.max_ns.map(|ns| ns as f64)),
    );
    if !op.latency_counters.is_empty() {
        line.push('\t');
        line.push_str(&counters(&op.latency_counters));
    }
    line
}

/// Latency counters as `enable lathist` prints them.
pub(crate) fn counters(counters: &[u64]) -> String {
    let mut text = String::from("[ ");
    for count in counters {
        let _ = write!(text, "{count} ");
    }
    text.push(']');
    text
}

fn summary(period: &Period) -> String {
    let io = || period.ops.iter().filter(|op| op.io);
    let of = |direction| -> u64 { io().filter(|op| op.direction == direction).map(|op| op.ops).sum() };
    let (ops, bytes): (u64, u64) = (io().map(|op| op.ops).sum(), io().map(|op| op.bytes).sum());
    let timed: u64 = io().map(|op| op.timed).sum();
    let total_ns: f64 = io().map(|op| op.mean_ns.unwrap_or(0.0) * op.timed as f64).sum();
    let seconds = period.seconds;
    format!(
        "IO Summary: {:5} ops {:5.3} ops/s {:.0}/{:.0} rd/wr {:5.1}mb/s {:5.3}ms/op",
        ops,
        per(ops as f64, seconds),
        per(of(Direction::Read) as f64, seconds),
        per(of(Direction::Write) as f64, seconds),
        per(bytes as f64 / MIB, seconds),
        per(total_ns, timed as f64) / 1e6,
    )
}

fn per(amount: f64, of: f64) -> f64 {
    if of > 0.0 { amount / of } else { 0.0 }
}
