//! How the ranks find rank 0: it writes its addresses and a secret into a file that appears whole, in a directory that all
//! of them see. The secret keeps strangers out of the connection, and ranks of another launch that meet in the same place.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::ClusterError;
use crate::host;
use crate::launch::Launch;

/// How long ranks wait for each other. A batch system starts the last of thousands within a minute.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long one address may take to answer.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// How often the file is looked for; a network file system may show it late.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Largest rendezvous file that is read.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// What stands in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Where rank 0 listens.
    pub addresses: Vec<SocketAddr>,
    /// Only who has read the file knows it.
    pub secret: String,
}

/// The place where rank 0 can be found, until it is dropped.
#[derive(Debug)]
pub struct PublishedEndpoint {
    path: PathBuf,
    /// What stands there.
    pub card: Endpoint,
}

/// The file of a launch in a directory. `plan` tells launches apart whose launcher gives no name.
pub fn file(folder: &Path, launch: &Launch, plan: &str) -> PathBuf {
    let job = launch.job.as_deref().unwrap_or(plan);
    let word: String = job.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    folder.join(format!("{}-{word}-{}", launch.launcher.replace(' ', "").to_lowercase(), launch.size))
}

/// Listens where the other ranks can reach this one: on the loopback when all are on this host.
///
/// # Errors
/// No port can be had.
pub fn listen(launch: &Launch) -> Result<(TcpListener, Vec<SocketAddr>), ClusterError> {
    let local = || TcpListener::bind("127.0.0.1:0");
    if launch.is_one_host() {
        let listener = local().map_err(ClusterError::Listen)?;
        let address = listener.local_addr().map_err(ClusterError::Listen)?;
        return Ok((listener, vec![address]));
    }
    let listener = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"));
    let listener = listener.map_err(ClusterError::Listen)?;
    let own = listener.local_addr().map_err(ClusterError::Listen)?;
    let fits = |address: &std::net::IpAddr| own.is_ipv6() || address.is_ipv4();
    let addresses = host::addresses().into_iter().filter(fits);
    Ok((listener, addresses.map(|address| SocketAddr::new(address, own.port())).collect()))
}

/// Writes the file; a stale one of the same name is replaced.
///
/// # Errors
/// The directory cannot be written.
pub fn publish(path: &Path, addresses: Vec<SocketAddr>) -> Result<PublishedEndpoint, ClusterError> {
    let failed = |source| ClusterError::Folder { path: path.to_path_buf(), source };
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let card = Endpoint { addresses, secret: secret().map_err(failed)? };
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let _ = std::fs::remove_file(&part);
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&part).map_err(failed)?;
    let text = serde_json::to_vec(&card).map_err(|error| failed(error.into()))?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&part, path).map_err(failed)?;
    Ok(PublishedEndpoint { path: path.to_path_buf(), card })
}

impl PublishedEndpoint {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PublishedEndpoint {
    /// Takes the file away, unless it is another launch's by now.
    fn drop(&mut self) {
        if read(&self.path).is_ok_and(|card| card == self.card) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn secret() -> std::io::Result<String> {
    let mut bytes = [0_u8; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn read(path: &Path) -> Result<Endpoint, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    // opened each time: a listing of a network file system may be old
    let mut options = std::fs::OpenOptions::new();
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = options.read(true).custom_flags(flags).open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if let Some(why) = distrust(meta.is_file(), meta.uid(), meta.mode(), rustix::process::geteuid().as_raw())
    {
        return Err(format!("{}: {why}", path.display()));
    }
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Why a file that may be the rendezvous is not believed: who can write it could lead the ranks, and so choose what they run.
fn distrust(is_file: bool, owner: u32, mode: u32, own: u32) -> Option<String> {
    const OTHERS: u32 = 0o077;
    if !is_file {
        return Some("no file that loadline has written".into());
    }
    if owner != own {
        return Some(format!(
            "it belongs to user {owner}, not to {own}, who runs this rank, and is not believed; take --rendezvous DIR in a \
             directory where files keep their owner"
        ));
    }
    (mode & OTHERS != 0).then(|| {
        format!(
            "others have rights to it ({:o}), and it is not believed; rank 0 writes it with 600",
            mode & 0o777
        )
    })
}

/// Finds rank 0 and tries its addresses in turn until one answers. A stale file, whose rank 0 is gone, is read again and
/// again until the new one is there. `admitted` says hello, and whether it was the right one.
///
/// # Errors
/// Why nothing came of it within `patience`.
pub fn find<T>(
    path: &Path,
    patience: Duration,
    mut admitted: impl FnMut(TcpStream, &Endpoint) -> Result<Option<T>, ClusterError>,
) -> Result<Result<T, String>, ClusterError> {
    let deadline = Instant::now() + patience;
    let mut why;
    loop {
        match read(path) {
            Ok(card) => {
                why = format!("{} names no address", path.display());
                for address in &card.addresses {
                    match TcpStream::connect_timeout(address, CONNECT_PATIENCE) {
                        Ok(stream) => {
                            if let Some(done) = admitted(stream, &card)? {
                                return Ok(Ok(done));
                            }
                            why = format!("{address} is not rank 0 of this launch");
                        }
                        Err(error) => why = format!("{address}: {error}"),
                    }
                }
            }
            Err(error) => why = error,
        }
        if Instant::now() >= deadline {
            return Ok(Err(why));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_others_may_write_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let published = publish(&path, vec!["127.0.0.1:1".parse().unwrap()]).unwrap();
        assert_eq!(read(&path).unwrap(), published.card);
        for mode in [0o620, 0o602, 0o644, 0o640] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let why = read(&path).unwrap_err();
            assert!(why.contains("not believed"), "{why}");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        read(&link).unwrap_err();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(distrust(true, own, 0o100_600, own), None);
        assert!(distrust(true, own + 1, 0o100_600, own).unwrap().contains("belongs to user"));
        assert!(distrust(false, own, 0o010_600, own).is_some());
    }
}
