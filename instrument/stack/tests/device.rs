//! Real devices: a loop device that the test attached stands for one. Nothing else is ever opened for
//! writing.

mod common;

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use common::{TempDir, loop_on, mounts_below, temp_dir};
use host::{Consent, DeviceReport, EraseRefused, Host, Permit, SystemRunner};
use journal::Journal;
use needs::needs;
use spec::StackSpec;
use stack::{Builder, StackError};

/// On a machine that is busy, too.
const PATIENCE: Duration = Duration::from_secs(30);

/// A blank 128 MiB disk.
struct Disk {
    path: Utf8PathBuf,
    dir: TempDir,
}

impl Disk {
    fn attach() -> Disk {
        let dir = temp_dir();
        let file = dir.path.join("disk");
        std::fs::File::create(&file).unwrap().set_len(128 << 20).unwrap();
        let output =
            std::process::Command::new("losetup").args(["--show", "-f", file.as_str()]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let path = String::from_utf8(output.stdout).unwrap().trim().into();
        Disk { path, dir }
    }

    fn inspect(&self) -> DeviceReport {
        DeviceReport::inspect(&Host::system(), &SystemRunner::default(), &self.path).unwrap()
    }

    fn spec(&self) -> StackSpec {
        format!("ext4@{}", self.path).parse().unwrap()
    }

    fn mkfs(&self) {
        let status = std::process::Command::new("mkfs.ext4")
            .args(["-q", "-L", "precious", self.path.as_str()])
            .status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // only if it still shows our file
        if loop_on(&self.dir.path).as_deref() == self.path.file_name() {
            let _ = std::process::Command::new("losetup").args(["-d", self.path.as_str()]).status();
        }
    }
}

#[test]
fn a_blank_disk_and_one_with_data_are_told_apart() {
    needs!(Mounts, Loop, Ext4);
    let disk = Disk::attach();
    let blank = disk.inspect();
    assert_eq!((blank.size_bytes, blank.blank), (128 << 20, Some(true)));
    assert!(!blank.holds_data() && blank.blockers().is_empty(), "{blank}");
    disk.mkfs();
    let full = disk.inspect();
    assert!(full.holds_data() && full.blockers().is_empty(), "{full}");
    assert_eq!(full.signatures.len(), 1);
    assert_eq!(full.signatures[0].label.as_deref(), Some("precious"));
    assert!(full.to_string().contains("ext4 labelled `precious`"), "{full}");
}

#[test]
fn data_is_erased_only_when_the_device_is_named_twice() {
    needs!(Mounts, Loop, Ext4);
    let disk = Disk::attach();
    disk.mkfs();
    let journal = Journal::open(&disk.dir.path.join("journal"), "r").unwrap();
    let builder = Builder::new(disk.dir.path.join("work"));
    let refused = |builder: &Builder| match builder.build(&disk.spec(), &journal) {
        Err(StackError::Erase(why)) => why,
        other => panic!("{other:?}"),
    };
    let why = refused(&builder);
    assert!(matches!(why, EraseRefused::NotAsked { .. }));
    assert!(why.to_string().contains("precious") && why.to_string().contains("--erase"), "{why}");
    let other = Builder { erase: Some("/dev/null".into()), ..builder.clone() };
    assert!(matches!(refused(&other), EraseRefused::OtherDevice { .. }));
    assert_eq!(disk.inspect().signatures[0].label.as_deref(), Some("precious"), "nothing was written");

    let agreed = Builder { erase: Some(disk.path.clone()), ..builder };
    assert!(agreed.inspect_device(&disk.spec()).unwrap().unwrap().holds_data());
    let built = agreed.build(&disk.spec(), &journal).unwrap();
    assert_eq!(built.device_path().unwrap(), disk.path);
    let erased = built.record().erased.as_ref().unwrap();
    assert_eq!(erased.signatures[0].label.as_deref(), Some("precious"));

    // while it is mounted, not even --erase helps
    let EraseRefused::InUse { blockers, report } = refused(&agreed) else { panic!("is mounted") };
    assert_eq!(report.mounts[0].target, built.path());
    let text: Vec<String> = blockers.iter().map(|blocker| blocker.to_string()).collect();
    assert!(text.iter().any(|line| line.contains("is mounted at")), "{text:?}");
    assert!(text.iter().any(|line| line.contains("exclusively")), "{text:?}");

    built.teardown().unwrap();
    assert!(journal.is_empty());
    assert_eq!(mounts_below(&disk.dir.path), 0);
    assert!(loop_on(&disk.dir.path).is_some(), "a device that was there before stays attached");
    assert_eq!(disk.inspect().signatures[0].label, None, "it was formatted");
}

#[test]
fn a_symbolic_link_to_the_device_is_the_device() {
    needs!(Mounts, Loop, Ext4);
    let disk = Disk::attach();
    let link = disk.dir.path.join("link");
    std::os::unix::fs::symlink(&disk.path, &link).unwrap();
    let report = DeviceReport::inspect(&Host::system(), &SystemRunner::default(), &link).unwrap();
    assert_eq!(report.path, disk.path);
    assert!(report.check_erase(Some(&link)).is_ok());
}

#[test]
fn a_device_node_elsewhere_is_the_device() {
    needs!(Mounts, Loop, Ext4);
    let disk = Disk::attach();
    let node = disk.dir.path.join("node");
    let number =
        std::fs::metadata(&disk.path).map(|meta| std::os::unix::fs::MetadataExt::rdev(&meta)).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, node.as_str(), rustix::fs::FileType::BlockDevice, mode, number)
        .unwrap();
    disk.mkfs();
    let report = inspect(&node);
    assert_eq!((report.size_bytes, report.signatures.len()), (128 << 20, 1));
    assert!(report.check_erase(Some(&disk.path)).is_ok(), "either name means it");
    let _held = patient(&disk.path, Consent::Said(true)).unwrap();
    assert!(matches!(permit(&node, Consent::Said(true)), Err(EraseRefused::InUse { .. })));
}

#[test]
fn nobody_mounts_a_device_while_the_permit_lives() {
    needs!(Mounts, Loop, Ext4);
    let disk = Disk::attach();
    disk.mkfs();
    let at = disk.dir.path.join("mnt");
    std::fs::create_dir(&at).unwrap();
    let run = |program: &str, args: &[&str]| {
        std::process::Command::new(program).args(args).output().unwrap().status.success()
    };
    let held = patient(&disk.path, Consent::Named(Some(&disk.path))).unwrap();
    assert!(!run("mount", &[disk.path.as_str(), at.as_str()]));
    drop(held);
    assert!(run("mount", &[disk.path.as_str(), at.as_str()]));
    let refused = permit(&disk.path, Consent::Named(Some(&disk.path)));
    assert!(run("umount", &[at.as_str()]));
    assert!(matches!(refused, Err(EraseRefused::InUse { .. })));
}

fn inspect(path: &Utf8Path) -> DeviceReport {
    DeviceReport::inspect(&Host::system(), &SystemRunner::default(), path).unwrap()
}

/// A permit that must be refused at once.
fn permit(path: &Utf8Path, consent: Consent<'_>) -> Result<Permit, EraseRefused> {
    Permit::take_within(&Host::system(), &SystemRunner::default(), path, consent, Duration::ZERO)
}

/// The same, where what was held is held no longer: but a program that another test starts holds our descriptors between fork and
/// exec.
fn patient(path: &Utf8Path, consent: Consent<'_>) -> Result<Permit, EraseRefused> {
    Permit::take_within(&Host::system(), &SystemRunner::default(), path, consent, PATIENCE)
}

#[test]
fn a_file_is_looked_at_like_a_device() {
    let dir = temp_dir();
    let file = dir.path.join("file");
    std::fs::write(&file, "").unwrap();
    let empty = inspect(&file);
    assert!(empty.is_file && !empty.holds_data() && empty.blockers().is_empty(), "{empty}");
    std::fs::write(&file, "a letter").unwrap();
    let full = inspect(&file);
    assert!(full.holds_data() && full.to_string().contains("not blank"), "{full}");
    assert!(matches!(patient(&file, Consent::Said(false)), Err(EraseRefused::NotAsked { .. })));
    assert!(matches!(patient(&file, Consent::Named(None)), Err(EraseRefused::NotAsked { .. })));
    // a second name of it, by a link and by a hard link
    let (link, hard) = (dir.path.join("link"), dir.path.join("hard"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    std::fs::hard_link(&file, &hard).unwrap();
    for other in [&link, &hard] {
        let held = patient(&file, Consent::Named(Some(other))).unwrap();
        assert!(matches!(permit(other, Consent::NotNeeded), Err(EraseRefused::InUse { .. })));
        drop(held);
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"a letter");
}

#[test]
fn what_is_neither_device_nor_file_is_refused() {
    let dir = temp_dir();
    for path in [dir.path.clone(), "/dev/null".into(), dir.path.join("none")] {
        let result = DeviceReport::inspect(&Host::system(), &SystemRunner::default(), &path);
        assert!(matches!(result, Err(EraseRefused::NotADevice { .. })), "{path}");
    }
}
