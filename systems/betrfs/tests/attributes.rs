//! Names of extended attributes: what ext4 takes is taken, and what it refuses is refused with the same error.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use betrfs::{FormatOptions, MountOptions};
use needs::needs;

/// Names that have a namespace, that have none, or have nothing but that.
const NAMES: [&str; 17] = [
    "user.a",
    "user.",
    "user",
    "user.a.b",
    "User.a",
    "trusted.a",
    "trusted.",
    "security.a",
    "security.",
    "security",
    "system.a",
    "system.",
    "betrfs.a",
    "nowhere",
    "nowhere.a",
    ".a",
    "",
];

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or_default()
}

/// What each call says, in turn, of an attribute of this name on a new file or directory.
fn answers(path: &Path, name: &str) -> Vec<i32> {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    let name = std::ffi::CString::new(name).unwrap();
    let (path, name, value) = (path.as_ptr(), name.as_ptr(), b"value");
    let mut room = [0u8; 64];
    let (to, bytes) = (room.as_mut_ptr().cast(), room.len());
    let set = |flags| {
        // SAFETY: both texts end with NUL, and the value has as many bytes as is said.
        unsafe { libc::setxattr(path, name, value.as_ptr().cast(), value.len(), flags) as isize }
    };
    let get = || {
        // SAFETY: both texts end with NUL, and there is as much room as is said.
        unsafe { libc::getxattr(path, name, to, bytes) }
    };
    // SAFETY: both texts end with NUL.
    let remove = || unsafe { libc::removexattr(path, name) as isize };
    let said = |result: isize| if result < 0 { -errno() } else { result as i32 };
    vec![
        said(get()),
        said(remove()),
        said(set(libc::XATTR_REPLACE)),
        said(set(libc::XATTR_CREATE)),
        said(set(libc::XATTR_CREATE)),
        said(get()),
        said(set(0)),
        said(remove()),
    ]
}

#[test]
fn attribute_names_are_taken_and_refused_as_on_ext4() {
    needs!(Root, Mounts, Fuse, Loop);
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for place in ["ext4", "betrfs"] {
        std::fs::create_dir(at(place)).unwrap();
    }
    let image = std::fs::File::create(at("ext4.image")).unwrap();
    image.set_len(64 << 20).unwrap();
    let run = |program: &str, arguments: &[&Path]| {
        let done = Command::new(program).args(arguments).output().unwrap();
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    };
    run("mkfs.ext4", &[Path::new("-q"), &at("ext4.image")]);
    run("mount", &[Path::new("-oloop"), &at("ext4.image"), &at("ext4")]);
    let mut format = FormatOptions::default();
    format.size = Some(256 << 20);
    betrfs::format(&at("image"), &format).unwrap();
    let options = MountOptions::parse("cache=64M,nolock").unwrap();
    let mounted = betrfs::mount(&at("image"), &at("betrfs"), &options).unwrap();
    let mut different = Vec::new();
    for kind in ["file", "dir"] {
        let [expected, found] = ["ext4", "betrfs"].map(|place| {
            let path = at(place).join(kind);
            let made = if kind == "dir" { std::fs::create_dir(&path) } else { std::fs::write(&path, b"") };
            made.unwrap();
            NAMES.map(|name| (name, answers(&path, name)))
        });
        let both = expected.into_iter().zip(found);
        different
            .extend(both.filter(|(a, b)| a != b).map(|(a, b)| format!("{kind}: ext4 {a:?}, here {b:?}")));
    }
    mounted.unmount().unwrap();
    run("umount", &[&at("ext4")]);
    assert!(different.is_empty(), "{different:#?}");
}
