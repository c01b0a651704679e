//! The library: where it is, and commands of a program with it and without.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use prefetch::Mode;
use prefetch_os::areas;
use prefetch_os::launch::{self, LIBRARY, Launch, MODE_VARIABLE, OFF, Statistics};

use crate::AppError;
use crate::error::at;

/// The library, and what it is to do.
#[derive(Debug, Clone)]
pub struct Library {
    /// Its file.
    pub path: PathBuf,
    /// None: it is loaded and does nothing.
    pub mode: Option<Mode>,
}

impl Library {
    /// The one that is named, or where this program finds it.
    ///
    /// # Errors
    /// There is none.
    pub fn find(named: Option<&Path>, mode: Option<Mode>) -> Result<Library, AppError> {
        let found = match named {
            Some(path) => path.to_owned(),
            None => launch::find_library(&own()?)?,
        };
        Ok(Library { path: found.canonicalize().map_err(at(&found))?, mode })
    }

    /// A program and its arguments under the library, which keeps its statistics in a directory.
    ///
    /// # Errors
    /// No program, a library that cannot be named, or a directory that cannot be made.
    pub fn command(&self, words: &[OsString], statistics: &Path) -> Result<Command, AppError> {
        let launch = Launch {
            mode: self.mode.unwrap_or_default(),
            budget_mib: None,
            statistics: Statistics::In(statistics.to_owned()),
        };
        let mut command = launch.command(&self.path, words)?;
        if self.mode.is_none() {
            command.env(MODE_VARIABLE, OFF);
        }
        Ok(command)
    }
}

/// Makes `name` a name of this program, as a hard link, or a copy where there can be none: the library leaves programs
/// named `loadline` alone.
///
/// # Errors
/// It cannot be made.
pub fn name_this_program(name: &Path) -> Result<(), AppError> {
    let own = own()?;
    if std::fs::hard_link(&own, name).is_err() {
        std::fs::copy(&own, name).map_err(at(name))?;
    }
    Ok(())
}

pub(super) fn own() -> Result<PathBuf, AppError> {
    std::env::current_exe().map_err(at(Path::new("/proc/self/exe")))
}

/// Whether any program that kept its statistics there had a file that the library followed.
pub fn has_followed(statistics: &Path) -> bool {
    !areas::all(&[statistics]).is_empty()
}

/// A program and its arguments without the library, even when this program was started under it.
///
/// # Errors
/// No program.
pub fn without(words: &[OsString]) -> Result<Command, AppError> {
    let (program, arguments) = words.split_first().ok_or(launch::LaunchError::NoProgram)?;
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(loaded) = std::env::var_os("LD_PRELOAD") {
        command.env("LD_PRELOAD", other_preloads(&loaded));
    }
    Ok(command)
}

/// `LD_PRELOAD` without the library.
fn other_preloads(loaded: &OsStr) -> OsString {
    let text = loaded.to_string_lossy();
    let others = text.split([':', ' ']).filter(|path| !path.ends_with(LIBRARY));
    others.collect::<Vec<_>>().join(":").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_alone_has_not_the_library_but_what_else_was_loaded() {
        let loaded = format!("/opt/lib/{LIBRARY}:/a.so /b.so");
        assert_eq!(other_preloads(OsStr::new(&loaded)), "/a.so:/b.so");
        assert_eq!(other_preloads(OsStr::new(LIBRARY)), "");
        assert!(without(&[]).is_err());
    }

    #[test]
    fn the_control_loads_the_library_and_has_it_do_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let words = [OsString::from("true")];
        let mode = |mode| {
            let library = Library { path: "/opt/lib.so".into(), mode };
            let command = library.command(&words, &scratch.path().join("statistics")).unwrap();
            let value = |name: &str| {
                let (_, value) = command.get_envs().find(|(known, _)| *known == name).unwrap();
                value.unwrap().to_str().unwrap().to_owned()
            };
            assert!(value("LD_PRELOAD").starts_with("/opt/lib.so"));
            value(MODE_VARIABLE)
        };
        assert_eq!([mode(None), mode(Some(Mode::Predict))], ["off", "predict"]);
    }

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let error = Library::find(Some(Path::new("/nowhere.so")), None).unwrap_err().to_string();
        assert!(error.contains("/nowhere.so"), "{error}");
    }
}
