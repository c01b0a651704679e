//! The statistics page that other processes read: a shared file of 64-bit words.
//!
//! The process that is watched writes single words with relaxed stores; readers may see a file's words of two
//! different moments. A record is published by its sequence word, which is 0 while the record is (re)used.

use std::sync::atomic::{AtomicU64, Ordering};

use prefetch::{Counters, Device, Mode, Reason, Shape};

/// First word: `LLPF` and the version of the layout.
pub const MAGIC: u64 = 0x4c4c_5046_0000_0002;
/// Words of the header.
pub const HEADER_WORDS: usize = 128;
/// Words of a file's record.
pub const RECORD_WORDS: usize = 64;
/// Files that are recorded; later ones replace closed ones.
pub const RECORDS: usize = 256;
/// Bytes of the whole area.
pub const BYTES: usize = (HEADER_WORDS + RECORDS * RECORD_WORDS) * 8;
/// Devices that are told apart.
pub const DEVICES: usize = 8;

const DEVICE_WORDS: usize = 3;
const DEVICE_AT: usize = 32;
const NAME_AT: usize = 96;
const NAME_WORDS: usize = 8;
const PATH_AT: usize = 32;
const PATH_WORDS: usize = RECORD_WORDS - PATH_AT;

/// Words of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "the fields of Snapshot say what they are")]
pub enum Head {
    Magic = 0,
    Pid,
    Mode,
    StartedNs,
    HookCalls,
    HookNs,
    Walked,
    WalkUsed,
    WalkBytes,
    Panics,
    Lost,
}

/// Words of the counters within a record, after sequence, device, inode and size.
const COUNTERS_AT: usize = 8;

/// The area as the watched process sees it.
#[derive(Debug, Clone, Copy)]
pub struct Area<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Area<'a> {
    /// Over words; too few are allowed, what does not fit is not written.
    pub fn new(words: &'a [AtomicU64]) -> Area<'a> {
        Area { words }
    }

    fn set(&self, at: usize, value: u64) {
        if let Some(word) = self.words.get(at) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Sets a word of the header.
    pub fn set_head(&self, head: Head, value: u64) {
        self.set(head as usize, value);
    }

    /// Adds to a word of the header; what it was before.
    pub fn add_head(&self, head: Head, value: u64) -> u64 {
        self.add(head as usize, value)
    }

    /// What the word was before.
    fn add(&self, at: usize, value: u64) -> u64 {
        self.words.get(at).map_or(0, |word| word.fetch_add(value, Ordering::Relaxed))
    }

    /// Writes the program's name, cut to 64 bytes.
    pub fn set_name(&self, name: &[u8]) {
        self.set_text(NAME_AT, NAME_WORDS, name);
    }

    fn set_text(&self, at: usize, words: usize, text: &[u8]) {
        for word in 0..words {
            let mut bytes = [0; 8];
            for (byte, to) in text.iter().skip(word * 8).zip(&mut bytes) {
                *to = *byte;
            }
            self.set(at + word, u64::from_ne_bytes(bytes));
        }
    }

    /// Writes what was measured of a device.
    pub fn set_device(&self, at: usize, number: u64, device: &Device) {
        if at >= DEVICES {
            return;
        }
        for (word, value) in [number, device.latency_ns(), device.rate()].into_iter().enumerate() {
            self.set(DEVICE_AT + at * DEVICE_WORDS + word, value);
        }
    }

    fn record(at: usize) -> usize {
        HEADER_WORDS + at % RECORDS * RECORD_WORDS
    }

    /// Takes a record for a file.
    pub fn begin_file(&self, at: usize, sequence: u64, device: u64, inode: u64, path: &[u8]) {
        let base = Area::record(at);
        self.set(base, 0);
        for word in 1..RECORD_WORDS {
            self.set(base + word, 0);
        }
        self.set(base + 1, device);
        self.set(base + 2, inode);
        self.set_text(base + PATH_AT, PATH_WORDS, path);
        if let Some(word) = self.words.get(base) {
            word.store(sequence, Ordering::Release);
        }
    }

    /// Writes a file's size and the latest decision: shape and depth of the stream read last.
    pub fn set_decision(&self, at: usize, size: u64, reason: Reason, (shape, depth): (Shape, u64)) {
        let (kind, stride) = match shape {
            Shape::Unknown => (0, 0),
            Shape::Forward => (1, 0),
            Shape::Backward => (2, 0),
            Shape::Stride(stride) => (3, stride as u64),
        };
        let base = Area::record(at) + 3;
        for (word, value) in [size, reason as u64, kind, stride, depth].into_iter().enumerate() {
            self.set(base + word, value);
        }
    }

    /// Writes a file's counters, which only one thread does.
    pub fn set_counters(&self, at: usize, counters: &Counters) {
        let base = Area::record(at) + COUNTERS_AT;
        counters.words().into_iter().enumerate().for_each(|(word, value)| self.set(base + word, value));
    }

    /// Adds to a file's counters, whichever threads do so at a time.
    pub fn add_counters(&self, at: usize, counters: &Counters) {
        let base = Area::record(at) + COUNTERS_AT;
        for (word, value) in counters.words().into_iter().enumerate().filter(|(_, value)| *value > 0) {
            self.add(base + word, value);
        }
    }
}

/// One device of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSeen {
    /// Its number (`st_dev`).
    pub number: u64,
    /// Latency of a small read, ns.
    pub latency_ns: u64,
    /// What it is believed to deliver, bytes/s.
    pub rate: u64,
}

/// One file of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSeen {
    /// Its path when it was first looked at, or its device and inode.
    pub path: String,
    /// Its size, bytes.
    pub size: u64,
    /// The latest decision.
    pub reason: Reason,
    /// The shape of the stream read last.
    pub shape: Shape,
    /// Its depth, bytes.
    pub depth: u64,
    /// Counters.
    pub counters: Counters,
}

/// What another process reads out of an area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The process that is watched.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its mode.
    pub mode: Mode,
    /// Calls seen by the hooks while awake.
    pub hook_calls: u64,
    /// Estimated time in the hooks, ns.
    pub hook_ns: u64,
    /// Files fetched in directory order, and how many of them the program opened.
    pub walked: (u64, u64),
    /// Panics caught; the first one ends prefetching in that process.
    pub panics: u64,
    /// Trace events that the daemon lost.
    pub lost: u64,
    /// Devices.
    pub devices: Vec<DeviceSeen>,
    /// Files, in the order in which they were first looked at.
    pub files: Vec<FileSeen>,
}

/// The bytes are not an area of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAnArea;

impl std::fmt::Display for NotAnArea {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a statistics area of this version of loadline prefetch")
    }
}

impl std::error::Error for NotAnArea {}

impl Snapshot {
    /// Reads an area.
    ///
    /// # Errors
    /// Bytes that are too short or begin otherwise.
    pub fn parse(bytes: &[u8]) -> Result<Snapshot, NotAnArea> {
        let words: Vec<u64> =
            bytes.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().unwrap_or_default())).collect();
        if bytes.len() < BYTES || words.first() != Some(&MAGIC) {
            return Err(NotAnArea);
        }
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let head = |head: Head| word(head as usize);
        let devices = (0..DEVICES).map(|at| DEVICE_AT + at * DEVICE_WORDS).filter(|at| word(*at) != 0);
        let mut files: Vec<(u64, FileSeen)> = (0..RECORDS)
            .map(|at| HEADER_WORDS + at * RECORD_WORDS)
            .filter(|base| word(*base) != 0)
            .map(|base| (word(base), file_seen(&words, base)))
            .collect();
        files.sort_by_key(|(sequence, _)| *sequence);
        Ok(Snapshot {
            pid: head(Head::Pid) as u32,
            name: text(&words, NAME_AT, NAME_WORDS),
            mode: Mode::from_number(head(Head::Mode)),
            hook_calls: head(Head::HookCalls),
            hook_ns: head(Head::HookNs),
            walked: (head(Head::Walked), head(Head::WalkUsed)),
            panics: head(Head::Panics),
            lost: head(Head::Lost),
            devices: devices
                .map(|at| DeviceSeen { number: word(at), latency_ns: word(at + 1), rate: word(at + 2) })
                .collect(),
            files: files.into_iter().map(|(_, file)| file).collect(),
        })
    }

    /// Time that prefetching a file is likely to have saved (observing: would have saved), ns. Not every read of what was
    /// prefetched would have waited: the kernel reads ahead by itself, and what is read again is there. So it is a latency for
    /// as many of these reads as missed among those that nothing was prefetched for.
    pub fn saved_ns(counters: &Counters, mode: Mode) -> u64 {
        let Counters { reads, bytes, slow, late, useful, saved_ns, blocked_ns, .. } = *counters;
        if mode == Mode::Observe {
            return saved_ns.min(blocked_ns);
        }
        let covered = useful / bytes.checked_div(reads).unwrap_or(0).max(1);
        let alone = reads.saturating_sub(covered).max(1);
        let missed = slow.saturating_sub(late).min(alone);
        (u128::from(saved_ns) * u128::from(missed) / u128::from(alone)) as u64
    }

    /// The sums of all files; the time saved is what is likely.
    pub fn total(&self) -> Counters {
        let mut sum = Counters::default();
        for file in &self.files {
            sum += Counters { saved_ns: Snapshot::saved_ns(&file.counters, self.mode), ..file.counters };
        }
        sum
    }
}

fn text(words: &[u64], at: usize, len: usize) -> String {
    let bytes: Vec<u8> = words.iter().skip(at).take(len).flat_map(|word| word.to_ne_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

fn file_seen(words: &[u64], base: usize) -> FileSeen {
    let word = |at: usize| words.get(base + at).copied().unwrap_or(0);
    let mut path = text(words, base + PATH_AT, PATH_WORDS);
    if path.is_empty() {
        path = format!("device {} inode {}", word(1), word(2));
    }
    FileSeen {
        path,
        size: word(3),
        reason: Reason::from_number(word(4)),
        shape: match word(5) {
            1 => Shape::Forward,
            2 => Shape::Backward,
            3 => Shape::Stride(word(6) as i64),
            _ => Shape::Unknown,
        },
        depth: word(7),
        counters: Counters::from_words(core::array::from_fn(|at| word(COUNTERS_AT + at))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vec<AtomicU64> {
        (0..BYTES / 8).map(|_| AtomicU64::new(0)).collect()
    }

    fn bytes(words: &[AtomicU64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let words = words();
        let area = Area::new(&words);
        area.set_head(Head::Magic, MAGIC);
        area.set_head(Head::Pid, 42);
        area.set_head(Head::Mode, Mode::Observe as u64);
        area.set_name(b"sqlite3");
        let device = Device::new();
        device.learn_miss(1_000_000);
        area.set_device(0, 77, &device);
        area.begin_file(3, 9, 77, 5, b"/data/big.db");
        let counters =
            Counters { reads: 10, useful: 4096, blocked_ns: 9, saved_ns: 7, ..Counters::default() };
        area.set_decision(3, 1 << 20, Reason::Prefetching, (Shape::Stride(-4096), 8192));
        area.add_counters(3, &counters);
        area.begin_file(4, 8, 77, 6, b"");
        let seen = Snapshot::parse(&bytes(&words)).unwrap();
        assert_eq!((seen.pid, seen.name.as_str(), seen.mode), (42, "sqlite3", Mode::Observe));
        assert_eq!(seen.devices.len(), 1);
        assert_eq!(seen.files.len(), 2);
        assert_eq!(seen.files[0].path, "device 77 inode 6");
        assert_eq!(seen.files[1].path, "/data/big.db");
        assert_eq!(seen.files[1].shape, Shape::Stride(-4096));
        assert_eq!(seen.files[1].counters, counters);
        assert_eq!(seen.total(), counters);
    }

    #[test]
    fn a_run_saves_no_more_than_its_reads_would_have_waited() {
        // a file read in order by 4 KiB: of 64 reads alone two waited for the kernel's own read-ahead, 1 ms each
        let counters = Counters {
            reads: 10_064,
            bytes: 10_064 * 4096,
            slow: 2,
            blocked_ns: 2_000_000,
            issued: 10_000 * 4096,
            useful: 10_000 * 4096,
            saved_ns: 10_000 * 1_000_000,
            ..Counters::default()
        };
        assert_eq!(Snapshot::saved_ns(&counters, Mode::Auto), 10_000 * 1_000_000 / 32);
        assert_eq!(Snapshot::saved_ns(&counters, Mode::Observe), 2_000_000);
        assert_eq!(Snapshot::saved_ns(&Counters::default(), Mode::Auto), 0);
        // each waited: each is saved
        let scattered = Counters { slow: 64, blocked_ns: 64_000_000, ..counters };
        assert_eq!(Snapshot::saved_ns(&scattered, Mode::Auto), 10_000 * 1_000_000);
    }

    #[test]
    fn other_bytes_are_refused() {
        assert_eq!(Snapshot::parse(b""), Err(NotAnArea));
        assert_eq!(Snapshot::parse(&vec![0; BYTES]), Err(NotAnArea));
    }

    #[test]
    fn a_small_area_drops_what_does_not_fit() {
        let words: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let area = Area::new(&words);
        area.begin_file(200, 1, 1, 1, b"/x");
        area.set_name(&[b'x'; 1000]);
        area.set_device(99, 1, &Device::new());
    }
}
