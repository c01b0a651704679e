//! System calls: what each does to descriptors, positions, names and sizes, and the operation that it is.

use std::sync::Arc;

use super::names::{FileNumber, State, moved};
use super::request::{Named, Place, Request, Transfer, request};
use super::table::{Entry, OpenNumber, What};
use super::{Around, Before, Descriptor, Follower, Moment, OpenFile, Seen, scope};
use crate::call::{Call, Operation};
use crate::format::{FileKind, Item};
use crate::raw::RawCall;

/// The kernel's own results of calls that it is to begin anew after a signal; the program never sees them.
const RESTARTED: std::ops::RangeInclusive<i64> = -516..=-512;
/// Flags that `F_SETFL` can set.
const SETTABLE: u32 =
    (libc::O_APPEND | libc::O_ASYNC | libc::O_DIRECT | libc::O_NOATIME | libc::O_NONBLOCK) as u32;
/// pwritev2 appends, or does not although the file was opened so.
const RWF_APPEND: u32 = 0x10;
const RWF_NOAPPEND: u32 = 0x20;
/// As many links does the kernel follow in one path.
const LINKS_MAX: usize = 40;
/// Modes of fallocate.
const KEEP_SIZE: u32 = libc::FALLOC_FL_KEEP_SIZE as u32;
const COLLAPSE: u32 = libc::FALLOC_FL_COLLAPSE_RANGE as u32;
const INSERT: u32 = libc::FALLOC_FL_INSERT_RANGE as u32;

impl Follower {
    /// A system call has returned.
    pub(super) fn call(&mut self, raw: &RawCall, around: &mut Around) {
        if RESTARTED.contains(&raw.result) {
            return;
        }
        self.meet(raw.pid, raw.tid, around);
        let Some(request) = request(raw) else { return };
        let moment = &Moment::of(raw);
        self.names.set_now(raw.end_ns);
        match request {
            Request::Open { name, flags } => self.open(moment, &name, flags, around),
            Request::Close { fd } if !moment.failed_with(libc::EBADF) => self.close(moment, fd, around),
            Request::Close { .. } => {}
            Request::CloseRange { first, last, mark } => {
                self.close_range(moment, (first, last), mark, around)
            }
            Request::Duplicate { fd, cloexec, over } => self.duplicate(moment, fd, cloexec, over, around),
            Request::Other { fds } => fds.into_iter().flatten().filter(|fd| *fd >= 0).for_each(|fd| {
                self.put(moment, fd, made(moment, What::Other, false), around);
            }),
            Request::SetCloexec { fd, cloexec } => self.set_cloexec(moment, fd, cloexec),
            Request::SetFlags { fd, flags } => self.set_flags(moment, fd, flags, around),
            Request::Seek { fd } => self.seek(moment, fd, around),
            Request::Transfer(transfer) => self.transfer(moment, &transfer, around),
            Request::Copy { from, to } => self.copy(moment, from, to, around),
            Request::Handle { call, fd, offset, bytes, flags } => {
                self.on_handle(
                    moment,
                    fd,
                    Operation { offset, bytes, flags, ..Operation::blank(call, raw.result) },
                    around,
                );
            }
            Request::Name { call, name, bytes, flags } => {
                self.on_name(
                    moment,
                    &name,
                    Operation { bytes, flags, ..Operation::blank(call, raw.result) },
                    around,
                );
            }
            Request::Names { call, name, to, flags } => {
                self.on_names(
                    moment,
                    &name,
                    &to,
                    Operation { flags, ..Operation::blank(call, raw.result) },
                    around,
                );
            }
            Request::Symlink { name, text } => self.symlink(moment, &name, text, around),
            Request::Sync if moment.failed_with(libc::EBADF) => {}
            Request::Sync => self.emit(moment, Operation::blank(Call::Sync, raw.result), around),
            Request::ChangeDirectory { name } => self.change_directory(moment, &name, around),
            Request::Map { fd } => self.map(moment, fd, around),
            Request::Unseen(count) => {
                self.counts.unseen_requests = self.counts.unseen_requests.saturating_add(count);
            }
        }
    }

    /// The absolute path that a call names; `None` when there is none, or nobody knows the directory, which is counted.
    fn resolve(&mut self, moment: &Moment, name: &Named<'_>, around: &mut Around) -> Option<Vec<u8>> {
        let path = name.path?;
        if let Some(fd) = of_descriptor(path) {
            let open = self.open_file(moment, fd, around)?;
            return self.opens.get(&open).map(|open| open.path.to_vec());
        }
        if path.first() == Some(&b'/') {
            return scope::absolute(b"/", path);
        }
        let directory = if name.directory == libc::AT_FDCWD {
            self.directory(moment, around)?
        } else {
            let open = self.open_file(moment, name.directory, around)?;
            self.opens.get(&open)?.path.clone()
        };
        scope::absolute(&directory, path)
    }

    /// The caller's working directory.
    fn directory(&mut self, moment: &Moment, around: &mut Around) -> Option<Arc<[u8]>> {
        let process = self.processes.get_mut(&moment.pid)?;
        if process.directory.is_none() {
            let found = around.lookup.directory_at_begin(process.origin_pid);
            let found = found.or_else(|| around.lookup.directory(moment.pid));
            process.directory = found.and_then(|path| scope::absolute(b"", &path)).map(Into::into);
        }
        self.counts.unknown += u64::from(process.directory.is_none());
        process.directory.clone()
    }

    fn change_directory(&mut self, moment: &Moment, name: &Named<'_>, around: &mut Around) {
        if !moment.succeeded() {
            return;
        }
        let path = match name.path {
            Some(_) => self.resolve(moment, name, around),
            None => {
                let open = self.open_file(moment, name.directory, around);
                open.and_then(|open| self.opens.get(&open)).map(|open| open.path.to_vec())
            }
        };
        if let Some(process) = self.processes.get_mut(&moment.pid) {
            process.directory = path.map(Into::into);
        }
    }

    fn open(&mut self, moment: &Moment, name: &Named<'_>, flags: Option<u32>, around: &mut Around) {
        let Some(path) = self.resolve(moment, name, around) else {
            return self.open_of_unknown(moment, around);
        };
        let flags_known = flags.is_some();
        let mut flags = flags.unwrap_or_else(|| flags_now(moment, around));
        let what = if self.scope.records(&path) {
            self.open_recorded(moment, &path, &mut flags, flags_known, around)
        } else {
            moment.descriptor().map(|_| self.new_open(&path, None, None, 0, flags))
        };
        let (Some(fd), Some(what)) = (moment.descriptor(), what) else { return };
        let cloexec = flags & libc::O_CLOEXEC as u32 != 0;
        self.put(moment, fd, made(moment, what, cloexec), around);
    }

    /// Something was opened under a path that nobody knows: the system is asked for it.
    fn open_of_unknown(&mut self, moment: &Moment, around: &mut Around) {
        let Some(fd) = moment.descriptor() else { return };
        if self.look_up(moment, fd, false, moment.end_ns, around).is_none() {
            let entry = made(moment, What::Other, false);
            self.put(moment, fd, entry, around);
        }
    }

    /// The operation of an open, and what it opened.
    fn open_recorded(
        &mut self,
        moment: &Moment,
        path: &[u8],
        flags: &mut u32,
        flags_known: bool,
        around: &mut Around,
    ) -> Option<What> {
        let before = before_open(moment, *flags, flags_known);
        let Some(number) = self.see(moment, path, &before, around) else { return Some(What::Other) };
        let operation = Operation { path: Some(number), ..Operation::blank(Call::Open, moment.result) };
        if moment.descriptor().is_none() {
            self.emit(
                moment,
                Operation { flags: *flags, result: moment.result.min(-1), ..operation },
                around,
            );
            self.learn_from_failure(moment, path);
            return None;
        }
        let follows = *flags & libc::O_NOFOLLOW as u32 == 0;
        let target = if follows { self.target(moment, path, &before, around) } else { Some(path.into()) };
        let Some(target) = target else { return Some(What::Other) };
        if !flags_known && self.names.state(&target) == State::Absent {
            *flags |= libc::O_CREAT as u32;
        }
        let file = self.opened_file(&target, *flags, around);
        let handle = Some(self.next_handle());
        self.emit(moment, Operation { flags: *flags, handle, ..operation }, around);
        Some(self.new_open(path, handle, file, 0, *flags))
    }

    /// Where the links lead at whose first a path stands; `None` to what is no file.
    fn target(
        &mut self,
        moment: &Moment,
        path: &[u8],
        before: &Before<'_>,
        around: &mut Around,
    ) -> Option<Arc<[u8]>> {
        let mut at: Arc<[u8]> = path.into();
        for _ in 0..LINKS_MAX {
            let State::Link(Some(next)) = self.names.state(&at) else { break };
            if self.scope.records(&next) {
                self.see(moment, &next, before, around)?;
            } else if scope::of_system(&next) {
                return None;
            }
            at = next;
        }
        Some(at)
    }

    /// The file that an open gave, after what the open does to it; `None` for a directory.
    fn opened_file(&mut self, path: &[u8], flags: u32, around: &mut Around) -> Option<FileNumber> {
        let has = |flag: i32| flags & flag as u32 == flag as u32;
        if has(libc::O_TMPFILE) {
            return Some(self.names.file(0, None));
        }
        let file = self.file_at(path, has(libc::O_CREAT), has(libc::O_DIRECTORY), around);
        if has(libc::O_TRUNC) {
            self.names.resize(file, |_| 0);
        }
        file
    }

    /// The file at a path that must be there, whatever the calls so far said.
    fn file_at(
        &mut self,
        path: &[u8],
        may_create: bool,
        directory: bool,
        around: &mut Around,
    ) -> Option<FileNumber> {
        let state = match self.names.state(path) {
            State::Absent if may_create => State::File(self.names.file(0, None)),
            State::Absent | State::Unknown => match around.lookup.found(path) {
                Seen::Absent | Seen::Link(_) if !directory => State::File(self.names.file(0, None)),
                seen @ Seen::File { .. } => self.state_of(path, &seen).unwrap_or_default(),
                _ => State::Directory { made: false, was: None },
            },
            known => known,
        };
        if self.scope.records(path) {
            self.names.set(path, state.clone());
        }
        if let State::File(file) = state { Some(file) } else { None }
    }

    fn close_range(&mut self, moment: &Moment, (first, last): (u32, u32), mark: bool, around: &mut Around) {
        let Some(process) = self.processes.get_mut(&moment.pid).filter(|_| moment.succeeded()) else {
            return;
        };
        let numbers = process.numbers(first, last);
        if mark {
            return numbers.into_iter().for_each(|fd| process.set_cloexec(fd, true));
        }
        process.drop_untouched(first, last);
        numbers.into_iter().for_each(|fd| self.close(moment, fd, around));
    }

    fn duplicate(&mut self, moment: &Moment, fd: i32, cloexec: bool, over: bool, around: &mut Around) {
        let Some(new) = moment.descriptor().filter(|new| *new != fd) else { return };
        let what = self.what(moment, fd, around);
        if over || what.is_none() {
            self.close(&Moment { result: 0, ..*moment }, new, around);
        }
        if let Some(what) = what {
            self.put(moment, new, made(moment, what, cloexec), around);
        }
    }

    fn set_cloexec(&mut self, moment: &Moment, fd: i32, cloexec: bool) {
        if let Some(process) = self.processes.get_mut(&moment.pid).filter(|_| moment.succeeded()) {
            process.set_cloexec(fd, cloexec);
        }
    }

    fn set_flags(&mut self, moment: &Moment, fd: i32, flags: u32, around: &mut Around) {
        if moment.succeeded()
            && let Some(open) = self.open_file(moment, fd, around)
            && let Some(open) = self.opens.get_mut(&open)
        {
            open.flags = open.flags & !SETTABLE | flags & SETTABLE;
        }
    }

    fn seek(&mut self, moment: &Moment, fd: i32, around: &mut Around) {
        if moment.succeeded()
            && let Some(open) = self.open_file(moment, fd, around)
            && let Some(open) = self.opens.get_mut(&open)
        {
            open.position = moment.bytes();
        }
    }

    fn transfer(&mut self, moment: &Moment, transfer: &Transfer, around: &mut Around) {
        let bytes = moment.bytes();
        let moved = if transfer.place == Place::Position { bytes } else { 0 };
        let wrote = if transfer.write { bytes } else { 0 };
        let moment = &Moment { moved, wrote, ..*moment };
        let Some(number) = self.open_file(moment, transfer.fd, around) else { return };
        let Some(offset) = self.place(number, transfer) else { return };
        self.advance(number, transfer, offset, bytes, around);
        let call = if transfer.write { Call::Write } else { Call::Read };
        let Transfer { bytes, flags, .. } = *transfer;
        self.emit_on(
            moment,
            number,
            Operation { offset, bytes, flags, ..Operation::blank(call, moment.result) },
            around,
        );
    }

    /// What was copied was read and written. A program asks for as much as there is: it asked for what it got. A copy that failed
    /// (these files have no such copy) has done neither, and one at the file's end has read nothing.
    fn copy(&mut self, moment: &Moment, from: Transfer, to: Transfer, around: &mut Around) {
        let bytes = moment.bytes();
        if moment.succeeded() {
            self.transfer(moment, &Transfer { bytes, ..from }, around);
        }
        if bytes > 0 {
            self.transfer(moment, &Transfer { bytes, ..to }, around);
        }
    }

    /// Where a transfer happens.
    fn place(&self, number: OpenNumber, transfer: &Transfer) -> Option<u64> {
        let open = self.opens.get(&number)?;
        let appends = open.flags & libc::O_APPEND as u32 != 0 && transfer.flags & RWF_NOAPPEND == 0
            || transfer.flags & RWF_APPEND != 0;
        Some(match transfer.place {
            _ if transfer.write && appends && open.file.is_some() => self.names.size(open.file),
            Place::Position => open.position,
            Place::Offset(offset) => offset,
            Place::Pointer => open.copied,
        })
    }

    /// Moves the position, and grows the file.
    fn advance(
        &mut self,
        number: OpenNumber,
        transfer: &Transfer,
        offset: u64,
        bytes: u64,
        around: &mut Around,
    ) {
        let Some(open) = self.opens.get_mut(&number).filter(|_| bytes > 0) else { return };
        let end = offset.saturating_add(bytes);
        match transfer.place {
            Place::Position => open.position = end,
            Place::Offset(_) => {}
            Place::Pointer => open.copied = end,
        }
        let (file, path) = (open.file, open.path.clone());
        if transfer.write {
            self.names.resize(file, |size| size.max(end));
        } else if self.names.read_to(file, end)
            && let Some(path) = self.names.found(&path)
        {
            around.out.push(Item::Found { path, kind: FileKind::File(end) });
        }
    }

    /// Hands out an operation on an open file, if it is recorded.
    fn emit_on(&mut self, moment: &Moment, open: OpenNumber, operation: Operation, around: &mut Around) {
        let handle = self.opens.get(&open).and_then(|open| open.handle);
        if handle.is_some() {
            self.emit(moment, Operation { handle, ..operation }, around);
        }
    }

    fn on_handle(&mut self, moment: &Moment, fd: i32, operation: Operation, around: &mut Around) {
        let Some(number) = self.open_file(moment, fd, around) else { return };
        let file = self.opens.get(&number).and_then(|open| open.file).filter(|_| moment.succeeded());
        let Operation { offset, bytes, flags, .. } = operation;
        match operation.call {
            Call::Truncate => self.names.resize(file, |_| bytes),
            Call::Allocate => self.names.resize(file, |size| allocated(size, offset, bytes, flags)),
            _ => {}
        }
        self.emit_on(moment, number, operation, around);
    }

    fn on_name(&mut self, moment: &Moment, name: &Named<'_>, operation: Operation, around: &mut Around) {
        if name.path.is_none() && name.or_itself && name.directory != libc::AT_FDCWD {
            return self.on_handle(moment, name.directory, operation, around);
        }
        let Some(path) = self.resolve(moment, name, around) else { return };
        let before = before_name(moment, operation.call);
        let Some(number) = self.see(moment, &path, &before, around) else { return };
        let follows = operation.flags & libc::AT_SYMLINK_NOFOLLOW as u32 == 0;
        let looks = matches!(operation.call, Call::Stat | Call::SetAttributes | Call::Truncate);
        let mut target = None;
        if moment.succeeded() && follows && looks {
            target = self.target(moment, &path, &before, around);
        }
        self.emit(moment, Operation { path: Some(number), ..operation }, around);
        if !moment.succeeded() {
            return self.learn_from_failure(moment, &path);
        }
        self.learn_from_success(&path, &operation, target, around);
    }

    /// What there is after a call on a name.
    fn learn_from_success(
        &mut self,
        path: &[u8],
        operation: &Operation,
        target: Option<Arc<[u8]>>,
        around: &mut Around,
    ) {
        match operation.call {
            Call::MakeDirectory => self.names.set_all(path, &State::Absent),
            Call::Unlink | Call::RemoveDirectory => return self.names.set_all(path, &State::Absent),
            Call::Truncate => {
                let target = target.filter(|target| self.scope.records(target));
                let file = target.and_then(|target| self.file_at(&target, false, false, around));
                return self.names.resize(file, |_| operation.bytes);
            }
            // Somebody who is not followed made it.
            _ if self.names.state(path) == State::Absent => return self.names.set(path, State::Unknown),
            _ => return,
        }
        self.names.set(path, State::Directory { made: true, was: None });
    }

    /// What there is, or is not, by a failure; unless a call that ended meanwhile says otherwise.
    fn learn_from_failure(&mut self, moment: &Moment, path: &[u8]) {
        if self.names.since_ns(path) > moment.begin_ns {
            return;
        }
        let state = self.names.state(path);
        if moment.failed_with(libc::ENOENT) && !matches!(state, State::Link(_) | State::Absent) {
            self.names.set_all(path, &State::Absent);
        } else if moment.failed_with(libc::EEXIST) && state == State::Absent {
            self.names.set(path, State::Unknown);
        }
    }

    fn symlink(&mut self, moment: &Moment, name: &Named<'_>, text: Option<&[u8]>, around: &mut Around) {
        let Some(path) = self.resolve(moment, name, around) else { return };
        let before = before_name(moment, Call::Symlink);
        let Some(number) = self.see(moment, &path, &before, around) else { return };
        let target = text.and_then(|text| scope::absolute(scope::parent(&path).unwrap_or(b"/"), text));
        let recorded = target.as_ref().filter(|target| self.scope.records(target)).cloned();
        let to = recorded.map(|target| self.number(&target, around));
        self.emit(
            moment,
            Operation { path: Some(number), to, ..Operation::blank(Call::Symlink, moment.result) },
            around,
        );
        if moment.succeeded() {
            self.names.set(&path, State::Link(target.map(Into::into)));
        } else {
            self.learn_from_failure(moment, &path);
        }
    }

    /// A rename or link.
    fn on_names(
        &mut self,
        moment: &Moment,
        name: &Named<'_>,
        to: &Named<'_>,
        operation: Operation,
        around: &mut Around,
    ) {
        let Some(to) = self.resolve(moment, to, around) else { return };
        let itself = name.path.is_none() && name.or_itself;
        let by_handle = name.path.and_then(of_descriptor).or(itself.then_some(name.directory));
        if let Some(fd) = by_handle.filter(|_| operation.call == Call::Link) {
            return self.link_handle(moment, fd, &to, operation, around);
        }
        let Some(from) = self.resolve(moment, name, around) else { return };
        let (before, before_to) = before_names(moment, &operation, &from, &to);
        let path = self.see(moment, &from, &before, around);
        let second = self.see(moment, &to, &before_to, around);
        if path.is_some() || second.is_some() {
            self.emit(moment, Operation { path, to: second, ..operation }, around);
        }
        match operation.call {
            _ if !moment.succeeded() => {}
            Call::Link => self.linked(&from, &to, around),
            _ => self.renamed(&from, &to, operation.flags & libc::RENAME_EXCHANGE != 0),
        }
    }

    /// Gives an open file a name.
    fn link_handle(
        &mut self,
        moment: &Moment,
        fd: i32,
        to: &[u8],
        operation: Operation,
        around: &mut Around,
    ) {
        let Some(number) = self.open_file(moment, fd, around) else { return };
        let before = before_name(moment, Call::Symlink);
        let second = self.see(moment, to, &before, around);
        let handle = self.opens.get(&number).and_then(|open| open.handle);
        if handle.is_some() || second.is_some() {
            self.emit(moment, Operation { handle, to: second, ..operation }, around);
        }
        let file = self.opens.get(&number).and_then(|open| open.file);
        if second.is_some() && moment.succeeded() {
            self.names.set(to, file.map_or(State::Unknown, State::File));
        }
    }

    fn linked(&mut self, from: &[u8], to: &[u8], around: &mut Around) {
        if !self.scope.records(to) {
            return;
        }
        let mut state = State::Unknown;
        if self.scope.records(from) {
            state = match self.names.state(from) {
                link @ State::Link(_) => link,
                _ => self.file_at(from, false, false, around).map_or(State::Unknown, State::File),
            };
        }
        self.names.set(to, state);
    }

    fn renamed(&mut self, from: &[u8], to: &[u8], exchange: bool) {
        let is_file = |follower: &Self, path: &[u8]| matches!(follower.names.state(path), State::File(_));
        let only_files = is_file(self, from) && (!exchange || is_file(self, to));
        match (self.scope.records(from), self.scope.records(to)) {
            (true, true) if exchange => self.names.exchange(from, to),
            (true, true) => self.names.rename(from, to),
            (true, false) if exchange => self.names.set_all(from, &State::Unknown),
            (true, false) => self.names.set_all(from, &State::Absent),
            (false, true) => self.names.set_all(to, &State::Unknown),
            (false, false) => {}
        }
        if !only_files {
            self.move_directories(from, to, exchange);
        }
    }

    /// Open files and working directories below a renamed directory have another path.
    fn move_directories(&mut self, from: &[u8], to: &[u8], exchange: bool) {
        let moved = |path: &Arc<[u8]>| {
            let back = || if exchange { moved(to, from, path) } else { None };
            moved(from, to, path).or_else(back).map(Arc::<[u8]>::from)
        };
        for open in self.opens.values_mut() {
            open.path = moved(&open.path).unwrap_or_else(|| open.path.clone());
        }
        for directory in self.processes.values_mut().filter_map(|process| process.directory.as_mut()) {
            *directory = moved(directory).unwrap_or_else(|| directory.clone());
        }
    }

    /// A file is mapped: its pages may be read in by faults, which name it by device and inode number.
    fn map(&mut self, moment: &Moment, fd: i32, around: &mut Around) {
        if !moment.succeeded() {
            return;
        }
        let Some(number) = self.open_file(moment, fd, around) else { return };
        let file = self.opens.get(&number).and_then(|open| open.file);
        let Some(file) = file.filter(|file| self.names.is_anonymous(*file)) else { return };
        let now = around.lookup.descriptor(moment.pid, fd);
        if let Descriptor::File(OpenFile { seen: Seen::File { device, inode, .. }, .. }) = now {
            self.names.identify_unknown(file, (device, inode));
        }
    }
}

/// What a call makes of a descriptor's number.
fn made(moment: &Moment, what: What, cloexec: bool) -> Entry {
    Entry { what, begin_ns: moment.begin_ns, since_ns: moment.end_ns, cloexec }
}

/// The descriptor of the caller that a path stands for.
fn of_descriptor(path: &[u8]) -> Option<i32> {
    let number = path.strip_prefix(b"/proc/self/fd/").or_else(|| path.strip_prefix(b"/dev/fd/"))?;
    std::str::from_utf8(number).ok()?.parse().ok().filter(|fd| *fd >= 0)
}

/// Flags of an open that has them where nobody read them.
fn flags_now(moment: &Moment, around: &mut Around) -> u32 {
    match moment.descriptor().map(|fd| around.lookup.descriptor(moment.pid, fd)) {
        Some(Descriptor::File(file)) => file.flags,
        _ => 0,
    }
}

fn before_open(moment: &Moment, flags: u32, flags_known: bool) -> Before<'static> {
    let has = |flag: i32| flags & flag as u32 == flag as u32;
    if !moment.succeeded() {
        return before_failure(moment);
    }
    if has(libc::O_TMPFILE) || has(libc::O_DIRECTORY) {
        return Before::Is(FileKind::Directory);
    }
    match (has(libc::O_CREAT), has(libc::O_EXCL)) {
        (true, true) => Before::Absent,
        (true, false) => Before::Born,
        _ if !flags_known => Before::Born,
        _ => Before::Is(FileKind::File(0)),
    }
}

fn before_name(moment: &Moment, call: Call) -> Before<'static> {
    match call {
        _ if !moment.succeeded() => before_failure(moment),
        Call::MakeDirectory | Call::Symlink => Before::Absent,
        Call::RemoveDirectory => Before::Was(FileKind::Directory),
        Call::Unlink => Before::Was(FileKind::File(0)),
        _ => Before::Is(FileKind::File(0)),
    }
}

fn before_failure(moment: &Moment) -> Before<'static> {
    if moment.failed_with(libc::ENOENT) || moment.failed_with(libc::ENOTDIR) {
        return Before::AbsentOrLink;
    }
    Before::Unsure
}

/// Of both names of a rename or link.
fn before_names<'a>(
    moment: &Moment,
    operation: &Operation,
    from: &'a [u8],
    to: &'a [u8],
) -> (Before<'a>, Before<'a>) {
    if !moment.succeeded() {
        return (Before::Unsure, Before::Unsure);
    }
    match operation.call {
        Call::Link => (Before::Is(FileKind::File(0)), Before::Absent),
        _ if operation.flags & libc::RENAME_EXCHANGE != 0 => (Before::MovedTo(to), Before::MovedTo(from)),
        _ => (Before::MovedTo(to), Before::Absent),
    }
}

/// A file's size after fallocate.
fn allocated(size: u64, offset: u64, bytes: u64, mode: u32) -> u64 {
    match mode {
        _ if mode & COLLAPSE != 0 => size.saturating_sub(bytes),
        _ if mode & INSERT != 0 => size.saturating_add(bytes),
        _ if mode & KEEP_SIZE != 0 => size,
        _ => size.max(offset.saturating_add(bytes)),
    }
}
