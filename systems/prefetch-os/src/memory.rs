//! Small files of the kernel, read and put together without allocation. Opens files: only where that is harmless.

use core::ffi::CStr;

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
    }

    #[test]
    fn numbers_are_written() {
        let mut buffer = [0; 20];
        for value in [0, 7, 10, 259, u64::MAX] {
            assert_eq!(decimal(value, &mut buffer), value.to_string().as_bytes());
        }
    }

    #[test]
    fn paths_are_joined_within_the_buffer() {
        let mut buffer = [0; 8];
        assert_eq!(join(&[b"/a", b"/b"], &mut buffer), Some(c"/a/b"));
        assert_eq!(join(&[b"/a", b"/too/long"], &mut buffer), None);
    }
}
