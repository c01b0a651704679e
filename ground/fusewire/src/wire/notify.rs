//! What the kernel is told unasked: messages without a request.

use super::OUT_HEADER_BYTES;

const INVAL_INODE: i32 = 2;
const INVAL_ENTRY: i32 = 3;
const PRUNE: i32 = 9;

fn message(code: i32, parts: &[&[u8]]) -> Vec<u8> {
    let bytes = OUT_HEADER_BYTES + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut out = Vec::with_capacity(bytes);
    out.extend((bytes as u32).to_ne_bytes());
    out.extend(code.to_ne_bytes());
    out.extend(0u64.to_ne_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// "Forget the name `name` of the directory `parent`" (`FUSE_NOTIFY_INVAL_ENTRY`).
pub fn invalidate_entry(parent: u64, name: &[u8]) -> Vec<u8> {
    let (length, flags) = ((name.len() as u32).to_ne_bytes(), [0; 4]);
    message(INVAL_ENTRY, &[&parent.to_ne_bytes(), &length, &flags, name, &[0]])
}

/// "Forget attributes of `node`, and its data from `offset` on" (`FUSE_NOTIFY_INVAL_INODE`): `length` bytes, all for 0;
/// none for a negative offset.
pub fn invalidate_inode(node: u64, offset: i64, length: i64) -> Vec<u8> {
    message(INVAL_INODE, &[&node.to_ne_bytes(), &offset.to_ne_bytes(), &length.to_ne_bytes()])
}

/// "Forget all names of these nodes that nobody uses" (`FUSE_NOTIFY_PRUNE`, protocol 7.45, Linux 6.18). Directories
/// stay.
pub fn prune(nodes: &[u64]) -> Vec<u8> {
    let nodes: Vec<u8> = nodes.iter().flat_map(|node| node.to_ne_bytes()).collect();
    message(PRUNE, &[&((nodes.len() / 8) as u32).to_ne_bytes(), &[0; 12], &nodes])
}
