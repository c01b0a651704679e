//! Real devices, each way that their FUSE file is served.
//!
//! This program is its own daemon (hence no test harness). Every step has a deadline, at which the FUSE
//! connection is aborted: a hang would block every `sync` of the machine.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use blockdev::record::{EventKind, Reader};
use blockdev::transport::Fuse;
use blockdev::{AttachOptions, Attached, Backing, BackingUse, Launcher, SsdError, Transport};
use camino::{Utf8Path, Utf8PathBuf};
use needs::{Case, Need};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use ssd::Regime;

const MIB: u64 = 1 << 20;
/// Far more than anything takes, on the slowest machine: it ends what hangs.
const DEADLINE: Duration = Duration::from_secs(600);

type Test = (&'static str, fn(&Bench));

const TESTS: [Test; 15] = [
    ("ext4_keeps_files_over_a_remount", ext4_keeps_files_over_a_remount),
    ("a_copy_of_the_mount_elsewhere_is_waited_for", a_copy_of_the_mount_elsewhere_is_waited_for),
    ("bytes_come_back_from_every_size_and_place", bytes_come_back_from_every_size_and_place),
    ("a_killed_daemon_gives_errors_and_a_clean_unmount", a_killed_daemon_gives_errors_and_a_clean_unmount),
    ("a_power_cut_keeps_what_was_flushed", a_power_cut_keeps_what_was_flushed),
    ("ext4_recovers_from_a_power_cut", ext4_recovers_from_a_power_cut),
    ("a_busy_device_stays_and_force_takes_it", a_busy_device_stays_and_force_takes_it),
    (
        "force_aborts_a_connection_whose_mount_is_gone_or_covered",
        force_aborts_a_connection_whose_mount_is_gone_or_covered,
    ),
    ("a_backing_file_keeps_the_bytes", a_backing_file_keeps_the_bytes),
    (
        "an_existing_backing_file_is_neither_grown_nor_emptied",
        an_existing_backing_file_is_neither_grown_nor_emptied,
    ),
    ("the_backing_file_of_a_run_goes_with_it", the_backing_file_of_a_run_goes_with_it),
    ("a_recording_rebuilds_the_device", a_recording_rebuilds_the_device),
    ("partitions_go_with_the_device", partitions_go_with_the_device),
    ("a_panic_ends_the_daemon", a_panic_ends_the_daemon),
    ("requests_fail_when_they_are_told_to", requests_fail_when_they_are_told_to),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [hidden, config] = &args[..]
        && hidden == "ssd-daemon"
    {
        panic_on_demand(config.as_str().into());
        return blockdev::daemon::main(config.as_str().into());
    }
    let device = &[Need::Root, Need::Mounts, Need::Fuse, Need::Loop, Need::Ext4][..];
    let ways = [(Fuse::Classic, device.to_vec()), (Fuse::Uring, [device, &[Need::Rings]].concat())]
        .map(|(way, needs)| (Transport::Fuse(way), needs));
    let cases = TESTS.into_iter().flat_map(|(name, test)| {
        ways.iter().map(move |(transport, needs)| {
            let run = move || Bench::new(*transport).run(test);
            Case::new(format!("{name}::{}", transport.name()), needs, run)
        })
    });
    needs::run(env!("CARGO_PKG_NAME"), "devices", cases.collect())
}

/// A private home and mount point.
struct Bench {
    dir: tempfile::TempDir,
    transport: Transport,
}

impl Bench {
    fn new(transport: Transport) -> Bench {
        Bench { dir: tempfile::tempdir().unwrap(), transport }
    }

    fn home(&self) -> Utf8PathBuf {
        let dir = Utf8Path::from_path(self.dir.path()).unwrap();
        dir.canonicalize_utf8().unwrap()
    }

    fn mount_point(&self) -> Utf8PathBuf {
        let path = self.home().join("fs");
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Runs a test under a deadline; then, whatever happened, everything is taken down.
    fn run(self, test: fn(&Bench)) -> bool {
        let (done, ended) = mpsc::channel();
        let fine = std::thread::scope(|scope| {
            let bench = &self;
            let thread = scope.spawn(move || {
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(bench)));
                let _ = done.send(());
                result.is_ok()
            });
            let in_time = ended.recv_timeout(DEADLINE).is_ok();
            if !in_time {
                println!("deadline over: aborting");
                self.force();
            }
            thread.join().unwrap_or(false) && in_time
        });
        let _ = umount(&self.mount_point());
        self.force();
        fine
    }

    fn force(&self) {
        for listed in blockdev::list(&self.home()).unwrap_or_default() {
            if let Err(error) = blockdev::detach(&self.home(), &listed.state.name, true) {
                println!("{}: {error}", listed.state.name);
            }
        }
    }

    fn attach(&self, options: &AttachOptions) -> Attached {
        let options = AttachOptions { transport: self.transport, ..options.clone() };
        let attached = blockdev::attach(&self.home(), &options, &Launcher::this_program().unwrap()).unwrap();
        assert_eq!(attached.state().transport, self.transport);
        attached
    }
}

fn run(program: &str, args: &[&str]) -> (i32, String) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("timeout");
    let output = command.args(["-k", "5", "300", program]).args(args).env("PATH", path).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

fn must(program: &str, args: &[&str]) {
    let (code, text) = run(program, args);
    assert_eq!(code, 0, "{program} {args:?}: {text}");
}

fn umount(at: &Utf8Path) -> i32 {
    run("umount", &[at.as_str()]).0
}

fn direct(device: &Utf8Path) -> File {
    File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(device).unwrap()
}

/// Memory that direct I/O takes.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Aligned {
    fn new(bytes: usize) -> Aligned {
        let memory = vec![0; bytes + 4096];
        let start = memory.as_ptr().align_offset(4096);
        Aligned { memory, start, bytes }
    }

    fn filled(bytes: usize, with: u8) -> Aligned {
        let mut new = Aligned::new(bytes);
        new.get().fill(with);
        new
    }

    fn get(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

fn ext4_keeps_files_over_a_remount(bench: &Bench) {
    let mut device = bench.attach(&AttachOptions::new("a", "980pro", 64 * MIB));
    let (dev, at) = (device.device().to_owned(), bench.mount_point());
    must("mkfs.ext4", &["-q", "-b", "4096", dev.as_str()]);
    must("mount", &[dev.as_str(), at.as_str()]);
    let text: Vec<u8> = (0..3_000_000u32).flat_map(|i| (i as u16).to_le_bytes()).collect();
    let mut file = File::create(at.join("f")).unwrap();
    file.write_all(&text).unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert!(matches!(blockdev::detach(&bench.home(), "a", false), Err(SsdError::Busy { .. })));
    assert_eq!(umount(&at), 0);
    must("mount", &[dev.as_str(), at.as_str()]);
    assert!(std::fs::read(at.join("f")).unwrap() == text);
    let stats = device.stats().unwrap();
    assert!(stats.counters["host_write_blocks"] >= 6_000_000 / 4096 && stats.counters["flushes"] > 0);
    assert!(stats.write_amplification.unwrap() >= 0.5 && stats.prometheus().contains("queue_depth_max"));
    assert_eq!(umount(&at), 0);
    device.detach().unwrap();
    assert!(blockdev::list(&bench.home()).unwrap().is_empty());
    assert!(journal::Journal::leftovers(&bench.home().join("journal")).unwrap().is_empty());
}

fn a_copy_of_the_mount_elsewhere_is_waited_for(bench: &Bench) {
    let mut device = bench.attach(&AttachOptions::new("a", "ideal", 64 * MIB));
    let (dev, at) = (device.device().to_owned(), bench.mount_point());
    must("mkfs.ext4", &["-q", "-b", "4096", dev.as_str()]);
    must("mount", &[dev.as_str(), at.as_str()]);
    let mut elsewhere = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", "echo here; read word"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 5];
    elsewhere.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(umount(&at), 0);
    assert!(matches!(blockdev::detach(&bench.home(), "a", false), Err(SsdError::Busy { .. })));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // so that the one who waits has begun; he may as well begin later
            std::thread::sleep(Duration::from_millis(200));
            elsewhere.stdin.take();
            elsewhere.wait().unwrap();
        });
        device.detach().unwrap();
    });
    assert!(blockdev::list(&bench.home()).unwrap().is_empty());
}

fn bytes_come_back_from_every_size_and_place(bench: &Bench) {
    let mut options = AttachOptions::new("a", "ideal", 16 * MIB);
    options.threads = 4;
    let device = bench.attach(&options);
    let file = direct(device.device());
    let mut model = vec![0u8; 16 << 20];
    let mut dice = 7u64;
    let mut below = |n: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (dice >> 33) % n
    };
    for round in 0..400u32 {
        // up to 4 MiB: more than one FUSE request carries
        let bytes = 4096 * (1 + if round % 20 == 0 { below(1024) } else { below(8) });
        let at = 4096 * below((16 * MIB - bytes) / 4096 + 1);
        let mut buffer = Aligned::filled(bytes as usize, round as u8 | 1);
        let range = at as usize..(at + bytes) as usize;
        if round % 3 == 0 {
            file.read_exact_at(buffer.get(), at).unwrap();
            assert!(buffer.get() == &model[range], "round {round}");
        } else {
            file.write_all_at(buffer.get(), at).unwrap();
            model[range].fill(round as u8 | 1);
        }
    }
    must("blkdiscard", &["-o", "1048576", "-l", "2097152", device.device().as_str()]);
    model[1 << 20..3 << 20].fill(0);
    let mut all = Aligned::new(16 << 20);
    file.read_exact_at(all.get(), 0).unwrap();
    assert!(all.get() == &model[..]);
    assert_eq!(device.stats().unwrap().counters["trimmed_blocks"], 512);
}

fn a_killed_daemon_gives_errors_and_a_clean_unmount(bench: &Bench) {
    let device = bench.attach(&AttachOptions::new("a", "980pro", 64 * MIB));
    let (dev, at) = (device.device().to_owned(), bench.mount_point());
    must("mkfs.ext4", &["-q", "-b", "4096", dev.as_str()]);
    must("mount", &[dev.as_str(), at.as_str()]);
    std::fs::write(at.join("f"), "before").unwrap();
    let pid = device.state().daemon.pid.to_string();
    must("kill", &["-9", &pid]);
    let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(&dev).unwrap();
    let mut buffer = Aligned::new(4096);
    let error = file.read_exact_at(buffer.get(), 4096 * 100).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    let synced = File::create(at.join("g")).and_then(|mut f| {
        f.write_all(b"after")?;
        f.sync_all()
    });
    assert!(synced.is_err(), "a dead device cannot have kept this");
    drop(file);
    assert_eq!(umount(&at), 0);
    let leftovers = journal::Journal::leftovers(&bench.home().join("journal")).unwrap();
    assert_eq!(leftovers.len(), 1, "doctor finds the dead daemon's journal");
    assert_eq!(leftovers[0].resources.len(), 2);
    drop(device);
    assert!(journal::Journal::leftovers(&bench.home().join("journal")).unwrap().is_empty());
    let name = dev.file_name().unwrap();
    let shown = std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).unwrap_or_default();
    assert!(!shown.contains(bench.home().as_str()), "{shown}");
}

fn a_power_cut_keeps_what_was_flushed(bench: &Bench) {
    let mut options = AttachOptions::new("a", "980pro", 64 * MIB);
    // slow enough that nothing drains from the cache by itself meanwhile
    options.time_scale = 1000.0;
    options.compensate = false;
    let device = bench.attach(&options);
    let file = direct(device.device());
    let write =
        |lba: u64, with: u8| file.write_all_at(Aligned::filled(4096, with).get(), lba * 4096).unwrap();
    for lba in 0..64 {
        write(lba, 1);
    }
    file.sync_all().unwrap();
    for lba in 0..8 {
        write(lba, 2);
    }
    write(100, 2);
    let image = bench.home().join("cut.img");
    let report = device.power_cut(&image).unwrap();
    assert_eq!((report.data_blocks, report.rolled_back_blocks), (64, 8));
    let image = std::fs::read(image).unwrap();
    assert_eq!(image.len() as u64, 64 * MIB);
    assert!(image[..64 * 4096].iter().all(|b| *b == 1), "flushed: kept, and the later writes were lost");
    assert!(image[64 * 4096..].iter().all(|b| *b == 0));
    let error = file.read_exact_at(Aligned::new(4096).get(), 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "the device is off");
    assert!(device.stats().unwrap().power_cut);
    assert!(matches!(device.power_cut(&bench.home().join("b")), Err(SsdError::Daemon { .. })));
}

fn ext4_recovers_from_a_power_cut(bench: &Bench) {
    for seed in 0..3 {
        let mut options = AttachOptions::new("a", "980pro", 64 * MIB);
        options.seed = seed;
        let device = bench.attach(&options);
        let (dev, at) = (device.device().to_owned(), bench.mount_point());
        must(
            "mkfs.ext4",
            &["-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0", dev.as_str()],
        );
        must("mount", &[dev.as_str(), at.as_str()]);
        for i in 0..40 {
            let mut file = File::create(at.join(format!("f{i}"))).unwrap();
            file.write_all(&vec![i as u8 + 1; 20_000]).unwrap();
            if i < 30 {
                file.sync_all().unwrap();
            }
        }
        std::fs::remove_file(at.join("f39")).unwrap();
        let image = bench.home().join(format!("cut{seed}.img"));
        device.power_cut(&image).unwrap();
        umount(&at);
        drop(device);
        let (code, text) = run("e2fsck", &["-p", image.as_str()]);
        assert!(code <= 1 && text.contains("recovering journal"), "seed {seed}: {code} {text}");
        must("e2fsck", &["-fn", image.as_str()]);
        must("mount", &["-o", "loop,ro", image.as_str(), at.as_str()]);
        for i in 0..30 {
            let kept = std::fs::read(at.join(format!("f{i}"))).unwrap();
            assert!(kept == vec![i as u8 + 1; 20_000], "seed {seed}: fsynced file f{i} is damaged");
        }
        assert_eq!(umount(&at), 0);
    }
}

fn a_busy_device_stays_and_force_takes_it(bench: &Bench) {
    let mut options = AttachOptions::new("a", "hdd", 64 * MIB);
    options.regime = Regime::None;
    let first = bench.attach(&options);
    let again = blockdev::attach(&bench.home(), &options, &Launcher::this_program().unwrap());
    assert!(matches!(again, Err(SsdError::Exists { .. })));
    let pid = first.state().daemon.pid.to_string();
    let state = first.keep().unwrap();
    assert!(blockdev::list(&bench.home()).unwrap()[0].alive);
    // a daemon that does not answer
    must("kill", &["-STOP", &pid]);
    blockdev::detach(&bench.home(), "a", true).unwrap();
    assert!(blockdev::list(&bench.home()).unwrap().is_empty());
    let mounts = host::Host::system().mounts().unwrap();
    assert!(!mounts.iter().any(|m| m.target == state.mount));
    options.profile = "no-such".into();
    assert!(blockdev::attach(&bench.home(), &options, &Launcher::this_program().unwrap()).is_err());
}

/// A descriptor of a daemon's connection, which keeps that open as a daemon does that cannot end.
fn connection_of(daemon: u32) -> OwnedFd {
    let open = std::fs::read_dir(format!("/proc/{daemon}/fd")).unwrap().flatten();
    let fuse = open.filter(|entry| entry.path().read_link().is_ok_and(|file| file == Path::new("/dev/fuse")));
    let number = fuse.last().unwrap().file_name().to_str().unwrap().parse().unwrap();
    let pid = Pid::from_raw(daemon as i32).unwrap();
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty()).unwrap()
}

/// Without it a daemon that waits for its own file would never end.
fn force_aborts_a_connection_whose_mount_is_gone_or_covered(bench: &Bench) {
    for is_covered in [true, false] {
        let other = bench.attach(&AttachOptions::new("b", "ideal", 16 * MIB));
        let state = bench.attach(&AttachOptions::new("a", "ideal", 16 * MIB)).keep().unwrap();
        let connection = connection_of(state.daemon.pid);
        let info = format!("/proc/self/fdinfo/{}", connection.as_raw_fd());
        let is_told = std::fs::read_to_string(info).unwrap().contains("fuse_connection:");
        // its file system stays as long as this is open
        let user = File::open(state.mount.join("disk")).unwrap();
        if is_covered {
            must("mount", &["--bind", other.state().mount.as_str(), state.mount.as_str()]);
        } else if is_told {
            must("umount", &["-l", state.mount.as_str()]);
        }
        let (aborted, detached) = std::thread::scope(|scope| {
            let detaching = scope.spawn(|| blockdev::detach(&bench.home(), "a", true));
            let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
            // error conditions alone are waited for
            let mut fds = [PollFd::new(&connection, PollFlags::empty())];
            let aborted = poll(&mut fds, Some(&patience)).unwrap() == 1;
            drop(connection);
            (aborted, detaching.join().unwrap())
        });
        drop(user);
        // the kernel calls a file without a mount by another name, so that it is not known as ours
        if host::loopdev::backing_file(&host::Host::system(), &state.device)
            .is_some_and(|file| file == "/disk")
        {
            must("losetup", &["-d", state.device.as_str()]);
        }
        let is_mounted = || host::Host::system().mounts().unwrap().iter().any(|m| m.target == state.mount);
        while is_mounted() {
            must("umount", &[state.mount.as_str()]);
        }
        bench.force();
        drop(other);
        assert!(aborted, "covered: {is_covered}, {detached:?}");
    }
}

fn a_backing_file_keeps_the_bytes(bench: &Bench) {
    let mut options = AttachOptions::new("a", "optane", 16 * MIB);
    options.backing = Backing::File(bench.home().join("store"));
    let mut device = bench.attach(&options);
    direct(device.device()).write_all_at(Aligned::filled(8192, 9).get(), 8192).unwrap();
    device.detach().unwrap();
    let device = bench.attach(&options);
    let mut buffer = Aligned::new(16384);
    direct(device.device()).read_exact_at(buffer.get(), 0).unwrap();
    assert!(buffer.get()[8192..].iter().all(|b| *b == 9) && buffer.get()[..8192].iter().all(|b| *b == 0));
    // what was there before is not lost by a power cut, whatever is written over it now
    direct(device.device()).write_all_at(Aligned::filled(4096, 3).get(), 12288).unwrap();
    let image = bench.home().join("cut");
    device.power_cut(&image).unwrap();
    let image = std::fs::read(image).unwrap();
    assert!(image[8192..12288].iter().all(|b| *b == 9));
    assert!(image[12288..16384].iter().all(|b| *b == 9) || image[12288..16384].iter().all(|b| *b == 3));
}

fn an_existing_backing_file_is_neither_grown_nor_emptied(bench: &Bench) {
    let file = bench.home().join("precious");
    let precious = vec![7; 3 << 20];
    std::fs::write(&file, &precious).unwrap();
    let launcher = Launcher::this_program().unwrap();
    let refused = |backing_use: &BackingUse, bytes: u64| {
        let mut options = AttachOptions::new("a", "optane", bytes);
        (options.backing, options.backing_use) = (Backing::File(file.clone()), backing_use.clone());
        options.transport = bench.transport;
        let refused =
            blockdev::attach(&bench.home(), &options, &launcher).map(|_| ()).unwrap_err().to_string();
        assert!(std::fs::read(&file).unwrap() == precious, "{backing_use:?}: {refused}");
        refused
    };
    for bytes in [16 * MIB, 2 * MIB] {
        assert!(refused(&BackingUse::Keep, bytes).contains("3145728 bytes"));
    }
    let overwrite = |erase: Option<Utf8PathBuf>| BackingUse::Overwrite { erase };
    for bytes in [16 * MIB, 3 * MIB] {
        assert!(refused(&overwrite(None), bytes).contains("--erase"));
        assert!(refused(&overwrite(Some(bench.home().join("other"))), bytes).contains("same in both places"));
    }
    // one that another device uses
    let mut options = AttachOptions::new("first", "optane", 3 * MIB);
    (options.backing, options.transport) = (Backing::File(file.clone()), bench.transport);
    let first = blockdev::attach(&bench.home(), &options, &launcher).unwrap();
    for backing_use in [BackingUse::Keep, overwrite(Some(file.clone()))] {
        assert!(refused(&backing_use, 3 * MIB).contains("in use"));
    }
    drop(first);
    // the user has agreed
    (options.bytes, options.backing_use) = (16 * MIB, overwrite(Some(file.clone())));
    drop(blockdev::attach(&bench.home(), &options, &launcher).unwrap());
    assert_eq!(std::fs::read(&file).unwrap(), vec![0; 16 << 20], "it was emptied, and stays");
}

fn the_backing_file_of_a_run_goes_with_it(bench: &Bench) {
    let file = bench.home().join("scratch");
    let mut options = AttachOptions::new("a", "optane", 16 * MIB);
    options.backing = Backing::File(file.clone());
    options.backing_use = BackingUse::Overwrite { erase: None };
    let mut device = bench.attach(&options);
    assert!(file.exists());
    device.detach().unwrap();
    assert!(!file.exists());
    // after a kill the journal knows it
    let device = bench.attach(&options);
    must("kill", &["-KILL", &device.state().daemon.pid.to_string()]);
    drop(device);
    assert!(!file.exists());
}

/// What ext4 wrote, replayed from the recording, is what the device holds; what a mark says is durable is.
fn a_recording_rebuilds_the_device(bench: &Bench) {
    let mut options = AttachOptions::new("a", "980pro", 64 * MIB);
    let path = bench.home().join("record");
    options.record = Some(path.clone());
    let mut device = bench.attach(&options);
    let (dev, at) = (device.device().to_owned(), bench.mount_point());
    must("mkfs.ext4", &["-q", "-b", "4096", dev.as_str()]);
    must("mount", &["-o", "discard", dev.as_str(), at.as_str()]);
    let mut file = File::create(at.join("f")).unwrap();
    file.write_all(&[0xa5; 123 * 4096]).unwrap();
    file.sync_all().unwrap();
    let status = device.mark("f is safe").unwrap();
    assert!(status.bytes > 123 * 4096 && status.error.is_none());
    let attached: Vec<_> = Reader::open(&path).unwrap().map(Result::unwrap).collect();
    assert_eq!(attached.last().unwrap().what, EventKind::Mark { text: "f is safe".into() });
    let (mut open, mut written, mut flushed) = (HashMap::new(), 0, 0);
    for event in &attached {
        match &event.what {
            EventKind::Write { id, data, .. } => {
                open.insert(*id, data.iter().filter(|b| **b == 0xa5).count() / 4096);
            }
            EventKind::Flush { id } => {
                open.insert(*id, 0);
                flushed = written;
            }
            EventKind::Complete { id, errno: 0 } => written += open.remove(id).unwrap_or(0),
            _ => {}
        }
    }
    assert!(flushed >= 123, "only {flushed} blocks of the file completed before the last flush");
    std::fs::remove_file(at.join("f")).unwrap();
    drop(file);
    assert_eq!(umount(&at), 0);
    let mut now = Aligned::new(64 << 20);
    direct(&dev).read_exact_at(now.get(), 0).unwrap();
    assert!(device.stats().unwrap().record.unwrap().events > attached.len() as u64);
    device.detach().unwrap();
    let mut image = vec![0; 64 << 20];
    let (mut open, mut discards) = (std::collections::HashSet::new(), 0);
    for event in Reader::open(&path).unwrap() {
        let (id, offset, bytes) = match event.unwrap().what {
            EventKind::Write { id, offset, data, fua } => {
                assert!(!fua, "loop devices carry none");
                image[offset as usize..][..data.len()].copy_from_slice(&data);
                (id, offset, data.len() as u64)
            }
            EventKind::Discard { id, offset, length } | EventKind::WriteZeroes { id, offset, length } => {
                image[offset as usize..][..length as usize].fill(0);
                discards += 1;
                (id, offset, length)
            }
            EventKind::Flush { id } => (id, 0, 0),
            EventKind::Complete { id, errno } => {
                assert!(errno == 0 && open.remove(&id));
                continue;
            }
            _ => continue,
        };
        assert!(open.insert(id) && offset + bytes <= 64 * MIB);
    }
    assert!(open.is_empty() && discards > 0 && image == now.get());
    let again = blockdev::attach(&bench.home(), &options, &Launcher::this_program().unwrap());
    assert!(again.unwrap_err().to_string().contains("record: File exists"));
}

/// Names in sysfs of the partitions of `device`.
fn partitions(device: &Utf8Path) -> Vec<String> {
    let name = device.file_name().unwrap();
    let entries = std::fs::read_dir(format!("/sys/block/{name}")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|entry| entry.starts_with(name)).collect()
}

/// A DOS partition table with one partition of Linux: blocks 256 to 1279.
fn partition_table() -> Aligned {
    let mut table = Aligned::new(4096);
    let entry = &mut table.get()[446..];
    entry[4] = 0x83;
    entry[8..12].copy_from_slice(&256u32.to_le_bytes());
    entry[12..16].copy_from_slice(&1024u32.to_le_bytes());
    table.get()[510..512].copy_from_slice(&[0x55, 0xaa]);
    table
}

/// The next user of the loop device would find partitions of a disk that is gone.
fn partitions_go_with_the_device(bench: &Bench) {
    let partitioned = || {
        let device = bench.attach(&AttachOptions::new("a", "ideal", 64 * MIB));
        assert_eq!(partitions(device.device()), Vec::<String>::new());
        direct(device.device()).write_all_at(partition_table().get(), 0).unwrap();
        must("partx", &["--add", device.device().as_str()]);
        assert_eq!(partitions(device.device()).len(), 1);
        device
    };
    let at = bench.mount_point();
    let mut device = partitioned();
    let first = format!("/dev/{}", partitions(device.device())[0]);
    must("mkfs.ext4", &["-q", &first]);
    must("mount", &[&first, at.as_str()]);
    assert!(matches!(blockdev::detach(&bench.home(), "a", false), Err(SsdError::Busy { .. })));
    assert_eq!(umount(&at), 0);
    device.detach().unwrap();
    assert_eq!(partitions(device.device()), Vec::<String>::new(), "detached");
    let state = partitioned().keep().unwrap();
    blockdev::detach(&bench.home(), "a", true).unwrap();
    assert_eq!(partitions(&state.device), Vec::<String>::new(), "detached by force");
    // one that is in use stays for its user, and goes before the loop device has another disk
    let state = partitioned().keep().unwrap();
    let user = File::open(format!("/dev/{}", partitions(&state.device)[0])).unwrap();
    blockdev::detach(&bench.home(), "a", true).unwrap();
    drop(user);
    partitioned().detach().unwrap();
}

/// Has a thread of the daemon panic when the test makes a file for it.
fn panic_on_demand(config: &Utf8Path) {
    let demand = config.with_file_name("panic");
    std::thread::spawn(move || {
        while !demand.exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("planted");
    });
}

/// A thread that is gone would leave its requests unanswered for ever.
fn a_panic_ends_the_daemon(bench: &Bench) {
    let device = bench.attach(&AttachOptions::new("a", "ideal", 16 * MIB));
    let (daemon, path) = (device.state().daemon, device.device().to_owned());
    let dir = bench.home().join("ssd/a");
    std::fs::write(dir.join("panic"), "").unwrap();
    let host = host::Host::system();
    assert!(host::wait::wait_until(DEADLINE, || !daemon.is_alive(&host)));
    let log = std::fs::read_to_string(dir.join("daemon.log")).unwrap();
    assert!(log.contains("devices.rs") && log.contains("planted; the daemon ends"), "{log}");
    assert!(direct(&path).read_exact_at(Aligned::new(4096).get(), 0).is_err());
    std::fs::remove_file(dir.join("panic")).unwrap();
    let mut device = device;
    device.detach().unwrap();
}

/// From the beginning, then as it is told later on.
fn requests_fail_when_they_are_told_to(bench: &Bench) {
    let fault = |text: &str| text.parse::<ssd::Fault>().unwrap();
    let mut options = AttachOptions::new("a", "980pro", 16 * MIB);
    options.faults = vec![fault("write:2"), fault("write@512+")];
    let mut device = bench.attach(&options);
    let file = direct(device.device());
    let error = |done: std::io::Result<()>| done.err().and_then(|error| error.raw_os_error());
    let write = |lba: u64, with: u8| error(file.write_all_at(Aligned::filled(4096, with).get(), lba * 4096));
    let read = |lba: u64| {
        let mut buffer = Aligned::new(4096);
        let done = error(file.read_exact_at(buffer.get(), lba * 4096));
        (buffer.get()[0], done)
    };
    assert_eq!([1, 2, 3].map(|with| write(10, with)), [None, Some(libc::EIO), None]);
    assert_eq!([write(512, 1), write(512, 1), write(513, 1)], [Some(libc::EIO), Some(libc::EIO), None]);
    assert_eq!(read(10), (3, None));
    assert_eq!(error(file.sync_all()), None);
    let mut before: Vec<u8> = (0..500).map(|lba| if lba == 10 { 3 } else { 0 }).collect();
    for with in 4.. {
        device.fail(&[fault("flush:1"), fault("read@11")]).unwrap();
        assert!((0..500).all(|lba| write(lba, with).is_none()));
        assert_eq!([error(file.sync_all()), error(file.sync_all())], [Some(libc::EIO), None]);
        assert_eq!([read(11).1, read(11).1], [Some(libc::EIO), None]);
        let found: Vec<u8> = (0..500).map(|lba| read(lba).0).collect();
        let lost = found.iter().filter(|byte| **byte != with).count() as u64;
        assert!(found.iter().zip(&before).all(|(byte, old)| *byte == with || byte == old));
        let counters = device.stats().unwrap().counters;
        let failed = 2 + 1 + 2 * (u64::from(with) - 3);
        assert_eq!((counters["failed_requests"], counters["lost_blocks"]), (failed, lost));
        // At least one of many small writes is in the cache when the flush comes, unless that comes so late that the device
        // has written all out by itself.
        if lost > 0 {
            break;
        }
        assert!(with < 50, "no flush has lost anything");
        before = found;
    }
    drop(file);
    device.detach().unwrap();
}
