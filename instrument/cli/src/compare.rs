//! `compare`: verdicts between two runs, or between the stacks of one.

use lab::Store;
use record::compare::Ground;
use record::results::Run;
use stats::Thresholds;

use crate::options::{self, Options};
use crate::screen::{self, Exit, bad_input};

/// Compares.
pub fn compare(options: &Options, arguments: &options::Compare) -> anyhow::Result<Exit> {
    if !(0.0..100.0).contains(&arguments.margin) || !(0.0..1.0).contains(&arguments.alpha) {
        return Err(bad_input("--margin is a percentage below 100, --alpha a probability below 1"));
    }
    let thresholds =
        Thresholds { alpha: arguments.alpha, margin: arguments.margin / 100.0, ..Thresholds::default() };
    let store = Store::open(&crate::run::home(options)?)?;
    let a = store.load_run(&arguments.a).map_err(bad_input)?;
    let compared = match &arguments.b {
        Some(b) => {
            let b = store.load_run(b).map_err(bad_input)?;
            let anchor = arguments.anchor.as_deref();
            let lacks = |run: &&Run| anchor.is_some_and(|anchor| !run.stacks().contains(&anchor));
            if let Some(run) = [&a, &b].into_iter().find(lacks) {
                let known = run.stacks().join(", ");
                return Err(bad_input(format!("--anchor: run {} has no such stack; it has {known}", run.id)));
            }
            let past = store.past()?;
            let spread = record::compare::spread(&past, &a, &b);
            let known = record::compare::known(&past, &a, &b);
            record::compare::compare(&a, &b, &Ground { spread, known, anchor }, &thresholds)
        }
        None => {
            if let Some(baseline) = &arguments.baseline
                && !a.stacks().contains(&baseline.as_str())
            {
                let known = a.stacks().join(", ");
                return Err(bad_input(format!("run {} has no stack {baseline}; it has {known}", a.id)));
            }
            record::compare::compare_stacks(&a, arguments.baseline.as_deref(), &thresholds)
        }
    };
    if arguments.json {
        screen::print(&serde_json::to_string_pretty(&compared)?)?;
    } else {
        screen::print(&report::terminal::comparison(&compared, screen::style(options)))?;
    }
    Ok(Exit::of_code(compared.conclusion.exit_code()))
}
