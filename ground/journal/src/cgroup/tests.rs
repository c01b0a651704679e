use host::cgroup::kill_and_remove;

use super::*;
use crate::Journal;

fn utf8(dir: &tempfile::TempDir) -> Utf8PathBuf {
    Utf8PathBuf::from_path_buf(dir.path().canonicalize().unwrap()).unwrap()
}

/// A machine whose mountinfo shows one hierarchy at /cg; everything else of /proc that a journal needs is
/// copied.
fn machine(root: &Utf8Path, mount_line: &str) -> Host {
    let pid = std::process::id();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    for (path, text) in [
        (format!("proc/{pid}/stat"), stat.as_str()),
        ("proc/self/mountinfo".into(), mount_line),
        ("cg/cgroup.controllers".into(), "cpu memory pids\n"),
        ("cg/cgroup.subtree_control".into(), "cpu\n"),
    ] {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    Host::rooted(root)
}

const V1: &str = "31 23 0:28 / /cg rw - cgroup cgroup rw,memory\n";
const V2: &str = "31 23 0:28 / /cg rw - cgroup2 cgroup2 rw,nsdelegate\n";

#[test]
fn both_versions_are_detected_and_absence_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let detect = |line: &str| Hierarchy::detect(&machine(&utf8(&dir), line));
    assert_eq!(detect(V1).unwrap(), Hierarchy::V1("/cg".into()));
    assert_eq!(detect(V2).unwrap(), Hierarchy::V2("/cg".into()));
    let line = "31 23 0:28 / /cg rw - cgroup cgroup rw,memory_recursiveprot\n";
    assert!(detect(line).unwrap_err().remedy.contains("cgroup2"));
    std::fs::write(utf8(&dir).join("cg/cgroup.controllers"), "cpu\n").unwrap();
    let host = Host::rooted(utf8(&dir));
    std::fs::write(host.path("/proc/self/mountinfo"), V2).unwrap();
    assert!(Hierarchy::detect(&host).unwrap_err().reason.contains("no control group hierarchy"));
}

#[test]
fn a_command_is_in_its_group_before_it_is_itself() {
    let dir = tempfile::tempdir().unwrap();
    let host = machine(&utf8(&dir), V2);
    let journal = Journal::open_on(&host, &utf8(&dir).join("journal"), "r").unwrap();
    let group = Cgroup::create("w", None, &journal).unwrap();
    let mut command = Command::new("cat");
    assert!(group.start_in(&mut command).unwrap_err().to_string().contains("/cg/loadline-w/cgroup.procs"));
    host.write("/cg/loadline-w/cgroup.procs", "").unwrap();
    let procs = host.path("/cg/loadline-w/cgroup.procs");
    group.start_in(command.arg(procs)).unwrap();
    // 0 is the process that writes it, before cat reads it
    assert_eq!(command.output().unwrap().stdout, b"0");
}

#[test]
fn a_v2_group_gets_its_limit_and_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let host = machine(&utf8(&dir), V2);
    let journal = Journal::open_on(&host, &utf8(&dir).join("journal"), "r").unwrap();
    let group = Cgroup::create("w", MemoryLimit::bytes(64 << 20), &journal).unwrap();
    assert_eq!(group.path(), "/cg/loadline-w");
    assert_eq!(host.read("/cg/cgroup.subtree_control").unwrap(), "+memory");
    assert_eq!(host.read("/cg/loadline-w/memory.max").unwrap(), "67108864");
    assert!(
        !host.exists("/cg/loadline-w/memory.swap.max"),
        "a kernel without swap accounting has no such file"
    );
    host.write("/cg/loadline-w/memory.current", "4096\n").unwrap();
    host.write("/cg/loadline-w/memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\n").unwrap();
    let stats = CgroupStats { current_bytes: 4096, peak_bytes: None, limit_hits: Some(7), oom_kills: 1 };
    assert_eq!(group.stats().unwrap(), stats);
    host.write("/cg/loadline-w/memory.peak", "8192\n").unwrap();
    assert_eq!(group.stats().unwrap().peak_bytes, Some(8192));
    host.write("/cg/loadline-w/memory.current", "max\n").unwrap();
    assert!(matches!(group.stats(), Err(CgroupError::Unreadable { .. })));
    host.write("/cg/loadline-w/cgroup.procs", "77\n").unwrap();
    assert!(matches!(group.destroy(), Err(CgroupError::Busy { pids, .. }) if pids == [77]));
}

#[test]
fn a_group_of_the_same_name_is_somebody_elses() {
    let dir = tempfile::tempdir().unwrap();
    let host = machine(&utf8(&dir), V2);
    std::fs::create_dir(host.path("/cg/loadline-w")).unwrap();
    let journal = Journal::open_on(&host, &utf8(&dir).join("journal"), "r").unwrap();
    let error = Cgroup::create("w", MemoryLimit::bytes(1 << 20), &journal).unwrap_err();
    assert!(error.to_string().contains("/cg/loadline-w"), "{error}");
    assert!(journal.is_empty());
    assert!(host.exists("/cg/loadline-w"));
    assert!(matches!(Cgroup::create("../w", MemoryLimit::bytes(1), &journal), Err(CgroupError::BadName(_))));
}

#[test]
fn only_our_names_in_a_control_group_file_system_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let host = machine(&utf8(&dir), V2);
    std::fs::create_dir(host.path("/cg/other")).unwrap();
    std::fs::create_dir(host.path("/cg/loadline-w")).unwrap();
    let mut bystander = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    host.write("/cg/loadline-w/cgroup.procs", &bystander.id().to_string()).unwrap();
    assert!(kill_and_remove(&host, "/cg/other".into()).unwrap_err().to_string().contains("loadline-"));
    let error = kill_and_remove(&host, "/cg/loadline-w".into()).unwrap_err();
    assert!(error.to_string().contains("control group file system"));
    assert!(!kill_and_remove(&host, "/cg/loadline-gone".into()).unwrap());
    assert!(host.exists("/cg/loadline-w") && host.exists("/cg/other"));
    assert!(bystander.try_wait().unwrap().is_none(), "a file that looks like a group's list kills nobody");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}
