//! The needs by name.

use std::fmt;

/// Something of the machine without which a test cannot run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Effective user 0.
    Root,
    /// Mounting file systems on block devices: CAP_SYS_ADMIN in the first user namespace, and mount(8).
    Mounts,
    /// Loop devices that may be attached.
    Loop,
    /// `/dev/fuse` may be opened.
    Fuse,
    /// FUSE requests through io_uring, which may be switched on (Linux 6.14).
    Rings,
    /// Block devices served by a process (ublk, Linux 6.4).
    Ublk,
    /// A cgroup with a memory limit may be made.
    MemoryCgroup,
    /// The kernel's tracepoints, through tracefs.
    Tracing,
    /// The kernel lets this process make an io_uring.
    IoUring,
    /// The library that is loaded into programs, built beside the tests.
    Library,
    /// ext4 in the kernel, with mkfs and fsck.
    Ext4,
    /// xfs in the kernel, with mkfs and fsck.
    Xfs,
    /// btrfs in the kernel, with mkfs and fsck.
    Btrfs,
    /// mkfs and fsck of ext4, whatever the kernel has.
    Ext4Tools,
    /// mkfs and fsck of xfs, whatever the kernel has.
    XfsTools,
    /// mkfs and fsck of btrfs, whatever the kernel has.
    BtrfsTools,
    /// The IMAP server dovecot.
    Dovecot,
    /// The library of RocksDB.
    RocksDb,
    /// The container runtime runc.
    Runc,
    /// The load generator dbench, with its load file.
    Dbench,
    /// A C compiler.
    Cc,
    /// git.
    Git,
    /// rsync.
    Rsync,
    /// The program sqlite3.
    Sqlite3,
    /// The server MariaDB.
    MariaDb,
    /// MariaDB's plugin MyRocks.
    MyRocks,
    /// The server PostgreSQL.
    Postgres,
    /// The server Redis.
    Redis,
    /// The browser Chromium.
    Chromium,
    /// The client sshfs, and a server of SFTP.
    Sshfs,
    /// The emulator QEMU, and a kernel of Debian to boot in it.
    Guest,
    /// Any other program, with the package of Debian that has it.
    Tool {
        /// Its name.
        program: &'static str,
        /// The package to install.
        package: &'static str,
    },
}

/// A need that is not met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    /// The fact that stands in the way.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Unmet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.reason, self.remedy)
    }
}

impl Need {
    /// All needs with a name of their own.
    pub const ALL: [Need; 31] = [
        Need::Root,
        Need::Mounts,
        Need::Loop,
        Need::Fuse,
        Need::Rings,
        Need::Ublk,
        Need::MemoryCgroup,
        Need::Tracing,
        Need::IoUring,
        Need::Library,
        Need::Ext4,
        Need::Xfs,
        Need::Btrfs,
        Need::Ext4Tools,
        Need::XfsTools,
        Need::BtrfsTools,
        Need::Dovecot,
        Need::RocksDb,
        Need::Runc,
        Need::Dbench,
        Need::Cc,
        Need::Git,
        Need::Rsync,
        Need::Sqlite3,
        Need::MariaDb,
        Need::MyRocks,
        Need::Postgres,
        Need::Redis,
        Need::Chromium,
        Need::Sshfs,
        Need::Guest,
    ];

    /// The name in `LOADLINE_REQUIRE`; that of a tool is the program's.
    pub fn name(self) -> &'static str {
        match self {
            Need::Root => "root",
            Need::Mounts => "mounts",
            Need::Loop => "loop",
            Need::Fuse => "fuse",
            Need::Rings => "rings",
            Need::Ublk => "ublk",
            Need::MemoryCgroup => "memory-cgroup",
            Need::Tracing => "tracing",
            Need::IoUring => "io-uring",
            Need::Library => "library",
            Need::Ext4 => "ext4",
            Need::Xfs => "xfs",
            Need::Btrfs => "btrfs",
            Need::Ext4Tools => "ext4-tools",
            Need::XfsTools => "xfs-tools",
            Need::BtrfsTools => "btrfs-tools",
            Need::Dovecot => "dovecot",
            Need::RocksDb => "rocksdb",
            Need::Runc => "runc",
            Need::Dbench => "dbench",
            Need::Cc => "cc",
            Need::Git => "git",
            Need::Rsync => "rsync",
            Need::Sqlite3 => "sqlite3",
            Need::MariaDb => "mariadb",
            Need::MyRocks => "myrocks",
            Need::Postgres => "postgres",
            Need::Redis => "redis",
            Need::Chromium => "chromium",
            Need::Sshfs => "sshfs",
            Need::Guest => "guest",
            Need::Tool { program, .. } => program,
        }
    }

    /// The package of Debian that meets it, if that is a matter of installing one.
    pub fn package(self) -> Option<&'static str> {
        Some(match self {
            Need::Ext4 | Need::Ext4Tools => "e2fsprogs",
            Need::Xfs | Need::XfsTools => "xfsprogs",
            Need::Btrfs | Need::BtrfsTools => "btrfs-progs",
            Need::Dovecot => "dovecot-imapd",
            Need::RocksDb => "rocksdb-tools",
            Need::Runc => "runc",
            Need::Dbench => "dbench",
            Need::Cc => "gcc",
            Need::Git => "git",
            Need::Rsync => "rsync",
            Need::Sqlite3 => "sqlite3",
            Need::MariaDb => "mariadb-server",
            Need::MyRocks => "mariadb-plugin-rocksdb",
            Need::Postgres => "postgresql",
            Need::Redis => "redis-server",
            Need::Chromium => "chromium",
            Need::Sshfs => "sshfs",
            Need::Guest => "qemu-system-x86",
            Need::Tool { package, .. } => package,
            _ => return None,
        })
    }
}

impl fmt::Display for Need {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a test may need is installed for the tests.
    #[test]
    fn every_package_is_on_the_list_of_the_setup() {
        let setup = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup.sh");
        let setup = std::fs::read_to_string(setup).unwrap();
        let listed: Vec<&str> = setup
            .lines()
            .filter_map(|line| line.trim().strip_prefix("need "))
            .filter_map(|words| words.split_whitespace().nth(1))
            .collect();
        for package in Need::ALL.into_iter().filter_map(Need::package) {
            assert!(listed.contains(&package), "scripts/setup.sh does not install {package}");
        }
    }

    #[test]
    fn no_two_needs_have_one_name() {
        let names: std::collections::BTreeSet<_> = Need::ALL.into_iter().map(Need::name).collect();
        assert_eq!(names.len(), Need::ALL.len());
        let tool = Need::Tool { program: "jq", package: "jq-package" };
        assert_eq!((tool.to_string().as_str(), tool.package()), ("jq", Some("jq-package")));
    }
}
