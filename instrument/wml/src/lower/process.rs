//! Processes and threads.

use super::fields::Fields;
use super::state::{Lowering, ProcessSlot, Scope};
use crate::ast;
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::Failed;
use crate::tables;
use workload::{Process, Thread};

impl<'a> Lowering<'a> {
    /// All processes with their threads.
    pub(super) fn resolve_processes(&mut self) -> Vec<Process> {
        let slots = std::mem::take(&mut self.processes);
        let mut processes = Vec::with_capacity(slots.len());
        for (index, slot) in slots.iter().enumerate() {
            if self.diagnostics.full() {
                break;
            }
            if let Ok(process) = self.process(slot, index) {
                processes.push(process);
            }
        }
        processes
    }

    fn process(&mut self, slot: &ProcessSlot<'a>, index: usize) -> Result<Process, Failed> {
        let scope = Scope::default();
        let fields = self.fields(slot.attributes, tables::PROCESS, "a process");
        let mut threads = Vec::with_capacity(slot.threads.len());
        for thread in slot.threads {
            let place = (index, threads.len());
            if let Ok(thread) = self.thread(thread, place) {
                threads.push(thread);
            }
        }
        let name = self.required(&fields, "name", "this process", slot.span, &scope)?;
        if slot.threads.is_empty() {
            let message = format!("the process `{}` has no thread", name.node);
            return self
                .fail(Diagnostic::error(slot.span, message).help("as in `thread name=t { flowop ... }`"));
        }
        Ok(Process {
            name: name.node,
            instances: self.instances(&fields, slot.span)?,
            nice: self.nice(&fields)?,
            threads,
        })
    }

    fn instances(&mut self, fields: &Fields<'_>, span: Span) -> Result<u64, Failed> {
        let instances = self.fixed(fields, "instances", 1, &Scope::default())?;
        if instances == 0 {
            let place = fields.span("instances", span);
            self.report(Diagnostic::warning(place, "`instances` is 0").label("it will not run"));
        }
        Ok(instances)
    }

    fn nice(&mut self, fields: &Fields<'_>) -> Result<i32, Failed> {
        let Some(value) = fields.get("nice").and_then(|attribute| attribute.value.as_ref()) else {
            return Ok(0);
        };
        let number = self.eval_number(value, &Scope::default())?;
        match i32::try_from(number) {
            Ok(nice) if (-40..=40).contains(&nice) => Ok(nice),
            _ => self.fail(
                Diagnostic::error(value.span, format!("`nice` is from -20 to 19, and this is {number}"))
                    .label("out of range"),
            ),
        }
    }

    fn thread(&mut self, thread: &'a ast::Thread, place: (usize, usize)) -> Result<Thread, Failed> {
        let scope = Scope::default();
        let fields = self.fields(&thread.attributes, tables::THREAD, "a thread");
        self.begin_thread(place);
        let body = self.flowops(&thread.body, "", &scope, 0);
        let name = self.required(&fields, "name", "this thread", thread.span, &scope)?;
        let instances = self.instances(&fields, thread.span)?;
        let memory_bytes = self.dynamic(&fields, "memsize", 0, &scope)?;
        let io_priority = self.fixed(&fields, "ioprio", 8, &scope)?;
        if io_priority > 8 {
            let span = fields.span("ioprio", thread.span);
            return self.fail(
                Diagnostic::error(span, format!("`ioprio` is from 0 to 7, and this is {io_priority}"))
                    .help("8 leaves the priority alone"),
            );
        }
        if thread.body.is_empty() {
            let message = format!("the thread `{}` has no flowop", name.node);
            return self
                .fail(Diagnostic::error(thread.span, message).help("as in `flowop read name=read1,...`"));
        }
        self.check_slots();
        Ok(Thread {
            name: name.node,
            instances,
            memory_bytes,
            io_priority: (io_priority < 8).then_some(io_priority as u8),
            body: body?,
            stream: None,
        })
    }
}
