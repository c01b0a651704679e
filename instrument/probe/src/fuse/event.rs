//! What happened between a kernel and a daemon: the events, as plain data.

use crate::fsync::event::Dev;
use trace::{Event, Selection};

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FuseEvent {
    /// When, in nanoseconds of the trace clock.
    pub at_ns: u64,
    /// The running thread.
    pub tid: u32,
    /// What it was.
    pub what: FuseEventKind,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FuseEventKind {
    /// A request was sent.
    Sent {
        /// Its number.
        unique: u64,
        /// What it asks.
        opcode: u32,
    },
    /// A thread of the daemon came back from the call with which it takes requests.
    Back,
    /// A request was answered, by a thread of the daemon.
    Ended {
        /// Its number.
        unique: u64,
    },
}

/// System calls with which daemons take requests: from `/dev/fuse`, through a pipe, through io_uring.
const TAKING: [&str; 3] = ["sys_exit_read", "sys_exit_splice", "sys_exit_io_uring_enter"];
/// The kernel takes filters up to a page. A daemon with more threads is not looked at: only whole times are told.
const FILTER_BYTES_MAX: usize = 4000;

impl FuseEvent {
    /// The moment an event tells of; `None` for other events.
    pub fn of(event: &Event) -> Option<Self> {
        let what = match event.name() {
            "fuse_request_send" => FuseEventKind::Sent {
                unique: event.number("unique")?,
                opcode: event.number("opcode")? as u32,
            },
            "fuse_request_end" => FuseEventKind::Ended { unique: event.number("unique")? },
            name if TAKING.contains(&name) => FuseEventKind::Back,
            _ => return None,
        };
        Some(FuseEvent { at_ns: event.at_ns, tid: u32::try_from(event.pid()).ok()?, what })
    }
}

/// The tracepoints for the file system of number `dev`, whose daemon has the threads `daemon`.
pub fn selections(dev: Dev, daemon: &[u32]) -> Vec<Selection> {
    let filter = format!("connection == {}", dev.0);
    let both = ["fuse_request_send", "fuse_request_end"];
    let mut all: Vec<Selection> = both
        .map(|name| Selection { system: "fuse", name, filter: Some(filter.clone()), required: true })
        .into();
    let threads: Vec<String> = daemon.iter().map(|tid| format!("common_pid == {tid}")).collect();
    let filter = threads.join(" || ");
    if !daemon.is_empty() && filter.len() <= FILTER_BYTES_MAX {
        all.extend(TAKING.map(|name| Selection {
            system: "syscalls",
            name,
            filter: Some(filter.clone()),
            required: false,
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_of_very_many_threads_is_not_looked_at() {
        let threads: Vec<u32> = (100_000..100_400).collect();
        let names = |selections: Vec<Selection>| selections.iter().map(|s| s.name).collect::<Vec<_>>();
        assert_eq!(names(selections(Dev(40), &threads)), ["fuse_request_send", "fuse_request_end"]);
        assert_eq!(names(selections(Dev(40), &[])).len(), 2);
        let few = selections(Dev(40), &threads[..2]);
        assert_eq!(few[0].filter.as_deref(), Some("connection == 40"));
        assert_eq!(few[4].filter.as_deref(), Some("common_pid == 100000 || common_pid == 100001"));
    }
}
