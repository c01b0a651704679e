//! Real mounts, each way.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use betrfs::{FormatOptions, MountOptions, Mounted};
use needs::needs;
use rustix::mount::MountFlags;

/// Far more than anything takes, on the slowest machine: it ends what hangs.
const DEADLINE: Duration = Duration::from_secs(600);
const BYTES: u64 = 512 << 20;
/// Asynchronous writes among readers: without care old data are found within some tens.
const ROUNDS: usize = 2000;

struct Bench {
    dir: tempfile::TempDir,
    options: String,
}

impl Bench {
    fn new(options: &str) -> Bench {
        let bench = Bench { dir: tempfile::tempdir().unwrap(), options: options.into() };
        let mut format = FormatOptions::default();
        format.size = Some(BYTES);
        betrfs::format(&bench.image(), &format).unwrap();
        std::fs::create_dir(bench.at("")).unwrap();
        bench
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("mnt").join(path)
    }

    fn mount(&self) -> Mounted {
        let options = MountOptions::parse(&format!("cache=64M,nolock,{}", self.options)).unwrap();
        betrfs::mount(&self.image(), &self.at(""), &options).unwrap()
    }

    fn is_clean(&self) {
        let report = betrfs::mount::check_device(&self.image(), false).unwrap();
        assert!(report.is_clean(), "{report}");
    }
}

/// Files, links, attributes and names of every kind, before and after a remount.
fn everything_is_there_after_a_remount(bench: &Bench) {
    let mounted = bench.mount();
    let at = |path: &str| bench.at(path);
    std::fs::create_dir(at("d")).unwrap();
    let mut model = BTreeMap::new();
    for (number, size) in [0, 1, 200, 4096, 5000, 100_000, 3 << 20].into_iter().enumerate() {
        let data: Vec<u8> = (0..size).map(|i: usize| (i * 31 + number) as u8).collect();
        std::fs::write(at(&format!("d/f{number}")), &data).unwrap();
        model.insert(format!("d/f{number}"), data);
    }
    std::fs::hard_link(at("d/f2"), at("hard")).unwrap();
    symlink("d/f3", at("soft")).unwrap();
    std::fs::rename(at("d/f4"), at("moved")).unwrap();
    model.insert("moved".into(), model["d/f4"].clone());
    model.remove("d/f4");
    std::fs::remove_file(at("d/f0")).unwrap();
    model.remove("d/f0");
    let big = File::options().read(true).write(true).open(at("d/f5")).unwrap();
    big.write_all_at(b"patched", 50_000).unwrap();
    big.set_len(60_000).unwrap();
    let patched = model.get_mut("d/f5").unwrap();
    patched[50_000..50_007].copy_from_slice(b"patched");
    patched.truncate(60_000);
    std::fs::set_permissions(at("d/f1"), std::fs::Permissions::from_mode(0o4711)).unwrap();
    let empty = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(at("d"), "user.colour", b"blue", empty).unwrap();
    let check = || {
        for (path, data) in &model {
            assert!(std::fs::read(at(path)).unwrap() == *data, "{path}");
        }
        assert_eq!(std::fs::metadata(at("hard")).unwrap().nlink(), 2);
        assert_eq!(std::fs::read_link(at("soft")).unwrap(), Path::new("d/f3"));
        assert_eq!(std::fs::metadata(at("d/f1")).unwrap().mode(), libc::S_IFREG | 0o4711);
        let mut value = [0; 8];
        assert_eq!(rustix::fs::getxattr(at("d"), "user.colour", &mut value).unwrap(), 4);
        assert_eq!(&value[..4], b"blue");
        let mut names: Vec<_> = std::fs::read_dir(at("d"))
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["f1", "f2", "f3", "f5", "f6"]);
        assert_eq!(std::fs::metadata(at("nothing")).unwrap_err().raw_os_error(), Some(libc::ENOENT));
    };
    check();
    drop(big);
    mounted.unmount().unwrap();
    bench.is_clean();
    let mounted = bench.mount();
    check();
    mounted.unmount().unwrap();
}

/// Small files by several threads, with syncs of all at once; names and inodes above the limit are forgotten.
fn many_small_files_by_several_threads(bench: &Bench) {
    let mounted = bench.mount();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let dir = bench.at(&format!("t{thread}"));
                std::fs::create_dir(&dir).unwrap();
                for number in 0..800 {
                    let mut new = File::options();
                    let mut file =
                        new.write(true).create_new(true).open(dir.join(number.to_string())).unwrap();
                    file.write_all(format!("{thread} {number}").as_bytes()).unwrap();
                    if number % 100 == 0 {
                        file.sync_all().unwrap();
                    }
                }
            });
        }
    });
    let start = std::time::Instant::now();
    while mounted.fs().inodes_in_memory() > 1100 && start.elapsed() < DEADLINE / 2 {
        std::thread::yield_now();
    }
    let known = mounted.fs().inodes_in_memory();
    for thread in 0..4 {
        for number in 0..800 {
            let mut text = String::new();
            let path = bench.at(&format!("t{thread}/{number}"));
            File::open(&path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, format!("{thread} {number}"));
        }
        std::fs::remove_dir_all(bench.at(&format!("t{thread}"))).unwrap();
    }
    assert!(known <= 1100, "{known} inodes are in memory though 1000 are allowed");
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// Threads that take turns, with and without `O_DSYNC`: whole records, all of them, and each thread's in its order.
fn threads_append_to_one_file(bench: &Bench) {
    const THREADS: u32 = 8;
    const RECORDS: u32 = 200;
    let mounted = bench.mount();
    for flags in [0, libc::O_DSYNC] {
        let path = bench.at(&format!("log{flags}"));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let path = &path;
                scope.spawn(move || {
                    let mut options = File::options();
                    options.append(true).create(true).custom_flags(flags);
                    let mut log = options.open(path).unwrap();
                    for record in 0..RECORDS {
                        log.write_all(&[thread.to_le_bytes(), record.to_le_bytes()].concat()).unwrap();
                    }
                });
            }
        });
    }
    mounted.unmount().unwrap();
    let mounted = bench.mount();
    for flags in [0, libc::O_DSYNC] {
        let log = std::fs::read(bench.at(&format!("log{flags}"))).unwrap();
        assert_eq!(log.len() as u32, 8 * THREADS * RECORDS);
        let mut next = [0; THREADS as usize];
        for record in log.chunks(8) {
            let number = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
            assert_eq!(number(4), next[number(0) as usize]);
            next[number(0) as usize] += 1;
        }
    }
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// Writing takes the set-user-ID bit away, and not only for what goes through the page cache.
fn a_write_takes_set_user_id_away(bench: &Bench) {
    let mounted = bench.mount();
    for (name, flags) in [("cached", 0), ("direct", libc::O_DIRECT)] {
        let path = bench.at(name);
        std::fs::write(&path, vec![1; 8192]).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4777)).unwrap();
        let file = File::options().write(true).custom_flags(flags).open(&path).unwrap();
        let memory = vec![0u8; 2 * 4096];
        let aligned = memory.as_ptr().align_offset(4096);
        // SAFETY: a plain change of this thread's user for the file system, and back; other threads are untouched.
        let as_user = |user: u32| unsafe { libc::syscall(libc::SYS_setfsuid, user) };
        as_user(1000);
        let written = file.write_all_at(&memory[aligned..aligned + 4096], 0);
        as_user(0);
        written.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o777, "{name}");
    }
    mounted.unmount().unwrap();
}

/// The permissions as the kernel has them, which it uses to run a program as well: asked for nothing else, it need not
/// ask the file system.
fn known_mode(path: &Path) -> u32 {
    let flags = rustix::fs::AtFlags::empty();
    let stat = rustix::fs::statx(rustix::fs::CWD, path, flags, rustix::fs::StatxFlags::MODE).unwrap();
    u32::from(stat.stx_mode) & 0o7777
}

/// xfstests generic/355 and 683 to 685: the kernel, too, knows that the bits are gone.
fn set_user_id_goes_with_any_write_of_a_stranger(bench: &Bench) {
    let mounted = bench.mount();
    let memory = vec![7u8; 3 * 4096];
    let aligned = memory.as_ptr().align_offset(4096);
    let data = &memory[aligned..aligned + 4096];
    // SAFETY: a plain change of this thread's user for the file system, and back; other threads are untouched.
    let as_user = |user: u32| unsafe { libc::syscall(libc::SYS_setfsuid, user) };
    type Change = fn(&File, &[u8]);
    let cases: [(&str, bool, i32, Change); 5] = [
        ("cached", false, 0, |file, data| file.write_all_at(data, 0).unwrap()),
        ("direct", false, libc::O_DIRECT, |file, data| file.write_all_at(data, 0).unwrap()),
        ("direct, longer", false, libc::O_DIRECT, |file, data| file.write_all_at(data, 8192).unwrap()),
        ("through the handle of a new file", true, 0, |file, data| file.write_all_at(data, 0).unwrap()),
        ("allocated", false, 0, |file, _| {
            rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, 65536).unwrap();
        }),
    ];
    for (name, new, flags, change) in cases {
        let path = bench.at(name);
        let mut options = File::options();
        options.write(true).custom_flags(flags);
        let made = new.then(|| options.create_new(true).open(&path).unwrap());
        if !new {
            std::fs::write(&path, vec![1; 8192]).unwrap();
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o6777)).unwrap();
        assert_eq!(known_mode(&path), 0o6777, "{name}");
        let file = made.unwrap_or_else(|| options.read(true).open(&path).unwrap());
        as_user(1000);
        let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| change(&file, data)));
        as_user(0);
        changed.unwrap();
        assert_eq!(known_mode(&path), 0o777, "{name}");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o777, "{name}");
    }
    // Where the group may not execute, for one of another group.
    let path = bench.at("not to be executed");
    let file = File::create(&path).unwrap();
    // SAFETY: as above.
    let as_group = |group: u32| unsafe { libc::syscall(libc::SYS_setfsgid, group) };
    for (group, left) in [(0, 0o2666), (1000, 0o666)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o6666)).unwrap();
        as_group(group);
        as_user(1000);
        let allocated = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 65536);
        as_user(0);
        as_group(0);
        allocated.unwrap();
        assert_eq!(known_mode(&path), left, "group {group}");
    }
    drop(file);
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// xfstests generic/193: root gives files away, which its group may, or may not, execute.
fn a_new_owner_takes_the_bits_that_execute(bench: &Bench) {
    let mounted = bench.mount();
    let path = bench.at("file");
    std::fs::write(&path, b"file").unwrap();
    let cases = [(0o6644, 0o2644), (0o6744, 0o2744), (0o6654, 0o654), (0o6755, 0o755), (0o2644, 0o2644)];
    for (before, after) in cases {
        for (user, group) in [(Some(1000), Some(1000)), (Some(1001), None), (None, Some(1001))] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(before)).unwrap();
            std::os::unix::fs::chown(&path, user, group).unwrap();
            assert_eq!(known_mode(&path), after, "{before:o} given to {user:?}, {group:?}");
        }
    }
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// xfstests generic/528: the creation time, which nothing changes, and what else statx(2) shows with it.
fn a_creation_time_stays(bench: &Bench) {
    let mounted = bench.mount();
    let look = |name: &str| {
        let wanted = rustix::fs::StatxFlags::BASIC_STATS | rustix::fs::StatxFlags::BTIME;
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statx(rustix::fs::CWD, bench.at(name), flags, wanted).unwrap();
        assert!(stat.stx_mask & wanted.bits() == wanted.bits(), "{name}: {:x}", stat.stx_mask);
        stat
    };
    std::fs::write(bench.at("file"), b"new").unwrap();
    std::fs::create_dir(bench.at("dir")).unwrap();
    symlink("file", bench.at("link")).unwrap();
    let names = ["file", "dir", "link", ""];
    let born = |name: &str| {
        let stat = look(name);
        (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)
    };
    let before = names.map(born);
    let first = look("file");
    assert_eq!((first.stx_btime.tv_sec, first.stx_size), (first.stx_mtime.tv_sec, 3));
    // Any clock tick later.
    while std::fs::metadata(bench.at("file")).unwrap().ctime_nsec() == i64::from(first.stx_ctime.tv_nsec) {
        std::fs::set_permissions(bench.at("file"), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    std::fs::write(bench.at("file"), b"changed").unwrap();
    std::fs::write(bench.at("dir/inner"), b"").unwrap();
    let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1000);
    File::options().write(true).open(bench.at("file")).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(names.map(born), before);
    let now = look("file");
    assert_eq!((now.stx_size, now.stx_mtime.tv_sec, u32::from(now.stx_mode) & 0o7777), (7, 1000, 0o600));
    mounted.unmount().unwrap();
    let mounted = bench.mount();
    assert_eq!(names.map(born), before);
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// xfstests generic/015: `df` after `rm`.
fn what_was_removed_is_free_at_once(bench: &Bench) {
    let mounted = bench.mount();
    let free = || rustix::fs::statvfs(bench.at("")).unwrap().f_bfree * 4096;
    let before = free();
    let data = vec![5; 128 << 20];
    std::fs::write(bench.at("file"), &data).unwrap();
    File::open(bench.at("file")).unwrap().sync_all().unwrap();
    assert!(free() < before - (120 << 20));
    std::fs::remove_file(bench.at("file")).unwrap();
    // The kernel lets go of the file in a request of its own, which nobody waits for.
    let begin = std::time::Instant::now();
    while free() < before - (2 << 20) {
        assert!(begin.elapsed() < DEADLINE / 2, "{} of {before} bytes are free", free());
    }
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// xfstests generic/274: what was allocated behind a file's end is written when the file system is full, and written over.
fn what_was_allocated_is_written_on_a_full_file_system(bench: &Bench) {
    const BLOCKS: u64 = 1024;
    let mounted = bench.mount();
    let file = File::create(bench.at("allocated")).unwrap();
    file.write_all_at(&[1; 4096], 0).unwrap();
    let free = || rustix::fs::statvfs(bench.at("")).unwrap().f_bfree;
    let before = free();
    let keep = rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, keep, 4096, BLOCKS * 4096).unwrap();
    assert!(free() + BLOCKS <= before, "{before} blocks free before, {} after", free());
    let filler = File::create(bench.at("filler")).unwrap();
    let mut at = 0;
    for len in [1 << 20, 4096] {
        let data: Vec<u8> = (0..len).map(|n: usize| ((n * n) >> 5) as u8).collect();
        let full = loop {
            match filler.write_at(&data, at).and_then(|n| filler.sync_all().map(|()| n)) {
                Ok(n) => at += n as u64,
                Err(e) => break e,
            }
        };
        assert_eq!(full.raw_os_error(), Some(libc::ENOSPC), "{at} bytes");
    }
    assert!(at > BYTES / 2, "full after {at} bytes");
    for pass in 2..5u8 {
        for n in 0..BLOCKS {
            let block = 1 + n * 389 % BLOCKS;
            let written = file.write_all_at(&[pass; 4096], block * 4096);
            written.unwrap_or_else(|e| panic!("pass {pass}, the {n}th: {e}"));
        }
        file.sync_all().unwrap();
    }
    drop((file, filler));
    let found = std::fs::read(bench.at("allocated")).unwrap();
    assert_eq!(found.len() as u64, (1 + BLOCKS) * 4096);
    assert!(found[4096..].iter().all(|byte| *byte == 4));
    std::fs::remove_file(bench.at("filler")).unwrap();
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// Bytes of each asynchronous write: several pages, as readers meet them one by one.
const ROUND_BYTES: usize = 160 << 10;

/// Ends the readers, also when the writer fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One asynchronous write of all of `data`, done when this returns.
fn write_asynchronously(ring: &mut io_uring::IoUring, file: &File, data: &[u8]) {
    let fd = io_uring::types::Fd(file.as_raw_fd());
    let write = io_uring::opcode::Write::new(fd, data.as_ptr(), data.len() as u32).offset(0).build();
    // SAFETY: the data and the file are there until the completion has been waited for, below.
    unsafe { ring.submission().push(&write).unwrap() };
    ring.submit_and_wait(1).unwrap();
    let result = ring.completion().next().unwrap().result();
    assert_eq!(result, data.len() as i32);
}

/// xfstests generic/451: readers fill the page cache while an asynchronous direct write is on its way.
fn a_read_after_an_asynchronous_direct_write_is_new(bench: &Bench) {
    let mounted = bench.mount();
    let path = bench.at("cycle");
    std::fs::write(&path, vec![0; ROUND_BYTES]).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::fs::read(&path).unwrap();
                }
            });
        }
        let stale = scope.spawn(|| {
            let _done = Done(&done);
            let direct =
                File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
            let buffered = File::open(&path).unwrap();
            let mut ring = io_uring::IoUring::new(4).unwrap();
            let mut memory = vec![0u8; ROUND_BYTES + 4096];
            let aligned = memory.as_ptr().align_offset(4096);
            let mut found = vec![0u8; ROUND_BYTES];
            (1..=ROUNDS).find(|round| {
                let data = &mut memory[aligned..aligned + ROUND_BYTES];
                data.fill(*round as u8);
                write_asynchronously(&mut ring, &direct, data);
                buffered.read_exact_at(&mut found, 0).unwrap();
                found != *data
            })
        });
        assert_eq!(stale.join().unwrap(), None, "old data after so many writes");
    });
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// Writes of [`MANY_BYTES`] that one thread has on their way at once.
const MANY: u32 = 48;
const MANY_BYTES: usize = 64 << 10;
/// Rounds of so many.
const MANY_ROUNDS: u64 = 40;

/// Direct writes at random places, so many at once, each waiting for readers of its pages, of whom each waits for an answer.
fn writes_that_wait_for_readers_leave_room_for_their_answers(bench: &Bench) {
    let mounted = bench.mount();
    let path = bench.at("busy");
    let blocks = 128;
    std::fs::write(&path, vec![0; blocks * MANY_BYTES]).unwrap();
    let done = AtomicBool::new(false);
    let place = |n: u64| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) % blocks as u64 * MANY_BYTES as u64;
    let write = |seed: u64| {
        let direct = File::options().write(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
        let fd = io_uring::types::Fd(direct.as_raw_fd());
        let mut ring = io_uring::IoUring::new(MANY).unwrap();
        let mut memory = vec![0u8; MANY_BYTES + 4096];
        let aligned = memory.as_ptr().align_offset(4096);
        for round in 0..MANY_ROUNDS {
            let data = &mut memory[aligned..aligned + MANY_BYTES];
            data.fill(round as u8);
            for n in 0..u64::from(MANY) {
                let at = place(seed + round * u64::from(MANY) + n);
                let write = io_uring::opcode::Write::new(fd, data.as_ptr(), data.len() as u32);
                // SAFETY: the data and the file are there until all completions have been waited for, below.
                unsafe { ring.submission().push(&write.offset(at).build()).unwrap() };
            }
            ring.submit_and_wait(MANY as usize).unwrap();
            let completed = ring.completion().map(|one| assert_eq!(one.result(), MANY_BYTES as i32)).count();
            assert_eq!(completed, MANY as usize);
        }
    };
    std::thread::scope(|scope| {
        for reader in 0..6 {
            let (done, path) = (&done, &path);
            scope.spawn(move || {
                let file = File::open(path).unwrap();
                let mut found = vec![0; MANY_BYTES];
                for turn in (reader..).step_by(6).take_while(|_| !done.load(Ordering::Relaxed)) {
                    file.read_exact_at(&mut found, place(turn)).unwrap();
                    // A page is of one write; others of the read may have left the cache and come back meanwhile.
                    let whole = found.chunks(4096).all(|page| page.iter().all(|byte| *byte == page[0]));
                    assert!(whole, "a page of two writes");
                }
            });
        }
        let other = scope.spawn(|| write(1 << 32));
        let _done = Done(&done);
        write(0);
        other.join().unwrap();
    });
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// xfstests generic/294, 306 and 452, which change a mount through its helper.
fn a_remount_makes_it_read_only_and_back(bench: &Bench) {
    let mounted = bench.mount();
    let (file, other) = (bench.at("file"), bench.at("other"));
    std::fs::write(&file, b"before").unwrap();
    // As mount(8) has it: what /etc/fstab says of the mount, then what is asked.
    let left = betrfs::mount::remount(&bench.at(""), "rw,noatime,cache=64M,allow_other,remount,ro").unwrap();
    assert_eq!(left, ["cache=64M"]);
    assert_eq!(std::fs::write(&other, b"no").unwrap_err().raw_os_error(), Some(libc::EROFS));
    assert_eq!(std::fs::read(&file).unwrap(), b"before");
    betrfs::mount::remount(&bench.at(""), "ro,remount,rw,noexec").unwrap();
    std::fs::write(&other, b"yes").unwrap();
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o755)).unwrap();
    let started = std::process::Command::new(&other).spawn();
    assert_eq!(started.unwrap_err().raw_os_error(), Some(libc::EACCES), "noexec");
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// A file handle as the kernel gives it to a server of NFS.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    data: [u8; HANDLE_BYTES_MAX],
}

/// The kernel's bound (`MAX_HANDLE_SZ`).
const HANDLE_BYTES_MAX: usize = 128;

impl Handle {
    fn of(path: &Path) -> Handle {
        let mut handle = Handle { bytes: HANDLE_BYTES_MAX as u32, kind: 0, data: [0; HANDLE_BYTES_MAX] };
        let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        let (mut mount, at) = (0, std::ptr::from_mut(&mut handle));
        // SAFETY: the handle has as much room as it says, in the layout of `struct file_handle`.
        let made =
            unsafe { libc::name_to_handle_at(libc::AT_FDCWD, path.as_ptr(), at.cast(), &raw mut mount, 0) };
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
        handle
    }

    fn open(&mut self, mount: &File) -> std::io::Result<File> {
        let at = std::ptr::from_mut(self);
        // SAFETY: as above.
        match unsafe { libc::open_by_handle_at(mount.as_raw_fd(), at.cast(), libc::O_RDONLY) } {
            -1 => Err(std::io::Error::last_os_error()),
            // SAFETY: it was just opened, for us.
            fd => Ok(unsafe { File::from_raw_fd(fd) }),
        }
    }
}

/// xfstests generic/426, 467 and 756: file handles, after the kernel has let go of what they mean.
fn a_file_handle_outlives_what_the_kernel_knows(bench: &Bench) {
    let mounted = bench.mount();
    let root = File::open(bench.at("")).unwrap();
    std::fs::create_dir_all(bench.at("a/b")).unwrap();
    std::fs::write(bench.at("a/b/file"), b"still here").unwrap();
    std::fs::write(bench.at("a/b/other"), b"goes").unwrap();
    let (mut file, mut dir) = (Handle::of(&bench.at("a/b/file")), Handle::of(&bench.at("a/b")));
    let mut other = Handle::of(&bench.at("a/b/other"));
    std::fs::remove_file(bench.at("a/b/other")).unwrap();
    std::fs::rename(bench.at("a/b/file"), bench.at("a/moved")).unwrap();
    // 2: inodes and names that nobody uses.
    std::fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
    let mut text = String::new();
    file.open(&root).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "still here");
    // A directory's path is found up to the root, through `..`.
    let opened = dir.open(&root).unwrap();
    let path = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).unwrap();
    assert!(path.ends_with("mnt/a/b"), "{}", path.display());
    assert_eq!(other.open(&root).unwrap_err().raw_os_error(), Some(libc::ESTALE));
    drop((root, opened));
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// xfstests generic/477 and 777: file handles from the mount before.
fn a_file_handle_outlives_the_mount(bench: &Bench) {
    let mounted = bench.mount();
    std::fs::create_dir_all(bench.at("a/b")).unwrap();
    std::fs::write(bench.at("a/b/file"), b"still here").unwrap();
    std::fs::write(bench.at("a/linked"), b"two names").unwrap();
    std::fs::hard_link(bench.at("a/linked"), bench.at("a/b/linked")).unwrap();
    std::fs::write(bench.at("a/gone"), b"goes").unwrap();
    let mut handles = ["a/b/file", "a/linked", "a/gone", "a/b", ""].map(|path| Handle::of(&bench.at(path)));
    std::fs::rename(bench.at("a/b"), bench.at("moved")).unwrap();
    std::fs::remove_file(bench.at("a/gone")).unwrap();
    mounted.unmount().unwrap();
    let mounted = bench.mount();
    let root = File::open(bench.at("")).unwrap();
    let [file, linked, gone, dir, top] = &mut handles;
    for (handle, expected) in [(file, "still here"), (linked, "two names")] {
        let mut text = String::new();
        handle.open(&root).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, expected);
    }
    assert_eq!(gone.open(&root).unwrap_err().raw_os_error(), Some(libc::ESTALE));
    for (handle, expected) in [(dir, "mnt/moved"), (top, "mnt")] {
        let opened = handle.open(&root).unwrap();
        let path = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).unwrap();
        assert!(path.ends_with(expected), "{}", path.display());
    }
    drop(root);
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// What the daemon says of itself.
fn statistic(bench: &Bench, name: &str) -> u64 {
    let mut text = vec![0; 4096];
    let bytes = rustix::fs::getxattr(bench.at(""), "betrfs.statistics", &mut text[..]).unwrap();
    let text = String::from_utf8_lossy(&text[..bytes]).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// A server of NFS has nothing else, and its clients come back after a new mount.
fn a_file_handle_is_found_without_a_look_at_other_names(bench: &Bench) {
    const FILES: usize = 100_000;
    const DIRS: usize = 10;
    /// A leaf, and the way down to it, for each of a few look-ups.
    const BYTES_MAX: u64 = 4 << 20;
    let path = |file: usize| format!("d/{}/{file}", file % DIRS);
    let mounted = bench.mount();
    (0..DIRS).for_each(|dir| std::fs::create_dir_all(bench.at(&format!("d/{dir}"))).unwrap());
    (0..FILES).for_each(|file| _ = File::create(bench.at(&path(file))).unwrap());
    let mut handles = [0, 777, 55_555, FILES - 1].map(|file| (file, Handle::of(&bench.at(&path(file)))));
    let mut gone = Handle::of(&bench.at(&path(31)));
    std::fs::rename(bench.at(&path(777)), bench.at("elsewhere")).unwrap();
    std::fs::rename(bench.at("d/5"), bench.at("moved")).unwrap();
    std::fs::remove_file(bench.at(&path(31))).unwrap();
    mounted.unmount().unwrap();
    let mounted = bench.mount();
    let root = File::open(bench.at("")).unwrap();
    let begin = statistic(bench, "bytes_read");
    for (file, handle) in &mut handles {
        let before = statistic(bench, "bytes_read");
        let opened = handle.open(&root).unwrap();
        let read = statistic(bench, "bytes_read") - before;
        assert!(read < BYTES_MAX, "{read} bytes for the handle of one file");
        let expected = match *file {
            777 => "elsewhere".into(),
            55_555 => "moved/55555".into(),
            file => path(file),
        };
        let found = std::fs::metadata(bench.at(&expected)).unwrap();
        assert_eq!(opened.metadata().unwrap().ino(), found.ino(), "{expected}");
    }
    assert_eq!(gone.open(&root).unwrap_err().raw_os_error(), Some(libc::ESTALE));
    println!("{} bytes read for {} handles", statistic(bench, "bytes_read") - begin, handles.len() + 1);
    drop(root);
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// xfstests generic/004 and 389: `O_TMPFILE`, linked, forbidden to be, and never.
fn a_file_without_a_name_may_be_given_one(bench: &Bench) {
    let mounted = bench.mount();
    std::fs::create_dir(bench.at("d")).unwrap();
    let nameless = |flags: i32| {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_TMPFILE | flags).mode(0o640);
        options.open(bench.at("d")).unwrap()
    };
    let link = |file: &File, name: &str| {
        let flags = rustix::fs::AtFlags::SYMLINK_FOLLOW;
        let source = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(rustix::fs::CWD, source, rustix::fs::CWD, bench.at(name), flags)
    };
    let data: Vec<u8> = (0..300_000).map(|n| (n % 251) as u8).collect();
    let (file, gone) = (nameless(0), nameless(0));
    for one in [&file, &gone] {
        one.write_all_at(&data, 0).unwrap();
        rustix::fs::fsetxattr(one, "user.note", b"kept", rustix::fs::XattrFlags::empty()).unwrap();
        assert_eq!(one.metadata().unwrap().nlink(), 0);
    }
    assert_eq!(std::fs::read_dir(bench.at("d")).unwrap().count(), 0);
    link(&file, "d/name").unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 1);
    file.write_all_at(b"after", 10).unwrap();
    std::fs::hard_link(bench.at("d/name"), bench.at("second")).unwrap();
    assert_eq!(link(&nameless(libc::O_EXCL), "no").unwrap_err(), rustix::io::Errno::NOENT);
    let again = nameless(0);
    link(&again, "short").unwrap();
    std::fs::remove_file(bench.at("short")).unwrap();
    assert_eq!(
        link(&again, "short").unwrap_err(),
        rustix::io::Errno::NOENT,
        "unlinked is not without a name"
    );
    drop((file, gone, again));
    mounted.unmount().unwrap();
    bench.is_clean();
    let mounted = bench.mount();
    let found = std::fs::read(bench.at("second")).unwrap();
    assert!(found[..10] == data[..10] && &found[10..15] == b"after" && found[15..] == data[15..]);
    let meta = std::fs::metadata(bench.at("d/name")).unwrap();
    assert_eq!((meta.nlink(), meta.mode()), (2, libc::S_IFREG | 0o640));
    let mut value = [0; 8];
    assert_eq!(rustix::fs::getxattr(bench.at("second"), "user.note", &mut value).unwrap(), 4);
    std::fs::remove_file(bench.at("second")).unwrap();
    std::fs::remove_dir_all(bench.at("d")).unwrap();
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// What was written with `O_DSYNC` or `O_SYNC` has reached the device when the call returns, in a new file that the kernel
/// writes past its cache as in one that was there, and all that was written before it; so has all before an `fsync`.
fn a_durable_write_is_durable(bench: &Bench) {
    const THREADS: u8 = 6;
    const ROUNDS: usize = 5;
    let mounted = bench.mount();
    let write = |name: &str, flags: i32, text: &[u8]| {
        let mut options = File::options();
        options.write(true).create(true).custom_flags(flags);
        let mut file = options.open(bench.at(name)).unwrap();
        file.write_all(text).unwrap();
        file
    };
    // The device as it is now: nothing that only the daemon has.
    let found = |names: &[String]| {
        let copy = bench.dir.path().join("copy");
        // cp leaves holes out.
        let status = std::process::Command::new("cp").arg(bench.image()).arg(&copy).status().unwrap();
        assert!(status.success());
        let fs = betrfs::mount::open(&copy, &MountOptions::parse("cache=64M,nolock").unwrap()).unwrap();
        let read = |name: &String| {
            let attr = fs.lookup(1, name.as_bytes()).ok()?;
            Some(String::from_utf8(fs.read(attr.ino, 0, 100).unwrap()).unwrap())
        };
        names.iter().map(read).collect::<Vec<_>>()
    };
    let there =
        |name: &str, text: &str| assert_eq!(found(&[name.into()]), [Some(text.to_string())], "{name}");
    drop(write("plain", 0, b"one"));
    assert_eq!(found(&["plain".into()]), [None], "nothing has asked for it");
    drop(write("made", libc::O_DSYNC, b"two"));
    there("made", "two");
    there("plain", "one");
    drop(write("made", libc::O_DSYNC, b"TWO"));
    there("made", "TWO");
    drop(write("new", libc::O_SYNC | libc::O_EXCL, b"three"));
    there("new", "three");
    // An FSYNC of one's own, right after a write that had its own: it takes what others wrote meanwhile.
    let file = write("made", libc::O_DSYNC, b"2");
    std::thread::scope(|scope| _ = scope.spawn(|| write("other", 0, b"four")));
    file.sync_data().unwrap();
    drop(file);
    there("other", "four");
    // Many at once, to few files.
    let names: Vec<String> = (0..THREADS).map(|thread| format!("f{}", thread / 3)).collect();
    names.iter().for_each(|name| drop(write(name, 0, &[b'-'; 6])));
    for round in 0..ROUNDS {
        let letter = b'a' + round as u8;
        std::thread::scope(|scope| {
            for (thread, name) in names.iter().enumerate() {
                scope.spawn(move || {
                    let mut options = File::options();
                    let file = options.write(true).custom_flags(libc::O_DSYNC).open(bench.at(name)).unwrap();
                    file.write_all_at(&[letter], thread as u64).unwrap();
                });
            }
        });
        for (thread, text) in found(&names).into_iter().enumerate() {
            assert_eq!(text.unwrap().as_bytes()[thread], letter, "round {round}, thread {thread}");
        }
    }
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// Several read a directory at once, from what the kernel keeps of it and past that, while names come, go and move: each sees
/// what stays exactly once, and who begins after a change sees all of it.
fn a_directory_that_changes_is_read_by_several(bench: &Bench) {
    const STAYING: usize = 700;
    const READERS: usize = 4;
    let mounted = bench.mount();
    let dir = bench.at("busy");
    std::fs::create_dir(&dir).unwrap();
    let make = |name: &str| drop(File::create(dir.join(name)).unwrap());
    // Those that change lie between the others.
    (0..STAYING).for_each(|number| make(&format!("{number:04} stays")));
    let mut passing = std::collections::BTreeSet::new();
    let mut random = 0x9E37_79B9_u64;
    let mut draw = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let names = |dir: &Path| {
        let name = |e: std::io::Result<std::fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
        std::fs::read_dir(dir).unwrap().map(name).collect::<Vec<String>>()
    };
    for round in 0..60 {
        let mut readers: Vec<_> = (0..READERS).map(|_| (None, BTreeMap::<String, usize>::new())).collect();
        let mut reading = READERS;
        while reading > 0 {
            let (entries, seen) = &mut readers[draw(READERS as u64) as usize];
            let entries = entries.get_or_insert_with(|| Some(std::fs::read_dir(&dir).unwrap()));
            let Some(some) = entries else { continue };
            for _ in 0..1 + draw(400) {
                match some.next() {
                    Some(entry) => {
                        *seen.entry(entry.unwrap().file_name().into_string().unwrap()).or_default() += 1
                    }
                    None => {
                        *entries = None;
                        reading -= 1;
                        break;
                    }
                }
            }
            // Sometimes many rounds of reading go by without a change, so that all is kept.
            if draw(3) == 0 && round % 3 != 0 {
                let name = format!("{:04} passes", draw(STAYING as u64));
                match passing.take(&name) {
                    Some(name) if draw(2) == 0 => std::fs::remove_file(dir.join(name)).unwrap(),
                    Some(name) => {
                        let other = format!("{:04} passes", draw(STAYING as u64));
                        std::fs::rename(dir.join(name), dir.join(&other)).unwrap();
                        passing.insert(other);
                    }
                    None => {
                        make(&name);
                        passing.insert(name);
                    }
                }
            }
        }
        for (reader, (_, seen)) in readers.iter().enumerate() {
            for number in 0..STAYING {
                let times = seen.get(&format!("{number:04} stays")).copied().unwrap_or_default();
                assert_eq!(times, 1, "round {round}, reader {reader}: {number} was seen so often");
            }
        }
        let mut found = names(&dir);
        found.sort();
        let all = (0..STAYING).map(|number| format!("{number:04} stays")).chain(passing.iter().cloned());
        let mut all: Vec<_> = all.collect();
        all.sort();
        assert!(found == all, "round {round}");
    }
    mounted.unmount().unwrap();
    bench.is_clean();
}

/// Whoever unmounts under load gets rid of it; what was begun ends.
fn an_unmount_under_load_does_not_hang(bench: &Bench) {
    let mounted = bench.mount();
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let tell = tell.clone();
            scope.spawn(move || {
                // A name is found until the mount is gone; then there is an empty directory.
                for number in 0.. {
                    let path = bench.at(&format!("u{thread}-{}", number % 50));
                    if std::fs::write(path, b"load").is_err() || number == 20_000 {
                        break;
                    }
                    if number == 100 {
                        let _ = tell.send(());
                    }
                    if bench.at("").join("..").join("gone").exists() {
                        break;
                    }
                }
            });
        }
        (0..4).for_each(|_| told.recv().unwrap());
        mounted.unmounter().request().unwrap();
        std::fs::write(bench.dir.path().join("gone"), b"").unwrap();
    });
    mounted.wait().unwrap();
    bench.is_clean();
}

/// A request to unmount takes the own mount away, and nothing that lies over it or is there in its place.
fn what_is_mounted_in_its_place_stays(bench: &Bench) {
    use rustix::mount::{UnmountFlags, mount, unmount};

    let mounted = bench.mount();
    let unmounter = mounted.unmounter();
    let lay_over = || mount("over", bench.at(""), "tmpfs", MountFlags::empty(), None).unwrap();
    let is_over = || {
        let stays = unmounter.request().unwrap() && bench.at("theirs").exists();
        unmount(bench.at("").parent().unwrap().join("mnt"), UnmountFlags::empty()).unwrap();
        stays
    };
    lay_over();
    std::fs::write(bench.at("theirs"), b"").unwrap();
    assert!(is_over(), "what lay over it was unmounted");
    std::fs::write(bench.at("own"), b"").unwrap();
    assert!(unmounter.request().unwrap());
    mounted.wait().unwrap();
    lay_over();
    std::fs::write(bench.at("theirs"), b"").unwrap();
    assert!(is_over(), "what came in its place was unmounted");
    bench.is_clean();
}

type Test = (&'static str, &'static str, fn(&Bench));

const TESTS: [Test; 20] = [
    ("what_is_mounted_in_its_place_stays", "", what_is_mounted_in_its_place_stays),
    ("everything_is_there_after_a_remount", "", everything_is_there_after_a_remount),
    (
        "many_small_files_by_several_threads",
        "inodes=1000,idle_inodes=50",
        many_small_files_by_several_threads,
    ),
    ("a_write_takes_set_user_id_away", "", a_write_takes_set_user_id_away),
    ("set_user_id_goes_with_any_write_of_a_stranger", "", set_user_id_goes_with_any_write_of_a_stranger),
    (
        "a_read_after_an_asynchronous_direct_write_is_new",
        "",
        a_read_after_an_asynchronous_direct_write_is_new,
    ),
    (
        "writes_that_wait_for_readers_leave_room_for_their_answers",
        "",
        writes_that_wait_for_readers_leave_room_for_their_answers,
    ),
    ("threads_append_to_one_file", "", threads_append_to_one_file),
    ("a_remount_makes_it_read_only_and_back", "", a_remount_makes_it_read_only_and_back),
    ("a_file_without_a_name_may_be_given_one", "", a_file_without_a_name_may_be_given_one),
    ("a_file_handle_outlives_what_the_kernel_knows", "", a_file_handle_outlives_what_the_kernel_knows),
    ("a_new_owner_takes_the_bits_that_execute", "", a_new_owner_takes_the_bits_that_execute),
    ("what_was_removed_is_free_at_once", "checkpoint=3600", what_was_removed_is_free_at_once),
    ("a_creation_time_stays", "", a_creation_time_stays),
    (
        "what_was_allocated_is_written_on_a_full_file_system",
        "",
        what_was_allocated_is_written_on_a_full_file_system,
    ),
    ("a_file_handle_outlives_the_mount", "", a_file_handle_outlives_the_mount),
    (
        "a_file_handle_is_found_without_a_look_at_other_names",
        "",
        a_file_handle_is_found_without_a_look_at_other_names,
    ),
    ("a_durable_write_is_durable", "commit=0", a_durable_write_is_durable),
    ("a_directory_that_changes_is_read_by_several", "", a_directory_that_changes_is_read_by_several),
    ("an_unmount_under_load_does_not_hang", "", an_unmount_under_load_does_not_hang),
];

fn run(name: &str, options: &str, test: fn(&Bench)) {
    println!("{name}: {options}");
    let bench = Arc::new(Bench::new(options));
    let (done, ended) = mpsc::channel();
    let own = bench.clone();
    let thread = std::thread::spawn(move || {
        let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&own)));
        let _ = done.send(());
        fine.is_ok()
    });
    let in_time = ended.recv_timeout(DEADLINE).is_ok();
    if !in_time {
        let _ = fusewire::force_unmount(&bench.at(""));
    }
    assert!(thread.join().unwrap() && in_time, "{name}: {options}");
}

#[test]
fn mounted_through_the_device() {
    needs!(Root, Mounts, Fuse);
    for (name, options, test) in TESTS {
        run(name, &format!("transport=classic,{options}"), test);
    }
}

#[test]
fn mounted_through_rings() {
    needs!(Root, Mounts, Fuse, Rings);
    for (name, options, test) in TESTS {
        run(name, &format!("transport=uring,{options}"), test);
    }
}
