//! `doctor`: what this machine can run, and what a killed run left behind.

use camino::Utf8Path;
use spec::StackSpec;
use stack::{Availability, DeadMount, Host, Journal, Outcome, Resource, probe_availability};

use crate::options::{self, Options};
use crate::screen::{self, Exit};

/// The stacks that are looked for.
const STACKS: [&str; 9] =
    ["ext4", "xfs", "btrfs", "tmpfs", "ext4@980pro", "betrfs", "f2fs", "bcachefs", "zfs"];

/// Looks, cleans up, and says what it found.
pub fn doctor(options: &Options, arguments: &options::Doctor) -> anyhow::Result<Exit> {
    let home = crate::run::home(options)?;
    screen::print(&machine())?;
    screen::print(&format!("results      {}", home.display()))?;
    screen::print("\nstacks")?;
    for name in STACKS {
        let spec: StackSpec = name.parse()?;
        let line = match probe_availability(&spec) {
            Availability::Available => "yes".to_owned(),
            Availability::Unavailable(why) => format!("no: {why}"),
        };
        screen::print(&format!("  {name:<12} {line}"))?;
    }
    let Some(home) = Utf8Path::from_path(&home) else {
        return Err(screen::bad_input("the home of results is not UTF-8"));
    };
    leftovers(home, arguments.dry_run)
}

fn machine() -> String {
    let environment = probe::capture(&probe::Subject::default());
    let yes = |result: Result<(), String>| result.map_or_else(|why| format!("no: {why}"), |()| "yes".into());
    let limits = stack::cgroup::Hierarchy::detect(&Host::system()).map(drop).map_err(|why| why.to_string());
    let root = if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err("run as root for loop devices, mounts and memory limits; dir: stacks work without".to_owned())
    };
    let uring = engine::uring::available().map_err(|error| error.to_string());
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let memory = environment.memory.total_bytes.map_or("?".into(), workload::size::format_bytes);
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

fn leftovers(home: &Utf8Path, dry_run: bool) -> anyhow::Result<Exit> {
    let host = Host::system();
    let leftovers = Journal::leftovers(&lab::real::journal_folder(home))?;
    let mut known = Vec::new();
    let (mut clean, mut found) = (true, !leftovers.is_empty());
    for leftover in leftovers {
        screen::print(&format!("\n{leftover}"))?;
        if dry_run {
            let target = |resource: &Resource| match resource {
                Resource::Mount { target, .. } => Some(target.clone()),
                _ => None,
            };
            known.extend(leftover.resources.iter().filter_map(target));
        } else {
            let report = leftover.clean()?;
            clean &= !report.has_failures();
            screen::print(&report.to_string())?;
        }
    }
    // mounts made by hand are in no journal
    for dead in DeadMount::find(&host)?.into_iter().filter(|dead| !known.contains(&dead.target)) {
        found = true;
        screen::print(&format!("\n{dead}"))?;
        if !dry_run {
            let (word, why) = match dead.unmount(&host) {
                Outcome::Undone => ("removed     ", String::new()),
                Outcome::AlreadyGone => ("gone before ", String::new()),
                Outcome::Deferred(why) => ("deferred    ", format!(": {why}")),
                Outcome::LeftAlone(why) => ("left alone  ", format!(": {why}")),
                Outcome::Failed(why) => {
                    clean = false;
                    ("FAILED      ", format!(": {why}"))
                }
            };
            screen::print(&format!("{word}mount of {} at {}{why}", dead.source, dead.target))?;
        }
    }
    if !found {
        screen::print(
            "\nnothing was left behind by a killed run, and no betrfs mount is without its daemon",
        )?;
    } else if dry_run {
        screen::print("\n`loadline doctor` takes these down; nothing was changed now")?;
    }
    Ok(if clean { Exit::Done } else { Exit::Failed })
}
