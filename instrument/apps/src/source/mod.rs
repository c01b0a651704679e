//! The source tree, its archive and its history: made once, kept below the home, read by many trials.
//!
//! The paper's tree is linux-3.11.10 (some 44,600 files, 500 MB). Ours is cut from Debian's package
//! `linux-source-6.1`; without a network a synthetic tree of the same shape takes its place, and its label says so.
//!
//! | module | holds |
//! |---|---|
//! | `debian` | the package, fetched by apt |
//! | `synthetic` | a tree made of random words |
//! | `history` | a git history between two far-apart tags |

mod debian;
mod history;
mod synthetic;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::at;
use crate::programs::program;
use crate::{AppError, Parameters};

pub use history::{NEW_TAG, OLD_TAG, history};

/// The folder of a home in which it lies.
pub(crate) const FOLDER: &str = "sources";

/// How much of the source tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subset {
    /// `kernel mm fs lib ipc block crypto`: some 3,700 files, 70 MB.
    Small,
    /// Also `include net security sound arch/x86 drivers/net`: some 21,000 files, 320 MB.
    Medium,
    /// All of it: some 79,000 files, 1.3 GB; the paper's tree has 44,600.
    Full,
}

impl Subset {
    /// Takes the parameter `subset`.
    ///
    /// # Errors
    /// Another word than `small`, `medium`, `full`.
    pub fn take(parameters: &mut Parameters) -> Result<Subset, AppError> {
        match parameters.word("subset", "small").as_str() {
            "small" => Ok(Subset::Small),
            "medium" => Ok(Subset::Medium),
            "full" => Ok(Subset::Full),
            other => Err(AppError::Parameter(format!("subset = {other} is none of small, medium, full"))),
        }
    }

    /// Its word as a parameter.
    pub fn word(self) -> &'static str {
        match self {
            Subset::Small => "small",
            Subset::Medium => "medium",
            Subset::Full => "full",
        }
    }

    /// The folders of the tree that belong to it; empty: all.
    fn folders(self) -> &'static [&'static str] {
        const MEDIUM: [&str; 13] = [
            "kernel",
            "mm",
            "fs",
            "lib",
            "ipc",
            "block",
            "crypto",
            "include",
            "net",
            "security",
            "sound",
            "arch/x86",
            "drivers/net",
        ];
        match self {
            Subset::Small => &MEDIUM[..7],
            Subset::Medium => &MEDIUM,
            Subset::Full => &[],
        }
    }

    /// Number of files, roughly.
    pub fn files_guess(self) -> u64 {
        match self {
            Subset::Small => 3_650,
            Subset::Medium => 21_200,
            Subset::Full => 78_600,
        }
    }

    fn bytes_guess(self) -> u64 {
        match self {
            Subset::Small => 71_000_000,
            Subset::Medium => 327_000_000,
            Subset::Full => 1_298_000_000,
        }
    }
}

/// Something that was made once and lies ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedSource {
    /// Where it lies.
    pub path: PathBuf,
    /// What it is, for whoever reads a result.
    pub label: String,
}

/// The source tree of a subset.
///
/// # Errors
/// It cannot be written.
pub fn tree(home: &Path, subset: Subset, tell: &mut dyn FnMut(&str)) -> Result<PreparedSource, AppError> {
    once(home, &format!("tree-{}", subset.word()), "linux", |path| {
        let origin = match debian::unpack(&folder(home), subset.folders(), path, tell) {
            Ok(version) => format!("linux-source-6.1 {version}"),
            Err(error) => {
                tell(&format!("no Debian source package ({error}): making a synthetic tree"));
                let _ = std::fs::remove_dir_all(path);
                synthetic::tree(path, subset.files_guess(), subset.bytes_guess())?;
                "synthetic tree (no Debian source package)".to_string()
            }
        };
        let (files, bytes) = measure(path)?;
        let which = match subset.folders() {
            [] => "all of it".to_string(),
            some => some.join(" "),
        };
        Ok(format!("{origin}, {which}: {files} files, {:.1} MB", bytes as f64 / 1e6))
    })
}

/// The tree as `linux.tar.xz`.
///
/// # Errors
/// It cannot be made.
pub fn archive(home: &Path, subset: Subset, tell: &mut dyn FnMut(&str)) -> Result<PreparedSource, AppError> {
    let tree = tree(home, subset, tell)?;
    once(home, &format!("archive-{}", subset.word()), "linux.tar.xz", |path| {
        tell("packing the source tree (xz)");
        let from = tree.path.parent().unwrap_or(&tree.path);
        program("tar", "tar")?
            .env("XZ_OPT", "-3 -T2")
            .arg("-cJf")
            .arg(path)
            .arg("-C")
            .arg(from)
            .arg("linux")
            .output()?;
        let bytes = std::fs::metadata(path).map_err(at(path))?.len();
        Ok(format!("{}; {:.1} MB as tar.xz", tree.label, bytes as f64 / 1e6))
    })
}

/// Where all of it lies.
fn folder(home: &Path) -> PathBuf {
    home.join(FOLDER)
}

/// The folder of a home that holds what applications make once, made if it is missing.
///
/// # Errors
/// Others could put something into it, which would be read or started with this process's rights.
pub(crate) fn own_folder(home: &Path) -> Result<PathBuf, AppError> {
    let utf8 = camino::Utf8Path::from_path(home);
    let utf8 = utf8.ok_or_else(|| at(home)(std::io::Error::other("the path is not UTF-8")))?;
    let folder = host::place::own_below(utf8, FOLDER).map_err(|error| at(home)(error.into()))?;
    Ok(folder.into())
}

/// What lies ready under `name`, or is made now by `make`, which gets the path of `file` in a private folder. A
/// thing is there when its label is: that is written last, and the folder then gets its name.
fn once(
    home: &Path,
    name: &str,
    file: &str,
    make: impl FnOnce(&Path) -> Result<String, AppError>,
) -> Result<PreparedSource, AppError> {
    let place = own_folder(home)?.join(name);
    let label = |place: &Path| std::fs::read_to_string(place.join("LABEL"));
    if let Ok(label) = label(&place) {
        return Ok(PreparedSource { path: place.join(file), label });
    }
    let made = private_tree(home)?;
    let private = made.path().as_std_path().join("made");
    std::fs::create_dir(&private).map_err(at(&private))?;
    let text = make(&private.join(file))?;
    let marker = private.join("LABEL");
    std::fs::write(&marker, &text).map_err(at(&marker))?;
    // Somebody else may have made it meanwhile: then theirs counts.
    let _ = std::fs::rename(&private, &place);
    let label = label(&place).map_err(at(&place))?;
    Ok(PreparedSource { path: place.join(file), label })
}

/// A private folder that is in a journal, so that a killed run leaves nothing half made.
fn private_tree(home: &Path) -> Result<journal::PrivateTree, AppError> {
    let failed = |error: &dyn std::fmt::Display| at(&folder(home))(std::io::Error::other(error.to_string()));
    let utf8 = |path: PathBuf| {
        let path = path.canonicalize().map_err(|error| failed(&error))?;
        camino::Utf8PathBuf::from_path_buf(path).map_err(|_| failed(&"the path is not UTF-8"))
    };
    let journals = journal::Journal::folder(&utf8(home.to_path_buf())?);
    let journal = journal::Journal::open(&journals, &format!("source.{}", std::process::id()));
    let journal = journal.map_err(|error| failed(&error))?;
    journal::PrivateTree::new(&journal, &utf8(folder(home))?).map_err(|error| failed(&error))
}

/// Number of files below a folder, and their bytes.
fn measure(path: &Path) -> Result<(u64, u64), AppError> {
    let (mut files, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(path).map_err(at(path))? {
        let entry = entry.map_err(at(path))?;
        let meta = entry.metadata().map_err(at(path))?;
        if meta.is_dir() {
            let (more, longer) = measure(&entry.path())?;
            (files, bytes) = (files + more, bytes + longer);
        } else if meta.is_file() {
            (files, bytes) = (files + 1, bytes + meta.len());
        }
    }
    Ok((files, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_made_once_and_a_failure_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let failed = once(home.path(), "a", "f", |_| Err(AppError::Protocol("no".into())));
        assert!(failed.is_err());
        assert_eq!(std::fs::read_dir(folder(home.path())).unwrap().count(), 0);
        for _ in 0..2 {
            let mut made = 0;
            let ready = once(home.path(), "a", "f", |path| {
                made += 1;
                std::fs::write(path, "x").map_err(at(path))?;
                Ok("label".into())
            })
            .unwrap();
            assert_eq!((ready.label.as_str(), ready.path.exists()), ("label", true));
        }
        assert!(once(home.path(), "a", "f", |_| unreachable!("it is there")).is_ok());
    }

    #[test]
    fn a_synthetic_tree_has_what_the_scans_look_for() {
        let home = tempfile::tempdir().unwrap();
        let tree = home.path().join("linux");
        synthetic::tree(&tree, 300, 3_000_000).unwrap();
        let (files, bytes) = measure(&tree).unwrap();
        assert_eq!(files, 300);
        assert!((1_500_000..6_000_000).contains(&bytes), "{bytes}");
        let grep = program("grep", "grep").unwrap().args(["-rl", "cpu_to_be64"]).arg(&tree).output().unwrap();
        assert!(!grep.stdout.is_empty());
        let find =
            program("find", "findutils").unwrap().arg(&tree).args(["-name", "wait.c"]).output().unwrap();
        assert!(!find.stdout.is_empty());
    }
}
