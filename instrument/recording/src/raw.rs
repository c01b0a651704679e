//! System calls as the kernel ran them, before anybody has looked up what their descriptors are: what a recorder hands over.

/// Which arguments of a system call are pointers to paths; at most two.
pub type PathArguments = &'static [u8];

/// The longest path that is taken from a program, with its final zero, bytes.
pub const PATH_BYTES_MAX: usize = 4096;

/// One event, in the order in which the kernel ended what it tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawEvent {
    /// A system call has returned.
    Call(RawCall),
    /// A thread made a thread or a process; the child has not run yet.
    Fork {
        /// The maker's process.
        parent_pid: u32,
        /// The new thread.
        tid: u32,
        /// Its process: `tid` when it is a new one, which has then copies of the maker's descriptors.
        pid: u32,
        /// When, in nanoseconds of CLOCK_MONOTONIC.
        at_ns: u64,
    },
    /// A process replaced its program: descriptors with close-on-exec are closed, its name changes.
    Exec {
        /// The process.
        pid: u32,
        /// Its new name (`comm`).
        name: String,
        /// When, in nanoseconds of CLOCK_MONOTONIC.
        at_ns: u64,
    },
    /// A thread has ended. A process ends with its last one.
    Exit {
        /// Its process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// When, in nanoseconds of CLOCK_MONOTONIC.
        at_ns: u64,
    },
    /// The kernel read pages of a file in for a mapping that was touched.
    Fault {
        /// The thread's process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// When, in nanoseconds of CLOCK_MONOTONIC.
        at_ns: u64,
        /// The file system's device, as in `stat.st_dev`.
        device: u64,
        /// The file's inode number.
        inode: u64,
        /// Where, in bytes.
        offset: u64,
    },
    /// So many events are missing here.
    Lost(u64),
}

/// A system call that has returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawCall {
    /// The process that made it.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The system call's number on this machine (`libc::SYS_*`).
    pub number: u32,
    /// Begin, in nanoseconds of CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Its arguments as they were passed; but the last one holds both descriptors that the call made, the first in its low half,
    /// where [`pair_argument`] names an argument.
    pub arguments: [u64; 6],
    /// What it returned: the negative `errno` after a failure.
    pub result: i64,
    /// The paths that it was given, without the final zero, in the order of [`recorded_calls`]; `None` where the program passed
    /// a null pointer, or memory that could not be read. Longer ones are cut after [`PATH_BYTES_MAX`].
    pub paths: [Option<Vec<u8>>; 2],
}

/// System calls that a recorder is to hand over, with the arguments of each that are paths. Others say nothing about files.
#[rustfmt::skip]
pub fn recorded_calls() -> Vec<(u32, PathArguments)> {
    use libc::*;
    let mut calls: Vec<(c_long, PathArguments)> = vec![
        (SYS_openat, &[1]), (SYS_openat2, &[1]), (SYS_close, &[]), (SYS_close_range, &[]),
        (SYS_read, &[]), (SYS_pread64, &[]), (SYS_readv, &[]), (SYS_preadv, &[]), (SYS_preadv2, &[]),
        (SYS_write, &[]), (SYS_pwrite64, &[]), (SYS_writev, &[]), (SYS_pwritev, &[]), (SYS_pwritev2, &[]),
        (SYS_sendfile, &[]), (SYS_splice, &[]), (SYS_copy_file_range, &[]),
        (SYS_lseek, &[]), (SYS_dup, &[]), (SYS_dup3, &[]), (SYS_fcntl, &[]),
        (SYS_fsync, &[]), (SYS_fdatasync, &[]), (SYS_sync_file_range, &[]), (SYS_sync, &[]), (SYS_syncfs, &[]), (SYS_msync, &[]),
        (SYS_truncate, &[0]), (SYS_ftruncate, &[]), (SYS_fallocate, &[]),
        (SYS_unlinkat, &[1]), (SYS_renameat, &[1, 3]), (SYS_renameat2, &[1, 3]), (SYS_linkat, &[1, 3]),
        (SYS_symlinkat, &[0, 2]), (SYS_mkdirat, &[1]),
        (SYS_newfstatat, &[1]), (SYS_fstat, &[]), (SYS_statx, &[1]), (SYS_faccessat, &[1]), (SYS_faccessat2, &[1]),
        (SYS_readlinkat, &[1]), (SYS_getdents64, &[]),
        (SYS_fchmod, &[]), (SYS_fchmodat, &[1]), (SYS_fchown, &[]), (SYS_fchownat, &[1]), (SYS_utimensat, &[1]),
        (SYS_setxattr, &[0]), (SYS_lsetxattr, &[0]), (SYS_fsetxattr, &[]),
        (SYS_removexattr, &[0]), (SYS_lremovexattr, &[0]), (SYS_fremovexattr, &[]),
        (SYS_chdir, &[0]), (SYS_fchdir, &[]), (SYS_mmap, &[]),
        (SYS_io_submit, &[]), (SYS_io_uring_enter, &[]),
        // what makes a descriptor of something else
        (SYS_pipe2, &[]), (SYS_socket, &[]), (SYS_socketpair, &[]), (SYS_accept, &[]), (SYS_accept4, &[]), (SYS_eventfd2, &[]),
        (SYS_epoll_create1, &[]), (SYS_memfd_create, &[]), (SYS_timerfd_create, &[]), (SYS_inotify_init1, &[]),
        (SYS_signalfd4, &[]), (SYS_pidfd_open, &[]), (SYS_userfaultfd, &[]), (SYS_perf_event_open, &[]),
        (SYS_io_uring_setup, &[]), (SYS_fanotify_init, &[]),
    ];
    #[cfg(target_arch = "x86_64")]
    calls.extend::<Vec<(c_long, PathArguments)>>(vec![
        (SYS_open, &[0]), (SYS_creat, &[0]), (SYS_dup2, &[]), (SYS_unlink, &[0]), (SYS_rmdir, &[0]),
        (SYS_rename, &[0, 1]), (SYS_link, &[0, 1]), (SYS_symlink, &[0, 1]), (SYS_mkdir, &[0]),
        (SYS_stat, &[0]), (SYS_lstat, &[0]), (SYS_access, &[0]), (SYS_readlink, &[0]), (SYS_getdents, &[]),
        (SYS_chmod, &[0]), (SYS_chown, &[0]), (SYS_lchown, &[0]), (SYS_utime, &[0]), (SYS_utimes, &[0]), (SYS_futimesat, &[1]),
        (SYS_pipe, &[]), (SYS_eventfd, &[]), (SYS_epoll_create, &[]), (SYS_inotify_init, &[]), (SYS_signalfd, &[]),
    ]);
    calls.into_iter().map(|(number, paths)| (number as u32, paths)).collect()
}

/// The argument of a system call that points to two numbers of 32 bits, into which it writes the descriptors that it has made.
pub fn pair_argument(number: u32) -> Option<u8> {
    match libc::c_long::from(i32::try_from(number).ok()?) {
        libc::SYS_pipe2 => Some(0),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_pipe => Some(0),
        libc::SYS_socketpair => Some(3),
        _ => None,
    }
}
