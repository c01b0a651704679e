//! A command of this program, carried out in a guest of its own: what it prints comes back as it is printed, and how it ended.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use guest::GuestError;
use guest::accel::Accelerator;
use guest::setup::{Mode, Setup};
use journal::Journal;
use spec::StackSpec;

use super::context::GuestContext;
use super::executor::{Task, ask};
use super::pool::Guests;
use crate::protocol::{Instruction, Message};
use crate::runner::Progress;
use crate::stack_factory::StackFactory;
use crate::trial::supervisor::Observer;
use engine::options::Event;

/// How a command ended in its guest.
#[derive(Debug)]
pub struct CommandOutcome {
    /// Its exit code; `None`: a signal ended it.
    pub code: Option<i32>,
    /// The kernel, and what executed it, for people.
    pub guest: String,
    /// Where the guest's console is kept.
    pub console: String,
}

/// A line that comes while a command is carried out.
#[derive(Debug, Clone, Copy)]
pub enum Line<'a> {
    /// What it printed.
    Output(&'a str),
    /// One of its errors.
    Error(&'a str),
    /// What becomes of its guest.
    Guest(&'a str),
}

/// Carries out `words` in the guest of `stack`, which is booted for it. `print` gets each line as it comes. A command that takes
/// longer than `patience` is given up with its guest.
///
/// # Errors
/// There is no guest, or it ended by itself: a kernel that a file system brings down does.
pub fn command(
    words: &[String],
    stack: &StackSpec,
    patience: Duration,
    site: &StackFactory,
    (journal, stop): (&Arc<Journal>, &AtomicBool),
    print: &mut dyn FnMut(Line<'_>),
) -> Result<CommandOutcome, GuestError> {
    let Some(kernel_of) = stack.guest() else {
        return Err(GuestError::Device("the stack names no guest".into()));
    };
    let mut guests = Guests::default();
    let name = format!("{}-{}", words.first().map_or("command", String::as_str), std::process::id());
    let mut booting = |progress: Progress| {
        if let Progress::Engine(Event::Line { text }) = progress {
            print(Line::Guest(&text));
        }
    };
    let mut means = GuestContext { site, journal, stop, progress: &mut booting };
    let (kernel, image) = guests.kernel(kernel_of, &mut means)?;
    let mode =
        Mode::Normal { accelerator: Accelerator::Tcg, disk: None, cores: guest::devices::cores(stack) };
    let setup = Setup { kernel, image, parameters: kernel_of.parameters.clone(), mode };
    let disk = guest::devices::disk(stack);
    let mut serving = guests.boot(&name, kernel_of, setup, disk, &mut means)?;
    let words = words.to_vec();
    let task = Task::Do(Instruction::Command { words, stack: Box::new(stack.within()) });
    let answer = ask(&mut serving.machine, task, patience, stop, &mut OutputPrinter(print))?;
    let Message::Exited { code } = answer else { return Err(GuestError::Damaged("no exit code".into())) };
    let facts = &serving.facts;
    // the checksum of the package is for stored trials
    let kernel =
        facts.kernel.as_deref().and_then(|kernel| kernel.split_whitespace().next()).unwrap_or_default();
    let guest = format!("{kernel}, guest under {}", facts.accelerator.as_deref().unwrap_or_default());
    let console = serving.machine.console().to_string();
    serving.end();
    Ok(CommandOutcome { code, guest, console })
}

/// Prints what a command prints.
struct OutputPrinter<'p>(&'p mut dyn FnMut(Line<'_>));

impl Observer for OutputPrinter<'_> {
    fn on_message(&mut self, message: &Message) {
        match message {
            Message::Printed { line, error: true } => (self.0)(Line::Error(line)),
            Message::Printed { line, error: false } => (self.0)(Line::Output(line)),
            _ => {}
        }
    }
}
