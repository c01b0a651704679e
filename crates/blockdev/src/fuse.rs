//! The FUSE file `disk`: every request of the loop device goes to the driver, none is cached.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};

use crate::driver::{Answer, Driver};
use crate::engine::{Outcome, Request as Ask};
use crate::image::BLOCK;
use crate::uring::Waiting;

/// Name of the file in the mount.
pub(crate) const FILE: &str = "disk";
/// Largest request in bytes: what FUSE carries in 256 pages.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;
const DISK: INodeNo = INodeNo(2);
const TTL: Duration = Duration::from_secs(3600);
const PUNCH_HOLE_KEEP_SIZE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// Who waits.
#[derive(Debug)]
pub(crate) enum Reply {
    Read(ReplyData),
    Write(ReplyWrite, u32),
    Other(ReplyEmpty),
    Ring(Waiting),
}

impl Answer for Reply {
    fn answer(self, outcome: Outcome) {
        match (self, outcome) {
            (Reply::Ring(waiting), outcome) => waiting.answer(outcome),
            (Reply::Read(reply), Outcome::Data(data)) => reply.data(&data),
            (Reply::Write(reply, bytes), Outcome::Done) => reply.written(bytes),
            (Reply::Other(reply), Outcome::Done) => reply.ok(),
            (Reply::Read(reply), outcome) => reply.error(errno(&outcome)),
            (Reply::Write(reply, _), outcome) => reply.error(errno(&outcome)),
            (Reply::Other(reply), outcome) => reply.error(errno(&outcome)),
        }
    }
}

fn errno(outcome: &Outcome) -> Errno {
    match outcome {
        Outcome::Failed(error) => Errno::from_i32(*error),
        _ => Errno::EIO,
    }
}

/// The file system of one file.
#[derive(Debug)]
pub(crate) struct DiskFs {
    driver: Arc<Driver<Reply>>,
    bytes: u64,
    /// Whether to ask for rings.
    rings: bool,
}

impl DiskFs {
    pub(crate) fn new(driver: Arc<Driver<Reply>>, bytes: u64, rings: bool) -> DiskFs {
        DiskFs { driver, bytes, rings }
    }

    fn attr(&self, ino: INodeNo) -> FileAttr {
        let dir = ino == INodeNo::ROOT;
        let then = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino,
            size: if dir { 0 } else { self.bytes },
            blocks: if dir { 0 } else { self.bytes / 512 },
            atime: then,
            mtime: then,
            ctime: then,
            crtime: then,
            kind: if dir { FileType::Directory } else { FileType::RegularFile },
            perm: if dir { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK as u32,
            flags: 0,
        }
    }
}

/// First block and number of blocks; None unless both ends lie on blocks.
pub(crate) fn blocks(offset: u64, bytes: u64) -> Option<(u64, u32)> {
    let block = BLOCK as u64;
    let whole = offset.is_multiple_of(block) && bytes.is_multiple_of(block);
    if whole { Some((offset / block, u32::try_from(bytes / block).ok()?)) } else { None }
}

impl Filesystem for DiskFs {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // each may be missing in an older kernel: slower, but as right
        for wanted in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_BIG_WRITES, InitFlags::FUSE_MAX_PAGES] {
            let _ = config.add_capabilities(wanted);
        }
        if self.rings && config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_err() {
            return Err(io::Error::other("the kernel offers no FUSE over io_uring"));
        }
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_readahead(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(1024);
        let _ = config.set_congestion_threshold(1024);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == FILE {
            reply.entry(&TTL, &self.attr(DISK), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attr(ino));
    }

    fn open(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if ino != DISK {
            return reply.error(Errno::EISDIR);
        }
        let flags = FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if offset >= self.bytes {
            return reply.data(&[]);
        }
        match blocks(offset, u64::from(size).min(self.bytes - offset)) {
            Some((lba, blocks)) => self.driver.submit(Ask::Read { lba, blocks }, Reply::Read(reply)),
            None => reply.error(Errno::EINVAL),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match blocks(offset, data.len() as u64) {
            Some((lba, _)) => {
                self.driver.submit(Ask::Write { lba, data }, Reply::Write(reply, data.len() as u32));
            }
            None => reply.error(Errno::EINVAL),
        }
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.driver.submit(Ask::Flush, Reply::Other(reply));
    }

    fn fallocate(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let Some((lba, blocks)) = blocks(offset, length) else { return reply.error(Errno::EINVAL) };
        if mode == PUNCH_HOLE_KEEP_SIZE {
            self.driver.submit(Ask::Discard { lba, blocks }, Reply::Other(reply));
        } else if mode & libc::FALLOC_FL_ZERO_RANGE != 0 {
            self.driver.submit(Ask::WriteZeroes { lba, blocks }, Reply::Other(reply));
        } else {
            reply.error(Errno::EOPNOTSUPP);
        }
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
}
