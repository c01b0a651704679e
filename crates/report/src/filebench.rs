//! The text that Filebench 1.5 prints, for parsers that expect it.
//!
//! The widths are those of its `printf` formats: a flowop's name takes 20 columns, numbers are followed at once
//! by their unit, one blank stands between fields. `mb` is 2^20 bytes. Flowops come in reverse order of
//! definition. Rates divide by the measured interval. Where Filebench prints 2^64 - 1 ns as the minimum of a
//! flowop that never ran, 0 is printed.

use std::fmt::Write;

use record::results::Trial;
use stats::outcome::Ended;
use stats::{Direction, OpOutcome, Outcome};

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
    let mut text = String::new();
    let clock = options.clock_seconds;
    // Writing to a String cannot fail.
    if matches!(outcome.ended, Ended::Failed { .. } | Ended::Interrupted) {
        let _ = writeln!(text, "{clock:.3}: NO VALID RESULTS! Filebench run terminated prematurely");
        return text;
    }
    let _ = writeln!(text, "{clock:.3}: Per-Operation Breakdown");
    for op in outcome.ops.iter().rev() {
        let _ = writeln!(text, "{}", breakdown_line(op, outcome.measured_seconds, options.lathist));
    }
    let _ = writeln!(text, "{clock:.3}: {}", summary(outcome));
    text
}

/// What Filebench prints around the statistics of one trial, from the creation of files to its end.
///
/// The lines that the workload printed come first, with the time of the trial's begin, since the records do not
/// keep when each was printed.
pub fn session(trial: &Trial, lathist: bool) -> String {
    let mut text = String::new();
    for line in &trial.log {
        let _ = writeln!(text, "0.000: {line}");
    }
    let Some(outcome) = &trial.outcome else {
        let end = Options { clock_seconds: trial.seconds, lathist };
        let _ = writeln!(
            text,
            "{:.3}: NO VALID RESULTS! Filebench run terminated prematurely",
            end.clock_seconds
        );
        return text;
    };
    let begin = (trial.seconds - outcome.measured_seconds).max(0.0);
    let end = begin + outcome.measured_seconds;
    let _ = writeln!(text, "{begin:.3}: Running...");
    let _ = writeln!(text, "{end:.3}: Run took {:.0} seconds...", outcome.measured_seconds);
    text.push_str(&self::text(outcome, &Options { clock_seconds: end, lathist }));
    let _ = writeln!(text, "{end:.3}: Shutting down processes");
    text
}

fn breakdown_line(op: &OpOutcome, seconds: f64, lathist: bool) -> String {
    let ms = |ns: Option<f64>| ns.unwrap_or(0.0) / 1e6;
    let mut line = format!(
        "{:<20} {}ops {:8.0}ops/s {:5.1}mb/s {:8.3}ms/op [{:.3}ms - {:5.3}ms]",
        op.name,
        op.ops,
        per(op.ops as f64, seconds),
        per(op.bytes as f64 / MIB, seconds),
        ms(op.service.mean()),
        ms(op.service.min().map(|ns| ns as f64)),
        ms(op.service.max().map(|ns| ns as f64)),
    );
    if lathist {
        line.push_str("\t[ ");
        for count in op.service.power_of_two_counts() {
            let _ = write!(line, "{count} ");
        }
        line.push(']');
    }
    line
}

fn summary(outcome: &Outcome) -> String {
    let seconds = outcome.measured_seconds;
    let of =
        |direction| -> u64 { outcome.io().filter(|op| op.direction == direction).map(|op| op.ops).sum() };
    let service = outcome.io_service();
    format!(
        "IO Summary: {:5} ops {:5.3} ops/s {:.0}/{:.0} rd/wr {:5.1}mb/s {:5.3}ms/op",
        outcome.io_ops(),
        outcome.io_ops_per_second(),
        per(of(Direction::Read) as f64, seconds),
        per(of(Direction::Write) as f64, seconds),
        per(outcome.io_bytes() as f64 / MIB, seconds),
        service.mean().unwrap_or(0.0) / 1e6,
    )
}

fn per(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}
