//! Read-ahead window and request size of a device, from sysfs. Opens files: only where that is harmless.

use crate::memory::{decimal, join, number, slurp};

/// What the kernel prefetches of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Its own read-ahead window, bytes.
    pub readahead_bytes: u64,
    /// The most that one readahead(2) does: the larger of window and request size, bytes.
    pub call_bytes: u64,
}

/// The limits of a device by its number (`st_dev`); what cannot be read is the kernel's default of 128 KiB.
pub fn look(device: u64) -> Limits {
    let (mut major, mut minor) = ([0; 20], [0; 20]);
    let major = decimal(u64::from(libc::major(device)), &mut major);
    let minor = decimal(u64::from(libc::minor(device)), &mut minor);
    let kib = |prefix: &[u8], suffix: &[u8]| -> Option<u64> {
        let (mut path, mut buffer) = ([0; 128], [0; 32]);
        number(slurp(join(&[prefix, major, b":", minor, suffix], &mut path)?, &mut buffer))
    };
    let readahead = kib(b"/sys/class/bdi/", b"/read_ahead_kb")
        .or_else(|| kib(b"/sys/dev/block/", b"/queue/read_ahead_kb"))
        .or_else(|| kib(b"/sys/dev/block/", b"/../queue/read_ahead_kb"))
        .unwrap_or(128);
    // 0 turns the kernel's read-ahead off; an explicit request is then bounded by the request size.
    let request = kib(b"/sys/dev/block/", b"/queue/max_sectors_kb")
        .or_else(|| kib(b"/sys/dev/block/", b"/../queue/max_sectors_kb"))
        .unwrap_or(0);
    Limits {
        readahead_bytes: (readahead << 10).max(4096),
        call_bytes: (readahead.max(request) << 10).max(4096),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_device_has_the_default() {
        let limits = look(libc::makedev(4000, 4000));
        assert_eq!(limits, Limits { readahead_bytes: 128 << 10, call_bytes: 128 << 10 });
    }

    #[test]
    fn the_device_of_the_sources_has_limits() {
        use std::os::unix::fs::MetadataExt;
        let limits = look(std::fs::metadata(env!("CARGO_MANIFEST_DIR")).unwrap().dev());
        assert!(limits.call_bytes >= limits.readahead_bytes && limits.readahead_bytes >= 4096);
    }
}
