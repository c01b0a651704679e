//! Places that somebody else could steer: opened step by step without following links, and looked at for who may
//! change them. What is found is then worked on by descriptor, so that a link put into a path meanwhile leads nowhere.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// Mode bits: the group or others may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Above an ordinary user's own directories his group is forgiven: many systems give every user a group of his own, and
/// what could be steered has no more rights than the group's other members.
const WRITABLE_BY_ALL: u32 = 0o002;
/// Mode bit: in this directory everybody renames and removes only what is his own.
const STICKY: u32 = 0o1000;
/// What an owner outside of this user namespace looks like (user_namespaces(7)).
const UNMAPPED: u32 = 65_534;

/// Why a directory or file is not relied on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistrustReason {
    /// Where.
    pub path: Utf8PathBuf,
    /// What speaks against it.
    pub why: String,
    /// What the user can do.
    pub remedy: String,
}

/// Why a directory could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// It is not relied on.
    Distrust(DistrustReason),
    /// This path, this error.
    Io(Utf8PathBuf, io::Error),
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> io::Error {
        match error {
            OpenError::Distrust(DistrustReason { path, why, remedy }) => {
                io::Error::new(io::ErrorKind::PermissionDenied, format!("{path} {why}; {remedy}"))
            }
            OpenError::Io(path, error) => io::Error::new(error.kind(), format!("{path}: {error}")),
        }
    }
}

/// A directory that is ours alone, held by descriptor. Its files are opened by their names within it; none of them is a
/// link, belongs to somebody else or is written by others.
#[derive(Debug)]
pub struct PrivateDir {
    path: Utf8PathBuf,
    dir: OwnedFd,
}

impl PrivateDir {
    /// As [`open_trusted`].
    ///
    /// # Errors
    /// As [`open_trusted`].
    pub fn open(path: &Utf8Path) -> Result<PrivateDir, OpenError> {
        Ok(PrivateDir { path: path.to_owned(), dir: open_trusted(path)? })
    }

    /// What a file holds.
    ///
    /// # Errors
    /// There is none, or it is not a plain file of ours.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other(format!("{} is not a regular file", self.path.join(name))));
        }
        check_own(&self.path.join(name), &stat).map_err(OpenError::Distrust)?;
        let mut bytes = Vec::new();
        File::from(file).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Makes a file that only this user reads and writes; what had its name is gone.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(&self, name: &str) -> io::Result<File> {
        match rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.dir, name, flags, Mode::from_raw_mode(0o600))?.into())
    }

    /// Makes a file that holds `bytes`.
    ///
    /// # Errors
    /// As [`PrivateDir::create`].
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.create(name)?.write_all(bytes)
    }
}

/// Opens the directory `path` (absolute, without links) for reading, if nobody but its owner, this process's user, can
/// have put anything in it, nor have put it there: it is ours alone, and each directory above it belongs to us or to
/// root and is written by nobody else, or is one like /tmp.
pub fn open_trusted(path: &Utf8Path) -> Result<OwnedFd, OpenError> {
    let dir = open_below_trusted(path)?;
    let failed = |error: Errno| OpenError::Io(path.to_owned(), error.into());
    check_own(path, &rustix::fs::fstat(&dir).map_err(failed)?).map_err(OpenError::Distrust)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(&dir, ".", flags, Mode::empty()).map_err(failed)
}

/// Whether a directory may be made in `path` (absolute, without links): as for [`open_trusted`], but `path` itself may
/// be one like /tmp.
pub fn check_for_new(path: &Utf8Path) -> Result<(), OpenError> {
    let dir = open_below_trusted(path)?;
    let stat = rustix::fs::fstat(&dir).map_err(|error| OpenError::Io(path.to_owned(), error.into()))?;
    check_above(path, &stat).map_err(OpenError::Distrust)
}

/// The directory `name` in a home, made if it is missing: for what root makes once, and reads and starts later by its path. Nobody
/// but this process's user can put anything into it or into a directory above it, and no link leads to it from the home on, so
/// that such a path means the same file each time.
///
/// # Errors
/// Another one can, or what the system says.
pub fn own_below(home: &Utf8Path, name: &str) -> Result<Utf8PathBuf, OpenError> {
    let failed = |source| OpenError::Io(home.join(name), source);
    let make = |path: &Utf8Path| std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path);
    let home = match home.canonicalize_utf8() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(home).and_then(|()| home.canonicalize_utf8()).map_err(failed)?
        }
        home => home.map_err(failed)?,
    };
    let path = home.join(name);
    make(&path).map_err(failed)?;
    open_trusted(&path)?;
    Ok(path)
}

fn open_below_trusted(path: &Utf8Path) -> Result<OwnedFd, OpenError> {
    let failed = |at: &Utf8Path| {
        let at = at.to_owned();
        move |error: Errno| OpenError::Io(at, error.into())
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = Utf8PathBuf::from("/");
    let mut dir = rustix::fs::openat(CWD, "/", flags, Mode::empty()).map_err(failed(&at))?;
    for name in path.components().filter(|part| matches!(part, camino::Utf8Component::Normal(_))) {
        let stat = rustix::fs::fstat(&dir).map_err(failed(&at))?;
        check_above(&at, &stat).map_err(OpenError::Distrust)?;
        at.push(name.as_str());
        dir = rustix::fs::openat(&dir, name.as_str(), flags, Mode::empty()).map_err(failed(&at))?;
    }
    Ok(dir)
}

/// Whether a directory above is one that only we and root arrange.
fn check_above(path: &Utf8Path, stat: &Stat) -> Result<(), DistrustReason> {
    let own = rustix::process::geteuid().as_raw();
    let nested = || !crate::Host::system().in_first_user_namespace();
    let trusted = [0, own].contains(&stat.st_uid) || stat.st_uid == UNMAPPED && nested();
    if !trusted {
        return Err(owned_by_another(path, stat.st_uid));
    }
    let writable = if own == 0 { WRITABLE_BY_OTHERS } else { WRITABLE_BY_ALL };
    if stat.st_mode & writable != 0 && stat.st_mode & STICKY == 0 {
        return Err(writable_by_others(path));
    }
    Ok(())
}

/// Whether this directory or file is ours and nobody else writes to it.
pub fn check_own(path: &Utf8Path, stat: &Stat) -> Result<(), DistrustReason> {
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(owned_by_another(path, stat.st_uid));
    }
    if stat.st_mode & WRITABLE_BY_OTHERS != 0 {
        return Err(writable_by_others(path));
    }
    Ok(())
}

fn owned_by_another(path: &Utf8Path, uid: u32) -> DistrustReason {
    let own = rustix::process::geteuid().as_raw();
    DistrustReason {
        path: path.to_owned(),
        why: format!("belongs to user {uid}, who could have loadline take away what is not its own"),
        remedy: format!("give it to user {own} (chown), or choose another home of results with --home"),
    }
}

fn writable_by_others(path: &Utf8Path) -> DistrustReason {
    DistrustReason {
        path: path.to_owned(),
        why: "is writable by others, who could have loadline take away what is not its own".into(),
        remedy: format!("`chmod go-w {path}`, or choose another home of results with --home"),
    }
}

/// The directory that holds `path` (absolute), to which no link leads, and the last part of the path.
pub fn parent(path: &Utf8Path) -> io::Result<(OwnedFd, &str)> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the path of a file"));
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(CWD, dir.as_str(), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    match opened {
        Ok(dir) => Ok((dir, name)),
        Err(Errno::LOOP) => {
            let what = format!("a symbolic link leads to {dir}: it was not followed; remove {path} by hand");
            Err(io::Error::other(what))
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens the plain file `path` (absolute) for reading and writing, if it belongs to this process's user and no link leads to it.
///
/// # Errors
/// It is something else, or what the system says.
pub fn open_own_rw(path: &Utf8Path) -> io::Result<File> {
    let (dir, name) = parent(path)?;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&dir, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::other(format!("{path} is not a regular file")));
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(OpenError::Distrust(owned_by_another(path, stat.st_uid)).into());
    }
    Ok(file.into())
}

/// Opens a directory within `dir`; a link or something mounted there is refused.
fn open_within(dir: &OwnedFd, name: &std::ffi::CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV | ResolveFlags::BENEATH;
    rustix::fs::openat2(dir, name, flags, Mode::empty(), resolve)
}

/// Removes all that is in `dir` but what is called `but`. Follows no link and enters nothing that is mounted.
pub fn remove_contents(dir: &OwnedFd, but: &str) -> io::Result<()> {
    for name in names(dir)? {
        if name.to_bytes() == but.as_bytes() {
            continue;
        }
        let stat = match rustix::fs::statat(dir, &*name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            stat => stat?,
        };
        let removed = if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            match open_within(dir, &name) {
                Err(Errno::XDEV) => {
                    let what = format!("something is mounted at {}", name.to_string_lossy());
                    return Err(io::Error::other(what));
                }
                opened => remove_contents(&opened?, "")?,
            }
            rustix::fs::unlinkat(dir, &*name, AtFlags::REMOVEDIR)
        } else {
            rustix::fs::unlinkat(dir, &*name, AtFlags::empty())
        };
        match removed {
            Err(Errno::NOENT) => {}
            removed => removed?,
        }
    }
    Ok(())
}

/// The names in a directory, but `.` and `..`.
pub fn names(dir: &OwnedFd) -> io::Result<Vec<std::ffi::CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_owned();
        if ![&b"."[..], b".."].contains(&name.to_bytes()) {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_a_link_leads_to_is_not_opened_for_writing() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| Utf8Path::from_path(dir.path()).unwrap().join(name);
        std::fs::create_dir(path("a")).unwrap();
        std::fs::write(path("a/file"), "").unwrap();
        open_own_rw(&path("a/file")).unwrap();
        std::os::unix::fs::symlink(path("a"), path("b")).unwrap();
        std::os::unix::fs::symlink(path("a/file"), path("a/link")).unwrap();
        for wrong in ["b/file", "a/link", "a", "none"] {
            open_own_rw(&path(wrong)).expect_err(wrong);
        }
    }

    #[test]
    fn a_folder_that_others_could_steer_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let home = Utf8Path::from_path(dir.path()).unwrap();
        let mode =
            |path: &Utf8Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        let made = own_below(home, "guests").unwrap();
        std::fs::write(made.join("image"), "ours").unwrap();
        assert_eq!(own_below(home, "guests").unwrap(), made);
        for steered in [home.to_owned(), made.clone()] {
            mode(&steered, 0o777);
            assert!(matches!(own_below(home, "guests"), Err(OpenError::Distrust(_))), "{steered}");
            mode(&steered, 0o755);
        }
        // a link to a folder of ours that is meant for something else
        std::os::unix::fs::symlink(elsewhere.path(), home.join("kernels")).unwrap();
        own_below(home, "kernels").expect_err("a link was followed");
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_of_an_own_folder_are_no_links_and_replace_what_was_there() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = PrivateDir::open(Utf8Path::from_path(dir.path()).unwrap()).unwrap();
        let letter = elsewhere.path().join("letter");
        std::fs::write(&letter, "a letter").unwrap();
        std::os::unix::fs::symlink(&letter, dir.path().join("state")).unwrap();
        folder.read("state").expect_err("a link was followed");
        folder.write("state", b"ours").unwrap();
        assert_eq!(folder.read("state").unwrap(), b"ours");
        assert_eq!(std::fs::read_to_string(&letter).unwrap(), "a letter");
    }
}
