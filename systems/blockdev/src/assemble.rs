//! Putting a device together: model and bytes, FUSE file and loop device or ublk device, control socket.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use fusewire::{Config, Session, TransportKind, UringSwitch};
use host::Host;
use host::ublk::{Control, DeviceGeometry, DeviceSpec};
use journal::{Journal, Resource};
use rustix::mount::MountFlags;
use ssd::Regime;

use crate::driver::Driver;
use crate::engine::Engine;
use crate::error::SsdError;
use crate::fuse::{self, DiskFs};
use crate::image::{BLOCK, Image, Memory};
use crate::options::{AttachOptions, Backing, DevicePaths, FuaMode};
use crate::reply::Reply;
use crate::transport::{Fuse, Transport};
use crate::ublk::{self, Server};
use crate::versions::Versions;
use crate::{backing, fusectl, loopdev};

/// How long the door of a new device may take to appear.
const DOOR_PATIENCE: Duration = Duration::from_secs(5);
/// Requests in flight per CPU; more wait in the kernel.
const RING_ENTRIES: u16 = 64;

/// The model and its bytes. A file that is made for a run is in the journal before it exists.
pub(crate) fn engine(
    host: &Host,
    journal: &Journal,
    options: &AttachOptions,
) -> Result<Engine<Reply>, SsdError> {
    // A loop device has one queue and carries no ids: all writes are one stream, for which `streams` asks what `barrier` does.
    let regime = if options.regime.is_ordered() { Regime::Barrier } else { options.regime };
    let mut config = ssd::Config::new(options.load_profile()?, options.bytes).regime(regime);
    config.seed = options.seed;
    let model = ssd::Ssd::new(config)?;
    let (image, filled) = match &options.backing {
        Backing::Ram => {
            let memory = Memory::new(options.bytes).map_err(SsdError::io("map the device's memory"))?;
            (Image::Ram(memory), false)
        }
        Backing::File(path) => backing::open(host, journal, path, options)?,
    };
    let mut versions = Versions::new(image, options.bytes / ssd::BLOCK_BYTES, filled);
    if options.prefault {
        versions.prefault();
    }
    let mut engine = Engine::new(model, versions);
    engine.set_faults(ssd::Faults::new(options.faults.clone()));
    Ok(engine)
}

/// What the kernel has now.
pub(crate) struct KernelObjects {
    pub(crate) device: Utf8PathBuf,
    /// Number of the FUSE connection, if there is one.
    pub(crate) connection: Option<u32>,
    pub(crate) listener: UnixListener,
    /// Hardware queues of the device.
    pub(crate) queues: u16,
    /// The transport in use.
    pub(crate) transport: Transport,
    /// Why not a better one.
    pub(crate) note: Option<String>,
}

/// The parts a device is put together from.
pub(crate) struct DeviceParts<'a> {
    pub(crate) host: &'a Host,
    pub(crate) journal: &'a Journal,
    pub(crate) driver: &'a Arc<Driver<Reply>>,
    pub(crate) options: &'a AttachOptions,
    pub(crate) places: &'a DevicePaths,
}

impl DeviceParts<'_> {
    /// Mounts, serves, attaches and listens; each step is in the journal before it is taken.
    pub(crate) fn bring_up(&self) -> Result<KernelObjects, SsdError> {
        let timer = self.driver.clone();
        std::thread::Builder::new()
            .name("timer".into())
            .spawn(move || timer.run_timer())
            .map_err(SsdError::io("start the timer thread"))?;
        let Transport::Fuse(transport) = self.options.transport else { return self.bring_up_ublk() };
        let mut note = None;
        let mut served = Err(SsdError::BadOption { what: "no transport".into() });
        for way in transport.ways() {
            served = self.serve(*way).map(|connection| (connection, way_name(*way)));
            match &served {
                Err(error) if *way == TransportKind::Rings => {
                    note = Some(format!("FUSE through /dev/fuse, since io_uring does not work: {error}"));
                }
                _ => break,
            }
        }
        let (connection, transport) = served?;
        let device = loopdev::attach(self.host, self.journal, &self.places.mount().join(fuse::FILE))?;
        let (connection, queues) = (Some(connection), 1);
        Ok(KernelObjects { device, connection, listener: self.listen()?, queues, transport, note })
    }

    fn listen(&self) -> Result<UnixListener, SsdError> {
        let socket = self.places.socket();
        UnixListener::bind(&socket).map_err(SsdError::io(format!("listen on {socket}")))
    }

    /// Makes a ublk device, serves its queues, shows it and listens.
    fn bring_up_ublk(&self) -> Result<KernelObjects, SsdError> {
        let control = Control::open(self.host).map_err(|source| no_ublk(self.host, source))?;
        let options = self.options;
        let wanted = DeviceSpec {
            queues: options.queues,
            depth: ublk::DEPTH,
            request_bytes_max: ublk::REQUEST_BYTES_MAX,
            tag: u64::from_str_radix(&journal::random_word(), 16).unwrap_or_default(),
        };
        let made = journal::ublk::add(self.host, self.journal, &control, wanted, &self.places.dir)?;
        let shape = DeviceGeometry {
            bytes: options.bytes,
            block_shift: BLOCK.trailing_zeros() as u8,
            request_bytes_max: ublk::REQUEST_BYTES_MAX,
            discard_bytes_max: loopdev::DISCARD_BYTES_MAX,
            rotating: options.load_profile()?.media.rotation.is_some(),
            fua: options.fua == FuaMode::Modelled,
        };
        let device = host::ublk::device_path(made.number);
        control.set(made.number, shape).map_err(SsdError::io(format!("describe {device}")))?;
        let path = host::ublk::server_path(made.number);
        // it appears when udev or devtmpfs says so
        let mut opened = Err(std::io::ErrorKind::NotFound.into());
        host::wait::wait_until(DOOR_PATIENCE, || {
            opened = host::loopdev::open_rw(&self.host.path(&path));
            opened.is_ok()
        });
        let door = opened.map_err(SsdError::io(format!("open {path}")))?;
        let server = Server { door, driver: self.driver.clone(), depth: wanted.depth };
        ublk::serve(server, made.queues).map_err(SsdError::io(format!("serve {path}")))?;
        control.start(made.number).map_err(SsdError::io(format!("start {device}")))?;
        let few = made.queues < options.queues;
        let note = few.then(|| format!("{device} has {} queues: the kernel makes no more here", made.queues));
        let (connection, listener) = (None, self.listen()?);
        Ok(KernelObjects {
            device,
            connection,
            listener,
            queues: made.queues,
            transport: Transport::Ublk,
            note,
        })
    }

    /// Mounts the FUSE file and serves it; the number of its connection.
    fn serve(&self, way: TransportKind) -> Result<u32, SsdError> {
        let switch = if way == TransportKind::Rings {
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
        let served = self.start(fuse, way);
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

    fn start(&self, fuse: OwnedFd, way: TransportKind) -> Result<(), SsdError> {
        let threads = self.options.threads;
        let config = Config {
            wish: fuse::WISH,
            way,
            name: "fuse".into(),
            threads,
            awake: threads,
            ring_threads: 1,
            ring_entries: RING_ENTRIES,
            ring_cpus: None,
            pin: true,
            stand_back: false,
        };
        let served = Arc::new(DiskFs::new(self.driver.clone(), self.options.bytes));
        // The process ends with the device: nobody waits for these threads.
        Session::start(fuse, served, &config).map(drop).map_err(SsdError::io("connect to FUSE"))
    }
}

/// Why there is no ublk, and what would help.
fn no_ublk(host: &Host, source: std::io::Error) -> SsdError {
    if source.kind() != std::io::ErrorKind::NotFound {
        return SsdError::io(format!("open {}", host::ublk::CONTROL))(source);
    }
    let release = host.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    SsdError::NoUblk { release: release.trim().to_owned() }
}

fn way_name(way: TransportKind) -> Transport {
    match way {
        TransportKind::Classic => Transport::Fuse(Fuse::Classic),
        TransportKind::Rings => Transport::Fuse(Fuse::Uring),
    }
}

fn mount_fuse(source: &str, target: &Utf8Path) -> Result<OwnedFd, SsdError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let data = "rootmode=40000,user_id=0,group_id=0";
    fusewire::mount(source.as_ref(), target.as_std_path(), "fuse", flags, data)
        .map_err(SsdError::io(format!("mount FUSE at {target}")))
}
