//! A full device, and one with many files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Done;
use crate::walk::Random;

fn is_full(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::ENOSPC)
}

fn content(number: u64, len: usize) -> Vec<u8> {
    Random::new(number + 1).bytes(len)
}

struct Filler {
    dir: PathBuf,
    random: Random,
    next: u64,
    /// Length of each file that was written to its end.
    files: BTreeMap<u64, usize>,
}

impl Filler {
    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("d{}/f{number}", number % 10))
    }

    /// Writes files until there is no space. Returns the bytes written.
    fn fill(&mut self) -> Result<u64, String> {
        let mut bytes = 0;
        // Small ones fit for a while after large ones do not.
        for shift in [23, 20, 16, 12, 6] {
            loop {
                let number = self.next;
                self.next += 1;
                let len = self.random.below(1 << shift) as usize;
                let path = self.path(number);
                let data = content(number, len);
                let written = File::create_new(&path).and_then(|mut f| f.write_all(&data));
                match written {
                    Ok(()) => _ = self.files.insert(number, len),
                    Err(e) if is_full(&e) => break,
                    Err(e) => return Err(format!("write {}: {e}", path.display())),
                }
                bytes += len as u64;
            }
            self.settle("full")?;
            self.remove_partial()?;
        }
        Ok(bytes)
    }

    fn settle(&self, when: &str) -> Result<(), String> {
        File::open(&self.dir).and_then(|d| d.sync_all()).map_err(|e| format!("fsync when {when}: {e}"))
    }

    /// The file whose writing failed.
    fn remove_partial(&mut self) -> Result<(), String> {
        let path = self.path(self.next - 1);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(format!("remove {}: {e}", path.display())),
            _ => Ok(()),
        }
    }

    /// Where a file is: there was space to move it, perhaps, and none to move it back.
    fn now_at(&self, path: &Path) -> PathBuf {
        if path.exists() { path.to_owned() } else { self.dir.join("moved") }
    }

    /// What else one may try on a full device: success or ENOSPC.
    fn try_others(&mut self) -> Result<(), String> {
        let some: Vec<u64> = self.files.keys().copied().take(20).collect();
        for number in some {
            let path = self.path(number);
            let len = self.files[&number];
            let data = content(number, len);
            let tried = [
                ("mkdir", fs::create_dir(self.dir.join("extra"))),
                ("rmdir", fs::remove_dir(self.dir.join("extra")).or_else(not_there)),
                ("overwrite", File::options().write(true).open(&path).and_then(|mut f| f.write_all(&data))),
                ("rename", fs::rename(&path, self.dir.join("moved"))),
                ("back", fs::rename(self.dir.join("moved"), &path).or_else(not_there)),
                ("link", fs::hard_link(self.now_at(&path), self.dir.join("link"))),
                ("unlink", fs::remove_file(self.dir.join("link")).or_else(not_there)),
            ];
            for (what, done) in tried {
                match done {
                    Err(e) if !is_full(&e) => {
                        return Err(format!("{what} of {} when full: {e}", path.display()));
                    }
                    _ => {}
                }
            }
            if !path.exists() {
                fs::rename(self.dir.join("moved"), &path).map_err(|e| format!("rename back later: {e}"))?;
            }
        }
        Ok(())
    }

    /// Deletes each file of whose place in the order of their numbers `gone` holds.
    fn delete(&mut self, gone: impl Fn(usize) -> bool) -> Result<(), String> {
        let places = self.files.keys().copied().enumerate();
        let gone: Vec<u64> = places.filter(|(place, _)| gone(*place)).map(|(_, number)| number).collect();
        for number in gone {
            let path = self.path(number);
            fs::remove_file(&path).map_err(|e| format!("remove {} when full: {e}", path.display()))?;
            self.files.remove(&number);
        }
        Ok(())
    }

    fn verify(&self) -> Result<(), String> {
        for (number, len) in &self.files {
            let path = self.path(*number);
            let data = fs::read(&path).map_err(|e| format!("read {}: {e}", path.display()))?;
            if data != content(*number, *len) {
                return Err(format!("{} differs from what was written", path.display()));
            }
        }
        Ok(())
    }
}

fn not_there(e: io::Error) -> io::Result<()> {
    if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) }
}

/// Fills the file system of `dir`, deletes half of it, and so on; what is left is compared each time.
pub fn fill(dir: &Path, seed: u64, rounds: u64) -> Done {
    println!("seed {seed}");
    let mut filler =
        Filler { dir: dir.to_owned(), random: Random::new(seed), next: 0, files: BTreeMap::new() };
    for n in 0..10 {
        fs::create_dir(dir.join(format!("d{n}"))).map_err(|e| format!("prepare: {e}"))?;
    }
    let mut first = 0;
    for round in 1..=rounds {
        let bytes = filler.fill()?;
        if round == 1 {
            first = bytes;
        }
        filler.try_others()?;
        filler.verify()?;
        println!("round {round}: {} MiB, {} files", bytes >> 20, filler.files.len());
        filler.delete(|place| place as u64 % 2 == round % 2)?;
        filler.settle("half empty")?;
    }
    filler.verify()?;
    filler.delete(|_| true)?;
    let again = filler.fill()?;
    filler.delete(|_| true)?;
    // Space that does not come back would be lost for ever.
    if again < first / 10 * 9 {
        return Err(format!("{} MiB at first, only {} MiB at the end", first >> 20, again >> 20));
    }
    Ok(format!("{rounds} rounds, {} MiB at first, {} MiB at the end", first >> 20, again >> 20))
}

/// Makes `count` small files, looks at each, and removes them.
pub fn files(dir: &Path, count: u64) -> Done {
    let path = |n: u64| dir.join(format!("many{}/file-with-a-name-{n}", n / 1000));
    let text = |n: u64, e: io::Error| format!("file {n}: {e}");
    for n in 0..count {
        if n.is_multiple_of(1000) {
            fs::create_dir(dir.join(format!("many{}", n / 1000))).map_err(|e| text(n, e))?;
        }
        fs::write(path(n), n.to_le_bytes()).map_err(|e| text(n, e))?;
    }
    for n in 0..count {
        let len = fs::metadata(path(n)).map_err(|e| text(n, e))?.len();
        if len != 8 {
            return Err(format!("file {n} has {len} bytes"));
        }
    }
    for n in 0..count {
        fs::remove_file(path(n)).map_err(|e| text(n, e))?;
    }
    for n in 0..count.div_ceil(1000) {
        fs::remove_dir(dir.join(format!("many{n}"))).map_err(|e| text(n, e))?;
    }
    Ok(format!("{count} files made, looked at, removed"))
}
