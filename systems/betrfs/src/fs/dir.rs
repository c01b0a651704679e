//! Reading directories.

use std::sync::Arc;

use super::{Attr, Fs};
use crate::error::Result;
use crate::key;
use crate::node::{Node, State};
use crate::record;

/// An entry as a reader of a directory sees it.
#[derive(Clone, Debug)]
pub struct DirItem<'a> {
    /// Name; `.` and `..` are among them.
    pub name: &'a [u8],
    /// Inode number.
    pub ino: u64,
    /// Type, as in `st_mode`.
    pub kind: u32,
    /// Where to go on behind it.
    pub next: u64,
    /// Attributes, if asked for; the caller then holds the inode, unless it is `.` or `..`.
    pub attr: Option<Attr>,
}

/// An open directory: the names that were read, so that an offset means the same name as long as it is open.
#[derive(Debug, Default)]
pub struct DirStream {
    names: Vec<Box<[u8]>>,
}

/// The first offset behind `.` and `..`.
const FIRST: u64 = 2;

impl Fs {
    /// Reads the directory `ino` from offset `off` (0 begins anew) until `add` returns false; the entry that it
    /// refused will be the first of the next call. With `attrs` every entry comes with its attributes.
    ///
    /// # Errors
    /// [`Error::NotDirectory`](crate::Error::NotDirectory), the store's.
    pub fn read_dir(
        &self,
        ino: u64,
        stream: &mut DirStream,
        off: u64,
        attrs: bool,
        add: &mut dyn FnMut(DirItem<'_>) -> bool,
    ) -> Result<()> {
        let _tree = self.shared();
        let dir = self.node(ino)?;
        let home = dir.dir()?;
        let state = dir.read();
        let mut at = off;
        if off == 0 {
            stream.names.clear();
        }
        while at < FIRST {
            if !add(self.dots(&dir, &state, at, attrs)) {
                return Ok(());
            }
            at += 1;
        }
        // What was read before, for one who went back.
        while let Some(name) = stream.names.get((at - FIRST) as usize) {
            if let Some(value) = self.db.get(&key::entry(home, name))?
                && !self.show(&dir, name, &value, at + 1, attrs, add)?
            {
                return Ok(());
            }
            at += 1;
        }
        if state.known.is_some() && state.inode.size == 0 {
            return Ok(());
        }
        let rest = match stream.names.last() {
            Some(name) => key::entries_after(home, name),
            None => key::entries(home),
        };
        for item in self.db.scan(&rest) {
            let (key, value) = item?;
            let name = &key[home.len() + 1..];
            // Behind what this stream has read: it began anew, or the offset is of another one. It is found by counting.
            if stream.names.len() as u64 + FIRST == at {
                if !self.show(&dir, name, &value, at + 1, attrs, add)? {
                    return Ok(());
                }
                at += 1;
            }
            stream.names.push(name.into());
        }
        Ok(())
    }

    fn dots(&self, dir: &Arc<Node>, state: &State, at: u64, attrs: bool) -> DirItem<'static> {
        let (name, node): (&[u8], _) = match (at, state.names.first()) {
            (1, Some(up)) => (b"..", up.parent.clone()),
            (1, None) => (b"..", dir.clone()),
            _ => (b".", dir.clone()),
        };
        // The attributes of `..` would need a lock against the order; nobody looks at them.
        let attr = attrs.then(|| Attr::of(node.ino, &state.inode));
        DirItem { name, ino: node.ino, kind: libc::S_IFDIR, next: at + 1, attr }
    }

    fn show(
        &self,
        dir: &Arc<Node>,
        name: &[u8],
        value: &[u8],
        next: u64,
        attrs: bool,
        add: &mut dyn FnMut(DirItem<'_>) -> bool,
    ) -> Result<bool> {
        let entry = record::decode(value)?;
        let (ino, kind) = (entry.ino(), entry.kind());
        if !attrs {
            return Ok(add(DirItem { name, ino, kind, next, attr: None }));
        }
        let node = self.instantiate(dir, name, entry)?;
        self.nodes.hold(&node);
        let attr = Some(Attr::of(ino, &node.read().inode));
        let taken = add(DirItem { name, ino, kind, next, attr });
        if !taken {
            self.nodes.release(&node, 1);
        }
        Ok(taken)
    }
}
