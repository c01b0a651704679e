//! Reads small files of /proc, /sys and /etc, below a root that tests can move.

use std::path::{Path, PathBuf};

/// Where /proc, /sys, /etc and /dev are.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Self {
        Root(PathBuf::from("/"))
    }
}

impl Root {
    /// A tree that looks like `/`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Root(path.into())
    }

    /// Where `path` (absolute) is really to be found.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The file's text without surrounding blanks; `None` when it cannot be read or is empty.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = std::fs::read(self.path(path)).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_string();
        (!text.is_empty()).then_some(text)
    }

    /// The file's only number.
    pub fn number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The file's only number, as a switch.
    pub fn switch(&self, path: impl AsRef<Path>) -> Option<bool> {
        self.number::<u64>(path).map(|value| value != 0)
    }

    /// The chosen word of a file such as `always [madvise] never`; the whole text when nothing is in
    /// brackets.
    pub fn chosen(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = self.text(path)?;
        let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        Some(chosen.map_or(text.clone(), str::to_string))
    }

    /// `path` with symbolic links followed, in terms of this root.
    pub fn resolve(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let real = self.path(path).canonicalize().ok()?;
        let root = self.0.canonicalize().ok()?;
        Some(Path::new("/").join(real.strip_prefix(root).ok()?))
    }

    /// Names in a directory, sorted; empty when there is none.
    pub fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}
