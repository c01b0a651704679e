//! Paths: cached directory prefixes and decimal serials.

use super::Dir;

/// Bytes of the path cache for each entry of the fileset. A tree with longer prefixes has them only at every
/// n-th level.
const CACHE_BYTES_PER_ENTRY: u64 = 16;
const CACHE_BYTES_MIN: u64 = 1 << 16;

/// Prefixes of directories, such as `00000001/00000007/`, in one arena.
#[derive(Debug, Clone)]
pub(super) struct Prefixes {
    arena: Vec<u8>,
    /// Start and length in the arena; length 0: not cached (or the root).
    spans: Vec<(u32, u32)>,
    longest_bytes: u32,
}

impl Prefixes {
    /// Caches the prefixes of the levels 0, n, 2n ... with the smallest n that keeps within the limits.
    pub fn build(dirs: &[Dir], entries: u64) -> Self {
        let (depths, bytes_of_level, longest_bytes) = measure(dirs);
        let limit = (CACHE_BYTES_MIN + CACHE_BYTES_PER_ENTRY * entries).min(u64::from(u32::MAX));
        let (stride, total) = smallest_stride(&bytes_of_level, limit);
        let mut prefixes = Prefixes {
            arena: Vec::with_capacity(total as usize),
            spans: Vec::with_capacity(dirs.len()),
            longest_bytes,
        };
        let mut scratch = Vec::new();
        for (dir, depth) in depths.iter().enumerate() {
            scratch.clear();
            if dir != 0 && (*depth as usize).is_multiple_of(stride) {
                prefixes.write(dirs, dirs[dir].parent, &mut scratch);
                push_serial(&mut scratch, dirs[dir].serial);
                scratch.push(b'/');
            }
            prefixes.spans.push((prefixes.arena.len() as u32, scratch.len() as u32));
            prefixes.arena.extend_from_slice(&scratch);
        }
        prefixes
    }

    /// Appends the path of a directory with a slash at its end; nothing for the root.
    #[inline]
    pub fn write(&self, dirs: &[Dir], dir: u32, path: &mut Vec<u8>) {
        match self.cached(dir) {
            Some(prefix) => path.extend_from_slice(prefix),
            None => self.write_walking(dirs, dir, path),
        }
    }

    #[inline]
    fn cached(&self, dir: u32) -> Option<&[u8]> {
        let (start, len) = self.spans[dir as usize];
        (len != 0 || dir == 0).then(|| &self.arena[start as usize..(start + len) as usize])
    }

    /// Goes up to the nearest cached ancestor, then writes what is below it from its end to its start.
    #[cold]
    fn write_walking(&self, dirs: &[Dir], dir: u32, path: &mut Vec<u8>) {
        let (mut ancestor, mut missing) = (dir, 0);
        let prefix = loop {
            if let Some(prefix) = self.cached(ancestor) {
                break prefix;
            }
            missing += serial_len(dirs[ancestor as usize].serial) as usize + 1;
            ancestor = dirs[ancestor as usize].parent;
        };
        path.extend_from_slice(prefix);
        let mut end = path.len() + missing;
        path.resize(end, b'/');
        let (mut below, mut name) = (dir, Vec::with_capacity(10));
        while below != ancestor {
            let Dir { parent, serial, .. } = dirs[below as usize];
            name.clear();
            push_serial(&mut name, serial);
            path[end - 1 - name.len()..end - 1].copy_from_slice(&name);
            end -= name.len() + 1;
            below = parent;
        }
    }

    /// Length of the longest prefix with its slash.
    pub fn longest_bytes(&self) -> u64 {
        u64::from(self.longest_bytes)
    }

    pub fn memory_bytes(&self) -> usize {
        self.arena.capacity() + size_of::<(u32, u32)>() * self.spans.capacity()
    }
}

/// Depth of each directory (the root has 0), bytes of all prefixes of each level, length of the longest one.
fn measure(dirs: &[Dir]) -> (Vec<u32>, Vec<u64>, u32) {
    let mut depths: Vec<u32> = Vec::with_capacity(dirs.len());
    let mut lens: Vec<u32> = Vec::with_capacity(dirs.len());
    let mut bytes_of_level: Vec<u64> = Vec::new();
    for (index, dir) in dirs.iter().enumerate() {
        let (depth, len) = if index == 0 {
            (0, 0)
        } else {
            let parent = dir.parent as usize;
            (depths[parent] + 1, lens[parent].saturating_add(serial_len(dir.serial) + 1))
        };
        depths.push(depth);
        lens.push(len);
        // A directory is at most one level below all the earlier ones.
        if bytes_of_level.len() == depth as usize {
            bytes_of_level.push(0);
        }
        bytes_of_level[depth as usize] += u64::from(len);
    }
    let longest = lens.iter().copied().max().unwrap_or(0);
    (depths, bytes_of_level, longest)
}

/// The smallest n for which the levels 0, n, 2n ... have at most `limit` bytes, and how many they have.
fn smallest_stride(bytes_of_level: &[u64], limit: u64) -> (usize, u64) {
    (1..=bytes_of_level.len().max(1))
        .map(|stride| (stride, bytes_of_level.iter().step_by(stride).sum()))
        .find(|&(_, total)| total <= limit)
        // Only the root, which has no bytes, is on a multiple of the number of levels.
        .unwrap_or((bytes_of_level.len().max(1), 0))
}

/// Digits of a serial's name.
fn serial_len(serial: u32) -> u32 {
    serial.checked_ilog10().map_or(1, |log| log + 1).max(8)
}

/// Appends at least eight decimal digits.
#[inline]
pub(super) fn push_serial(path: &mut Vec<u8>, serial: u32) {
    if serial < 100_000_000 {
        path.extend_from_slice(&eight_digits(serial));
    } else {
        path.extend_from_slice(serial.to_string().as_bytes());
    }
}

/// The digits of a number below 10^8: splits it into 4, 2 and 1 digits for all lanes of one word at a time,
/// with multiplications by reciprocals that are exact for these ranges.
#[inline]
fn eight_digits(number: u32) -> [u8; 8] {
    let number = u64::from(number);
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | ((twos - tens * 10) << 8);
    (ones | 0x3030_3030_3030_3030).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_have_eight_digits_or_more() {
        let sparse = (0..100_000_000).step_by(9973);
        for serial in (0..20_000).chain(sparse).chain(99_990_000..100_000_010).chain([u32::MAX]) {
            let mut name = Vec::new();
            push_serial(&mut name, serial);
            assert_eq!(name, format!("{serial:08}").as_bytes());
            assert_eq!(serial_len(serial) as usize, name.len());
        }
    }

    #[test]
    fn the_stride_grows_until_the_prefixes_fit() {
        let levels = [0, 90, 180, 270];
        assert_eq!(smallest_stride(&levels, 540), (1, 540));
        assert_eq!(smallest_stride(&levels, 539), (2, 180));
        assert_eq!(smallest_stride(&levels, 179), (4, 0));
        assert_eq!(smallest_stride(&[0], 0), (1, 0));
        assert_eq!(smallest_stride(&[], 0), (1, 0));
    }
}
