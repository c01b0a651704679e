//! What memory is left: meminfo, cgroups of both versions, PSI. Opens files: only where that is harmless.

use core::ffi::CStr;

use prefetch::budget::Memory;

use crate::sys;

/// Reads a small file into a buffer; empty when it cannot be read.
pub fn slurp<'a>(path: &CStr, buffer: &'a mut [u8]) -> &'a [u8] {
    let Ok(fd) = sys::openat(libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_CLOEXEC, 0) else { return &[] };
    let mut len = 0;
    while let Some(rest) = buffer.get_mut(len..) {
        match sys::read(fd, rest) {
            Ok(read) if read > 0 => len += read,
            _ => break,
        }
    }
    sys::close(fd);
    buffer.get(..len).unwrap_or_default()
}

/// The number after `key` in a text of lines `key ... number`.
pub fn field(text: &[u8], key: &[u8]) -> Option<u64> {
    let line = text.split(|byte| *byte == b'\n').find(|line| line.starts_with(key))?;
    number(line.get(key.len()..)?)
}

/// The first number of a text.
pub fn number(text: &[u8]) -> Option<u64> {
    let mut digits = text.iter().skip_while(|byte| !byte.is_ascii_digit());
    let first = digits.next()?;
    let mut value = u64::from(first - b'0');
    for digit in digits.take_while(|byte| byte.is_ascii_digit()) {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    Some(value)
}

/// `some avg10=1.23` of a PSI file, hundredths of a percent.
pub fn pressure_centi(text: &[u8]) -> u64 {
    let Some(at) = text.windows(6).position(|window| window == b"avg10=") else { return 0 };
    let rest = text.get(at + 6..).unwrap_or_default();
    let whole = number(rest).unwrap_or(0);
    let point = rest.iter().position(|byte| *byte == b'.');
    let hundredths = point.and_then(|point| number(rest.get(point + 1..point + 3)?)).unwrap_or(0);
    whole * 100 + hundredths
}

/// Writes a decimal number into a buffer.
pub fn decimal(mut value: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &buffer[at..];
        }
    }
}

/// A C string put together in a buffer.
pub fn join<'a>(parts: &[&[u8]], buffer: &'a mut [u8]) -> Option<&'a CStr> {
    let mut len = 0;
    for part in parts {
        buffer.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    *buffer.get_mut(len)? = 0;
    CStr::from_bytes_with_nul(buffer.get(..=len)?).ok()
}

/// The state of memory of this process: of its cgroup, whichever version, and of the machine.
pub fn look() -> Memory {
    let mut buffer = [0; 4096];
    let mut memory = Memory::default();
    let meminfo = slurp(c"/proc/meminfo", &mut buffer);
    memory.available = field(meminfo, b"MemAvailable:").unwrap_or(0) * 1024;
    memory.pressure_centi = pressure_centi(slurp(c"/proc/pressure/memory", &mut buffer));
    let mut own = [0; 4096];
    let own = slurp(c"/proc/self/cgroup", &mut own);
    for line in own.split(|byte| *byte == b'\n') {
        let mut fields = line.splitn(3, |byte| *byte == b':');
        let (_, Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let found = if controllers.is_empty() {
            memory.ooms = ooms(ROOT, path).unwrap_or(0);
            version2(ROOT, path)
        } else if controllers.split(|byte| *byte == b',').any(|name| name == b"memory") {
            version1(path)
        } else {
            None
        };
        if let Some((limit, pinned)) = found
            && memory.limit.is_none_or(|known| limit < known)
        {
            (memory.limit, memory.pinned) = (Some(limit), pinned);
        }
    }
    memory
}

/// Where the groups of version 2 are.
const ROOT: &[u8] = b"/sys/fs/cgroup";
/// Groups above each other that are looked at.
const LEVELS_MAX: usize = 16;

/// Limit and pinned bytes of the group of version 2, or of the one above it, that has the least headroom; `None` where
/// none has a limit.
fn version2(root: &[u8], path: &[u8]) -> Option<(u64, u64)> {
    let mut group = path.strip_suffix(b"/").unwrap_or(path);
    let mut tightest: Option<(u64, u64)> = None;
    for _ in 0..LEVELS_MAX {
        if let Some((limit, pinned)) = level(root, group) {
            let headroom = |(limit, pinned): (u64, u64)| limit.saturating_sub(pinned);
            if tightest.is_none_or(|known| headroom((limit, pinned)) < headroom(known)) {
                tightest = Some((limit, pinned));
            }
        }
        let Some(cut) = group.iter().rposition(|byte| *byte == b'/') else { break };
        group = group.get(..cut).unwrap_or_default();
    }
    tightest
}

/// Limit and pinned bytes of one group. Above `memory.high` programs are slowed down until they are below it: as good
/// a limit as `memory.max`.
fn level(root: &[u8], group: &[u8]) -> Option<(u64, u64)> {
    let mut name = [0; 1024];
    let mut buffer = [0; 4096];
    let mut bytes = |file: &[u8]| number(slurp(join(&[root, group, file], &mut name)?, &mut buffer));
    let limit = [bytes(b"/memory.max"), bytes(b"/memory.high")].into_iter().flatten().min()?;
    let used = bytes(b"/memory.current")?;
    let stat = slurp(join(&[root, group, b"/memory.stat"], &mut name)?, &mut buffer);
    Some((
        limit,
        pinned(used, stat, [b"active_file ", b"inactive_file "], [b"file_dirty ", b"file_writeback "]),
    ))
}

/// How often a group of version 2 had no memory left. The file's other counters, `high` and `max`, grow whenever page
/// cache fills the group, which is no harm.
fn ooms(root: &[u8], group: &[u8]) -> Option<u64> {
    let (mut name, mut buffer) = ([0; 1024], [0; 512]);
    field(slurp(join(&[root, group, b"/memory.events"], &mut name)?, &mut buffer), b"oom ")
}

/// Likewise of version 1. "No limit" is a number near 2^63 there.
fn version1(path: &[u8]) -> Option<(u64, u64)> {
    let mut name = [0; 1024];
    let mut buffer = [0; 4096];
    let root = b"/sys/fs/cgroup/memory";
    let limit = number(slurp(join(&[root, path, b"/memory.limit_in_bytes"], &mut name)?, &mut buffer))?;
    if limit >= 1 << 60 {
        return None;
    }
    let used = number(slurp(join(&[root, path, b"/memory.usage_in_bytes"], &mut name)?, &mut buffer))?;
    let stat = slurp(join(&[root, path, b"/memory.stat"], &mut name)?, &mut buffer);
    let clean = [b"total_active_file ".as_slice(), b"total_inactive_file "];
    Some((limit, pinned(used, stat, clean, [b"total_dirty ", b"total_writeback "])))
}

/// What reclaim cannot drop cheaply: usage less file cache that is neither dirty nor being written.
fn pinned(used: u64, stat: &[u8], cache: [&[u8]; 2], unwritten: [&[u8]; 2]) -> u64 {
    let sum = |keys: [&[u8]; 2]| keys.iter().filter_map(|key| field(stat, key)).sum::<u64>();
    used.saturating_sub(sum(cache).saturating_sub(sum(unwritten)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel_are_read() {
        let meminfo = b"MemTotal:       24000000 kB\nMemFree:  100 kB\nMemAvailable:   12345 kB\n";
        assert_eq!(field(meminfo, b"MemAvailable:"), Some(12345));
        assert_eq!(field(meminfo, b"SwapFree:"), None);
        assert_eq!(number(b"max\n"), None);
        assert_eq!(number(b"99999999999999999999999"), None);
        assert_eq!(pressure_centi(b"some avg10=12.34 avg60=0.00 avg300=0.00 total=1"), 1234);
        assert_eq!(pressure_centi(b"some avg10=0.05 avg60"), 5);
        assert_eq!(pressure_centi(b""), 0);
    }

    #[test]
    fn numbers_are_written() {
        let mut buffer = [0; 20];
        for value in [0, 7, 10, 259, u64::MAX] {
            assert_eq!(decimal(value, &mut buffer), value.to_string().as_bytes());
        }
    }

    #[test]
    fn clean_file_cache_is_not_pinned() {
        let stat =
            b"anon 100\nfile 900\nactive_file 300\ninactive_file 500\nfile_dirty 50\nfile_writeback 70\n";
        let (cache, unwritten) = (
            [b"active_file ".as_slice(), b"inactive_file "],
            [b"file_dirty ".as_slice(), b"file_writeback "],
        );
        assert_eq!(pinned(1000, stat, cache, unwritten), 320);
    }

    #[test]
    fn paths_are_joined_within_the_buffer() {
        let mut buffer = [0; 8];
        assert_eq!(join(&[b"/a", b"/b"], &mut buffer), Some(c"/a/b"));
        assert_eq!(join(&[b"/a", b"/too/long"], &mut buffer), None);
    }

    /// A tree of groups: path, `memory.high`, `memory.max`, bytes used.
    fn groups(tree: &[(&str, &str, &str, u64)]) -> (tempfile::TempDir, Vec<u8>) {
        let root = tempfile::tempdir().unwrap();
        for (path, high, max, used) in tree {
            let group = root.path().join(path);
            std::fs::create_dir_all(&group).unwrap();
            std::fs::write(group.join("memory.high"), format!("{high}\n")).unwrap();
            std::fs::write(group.join("memory.max"), format!("{max}\n")).unwrap();
            std::fs::write(group.join("memory.current"), format!("{used}\n")).unwrap();
            std::fs::write(group.join("memory.stat"), "active_file 5\ninactive_file 5\nfile_dirty 0\n")
                .unwrap();
            std::fs::write(group.join("memory.events"), "low 0\nhigh 7\nmax 9\noom 2\noom_kill 1\n").unwrap();
        }
        let bytes = root.path().as_os_str().as_encoded_bytes().to_vec();
        (root, bytes)
    }

    #[test]
    fn memory_high_is_a_limit() {
        let (_tree, root) =
            groups(&[("a", "100", "500", 60), ("b", "max", "500", 60), ("c", "max", "max", 60)]);
        assert_eq!(version2(&root, b"/a"), Some((100, 50)));
        assert_eq!(version2(&root, b"/b"), Some((500, 50)));
        assert_eq!(version2(&root, b"/c"), None);
    }

    #[test]
    fn the_group_with_the_least_headroom_counts_be_it_above() {
        let (_tree, root) =
            groups(&[("up", "max", "1000", 910), ("up/own", "max", "300", 60), ("up/free", "max", "max", 1)]);
        assert_eq!(version2(&root, b"/up/own"), Some((1000, 900)));
        assert_eq!(version2(&root, b"/up/free"), Some((1000, 900)));
        // As in a container, whose root has limits and whose path may be told as it is outside.
        let (_tree, root) = groups(&[("", "max", "400", 60)]);
        assert_eq!(version2(&root, b"/"), Some((400, 50)));
        assert_eq!(version2(&root, b"/not/here"), Some((400, 50)));
    }

    #[test]
    fn only_being_out_of_memory_counts_of_the_events() {
        let (_tree, root) = groups(&[("a", "max", "1", 0)]);
        assert_eq!((ooms(&root, b"/a"), ooms(&root, b"/b")), (Some(2), None));
    }

    #[test]
    fn this_process_has_memory() {
        let memory = look();
        assert!(memory.available > 1 << 20);
        assert!(memory.room() > 0);
    }
}
