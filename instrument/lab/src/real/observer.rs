//! What is seen of a trial's workers: told to the user, kept in the report, and the machine sampled around them.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use engine::options::Event;
use probe::Counters;
use stats::{Metric, Outcome};
use study::results::Period;

use crate::load::{ResolvedLoad, ResolvedWorkload};
use crate::protocol::Message;
use crate::runner::{Progress, Report};
use crate::trial::executor::Failure;
use crate::trial::machine::{MachineMeasurement, MachineSampler};
use crate::trial::supervisor::Observer;

/// Looks on while the workers of a trial run.
pub(super) struct TrialObserver<'o> {
    pub(super) report: &'o mut Report,
    pub(super) progress: &'o mut dyn FnMut(Progress),
    pub(super) machine: &'o MachineSampler,
    pub(super) load: &'o ResolvedWorkload,
    /// It is so long that the yardstick is worth its time.
    pub(super) is_long: bool,
    /// What several workers are: `containers`, `ranks`.
    pub(super) several: Option<&'static str>,
    /// What is written out before the gate opens.
    pub(super) settle: Option<Utf8PathBuf>,
    pub(super) seen: &'o mut Observations,
}

/// What is seen of a trial by now.
#[derive(Default)]
pub(super) struct Observations {
    /// How many workers are ready.
    ready: u32,
    watch: Option<MachineMeasurement>,
    /// What the machine did.
    metrics: Vec<Metric>,
}

impl Observations {
    /// Adds what the machine did to what was measured. It takes the place of what a worker may have seen of it.
    pub(super) fn add_to(self, outcome: &mut Outcome) {
        outcome.metrics.retain(|known| self.metrics.iter().all(|metric| metric.name != known.name));
        outcome.metrics.extend(self.metrics);
    }
}

impl TrialObserver<'_> {
    /// The measured interval has begun. An application that is alone knows its sections best, and asks for samples itself.
    fn begin(&mut self) {
        let is_app = self.load.app().is_some();
        if let Some(watch) = self.seen.watch.as_mut().filter(|_| self.several.is_some() || !is_app) {
            watch.begin();
        }
    }
}

impl Observer for TrialObserver<'_> {
    fn on_message(&mut self, message: &Message) {
        match message {
            Message::Event { event } => {
                match event {
                    Event::Line { text } => self.report.log.push(text.clone()),
                    Event::LatencyCounters => self.report.extras.latency_counters = true,
                    Event::Period { at_seconds, outcome } => {
                        let counters = self.report.extras.latency_counters;
                        self.report.extras.keep(Period::of(*at_seconds, outcome, counters));
                    }
                    Event::Creating { .. } | Event::Ready | Event::Running { .. } => {}
                }
                (self.progress)(Progress::Engine(event.clone()));
            }
            Message::AtGate { .. } if self.seen.watch.is_none() => {
                self.seen.ready += 1;
                if let Some(several) = self.several {
                    let text = format!("{} {several} are ready", self.seen.ready);
                    (self.progress)(Progress::Engine(Event::Line { text }));
                }
            }
            _ => {}
        }
    }

    fn opens(&mut self) -> Result<(), Failure> {
        self.settle.as_deref().map_or(Ok(()), sync_target)?;
        if !matches!(self.load.load, ResolvedLoad::Simulated(_)) {
            self.seen.watch = Some(MachineMeasurement::new(self.machine.clone(), self.is_long));
        }
        if self.load.warmup_seconds <= 0.0 {
            self.begin();
        }
        Ok(())
    }

    fn running(&mut self, elapsed: Duration) {
        let elapsed_seconds = elapsed.as_secs_f64() - self.load.warmup_seconds;
        if elapsed_seconds >= 0.0 {
            self.begin();
        }
        // one that is alone tells more
        if self.several.is_some() {
            let total_seconds = Some(self.load.seconds);
            (self.progress)(Progress::Engine(Event::Running { elapsed_seconds, total_seconds, io_ops: 0 }));
        }
    }

    fn measured(&mut self) {
        self.seen.metrics = self.seen.watch.take().map(|mut watch| watch.end()).unwrap_or_default();
    }

    fn sample(&mut self) -> Counters {
        self.machine.sample()
    }
}

/// Writes out what workers have made, once for all.
fn sync_target(root: &Utf8Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Message(format!("{root}: {error}"));
    let dir = std::fs::File::open(root).map_err(failed)?;
    rustix::fs::syncfs(&dir).map_err(|error| failed(error.into()))
}
