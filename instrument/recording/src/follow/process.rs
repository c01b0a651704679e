//! Processes begin, run other programs and end; their descriptors are found, made and closed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::names::{FileNumber, State};
use super::table::{Entry, Held, Open, OpenNumber, Process, What};
use super::{Around, Before, Descriptor, Follower, Moment, OpenFile, PAGE_BYTES, Seen, scope};
use crate::call::{Call, Operation};
use crate::format::Item;

impl Follower {
    /// A thread or process begins.
    pub(super) fn fork(&mut self, parent_pid: u32, moment: &Moment, around: &mut Around) {
        let Moment { pid, tid, .. } = *moment;
        if tid != pid {
            return self.meet(pid, tid, around);
        }
        // The report of the end of the process that had the number before was lost.
        self.end(moment, around);
        // A maker without events as yet is recorded all the same: it may share what it has open.
        if !self.processes.contains_key(&parent_pid) {
            self.meet(parent_pid, parent_pid, around);
        }
        let child =
            self.processes.get(&parent_pid).map(|parent| parent.child(tid, (parent_pid, moment.end_ns)));
        let Some(child) = child else { return };
        for what in child.all() {
            self.refer(what);
        }
        self.processes.insert(pid, child);
    }

    /// A thread does something: it and its process are known from now on.
    pub(super) fn meet(&mut self, pid: u32, tid: u32, around: &mut Around) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.threads.insert(tid);
            return;
        }
        self.origins += 1;
        let mut threads: BTreeSet<u32> = around.lookup.threads(pid).into_iter().collect();
        threads.insert(tid);
        self.processes.insert(pid, Process::new(self.origins, pid, threads));
    }

    /// A process runs another program. Its thread has another name then, and so another number: "sh" is not "cc".
    pub(super) fn exec(&mut self, moment: &Moment, name: String, around: &mut Around) {
        let pid = moment.pid;
        self.meet(pid, pid, around);
        let is_numbered = self.threads.contains_key(&pid);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let renamed = process.name.as_ref() != Some(&name);
        let others = std::mem::replace(&mut process.threads, BTreeSet::from([pid]));
        let closed = process.execute(moment.end_ns);
        if !is_numbered {
            process.name = Some(name.clone());
        }
        closed.into_iter().for_each(|what| self.release(moment, what, around));
        if let Some(process) = self.processes.get_mut(&pid) {
            process.name = Some(name);
        }
        for tid in others.into_iter().filter(|tid| *tid != pid || (is_numbered && renamed)) {
            self.threads.remove(&tid);
        }
    }

    /// A thread ends, and with the last one its process.
    pub(super) fn exit(&mut self, moment: &Moment, around: &mut Around) {
        let Some(process) = self.processes.get_mut(&moment.pid) else { return };
        process.threads.remove(&moment.tid);
        if process.threads.is_empty() {
            self.end(moment, around);
        }
        self.threads.remove(&moment.tid);
    }

    /// A process is over: all its descriptors are closed.
    fn end(&mut self, moment: &Moment, around: &mut Around) {
        let Some(process) = self.processes.remove(&moment.pid) else { return };
        process.all().for_each(|what| self.release(moment, what, around));
        for tid in process.threads.iter().chain([&moment.tid]) {
            self.threads.remove(tid);
        }
    }

    /// A page of a mapped file was read.
    pub(super) fn fault(&mut self, moment: &Moment, identity: (u64, u64), offset: u64, around: &mut Around) {
        let Some(known) = self.names.identified(identity) else {
            self.counts.dropped_faults += 1;
            return;
        };
        self.meet(moment.pid, moment.tid, around);
        let whole =
            Operation { offset, bytes: PAGE_BYTES, ..Operation::blank(Call::Fault, PAGE_BYTES as i64) };
        let operation = match known {
            Ok(handle) => Operation { handle: Some(handle), ..whole },
            Err(path) => Operation { path: Some(self.number(&path, around)), ..whole },
        };
        self.emit(moment, operation, around);
    }

    /// What a call means by a descriptor; `None` when nobody knows, which is counted, or when there is none.
    pub(super) fn what(&mut self, moment: &Moment, fd: i32, around: &mut Around) -> Option<What> {
        if fd < 0 || moment.failed_with(libc::EBADF) {
            return None;
        }
        match self.processes.get(&moment.pid)?.held(fd, moment.begin_ns) {
            Held::What(what) => Some(what),
            Held::Unseen { inherited } => {
                let since_ns = if inherited { 0 } else { moment.begin_ns };
                self.look_up(moment, fd, inherited, since_ns, around)
            }
            Held::Over => {
                self.counts.unknown += 1;
                None
            }
        }
    }

    /// The open file that a call means by a descriptor.
    pub(super) fn open_file(&mut self, moment: &Moment, fd: i32, around: &mut Around) -> Option<OpenNumber> {
        match self.what(moment, fd, around)? {
            What::Open(open) => Some(open),
            What::Other => None,
        }
    }

    /// Asks what a descriptor is of which no event told.
    pub(super) fn look_up(
        &mut self,
        moment: &Moment,
        fd: i32,
        inherited: bool,
        since_ns: u64,
        around: &mut Around,
    ) -> Option<What> {
        let process = self.processes.get(&moment.pid).filter(|_| inherited);
        let at_begin = process.and_then(|process| {
            let found = around.lookup.at_begin(process.origin_pid, fd)?;
            let cloexec =
                matches!(&found, Descriptor::File(file) if file.flags & libc::O_CLOEXEC as u32 != 0);
            Some(found).filter(|_| !(cloexec && process.executed))
        });
        let (found, moment) = match at_begin {
            // that was before the call
            Some(found) => (found, &Moment { moved: 0, wrote: 0, ..*moment }),
            None => (around.lookup.descriptor(moment.pid, fd), moment),
        };
        let (what, cloexec) = match found {
            Descriptor::File(file) => {
                let cloexec = file.flags & libc::O_CLOEXEC as u32 != 0;
                let known = self.of_parent(moment.pid, fd, &file);
                (known.unwrap_or_else(|| self.inherit(moment, file, around)), cloexec)
            }
            Descriptor::Other => (What::Other, false),
            Descriptor::Gone => {
                self.counts.unknown += 1;
                return None;
            }
        };
        let entry = Entry { what, begin_ns: since_ns, since_ns, cloexec };
        for pid in self.sharers(moment.pid, fd, inherited, cloexec) {
            self.put(&Moment { pid, ..*moment }, fd, entry, around);
        }
        Some(what)
    }

    /// What a process has from its parent, where a thread of that was about to open it when the process was made: the open is
    /// reported later than the fork.
    fn of_parent(&self, pid: u32, fd: i32, file: &OpenFile) -> Option<What> {
        let (parent, at_ns) = self.processes.get(&pid)?.parent?;
        let what = self.processes.get(&parent)?.made_around(fd, at_ns)?;
        let What::Open(open) = what else { return None };
        (self.opens.get(&open)?.path[..] == file.path[..]).then_some(what)
    }

    /// Processes that have a descriptor which was open before the recording: those that descend from the one that had it, and
    /// have not touched it.
    fn sharers(&self, pid: u32, fd: i32, inherited: bool, cloexec: bool) -> Vec<u32> {
        let origin = self.processes.get(&pid).map(|process| process.origin);
        let shares = |(other, process): &(&u32, &Process)| {
            Some(process.origin) == origin && process.is_untouched(fd) && !(cloexec && process.executed)
                || **other == pid
        };
        if !inherited {
            return vec![pid];
        }
        self.processes.iter().filter(shares).map(|(pid, _)| *pid).collect()
    }

    /// A file that is open without an open in the recording. The system tells its position as it is after the call.
    fn inherit(&mut self, moment: &Moment, mut file: OpenFile, around: &mut Around) -> What {
        let Some(path) = scope::absolute(b"", &file.path) else { return What::Other };
        let appends = file.flags & libc::O_APPEND as u32 != 0;
        match &mut file.seen {
            Seen::File { size, .. } if appends => *size = size.saturating_sub(moment.wrote),
            Seen::File { .. } | Seen::Directory => {}
            Seen::Absent | Seen::Link(_) | Seen::Other => return What::Other,
        }
        let number = self.see(moment, &path, &Before::Seen(&file.seen), around);
        let position = file.position.saturating_sub(moment.moved);
        let Some(number) = number else { return self.new_open(&path, None, None, position, file.flags) };
        let regular = self.file_of(&path, &file.seen);
        around.out.push(Item::Inherited { path: number, flags: file.flags });
        let handle = self.next_handle();
        self.new_open(&path, Some(handle), regular, position, file.flags)
    }

    fn file_of(&mut self, path: &[u8], seen: &Seen) -> Option<FileNumber> {
        let Seen::File { size, device, inode, .. } = seen else { return None };
        let identity = (*device, *inode);
        if let State::File(file) = self.names.state(path) {
            self.names.identify_unknown(file, identity);
        }
        Some(self.names.file(*size, Some(identity)))
    }

    pub(super) fn next_handle(&mut self) -> u32 {
        let handle = self.next_handle;
        self.next_handle = handle.saturating_add(1);
        handle
    }

    /// Keeps what is open, without a descriptor as yet.
    pub(super) fn new_open(
        &mut self,
        path: &[u8],
        handle: Option<u32>,
        file: Option<FileNumber>,
        position: u64,
        flags: u32,
    ) -> What {
        let number = self.next_open;
        self.next_open += 1;
        if let Some(handle) = handle {
            self.names.opened(file, handle);
        }
        let open = Open { path: Arc::from(path), handle, file, position, copied: 0, flags, descriptors: 0 };
        self.opens.insert(number, open);
        What::Open(number)
    }

    fn refer(&mut self, what: What) {
        if let What::Open(open) = what
            && let Some(open) = self.opens.get_mut(&open)
        {
            open.descriptors += 1;
        }
    }

    /// A descriptor's number has its next meaning.
    pub(super) fn put(&mut self, moment: &Moment, fd: i32, entry: Entry, around: &mut Around) {
        self.refer(entry.what);
        let lost = match self.processes.get_mut(&moment.pid) {
            Some(process) => process.put(fd, entry),
            None => Some(entry.what),
        };
        if let Some(what) = lost {
            self.release(&Moment { result: 0, ..*moment }, what, around);
        }
    }

    /// A call closes a descriptor.
    pub(super) fn close(&mut self, moment: &Moment, fd: i32, around: &mut Around) {
        let process = self.processes.get_mut(&moment.pid);
        if let Some(what) = process.and_then(|process| process.take(fd, moment.begin_ns, moment.end_ns)) {
            self.release(moment, what, around);
        }
    }

    /// A descriptor is gone; with the last one of an open file, that is closed.
    fn release(&mut self, moment: &Moment, what: What, around: &mut Around) {
        let What::Open(number) = what else { return };
        let Some(open) = self.opens.get_mut(&number) else { return };
        open.descriptors = open.descriptors.saturating_sub(1);
        if open.descriptors > 0 {
            return;
        }
        let Some(open) = self.opens.remove(&number) else { return };
        self.names.closed(open.file, open.handle);
        if open.handle.is_some() {
            let operation = Operation { handle: open.handle, ..Operation::blank(Call::Close, moment.result) };
            self.emit(moment, operation, around);
        }
    }
}
