//! What the kernel holds and the daemon does not: pages that were stored to through a mapping, or, with `-o writeback`, written.
//! Who asks for holes, as `cp` and `tar -S` do, must find them all the same. `BETRFS_SEED` repeats one random run.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use betrfs::{FormatOptions, MountOptions, Mounted};
use needs::needs;

/// Far more than anything takes, on the slowest machine: it ends what hangs.
const DEADLINE: Duration = Duration::from_secs(600);
const PAGE: usize = 4096;
/// As large as the file of the report that started this.
const FILE_BYTES: usize = 8 << 20;
/// Pages of the file of the random run, and steps of it.
const PAGES: usize = 64;
const STEPS: usize = 400;

struct Bench {
    dir: tempfile::TempDir,
    mounted: Option<Mounted>,
    options: String,
}

impl Bench {
    fn new(options: &str) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let mut format = FormatOptions::default();
        format.size = Some(512 << 20);
        betrfs::format(&dir.path().join("image"), &format).unwrap();
        std::fs::create_dir(dir.path().join("mnt")).unwrap();
        std::fs::create_dir(dir.path().join("copies")).unwrap();
        let mut bench = Bench { dir, mounted: None, options: options.into() };
        bench.mount();
        bench
    }

    fn mount(&mut self) {
        let options = MountOptions::parse(&format!("cache=64M,nolock,{}", self.options)).unwrap();
        let mounted = betrfs::mount(&self.dir.path().join("image"), &self.at(""), &options).unwrap();
        self.mounted = Some(mounted);
    }

    fn unmount(&mut self) {
        self.mounted.take().unwrap().unmount().unwrap();
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("mnt").join(path)
    }

    /// On another file system.
    fn copy(&self, path: &str) -> PathBuf {
        self.dir.path().join("copies").join(path)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if self.mounted.is_some() {
            let _ = fusewire::force_unmount(&self.at(""));
        }
    }
}

/// A shared mapping that can be stored to.
struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    fn of(file: &File, bytes: usize) -> Mapping {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(start, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        Mapping { start: start.cast(), bytes }
    }

    fn store(&mut self, at: usize, data: &[u8]) {
        assert!(at + data.len() <= self.bytes);
        // SAFETY: the range lies in the mapping, which is this one's alone.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.start.add(at), data.len()) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // The kernel writes dirty pages when they are unmapped, and keeps this process, which serves the file system as well,
        // from any other change of its memory meanwhile. So they are written before that.
        // SAFETY: it was mapped by `of`, and nothing refers to it any more.
        unsafe {
            libc::msync(self.start.cast(), self.bytes, libc::MS_SYNC);
            libc::munmap(self.start.cast(), self.bytes);
        }
    }
}

fn run(program: &str, arguments: &[&std::ffi::OsStr]) {
    let done = Command::new(program).args(arguments).output().unwrap();
    assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Copies the file or directory as `cp` and as `tar -S` do, which look for holes; the copies' paths.
fn copies(bench: &Bench, name: &str) -> [PathBuf; 2] {
    let by_cp = bench.copy(&format!("{name}-cp"));
    let from = bench.at(name);
    run("cp", &["-r".as_ref(), "--sparse=auto".as_ref(), from.as_os_str(), by_cp.as_os_str()]);
    [by_cp, copy_by_tar(bench, name)]
}

fn copy_by_tar(bench: &Bench, name: &str) -> PathBuf {
    let (by_tar, archive) = (bench.copy(&format!("{name}-tar")), bench.copy(&format!("{name}.tar")));
    let mut tar = Command::new("tar");
    tar.env("LC_ALL", "C").arg("-Scf").arg(&archive).arg("-C").arg(bench.at("")).arg(name);
    let made = tar.output().unwrap();
    // Looking for holes makes the kernel pass its pages on, by which ctime moves: tar says so, and ends with 1.
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success() || said.ends_with("file changed as we read it\n"), "tar: {said}");
    std::fs::create_dir(&by_tar).unwrap();
    run("tar", &["-xSf".as_ref(), archive.as_os_str(), "-C".as_ref(), by_tar.as_os_str()]);
    by_tar.join(name)
}

fn differs(found: &[u8], expected: &[u8]) -> Option<usize> {
    if found.len() != expected.len() {
        return Some(found.len().min(expected.len()));
    }
    found.iter().zip(expected).position(|(a, b)| a != b)
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / PAGE + at) as u8 | 1).collect()
}

fn new_file(path: &Path, bytes: usize) -> File {
    let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    file.set_len(bytes as u64).unwrap();
    file
}

/// `numpy.memmap`, and any program like it: a sparse file is made, mapped and filled.
fn a_mapping_that_was_not_synced_is_copied_whole(bench: &mut Bench) {
    let file = new_file(&bench.at("mapped"), FILE_BYTES);
    let mut mapping = Mapping::of(&file, FILE_BYTES);
    let data = pattern(FILE_BYTES);
    mapping.store(0, &data);
    for copy in copies(bench, "mapped") {
        assert_eq!(differs(&std::fs::read(&copy).unwrap(), &data), None, "{}", copy.display());
    }
    // The mapping outlives its descriptor.
    drop(file);
    let other: Vec<u8> = data.iter().map(|byte| byte.wrapping_add(2) | 1).collect();
    mapping.store(0, &other);
    std::fs::rename(bench.at("mapped"), bench.at("again")).unwrap();
    for copy in copies(bench, "again") {
        assert_eq!(differs(&std::fs::read(&copy).unwrap(), &other), None, "{}", copy.display());
    }
}

/// `tar` takes a file without blocks for one hole, and asks no further.
fn tar_alone_copies_what_only_a_mapping_has(bench: &mut Bench) {
    let file = new_file(&bench.at("tarred"), FILE_BYTES);
    let mut mapping = Mapping::of(&file, FILE_BYTES);
    let data = pattern(FILE_BYTES);
    mapping.store(0, &data);
    let copy = copy_by_tar(bench, "tarred");
    assert_eq!(differs(&std::fs::read(copy).unwrap(), &data), None);
}

/// Data here and there between holes, some of it only in the mapping: it is found, and holes stay holes where nothing is.
fn islands_in_a_mapping_are_copied_and_holes_stay(bench: &mut Bench) {
    let file = new_file(&bench.at("islands"), FILE_BYTES);
    let mut model = vec![0; FILE_BYTES];
    for at in [1 << 20, 5 << 20] {
        file.write_all_at(&[7; PAGE], at as u64).unwrap();
        model[at..at + PAGE].fill(7);
    }
    let mut mapping = Mapping::of(&file, FILE_BYTES);
    for at in [3 << 20, (6 << 20) + 17, FILE_BYTES - 1] {
        mapping.store(at, b"x");
        model[at] = b'x';
    }
    for copy in copies(bench, "islands") {
        assert_eq!(differs(&std::fs::read(&copy).unwrap(), &model), None, "{}", copy.display());
        let blocks = std::fs::metadata(&copy).unwrap().blocks() * 512;
        assert!(blocks <= 64 << 10, "{}: {blocks} bytes for five pages", copy.display());
    }
}

/// A database that maps its file and writes through the mapping.
fn an_open_lmdb_environment_can_be_copied(bench: &mut Bench) {
    const ENTRIES: u32 = 2000;
    std::fs::create_dir(bench.at("env")).unwrap();
    let open = |path: &Path| {
        let mut options = heed::EnvOpenOptions::new();
        options.map_size(64 << 20);
        // SAFETY: nobody else opens the environment, and its files stay as they are while it is open.
        unsafe {
            options.flags(heed::EnvFlags::WRITE_MAP | heed::EnvFlags::MAP_ASYNC | heed::EnvFlags::NO_SYNC);
            options.open(path).unwrap()
        }
    };
    let env = open(&bench.at("env"));
    let mut writing = env.write_txn().unwrap();
    let numbers: heed::Database<heed::types::Bytes, heed::types::Bytes> =
        env.create_database(&mut writing, None).unwrap();
    for n in 0..ENTRIES {
        numbers.put(&mut writing, &n.to_be_bytes(), &[n as u8; 500]).unwrap();
    }
    writing.commit().unwrap();
    for copy in copies(bench, "env") {
        let env = open(&copy);
        let reading = env.read_txn().unwrap();
        let numbers: heed::Database<heed::types::Bytes, heed::types::Bytes> =
            env.open_database(&reading, None).unwrap().expect("its table");
        let read = (0..ENTRIES).filter(|n| {
            let value = numbers.get(&reading, &n.to_be_bytes()).unwrap();
            value == Some(&[*n as u8; 500][..])
        });
        assert_eq!(read.count() as u32, ENTRIES, "{}", copy.display());
    }
}

/// Plain writes, which with `-o writeback` stay in the kernel; some of them behind the end that the daemon knows.
fn what_was_written_is_copied_whole(bench: &mut Bench) {
    let file = new_file(&bench.at("written"), 1 << 20);
    let mut model = vec![0; 3 << 20];
    for at in [100 << 10, 700 << 10, 2 << 20, (3 << 20) - PAGE] {
        file.write_all_at(&[9; PAGE], at as u64).unwrap();
        model[at..at + PAGE].fill(9);
    }
    for copy in copies(bench, "written") {
        assert_eq!(differs(&std::fs::read(&copy).unwrap(), &model), None, "{}", copy.display());
    }
}

fn seek(file: &File, at: usize, whence: i32) -> Option<usize> {
    // SAFETY: a system call that takes numbers.
    match unsafe { libc::lseek(file.as_raw_fd(), at as i64, whence) } {
        -1 => {
            assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::ENXIO), "at {at}");
            None
        }
        found => Some(found as usize),
    }
}

/// A file that nobody but the daemon has in memory shows its holes, as it always did.
fn a_file_at_rest_shows_its_holes(bench: &mut Bench) {
    let file = new_file(&bench.at("rest"), FILE_BYTES);
    for at in [1 << 20, 5 << 20] {
        file.write_all_at(&[7; 3 * PAGE], at as u64).unwrap();
    }
    drop(file);
    bench.unmount();
    bench.mount();
    let look = |bench: &Bench| {
        let file = File::open(bench.at("rest")).unwrap();
        assert_eq!(seek(&file, 0, libc::SEEK_DATA), Some(1 << 20));
        assert_eq!(seek(&file, 1 << 20, libc::SEEK_HOLE), Some((1 << 20) + 3 * PAGE));
        assert_eq!(seek(&file, (1 << 20) + PAGE + 5, libc::SEEK_HOLE), Some((1 << 20) + 3 * PAGE));
        assert_eq!(seek(&file, 2 << 20, libc::SEEK_HOLE), Some(2 << 20));
        assert_eq!(seek(&file, 2 << 20, libc::SEEK_DATA), Some(5 << 20));
        assert_eq!(seek(&file, 6 << 20, libc::SEEK_DATA), None);
        assert_eq!(seek(&file, 6 << 20, libc::SEEK_HOLE), Some(6 << 20));
        assert_eq!(seek(&file, FILE_BYTES, libc::SEEK_HOLE), None);
    };
    look(bench);
    // In the kernel's page cache it shows them as well.
    std::fs::read(bench.at("rest")).unwrap();
    look(bench);
}

/// Stores, writes, cuts and punches at random; after each step nothing but zeros lies in what is called a hole.
fn no_hole_holds_data_whatever_was_done(bench: &mut Bench) {
    let seed = std::env::var("BETRFS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
    });
    println!("BETRFS_SEED={seed}");
    let mut state = seed | 1;
    let mut below = move |n: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    };
    let file = new_file(&bench.at("random"), PAGES * PAGE);
    let mut mapping = Mapping::of(&file, PAGES * PAGE);
    let mut model = vec![0u8; PAGES * PAGE];
    for step in 0..STEPS {
        let at = below(model.len().max(1));
        let len = (1 + below(2 * PAGE)).min(PAGES * PAGE - at);
        match below(6) {
            // A store behind the end would be a SIGBUS, or of nothing.
            0..3 if at < model.len() => {
                let len = len.min(model.len() - at);
                mapping.store(at, &vec![step as u8 | 1; len]);
                model[at..at + len].fill(step as u8 | 1);
            }
            3 => {
                file.write_all_at(&vec![step as u8 | 1; len], at as u64).unwrap();
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].fill(step as u8 | 1);
            }
            4 => {
                let size = below(PAGES * PAGE + 1);
                file.set_len(size as u64).unwrap();
                model.resize(size, 0);
            }
            _ => {
                let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&file, flags, at as u64, len as u64).unwrap();
                let end = (at + len).min(model.len());
                model[at.min(end)..end].fill(0);
            }
        }
        let from = below(model.len().max(1));
        let data = seek(&file, from, libc::SEEK_DATA);
        let hole = model[from.min(model.len())..data.unwrap_or(model.len())].iter();
        assert!(
            hole.copied().all(|byte| byte == 0),
            "seed {seed}, step {step}: data before {data:?} from {from}"
        );
        let hole = seek(&file, from, libc::SEEK_HOLE);
        assert_eq!(hole.is_some(), from < model.len(), "seed {seed}, step {step}: a hole from {from}");
        let Some(hole) = hole else { continue };
        let page = &model[hole..(hole / PAGE * PAGE + PAGE).clamp(hole, model.len())];
        assert!(page.iter().all(|byte| *byte == 0), "seed {seed}, step {step}: data in the hole at {hole}");
    }
    assert_eq!(differs(&std::fs::read(bench.at("random")).unwrap(), &model), None, "seed {seed}");
}

/// More seeks at once than there are threads, each of which has the kernel write pages: all end.
fn many_seeks_at_once_leave_room_for_the_kernels_writes(bench: &mut Bench) {
    const SEEKERS: usize = 40;
    let bench = &*bench;
    std::thread::scope(|scope| {
        for seeker in 0..SEEKERS {
            scope.spawn(move || {
                let file = new_file(&bench.at(&format!("seeker{seeker}")), 64 * PAGE);
                let mut mapping = Mapping::of(&file, 64 * PAGE);
                for page in (0..64).rev() {
                    mapping.store(page * PAGE, b"here");
                    let data = seek(&file, 0, libc::SEEK_DATA).expect("there are data");
                    assert!(data <= page * PAGE, "{data} though page {page} has some");
                }
            });
        }
    });
}

/// What the kernel collects and finds no space for is dropped: whoever writes until there is an error must meet one.
fn who_writes_until_the_device_is_full_ends(bench: &mut Bench) {
    const MIB: usize = 1 << 20;
    const MOST: usize = 4 << 10;
    if !bench.options.contains("writeback") {
        return;
    }
    let others = new_file(&bench.at("others"), 0);
    rustix::fs::fallocate(&others, rustix::fs::FallocateFlags::empty(), 0, 250 << 20).unwrap();
    let path = bench.at("full");
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let piece = pattern(MIB);
    let refused = (0..MOST).find_map(|_| file.write_all(&piece).err());
    let refused = refused.expect("4 GiB were written into 512 MiB");
    assert_eq!(refused.raw_os_error(), Some(libc::ENOSPC));
    // It is said to who writes, and to nobody else.
    assert!(std::fs::metadata(&path).unwrap().len() > 0);
    assert!(std::fs::read(&path).is_ok_and(|found| found.len() >= MIB));
    let _ = file.sync_all();
    file.set_len(0).unwrap();
    file.rewind().unwrap();
    file.write_all(&piece).unwrap();
    file.sync_all().unwrap();
    assert_eq!(differs(&std::fs::read(&path).unwrap(), &piece), None);
}

/// The kernel takes what is stored to a mapping, and finds out later that there is no space: the sync must say so.
fn a_mapping_that_finds_no_space_is_said(bench: &mut Bench) {
    /// As much as a request of the kernel has. Of it a part fits.
    const STORED: usize = 1 << 20;
    let file = new_file(&bench.at("mapped"), STORED);
    let others = new_file(&bench.at("others"), 0);
    let (mut at, mut bytes) = (0, 256 << 20);
    while bytes >= STORED as u64 / 4 {
        match rustix::fs::fallocate(&others, rustix::fs::FallocateFlags::empty(), at, bytes) {
            Ok(()) => at += bytes,
            Err(_) => bytes /= 2,
        }
    }
    let mut mapping = Mapping::of(&file, STORED);
    mapping.store(0, &pattern(STORED));
    assert!(file.sync_all().is_err(), "1 MiB fits where a quarter of it did not");
    others.set_len(0).unwrap();
    others.sync_all().unwrap();
    mapping.store(0, &pattern(STORED));
    file.sync_all().unwrap();
}

type Test = fn(&mut Bench);

const TESTS: [(&str, Test); 10] = [
    ("a_mapping_that_finds_no_space_is_said", a_mapping_that_finds_no_space_is_said),
    ("who_writes_until_the_device_is_full_ends", who_writes_until_the_device_is_full_ends),
    ("a_mapping_that_was_not_synced_is_copied_whole", a_mapping_that_was_not_synced_is_copied_whole),
    ("tar_alone_copies_what_only_a_mapping_has", tar_alone_copies_what_only_a_mapping_has),
    ("islands_in_a_mapping_are_copied_and_holes_stay", islands_in_a_mapping_are_copied_and_holes_stay),
    ("an_open_lmdb_environment_can_be_copied", an_open_lmdb_environment_can_be_copied),
    ("what_was_written_is_copied_whole", what_was_written_is_copied_whole),
    ("a_file_at_rest_shows_its_holes", a_file_at_rest_shows_its_holes),
    ("no_hole_holds_data_whatever_was_done", no_hole_holds_data_whatever_was_done),
    (
        "many_seeks_at_once_leave_room_for_the_kernels_writes",
        many_seeks_at_once_leave_room_for_the_kernels_writes,
    ),
];

/// Runs all, each on a mount of its own with each of the options.
fn run_all(transport: &str) {
    let mut failed = Vec::new();
    for options in ["", "writeback", "keepnew", "buffered,nouring,threads=2", "writeback,threads=2"] {
        for (name, test) in TESTS {
            let options = format!("transport={transport},{options}");
            println!("{name}: {options}");
            let (done, ended) = mpsc::channel();
            let bench = Bench::new(&options);
            let at = Arc::new(bench.at(""));
            let thread = std::thread::spawn(move || {
                let mut bench = bench;
                let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&mut bench)));
                if fine.is_ok() {
                    bench.unmount();
                }
                let _ = done.send(());
                fine.is_ok()
            });
            let in_time = ended.recv_timeout(DEADLINE).is_ok();
            if !in_time {
                let _ = fusewire::force_unmount(&at);
            }
            if !thread.join().unwrap_or(false) || !in_time {
                failed.push(format!("{name}: {options}"));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn mapped_through_the_device() {
    needs!(Root, Mounts, Fuse);
    run_all("classic");
}

#[test]
fn mapped_through_rings() {
    needs!(Root, Mounts, Fuse, Rings);
    run_all("uring");
}
