//! Real file systems on sparse images.

mod common;

use std::io::{Read, Write};
use std::sync::Arc;

use camino::Utf8Path;
use common::{loop_on, mounts_below, names, temp_dir};
use host::{CommandLine, CommandOutput, Host, Runner, SystemRunner};
use journal::{Cgroup, Journal, MemoryLimit, Outcome, Resource};
use needs::needs;
use spec::StackSpec;
use stack::{Builder, Coldness, DeviceInfo, StackError};

fn build_use_and_take_down(stack: &str, expected_fs: &str) {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("journal"), "real").unwrap();
    let spec: StackSpec = stack.parse().unwrap();
    let built = Builder::new(dir.path.join("work")).build(&spec, &journal).unwrap_or_else(|e| panic!("{e}"));

    let mounts = Host::system().mounts().unwrap();
    let mount = mounts.iter().find(|mount| mount.target == built.path()).expect("is mounted");
    assert_eq!(mount.fs_type, expected_fs);
    assert!(built.free_bytes().unwrap() > 0);

    let file = built.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    let cold = built.remount_cold().unwrap();
    let expected = if expected_fs == "tmpfs" { Coldness::InMemory } else { Coldness::Remounted };
    assert_eq!(cold, expected);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    assert_eq!(journal.entries().iter().filter(|(_, r)| matches!(r, Resource::Mount { .. })).count(), 1);

    let record = built.record().clone();
    assert!(record.commands.iter().any(|command| command.line.starts_with("mount -t")));
    assert!(record.tool_versions.contains_key("mount"), "{:?}", record.tool_versions);
    if let DeviceInfo::Block(info) = built.device() {
        assert!(record.commands[0].line.starts_with("mkfs."), "{:?}", record.commands);
        assert!(record.tool_versions.len() == 2, "{:?}", record.tool_versions);
        assert_eq!(Some(info.size_bytes), record.image_bytes);
        assert!(info.logical_sector_bytes.is_some() && info.write_cache.is_some());
        assert_eq!(loop_on(&dir.path).as_deref(), info.path.file_name());
    }
    let report = built.teardown().unwrap_or_else(|error| panic!("{error}"));
    assert!(report.steps.iter().all(|step| step.outcome == Outcome::Undone), "{report}");
    assert!(journal.is_empty());
    assert_eq!((loop_on(&dir.path), mounts_below(&dir.path)), (None, 0));
    assert!(names(&dir.path.join("work")).is_empty());
}

#[test]
fn ext4() {
    needs!(Mounts, Loop, Ext4);
    build_use_and_take_down("ext4,data=journal,noatime@image:512M", "ext4");
}

#[test]
fn ext3_and_ext2() {
    needs!(Mounts, Loop, Ext4);
    build_use_and_take_down("ext3@image:64M", "ext3");
    build_use_and_take_down("ext2@image:64M", "ext2");
}

#[test]
fn xfs() {
    needs!(Mounts, Loop, Xfs);
    build_use_and_take_down("xfs@image:512M", "xfs");
}

#[test]
fn btrfs() {
    needs!(Mounts, Loop, Btrfs);
    build_use_and_take_down("btrfs,compress=zstd:3@image:512M", "btrfs");
}

#[test]
fn tmpfs() {
    needs!(Mounts);
    build_use_and_take_down("tmpfs,size=16M", "tmpfs");
}

#[test]
fn a_stack_behind_sshfs() {
    needs!(Mounts, Loop, Ext4, Fuse, Sshfs);
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("journal"), "real").unwrap();
    let plain = dir.path.join("plain");
    std::fs::create_dir(&plain).unwrap();
    for behind in ["ext4@image:64M".to_string(), format!("dir:{plain}")] {
        let spec: StackSpec = format!("sshfs,cache=no({behind})").parse().unwrap();
        let built =
            Builder::new(dir.path.join("work")).build(&spec, &journal).unwrap_or_else(|e| panic!("{e}"));
        let mounts = Host::system().mounts().unwrap();
        let mount = mounts.iter().find(|mount| mount.target == built.path()).expect("is mounted");
        assert_eq!(mount.fs_type, "fuse.sshfs");
        let lines: Vec<&str> = built.record().commands.iter().map(|command| command.line.as_str()).collect();
        assert!(
            lines.iter().any(|line| line.starts_with("sshfs ") && line.contains("cache=no")),
            "{lines:?}"
        );
        // what goes through the client is where it is served
        let file = built.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        let served =
            built.path().parent().unwrap().join(if behind.starts_with("dir") { "data" } else { "mnt" });
        assert_eq!(std::fs::read_to_string(served.join("file")).unwrap(), "kept");
        assert!(built.free_bytes().unwrap() > 0 && built.problem().is_none());
        let expected = if behind.starts_with("dir") { Coldness::CachesDropped } else { Coldness::Remounted };
        assert_eq!(built.remount_cold().unwrap(), expected);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
        let processes = |journal: &Journal| {
            journal.entries().iter().filter(|(_, r)| matches!(r, Resource::Process { .. })).count()
        };
        assert_eq!(processes(&journal), 2, "the server and the client");
        built.teardown().unwrap_or_else(|error| panic!("{error}"));
        assert!(journal.is_empty(), "{:?}", journal.entries());
        assert_eq!((loop_on(&dir.path), mounts_below(&dir.path)), (None, 0));
    }
    // a word that sshfs does not know is told with what it says
    let spec: StackSpec = format!("sshfs,no_such_word(dir:{plain})").parse().unwrap();
    let error = Builder::new(dir.path.join("work")).build(&spec, &journal).err().unwrap().to_string();
    assert!(error.contains("no_such_word") && error.contains("unknown option"), "{error}");
    assert!(journal.is_empty(), "{:?}", journal.entries());
}

/// SFTP has no code for a full disk, so that the error alone would send the reader looking for a broken device.
#[test]
fn a_full_disk_behind_sshfs_is_told() {
    needs!(Mounts, Loop, Ext4, Fuse, Sshfs);
    for (stack, files, expected) in [
        ("sshfs(ext4@image:64M)", 1, "only "),
        ("sshfs(ext4,\"mkfs:-N 64\"@image:64M)", 200, "can hold no more files"),
    ] {
        let dir = temp_dir();
        let journal = Journal::open(&dir.path.join("journal"), "real").unwrap();
        let built = Builder::new(dir.path.join("work")).build(&stack.parse().unwrap(), &journal).unwrap();
        assert_eq!(built.problem(), None, "{stack}");
        let bytes = if files == 1 { 128 << 20 } else { 1 };
        let failed = (0..files).find_map(|number| {
            let mut file = std::fs::File::create(built.path().join(number.to_string())).ok()?;
            let block = vec![0xa5; 1 << 20];
            let mut left = bytes;
            while left > 0 {
                let now = block.len().min(left);
                if let Err(error) = file.write_all(&block[..now]) {
                    return Some(error);
                }
                left -= now;
            }
            file.sync_all().err()
        });
        if files == 1 {
            let error = failed.expect("128 MiB do not fit into 64");
            assert_ne!(error.raw_os_error(), Some(libc::ENOSPC), "then nothing needs to be explained");
        }
        let trouble = built.problem().unwrap_or_else(|| panic!("{stack}: nothing is told"));
        assert!(trouble.contains(expected) && trouble.contains("a larger device"), "{trouble}");
        built.teardown().unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn options_reach_mkfs_mount_and_the_loop_device() {
    needs!(Mounts, Loop, Ext4);
    let stack = "ext4,noatime,\"mkfs:-O ^has_journal -E stride=4\"@image(64M,buffered,sector=4096)";
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("journal"), "real").unwrap();
    let built = Builder::new(dir.path.join("work")).build(&stack.parse().unwrap(), &journal).unwrap();
    let DeviceInfo::Block(info) = built.device().clone() else { panic!("has a device") };
    assert_eq!((info.logical_sector_bytes, info.direct_io), (Some(4096), Some(false)));
    assert!(built.record().mount_options_in_effect.as_ref().unwrap().contains("noatime"));
    let line = &built.record().commands[0].line;
    assert!(
        line.contains("lazy_itable_init=0,lazy_journal_init=0,stride=4") && line.contains("^has_journal")
    );
    let sys = format!("/sys/fs/ext4/{}/journal_task", info.path.file_name().unwrap());
    assert_eq!(Host::system().read(sys).unwrap(), "<none>", "the file system has no journal");
    built.teardown().unwrap();
}

#[test]
fn direct_io_is_what_it_says() {
    needs!(Mounts, Loop, Ext4);
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("journal"), "real").unwrap();
    let built = Builder::new(&dir.path).build(&"ext4@image:64M".parse().unwrap(), &journal).unwrap();
    let DeviceInfo::Block(info) = built.device().clone() else { panic!("has a device") };
    // either the kernel gave direct I/O, or the record warns the reader
    assert_eq!(info.direct_io == Some(true), built.record().notes.is_empty(), "{:?}", built.record().notes);
    assert_eq!(built.record().backing.as_ref().unwrap().path, info.backing_file.unwrap().parent().unwrap());
}

#[test]
fn a_directory_stack_touches_nothing_else() {
    let dir = temp_dir();
    let home = dir.path.join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("precious"), "x").unwrap();
    let journal = Journal::open(&dir.path.join("journal"), "real").unwrap();
    let spec = format!("dir:{home}").parse().unwrap();
    let built = Builder::new(dir.path.join("work")).build(&spec, &journal).unwrap();
    assert!(built.path().starts_with(&home) && names(built.path()).is_empty());
    std::fs::create_dir_all(built.path().join("a/b")).unwrap();
    std::fs::write(built.path().join("a/b/c"), "x").unwrap();
    assert_ne!(built.remount_cold().unwrap(), Coldness::Remounted);
    assert!(built.path().join("a/b/c").exists());
    assert!(
        matches!(built.device(), DeviceInfo::Directory(info) if info.path == home && !info.fs_type.is_empty())
    );
    built.teardown().unwrap();
    assert_eq!(names(&home), ["precious"]);
    assert!(journal.is_empty());
}

#[test]
fn dropping_a_stack_takes_it_down() {
    needs!(Mounts, Loop, Ext4);
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("journal"), "real").unwrap();
    drop(Builder::new(dir.path.join("work")).build(&"ext4@image:64M".parse().unwrap(), &journal).unwrap());
    assert!(journal.is_empty());
    assert_eq!((loop_on(&dir.path), mounts_below(&dir.path)), (None, 0));
}

#[test]
fn a_busy_stack_is_named_with_its_user_and_detached_lazily() {
    needs!(Mounts, Loop, Ext4);
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("journal"), "real").unwrap();
    let built =
        Builder::new(dir.path.join("work")).build(&"ext4@image:64M".parse().unwrap(), &journal).unwrap();
    let mut held = std::fs::File::create(built.path().join("held")).unwrap();
    held.write_all(b"x").unwrap();
    let error = built.remount_cold().unwrap_err();
    assert!(matches!(error, StackError::Busy { .. }), "{error}");
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    let error = built.teardown().unwrap_err();
    let StackError::Teardown(report) = &error else { panic!("{error}") };
    let lazy = &report.steps[0];
    assert!(matches!(&lazy.outcome, Outcome::Deferred(why) if why.contains("lazily")), "{report}");
    assert!(!report.has_failures() && journal.is_empty());
    assert_eq!(mounts_below(&dir.path), 0);
    drop(held);
    // the last close lets the file system and then the loop device go
    while loop_on(&dir.path).is_some() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn an_interrupt_from_another_thread_takes_the_stack_down() {
    needs!(Mounts, Loop, Ext4);
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("journal"), "real").unwrap();
    let built =
        Builder::new(dir.path.join("work")).build(&"ext4@image:64M".parse().unwrap(), &journal).unwrap();
    let other = journal.clone();
    let report = std::thread::spawn(move || other.undo()).join().unwrap();
    assert!(report.is_clean() && report.steps.len() == 4, "{report}");
    assert_eq!((loop_on(&dir.path), mounts_below(&dir.path)), (None, 0));
    assert!(matches!(built.remount_cold(), Err(StackError::Journal(_))));
    assert!(built.teardown().unwrap().steps.is_empty());
    assert!(names(&dir.path.join("journal")).is_empty());
}

#[test]
fn a_killed_runs_stack_is_undone_by_the_doctor() {
    needs!(Mounts, Loop, Ext4);
    let dir = temp_dir();
    let journals = dir.path.join("journal");
    let journal = Journal::open(&journals, "real").unwrap();
    let built =
        Builder::new(dir.path.join("work")).build(&"ext4@image:64M".parse().unwrap(), &journal).unwrap();
    // as kill -9 would have it: nothing is dropped, the owner's start time is another process's, and the lock is gone (a
    // new file has none)
    let path = journal.path().to_owned();
    std::mem::forget((built, journal));
    let me = host::ProcessId::current(&Host::system()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(
        &path,
        text.replacen(&format!("\"start_ticks\":{}", me.start_ticks), "\"start_ticks\":1", 1),
    )
    .unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, private).unwrap();
    let leftovers = Journal::leftovers(&journals).unwrap();
    assert_eq!(leftovers[0].resources.len(), 4, "{}", leftovers[0]);
    let report = leftovers[0].clean().unwrap();
    assert!(report.steps.iter().all(|step| step.outcome == Outcome::Undone), "{report}");
    assert_eq!((loop_on(&dir.path), mounts_below(&dir.path)), (None, 0));
    assert!(names(&dir.path.join("work")).is_empty() && names(&journals).is_empty());
}

/// Kills its own process right before or after a program runs.
struct Suicidal {
    program: String,
    after: bool,
}

impl Runner for Suicidal {
    fn run(&self, command: &CommandLine) -> std::io::Result<CommandOutput> {
        let die = || rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        let meant = command.program == self.program;
        if meant && !self.after {
            die()?;
        }
        let output = SystemRunner::default().run(command)?;
        if meant && self.after {
            die()?;
        }
        Ok(output)
    }
}

#[test]
fn wherever_the_build_is_killed_the_doctor_undoes_it() {
    needs!(Mounts, Loop, Ext4);
    if let Ok(place) = std::env::var("LOADLINE_TEST_VICTIM") {
        let (program, moment) =
            std::env::var("LOADLINE_TEST_MOMENT").unwrap().split_once(':').map(own).unwrap();
        let journal = Journal::open(&Utf8Path::new(&place).join("journal"), "victim").unwrap();
        let runner = Arc::new(Suicidal { program, after: moment == "after" });
        let builder = Builder { runner, ..Builder::new(Utf8Path::new(&place).join("work")) };
        let built = builder.build(&"ext4@image:32M".parse().unwrap(), &journal);
        panic!("survived: {built:?}");
    }
    for (moment, resources) in
        [("mkfs.ext4:before", 3), ("mkfs.ext4:after", 3), ("mount:before", 4), ("mount:after", 4)]
    {
        let dir = temp_dir();
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "wherever_the_build_is_killed_the_doctor_undoes_it"])
            .env("LOADLINE_TEST_VICTIM", &dir.path)
            .env("LOADLINE_TEST_MOMENT", moment)
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{moment}");
        assert_eq!(
            (loop_on(&dir.path).is_some(), mounts_below(&dir.path)),
            (true, (moment == "mount:after") as usize)
        );
        let leftovers = Journal::leftovers(&dir.path.join("journal")).unwrap();
        assert_eq!(leftovers[0].resources.len(), resources, "{moment}: {}", leftovers[0]);
        let report = leftovers[0].clean().unwrap();
        assert!(report.is_clean(), "{moment}: {report}");
        assert_eq!((loop_on(&dir.path), mounts_below(&dir.path)), (None, 0), "{moment}");
        assert!(names(&dir.path.join("work")).is_empty() && names(&dir.path.join("journal")).is_empty());
    }
}

fn own((a, b): (&str, &str)) -> (String, String) {
    (a.to_string(), b.to_string())
}

#[test]
fn a_stack_on_a_device_of_somebody_elses() {
    needs!(Mounts, Loop, Ext4);
    let dir = temp_dir();
    let file = dir.path.join("ssd");
    std::fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
    let journal = Journal::open(&dir.path.join("journal"), "real").unwrap();
    let builder = Builder::new(dir.path.join("work"));
    let options = host::loopdev::LoopOptions { direct_io: false, sector_bytes: 4096 };
    let (device, entry) = journal::loopdev::attach(&Host::system(), &journal, &file, options).unwrap();
    let built = builder.build_on(&"ext4@980pro".parse().unwrap(), &device, &journal).unwrap();
    std::fs::write(built.path().join("x"), "y").unwrap();
    built.teardown().unwrap();
    assert_eq!(host::loopdev::backing_file(&Host::system(), &device), Some(file.clone()), "the device stays");
    assert!(journal.undo_entries(&[entry]).is_clean());
    let mut magic = Vec::new();
    std::fs::File::open(&file).unwrap().take(0x43a).read_to_end(&mut magic).unwrap();
    assert_eq!(magic[0x438..], [0x53, 0xef], "the file stays, with its ext4");
    std::fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let (device, entry) = journal::loopdev::attach(&Host::system(), &journal, &file, options).unwrap();
    let error = builder.build_on(&"ext4@980pro".parse().unwrap(), &device, &journal).unwrap_err();
    assert!(matches!(error, StackError::TooSmall { .. }));
    assert!(journal.undo_entries(&[entry]).is_clean() && journal.is_empty());
}

#[test]
fn several_stacks_at_once_get_devices_of_their_own() {
    needs!(Mounts, Loop, Ext4);
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("journal"), "real").unwrap();
    let builder = Builder::new(dir.path.join("work"));
    let spec: StackSpec = "ext4@image:32M".parse().unwrap();
    let stacks: Vec<_> = std::thread::scope(|scope| {
        let builds: Vec<_> =
            (0..4).map(|_| scope.spawn(|| builder.build(&spec, &journal).unwrap())).collect();
        builds.into_iter().map(|build| build.join().unwrap()).collect()
    });
    let mut devices: Vec<_> = stacks.iter().map(|stack| stack.device_path().unwrap().to_owned()).collect();
    devices.sort();
    devices.dedup();
    assert_eq!(devices.len(), 4);
    drop(stacks);
    assert!(journal.is_empty());
    assert_eq!((loop_on(&dir.path), mounts_below(&dir.path)), (None, 0));
}

#[test]
fn a_memory_limit_holds_and_is_taken_away() {
    needs!(MemoryCgroup);
    let dir = temp_dir();
    let journal = Journal::open(&dir.path, "real").unwrap();
    let name = format!("test-{}", std::process::id());
    let group = Cgroup::create(&name, MemoryLimit::bytes(32 << 20), &journal).unwrap();
    let file = dir.path.join("file");
    // waits for the word that it has been moved, then fills the page cache with more than the limit
    let script = format!("read go; dd if=/dev/zero of={file} bs=1M count=64 2>/dev/null; read stop");
    let mut child = std::process::Command::new("sh")
        .args(["-c", &script])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    group.add_pid(child.id()).unwrap();
    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    while std::fs::metadata(&file).map_or(0, |meta| meta.len()) < 64 << 20 {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let stats = group.stats().unwrap();
    assert!(stats.current_bytes <= 32 << 20, "{stats:?}");
    assert!(stats.peak_bytes.is_none_or(|peak| peak > 24 << 20 && peak <= 32 << 20), "{stats:?}");
    assert!(stats.limit_hits.is_none_or(|hits| hits > 0), "{stats:?}");
    let path = group.path().to_owned();
    drop(child.stdin.take());
    child.wait().unwrap();
    group.destroy().unwrap();
    assert!(!path.exists() && journal.is_empty());
}

#[test]
fn undo_ends_the_processes_of_a_group() {
    needs!(MemoryCgroup);
    let dir = temp_dir();
    let journal = Journal::open(&dir.path, "real").unwrap();
    let name = format!("test-kill-{}", std::process::id());
    let group = Cgroup::create(&name, MemoryLimit::bytes(32 << 20), &journal).unwrap();
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    group.add_pid(child.id()).unwrap();
    let path = group.path().to_owned();
    let waiter = std::thread::spawn(move || child.wait().unwrap());
    let report = journal.undo();
    assert!(report.is_clean() && !path.exists(), "{report}");
    assert!(!waiter.join().unwrap().success());
}
