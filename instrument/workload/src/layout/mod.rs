//! The tree of a fileset: which files, leaf directories and directories it has, and how large the files are.
//!
//! The algorithm is Filebench's (its steps are restated in [`build`]); the deviations are that everything is
//! seeded, that serials never collide within a directory, and that impossible trees are errors instead of
//! endless loops.
//!
//! | module | holds |
//! |---|---|
//! | [`build`] | the walk that makes the tree |
//! | [`initial`] | which entries exist at the start, in which order they are made |
//! | `paths` | cached directory prefixes, formatting of serials |

pub mod build;
pub mod initial;
mod paths;
#[cfg(test)]
mod tests;

pub use build::LayoutError;
pub use initial::Initial;

use crate::rng::{Purpose, StreamId};
use paths::{Prefixes, push_serial};

/// The tree of a fileset. Paths are relative to the fileset's root, without a leading slash.
///
/// Files, leaf directories and directories are numbered separately, each in order of creation; directory 0 is
/// the root. Indices out of range panic, as with slices.
///
/// Memory: 4 bytes a file, plus 0, 4 or 8 for its size (if it is drawn), 8 a leaf directory, 20 a directory plus
/// its share of the path cache, which is limited to 16 bytes an entry.
#[derive(Debug, Clone)]
pub struct Layout {
    file_parent: Vec<u32>,
    sizes: Sizes,
    leafdirs: Vec<LeafDir>,
    dirs: Vec<Dir>,
    prefixes: Prefixes,
    name_hash: u64,
    total_bytes: u64,
    mean_width: f64,
    mean_depth: f64,
}

/// A directory; all its files are consecutive, with serials from 1.
#[derive(Debug, Clone, Copy)]
struct Dir {
    /// Index of the parent; the root is its own.
    parent: u32,
    serial: u32,
    first_file: u32,
}

#[derive(Debug, Clone, Copy)]
struct LeafDir {
    parent: u32,
    serial: u32,
}

/// Sizes of all files in bytes.
#[derive(Debug, Clone)]
enum Sizes {
    Equal(u64),
    Small(Vec<u32>),
    Any(Vec<u64>),
}

impl Layout {
    /// Number of files.
    pub fn len(&self) -> usize {
        self.file_parent.len()
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.file_parent.is_empty()
    }

    /// Number of leaf directories.
    pub fn leafdir_count(&self) -> usize {
        self.leafdirs.len()
    }

    /// Number of directories without the leaf directories; the root (index 0) counts.
    pub fn dir_count(&self) -> usize {
        self.dirs.len()
    }

    /// Nominal size of a file in bytes.
    #[inline]
    pub fn file_size(&self, file: usize) -> u64 {
        match &self.sizes {
            Sizes::Equal(size) => {
                assert!(file < self.file_parent.len(), "file {file} of {}", self.file_parent.len());
                *size
            }
            Sizes::Small(sizes) => u64::from(sizes[file]),
            Sizes::Any(sizes) => sizes[file],
        }
    }

    /// The largest nominal size in bytes; 0 without files.
    pub fn largest_file_bytes(&self) -> u64 {
        match &self.sizes {
            Sizes::Equal(_) if self.is_empty() => 0,
            Sizes::Equal(size) => *size,
            Sizes::Small(sizes) => sizes.iter().max().map_or(0, |&size| u64::from(size)),
            Sizes::Any(sizes) => sizes.iter().max().copied().unwrap_or(0),
        }
    }

    /// Sum of all nominal sizes in bytes; `u64::MAX` when it is larger.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Index of the directory that holds a file.
    #[inline]
    pub fn file_dir(&self, file: usize) -> usize {
        self.file_parent[file] as usize
    }

    /// Index of the directory that holds a leaf directory.
    pub fn leafdir_dir(&self, leafdir: usize) -> usize {
        self.leafdirs[leafdir].parent as usize
    }

    /// Index of a directory's parent; `None` for the root.
    pub fn dir_parent(&self, dir: usize) -> Option<usize> {
        (dir != 0).then(|| self.dirs[dir].parent as usize)
    }

    /// Appends the path of a file, for example `00000001/00000042`.
    #[inline]
    pub fn write_file_path(&self, file: usize, path: &mut Vec<u8>) {
        let parent = self.file_parent[file];
        self.write_prefix(parent, path);
        push_serial(path, file as u32 - self.dirs[parent as usize].first_file + 1);
    }

    /// Appends the name of a file within its directory, for example `00000042`; for use with `openat`.
    #[inline]
    pub fn write_file_name(&self, file: usize, name: &mut Vec<u8>) {
        let parent = self.file_parent[file];
        push_serial(name, file as u32 - self.dirs[parent as usize].first_file + 1);
    }

    /// Appends the path of a leaf directory.
    #[inline]
    pub fn write_leafdir_path(&self, leafdir: usize, path: &mut Vec<u8>) {
        let LeafDir { parent, serial } = self.leafdirs[leafdir];
        self.write_prefix(parent, path);
        push_serial(path, serial);
    }

    /// Appends the path of a directory; nothing for the root.
    pub fn write_dir_path(&self, dir: usize, path: &mut Vec<u8>) {
        if dir != 0 {
            self.write_prefix(self.dirs[dir].parent, path);
            push_serial(path, self.dirs[dir].serial);
        }
    }

    /// The path of a file.
    pub fn file_path(&self, file: usize) -> String {
        written(|path| self.write_file_path(file, path))
    }

    /// The path of a leaf directory.
    pub fn leafdir_path(&self, leafdir: usize) -> String {
        written(|path| self.write_leafdir_path(leafdir, path))
    }

    /// The path of a directory; empty for the root.
    pub fn dir_path(&self, dir: usize) -> String {
        written(|path| self.write_dir_path(dir, path))
    }

    /// Paths of all directories but the root and the leaf directories, every parent before its children.
    pub fn dir_paths(&self) -> impl Iterator<Item = String> + '_ {
        (1..self.dirs.len()).map(|dir| self.dir_path(dir))
    }

    /// An upper bound of the length in bytes of all paths: the longest directory, a slash and the longest serial
    /// (10 digits). Most systems refuse paths of 4096 bytes and more.
    pub fn path_bytes_max(&self) -> u64 {
        self.prefixes.longest_bytes() + 10
    }

    /// Mean entries of a directory as asked for (Filebench's `avg. dir. width`).
    pub fn mean_width(&self) -> f64 {
        self.mean_width
    }

    /// Mean depth `ln(files + leafdirs) / ln(mean width)` (Filebench's `avg. dir. depth`); infinite for a mean
    /// width of 1.
    pub fn mean_depth(&self) -> f64 {
        self.mean_depth
    }

    /// Filebench's line about a populated fileset; 1 MB is 2^20 bytes.
    pub fn populated_line(&self, name: &str) -> String {
        format!(
            "{name} populated: {} files, avg. dir. width = {}, avg. dir. depth = {:.1}, {} leafdirs, \
             {:.3}MB total size",
            self.len(),
            self.mean_width.round(),
            self.mean_depth,
            self.leafdir_count(),
            self.total_bytes as f64 / f64::from(1 << 20),
        )
    }

    /// Which files exist at the start, and in which order they are made.
    ///
    /// Exactly `percent` (at most 100) of the files, rounded to the nearest whole file, each subset of that size
    /// equally likely for a random seed. (Filebench lets each file exist with that probability, so that its
    /// share varies, and does so unseeded.)
    pub fn initial_files(&self, percent: u8, seed: u64) -> Initial {
        let purpose = Purpose::Existence(self.name_hash);
        Initial::new(self.len() as u32, percent, StreamId::of_run(seed, purpose).rng())
    }

    /// As [`Layout::initial_files`], for the leaf directories.
    pub fn initial_leafdirs(&self, percent: u8, seed: u64) -> Initial {
        let purpose = Purpose::Existence(!self.name_hash);
        Initial::new(self.leafdir_count() as u32, percent, StreamId::of_run(seed, purpose).rng())
    }

    /// Bytes of memory that the layout holds.
    pub fn memory_bytes(&self) -> usize {
        let sizes = match &self.sizes {
            Sizes::Equal(_) => 0,
            Sizes::Small(sizes) => 4 * sizes.capacity(),
            Sizes::Any(sizes) => 8 * sizes.capacity(),
        };
        let dirs = size_of::<Dir>() * self.dirs.capacity();
        let leafdirs = size_of::<LeafDir>() * self.leafdirs.capacity();
        4 * self.file_parent.capacity() + sizes + dirs + leafdirs + self.prefixes.memory_bytes()
    }

    #[inline]
    fn write_prefix(&self, dir: u32, path: &mut Vec<u8>) {
        self.prefixes.write(&self.dirs, dir, path);
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut path = Vec::new();
    write(&mut path);
    // Paths are digits and slashes.
    String::from_utf8_lossy(&path).into_owned()
}
