//! Grants for a load in slices, heard on standard input while it runs.

use std::io::BufRead;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use engine::Control;
use engine::slices::Slice;
use rustix::fs::{Mode, OFlags};
use workload::{Kind, Node, Workload};

use crate::protocol::{Grant, Issue, Message, Request, say};

/// Hears grants in a thread of its own, until standard input ends, which ends the run.
///
/// # Errors
/// The load is none that can go in slices.
pub(super) fn listen(request: &Request, control: &Arc<Control>) -> Result<(), String> {
    let Issue::Wml { model } = &request.load else {
        return Err("only a workload in WML goes in slices".into());
    };
    if request.in_process.is_some() {
        return Err(
            "a file system in the load's own process does not go in slices: leave out `inprocess`".into()
        );
    }
    // what a slice owes is to be paid within it
    let owes = owes(model)
        .then(|| {
            rustix::fs::open(
                &request.root,
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )
        })
        .transpose()
        .map_err(|error| format!("{}: {error}", request.root.display()))?;
    let control = control.clone();
    std::thread::Builder::new()
        .name("grants".into())
        .spawn(move || {
            hear(&control, owes.as_ref());
            control.interrupt();
        })
        .map_err(|error| format!("a thread for grants: {error}"))?;
    Ok(())
}

/// Whether it leaves anything to be written later.
fn owes(model: &Workload) -> bool {
    model.processes.iter().flat_map(|process| &process.threads).any(|thread| any_owes(&thread.body))
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

fn hear(control: &Control, owes: Option<&OwnedFd>) {
    if !control.ready_for_slices() {
        return;
    }
    say(&Message::Waiting);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(Grant { operations }) = serde_json::from_str(&line) else {
            say(&Message::Error { message: format!("this is no grant: {line}") });
            return;
        };
        let Slice::Done { begin_ns, end_ns } = control.slice(operations) else { return };
        let mut seconds = end_ns.saturating_sub(begin_ns) as f64 / 1e9;
        if let Some(root) = owes {
            let begin = std::time::Instant::now();
            if let Err(error) = rustix::fs::syncfs(root) {
                say(&Message::Error { message: format!("syncfs: {error}") });
                return;
            }
            seconds += begin.elapsed().as_secs_f64();
        }
        say(&Message::Slice { seconds });
    }
}
