//! File systems on a device that fails once, as Linux reports it: what fsync acknowledged is there afterwards, nothing is
//! acknowledged after the failure, and betrfs says what went wrong wherever somebody looks.

mod common;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Place, text};
use needs::needs;
use rustix::fs::StatVfsMountFlags;

const PATIENCE: Duration = Duration::from_secs(300);
/// Threads that write and sync files of their own.
const WRITERS: usize = 4;
/// Files that each tries to make.
const FILES: usize = 40;
/// What a device fails, counted from the moment at which the writers begin.
const FAULTS: [&[&str]; 5] = [&["flush:1"], &["flush:2"], &["flush:7"], &["write:1"], &["write:20"]];

#[derive(Clone, Copy, PartialEq)]
enum Fs {
    Betrfs,
    Ext4,
}

/// A file system on an emulated SSD. Everything is taken away with it.
struct Bench {
    place: Place,
    device: String,
    fs: Fs,
}

impl Bench {
    fn new(fs: Fs, transport: &str) -> Bench {
        let place = Place::new();
        std::fs::create_dir(place.dir.path().join("m")).unwrap();
        let attach = ["ssd", "attach", "--profile", "980pro", "--size", "256M", "--name", "f"];
        let attached = place.loadline(&[&attach[..], &["--transport", transport]].concat());
        assert!(attached.status.success(), "{}", text(&attached));
        let device = String::from_utf8(attached.stdout).unwrap().trim().to_owned();
        let bench = Bench { place, device, fs };
        match fs {
            Fs::Betrfs => drop(bench.loadline(&["mkfs", "betrfs", &bench.device])),
            Fs::Ext4 => run("mkfs.ext4", &["-q", "-b", "4096", &bench.device]),
        }
        bench.mount();
        bench
    }

    fn dir(&self) -> PathBuf {
        self.place.dir.path().join("m")
    }

    fn log(&self) -> PathBuf {
        self.place.dir.path().join("log")
    }

    fn loadline(&self, words: &[&str]) -> String {
        let output = self.place.loadline(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output));
        text(&output)
    }

    fn mount(&self) {
        let (dir, log) = (self.dir(), self.log());
        let dir = dir.to_str().unwrap();
        match self.fs {
            Fs::Betrfs => {
                let options = format!("cache=64M,nolock,log={}", log.display());
                self.loadline(&["mount", "betrfs", &self.device, dir, "-o", &options]);
            }
            Fs::Ext4 => run("mount", &["-o", "errors=remount-ro", &self.device, dir]),
        }
    }

    fn umount(&self) {
        run("umount", &[self.dir().to_str().unwrap()]);
    }

    fn shows_read_only(&self) -> bool {
        rustix::fs::statvfs(self.dir()).is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.dir()).output();
        self.place.loadline(&["ssd", "detach", "--force", "f"]);
    }
}

fn run(program: &str, args: &[&str]) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(args).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", text(&output));
}

fn contents(number: usize) -> Vec<u8> {
    format!("file {number} ").into_bytes().repeat(3000)
}

/// Makes a file and syncs it.
fn write(path: &Path, number: usize) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&contents(number))?;
    file.sync_all()
}

/// Has several threads write files until each has met an error; the files that were acknowledged. Whoever was told of the
/// failure has seen the last one that may be.
fn write_until_failure(dir: &Path, writers: usize) -> Vec<usize> {
    let acknowledged = Mutex::new(Vec::new());
    let failures = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for writer in 0..writers {
            let (acknowledged, failures) = (&acknowledged, &failures);
            threads.spawn(move || {
                for file in 0..FILES {
                    let number = 1000 * (writer + 1) + file;
                    let before = failures.load(Ordering::SeqCst);
                    match write(&dir.join(number.to_string()), number) {
                        Ok(()) => {
                            assert_eq!(
                                before, 0,
                                "{number} was acknowledged after a failure had been reported"
                            );
                            acknowledged.lock().unwrap().push(number);
                        }
                        Err(_) => _ = failures.fetch_add(1, Ordering::SeqCst),
                    }
                }
            });
        }
    });
    assert!(failures.into_inner() > 0, "nothing failed");
    acknowledged.into_inner().unwrap()
}

/// One device, one fault. `loses` would be the number of acknowledged files that are not there afterwards.
fn survives(fs: Fs, transport: &str, faults: &[&str]) {
    let bench = Bench::new(fs, transport);
    let dir = bench.dir();
    let early: Vec<usize> = (0..10).collect();
    early.iter().for_each(|number| write(&dir.join(number.to_string()), *number).unwrap());
    bench.loadline(&[&["ssd", "fail", "f"], faults].concat());
    let acknowledged =
        [early, write_until_failure(&dir, if fs == Fs::Betrfs { WRITERS } else { 1 })].concat();
    let stats = bench.loadline(&["ssd", "stats", "f"]);
    let failed = stats.split("loadline_ssd_failed_requests").nth(1).unwrap();
    assert!(!failed.split_whitespace().nth(1).unwrap().starts_with('0'), "{failed}");
    if fs == Fs::Betrfs {
        assert!(host::wait::wait_until(PATIENCE, || bench.shows_read_only()), "{faults:?}");
        let kind = if faults[0].starts_with("flush") { "flush of the storage" } else { "write of" };
        let said = std::fs::read_to_string(bench.log()).unwrap();
        assert!(said.contains("has become read-only") && said.contains(kind), "{faults:?}: {said}");
        assert!(said.contains("os error 5"), "{said}");
        let doctor = text(&bench.place.loadline(&["doctor", "--dry-run"]));
        let line = format!("{} {} read-only for", dir.display(), bench.device);
        assert!(doctor.contains(&line) && doctor.contains(kind), "{doctor}");
        let unmounted = bench.place.loadline(&["umount", dir.to_str().unwrap()]);
        let told = text(&unmounted);
        assert_eq!(unmounted.status.code(), Some(1), "{told}");
        let parts =
            [&bench.device, "what was written but not acknowledged by a sync is lost", kind, "os error 5"];
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        let ended = || std::fs::read_to_string(bench.log()).unwrap().contains("is lost");
        assert!(host::wait::wait_until(PATIENCE, ended), "the daemon does not say what the end was");
    } else {
        bench.umount();
    }
    bench.mount();
    let lost = |number: &&usize| {
        std::fs::read(dir.join(number.to_string())).ok().is_none_or(|found| found != contents(**number))
    };
    let lost: Vec<_> = acknowledged.iter().filter(lost).collect();
    assert!(
        lost.is_empty(),
        "{faults:?}: {} of {} acknowledged files: {lost:?}",
        lost.len(),
        acknowledged.len()
    );
    write(&dir.join("afterwards"), 7).unwrap();
    match fs {
        Fs::Betrfs => _ = bench.loadline(&["umount", dir.to_str().unwrap()]),
        Fs::Ext4 => bench.umount(),
    }
    match fs {
        Fs::Betrfs => _ = bench.loadline(&["fsck", "betrfs", &bench.device]),
        Fs::Ext4 => run("e2fsck", &["-fn", &bench.device]),
    }
    bench.loadline(&["ssd", "detach", "f"]);
}

#[test]
fn betrfs_acknowledges_nothing_after_its_device_has_failed() {
    needs!(Root, Mounts, Loop, Fuse);
    FAULTS.iter().for_each(|faults| survives(Fs::Betrfs, "classic", faults));
}

#[test]
fn betrfs_acknowledges_nothing_after_its_device_has_failed_behind_rings() {
    needs!(Root, Mounts, Loop, Fuse, Rings);
    FAULTS.iter().for_each(|faults| survives(Fs::Betrfs, "uring", faults));
}

#[test]
fn betrfs_acknowledges_nothing_after_its_ublk_device_has_failed() {
    needs!(Root, Mounts, Fuse, Ublk);
    FAULTS.iter().for_each(|faults| survives(Fs::Betrfs, "ublk", faults));
}

/// What is asked of betrfs, ext4 does for one writer. Of several it loses acknowledged files: only who asked for the flush that
/// failed hears of it, and the next flush, of another writer, succeeds without the data that the first one lost.
#[test]
fn ext4_acknowledges_nothing_after_its_device_has_failed() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    FAULTS[..3].iter().for_each(|faults| survives(Fs::Ext4, "classic", faults));
}
