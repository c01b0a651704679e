//! Putting a device together: model and bytes, FUSE file, loop device, control socket.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use fuser::{Config, Session, SessionACL};
use rustix::mount::{MountFlags, mount};
use stack::{Host, Journal, Resource};

use crate::driver::Driver;
use crate::engine::Engine;
use crate::error::SsdError;
use crate::fuse::{self, DiskFs};
use crate::image::{Image, Memory};
use crate::options::{AttachOptions, Backing, Places};
use crate::transport::{Transport, UringSwitch, uring_is_on};
use crate::versions::Versions;
use crate::{fusectl, loopdev, uring};

/// The model and its bytes.
pub(crate) fn engine(options: &AttachOptions) -> Result<Engine<fuse::Reply>, SsdError> {
    let mut config = ssd::Config::new(options.load_profile()?, options.bytes).regime(options.regime);
    config.seed = options.seed;
    let model = ssd::Ssd::new(config)?;
    let (image, filled) = match &options.backing {
        Backing::Ram => {
            let memory = Memory::new(options.bytes).map_err(SsdError::io("map the device's memory"))?;
            (Image::Ram(memory), false)
        }
        Backing::File(path) => open_backing(path, options.bytes)?,
    };
    let mut versions = Versions::new(image, options.bytes / ssd::BLOCK_BYTES, filled);
    if options.prefault {
        versions.prefault();
    }
    Ok(Engine::new(model, versions))
}

/// The backing file, and whether it had contents.
fn open_backing(path: &Utf8Path, bytes: u64) -> Result<(Image, bool), SsdError> {
    let failed = || SsdError::io(format!("backing file {path}"));
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(failed())?;
    let meta = file.metadata().map_err(failed())?;
    if !meta.is_file() {
        return Err(SsdError::BadOption { what: format!("{path} is not a regular file") });
    }
    if meta.len() > bytes {
        let what = format!("{path} holds {} bytes, more than the device's {bytes}", meta.len());
        return Err(SsdError::BadOption { what });
    }
    file.set_len(bytes).map_err(failed())?;
    Ok((Image::File(file), meta.len() > 0))
}

/// What the kernel has now.
pub(crate) struct Made {
    pub(crate) device: Utf8PathBuf,
    /// Number of the FUSE connection.
    pub(crate) connection: u32,
    pub(crate) listener: UnixListener,
    /// The transport in use.
    pub(crate) transport: Transport,
    /// Why not a better one.
    pub(crate) note: Option<String>,
}

/// The parts a device is put together from.
pub(crate) struct Assembly<'a> {
    pub(crate) host: &'a Host,
    pub(crate) journal: &'a Journal,
    pub(crate) driver: &'a Arc<Driver<fuse::Reply>>,
    pub(crate) options: &'a AttachOptions,
    pub(crate) places: &'a Places,
}

impl Assembly<'_> {
    /// Mounts, serves, attaches and listens; each step is in the journal before it is taken.
    pub(crate) fn bring_up(&self) -> Result<Made, SsdError> {
        let timer = self.driver.clone();
        std::thread::Builder::new()
            .name("timer".into())
            .spawn(move || timer.run_timer())
            .map_err(SsdError::io("start the timer thread"))?;
        let mut note = None;
        let (connection, transport) = match self.options.transport {
            Transport::Classic => (self.serve(false)?, Transport::Classic),
            Transport::Uring => (self.serve(true)?, Transport::Uring),
            Transport::Auto if !uring_is_on(self.host) => (self.serve(false)?, Transport::Classic),
            Transport::Auto => match self.serve(true) {
                Ok(connection) => (connection, Transport::Uring),
                Err(error) => {
                    note = Some(format!("FUSE through /dev/fuse, since io_uring does not work: {error}"));
                    (self.serve(false)?, Transport::Classic)
                }
            },
        };
        let device = loopdev::attach(self.host, self.journal, &self.places.mount().join(fuse::FILE))?;
        let socket = self.places.socket();
        let listener = UnixListener::bind(&socket).map_err(SsdError::io(format!("listen on {socket}")))?;
        Ok(Made { device, connection, listener, transport, note })
    }

    /// Mounts the FUSE file and serves it; the number of its connection.
    fn serve(&self, rings: bool) -> Result<u32, SsdError> {
        let switch = if rings {
            Some(UringSwitch::on().map_err(SsdError::io("switch on FUSE over io_uring"))?)
        } else {
            None
        };
        let target = self.places.mount();
        let source = format!("loadline-ssd-{}", self.options.name);
        let resource =
            Resource::Mount { target: target.clone(), source: source.clone(), fs_type: "fuse".to_owned() };
        let mounted = self.journal.create(resource, || mount_fuse(&source, &target));
        let (id, fuse) = mounted.map_err(|(_, error)| error)?;
        let served = self.shake_hands(fuse, rings);
        drop(switch);
        let connection = fusectl::connection(self.host, &target);
        match (served, connection) {
            (Ok(()), Some(connection)) => Ok(connection),
            (served, connection) => {
                // requests may wait for rings that will never be there
                if let Some(connection) = connection {
                    let _ = fusectl::abort(connection, &self.places.dir);
                }
                self.journal.undo_entries(&[id]);
                served?;
                Err(SsdError::BadOption { what: format!("{target} is not in /proc/self/mountinfo") })
            }
        }
    }

    fn shake_hands(&self, fuse: OwnedFd, rings: bool) -> Result<(), SsdError> {
        let (bytes, threads) = (self.options.bytes, self.options.threads);
        let mut config = Config::default();
        config.n_threads = Some(if rings { 1 } else { threads });
        config.clone_fd = !rings;
        config.acl = SessionACL::All;
        let connection = fuse.try_clone().map_err(SsdError::io("duplicate the FUSE descriptor"))?;
        let served = DiskFs::new(self.driver.clone(), bytes, rings);
        let session = Session::from_fd(served, fuse, SessionACL::All, config);
        let session = session.map_err(SsdError::io("FUSE handshake"))?;
        session.spawn().map_err(SsdError::io("start the FUSE threads"))?;
        if rings {
            let cpus = possible_cpus(self.host)?;
            uring::serve(&connection, self.driver, bytes, cpus)
                .map_err(SsdError::io("FUSE over io_uring"))?;
        }
        Ok(())
    }
}

/// CPUs for which the kernel has a ring: all that it could ever have, such as `0-3` or `0,2-3`.
fn possible_cpus(host: &Host) -> Result<u16, SsdError> {
    const PATH: &str = "/sys/devices/system/cpu/possible";
    let text = host.read(PATH).map_err(SsdError::io(format!("read {PATH}")))?;
    cpus_in(text.trim()).ok_or_else(|| SsdError::BadOption { what: format!("{PATH}: cannot read `{text}`") })
}

fn cpus_in(list: &str) -> Option<u16> {
    list.split(',').try_fold(0u16, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

fn mount_fuse(source: &str, target: &Utf8Path) -> Result<OwnedFd, SsdError> {
    let fuse = File::options().read(true).write(true).open("/dev/fuse");
    let fuse = fuse.map_err(SsdError::io("open /dev/fuse (is FUSE in this kernel?)"))?;
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", fuse.as_raw_fd());
    let data = std::ffi::CString::new(data).map_err(|e| SsdError::BadOption { what: e.to_string() })?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount(source, target.as_std_path(), "fuse", flags, data.as_c_str())
        .map_err(|error| SsdError::io(format!("mount FUSE at {target}"))(error.into()))?;
    Ok(fuse.into())
}

#[cfg(test)]
mod tests {
    #[test]
    fn lists_of_cpus_are_counted() {
        let counts = ["0", "0-1", "0,2-5", "3-2", "", "0-70000"].map(super::cpus_in);
        assert_eq!(counts, [Some(1), Some(2), Some(5), None, None, None]);
    }
}
