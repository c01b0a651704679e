//! Whole trials: real stacks (a directory, tmpfs), real processes, short loads.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use lab::check::Loads;
use lab::runner::{Job, Progress, Report, Runner};
use lab::trial::process::Program;
use lab::{RealRunner, StackFactory};
use needs::needs;
use study::Study;
use study::plan::{self, Slot};
use study::results::{Cell, Status};

const SCRIPT: &str = "
set $n=20
define fileset name=f, path=/x, entries=$n, size=4k, prealloc=100
define process name=p, instances=1 {
  thread name=t, memsize=1m, instances=2 {
    flowop openfile name=open, filesetname=f, fd=1
    flowop readwholefile name=read, fd=1, iosize=4k
    flowop closefile name=close, fd=1
  }
}
echo \"ready\"
run 60
";

/// Not a test of its own: the process that the trials below become. Other than `loadline trial` it prints the
/// test harness's lines too, which the parent must pass over.
#[test]
#[ignore = "no test: started by the other tests"]
fn child() {
    std::process::exit(i32::from(lab::worker::main()));
}

/// Not a test of its own either: runs a long trial, until somebody kills it.
#[test]
#[ignore = "no test: started by another test"]
fn victim() {
    let home = std::path::PathBuf::from(std::env::var_os("LOADLINE_TEST_HOME").unwrap());
    let mut bench = Bench::at(tempfile::tempdir().unwrap(), &home);
    bench.trial(SCRIPT, STACK_OF_VICTIM, "", &AtomicBool::new(false), &mut |progress| {
        if let Progress::Engine(engine::options::Event::Running { .. }) = progress {
            println!("running");
        }
    });
}

/// Mounted, but of no device.
const STACK_OF_VICTIM: &str = "tmpfs";

struct Bench {
    folder: tempfile::TempDir,
    runner: RealRunner,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_path_buf();
        Bench::at(folder, &home)
    }

    fn at(folder: tempfile::TempDir, home: &Path) -> Self {
        std::fs::create_dir(folder.path().join("target")).unwrap();
        let home = camino::Utf8Path::from_path(home).unwrap();
        let site = StackFactory::new(home, &home.join("work")).unwrap();
        let mut runner = RealRunner::new(site, "test-run").unwrap();
        let arguments = common::one_test("child");
        runner.program = Program::new(std::env::current_exe().unwrap(), &arguments);
        Bench { folder, runner }
    }

    fn target(&self) -> String {
        format!("dir:{}", self.folder.path().join("target").display())
    }

    /// Runs one trial of `script` with these settings.
    fn trial(
        &mut self,
        script: &str,
        stack: &str,
        settings: &str,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Report {
        let load = format!("text = '''{script}'''");
        self.issue(&load, stack, settings, stop, progress)
    }

    /// Runs one trial of a load with these settings.
    fn issue(
        &mut self,
        load: &str,
        stack: &str,
        settings: &str,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Report {
        let study = common::study(&format!(
            "stacks = ['{stack}']\n[study]\n{settings}\n[[workload]]\nname = 'w'\n{load}\n"
        ));
        let cells = plan::cells(&study);
        let loads = common::loads(&study);
        let report = self.runner.run(&job(&study, &loads, &cells[0]), stop, progress);
        assert!(is_empty(&self.folder.path().join("target")), "nothing stays on the target");
        assert!(self.runner.journal().is_empty(), "nothing stays in the journal");
        report
    }

    fn plain(&mut self, script: &str, settings: &str) -> Report {
        let target = self.target();
        self.trial(script, &target, settings, &AtomicBool::new(false), &mut |_| {})
    }
}

fn job<'a>(study: &'a Study, loads: &'a Loads, cell: &'a Cell) -> Job<'a> {
    Job {
        run: "test-run",
        slot: Slot { cell: 0, index: 0, order: 0 },
        cell,
        stack: &study.stacks[0],
        workload: &study.workloads[0],
        load: loads.of(cell).unwrap(),
        study,
        rate: None,
        last: true,
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

#[test]
fn a_trial_gives_an_outcome_with_its_evidence() {
    let report = Bench::new().plain(SCRIPT, "seconds = 0.3");
    assert_eq!(report.status, Status::Done, "{report:?}");
    let outcome = report.outcome.unwrap();
    assert!(outcome.io_ops() > 0 && outcome.measured_seconds >= 0.25, "{outcome:?}");
    let metric =
        |name: &str| outcome.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value);
    assert!(metric("counted_seconds").is_some_and(|seconds| seconds > 0.0));
    assert!(metric("cpu_user_seconds").is_some());
    assert!(report.environment.is_some_and(|environment| environment.target.is_some()));
    assert!(report.log.iter().any(|line| line == "ready"), "{:?}", report.log);
    assert!(report.seconds > 0.3);
}

/// Runs trials of a block in turns on these stacks.
fn in_turns(
    bench: &mut Bench,
    stacks: [&str; 2],
    settings: &str,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Vec<Report> {
    let study = common::study(&format!(
        "stacks = {stacks:?}\n[study]\n{settings}\n[[workload]]\nname = 'w'\ntext = '''{SCRIPT}'''\n"
    ));
    let (cells, loads) = (plan::cells(&study), common::loads(&study));
    let jobs: Vec<Job<'_>> = (cells.iter().zip(&study.stacks))
        .map(|(cell, stack)| Job { stack, ..job(&study, &loads, cell) })
        .collect();
    let reports = bench.runner.run_in_turns(&jobs, std::time::Duration::from_millis(20), stop, progress);
    assert!(bench.runner.journal().is_empty(), "nothing stays in the journal");
    reports
}

#[test]
fn trials_in_turns_have_their_length_and_the_evidence_of_any_trial() {
    let mut bench = Bench::new();
    let target = bench.target();
    let reports =
        in_turns(&mut bench, ["tmpfs", &target], "seconds = 0.3", &AtomicBool::new(false), &mut |_| {});
    assert_eq!(reports.len(), 2);
    for report in reports {
        assert_eq!(report.status, Status::Done, "{report:?}");
        let outcome = report.outcome.unwrap();
        assert_eq!(outcome.ended, stats::Ended::TimeUp);
        assert!(outcome.io_ops() > 0 && outcome.measured_seconds >= 0.3, "{outcome:?}");
        let has = |name: &str| outcome.metrics.iter().any(|metric| metric.name == name);
        assert!(has("counted_seconds") && has("cpu_user_seconds"), "{:?}", outcome.metrics);
        assert!(report.log.iter().any(|line| line == "ready"), "{:?}", report.log);
    }
}

#[test]
fn a_stack_that_is_unavailable_leaves_the_others_of_its_block_their_turns() {
    let mut bench = Bench::new();
    let missing = format!("dir:{}", bench.folder.path().join("missing").display());
    let stop = AtomicBool::new(false);
    let reports = in_turns(&mut bench, [&missing, "tmpfs"], "seconds = 0.3", &stop, &mut |_| {});
    assert!(matches!(&reports[0].status, Status::Unavailable { reason, .. } if reason.contains("missing")));
    assert_eq!(reports[1].status, Status::Done, "{reports:?}");
}

#[test]
fn an_interrupt_ends_all_trials_in_turns_and_keeps_what_was_measured() {
    let (mut bench, stop) = (Bench::new(), AtomicBool::new(false));
    let target = bench.target();
    let reports = in_turns(&mut bench, ["tmpfs", &target], "", &stop, &mut |progress| {
        if is_running(&progress) {
            stop.store(true, Ordering::Release);
        }
    });
    for report in &reports {
        assert_eq!(report.status, Status::Interrupted, "{report:?}");
        assert!(report.outcome.as_ref().is_some_and(|outcome| outcome.measured_seconds < 60.0), "{report:?}");
    }
}

#[test]
fn a_load_of_another_kind_runs_in_phases_and_its_results_are_joined() {
    let mut bench = Bench::new();
    let load = "app = 'large-file'\nset = { file_bytes = '100k' }";
    let (mut cooled, target) = (0, bench.target());
    let report = bench.issue(load, &target, "", &AtomicBool::new(false), &mut |progress| {
        cooled += u32::from(progress == Progress::Cooling);
    });
    assert_eq!((report.status, cooled), (Status::Done, 1));
    let outcome = report.outcome.unwrap();
    let names: Vec<&str> = outcome.ops.iter().map(|op| op.name.as_str()).collect();
    assert_eq!(names, ["seq-write", "seq-read"]);
    assert!(outcome.metrics.iter().any(|metric| metric.name == "seq-read" && metric.unit == "MB/s"));
    let variables: Vec<(&str, &str)> =
        report.variables.iter().map(|one| (one.name.as_str(), one.value.as_str())).collect();
    assert_eq!(variables, [("file_bytes", "100k")], "what ran is told");
}

#[test]
fn a_trial_starts_programs_only_when_its_study_allows_them() {
    let script = SCRIPT.replace("run 60", "system \"echo started\"\nrun 60");
    let refused = Bench::new().plain(&script, "seconds = 0.2");
    let Status::Failed { message } = &refused.status else { panic!("{refused:?}") };
    assert!(message.contains("echo started") && message.contains("allow_system = true"), "{message}");
    assert!(!refused.log.contains(&"started".to_string()), "{refused:?}");
    let allowed = Bench::new().plain(&script, "seconds = 0.2\nallow_system = true");
    assert_eq!(allowed.status, Status::Done, "{allowed:?}");
    assert!(allowed.log.contains(&"started".to_string()), "{allowed:?}");
    let notes = allowed.outcome.unwrap().notes;
    assert_eq!(notes, ["the workload started a program: system \"echo started\""]);
}

#[test]
fn what_a_script_asks_for_beside_the_result_is_kept() {
    let script = SCRIPT.replace("run 60", "enable lathist\npsrun -1 2");
    let report = Bench::new().plain(&script, "");
    assert_eq!(report.status, Status::Done, "{report:?}");
    assert!(report.extras.latency_counters);
    let times: Vec<(f64, f64)> =
        report.extras.periods.iter().map(|one| (one.at_seconds, one.seconds)).collect();
    assert_eq!(times, [(1.0, 1.0), (2.0, 1.0)]);
    for op in report.extras.periods.iter().flat_map(|period| &period.ops) {
        assert_eq!(op.latency_counters.iter().sum::<u64>(), op.timed, "{op:?}");
    }
    assert!(Bench::new().plain(SCRIPT, "seconds = 0.1").extras.is_empty());
}

#[test]
fn a_load_that_speaks_of_free_space_is_sized_by_the_target_and_told() {
    let mut bench = Bench::new();
    let script = SCRIPT.replace("set $n=20", "set $room=$free\nset $n=min(20, $free)");
    let report = bench.plain(&script, "seconds = 0.1");
    assert_eq!(report.status, Status::Done, "{report:?}");
    let of = |name: &str| report.variables.iter().find(|one| one.name == name).map(|one| one.value.clone());
    let free: u64 = of("room").unwrap().parse().unwrap();
    let assumed: u64 = 1 << 30;
    assert!(free != assumed && free > 0, "{free}");
    assert_eq!(of("n").as_deref(), Some("20"));
    let plain = Bench::new().plain(SCRIPT, "seconds = 0.1").variables;
    assert_eq!(plain.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["n"]);
}

#[test]
fn warnings_of_a_script_are_in_the_log_of_its_trial() {
    let report = Bench::new().plain(&format!("{SCRIPT}\nset $n=30\n"), "seconds = 0.1");
    assert!(report.log.iter().any(|line| line.contains("nothing behind the run")), "{:?}", report.log);
}

#[test]
fn a_time_out_ends_the_trial_and_keeps_what_was_measured() {
    // The time begins with the process; on a busy machine it may be over before the load has begun. Then it gets more.
    for timeout in [1.5, 6.0, 24.0, 96.0] {
        let (mut bench, mut began) = (Bench::new(), false);
        let target = bench.target();
        let settings = format!("timeout = {timeout:?}");
        let report = bench.trial(SCRIPT, &target, &settings, &AtomicBool::new(false), &mut |progress| {
            began |= is_running(&progress);
        });
        assert_eq!(report.status, Status::TimedOut { after_seconds: timeout }, "{report:?}");
        if began {
            let outcome = report.outcome.expect("what was measured until then");
            assert!(outcome.io_ops() > 0 && outcome.measured_seconds < 60.0, "{outcome:?}");
            return;
        }
    }
    panic!("the load never began");
}

/// Whether the load has done something.
fn is_running(progress: &Progress) -> bool {
    matches!(progress, Progress::Engine(engine::options::Event::Running { io_ops: 1.., .. }))
}

#[test]
fn an_interruption_ends_the_trial_and_keeps_what_was_measured() {
    let mut bench = Bench::new();
    let target = bench.target();
    let stop = AtomicBool::new(false);
    let report = bench.trial(SCRIPT, &target, "", &stop, &mut |progress| {
        stop.fetch_or(is_running(&progress), Ordering::Release);
    });
    assert_eq!(report.status, Status::Interrupted, "{report:?}");
    let outcome = report.outcome.expect("what was measured until then");
    assert!(outcome.io_ops() > 0 && outcome.measured_seconds < 60.0, "{outcome:?}");
}

#[test]
fn a_stack_that_cannot_be_had_is_unavailable() {
    let mut bench = Bench::new();
    let report = bench.trial(SCRIPT, "dir:/no/such/folder", "", &AtomicBool::new(false), &mut |_| {});
    assert!(matches!(report.status, Status::Unavailable { .. }), "{report:?}");
}

#[test]
fn a_cold_trial_prepares_and_measures_in_two_processes() {
    needs!(Mounts);
    let mut bench = Bench::new();
    let mut cooled = 0;
    // Making tmpfs cold does nothing, and so does not disturb the machine that runs this test.
    let report = bench.trial(
        SCRIPT,
        "tmpfs",
        "seconds = 0.2\ncold = true",
        &AtomicBool::new(false),
        &mut |progress| {
            cooled += u32::from(progress == Progress::Cooling);
        },
    );
    assert_eq!((report.status, cooled), (Status::Done, 1), "{:?} {}", report.log, report.raw_output);
    assert!(report.outcome.unwrap().io_ops() > 0);
    assert!(report.commands.iter().any(|command| command.purpose == "mount"));
}

#[test]
fn a_memory_limit_is_met_by_the_load_and_shown_in_its_figures() {
    needs!(MemoryCgroup);
    let report = Bench::new().plain(SCRIPT, "seconds = 0.2\nmemory = '256M'");
    assert_eq!(report.status, Status::Done, "{}", report.raw_output);
    let metrics = report.outcome.unwrap().metrics;
    let peak = metrics.iter().find(|metric| metric.name == "memory_peak_bytes");
    assert!(peak.is_none_or(|peak| peak.value > 0.0 && peak.value <= 256.0 * 1048576.0));
    assert_eq!(report.environment.unwrap().memory.limit_bytes, Some(256 << 20));
}

/// Lines of the mount table that name `path`.
fn traces(path: &Path) -> Vec<String> {
    let path = path.to_str().unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().filter(|line| line.contains(path)).map(str::to_string).collect()
}

/// Children of a process, dead ones that nobody has reaped left out.
fn children(parent: u32) -> Vec<u32> {
    let stats = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let rest = stat.rsplit_once(')')?.1.to_string();
        let mut fields = rest.split_whitespace();
        (fields.next()? != "Z" && fields.next()?.parse() == Ok(parent)).then_some(pid)
    });
    stats.collect()
}

#[test]
fn a_killed_run_leaves_no_process_and_its_stack_can_be_undone() {
    use std::io::{BufRead, BufReader};
    needs!(Mounts);
    let home = tempfile::tempdir().unwrap();
    let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
        .args(common::one_test("victim"))
        .env("LOADLINE_TEST_HOME", home.path())
        // What it leaves in its own temporary folder goes with this one.
        .env("TMPDIR", home.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "running"), "the victim's trial never ran");
    let trial: Vec<u32> = children(victim.id());
    assert_eq!(trial.len(), 1, "the load is in a process of its own");
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(traces(home.path()).len(), 1, "the mount is left");

    // The kernel kills the trial's process when its parent dies; until it is gone the mount is busy.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(300);
    let alive = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", trial[0])).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    };
    while alive() {
        assert!(std::time::Instant::now() < deadline, "process {} still runs", trial[0]);
        std::thread::yield_now();
    }
    let home_utf8 = camino::Utf8Path::from_path(home.path()).unwrap();
    let journals = lab::real::journal_folder(home_utf8);
    let leftovers = journal::Journal::leftovers(&journals).unwrap();
    assert_eq!(leftovers.len(), 1);
    let report = leftovers[0].clean().unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(traces(home.path()), [] as [&str; 0]);
    assert!(is_empty(&home.path().join("work")), "the work folder is empty again");
    assert_eq!(journal::Journal::leftovers(&journals).unwrap().len(), 0);
}

#[test]
fn a_job_file_of_fio_runs_with_its_own_queue_depth() {
    let job =
        "[mixed]\nrw=randrw\nrwmixread=75\nbs=4k\nsize=1m\nfsync=8\nnumjobs=2\ntime_based\nruntime=60\n";
    let load = format!("text = '''{job}'''\norigin = 'mixed.fio'");
    let mut bench = Bench::new();
    let target = bench.target();
    let report = bench.issue(&load, &target, "seconds = 0.3", &AtomicBool::new(false), &mut |_| {});
    assert_eq!(report.status, Status::Done, "{report:?}");
    let ops = |name: &str| -> u64 {
        let outcome = report.outcome.as_ref().unwrap();
        outcome.ops.iter().find(|op| op.name == name).map_or(0, |op| op.ops)
    };
    let (reads, writes, syncs) = (ops("mixed-read"), ops("mixed-write"), ops("mixed-fsync"));
    // reads and writes are drawn
    assert!(writes > 0 && reads > 2 * writes && reads < 4 * writes, "{reads} and {writes}");
    assert!(syncs.abs_diff(writes / 8) <= 2, "{syncs} for {writes}");
}

#[test]
fn a_wrong_job_file_is_told_with_its_line() {
    let text = "stacks = ['ext4']\n[[workload]]\nname = 'j'\norigin = 'j.fio'\ntext = '''[a]\nsize=1m\nfsyn=1\n'''\n";
    let study = common::study(text);
    let machine = wml::Machine { ram_bytes: 1 << 30, cores: 2, free_bytes: 1 << 30 };
    let error = lab::check::workloads(&study, machine).unwrap_err().to_string();
    assert!(
        error.contains("j.fio:3: `fsyn` is not an option that is known here; did you mean `fsync`?"),
        "{error}"
    );
    let depth = text.replace("fsyn=1", "ioengine=libaio\niodepth=16");
    let loads = lab::check::workloads(&common::study(&depth), machine).unwrap();
    let stream = loads[0].model().unwrap().processes[0].threads[0].stream.as_ref().unwrap();
    assert_eq!((stream.queue.engine, stream.queue.depth), (workload::stream::QueueEngine::LibAio, 16));
}
