//! Where stacks are built: on this machine, emulated SSDs attached for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use blockdev::{AttachOptions, Attached, Backing, BackingUse, Launcher, SsdError, SsdStatus};
use camino::{Utf8Path, Utf8PathBuf};
use host::{DeviceReport, Host, ProcessId, Unavailable};
use journal::Journal;
use spec::{Device, StackSpec};
use stack::{Availability, Builder, MountedStack, StackError};

/// Numbers the SSDs of this process.
static ATTACHED: AtomicU32 = AtomicU32::new(0);

/// Builds stacks, emulated SSDs included.
#[derive(Debug, Clone)]
pub struct StackFactory {
    /// Images, mkfs, mounts.
    pub builder: Builder,
    /// This machine is a guest: it has devices that only guests have.
    pub in_guest: bool,
    home: Utf8PathBuf,
    launcher: Launcher,
}

/// A stack in use, with the emulated SSD below it. Dropped, it is taken down.
#[derive(Debug)]
pub struct BuiltStack {
    // in this order: the file system goes before its device
    stack: MountedStack,
    ssd: Option<Attached>,
    own: Option<guest::devices::Attached>,
}

/// Why a stack could not be built or taken down.
#[derive(Debug, thiserror::Error)]
pub enum StackSetupError {
    /// The stack.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The device below it.
    #[error(transparent)]
    Ssd(#[from] SsdError),
    /// The device that only a guest has.
    #[error(transparent)]
    Guest(#[from] guest::GuestError),
}

impl StackSetupError {
    /// Reason and remedy, when this machine cannot do it at all.
    pub fn unavailable(&self) -> Option<Unavailable> {
        match self {
            StackSetupError::Stack(StackError::Unavailable(why)) => Some(why.clone()),
            StackSetupError::Ssd(error @ SsdError::NotRoot) => {
                Some(Unavailable::new(error.to_string(), "run as root, or use dir:PATH"))
            }
            _ => None,
        }
    }
}

/// Whether `spec` can be built, as far as can be told without doing it; `in_guest`: this machine is one.
pub fn availability(spec: &StackSpec, in_guest: bool) -> Availability {
    // nothing is built for what is simulated
    if spec.fs() == spec::FsKind::Virtual {
        return Availability::Available;
    }
    if let Some(why) = guest::unavailable_reason(spec) {
        return Availability::Unavailable(why);
    }
    if guest::devices::is_guests(spec) {
        return if in_guest || spec.guest().is_some() {
            Availability::Available
        } else {
            let remedy = format!("name a kernel: {spec}+kernel:{}", guest::KERNEL);
            Availability::Unavailable(Unavailable::new("only a guest has this device", remedy))
        };
    }
    if let Err(error) = stack::emulated::options(spec, "asked") {
        let remedy = "name one of these profiles, `image`, or a device under /dev";
        return Availability::Unavailable(Unavailable::new(error.to_string(), remedy));
    }
    if spec.guest().is_some() { Availability::Available } else { stack::probe_availability(spec) }
}

impl StackFactory {
    /// Builds in `work`; devices belong to the loadline home `home` and are served by this program.
    ///
    /// # Errors
    /// The path of this program cannot be told.
    pub fn new(home: &Utf8Path, work: &Utf8Path) -> Result<StackFactory, StackSetupError> {
        let launcher = Launcher::this_program()?;
        let builder = Builder { program: Some(launcher.program.clone()), ..Builder::new(work) };
        Ok(StackFactory { builder, in_guest: false, home: home.to_owned(), launcher })
    }

    /// The loadline home that its devices belong to.
    pub fn home(&self) -> &Utf8Path {
        &self.home
    }

    /// Whether `spec` can be built here, as far as can be told without doing it.
    pub fn availability(&self, spec: &StackSpec) -> Availability {
        availability(spec, self.in_guest)
    }

    /// Looks at what building `spec` would overwrite that is not loadline's own: a real device, or a backing file that
    /// exists.
    ///
    /// # Errors
    /// It is neither a block device nor a file.
    pub fn inspect(&self, spec: &StackSpec) -> Result<Option<DeviceReport>, StackSetupError> {
        if spec.guest().is_some() {
            return Ok(None);
        }
        if let Some(options) = stack::emulated::options(spec, "asked")?
            && let Backing::File(path) = &options.backing
            && path.symlink_metadata().is_ok()
        {
            let report = DeviceReport::inspect(&self.builder.host, &*self.builder.runner, path);
            return Ok(Some(report.map_err(StackError::from)?));
        }
        Ok(self.builder.inspect_device(spec)?)
    }

    /// Builds `spec`.
    ///
    /// # Errors
    /// As [`Builder::build`] and [`blockdev::attach`]; nothing is left then.
    pub fn build(&self, spec: &StackSpec, journal: &Arc<Journal>) -> Result<BuiltStack, StackSetupError> {
        self.build_with(spec, journal, |_| {})
    }

    /// As [`StackFactory::build`]; `change` has the last word on the device's options.
    ///
    /// # Errors
    /// As [`StackFactory::build`].
    pub fn build_with(
        &self,
        spec: &StackSpec,
        journal: &Arc<Journal>,
        change: impl FnOnce(&mut AttachOptions),
    ) -> Result<BuiltStack, StackSetupError> {
        let Device::Emulated { .. } = spec.device() else {
            return Ok(BuiltStack { stack: self.builder.build(spec, journal)?, ssd: None, own: None });
        };
        if self.in_guest
            && let Some(own) = guest::devices::attach(spec)?
        {
            let stack = self.builder.build_on(spec, own.device(), journal)?;
            return Ok(BuiltStack { stack, ssd: None, own: Some(own) });
        }
        if let Availability::Unavailable(why) = stack::probe_availability(spec) {
            return Err(StackError::Unavailable(why).into());
        }
        let name = format!("run-{}-{}", std::process::id(), ATTACHED.fetch_add(1, Ordering::Relaxed));
        let Some(mut options) = stack::emulated::options(spec, &name)? else {
            return Ok(BuiltStack { stack: self.builder.build(spec, journal)?, ssd: None, own: None });
        };
        options.owner = ProcessId::current(&Host::system());
        options.backing_use = BackingUse::Overwrite { erase: self.builder.erase.clone() };
        change(&mut options);
        let ssd = blockdev::attach(&self.home, &options, &self.launcher)?;
        let stack = self.builder.build_on(spec, ssd.device(), journal)?;
        Ok(BuiltStack { stack, ssd: Some(ssd), own: None })
    }
}

impl BuiltStack {
    /// The mounted file system.
    pub fn stack(&self) -> &MountedStack {
        &self.stack
    }

    /// The emulated SSD below it, if there is one.
    pub fn ssd(&self) -> Option<&Attached> {
        self.ssd.as_ref()
    }

    /// The counters of the emulated SSD; `None` when there is none or it does not answer.
    pub fn ssd_status(&self) -> Option<SsdStatus> {
        self.ssd.as_ref().and_then(|ssd| ssd.stats().ok())
    }

    /// Takes it down.
    ///
    /// # Errors
    /// What stays or failed.
    pub fn teardown(self) -> Result<(), StackSetupError> {
        let down = self.stack.teardown();
        let mut ssd = self.ssd;
        let gone = ssd.as_mut().map_or(Ok(()), Attached::detach);
        down?;
        Ok(gone?)
    }

    /// Leaves everything in place: `loadline doctor` takes it down.
    pub fn keep(self) {
        std::mem::forget(self.stack);
        std::mem::forget(self.ssd);
        std::mem::forget(self.own);
    }
}

impl std::ops::Deref for BuiltStack {
    type Target = MountedStack;

    fn deref(&self) -> &MountedStack {
        &self.stack
    }
}
