//! Device, file system and server, from power-on to the cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use blockdev::{Attached, BackingUse};
use camino::{Utf8Path, Utf8PathBuf};
use host::{Host, ProcessId};
use journal::{EntryId, Journal, Resource};
use rustix::mount::MountFlags;
use sql::db::Connection;
use sql::drive::{self, Pace};
use sql::job::Seeds;
use sql::tpcc::Ledger;
use sql::{Job, Server, SqlError};

use super::options::{DEVICE_BYTES, DatabaseOptions};
use crate::CrashError;
use crate::options::unique;

/// Longest run: the cut ends it before.
const RUN_SECONDS: f64 = 3600.0;
/// How often it is looked whether the run has ended by itself.
const TICK: Duration = Duration::from_millis(5);

/// Where all of it happens.
pub(super) struct Bench<'a> {
    pub(super) options: &'a DatabaseOptions,
    pub(super) job: &'a Job,
    pub(super) journal: &'a Arc<Journal>,
    /// The private directory of the check.
    pub(super) folder: &'a Utf8Path,
}

impl Bench<'_> {
    /// Attaches an emulated SSD that holds the image; one that is missing is made.
    pub(super) fn attach(&self, image: &Utf8Path) -> Result<Attached, CrashError> {
        let name = format!("crash-{}", unique());
        let spec = &self.options.spec;
        let options = stack::emulated::options(spec, &name)?;
        let mut options = options.ok_or_else(|| CrashError::BadOption {
            what: format!("{spec} loses no power: name an emulated SSD, such as {}@980pro", spec.fs().name()),
        })?;
        if !matches!(spec.device(), spec::Device::Emulated { size: Some(_), .. }) {
            options.bytes = DEVICE_BYTES;
        }
        // calibration would only add reads
        options.compensate = false;
        options.owner = ProcessId::current(&Host::system());
        options.backing = blockdev::Backing::File(image.to_owned());
        options.backing_use = BackingUse::Keep;
        Ok(blockdev::attach(&self.options.home, &options, &self.options.launcher)?)
    }
}

/// A database that runs on a device under power.
#[derive(Debug)]
pub(super) struct PoweredDatabase {
    // in this order: the server goes before the mount, the mount before the device
    server: Server,
    mounted: Mounted,
    ssd: Attached,
    job: Job,
    home: Utf8PathBuf,
}

/// A mount that goes when it is dropped.
#[derive(Debug)]
struct Mounted {
    journal: Arc<Journal>,
    entry: EntryId,
    target: Utf8PathBuf,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let report = self.journal.undo_entries(&[self.entry]);
        if !report.is_clean() {
            tracing::warn!("not taken down cleanly:\n{report}");
        }
        let _ = std::fs::remove_dir(&self.target);
    }
}

impl Mounted {
    fn new(bench: &Bench<'_>, device: &Utf8Path) -> Result<Mounted, CrashError> {
        let target = bench.folder.join(format!("mnt-{}", unique()));
        std::fs::create_dir(&target).map_err(CrashError::io(format!("make {target}")))?;
        let spec = &bench.options.spec;
        let (source, fs_type) = (device.to_string(), spec.fs().name());
        let options: Vec<&str> = spec
            .mount_options()
            .iter()
            .map(String::as_str)
            .filter(|option| !host::mount::is_generic_option(option))
            .collect();
        let data = std::ffi::CString::new(options.join(","))
            .map_err(|_| CrashError::BadOption { what: "a mount option holds a NUL".into() })?;
        let resource =
            Resource::Mount { target: target.clone(), source: source.clone(), fs_type: fs_type.to_string() };
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        let (entry, ()) = bench.journal.create_exclusive(resource, || -> Result<(), CrashError> {
            rustix::mount::mount(source.as_str(), target.as_str(), fs_type, flags, &*data)
                .map_err(|error| CrashError::io(format!("mount {source} after the cut"))(error.into()))
        })?;
        Ok(Mounted { journal: bench.journal.clone(), entry, target })
    }
}

impl PoweredDatabase {
    /// Attaches the image, mounts it, starts the server, which recovers.
    pub(super) fn up(bench: &Bench<'_>, image: &Utf8Path) -> Result<PoweredDatabase, CrashError> {
        let ssd = bench.attach(image)?;
        let mounted = Mounted::new(bench, ssd.device())?;
        let data = Job::data(&mounted.target);
        let settings = bench.job.settings(bench.options.flush);
        let server = Server::start(&settings, &data, bench.folder, bench.journal)?;
        Ok(PoweredDatabase { server, mounted, ssd, job: bench.job.clone(), home: bench.options.home.clone() })
    }

    pub(super) fn connect(&self) -> Result<Connection, CrashError> {
        let connected = self.server.connect();
        connected
            .map_err(|error| SqlError::Database { what: "connecting after recovery".into(), error }.into())
    }

    /// Runs transactions, and cuts the power after so long; what survives becomes the file `next`.
    pub(super) fn run_until_cut(
        mut self,
        seeds: Seeds,
        ledger: &Arc<Ledger>,
        after: Duration,
        next: &Utf8Path,
        stop: &AtomicBool,
    ) -> Result<(), CrashError> {
        let seated = self.job.seat(&self.server, seeds, Some(ledger));
        let terminals = seated.map_err(|error| self.server.judge("connecting terminals", error))?;
        let (kinds, over) = (self.job.what.kinds(), AtomicBool::new(false));
        let pace = Pace { warmup_seconds: 0.0, seconds: RUN_SECONDS, rate: None };
        let name = self.ssd.state().name.clone();
        let (cut, failed) = std::thread::scope(|scope| {
            let stopped = || over.load(Ordering::Acquire);
            let (kinds, pace) = (&kinds, &pace);
            let running = scope.spawn(move || drive::drive(kinds, terminals, pace, &stopped).failed);
            let start = Instant::now();
            while start.elapsed() < after && !running.is_finished() && !stop.load(Ordering::Acquire) {
                std::thread::sleep(TICK);
            }
            let ended_before = running.is_finished();
            // from here on nothing counts as acknowledged. The server is not stopped for that: if this process were
            // killed then, nobody would ever let it go on
            ledger.close();
            over.store(true, Ordering::Release);
            let cut = blockdev::power_cut(&self.home, &name, next).map_err(CrashError::from);
            // its terminals wait for answers until it is gone
            let killed = self.server.kill_now().map_err(CrashError::from);
            let failed = running.join().unwrap_or(None).filter(|_| ended_before);
            (cut.and(killed), failed)
        });
        cut?;
        match failed {
            // before the cut nothing may fail
            Some(error) => Err(self.server.judge("running transactions", error).into()),
            None => self.power_off(),
        }
    }

    /// Takes away what is left after the cut.
    fn power_off(self) -> Result<(), CrashError> {
        let PoweredDatabase { server, mounted, mut ssd, home, .. } = self;
        drop(server);
        drop(mounted);
        let name = ssd.state().name.clone();
        match ssd.detach() {
            Ok(()) => Ok(()),
            Err(_) => Ok(blockdev::detach(&home, &name, true)?),
        }
    }

    /// Ends it without a cut.
    pub(super) fn shut_down(self) -> Result<(), CrashError> {
        let PoweredDatabase { server, mounted, mut ssd, .. } = self;
        server.stop()?;
        drop(mounted);
        Ok(ssd.detach()?)
    }
}
