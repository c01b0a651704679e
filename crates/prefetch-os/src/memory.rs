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
            version2(path)
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

/// Limit and pinned bytes of a group of version 2; `None` without a limit.
fn version2(path: &[u8]) -> Option<(u64, u64)> {
    let mut name = [0; 1024];
    let mut buffer = [0; 4096];
    let root = b"/sys/fs/cgroup";
    let limit = number(slurp(join(&[root, path, b"/memory.max"], &mut name)?, &mut buffer))?;
    let used = number(slurp(join(&[root, path, b"/memory.current"], &mut name)?, &mut buffer))?;
    let stat = slurp(join(&[root, path, b"/memory.stat"], &mut name)?, &mut buffer);
    Some((
        limit,
        pinned(used, stat, [b"active_file ", b"inactive_file "], [b"file_dirty ", b"file_writeback "]),
    ))
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

    #[test]
    fn this_process_has_memory() {
        let memory = look();
        assert!(memory.available > 1 << 20);
        assert!(memory.room() > 0);
    }
}
