//! Mounts whose daemon is dead: a betrfs mount outlives a killed daemon, and answers everything with ENOTCONN.
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

fn dead_among(mounts: &[MountEntry], user: u32, is_dead: impl Fn(&Utf8Path) -> bool) -> Vec<DeadMount> {
    let is_seen = |mount: &&MountEntry| mountinfo::topmost_at(mounts, &mount.target) == Some(mount);
    let ours = mounts.iter().filter(|mount| mount.fs_type == BETRFS_TYPE).filter(is_seen);
    // what another user mounted is not even asked: its daemon could answer what it likes, or never
    let ours = ours.filter(|mount| mounted_by(mount) == Some(user));
    let dead = ours.filter(|mount| is_dead(&mount.target));
    dead.map(|mount| DeadMount { target: mount.target.clone(), source: mount.source.clone() }).collect()
}

/// Asks the file system in a thread of its own, since one whose daemon hangs would keep the asker for ever; such a one
/// is not dead.
fn is_dead(target: &Utf8Path) -> bool {
    let (tell, told) = mpsc::channel();
    let target = target.to_owned();
    std::thread::spawn(move || {
        let dead =
            rustix::fs::statfs(target.as_str()).is_err_and(|error| error == rustix::io::Errno::NOTCONN);
        let _ = tell.send(dead);
    });
    told.recv_timeout(ANSWER_PATIENCE).unwrap_or(false)
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
