//! The kernel's modules: which a guest gets, what each needs (`depends` and `softdep` in its own `.modinfo`), and loading
//! them within the guest.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::GuestError;
use crate::kernel::{Kernel, run};

/// What guests may need; what a kernel has built in, or has not, is left out.
const WANTED: [&str; 26] = [
    "virtio_pci",
    "virtio_console",
    "qemu_fw_cfg",
    "loop",
    "fuse",
    "null_blk",
    "nvme",
    "nvmet-tcp",
    "nvme-tcp",
    "sch_netem",
    "ublk_drv",
    "configfs",
    "ext4",
    "xfs",
    "btrfs",
    "f2fs",
    "nilfs2",
    "bcachefs",
    "overlay",
    // asked for by name of an algorithm, which only modprobe could resolve
    "crc32c_generic",
    "crc32c_intel",
    "crc32_generic",
    "crc32_pclmul",
    "xxhash_generic",
    "blake2b_generic",
    "sha256_generic",
];
/// Checksums that file systems ask for by the algorithm's name.
pub const CHECKSUMS: [&str; 7] = [
    "crc32c_generic",
    "crc32c_intel",
    "crc32_generic",
    "crc32_pclmul",
    "xxhash_generic",
    "blake2b_generic",
    "sha256_generic",
];
/// Where the image holds modules, and the list of them.
pub(crate) const FOLDER: &str = "/modules";
const INDEX: &str = "/modules/index.json";

/// A module of the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its name, with underscores.
    pub name: String,
    /// What must be loaded before it, in order.
    pub before: Vec<String>,
}

/// Modules with their contents.
#[derive(Debug, Default)]
pub struct Modules {
    /// The list.
    pub list: Vec<Module>,
    /// Contents by name, not compressed.
    pub contents: BTreeMap<String, Vec<u8>>,
}

/// The modules of `kernel` that a guest may need, with all that they need.
///
/// # Errors
/// One cannot be read.
pub fn gather(kernel: &Kernel) -> Result<Modules, GuestError> {
    let mut files = BTreeMap::new();
    walk(&kernel.modules.join("kernel"), &mut files)?;
    walk(&kernel.modules.join("updates"), &mut files)?;
    let mut found = Modules::default();
    for name in WANTED {
        let mut before = Vec::new();
        let name = name.replace('-', "_");
        if closure(&name, &files, &mut found.contents, &mut before)? {
            before.retain(|other| *other != name);
            found.list.push(Module { name, before });
        }
    }
    Ok(found)
}

fn walk(folder: &Utf8Path, files: &mut BTreeMap<String, Utf8PathBuf>) -> Result<(), GuestError> {
    let Ok(entries) = folder.read_dir_utf8() else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(GuestError::at(folder.as_str()))?;
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(path, files)?;
        } else if let Some((name, _)) = entry.file_name().split_once(".ko") {
            files.insert(name.replace('-', "_"), path.to_owned());
        }
    }
    Ok(())
}

/// Reads a module and what it needs, which goes before it in `order`; whether there is such a module.
fn closure(
    name: &str,
    files: &BTreeMap<String, Utf8PathBuf>,
    contents: &mut BTreeMap<String, Vec<u8>>,
    order: &mut Vec<String>,
) -> Result<bool, GuestError> {
    let Some(path) = files.get(name) else { return Ok(false) };
    if order.iter().any(|known| known == name) {
        return Ok(true);
    }
    if !contents.contains_key(name) {
        contents.insert(name.to_string(), read(path)?);
    }
    // it goes in before its needs are looked at, and out again to its place: modules may not need each other in a circle,
    // but a file that was tampered with could say so
    let place = order.len();
    order.push(name.to_string());
    for need in needs(&contents[name]) {
        closure(&need, files, contents, order)?;
    }
    let own = order.remove(place);
    order.push(own);
    Ok(true)
}

/// What `.modinfo` says that a module needs.
fn needs(contents: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for part in contents.split(|byte| *byte == 0) {
        let Ok(text) = std::str::from_utf8(part) else { continue };
        if let Some(list) = text.strip_prefix("depends=") {
            found.extend(list.split(',').map(str::to_string));
        } else if let Some(list) = text.strip_prefix("softdep=") {
            let before = list.split("pre:").nth(1).and_then(|rest| rest.split("post:").next());
            found.extend(before.into_iter().flat_map(str::split_whitespace).map(str::to_string));
        }
    }
    found.iter().filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

/// A module's contents, unpacked.
fn read(path: &Utf8Path) -> Result<Vec<u8>, GuestError> {
    let unpacker = match path.extension() {
        Some("xz") => "xz",
        Some("gz") => "gzip",
        Some("zst") => {
            let packed = std::fs::read(path).map_err(GuestError::at(path.as_str()))?;
            return zstd::stream::decode_all(packed.as_slice()).map_err(GuestError::at(path.as_str()));
        }
        _ => return std::fs::read(path).map_err(GuestError::at(path.as_str())),
    };
    let output =
        Command::new(unpacker).args(["-dc", path.as_str()]).output().map_err(GuestError::at(unpacker))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => run(Command::new(unpacker).args(["-t", path.as_str()])).map(|_| output.stdout),
    }
}

/// The text of the image's list.
pub(crate) fn index(list: &[Module]) -> (String, Vec<u8>) {
    (INDEX.to_string(), serde_json::to_vec(list).unwrap_or_default())
}

/// Within a guest: loads a module with what it needs. One that the kernel has built in, or has not, is not in the list, and
/// nothing is done.
///
/// # Errors
/// The kernel refuses it.
pub fn load(name: &str, parameters: &str) -> Result<(), GuestError> {
    let list = std::fs::read(INDEX).map_err(GuestError::at(INDEX))?;
    let list: Vec<Module> =
        serde_json::from_slice(&list).map_err(|error| GuestError::Damaged(format!("{INDEX}: {error}")))?;
    let name = name.replace('-', "_");
    let Some(module) = list.iter().find(|module| module.name == name) else { return Ok(()) };
    module.before.iter().try_for_each(|before| insert(before, ""))?;
    insert(&name, parameters)
}

fn insert(name: &str, parameters: &str) -> Result<(), GuestError> {
    let path = format!("{FOLDER}/{name}.ko");
    let contents = std::fs::read(&path).map_err(GuestError::at(path.clone()))?;
    let parameters = CString::new(parameters).map_err(|error| GuestError::at(path.clone())(error.into()))?;
    match rustix::system::init_module(&contents, &parameters) {
        // it is there already
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        // a checksum by instructions that the processor has not
        Err(rustix::io::Errno::NODEV) if CHECKSUMS.contains(&name) => Ok(()),
        Err(error) => Err(GuestError::at(path)(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(needs: &str) -> Vec<u8> {
        format!("\x7fELF\0license=GPL\0{needs}\0name=x\0").into_bytes()
    }

    #[test]
    fn what_a_module_needs_is_loaded_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        let place = root.join("kernel/fs");
        std::fs::create_dir_all(&place).unwrap();
        let put = |name: &str, needs: &str| {
            std::fs::write(place.join(format!("{name}.ko")), module(needs)).unwrap()
        };
        put("ext4", "depends=jbd2,mbcache\0softdep=pre: crypto-x post: late");
        put("jbd2", "depends=");
        put("mbcache", "depends=");
        put("crypto-x", "depends=jbd2");
        // a circle, which no kernel has
        put("f2fs", "depends=lz4");
        put("lz4", "depends=f2fs");
        let kernel = Kernel {
            name: "x".into(),
            release: "1".into(),
            vmlinuz: root.join("vmlinuz"),
            modules: root.to_owned(),
            package: None,
        };
        let found = gather(&kernel).unwrap();
        let of = |name: &str| found.list.iter().find(|module| module.name == name).unwrap().before.clone();
        assert_eq!(of("ext4"), ["jbd2", "mbcache", "crypto_x"]);
        assert_eq!(of("f2fs"), ["lz4"]);
        assert_eq!(found.contents.len(), 6);
    }
}
