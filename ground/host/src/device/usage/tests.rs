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

fn device(name: &str) -> Subject {
    Subject { path: format!("/dev/{name}").into(), name: Some(name.into()), id: None }
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
    let parts = block::partition_names(&host, "sdx");
    assert_eq!(parts, ["sdx1"]);
    let usage = usage(&host, &device("sdx"));
    let targets: Vec<&str> = usage.mounts.iter().map(|m| m.target.as_str()).collect();
    assert_eq!(targets, ["/a", "/b"]);
    assert_eq!(usage.swaps, ["/dev/sdx1"]);
    assert_eq!(usage.holders, ["bcache0", "dm-0"]);
    assert_eq!(usage.arrays, ["md0"]);
}

#[test]
fn what_lies_below_a_loop_device_is_looked_at_too() {
    let (_dir, host) = machine(&[
        ("sys/class/block/loop7/dev", "7:7\n"),
        ("sys/class/block/loop7/loop/backing_file", "/dev/sdx\n"),
        ("sys/class/block/loop8/dev", "7:8\n"),
        ("sys/class/block/loop8/loop/backing_file", "/dev/loop7\n"),
        ("sys/class/block/loop9/dev", "7:9\n"),
        ("sys/class/block/loop9/loop/backing_file", "/images/a\n"),
        ("sys/class/block/sdx/dev", "8:16\n"),
        ("sys/class/block/sdx/sdx1/partition", "1\n"),
        ("sys/class/block/sdx1/dev", "8:17\n"),
        ("proc/self/mountinfo", "1 0 8:17 / /a rw - ext4 /dev/sdx1 rw\n"),
        ("proc/swaps", "Filename Type\n/images/a file 1 0 -1\n"),
    ]);
    // a loop device on a loop device on the disk of a mounted partition
    let top = usage(&host, &device("loop8"));
    assert_eq!((top.mounts.len(), top.holders.len()), (1, 0));
    let middle = usage(&host, &device("loop7"));
    assert_eq!((middle.mounts.len(), middle.holders), (1, vec!["loop8".to_string()]));
    assert_eq!(usage(&host, &device("sdx")).holders, ["loop7"]);
    // a file that is swap space, and the loop device that shows it
    assert_eq!(usage(&host, &device("loop9")).swaps, ["/images/a"]);
    let file = usage(&host, &Subject { path: "/images/a".into(), name: None, id: None });
    assert_eq!((file.swaps.len(), file.holders), (1, vec!["loop9".to_string()]));
    // its neighbour has nothing to do with any of it
    let other = usage(&host, &Subject { path: "/images/b".into(), name: None, id: None });
    assert!(other.mounts.is_empty() && other.swaps.is_empty() && other.holders.is_empty());
}

#[test]
fn use_of_the_whole_disk_forbids_its_partitions() {
    let (dir, host) = machine(&[
        ("sys/devices/sdx/dev", "8:16\n"),
        ("sys/devices/sdx/holders/dm-0", ""),
        ("sys/devices/sdx/sdx1/partition", "1\n"),
        ("sys/devices/sdx/sdx1/dev", "8:17\n"),
        ("sys/devices/sdx/sdx2/partition", "2\n"),
        ("sys/devices/sdx/sdx2/dev", "8:18\n"),
        ("proc/self/mountinfo", "1 0 8:18 / /a rw - ext4 /dev/sdx2 rw\n"),
    ]);
    let class = dir.path().join("sys/class/block");
    std::fs::create_dir_all(&class).unwrap();
    for (name, at) in [("sdx", "sdx"), ("sdx1", "sdx/sdx1"), ("sdx2", "sdx/sdx2")] {
        std::os::unix::fs::symlink(dir.path().join("sys/devices").join(at), class.join(name)).unwrap();
    }
    let first = usage(&host, &device("sdx1"));
    assert_eq!(first.holders, ["dm-0"]);
    assert!(first.mounts.is_empty(), "the other partition's mount is not its own");
    assert_eq!(usage(&host, &device("sdx")).mounts.len(), 1);
}
