//! What concerns several flowops, or what one cannot do without: sizes, filesets, targets, slots.

use super::fields::Fields;
use super::state::{Lowering, Scope, SlotUse, TargetRef};
use crate::diagnostic::{Diagnostic, Span};
use crate::suggest;
use crate::syntax::{Failed, shorten};
use std::collections::HashMap;
use workload::{FlowOp, Kind, Node, Process, Value};

/// Does an attribute `target` mean something to this kind, and must it be given?
fn needs_target(kind: Kind) -> Option<bool> {
    match kind {
        Kind::SemPost | Kind::Wakeup => Some(true),
        Kind::IopsLimit | Kind::OpsLimit | Kind::BwLimit | Kind::FinishOnCount | Kind::FinishOnBytes => {
            Some(false)
        }
        _ => None,
    }
}

/// Kinds that work on the file in a slot.
fn uses_slot(kind: Kind) -> bool {
    opens_implicitly(kind) || matches!(kind, Kind::CloseFile | Kind::Fsync)
}

fn opens_implicitly(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Read
            | Kind::Write
            | Kind::ReadWholeFile
            | Kind::WriteWholeFile
            | Kind::AppendFile
            | Kind::AppendFileRand
            | Kind::AioWrite
    )
}

impl Lowering<'_> {
    pub(super) fn begin_thread(&mut self, place: (usize, usize)) {
        self.pending.place = place;
        self.pending.uses.clear();
        self.pending.opened.clear();
        self.pending.opens_any = false;
    }

    pub(super) fn target_attribute(
        &mut self,
        fields: &Fields<'_>,
        op: &mut FlowOp,
        prefix: &str,
        span: Span,
        scope: &Scope,
    ) -> Result<(), Failed> {
        let Some(required) = needs_target(op.kind) else { return Ok(()) };
        let target = self.text(fields, "target", scope)?;
        match target {
            Some(target) => {
                self.pending.targets.push_back(TargetRef {
                    place: self.pending.place,
                    prefix: prefix.to_owned(),
                    span: target.span,
                });
                op.target = Some(target.node);
                Ok(())
            }
            None if required => {
                let other = if op.kind == Kind::SemPost { "semblock" } else { "block" };
                let message = format!("{} needs a target", op.kind.name());
                self.fail(Diagnostic::error(span, message).help(format!("target=... names a {other} flowop")))
            }
            None => Ok(()),
        }
    }

    /// What a kind cannot do without.
    pub(super) fn check_needs(
        &mut self,
        fields: &Fields<'_>,
        op: &mut FlowOp,
        span: Span,
    ) -> Result<(), Failed> {
        let name = op.kind.name();
        let needs_size = matches!(op.kind, Kind::Read | Kind::Write | Kind::AppendFileRand | Kind::AioWrite);
        if needs_size && op.io_size == Value::Int(0) {
            let place = fields.span("iosize", span);
            return self.fail(
                Diagnostic::error(place, format!("{name} needs an `iosize` above 0"))
                    .help("add `,iosize=...`, for instance iosize=4k"),
            );
        }
        let needs_fileset = match op.kind {
            Kind::OpenFile | Kind::CreateFile | Kind::MakeDir | Kind::RemoveDir | Kind::ListDir => true,
            Kind::DeleteFile | Kind::StatFile => op.fd == 0,
            _ => false,
        };
        if needs_fileset && op.fileset.is_none() {
            return self.fail(
                Diagnostic::error(span, format!("{name} needs a fileset")).help("add `,filesetname=...`"),
            );
        }
        if op.kind == Kind::AioWrite && !op.random {
            self.report(
                Diagnostic::warning(span, "aiowrite writes at random offsets only")
                    .label("taken as if `random` were given"),
            );
            op.random = true;
        }
        Ok(())
    }

    pub(super) fn note_slot(&mut self, op: &FlowOp, span: Span) {
        let opens = matches!(op.kind, Kind::OpenFile | Kind::CreateFile)
            || (opens_implicitly(op.kind) && op.fileset.is_some());
        if opens {
            self.pending.opens_any |= op.open_next;
            self.pending.opened.push(op.fd);
        } else if uses_slot(op.kind) {
            self.pending.uses.push(SlotUse { slot: op.fd, span, kind: op.kind });
        }
    }

    /// At the end of a thread: is there a file in every slot that it uses?
    pub(super) fn check_slots(&mut self) {
        let pending = std::mem::take(&mut self.pending.uses);
        if self.pending.opens_any || self.diagnostics.has_errors() {
            return;
        }
        let mut opened = [false; 128];
        for &slot in &self.pending.opened {
            opened[usize::from(slot)] = true;
        }
        for found in pending.iter().filter(|found| !opened[usize::from(found.slot)]) {
            let mut help = format!("open a file with fd={} before, or give it `filesetname=`", found.slot);
            if !opens_implicitly(found.kind) {
                help = format!("open a file with fd={} before", found.slot);
            }
            let message =
                format!("{} uses slot {}, which this thread never opens", found.kind.name(), found.slot);
            self.report(Diagnostic::error(found.span, message).label("no file here").help(help));
        }
    }

    /// Finds the targets, and replaces them by their full names.
    pub(super) fn check_targets(&mut self, processes: &mut [Process]) {
        if self.diagnostics.has_errors() {
            return;
        }
        let mut everywhere = Names::default();
        let mut threads = HashMap::new();
        for (p, process) in processes.iter().enumerate() {
            for (t, thread) in process.threads.iter().enumerate() {
                let mut here = Names::default();
                collect(&thread.body, &mut here);
                collect(&thread.body, &mut everywhere);
                threads.insert((p, t), here);
            }
        }
        let none = Names::default();
        for process in processes {
            for thread in &mut process.threads {
                self.targets_in(&mut thread.body, &everywhere, &threads, &none);
            }
        }
    }

    fn targets_in(
        &mut self,
        body: &mut [Node],
        everywhere: &Names,
        threads: &HashMap<(usize, usize), Names>,
        none: &Names,
    ) {
        for node in body {
            match node {
                Node::Group { body, .. } => self.targets_in(body, everywhere, threads, none),
                Node::Op(op) if op.target.is_some() => {
                    let Some(found) = self.pending.targets.pop_front() else { return };
                    let global = matches!(op.kind, Kind::SemPost | Kind::Wakeup);
                    let names = if global { everywhere } else { threads.get(&found.place).unwrap_or(none) };
                    self.target(op, &found, names);
                }
                Node::Op(_) => {}
            }
        }
    }

    fn target(&mut self, op: &mut FlowOp, place: &TargetRef, names: &Names) {
        let wanted = op.target.clone().unwrap_or_default();
        let fits = |kind: Kind| match op.kind {
            Kind::SemPost => kind == Kind::SemBlock,
            Kind::Wakeup => kind == Kind::Block,
            _ => true,
        };
        let what = match op.kind {
            Kind::SemPost => "semblock flowop",
            Kind::Wakeup => "block flowop",
            _ => "flowop of the same thread",
        };
        match names.find(&wanted, &place.prefix) {
            Some((full, kind)) if fits(kind) => op.target = Some(full.to_owned()),
            Some((_, kind)) => {
                let message = format!("{} needs a {what} as its target", op.kind.name());
                let label = format!("`{}` is of type {}", shorten(&wanted), kind.name());
                self.report(Diagnostic::error(place.span, message).label(label));
            }
            None => {
                let mut candidates: Vec<&str> = names
                    .full
                    .iter()
                    .filter(|(_, kind)| fits(**kind))
                    .map(|(name, _)| name.as_str())
                    .collect();
                candidates.sort_unstable();
                let help =
                    suggest::did_you_mean(&wanted, candidates.iter().copied(), "").unwrap_or_else(|| {
                        if candidates.is_empty() {
                            format!("there is no {what}")
                        } else {
                            format!("candidates are {}", suggest::list(candidates.iter().copied()))
                        }
                    });
                let message = format!("there is no {what} `{}`", shorten(&wanted));
                self.report(Diagnostic::error(place.span, message).label("unknown target").help(help));
            }
        }
    }
}

/// Flowops by their full names, and by the last part of them.
#[derive(Debug, Default)]
struct Names {
    full: HashMap<String, Kind>,
    last: HashMap<String, String>,
}

impl Names {
    /// The flowop meant by a name: the nearest one around, then one of that full name, then any whose last
    /// part it is.
    fn find(&self, wanted: &str, prefix: &str) -> Option<(&str, Kind)> {
        let mut around = prefix;
        loop {
            let candidate = if around.is_empty() { wanted.to_owned() } else { format!("{around}.{wanted}") };
            if let Some((name, &kind)) = self.full.get_key_value(&candidate) {
                return Some((name, kind));
            }
            if around.is_empty() {
                break;
            }
            around = around.rsplit_once('.').map_or("", |(outer, _)| outer);
        }
        let full = self.last.get(wanted)?;
        self.full.get_key_value(full).map(|(name, &kind)| (name.as_str(), kind))
    }
}

fn collect(body: &[Node], names: &mut Names) {
    for node in body {
        match node {
            Node::Group { body, .. } => collect(body, names),
            Node::Op(op) => {
                names.full.insert(op.name.clone(), op.kind);
                if let Some((_, last)) = op.name.rsplit_once('.') {
                    names.last.entry(last.to_owned()).or_insert_with(|| op.name.clone());
                }
            }
        }
    }
}
