//! `compare`: verdicts between two runs, or between the stacks of one.

use analysis::compare::ComparisonBasis;
use lab::Store;
use stats::Thresholds;
use study::results::Run;

use crate::console::{self, Exit, bad_input};
use crate::options::{self, Options};

/// Compares.
pub fn compare(options: &Options, arguments: &options::Compare) -> anyhow::Result<Exit> {
    if !(0.0..100.0).contains(&arguments.margin) || !(0.0..1.0).contains(&arguments.alpha) {
        return Err(bad_input("--margin is a percentage below 100, --alpha a probability below 1"));
    }
    let thresholds =
        Thresholds { alpha: arguments.alpha, margin: arguments.margin / 100.0, ..Thresholds::default() };
    let by = arguments.by.metric();
    let store = Store::open_to_show(&crate::run::home(options)?)?;
    let a = store.load_run(&arguments.a).map_err(bad_input)?;
    say_corrected_since(&a);
    let compared = match &arguments.b {
        Some(b) => {
            let b = store.load_run(b).map_err(bad_input)?;
            say_corrected_since(&b);
            let anchor = arguments.anchor.as_deref();
            let lacks = |run: &&Run| anchor.is_some_and(|anchor| !run.stacks().contains(&anchor));
            if let Some(run) = [&a, &b].into_iter().find(lacks) {
                let known = run.stacks().join(", ");
                return Err(bad_input(format!("--anchor: run {} has no such stack; it has {known}", run.id)));
            }
            let past = store.past()?;
            let machines = store.machines(&analysis::compare::consulted(&past, &a, &b));
            let spread = analysis::compare::spread(&past, &machines, &a, &b);
            let known = analysis::compare::machine_history(&past, &machines, &a, &b);
            analysis::compare::compare(&a, &b, &ComparisonBasis { spread, known, anchor }, by, &thresholds)
        }
        None => {
            if let Some(baseline) = &arguments.baseline
                && !a.stacks().contains(&baseline.as_str())
            {
                let known = a.stacks().join(", ");
                return Err(bad_input(format!("run {} has no stack {baseline}; it has {known}", a.id)));
            }
            analysis::compare::compare_stacks(&a, arguments.baseline.as_deref(), by, &thresholds)
        }
    };
    if arguments.json {
        console::print(&serde_json::to_string_pretty(&compared)?)?;
    } else {
        console::print(&report::terminal::comparison(&compared, console::style(options)))?;
    }
    Ok(Exit::of_code(compared.conclusion.exit_code()))
}

/// Tells which figures of a run were wrong when it was measured.
fn say_corrected_since(run: &Run) {
    for what in analysis::corrections::affected(run) {
        host::note!("run {}: measured before a correction: {what}", run.id);
    }
}
