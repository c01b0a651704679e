//! `doctor`: what this machine can run, and what a killed run left behind.

use camino::{Utf8Path, Utf8PathBuf};
use host::Host;
use journal::{DeadMount, Journal, Leftover, MountState, Outcome, Resource};
use spec::StackSpec;
use stack::Availability;

use crate::console::{self, Exit};
use crate::options::{self, Options};

/// The stacks that are looked for.
const STACKS: [&str; 11] = [
    "ext4",
    "xfs",
    "btrfs",
    "tmpfs",
    "ext4@980pro",
    "betrfs",
    "fuse-limit",
    "f2fs",
    "bcachefs",
    "zfs",
    "f2fs@nvme+kernel:debian-6.12",
];

/// Looks, cleans up, and says what it found.
pub fn doctor(options: &Options, arguments: &options::Doctor) -> anyhow::Result<Exit> {
    let home = crate::run::home(options)?;
    console::print(&machine())?;
    console::print(&format!("results      {}", home.display()))?;
    console::print("\nstacks")?;
    for name in STACKS {
        let spec: StackSpec = name.parse()?;
        console::print(&format!("  {name:<12} {}", answer(lab::stack_factory::availability(&spec, false))))?;
    }
    console::print(
        "\nnetwork file systems: sshfs(STACK); others are mounted by you and measured as dir:PATH",
    )?;
    for (name, availability) in stack::network::clients(&Host::system()) {
        console::print(&format!("  {name:<12} {}", answer(availability)))?;
    }
    mounts()?;
    let Some(home) = Utf8Path::from_path(&home) else {
        return Err(console::bad_input("the home of results is not UTF-8"));
    };
    leftovers(home, arguments.dry_run)
}

/// The mounts of betrfs, and whether they take writes.
fn mounts() -> anyhow::Result<()> {
    let mounts = MountState::find(&Host::system())?;
    if !mounts.is_empty() {
        console::print("\nmounts of betrfs")?;
    }
    for MountState { target, source, state } in mounts {
        let state = state.as_deref().unwrap_or("does not answer");
        console::print(&format!("  {target}  {source}  {state}"))?;
    }
    Ok(())
}

fn answer(availability: Availability) -> String {
    match availability {
        Availability::Available => "yes".to_owned(),
        Availability::Unavailable(why) => format!("no: {why}"),
    }
}

fn machine() -> String {
    let environment = probe::capture(&probe::CaptureSubject::default());
    let yes = |result: Result<(), String>| result.map_or_else(|why| format!("no: {why}"), |()| "yes".into());
    let limits = host::cgroup::Hierarchy::detect(&Host::system()).map(drop).map_err(|why| why.to_string());
    let root = if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err("run as root for loop devices, mounts and memory limits; dir: stacks work without".to_owned())
    };
    let uring = engine::uring::available().map_err(|error| error.to_string());
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let memory = environment.memory.total_bytes.map_or("?".into(), units::format_bytes);
    let kernel = environment.kernel.release.clone().unwrap_or_else(|| "?".into());
    let mut text = format!(
        "kernel       {kernel}\ncores        {cores}\nmemory       {memory}\nroot         {}\nmemory limit {}\nio_uring     {}",
        yes(root),
        yes(limits),
        yes(uring)
    );
    for transport in blockdev::transport::available(&Host::system()) {
        let word = transport.obstacle.unwrap_or_else(|| "yes".into());
        text += &format!("\nssd {:<8} {word}", transport.name);
    }
    text
}

/// What killed runs left behind. What cannot be read or taken away is said, and does not keep the rest.
fn leftovers(home: &Utf8Path, dry_run: bool) -> anyhow::Result<Exit> {
    let mut findings =
        Findings { host: Host::system(), dry_run, known: Vec::new(), clean: true, found: false };
    let folder = lab::real::journal_folder(home);
    match Journal::leftovers(&folder) {
        Ok(leftovers) => leftovers.iter().try_for_each(|leftover| findings.leftover(leftover))?,
        Err(error) => findings.report_error(&error)?,
    }
    if !dry_run {
        if findings.clean {
            for name in blockdev::sweep(home)? {
                findings.found = true;
                console::print(&format!("\nremoved     directory of the emulated SSD {name}"))?;
            }
        }
        // nothing was made for these
        match Journal::sweep(&folder) {
            Ok(0) => {}
            Ok(number) => console::print(&format!("\nremoved     {number} unfinished journals"))?,
            Err(error) => findings.report_error(&error)?,
        }
        for left in trace::sweep() {
            findings.found = true;
            console::print(&format!("\nremoved     tracing instance {}", left.display()))?;
        }
    }
    // mounts made by hand are in no journal
    match DeadMount::find(&findings.host) {
        Ok(dead) => dead.iter().try_for_each(|dead| findings.dead_mount(dead))?,
        Err(error) => findings.report_error(&error)?,
    }
    if !findings.found && findings.clean {
        console::print(
            "\nnothing was left behind by a killed run, and no betrfs mount is without its daemon",
        )?;
    } else if dry_run {
        console::print("\n`loadline doctor` takes these down; nothing was changed now")?;
    }
    Ok(if findings.clean { Exit::Done } else { Exit::Failed })
}

/// What was found so far.
struct Findings {
    host: Host,
    dry_run: bool,
    /// Mount points that are in a journal.
    known: Vec<Utf8PathBuf>,
    /// Nothing that was found stays, as far as is known.
    clean: bool,
    found: bool,
}

impl Findings {
    /// Says what could not be looked at.
    fn report_error(&mut self, error: &dyn std::error::Error) -> anyhow::Result<()> {
        self.clean = false;
        console::print(&format!("\nFAILED      {error}"))
    }

    fn leftover(&mut self, leftover: &Leftover) -> anyhow::Result<()> {
        self.found = true;
        console::print(&format!("\n{leftover}"))?;
        if self.dry_run {
            let target = |resource: &Resource| match resource {
                Resource::Mount { target, .. } => Some(target.clone()),
                _ => None,
            };
            self.known.extend(leftover.resources.iter().filter_map(target));
            return Ok(());
        }
        match leftover.clean() {
            Ok(report) => {
                self.clean &= !report.has_failures() && leftover.damage.is_none();
                console::print(&report.to_string())
            }
            // said above
            Err(_) if leftover.damage.is_some() => {
                self.clean = false;
                Ok(())
            }
            Err(error) => self.report_error(&error),
        }
    }

    fn dead_mount(&mut self, dead: &DeadMount) -> anyhow::Result<()> {
        if self.known.contains(&dead.target) {
            return Ok(());
        }
        self.found = true;
        console::print(&format!("\n{dead}"))?;
        if self.dry_run {
            return Ok(());
        }
        let (word, why) = match dead.unmount(&self.host) {
            Outcome::Undone => ("removed     ", String::new()),
            Outcome::AlreadyGone => ("gone before ", String::new()),
            Outcome::Deferred(why) => ("deferred    ", format!(": {why}")),
            Outcome::LeftAlone(why) => ("left alone  ", format!(": {why}")),
            Outcome::Failed(why) => {
                self.clean = false;
                ("FAILED      ", format!(": {why}"))
            }
        };
        console::print(&format!("{word}mount of {} at {}{why}", dead.source, dead.target))
    }
}
