//! How each need is found, with the reason and the remedy when it is not. Nothing here asks the code under test: a
//! fault there must not make its own tests go away.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::{Need, Unmet};

/// Number of the capability CAP_SYS_ADMIN.
const CAP_SYS_ADMIN: u32 = 21;
/// As the crate `prefetch-preload` is called once it is built.
const LIBRARY: &str = "libloadline_prefetch.so";
/// Where `scripts/setup.sh --tests` puts a kernel for guests, and how its name begins.
const KERNELS: &str = "/var/cache/loadline/kernels";
const KERNEL: &str = "linux-image-6.12.";
const AS_ROOT: &str = "run as root";
const AS_REAL_ROOT: &str = "run as root, outside of a container without privileges";

type Found = Result<(), Unmet>;

fn unmet(reason: impl Into<String>, remedy: impl Into<String>) -> Found {
    Err(Unmet { reason: reason.into(), remedy: remedy.into() })
}

impl Need {
    /// Looks whether the machine has it. Changes nothing.
    ///
    /// # Errors
    /// The reason and the remedy when it has not.
    pub fn check(self) -> Found {
        match self {
            Need::Root => root(),
            Need::Mounts => mounts(),
            Need::Loop => opens("/dev/loop-control", "loop"),
            Need::Fuse => opens("/dev/fuse", "fuse"),
            Need::Rings => rings(),
            Need::Ublk => opens("/dev/ublk-control", "ublk_drv"),
            Need::MemoryCgroup => memory_cgroup(),
            Need::Tracing => tracing(),
            Need::IoUring => io_uring(),
            Need::Library => library(),
            Need::Ext4 => self.tools(&["mkfs.ext4", "e2fsck"]).and_then(|()| kernel_has("ext4")),
            Need::Xfs => self.tools(&["mkfs.xfs", "xfs_repair"]).and_then(|()| kernel_has("xfs")),
            Need::Btrfs => self.tools(&["mkfs.btrfs", "btrfs"]).and_then(|()| kernel_has("btrfs")),
            Need::Ext4Tools => self.tools(&["mkfs.ext4", "e2fsck"]),
            Need::XfsTools => self.tools(&["mkfs.xfs", "xfs_repair"]),
            Need::BtrfsTools => self.tools(&["mkfs.btrfs", "btrfs"]),
            Need::Dovecot => self.tools(&["dovecot"]).and_then(|()| self.file("/usr/lib/dovecot/imap")),
            Need::RocksDb => rocksdb(self),
            Need::Runc => self.tools(&["runc"]),
            Need::Dbench => self.tools(&["dbench"]).and_then(|()| self.file("/usr/share/dbench/client.txt")),
            Need::Cc => self.tools(&["cc"]),
            Need::Git => self.tools(&["git"]),
            Need::Rsync => self.tools(&["rsync"]),
            Need::Sqlite3 => self.tools(&["sqlite3"]),
            Need::MariaDb => self.tools(&["mariadbd", "mariadb-install-db"]),
            Need::MyRocks => {
                Need::MariaDb.check().and_then(|()| self.file("/usr/lib/mysql/plugin/ha_rocksdb.so"))
            }
            Need::Postgres => self.file("/usr/lib/postgresql"),
            Need::Redis => self.tools(&["redis-server"]),
            Need::Chromium => self.tools(&["chromium"]),
            Need::Sshfs => self.tools(&["sshfs"]).and_then(|()| self.file("/usr/lib/openssh/sftp-server")),
            Need::Guest => {
                self.tools(&["qemu-system-x86_64", "mkfs.f2fs", "xz"]).and_then(|()| kernel_for_guests())
            }
            Need::Tool { program, .. } => self.tools(&[program]),
        }
    }

    fn tools(self, programs: &[&str]) -> Found {
        match programs.iter().find(|name| find(name).is_none()) {
            Some(name) => unmet(format!("the program `{name}` is not found"), self.install()),
            None => Ok(()),
        }
    }

    fn file(self, path: &str) -> Found {
        if Path::new(path).exists() { Ok(()) } else { unmet(format!("there is no {path}"), self.install()) }
    }

    fn install(self) -> String {
        let package = self.package().unwrap_or_default();
        format!("install it (scripts/setup.sh --tests, or apt install {package})")
    }
}

/// Full path of a program; the directories for root's programs are not on everybody's path.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(sbin).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A kernel of Debian, unpacked where all users find it: no test waits for a network.
fn kernel_for_guests() -> Found {
    let names = std::fs::read_dir(KERNELS).into_iter().flatten().flatten();
    let whole = |entry: &std::fs::DirEntry| {
        entry.file_name().to_string_lossy().starts_with(KERNEL) && entry.path().join("package").exists()
    };
    match names.into_iter().any(|entry| whole(&entry)) {
        true => Ok(()),
        false => {
            unmet(format!("no {KERNEL}* in {KERNELS}"), "run scripts/setup.sh --tests, on Debian and as root")
        }
    }
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn root() -> Found {
    if rustix::process::geteuid().is_root() { Ok(()) } else { unmet("not root", AS_ROOT) }
}

fn mounts() -> Found {
    let status = text("/proc/self/status");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    if effective >> CAP_SYS_ADMIN & 1 == 0 {
        root()?;
        return unmet("this process may not mount (no CAP_SYS_ADMIN)", AS_REAL_ROOT);
    }
    if !text("/proc/self/uid_map").split_whitespace().eq(["0", "0", "4294967295"]) {
        return unmet("within a user namespace no block device is mounted", AS_REAL_ROOT);
    }
    match find("mount") {
        Some(_) => Ok(()),
        None => unmet("the program `mount` is not found", "install it (apt install mount)"),
    }
}

fn opens(device: &str, module: &str) -> Found {
    match File::options().read(true).write(true).open(device) {
        Ok(_) => Ok(()),
        Err(error) => unmet(format!("{device}: {error}"), format!("modprobe {module}, and {AS_REAL_ROOT}")),
    }
}

fn rings() -> Found {
    let switch = "/sys/module/fuse/parameters/enable_uring";
    match File::options().write(true).open(switch) {
        Ok(_) => Ok(()),
        Err(error) => {
            unmet(format!("{switch}: {error}"), "use Linux 6.14 with CONFIG_FUSE_IO_URING, and run as root")
        }
    }
}

fn memory_cgroup() -> Found {
    root()?;
    let table = text("/proc/self/mountinfo");
    let place = table.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let at = before.split(' ').nth(4)?;
        let (kind, options) = (after.split(' ').next()?, after.rsplit(' ').next()?);
        let memory = match kind {
            "cgroup" => options.split(',').any(|option| option == "memory"),
            "cgroup2" => text(&format!("{at}/cgroup.controllers")).split_whitespace().any(|c| c == "memory"),
            _ => false,
        };
        memory.then(|| PathBuf::from(at))
    });
    let Some(place) = place else {
        return unmet("no cgroup hierarchy has the memory controller", "boot without cgroup_disable=memory");
    };
    match rustix::fs::access(&place, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Ok(()),
        Err(error) => unmet(format!("{}: {error}", place.display()), AS_REAL_ROOT),
    }
}

fn tracing() -> Found {
    mounts()?;
    let known = text("/proc/filesystems");
    if known.lines().any(|line| line.split_whitespace().last() == Some("tracefs")) {
        return Ok(());
    }
    unmet("this kernel has no tracefs", "use a kernel with CONFIG_FTRACE")
}

fn io_uring() -> Found {
    match io_uring::IoUring::new(2) {
        Ok(_) => Ok(()),
        Err(error) => unmet(
            format!("the kernel gives no io_uring: {error}"),
            "set /proc/sys/kernel/io_uring_disabled to 0; in a container, allow io_uring_setup",
        ),
    }
}

/// A test program lies in `PROFILE/deps`, the library in `PROFILE`, beside the programs that look for it there.
fn library() -> Found {
    let own = std::env::current_exe().unwrap_or_default();
    let place = own.ancestors().nth(2).unwrap_or(&own);
    if place.join(LIBRARY).is_file() {
        return Ok(());
    }
    let reason = format!("{} has no {LIBRARY}", place.display());
    unmet(reason, "build it (cargo build -p loadline-prefetch-preload)")
}

fn kernel_has(fs: &str) -> Found {
    let known = text("/proc/filesystems");
    let release = text("/proc/sys/kernel/osrelease");
    let modules = text(&format!("/lib/modules/{}/modules.dep", release.trim()));
    let module = format!("/{fs}.ko");
    if known.lines().any(|line| line.split_whitespace().last() == Some(fs))
        || modules.lines().any(|line| line.split(':').next().is_some_and(|path| path.contains(&module)))
    {
        return Ok(());
    }
    unmet(format!("this kernel has no {fs}"), format!("use a kernel with CONFIG_{}_FS", fs.to_uppercase()))
}

fn rocksdb(need: Need) -> Found {
    let listed = std::process::Command::new(find("ldconfig").unwrap_or_default()).arg("-p").output();
    let listed = listed.map(|output| output.stdout).unwrap_or_default();
    if String::from_utf8_lossy(&listed).contains("librocksdb.so") {
        return Ok(());
    }
    unmet("librocksdb is not found", need.install())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_a_reason_and_a_remedy() {
        let tool = |program| Need::Tool { program, package: "some-package" };
        assert_eq!(tool("sh").check(), Ok(()));
        let missing = tool("no-such-program").check().unwrap_err().to_string();
        assert!(missing.contains("`no-such-program` is not found; install it"), "{missing}");
        assert!(missing.contains("apt install some-package"), "{missing}");
        let device = opens("/dev/no-such-device", "nothing").unwrap_err().to_string();
        assert!(
            device.contains("/dev/no-such-device: No such file") && device.contains("modprobe"),
            "{device}"
        );
        assert!(kernel_has("no-such-fs").is_err() && kernel_has("proc").is_ok());
        for need in Need::ALL {
            if let Err(unmet) = need.check() {
                assert!(!unmet.reason.is_empty() && !unmet.remedy.is_empty(), "{need}");
                assert!(!unmet.to_string().contains(['\n', '\t']), "{need}: {unmet}");
            }
        }
    }
}
