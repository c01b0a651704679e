//! Filesets on disk before the run (filebench.md section 4.5).

use std::ffi::{CStr, CString};
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use workload::{Contents, DataPool, DataSpec, Fileset, Layout};

use crate::aligned::AlignedBuffer;
use crate::control::Control;
use crate::error::Error;
use crate::file_space::{FileSpace, NewFile};

/// Files are written in pieces of this size, as Filebench does.
const PIECE_BYTES: usize = 1 << 20;

/// How the files of a fileset are made.
pub struct Creation<'a> {
    /// Where they are.
    pub ground: FileSpace<'a>,
    /// The run's seed.
    pub seed: u64,
    /// What the files hold.
    pub data: DataSpec,
    /// To stop early.
    pub control: &'a Control,
    /// Files made so far, for the progress display.
    pub made: &'a AtomicU64,
}

impl Creation<'_> {
    /// Makes the tree of `fileset` at `tree` below the root and returns what it did, as lines for the reader.
    pub fn create(&self, fileset: &Fileset, layout: &Layout, tree: &str) -> Result<Vec<String>, Error> {
        let mut lines = vec![layout.populated_line(&fileset.name)];
        let there = self.ground.exists(&c_path(tree)?);
        if there && (fileset.reuse || fileset.trust_tree) {
            lines.push(format!("Reusing existing {} tree", fileset.name));
        } else {
            lines.push(format!("Removing {} tree (if exists)", fileset.name));
            if there {
                self.ground.remove_all(tree).map_err(|error| Error::io("cannot remove", tree, error))?;
            }
            lines.push(format!("Pre-allocating directories in {} tree", fileset.name));
        }
        self.ground.make_dirs(tree).map_err(|error| Error::io("cannot create", tree, error))?;
        for dir in layout.dir_paths() {
            self.make_dir(&format!("{tree}/{dir}"))?;
        }
        lines.push(format!("Pre-allocating files in {} tree", fileset.name));
        self.files(fileset, layout, tree)?;
        for leafdir in layout.initial_leafdirs(fileset.prealloc_percent, self.seed).order() {
            self.make_dir(&format!("{tree}/{}", layout.leafdir_path(leafdir)))?;
        }
        Ok(lines)
    }

    fn make_dir(&self, path: &str) -> Result<(), Error> {
        let made = self.ground.make_dir(&c_path(path)?);
        made.map_err(|error| Error::io("cannot create directory", path, error))
    }

    fn files(&self, fileset: &Fileset, layout: &Layout, tree: &str) -> Result<(), Error> {
        let initial = layout.initial_files(fileset.prealloc_percent, self.seed);
        let next = AtomicUsize::new(0);
        let work = |thread: u32| -> Result<(), Error> {
            let mut writer = Writer::new(self, thread)?;
            loop {
                let rank = next.fetch_add(1, Relaxed);
                if rank >= initial.count() {
                    return Ok(());
                }
                if self.control.stopped() {
                    return Err(Error::Interrupted);
                }
                let file = initial.at(rank);
                writer.path(tree, layout, file);
                writer.make(fileset, layout.file_size(file))?;
                self.made.fetch_add(1, Relaxed);
            }
        };
        let threads = if fileset.parallel_alloc {
            2 * std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
        } else {
            1
        };
        std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..threads.min(32)).map(|thread| scope.spawn(move || work(thread))).collect();
            let own = work(0);
            let theirs = others
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            theirs.fold(own, |first, next| first.and(next))
        })
    }
}

/// Writes files, one after the other.
struct Writer<'a> {
    creation: &'a Creation<'a>,
    path: Vec<u8>,
    pool: AlignedBuffer,
    data: DataPool,
}

impl<'a> Writer<'a> {
    fn new(creation: &'a Creation<'a>, thread: u32) -> Result<Writer<'a>, Error> {
        let data = DataPool::new(creation.data, creation.seed, u32::MAX, thread)
            .map_err(|error| Error::Invalid(error.to_string()))?;
        let mut pool = AlignedBuffer::new(workload::data::pool_bytes(PIECE_BYTES));
        data.fill(&mut pool);
        Ok(Writer { creation, path: Vec::new(), pool, data })
    }

    fn path(&mut self, tree: &str, layout: &Layout, file: usize) {
        self.path.clear();
        self.path.extend_from_slice(tree.as_bytes());
        self.path.push(b'/');
        layout.write_file_path(file, &mut self.path);
        self.path.push(0);
    }

    fn fail(&self, what: &'static str, error: io::Error) -> Error {
        let path = CStr::from_bytes_until_nul(&self.path)
            .map_or(String::new(), |path| path.to_string_lossy().into());
        Error::io(what, path, error)
    }

    /// Makes one file, or brings one that is there to its size.
    fn make(&mut self, fileset: &Fileset, size: u64) -> Result<(), Error> {
        let path = CString::from_vec_with_nul(self.path.clone())
            .map_err(|_| Error::Invalid(format!("fileset `{}` has a zero byte in its path", fileset.name)))?;
        if fileset.reuse || fileset.trust_tree {
            match self.creation.ground.size(&path) {
                Ok(_) if fileset.trust_tree => return Ok(()),
                Ok(there) if there == size => return Ok(()),
                Ok(there) if there > size => {
                    let file = self.open(&path, false)?;
                    return file.truncate(size).map_err(|error| self.fail("cannot cut", error));
                }
                _ => {}
            }
        }
        let mut file = self.open(&path, true)?;
        if fileset.contents != Contents::Data {
            return self.reserve(&file, fileset.contents, size);
        }
        let mut left = size;
        while left > 0 {
            let data = self.data.next(&mut self.pool, left.min(PIECE_BYTES as u64) as usize);
            let written = file.write(data).map_err(|error| self.fail("cannot fill", error))?;
            left -= written as u64;
            if self.creation.control.stopped() {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }

    /// Makes room for a file that the load itself fills.
    fn reserve(&self, file: &NewFile<'_>, contents: Contents, size: u64) -> Result<(), Error> {
        match contents {
            Contents::Data | Contents::Empty => Ok(()),
            Contents::Hole => file.truncate(size).map_err(|error| self.fail("cannot extend", error)),
            Contents::Allocated | Contents::AllocatedBeyondEnd => {
                let keep_size = contents == Contents::AllocatedBeyondEnd;
                file.allocate(size, keep_size).map_err(|error| self.fail("cannot allocate", error))
            }
        }
    }

    fn open(&self, path: &CStr, create: bool) -> Result<NewFile<'a>, Error> {
        let opened = self.creation.ground.open(path, create);
        opened.map_err(|error| self.fail("cannot create file", error))
    }
}

fn c_path(path: &str) -> Result<CString, Error> {
    CString::new(path).map_err(|_| Error::Invalid(format!("the path `{path}` has a zero byte in it")))
}
