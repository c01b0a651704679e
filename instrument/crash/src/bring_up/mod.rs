//! Bringing a state up: the image is made, the real file system mounts it (and replays its journal),
//! everything in it is read, it is unmounted, and its checker must find nothing.
//!
//! Each worker has one sparse image file (in memory where there is a tmpfs), one loop device and one mount
//! point for all its states. Blocks are patched into the file, and afterwards whatever the state or the file
//! system changed is put back; nothing is copied whole. `image` is the file, `loopdev` the device, `system`
//! what is particular to each file system, `helper` what loadline does for its own.

mod helper;
mod image;
mod loopdev;
mod system;

use std::ffi::CString;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use journal::EntryId;
use journal::{Journal, Resource};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::error::CrashError;
use crate::oracle::{Breach, Kind, Tree, observe};
use crate::program::Looked;
use helper::Refusal;
pub(crate) use image::BaseImage;
use image::Image;
pub(crate) use image::new_file;
pub(crate) use system::{System, default_bytes};

/// How long an unmount is tried again: a checker that is being started in another thread holds every open
/// file for a moment.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most of a checker's output that is kept.
const OUTPUT_MAX: usize = 4000;

/// What came of a state.
#[derive(Clone, Debug, Default)]
pub(crate) struct BringUpOutcome {
    /// Everything in the file system; none if it did not mount.
    pub(crate) tree: Option<Tree>,
    /// That it does not mount, that its checker finds damage.
    pub(crate) breaches: Vec<Breach>,
    /// What the checker printed, if it found something.
    pub(crate) output: String,
    /// What came of looking at it in another way than [`observe`].
    pub(crate) looked: Looked,
}

/// Looks at a state while it is mounted there.
pub(crate) type Look<'l> = dyn FnMut(&Utf8Path) -> Result<Looked, CrashError> + 'l;

/// One worker's place.
#[derive(Debug)]
pub(crate) struct Worker {
    journal: Arc<Journal>,
    entries: Vec<EntryId>,
    system: System,
    image: Image,
    file: Utf8PathBuf,
    device: Utf8PathBuf,
    target: Utf8PathBuf,
    options: CString,
}

impl Worker {
    /// Makes the image, the loop device and the mount point in `dir`, all in the journal first.
    pub(crate) fn new(
        journal: &Arc<Journal>,
        dir: &Utf8Path,
        number: usize,
        system: &System,
        pristine: &Arc<BaseImage>,
    ) -> Result<Worker, CrashError> {
        let (file, target) = (dir.join(format!("image-{number}")), dir.join(format!("mnt-{number}")));
        let mut entries = Vec::new();
        let made = Worker::make(journal, &mut entries, (&file, &target), system, pristine);
        match made {
            Ok((image, device, options)) => {
                let (journal, system) = (journal.clone(), system.clone());
                Ok(Worker { journal, entries, system, image, file, device, target, options })
            }
            Err(error) => {
                journal.undo_entries(&entries);
                Err(error)
            }
        }
    }

    fn make(
        journal: &Journal,
        entries: &mut Vec<EntryId>,
        (file, target): (&Utf8Path, &Utf8Path),
        system: &System,
        pristine: &Arc<BaseImage>,
    ) -> Result<(Image, Utf8PathBuf, CString), CrashError> {
        // both go with the private directory
        let image = Image::create(file, pristine.clone()).map_err(CrashError::io(format!("write {file}")))?;
        std::fs::create_dir(target).map_err(CrashError::io(format!("make {target}")))?;
        let (device, id) = loopdev::attach(journal, file)?;
        entries.push(id);
        let (source, fs_type) = (device.to_string(), system.kernel_name().to_owned());
        entries.push(journal.record(Resource::Mount { target: target.to_owned(), source, fs_type })?);
        let options = CString::new(system.options.as_str())
            .map_err(|_| CrashError::BadOption { what: "a mount option holds a NUL".into() })?;
        Ok((image, device, options))
    }

    /// Brings up the base image with these blocks changed, and has `look` look at it, or reads everything.
    pub(crate) fn bring_up<'b>(
        &mut self,
        blocks: impl Iterator<Item = (u64, &'b [u8])>,
        look: Option<&mut Look<'_>>,
    ) -> Result<BringUpOutcome, CrashError> {
        self.image.apply(blocks).map_err(CrashError::io(format!("write {}", self.file)))?;
        let found = self.mount_and_look(look);
        let restored = self.image.restore().map_err(CrashError::io(format!("restore {}", self.file)));
        let found = found?;
        restored?;
        Ok(found)
    }

    /// Writes the base image with these blocks changed to a new file.
    pub(crate) fn save<'b>(
        &mut self,
        blocks: impl Iterator<Item = (u64, &'b [u8])>,
        path: &Utf8Path,
    ) -> Result<(), CrashError> {
        self.image.apply(blocks).map_err(CrashError::io(format!("write {}", self.file)))?;
        let copied = image::copy_sparse(&self.file, path).map_err(CrashError::io(format!("write {path}")));
        self.image.restore().map_err(CrashError::io(format!("restore {}", self.file)))?;
        copied
    }

    fn mount_and_look(&self, look: Option<&mut Look<'_>>) -> Result<BringUpOutcome, CrashError> {
        loopdev::forget_cache(&self.device).map_err(CrashError::io(format!("flush {}", self.device)))?;
        let mut found = BringUpOutcome::default();
        if self.system.helper().is_some() {
            // its checker replays the log without writing; the others would find an unclean journal
            self.check(&mut found)?;
        }
        match self.mount() {
            Ok(()) => {
                let looked = match look {
                    Some(look) => look(&self.target),
                    None => {
                        found.tree = Some(observe(&self.target));
                        Ok(Looked::default())
                    }
                };
                self.unmount().map_err(CrashError::io(format!("unmount {}", self.target)))?;
                found.looked = looked?;
                if found.looked.interrupted {
                    return Ok(found);
                }
            }
            Err(Refusal::Machine(error)) => {
                let what = format!("mount {} at {}", self.device, self.target);
                return Err(CrashError::io(what)(error));
            }
            Err(Refusal::Image(why)) => {
                found.breaches.push(Breach::new(Kind::Unmountable, format!("mount: {why}")));
            }
        }
        self.check(&mut found)?;
        Ok(found)
    }

    fn mount(&self) -> Result<(), Refusal> {
        let _making = self.journal.begin().map_err(|_| Refusal::Machine(Errno::PERM.into()))?;
        if let Some(helper) = self.system.helper() {
            return helper.mount(&self.device, &self.target, &self.system.options);
        }
        let fs = self.system.fs.name();
        // executable: a checker may start what the program has installed
        let flags = MountFlags::NOATIME | MountFlags::NODEV | MountFlags::NOSUID;
        let mut result = Err(Errno::BUSY);
        let start = Instant::now();
        while result == Err(Errno::BUSY) && start.elapsed() < PATIENCE {
            result = mount(self.device.as_str(), self.target.as_str(), fs, flags, &*self.options);
            if result == Err(Errno::BUSY) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        result.map_err(|errno| match errno {
            Errno::NOMEM
            | Errno::BUSY
            | Errno::PERM
            | Errno::ACCESS
            | Errno::NODEV
            | Errno::NOTBLK
            | Errno::EXIST => Refusal::Machine(errno.into()),
            errno => Refusal::Image(io::Error::from(errno).to_string()),
        })
    }

    fn unmount(&self) -> io::Result<()> {
        let start = Instant::now();
        loop {
            match unmount(self.target.as_str(), UnmountFlags::NOFOLLOW) {
                Err(Errno::BUSY) if start.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_micros(200));
                }
                result => {
                    result?;
                    break;
                }
            }
        }
        loopdev::wait_released(&self.device)
    }

    fn check(&self, found: &mut BringUpOutcome) -> Result<(), CrashError> {
        let mut command = self.system.check(&self.file);
        let output = command.output().map_err(CrashError::io(format!("run {command:?}")))?;
        if output.status.success() {
            return Ok(());
        }
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        if found.breaches.is_empty() {
            let first = text.lines().find(|line| is_telling(line)).unwrap_or("it ended with an error");
            found.breaches.push(Breach::new(Kind::Damaged, format!("checker: {}", first.trim())));
        }
        text.truncate(
            (0..=OUTPUT_MAX.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0),
        );
        found.output = text;
        Ok(())
    }
}

/// Whether a line of a checker's output says what is wrong.
fn is_telling(line: &str) -> bool {
    let routine = [
        "Pass ",
        "Phase ",
        "e2fsck ",
        "        - ",
        "[",
        "Opening ",
        "Checking ",
        "UUID",
        "Cannot get host ",
        "Repair may fail ",
        "the image and the host ",
    ];
    !line.trim().is_empty() && !routine.iter().any(|start| line.starts_with(start))
}

impl Drop for Worker {
    fn drop(&mut self) {
        let report = self.journal.undo_entries(&self.entries);
        if !report.is_clean() {
            tracing::warn!("not taken down cleanly:\n{report}");
        }
    }
}
