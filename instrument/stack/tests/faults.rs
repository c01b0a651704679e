//! Whatever step fails, everything made before it is undone and the journal is empty.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::{Fault, Faulty, TempDir, fake_host, loop_on, mounts_below, names, temp_dir};
use host::Host;
use journal::Journal;
use needs::needs;
use stack::{Builder, StackError};

/// Builds `stack` with a program that misbehaves and returns the error, after checking that nothing is left.
fn failure(stack: &str, program: &'static str, fault: Fault) -> StackError {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("journal"), "r").unwrap();
    let runner = Arc::new(Faulty::new(program, fault));
    let builder = Builder { runner: runner.clone(), ..Builder::new(dir.path.join("work")) };
    let error = builder.build(&stack.parse().unwrap(), &journal).expect_err("must fail");
    assert_eq!(runner.calls.load(Ordering::Relaxed), 1, "the fault was not met");
    assert_nothing_left(&dir, &journal);
    error
}

fn assert_nothing_left(dir: &TempDir, journal: &Journal) {
    assert!(journal.is_empty(), "{:?}", journal.entries());
    assert_eq!(loop_on(&dir.path), None);
    assert_eq!(mounts_below(&dir.path), 0);
    assert_eq!(names(&dir.path.join("work")), Vec::<String>::new());
}

#[test]
fn mkfs_fails() {
    needs!(Mounts, Loop, Ext4);
    let error = failure("ext4@image:64M", "mkfs.ext4", Fault::Fails);
    let text = error.to_string();
    assert!(matches!(error, StackError::Mkfs { .. }) && text.contains("injected failure"), "{text}");
    assert!(text.contains("mkfs.ext4 -q -F") && text.contains("exit code 1"), "{text}");
}

#[test]
fn mkfs_cannot_be_started() {
    needs!(Mounts, Loop, Ext4);
    assert!(matches!(failure("ext4@image:64M", "mkfs.ext4", Fault::Missing), StackError::Spawn { .. }));
}

#[test]
fn mount_fails_after_the_loop_device_is_attached() {
    needs!(Mounts, Loop, Ext4);
    assert!(matches!(failure("ext4@image:64M", "mount", Fault::Fails), StackError::Mount { .. }));
}

#[test]
fn mkfs_only_pretends_so_the_kernel_refuses_the_mount() {
    needs!(Mounts, Loop, Xfs);
    let error = failure("xfs@image:300M", "mkfs.xfs", Fault::Pretends);
    assert!(matches!(error, StackError::Mount { .. }), "{error}");
}

#[test]
fn mount_reports_success_without_mounting() {
    needs!(Mounts, Loop, Ext4);
    let error = failure("ext4@image:64M", "mount", Fault::Pretends);
    assert!(error.to_string().contains("but nothing is mounted at"), "{error}");
}

#[test]
fn mount_reports_failure_but_has_mounted() {
    needs!(Mounts, Loop, Ext4);
    assert!(matches!(failure("ext4@image:64M", "mount", Fault::DoesAndFails), StackError::Mount { .. }));
    assert!(matches!(failure("tmpfs", "mount", Fault::DoesAndFails), StackError::Mount { .. }));
}

#[test]
fn a_wrong_mount_option_is_named() {
    needs!(Mounts, Loop, Ext4);
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("journal"), "r").unwrap();
    let spec = "ext4,noatime,nosuchoption@image:64M".parse().unwrap();
    let error = Builder::new(dir.path.join("work")).build(&spec, &journal).unwrap_err().to_string();
    assert!(error.contains("the kernel says: option `nosuchoption`"), "{error}");
    assert_nothing_left(&dir, &journal);
}

#[test]
fn a_wrong_mkfs_word_shows_what_mkfs_said() {
    needs!(Mounts, Loop, Ext4);
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("journal"), "r").unwrap();
    let spec = "ext4,\"mkfs:-O nosuchfeature\"@image:64M".parse().unwrap();
    let error = Builder::new(dir.path.join("work")).build(&spec, &journal).unwrap_err().to_string();
    assert!(error.contains("nosuchfeature") && error.contains("Invalid filesystem option"), "{error}");
    assert_nothing_left(&dir, &journal);
}

#[test]
fn sizes_that_cannot_work_are_refused_before_anything_is_attached() {
    needs!(Mounts, Loop, Ext4, Xfs, Btrfs);
    for (stack, part) in [
        ("xfs@image:299M", "at least 300M"),
        ("btrfs@image:100M", "at least 114M"),
        ("ext4@image:900000T", "choose another work directory"),
    ] {
        let dir = temp_dir();
        let journal = Journal::open(&dir.path.join("journal"), "r").unwrap();
        let error = Builder::new(dir.path.join("work")).build(&stack.parse().unwrap(), &journal).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_nothing_left(&dir, &journal);
    }
}

#[test]
fn an_interrupted_run_builds_nothing() {
    needs!(Mounts, Loop, Ext4);
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("journal"), "r").unwrap();
    journal.undo();
    let builder = Builder::new(dir.path.join("work"));
    let error = builder.build(&"ext4@image:64M".parse().unwrap(), &journal).unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");
    assert_nothing_left(&dir, &journal);
}

/// Runs without root: the machine is made up, and mount only pretends.
#[test]
fn an_unprivileged_rollback_removes_the_directories() {
    let dir = temp_dir();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let pid_stat = format!("proc/{}/stat", std::process::id());
    let host: Host = fake_host(
        &dir.path.join("machine"),
        &[
            (&pid_stat, &stat),
            ("proc/self/status", "CapEff:\t000001ffffffffff\n"),
            ("proc/self/mountinfo", ""),
            ("proc/filesystems", "nodev\ttmpfs\n"),
            ("bin/mount", ""),
        ],
    );
    for fault in [Fault::Pretends, Fault::Fails, Fault::Missing] {
        let journal = Journal::open_on(&host, &dir.path.join("journal"), "r").unwrap();
        let runner = Arc::new(Faulty::new("mount", fault));
        let builder = Builder { runner, host: host.clone(), ..Builder::new(dir.path.join("work")) };
        builder.build(&"tmpfs,size=1M".parse().unwrap(), &journal).expect_err("must fail");
        assert_nothing_left(&dir, &journal);
    }
}
