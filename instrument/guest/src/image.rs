//! The guest's first file system: this program, the programs that format and mount, their libraries, modules. Everything in
//! it is from this machine; it is made anew when one of them has changed, and kept.

use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use host::Host;
use journal::{Journal, PrivateTree};
use xxhash_rust::xxh3::Xxh3;

use crate::GuestError;
use crate::archive::Archive;
use crate::kernel::{Kernel, run};
use crate::modules;

/// Where this program is in a guest.
pub const PROGRAM: &str = "/bin/loadline";
/// Version of what this module makes: raised when the same files would give another image.
const VERSION: u64 = 1;
/// Programs that stacks and scripts call; one that this machine has not is left out.
const PROGRAMS: [&str; 20] = [
    "mkfs.ext2",
    "mkfs.ext3",
    "mkfs.ext4",
    "mkfs.xfs",
    "mkfs.btrfs",
    "mkfs.f2fs",
    "mkfs.nilfs2",
    "mkfs.bcachefs",
    // what judges crash states
    "e2fsck",
    "xfs_repair",
    "btrfs",
    "fsck.f2fs",
    "mount",
    "umount",
    "blkid",
    "ip",
    "tc",
    "sh",
    "sleep",
    "sync",
];
/// Files that these programs read.
const FILES: [&str; 2] = ["/etc/mke2fs.conf", "/etc/ld.so.conf"];
/// Directories that a running system has.
const FOLDERS: [&str; 9] = ["/proc", "/sys", "/dev", "/tmp", "/run", "/work", "/mnt", "/var", "/modules"];

/// An image that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The file.
    pub path: Utf8PathBuf,
    /// Checksum of all that is in it (XXH3), 16 hexadecimal digits.
    pub checksum: String,
}

/// The image for `kernel` with `program` in it, from those that are kept below `home`, or made now; what is
/// half done is in `journal`.
///
/// # Errors
/// A file cannot be read or written.
pub fn find(
    home: &Utf8Path,
    kernel: &Kernel,
    program: &Utf8Path,
    journal: &Arc<Journal>,
) -> Result<Image, GuestError> {
    let host = Host::system();
    let programs: Vec<Utf8PathBuf> = PROGRAMS.iter().filter_map(|name| host.find_program(name)).collect();
    let folder = host::place::own_below(home, "guests").map_err(GuestError::untrusted)?;
    let key = key(kernel, program, &programs)?;
    let path = folder.join(format!("{key:016x}.cpio"));
    let sum = path.with_extension("sum");
    if path.exists()
        && let Ok(checksum) = std::fs::read_to_string(&sum)
    {
        return Ok(Image { path, checksum });
    }
    forget_old(&folder, kernel);
    let tree = PrivateTree::new(journal, &folder)?;
    let bytes = build(kernel, program, &programs, &tree)?;
    let checksum = checksum(&bytes);
    // the sum is what says that the image is whole
    let half = tree.path().join("image");
    std::fs::write(&half, &bytes).map_err(GuestError::at(half.as_str()))?;
    std::fs::rename(&half, &path).map_err(GuestError::at(path.as_str()))?;
    std::fs::write(&sum, &checksum).map_err(GuestError::at(sum.as_str()))?;
    std::fs::write(path.with_extension("of"), &kernel.release).map_err(GuestError::at(path.as_str()))?;
    Ok(Image { path, checksum })
}

/// Checksum of bytes (XXH3), 16 hexadecimal digits.
pub fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes))
}

/// Takes away the images of a kernel whose programs have changed: each is some 60 MB.
fn forget_old(folder: &Utf8Path, kernel: &Kernel) {
    let Ok(entries) = folder.read_dir_utf8() else { return };
    for entry in entries.flatten().filter(|entry| entry.path().extension() == Some("of")) {
        if std::fs::read_to_string(entry.path()).is_ok_and(|release| release == kernel.release) {
            ["sum", "cpio", "of"].iter().for_each(|end| {
                let _ = std::fs::remove_file(entry.path().with_extension(end));
            });
        }
    }
}

/// What the image depends on: paths, sizes and times of change.
fn key(kernel: &Kernel, program: &Utf8Path, programs: &[Utf8PathBuf]) -> Result<u64, GuestError> {
    let mut hash = Xxh3::new();
    hash.update(&VERSION.to_le_bytes());
    for path in
        [program, &kernel.vmlinuz, &kernel.modules].into_iter().chain(programs.iter().map(|path| &**path))
    {
        let meta = path.metadata().map_err(GuestError::at(path.as_str()))?;
        hash.update(path.as_str().as_bytes());
        [meta.size(), meta.mtime() as u64, meta.mtime_nsec() as u64]
            .iter()
            .for_each(|n| hash.update(&n.to_le_bytes()));
    }
    Ok(hash.digest())
}

fn build(
    kernel: &Kernel,
    program: &Utf8Path,
    programs: &[Utf8PathBuf],
    tree: &PrivateTree,
) -> Result<Vec<u8>, GuestError> {
    let mut archive = Archive::default();
    FOLDERS.iter().for_each(|folder| archive.directory(folder));
    // until devtmpfs is mounted the kernel opens this for the first process
    archive.device("/dev/console", 5, 1);
    // programs and libraries lie where they lie here, through the same links
    for link in ["/bin", "/sbin", "/lib", "/lib64"] {
        if let Ok(to) = std::fs::read_link(link) {
            archive.directory(&format!("/{}", to.to_string_lossy().trim_matches('/')));
            archive.link(link, &to.to_string_lossy());
        }
    }
    let stripped = stripped(program, tree)?;
    archive.file(&real("/bin/loadline"), 0o755, stripped);
    libraries(program)?.iter().try_for_each(|library| copy(&mut archive, library))?;
    for path in programs {
        copy(&mut archive, path)?;
        libraries(path)?.iter().try_for_each(|library| copy(&mut archive, library))?;
    }
    FILES
        .iter()
        .filter(|file| Utf8Path::new(file).exists())
        .try_for_each(|file| copy(&mut archive, (*file).into()))?;
    archive.file("/etc/passwd", 0o644, b"root:x:0:0:root:/:/bin/sh\n".to_vec());
    let found = modules::gather(kernel)?;
    let (path, index) = modules::index(&found.list);
    archive.file(&path, 0o644, index);
    for (name, contents) in found.contents {
        archive.file(&format!("{}/{name}.ko", modules::FOLDER), 0o644, contents);
    }
    Ok(archive.bytes())
}

/// A path below one of the links of the root, as it is without them: the archive's links come before their targets.
fn real(path: &str) -> String {
    let Some((first, rest)) = path.trim_start_matches('/').split_once('/') else { return path.to_string() };
    match std::fs::read_link(format!("/{first}")) {
        Ok(to) => format!("/{}/{rest}", to.to_string_lossy().trim_matches('/')),
        Err(_) => path.to_string(),
    }
}

fn copy(archive: &mut Archive, path: &Utf8Path) -> Result<(), GuestError> {
    let to = real(path.as_str());
    if archive.has(&to) {
        return Ok(());
    }
    let data = std::fs::read(path).map_err(GuestError::at(path.as_str()))?;
    archive.file(&to, 0o755, data);
    Ok(())
}

/// The shared libraries of a program, its loader included, by ldd(1); none when it is linked statically.
fn libraries(program: &Utf8Path) -> Result<Vec<Utf8PathBuf>, GuestError> {
    let output =
        Command::new("ldd").arg(program).env("LC_ALL", "C").output().map_err(GuestError::at("ldd"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(line) = text.lines().find(|line| line.contains("not found")) {
        return Err(GuestError::Program {
            program: format!("ldd {program}"),
            message: line.trim().to_string(),
        });
    }
    let paths = text.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':'));
    Ok(paths.map(Utf8PathBuf::from).collect())
}

/// The program without what only debuggers read, which is most of it; as it is where there is no strip(1).
fn stripped(program: &Utf8Path, tree: &PrivateTree) -> Result<Vec<u8>, GuestError> {
    let whole = || std::fs::read(program).map_err(GuestError::at(program.as_str()));
    if Host::system().find_program("strip").is_none() {
        return whole();
    }
    let to = tree.path().join("stripped");
    let made = run(Command::new("strip").arg("-o").arg(&to).arg(program));
    let bytes = std::fs::read(&to);
    match (made, bytes) {
        (Ok(_), Ok(bytes)) => Ok(bytes),
        _ => whole(),
    }
}
