//! `crash` under another kernel: recording, cutting and judging happen in a guest, by this very program, many states a boot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use camino::Utf8Path;
use crash::workload::builtin;
use journal::Journal;
use lab::guests::Line;
use lab::stack_factory::StackFactory;
use spec::StackSpec;
use stack::Availability;

use crate::console::{self, Exit, bad_input};
use crate::options::Crash;

/// How long a guest may take for what is no state: recording, shrinking, the way there and back.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long it may take for a state: tenths of a second are usual in an emulated one.
const PATIENCE_OF_A_STATE: Duration = Duration::from_secs(5);

/// Checks a stack in its guest.
pub(super) fn check(
    arguments: &Crash,
    spec: &StackSpec,
    home: &Utf8Path,
    journal: &Arc<Journal>,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Exit> {
    let words = words(arguments, spec)?;
    if let Availability::Unavailable(why) = lab::stack_factory::availability(spec, false) {
        host::note!("loadline: {spec}: {}; {}", why.reason, why.remedy);
        return Ok(Exit::CannotHere);
    }
    let site = StackFactory::new(home, &home.join("images"))?;
    let states = u32::try_from(arguments.states).unwrap_or(u32::MAX);
    let patience = PATIENCE.saturating_add(PATIENCE_OF_A_STATE.saturating_mul(states));
    let bar = crate::progress::bar(arguments.quiet);
    bar.set_message(format!("{spec}: in its guest"));
    let mut found = String::new();
    let mut print = |line: Line<'_>| match line {
        Line::Output(text) => found.push_str(&format!("{text}\n")),
        Line::Error(text) => crate::progress::line(&bar, false, text),
        Line::Guest(text) => crate::progress::line(&bar, arguments.quiet, text),
    };
    let means = (journal, stop.as_ref());
    let ended = lab::guests::command(&words, spec, patience, &site, means, &mut print);
    bar.finish_and_clear();
    console::print(&found)?;
    match ended {
        Ok(commanded) => {
            console::print(&format!("  kernel    {}\n", commanded.guest))?;
            match commanded.code.and_then(|code| u8::try_from(code).ok()).and_then(exit_of) {
                Some(exit) => Ok(exit),
                None => anyhow::bail!(
                    "{spec}: the check came to nothing in its guest (exit code {:?}); its console is kept in {}",
                    commanded.code,
                    commanded.console
                ),
            }
        }
        Err(_) if stop.load(Ordering::Acquire) => Ok(Exit::Interrupted),
        Err(error) => match error.unavailable() {
            Some(why) => {
                host::note!("loadline: {spec}: {}; {}", why.reason, why.remedy);
                Ok(Exit::CannotHere)
            }
            None => Err(anyhow::Error::from(error).context(spec.to_string())),
        },
    }
}

/// The command for the guest.
fn words(arguments: &Crash, spec: &StackSpec) -> anyhow::Result<Vec<String>> {
    let workload = &arguments.workload;
    if spec.guest().is_some_and(|guest| guest.seed.is_some()) {
        return Err(bad_input(format!("{spec}: what is judged has no times; leave `+deterministic` out")));
    }
    if builtin(workload, arguments.seed).is_none() || !arguments.program.is_empty() {
        let workload = arguments.program.first().unwrap_or(workload);
        return Err(bad_input(format!("{workload}: in a guest crash checks have built-in workloads only")));
    }
    if arguments.keep.is_some() || arguments.work_dir.is_some() {
        return Err(bad_input("--keep and --work-dir: nothing of a guest's files is kept"));
    }
    let within = spec.within().to_string();
    let mut words: Vec<String> = ["crash", workload, "--on", &within, "--quiet"].map(str::to_string).into();
    let mut number = |name: &str, value: String| words.extend([name.to_string(), value]);
    number("--states", arguments.states.to_string());
    number("--seed", arguments.seed.to_string());
    number("--jobs", arguments.jobs.to_string());
    if let Some(budget) = &arguments.budget {
        number("--budget", budget.clone());
    }
    let flags = [("--strict", arguments.strict), ("--order-only", arguments.order_only)];
    words.extend(flags.iter().filter(|(_, given)| *given).map(|(name, _)| name.to_string()));
    Ok(words)
}

/// What a check's exit code means; `None` for one that says that it could not be carried out as it should.
fn exit_of(code: u8) -> Option<Exit> {
    [Exit::Done, Exit::Failed, Exit::CannotHere, Exit::CannotTell, Exit::Interrupted]
        .into_iter()
        .find(|exit| exit.code() == code)
}
