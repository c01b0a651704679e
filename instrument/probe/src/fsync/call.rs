//! The fsyncs: who, when, on which file.

use std::collections::HashMap;

use super::chain::{FsKind, Level};
use super::event::{TraceEvent, TraceEventKind};
use study::fsync::interval::Interval;

/// One call of fsync or fdatasync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The calling thread.
    pub pid: i32,
    /// From entry to return.
    pub window: Interval,
    /// The file; `None` for a file system without tracepoints of its own.
    pub inode: Option<u64>,
    /// fdatasync.
    pub data_only: bool,
}

#[derive(Default)]
struct Open {
    entered_ns: Option<u64>,
    data_only: bool,
    /// When the file system began, and on which file.
    fs: Option<(u64, u64)>,
    /// Block I/O of this thread on the level's disks.
    wrote: bool,
}

/// The calls on the file system of `level` that began and ended in the trace, in order of their return. Where
/// the system call was not seen (io_uring, O_SYNC writes), the file system's own entry and exit bound the
/// call.
pub fn calls(moments: &[TraceEvent], level: &Level) -> Vec<Call> {
    let mut open: HashMap<i32, Open> = HashMap::new();
    let mut found = Vec::new();
    for moment in moments {
        let (pid, at_ns) = (moment.pid, moment.at_ns);
        match &moment.what {
            TraceEventKind::SyncEnter { data_only } => {
                open.insert(pid, Open { entered_ns: Some(at_ns), data_only: *data_only, ..Open::default() });
            }
            TraceEventKind::FsEnter { fs, inode, data_only } if level.is(*fs) => {
                let call = open.entry(pid).or_default();
                call.data_only |= *data_only;
                call.fs.get_or_insert((at_ns, *inode));
            }
            TraceEventKind::FsExit { fs, .. }
                if level.is(*fs) && open.get(&pid).is_some_and(|call| call.entered_ns.is_none()) =>
            {
                found.extend(open.remove(&pid).and_then(|call| finish(pid, &call, at_ns, level)));
            }
            TraceEventKind::Queue(blocks) if level.disk_of(blocks.dev).is_some() => {
                if let Some(call) = open.get_mut(&pid) {
                    call.wrote = true;
                }
            }
            TraceEventKind::SyncExit => {
                found.extend(open.remove(&pid).and_then(|call| finish(pid, &call, at_ns, level)))
            }
            _ => {}
        }
    }
    found
}

fn finish(pid: i32, call: &Open, at_ns: u64, level: &Level) -> Option<Call> {
    let known = call.fs.is_some() || (level.kind == FsKind::Other && call.wrote);
    let start_ns = call.entered_ns.or(call.fs.map(|(at, _)| at))?;
    let inode = call.fs.map(|(_, inode)| inode);
    known.then_some(Call { pid, window: Interval::new(start_ns, at_ns), inode, data_only: call.data_only })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsync::ftrace::parse;

    fn level() -> Level {
        let fs_dev = super::super::event::Dev::new(7, 0).0;
        let (fs_type, kind) = ("ext4".to_string(), FsKind::Ext4);
        Level { fs_type, kind, fs_dev, fs_uuid: None, disks: Vec::new(), holds: None }
    }

    #[test]
    fn calls_on_other_file_systems_and_cut_calls_are_left_out() {
        let text = "a-1 [000] ..... 1.000001: ext4_sync_file_exit: dev 7,0 ino 9 ret 0\n\
                    a-1 [000] ..... 1.000002: sys_fsync -> 0x0\n\
                    a-2 [000] ..... 1.000003: sys_fsync(fd: 3)\n\
                    b-3 [001] ..... 1.000004: sys_fdatasync(fd: 3)\n\
                    b-3 [001] ..... 1.000005: ext4_sync_file_enter: dev 7,0 ino 12 parent 2 datasync 1\n\
                    a-2 [000] ..... 1.000006: ext4_sync_file_enter: dev 254,0 ino 12 parent 2 datasync 0\n\
                    a-2 [000] ..... 1.000007: ext4_sync_file_exit: dev 254,0 ino 12 ret 0\n\
                    a-2 [000] ..... 1.000008: sys_fsync -> 0x0\n\
                    b-3 [001] ..... 1.000009: ext4_sync_file_exit: dev 7,0 ino 12 ret 0\n\
                    b-3 [001] ..... 1.000010: sys_fdatasync -> 0x0\n\
                    w-4 [001] ..... 1.000011: ext4_sync_file_enter: dev 7,0 ino 13 parent 2 datasync 0\n\
                    w-4 [001] ..... 1.000012: ext4_sync_file_exit: dev 7,0 ino 13 ret 0\n\
                    b-3 [001] ..... 1.000013: sys_fdatasync(fd: 3)\n";
        let call = |pid, from: u64, to: u64, inode, data_only| Call {
            pid,
            window: Interval::new(1_000_000_000 + from * 1000, 1_000_000_000 + to * 1000),
            inode: Some(inode),
            data_only,
        };
        assert_eq!(calls(&parse(text), &level()), [call(3, 4, 10, 12, true), call(4, 11, 12, 13, false)]);
    }
}
