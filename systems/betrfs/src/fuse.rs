//! The kernel's requests, one function each. The kernel checks permissions, caches names and attributes for as
//! long as it likes (nobody but it changes anything) and sends every write at once.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use fusewire::local::{self, Probe};
use fusewire::wire::{self, Entry, InitConfig, Opened, Operation, Request, StatFs, init_flag, open_flag};
use fusewire::{Answered, FileSystem, Notifier, PreemptionTicker, Reply};

use crate::coherence::Coherence;
use crate::error::{Error, Result};
use crate::fs::{
    Attr, AttrMode, DirStream, Fs, IoPath, NewFile, RenameMode, SeekResult, SetAttr, SetTime, Whence,
};
use crate::key;
use crate::record::Time;
use crate::syncer::{Syncer, sync_errno};

/// A write of so many bytes may have to wait until others have been written.
const LONG: usize = 16 << 10;

/// With less space than this a device counts as full for those who write to a file of which data were dropped: a request has 1 MiB, and
/// what is kept for nodes differs by some.
const FULL: u64 = 8 << 20;

/// What the transport may be told.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How long the kernel may keep names and attributes.
    pub ttl: Duration,
    /// Let the kernel collect writes; small writes are then no longer blind.
    pub writeback: bool,
    /// Keep the beat for threads that take turns.
    pub beat: bool,
    /// Give attributes with every read of a directory.
    pub readdirplus: bool,
    /// What is written to a file just made stays in the kernel's page cache.
    pub keep_new: bool,
    /// The probe, see [`Probe`].
    pub probe: Arc<Probe>,
}

impl Settings {
    /// What the kernel is asked for.
    pub fn wish(&self) -> InitConfig {
        let writeback = if self.writeback { init_flag::WRITEBACK_CACHE } else { 0 };
        let readdirplus = if self.readdirplus { init_flag::DO_READDIRPLUS } else { 0 };
        local::wish(writeback | readdirplus)
    }
}

/// The file system as the kernel's requests see it.
pub(crate) struct Server {
    fs: Arc<Fs>,
    settings: Settings,
    syncer: Syncer,
    /// None if the kernel collects writes: its threads wait for none.
    beat: Option<PreemptionTicker>,
    /// Nothing before there is a connection.
    coherence: OnceLock<Arc<Coherence>>,
    open_dirs: OpenDirs,
    dropped: Dropped,
}

/// Files of which the kernel has dropped data that it had collected and that found no space. It takes what is written, and says so of
/// that at the next fsync(2) or close(2) only: whoever writes until there is an error would never end.
#[derive(Default)]
struct Dropped {
    files: Mutex<HashSet<u64>>,
    any: AtomicBool,
}

impl Dropped {
    fn files(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.files.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn note(&self, ino: u64) {
        self.files().insert(ino);
        self.any.store(true, Ordering::Release);
    }

    /// Whether something of `ino` was dropped since somebody asked.
    fn take(&self, ino: u64) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let mut files = self.files();
        let was = files.remove(&ino);
        self.any.store(!files.is_empty(), Ordering::Release);
        was
    }
}

/// The directories that are open: of each where its reader is. As many as programs have open, some 100 bytes each, with the
/// longest names 350.
#[derive(Default)]
struct OpenDirs {
    streams: Mutex<HashMap<u64, Arc<Mutex<DirStream>>>>,
    last: AtomicU64,
}

impl OpenDirs {
    fn streams(&self) -> MutexGuard<'_, HashMap<u64, Arc<Mutex<DirStream>>>> {
        self.streams.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn open(&self) -> u64 {
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.streams().insert(handle, Arc::default());
        handle
    }

    /// That of a handle; without one a new one.
    fn at(&self, handle: u64) -> Arc<Mutex<DirStream>> {
        self.streams().get(&handle).cloned().unwrap_or_default()
    }

    fn close(&self, handle: u64) {
        self.streams().remove(&handle);
    }
}

fn wire_time(time: Time) -> (i64, u32) {
    (time.sec, time.nsec)
}

fn set_time(time: wire::SetTime) -> SetTime {
    match time {
        wire::SetTime::Now => SetTime::Now,
        wire::SetTime::At(sec, nsec) => SetTime::At(Time { sec, nsec }),
    }
}

/// `attr` as the kernel is told: one unit of 512 bytes at least for a file that is not empty. The kernel may have data of it that it has
/// not passed on, and `tar -S` takes a file without blocks for one hole, without a seek. (ext4 does so for data within an inode.)
fn wire_attr(attr: &Attr) -> wire::Attr {
    let is_file = attr.mode & libc::S_IFMT == libc::S_IFREG;
    wire::Attr {
        ino: attr.ino,
        size: attr.size,
        blocks: attr.blocks.max(u64::from(is_file && attr.size > 0)),
        atime: wire_time(attr.atime),
        mtime: wire_time(attr.mtime),
        ctime: wire_time(attr.ctime),
        mode: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        block_bytes: key::BLOCK as u32,
    }
}

fn way(direct: bool) -> IoPath {
    if direct { IoPath::Direct } else { IoPath::Cache }
}

fn empty(done: Result<()>, reply: Reply<'_>) -> Answered {
    match done {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e.errno()),
    }
}

fn bytes(read: Result<Vec<u8>>, reply: Reply<'_>) -> Answered {
    match read {
        Ok(bytes) => reply.data(bytes),
        Err(e) => reply.error(e.errno()),
    }
}

/// Answers a request whose answer's size the caller may only ask for.
fn sized(bytes: Result<Vec<u8>>, size: u32, reply: Reply<'_>) -> Answered {
    match bytes {
        Ok(bytes) if size == 0 => reply.size(bytes.len() as u32),
        Ok(bytes) if bytes.len() > size as usize => reply.error(libc::ERANGE),
        Ok(bytes) => reply.data(bytes),
        Err(e) => reply.error(e.errno()),
    }
}

impl Server {
    pub fn new(fs: Arc<Fs>, settings: Settings) -> Server {
        let syncer = Syncer::new(fs.clone());
        let beat = settings
            .beat
            .then(|| PreemptionTicker::new(std::thread::available_parallelism().map_or(1, |n| n.get())));
        let (coherence, open_dirs, dropped) = (OnceLock::new(), OpenDirs::default(), Dropped::default());
        Server { fs, settings, syncer, beat, coherence, open_dirs, dropped }
    }

    fn entry_of(&self, attr: &Attr) -> Entry {
        Entry { node: attr.ino, ttl: self.settings.ttl, attr: wire_attr(attr) }
    }

    /// Says "no such name", which may be cached.
    fn absent(&self) -> Entry {
        Entry { node: 0, ttl: self.settings.ttl, attr: wire::Attr::default() }
    }

    fn entry(&self, made: Result<Attr>, reply: Reply<'_>) -> Answered {
        match made {
            Ok(attr) => reply.entry(&self.entry_of(&attr)),
            Err(e) => reply.error(e.errno()),
        }
    }

    fn attr(&self, attr: Result<Attr>, reply: Reply<'_>) -> Answered {
        match attr {
            Ok(attr) => reply.attr(&wire_attr(&attr), self.settings.ttl),
            Err(e) => reply.error(e.errno()),
        }
    }

    fn handle_flags(&self, flags: u32) -> u32 {
        local::handle_flags(flags, self.settings.keep_new || self.settings.writeback)
    }

    fn lookup(&self, parent: u64, name: &[u8], reply: Reply<'_>) -> Answered {
        if let Some(entry) = self.settings.probe.entry(parent, name) {
            return reply.entry(&entry);
        }
        match self.fs.lookup(parent, name) {
            Err(Error::NotFound) => reply.entry(&self.absent()),
            found => self.entry(found, reply),
        }
    }

    fn set_attr(&self, request: &Request<'_>, asked: &wire::SetAttr, reply: Reply<'_>) -> Answered {
        let header = &request.header;
        // The kernel asks for the bits to go with every change of owner, and does not say whether who makes it may keep the
        // group's; otherwise it asks for those only who may not.
        let may_keep = header.uid == 0 && (asked.uid.is_some() || asked.gid.is_some());
        let set = SetAttr {
            mode: asked.mode,
            uid: asked.uid,
            gid: asked.gid,
            size: asked.size,
            atime: asked.atime.map(set_time),
            mtime: asked.mtime.map(set_time),
            kill_priv: asked.kill_priv,
            // Others that they belong to are not told.
            group: (!may_keep).then_some(header.gid),
        };
        self.attr(self.fs.set_attr(header.node, &set), reply)
    }

    fn make(&self, request: &Request<'_>, name: &[u8], mode: u32, rdev: u32, target: &[u8]) -> Result<Attr> {
        let header = &request.header;
        self.fs.make(header.node, name, NewFile { mode, uid: header.uid, gid: header.gid, rdev, target })
    }

    fn create(
        &self,
        request: &Request<'_>,
        name: &[u8],
        mode: u32,
        flags: u32,
        reply: Reply<'_>,
    ) -> Answered {
        match self.make(request, name, libc::S_IFREG | mode & 0o7777, 0, b"") {
            Ok(attr) => {
                let opened = Opened { handle: 0, flags: self.handle_flags(flags) };
                reply.created(&self.entry_of(&attr), opened)
            }
            Err(e) => reply.error(e.errno()),
        }
    }

    fn tmp_file(&self, request: &Request<'_>, mode: u32, flags: u32, reply: Reply<'_>) -> Answered {
        let header = &request.header;
        let mode = libc::S_IFREG | mode & 0o7777;
        let new = NewFile { mode, uid: header.uid, gid: header.gid, ..NewFile::default() };
        match self.fs.make_nameless(header.node, new) {
            Ok(attr) => {
                let opened = Opened { handle: 0, flags: self.handle_flags(flags) };
                reply.created(&self.entry_of(&attr), opened)
            }
            Err(e) => reply.error(e.errno()),
        }
    }

    fn rename(
        &self,
        request: &Request<'_>,
        from: &[u8],
        to: (u64, &[u8]),
        flags: u32,
        reply: Reply<'_>,
    ) -> Answered {
        let header = &request.header;
        // The kernel itself has seen that the new name is free, where RENAME_NOREPLACE comes with a whiteout.
        let mode = match flags {
            0 => RenameMode::Replace,
            libc::RENAME_NOREPLACE => RenameMode::NoReplace,
            libc::RENAME_EXCHANGE => RenameMode::Exchange,
            _ if flags & !libc::RENAME_NOREPLACE == libc::RENAME_WHITEOUT => {
                RenameMode::Whiteout { uid: header.uid, gid: header.gid }
            }
            _ => return reply.error(libc::EINVAL),
        };
        empty(self.fs.rename(header.node, from, to.0, to.1, mode), reply)
    }

    /// With `durable` it is answered when all so far is.
    fn write(
        &self,
        request: &Request<'_>,
        offset: u64,
        data: &[u8],
        kill_priv: bool,
        (from, durable): (IoPath, bool),
        reply: Reply<'_>,
    ) -> Answered {
        let (ino, user) = (request.header.node, request.header.uid);
        let written = match self.fs.serve_write(ino, Some(offset), data, kill_priv, from) {
            Ok(written) => written,
            Err(e) => {
                if from == IoPath::WriteBack && e.errno() == libc::ENOSPC {
                    self.note_dropped(ino);
                }
                return reply.error(e.errno());
            }
        };
        let coherence = self.coherence.get();
        if let Some(coherence) = coherence
            && written.stripped
        {
            coherence.forget_attributes(ino);
        }
        let stale = coherence.filter(|_| written.stale);
        match (durable, stale) {
            (false, None) => reply.written(written.bytes as u32),
            (true, None) => self.syncer.sync_written(ino, written.bytes as u32, reply),
            (_, Some(coherence)) => match if durable { self.fs.sync_of(ino) } else { Ok(()) } {
                Ok(()) => coherence.written(user, (ino, offset), written.bytes, reply),
                Err(e) => {
                    // It is written all the same, if not for ever.
                    coherence.drop_later(user, ino, offset..offset.saturating_add(written.bytes as u64));
                    reply.error(sync_errno(&e))
                }
            },
        }
    }

    /// The kernel has collected data of `ino` for which there is no space, and drops them: the next write hears of it.
    fn note_dropped(&self, ino: u64) {
        self.dropped.note(ino);
        if let Some(coherence) = self.coherence.get() {
            // So it asks for them before it collects more.
            coherence.forget_attributes(ino);
        }
    }

    fn open_dir(&self, reply: Reply<'_>) -> Answered {
        // Places in a directory stay, so what the kernel keeps of it is right until it changes a name itself.
        let flags = open_flag::CACHE_DIR | open_flag::KEEP_CACHE;
        reply.opened(Opened { handle: self.open_dirs.open(), flags })
    }

    fn read_dir(&self, ino: u64, handle: u64, at: u64, size: u32, plus: bool, reply: Reply<'_>) -> Answered {
        let stream = self.open_dirs.at(handle);
        let mut stream = stream.lock().unwrap_or_else(|e| e.into_inner());
        reply.directory(size, |directory| {
            // What the kernel knows already costs it more than what it has to ask for now and then.
            let with = if plus { AttrMode::News } else { AttrMode::Nothing };
            let read = self.fs.read_on(ino, &mut stream, at, with, &mut |item| {
                if !plus {
                    return directory.add(item.ino, item.next, item.kind, item.name);
                }
                let entry = item.attr.as_ref().map_or_else(|| self.absent(), |attr| self.entry_of(attr));
                directory.add_plus(&entry, item.ino, item.next, item.kind, item.name)
            });
            read.map_err(|e| e.errno())
        })
    }

    fn stat_fs(&self, reply: Reply<'_>) -> Answered {
        let space = self.fs.counted_space();
        let unit = key::BLOCK as u64;
        reply.stat_fs(&StatFs {
            blocks: space.total / unit,
            free: space.free / unit,
            available: space.available / unit,
            // Inodes take space like data; a small file about a quarter of a block.
            files: space.total / 1024,
            files_free: space.available / 1024,
            unit_bytes: unit as u32,
            name_bytes_max: key::NAME_MAX as u32,
        })
    }

    fn set_xattr(&self, ino: u64, name: &[u8], value: &[u8], flags: u32, reply: Reply<'_>) -> Answered {
        let has = |flag: i32| flags & flag as u32 != 0;
        let (create, replace) = (has(libc::XATTR_CREATE), has(libc::XATTR_REPLACE));
        empty(self.fs.set_xattr(ino, name, value, create, replace), reply)
    }

    fn list_xattr(&self, ino: u64, size: u32, reply: Reply<'_>) -> Answered {
        let names = self
            .fs
            .xattrs(ino)
            .map(|names| names.into_iter().flat_map(|name| name.into_iter().chain([0])).collect::<Vec<u8>>());
        sized(names, size, reply)
    }

    fn seek(&self, request: &Request<'_>, offset: u64, whence: u32, reply: Reply<'_>) -> Answered {
        let (ino, user) = (request.header.node, request.header.uid);
        let whence = match whence as i32 {
            libc::SEEK_DATA => Whence::Data,
            libc::SEEK_HOLE => Whence::Hole,
            _ => return reply.error(libc::EINVAL),
        };
        let answer = |at: Result<u64>, reply: Reply<'_>| match at {
            Ok(at) => reply.offset(at),
            Err(e) => reply.error(e.errno()),
        };
        let SeekResult { at, hole } = match self.fs.sought(ino, offset, whence) {
            Ok(sought) => sought,
            Err(e) => return reply.error(e.errno()),
        };
        // Only what the kernel has read, or collects, can be dirty there; and it knows of none behind the end that it does
        // not collect.
        let may_be_dirty = self.settings.writeback
            || self.fs.is_cached(ino) && self.fs.size(ino).is_ok_and(|size| hole.start < size);
        if hole.is_empty() || !may_be_dirty {
            return answer(at, reply);
        }
        let sought = match self.coherence.get() {
            Some(coherence) => coherence.seek(&self.fs, user, (ino, offset, whence), reply),
            None => Err(reply),
        };
        match sought {
            Ok(answered) => answered,
            // The kernel knows sizes that are not known here, and from now on asks for no seek any more.
            Err(reply) if self.settings.writeback => reply.error(libc::ENOSYS),
            Err(reply) => answer(self.fs.seek_without_holes(ino, offset, whence), reply),
        }
    }
}

impl FileSystem for Server {
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) -> Answered {
        let ino = request.header.node;
        match request.operation {
            Operation::Lookup { name } => self.lookup(ino, name, reply),
            Operation::GetAttr { with_handle } => {
                // A write that the kernel collects fails with this, and nothing else.
                if with_handle && self.dropped.take(ino) && self.fs.space().available < FULL {
                    return reply.error(libc::ENOSPC);
                }
                self.attr(self.fs.attr(ino), reply)
            }
            Operation::StatX => match self.fs.attr(ino) {
                Ok(attr) => reply.statx(&wire_attr(&attr), wire_time(attr.btime), self.settings.ttl),
                Err(e) => reply.error(e.errno()),
            },
            Operation::SetAttr(asked) => self.set_attr(request, &asked, reply),
            Operation::ReadLink => bytes(self.fs.read_link(ino), reply),
            Operation::MkNod { name, mode, rdev, .. } => {
                self.entry(self.make(request, name, mode, rdev, b""), reply)
            }
            Operation::MkDir { name, mode, .. } => {
                let mode = libc::S_IFDIR | mode & 0o7777;
                self.entry(self.make(request, name, mode, 0, b""), reply)
            }
            Operation::Symlink { name, target } => {
                self.entry(self.make(request, name, libc::S_IFLNK | 0o777, 0, target), reply)
            }
            Operation::Create { name, mode, flags, .. } => self.create(request, name, mode, flags, reply),
            Operation::TmpFile { mode, flags, .. } => self.tmp_file(request, mode, flags, reply),
            Operation::Unlink { name } => empty(self.fs.unlink(ino, name), reply),
            Operation::RmDir { name } => empty(self.fs.rmdir(ino, name), reply),
            Operation::Rename { name, new_parent, new_name, flags } => {
                self.rename(request, name, (new_parent, new_name), flags, reply)
            }
            Operation::Link { node, new_name } => self.entry(self.fs.link(node, ino, new_name), reply),
            Operation::Read { offset, size, direct, .. } => {
                let read = |out: &mut [u8]| self.fs.serve_read(ino, offset, out, way(direct));
                reply.fill(size as usize, |out| read(out).map_err(|e| e.errno()))
            }
            Operation::Write { offset, data, kill_priv, direct, collected, durable, .. } => {
                if let Some(beat) = &self.beat {
                    beat.wrote(ino, request.header.pid);
                }
                // Past the page cache no FSYNC follows.
                let from = match (collected, self.settings.writeback) {
                    (true, true) => IoPath::WriteBack,
                    (true, false) => IoPath::Mapping,
                    _ => way(direct),
                };
                self.write(request, offset, data, kill_priv, (from, durable && direct), reply)
            }
            Operation::Fsync { .. } | Operation::FsyncDir { .. } => {
                // The kernel says itself what it has dropped.
                self.dropped.take(ino);
                self.syncer.sync(ino, reply)
            }
            Operation::SyncFs => match self.fs.sync() {
                Ok(()) => empty(Ok(()), reply),
                Err(e) => reply.error(sync_errno(&e)),
            },
            Operation::OpenDir { .. } => self.open_dir(reply),
            Operation::ReadDir { handle, offset, size } => {
                self.read_dir(ino, handle, offset, size, false, reply)
            }
            Operation::ReadDirPlus { handle, offset, size } => {
                self.read_dir(ino, handle, offset, size, true, reply)
            }
            Operation::ReleaseDir { handle } => {
                self.open_dirs.close(handle);
                reply.ok()
            }
            Operation::Release { .. } => reply.ok(),
            Operation::StatFs => self.stat_fs(reply),
            Operation::SetXattr { name, value, flags } => self.set_xattr(ino, name, value, flags, reply),
            Operation::GetXattr { name, size } => sized(self.fs.xattr(ino, name), size, reply),
            Operation::ListXattr { size } => self.list_xattr(ino, size, reply),
            Operation::RemoveXattr { name } => empty(self.fs.remove_xattr(ino, name), reply),
            Operation::Fallocate { offset, length, mode, .. } => {
                empty(self.fs.allocate(ino, mode as i32, offset, length), reply)
            }
            Operation::Lseek { offset, whence, .. } => self.seek(request, offset, whence, reply),
            // There is nothing to do at an open or a close: the kernel need not ask again.
            _ => reply.error(libc::ENOSYS),
        }
    }

    fn connected(&self, notifier: Notifier) {
        let coherence = Arc::new(Coherence::start(notifier));
        // A weak one: this server ends the thread when it goes, with the file system staying.
        let lost = Arc::downgrade(&coherence);
        self.fs.call_when_lost(move |ino| {
            if let Some(coherence) = lost.upgrade() {
                coherence.forget_file(ino);
            }
        });
        let _ = self.coherence.set(coherence);
    }

    fn forget(&self, node: u64, lookups: u64) {
        self.dropped.take(node);
        self.fs.forget(node, lookups);
    }

    fn may_wait(&self, operation: &Operation<'_>) -> bool {
        match operation {
            Operation::Lookup { .. }
            | Operation::GetAttr { .. }
            | Operation::StatX
            | Operation::SetAttr(_)
            | Operation::MkNod { .. }
            | Operation::MkDir { .. }
            | Operation::Unlink { .. }
            | Operation::RmDir { .. }
            | Operation::Create { .. } => false,
            Operation::Write { data, .. } => data.len() >= LONG,
            _ => true,
        }
    }
}
