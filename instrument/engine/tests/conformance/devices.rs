//! Jobs of fio on a block device: discards, and blocks that one program writes and the other checks.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use needs::needs;

use super::calls::{self, Sums};
use super::ours;

/// Bytes of the device.
const BYTES: u64 = 4 << 20;

/// A loop device, and a place with its file.
struct Device {
    path: PathBuf,
    place: tempfile::TempDir,
}

impl Device {
    fn new() -> Device {
        let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a place");
        let file = place.path().join("blocks");
        std::fs::File::create(&file).and_then(|file| file.set_len(BYTES)).expect("the place is new");
        let made =
            Command::new("losetup").args(["--find", "--show"]).arg(&file).output().expect("losetup runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Device { path: String::from_utf8_lossy(&made.stdout).trim().into(), place }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The job of a program, as a file.
    fn job(&self, options: &str) -> PathBuf {
        let job = self.place.path().join("job.fio");
        let text = format!("[a]\nfilename={}\nsize={BYTES}\nbs=4k\n{options}", self.name());
        std::fs::write(&job, text).expect("the place is ours");
        job
    }

    fn fio(&self, options: &str) -> Command {
        let mut fio = Command::new("fio");
        fio.current_dir(self.place.path()).arg("--eta=never").arg(self.job(options));
        fio
    }

    fn ours(&self, options: &str) -> Command {
        let mut run = Command::new(ours());
        run.arg(self.job(options))
            .arg(self.place.path())
            .arg("measure")
            .arg(format!("erase={}", self.name()));
        run
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned()).concat()
}

#[test]
fn discards_are_those_of_fio() {
    needs!(
        Root,
        Loop,
        Tool { program: "fio", package: "fio" },
        Tool { program: "strace", package: "strace" }
    );
    for options in
        ["rw=trim\n", "rw=randtrim\n", "rw=trimwrite\n", "rw=randtrimwrite\n", "rw=randtrim\nbs=,,16k\n"]
    {
        let device = Device::new();
        let by =
            |command: Command| calls::of(&command, Path::new("/dev"), device.place.path()).expect("it runs");
        let (theirs, ours) = (by(device.fio(options)), by(device.ours(options)));
        let ends = calls::ends([&theirs, &ours]);
        assert_eq!(Sums::of(&theirs, &ends), Sums::of(&ours, &ends), "{options}");
        assert_eq!(theirs, ours, "{options}");
        assert!(theirs.iter().flatten().any(|call| call.kind == "trim"), "{options}: nothing was discarded");
    }
}

#[test]
fn each_checks_what_the_other_has_written() {
    needs!(Root, Loop, Tool { program: "fio", package: "fio" });
    for verify in [
        "verify=md5\n",
        "verify=crc32c\nbs=16k\nverify_interval=4k\n",
        "verify=meta\n",
        "verify=pattern\nverify_pattern=0x1234567\n",
        "verify=md5\nverify_pattern=\"abc\"17\n",
    ] {
        let device = Device::new();
        let (write, read) = (format!("rw=randwrite\ndo_verify=0\n{verify}"), format!("rw=read\n{verify}"));
        for (mut writer, mut reader) in
            [(device.fio(&write), device.ours(&read)), (device.ours(&write), device.fio(&read))]
        {
            // the job file is one
            let run = |command: &mut Command, options: &str| {
                device.job(options);
                command.output().expect("it runs")
            };
            let written = run(&mut writer, &write);
            assert!(written.status.success(), "{verify}: {}", said(&written));
            let checked = run(&mut reader, &read);
            assert!(checked.status.success(), "{verify}: {}", said(&checked));
        }
    }
}

#[test]
fn a_device_that_ends_before_the_job_is_told_by_its_name() {
    needs!(Root, Loop);
    let device = Device::new();
    let beyond = format!("offset={BYTES}\n");
    for options in ["rw=write\nverify=md5\n", "rw=write\nioengine=libaio\niodepth=4\n"] {
        let written = device.ours(&format!("{options}{beyond}")).output().expect("it runs");
        let said = said(&written);
        assert!(!written.status.success(), "{said}");
        assert!(said.contains("No space left on device"), "{said}");
        assert!(said.contains(&format!("last file {}", device.name())), "{said}");
    }
}

#[test]
fn a_byte_that_is_other_is_named() {
    needs!(Root, Loop);
    let device = Device::new();
    let written = device.ours("rw=write\nverify=md5\n").output().expect("it runs");
    assert!(written.status.success(), "{}", said(&written));
    std::os::unix::fs::FileExt::write_all_at(
        &std::fs::File::options().write(true).open(&device.path).expect("the device is ours"),
        b"?",
        40_960 + 100,
    )
    .expect("the device takes it");
    let checked = device.ours("rw=read\nverify=md5\n").output().expect("it runs");
    let said = said(&checked);
    assert!(!checked.status.success(), "{said}");
    for part in ["verify failed at offset 40960, 4096 bytes", "Md5", "expected"] {
        assert!(said.contains(part), "{said}");
    }
}
