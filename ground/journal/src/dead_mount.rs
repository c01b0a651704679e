//! Mounts of betrfs: whether their daemon is dead, since a mount outlives a killed daemon, and answers everything with ENOTCONN;
//! and what those say of themselves whose daemon lives.
//!
//! A mount that somebody made by hand stands in no journal; its type says that it is betrfs's, and only such ones are
//! looked at.

use std::fmt;
use std::io;
use std::sync::mpsc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use host::mountinfo::{self, MountEntry};
use host::{Host, mount};

use crate::Outcome;

/// The type in mountinfo of what loadline's own file system mounts.
pub const BETRFS_TYPE: &str = "fuse.betrfs";
/// The attribute of a mount's root directory in which betrfs says whether it takes writes.
const STATE: &str = "betrfs.state";
/// Bytes that are read of it.
const STATE_BYTES_MAX: usize = 4096;
/// How long a file system may take to say that it lives. One whose daemon is stopped never answers.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// How long a busy mount is tried again before it is detached lazily.
const UNMOUNT_PATIENCE: Duration = Duration::from_millis(200);

/// A betrfs mount that nobody serves any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadMount {
    /// Where it is mounted.
    pub target: Utf8PathBuf,
    /// The device or image, as the table of mounts shows it.
    pub source: String,
}

impl fmt::Display for DeadMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeadMount { target, source } = self;
        write!(
            f,
            "the daemon behind the betrfs mount of {source} at {target} is dead (\"Transport endpoint is not \
             connected\"): `umount {target}` takes the mount away, `loadline fsck betrfs {source}` checks the file \
             system, and mounting it again brings back what was synced"
        )
    }
}

impl DeadMount {
    /// The betrfs mounts of this mount namespace whose daemon is dead, in the order of their making. Only what is
    /// seen at its target counts, not what another mount hides; and only what this user mounted.
    ///
    /// # Errors
    /// /proc/self/mountinfo cannot be read.
    pub fn find(host: &Host) -> io::Result<Vec<DeadMount>> {
        let mounts = host.mounts()?;
        Ok(dead_among(&mounts, rustix::process::geteuid().as_raw(), is_dead))
    }

    /// Takes the mount away, if it is still there and still dead. It holds no data: what its daemon had not written
    /// is lost already. A process that uses it keeps it, out of sight, until it lets go.
    pub fn unmount(&self, host: &Host) -> Outcome {
        match DeadMount::find(host) {
            Err(error) => return Outcome::Failed(format!("cannot tell what is mounted: {error}")),
            Ok(dead) if !dead.contains(self) => return Outcome::AlreadyGone,
            Ok(_) => {}
        }
        match mount::unmount(&self.target, UNMOUNT_PATIENCE) {
            Ok(()) => Outcome::Undone,
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                let users = mount::users_text(&mount::users(host, &self.target));
                match mount::detach(&self.target) {
                    Ok(()) => Outcome::Deferred(format!("busy, so detached lazily; {users}")),
                    Err(error) => Outcome::Failed(format!("busy ({users}), and lazy unmount: {error}")),
                }
            }
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                Outcome::Failed("unmounting needs root".into())
            }
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }
}

/// The user who mounted a FUSE file system, as the kernel shows him: anybody may give his own mount our type.
fn mounted_by(mount: &MountEntry) -> Option<u32> {
    let mut users = mount.options.split(',').filter_map(|option| option.strip_prefix("user_id="));
    let user = users.next()?.parse().ok();
    user.filter(|_| users.next().is_none())
}

/// A betrfs mount, and how it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountState {
    /// Where it is mounted.
    pub target: Utf8PathBuf,
    /// The device or image, as the table of mounts shows it.
    pub source: String,
    /// In its own words: that it takes writes, what it has lost, or why it takes none; None if it does not answer.
    pub state: Option<String>,
}

impl MountState {
    /// The betrfs mounts of this mount namespace whose daemon lives, as of [`DeadMount::find`].
    ///
    /// # Errors
    /// /proc/self/mountinfo cannot be read.
    pub fn find(host: &Host) -> io::Result<Vec<MountState>> {
        let mounts = host.mounts()?;
        let ours = ours_among(&mounts, rustix::process::geteuid().as_raw());
        let living = ours.filter(|mount| !is_dead(&mount.target));
        let of = |mount: &MountEntry| MountState {
            target: mount.target.clone(),
            source: mount.source.clone(),
            state: ask(&mount.target, state_of).and_then(Result::ok),
        };
        Ok(living.map(of).collect())
    }
}

fn state_of(target: &Utf8Path) -> io::Result<String> {
    let mut bytes = vec![0; STATE_BYTES_MAX];
    let read = rustix::fs::getxattr(target.as_str(), STATE, &mut bytes[..])?;
    Ok(String::from_utf8_lossy(&bytes[..read]).into_owned())
}

/// The mounts of betrfs that are seen at their target, made by `user`.
fn ours_among(mounts: &[MountEntry], user: u32) -> impl Iterator<Item = &MountEntry> {
    let is_seen = move |mount: &&MountEntry| mountinfo::topmost_at(mounts, &mount.target) == Some(mount);
    let ours = mounts.iter().filter(|mount| mount.fs_type == BETRFS_TYPE).filter(is_seen);
    // what another user mounted is not even asked: its daemon could answer what it likes, or never
    ours.filter(move |mount| mounted_by(mount) == Some(user))
}

fn dead_among(mounts: &[MountEntry], user: u32, is_dead: impl Fn(&Utf8Path) -> bool) -> Vec<DeadMount> {
    let dead = ours_among(mounts, user).filter(|mount| is_dead(&mount.target));
    dead.map(|mount| DeadMount { target: mount.target.clone(), source: mount.source.clone() }).collect()
}

/// Whether the file system says so; one whose daemon hangs is not dead.
fn is_dead(target: &Utf8Path) -> bool {
    let says_so = |target: &Utf8Path| {
        rustix::fs::statfs(target.as_str()).is_err_and(|error| error == rustix::io::Errno::NOTCONN)
    };
    ask(target, says_so).unwrap_or(false)
}

/// Asks a file system in a thread of its own, since one whose daemon hangs would keep the asker for ever: then None.
fn ask<T: Send + 'static>(
    target: &Utf8Path,
    question: impl FnOnce(&Utf8Path) -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = mpsc::channel();
    let target = target.to_owned();
    std::thread::spawn(move || {
        let _ = tell.send(question(&target));
    });
    told.recv_timeout(ANSWER_PATIENCE).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_seen_and_betrfs_and_mounted_by_this_user_is_asked() {
        let mounts = mountinfo::parse(
            "\
30 27 0:50 / /mnt/dead rw - fuse.betrfs /dev/loop0 rw,user_id=0,group_id=0,allow_other
31 27 0:51 / /mnt/alive rw - fuse.betrfs /dev/loop1 rw,user_id=0,group_id=0,allow_other
32 27 0:52 / /mnt/other rw - fuse.sshfs host: rw
33 27 0:53 / /mnt/hidden rw - fuse.betrfs /dev/loop2 rw,user_id=0,group_id=0,allow_other
34 33 7:3 / /mnt/hidden rw - ext4 /dev/loop3 rw
35 27 0:54 / /mnt/twice rw - fuse.betrfs /dev/loop4 rw,user_id=0,group_id=0,allow_other
36 35 0:55 / /mnt/twice rw - fuse.betrfs /dev/loop5 rw,user_id=0,group_id=0,allow_other
37 27 0:56 / /home/u/forged rw - fuse.betrfs /dev/loop6 rw,user_id=1000,group_id=1000
38 27 0:57 / /home/u/unknown rw - fuse.betrfs /dev/loop7 rw
39 27 0:58 / /home/u/twice rw,user_id=0 - fuse.betrfs user_id=0 rw,user_id=1000
",
        );
        let asked = std::cell::RefCell::new(Vec::new());
        let dead = dead_among(&mounts, 0, |target| {
            asked.borrow_mut().push(target.to_string());
            target != "/mnt/alive"
        });
        assert_eq!(*asked.borrow(), ["/mnt/dead", "/mnt/alive", "/mnt/twice"]);
        let told: Vec<_> = dead.iter().map(|mount| (mount.target.as_str(), mount.source.as_str())).collect();
        assert_eq!(told, [("/mnt/dead", "/dev/loop0"), ("/mnt/twice", "/dev/loop5")]);
        assert!(dead[0].to_string().contains("`umount /mnt/dead`"), "{}", dead[0]);
    }

    #[test]
    fn a_live_file_system_is_not_dead_and_what_is_gone_is_gone() {
        assert!(!is_dead("/".into()) && !is_dead("/nowhere/at-all".into()));
        let gone = DeadMount { target: "/nowhere/at-all".into(), source: "/dev/loop0".into() };
        assert_eq!(gone.unmount(&Host::system()), Outcome::AlreadyGone);
    }
}
