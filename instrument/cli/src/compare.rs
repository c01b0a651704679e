//! `compare`: verdicts between two runs, or between the stacks of one.

use lab::Store;
use stats::Rules;

use crate::options::{self, Options};
use crate::screen::{self, Exit, bad_input};

/// Compares.
pub fn compare(options: &Options, arguments: &options::Compare) -> anyhow::Result<Exit> {
    if !(0.0..100.0).contains(&arguments.margin) || !(0.0..1.0).contains(&arguments.alpha) {
        return Err(bad_input("--margin is a percentage below 100, --alpha a probability below 1"));
    }
    let rules = Rules { alpha: arguments.alpha, margin: arguments.margin / 100.0, ..Rules::default() };
    let store = Store::open(&crate::run::home(options)?)?;
    let a = store.load_run(&arguments.a).map_err(bad_input)?;
    let compared = match &arguments.b {
        Some(b) => record::compare::compare(&a, &store.load_run(b).map_err(bad_input)?, &rules),
        None => {
            if let Some(baseline) = &arguments.baseline
                && !a.stacks().contains(&baseline.as_str())
            {
                let known = a.stacks().join(", ");
                return Err(bad_input(format!("run {} has no stack {baseline}; it has {known}", a.id)));
            }
            record::compare::compare_stacks(&a, arguments.baseline.as_deref(), &rules)
        }
    };
    if arguments.json {
        screen::print(&serde_json::to_string_pretty(&compared)?)?;
    } else {
        screen::print(&report::terminal::comparison(&compared, screen::style(options)))?;
    }
    Ok(Exit::of_code(compared.conclusion.exit_code()))
}
