//! CPU that others took: processes that are neither the trial's nor the kernel's.
//!
//! The trial's are the tree below the outermost process of this program, and this program's daemons (FUSE, emulated SSDs), which
//! are children of init. Threads of the kernel are nobody's: flushers, loop devices and FUSE queues work for the load.
//! proc_pid_stat(5) gives each process's CPU time and that of the children it has waited for, so that the sum over living
//! processes holds what a compiler's short-lived children took as well. A process that its parent does not wait for is lost
//! with its end: the figure is a lower bound.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use host::process::Stat;

use crate::root::Root;

/// Flag of a kernel thread (include/linux/sched.h, PF_KTHREAD).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Init, which takes over what has lost its parent.
const INIT: u32 = 1;

/// What the trial's processes are known by.
#[derive(Debug, Clone)]
pub struct Own {
    /// Any process of the trial; the outermost one above it that runs the same program is the trial's root.
    pub pid: u32,
    /// Its program; `None`: daemons are not told apart.
    pub program: Option<PathBuf>,
}

impl Own {
    /// This process.
    pub fn this() -> Own {
        Own { pid: std::process::id(), program: std::fs::read_link("/proc/self/exe").ok() }
    }
}

/// A line of /proc/PID/stat.
struct Process {
    parent: u32,
    /// CPU time of it and of the children it has waited for, in clock ticks.
    ticks: u64,
    in_kernel: bool,
}

/// CPU seconds that other processes have taken since they began; of use is only by how much it grows. `None` when /proc
/// cannot be read.
pub fn cpu_seconds(root: &Root, own: &Own) -> Option<f64> {
    let names = root.names("/proc");
    let processes: BTreeMap<u32, Process> = names
        .iter()
        .filter_map(|name| Some((name.parse().ok()?, parse(&root.text(format!("/proc/{name}/stat"))?)?)))
        .collect();
    if processes.is_empty() {
        return None;
    }
    let runs_ours = |pid: u32| {
        let exe = || std::fs::read_link(root.path(format!("/proc/{pid}/exe"))).ok();
        own.program.is_some() && exe() == own.program
    };
    let mut top = own.pid;
    while let Some(parent) = processes.get(&top).map(|process| process.parent)
        && processes.contains_key(&parent)
        && runs_ours(parent)
    {
        top = parent;
    }
    let mut ours: BTreeSet<u32> = processes
        .iter()
        .filter(|(pid, process)| **pid == top || (process.parent == INIT && runs_ours(**pid)))
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
    let others = processes.iter().filter(|(pid, process)| !process.in_kernel && !ours.contains(pid));
    let ticks: u64 = others.map(|(_, process)| process.ticks).sum();
    Some(ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64)
}

fn parse(stat: &str) -> Option<Process> {
    let stat = Stat::parse(stat)?;
    Some(Process {
        parent: stat.field(4)?,
        ticks: (14..=17).filter_map(|field| stat.field::<u64>(field)).sum(),
        in_kernel: stat.field::<u64>(9)? & KERNEL_THREAD != 0,
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
            std::os::unix::fs::symlink(program, home.join("exe")).unwrap();
        };
        process(1, 0, 0, "/init", [1, 0, 0, 0]);
        process(2, 0, KERNEL_THREAD, "/none", [1000, 0, 0, 0]);
        process(10, 1, 0, "/bin/sh", [2, 2, 0, 0]);
        process(20, 10, 0, "/loadline", [1000, 0, 0, 0]);
        process(21, 20, 0, "/loadline", [1000, 1000, 0, 0]);
        process(5, 21, 0, "/usr/bin/redis", [1000, 0, 0, 0]);
        process(30, 1, 0, "/loadline", [1000, 0, 0, 0]);
        process(40, 10, 0, "/usr/bin/make", [5, 5, 300, 40]);
        // another loadline competes as any other program does
        process(50, 10, 0, "/loadline", [45, 0, 0, 0]);
        let root = Root::at(folder.path());
        let second = rustix::param::clock_ticks_per_second() as f64;
        let own = Own { pid: 21, program: Some("/loadline".into()) };
        assert_eq!(cpu_seconds(&root, &own), Some((1.0 + 4.0 + 350.0 + 45.0) / second));
        let nowhere = tempfile::tempdir().unwrap();
        assert_eq!(cpu_seconds(&Root::at(nowhere.path()), &own), None);
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
        assert!(of_child.ticks >= 2, "{} ticks", of_child.ticks);
        // of all processes only the child is somebody's: with it as ours nothing of it is left
        let alone = tempfile::tempdir().unwrap();
        std::fs::create_dir(alone.path().join("proc")).unwrap();
        let (from, to) = (format!("/proc/{}", child.id()), alone.path().join(format!("proc/{}", child.id())));
        std::os::unix::fs::symlink(from, to).unwrap();
        let root = Root::at(alone.path());
        let stranger = Own { pid: std::process::id(), program: None };
        assert!(cpu_seconds(&root, &stranger).unwrap() > 0.0);
        assert_eq!(cpu_seconds(&root, &Own { pid: child.id(), program: None }), Some(0.0));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
