use camino::Utf8Path;

use super::*;
use crate::device::EraseRefused;

fn report() -> DeviceReport {
    DeviceReport {
        path: "/dev/loadline-test".into(),
        is_file: false,
        size_bytes: 1 << 40,
        model: Some("ACME Disk".into()),
        read_only: false,
        signatures: Vec::new(),
        unreadable: None,
        blank: Some(true),
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
    let unknown = DeviceReport { blank: Some(false), ..report() };
    assert!(unknown.holds_data() && unknown.to_string().contains("not blank"));
}
