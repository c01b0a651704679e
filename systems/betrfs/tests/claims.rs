//! Whoever has a device or image keeps everybody from whatever shows the same bytes: loop devices that the tests attach.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use betrfs::mount::{Claim, check_device, dump_device};
use betrfs::{FormatOptions, MountError, MountOptions};
use camino::{Utf8Path, Utf8PathBuf};
use host::{Host, loopdev};
use needs::needs;
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// For a claim that is free: a program that is started beside has this one's descriptors until it begins.
const PATIENCE: Duration = Duration::from_secs(30);
const IMAGE_BYTES: u64 = 64 << 20;
/// Where the second partition begins.
const HALF_BYTES: u64 = IMAGE_BYTES / 2;
const SECTOR_BYTES: u64 = 512;

/// A loop device that shows `file` until it is dropped.
struct LoopDevice {
    device: Utf8PathBuf,
    file: Utf8PathBuf,
}

impl LoopDevice {
    fn attach(file: &Path, options: &[&str]) -> LoopDevice {
        let mut losetup = Command::new("losetup");
        let output = losetup.args(["--show", "-f"]).args(options).arg(file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let device = String::from_utf8(output.stdout).unwrap().trim().into();
        LoopDevice { device, file: Utf8Path::from_path(file).unwrap().into() }
    }

    fn path(&self) -> &Path {
        self.device.as_std_path()
    }

    /// Makes a partition that ends where the half ends in which it begins.
    fn add_partition(&self, number: u32, begin: u64) -> PathBuf {
        let sectors =
            [begin, HALF_BYTES - begin % HALF_BYTES].map(|bytes| (bytes / SECTOR_BYTES).to_string());
        let mut addpart = Command::new("addpart");
        addpart.arg(&self.device).arg(number.to_string()).args(sectors);
        assert!(addpart.status().unwrap().success());
        format!("{}p{number}", self.device).into()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = loopdev::detach(&Host::system(), &self.device, &self.file);
    }
}

fn image(dir: &Path) -> PathBuf {
    let path = dir.join("image");
    let mut options = FormatOptions::default();
    options.size = Some(IMAGE_BYTES);
    betrfs::format(&path, &options).unwrap();
    path
}

fn blank_disk(dir: &Path) -> PathBuf {
    let path = dir.join("disk");
    std::fs::File::create(&path).unwrap().set_len(IMAGE_BYTES).unwrap();
    path
}

/// Whether another program makes a file system there.
fn is_made(path: &Path) -> bool {
    Command::new("mkfs.ext4").args(["-q", "-F"]).arg(path).output().unwrap().status.success()
}

fn free(path: &Path) -> Claim {
    let begin = Instant::now();
    loop {
        match Claim::take(path, PATIENCE) {
            Ok(claim) => return claim,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
        }
    }
}

fn is_refused(path: &Path) -> bool {
    matches!(Claim::take(path, Duration::ZERO), Err(MountError::Busy { .. }))
}

#[test]
fn whatever_shows_an_image_is_claimed_with_it() {
    needs!(Root, Loop);
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path());
    let first = LoopDevice::attach(&file, &[]);
    let second = LoopDevice::attach(&file, &[]);
    let upper = LoopDevice::attach(first.path(), &[]);
    let (hard, node) = (dir.path().join("hard"), dir.path().join("node"));
    std::fs::hard_link(&file, &hard).unwrap();
    let number = std::fs::metadata(first.path()).unwrap().rdev();
    mknodat(CWD, &node, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, number).unwrap();
    let names = [&*file, &*hard, first.path(), &*node, second.path(), upper.path()];
    for claimed in names {
        let claim = free(claimed);
        for other in names {
            assert!(is_refused(other), "{} while {} is claimed", other.display(), claimed.display());
        }
        drop(claim);
    }
}

#[test]
fn nothing_is_made_checked_or_shown_by_another_name_of_what_is_open() {
    needs!(Root, Loop);
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path());
    let device = LoopDevice::attach(&file, &[]);
    let mut erase = FormatOptions::default();
    erase.erase = true;
    for (open, other) in [(&*file, device.path()), (device.path(), &*file)] {
        let opened = betrfs::mount::open(open, &MountOptions::default()).unwrap();
        let busy = |result: Result<(), MountError>| matches!(result, Err(MountError::Busy { .. }));
        assert!(busy(check_device(other, false).map(drop)), "{} is checked", other.display());
        assert!(busy(dump_device(other, &mut Vec::new())), "{} is dumped", other.display());
        let made = betrfs::format(other, &erase);
        assert!(matches!(made, Err(MountError::Refused(_))), "{}: {made:?}", other.display());
        drop(opened);
    }
    assert!(check_device(&file, false).unwrap().is_clean());
}

#[test]
fn partitions_are_claimed_side_by_side_and_not_with_their_disk() {
    needs!(Root, Loop);
    let dir = tempfile::tempdir().unwrap();
    let file = blank_disk(dir.path());
    let device = LoopDevice::attach(&file, &[]);
    let (one, two) = (device.add_partition(1, 1 << 20), device.add_partition(2, HALF_BYTES));
    let half = LoopDevice::attach(&file, &["-o", &HALF_BYTES.to_string()]);
    {
        let _both = (free(&one), free(&two));
        for other in [&*one, &*two, device.path(), &*file, half.path()] {
            assert!(is_refused(other), "{}", other.display());
        }
    }
    let _both = (free(&one), free(half.path()));
    for other in [&*one, &*two, device.path(), &*file, half.path()] {
        assert!(is_refused(other), "{}", other.display());
    }
}

/// Other programs claim devices, and know nothing of locks.
#[test]
fn mkfs_does_not_get_an_idle_loop_device_of_an_image_that_is_open() {
    needs!(Root, Loop, Ext4);
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path());
    let device = LoopDevice::attach(&file, &[]);
    let opened = betrfs::mount::open(&file, &MountOptions::default()).unwrap();
    let made = is_made(device.path());
    assert!(!made, "the store is overwritten");
    drop(opened);
    assert!(check_device(&file, false).unwrap().is_clean());
}

/// Its partition shows the image as well.
#[test]
fn mkfs_does_not_get_an_idle_partition_of_an_image_that_is_open() {
    needs!(Root, Loop, Ext4);
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path());
    let device = LoopDevice::attach(&file, &[]);
    let partition = device.add_partition(1, 1 << 20);
    let opened = betrfs::mount::open(&file, &MountOptions::default()).unwrap();
    for path in [&*partition, device.path()] {
        let made = is_made(path);
        assert!(!made, "{}: the store is overwritten", path.display());
    }
    drop(opened);
    assert!(check_device(&file, false).unwrap().is_clean());
}

/// Whether another program is kept from claiming a device, as mkfs and mount do.
fn is_kept(path: &Path) -> bool {
    let claimed = std::fs::File::options().read(true).custom_flags(libc::O_EXCL).open(path);
    claimed.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

/// It shows what the device shows that is open.
#[test]
fn mkfs_does_not_get_an_idle_second_loop_device_of_a_device_that_is_open() {
    needs!(Root, Loop, Ext4);
    let dir = tempfile::tempdir().unwrap();
    let file = image(dir.path());
    let first = LoopDevice::attach(&file, &[]);
    let second = LoopDevice::attach(&file, &[]);
    let partition = second.add_partition(1, 1 << 20);
    let upper = LoopDevice::attach(first.path(), &[]);
    for open in [first.path(), upper.path(), second.path()] {
        let opened = betrfs::mount::open(open, &MountOptions::default()).unwrap();
        for path in [first.path(), second.path(), &*partition, upper.path()] {
            let made = is_made(path);
            let (path, open) = (path.display(), open.display());
            assert!(!made, "{path}: the store on {open} is overwritten");
        }
        drop(opened);
        assert!(check_device(&file, false).unwrap().is_clean());
    }
}

#[test]
fn an_idle_device_is_kept_from_others_unless_one_who_may_claim_beside_has_to_ask_it() {
    needs!(Root, Loop);
    let dir = tempfile::tempdir().unwrap();
    let file = blank_disk(dir.path());
    let device = LoopDevice::attach(&file, &[]);
    let half = LoopDevice::attach(&file, &["-o", &HALF_BYTES.to_string()]);
    {
        let _claim = free(half.path());
        assert!(is_kept(device.path()), "it shows the claimed half");
    }
    let one = device.add_partition(1, 1 << 20);
    {
        let _claim = free(half.path());
        assert!(!is_kept(device.path()) && !is_kept(&one), "the first half may be claimed beside");
        let _beside = free(&one);
        assert!(is_kept(device.path()));
    }
    let two = device.add_partition(2, HALF_BYTES);
    let second = LoopDevice::attach(&file, &[]);
    {
        let _claim = free(&two);
        assert!(is_kept(half.path()), "it shows the claimed half");
        assert!(!is_kept(second.path()), "the first half may be claimed beside");
    }
    let others = [second.add_partition(1, 1 << 20), second.add_partition(2, HALF_BYTES)];
    let _claim = free(&two);
    assert!(is_kept(&others[1]) && !is_kept(&others[0]));
    let _beside = free(&one);
    for path in [half.path(), device.path(), second.path(), &*others[0], &*others[1]] {
        assert!(is_kept(path), "{}", path.display());
    }
}

#[test]
fn partitions_of_a_file_that_a_second_device_shows_are_claimed_side_by_side() {
    needs!(Root, Loop);
    let dir = tempfile::tempdir().unwrap();
    let file = blank_disk(dir.path());
    let device = LoopDevice::attach(&file, &[]);
    let (one, two) = (device.add_partition(1, 1 << 20), device.add_partition(2, HALF_BYTES));
    let second = LoopDevice::attach(&file, &[]);
    let both = (free(&one), free(&two));
    for other in [&*one, &*two, second.path(), &*file] {
        assert!(is_refused(other), "{}", other.display());
    }
    drop(both);
    // a table of partitions that is not the same
    second.add_partition(2, HALF_BYTES);
    let _two = free(&two);
    let _one = free(&one);
}

#[test]
fn a_busy_mount_that_is_dropped_keeps_its_device_until_its_last_user_leaves() {
    needs!(Root, Mounts, Fuse);
    let dir = tempfile::tempdir().unwrap();
    let (file, mnt) = (image(dir.path()), dir.path().join("mnt"));
    std::fs::create_dir(&mnt).unwrap();
    let options = MountOptions::parse("cache=64M,nolock").unwrap();
    let mounted = betrfs::mount(&file, &mnt, &options).unwrap();
    let mut user = std::fs::File::create(mnt.join("file")).unwrap();
    drop(mounted);
    let is_kept = is_refused(&file);
    let written = user.write_all(b"late").and_then(|()| user.sync_all());
    drop(user);
    let claim = Claim::take(&file, PATIENCE);
    assert!(is_kept, "given back while it is written to");
    written.unwrap();
    drop(claim.unwrap());
    let fs = betrfs::mount::open(&file, &options).unwrap();
    let found = fs.lookup(1, b"file").unwrap().ino;
    assert_eq!(fs.read(found, 0, 100).unwrap(), b"late");
}

/// A mount that goes with the test.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::empty());
    }
}

#[test]
fn an_image_whose_loop_device_the_kernel_has_mounted_is_refused_at_once() {
    needs!(Mounts, Loop, Ext4);
    let dir = tempfile::tempdir().unwrap();
    let (file, mnt) = (dir.path().join("disk"), dir.path().join("mnt"));
    std::fs::File::create(&file).unwrap().set_len(IMAGE_BYTES).unwrap();
    std::fs::create_dir(&mnt).unwrap();
    assert!(Command::new("mkfs.ext4").arg("-q").arg(&file).status().unwrap().success());
    let (device, other) = (LoopDevice::attach(&file, &[]), LoopDevice::attach(&file, &[]));
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount(device.path(), &mnt, "ext4", flags, None::<&std::ffi::CStr>).unwrap();
    let mount = Mount(mnt.clone());
    let mut reader = Command::new("sleep");
    let mut reader = reader.arg("600").stdin(std::fs::File::open(device.path()).unwrap()).spawn().unwrap();
    let begin = Instant::now();
    let refused = [&*file, other.path()].map(|path| Claim::take(path, PATIENCE).map(drop));
    let took = begin.elapsed();
    reader.kill().and_then(|()| reader.wait()).unwrap();
    drop(mount);
    for refused in refused {
        let said = refused.expect_err("claimed").to_string();
        assert!(said.contains(&format!("{} is mounted at {}", device.device, mnt.display())), "{said}");
    }
    assert!(took < PATIENCE / 2, "said after {took:?}");
    drop(free(&file));
}
