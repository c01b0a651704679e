//! CPU that others took: processes that are neither the trial's nor the kernel's.
//!
//! The trial's are the tree below the outermost process of this program, and this program's daemons (FUSE, emulated SSDs), which
//! are children of init; of ranks those that the same launcher started. Threads of the kernel are nobody's: flushers, loop devices and FUSE queues work for the load.
//! proc_pid_stat(5) gives each process's CPU time and that of the children it has waited for, so that the sum over living
//! processes holds what a compiler's short-lived children took as well. A process that its parent does not wait for is lost
//! with its end: the figure is a lower bound.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use host::process::Stat;
use serde::{Deserialize, Serialize};

use crate::root::Root;

/// Flag of a kernel thread (include/linux/sched.h, PF_KTHREAD).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Init, which takes over what has lost its parent.
const INIT: u32 = 1;

/// What the trial's processes are known by.
#[derive(Debug, Clone)]
pub struct TrialProcesses {
    /// Any process of the trial; the outermost one above it that runs the same program is the trial's root.
    pub pid: u32,
    /// Its program; `None`: daemons are not told apart.
    pub program: Option<Executable>,
    /// A launcher started copies of the program beside this process, and all are the trial's: the ranks of a host.
    pub ranks: bool,
}

impl TrialProcesses {
    /// This process.
    pub fn of_this_process() -> TrialProcesses {
        let program = Executable::of(Path::new("/proc/self/exe"));
        TrialProcesses { pid: std::process::id(), program, ranks: false }
    }

    /// This process and the ranks that the same launcher started on this host.
    pub fn ranks() -> TrialProcesses {
        TrialProcesses { ranks: true, ..TrialProcesses::of_this_process() }
    }
}

/// A program's file. Its path would differ within a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executable {
    device: u64,
    inode: u64,
}

impl Executable {
    /// The file at that path.
    pub fn of(path: &Path) -> Option<Executable> {
        let found = std::fs::metadata(path).ok()?;
        Some(Executable { device: found.dev(), inode: found.ino() })
    }
}

/// A line of /proc/PID/stat.
struct Process {
    parent: u32,
    /// CPU time of it, in clock ticks.
    own_ticks: u64,
    /// CPU time of the children it has waited for, in clock ticks.
    children_ticks: u64,
    in_kernel: bool,
    /// It has ended, and its parent has not waited for it yet: nothing says any more which program it was.
    is_zombie: bool,
}

/// CPU time of all processes but init's children that are gone, at one moment: in clock ticks, by process number.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Processes {
    ours: BTreeMap<u32, u64>,
    others: BTreeMap<u32, u64>,
}

impl Processes {
    /// CPU seconds that others took from this sample to a later one. What was the trial's, and is so no longer since its parent has
    /// gone, counts from here on.
    pub fn others_until(&self, later: &Processes) -> f64 {
        let left_us = later.others.keys().filter_map(|pid| self.ours.get(pid));
        let before = self.others.values().sum::<u64>() + left_us.sum::<u64>();
        let ticks = later.others.values().sum::<u64>().saturating_sub(before);
        ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64
    }
}

/// Reads the CPU time of all processes. `None` when /proc cannot be read.
pub fn sample(root: &Root, own: &TrialProcesses) -> Option<Processes> {
    let names = root.names("/proc");
    let processes: BTreeMap<u32, Process> = names
        .iter()
        .filter_map(|name| Some((name.parse().ok()?, parse(&root.text(format!("/proc/{name}/stat"))?)?)))
        .collect();
    if processes.is_empty() {
        return None;
    }
    let runs_ours = |pid: u32| {
        let exe = || Executable::of(&root.path(format!("/proc/{pid}/exe")));
        own.program.is_some() && exe() == own.program
    };
    let mut top = own.pid;
    while let Some(parent) = processes.get(&top).map(|process| process.parent)
        && processes.contains_key(&parent)
        && runs_ours(parent)
    {
        top = parent;
    }
    let launcher = processes.get(&top).map(|process| process.parent).filter(|_| own.ranks);
    let adopts = |parent: u32| parent == INIT || Some(parent) == launcher;
    let mut ours: BTreeSet<u32> = processes
        .iter()
        .filter(|(pid, process)| **pid == top || (adopts(process.parent) && runs_ours(**pid)))
        .map(|(pid, _)| *pid)
        .collect();
    // a child may have a smaller number than its parent, so until nothing is new
    loop {
        let children = |(pid, process): (&u32, &Process)| (ours.contains(&process.parent)).then_some(*pid);
        let more: Vec<u32> =
            processes.iter().filter_map(children).filter(|pid| !ours.contains(pid)).collect();
        if more.is_empty() {
            break;
        }
        ours.extend(more);
    }
    // whose children init has waited for, nobody knows: those of containers are the load's
    let ticks = |pid: u32, process: &Process| {
        process.own_ticks + if pid == INIT { 0 } else { process.children_ticks }
    };
    let mut all = Processes::default();
    // the same goes for those that init has still to wait for
    let is_lost = |process: &Process| process.is_zombie && process.parent == INIT;
    for (pid, process) in processes.iter().filter(|(_, process)| !process.in_kernel && !is_lost(process)) {
        let of = if ours.contains(pid) { &mut all.ours } else { &mut all.others };
        of.insert(*pid, ticks(*pid, process));
    }
    Some(all)
}

fn parse(stat: &str) -> Option<Process> {
    let stat = Stat::parse(stat)?;
    Some(Process {
        parent: stat.field(4)?,
        own_ticks: (14..=15).filter_map(|field| stat.field::<u64>(field)).sum(),
        children_ticks: (16..=17).filter_map(|field| stat.field::<u64>(field)).sum(),
        in_kernel: stat.field::<u64>(9)? & KERNEL_THREAD != 0,
        is_zombie: stat.field(3) == Some('Z'),
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A line of `stat` with a name that tries to confuse.
    fn line(pid: u32, parent: u32, flags: u64, times: [u64; 4]) -> String {
        let [a, b, c, d] = times;
        format!("{pid} (a) S (b) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {a} {b} {c} {d} 20 0 1 0 77 0 0")
    }

    #[test]
    fn what_is_below_the_outermost_process_of_the_program_is_not_others() {
        let folder = tempfile::tempdir().unwrap();
        let process = |pid: u32, parent: u32, flags: u64, program: &str, times: [u64; 4]| {
            let home = folder.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&home).unwrap();
            std::fs::write(home.join("stat"), line(pid, parent, flags, times)).unwrap();
            let program = folder.path().join(program);
            std::fs::write(&program, "").unwrap();
            std::os::unix::fs::symlink(program, home.join("exe")).unwrap();
        };
        process(1, 0, 0, "init", [1, 0, 500, 500]);
        process(2, 0, KERNEL_THREAD, "none", [1000, 0, 0, 0]);
        process(10, 1, 0, "sh", [2, 2, 0, 0]);
        process(20, 10, 0, "loadline", [1000, 0, 0, 0]);
        process(21, 20, 0, "loadline", [1000, 1000, 0, 0]);
        process(5, 21, 0, "redis", [1000, 0, 0, 0]);
        process(30, 1, 0, "loadline", [1000, 0, 0, 0]);
        process(40, 10, 0, "make", [5, 5, 300, 40]);
        // a container's process that has ended, and that init has not waited for
        let ended = line(60, 1, 0, [700, 0, 0, 0]).replace(" S 1 ", " Z 1 ");
        std::fs::create_dir_all(folder.path().join("proc/60")).unwrap();
        std::fs::write(folder.path().join("proc/60/stat"), ended).unwrap();
        // another loadline competes as any other program does
        process(50, 10, 0, "loadline", [45, 0, 0, 0]);
        let root = Root::at(folder.path());
        let seconds = |own: &TrialProcesses| Some(Processes::default().others_until(&sample(&root, own)?));
        let second = rustix::param::clock_ticks_per_second() as f64;
        let program = Executable::of(&folder.path().join("loadline"));
        assert!(program.is_some());
        let own = TrialProcesses { pid: 21, program, ranks: false };
        assert_eq!(seconds(&own), Some((1.0 + 4.0 + 350.0 + 45.0) / second));
        let ranks = TrialProcesses { ranks: true, ..own.clone() };
        assert_eq!(seconds(&ranks), Some((1.0 + 4.0 + 350.0) / second), "started by the same launcher");
        let nowhere = tempfile::tempdir().unwrap();
        assert_eq!(sample(&Root::at(nowhere.path()), &own), None);
        // a server whose parent has died is a stranger from then on, with what it takes from then on
        let before = sample(&root, &own).unwrap();
        std::fs::write(folder.path().join("proc/5/stat"), line(5, 1, 0, [1000, 30, 0, 0])).unwrap();
        let after = sample(&root, &own).unwrap();
        assert_eq!(before.others_until(&after), 30.0 / second);
    }

    #[test]
    fn a_child_is_ours_and_a_strangers_work_is_others() {
        // it works for itself, and then waits: what it took does not grow any more
        let mut child = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; read x"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
            .unwrap();
        let of_child =
            parse(&std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap()).unwrap();
        assert!(of_child.own_ticks >= 2, "{} ticks", of_child.own_ticks);
        // of all processes only the child is somebody's: with it as ours nothing of it is left
        let alone = tempfile::tempdir().unwrap();
        std::fs::create_dir(alone.path().join("proc")).unwrap();
        let (from, to) = (format!("/proc/{}", child.id()), alone.path().join(format!("proc/{}", child.id())));
        std::os::unix::fs::symlink(from, to).unwrap();
        let root = Root::at(alone.path());
        let stranger = TrialProcesses { pid: std::process::id(), program: None, ranks: false };
        let seconds = |own: &TrialProcesses| Processes::default().others_until(&sample(&root, own).unwrap());
        assert!(seconds(&stranger) > 0.0);
        assert_eq!(seconds(&TrialProcesses { pid: child.id(), program: None, ranks: false }), 0.0);
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
