//! What a machine cannot do is said beforehand, with the reason and the remedy.

mod common;

use camino::Utf8Path;
use common::{fake_host, temp_dir};
use host::Host;
use spec::StackSpec;
use stack::{Availability, probe_availability_on};

const ROOT: &str = "Name:\tx\nCapEff:\t000001fffeffffff\n";
const USER: &str = "Name:\tx\nCapEff:\t0000000000000000\n";
const FS: &str = "nodev\ttmpfs\n\text4\n\txfs\n\tbtrfs\n";

/// A machine with ext4, xfs and btrfs, the tools of ext4 and xfs, a root user and loop devices.
fn machine(root: &Utf8Path) -> Host {
    fake_host(
        root,
        &[
            ("proc/self/status", ROOT),
            ("proc/self/uid_map", "         0          0 4294967295\n"),
            ("proc/filesystems", FS),
            ("proc/sys/kernel/osrelease", "6.1.0-x\n"),
            ("lib/modules/6.1.0-x/modules.dep", "kernel/fs/f2fs/f2fs.ko.xz: kernel/lib/lz4.ko.xz\n"),
            ("dev/loop-control", ""),
            ("dev/file", ""),
            ("bin/mount", ""),
            ("bin/mkfs.ext4", ""),
            ("bin/mkfs.xfs", ""),
        ],
    )
}

fn why_not(host: &Host, stack: &str) -> (String, String) {
    let spec: StackSpec = stack.parse().unwrap();
    match probe_availability_on(host, &spec) {
        Availability::Available => panic!("{stack} is available"),
        Availability::Unavailable(why) => (why.reason, why.remedy),
    }
}

#[test]
fn what_is_there_is_available() {
    let dir = temp_dir();
    let host = machine(&dir.path);
    for stack in ["ext4", "xfs@image:1G", "tmpfs,size=1G", "ext4@image:flush", "ext4,noatime"] {
        let found = probe_availability_on(&host, &stack.parse().unwrap());
        assert!(found.is_available(), "{stack}: {found}");
    }
}

#[test]
fn each_lack_has_its_reason_and_remedy() {
    let dir = temp_dir();
    let host = machine(&dir.path);
    for (stack, reason, remedy) in [
        ("btrfs", "`mkfs.btrfs` is not found", "apt install btrfs-progs"),
        ("f2fs", "`mkfs.f2fs` is not found", "apt install f2fs-tools"),
        ("nilfs2", "this kernel has no nilfs2", "CONFIG_NILFS2_FS"),
        ("bcachefs", "this kernel has no bcachefs", "CONFIG_BCACHEFS_FS"),
        ("zfs", "does not make zfs pools", "dir:/pool/dataset"),
        ("betrfs", "needs /dev/fuse", "modprobe fuse"),
        ("ext4@980pro", "needs /dev/fuse", "modprobe fuse"),
        ("ext4@image:streams", "regime `streams`", "an emulated SSD"),
        ("ext4@/dev/file", "not a block device", "lsblk"),
        ("ext4@/dev/none", "/dev/none", "lsblk"),
        ("dir:/loadline-no-such-directory", "not an existing directory", "mkdir -p"),
    ] {
        let (found_reason, found_remedy) = why_not(&host, stack);
        assert!(found_reason.contains(reason), "{stack}: {found_reason}");
        assert!(found_remedy.contains(remedy), "{stack}: {found_remedy}");
    }
}

#[test]
fn without_root_only_directories_remain() {
    let dir = temp_dir();
    let host = machine(&dir.path);
    std::fs::write(host.path("/proc/self/status"), USER).unwrap();
    for stack in ["ext4", "tmpfs", "xfs@/dev/file"] {
        let (reason, remedy) = why_not(&host, stack);
        assert!(
            reason.contains("CAP_SYS_ADMIN") && remedy.contains("dir:PATH"),
            "{stack}: {reason}; {remedy}"
        );
    }
    let spec = format!("dir:{}", dir.path).parse().unwrap();
    assert!(probe_availability_on(&host, &spec).is_available());
    let (reason, remedy) = why_not(&host, "betrfs,inprocess");
    assert!(reason.contains("block device needs root") && !reason.contains("mounting"), "{reason}");
    assert!(remedy.contains("sudo"), "{remedy}");
}

#[test]
fn a_file_system_within_the_process_needs_no_fuse() {
    let dir = temp_dir();
    let host = machine(&dir.path);
    let _ = std::fs::remove_file(host.path("/dev/fuse"));
    assert!(why_not(&host, "betrfs").1.contains("--device /dev/fuse"));
    assert!(probe_availability_on(&host, &"betrfs,inprocess".parse().unwrap()).is_available());
}

#[test]
fn containers_without_loop_devices_or_real_root_are_told_apart() {
    let dir = temp_dir();
    let host = machine(&dir.path);
    std::fs::write(host.path("/proc/self/uid_map"), "0 1000 1\n").unwrap();
    assert!(why_not(&host, "ext4").0.contains("user namespace"));
    assert!(probe_availability_on(&host, &"tmpfs".parse().unwrap()).is_available());
    std::fs::write(host.path("/proc/self/uid_map"), "0 0 4294967295\n").unwrap();
    std::fs::remove_file(host.path("/dev/loop-control")).unwrap();
    assert!(why_not(&host, "ext4").1.contains("modprobe loop"));
}

#[test]
fn clients_of_network_file_systems_are_told() {
    let dir = temp_dir();
    let host = machine(&dir.path);
    let found = stack::network::clients(&host);
    let nfs = &found.iter().find(|(name, _)| *name == "nfs").unwrap().1;
    let Availability::Unavailable(why) = nfs else { panic!("nfs is here") };
    assert!(why.reason.contains("no client of nfs") && why.remedy.contains("dir:PATH"), "{why}");
    std::fs::write(dir.path.join("proc/filesystems"), format!("{FS}nodev\tnfs\nnodev\t9p\n")).unwrap();
    let found = stack::network::clients(&host);
    let of = |name: &str| found.iter().find(|(known, _)| *known == name).unwrap().1.clone();
    assert!(of("9p").is_available());
    let Availability::Unavailable(why) = of("nfs") else { panic!("nfs has no program") };
    assert!(why.remedy.contains("nfs-common"), "{why}");
    let error = "nfs(ext4@980pro)".parse::<spec::StackSpec>().unwrap_err().to_string();
    assert!(error.contains("measured as `dir:PATH`"), "{error}");
}
