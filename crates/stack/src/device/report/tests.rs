use super::*;

fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let dir = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(dir.path()).unwrap().to_owned();
    for (path, text) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    (dir, Host::rooted(root))
}

#[test]
fn every_kind_of_use_of_the_disk_or_a_partition_is_found() {
    let (_dir, host) = machine(&[
        ("sys/class/block/sdx/dev", "8:16\n"),
        ("sys/class/block/sdx/sdx1/partition", "1\n"),
        ("sys/class/block/sdx/queue/x", ""),
        ("sys/class/block/sdx1/dev", "8:17\n"),
        ("sys/class/block/sdx1/holders/dm-0", ""),
        ("sys/class/block/sdx/holders/bcache0", ""),
        (
            "proc/self/mountinfo",
            "1 0 8:17 / /a rw - ext4 /dev/root rw\n2 0 0:44 / /b rw - btrfs /dev/sdx1 rw\n\
             3 0 8:1 / /c rw - ext4 /dev/sda1 rw\n4 0 0:9 / /d rw - tmpfs sdx rw\n",
        ),
        (
            "proc/swaps",
            "Filename Type Size Used Priority\n/dev/sdx1 partition 1 0 -1\n/dev/sda2 partition 1 0 -2\n",
        ),
        (
            "proc/mdstat",
            "Personalities : [raid1]\nmd0 : active raid1 sdx1[1] sda3[0]\n\nmd1 : active raid1 sda4[0]\n",
        ),
    ]);
    let parts = partition_names(&host, "sdx");
    assert_eq!(parts, ["sdx1"]);
    let usage = usage(&host, &["sdx".to_string(), "sdx1".to_string()]);
    let targets: Vec<&str> = usage.mounts.iter().map(|m| m.target.as_str()).collect();
    assert_eq!(targets, ["/a", "/b"]);
    assert_eq!(usage.swaps, ["/dev/sdx1"]);
    assert_eq!(usage.holders, ["bcache0", "dm-0"]);
    assert_eq!(usage.arrays, ["md0"]);
}

fn report() -> DeviceReport {
    DeviceReport {
        path: "/dev/loadline-test".into(),
        size_bytes: 1 << 40,
        model: Some("ACME Disk".into()),
        read_only: false,
        signatures: Vec::new(),
        unreadable: None,
        starts_blank: Some(true),
        partitions: Vec::new(),
        mounts: Vec::new(),
        swaps: Vec::new(),
        holders: Vec::new(),
        arrays: Vec::new(),
        exclusive_open_error: None,
    }
}

#[test]
fn each_use_alone_forbids_erasing_whatever_the_user_says() {
    let device = Utf8Path::new("/dev/loadline-test");
    assert!(report().check_erase(Some(device)).is_ok());
    let mount = MountedPart { source: "/dev/x1".into(), target: "/home".into() };
    let cases: [(DeviceReport, &str); 7] = [
        (DeviceReport { mounts: vec![mount], ..report() }, "/dev/x1 is mounted at /home"),
        (DeviceReport { swaps: vec!["/dev/x2".into()], ..report() }, "swapoff /dev/x2"),
        (DeviceReport { holders: vec!["dm-0".into()], ..report() }, "device dm-0 is built on it"),
        (DeviceReport { arrays: vec!["md0".into()], ..report() }, "array md0"),
        (DeviceReport { read_only: true, ..report() }, "read-only"),
        (DeviceReport { unreadable: Some("no blkid".into()), ..report() }, "cannot be told: no blkid"),
        (DeviceReport { exclusive_open_error: Some("busy".into()), ..report() }, "opened exclusively"),
    ];
    for (report, part) in cases {
        let error = report.check_erase(Some(device)).unwrap_err();
        assert!(matches!(&error, EraseRefused::InUse { blockers, .. } if blockers.len() == 1), "{error}");
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[test]
fn erase_must_name_the_same_device() {
    assert!(matches!(report().check_erase(None), Err(EraseRefused::NotAsked { .. })));
    let other = report().check_erase(Some("/dev/loadline-test2".into()));
    assert!(matches!(other, Err(EraseRefused::OtherDevice { .. })));
}

#[test]
fn the_report_shows_everything_that_would_be_lost() {
    let signature = |kind: &str| Signature { kind: kind.into(), label: None, uuid: None };
    let part = Partition { path: "/dev/x1".into(), size_bytes: 1 << 30, signatures: vec![signature("xfs")] };
    let full = DeviceReport { signatures: vec![signature("gpt")], partitions: vec![part], ..report() };
    let text =
        "/dev/loadline-test (1.0 TiB, ACME Disk)\n  holds        gpt\n  partition    /dev/x1 (1.0 GiB): xfs";
    assert_eq!(full.to_string(), text);
    assert!(full.holds_data() && !report().holds_data());
    let unknown = DeviceReport { starts_blank: Some(false), ..report() };
    assert!(unknown.holds_data() && unknown.to_string().contains("not blank"));
}
