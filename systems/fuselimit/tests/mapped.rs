//! Data that only the kernel has, in pages that were stored to through a mapping, are no hole.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use fuselimit::Options;
use needs::needs;

const BYTES: usize = 1 << 20;

#[test]
fn a_mapping_that_was_not_synced_is_copied_whole() {
    needs!(Root, Mounts, Fuse);
    let dir = tempfile::tempdir().unwrap();
    let mnt = dir.path().join("mnt");
    std::fs::create_dir(&mnt).unwrap();
    let options = Options::parse("nolock,size=64M").unwrap();
    let mounted = fuselimit::mount(Path::new("test"), &mnt, &options).unwrap();
    let file = File::options().read(true).write(true).create_new(true).open(mnt.join("file")).unwrap();
    file.set_len(BYTES as u64).unwrap();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    assert_ne!(start, libc::MAP_FAILED);
    // SAFETY: the mapping has so many bytes, and nothing else refers to it.
    unsafe { std::ptr::write_bytes(start.cast::<u8>(), 7, BYTES) };
    let copy = dir.path().join("copy");
    // `tar` before `cp`, which has the kernel pass its pages on.
    let archive = dir.path().join("archive");
    let mut tar = Command::new("tar");
    let archived = tar.env("LC_ALL", "C").arg("-Scf").arg(&archive).arg("-C").arg(&mnt).arg("file").output();
    let copied = Command::new("cp").arg(mnt.join("file")).arg(&copy).status().unwrap();
    // SAFETY: as above. This process serves the file system too, so the pages are written before they are unmapped.
    unsafe {
        libc::msync(start, BYTES, libc::MS_SYNC);
        libc::munmap(start, BYTES);
    }
    drop(file);
    mounted.unmount().unwrap();
    assert!(copied.success());
    assert!(std::fs::read(&copy).unwrap() == [7; BYTES]);
    let archived = archived.unwrap();
    let said = String::from_utf8_lossy(&archived.stderr);
    // Looking for holes has the kernel pass its pages on, by which ctime moves: tar says so, and ends with 1.
    assert!(archived.status.success() || said.ends_with("file changed as we read it\n"), "tar: {said}");
    let extracted = Command::new("tar").arg("-xSOf").arg(&archive).output().unwrap();
    assert!(extracted.stdout == [7; BYTES], "{} bytes by tar -S", extracted.stdout.len());
}
