//! Which processes are watched.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Cgroups below the given one that are looked at.
const DEPTH_MAX: usize = 16;

/// Whom to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The processes of a cgroup and of those below it, of either version, also ones that come later.
    Cgroup(PathBuf),
    /// Processes, and those they make.
    Pids(Vec<u32>),
    /// A program that is started, and the processes it makes.
    Command(Vec<OsString>),
}

/// A target that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// No such cgroup.
    #[error("there is no cgroup {0}: give its directory, or its path below /sys/fs/cgroup")]
    NoCgroup(PathBuf),
    /// No such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The daemon would watch itself.
    #[error("the daemon itself is in {0}: start it from outside, its own reads must not be followed")]
    Inside(PathBuf),
    /// No program was named.
    #[error("name a cgroup, a process, or a program after `--`")]
    Nothing,
}

impl Target {
    /// Completes the path of a cgroup and looks whether everything exists.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn resolve(self) -> Result<Target, TargetError> {
        match self {
            Target::Cgroup(path) => {
                let directory = directory_of(&path).ok_or(TargetError::NoCgroup(path))?;
                if threads_of_cgroup(&directory, 0).contains(&std::process::id()) {
                    return Err(TargetError::Inside(directory));
                }
                Ok(Target::Cgroup(directory))
            }
            Target::Pids(pids) => {
                if let Some(gone) = pids.iter().find(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                    return Err(TargetError::NoProcess(*gone));
                }
                if pids.contains(&std::process::id()) {
                    return Err(TargetError::Inside("the list of processes".into()));
                }
                if pids.is_empty() { Err(TargetError::Nothing) } else { Ok(Target::Pids(pids)) }
            }
            Target::Command(words) if words.is_empty() => Err(TargetError::Nothing),
            command => Ok(command),
        }
    }

    /// All its threads at this moment; a command has none before it is started.
    pub fn threads(&self) -> Vec<u32> {
        match self {
            Target::Cgroup(directory) => threads_of_cgroup(directory, 0),
            Target::Pids(pids) => pids.iter().flat_map(|pid| threads_of(*pid)).collect(),
            Target::Command(_) => Vec::new(),
        }
    }

    /// Whether all its processes have ended; never told of a cgroup, nor of a command.
    pub fn has_ended(&self) -> bool {
        match self {
            Target::Pids(pids) => pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()),
            _ => false,
        }
    }

    /// Its name in the statistics.
    pub fn name(&self) -> String {
        let what = match self {
            Target::Cgroup(path) => path.strip_prefix("/sys/fs/cgroup").unwrap_or(path).display().to_string(),
            Target::Pids(pids) => {
                let words: Vec<String> = pids.iter().map(u32::to_string).collect();
                words.join(",")
            }
            Target::Command(words) => {
                let name = words.first().map(|word| Path::new(word).file_name().unwrap_or(word));
                name.unwrap_or_default().display().to_string()
            }
        };
        format!("daemon:{what}")
    }
}

fn directory_of(path: &Path) -> Option<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let below = path.strip_prefix("/").unwrap_or(path);
    let places = [
        path.to_owned(),
        root.join(below),
        root.join("memory").join(below),
        root.join("unified").join(below),
    ];
    places.into_iter().find(|place| place.join("cgroup.procs").is_file())
}

/// Version 1 lists threads in `tasks`, version 2 in `cgroup.threads`.
fn threads_of_cgroup(directory: &Path, depth: usize) -> Vec<u32> {
    let list = |name| fs::read_to_string(directory.join(name)).ok();
    let text = list("cgroup.threads").or_else(|| list("tasks")).unwrap_or_default();
    let mut tids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    if depth < DEPTH_MAX {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            tids.extend(threads_of_cgroup(&entry.path(), depth + 1));
        }
    }
    tids
}

fn threads_of(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_named() {
        let own = std::process::id();
        assert_eq!(Target::Pids(vec![4_000_000_000]).resolve(), Err(TargetError::NoProcess(4_000_000_000)));
        assert!(matches!(Target::Pids(vec![own]).resolve(), Err(TargetError::Inside(_))));
        assert_eq!(Target::Pids(vec![]).resolve(), Err(TargetError::Nothing));
        assert_eq!(Target::Command(vec![]).resolve(), Err(TargetError::Nothing));
        assert!(matches!(Target::Cgroup("no/such/group".into()).resolve(), Err(TargetError::NoCgroup(_))));
    }

    #[test]
    fn cgroups_are_read_with_those_below() {
        let root = tempfile::tempdir().unwrap();
        let below = root.path().join("below");
        fs::create_dir(&below).unwrap();
        for (directory, text) in [(root.path(), "1\n2\n"), (&below, "77\n")] {
            fs::write(directory.join("cgroup.procs"), "").unwrap();
            fs::write(directory.join("tasks"), text).unwrap();
        }
        let target = Target::Cgroup(root.path().to_owned()).resolve().unwrap();
        assert_eq!(target.threads(), [1, 2, 77]);
        fs::write(below.join("cgroup.threads"), std::process::id().to_string()).unwrap();
        assert!(matches!(target.resolve(), Err(TargetError::Inside(_))));
    }

    #[test]
    fn names_are_short_and_threads_are_found() {
        assert_eq!(Target::Command(vec!["/usr/bin/reader".into(), "x".into()]).name(), "daemon:reader");
        assert_eq!(Target::Pids(vec![1, 2]).name(), "daemon:1,2");
        assert!(Target::Pids(vec![std::process::id()]).threads().contains(&std::process::id()));
        assert!(!Target::Pids(vec![1]).has_ended());
    }
}
