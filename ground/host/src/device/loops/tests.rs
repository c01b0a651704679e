use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use super::*;

/// A machine with these files of block devices; a partition's directory lies in its disk's.
fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let dir = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(dir.path()).unwrap().to_owned();
    let (devices, class) = (root.join("sys/devices"), root.join("sys/class/block"));
    std::fs::create_dir_all(&class).unwrap();
    let mut links = BTreeMap::new();
    for (path, text) in files {
        let name = path.split('/').next().unwrap();
        let disk = name.strip_suffix("p1").or(name.strip_suffix("p2")).unwrap_or(name);
        let own = if disk == name { devices.join(disk) } else { devices.join(disk).join(name) };
        let file = own.join(&path[name.len() + 1..]);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        links.insert(name, own);
    }
    links.into_iter().for_each(|(name, own)| symlink(own, class.join(name)).unwrap());
    (dir, Host::rooted(root))
}

#[test]
fn what_has_the_same_bytes_is_found_from_either_side_and_nothing_else() {
    let (_dir, host) = machine(&[
        // all of a file, in two partitions
        ("loop0/loop/backing_file", "/images/a\n"),
        ("loop0/size", "4096\n"),
        ("loop0p1/partition", "1\n"),
        ("loop0p1/start", "64\n"),
        ("loop0p1/size", "1000\n"),
        ("loop0p2/partition", "2\n"),
        ("loop0p2/start", "2048\n"),
        ("loop0p2/size", "2048\n"),
        // the second half of the file
        ("loop1/loop/backing_file", "/images/a\n"),
        ("loop1/loop/offset", "1048576\n"),
        ("loop1/size", "2048\n"),
        // one on the first partition
        ("loop2/loop/backing_file", "/dev/loop0p1\n"),
        ("loop2/size", "1000\n"),
        ("loop3/loop/backing_file", "/images/b\n"),
        ("loop3/size", "4096\n"),
    ]);
    let loops = Loops::read(&host, Vec::new());
    let subject = |name: &str| match name.strip_prefix("/images") {
        Some(_) => Subject { path: name.into(), name: None, id: None },
        None => Subject::device(name.into()),
    };
    let sharing = |name: &str| {
        let subject = subject(name);
        let mut others: Vec<String> =
            loops.sharing(&host, &subject).into_iter().map(|other| other.path.into_string()).collect();
        others.sort();
        others
    };
    assert_eq!(sharing("/images/a"), ["/dev/loop0p1", "/dev/loop0p2", "/dev/loop1", "/dev/loop2"]);
    assert_eq!(sharing("loop0"), ["/dev/loop1", "/dev/loop2", "/images/a"]);
    assert_eq!(sharing("loop0p1"), ["/dev/loop2", "/images/a"]);
    assert_eq!(sharing("loop0p2"), ["/dev/loop1", "/images/a"]);
    assert_eq!(sharing("loop1"), ["/dev/loop0p2", "/images/a"]);
    assert_eq!(sharing("loop2"), ["/dev/loop0p1", "/images/a"]);
    assert_eq!(sharing("/images/b"), ["/dev/loop3"]);
    assert_eq!(sharing("loop3"), ["/images/b"]);
    let held = |name: &str| {
        let (subject, loops) = (subject(name), &loops);
        let held = loops.to_hold(&host, &subject, &loops.sharing(&host, &subject));
        held.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(held("/images/a"), ["loop0", "loop1", "loop2"], "a disk with all of its partitions");
    assert_eq!(held("loop0"), ["loop1", "loop2"]);
    assert_eq!((held("loop0p1"), held("loop0p2")), (vec!["loop2".into()], vec!["loop1".into()]));
    assert_eq!((held("loop1"), held("loop2")), (vec!["loop0p2".into()], vec!["loop0p1".into()]));
}
