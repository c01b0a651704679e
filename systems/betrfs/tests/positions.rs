//! Places in directories: whoever goes back, jumps, makes or removes names meanwhile, a place stays where it was. A model and
//! random operations; `BETRFS_SEED` repeats one run.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use betree::SimStorage;
use betrfs::{DirStream, Error, FormatOptions, Fs, MountOptions, NewFile, Options, RenameMode};
use needs::needs;

const ROOT: u64 = 1;
const STEPS: usize = 4000;
/// Different names; some are long enough to share all that a prefix could tell.
const NAMES: u64 = 400;
/// Places that somebody may come back to.
const PLACES_MAX: usize = 500;

struct Random(u64);

impl Random {
    fn seeded() -> (u64, Random) {
        let seed = std::env::var("BETRFS_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed: u64 = seed.unwrap_or_else(|| {
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
        });
        println!("BETRFS_SEED={seed}");
        (seed, Random(seed | 1))
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }

    fn name(&mut self) -> Vec<u8> {
        let number = self.below(NAMES);
        let prefix = if number.is_multiple_of(3) { "x".repeat(200) } else { String::new() };
        format!("{prefix}{number:03}").into_bytes()
    }
}

fn open(storage: &SimStorage, store: betree::Options) -> Fs {
    Fs::open(storage.clone(), &Options::with_store(store)).expect("open")
}

/// Any place that was ever given is behind its name, also when that is gone and others came: what is read there is exactly what
/// the model has behind that name.
#[test]
fn a_place_in_a_directory_stays_whatever_comes_and_goes() {
    let (seed, mut random) = Random::seeded();
    let storage = SimStorage::new(64 << 20);
    Fs::format(storage.clone(), &Options::with_store(betree::Options::tiny())).expect("format");
    let fs = open(&storage, betree::Options::tiny());
    let mut model = BTreeSet::<Vec<u8>>::new();
    // Streams, of which each goes on from anywhere.
    let mut streams: Vec<DirStream> = (0..4).map(|_| DirStream::default()).collect();
    let mut places = BTreeMap::<u64, Vec<u8>>::new();
    for step in 0..STEPS {
        let name = random.name();
        match random.below(6) {
            0 | 1 => {
                let new = NewFile { mode: libc::S_IFREG | 0o644, ..NewFile::default() };
                match fs.make(ROOT, &name, new) {
                    Ok(attr) => {
                        fs.forget(attr.ino, 1);
                        assert!(model.insert(name), "seed {seed}, step {step}");
                    }
                    Err(Error::Exists) => assert!(model.contains(&name), "seed {seed}, step {step}"),
                    Err(error) => panic!("seed {seed}, step {step}: {error}"),
                }
            }
            2 => assert_eq!(fs.unlink(ROOT, &name).is_ok(), model.remove(&name), "seed {seed}, step {step}"),
            3 => {
                let to = random.name();
                if model.contains(&name) && name != to {
                    fs.rename(ROOT, &name, ROOT, &to, RenameMode::Replace).expect("rename");
                    model.remove(&name);
                    model.insert(to);
                }
            }
            _ => {
                let at = random.below(places.len() as u64 + 1) as usize;
                let (off, behind) =
                    places.iter().nth(at).map_or((2, None), |(off, name)| (*off, Some(name.clone())));
                let room = 1 + random.below(40) as usize;
                let stream = random.below(streams.len() as u64) as usize;
                let mut found = Vec::new();
                fs.read_dir(ROOT, &mut streams[stream], off, false, &mut |item| {
                    if found.len() < room {
                        found.push((item.name.to_vec(), item.next));
                    }
                    found.len() < room
                })
                .unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
                let expected: Vec<_> = model
                    .iter()
                    .filter(|name| behind.as_ref().is_none_or(|behind| *name > behind))
                    .take(room)
                    .collect();
                let names: Vec<_> = found.iter().map(|(name, _)| name).collect();
                assert!(
                    names == expected,
                    "seed {seed}, step {step}: behind {behind:?} {names:?}, not {expected:?}"
                );
                for (name, next) in found {
                    let same = places.insert(next, name.clone()).is_none_or(|before| before == name);
                    assert!(same, "seed {seed}, step {step}: one place for two names");
                }
                while places.len() > PLACES_MAX {
                    let at = random.below(places.len() as u64) as usize;
                    let off = *places.keys().nth(at).expect("there are so many");
                    places.remove(&off);
                }
            }
        }
    }
}

/// A directory that is open: telldir(3) and seekdir(3) are in no library of Rust's.
struct Dir(*mut libc::DIR);

impl Dir {
    fn open(path: &Path) -> Dir {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends with NUL.
        let dir = unsafe { libc::opendir(path.as_ptr()) };
        assert!(!dir.is_null(), "{}", std::io::Error::last_os_error());
        Dir(dir)
    }

    fn next(&mut self) -> Option<String> {
        // SAFETY: the directory is open, and nobody else reads it.
        let entry = unsafe { libc::readdir(self.0) };
        // SAFETY: an entry is there until the next call, and its name ends with NUL.
        (!entry.is_null())
            .then(|| unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) }.to_str().unwrap().into())
    }

    fn tell(&self) -> libc::c_long {
        // SAFETY: the directory is open.
        unsafe { libc::telldir(self.0) }
    }

    fn seek(&mut self, place: libc::c_long) {
        // SAFETY: the directory is open, and the place was told of it.
        unsafe { libc::seekdir(self.0, place) };
    }

    fn rewind(&mut self) {
        // SAFETY: the directory is open.
        unsafe { libc::rewinddir(self.0) };
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // SAFETY: it was opened by `open`, and is not used any more.
        unsafe { libc::closedir(self.0) };
    }
}

/// Through the kernel, which keeps names and their places: from any place that was told all names that stay follow, each once,
/// in the order in which they came the first time.
fn places_that_were_told_hold(options: &str) {
    const STAYING: usize = 300;
    let (seed, mut random) = Random::seeded();
    let bench = tempfile::tempdir().unwrap();
    let (image, mnt) = (bench.path().join("image"), bench.path().join("mnt"));
    std::fs::create_dir(&mnt).unwrap();
    let mut format = FormatOptions::default();
    format.size = Some(256 << 20);
    betrfs::format(&image, &format).unwrap();
    let options = MountOptions::parse(&format!("cache=64M,nolock,{options}")).unwrap();
    let mounted = betrfs::mount(&image, &mnt, &options).unwrap();
    let dir = mnt.join("dir");
    std::fs::create_dir(&dir).unwrap();
    let stays = |number: usize| format!("{number:04} stays");
    (0..STAYING).for_each(|number| std::fs::write(dir.join(stays(number)), b"").unwrap());
    let mut handles: Vec<Dir> = (0..3).map(|_| Dir::open(&dir)).collect();
    // Places, and how many of those that stay lie before them.
    let mut places: Vec<Vec<(libc::c_long, usize)>> = vec![Vec::new(); handles.len()];
    let number = |name: &str| name.strip_suffix(" stays").and_then(|number| number.parse::<usize>().ok());
    for step in 0..600 {
        let at = random.below(handles.len() as u64) as usize;
        let handle = &mut handles[at];
        let mut next = match random.below(4) {
            0 => {
                handle.rewind();
                0
            }
            _ if places[at].is_empty() => {
                handle.rewind();
                0
            }
            _ => {
                let (place, next) = places[at][random.below(places[at].len() as u64) as usize];
                handle.seek(place);
                next
            }
        };
        let count = random.below(2 * STAYING as u64);
        for _ in 0..count {
            let Some(name) = handle.next() else {
                assert_eq!(next, STAYING, "seed {seed}, step {step}: names were left out at the end");
                break;
            };
            if let Some(found) = number(&name) {
                assert_eq!(found, next, "seed {seed}, step {step}");
                next += 1;
            }
            if random.below(10) == 0 {
                places[at].push((handle.tell(), next));
            }
            if random.below(20) == 0 {
                let passing = dir.join(format!("{:04} passes", random.below(STAYING as u64)));
                if std::fs::remove_file(&passing).is_err() {
                    std::fs::write(&passing, b"").unwrap();
                }
            }
        }
    }
    drop(handles);
    mounted.unmount().unwrap();
}

#[test]
fn places_that_were_told_hold_through_the_device() {
    needs!(Root, Mounts, Fuse);
    places_that_were_told_hold("transport=classic");
}

#[test]
fn places_that_were_told_hold_through_rings() {
    needs!(Root, Mounts, Fuse, Rings);
    places_that_were_told_hold("transport=uring,steps=v0.6");
}
