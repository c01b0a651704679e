//! Nothing is wiped: every way of the command to somebody's device or file is tried, and what lies there is compared
//! before and after. All devices are loop devices on files of the test's own.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use needs::needs;

/// Reads and writes the device `NAME` of `DIR` itself.
const RAW: &str = "define file name=NAME,path=\"DIR\",size=1m,prealloc\n\
    define process name=p { thread name=t,memsize=1m {\n\
      flowop write name=w,filename=NAME,iosize=4k,random\n\
    } }\nrun 1\n";

struct Bench {
    directory: tempfile::TempDir,
    /// Below /dev, where the devices of stacks must be.
    links: tempfile::TempDir,
    loops: Vec<String>,
    mounts: Vec<PathBuf>,
    swaps: Vec<String>,
}

impl Bench {
    fn new() -> Bench {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let links = tempfile::tempdir_in("/dev/shm").expect("another");
        let bench = Bench { directory, links, loops: Vec::new(), mounts: Vec::new(), swaps: Vec::new() };
        std::fs::create_dir(bench.path("target")).unwrap();
        std::fs::write(bench.path("work.f"), RAW.replace("NAME", "f").replace("DIR", "/tmp/x")).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn file(&self, name: &str) -> String {
        self.path(name).to_str().expect("a UTF-8 path").to_owned()
    }

    /// A file of that many MiB, as one hole.
    fn image(&self, name: &str, mib: u64) -> String {
        std::fs::File::create(self.path(name)).unwrap().set_len(mib << 20).unwrap();
        self.file(name)
    }

    /// A loop device on `file`, its partitions looked for.
    fn attach(&mut self, file: &str) -> String {
        let output = must("losetup", &["--show", "--partscan", "-f", file]);
        let device = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        self.loops.push(device.clone());
        device
    }

    fn mount(&mut self, device: &str) -> PathBuf {
        let at = self.path(&format!("mnt{}", self.mounts.len()));
        std::fs::create_dir(&at).unwrap();
        // read-only, so that only loadline could change a byte
        must("mount", &["-o", "ro", device, at.to_str().unwrap()]);
        self.mounts.push(at.clone());
        at
    }

    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command
            .current_dir(self.directory.path())
            .env("LOADLINE_HOME", self.path("home"))
            .env("NO_COLOR", "1");
        let output = command.args(arguments).output().expect("the command starts");
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
    }

    /// Runs, expects a refusal that says `part`, and that `thing` holds what it held.
    fn refused(&self, arguments: &[&str], thing: &str, part: &str) {
        let before = sum(thing);
        let (code, text) = self.run(arguments);
        assert!(matches!(code, 1 | 2 | 4), "{arguments:?}: {code}\n{text}");
        // a table breaks lines
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(line.contains(part), "{arguments:?} does not say `{part}`:\n{text}");
        assert_eq!(sum(thing), before, "{arguments:?} has changed {thing}:\n{text}");
    }

    /// A workload on the device itself, by any path of it.
    fn raw(&self, path: &str) -> String {
        let (dir, name) = path.rsplit_once('/').unwrap();
        let file = format!("raw-{}.f", name);
        std::fs::write(self.path(&file), RAW.replace("NAME", name).replace("DIR", dir)).unwrap();
        file
    }

    /// Every way to a block device, with all the consent there is.
    fn device_doors(&self, device: &str) -> Vec<Vec<String>> {
        let raw = self.raw(device);
        let link = self.links.path().join("link");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(device, &link).unwrap();
        let (link, raw_link) = (link.to_str().unwrap(), self.raw(link.to_str().unwrap()));
        let stack = format!("ext4@{device}");
        let linked = format!("ext4@{link}");
        let betrfs = format!("betrfs@{device}");
        [
            &["run", "work.f", "--on", &stack, "--erase", device][..],
            &["run", "work.f", "--on", &linked, "--erase", device],
            &["run", "work.f", "--on", &betrfs, "--erase", link],
            &["run", &raw, "--on", "dir:target", "--erase", device],
            &["run", &raw_link, "--on", "dir:target", "--erase", device],
            &["run", &raw_link, "--on", "dir:target", "--erase", link],
            &["mkfs", "betrfs", device, "--erase"],
            &["mkfs", "betrfs", link, "--force", "--size", "64M"],
            &["reproduce", "betrfs", "--quick", "--rows", "ext4", "--device", device, "--erase", device],
        ]
        .iter()
        .map(|words| words.iter().map(|word| word.to_string()).collect())
        .collect()
    }

    fn all_refused(&self, device: &str, part: &str) {
        for door in self.device_doors(device) {
            let words: Vec<&str> = door.iter().map(String::as_str).collect();
            self.refused(&words, device, part);
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for swap in &self.swaps {
            let _ = Command::new("swapoff").arg(swap).status();
        }
        for mount in self.mounts.iter().rev() {
            let _ = Command::new("umount").arg(mount).status();
        }
        for device in self.loops.iter().rev() {
            let _ = Command::new("losetup").args(["-d", device]).status();
        }
    }
}

fn must(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output().expect(program);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    output
}

fn has(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .is_ok_and(|o| o.status.success())
}

/// What a file or device holds, and a file's size.
fn sum(path: &str) -> u128 {
    // the kernel swaps out to swap space in use what other tests press for; it leaves the first page alone
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let is_swap = swaps.lines().any(|line| line.split_whitespace().next() == Some(path));
    let most = if is_swap { 4096 } else { u64::MAX };
    let mut rest = std::fs::File::open(path).unwrap().take(most);
    let (mut hash, mut buffer) = (xxhash_rust::xxh3::Xxh3::new(), vec![0; 1 << 20]);
    loop {
        match rest.read(&mut buffer).unwrap() {
            0 => return hash.digest128(),
            bytes => hash.update(&buffer[..bytes]),
        }
    }
}

/// A partition table of one partition from 1 MiB to the end of 48 MiB, written by hand.
fn partition(file: &str) {
    use std::os::unix::fs::FileExt;
    let mut sector = [0; 512];
    sector[450] = 0x83;
    sector[454..458].copy_from_slice(&2048u32.to_le_bytes());
    sector[458..462].copy_from_slice(&(47 * 2048u32).to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    std::fs::File::options().write(true).open(file).unwrap().write_all_at(&sector, 0).unwrap();
}

#[test]
fn a_mounted_device_is_refused_at_every_door() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let mut bench = Bench::new();
    let file = bench.image("disk", 64);
    must("mkfs.ext4", &["-q", "-L", "precious", &file]);
    let device = bench.attach(&file);
    bench.mount(&device);
    bench.all_refused(&device, "is mounted at");
    bench.all_refused(&device, "ext4 labelled `precious`");
    // the loop device's file is no way around it
    let stack = format!("ext4@ideal(backing={file}):64M");
    bench.refused(&["run", "work.f", "--on", &stack, "--erase", &file], &file, "is built on it");
    bench.refused(&["mkfs", "betrfs", &file, "--erase"], &file, "is built on it");
    bench.refused(
        &["ssd", "attach", "--profile", "ideal", "--size", "64M", "--backing", &file],
        &file,
        "is built on it",
    );
}

#[test]
fn swap_space_is_refused_at_every_door() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let mut bench = Bench::new();
    let file = bench.image("disk", 64);
    must("mkswap", &[&file]);
    let device = bench.attach(&file);
    if !Command::new("swapon")
        .args(["--priority", "0", &device])
        .status()
        .is_ok_and(|status| status.success())
    {
        // the kernel knows no swap: crate stack tries that with a made-up /proc/swaps
        let erase = format!("ext4@{device}");
        return bench.refused(&["run", "work.f", "--on", &erase], &device, "swap");
    }
    bench.swaps.push(device.clone());
    bench.all_refused(&device, "is swap space in use");
}

#[test]
fn a_device_below_another_is_refused_at_every_door() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let mut bench = Bench::new();
    let file = bench.image("disk", 64);
    must("mkfs.ext4", &["-q", &file]);
    let lower = bench.attach(&file);
    let upper = bench.attach(&lower);
    bench.all_refused(&lower, "is built on it");
    // and one above a device in use
    bench.mount(&lower);
    bench.all_refused(&upper, "is mounted at");
}

#[test]
fn a_disk_with_a_partition_in_use_is_refused_at_every_door() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let mut bench = Bench::new();
    let file = bench.image("disk", 48);
    partition(&file);
    let device = bench.attach(&file);
    let part = format!("{device}p1");
    if !Path::new(&part).exists() {
        // the kernel reads no partition tables of loop devices: crate stack tries that with a made-up /sys
        let stack = format!("ext4@{device}");
        return bench.refused(&["run", "work.f", "--on", &stack], &device, "dos");
    }
    must("mkfs.ext4", &["-q", &part]);
    bench.mount(&part);
    bench.all_refused(&device, &format!("{part} is mounted at"));
    bench.all_refused(&part, "is mounted at");
}

/// Files that somebody may have, and what is shown of each.
fn precious_files(bench: &Bench) -> Vec<(String, &'static str)> {
    let mut files = Vec::new();
    for (program, arguments, shown) in [
        ("mkfs.ext4", &["-q"][..], "ext4"),
        ("mkfs.xfs", &["-q"], "xfs"),
        ("mkfs.btrfs", &["-q"], "btrfs"),
        ("mkfs.vfat", &[], "vfat"),
        ("mkswap", &[], "swap"),
    ] {
        if has(program) {
            let file = bench.image(program, 320);
            must(program, &[arguments, &[&file]].concat());
            files.push((file, shown));
        }
    }
    let file = bench.image("betrfs", 64);
    let (code, text) = bench.run(&["mkfs", "betrfs", &file]);
    assert_eq!(code, 0, "a blank file needs no consent: {text}");
    files.push((file, "betrfs"));
    let file = bench.image("table", 48);
    partition(&file);
    files.push((file, "dos"));
    let mut luks = vec![0; 1 << 20];
    luks[..8].copy_from_slice(b"LUKS\xba\xbe\x00\x01");
    luks[168..204].copy_from_slice(b"01234567-89ab-cdef-0123-456789abcdef");
    for (name, text, shown) in [
        ("luks", &luks[..], "crypto_LUKS"),
        ("letter", b"Dear Sir,", "not blank"),
        ("database", b"SQLite format 3\0 and more", "not blank"),
        ("archive.zip", b"PK\x03\x04 and more", "not blank"),
    ] {
        std::fs::write(bench.path(name), text).unwrap();
        files.push((bench.file(name), shown));
    }
    files
}

#[test]
fn a_file_of_somebody_else_is_refused_at_every_door() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let bench = Bench::new();
    for (file, shown) in precious_files(&bench) {
        let stack = format!("ext4@ideal(backing={file}):384M");
        let other = bench.file("work.f");
        bench.refused(&["run", "work.f", "--on", &stack], &file, shown);
        bench.refused(&["run", "work.f", "--on", &stack, "--erase", &other], &file, shown);
        bench.refused(&["crash", "--on", &stack, "--states", "1", "-q"], &file, shown);
        bench.refused(&["explain", "fsync", "--on", &stack, "--count", "1"], &file, shown);
        bench.refused(&["mkfs", "betrfs", &file], &file, shown);
        bench.refused(&["mkfs", "betrfs", "--size", "512M", &file], &file, shown);
        let attach = ["ssd", "attach", "--profile", "ideal", "--name", "a"];
        let backing = ["--size", "384M", "--backing", &file];
        bench.refused(&[&attach[..], &backing].concat(), &file, "bytes");
        let record = ["--size", "64M", "--record", &file];
        bench.refused(&[&attach[..], &record].concat(), &file, "exists");
        let words = format!("ext4,\"mkfs:-J device={file}\"@image:64M");
        bench.refused(
            &["run", "work.f", "--on", &words, "--for", "100ms", "-n", "1"],
            &file,
            "must not name",
        );
    }
}

#[test]
fn what_erase_names_is_shown_and_overwritten() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let mut bench = Bench::new();
    let file = bench.image("disk", 32);
    must("mkfs.ext4", &["-q", "-L", "precious", &file]);
    let before = sum(&file);
    let stack = format!("ext4@ideal(backing={file}):64M");
    let short = ["--for", "200ms", "-n", "1", "-q"];
    let (code, text) =
        bench.run(&[&["run", "work.f", "--on", &stack, "--erase", &file], &short[..]].concat());
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("ext4 labelled `precious`") && text.contains("will be overwritten"), "{text}");
    assert_ne!(sum(&file), before);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 64 << 20, "it stays: the run did not make it");

    // a file that the run makes goes with it
    let fresh = bench.file("fresh");
    let stack = format!("ext4@ideal(backing={fresh}):64M");
    let (code, text) = bench.run(&[&["run", "work.f", "--on", &stack], &short[..]].concat());
    assert!(code == 0 && !Path::new(&fresh).exists(), "{code} {text}");

    // the device itself, by another name than that of --erase
    let disk = bench.image("raw", 32);
    must("mkfs.ext4", &["-q", "-L", "precious", &disk]);
    let device = bench.attach(&disk);
    let link = bench.path("byid");
    std::os::unix::fs::symlink(&device, &link).unwrap();
    let before = sum(&device);
    let raw = bench.raw(link.to_str().unwrap());
    bench.refused(&["run", &raw, "--on", "dir:target"], &device, "precious");
    let run = ["run", &raw, "--on", "dir:target", "--erase", &device];
    let (code, text) = bench.run(&[&run, &short[..]].concat());
    assert!(code == 0 && text.contains("ext4 labelled `precious`"), "{code} {text}");
    assert_ne!(sum(&device), before);

    let (code, text) = bench.run(&["mkfs", "betrfs", &device, "--erase"]);
    assert_eq!(code, 0, "{text}");
    bench.refused(&["mkfs", "betrfs", &device], &device, "betrfs");
}

#[test]
fn a_device_that_is_only_read_needs_no_consent_and_keeps_what_it_has() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let mut bench = Bench::new();
    let file = bench.image("disk", 32);
    must("mkfs.ext4", &["-q", &file]);
    let device = bench.attach(&file);
    bench.mount(&device);
    let raw = bench.raw(&device);
    let text = std::fs::read_to_string(bench.path(&raw)).unwrap();
    let before = sum(&device);
    for (script, what) in [
        (text.replace("flowop write", "flowop read"), "a workload that writes nothing"),
        (
            text.replace("size=1m,prealloc\n", "size=1m,readonly\n").replace("flowop write", "flowop read"),
            "readonly",
        ),
    ] {
        std::fs::write(bench.path("read.f"), script).unwrap();
        let (code, text) =
            bench.run(&["run", "read.f", "--on", "dir:target", "--for", "200ms", "-n", "1", "-q"]);
        assert!(code == 0 && text.contains("is only read"), "{what}: {code} {text}");
        assert_eq!(sum(&device), before, "{what}");
    }
    // what `readonly` says, the kernel holds
    let script = text.replace("size=1m,prealloc\n", "size=1m,readonly\n");
    std::fs::write(bench.path("lies.f"), script).unwrap();
    let (code, _) = bench.run(&["run", "lies.f", "--on", "dir:target", "--for", "200ms", "-n", "1", "-q"]);
    assert_eq!((code, sum(&device)), (1, before));
    // nor is its node created or deleted
    let script =
        text.replace("flowop write name=w", "flowop deletefile name=d").replace(",iosize=4k,random", "");
    std::fs::write(bench.path("delete.f"), script).unwrap();
    let (code, text) =
        bench.run(&["run", "delete.f", "--on", "dir:target", "--for", "200ms", "-n", "1", "-q"]);
    assert!(code == 1 && Path::new(&device).exists(), "{code} {text}");
}

#[test]
fn a_report_is_never_written_to_a_device() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let mut bench = Bench::new();
    let file = bench.image("disk", 16);
    let device = bench.attach(&file);
    bench.refused(
        &["run", "work.f", "--on", "dir:target", "--for", "100ms", "-n", "1", "-q", "--html", &device],
        &device,
        "name a file",
    );
}
