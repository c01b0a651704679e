//! The kernel's requests.

use std::sync::Arc;

use fusewire::local::{self, Probe, TTL};
use fusewire::wire::{Attr, Entry, Opened, Operation, Request, StatFs, open_flag};
use fusewire::{Answered, FileSystem, PreemptionTicker, Reply};

use crate::names::{Names, PARENT, SELF, Target};
use crate::tree::{INODE_BYTES, NAME_MAX, New, Result, Tree, UNIT};

/// The file system as the kernel's requests see it.
pub(crate) struct Server {
    tree: Tree,
    probe: Arc<Probe>,
    beat: PreemptionTicker,
}

fn entry(attr: Attr) -> Entry {
    Entry { node: attr.ino, ttl: TTL, attr }
}

/// Says "no such name", which may be cached; in a listing, that the kernel learns the name only.
fn absent() -> Entry {
    Entry { node: 0, ttl: TTL, attr: Attr::default() }
}

fn entry_of(made: Result<Attr>, reply: Reply<'_>) -> Answered {
    match made {
        Ok(attr) => reply.entry(&entry(attr)),
        Err(errno) => reply.error(errno),
    }
}

fn empty(done: Result<()>, reply: Reply<'_>) -> Answered {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Server {
    /// One that holds `most` bytes.
    pub fn new(most: u64, probe: Arc<Probe>) -> Server {
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
        Server { tree: Tree::new(most), probe, beat: PreemptionTicker::new(cpus) }
    }

    fn lookup(&self, parent: u64, name: &[u8], reply: Reply<'_>) -> Answered {
        if let Some(entry) = self.probe.entry(parent, name) {
            return reply.entry(&entry);
        }
        match self.tree.lookup(parent, name) {
            Ok(Some(attr)) => reply.entry(&entry(attr)),
            Ok(None) => reply.entry(&absent()),
            Err(errno) => reply.error(errno),
        }
    }

    fn make(&self, request: &Request<'_>, name: Option<&[u8]>, mode: u32) -> Result<Attr> {
        let header = &request.header;
        let new = New { mode, uid: header.uid, gid: header.gid, rdev: 0, target: b"" };
        self.tree.make(header.node, name, new)
    }

    fn create(
        &self,
        request: &Request<'_>,
        (name, mode, flags): (Option<&[u8]>, u32, u32),
        reply: Reply<'_>,
    ) -> Answered {
        match self.make(request, name, libc::S_IFREG | mode & 0o7777) {
            Ok(attr) => {
                let opened = Opened { handle: 0, flags: local::handle_flags(flags, false) };
                reply.created(&entry(attr), opened)
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn read_dir(&self, ino: u64, at: u64, (size, plus): (u32, bool), reply: Reply<'_>) -> Answered {
        reply.directory(size, |directory| {
            self.tree.list(ino, |names: &Names| {
                let own = |place, ino| (place, if place == SELF { &b"."[..] } else { b".." }, ino);
                let dots = [own(SELF, ino), own(PARENT, names.parent)].into_iter();
                let dots = dots.map(|(place, name, ino)| (place, name, Target { ino, mode: libc::S_IFDIR }));
                let all = dots.filter(|(place, ..)| *place > at).chain(names.behind(at.max(PARENT)));
                for (place, name, target) in all {
                    let Target { ino, mode } = target;
                    let added = if !plus {
                        directory.add(ino, place, mode, name)
                    } else if place <= PARENT {
                        directory.add_plus(&absent(), ino, place, mode, name)
                    } else {
                        // What the kernel knows already costs it more than what it has to ask for now and then.
                        self.tree.introduce(ino, |attr| {
                            let entry = attr.map_or_else(absent, entry);
                            directory.add_plus(&entry, ino, place, mode, name)
                        })
                    };
                    if !added {
                        break;
                    }
                }
            })
        })
    }

    fn stat_fs(&self, reply: Reply<'_>) -> Answered {
        let (all, left) = (self.tree.space().most(), self.tree.space().left());
        let unit = u64::from(UNIT);
        reply.stat_fs(&StatFs {
            blocks: all / unit,
            free: left / unit,
            available: left / unit,
            files: all / INODE_BYTES,
            files_free: left / INODE_BYTES,
            unit_bytes: UNIT,
            name_bytes_max: NAME_MAX as u32,
        })
    }
}

impl FileSystem for Server {
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) -> Answered {
        let header = &request.header;
        let ino = header.node;
        let tree = &self.tree;
        match request.operation {
            Operation::Lookup { name } => self.lookup(ino, name, reply),
            Operation::GetAttr { .. } => match tree.with(ino, |inode| inode.attr()) {
                Ok(attr) => reply.attr(&attr, TTL),
                Err(errno) => reply.error(errno),
            },
            Operation::StatX => match tree.with(ino, |inode| (inode.attr(), inode.btime())) {
                Ok((attr, btime)) => reply.statx(&attr, btime, TTL),
                Err(errno) => reply.error(errno),
            },
            Operation::SetAttr(set) => match tree.set_attr(ino, &set) {
                Ok(attr) => reply.attr(&attr, TTL),
                Err(errno) => reply.error(errno),
            },
            Operation::ReadLink => match tree.read_link(ino) {
                Ok(target) => reply.data(target),
                Err(errno) => reply.error(errno),
            },
            Operation::MkNod { name, mode, rdev, .. } => {
                let new = New { mode, uid: header.uid, gid: header.gid, rdev, target: b"" };
                entry_of(tree.make(ino, Some(name), new), reply)
            }
            Operation::MkDir { name, mode, .. } => {
                entry_of(self.make(request, Some(name), libc::S_IFDIR | mode & 0o7777), reply)
            }
            Operation::Symlink { name, target } => {
                let mode = libc::S_IFLNK | 0o777;
                let new = New { mode, uid: header.uid, gid: header.gid, rdev: 0, target };
                entry_of(tree.make(ino, Some(name), new), reply)
            }
            Operation::Create { name, mode, flags, .. } => {
                self.create(request, (Some(name), mode, flags), reply)
            }
            Operation::TmpFile { mode, flags, .. } => self.create(request, (None, mode, flags), reply),
            Operation::Unlink { name } => empty(tree.remove(ino, name, false), reply),
            Operation::RmDir { name } => empty(tree.remove(ino, name, true), reply),
            Operation::Rename { name, new_parent, new_name, flags } => {
                empty(tree.rename((ino, name), (new_parent, new_name), flags), reply)
            }
            Operation::Link { node, new_name } => entry_of(tree.link(node, ino, new_name), reply),
            Operation::Read { offset, size, .. } => {
                reply.fill(size as usize, |out| tree.read(ino, offset, out))
            }
            Operation::Write { offset, data, kill_priv, .. } => {
                self.beat.wrote(ino, header.pid);
                match tree.write(ino, offset, data, kill_priv) {
                    Ok(bytes) => reply.written(bytes as u32),
                    Err(errno) => reply.error(errno),
                }
            }
            Operation::Fallocate { offset, length, mode: 0, .. } => {
                empty(tree.extend(ino, offset.saturating_add(length)), reply)
            }
            Operation::Fallocate { .. } => reply.error(libc::EOPNOTSUPP),
            // The places of names stay, so what the kernel keeps of a directory is right until it changes a name itself.
            Operation::OpenDir { .. } => {
                reply.opened(Opened { handle: 0, flags: open_flag::CACHE_DIR | open_flag::KEEP_CACHE })
            }
            Operation::ReadDir { offset, size, .. } => self.read_dir(ino, offset, (size, false), reply),
            Operation::ReadDirPlus { offset, size, .. } => self.read_dir(ino, offset, (size, true), reply),
            Operation::StatFs => self.stat_fs(reply),
            // The kernel asks for attributes as it does of a file system that has some.
            Operation::GetXattr { .. } | Operation::RemoveXattr { .. } => reply.error(libc::ENODATA),
            Operation::ListXattr { size: 0 } => reply.size(0),
            Operation::ListXattr { .. } => reply.ok(),
            Operation::SetXattr { .. } => reply.error(libc::EOPNOTSUPP),
            Operation::Fsync { .. }
            | Operation::FsyncDir { .. }
            | Operation::SyncFs
            | Operation::Release { .. }
            | Operation::ReleaseDir { .. } => reply.ok(),
            // There is nothing to do at an open or a close: the kernel need not ask again.
            _ => reply.error(libc::ENOSYS),
        }
    }

    fn forget(&self, node: u64, lookups: u64) {
        self.tree.forget(node, lookups);
    }

    fn may_wait(&self, _operation: &Operation<'_>) -> bool {
        false
    }
}
