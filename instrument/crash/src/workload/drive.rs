//! Carrying out a script, with a mark before and after every operation.

use std::fs::File;
use std::os::unix::fs::FileExt;

use camino::Utf8Path;
use thiserror::Error;

use super::{Op, Script, data};
use crate::recording::Mark;

/// An operation of a workload failed.
#[derive(Debug, Error)]
#[error("operation {number}, {op}: {source}")]
pub struct DriveError {
    /// Its number, from 0.
    pub number: usize,
    /// The operation.
    pub op: String,
    /// The system's error.
    pub source: std::io::Error,
}

/// Carries out the operations `which` of a script in the directory `root`. `mark` is called before and after
/// each.
///
/// # Errors
/// The first operation that fails, or the first mark.
pub fn drive<E: From<DriveError>>(
    script: &Script,
    which: std::ops::Range<usize>,
    root: &Utf8Path,
    mut mark: impl FnMut(Mark) -> Result<(), E>,
) -> Result<(), E> {
    for number in which {
        let op = &script.ops[number];
        mark(Mark::Begin(number))?;
        apply(op, root).map_err(|source| DriveError { number, op: op.to_string(), source })?;
        mark(Mark::Return(number))?;
    }
    Ok(())
}

fn apply(op: &Op, root: &Utf8Path) -> std::io::Result<()> {
    let at = |path: &str| if path.is_empty() { root.to_owned() } else { root.join(path) };
    let open = |path: &str| File::options().write(true).open(at(path));
    match op {
        Op::Create { path, .. } => File::options().write(true).create_new(true).open(at(path)).map(|_| ()),
        Op::Write { path, file, version, place, sectors } => {
            let bytes = data::data(*file, *version, *place, *sectors);
            open(path)?.write_all_at(&bytes, u64::from(*place) * data::SECTOR as u64)
        }
        Op::Truncate { path, sectors } => open(path)?.set_len(u64::from(*sectors) * data::SECTOR as u64),
        Op::Fsync(path) => open(path)?.sync_all(),
        Op::Fdatasync(path) => open(path)?.sync_data(),
        Op::FsyncDir(path) => File::open(at(path))?.sync_all(),
        Op::Sync => Ok(rustix::fs::syncfs(&File::open(root)?)?),
        Op::Rename(from, to) => std::fs::rename(at(from), at(to)),
        Op::Link(from, to) => std::fs::hard_link(at(from), at(to)),
        Op::Unlink(path) => std::fs::remove_file(at(path)),
        Op::Mkdir(path) => std::fs::create_dir(at(path)),
        Op::Rmdir(path) => std::fs::remove_dir(at(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{NAMES, builtin};

    #[test]
    fn every_built_in_workload_runs() {
        for (name, _) in NAMES {
            for seed in 0..6 {
                let dir = tempfile::tempdir().unwrap();
                let root = Utf8Path::from_path(dir.path()).unwrap();
                let script = builtin(name, seed).unwrap();
                let mut marks = Vec::new();
                let done = drive::<DriveError>(&script, 0..script.ops.len(), root, |mark| {
                    marks.push(mark);
                    Ok(())
                });
                done.unwrap_or_else(|error| panic!("{name} seed {seed}: {error}"));
                assert_eq!(marks.len(), 2 * script.ops.len());
                assert_eq!(marks[..2], [Mark::Begin(0), Mark::Return(0)]);
            }
        }
    }

    #[test]
    fn a_failed_operation_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let script = Script { name: "x".into(), ops: vec![Op::Unlink("gone".into())], setup: 0 };
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let error = drive::<DriveError>(&script, 0..1, root, |_| Ok(())).unwrap_err();
        assert!(error.to_string().starts_with("operation 0, unlink gone: No such file"), "{error}");
    }
}
