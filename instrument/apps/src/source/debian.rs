//! Debian's source package, fetched by apt as anybody would.

use std::path::{Path, PathBuf};

use crate::AppError;
use crate::error::at;
use crate::programs::program;

const PACKAGE: &str = "linux-source-6.1";

/// Unpacks these folders of the source tree (none: all) to `to`, fetching the package into `cache` when it is not
/// there. Returns the package's version.
pub(super) fn unpack(
    cache: &Path,
    folders: &[&str],
    to: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<String, AppError> {
    let package = match fetched(cache) {
        Some(package) => package,
        None => {
            tell(&format!("fetching Debian's {PACKAGE} (140 MB) with apt-get download"));
            std::fs::create_dir_all(cache).map_err(at(cache))?;
            program("apt-get", "apt")?.args(["download", "-q", PACKAGE]).in_folder(cache).output()?;
            fetched(cache).ok_or_else(|| AppError::Protocol(format!("apt-get download left no {PACKAGE}")))?
        }
    };
    tell("unpacking the source tree (some 30 seconds, once)");
    std::fs::create_dir_all(to).map_err(at(to))?;
    // The package is an archive that holds an archive.
    let script = "dpkg-deb --fsys-tarfile \"$1\" | tar -xO ./usr/src/linux-source-6.1.tar.xz \
                  | { out=$2; shift 2; exec tar -xJ --no-same-owner --strip-components=1 -C \"$out\" -f - \"$@\"; }";
    let members = folders.iter().map(|folder| format!("{PACKAGE}/{folder}"));
    program("bash", "bash")?
        .args(["-o", "pipefail", "-c", script, "sh"])
        .arg(&package)
        .arg(to)
        .args(members)
        .output()?;
    let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(name.split('_').nth(1).unwrap_or("?").to_string())
}

fn fetched(cache: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(cache).ok()?.flatten().map(|entry| entry.path());
    let is_package = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&format!("{PACKAGE}_")) && name.ends_with(".deb")
    };
    entries.into_iter().filter(is_package).max()
}
