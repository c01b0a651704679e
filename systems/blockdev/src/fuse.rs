//! The FUSE file `disk`: every request of the loop device goes to the driver, none is cached.

use std::sync::Arc;
use std::time::Duration;

use fusewire::wire::{
    Attr, Entry, InitConfig, Opened, Operation, ROOT, Request, StatFs, init_flag, open_flag,
};
use fusewire::{Answered, DeferredReply, FileSystem};

use crate::driver::{Driver, Waiter};
use crate::engine::{Outcome, Request as Ask};
use crate::image::BLOCK;

/// Name of the file in the mount.
pub(crate) const FILE: &str = "disk";
/// Largest request in bytes: what FUSE carries in 256 pages.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;
const DISK: u64 = 2;
/// Attributes never change.
const TTL: Duration = Duration::from_secs(3600);
const PUNCH_HOLE_KEEP_SIZE: u32 = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32;

/// What the kernel is asked for. Each flag may be missing in an older one: slower, but as right.
pub(crate) const WISH: InitConfig = InitConfig {
    flags: init_flag::ASYNC_READ | init_flag::ASYNC_DIO | init_flag::BIG_WRITES,
    request_bytes_max: REQUEST_BYTES_MAX,
    max_background: 1024,
    congestion_threshold: 1024,
};

/// What an answer carries once the device is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyData {
    Nothing,
    Data,
    Written(u32),
}

/// Who waits.
#[derive(Debug)]
pub(crate) struct Reply {
    later: DeferredReply,
    carries: ReplyData,
}

impl Waiter for Reply {
    fn answer(self, outcome: Outcome) {
        self.later.answer(match (outcome, self.carries) {
            (Outcome::Failed(error), _) => Err(error),
            (Outcome::Data(data), ReplyData::Data) => Ok(data),
            // Padding follows the number.
            (Outcome::Done, ReplyData::Written(bytes)) => Ok([bytes, 0].map(u32::to_ne_bytes).concat()),
            (Outcome::Done, ReplyData::Nothing) => Ok(Vec::new()),
            _ => Err(libc::EIO),
        });
    }
}

/// What is to be done about a request.
#[derive(Debug, PartialEq, Eq)]
enum FuseAction<'a> {
    /// Ask the device.
    Ask(Ask<'a>, ReplyData),
    /// There is nothing to read or to do.
    Nothing,
    /// Fail with this number of errno(3).
    Fail(i32),
}

/// The file system of one file.
#[derive(Debug)]
pub(crate) struct DiskFs<R> {
    driver: Arc<Driver<R>>,
    bytes: u64,
}

fn attr(node: u64, bytes: u64) -> Attr {
    let (mode, size) = if node == DISK { (libc::S_IFREG | 0o600, bytes) } else { (libc::S_IFDIR | 0o700, 0) };
    Attr { ino: node, size, blocks: size / 512, mode, nlink: 1, block_bytes: BLOCK as u32, ..Attr::default() }
}

/// First block and number of blocks; None unless both ends lie on blocks.
fn blocks(offset: u64, bytes: u64) -> Option<(u64, u32)> {
    let block = BLOCK as u64;
    let whole = offset.is_multiple_of(block) && bytes.is_multiple_of(block);
    if whole { Some((offset / block, u32::try_from(bytes / block).ok()?)) } else { None }
}

/// What to do about an operation on a disk of `bytes`.
fn todo<'a>(operation: &Operation<'a>, bytes: u64) -> FuseAction<'a> {
    match *operation {
        Operation::Read { offset, .. } if offset >= bytes => FuseAction::Nothing,
        Operation::Read { offset, size, .. } => match blocks(offset, u64::from(size).min(bytes - offset)) {
            Some((lba, blocks)) => FuseAction::Ask(Ask::Read { lba, blocks }, ReplyData::Data),
            None => FuseAction::Fail(libc::EINVAL),
        },
        Operation::Write { offset, data, .. } => match blocks(offset, data.len() as u64) {
            Some((lba, _)) => {
                // loop devices carry no FUA
                FuseAction::Ask(Ask::Write { lba, data, fua: false }, ReplyData::Written(data.len() as u32))
            }
            None => FuseAction::Fail(libc::EINVAL),
        },
        Operation::Fsync { .. } => FuseAction::Ask(Ask::Flush, ReplyData::Nothing),
        Operation::Fallocate { offset, length, mode, .. } => match blocks(offset, length) {
            None => FuseAction::Fail(libc::EINVAL),
            Some((lba, blocks)) if mode == PUNCH_HOLE_KEEP_SIZE => {
                FuseAction::Ask(Ask::Discard { lba, blocks }, ReplyData::Nothing)
            }
            Some((lba, blocks)) if mode & libc::FALLOC_FL_ZERO_RANGE as u32 != 0 => {
                FuseAction::Ask(Ask::WriteZeroes { lba, blocks }, ReplyData::Nothing)
            }
            Some(_) => FuseAction::Fail(libc::EOPNOTSUPP),
        },
        Operation::ReadDir { .. }
        | Operation::Release { .. }
        | Operation::ReleaseDir { .. }
        | Operation::Flush { .. } => FuseAction::Nothing,
        _ => FuseAction::Fail(libc::ENOSYS),
    }
}

impl<R> DiskFs<R> {
    pub(crate) fn new(driver: Arc<Driver<R>>, bytes: u64) -> DiskFs<R> {
        DiskFs { driver, bytes }
    }
}

impl<R: Waiter + From<Reply> + 'static> FileSystem for DiskFs<R> {
    fn serve(&self, request: &Request<'_>, reply: fusewire::Reply<'_>) -> Answered {
        let node = request.header.node;
        match request.operation {
            Operation::Lookup { name } if node == ROOT && name == FILE.as_bytes() => {
                reply.entry(&Entry { node: DISK, ttl: TTL, attr: attr(DISK, self.bytes) })
            }
            Operation::Lookup { .. } => reply.error(libc::ENOENT),
            Operation::GetAttr { .. } => reply.attr(&attr(node, self.bytes), TTL),
            Operation::Open { .. } if node != DISK => reply.error(libc::EISDIR),
            Operation::Open { .. } => {
                let flags = open_flag::DIRECT_IO | open_flag::NOFLUSH | open_flag::PARALLEL_DIRECT_WRITES;
                reply.opened(Opened { handle: 0, flags })
            }
            Operation::OpenDir { .. } => reply.opened(Opened::default()),
            Operation::StatFs => reply.stat_fs(&StatFs::default()),
            operation => match todo(&operation, self.bytes) {
                FuseAction::Nothing => reply.ok(),
                FuseAction::Fail(error) => reply.error(error),
                FuseAction::Ask(ask, carries) => {
                    let wanted = reply.wanted();
                    let (answered, later) = reply.later();
                    let reply = R::from(Reply { later, carries });
                    match wanted {
                        Some(wanted) => self.driver.submit_until(ask, reply, true, wanted),
                        None => self.driver.submit(ask, reply),
                    }
                    answered
                }
            },
        }
    }

    fn forget(&self, _node: u64, _lookups: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 1 << 20;

    #[test]
    fn requests_of_the_device_are_understood() {
        let data = vec![7; 8192];
        let write = |offset| Operation::Write {
            handle: 0,
            offset,
            data: &data,
            kill_priv: false,
            direct: false,
            collected: false,
            durable: false,
        };
        let asked = FuseAction::Ask(Ask::Write { lba: 1, data: &data, fua: false }, ReplyData::Written(8192));
        assert_eq!(todo(&write(4096), BYTES), asked);
        assert_eq!(todo(&write(512), BYTES), FuseAction::Fail(libc::EINVAL));
        let read = |offset, size| todo(&Operation::Read { handle: 0, offset, size, direct: false }, BYTES);
        let last = FuseAction::Ask(Ask::Read { lba: 255, blocks: 1 }, ReplyData::Data);
        assert_eq!(read(BYTES - 4096, 8192), last, "cut at the end");
        assert_eq!(read(BYTES, 4096), FuseAction::Nothing);
        assert_eq!(read(512, 4096), FuseAction::Fail(libc::EINVAL));
        let sync = Operation::Fsync { handle: 0, data_only: true };
        assert_eq!(todo(&sync, BYTES), FuseAction::Ask(Ask::Flush, ReplyData::Nothing));
        let allocate =
            |mode| todo(&Operation::Fallocate { handle: 0, offset: 8192, length: 4096, mode }, BYTES);
        assert_eq!(allocate(3), FuseAction::Ask(Ask::Discard { lba: 2, blocks: 1 }, ReplyData::Nothing));
        assert_eq!(
            allocate(0x11),
            FuseAction::Ask(Ask::WriteZeroes { lba: 2, blocks: 1 }, ReplyData::Nothing)
        );
        assert_eq!(allocate(0), FuseAction::Fail(libc::EOPNOTSUPP));
        assert_eq!(todo(&Operation::Unknown, BYTES), FuseAction::Fail(libc::ENOSYS));
    }

    #[test]
    fn the_file_and_its_directory_are_described() {
        let (disk, root) = (attr(DISK, BYTES), attr(ROOT, BYTES));
        assert_eq!((disk.size, disk.blocks, disk.mode & libc::S_IFMT), (BYTES, BYTES / 512, libc::S_IFREG));
        assert_eq!((root.size, root.mode & libc::S_IFMT), (0, libc::S_IFDIR));
    }
}
