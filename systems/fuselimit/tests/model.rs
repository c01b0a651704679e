//! Random operations through the kernel, on the file system and on a plain directory: both say and hold the same.
//! `FUSELIMIT_SEED` repeats one.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fuselimit::{Mounted, Options};
use needs::needs;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Far more than anything takes, on the slowest machine: it ends what hangs.
const DEADLINE: Duration = Duration::from_secs(600);
const OPERATIONS: usize = 4000;
/// Open files, of which some lose their names.
const OPEN_MAX: usize = 6;
/// Bytes that one operation writes or cuts at most: some blocks of the file system.
const BYTES_MAX: usize = 300 << 10;

struct Bench {
    dir: tempfile::TempDir,
    mounted: Option<Mounted>,
}

impl Bench {
    fn new(options: &str) -> Bench {
        let dir = tempfile::tempdir().expect("a directory");
        let at = dir.path().join("mnt");
        std::fs::create_dir(&at).expect("mkdir");
        std::fs::create_dir(dir.path().join("plain")).expect("mkdir");
        let options = Options::parse(&format!("nolock,{options}")).expect("options");
        let mounted = Some(fuselimit::mount(Path::new("test"), &at, &options).expect("mount"));
        Bench { dir, mounted }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("mnt").join(path)
    }

    fn end(mut self) {
        self.mounted.take().expect("is mounted").unmount().expect("unmount");
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if self.mounted.is_some() {
            let _ = fusewire::force_unmount(&self.at(""));
        }
    }
}

type Random = Xoshiro256PlusPlus;

fn some_path(random: &mut Random) -> String {
    let name = |random: &mut Random| format!("n{}", random.random_range(0..6));
    let deep = random.random_range(0..3);
    let mut path = name(random);
    (0..deep).for_each(|_| path = format!("{path}/{}", name(random)));
    path
}

fn some_bytes(random: &mut Random) -> Vec<u8> {
    let most = [5, 5000, BYTES_MAX][random.random_range(0..3)];
    let (len, first) = (random.random_range(0..most), random.random_range(1..=255u8));
    (0..len).map(|at| first.wrapping_add(at as u8)).collect()
}

/// What an operation says: a word or an error's number.
type Said = Result<String, i32>;

fn said<T>(result: io::Result<T>, word: impl FnOnce(T) -> String) -> Said {
    result.map(word).map_err(|error| error.raw_os_error().unwrap_or(0))
}

fn done(result: io::Result<()>) -> Said {
    said(result, |()| String::new())
}

/// An operation, to be done twice.
#[derive(Debug)]
enum Doing {
    Create(String, Vec<u8>),
    Write(String, u64, Vec<u8>),
    Append(String, Vec<u8>),
    Read(String, u64, usize),
    Cut(String, u64),
    Mkdir(String),
    Rmdir(String),
    Unlink(String),
    Rename(String, String),
    Exchange(String, String),
    Link(String, String),
    Symlink(String, String),
    Mode(String, u32),
    List(String),
    Stat(String),
    Open(String),
    Through(usize, u64, Vec<u8>),
    Close(usize),
    Allocate(String, u64),
}

fn draw(random: &mut Random) -> Doing {
    let path = some_path(random);
    let at = random.random_range(0..BYTES_MAX as u64);
    match random.random_range(0..19) {
        0 | 1 => Doing::Create(path, some_bytes(random)),
        2 => Doing::Write(path, at, some_bytes(random)),
        3 => Doing::Append(path, some_bytes(random)),
        4 => Doing::Read(path, at, random.random_range(0..BYTES_MAX)),
        5 => Doing::Cut(path, at),
        6 | 7 => Doing::Mkdir(path),
        8 => Doing::Rmdir(path),
        9 => Doing::Unlink(path),
        10 => Doing::Rename(path, some_path(random)),
        11 => Doing::Exchange(path, some_path(random)),
        12 => Doing::Link(path, some_path(random)),
        13 => Doing::Symlink(some_path(random), path),
        14 => Doing::Mode(path, random.random_range(0..0o10000)),
        15 => match random.random_range(0..3) {
            0 => Doing::Allocate(path, at),
            1 => Doing::Stat(path),
            _ => Doing::List(path),
        },
        16 => Doing::Open(path),
        17 => Doing::Through(random.random_range(0..OPEN_MAX), at, some_bytes(random)),
        _ => Doing::Close(random.random_range(0..OPEN_MAX)),
    }
}

/// One of the two.
struct Side {
    root: PathBuf,
    open: Vec<File>,
}

fn seen(meta: &Metadata) -> String {
    let links = if meta.is_dir() { 0 } else { meta.nlink() };
    let size = if meta.is_dir() { 0 } else { meta.len() };
    format!("{:o} {links} {size}", meta.mode())
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(bytes.len() as u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

fn read_at(file: &File, at: u64, len: usize) -> io::Result<String> {
    let mut out = vec![0; len];
    let mut there = 0;
    while there < len {
        match file.read_at(&mut out[there..], at + there as u64)? {
            0 => break,
            bytes => there += bytes,
        }
    }
    Ok(format!("{there} {}", sum(&out[..there])))
}

impl Side {
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn open(&self, path: &str, options: &mut OpenOptions) -> io::Result<File> {
        options.open(self.at(path))
    }

    fn list(&self, path: &str) -> io::Result<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.at(path))?
            .map(|entry| entry.map(|entry| format!("{:?} {:?}", entry.file_name(), entry.file_type().ok())))
            .collect::<io::Result<_>>()?;
        names.sort();
        Ok(names.join("\n"))
    }

    fn rename(&self, from: &str, to: &str, flags: rustix::fs::RenameFlags) -> io::Result<()> {
        let cwd = rustix::fs::CWD;
        Ok(rustix::fs::renameat_with(cwd, self.at(from), cwd, self.at(to), flags)?)
    }

    fn act(&mut self, doing: &Doing) -> Said {
        let mut options = File::options();
        match doing {
            Doing::Create(path, data) => {
                let made = self.open(path, options.write(true).create(true).truncate(true));
                done(made.and_then(|file| file.write_all_at(data, 0)))
            }
            Doing::Write(path, at, data) => {
                done(self.open(path, options.write(true)).and_then(|file| file.write_all_at(data, *at)))
            }
            Doing::Append(path, data) => {
                let file = self.open(path, options.append(true));
                done(file.and_then(|mut file| io::Write::write_all(&mut file, data)))
            }
            Doing::Read(path, at, len) => {
                said(self.open(path, options.read(true)).and_then(|file| read_at(&file, *at, *len)), |text| {
                    text
                })
            }
            Doing::Cut(path, at) => {
                done(self.open(path, options.write(true)).and_then(|file| file.set_len(*at)))
            }
            Doing::Mkdir(path) => done(std::fs::create_dir(self.at(path))),
            Doing::Rmdir(path) => done(std::fs::remove_dir(self.at(path))),
            Doing::Unlink(path) => done(std::fs::remove_file(self.at(path))),
            Doing::Rename(from, to) => done(self.rename(from, to, rustix::fs::RenameFlags::empty())),
            Doing::Exchange(from, to) => done(self.rename(from, to, rustix::fs::RenameFlags::EXCHANGE)),
            Doing::Link(from, to) => done(std::fs::hard_link(self.at(from), self.at(to))),
            Doing::Symlink(target, path) => done(symlink(target, self.at(path))),
            Doing::Mode(path, mode) => {
                done(std::fs::set_permissions(self.at(path), Permissions::from_mode(*mode)))
            }
            Doing::List(path) => said(self.list(path), |text| text),
            Doing::Stat(path) => said(self.at(path).symlink_metadata(), |meta| seen(&meta)),
            Doing::Open(path) => match self.open(path, options.read(true).write(true)) {
                Ok(_) if self.open.len() >= OPEN_MAX => Ok("enough".into()),
                opened => said(opened, |file| {
                    self.open.push(file);
                    "open".into()
                }),
            },
            Doing::Through(number, at, data) => {
                let Some(file) = self.open.get(*number) else { return Ok("none".into()) };
                let written = file.write_all_at(data, *at);
                said(written.and_then(|()| read_at(file, 0, BYTES_MAX * 2)), |text| text)
            }
            Doing::Close(number) => {
                if *number < self.open.len() {
                    self.open.remove(*number);
                }
                Ok(String::new())
            }
            Doing::Allocate(path, at) => {
                let flags = rustix::fs::FallocateFlags::empty();
                let file = self.open(path, options.write(true));
                done(file.and_then(|file| Ok(rustix::fs::fallocate(&file, flags, 0, *at + 1)?)))
            }
        }
    }

    /// All that is there.
    fn all(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut dirs = vec![String::new()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(self.at(&dir)).expect("list") {
                let entry = entry.expect("an entry");
                let path = format!("{dir}{}", entry.file_name().to_str().expect("a name of ours"));
                let meta = entry.metadata().expect("its attributes");
                let holds = if meta.is_dir() {
                    dirs.push(format!("{path}/"));
                    String::new()
                } else if meta.is_symlink() {
                    format!("{:?}", std::fs::read_link(entry.path()))
                } else {
                    sum(&std::fs::read(entry.path()).expect("read")).to_string()
                };
                found.insert(path, format!("{} {holds}", seen(&meta)));
            }
        }
        found
    }
}

fn soak(transport: &str) {
    let given = std::env::var("FUSELIMIT_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = given.unwrap_or_else(|| rand::rng().random());
    println!("FUSELIMIT_SEED={seed} ({transport})");
    let bench = Bench::new(&format!("size=1G,transport={transport}"));
    let side = |name| Side { root: bench.dir.path().join(name), open: Vec::new() };
    let mut sides = [side("mnt"), side("plain")];
    let mut random = Random::seed_from_u64(seed);
    let mut well = 0;
    for number in 0..OPERATIONS {
        let doing = draw(&mut random);
        let [limit, plain] = &mut sides;
        let (ours, theirs) = (limit.act(&doing), plain.act(&doing));
        well += usize::from(theirs.is_ok());
        assert_eq!(ours, theirs, "seed {seed}, operation {number}: {:.200}", format!("{doing:?}"));
        if number % (OPERATIONS / 4) == OPERATIONS / 8 {
            // What the kernel knows of names, inodes and data goes: all is asked for again.
            let _ = host::Host::system().drop_caches();
            assert_eq!(limit.all(), plain.all(), "seed {seed}, after operation {number}");
        }
    }
    assert!(well > OPERATIONS / 8, "only {well} operations were possible");
    let left = || rustix::fs::statvfs(bench.at("").as_path()).expect("statvfs").f_bfree;
    let [limit, plain] = sides;
    assert_eq!(limit.all(), plain.all(), "seed {seed}, at the end");
    drop((limit.open, plain.open));
    for entry in std::fs::read_dir(bench.at("")).expect("list") {
        let path = entry.expect("an entry").path();
        match path.symlink_metadata().expect("its attributes").is_dir() {
            true => std::fs::remove_dir_all(path).expect("remove"),
            false => std::fs::remove_file(path).expect("remove"),
        }
    }
    // The kernel forgets a file after its last name has gone, at its leisure.
    let (begun, all) = (Instant::now(), (1 << 30) / 4096);
    while left() < all && begun.elapsed() < DEADLINE {
        std::thread::yield_now();
    }
    assert_eq!(left(), all, "seed {seed}: memory of what was removed is kept");
    bench.end();
}

#[test]
fn as_a_plain_directory() {
    needs!(Mounts, Fuse);
    soak("classic");
}

#[test]
fn as_a_plain_directory_through_rings() {
    needs!(Mounts, Rings);
    soak("uring");
}

#[test]
fn a_full_one_says_so_and_takes_more_when_there_is_room() {
    needs!(Mounts, Fuse);
    let bench = Bench::new("size=1M,transport=classic");
    let full = std::fs::write(bench.at("large"), vec![1; 2 << 20]).expect_err("written");
    assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
    let many = (0..10_000).map(|number| File::create(bench.at(&format!("f{number}"))));
    let refused = many.filter_map(Result::err).next().expect("10,000 files in 1 MiB");
    assert_eq!(refused.raw_os_error(), Some(libc::ENOSPC));
    std::fs::remove_file(bench.at("large")).expect("unlink");
    let begun = Instant::now();
    while std::fs::write(bench.at("again"), [1; 5000]).is_err() {
        assert!(begun.elapsed() < DEADLINE, "what was removed is kept");
        std::thread::yield_now();
    }
    bench.end();
}

#[test]
fn what_it_does_not_do_it_refuses() {
    needs!(Mounts, Fuse);
    let bench = Bench::new("size=16M,transport=classic");
    let file = File::create(bench.at("f")).expect("create");
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    assert_eq!(rustix::fs::fallocate(&file, punch, 0, 4096), Err(rustix::io::Errno::OPNOTSUPP));
    let flags = rustix::fs::XattrFlags::empty();
    assert_eq!(rustix::fs::fsetxattr(&file, "user.x", b"1", flags), Err(rustix::io::Errno::OPNOTSUPP));
    let mut value = [0u8; 8];
    assert_eq!(rustix::fs::fgetxattr(&file, "user.x", &mut value[..]), Err(rustix::io::Errno::NODATA));
    assert_eq!(rustix::fs::flistxattr(&file, &mut value[..]), Ok(0));
    let too_large = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1 << 30);
    assert_eq!(too_large, Err(rustix::io::Errno::NOSPC));
    drop(file);
    bench.end();
}
