//! The kernel's requests, one function each. The kernel checks permissions, caches names and attributes for as
//! long as it likes (nobody but it changes anything) and sends every write at once.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fusewire::local::{self, Probe};
use fusewire::wire::{self, Entry, InitWish, Opened, Operation, Request, StatFs, init_flag, open_flag};
use fusewire::{Answered, Beat, FileSystem, Notifier, Reply};

use crate::coherence::Coherence;
use crate::error::{Error, Result};
use crate::fs::{Attr, Fs, NewFile, RenameMode, SetAttr, SetTime, Through, Whence, With};
use crate::key;
use crate::listings::{Keeping, Listings};
use crate::record::Time;
use crate::syncer::Syncer;

/// A write of so many bytes may have to wait until others have been written.
const LONG: usize = 16 << 10;

/// What the transport may be told.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How long the kernel may keep names and attributes.
    pub ttl: Duration,
    /// Let the kernel collect writes; small writes are then no longer blind.
    pub writeback: bool,
    /// Keep the beat for threads that take turns, see [`Beat`].
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
    pub fn wish(&self) -> InitWish {
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
    beat: Option<Beat>,
    /// Nothing before there is a connection.
    coherence: OnceLock<Coherence>,
    listings: Listings,
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

fn wire_attr(attr: &Attr) -> wire::Attr {
    wire::Attr {
        ino: attr.ino,
        size: attr.size,
        blocks: attr.blocks,
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

fn way(direct: bool) -> Through {
    if direct { Through::Direct } else { Through::Cache }
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
        let beat =
            settings.beat.then(|| Beat::new(std::thread::available_parallelism().map_or(1, |n| n.get())));
        Server { fs, settings, syncer, beat, coherence: OnceLock::new(), listings: Listings::default() }
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
        ino: u64,
        offset: u64,
        data: &[u8],
        kill_priv: bool,
        (from, durable): (Through, bool),
        reply: Reply<'_>,
    ) -> Answered {
        let written = match self.fs.serve_write(ino, offset, data, kill_priv, from) {
            Ok(written) => written,
            Err(e) => return reply.error(e.errno()),
        };
        let coherence = self.coherence.get();
        if let Some(coherence) = coherence
            && written.stripped
        {
            coherence.forget_mode(ino);
        }
        let stale = coherence.filter(|_| written.stale);
        match (durable, stale) {
            (false, None) => reply.written(written.bytes as u32),
            (true, None) => self.syncer.sync_written(written.bytes as u32, reply),
            (_, Some(coherence)) => match if durable { self.fs.sync() } else { Ok(()) } {
                Ok(()) => coherence.written(ino, offset, written.bytes, reply),
                Err(e) => reply.error(e.errno()),
            },
        }
    }

    fn open_dir(&self, ino: u64, reply: Reply<'_>) -> Answered {
        let version = match self.fs.names_version(ino) {
            Ok(version) => version,
            Err(e) => return reply.error(e.errno()),
        };
        let (handle, keeping) = self.listings.open(ino, version);
        let flags = match keeping {
            Keeping::Kept => open_flag::CACHE_DIR | open_flag::KEEP_CACHE,
            Keeping::Anew => open_flag::CACHE_DIR,
            Keeping::Nothing => 0,
        };
        reply.opened(Opened { handle, flags })
    }

    fn read_dir(&self, ino: u64, handle: u64, at: u64, size: u32, plus: bool, reply: Reply<'_>) -> Answered {
        let version = match self.fs.names_version(ino) {
            Ok(version) => version,
            Err(e) => return reply.error(e.errno()),
        };
        let names = self.listings.at(handle, ino, version, at);
        let mut names = names.lock().unwrap_or_else(|e| e.into_inner());
        reply.directory(size, |directory| {
            // What the kernel knows already costs it more than what it has to ask for now and then.
            let with = if plus { With::News } else { With::Nothing };
            let read = self.fs.read_on(ino, &mut names, at, with, &mut |item| {
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

    fn seek(&self, ino: u64, offset: u64, whence: u32, reply: Reply<'_>) -> Answered {
        let whence = match whence as i32 {
            libc::SEEK_DATA => Whence::Data,
            libc::SEEK_HOLE => Whence::Hole,
            _ => return reply.error(libc::EINVAL),
        };
        match self.fs.seek(ino, offset, whence) {
            Ok(at) => reply.offset(at),
            Err(e) => reply.error(e.errno()),
        }
    }
}

impl FileSystem for Server {
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) -> Answered {
        let ino = request.header.node;
        match request.operation {
            Operation::Lookup { name } => self.lookup(ino, name, reply),
            Operation::GetAttr => self.attr(self.fs.attr(ino), reply),
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
            Operation::Write { offset, data, kill_priv, direct, durable, .. } => {
                if let Some(beat) = &self.beat {
                    beat.wrote(ino, request.header.pid);
                }
                // Past the page cache no FSYNC follows.
                self.write(ino, offset, data, kill_priv, (way(direct), durable && direct), reply)
            }
            Operation::Fsync { .. } | Operation::FsyncDir { .. } | Operation::SyncFs => {
                self.syncer.sync(reply)
            }
            Operation::OpenDir { .. } => self.open_dir(ino, reply),
            Operation::ReadDir { handle, offset, size } => {
                self.read_dir(ino, handle, offset, size, false, reply)
            }
            Operation::ReadDirPlus { handle, offset, size } => {
                self.read_dir(ino, handle, offset, size, true, reply)
            }
            Operation::ReleaseDir { handle } => {
                self.listings.close(handle);
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
            Operation::Lseek { offset, whence, .. } => self.seek(ino, offset, whence, reply),
            // There is nothing to do at an open or a close: the kernel need not ask again.
            _ => reply.error(libc::ENOSYS),
        }
    }

    fn connected(&self, notifier: Notifier) {
        let _ = self.coherence.set(Coherence::start(notifier));
    }

    fn forget(&self, node: u64, lookups: u64) {
        self.fs.forget(node, lookups);
    }

    fn may_wait(&self, operation: &Operation<'_>) -> bool {
        match operation {
            Operation::Lookup { .. }
            | Operation::GetAttr
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
