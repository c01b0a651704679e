//! The tiny directory that lies below every container's root: places to mount on, and names for user 0.

use camino::{Utf8Path, Utf8PathBuf};

use crate::config::Mount;
use crate::error::{ContainerError, failed};
use crate::inside::{DATA, OWN, PROGRAM, SHARED};

/// Directories of programs and libraries at the top of a system.
const SYSTEM: [&str; 5] = ["/bin", "/sbin", "/lib", "/lib64", "/lib32"];
/// Places to mount on.
const PLACES: [&str; 9] = ["/usr", "/proc", "/dev", "/sys", "/tmp", "/run", DATA, OWN, SHARED];

/// Makes it in `lower`, and says which parts of the host every container sees (read-only).
///
/// # Errors
/// A directory or file cannot be made.
pub fn make(lower: &Utf8Path) -> Result<Vec<Mount>, ContainerError> {
    for place in PLACES.iter().copied().chain(["/etc"]) {
        let path = within(lower, place);
        std::fs::create_dir_all(&path).map_err(failed("making the directory", &path))?;
    }
    let mut mounts = vec![Mount::bind("/usr", "/usr", true), Mount::bind("/sys", "/sys", true)];
    for place in SYSTEM {
        let (host, path) = (Utf8Path::new(place), within(lower, place));
        if let Ok(target) = host.read_link_utf8() {
            // as on systems with all of it below /usr
            std::os::unix::fs::symlink(&target, &path).map_err(failed("making the link", &path))?;
        } else if host.is_dir() {
            std::fs::create_dir(&path).map_err(failed("making the directory", &path))?;
            mounts.push(Mount::bind(place, place, true));
        }
    }
    let files =
        [("/etc/passwd", "root:x:0:0:root:/:/bin/sh\n"), ("/etc/group", "root:x:0:\n"), (PROGRAM, "")];
    for (place, text) in files {
        let path = within(lower, place);
        std::fs::write(&path, text).map_err(failed("writing", &path))?;
    }
    // where libraries are that do not lie in the usual places
    let cache = within(lower, "/etc/ld.so.cache");
    if Utf8Path::new("/etc/ld.so.cache").is_file() {
        std::fs::copy("/etc/ld.so.cache", &cache).map_err(failed("writing", &cache))?;
    }
    Ok(mounts)
}

/// File systems of the kernel that every container has.
pub(crate) fn kernel_mounts() -> Vec<Mount> {
    vec![
        Mount::of("proc", "/proc", &["nosuid", "noexec", "nodev"]),
        Mount::of("tmpfs", "/dev", &["nosuid", "strictatime", "mode=755", "size=64k"]),
    ]
}

/// An absolute path of a container, below `root`.
pub(crate) fn within(root: &Utf8Path, place: &str) -> Utf8PathBuf {
    root.join(place.trim_start_matches('/'))
}
