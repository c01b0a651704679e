//! Places that somebody else could steer: opened step by step without following links, and looked at for who may
//! change them. What is found is then worked on by descriptor, so that a link put into a path meanwhile leads nowhere.

use std::io;
use std::os::fd::OwnedFd;

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
pub struct Distrust {
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
    Distrust(Distrust),
    /// This path, this error.
    Io(Utf8PathBuf, io::Error),
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
fn check_above(path: &Utf8Path, stat: &Stat) -> Result<(), Distrust> {
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
pub fn check_own(path: &Utf8Path, stat: &Stat) -> Result<(), Distrust> {
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(owned_by_another(path, stat.st_uid));
    }
    if stat.st_mode & WRITABLE_BY_OTHERS != 0 {
        return Err(writable_by_others(path));
    }
    Ok(())
}

fn owned_by_another(path: &Utf8Path, uid: u32) -> Distrust {
    let own = rustix::process::geteuid().as_raw();
    Distrust {
        path: path.to_owned(),
        why: format!("belongs to user {uid}, who could have loadline take away what is not its own"),
        remedy: format!("give it to user {own} (chown), or choose another home of results with --home"),
    }
}

fn writable_by_others(path: &Utf8Path) -> Distrust {
    Distrust {
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
