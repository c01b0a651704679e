//! FUSE requests as they come through a ring: the few that one file needs, byte by byte.
//!
//! Numbers and layouts are those of the kernel's include/uapi/linux/fuse.h (7.42).

use crate::engine::Request as Ask;
use crate::fuse::{FILE, blocks};
use crate::image::BLOCK;

/// Bytes of `struct fuse_uring_req_header`: request or answer, its arguments, the entry's own fields.
pub(crate) const HEADER_BYTES: usize = 288;
const ARGUMENTS: usize = 128;
const ENTRY: usize = 256;

const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const FALLOCATE: u32 = 43;

const ROOT: u64 = 1;
const DISK: u64 = 2;
/// Attributes never change.
const VALID_S: u64 = 3600;
/// FOPEN_DIRECT_IO, FOPEN_NOFLUSH, FOPEN_PARALLEL_DIRECT_WRITES.
const OPEN_FLAGS: u32 = 1 | 1 << 5 | 1 << 6;
const PUNCH_HOLE_KEEP_SIZE: u32 = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32;

/// A request's fixed fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    opcode: u32,
    pub(crate) unique: u64,
    node: u64,
    /// Names the request when its answer is given.
    pub(crate) commit: u64,
    /// Bytes beside the fixed arguments: data of a write, a name.
    pub(crate) payload: usize,
    arguments: [u64; 4],
}

/// What an answer carries once the device is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    Nothing,
    Data,
    Written(u32),
}

/// What is to be done about a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Todo<'a> {
    /// Ask the device.
    Ask(Ask<'a>, Carries),
    /// Answer these bytes at once.
    Answer(Vec<u8>),
    /// Fail with this number of errno(3).
    Fail(i32),
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(value)
}

impl Call {
    /// Reads what the kernel has put into an entry's header.
    pub(crate) fn parse(header: &[u8; HEADER_BYTES]) -> Call {
        let argument = |i: usize| long(header, ARGUMENTS + 8 * i);
        Call {
            opcode: word(header, 4),
            unique: long(header, 8),
            node: long(header, 16),
            commit: long(header, ENTRY + 8),
            payload: word(header, ENTRY + 16) as usize,
            arguments: [argument(0), argument(1), argument(2), argument(3)],
        }
    }

    /// What to do on a disk of `bytes`.
    pub(crate) fn todo<'a>(&self, payload: &'a [u8], bytes: u64) -> Todo<'a> {
        // read, write and fallocate: a handle, an offset, a size
        let [_, offset, size, mode] = self.arguments;
        let size32 = u64::from(size as u32);
        match self.opcode {
            LOOKUP if self.node == ROOT && payload.strip_suffix(&[0]) == Some(FILE.as_bytes()) => {
                let mut out = Vec::with_capacity(128);
                [DISK, 0, VALID_S, VALID_S, 0].iter().for_each(|v| out.extend(v.to_ne_bytes()));
                out.extend(attributes(DISK, bytes));
                Todo::Answer(out)
            }
            LOOKUP => Todo::Fail(libc::ENOENT),
            GETATTR => {
                let mut out = Vec::with_capacity(104);
                [VALID_S, 0].iter().for_each(|v| out.extend(v.to_ne_bytes()));
                out.extend(attributes(self.node, bytes));
                Todo::Answer(out)
            }
            OPEN if self.node != DISK => Todo::Fail(libc::EISDIR),
            OPEN => {
                let mut out = vec![0; 16];
                out[8..12].copy_from_slice(&OPEN_FLAGS.to_ne_bytes());
                Todo::Answer(out)
            }
            OPENDIR => Todo::Answer(vec![0; 16]),
            STATFS => Todo::Answer(vec![0; 80]),
            READDIR | RELEASE | RELEASEDIR | FLUSH => Todo::Answer(Vec::new()),
            READ if offset >= bytes => Todo::Answer(Vec::new()),
            READ => match blocks(offset, size32.min(bytes - offset)) {
                Some((lba, blocks)) => Todo::Ask(Ask::Read { lba, blocks }, Carries::Data),
                None => Todo::Fail(libc::EINVAL),
            },
            WRITE => match blocks(offset, payload.len() as u64) {
                Some((lba, _)) if payload.len() as u64 == size32 => {
                    Todo::Ask(Ask::Write { lba, data: payload }, Carries::Written(size32 as u32))
                }
                _ => Todo::Fail(libc::EINVAL),
            },
            FSYNC => Todo::Ask(Ask::Flush, Carries::Nothing),
            FALLOCATE => match (blocks(offset, size), mode as u32) {
                (None, _) => Todo::Fail(libc::EINVAL),
                (Some((lba, blocks)), PUNCH_HOLE_KEEP_SIZE) => {
                    Todo::Ask(Ask::Discard { lba, blocks }, Carries::Nothing)
                }
                (Some((lba, blocks)), mode) if mode & libc::FALLOC_FL_ZERO_RANGE as u32 != 0 => {
                    Todo::Ask(Ask::WriteZeroes { lba, blocks }, Carries::Nothing)
                }
                _ => Todo::Fail(libc::EOPNOTSUPP),
            },
            _ => Todo::Fail(libc::ENOSYS),
        }
    }

    /// Puts the answer's fixed fields into the header; `error` 0 is success.
    pub(crate) fn answer(&self, header: &mut [u8; HEADER_BYTES], error: i32, payload: usize) {
        header[0..4].copy_from_slice(&(16 + payload as u32).to_ne_bytes());
        header[4..8].copy_from_slice(&(-error).to_ne_bytes());
        header[8..16].copy_from_slice(&self.unique.to_ne_bytes());
        header[ENTRY + 16..ENTRY + 20].copy_from_slice(&(payload as u32).to_ne_bytes());
    }
}

/// `struct fuse_attr`.
fn attributes(node: u64, bytes: u64) -> Vec<u8> {
    let (mode, size) = if node == DISK { (libc::S_IFREG | 0o600, bytes) } else { (libc::S_IFDIR | 0o700, 0) };
    let mut out = Vec::with_capacity(88);
    // number, size, 512-byte sectors, three times
    [node, size, size / 512, 0, 0, 0].iter().for_each(|v| out.extend(v.to_ne_bytes()));
    // three times' nanoseconds, mode, links, owner, group, device, block size, flags
    [0, 0, 0, mode, 1, 0, 0, 0, BLOCK as u32, 0].iter().for_each(|v: &u32| out.extend(v.to_ne_bytes()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 1 << 20;

    fn call(opcode: u32, node: u64, arguments: [u64; 4]) -> Call {
        let mut header = [0; HEADER_BYTES];
        header[4..8].copy_from_slice(&opcode.to_ne_bytes());
        header[8..16].copy_from_slice(&77u64.to_ne_bytes());
        header[16..24].copy_from_slice(&node.to_ne_bytes());
        header[ARGUMENTS..ARGUMENTS + 32].copy_from_slice(&arguments.map(u64::to_ne_bytes).concat());
        header[ENTRY + 8..ENTRY + 16].copy_from_slice(&99u64.to_ne_bytes());
        let call = Call::parse(&header);
        assert_eq!((call.unique, call.commit, call.arguments), (77, 99, arguments));
        call
    }

    #[test]
    fn requests_of_the_device_are_understood() {
        let data = vec![7; 8192];
        let write = call(WRITE, DISK, [0, 4096, 8192, 0]);
        let asked = Ask::Write { lba: 1, data: &data };
        assert_eq!(write.todo(&data, BYTES), Todo::Ask(asked, Carries::Written(8192)));
        assert_eq!(write.todo(&data[..4096], BYTES), Todo::Fail(libc::EINVAL), "less data than told");
        // the upper half of the size is another field
        let read = call(READ, DISK, [0, BYTES - 4096, 8192 | 5 << 32, 0]).todo(&[], BYTES);
        assert_eq!(read, Todo::Ask(Ask::Read { lba: 255, blocks: 1 }, Carries::Data), "cut at the end");
        assert_eq!(call(READ, DISK, [0, BYTES, 4096, 0]).todo(&[], BYTES), Todo::Answer(vec![]));
        assert_eq!(call(READ, DISK, [0, 512, 4096, 0]).todo(&[], BYTES), Todo::Fail(libc::EINVAL));
        assert_eq!(call(FSYNC, DISK, [0; 4]).todo(&[], BYTES), Todo::Ask(Ask::Flush, Carries::Nothing));
        let allocate = |mode: i32| call(FALLOCATE, DISK, [0, 8192, 4096, mode as u64]).todo(&[], BYTES);
        assert_eq!(allocate(3), Todo::Ask(Ask::Discard { lba: 2, blocks: 1 }, Carries::Nothing));
        assert_eq!(allocate(0x11), Todo::Ask(Ask::WriteZeroes { lba: 2, blocks: 1 }, Carries::Nothing));
        assert_eq!(allocate(0), Todo::Fail(libc::EOPNOTSUPP));
        assert_eq!(call(999, DISK, [0; 4]).todo(&[], BYTES), Todo::Fail(libc::ENOSYS));
    }

    #[test]
    fn the_file_is_found_and_described() {
        let Todo::Answer(entry) = call(LOOKUP, ROOT, [0; 4]).todo(b"disk\0", BYTES) else {
            panic!("no entry")
        };
        assert_eq!((entry.len(), long(&entry, 0), long(&entry, 48)), (128, DISK, BYTES));
        assert_eq!(call(LOOKUP, ROOT, [0; 4]).todo(b"disc\0", BYTES), Todo::Fail(libc::ENOENT));
        for (node, kind, size) in [(ROOT, libc::S_IFDIR, 0), (DISK, libc::S_IFREG, BYTES)] {
            let Todo::Answer(out) = call(GETATTR, node, [0; 4]).todo(&[], BYTES) else {
                panic!("no attributes")
            };
            assert_eq!((out.len(), long(&out, 24)), (104, size));
            assert_eq!(word(&out, 16 + 60) & libc::S_IFMT, kind);
        }
        let Todo::Answer(open) = call(OPEN, DISK, [0; 4]).todo(&[], BYTES) else { panic!("not open") };
        assert_eq!((open.len(), word(&open, 8)), (16, 0x61));
        assert_eq!(call(OPEN, ROOT, [0; 4]).todo(&[], BYTES), Todo::Fail(libc::EISDIR));
    }

    #[test]
    fn an_answer_names_its_request() {
        let (mut header, call) = ([0; HEADER_BYTES], call(READ, DISK, [0; 4]));
        call.answer(&mut header, libc::EIO, 0);
        assert_eq!((word(&header, 0), word(&header, 4) as i32, long(&header, 8)), (16, -libc::EIO, 77));
        call.answer(&mut header, 0, 4096);
        assert_eq!((word(&header, 0), word(&header, 4), word(&header, ENTRY + 16)), (4112, 0, 4096));
    }
}
