//! A file system as the kernel unpacks it: cpio in the format "newc" (Documentation/driver-api/early-userspace/
//! buffer-format.rst). Names in order and times of zero, so that the same contents are the same bytes.

use std::collections::BTreeMap;

/// Type bits of a directory, a file and a link (inode(7)).
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER: u32 = 0o020_000;
/// Headers and data begin at multiples of this.
const ALIGN: usize = 4;

/// What is at a path.
enum Entry {
    Directory,
    File {
        mode: u32,
        data: Vec<u8>,
    },
    Link {
        to: String,
    },
    /// A character device, by its numbers.
    Device {
        major: u32,
        minor: u32,
    },
}

/// A file system to be.
#[derive(Default)]
pub(crate) struct Archive(BTreeMap<String, Entry>);

impl Archive {
    /// A directory and those above it; `path` is absolute.
    pub(crate) fn directory(&mut self, path: &str) {
        let path = path.trim_matches('/');
        for (at, _) in path.match_indices('/').chain([(path.len(), "")]) {
            if at > 0 {
                self.0.entry(path[..at].to_string()).or_insert(Entry::Directory);
            }
        }
    }

    /// A file, in directories that are made for it.
    pub(crate) fn file(&mut self, path: &str, mode: u32, data: Vec<u8>) {
        self.put(path, Entry::File { mode, data });
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, path: &str, to: &str) {
        self.put(path, Entry::Link { to: to.to_string() });
    }

    /// A character device.
    pub(crate) fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.put(path, Entry::Device { major, minor });
    }

    /// Whether there is something at a path.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path.trim_matches('/'))
    }

    fn put(&mut self, path: &str, entry: Entry) {
        let path = path.trim_matches('/');
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.directory(folder);
        }
        self.0.insert(path.to_string(), entry);
    }

    /// The bytes for the kernel.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, (path, entry)) in self.0.iter().enumerate() {
            let none = (0, 0);
            let (mode, data, device) = match entry {
                Entry::Directory => (DIRECTORY | 0o755, &[][..], none),
                Entry::File { mode, data } => (FILE | mode, data.as_slice(), none),
                Entry::Link { to } => (LINK | 0o777, to.as_bytes(), none),
                Entry::Device { major, minor } => (CHARACTER | 0o600, &[][..], (*major, *minor)),
            };
            write(&mut out, number as u32 + 1, mode, path, data, device);
        }
        write(&mut out, 0, 0, "TRAILER!!!", &[], (0, 0));
        out
    }
}

fn write(out: &mut Vec<u8>, inode: u32, mode: u32, path: &str, data: &[u8], device: (u32, u32)) {
    let links = 1;
    let name = path.len() as u32 + 1;
    // inode, mode, user, group, links, time, size, device of the file system, device, length of the name, checksum
    let fields = [inode, mode, 0, 0, links, 0, data.len() as u32, 0, 0, device.0, device.1, name, 0];
    out.extend_from_slice(b"070701");
    fields.iter().for_each(|field| out.extend_from_slice(format!("{field:08X}").as_bytes()));
    out.extend_from_slice(path.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(ALIGN), 0);
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(ALIGN), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_stands_in_the_bytes_in_order() {
        let mut archive = Archive::default();
        archive.file("/bin/tool", 0o755, b"abcde".to_vec());
        archive.link("/lib64", "usr/lib64");
        archive.device("/dev/console", 5, 1);
        assert!(archive.has("/bin") && archive.has("bin/tool") && !archive.has("/bin/other"));
        let bytes = archive.bytes();
        assert_eq!(bytes.len() % ALIGN, 0);
        let names: Vec<usize> = ["bin\0", "bin/tool\0", "dev\0", "dev/console\0", "lib64\0", "TRAILER!!!\0"]
            .iter()
            .map(|name| bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap())
            .collect();
        assert!(names.is_sorted());
        // a header is 6 letters and 13 fields of 8; the size is the seventh
        let header = names[1] - 110;
        assert_eq!(&bytes[header..header + 6], b"070701");
        assert_eq!(&bytes[header + 6 + 48..header + 6 + 56], b"00000005");
        let same = archive.bytes();
        assert_eq!(bytes, same);
    }
}
