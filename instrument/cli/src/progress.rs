//! What a run shows while it runs: one line that moves on a terminal, a line for each trial elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use engine::Event;
use indicatif::{ProgressBar, ProgressStyle};
use lab::runner;
use lab::session::SessionEvent;
use study::results::{Period, Run, Status, Trial};

/// The display on standard error.
pub struct Progress {
    quiet: bool,
    color: bool,
    bar: ProgressBar,
    begins: String,
    planned: usize,
    /// When the present trial began.
    began: Instant,
    /// Its script has `enable lathist`.
    latency_counters: bool,
    /// Blocks are told, not trials.
    in_turns: bool,
}

impl Progress {
    /// A display; `quiet` shows nothing but what must be said.
    pub fn new(quiet: bool, color: bool) -> Progress {
        Progress {
            quiet,
            color,
            bar: bar(quiet),
            begins: String::new(),
            planned: 0,
            began: Instant::now(),
            latency_counters: false,
            in_turns: false,
        }
    }

    /// Says what is about to happen.
    pub fn announce(&mut self, run: &Run, seconds: f64) {
        if self.quiet {
            return;
        }
        if let Some(so_far) = analysis::turns::of_run(run) {
            self.in_turns = true;
            let (id, title) = (&run.id, &run.title);
            host::note!("run {id}: {title}; in turns until it is decided, {} blocks so far", so_far.blocks);
            return;
        }
        host::note!(
            "run {}: {}; {} cells, up to {} trials each, about {}",
            run.id,
            run.title,
            run.cells.len(),
            run.planned_trials,
            span(seconds)
        );
    }

    /// Shows what a session tells.
    pub fn notice(&mut self, notice: &SessionEvent<'_>) {
        match notice {
            SessionEvent::Unavailable { stack, reason, remedy } => {
                self.line(&format!("{stack}: unavailable: {reason}; {remedy}"));
            }
            SessionEvent::Begins { cell, index, ended, planned, remaining_seconds } => {
                self.planned = *planned;
                self.bar.set_length(*planned as u64);
                self.bar.set_position(*ended as u64);
                self.begins =
                    format!("{} #{}, about {} left", cell.label(), index + 1, span(*remaining_seconds));
                (self.began, self.latency_counters) = (Instant::now(), false);
                self.show("");
                self.bar.enable_steady_tick(Duration::from_millis(200));
            }
            SessionEvent::Progress(progress) => self.trial(progress),
            SessionEvent::Ended { trial, .. } if self.in_turns && trial.status.is_done() => self.bar.inc(1),
            SessionEvent::Ended { cell, trial } => {
                if !matches!(trial.status, Status::Unavailable { .. }) {
                    self.bar.inc(1);
                    self.line(&format!("{} #{}: {}", cell.label(), trial.index + 1, self.came_to(trial)));
                }
            }
            SessionEvent::Settled { cell, trials, half_width } => self.line(&format!(
                "{}: settled after {trials} trials, interval +- {:.1} %",
                cell.label(),
                half_width * 100.0
            )),
            SessionEvent::Turn(so_far) => self.line(&report::turns::line(so_far)),
            SessionEvent::GivenUp { cell } => {
                self.line(&format!("{}: failed too often, given up", cell.label()))
            }
        }
    }

    /// Takes the display away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn trial(&mut self, progress: &runner::Progress) {
        match progress {
            runner::Progress::Building => self.show("building the stack"),
            runner::Progress::Cooling => self.show("cooling: unmount, mount, drop caches"),
            runner::Progress::TakingDown => self.show("taking down"),
            runner::Progress::Engine(Event::Creating { done, total }) => {
                self.show(&format!("creating files, {done} of {total}"));
            }
            runner::Progress::Engine(Event::Running { elapsed_seconds, total_seconds, io_ops }) => {
                let of = total_seconds.map_or(String::new(), |total| format!(" of {}", span(total)));
                let phase = if *elapsed_seconds < 0.0 { "warming up" } else { "measuring" };
                self.show(&format!("{phase}, {:.0} s{of}, {io_ops} operations", elapsed_seconds.abs()));
            }
            runner::Progress::Engine(Event::LatencyCounters) => self.latency_counters = true,
            runner::Progress::Engine(Event::Period { at_seconds, outcome }) => {
                let period = Period::of(*at_seconds, outcome, self.latency_counters);
                let clock_seconds = self.began.elapsed().as_secs_f64();
                self.line(report::filebench::statistics(&period, clock_seconds).trim_end());
            }
            runner::Progress::Engine(Event::Line { .. } | Event::Ready) => {}
        }
    }

    fn show(&self, state: &str) {
        let separator = if state.is_empty() { "" } else { ": " };
        self.bar.set_message(format!("{}{separator}{state}", self.begins));
    }

    fn came_to(&self, trial: &Trial) -> String {
        let paint =
            |code: &str, text: String| if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text };
        match &trial.status {
            Status::Done => match &trial.outcome {
                // what runs a few programs, once, has no rate worth reading
                Some(outcome) if outcome.io_ops_per_second() < 10.0 => {
                    format!("{:.1} s", outcome.measured_seconds)
                }
                Some(outcome) => format!("{:.0} ops/s{}", outcome.io_ops_per_second(), raw_data(trial)),
                None => "done".into(),
            },
            Status::Failed { message } => paint("31", format!("failed: {message}")),
            Status::TimedOut { after_seconds } => {
                paint("31", format!("killed after {}", span(*after_seconds)))
            }
            Status::Interrupted => paint("33", "interrupted".into()),
            Status::Unavailable { reason, .. } => format!("unavailable: {reason}"),
        }
    }

    fn line(&self, text: &str) {
        line(&self.bar, self.quiet, text);
    }
}

/// A line that moves, on a terminal only.
pub fn bar(quiet: bool) -> ProgressBar {
    let hidden = quiet || !std::io::stderr().is_terminal();
    let bar = if hidden { ProgressBar::hidden() } else { ProgressBar::new(0) };
    let style = ProgressStyle::with_template("{bar:16} {pos}/{len} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar
}

/// A line on standard error that stays, above the bar where there is one.
pub fn line(bar: &ProgressBar, quiet: bool, text: &str) {
    if quiet {
        return;
    }
    if bar.is_hidden() {
        host::note!("{text}");
    } else {
        bar.println(text);
    }
}

fn span(seconds: f64) -> String {
    report::format::span_seconds(seconds)
}

/// The checksum of what a deterministic guest has measured.
fn raw_data(trial: &study::results::Trial) -> String {
    let guest = trial.environment.as_ref().and_then(|environment| environment.guest.as_ref());
    let sum = guest.and_then(|guest| guest.raw_data.as_deref());
    sum.map(|sum| format!(", raw data {sum}")).unwrap_or_default()
}
