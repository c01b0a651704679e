//! FUSE requests put together from a fuzzer's bytes: real opcodes, arguments near what matters, names that exist.

use arbitrary::{Result, Unstructured};
use fusewire::wire::{Header, IN_HEADER_BYTES, Request, fixed_bytes, opcode};

/// Opcodes that are asked, some of them more often: what makes something, and what moves it.
const OPCODES: [u32; 43] = {
    use opcode::*;
    [
        LOOKUP,
        LOOKUP,
        FORGET,
        GETATTR,
        SETATTR,
        SETATTR,
        READLINK,
        SYMLINK,
        MKNOD,
        MKDIR,
        MKDIR,
        UNLINK,
        RMDIR,
        RENAME,
        LINK,
        OPEN,
        READ,
        READ,
        WRITE,
        WRITE,
        WRITE,
        STATFS,
        RELEASE,
        FSYNC,
        SETXATTR,
        GETXATTR,
        LISTXATTR,
        REMOVEXATTR,
        FLUSH,
        OPENDIR,
        READDIR,
        RELEASEDIR,
        FSYNCDIR,
        CREATE,
        CREATE,
        BATCH_FORGET,
        FALLOCATE,
        FALLOCATE,
        READDIRPLUS,
        RENAME2,
        LSEEK,
        TMPFILE,
        STATX,
    ]
};
/// Requests to one file system.
const REQUESTS_MAX: usize = 64;
/// Longest data of a write, in bytes.
const DATA_MAX: usize = 200 << 10;

/// Requests until the bytes are used up.
pub fn requests(u: &mut Unstructured<'_>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while !u.is_empty() && all.len() < REQUESTS_MAX {
        match request(u) {
            Ok(request) => all.push(request),
            Err(_) => break,
        }
    }
    all
}

fn request(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    if u.ratio(1, 32)? {
        let len = u.arbitrary_len::<u8>()?.min(256);
        return Ok(u.bytes(len)?.to_vec());
    }
    let code = if u.ratio(1, 64)? { u.arbitrary()? } else { *u.choose(&OPCODES)? };
    let node = node(u)?;
    let mut fixed = Vec::new();
    while fixed.len() < fixed_bytes(code) {
        if code == opcode::SETATTR && fixed.is_empty() || u.ratio(1, 3)? {
            // Two numbers of 32 bits: flags, modes, sizes.
            for _ in 0..2 {
                let small = small(u)?;
                fixed.extend(small.to_ne_bytes());
            }
        } else {
            fixed.extend(long(u)?.to_ne_bytes());
        }
    }
    let mut rest = Vec::new();
    match code {
        opcode::WRITE => {
            let len = length(u)?;
            fixed[16..20].copy_from_slice(&(len as u32).to_ne_bytes());
            rest = vec![u.arbitrary()?; len];
        }
        opcode::SETXATTR => {
            rest.extend_from_slice(&[b"user.", &name(u)?[..], b"\0"].concat());
            let len = length(u)?.min(70_000);
            fixed[..4].copy_from_slice(&(len as u32).to_ne_bytes());
            rest.resize(rest.len() + len, 7);
        }
        opcode::GETXATTR | opcode::REMOVEXATTR => {
            rest.extend_from_slice(&[b"user.", &name(u)?[..], b"\0"].concat())
        }
        opcode::BATCH_FORGET => {
            for _ in 0..u.int_in_range(0..=4)? {
                rest.extend(self::node(u)?.to_ne_bytes());
                rest.extend(u64::from(small(u)?).to_ne_bytes());
            }
        }
        _ => {
            // Up to two names, which few of the others read.
            for _ in 0..2 {
                rest.extend_from_slice(&name(u)?);
                rest.push(0);
            }
        }
    }
    let len = IN_HEADER_BYTES + fixed.len() + rest.len();
    let mut bytes = Vec::with_capacity(len);
    bytes.extend((len as u32).to_ne_bytes());
    bytes.extend(code.to_ne_bytes());
    bytes.extend(1_u64.to_ne_bytes());
    bytes.extend(node.to_ne_bytes());
    for id in [small(u)?, 0, 77, 0] {
        bytes.extend(id.to_ne_bytes());
    }
    bytes.extend(fixed);
    bytes.extend(rest);
    Ok(bytes)
}

fn node(u: &mut Unstructured<'_>) -> Result<u64> {
    if u.ratio(1, 32)? { u.arbitrary() } else { Ok(u.int_in_range(1..=12)?) }
}

fn small(u: &mut Unstructured<'_>) -> Result<u32> {
    Ok(match u.int_in_range(0..=5)? {
        0 => 0,
        1 => 1 << u.int_in_range(0..=31)?,
        2 => u.int_in_range(0..=0xfff)?,
        3 => libc::S_IFREG | u.int_in_range(0..=0o7777)?,
        4 => u32::MAX - u.int_in_range(0..=3)?,
        _ => u.arbitrary()?,
    })
}

fn long(u: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match u.int_in_range(0..=6)? {
        0 => 0,
        1 => u.int_in_range(0..=12)?,
        2 => u.int_in_range(0..=64)? * 4096,
        3 => (1 << u.int_in_range(0..=63)?) - u.int_in_range(0..=1)?,
        4 => i64::MAX as u64 - u.int_in_range(0..=4096)?,
        5 => u64::MAX - u.int_in_range(0..=4096)?,
        _ => u.arbitrary()?,
    })
}

fn length(u: &mut Unstructured<'_>) -> Result<usize> {
    Ok(match u.int_in_range(0..=3)? {
        0 => u.int_in_range(0..=64)?,
        1 => u.int_in_range(0..=32)? * 4096,
        2 => u.int_in_range(4090..=4100)?,
        _ => u.int_in_range(0..=DATA_MAX)?,
    })
}

fn name(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    Ok(match u.int_in_range(0..=15)? {
        0 => Vec::new(),
        1 => b".".to_vec(),
        2 => b"..".to_vec(),
        3 => vec![b'n'; u.int_in_range(254..=257)?],
        4 => vec![b't'; u.int_in_range(4090..=4100)?],
        5 => b"a/b".to_vec(),
        6 => {
            let len = u.arbitrary_len::<u8>()?.min(40);
            u.bytes(len)?.to_vec()
        }
        _ => vec![b'a' + u.int_in_range(0..=5)?],
    })
}

/// Whatever comes is read alike in one piece, from `/dev/fuse`, and in three, from a ring.
pub fn both_ways(bytes: &[u8]) {
    let Some(header) = Header::parse(bytes) else { return };
    let whole = Request::parse(bytes);
    let fixed = fixed_bytes(header.opcode);
    let body = bytes.get(IN_HEADER_BYTES..header.len as usize);
    if let Some((fixed, rest)) = body.and_then(|body| body.split_at_checked(fixed)) {
        let mut area = fixed.to_vec();
        area.resize(fixed.len().max(128), 0xee);
        let parts = Request::of_parts(header, &area, rest);
        assert_eq!(whole, parts);
    }
}
