//! The kernel's requests, one function each. The kernel checks permissions, caches names and attributes for as
//! long as it likes (nobody but it changes anything) and sends every write at once.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, Notifier, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::duty::Duty;
use crate::error::{Error, Result};
use crate::fs::{Attr, DirStream, Fs, NewFile, RenameMode, SetAttr, SetTime, Whence};
use crate::key;
use crate::record::Time;
use crate::syncer::Syncer;

/// Largest request in bytes: what FUSE carries in 256 pages.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// A write of so many bytes may have to wait until others have been written.
const LONG: usize = 16 << 10;
const GENERATION: Generation = Generation(0);

/// Inode number of the probe: no file ever gets it.
const PROBE_INO: u64 = u64::MAX;
/// The kernel asks for nothing about the probe while it is opened.
const PROBE_TTL: Duration = Duration::from_secs(3600);

/// What the transport may be told.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How long the kernel may keep names and attributes.
    pub ttl: Duration,
    /// Let the kernel collect writes; small writes are then no longer blind.
    pub writeback: bool,
    /// Give attributes with every read of a directory.
    pub readdirplus: bool,
    /// What is written to a file just made stays in the kernel's page cache.
    pub keep_new: bool,
    /// The probe, see [`Probe`].
    pub probe: Arc<Probe>,
    /// Which threads take requests.
    pub duty: Arc<Duty>,
}

/// A file that is there only while the mount is made. The kernel learns at the first OPEN that there is nothing to
/// open; until then every file that is made has its RELEASE, so one is opened before anybody else can.
#[derive(Debug)]
pub(crate) struct Probe {
    name: String,
    there: AtomicBool,
}

impl Probe {
    pub fn new() -> Probe {
        let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let name = format!(".betrfs-{}-{nanoseconds:x}", std::process::id());
        Probe { name, there: AtomicBool::new(false) }
    }

    /// Opens the probe in the root directory `dir`, which is served by other threads.
    pub fn open_in(&self, dir: &Path, notifier: &Notifier) {
        self.there.store(true, Ordering::Release);
        // Without it every new file costs a request more.
        let _ = File::open(dir.join(&self.name));
        self.there.store(false, Ordering::Release);
        let _ = notifier.inval_entry(INodeNo(key::ROOT), OsStr::new(&self.name));
    }

    fn is(&self, parent: INodeNo, name: &OsStr) -> bool {
        self.there.load(Ordering::Acquire) && parent.0 == key::ROOT && name == OsStr::new(&self.name)
    }
}

/// The file system as the kernel's requests see it.
pub(crate) struct Server {
    fs: Arc<Fs>,
    settings: Settings,
    syncer: Syncer,
    dirs: Mutex<HashMap<u64, Arc<Mutex<DirStream>>>>,
    next_handle: AtomicU64,
}

impl Server {
    pub fn new(fs: Arc<Fs>, settings: Settings) -> Server {
        let syncer = Syncer::new(fs.clone());
        Server { fs, settings, syncer, dirs: Mutex::default(), next_handle: AtomicU64::new(1) }
    }

    fn dirs(&self) -> MutexGuard<'_, HashMap<u64, Arc<Mutex<DirStream>>>> {
        self.dirs.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn stream(&self, handle: FileHandle) -> Arc<Mutex<DirStream>> {
        self.dirs().get(&handle.0).cloned().unwrap_or_default()
    }

    fn entry(&self, made: Result<Attr>, reply: ReplyEntry) {
        match made {
            Ok(attr) => reply.entry(&self.settings.ttl, &file_attr(&attr), GENERATION),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn attr(&self, attr: Result<Attr>, reply: ReplyAttr) {
        match attr {
            Ok(attr) => reply.attr(&self.settings.ttl, &file_attr(&attr)),
            Err(e) => reply.error(errno(&e)),
        }
    }
}

impl Server {
    /// How the kernel treats the handle of a new file, opened with the `flags` of open(2). One that can only be written
    /// bypasses the page cache: otherwise the kernel asks at the first write whether the file has capabilities (with
    /// FOPEN_DIRECT_IO it leaves it to us to take them away), and copies what nobody may ever read.
    fn handle_flags(&self, flags: i32) -> FopenFlags {
        let mut how = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
        if flags & libc::O_ACCMODE == libc::O_WRONLY && !self.settings.keep_new && !self.settings.writeback {
            how |= FopenFlags::FOPEN_DIRECT_IO;
        }
        how
    }
}

fn errno(error: &Error) -> Errno {
    Errno::from_i32(error.errno())
}

fn empty(done: Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(errno(&e)),
    }
}

fn system_time(time: Time) -> SystemTime {
    let whole = Duration::from_secs(time.sec.unsigned_abs());
    let base = if time.sec < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    base.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(u64::from(time.nsec))
}

fn time(system: SystemTime) -> Time {
    match system.duration_since(UNIX_EPOCH) {
        Ok(since) => Time { sec: since.as_secs() as i64, nsec: since.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            let (sec, nsec) = (before.as_secs() as i64, before.subsec_nanos());
            if nsec == 0 {
                Time { sec: -sec, nsec }
            } else {
                Time { sec: -sec - 1, nsec: 1_000_000_000 - nsec }
            }
        }
    }
}

fn set_time(time_or_now: TimeOrNow) -> SetTime {
    match time_or_now {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(system) => SetTime::At(time(system)),
    }
}

fn file_type(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino),
        size: attr.size,
        blocks: attr.blocks,
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: system_time(attr.btime),
        kind: file_type(attr.mode),
        perm: (attr.mode & 0o7777) as u16,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: key::BLOCK as u32,
        flags: 0,
    }
}

/// Attributes that say "no such name" and may be cached.
fn absent() -> FileAttr {
    let attr = Attr {
        ino: 0,
        mode: libc::S_IFREG,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: Time::default(),
        mtime: Time::default(),
        ctime: Time::default(),
        btime: Time::default(),
    };
    file_attr(&attr)
}

/// Answers a request whose answer's size the caller may only ask for.
fn sized(bytes: Result<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match bytes {
        Ok(bytes) if size == 0 => reply.size(bytes.len() as u32),
        Ok(bytes) if bytes.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(bytes) => reply.data(&bytes),
        Err(e) => reply.error(errno(&e)),
    }
}

impl Filesystem for Server {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut wanted = vec![
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_BIG_WRITES,
            InitFlags::FUSE_MAX_PAGES,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_NO_OPEN_SUPPORT,
            InitFlags::FUSE_EXPLICIT_INVAL_DATA,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ];
        if self.settings.writeback {
            wanted.push(InitFlags::FUSE_WRITEBACK_CACHE);
        }
        if self.settings.readdirplus {
            wanted.push(InitFlags::FUSE_DO_READDIRPLUS);
        }
        // Each may be missing in an older kernel: slower, but as right.
        for flag in wanted {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        if let Err(most) = config.set_max_readahead(REQUEST_BYTES_MAX) {
            let _ = config.set_max_readahead(most);
        }
        let _ = config.set_max_background(128);
        let _ = config.set_congestion_threshold(96);
        Ok(())
    }

    fn destroy(&mut self) {
        // Whoever waits for the end of the session settles the file system and learns of errors.
        self.dirs().clear();
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _quick = self.settings.duty.quick();
        if self.settings.probe.is(parent, name) {
            let probe = FileAttr { ino: INodeNo(PROBE_INO), nlink: 1, perm: 0o400, ..absent() };
            return reply.entry(&PROBE_TTL, &probe, GENERATION);
        }
        match self.fs.lookup(parent.0, name.as_bytes()) {
            Err(Error::NotFound) => reply.entry(&self.settings.ttl, &absent(), GENERATION),
            found => self.entry(found, reply),
        }
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        // One of many, perhaps, so this is no moment to rest.
        self.fs.forget(ino.0, count);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let _quick = self.settings.duty.quick();
        self.attr(self.fs.attr(ino.0), reply);
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _quick = self.settings.duty.quick();
        let set = SetAttr {
            mode,
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
            // The kernel says it in a flag that does not get here; it is set when CAP_FSETID is missing.
            kill_priv: size.is_some() && request.uid() != 0,
        };
        self.attr(self.fs.set_attr(ino.0, &set), reply);
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        self.settings.duty.slow();
        match self.fs.read_link(ino.0) {
            Ok(target) => reply.data(&target),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let _quick = self.settings.duty.quick();
        let new = NewFile { mode, uid: request.uid(), gid: request.gid(), rdev, target: b"" };
        self.entry(self.fs.make(parent.0, name.as_bytes(), new), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let _quick = self.settings.duty.quick();
        let mode = libc::S_IFDIR | mode & 0o7777;
        let new = NewFile { mode, uid: request.uid(), gid: request.gid(), ..NewFile::default() };
        self.entry(self.fs.make(parent.0, name.as_bytes(), new), reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _quick = self.settings.duty.quick();
        empty(self.fs.unlink(parent.0, name.as_bytes()), reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _quick = self.settings.duty.quick();
        empty(self.fs.rmdir(parent.0, name.as_bytes()), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.settings.duty.slow();
        let target = target.as_os_str().as_bytes();
        let mode = libc::S_IFLNK | 0o777;
        let new = NewFile { mode, uid: request.uid(), gid: request.gid(), target, ..NewFile::default() };
        self.entry(self.fs.make(parent.0, name.as_bytes(), new), reply);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.settings.duty.slow();
        let mode = match flags {
            f if f.is_empty() => RenameMode::Replace,
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let (name, newname) = (name.as_bytes(), newname.as_bytes());
        empty(self.fs.rename(parent.0, name, newparent.0, newname, mode), reply);
    }

    fn link(&self, _request: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        self.settings.duty.slow();
        self.entry(self.fs.link(ino.0, newparent.0, newname.as_bytes()), reply);
    }

    fn open(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // There is nothing to do at an open: the kernel need not ask again.
        reply.error(Errno::ENOSYS);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let _quick = self.settings.duty.quick();
        let mode = libc::S_IFREG | mode & 0o7777;
        let new = NewFile { mode, uid: request.uid(), gid: request.gid(), ..NewFile::default() };
        match self.fs.make(parent.0, name.as_bytes(), new) {
            Ok(attr) => {
                let how = self.handle_flags(flags);
                reply.created(&self.settings.ttl, &file_attr(&attr), GENERATION, FileHandle(0), how);
            }
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.settings.duty.slow();
        match self.fs.read(ino.0, offset, size as usize) {
            Ok(data) => reply.data(&data),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _quick = (data.len() < LONG).then(|| self.settings.duty.quick());
        if data.len() >= LONG {
            self.settings.duty.slow();
        }
        let kill = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        match self.fs.write(ino.0, offset, data, kill) {
            Ok(written) => reply.written(written as u32),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.settings.duty.slow();
        self.syncer.sync(reply);
    }

    fn opendir(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        self.dirs().insert(handle, Arc::default());
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(&self, _request: &Request, ino: INodeNo, fh: FileHandle, off: u64, mut reply: ReplyDirectory) {
        self.settings.duty.slow();
        let stream = self.stream(fh);
        let mut stream = stream.lock().unwrap_or_else(|e| e.into_inner());
        let read = self.fs.read_dir(ino.0, &mut stream, off, false, &mut |item| {
            !reply.add(INodeNo(item.ino), item.next, file_type(item.kind), OsStr::from_bytes(item.name))
        });
        match read {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        off: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.settings.duty.slow();
        let stream = self.stream(fh);
        let mut stream = stream.lock().unwrap_or_else(|e| e.into_inner());
        let read = self.fs.read_dir(ino.0, &mut stream, off, true, &mut |item| {
            let attr = item.attr.as_ref().map_or_else(absent, file_attr);
            let name = OsStr::from_bytes(item.name);
            !reply.add(INodeNo(item.ino), item.next, name, &self.settings.ttl, &attr, GENERATION)
        });
        match read {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.dirs().remove(&fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, _request: &Request, _ino: INodeNo, _fh: FileHandle, _data: bool, reply: ReplyEmpty) {
        self.settings.duty.slow();
        self.syncer.sync(reply);
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let space = self.fs.space();
        let unit = key::BLOCK as u64;
        // Inodes take space like data; a small file about a quarter of a block.
        let (files, free_files) = (space.total / 1024, space.available / 1024);
        reply.statfs(
            space.total / unit,
            space.free / unit,
            space.available / unit,
            files,
            free_files,
            unit as u32,
            key::NAME_MAX as u32,
            unit as u32,
        );
    }

    fn setxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.settings.duty.slow();
        let (create, replace) = (flags & libc::XATTR_CREATE != 0, flags & libc::XATTR_REPLACE != 0);
        empty(self.fs.set_xattr(ino.0, name.as_bytes(), value, create, replace), reply);
    }

    fn getxattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.settings.duty.slow();
        sized(self.fs.xattr(ino.0, name.as_bytes()), size, reply);
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.settings.duty.slow();
        let names = self
            .fs
            .xattrs(ino.0)
            .map(|names| names.into_iter().flat_map(|name| name.into_iter().chain([0])).collect::<Vec<u8>>());
        sized(names, size, reply);
    }

    fn removexattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.settings.duty.slow();
        empty(self.fs.remove_xattr(ino.0, name.as_bytes()), reply);
    }

    fn fallocate(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.settings.duty.slow();
        empty(self.fs.allocate(ino.0, mode, offset, length), reply);
    }

    fn lseek(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.settings.duty.slow();
        let whence = match whence {
            libc::SEEK_DATA => Whence::Data,
            libc::SEEK_HOLE => Whence::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        match self.fs.seek(ino.0, offset.max(0) as u64, whence) {
            Ok(at) => reply.offset(at as i64),
            Err(e) => reply.error(errno(&e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_before_and_after_1970() {
        for at in [(0, 0), (1, 2), (-1, 999_999_999), (-5, 0), (1 << 33, 5)] {
            let at = Time { sec: at.0, nsec: at.1 };
            assert_eq!(time(system_time(at)), at);
        }
    }
}
