//! QEMU's monitor (QMP, docs/interop/qmp-spec.txt of QEMU): one line of JSON for a command, an answer or an event.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{GuestError, Machine};

/// How long an answer may take on a machine that does much else.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// How often an answer is waited for, and a state is asked for.
const TICK: Duration = Duration::from_millis(10);

/// The monitor of a machine.
pub(crate) struct Monitor<'m> {
    machine: &'m mut Machine,
    /// Names of the events that came.
    events: Vec<String>,
}

impl<'m> Monitor<'m> {
    /// Begins to speak.
    pub(crate) fn new(machine: &'m mut Machine) -> Result<Monitor<'m>, GuestError> {
        let mut monitor = Monitor { machine, events: Vec::new() };
        monitor.command("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Gives a command; what it returns.
    pub(crate) fn command(&mut self, name: &str, arguments: &Value) -> Result<Value, GuestError> {
        self.machine.send(&json!({ "execute": name, "arguments": arguments }))?;
        let begin = Instant::now();
        while begin.elapsed() < ANSWER_PATIENCE {
            let Some(line) = self.machine.receive::<Value>(TICK)? else { continue };
            if let Some(returned) = line.get("return") {
                return Ok(returned.clone());
            }
            if let Some(error) = line.get("error") {
                let message = error["desc"].as_str().unwrap_or_default().to_string();
                return Err(GuestError::Program { program: format!("QEMU's `{name}`"), message });
            }
            self.events.extend(line["event"].as_str().map(str::to_string));
        }
        Err(self.machine.ended(&format!("QEMU did not answer to `{name}`")))
    }

    /// Number of QEMU's process.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.machine.pid()).unwrap_or(i32::MAX)
    }

    /// How often an event came until now.
    pub(crate) fn count_events(&self, name: &str) -> usize {
        self.events.iter().filter(|event| *event == name).count()
    }

    /// Waits for an event; `false` when `given_up` says so first.
    pub(crate) fn event(
        &mut self,
        name: &str,
        given_up: &mut dyn FnMut() -> bool,
    ) -> Result<bool, GuestError> {
        while self.count_events(name) == 0 {
            if given_up() {
                return Ok(false);
            }
            if let Some(line) = self.machine.receive::<Value>(TICK)? {
                self.events.extend(line["event"].as_str().map(str::to_string));
            }
        }
        Ok(true)
    }

    /// Asks again and again until `done` says that an answer is the last one.
    pub(crate) fn poll(
        &mut self,
        name: &str,
        mut done: impl FnMut(&Value) -> Result<bool, GuestError>,
    ) -> Result<(), GuestError> {
        let begin = Instant::now();
        while begin.elapsed() < ANSWER_PATIENCE {
            if done(&self.command(name, &json!({}))?)? {
                return Ok(());
            }
            std::thread::sleep(TICK);
        }
        Err(self.machine.ended(&format!("QEMU's `{name}` did not come to an end")))
    }
}
