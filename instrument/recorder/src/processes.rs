//! What /proc and the file systems say of processes and their files, asked when something is seen for the first time.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Child;

use recording::follow::{Descriptor, Lookup, OpenFile, Seen};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags};

/// What the kernel puts behind the name of an open file that has none any more.
const DELETED: &[u8] = b" (deleted)";

/// Answers from /proc and by statx(2), and from what it has kept of the begin.
#[derive(Debug, Default)]
pub struct Processes {
    /// What was open when the recording began: a process that ends soon cannot be asked later.
    at_begin: HashMap<(u32, i32), Descriptor>,
    directories: HashMap<u32, Vec<u8>>,
}

impl Processes {
    /// Keeps what a process has open now, and where it is.
    ///
    /// # Errors
    /// No such process.
    pub fn remember(&mut self, pid: u32) -> io::Result<()> {
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
            if let Some(fd) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
                let descriptor = self.descriptor(pid, fd);
                self.at_begin.insert((pid, fd), descriptor);
            }
        }
        if let Some(directory) = self.directory(pid) {
            self.directories.insert(pid, directory);
        }
        Ok(())
    }
}

impl Lookup for Processes {
    fn directory_at_begin(&mut self, pid: u32) -> Option<Vec<u8>> {
        self.directories.get(&pid).cloned()
    }

    fn at_begin(&mut self, pid: u32, fd: i32) -> Option<Descriptor> {
        self.at_begin.get(&(pid, fd)).cloned()
    }

    fn descriptor(&mut self, pid: u32, fd: i32) -> Descriptor {
        let link = format!("/proc/{pid}/fd/{fd}");
        let Ok(target) = std::fs::read_link(&link) else { return Descriptor::Gone };
        let path = target.into_os_string().into_vec();
        if path.first() != Some(&b'/') || path.ends_with(DELETED) {
            return Descriptor::Other;
        }
        let seen = self.found(&path);
        let Some((position, flags)) = position_and_flags(pid, fd) else { return Descriptor::Gone };
        match seen {
            Seen::File { .. } | Seen::Directory => Descriptor::File(OpenFile { path, flags, position, seen }),
            Seen::Absent | Seen::Link(_) | Seen::Other => Descriptor::Other,
        }
    }

    fn directory(&mut self, pid: u32) -> Option<Vec<u8>> {
        let path = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
        Some(path.into_os_string().into_vec()).filter(|path| !path.ends_with(DELETED))
    }

    fn found(&mut self, path: &[u8]) -> Seen {
        let path = Path::new(OsStr::from_bytes(path));
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let Ok(stat) = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted) else {
            return Seen::Absent;
        };
        match FileType::from_raw_mode(u32::from(stat.stx_mode)) {
            FileType::RegularFile => {
                let born = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
                let time = stat.stx_btime;
                let born_ns = || {
                    u64::try_from(time.tv_sec)
                        .ok()?
                        .checked_mul(1_000_000_000)?
                        .checked_add(u64::from(time.tv_nsec))
                };
                Seen::File {
                    size: stat.stx_size,
                    born_unix_ns: if born { born_ns() } else { None },
                    device: libc::makedev(stat.stx_dev_major, stat.stx_dev_minor),
                    inode: stat.stx_ino,
                }
            }
            FileType::Directory => Seen::Directory,
            FileType::Symlink => {
                std::fs::read_link(path).map_or(Seen::Absent, |to| Seen::Link(to.into_os_string().into_vec()))
            }
            _ => Seen::Other,
        }
    }

    fn name(&mut self, pid: u32, tid: u32) -> Option<String> {
        let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
        Some(name.trim_end().to_string())
    }

    fn threads(&mut self, pid: u32) -> Vec<u32> {
        threads(pid).unwrap_or_default()
    }
}

/// Where a descriptor's next read or write happens, and its flags of open(2).
fn position_and_flags(pid: u32, fd: i32) -> Option<(u64, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let flags = u32::from_str_radix(value("flags:")?, 8).ok()?;
    Some((value("pos:")?.parse().ok()?, flags))
}

/// Random numbers that nobody knows.
///
/// # Errors
/// What reading /dev/urandom says.
pub fn secret() -> io::Result<[u64; 2]> {
    let mut bytes = [[0; 8]; 2];
    let mut file = File::open("/dev/urandom")?;
    bytes.iter_mut().try_for_each(|half| file.read_exact(half))?;
    Ok(bytes.map(u64::from_ne_bytes))
}

/// Now, in nanoseconds of CLOCK_MONOTONIC, the clock of the records.
pub fn monotonic_ns() -> u64 {
    clock_ns(rustix::time::ClockId::Monotonic)
}

/// Now, in nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    clock_ns(rustix::time::ClockId::Realtime)
}

fn clock_ns(clock: rustix::time::ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The number of the calling thread.
pub fn own_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// The threads of a process.
///
/// # Errors
/// No such process.
pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    let number = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(entries.filter_map(number).collect())
}

/// Whether a process has other mounts or another root than we: its paths name other files.
pub fn sees_other_files(pid: u32) -> bool {
    let differs = |what: &str| {
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/{what}")).ok();
        matches!((of(&pid.to_string()), of("self")), (Some(its), Some(ours)) if its != ours)
    };
    differs("ns/mnt") || differs("root")
}

/// Whether numbers of processes are those of the whole machine, which the kernel's records have: not in a container with numbers of
/// its own. The first such namespace has this number in every kernel (`PROC_PID_INIT_INO`).
pub fn is_in_first_pid_namespace() -> bool {
    const FIRST: &str = "pid:[4026531836]";
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST)
}

/// Asks our child to end.
pub fn terminate(child: &Child) {
    if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
        // it has not been waited for, so the number is still its own
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}
