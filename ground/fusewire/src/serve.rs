//! What a file system is to its transport, and how it answers.

use std::sync::Arc;
use std::time::Duration;

use crate::device::Device;
use crate::mailbox::Mailbox;
use crate::notify::Notifier;
use crate::wire::{
    Attr, Directory, Entry, Opened, Operation, Request, StatFs, attr_bytes, created_bytes, entry_bytes,
    opened_bytes, statx_bytes, written_bytes,
};

/// Answers the kernel's requests, many at once.
pub trait FileSystem: Send + Sync + 'static {
    /// Answers a request, now or (see [`Reply::later`]) later.
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) -> Answered;

    /// The handshake is done and requests will come: `notifier` tells the kernel something unasked. Not from a thread
    /// that serves, unless the message waits for nothing.
    fn connected(&self, notifier: Notifier) {
        let _ = notifier;
    }

    /// The kernel has forgotten `lookups` of its lookups of `node`.
    fn forget(&self, node: u64, lookups: u64);

    /// Whether this may have to wait for something slow, so that another thread should take the next request meanwhile.
    fn may_wait(&self, operation: &Operation<'_>) -> bool {
        let _ = operation;
        true
    }
}

/// Proof that a request was answered, or will be.
#[derive(Debug)]
#[must_use]
pub struct Answered(pub(crate) Answer);

/// An answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A number of errno(3).
    Error(i32),
    /// So many bytes at the beginning of the reply's memory.
    InPlace(usize),
    /// These bytes.
    Owned(Vec<u8>),
    /// Somebody holds a [`DeferredReply`].
    Later,
    /// The same, and it waits for requests that are yet to be taken.
    Parked,
}

/// Where a later answer goes.
pub(crate) enum Origin<'a> {
    Device(&'a Arc<Device>),
    /// The thread's mailbox, the entry, whether another request waits for the thread.
    Ring(&'a Arc<Mailbox>, u16, &'a dyn Fn() -> bool),
}

/// A request's answer. The methods that take it give it; an answer longer than the kernel wants, or than
/// [`Reply::room`], becomes EIO.
pub struct Reply<'a> {
    pub(crate) memory: &'a mut [u8],
    pub(crate) origin: Origin<'a>,
    pub(crate) unique: u64,
}

impl<'a> Reply<'a> {
    /// Most bytes of an answer.
    pub fn room(&self) -> usize {
        self.memory.len()
    }

    fn small(self, bytes: &[u8]) -> Answered {
        match self.memory.get_mut(..bytes.len()) {
            Some(to) => to.copy_from_slice(bytes),
            None => return Answered(Answer::Error(libc::EIO)),
        }
        Answered(Answer::InPlace(bytes.len()))
    }

    /// Done, and there is nothing to tell.
    pub fn ok(self) -> Answered {
        Answered(Answer::InPlace(0))
    }

    /// Fails with a (positive) number of errno(3).
    pub fn error(self, errno: i32) -> Answered {
        Answered(Answer::Error(errno))
    }

    /// What a name leads to: LOOKUP, MKNOD, MKDIR, SYMLINK, LINK.
    pub fn entry(self, entry: &Entry) -> Answered {
        self.small(&entry_bytes(entry))
    }

    /// Attributes, which may be cached for `ttl`: GETATTR, SETATTR.
    pub fn attr(self, attr: &Attr, ttl: Duration) -> Answered {
        self.small(&attr_bytes(attr, ttl))
    }

    /// Attributes with the creation time, which may be cached for `ttl`: STATX.
    pub fn statx(self, attr: &Attr, btime: (i64, u32), ttl: Duration) -> Answered {
        self.small(&statx_bytes(attr, btime, ttl))
    }

    /// OPEN, OPENDIR.
    pub fn opened(self, opened: Opened) -> Answered {
        self.small(&opened_bytes(opened))
    }

    /// CREATE, TMPFILE.
    pub fn created(self, entry: &Entry, opened: Opened) -> Answered {
        self.small(&created_bytes(entry, opened))
    }

    /// WRITE: so many bytes.
    pub fn written(self, bytes: u32) -> Answered {
        self.number(bytes)
    }

    /// STATFS.
    pub fn stat_fs(self, stat: &StatFs) -> Answered {
        self.small(&stat.bytes())
    }

    /// LSEEK.
    pub fn offset(self, offset: u64) -> Answered {
        self.small(&offset.to_ne_bytes())
    }

    /// GETXATTR, LISTXATTR with size 0: the size of the whole.
    pub fn size(self, bytes: u32) -> Answered {
        self.number(bytes)
    }

    fn number(self, value: u32) -> Answered {
        self.small(&written_bytes(value))
    }

    /// Bytes: READ, READLINK, GETXATTR, LISTXATTR.
    pub fn data(self, bytes: Vec<u8>) -> Answered {
        Answered(if bytes.len() > self.memory.len() {
            Answer::Error(libc::EIO)
        } else {
            Answer::Owned(bytes)
        })
    }

    /// Up to `size` bytes that `fill` writes, returning how many: READ, without a copy. What is there before is of other
    /// answers. Fails with what `fill` returns.
    pub fn fill(self, size: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize, i32>) -> Answered {
        let room = size.min(self.memory.len());
        Answered(match fill(&mut self.memory[..room]) {
            Ok(bytes) if bytes <= room => Answer::InPlace(bytes),
            Ok(_) => Answer::Error(libc::EIO),
            Err(errno) => Answer::Error(errno),
        })
    }

    /// Entries of a directory, at most `size` bytes of them, which `fill` adds. Fails with what `fill` returns.
    pub fn directory(self, size: u32, fill: impl FnOnce(&mut Directory<'_>) -> Result<(), i32>) -> Answered {
        let mut directory = Directory::new(self.memory, size);
        match fill(&mut directory) {
            Ok(()) => Answered(Answer::InPlace(directory.filled())),
            Err(errno) => Answered(Answer::Error(errno)),
        }
    }

    /// Tells, even when the reply has been given away, whether another request waits for this very thread; None if
    /// other threads take it anyway.
    pub fn wanted(&self) -> Option<&'a dyn Fn() -> bool> {
        match self.origin {
            Origin::Device(_) => None,
            Origin::Ring(_, _, wanted) => Some(wanted),
        }
    }

    /// Another thread answers, or this one before [`FileSystem::serve`] returns.
    pub fn later(self) -> (Answered, DeferredReply) {
        (Answered(Answer::Later), self.held())
    }

    /// As [`Reply::later`], for an answer that waits until the kernel has had answers to other requests. A request that is
    /// not answered keeps a ring's entry, which those might lack. So half of a CPU's threads may do so; of more the reply
    /// comes back, and must be given now.
    ///
    /// # Errors
    /// The reply.
    pub fn park(self) -> Result<(Answered, DeferredReply), Reply<'a>> {
        match self.origin {
            Origin::Ring(mailbox, ..) if !mailbox.parking.enter() => Err(self),
            _ => Ok((Answered(Answer::Parked), self.held())),
        }
    }

    fn held(self) -> DeferredReply {
        DeferredReply(Some(match self.origin {
            Origin::Device(device) => ReplyRoute::Device(device.clone(), self.unique),
            Origin::Ring(mailbox, entry, _) => ReplyRoute::Ring(mailbox.clone(), entry),
        }))
    }
}

enum ReplyRoute {
    Device(Arc<Device>, u64),
    Ring(Arc<Mailbox>, u16),
}

/// A request that is answered by any thread at any time; EIO if it is dropped.
pub struct DeferredReply(Option<ReplyRoute>);

impl DeferredReply {
    /// Answers.
    pub fn answer(mut self, result: Result<Vec<u8>, i32>) {
        self.give(result);
    }

    fn give(&mut self, result: Result<Vec<u8>, i32>) {
        match self.0.take() {
            Some(ReplyRoute::Device(device, unique)) => match result {
                Ok(bytes) => device.answer(unique, 0, &bytes),
                Err(errno) => device.answer(unique, errno, &[]),
            },
            Some(ReplyRoute::Ring(mailbox, entry)) => mailbox.answers.post(entry, result),
            None => {}
        }
    }
}

impl Drop for DeferredReply {
    fn drop(&mut self) {
        self.give(Err(libc::EIO));
    }
}

impl std::fmt::Debug for DeferredReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeferredReply")
    }
}
