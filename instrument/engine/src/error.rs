//! What can go wrong with a run as a whole.

use std::io;

/// Why a run could not be made. (An operation that fails during a run is not an `Error`: the outcome says
/// [`stats::outcome::Ended::Failed`], with what was measured until then.)
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named in the messages")]
pub enum Error {
    #[error("fileset `{fileset}`: path `{path}` leads out of the target; remove the `..` or the zero byte")]
    BadPath { fileset: String, path: String },
    #[error(
        "two filesets share the tree `{tree}` (the other is `{other}`); give them different names or paths"
    )]
    SharedTree { tree: String, other: String },
    #[error("{what} `{path}`: {source}{}", remedy(source))]
    Io { what: &'static str, path: String, source: io::Error },
    #[error(
        "cannot start thread {thread} of process `{process}`: {source}; lower `instances`, or raise the limit \
             on processes (ulimit -u)"
    )]
    Spawn { process: String, thread: u64, source: io::Error },
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Draw(String),
    #[error(
        "block device `{device}` would be written to, which nobody has allowed: `loadline run` does so with --erase; \
         a fileset that is only read says `readonly`"
    )]
    NotErasable { device: String },
    #[error(
        "`createfile` and `deletefile` are not for the block device `{device}`: use `openfile`, or give other filesets \
         names of their own"
    )]
    DeviceChanges { device: String },
    #[error(
        "the workload starts programs by `system`, which is not allowed here: {commands}; allow it with --allow-system, \
             or `allow_system = true` in a study"
    )]
    SystemNotAllowed { commands: String },
    #[error("interrupted while the files were created")]
    Interrupted,
}

impl Error {
    pub(crate) fn io(
        what: &'static str,
        path: impl AsRef<std::path::Path>,
        source: impl Into<io::Error>,
    ) -> Error {
        Error::Io { what, path: path.as_ref().display().to_string(), source: source.into() }
    }
}

/// What helps against an error of the system, to be put behind it; often nothing.
pub(crate) fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => "; use fewer or smaller files, or a larger device",
        Some(libc::EMFILE) => "; raise the limit on open files (ulimit -n)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_device_is_told_with_a_remedy() {
        let told = |number| Error::io("cannot fill", "a/b", io::Error::from_raw_os_error(number)).to_string();
        assert!(
            told(libc::ENOSPC).ends_with("(os error 28); use fewer or smaller files, or a larger device")
        );
        assert!(told(libc::EIO).ends_with("(os error 5)"));
    }
}
