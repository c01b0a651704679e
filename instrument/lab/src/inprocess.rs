//! betrfs as a [`Volume`] of the engine (`betrfs,inprocess@DEVICE`): workloads run on the tree without FUSE and the kernel in between.
//!
//! Directories that were met stay held, as the kernel's cache of names keeps them; a file is looked up at every open.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::sync::{PoisonError, RwLock};

use betrfs::{DirStream, Error, Fs, NewFile, SetAttr};
use engine::Volume;

/// The root's inode.
const ROOT: u64 = 1;

/// An open file system that a run uses.
pub struct InProcess {
    fs: Fs,
    dirs: RwLock<HashMap<Vec<u8>, u64>>,
}

/// The directory part and the last name of a path; a trailing slash does not count.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

impl InProcess {
    /// Takes the file system over.
    pub fn new(fs: Fs) -> InProcess {
        InProcess { fs, dirs: RwLock::default() }
    }

    /// Lets the directories go and closes the file system: everything is durable afterwards.
    ///
    /// # Errors
    /// The store's.
    pub fn finish(self) -> Result<(), Error> {
        let dirs = self.dirs.into_inner().unwrap_or_else(PoisonError::into_inner);
        dirs.into_values().for_each(|ino| self.fs.forget(ino, 1));
        self.fs.close()
    }

    /// Does `work`. A panic in it fails the file system, as it does behind a mount.
    fn run<T>(&self, work: impl FnOnce(&Fs) -> Result<T, Error>) -> io::Result<T> {
        self.fs
            .store()
            .guarded(|| work(&self.fs))
            .map_err(|error| io::Error::from_raw_os_error(error.errno()))
    }

    /// The directory at `path`, held.
    fn dir(&self, path: &[u8]) -> io::Result<u64> {
        if path.is_empty() {
            return Ok(ROOT);
        }
        let known = self.dirs.read().unwrap_or_else(PoisonError::into_inner).get(path).copied();
        if let Some(ino) = known {
            return Ok(ino);
        }
        let (parent, name) = split(path);
        let dir = self.dir(parent)?;
        let attr = self.run(|fs| fs.lookup(dir, name))?;
        if attr.mode & libc::S_IFMT != libc::S_IFDIR {
            self.fs.forget(attr.ino, 1);
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
        }
        self.keep(path, attr.ino);
        Ok(attr.ino)
    }

    /// Keeps a directory that is held once more than before.
    fn keep(&self, path: &[u8], ino: u64) {
        let mut dirs = self.dirs.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = dirs.insert(path.to_vec(), ino) {
            self.fs.forget(before, 1);
        }
    }

    fn split<'p>(&self, path: &'p CStr) -> io::Result<(u64, &'p [u8])> {
        let (parent, name) = split(path.to_bytes());
        Ok((self.dir(parent)?, name))
    }
}

impl Volume for InProcess {
    fn open(&self, path: &CStr, create: bool) -> io::Result<u64> {
        let (parent, name) = self.split(path)?;
        let new = NewFile { mode: libc::S_IFREG | 0o644, ..NewFile::default() };
        let attr = self.run(|fs| match create && !matches!(name, b"" | b"." | b"..") {
            true => fs.find_or_make(parent, name, new),
            false => fs.lookup(parent, name),
        })?;
        if attr.mode & libc::S_IFMT == libc::S_IFREG {
            return Ok(attr.ino);
        }
        self.fs.forget(attr.ino, 1);
        Err(io::Error::from_raw_os_error(libc::EISDIR))
    }

    fn close(&self, file: u64) -> io::Result<()> {
        self.run(|fs| {
            fs.forget(file, 1);
            Ok(())
        })
    }

    fn read_at(&self, file: u64, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.run(|fs| fs.read_into(file, offset, buffer))
    }

    fn write_at(&self, file: u64, data: &[u8], offset: u64) -> io::Result<usize> {
        self.run(|fs| fs.write(file, offset, data, false))
    }

    fn append(&self, file: u64, data: &[u8]) -> io::Result<usize> {
        self.run(|fs| fs.append(file, data))
    }

    fn fsync(&self, _file: u64) -> io::Result<()> {
        self.sync()
    }

    fn truncate(&self, file: u64, length: u64) -> io::Result<()> {
        let set = SetAttr { size: Some(length), ..SetAttr::default() };
        self.run(|fs| fs.set_attr(file, &set).map(|_| ()))
    }

    fn size(&self, file: u64) -> io::Result<u64> {
        self.run(|fs| fs.attr(file).map(|attr| attr.size))
    }

    fn stat(&self, path: &CStr) -> io::Result<u64> {
        let (parent, name) = self.split(path)?;
        if name.is_empty() {
            return self.size(ROOT);
        }
        let attr = self.run(|fs| fs.lookup(parent, name))?;
        self.fs.forget(attr.ino, 1);
        Ok(attr.size)
    }

    fn unlink(&self, path: &CStr) -> io::Result<()> {
        let (parent, name) = self.split(path)?;
        self.run(|fs| fs.unlink(parent, name))
    }

    fn make_dir(&self, path: &CStr) -> io::Result<()> {
        let (parent, name) = self.split(path)?;
        let new = NewFile { mode: libc::S_IFDIR | 0o755, ..NewFile::default() };
        let attr = self.run(|fs| fs.make(parent, name, new))?;
        let path = path.to_bytes();
        self.keep(path.strip_suffix(b"/").unwrap_or(path), attr.ino);
        Ok(())
    }

    fn remove_dir(&self, path: &CStr) -> io::Result<()> {
        let (parent, name) = self.split(path)?;
        self.run(|fs| fs.rmdir(parent, name))?;
        let path = path.to_bytes();
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let held = self.dirs.write().unwrap_or_else(PoisonError::into_inner).remove(path);
        if let Some(ino) = held {
            self.fs.forget(ino, 1);
        }
        Ok(())
    }

    fn list_dir(&self, path: &CStr, each: &mut dyn FnMut(&[u8], bool)) -> io::Result<()> {
        let path = path.to_bytes();
        let ino = self.dir(path.strip_suffix(b"/").unwrap_or(path))?;
        let mut stream = DirStream::default();
        let mut show = |item: betrfs::DirItem<'_>| {
            if item.name != b"." && item.name != b".." {
                each(item.name, item.kind == libc::S_IFDIR);
            }
            true
        };
        self.run(|fs| fs.read_dir(ino, &mut stream, 0, false, &mut show))
    }

    fn sync(&self) -> io::Result<()> {
        self.run(|fs| fs.sync())
    }

    fn free_bytes(&self) -> u64 {
        self.fs.space().available
    }
}

#[cfg(test)]
mod tests {
    use engine::{Control, RunOptions};

    use super::*;

    /// A file system of 64 MiB in a file.
    fn fresh(dir: &std::path::Path) -> std::path::PathBuf {
        let image = dir.join("image");
        std::fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("an image");
        betrfs::format(&image, &betrfs::FormatOptions::default()).expect("mkfs");
        image
    }

    fn open(image: &std::path::Path) -> InProcess {
        let options = betrfs::MountOptions::parse("cache=8M").expect("options");
        InProcess::new(betrfs::mount::open(image, &options).expect("open"))
    }

    #[test]
    fn paths_lead_to_files() {
        let dir = tempfile::tempdir().expect("a directory");
        let image = fresh(dir.path());
        let volume = open(&image);
        volume.make_dir(c"a").unwrap();
        volume.make_dir(c"a/b/").unwrap();
        let file = volume.open(c"a/b/f", true).unwrap();
        assert_eq!(volume.write_at(file, b"hello", 3).unwrap(), 5);
        assert_eq!(volume.append(file, b"!").unwrap(), 1);
        volume.close(file).unwrap();
        assert_eq!(volume.open(c"a/b/g", false).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        assert_eq!(volume.open(c"a/b", false).unwrap_err().raw_os_error(), Some(libc::EISDIR));
        assert_eq!(volume.open(c"a/b/f/x", true).unwrap_err().raw_os_error(), Some(libc::ENOTDIR));
        assert_eq!(volume.remove_dir(c"a/b").unwrap_err().raw_os_error(), Some(libc::ENOTEMPTY));
        volume.finish().unwrap();
        let volume = open(&image);
        assert_eq!(volume.stat(c"a/b/f").unwrap(), 9);
        let file = volume.open(c"a/b/f", false).unwrap();
        let mut buffer = [1; 16];
        assert_eq!(volume.read_at(file, &mut buffer, 0).unwrap(), 9);
        assert_eq!(&buffer[..9], b"\0\0\0hello!");
        volume.truncate(file, 4).unwrap();
        assert_eq!(volume.size(file).unwrap(), 4);
        let mut names = Vec::new();
        volume.list_dir(c"a/", &mut |name, is_dir| names.push((name.to_vec(), is_dir))).unwrap();
        assert_eq!(names, [(b"b".to_vec(), true)]);
        // unlinked while open
        volume.unlink(c"a/b/f").unwrap();
        assert_eq!(volume.size(file).unwrap(), 4);
        volume.close(file).unwrap();
        volume.remove_dir(c"a/b").unwrap();
        volume.make_dir(c"a/b").unwrap();
        assert_eq!(volume.stat(c"a/b/f").unwrap_err().raw_os_error(), Some(libc::ENOENT));
        volume.finish().unwrap();
        let found = betrfs::mount::check_device(&image, false).expect("fsck");
        assert!(found.is_clean(), "{found:?}");
    }

    #[test]
    fn a_panic_fails_the_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let volume = open(&fresh(dir.path()));
        let file = volume.open(c"f", true).unwrap();
        volume.sync().unwrap();
        let panics = || volume.run(|_| -> Result<(), Error> { panic!("planted") });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        let written = volume.write_at(file, b"x", 0).map(|_| ());
        let synced = volume.sync();
        let finished = volume.finish().map_err(|error| io::Error::from_raw_os_error(error.errno()));
        for refused in [written, synced, finished] {
            assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EROFS));
        }
    }

    #[test]
    fn a_personality_runs_on_the_tree() {
        let text = include_bytes!("../../../workloads/varmail.f");
        let settings = wml::Settings {
            machine: wml::Machine { ram_bytes: 1 << 30, cores: 2, free_bytes: 1 << 30 },
            set: vec![("nfiles".into(), "60".into())],
            name: "varmail".into(),
        };
        let workload = wml::load(text, &settings).expect("varmail").workload;
        let dir = tempfile::tempdir().expect("a directory");
        let image = fresh(dir.path());
        let volume = open(&image);
        let options = RunOptions { ops: Some(3000), seconds: Some(60.0), ..RunOptions::default() };
        let outcome =
            engine::run_on(&workload, &volume, &options, &Control::new(), &mut |_| {}).expect("a run");
        assert_eq!(outcome.ended, stats::Ended::OpsReached);
        let names: Vec<_> = outcome.ops.iter().map(|op| (&op.name, op.ops, op.errors)).collect();
        assert!(names.iter().all(|(_, ops, errors)| *ops > 0 && *errors == 0), "{names:?}");
        volume.finish().unwrap();
        let found = betrfs::mount::check_device(&image, false).expect("fsck");
        assert!(found.is_clean(), "{found:?}");
    }
}
