//! Captures from a made-up machine, and from the real one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use analysis::diff::{Importance, diff};
use probe::root::Root;
use probe::{CaptureSubject, Counters, capture, capture_below};
use study::environment::{Device, Tool};

struct Machine(tempfile::TempDir);

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        let machine = Machine(tempfile::tempdir().expect("a temporary directory"));
        files.iter().for_each(|(path, text)| machine.write(path, text));
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.0.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        symlink(target, path).expect("a link");
    }

    fn root(&self) -> Root {
        Root::at(self.0.path())
    }
}

/// A loop device on an image in an ext4 on a partition of a virtual disk.
fn loop_machine() -> Machine {
    let machine = Machine::new(&[
        ("/proc/sys/kernel/osrelease", "6.18.1\n"),
        ("/proc/cmdline", "quiet mitigations=off root=/dev/vda1 isolcpus=1\n"),
        ("/etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian 12\"\n"),
        ("/proc/cpuinfo", "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu hypervisor\n"),
        ("/sys/devices/system/cpu/online", "0-1\n"),
        ("/proc/self/status", "Name:\tx\nCpus_allowed:\t2\nCpus_allowed_list:\t1\n"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 900 kB\nSwapTotal: 0 kB\n"),
        ("/proc/sys/vm/dirty_ratio", "20\n"),
        ("/proc/loadavg", "0.50 0.40 0.30 2/130 4711\n"),
        ("/proc/pressure/io", "some avg10=2.39 avg60=4.05 avg300=1.53 total=1\nfull avg10=0.00\n"),
        (
            "/proc/self/mountinfo",
            "27 1 254:1 / / rw - ext4 /dev/root rw\n40 27 0:50 / /t rw,noatime - btrfs /dev/loop3 rw,ssd\n",
        ),
        ("/sys/devices/virtual/block/loop3/queue/scheduler", "[none] mq-deadline\n"),
        ("/sys/devices/virtual/block/loop3/queue/fua", "0\n"),
        ("/sys/devices/virtual/block/loop3/loop/backing_file", "/images/x.img\n"),
        ("/sys/devices/virtual/block/loop3/loop/dio", "1\n"),
        ("/sys/devices/pci/block/vda/queue/write_cache", "write back\n"),
        ("/sys/devices/pci/block/vda/queue/rotational", "1\n"),
        ("/sys/devices/pci/block/vda/size", "2048\n"),
        ("/sys/devices/pci/block/vda/vda1/size", "1024\n"),
    ]);
    machine.link("/sys/class/block/loop3", "../../devices/virtual/block/loop3");
    machine.link("/sys/class/block/vda", "../../devices/pci/block/vda");
    machine.link("/sys/class/block/vda1", "../../devices/pci/block/vda/vda1");
    machine.link("/sys/dev/block/254:1", "../../devices/pci/block/vda/vda1");
    machine
}

#[test]
fn a_loop_device_is_followed_to_the_disk_below() {
    let machine = loop_machine();
    let subject = CaptureSubject {
        path: Some(Path::new("/t/bench")),
        mkfs: Some("mkfs.btrfs /dev/loop3"),
        ..CaptureSubject::default()
    };
    let environment = capture_below(&machine.root(), &subject);
    let target = environment.target.expect("a target");
    assert_eq!(target.fs_type.as_deref(), Some("btrfs"));
    assert_eq!(target.mount_options, ["noatime", "rw", "ssd"]);
    assert_eq!(target.mkfs.as_deref(), Some("mkfs.btrfs /dev/loop3"));
    let expected = [
        Device {
            name: "loop3".into(),
            scheduler: Some("none".into()),
            fua: Some(false),
            loop_direct_io: Some(true),
            backing_fs: Some("ext4".into()),
            ..Device::default()
        },
        Device {
            name: "vda".into(),
            size_bytes: Some(1 << 20),
            write_cache: Some("write back".into()),
            rotational: Some(true),
            ..Device::default()
        },
    ];
    assert_eq!(environment.devices, expected);
}

#[test]
fn the_machine_is_described() {
    let environment = capture_below(&loop_machine().root(), &CaptureSubject::default());
    assert_eq!(environment.kernel.command_line, ["mitigations=off", "isolcpus=1"]);
    assert_eq!(environment.kernel.distribution.as_deref(), Some("Debian 12"));
    assert_eq!(environment.cpu.model.as_deref(), Some("A CPU"));
    assert_eq!((environment.cpu.cores_online, environment.cpu.cores_allowed), (Some(2), Some(1)));
    assert_eq!(environment.cpu.boost, Some(false));
    assert_eq!(environment.cpu.virtualisation.as_deref(), Some("a hypervisor"));
    assert_eq!(environment.memory.transparent_huge_pages.as_deref(), Some("madvise"));
    assert_eq!(environment.memory.dirty_ratio_percent, Some(20));
    assert_eq!(environment.load.average, Some([0.5, 0.4, 0.3]));
    assert_eq!(environment.load.runnable, Some(2));
    assert_eq!(environment.load.io_pressure_percent, Some(2.39));
    assert_eq!(environment.target, None);
}

#[test]
fn an_empty_machine_gives_an_empty_environment() {
    let machine = Machine::new(&[]);
    let subject = CaptureSubject {
        path: Some(Path::new("/x")),
        device: Some(Path::new("/dev/sdz")),
        ..CaptureSubject::default()
    };
    let environment = capture_below(&machine.root(), &subject);
    assert_eq!((environment.target, environment.devices), (None, vec![]));
    assert_eq!(environment.memory.total_bytes, None);
    let counters = Counters::sample_below(&machine.root(), Some("sdz"), None);
    assert_eq!(counters, Counters::default());
}

#[test]
fn differences_are_weighed() {
    let machine = loop_machine();
    let subject = CaptureSubject { path: Some(Path::new("/t")), ..CaptureSubject::default() };
    let left = capture_below(&machine.root(), &subject);
    assert_eq!(diff(&left, &left), []);

    let mut right = left.clone();
    right.kernel.release = Some("6.19.0".into());
    right.cpu.governor = None;
    right.devices[0].name = "loop7".into();
    right.tools.push(Tool { name: "mkfs.ext4".into(), version: "1.47".into() });
    let found: Vec<_> = diff(&left, &right)
        .into_iter()
        .map(|d| (d.name, d.left.unwrap_or_default(), d.right.unwrap_or_default(), d.weight))
        .collect();
    let expect =
        |name: &str, left: &str, right: &str, weight| (name.into(), left.into(), right.into(), weight);
    assert_eq!(
        found,
        [
            expect("kernel.release", "6.18.1", "6.19.0", Importance::Fundamental),
            expect("cpu.governor", "powersave", "", Importance::Setting),
            expect("tools.mkfs.ext4", "", "1.47", Importance::Setting),
            expect("devices.0.name", "loop3", "loop7", Importance::Incidental),
        ]
    );
}

#[test]
fn a_busy_machine_is_a_fundamental_difference() {
    let left = capture_below(&loop_machine().root(), &CaptureSubject::default());
    let mut right = left.clone();
    right.load.average = Some([1.0, 0.4, 0.3]);
    assert!(diff(&left, &right).iter().all(|d| d.weight == Importance::Incidental));
    right.load.average = Some([9.0, 0.4, 0.3]);
    let found = diff(&left, &right);
    assert_eq!(
        (found.len(), found[0].name.as_str(), found[0].weight),
        (1, "load.average", Importance::Fundamental)
    );
}

#[test]
fn counters_are_read_and_subtracted() {
    let machine = Machine::new(&[
        (
            "/proc/diskstats",
            "7 3 loop3 10 0 80 1 20 0 160 1 0 500 2 3 0 0 0 4 1\n8 0 sda 1 0 8 0 1 0 8 0 0 7 0\n",
        ),
        ("/proc/stat", "cpu  100 0 100 900 50 0 0 10 0 0\ncpu0 1 1 1 1\n"),
        ("/proc/vmstat", "pgfault 1000\nnr_dirtied 50\nother 1\n"),
    ]);
    let before = Counters::sample_below(&machine.root(), Some("loop3"), Some("sda"));
    assert_eq!(before.device.as_ref().and_then(|device| device.flushes), Some(4));
    assert_eq!(before.disk.as_ref().map(|disk| (disk.reads, disk.flushes)), Some((1, None)));
    machine.write("/proc/diskstats", "7 3 loop3 11 0 88 1 25 0 320 1 0 1500 2 3 0 0 0 9 1\n");
    machine.write("/proc/stat", "cpu  200 0 200 900 50 0 0 10 0 0\n");
    machine.write("/proc/vmstat", "pgfault 1500\nnr_dirtied 40\n");
    let after = Counters::sample_below(&machine.root(), Some("loop3"), Some("sda"));
    let deltas: Vec<(String, f64)> =
        before.growth_until(&after).into_iter().map(|d| (d.name, d.value)).collect();
    let value = |name: &str| deltas.iter().find(|(other, _)| other == name).map(|(_, value)| *value);
    assert_eq!(value("device_flushes"), Some(5.0));
    assert_eq!(value("device_written_bytes"), Some(160.0 * 512.0));
    assert_eq!(value("device_busy_seconds"), Some(1.0));
    assert_eq!(value("device_discards"), Some(0.0));
    assert_eq!(value("disk_reads"), None, "the disk is gone in the second sample");
    assert_eq!(value("page_faults"), Some(500.0));
    assert_eq!(value("pages_dirtied"), Some(0.0), "a counter that shrank has not grown");
    assert_eq!(value("stolen_cpu_seconds"), Some(0.0));
    assert!(value("machine_cpu_seconds").is_some_and(|seconds| seconds > 0.0));
}

#[test]
fn this_machine_can_be_captured() {
    let here = std::env::temp_dir();
    let environment = capture(&CaptureSubject { path: Some(&here), ..CaptureSubject::default() });
    assert!(environment.kernel.release.is_some());
    assert!(environment.memory.total_bytes.is_some_and(|bytes| bytes > 1 << 20));
    assert!(environment.target.is_some_and(|target| target.fs_type.is_some() && target.size_bytes.is_some()));
    let before = Counters::sample(None, None);
    let deltas = before.growth_until(&Counters::sample(None, None));
    assert!(deltas.iter().any(|delta| delta.name == "cpu_user_seconds"));
}
