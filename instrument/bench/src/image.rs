//! ext4 in an image of its own, for cases that need a disk.

use std::path::Path;

use anyhow::Context;

/// Builds ext4 in an image of this size (as stacks write it: `4G`) below `disk`, measures on it, and takes it down, also
/// after an error. Where it cannot be built that is said, and nothing is measured.
pub fn on_ext4(
    disk: &Path,
    size: &str,
    measure: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let work = tempfile::Builder::new().prefix("loadline-bench-").tempdir_in(disk)?;
    let utf8 = |path: &Path| path.to_str().map(str::to_owned).context("the path is not UTF-8");
    let spec: spec::StackSpec = format!("ext4@image:{size}").parse()?;
    let journal = journal::Journal::open(utf8(&work.path().join("journal"))?.as_str().into(), "bench")?;
    let builder = stack::Builder::new(utf8(&work.path().join("images"))?);
    let built = match builder.build(&spec, &journal) {
        Ok(built) => built,
        Err(error) => {
            println!("ext4 image not available, its cases are left out: {error}");
            return Ok(());
        }
    };
    let measured = measure(built.path().as_std_path());
    built.teardown()?;
    measured
}
