//! Are the verdicts right? The same is compared with the same, and a planted difference is looked for, with the
//! program as its user runs it, on this machine as it is.
//!
//! The checks are those of docs/statistics.md, "Real checks". Each says a count and its limit. Beside a competing load
//! the same command says what holds then.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | which checks there are |
//! | `options` | options; how large the planted differences are |
//! | `tally` | what was counted, and the table |
//! | `runs` | checks of runs compared with each other, and of stacks within one |
//! | `turns` | checks of `ab`: commands, stacks in slices |
//! | `device` | a file system on an emulated SSD of its own: where a slower device is planted |
//! | `guests` | deterministic guests: the same, half a percent, options |
//! | `program` | runs of `loadline` in a home of their own, and what they say |
//! | `spin` | work whose amount is known: what is planted in commands; loads that compete |

mod device;
mod guests;
mod options;
mod program;
mod runs;
pub mod spin;
mod tally;
mod turns;

pub use options::Trust;

use program::Program;
use tally::Tally;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trusted {
    /// Every limit is met.
    Met,
    /// One is missed.
    Missed,
    /// The user ended it.
    Interrupted,
}

/// Makes the checks and prints the table.
///
/// # Errors
/// The program cannot be run, or fails for another reason than an interruption.
pub fn trust(trust: &Trust) -> anyhow::Result<Trusted> {
    let program = Program::new(trust.program.as_deref())?;
    crate::pairs::print_machine();
    let mut tally = Tally::new(trust.minutes)?;
    let competing = trust.beside.as_deref().map(spin::beside).transpose()?;
    let ended = checks(trust, &program, &mut tally);
    drop(competing);
    let met = tally.print();
    match ended {
        // a program that was interrupted with this one
        Err(_) | Ok(()) if tally.interrupted() => Ok(Trusted::Interrupted),
        Err(error) => Err(error),
        Ok(()) if met => Ok(Trusted::Met),
        Ok(()) => Ok(Trusted::Missed),
    }
}

fn checks(trust: &Trust, program: &Program, tally: &mut Tally) -> anyhow::Result<()> {
    let wanted = |name: &str| name.contains(&trust.only);
    for stack in trust.on.iter().filter(|_| wanted("between")) {
        runs::between(trust, program, tally, stack)?;
    }
    if wanted("anchored") {
        runs::anchored(trust, program, tally)?;
    }
    for stack in trust.on.iter().filter(|_| wanted("slices")) {
        turns::in_slices(trust, program, tally, stack)?;
    }
    if wanted("commands") {
        turns::commands(trust, program, tally)?;
    }
    for stack in trust.on.iter().filter(|_| wanted("planted")) {
        turns::planted(trust, program, tally, stack)?;
    }
    if wanted("crowded") {
        runs::crowded(trust, program, tally)?;
        runs::daemon(trust, program, tally)?;
    }
    if wanted("within") {
        runs::within(trust, program, tally)?;
        runs::study(trust, program, tally)?;
    }
    for stack in trust.on.iter().filter(|_| wanted("alike")) {
        runs::alike(trust, program, tally, stack)?;
    }
    if wanted("deterministic") {
        guests::deterministic(trust, program, tally)?;
    }
    Ok(())
}
