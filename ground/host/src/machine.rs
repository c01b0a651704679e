//! The machine as this crate sees it: /proc, /sys, /dev, beneath a root that tests can move.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use crate::mountinfo::{self, MountEntry};
use crate::text::value_of;

/// Capability number of CAP_SYS_ADMIN (capabilities(7)).
const CAP_SYS_ADMIN: u32 = 21;

/// A view of one machine's /proc, /sys and /dev. `Host::system()` is the real one; a test puts files below a
/// directory of its own and uses `Host::rooted(dir)`.
#[derive(Debug, Clone)]
pub struct Host {
    root: Utf8PathBuf,
    program_dirs: Vec<Utf8PathBuf>,
}

impl Default for Host {
    fn default() -> Self {
        Self::system()
    }
}

impl Host {
    /// The running machine; programs are looked up in PATH and in the administrator's directories.
    pub fn system() -> Self {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut dirs: Vec<Utf8PathBuf> =
            path.split(':').filter(|dir| dir.starts_with('/')).map(Utf8PathBuf::from).collect();
        for dir in ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"] {
            if !dirs.iter().any(|known| known == dir) {
                dirs.push(dir.into());
            }
        }
        Self { root: "/".into(), program_dirs: dirs }
    }

    /// A machine whose files lie below `root`; programs are looked up in `root/bin`.
    pub fn rooted(root: impl Into<Utf8PathBuf>) -> Self {
        let root = root.into();
        Self { program_dirs: vec![root.join("bin")], root }
    }

    /// Where the absolute path `path` of this machine lies.
    pub fn path(&self, path: impl AsRef<Utf8Path>) -> Utf8PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a small file, without the newline at its end. What is not UTF-8 is replaced: one name that somebody gave to a mount
    /// or a process must not hide all others.
    pub fn read(&self, path: impl AsRef<Utf8Path>) -> io::Result<String> {
        let mut text = String::from_utf8_lossy(&std::fs::read(self.path(path))?).into_owned();
        text.truncate(text.trim_end().len());
        Ok(text)
    }

    /// Writes `text` to a file of /proc, /sys or a cgroup.
    pub fn write(&self, path: impl AsRef<Utf8Path>, text: &str) -> io::Result<()> {
        std::fs::write(self.path(path), text)
    }

    /// Whether something exists at `path`.
    pub fn exists(&self, path: impl AsRef<Utf8Path>) -> bool {
        self.path(path).exists()
    }

    /// Names in a directory, sorted; none when it cannot be read.
    pub fn names(&self, path: impl AsRef<Utf8Path>) -> Vec<String> {
        let Ok(dir) = self.path(path).read_dir_utf8() else { return Vec::new() };
        let mut names: Vec<String> = dir.flatten().map(|entry| entry.file_name().to_string()).collect();
        names.sort();
        names
    }

    /// Full path of a program.
    pub fn find_program(&self, name: &str) -> Option<Utf8PathBuf> {
        self.program_dirs.iter().map(|dir| dir.join(name)).find(|path| path.is_file())
    }

    /// The mounts of this process's mount namespace, in the kernel's order (later ones hide earlier ones).
    pub fn mounts(&self) -> io::Result<Vec<MountEntry>> {
        Ok(mountinfo::parse(&self.read("/proc/self/mountinfo")?))
    }

    /// Random identifier of this boot; empty where the kernel gives none.
    pub fn boot_id(&self) -> String {
        self.read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
    }

    /// Bytes of the machine's memory, as far as it says.
    pub fn memory_bytes(&self) -> Option<u64> {
        crate::text::kib_of(&self.read("/proc/meminfo").ok()?, "MemTotal")
    }

    /// Whether this process may mount: CAP_SYS_ADMIN in its effective set.
    pub fn has_sys_admin(&self) -> bool {
        let Ok(status) = self.read("/proc/self/status") else { return false };
        status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
            .is_some_and(|caps| caps >> CAP_SYS_ADMIN & 1 == 1)
    }

    /// Whether this is the machine's first user namespace; within another one, block file systems cannot be
    /// mounted whatever the capabilities say (user_namespaces(7)).
    pub fn in_first_user_namespace(&self) -> bool {
        let Ok(map) = self.read("/proc/self/uid_map") else { return true };
        map.split_whitespace().eq(["0", "0", "4294967295"])
    }

    /// Bytes of memory that programs can have without swapping; none where it cannot be told.
    pub fn available_memory(&self) -> Option<u64> {
        let meminfo = self.read("/proc/meminfo").ok()?;
        let kib: u64 = value_of(&meminfo, "MemAvailable", ':')?.split(' ').next()?.parse().ok()?;
        Some(kib * 1024)
    }

    /// Empties the page cache, dentries and inodes of the whole machine (clean ones only; sync first).
    pub fn drop_caches(&self) -> io::Result<()> {
        self.write("/proc/sys/vm/drop_caches", "3")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_told_in_bytes_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::rooted(Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap());
        assert_eq!(host.available_memory(), None);
        std::fs::create_dir(host.path("/proc")).unwrap();
        host.write("/proc/meminfo", "MemTotal:       2000 kB\nMemAvailable:    900 kB\n").unwrap();
        assert_eq!(host.available_memory(), Some(900 << 10));
    }
}
