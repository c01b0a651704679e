//! Building a stack step by step, each step recorded in the journal before it is taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use crate::availability;
use crate::error::StackError;
use crate::mounted::{MountPlan, MountedStack};
use crate::over::{self, Over};
use crate::record::{BuildRecord, DeviceInfo, DirectoryInfo};
use crate::steps::{io_error, run, status};
use crate::{image, mkfs, mount};
use host::block::BlockInfo;
use host::device::{Consent, DeviceReport, EraseRefused, Permit};
use host::loopdev::{self, LoopOptions};
use host::runner::{CommandLine, Runner, SystemRunner};
use host::{Host, Unavailable};
use journal::dead_mount;
use journal::{Journal, Resource, Scope, create_tree, random_word};
use spec::{Device, FsKind, ImageOptions, Network, Size, StackSpec};

/// The type in mountinfo of `fuse-limit`.
const FUSE_LIMIT_TYPE: &str = "fuse.fuse-limit";

/// Builds stacks. `Builder::new(work_dir)` and, where wanted, changed fields.
#[derive(Clone)]
pub struct Builder {
    /// Where image files and mount points go; made if it is missing.
    pub work_dir: Utf8PathBuf,
    /// The one real device, or file that somebody else made, that may be overwritten.
    pub erase: Option<Utf8PathBuf>,
    /// Allow images larger than the free space. When it runs out, the stack sees I/O errors.
    pub overcommit: bool,
    /// The `loadline` executable, which formats betrfs and mounts it and `fuse-limit`; without it these are unavailable.
    pub program: Option<Utf8PathBuf>,
    /// Runs mkfs, mount and blkid.
    pub runner: Arc<dyn Runner>,
    /// The machine.
    pub host: Host,
}

/// What is known while a stack grows.
struct StackDraft<'a> {
    spec: &'a StackSpec,
    scope: Scope,
    record: BuildRecord,
}

impl Builder {
    /// A builder for this machine that formats no real device.
    pub fn new(work_dir: impl Into<Utf8PathBuf>) -> Self {
        Self {
            work_dir: work_dir.into(),
            erase: None,
            overcommit: false,
            program: None,
            runner: Arc::new(SystemRunner::default()),
            host: Host::system(),
        }
    }

    /// Looks at the real device of `spec`, to be shown before [`Builder::build`] erases it; `None` when the
    /// stack lies on none.
    pub fn inspect_device(&self, spec: &StackSpec) -> Result<Option<DeviceReport>, StackError> {
        let Some(path) = spec.block_device() else { return Ok(None) };
        let report = DeviceReport::inspect(&self.host, &*self.runner, path)?;
        Ok(Some(no_file(report)?))
    }

    /// Builds the stack: image, loop device, mkfs, mount, as far as it needs them. On an error everything
    /// made so far has been undone (or the error says what could not be).
    pub fn build(&self, spec: &StackSpec, journal: &Arc<Journal>) -> Result<MountedStack, StackError> {
        availability::check(&self.host, spec)?;
        self.guarded(spec, journal, |draft| match spec.device() {
            Device::Directory(path) => self.directory(draft, path),
            Device::Memory => self.in_memory(draft),
            Device::Image(options) => self.image(draft, *options),
            Device::Block(path) => self.block_device(draft, path),
            Device::Emulated { name, .. } => Err(StackError::Unavailable(Unavailable::new(
                format!("`{name}` must be attached first"),
                "attach it (loadline ssd attach) and name the device it prints",
            ))),
        })
    }

    /// Builds the stack on a block device that somebody else attached for it and takes away after it: an
    /// emulated SSD. The spec's device only names it. All of the device is overwritten.
    pub fn build_on(
        &self,
        spec: &StackSpec,
        device: &Utf8Path,
        journal: &Arc<Journal>,
    ) -> Result<MountedStack, StackError> {
        if !spec.fs().needs_device() {
            let reason = format!("{} does not lie on a device", spec.fs().name());
            return Err(Unavailable::new(reason, "choose a file system that does, such as ext4").into());
        }
        availability::network(&self.host, spec)?;
        availability::format_and_mount(&self.host, spec.fs())?;
        self.guarded(spec, journal, |draft| {
            image::check_min(spec.fs(), Size::from_bytes(BlockInfo::read(&self.host, device).size_bytes))?;
            let tree = self.work_tree(draft)?;
            self.format_and_mount(draft, &tree, device)
        })
    }

    /// Runs `steps`; if they fail, undoes what they have made.
    fn guarded<'a>(
        &self,
        spec: &'a StackSpec,
        journal: &Arc<Journal>,
        steps: impl FnOnce(&mut StackDraft<'a>) -> Result<(Utf8PathBuf, Option<MountPlan>), StackError>,
    ) -> Result<MountedStack, StackError> {
        let scope = Scope::new(journal);
        let mut draft = StackDraft { spec, scope, record: BuildRecord::new(spec) };
        let made = steps(&mut draft).and_then(|(path, plan)| {
            let over = spec.network().map(|network| self.behind(&mut draft, network, &path)).transpose()?;
            Ok((path, plan, over))
        });
        match made {
            Ok((path, plan, over)) => {
                let StackDraft { scope, mut record, .. } = draft;
                record.tool_versions = self.tool_versions(spec.fs());
                let machine = (self.host.clone(), self.runner.clone());
                Ok(MountedStack::new(spec.clone(), scope, machine, (path, plan, over), record))
            }
            Err(error) => {
                let report = draft.scope.undo();
                if report.is_clean() {
                    Err(error)
                } else {
                    Err(StackError::Rollback { error: Box::new(error), report })
                }
            }
        }
    }

    /// Serves what is at `path`, and mounts that beside it.
    fn behind(
        &self,
        draft: &mut StackDraft<'_>,
        network: &Network,
        path: &Utf8Path,
    ) -> Result<Over, StackError> {
        let target = over::target(path);
        std::fs::create_dir(&target).map_err(io_error(&target))?;
        let over = Over {
            network: network.clone(),
            program: self.program.clone(),
            served: path.to_owned(),
            target,
            source: format!("loadline-{}", random_word()),
            host: self.host.clone(),
            journal: draft.scope.journal().clone(),
            running: Default::default(),
        };
        let ran = draft.scope.create(over.resource(), || over.start())?;
        draft.record.commands.extend(ran);
        Ok(over)
    }

    /// A private directory within a directory that exists; nothing else there is touched.
    fn directory(
        &self,
        draft: &mut StackDraft<'_>,
        dir: &Utf8Path,
    ) -> Result<(Utf8PathBuf, Option<MountPlan>), StackError> {
        let dir = dir.canonicalize_utf8().map_err(io_error(dir))?;
        let tree = create_tree::<StackError>(&mut draft.scope, &dir)?;
        // one level further down, so that a workload does not meet the marker file
        let data = tree.join("data");
        std::fs::create_dir(&data).map_err(io_error(&data))?;
        draft.record.device = DeviceInfo::Directory(DirectoryInfo::of(&self.host, &dir));
        Ok((data, None))
    }

    fn in_memory(&self, draft: &mut StackDraft<'_>) -> Result<(Utf8PathBuf, Option<MountPlan>), StackError> {
        let tree = self.work_tree(draft)?;
        // any word is taken as the source: a unique one proves later that the mount is ours
        let source = format!("loadline-{}", random_word());
        self.mount(draft, &tree, source)
    }

    fn image(
        &self,
        draft: &mut StackDraft<'_>,
        options: ImageOptions,
    ) -> Result<(Utf8PathBuf, Option<MountPlan>), StackError> {
        let tree = self.work_tree(draft)?;
        let free = image::free_bytes(&tree).map_err(io_error(&tree))?;
        let size = image::decide_size(draft.spec.fs(), options.size, &self.work_dir, free, self.overcommit)?;
        let file = tree.join("image");
        draft.scope.create(Resource::ImageFile { path: file.clone() }, || {
            image::create(&file, size).map_err(io_error(&file))
        })?;
        draft.record.image_bytes = Some(size.bytes());
        self.on_loop(draft, &tree, &file, options)
    }

    fn on_loop(
        &self,
        draft: &mut StackDraft<'_>,
        tree: &Utf8Path,
        file: &Utf8PathBuf,
        options: ImageOptions,
    ) -> Result<(Utf8PathBuf, Option<MountPlan>), StackError> {
        let loop_options =
            LoopOptions { direct_io: !options.buffered, sector_bytes: options.sector_bytes.unwrap_or(0) };
        let (device, entry) = journal::loopdev::attach(&self.host, draft.scope.journal(), file, loop_options)
            .map_err(|error| StackError::from_attach(error, file))?;
        draft.scope.adopt(entry);
        if !options.buffered && !loopdev::direct_io(&self.host, &device) {
            draft.record.notes.push(format!(
                "{device} fell back to buffered I/O, since the file system of {file} refuses direct I/O at \
                 this sector size: the host's page cache lies below this stack"
            ));
        }
        draft.record.backing = file.parent().map(|dir| DirectoryInfo::of(&self.host, dir));
        self.format_and_mount(draft, tree, &device)
    }

    fn block_device(
        &self,
        draft: &mut StackDraft<'_>,
        path: &Utf8Path,
    ) -> Result<(Utf8PathBuf, Option<MountPlan>), StackError> {
        let permit = Permit::take(&self.host, &*self.runner, path, Consent::Named(self.erase.as_deref()))?;
        // mkfs claims the device itself
        let (_, report) = permit.into_parts();
        let report = no_file(report)?;
        image::check_min(draft.spec.fs(), Size::from_bytes(report.size_bytes))?;
        let device = report.path.clone();
        draft.record.erased = Some(report);
        let tree = self.work_tree(draft)?;
        self.format_and_mount(draft, &tree, &device)
    }

    fn format_and_mount(
        &self,
        draft: &mut StackDraft<'_>,
        tree: &Utf8Path,
        device: &Utf8Path,
    ) -> Result<(Utf8PathBuf, Option<MountPlan>), StackError> {
        if let Some(command) = self.mkfs_command(draft.spec, device)? {
            // an undo in another thread waits for mkfs: it must not free the loop device before mkfs opens
            // it, since that number may then belong to somebody else's file
            let making = draft.scope.journal().begin()?;
            let output = run(&*self.runner, &command)?;
            drop(making);
            if !output.success() {
                return Err(StackError::Mkfs {
                    command: command.to_string(),
                    status: status(&output),
                    message: output.message().to_string(),
                });
            }
            draft.record.ran(&command, &output);
        }
        let mounted = match draft.spec.in_process() {
            true => (tree.to_owned(), None),
            false => self.mount(draft, tree, device.to_string())?,
        };
        draft.record.device = DeviceInfo::Block(BlockInfo::read(&self.host, device));
        Ok(mounted)
    }

    fn mount(
        &self,
        draft: &mut StackDraft<'_>,
        tree: &Utf8Path,
        source: String,
    ) -> Result<(Utf8PathBuf, Option<MountPlan>), StackError> {
        let target = tree.join("mnt");
        std::fs::create_dir(&target).map_err(io_error(&target))?;
        let options = draft.spec.mount_options().to_vec();
        let own =
            |fs| Ok::<_, StackError>(mount::own_command(self.program()?, (fs, &options), &source, &target));
        let (fs_type, command) = match draft.spec.fs() {
            FsKind::Betrfs => (dead_mount::BETRFS_TYPE.to_string(), own(FsKind::Betrfs)?),
            FsKind::FuseLimit => (FUSE_LIMIT_TYPE.to_string(), own(FsKind::FuseLimit)?),
            fs => (fs.name().to_string(), mount::command(fs.name(), &options, &source, &target)),
        };
        let plan = MountPlan { command, target: target.clone(), source, fs_type, options };
        let output = draft.scope.create(plan.resource(), || plan.mount(&self.host, &*self.runner))?;
        draft.record.ran(&plan.command, &output);
        draft.record.mount_options_in_effect = plan.options_in_effect(&self.host);
        Ok((target, Some(plan)))
    }

    /// The line that formats `device`. Its words name nothing else that exists: some mkfs format every device on their
    /// line, or one named as that of a log.
    fn mkfs_command(&self, spec: &StackSpec, device: &Utf8Path) -> Result<Option<CommandLine>, StackError> {
        if let Some(other) = mkfs::named_path(spec.mkfs_words()) {
            let why =
                "words for mkfs must not name a device or a file, since mkfs may overwrite it: leave it out";
            return Err(EraseRefused::NotADevice { device: other, why: why.into() }.into());
        }
        Ok(match spec.fs() {
            FsKind::Betrfs => Some(mkfs::betrfs_command(self.program()?, spec.mkfs_words(), device)),
            fs => mkfs::command(fs, spec.mkfs_words(), device),
        })
    }

    fn program(&self) -> Result<&Utf8Path, StackError> {
        self.program.as_deref().ok_or_else(|| {
            let remedy = "run it from the command `loadline`";
            Unavailable::new("betrfs and fuse-limit are served by the program `loadline`", remedy).into()
        })
    }

    /// The private directory of this stack within the work directory.
    fn work_tree(&self, draft: &mut StackDraft<'_>) -> Result<Utf8PathBuf, StackError> {
        std::fs::create_dir_all(&self.work_dir).map_err(io_error(&self.work_dir))?;
        let work_dir = self.work_dir.canonicalize_utf8().map_err(io_error(&self.work_dir))?;
        create_tree::<StackError>(&mut draft.scope, &work_dir)
    }

    /// Versions of the programs that took part; one that does not tell is left out.
    fn tool_versions(&self, fs: FsKind) -> BTreeMap<String, String> {
        let programs: Vec<&str> = match fs {
            FsKind::Dir => Vec::new(),
            _ => fs.mkfs_program().into_iter().chain(["mount"]).collect(),
        };
        let version = |program: &str| {
            let output = self.runner.run(&mkfs::version_command(program)).ok()?;
            let line = output.message().lines().next()?.trim().to_string();
            Some((program.to_string(), line))
        };
        programs.into_iter().filter_map(version).collect()
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("work_dir", &self.work_dir)
            .field("erase", &self.erase)
            .field("overcommit", &self.overcommit)
            .finish_non_exhaustive()
    }
}

/// Refuses a file where a device is wanted: mount(8) would make a loop device of its own for it.
fn no_file(report: DeviceReport) -> Result<DeviceReport, EraseRefused> {
    if report.is_file {
        let why = "it is a file; a stack on a file is FS@PROFILE(backing=FILE), such as ext4@ideal(backing=FILE):1G";
        return Err(EraseRefused::NotADevice { device: report.path, why: why.into() });
    }
    Ok(report)
}
