//! The same load by a process, by containers and by ranks: one measurement of the machine, one way to end.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::Launch;
use lab::ranks::{RendezvousConfig, TargetSharing, Transport};
use lab::runner::{Job, Progress, Report, Runner};
use lab::trial::process::Program;
use lab::{RealRunner, StackFactory};
use needs::needs;
use rustix::process::{Pid, Signal, kill_process};
use study::plan::{self, Slot};
use study::results::Status;

const SCRIPT: &str = "
define fileset name=f, path=/x, entries=20, size=4k, prealloc=100
define process name=p, instances=1 {
  thread name=t, memsize=1m, instances=1 {
    flowop openfile name=open, filesetname=f, fd=1
    flowop readwholefile name=read, fd=1, iosize=4k
    flowop closefile name=close, fd=1
  }
}
run 60
";

/// Not a test of its own: the worker that the trials below start.
#[test]
#[ignore = "no test: started by the other tests"]
fn child() {
    std::process::exit(i32::from(lab::worker::main()));
}

/// Who executes the load.
#[derive(Debug, Clone, Copy)]
enum By {
    Process,
    Containers(u32),
    Ranks(u32),
}

/// All of them.
const ALL: [By; 5] = [By::Process, By::Containers(1), By::Containers(4), By::Containers(16), By::Ranks(4)];

impl By {
    fn number(self) -> usize {
        match self {
            By::Process => 1,
            By::Containers(number) | By::Ranks(number) => number as usize,
        }
    }

    /// How a message about one of the workers begins and ends.
    fn is_named(self, message: &str) -> bool {
        let (begin, end) = match self {
            By::Process => ("the trial's process ended without a result", ""),
            By::Containers(1) => ("container 0 of 1 ended without a result", ""),
            By::Containers(_) => ("container ", "; the others were ended"),
            By::Ranks(_) => ("rank ", "; the others were ended"),
        };
        message.starts_with(begin) && message.contains(" ended without a result") && message.ends_with(end)
    }
}

/// No two trials have the same.
fn marker() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("no-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// The workers with that marker in their arguments.
fn workers(marker: &str) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let is_one = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // runc and the first process of plain namespaces have other words
        String::from_utf8_lossy(&words).split('\0').any(|word| word == marker)
    };
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_one).collect()
}

/// Runs a trial. `sampled` hears of the machine's samples; `running` gets the workers once the gate has been opened.
fn trial(
    by: By,
    settings: &str,
    stop: &AtomicBool,
    sampled: Option<Arc<dyn Fn(bool) + Send + Sync>>,
    running: &mut dyn FnMut(&[i32]),
) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let home = camino::Utf8Path::from_path(folder.path()).unwrap();
    std::fs::create_dir(folder.path().join("target")).unwrap();
    let marker = marker();
    let arguments = [&common::one_test("child")[..], &["--skip", &marker]].concat();
    let mut program = Program::new(std::env::current_exe().unwrap(), &arguments);
    program.grace = Duration::from_secs(5);
    let mut runner = RealRunner::new(StackFactory::new(home, &home.join("work")).unwrap(), &marker).unwrap();
    runner.program = program.clone();
    runner.sampled = sampled;
    let (stack, containers) = match by {
        By::Process => ("tmpfs".to_string(), String::new()),
        By::Containers(number) => ("tmpfs".to_string(), format!("containers = [{number}]")),
        By::Ranks(_) => (format!("dir:{home}/target"), String::new()),
    };
    let study = common::study(&format!(
        "stacks = ['{stack}']\n[study]\n{settings}\n{containers}\n[[workload]]\nname = 'w'\ntext = '''{SCRIPT}'''\n"
    ));
    let (cells, loads) = (plan::cells(&study), common::loads(&study));
    let job = Job {
        run: &marker,
        slot: Slot { cell: 0, index: 0, order: 0 },
        cell: &cells[0],
        stack: &study.stacks[0],
        workload: &study.workloads[0],
        load: loads.of(&cells[0]).unwrap(),
        study: &study,
        rate: None,
        last: true,
    };
    let meeting = |rank, size| RendezvousConfig {
        folder: folder.path().join("rendezvous"),
        launch: Launch { rank, size, on_this_host: Some(size), launcher: "test", job: Some(marker.clone()) },
        transport: Transport::Tcp,
        plan: "the same".into(),
        home: home.to_path_buf().into(),
        program: program.clone(),
    };
    let mut has_begun = false;
    let mut progress = |progress: Progress| {
        let is_running =
            matches!(progress, Progress::Engine(engine::Event::Running { elapsed_seconds: 0.0.., .. }));
        if is_running && !std::mem::replace(&mut has_begun, true) {
            running(&workers(&marker));
        }
    };
    let report = std::thread::scope(|scope| {
        if let By::Ranks(size) = by {
            std::fs::create_dir(folder.path().join("rendezvous")).unwrap();
            for rank in 1..size {
                let meeting = meeting(rank, size);
                scope.spawn(move || meeting.serve().unwrap());
            }
            runner.use_ranks(meeting(0, size).gather_ranks(TargetSharing::PerRank).unwrap());
        }
        let report = runner.run(&job, stop, &mut progress);
        assert!(runner.journal().is_empty(), "{by:?}: nothing stays in the journal");
        // ranks go when their leader does
        drop(runner);
        report
    });
    assert_eq!(workers(&marker), [0; 0], "{by:?}: no worker is left");
    assert!(is_empty(&folder.path().join("target")), "{by:?}: nothing stays on the target");
    report
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Busy CPU seconds of the machine, as proc_stat(5) has them.
fn busy_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks: Vec<f64> =
        stat.lines().next().unwrap().split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let busy: f64 = [0, 1, 2, 5, 6].iter().map(|at| ticks[*at]).sum();
    busy / rustix::param::clock_ticks_per_second() as f64
}

#[test]
fn the_machine_did_the_same_whoever_executes_the_load() {
    needs!(Root, Mounts, MemoryCgroup, Runc);
    for by in ALL {
        // before and after the sample at the begin, and the one at the end
        let samples = Arc::new(Mutex::new(Vec::new()));
        let taken = samples.clone();
        let sampled: Arc<dyn Fn(bool) + Send + Sync> =
            Arc::new(move |is_over| taken.lock().unwrap().push((is_over, busy_seconds())));
        let settings = "seconds = 1\nwarmup = 0.2";
        let report = trial(by, settings, &AtomicBool::new(false), Some(sampled), &mut |_| {});
        assert_eq!(report.status, Status::Done, "{by:?}: {report:?}");
        let outcome = report.outcome.unwrap();
        let all = |name: &str| -> Vec<f64> {
            let of = outcome.metrics.iter().filter(|metric| metric.name == name);
            of.map(|metric| metric.value).collect()
        };
        let samples = samples.lock().unwrap().clone();
        let order: Vec<bool> = samples.iter().map(|(is_over, _)| *is_over).collect();
        assert_eq!(order, [false, true, false, true], "{by:?}: the machine is sampled twice");
        let (least, most) = (samples[2].1 - samples[1].1, samples[3].1 - samples[0].1);
        let [machine] = all("machine_cpu_seconds")[..] else { panic!("{by:?}: {:?}", outcome.metrics) };
        assert!(
            machine >= 0.98 * least && machine <= 1.02 * most,
            "{by:?}: {machine} of {least} to {most} CPU seconds"
        );
        for name in ["counted_seconds", "others_cpu_seconds", "additions_per_second", "yardstick_per_second"]
        {
            assert_eq!(all(name).len(), 1, "{by:?}: {name} {:?}", outcome.metrics);
        }
        let (user, system) = (all("cpu_user_seconds"), all("cpu_system_seconds"));
        assert!(user.len() == 1 && user[0] + system[0] > 0.0, "{by:?}: {user:?} {system:?}");
    }
}

#[test]
fn a_worker_that_dies_ends_the_trial_the_same_way_everywhere() {
    needs!(Root, Mounts, MemoryCgroup, Runc);
    for by in ALL {
        let mut found = 0;
        let report = trial(by, "", &AtomicBool::new(false), None, &mut |workers| {
            found = workers.len();
            kill_process(Pid::from_raw(workers[0]).unwrap(), Signal::KILL).unwrap();
        });
        assert_eq!(found, by.number(), "{by:?}");
        let Status::Failed { message } = &report.status else { panic!("{by:?}: {report:?}") };
        assert!(by.is_named(message), "{by:?}: {message}");
    }
}

#[test]
fn the_users_wish_ends_the_trial_the_same_way_everywhere() {
    needs!(Root, Mounts, MemoryCgroup, Runc);
    for by in ALL {
        let stop = AtomicBool::new(false);
        let report = trial(by, "", &stop, None, &mut |_| stop.store(true, Ordering::Release));
        assert_eq!(report.status, Status::Interrupted, "{by:?}: {report:?}");
        let outcome = report.outcome.expect("what was measured until then");
        assert!(outcome.measured_seconds < 60.0, "{by:?}: {outcome:?}");
    }
}

/// A worker that stands still does not listen: it is killed, and the others' end is that of a time-out.
#[test]
fn a_worker_that_hangs_is_ended_by_the_time_out_everywhere() {
    needs!(Root, Mounts, MemoryCgroup, Runc);
    for by in [By::Process, By::Containers(4), By::Ranks(4)] {
        // on a busy machine the time may be up before the load has begun: then it gets more
        let hung = [4.0, 16.0, 64.0].into_iter().any(|timeout| {
            let mut hangs = false;
            let settings = format!("timeout = {timeout:?}");
            let report = trial(by, &settings, &AtomicBool::new(false), None, &mut |workers| {
                hangs = true;
                kill_process(Pid::from_raw(workers[0]).unwrap(), Signal::STOP).unwrap();
            });
            assert_eq!(report.status, Status::TimedOut { after_seconds: timeout }, "{by:?}: {report:?}");
            hangs
        });
        assert!(hung, "{by:?}: the load never began");
    }
}
