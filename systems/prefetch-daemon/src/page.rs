//! The statistics of the daemon, in the form and place of those of preloaded programs.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use prefetch::{Counters, Effect, Mode};
use prefetch_os::area::{Area, BYTES, Head, MAGIC, RECORDS};
use prefetch_os::areas;

use crate::moment::Key;

/// What is written for `loadline prefetch stat` and `explain`.
#[derive(Debug)]
pub struct StatisticsPage {
    words: Vec<AtomicU64>,
    bytes: Vec<u8>,
    file: File,
    sequence: u64,
}

impl StatisticsPage {
    /// Makes the file `PID` in the directory, only for this user.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(directory: &Path, mode: Mode, name: &str, now_ns: u64) -> std::io::Result<StatisticsPage> {
        let pid = std::process::id();
        let words = (0..BYTES / 8).map(|_| AtomicU64::new(0)).collect();
        let page = StatisticsPage {
            words,
            bytes: Vec::with_capacity(BYTES),
            file: areas::create(directory)?,
            sequence: 0,
        };
        let area = page.area();
        area.set_head(Head::Magic, MAGIC);
        area.set_head(Head::Pid, u64::from(pid));
        area.set_head(Head::Mode, mode as u64);
        area.set_head(Head::StartedNs, now_ns);
        area.set_name(name.as_bytes());
        Ok(page)
    }

    /// The words, to be set; they are in the file after the next [`StatisticsPage::save`].
    pub fn area(&self) -> Area<'_> {
        Area::new(&self.words)
    }

    /// Takes a record for a newly followed file; its number.
    pub fn begin_file(&mut self, key: Key, path: &Path) -> usize {
        self.sequence += 1;
        let record = self.sequence as usize % RECORDS;
        let path = path.as_os_str().as_encoded_bytes();
        self.area().begin_file(record, self.sequence, u64::from(key.dev), key.inode, path);
        record
    }

    /// Sets what is known of a file: its size, counters and latest decision.
    pub fn set_file(&self, record: usize, size: u64, counters: &Counters, effect: &Effect) {
        self.area().set_decision(record, size, effect.reason, effect.order);
        self.area().set_counters(record, counters);
    }

    /// Writes all words.
    ///
    /// # Errors
    /// What the file system says.
    pub fn save(&mut self) -> std::io::Result<()> {
        self.bytes.clear();
        let words = self.words.iter();
        self.bytes.extend(words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()));
        self.file.write_all_at(&self.bytes, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_of_the_library_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut page = StatisticsPage::create(directory.path(), Mode::Predict, "daemon: test", 5).unwrap();
        let record = page.begin_file(Key { dev: 1, inode: 2 }, Path::new("/data/x"));
        let counters = Counters { useful: 4096, ..Counters::default() };
        page.set_file(record, 1 << 20, &counters, &Effect::default());
        page.area().set_head(Head::Lost, 3);
        page.save().unwrap();
        let found = areas::of(&[directory.path()], std::process::id()).unwrap();
        assert!(found.alive);
        assert_eq!((found.snapshot.name.as_str(), found.snapshot.lost), ("daemon: test", 3));
        assert_eq!(found.snapshot.files[0].path, "/data/x");
        assert_eq!(found.snapshot.total().useful, 4096);
        let text = prefetch_os::show::explain(&found);
        assert!(text.contains("/data/x") && text.contains("3 of the kernel's events were lost"), "{text}");
    }
}
