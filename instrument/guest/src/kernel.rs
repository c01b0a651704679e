//! A kernel by name or path. Debian's come from its archive, by the machine's own apt, which checks their signatures; they
//! are unpacked, never installed, and kept with their SHA-256.

use std::process::Command;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use host::{Host, Unavailable};
use journal::{Journal, PrivateTree};

use crate::GuestError;

/// Prefix of names that mean a kernel of Debian.
const DEBIAN: &str = "debian-";
/// Kernels that are there for all users: `scripts/setup.sh --tests` puts one there.
const SHARED: &str = "/var/cache/loadline/kernels";
/// Flavours that are not meant: real time, clouds without f2fs, symbols.
const OTHERS: [&str; 4] = ["rt", "cloud", "dbg", "unsigned"];

/// A kernel that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// As it is named in a stack.
    pub name: String,
    /// Its release, as `uname -r` tells it.
    pub release: String,
    /// The compressed kernel.
    pub vmlinuz: Utf8PathBuf,
    /// The directory of its modules.
    pub modules: Utf8PathBuf,
    /// The package it is from, with its version, and the package's SHA-256.
    pub package: Option<String>,
}

/// Finds the kernel `name`; one of Debian that is not there yet is fetched below `home`; what is half done is in `journal`.
/// `tell` hears of what takes long.
///
/// # Errors
/// There is none: with what would help.
pub fn find(
    home: &Utf8Path,
    name: &str,
    journal: &Arc<Journal>,
    tell: &mut dyn FnMut(&str),
) -> Result<Kernel, GuestError> {
    if name.starts_with('/') {
        return at_path(name);
    }
    let Some(version) = name.strip_prefix(DEBIAN) else {
        let remedy = "name one of Debian's, such as debian-6.12, or the path of a vmlinuz";
        return Err(Unavailable::new(format!("there is no kernel `{name}`"), remedy).into());
    };
    let own = host::place::own_below(home, "kernels").map_err(GuestError::untrusted)?;
    let mut kept: Vec<Utf8PathBuf> =
        [Utf8Path::new(SHARED), &own].iter().flat_map(|dir| matching(dir, version)).collect();
    kept.sort_by_key(|path| version_key(path.file_name().unwrap_or_default()));
    let folder = match kept.pop() {
        Some(folder) => folder,
        None => fetch(&own, version, journal, tell)?,
    };
    let package = host_read(&folder.join("package"));
    let kernel = in_folder(name, &folder, package)?;
    Ok(kernel)
}

fn host_read(path: &Utf8Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

/// Unpacked packages of this version in a directory.
fn matching(dir: &Utf8Path, version: &str) -> Vec<Utf8PathBuf> {
    let Ok(entries) = dir.read_dir_utf8() else { return Vec::new() };
    let folders = entries.flatten().map(|entry| entry.path().to_owned());
    folders
        .filter(|path| is_of(path.file_name().unwrap_or_default(), version) && path.join("package").exists())
        .collect()
}

/// Whether a package such as `linux-image-6.12.117+deb12-amd64` is of version `6.12` or `6.12.117`.
fn is_of(package: &str, version: &str) -> bool {
    let Some(rest) = package.strip_prefix("linux-image-").and_then(|rest| rest.strip_prefix(version)) else {
        return false;
    };
    let whole = rest.starts_with(['.', '-', '+']);
    let numbered = rest.starts_with('.') || version.matches('.').count() > 1;
    whole && numbered && rest.ends_with("-amd64") && !rest.split('-').any(|word| OTHERS.contains(&word))
}

/// The numbers in a name, for its order.
fn version_key(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

fn fetch(
    own: &Utf8Path,
    version: &str,
    journal: &Arc<Journal>,
    tell: &mut dyn FnMut(&str),
) -> Result<Utf8PathBuf, GuestError> {
    let host = Host::system();
    for program in ["apt-cache", "apt-get", "dpkg-deb"] {
        if host.find_program(program).is_none() {
            return Err(Unavailable::new(
                format!("`{program}` is not found, which fetches kernels of Debian"),
                "name a kernel by its path: +kernel:/boot/vmlinuz-..., its modules being in /lib/modules",
            )
            .into());
        }
    }
    let pattern = format!("^linux-image-{}", version.replace('.', "\\."));
    let listed = run(Command::new("apt-cache").args(["search", "--names-only", &pattern]))?;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    let newest = names.filter(|name| is_of(name, version)).max_by_key(|name| version_key(name));
    let Some(package) = newest else {
        let near =
            run(Command::new("apt-cache").args(["search", "--names-only", "^linux-image-[0-9].*-amd64$"]))?;
        let mut near: Vec<&str> = near.lines().filter_map(|line| line.split_whitespace().next()).collect();
        near.retain(|name| !name.split('-').any(|word| OTHERS.contains(&word)));
        let remedy = match near.is_empty() {
            true => "run apt-get update, or name a kernel by its path".to_string(),
            false => format!("run apt-get update; the archive lists {}", near.join(", ")),
        };
        return Err(Unavailable::new(
            format!("the archive has no kernel {version} (old versions go)"),
            remedy,
        )
        .into());
    };
    tell(&format!("fetching {package} from Debian's archive, once (about 100 MB)"));
    download(own, package, journal)
}

/// Downloads and unpacks a package in a private directory, then moves it to its place.
fn download(own: &Utf8Path, package: &str, journal: &Arc<Journal>) -> Result<Utf8PathBuf, GuestError> {
    let tree = PrivateTree::new(journal, own)?;
    let (half, whole) = (tree.path().join(package), own.join(package));
    std::fs::create_dir(&half).map_err(GuestError::at(half.as_str()))?;
    run(Command::new("apt-get").args(["download", "-qq", package]).current_dir(&half)).map_err(|error| {
        let remedy = "run apt-get update, or name a kernel by its path";
        GuestError::from(Unavailable::new(format!("{package} could not be fetched: {error}"), remedy))
    })?;
    unpack(&half, package)?;
    match std::fs::rename(&half, &whole) {
        // another run was quicker
        Err(_) if whole.join("package").exists() => Ok(whole),
        moved => moved.map(|()| whole.clone()).map_err(GuestError::at(whole.as_str())),
    }
}

fn unpack(folder: &Utf8Path, package: &str) -> Result<(), GuestError> {
    let entries = folder.read_dir_utf8().map_err(GuestError::at(folder.as_str()))?;
    let deb =
        entries.flatten().map(|entry| entry.path().to_owned()).find(|path| path.extension() == Some("deb"));
    let deb = deb.ok_or_else(|| GuestError::Program {
        program: "apt-get download".into(),
        message: format!("it left no package of {package}"),
    })?;
    let sum = run(Command::new("sha256sum").arg(&deb))?;
    run(Command::new("dpkg-deb").args(["-x", deb.as_str(), folder.as_str()]))?;
    let sum = sum.split_whitespace().next().unwrap_or_default();
    let text = format!("{} sha256:{sum}\n", deb.file_stem().unwrap_or(package));
    std::fs::write(folder.join("package"), text).map_err(GuestError::at(folder.as_str()))?;
    // its contents are there, and its name and sum
    std::fs::remove_file(&deb).map_err(GuestError::at(deb.as_str()))
}

/// A kernel by its path: a vmlinuz, or a directory that holds `boot/vmlinuz-*` and `lib/modules`.
fn at_path(name: &str) -> Result<Kernel, GuestError> {
    let path = Utf8Path::new(name);
    if path.is_dir() {
        return in_folder(name, path, None);
    }
    let release = release_of(path)?;
    let above =
        path.ancestors().skip(1).flat_map(|dir| [dir.join("lib/modules"), dir.join("usr/lib/modules")]);
    let modules = above.map(|dir| dir.join(&release)).find(|dir| dir.is_dir());
    let modules = modules.ok_or_else(|| {
        let remedy = format!("put them into lib/modules/{release} beside it or in a directory above");
        Unavailable::new(format!("{path} is Linux {release}, whose modules are not found"), remedy)
    })?;
    Ok(Kernel { name: name.to_string(), release, vmlinuz: path.to_owned(), modules, package: None })
}

fn in_folder(name: &str, folder: &Utf8Path, package: Option<String>) -> Result<Kernel, GuestError> {
    let boot = folder.join("boot");
    let mut found: Vec<Utf8PathBuf> = boot
        .read_dir_utf8()
        .map_err(GuestError::at(boot.as_str()))?
        .flatten()
        .map(|entry| entry.path().to_owned())
        .filter(|path| path.file_name().is_some_and(|name| name.starts_with("vmlinuz")))
        .collect();
    found.sort();
    let vmlinuz = found.pop().ok_or_else(|| {
        Unavailable::new(format!("{boot} holds no vmlinuz"), "name the path of the kernel itself")
    })?;
    let kernel = at_path(vmlinuz.as_str())?;
    Ok(Kernel { name: name.to_string(), package, ..kernel })
}

/// The release in a kernel's own header (Documentation/arch/x86/boot.rst: `HdrS` at 0x202, `kernel_version` at 0x20e).
fn release_of(path: &Utf8Path) -> Result<String, GuestError> {
    use std::io::Read;
    const HEADER: usize = 1 << 16;
    let file = std::fs::File::open(path).map_err(GuestError::at(path.as_str()))?;
    let mut head = Vec::new();
    file.take(HEADER as u64).read_to_end(&mut head).map_err(GuestError::at(path.as_str()))?;
    release_in(&head).ok_or_else(|| {
        let remedy = "name the vmlinuz (bzImage) of a kernel for x86-64";
        Unavailable::new(format!("{path} is no kernel that can be booted"), remedy).into()
    })
}

fn release_in(head: &[u8]) -> Option<String> {
    if head.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let at = usize::from(u16::from_le_bytes(head.get(0x20e..0x210)?.try_into().ok()?)) + 0x200;
    let text = head.get(at..)?.split(|byte| *byte == 0 || *byte == b' ').next()?;
    let release = std::str::from_utf8(text).ok()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+~".contains(c);
    (!release.is_empty() && release.chars().all(plain)).then(|| release.to_string())
}

/// Runs a program to its end; its standard output.
pub(crate) fn run(command: &mut Command) -> Result<String, GuestError> {
    let program = command.get_program().to_string_lossy().into_owned();
    host::process::end_with_parent(command);
    let output = command
        .env("LC_ALL", "C")
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(GuestError::at(program.clone()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_string();
    Err(GuestError::Program { program, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_kernels_of_the_wanted_version_are_meant() {
        for (package, version, meant) in [
            ("linux-image-6.12.117+deb12-amd64", "6.12", true),
            ("linux-image-6.12.117+deb12-amd64", "6.12.117", true),
            ("linux-image-6.12.117+deb12-amd64", "6.1", false),
            ("linux-image-6.1.0-56-amd64", "6.1", true),
            ("linux-image-6.1.0-56-rt-amd64", "6.1", false),
            ("linux-image-6.1.0-56-cloud-amd64", "6.1", false),
            ("linux-image-6.1.0-56-amd64-dbg", "6.1", false),
            ("linux-image-6.1.0-56-amd64-unsigned", "6.1", false),
            ("linux-image-6.12-amd64", "6.12", false),
        ] {
            assert_eq!(is_of(package, version), meant, "{package} as {version}");
        }
        assert!(version_key("linux-image-6.1.0-56-amd64") > version_key("linux-image-6.1.0-9-amd64"));
    }

    #[test]
    fn the_release_stands_in_the_header() {
        let mut head = vec![0; 0x400];
        head[0x202..0x206].copy_from_slice(b"HdrS");
        head[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
        head[0x300..0x30e].copy_from_slice(b"6.12.1+x (me) ");
        assert_eq!(release_in(&head).as_deref(), Some("6.12.1+x"));
        assert_eq!(release_in(&head[..0x205]), None);
        head[0x20e..0x210].copy_from_slice(&0xffffu16.to_le_bytes());
        assert_eq!(release_in(&head), None);
        let folder = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(folder.path()).unwrap();
        let journal = Journal::open(&home.join("journal"), "test").unwrap();
        let no_kernel = std::env::current_exe().unwrap();
        let error = find(home, no_kernel.to_str().unwrap(), &journal, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("no kernel"), "{error}");
        let error = find(home, "fedora-40", &journal, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("debian-6.12"), "{error}");
    }
}
