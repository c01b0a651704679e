//! A file or block device driven through io_uring: batches of writes go down together.

use super::{FileStorage, Storage};
use io_uring::{IoUring, opcode, types};
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// Submission entries of one ring, and so the most transfers in flight for one caller.
const RING_ENTRIES: u32 = 32;

/// Largest single transfer, so that one large buffer becomes several commands in flight.
const TRANSFER_BYTES_MAX: usize = 512 * 1024;

/// How long transfers in flight are left alone while io_uring_enter fails.
const FAILED_ENTER_PAUSE: Duration = Duration::from_millis(1);

/// [`FileStorage`] with transfers through io_uring. Each concurrent caller borrows a ring of its own from a
/// pool, so callers never wait for each other's completions.
pub struct UringStorage {
    file: FileStorage,
    rings: Mutex<Vec<IoUring>>,
}

/// One piece of a transfer: user memory, length, file offset.
struct Piece {
    ptr: *mut u8,
    len: usize,
    off: u64,
    write: bool,
}

impl UringStorage {
    /// Drives `file` through io_uring; fails where the kernel has none or forbids it.
    pub fn new(file: FileStorage) -> io::Result<Self> {
        let ring = IoUring::new(RING_ENTRIES)?;
        Ok(UringStorage { file, rings: Mutex::new(vec![ring]) })
    }

    /// Opens an existing file or block device; see [`FileStorage::open`].
    pub fn open(path: &Path, direct: bool) -> io::Result<Self> {
        Self::new(FileStorage::open(path, direct)?)
    }

    fn run(&self, pieces: &mut [Piece]) -> io::Result<()> {
        let pooled = self.rings.lock().unwrap_or_else(|e| e.into_inner()).pop();
        let mut ring = match pooled {
            Some(ring) => ring,
            None => IoUring::new(RING_ENTRIES)?,
        };
        for window in pieces.chunks_mut(RING_ENTRIES as usize) {
            // A ring in an unknown state is dropped, not pooled.
            drive(&mut ring, types::Fd(self.file.raw_fd()), window)?;
        }
        self.rings.lock().unwrap_or_else(|e| e.into_inner()).push(ring);
        Ok(())
    }
}

/// Submits up to a ring's worth of pieces and waits for all of them, resubmitting short transfers. Whatever fails, it returns
/// only when the kernel has let go of all memory; after an error the ring must not be used again.
fn drive(ring: &mut IoUring, fd: types::Fd, pieces: &mut [Piece]) -> io::Result<()> {
    let mut first_error = None;
    let mut todo: Vec<usize> = (0..pieces.len()).collect();
    while !todo.is_empty() {
        for &i in &todo {
            let p = &pieces[i];
            let entry = if p.write {
                opcode::Write::new(fd, p.ptr, p.len as u32).offset(p.off).build()
            } else {
                opcode::Read::new(fd, p.ptr, p.len as u32).offset(p.off).build()
            };
            // SAFETY: the memory of each piece is borrowed by the caller for the whole call, and this function
            // does not return before every submitted entry has completed.
            unsafe { ring.submission().push(&entry.user_data(i as u64)) }
                .map_err(|_| io::Error::other("io_uring submission queue is full"))?;
        }
        let mut waiting = todo.len();
        todo.clear();
        while waiting > 0 {
            match ring.submit_and_wait(waiting) {
                Ok(_) => {}
                Err(e) if matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {
                    continue;
                }
                Err(e) => {
                    first_error.get_or_insert(e);
                    // What the kernel has not taken it never will: the ring goes.
                    if ring.submission().len() == waiting {
                        break;
                    }
                    // The rest ends by itself, whenever this thread comes out of the kernel.
                    std::thread::sleep(FAILED_ENTER_PAUSE);
                }
            }
            for done in ring.completion() {
                waiting -= 1;
                let i = done.user_data() as usize;
                match done.result() {
                    e if e < 0 && (-e == libc::EINTR || -e == libc::EAGAIN) => todo.push(i),
                    e if e < 0 => first_error = Some(io::Error::from_raw_os_error(-e)),
                    0 => first_error = Some(io::ErrorKind::UnexpectedEof.into()),
                    n => {
                        let p = &mut pieces[i];
                        // SAFETY: the kernel moved n <= len bytes, so the sum stays inside the piece.
                        p.ptr = unsafe { p.ptr.add(n as usize) };
                        p.len -= n as usize;
                        p.off += n as u64;
                        if p.len > 0 {
                            todo.push(i);
                        }
                    }
                }
            }
        }
        if let Some(e) = first_error {
            return Err(e);
        }
    }
    Ok(())
}

fn split(ptr: *mut u8, len: usize, off: u64, write: bool, pieces: &mut Vec<Piece>) {
    let mut at = 0;
    while at < len {
        let n = (len - at).min(TRANSFER_BYTES_MAX);
        // SAFETY: at < len, so the pointer stays inside the caller's buffer.
        pieces.push(Piece { ptr: unsafe { ptr.add(at) }, len: n, off: off + at as u64, write });
        at += n;
    }
}

impl Storage for UringStorage {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()> {
        self.read_many(&mut [(off, buf)])
    }

    fn read_many(&self, reads: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        let mut pieces = Vec::new();
        for (off, buf) in reads {
            self.file.check_bounds(*off, buf.len())?;
            if self.file.may_go_direct(buf) {
                split(buf.as_mut_ptr(), buf.len(), *off, false, &mut pieces);
            } else {
                self.file.read_at(buf, *off)?;
            }
        }
        self.run(&mut pieces)
    }

    fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()> {
        self.write_many(&[(off, buf)])
    }

    fn write_many(&self, writes: &[(u64, &[u8])]) -> io::Result<()> {
        let mut pieces = Vec::new();
        for (off, buf) in writes {
            self.file.check_bounds(*off, buf.len())?;
            if self.file.may_go_direct(buf) {
                split(buf.as_ptr().cast_mut(), buf.len(), *off, true, &mut pieces);
            } else {
                self.file.write_at(buf, *off)?;
            }
        }
        self.run(&mut pieces)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.flush()
    }

    fn flush_stacked(&self) -> io::Result<()> {
        self.file.flush_stacked()
    }

    fn discard(&self, off: u64, len: u64) -> io::Result<()> {
        self.file.discard(off, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{AlignedBuf, UNIT};

    /// A ring that is disabled takes no submissions: EBADFD.
    #[test]
    fn a_ring_that_cannot_be_entered_is_an_error() {
        needs::needs!(IoUring);
        let mut ring = IoUring::builder().setup_r_disabled().build(RING_ENTRIES).expect("a ring");
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = FileStorage::create(&dir.path().join("image"), 1 << 20, false).expect("create");
        let mut buffer = AlignedBuf::zeroed(UNIT);
        let mut pieces = Vec::new();
        split(buffer.as_mut_ptr(), UNIT, 0, false, &mut pieces);
        let error = drive(&mut ring, types::Fd(file.raw_fd()), &mut pieces).expect_err("entered");
        assert_eq!(error.raw_os_error(), Some(libc::EBADFD));
    }

    #[test]
    fn batches_and_large_transfers_arrive_whole() {
        needs::needs!(IoUring);
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = FileStorage::create(&dir.path().join("image"), 8 << 20, false).expect("create");
        let ring = UringStorage::new(file).expect("a ring");
        let mut big = AlignedBuf::zeroed(3 << 20);
        big.iter_mut().enumerate().for_each(|(i, b)| *b = (i / 7) as u8);
        let small: Vec<AlignedBuf> = (0..50u8).map(|i| AlignedBuf::from_slice(&[i + 1; 100])).collect();
        let mut writes: Vec<(u64, &[u8])> = vec![(4 << 20, &big[..])];
        writes.extend(small.iter().enumerate().map(|(i, b)| ((i * UNIT) as u64, &b[..])));
        ring.write_many(&writes).expect("write");
        ring.flush().expect("flush");
        let mut back = AlignedBuf::zeroed(3 << 20);
        ring.read_at(&mut back, 4 << 20).expect("read");
        assert!(back[..] == big[..]);
        for i in 0..50u8 {
            let mut one = AlignedBuf::zeroed(UNIT);
            ring.read_at(&mut one, i as u64 * UNIT as u64).expect("read");
            assert_eq!(one[..100], [i + 1; 100]);
        }
        let mut many: Vec<AlignedBuf> = (0..50).map(|_| AlignedBuf::zeroed(UNIT)).collect();
        let mut reads: Vec<(u64, &mut [u8])> =
            many.iter_mut().enumerate().map(|(i, b)| (((49 - i) * UNIT) as u64, &mut b[..])).collect();
        reads.push((4 << 20, &mut back[..]));
        ring.read_many(&mut reads).expect("read");
        assert!(many.iter().enumerate().all(|(i, b)| b[..100] == [50 - i as u8; 100]) && back[..] == big[..]);
        assert!(ring.read_at(&mut back, 6 << 20).is_err());
    }
}
