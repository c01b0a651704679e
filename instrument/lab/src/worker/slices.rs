//! A load in slices: it comes to the gate after each, and goes on for as many operations, or for as long, as it is told.

use std::os::fd::OwnedFd;
use std::sync::mpsc::Receiver;

use engine::Control;
use engine::slices::Slice;
use rustix::fs::{Mode, OFlags};
use workload::{Kind, Node, Workload};

use crate::load::LoadSpec;
use crate::protocol::{Instruction, Message, Release, Request, SliceUnit, send_message};

/// The directory whose file system is to be written out within each slice, if the load owes anything. A trial in turns owes
/// what it owes when it runs alone.
///
/// # Errors
/// The load is none that can go in slices.
pub(super) fn sync_directory(request: &Request, unit: SliceUnit) -> Result<Option<OwnedFd>, String> {
    let LoadSpec::Wml { model } = &request.load else {
        return Err("only a workload in WML goes in slices".into());
    };
    if request.in_process.is_some() {
        return Err(
            "a file system in the load's own process does not go in slices: leave out `inprocess`".into()
        );
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = || rustix::fs::open(&request.root, flags, Mode::empty());
    (unit == SliceUnit::Operations && owes(model))
        .then(open)
        .transpose()
        .map_err(|error| format!("{}: {error}", request.root.display()))
}

/// Whether it leaves anything to be written later.
fn owes(model: &Workload) -> bool {
    model.threads().any(|thread| any_owes(&thread.body))
}

fn any_owes(body: &[Node]) -> bool {
    body.iter().any(|node| match node {
        Node::Group { body, .. } => any_owes(body),
        Node::Op(op) => matches!(
            op.kind,
            Kind::CreateFile
                | Kind::DeleteFile
                | Kind::Write
                | Kind::WriteWholeFile
                | Kind::AppendFile
                | Kind::AppendFileRand
                | Kind::MakeDir
                | Kind::RemoveDir
                | Kind::AioWrite
        ),
    })
}

/// Goes on for as much as it is told, again and again, until the supervisor says no more or the run is over.
pub(super) fn run_slices(
    control: &Control,
    unit: SliceUnit,
    told: &Receiver<Instruction>,
    owes: Option<&OwnedFd>,
) {
    if !control.ready_for_slices() {
        return;
    }
    let mut value = 0;
    loop {
        send_message(&Message::AtGate { value, aligned: false });
        let Ok(Instruction::Proceed(Release { operations, nanoseconds, .. })) = told.recv() else {
            return control.interrupt();
        };
        let slice = match unit {
            SliceUnit::Operations => control.slice(operations),
            SliceUnit::Time => control.turn(nanoseconds),
        };
        let Slice::Done { begin_ns, end_ns } = slice else { return };
        value = end_ns.saturating_sub(begin_ns);
        if let Some(root) = owes {
            let begin = std::time::Instant::now();
            if let Err(error) = rustix::fs::syncfs(root) {
                send_message(&Message::Error { message: format!("syncfs: {error}") });
                return control.interrupt();
            }
            value += u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        }
    }
}
