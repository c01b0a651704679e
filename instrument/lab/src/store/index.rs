//! The index of the WAL in shared memory (`loadline.db-shm`), allocated before SQLite maps it.
//!
//! SQLite makes it longer by a byte for each page of memory. On a file system of smaller blocks the rest of the page stays a
//! hole, and when the disk is full by then the first store to it ends the process by SIGBUS. So the write of such a byte
//! allocates the whole page first (SQLite lets a program replace its system calls: `xSetSystemCall` of sqlite.org/c3ref/vfs.html),
//! and SQLite says of a page that cannot be had what it says of every write that fails. That holds for an index of any length.

use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::sync::Once;

use rusqlite::ffi;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

/// Pages by which SQLite makes the index longer (`pgsz` of `unixShmMap` in os_unix.c), in bytes.
const PAGE_BYTES: u64 = 4096;

/// Has SQLite allocate whole pages of indexes, in all stores that this process opens from now on.
pub(super) fn allocate_whole_pages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        type Any = unsafe extern "C" fn();
        type Write = unsafe extern "C" fn(c_int, *const c_void, usize) -> isize;
        type WriteAt = unsafe extern "C" fn(c_int, *const c_void, usize, libc::off64_t) -> isize;
        // SAFETY: SQLite keeps any function pointer, and calls each by the type that the call of its name has there
        let (write, write_at) = unsafe {
            (std::mem::transmute::<Write, Any>(write), std::mem::transmute::<WriteAt, Any>(write_at))
        };
        // SAFETY: the name of no VFS is the default one, which is there for ever
        let Some(vfs) = (unsafe { ffi::sqlite3_vfs_find(std::ptr::null()).as_mut() }) else { return };
        let Some(replace) = vfs.xSetSystemCall else { return };
        // it writes by one of them, as it was built
        for (name, call) in [(c"write", write), (c"pwrite", write_at), (c"pwrite64", write_at)] {
            // SAFETY: no store is open yet that another thread could write to
            unsafe { replace(vfs, name.as_ptr(), Some(call)) };
        }
    });
}

/// Allocates the page of which the last byte is written.
///
/// # Errors
/// There is no room.
fn allocate(file: c_int, at: u64, bytes: usize) -> Result<(), Errno> {
    if bytes != 1 || at % PAGE_BYTES != PAGE_BYTES - 1 {
        return Ok(());
    }
    // SAFETY: SQLite has it open
    let file = unsafe { BorrowedFd::borrow_raw(file) };
    match fallocate(file, FallocateFlags::empty(), at + 1 - PAGE_BYTES, PAGE_BYTES) {
        // where the file system cannot, nothing can be done
        Err(Errno::OPNOTSUPP) => Ok(()),
        allocated => allocated,
    }
}

/// Where the next byte is written.
fn position(file: c_int) -> u64 {
    // SAFETY: SQLite has it open
    let file = unsafe { BorrowedFd::borrow_raw(file) };
    seek(file, SeekFrom::Current(0)).unwrap_or(0)
}

/// Ends a call with an error.
fn failed(error: Errno) -> isize {
    // SAFETY: errno is this thread's own
    unsafe { *libc::__errno_location() = error.raw_os_error() };
    -1
}

/// `write(2)`, which allocates the page of which it writes the last byte.
unsafe extern "C" fn write(file: c_int, data: *const c_void, bytes: usize) -> isize {
    // one byte alone can be the last one of a page
    let at = if bytes == 1 { position(file) } else { 0 };
    if let Err(error) = allocate(file, at, bytes) {
        return failed(error);
    }
    // SAFETY: what SQLite asks for
    unsafe { libc::write(file, data, bytes) }
}

/// The same for `pwrite(2)`.
unsafe extern "C" fn write_at(file: c_int, data: *const c_void, bytes: usize, at: libc::off64_t) -> isize {
    if let Err(error) = allocate(file, at.unsigned_abs(), bytes) {
        return failed(error);
    }
    // SAFETY: what SQLite asks for
    unsafe { libc::pwrite64(file, data, bytes, at) }
}

#[cfg(test)]
mod tests {
    use needs::needs;
    use rusqlite::Connection;
    use std::path::Path;

    /// A file system of 1 KiB blocks that is unmounted.
    struct Small<'a>(&'a Path);

    impl Drop for Small<'_> {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg(self.0).status();
        }
    }

    /// Rows that fill a page of the log each.
    fn insert(connection: &Connection, rows: usize) -> rusqlite::Result<()> {
        let mut add = connection.prepare_cached("INSERT INTO t VALUES (zeroblob(4000))")?;
        (0..rows).try_for_each(|_| add.execute([]).map(drop))
    }

    #[test]
    fn a_long_index_on_a_nearly_full_disk_is_an_error_and_no_signal() {
        needs!(Root, Mounts, Loop, Ext4);
        let folder = tempfile::tempdir().unwrap();
        let (image, place) = (folder.path().join("image"), folder.path().join("small"));
        std::fs::File::create(&image).and_then(|file| file.set_len(160 << 20)).unwrap();
        std::fs::create_dir(&place).unwrap();
        let run = |program: &str, words: &[&str], last: &[&Path]| {
            assert!(std::process::Command::new(program).args(words).args(last).status().unwrap().success());
        };
        run("mkfs.ext4", &["-q", "-b", "1024", "-m", "0"], &[&image]);
        run("mount", &["-o", "loop"], &[&image, &place]);
        let small = Small(&place);
        super::allocate_whole_pages();
        let (mut refused, mut taken) = (0, 0);
        for free_kib in [0, 9, 16, 24, 31, 64] {
            let database = place.join(format!("{free_kib}.db"));
            let connection = Connection::open(&database).unwrap();
            connection
                .execute_batch(
                    "PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x); PRAGMA synchronous = off;",
                )
                .unwrap();
            // the log has its room: only the index can meet the full disk
            let log =
                std::fs::File::options().write(true).open(place.join(format!("{free_kib}.db-wal"))).unwrap();
            let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&log, flags, 0, 40 << 20).unwrap();
            // 64 KiB of index are for some 8,150 pages of log
            connection.execute_batch("BEGIN").unwrap();
            insert(&connection, 4000).unwrap();
            connection.execute_batch("COMMIT; BEGIN").unwrap();
            insert(&connection, 4000).unwrap();
            connection.execute_batch("COMMIT").unwrap();
            let index = || std::fs::metadata(place.join(format!("{free_kib}.db-shm"))).unwrap().len();
            assert!(index() <= 64 << 10, "{}", index());
            let filler = std::fs::File::create(place.join("filler")).unwrap();
            let room = || {
                let room = rustix::fs::fstatvfs(&filler).unwrap();
                room.f_bavail * room.f_frsize
            };
            while room() > free_kib << 10 {
                let end = filler.metadata().unwrap().len();
                let more = (room() - (free_kib << 10)).min(8 << 20);
                // the last blocks may be needed to say where the others lie
                if rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), end, more).is_err() {
                    break;
                }
            }
            match insert(&connection, 400) {
                Ok(()) => taken += 1,
                Err(error) => {
                    let error = super::super::StoreError::Sqlite(error).to_string();
                    assert!(error.contains("is its disk full"), "{free_kib} KiB free: {error}");
                    refused += 1;
                }
            }
            drop(filler);
            std::fs::remove_file(place.join("filler")).unwrap();
            insert(&connection, 400).unwrap();
            assert!(index() > 64 << 10);
            let sound: String =
                connection.pragma_query_value(None, "integrity_check", |row| row.get(0)).unwrap();
            assert_eq!(sound, "ok", "{free_kib} KiB free");
            drop((connection, log));
            std::fs::remove_file(&database).unwrap();
        }
        assert!(refused > 0 && taken > 0, "{refused} refused, {taken} taken");
        drop(small);
    }
}
