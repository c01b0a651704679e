//! The guests of a session. One that serves is kept for all trials of its kernel: they follow each other, each on a file
//! system that is made anew. A deterministic one begins each trial where its boot ended.

use std::time::Instant;

use camino::{Utf8Path, Utf8PathBuf};
use guest::accel::{self, Accelerator, Choice};
use guest::devices::Disk;
use guest::image::{self, Image};
use guest::kernel::{self, Kernel};
use guest::setup::{MEMORY_MIB, Mode, Setup};
use guest::{GuestError, Machine};
use host::Host;
use journal::PrivateTree;
use spec::Guest;
use study::environment;
use study::results::Status;

use super::context::{BOOT_PATIENCE, GuestContext, report_progress};
use super::errand;
use super::executor::{Task, ask};
use crate::protocol::Instruction;
use crate::runner::{Job, Progress, Report};

/// Guests that serve at the same time: two kernels are compared block by block, and each is waiting while the other works.
const SERVING_MAX: usize = 2;
/// Console logs that are kept.
const CONSOLES_MAX: usize = 40;

/// The guests of a session.
#[derive(Debug, Default)]
pub struct Guests {
    /// The one that was used last is the last.
    serving: Vec<Serving>,
    /// What is known of kernels by name: found once a session.
    kernels: Vec<(String, Kernel, Image)>,
    /// What executes a kernel, by its file.
    choices: Vec<(Utf8PathBuf, Choice)>,
    booted: u32,
}

/// A guest that serves.
#[derive(Debug)]
pub(super) struct Serving {
    kernel: Guest,
    disk: Option<Disk>,
    cores: usize,
    pub(super) facts: environment::Guest,
    // before its directory, which holds its disk
    pub(super) machine: Machine,
    _tree: PrivateTree,
}

impl Guests {
    /// Runs a trial whose stack names a guest.
    pub(crate) fn run(&mut self, job: &Job<'_>, mut means: GuestContext<'_>) -> Report {
        let start = Instant::now();
        let mut report = match self.trial(job, &mut means) {
            Ok(report) => report,
            Err(error) => {
                // it is in no state to run another one
                self.serving.retain(|serving| Some(&serving.kernel) != job.stack.guest());
                Report::empty(match error.unavailable() {
                    _ if means.stopped() => Status::Interrupted,
                    Some(why) => {
                        Status::Unavailable { reason: why.reason.clone(), remedy: why.remedy.clone() }
                    }
                    None => Status::Failed { message: error.to_string() },
                })
            }
        };
        report.seconds = start.elapsed().as_secs_f64();
        report
    }

    fn trial(&mut self, job: &Job<'_>, means: &mut GuestContext<'_>) -> Result<Report, GuestError> {
        let Some(guest) = job.stack.guest() else {
            return Err(GuestError::Device("the stack names no guest".into()));
        };
        let (kernel, image) = self.kernel(guest, means)?;
        match guest.seed {
            Some(seed) => {
                // the same seed for the same trial of every cell, as for the load's own
                let seed = seed.wrapping_add(u64::from(job.slot.index));
                let console = self.console(job.run, means.site.home())?;
                let facts = facts(&kernel, &image, &tcg(), Some(seed));
                let mode = Mode::Deterministic { seed, phase: guest::setup::Phase::Boot };
                let setup = Setup { kernel, image, parameters: guest.parameters.clone(), mode };
                errand::once(job, means, seed, &console, facts, &setup)
            }
            None => {
                let (disk, cores) = (guest::devices::disk(job.stack), guest::devices::cores(job.stack));
                let mode = Mode::Normal { accelerator: Accelerator::Tcg, disk: None, cores };
                let setup = Setup { kernel, image, parameters: guest.parameters.clone(), mode };
                // a trial is the same whichever others its guest has served: the processors are those of its own stack
                let cores = setup.cores();
                let fits = |serving: &Serving| {
                    serving.kernel == *guest
                        && serving.cores == cores
                        && (disk.is_none() || serving.disk == disk)
                };
                let serving = match self.serving.iter().position(fits) {
                    Some(at) => self.serving.remove(at),
                    None => {
                        while self.serving.len() >= SERVING_MAX {
                            self.serving.remove(0).end();
                        }
                        let disk = disk.or_else(|| disk_of_others(job, guest, cores));
                        self.boot(job.run, guest, setup, disk, means)?
                    }
                };
                self.serving.push(serving);
                let Some(serving) = self.serving.last_mut() else {
                    return Err(GuestError::Device("no guest".into()));
                };
                errand::served(job, means, &mut serving.machine, &serving.facts)
            }
        }
    }

    pub(super) fn kernel(
        &mut self,
        guest: &Guest,
        means: &mut GuestContext<'_>,
    ) -> Result<(Kernel, Image), GuestError> {
        if let Some((_, kernel, image)) = self.kernels.iter().find(|(name, ..)| *name == guest.kernel) {
            return Ok((kernel.clone(), image.clone()));
        }
        let home = means.site.home().to_owned();
        let kernel = kernel::find(&home, &guest.kernel, means.journal, &mut |text| {
            report_progress(means.progress, text)
        })?;
        let program = std::env::current_exe().map_err(GuestError::at("the path of this program"))?;
        let program = Utf8PathBuf::from_path_buf(program)
            .map_err(|path| GuestError::Device(format!("{} is not UTF-8", path.display())))?;
        let image = image::find(&home, &kernel, &program, means.journal)?;
        self.kernels.push((guest.kernel.clone(), kernel.clone(), image.clone()));
        Ok((kernel, image))
    }

    pub(super) fn boot(
        &mut self,
        run: &str,
        guest: &Guest,
        setup: Setup,
        disk: Option<Disk>,
        means: &mut GuestContext<'_>,
    ) -> Result<Serving, GuestError> {
        (means.progress)(Progress::Building);
        let tree = means.tree()?;
        let choice = self.choice(&setup.kernel, &tree, means);
        let file = disk.map(|disk| {
            let path = tree.path().join("nvme");
            let made = std::fs::File::create_new(&path).and_then(|file| file.set_len(disk.bytes));
            made.map_err(GuestError::at(path.as_str())).map(|()| (path, disk.queues))
        });
        let cores = setup.cores();
        let mode = Mode::Normal { accelerator: choice.accelerator, disk: file.transpose()?, cores };
        let setup = Setup { mode, ..setup };
        let facts = facts(&setup.kernel, &setup.image, &choice, None);
        let console = self.console(run, means.site.home())?;
        let facts = environment::Guest { cores: Some(cores as u32), ..facts };
        let start = Instant::now();
        let mut machine = Machine::boot(&setup, &console, means.journal)?;
        let stop = means.stop;
        ask(&mut machine, Task::Boot, BOOT_PATIENCE, stop, means)?;
        means.report(&format!(
            "guest {} booted in {:.1} s under {}",
            setup.kernel.release,
            start.elapsed().as_secs_f64(),
            choice.accelerator.name()
        ));
        Ok(Serving { kernel: guest.clone(), disk, cores, facts, machine, _tree: tree })
    }

    /// What executes this kernel here; it is told once why it is not KVM.
    fn choice(&mut self, kernel: &Kernel, tree: &PrivateTree, means: &mut GuestContext<'_>) -> Choice {
        if let Some((_, choice)) = self.choices.iter().find(|(path, _)| *path == kernel.vmlinuz) {
            return choice.clone();
        }
        let choice = accel::choose(&Host::system(), &kernel.vmlinuz, tree);
        if let Some(why) = &choice.why {
            means.report(&format!("{why}; using TCG, results are labelled so"));
        }
        self.choices.push((kernel.vmlinuz.clone(), choice.clone()));
        choice
    }

    /// The file for the console of the next guest; the oldest ones go.
    fn console(&mut self, run: &str, home: &Utf8Path) -> Result<Utf8PathBuf, GuestError> {
        let folder = home.join("consoles");
        std::fs::create_dir_all(&folder).map_err(GuestError::at(folder.as_str()))?;
        let mut logs: Vec<Utf8PathBuf> = folder
            .read_dir_utf8()
            .map_err(GuestError::at(folder.as_str()))?
            .flatten()
            .map(|entry| entry.path().to_owned())
            .filter(|path| path.extension() == Some("log"))
            .collect();
        // names begin with the time of their run
        logs.sort();
        logs.iter().rev().skip(CONSOLES_MAX - 1).for_each(|log| {
            let _ = std::fs::remove_file(log);
        });
        self.booted += 1;
        Ok(folder.join(format!("{run}-{:03}.log", self.booted)))
    }

    /// Ends what runs.
    pub(crate) fn end(&mut self) {
        self.serving.drain(..).for_each(Serving::end);
    }
}

impl Serving {
    /// Tells it to switch itself off, and waits for that.
    pub(super) fn end(mut self) {
        let told = self.machine.send(&Instruction::End).is_ok();
        self.machine.end(told);
    }
}

/// The disk that another stack of the study needs in the same guest, which has this many processors: it is there from the
/// beginning.
fn disk_of_others(job: &Job<'_>, guest: &Guest, cores: usize) -> Option<Disk> {
    let stacks = study::plan::stacks(job.study);
    let same =
        |stack: &&spec::StackSpec| stack.guest() == Some(guest) && guest::devices::cores(stack) <= cores;
    stacks.iter().filter(same).find_map(guest::devices::disk)
}

fn tcg() -> Choice {
    Choice { accelerator: Accelerator::Tcg, why: None }
}

fn facts(kernel: &Kernel, image: &Image, choice: &Choice, seed: Option<u64>) -> environment::Guest {
    environment::Guest {
        accelerator: Some(choice.accelerator.name().to_string()),
        why: choice.why.clone(),
        kernel: kernel.package.clone().or_else(|| Some(kernel.vmlinuz.to_string())),
        image: Some(image.checksum.clone()),
        qemu: guest::setup::version(),
        memory_mib: Some(MEMORY_MIB),
        cores: Some(1),
        seed,
        raw_data: None,
    }
}
