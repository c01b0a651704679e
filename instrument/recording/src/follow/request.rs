//! System calls by what they ask for, whatever their names and the order of their arguments.

use crate::call::Call;
use crate::raw::RawCall;

/// A file by its name, seen from a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named<'a> {
    /// The directory's descriptor, or `AT_FDCWD`.
    pub(super) directory: i32,
    /// The name; `None` where the program passed none, or it could not be read.
    pub(super) path: Option<&'a [u8]>,
    /// Without a name the directory's descriptor itself is meant.
    pub(super) or_itself: bool,
}

/// Where a transfer happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At the position, which moves.
    Position,
    /// There.
    Offset(u64),
    /// The program passed a pointer to the offset.
    Pointer,
}

/// A read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    /// Whether it writes.
    pub(super) write: bool,
    /// The file.
    pub(super) fd: i32,
    /// How much, in bytes.
    pub(super) bytes: u64,
    /// Where.
    pub(super) place: Place,
    /// Flags of preadv2 and pwritev2.
    pub(super) flags: u32,
}

/// What a system call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// Opens; without `flags` where they are in memory that nobody read.
    Open { name: Named<'a>, flags: Option<u32> },
    /// Closes.
    Close { fd: i32 },
    /// Closes a range, or marks it to be closed by exec.
    CloseRange { first: u32, last: u32, mark: bool },
    /// Makes a second descriptor, whose number is the result; `over`: what had that number is closed.
    Duplicate { fd: i32, cloexec: bool, over: bool },
    /// Makes a descriptor, or two, of what is no file: a pipe, a socket. A number that is not known to be one would be looked up
    /// when it may be a file's already.
    Other { fds: [Option<i32>; 2] },
    /// Sets close-on-exec.
    SetCloexec { fd: i32, cloexec: bool },
    /// Sets flags of the open file.
    SetFlags { fd: i32, flags: u32 },
    /// Moves the position to the result.
    Seek { fd: i32 },
    /// Reads or writes.
    Transfer(Transfer),
    /// Reads here what it writes there.
    Copy { from: Transfer, to: Transfer },
    /// Does something to an open file.
    Handle { call: Call, fd: i32, offset: u64, bytes: u64, flags: u32 },
    /// Does something to one name.
    Name { call: Call, name: Named<'a>, bytes: u64, flags: u32 },
    /// Renames, or links: names a file anew.
    Names { call: Call, name: Named<'a>, to: Named<'a>, flags: u32 },
    /// Makes a link with this text.
    Symlink { name: Named<'a>, text: Option<&'a [u8]> },
    /// Writes out all that is dirty.
    Sync,
    /// Changes the working directory.
    ChangeDirectory { name: Named<'a> },
    /// Maps a file.
    Map { fd: i32 },
    /// Hands over requests that cannot be seen, as many as this.
    Unseen(u64),
}

const RENAME_OR_LINK: u32 = 0;

/// What a system call asks for; `None`: nothing that matters.
#[rustfmt::skip]
#[allow(non_upper_case_globals)]
pub(super) fn request(raw: &RawCall) -> Option<Request<'_>> {
    use libc::*;
    use Request as R;
    let [a, b, c, d, e, f] = raw.arguments;
    let (fd, int) = (a as i32, |argument: u64| argument as u32);
    let named = |directory: u64, which: usize| named(raw, directory as i32, which, 0);
    let here = |which: usize| named(AT_FDCWD as u64, which);
    let flagged = |which: usize, flags: u64| self::named(raw, fd, which, flags);
    let handle = |call, offset, bytes, flags: u64| Some(R::Handle { call, fd, offset, bytes, flags: int(flags) });
    let name = |call, name, flags: u64| Some(R::Name { call, name, bytes: 0, flags: int(flags) });
    let names = |call, name, to, flags: u32| Some(R::Names { call, name, to, flags });
    let open = |name, flags: u64| Some(R::Open { name, flags: Some(int(flags)) });
    let transfer = |write, bytes, place, flags: u64| Some(R::Transfer(Transfer { write, fd, bytes, place, flags: int(flags) }));
    let moved = raw.result.max(0) as u64;
    match c_long::from(i32::try_from(raw.number).ok()?) {
        SYS_openat => open(named(a, 0), c),
        SYS_openat2 => Some(R::Open { name: named(a, 0), flags: None }),
        SYS_close => Some(R::Close { fd }),
        SYS_close_range => Some(R::CloseRange { first: int(a), last: int(b), mark: c & u64::from(CLOSE_RANGE_CLOEXEC) != 0 }),
        SYS_read => transfer(false, c, Place::Position, 0),
        SYS_write => transfer(true, c, Place::Position, 0),
        SYS_pread64 => transfer(false, c, Place::Offset(d), 0),
        SYS_pwrite64 => transfer(true, c, Place::Offset(d), 0),
        SYS_readv => transfer(false, moved, Place::Position, 0),
        SYS_writev => transfer(true, moved, Place::Position, 0),
        SYS_preadv => transfer(false, moved, Place::Offset(d), 0),
        SYS_pwritev => transfer(true, moved, Place::Offset(d), 0),
        SYS_preadv2 => transfer(false, moved, at_or_position(d), f),
        SYS_pwritev2 => transfer(true, moved, at_or_position(d), f),
        SYS_sendfile => copy((b, c), (a, 0), d),
        SYS_splice | SYS_copy_file_range => copy((a, b), (c, d), e),
        SYS_lseek => Some(R::Seek { fd }),
        SYS_dup => Some(R::Duplicate { fd, cloexec: false, over: false }),
        SYS_dup3 => Some(R::Duplicate { fd, cloexec: int(c) & O_CLOEXEC as u32 != 0, over: true }),
        SYS_fcntl => control(fd, b, c),
        SYS_fsync => handle(Call::Fsync, 0, 0, 0),
        SYS_fdatasync => handle(Call::Fdatasync, 0, 0, 0),
        SYS_sync_file_range => handle(Call::SyncRange, b, c, d),
        SYS_sync | SYS_syncfs => Some(R::Sync),
        SYS_msync => (c & MS_SYNC as u64 != 0 && raw.result >= 0).then_some(R::Unseen(1)),
        SYS_truncate => Some(R::Name { call: Call::Truncate, name: here(0), bytes: b, flags: 0 }),
        SYS_ftruncate => handle(Call::Truncate, 0, b, 0),
        SYS_fallocate => handle(Call::Allocate, c, d, b),
        SYS_unlinkat if int(c) & AT_REMOVEDIR as u32 != 0 => name(Call::RemoveDirectory, named(a, 0), 0),
        SYS_unlinkat => name(Call::Unlink, named(a, 0), 0),
        SYS_renameat => names(Call::Rename, named(a, 0), named(c, 1), RENAME_OR_LINK),
        SYS_renameat2 => names(Call::Rename, named(a, 0), named(c, 1), int(e)),
        SYS_linkat => names(Call::Link, flagged(0, e), named(c, 1), int(e)),
        SYS_symlinkat => Some(R::Symlink { text: path(raw, 0), name: named(b, 1) }),
        SYS_mkdirat => name(Call::MakeDirectory, named(a, 0), 0),
        SYS_newfstatat => name(Call::Stat, flagged(0, d), d),
        SYS_statx => name(Call::Stat, flagged(0, c), c),
        SYS_fstat => handle(Call::Stat, 0, 0, 0),
        SYS_faccessat => name(Call::Stat, named(a, 0), 0),
        SYS_faccessat2 => name(Call::Stat, flagged(0, d), d),
        SYS_readlinkat => name(Call::Stat, flagged(0, AT_EMPTY_PATH as u64), AT_SYMLINK_NOFOLLOW as u64),
        SYS_getdents64 => handle(Call::ReadDirectory, 0, c, 0),
        SYS_fchmod | SYS_fchown | SYS_fsetxattr | SYS_fremovexattr => handle(Call::SetAttributes, 0, 0, 0),
        SYS_fchmodat => name(Call::SetAttributes, named(a, 0), 0),
        SYS_fchownat => name(Call::SetAttributes, flagged(0, e), e),
        SYS_utimensat if b == 0 => handle(Call::SetAttributes, 0, 0, 0),
        SYS_utimensat => name(Call::SetAttributes, flagged(0, d), d),
        SYS_setxattr | SYS_removexattr => name(Call::SetAttributes, here(0), 0),
        SYS_lsetxattr | SYS_lremovexattr => name(Call::SetAttributes, here(0), AT_SYMLINK_NOFOLLOW as u64),
        SYS_chdir => Some(R::ChangeDirectory { name: here(0) }),
        SYS_fchdir => Some(R::ChangeDirectory { name: Named { directory: fd, path: None, or_itself: true } }),
        SYS_mmap if int(d) & MAP_ANONYMOUS as u32 == 0 => Some(R::Map { fd: e as i32 }),
        SYS_io_submit | SYS_io_uring_enter => Some(R::Unseen(moved)),
        SYS_pipe2 | SYS_socketpair => others(raw, true),
        SYS_socket | SYS_accept | SYS_accept4 | SYS_eventfd2 | SYS_epoll_create1 | SYS_memfd_create | SYS_timerfd_create
        | SYS_inotify_init1 | SYS_signalfd4 | SYS_pidfd_open | SYS_userfaultfd | SYS_perf_event_open | SYS_io_uring_setup
        | SYS_fanotify_init => others(raw, false),
        #[cfg(target_arch = "x86_64")]
        _ => legacy(raw),
        #[cfg(not(target_arch = "x86_64"))]
        _ => None,
    }
}

/// Calls that only the oldest of Linux's machines have.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
#[allow(non_upper_case_globals)]
fn legacy(raw: &RawCall) -> Option<Request<'_>> {
    use libc::*;
    use Request as R;
    let [a, b, c, ..] = raw.arguments;
    let fd = a as i32;
    let here = |which: usize| named(raw, AT_FDCWD, which, 0);
    let name = |call, flags: i32| Some(R::Name { call, name: here(0), bytes: 0, flags: flags as u32 });
    match c_long::from(i32::try_from(raw.number).ok()?) {
        SYS_open => Some(R::Open { name: here(0), flags: Some(b as u32) }),
        SYS_creat => Some(R::Open { name: here(0), flags: Some((O_CREAT | O_WRONLY | O_TRUNC) as u32) }),
        SYS_dup2 => Some(R::Duplicate { fd, cloexec: false, over: true }),
        SYS_unlink => name(Call::Unlink, 0),
        SYS_rmdir => name(Call::RemoveDirectory, 0),
        SYS_rename => Some(R::Names { call: Call::Rename, name: here(0), to: here(1), flags: RENAME_OR_LINK }),
        SYS_link => Some(R::Names { call: Call::Link, name: here(0), to: here(1), flags: RENAME_OR_LINK }),
        SYS_symlink => Some(R::Symlink { text: path(raw, 0), name: here(1) }),
        SYS_mkdir => name(Call::MakeDirectory, 0),
        SYS_stat | SYS_access => name(Call::Stat, 0),
        SYS_lstat | SYS_readlink => name(Call::Stat, AT_SYMLINK_NOFOLLOW),
        SYS_pipe => others(raw, true),
        SYS_eventfd | SYS_epoll_create | SYS_inotify_init | SYS_signalfd => others(raw, false),
        SYS_getdents => Some(R::Handle { call: Call::ReadDirectory, fd, offset: 0, bytes: c, flags: 0 }),
        SYS_chmod | SYS_chown | SYS_utime | SYS_utimes => name(Call::SetAttributes, 0),
        SYS_lchown => name(Call::SetAttributes, AT_SYMLINK_NOFOLLOW),
        SYS_futimesat if b == 0 => Some(R::Handle { call: Call::SetAttributes, fd, offset: 0, bytes: 0, flags: 0 }),
        SYS_futimesat => Some(R::Name { call: Call::SetAttributes, name: named(raw, fd, 0, 0), bytes: 0, flags: 0 }),
        _ => None,
    }
}

/// What a call has made that is no file: two descriptors in memory, or one as its result.
fn others<'a>(raw: &RawCall, pair: bool) -> Option<Request<'a>> {
    let [.., both] = raw.arguments;
    let fds = if pair {
        [Some(both as i32), Some((both >> 32) as i32)]
    } else {
        [i32::try_from(raw.result).ok(), None]
    };
    (raw.result >= 0).then_some(Request::Other { fds })
}

fn path(raw: &RawCall, which: usize) -> Option<&[u8]> {
    raw.paths.get(which)?.as_deref()
}

fn named(raw: &RawCall, directory: i32, which: usize, flags: u64) -> Named<'_> {
    let path = path(raw, which).filter(|path| !path.is_empty());
    Named { directory, path, or_itself: flags & libc::AT_EMPTY_PATH as u64 != 0 }
}

/// preadv2 and pwritev2 use the position when the offset is -1.
fn at_or_position(offset: u64) -> Place {
    if offset == u64::MAX { Place::Position } else { Place::Offset(offset) }
}

/// Descriptors with the pointers to their offsets.
fn copy<'a>(from: (u64, u64), to: (u64, u64), bytes: u64) -> Option<Request<'a>> {
    let half = |write, (fd, pointer): (u64, u64)| {
        let place = if pointer == 0 { Place::Position } else { Place::Pointer };
        Transfer { write, fd: fd as i32, bytes, place, flags: 0 }
    };
    Some(Request::Copy { from: half(false, from), to: half(true, to) })
}

fn control<'a>(fd: i32, command: u64, argument: u64) -> Option<Request<'a>> {
    match command as i32 {
        libc::F_DUPFD => Some(Request::Duplicate { fd, cloexec: false, over: false }),
        libc::F_DUPFD_CLOEXEC => Some(Request::Duplicate { fd, cloexec: true, over: false }),
        libc::F_SETFD => Some(Request::SetCloexec { fd, cloexec: argument & libc::FD_CLOEXEC as u64 != 0 }),
        libc::F_SETFL => Some(Request::SetFlags { fd, flags: argument as u32 }),
        _ => None,
    }
}
