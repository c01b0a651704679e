//! Finds the library and starts a program under it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use prefetch::Mode;

use crate::areas::{self, DIRECTORY_VARIABLE};

/// The library's file name.
pub const LIBRARY: &str = "libloadline_prefetch.so";
/// The environment variable that names the library.
pub const LIBRARY_VARIABLE: &str = "LOADLINE_PREFETCH_LIB";
/// The environment variable that holds the mode.
pub const MODE_VARIABLE: &str = "LOADLINE_PREFETCH";
/// Its value with which the library does nothing.
pub const OFF: &str = "off";
/// The environment variable with the largest file that is fetched for reads without order, MiB.
pub const BUDGET_VARIABLE: &str = "LOADLINE_PREFETCH_MIB";

/// Statistics of ended programs that are kept for `prefetch stat`: 1 MiB of files of 128 KiB.
const ENDED_KEPT: usize = 8;

/// A program cannot be started under the prefetcher.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The library is in none of the places.
    #[error(
        "{LIBRARY} is neither beside {program} nor in ../lib/loadline; install it or set {LIBRARY_VARIABLE}"
    )]
    NoLibrary {
        /// The program that looked.
        program: PathBuf,
    },
    /// `LD_PRELOAD` separates its entries by blanks and colons.
    #[error("the path of the library holds a blank or a colon, which LD_PRELOAD cannot express: {0}")]
    BadPath(PathBuf),
    /// The directory of the statistics cannot be made.
    #[error("no place for statistics: {0}; name a directory of yours in {DIRECTORY_VARIABLE}")]
    Directory(std::io::Error),
    /// No program was named.
    #[error("name a program to run after `--`")]
    NoProgram,
}

/// Finds the library: where [`LIBRARY_VARIABLE`] says, beside the program, in its `../lib/loadline/`, or beside
/// the directory of a test program.
///
/// # Errors
/// [`LaunchError::NoLibrary`].
pub fn find_library(program: &Path) -> Result<PathBuf, LaunchError> {
    if let Some(named) = std::env::var_os(LIBRARY_VARIABLE) {
        return Ok(named.into());
    }
    let beside = program.parent().unwrap_or(Path::new("."));
    let places = [beside.to_owned(), beside.join("../lib/loadline"), beside.join("..")];
    let found = places.iter().map(|place| place.join(LIBRARY)).find(|path| path.exists());
    let found = found.ok_or_else(|| LaunchError::NoLibrary { program: program.to_owned() })?;
    Ok(found.canonicalize().unwrap_or(found))
}

/// How to start a program.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// What the prefetcher does.
    pub mode: Mode,
    /// The largest file that is fetched for reads without order, MiB.
    pub budget_mib: Option<u64>,
    /// Where statistics are kept.
    pub statistics: Statistics,
}

/// Where the statistics of a program are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Statistics {
    /// In [`areas::directory`], or nowhere if that cannot be had: the program matters, on a full disk too.
    #[default]
    IfPossible,
    /// In [`areas::directory`]: they are what the program is run for.
    Needed,
    /// In a directory of the caller's.
    In(PathBuf),
}

impl Statistics {
    fn place(&self) -> std::io::Result<Option<PathBuf>> {
        match self {
            Statistics::IfPossible => Ok(areas::directory().ok()),
            Statistics::Needed => areas::directory().map(Some),
            Statistics::In(directory) => areas::prepare(directory).map(|()| Some(directory.clone())),
        }
    }
}

impl Launch {
    /// A command of a program (with its arguments) under the library.
    ///
    /// # Errors
    /// No program, no library, or no directory for statistics that are needed.
    pub fn command(&self, library: &Path, words: &[OsString]) -> Result<Command, LaunchError> {
        let (program, arguments) = words.split_first().ok_or(LaunchError::NoProgram)?;
        let text = library.as_os_str().as_encoded_bytes();
        if text.iter().any(|byte| byte.is_ascii_whitespace() || *byte == b':') {
            return Err(LaunchError::BadPath(library.to_owned()));
        }
        let directory = self.statistics.place().map_err(LaunchError::Directory)?;
        let mut command = Command::new(program);
        command.args(arguments);
        command.env("LD_PRELOAD", preload(library.as_os_str(), std::env::var_os("LD_PRELOAD").as_deref()));
        command.env(MODE_VARIABLE, self.mode.name());
        match directory {
            Some(directory) => {
                areas::sweep(&directory, ENDED_KEPT);
                command.env(DIRECTORY_VARIABLE, directory);
            }
            None => {
                command.env_remove(DIRECTORY_VARIABLE);
            }
        }
        if let Some(mib) = self.budget_mib {
            command.env(BUDGET_VARIABLE, mib.to_string());
        }
        Ok(command)
    }
}

/// `LD_PRELOAD` with the library in front of what was there.
fn preload(library: &OsStr, before: Option<&OsStr>) -> OsString {
    let mut value = library.to_owned();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        value.push(":");
        value.push(before);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(command: &Command, key: &str) -> Option<OsString> {
        command.get_envs().find(|(name, _)| *name == key).and_then(|(_, value)| Some(value?.to_owned()))
    }

    #[test]
    fn the_library_is_found_beside_the_program_or_in_lib() {
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("bin/loadline");
        std::fs::create_dir_all(home.path().join("bin")).unwrap();
        std::fs::create_dir_all(home.path().join("lib/loadline")).unwrap();
        assert!(matches!(find_library(&program), Err(LaunchError::NoLibrary { .. })));
        std::fs::write(home.path().join("lib/loadline").join(LIBRARY), "").unwrap();
        assert!(find_library(&program).unwrap().ends_with("lib/loadline/libloadline_prefetch.so"));
        std::fs::write(home.path().join("bin").join(LIBRARY), "").unwrap();
        assert!(find_library(&program).unwrap().ends_with("bin/libloadline_prefetch.so"));
    }

    #[test]
    fn the_command_carries_mode_budget_and_directory() {
        let home = tempfile::tempdir().unwrap();
        let launch = Launch {
            mode: Mode::Observe,
            budget_mib: Some(64),
            statistics: Statistics::In(home.path().join("statistics")),
        };
        let words = [OsString::from("cat"), OsString::from("/dev/null")];
        let command = launch.command(Path::new("/opt/lib.so"), &words).unwrap();
        assert_eq!(value(&command, "LOADLINE_PREFETCH").unwrap(), "observe");
        assert_eq!(value(&command, "LOADLINE_PREFETCH_MIB").unwrap(), "64");
        assert!(value(&command, "LD_PRELOAD").unwrap().to_str().unwrap().starts_with("/opt/lib.so"));
        assert!(matches!(launch.command(Path::new("/a b.so"), &words), Err(LaunchError::BadPath(_))));
        assert!(matches!(launch.command(Path::new("/a.so"), &[]), Err(LaunchError::NoProgram)));
    }

    #[test]
    fn statistics_that_are_needed_must_have_a_place() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("file"), "").unwrap();
        let statistics = Statistics::In(home.path().join("file"));
        let launch = Launch { statistics, ..Launch::default() };
        let error = launch.command(Path::new("/a.so"), &[OsString::from("cat")]).unwrap_err();
        assert!(error.to_string().contains(DIRECTORY_VARIABLE), "{error}");
    }

    #[test]
    fn a_start_leaves_a_mebibyte_of_statistics_of_ended_programs_at_most() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("statistics");
        areas::prepare(&place).unwrap();
        for pid in 4_000_001..4_000_066 {
            // no process has such a number
            std::fs::write(place.join(pid.to_string()), vec![0; crate::area::BYTES]).unwrap();
        }
        let launch = Launch { statistics: Statistics::In(place.clone()), ..Launch::default() };
        launch.command(Path::new("/a.so"), &[OsString::from("cat")]).unwrap();
        let files = std::fs::read_dir(&place).unwrap().flatten();
        let bytes: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
        assert!(bytes <= 2 << 20, "{bytes} bytes of statistics stay");
    }

    #[test]
    fn other_preloads_stay() {
        assert_eq!(preload(OsStr::new("/a.so"), Some(OsStr::new("/b.so /c.so"))), "/a.so:/b.so /c.so");
        assert_eq!(preload(OsStr::new("/a.so"), Some(OsStr::new(""))), "/a.so");
    }
}
