//! What was counted so far: a line that moves while it runs, one table at the end, also when it was interrupted.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};

/// What a count must be, as a share of the comparisons made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// At most so many of so many.
    AtMost(usize, usize),
    /// At least so many of so many.
    AtLeast(usize, usize),
    /// It is told, and no limit is known.
    Told,
}

/// A count, known by its place in the table.
#[derive(Debug, Clone, Copy)]
pub struct Row(usize);

impl Row {
    /// Whether both are the same line.
    pub fn is(self, other: Row) -> bool {
        self.0 == other.0
    }
}

/// A line of the table.
#[derive(Debug)]
struct Counted {
    rule: &'static str,
    what: String,
    count: usize,
    of: usize,
    limit: Limit,
    beside: String,
}

/// All counts.
#[derive(Debug)]
pub struct Tally {
    rows: Vec<Counted>,
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
    until: Option<Instant>,
    /// Comparisons were left out: it was interrupted, or its time was up.
    cut: bool,
}

impl Tally {
    /// Nothing counted yet. From now on Ctrl-C ends it after what is running, with what there is. No comparison begins
    /// after `within`.
    ///
    /// # Errors
    /// The system gives no handler.
    pub fn new(within: Option<Duration>) -> std::io::Result<Tally> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // the second one ends it at once
            signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
            signal_hook::flag::register(signal, stop.clone())?;
        }
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:16} {pos}/{len} {elapsed} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        bar.enable_steady_tick(Duration::from_millis(500));
        let until = within.map(|within| Instant::now() + within);
        Ok(Tally { rows: Vec::new(), bar, stop, until, cut: false })
    }

    /// A new line. `rule` is its number in the contract.
    pub fn row(&mut self, rule: &'static str, what: impl Into<String>, limit: Limit) -> Row {
        self.rows.push(Counted { rule, what: what.into(), count: 0, of: 0, limit, beside: String::new() });
        Row(self.rows.len() - 1)
    }

    /// Numbers from 0 that say which comparison is next, until all are made or it is to end.
    pub fn next(&mut self, made: usize, wanted: usize) -> bool {
        self.bar.set_length(wanted as u64);
        self.bar.set_position(made as u64);
        let is_over = self.interrupted() || self.until.is_some_and(|until| Instant::now() >= until);
        self.cut |= is_over && made < wanted;
        made < wanted && !is_over
    }

    /// One more comparison; whether it is one of those that are counted.
    pub fn count(&mut self, row: Row, counts: bool) {
        let row = &mut self.rows[row.0];
        row.of += 1;
        row.count += usize::from(counts);
        let text = format!("{}: {} of {}", row.what, row.count, row.of);
        self.bar.set_message(text.clone());
        if self.bar.is_hidden() {
            eprintln!("{text}");
        }
    }

    /// What stands beside the count.
    pub fn beside(&mut self, row: Row, text: impl Into<String>) {
        self.rows[row.0].beside = text.into();
    }

    /// Whether the user wishes an end.
    pub fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Whether comparisons were left out.
    pub fn is_cut(&self) -> bool {
        self.cut || self.interrupted()
    }

    /// Prints the table; whether no limit is missed.
    pub fn print(&self) -> bool {
        self.bar.finish_and_clear();
        println!("\n{:<4} {:<62} {:>10} {:<13} {:<7}", "rule", "check", "count", "limit", "");
        let mut all = true;
        for row in self.rows.iter().filter(|row| row.of > 0) {
            let (limit, holds) = row.limit.of(row.count, row.of);
            all &= holds;
            let count = format!("{} of {}", row.count, row.of);
            let word = match (row.limit, holds) {
                (Limit::Told, _) => "",
                (_, true) => "met",
                (_, false) => "MISSED",
            };
            println!("{:<4} {:<62} {count:>10} {limit:<13} {word:<7} {}", row.rule, row.what, row.beside);
        }
        let empty: Vec<&str> =
            self.rows.iter().filter(|row| row.of == 0).map(|row| row.what.as_str()).collect();
        if !empty.is_empty() {
            println!("not measured: {}", empty.join("; "));
        }
        if self.is_cut() {
            println!("ended early: what is there counts, and few comparisons prove little");
        }
        all
    }
}

impl Limit {
    /// The limit for so many comparisons in words, and whether a count holds it. Shares are rounded in favour of what is
    /// judged: of three comparisons none can show 9 of 100.
    fn of(self, count: usize, of: usize) -> (String, bool) {
        match self {
            Limit::AtMost(most, all) => {
                let most = (of * most).div_ceil(all);
                (format!("at most {most}"), count <= most)
            }
            Limit::AtLeast(least, all) => {
                let least = of * least / all;
                (format!("at least {least}"), count >= least)
            }
            Limit::Told => ("told".into(), true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_number_of_comparisons() {
        assert_eq!(Limit::AtMost(2, 45).of(2, 45), ("at most 2".into(), true));
        assert!(!Limit::AtMost(2, 45).of(3, 45).1);
        assert_eq!(Limit::AtMost(9, 100).of(2, 20).0, "at most 2");
        assert_eq!(Limit::AtLeast(36, 45).of(35, 45), ("at least 36".into(), false));
        assert_eq!(Limit::AtLeast(80, 100).of(16, 20), ("at least 16".into(), true));
    }

    #[test]
    fn what_was_counted_is_judged_and_an_end_in_time_is_told() {
        let mut tally = Tally::new(Some(Duration::ZERO)).unwrap();
        let row = tally.row("R1", "wrong", Limit::AtMost(0, 1));
        assert!(tally.print(), "nothing was counted, nothing is missed");
        assert!(!tally.next(0, 5) && tally.is_cut());
        tally.count(row, true);
        assert!(!tally.print());
    }
}
