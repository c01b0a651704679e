//! A trial's process within a container: it reads its request from a file, makes its files, waits at the gate with all others,
//! runs the load, and leaves the result in a file. No pipe leads out of a container.

use std::cell::Cell;
use std::sync::Arc;

use container::inside::{Inside, OWN};
use engine::Control;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use stats::Outcome;

use crate::child::{self, Talk};
use crate::protocol::Request;

/// The hidden argument that makes `loadline` the program of a container.
pub const ARGUMENT: &str = "contained";
/// The file with the request.
pub(crate) const REQUEST: &str = "request";
/// The file with the result, which appears whole.
pub(crate) const RESULT: &str = "result";

/// What a container is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Its number among those at the gate.
    pub(crate) number: usize,
    /// What to run.
    pub(crate) request: Request,
}

/// What it came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Told {
    /// When it passed the gate, in nanoseconds of the system's monotonic clock.
    pub(crate) passed_ns: Option<u64>,
    /// The outcome, or why there is none.
    pub(crate) result: Result<Outcome, String>,
}

/// Runs the trial that the file asks for; the result is the process's exit code. SIGINT and SIGTERM end the load early.
pub fn main() -> u8 {
    let passed_ns = Cell::new(None);
    let result = run(&passed_ns);
    let code = u8::from(result.is_err());
    let told = Told { passed_ns: passed_ns.get(), result };
    if let Err(error) = leave(&told) {
        eprintln!("loadline: the result cannot be written: {error}");
        return 1;
    }
    code
}

fn run(passed_ns: &Cell<Option<u64>>) -> Result<Outcome, String> {
    let control = Arc::new(Control::new());
    child::listen(&control)?;
    let path = format!("{OWN}/{REQUEST}");
    let text =
        std::fs::read(&path).map_err(|error| format!("this is for loadline's own use: {path}: {error}"))?;
    let order: Order = serde_json::from_slice(&text).map_err(|error| format!("{path}: {error}"))?;
    let inside = Inside::new(order.number).map_err(|error| format!("the gate: {error}"))?;
    let ready = || {
        if passed_ns.get().is_none() {
            inside.wait_at_gate().map_err(|error| format!("the gate: {error}"))?;
            passed_ns.set(Some(monotonic_ns()));
        }
        Ok(())
    };
    child::run(&order.request, &control, &Talk { say: &|_| (), ready: &ready })
}

/// The monotonic clock, which all processes of a machine share.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

fn leave(told: &Told) -> std::io::Result<()> {
    let part = format!("{OWN}/{RESULT}.part");
    std::fs::write(&part, serde_json::to_vec(told)?)?;
    std::fs::rename(part, format!("{OWN}/{RESULT}"))
}
