//! A run as a whole: ends, starvation, failures, warm-up, pacing, repeatability.

mod common;
mod volume;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use common::{directory, op, ops, parse, run, run_in, seconds};
use engine::slices::Slice;
use engine::{Control, Event, RunOptions, Stage};
use needs::needs;
use stats::Ended;
use workload::IoMode;

const SMALL: &str = "define fileset name=a,path=/x,size=1k,entries=8,dirwidth=20,prealloc=50\n";

#[test]
fn a_drained_pool_is_starvation_and_not_the_end() {
    let text = format!(
        "{SMALL}define process name=p {{ thread name=t {{ flowop createfile name=c,filesetname=a,fd=1 \
                        flowop closefile name=x,fd=1 }} }}\nrun 60\n"
    );
    let outcome = run(&text, &seconds(0.2));
    assert_eq!(outcome.ended, Ended::TimeUp);
    assert_eq!((op(&outcome, "c").ops, op(&outcome, "x").ops), (4, 4));
    assert!(op(&outcome, "c").starved > 0 && op(&outcome, "x").starved > 0);
}

#[test]
fn strict_ends_at_starvation_as_filebench_does() {
    let text = format!(
        "{SMALL}define process name=p {{ thread name=t {{ flowop createfile name=c,filesetname=a,fd=1 \
                        flowop closefile name=x,fd=1 }} }}\nrun 60\n"
    );
    let outcome = run(&text, &RunOptions { strict: true, ..RunOptions::default() });
    let Ended::Failed { message } = &outcome.ended else { panic!("{:?}", outcome.ended) };
    assert!(message.contains("flowop c could not obtain a file"), "{message}");
}

/// Filebench's varmail with its shipped 1,000 files lives 3 to 9 seconds on tmpfs.
#[test]
fn varmail_never_dies_of_its_small_pool() {
    let text = "define fileset name=m,path=/x,size=16k,entries=40,dirwidth=1000000,prealloc=80\n\
        define process name=p { thread name=t,instances=16,memsize=1m {\n\
        flowop deletefile name=d1,filesetname=m\nflowop createfile name=c2,filesetname=m,fd=1\n\
        flowop appendfilerand name=a2,iosize=16k,fd=1\nflowop fsync name=s2,fd=1\nflowop closefile name=x2,fd=1\n\
        flowop openfile name=o3,filesetname=m,fd=1\nflowop readwholefile name=r3,fd=1,iosize=1m\n\
        flowop appendfilerand name=a3,iosize=16k,fd=1\nflowop fsync name=s3,fd=1\nflowop closefile name=x3,fd=1\n\
        flowop openfile name=o4,filesetname=m,fd=1\nflowop readwholefile name=r4,fd=1,iosize=1m\n\
        flowop closefile name=x4,fd=1 } }\nrun 60\n";
    let directory = directory();
    let outcome = run_in(directory.path(), text, &seconds(1.5)).0;
    assert_eq!(outcome.ended, Ended::TimeUp);
    let names = std::fs::read_dir(directory.path().join("m/00000001")).unwrap().count() as u64;
    let (made, gone) = (op(&outcome, "c2").ops, op(&outcome, "d1").ops);
    assert_eq!(names, 32 + made - gone, "the books and the directory disagree");
}

#[test]
fn a_set_number_of_operations_is_that_of_the_measured_interval() {
    let text = "define fileset name=a,path=/x,size=4k,entries=8,prealloc\ndefine process name=p { thread name=t,instances=3 {\n\
        flowop openfile name=o,filesetname=a,fd=1\nflowop read name=r,fd=1,iosize=4k\nflowop closefile name=c,fd=1 } }\nrun 60\n";
    for number in [3000, 2] {
        let warm = RunOptions { ops: Some(number), warmup_seconds: Some(0.2), ..RunOptions::default() };
        let outcome = run(text, &warm);
        assert_eq!((outcome.io_ops(), outcome.ended), (number, Ended::OpsReached));
    }
    let none = run(text, &ops(0));
    assert_eq!((none.io_ops(), none.ended), (0, Ended::OpsReached), "0 is no number without a bound");
}

#[test]
fn a_failing_operation_ends_the_run_with_its_name() {
    let text = "define file name=f,path=/x,size=1k,prealloc\n\
                define process name=p { thread name=t { flowop openfile name=oops,filename=f,fd=1 } }\nrun 60\n";
    let outcome = run(text, &RunOptions::default());
    let Ended::Failed { message } = &outcome.ended else { panic!("{:?}", outcome.ended) };
    assert!(message.contains("oops") && message.contains("fd=1 is already open"), "{message}");
    assert_eq!(op(&outcome, "oops").ops, 1);
}

#[test]
fn the_same_seed_gives_the_same_operations() {
    let text = "set $s=cvar(type=cvar-gamma,parameters=mean:4096;gamma:1.5)\n\
        define fileset name=a,path=/x,size=$s,entries=50,dirwidth=7,prealloc=60\n\
        define process name=p { thread name=t {\n\
        flowop createfile name=c,filesetname=a,fd=1\nflowop appendfilerand name=w,iosize=9k,fd=1\n\
        flowop closefile name=x,fd=1\nflowop deletefile name=d,filesetname=a } }\nrun 60\n";
    let tree = |seed| {
        let directory = directory();
        run_in(directory.path(), text, &RunOptions { seed, ..ops(403) });
        contents(directory.path())
    };
    assert_eq!(tree(5), tree(5));
    assert_ne!(tree(5), tree(6));
}

fn contents(root: &std::path::Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_owned(), std::fs::read(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn warm_up_is_not_measured() {
    let text = "define file name=f,path=/x,size=64k,prealloc\n\
                define process name=p { thread name=t { flowop read name=r,filename=f,iosize=1k,random \
                flowop eventlimit name=l } }\neventgen rate=1000\nrun 60\n";
    let outcome = run(text, &RunOptions { warmup_seconds: Some(1.5), ..seconds(0.3) });
    let reads = op(&outcome, "r").ops;
    assert!((outcome.warmup_seconds - 1.5).abs() < 1e-6);
    // 1000 a second: 300, or 1800 with the warm-up. The space between is for machines that are busy meanwhile.
    assert!((1..1000).contains(&reads), "{reads} reads in the measured 0.3 seconds");
}

/// A stall of a second must show in the latency from the intended start of the operations that it delayed, not only in
/// the one operation that it hit (coordinated omission).
#[test]
fn a_stall_shows_in_the_intended_latency() {
    // About one in a hundred operations is followed by a delay of a second.
    let text = "set $rarely=randvar(type=tabular,randtable={{99,0,0},{1,1,1}})\n\
                define fileset name=a,path=/x,size=1k,entries=100,dirwidth=200,prealloc\n\
                define process name=p { thread name=t { flowop statfile name=s,filesetname=a \
                flowop delay name=stall,value=$rarely } }\nrun 60\n";
    let outcome = run(text, &RunOptions { rate: Some(1000.0), seed: 3, ..seconds(4.0) });
    let stat = op(&outcome, "s");
    let intended = stat.intended.as_ref().expect("a paced run records the intended latency");
    let service = stat.service.quantile(0.99).unwrap();
    assert!(service < 500_000_000, "the stall is not in the service time of statfile: {service} ns");
    assert!(intended.max().unwrap() > 900_000_000, "{:?}", intended);
    // Of the 1000 operations that were due in that second, half were due in its first half.
    assert!(intended.quantile(0.75).unwrap() > 100_000_000, "{:?}", intended);
}

/// Of ten operations a second, five are due in half a second, however many threads wait for the next one.
#[test]
fn waiting_threads_do_nothing_that_was_not_due_when_the_time_ends() {
    let threads = "define file name=f,path=/x,size=64k,prealloc\n\
                   define process name=p { thread name=t,instances=50 { flowop read name=r,filename=f,iosize=4k,random";
    let offered =
        run(&format!("{threads} }} }}\nrun 60\n"), &RunOptions { rate: Some(10.0), ..seconds(0.5) });
    assert!(offered.io_ops() <= 5, "{} operations", offered.io_ops());
    let limited = format!("{threads} flowop eventlimit name=l }} }}\neventgen rate=10\nrun 60\n");
    let limited = run(&limited, &seconds(0.5));
    // each thread reads once before its limiter
    assert!(op(&limited, "r").ops <= 50 + 5, "{} reads", op(&limited, "r").ops);
}

#[test]
fn an_offered_rate_is_kept() {
    let text = "define fileset name=a,path=/x,size=1k,entries=100,dirwidth=200,prealloc\n\
                define process name=p { thread name=t,instances=4 { flowop openfile name=o,filesetname=a,fd=1 \
                flowop closefile name=c,fd=1 } }\nrun 60\n";
    let outcome = run(text, &RunOptions { rate: Some(2000.0), ..ops(2000) });
    let rate = outcome.io_ops_per_second();
    // Never more; less only where the machine is busy, and never so little that the time limit comes first.
    assert!(rate < 2100.0, "{rate}");
    assert_eq!(outcome.ended, Ended::OpsReached);
}

/// Drawn `iters` count with their mean: with 10 reads in a pass, 100 passes a second are 1,000 reads.
#[test]
fn an_offered_rate_is_kept_where_iterations_are_drawn() {
    let text = "set $n=randvar(type=tabular,randtable={{50,9,9},{50,11,11}})\n\
                define file name=f,path=/x,size=64k,prealloc\n\
                define process name=p { thread name=t { flowop read name=r,filename=f,iosize=4k,iters=$n } }\nrun 60\n";
    let outcome = run(text, &RunOptions { rate: Some(1000.0), ..ops(1000) });
    let rate = outcome.io_ops_per_second();
    // never more, but for what chance draws; less only where the machine is busy
    assert!(rate < 1200.0, "{rate}");
    assert_eq!(outcome.ended, Ended::OpsReached);
}

/// What every thread has claimed at the beginning is done when it is due, not given up.
#[test]
fn claimed_operations_are_done_when_they_are_due() {
    let threads = "define file name=f,path=/x,size=64k,prealloc\n\
                   define process name=p { thread name=t,instances=20 { flowop read name=r,filename=f,iosize=4k";
    let offered = run(&format!("{threads} }} }}\nrun 60\n"), &RunOptions { rate: Some(20.0), ..ops(20) });
    assert_eq!((offered.io_ops(), offered.ended), (20, Ended::OpsReached));
    let delayed = run(&format!("{threads} flowop delay name=d,value=1 }} }}\nrun 60\n"), &ops(40));
    assert_eq!((delayed.io_ops(), delayed.ended), (40, Ended::OpsReached));
}

/// Threads that wait for threads that have ended, that find no file, or that do no I/O, end with the others.
#[test]
fn threads_that_can_do_no_more_do_not_hold_back_the_end() {
    let beside = "define file name=f,path=/x,size=64k,prealloc\ndefine fileset name=a,path=/x,size=1k,entries=4,dirwidth=20\n\
                  define process name=p { thread name=r { flowop read name=r,filename=f,iosize=1k,random }";
    let idle = format!("{beside} thread name=h,instances=3 {{ flowop hog name=h,value=1 }} }}\nrun 60\n");
    let starving = format!(
        "{beside} thread name=s,instances=3 {{ flowop deletefile name=d,filesetname=a }} }}\nrun 60\n"
    );
    for text in [SEMAPHORES, &idle, &starving] {
        let outcome = run(text, &ops(1000));
        assert_eq!(outcome.ended, Ended::OpsReached, "{text}");
        assert!((900..=1000).contains(&outcome.io_ops()), "{} of {text}", outcome.io_ops());
    }
    needs!(IoUring);
    let outcome = run(SEMAPHORES, &RunOptions { io: IoMode::Uring { depth: 3 }, ..ops(1000) });
    assert_eq!(outcome.ended, Ended::OpsReached);
}

#[test]
fn an_interrupted_run_reports_what_it_has() {
    let text = "define file name=f,path=/x,size=64k,prealloc\n\
                define process name=p { thread name=t,instances=4 { flowop read name=r,filename=f,iosize=1k,random } }\n\
                run 3600\n";
    let (directory, control, interrupted) = (directory(), Control::new(), AtomicBool::new(false));
    let mut on_event = |event| {
        if let Event::Running { io_ops, .. } = event
            && io_ops > 0
            && !interrupted.swap(true, Relaxed)
        {
            control.interrupt();
        }
    };
    let outcome =
        engine::run(&parse(text), directory.path(), &RunOptions::default(), &control, &mut on_event).unwrap();
    assert_eq!(outcome.ended, Ended::Interrupted);
    assert!(op(&outcome, "r").ops > 0);
    assert!(outcome.measured_seconds > 0.0 && outcome.measured_seconds < 60.0);
}

#[test]
fn the_stages_together_are_the_whole() {
    let directory = directory();
    let text = "define fileset name=a,path=/x,size=1k,entries=20,dirwidth=5,prealloc=70\n\
                define process name=p { thread name=t { flowop statfile name=s,filesetname=a } }\nrun 60\n";
    let stage = |stage| RunOptions { stage, ..ops(100) };
    run_in(directory.path(), text, &stage(Stage::Prepare));
    let before = contents(directory.path());
    assert_eq!(before.len(), 14);
    let outcome = run_in(directory.path(), text, &stage(Stage::Measure)).0;
    assert_eq!((op(&outcome, "s").ops, op(&outcome, "s").errors), (100, 0));
    assert_eq!(contents(directory.path()), before);
}

#[test]
fn written_data_does_not_repeat_unless_asked() {
    let text = "define file name=f,path=/x,size=4m\n\
                define process name=p { thread name=t { flowop write name=w,filename=f,iosize=64k } }\n\
                set mode quit firstdone\nrun 60\n";
    let text = text.replace("size=4m", "size=4m,prealloc");
    let distinct = |duplicate_percent| {
        let directory = directory();
        run_in(directory.path(), &text, &RunOptions { duplicate_percent, ..ops(64) });
        let bytes = std::fs::read(directory.path().join("f/00000001/00000001")).unwrap();
        bytes.chunks(4096).collect::<std::collections::HashSet<_>>().len()
    };
    assert_eq!(distinct(0), 1024);
    assert!(distinct(60) < 700);
}

#[test]
fn series_add_up_to_the_totals() {
    let text = "define file name=f,path=/x,size=64k,prealloc\n\
                define process name=p { thread name=t,instances=3 { flowop read name=r,filename=f,iosize=1k,random } }\n\
                run 60\n";
    let outcome = run(text, &seconds(2.3));
    let read = op(&outcome, "r");
    let in_seconds: u64 = read.ops_per_second.iter().sum();
    assert!(read.ops_per_second.len() >= 2);
    assert!(in_seconds <= read.ops && in_seconds > read.ops / 2);
    assert_eq!(read.service.count(), read.ops);
}

#[test]
fn psrun_reports_on_the_way() {
    for (period, grows) in [("1", true), ("-1", false)] {
        let text = format!(
            "define file name=f,path=/x,size=64k,prealloc\neventgen rate=500\n\
             define process name=p {{ thread name=t {{ flowop read name=r,filename=f,iosize=1k,random \
             flowop eventlimit name=l }} }}\npsrun {period} 3\n"
        );
        let (directory, mut reads) = (directory(), Vec::new());
        let mut on_event = |event| {
            if let Event::Period { at_seconds, outcome } = event {
                reads.push((at_seconds, outcome.measured_seconds, op(&outcome, "r").ops));
            }
        };
        let options = RunOptions::default();
        let whole =
            engine::run(&parse(&text), directory.path(), &options, &Control::new(), &mut on_event).unwrap();
        let whole = op(&whole, "r").ops;
        assert!(reads.len() >= 2, "{reads:?}");
        let mut before = 0.0;
        for (at, covers, _) in &reads {
            let expected = if grows { *at } else { at - before };
            assert!((covers - expected).abs() < 1e-6, "{reads:?}");
            before = *at;
        }
        let reads: Vec<u64> = reads.into_iter().map(|(.., ops)| ops).collect();
        if grows {
            let last = *reads.last().unwrap();
            assert!(reads.is_sorted() && last <= whole && 2 * last > whole, "{reads:?} of {whole}");
        } else {
            assert!(reads.iter().sum::<u64>() <= whole, "{reads:?} of {whole}");
        }
    }
}

const SYSTEM: &str = "define file name=f,path=/x,size=1k,prealloc\n\
    define process name=p { thread name=t { flowop read name=r,filename=f,iosize=1k } }\n\
    system \"touch started\"\nsystem \"touch started\"\nrun 60\n";

#[test]
fn programs_are_refused_unless_they_are_allowed() {
    for stage in [Stage::All, Stage::Prepare, Stage::Measure] {
        let directory = directory();
        let options = RunOptions { stage, ..ops(1) };
        assert!(!options.allow_system, "not allowed unless somebody says so");
        let refused = engine::run(&parse(SYSTEM), directory.path(), &options, &Control::new(), &mut |_| {})
            .unwrap_err();
        assert!(matches!(refused, engine::Error::SystemNotAllowed { .. }), "{refused:?}");
        let said = refused.to_string();
        assert!(said.contains("touch started") && said.contains("--allow-system"), "{said}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing was made");
    }
}

#[test]
fn programs_that_were_allowed_are_in_the_result() {
    let directory = directory();
    let allowed = RunOptions { allow_system: true, ..ops(1) };
    let outcome = run_in(directory.path(), SYSTEM, &allowed).0;
    assert!(directory.path().join("started").exists());
    assert_eq!(outcome.notes, ["the workload started a program: system \"touch started\""]);
}

#[test]
fn list_fileset_prints_what_is_defined_so_far() {
    let text = "set $size=randvar(type=uniform,mean=2k,min=1k)\nlist fileset\n\
                define fileset name=many,path=/tmp,size=$size,entries=100,dirwidth=20,prealloc\n\
                define file name=one-with-a-very-long-name,path=/tmp/below,size=8k,prealloc\nlist fileset\n\
                define file name=later,path=/tmp,size=1k\n\
                define process name=p { thread name=t { flowop statfile name=s,filesetname=many } }\nrun 60\n";
    let lines = run_in(directory().path(), text, &ops(1)).1;
    let expected = "\
File or Fileset name           file size   dir width   entries
/tmp/below/one-with-a-very-long-name      8192     (Single File)
/tmp/many                           2048          20       100
";
    assert_eq!(lines[..3].join("\n") + "\n", expected);
    assert_eq!(lines.iter().filter(|line| line.starts_with("File or Fileset")).count(), 1);
}

#[test]
fn latency_counters_are_asked_for_by_enable_lathist() {
    for (command, wanted) in [("", 0), ("enable lathist\n", 1)] {
        let text = format!(
            "{command}define process name=p {{ thread name=t {{ flowop hog name=h,value=1 }} }}\nrun 1\n"
        );
        let mut asked = 0;
        let mut on_event = |event: Event| asked += u32::from(event == Event::LatencyCounters);
        let directory = directory();
        engine::run(&parse(&text), directory.path(), &seconds(0.1), &Control::new(), &mut on_event).unwrap();
        assert_eq!(asked, wanted, "{command}");
    }
}

#[test]
fn a_workload_without_threads_says_so() {
    let workload = workload::Workload::default();
    let directory = directory();
    let error =
        engine::run(&workload, directory.path(), &RunOptions::default(), &Control::new(), &mut |_| {});
    assert!(error.unwrap_err().to_string().contains("defines no threads"));
}

#[test]
fn many_threads_in_many_processes() {
    let text = "define file name=f,path=/x,size=64k,prealloc\n\
                define process name=p,instances=20 { thread name=t,instances=10 { \
                flowop read name=r,filename=f,iosize=1k,random } }\nrun 60\n";
    let outcome = run(text, &seconds(0.5));
    assert_eq!(outcome.ended, Ended::TimeUp);
    assert!(op(&outcome, "r").ops >= 200);
}

/// Two of three threads are done at once for want of files, and the interval is that of the time limit,
/// not a third of it.
#[test]
fn threads_that_are_done_early_do_not_shorten_the_interval() {
    let text = "set mode quit alldone\ndefine fileset name=a,path=/x,size=1k,entries=1,dirwidth=20\n\
        define process name=p { thread name=quick,instances=2 { flowop createfile name=c,filesetname=a,fd=1 \
        flowop closefile name=x,fd=1 } thread name=steady { flowop delay name=d,value=0 } }\nrun 60\n";
    let outcome = run(text, &seconds(0.3));
    assert_eq!(outcome.ended, Ended::TimeUp);
    assert_eq!(op(&outcome, "c").ops, 1);
    assert!(outcome.measured_seconds >= 0.3, "{} s", outcome.measured_seconds);
}

#[test]
fn a_command_in_the_background_is_not_waited_for() {
    let text = "define file name=f,path=/x,size=1k,prealloc\n\
                define process name=p { thread name=t { flowop read name=r,filename=f,iosize=1k } }\n\
                system \"echo out; echo err >&2; sleep 30 & echo $! > pid\"\nrun 60\n";
    let directory = directory();
    let (outcome, lines) = run_in(directory.path(), text, &RunOptions { allow_system: true, ..ops(1) });
    let pid = std::fs::read_to_string(directory.path().join("pid")).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    // It still runs: nobody has waited for it.
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(outcome.ended, Ended::OpsReached);
    assert_eq!(&lines[..2], ["out", "err"]);
}

const MAIL: &str = "define fileset name=m,path=/x,size=4k,entries=40,dirwidth=100,prealloc=80\n\
    define process name=p { thread name=t,instances=5,memsize=64k {\n\
    flowop deletefile name=d,filesetname=m\nflowop createfile name=c,filesetname=m,fd=1\n\
    flowop appendfilerand name=a,iosize=4k,fd=1\nflowop fsync name=s,fd=1\nflowop closefile name=x,fd=1 } }\nrun 60\n";

/// A reader lets a writer go on, operation by operation.
const SEMAPHORES: &str = "define file name=f,path=/x,size=64k,prealloc\n\
    define process name=p {\n\
      thread name=w { flowop write name=w,filename=f,iosize=1k,fd=1 flowop semblock name=b,value=1,highwater=1 }\n\
      thread name=r { flowop read name=r,filename=f,iosize=1k,fd=1 flowop sempost name=q,value=1,target=b }\n\
    }\nrun 60\n";

const READS: &str = "define file name=f,path=/x,size=64k,prealloc\n\
    define process name=p { thread name=t,instances=3 { flowop read name=r,filename=f,iosize=1k,random,fd=1 } }\nrun 60\n";

/// Runs with the grants; gives the I/O operations that were done beside them, and how the run ended.
fn in_slices(text: &str, io: IoMode, grants: &[u64]) -> (i64, Ended) {
    let directory = directory();
    let control = Control::in_slices();
    let options = RunOptions { seconds: Some(1e6), io, ..RunOptions::default() };
    let outcome = std::thread::scope(|scope| {
        let granting = scope.spawn(|| {
            let is_ready = control.ready_for_slices();
            let done: Vec<Slice> = grants.iter().map(|grant| control.slice(*grant)).collect();
            // before anything is held against it: a panic here would leave the run without its end
            control.interrupt();
            assert!(is_ready);
            let mut before = 0;
            for slice in done {
                let Slice::Done { begin_ns, end_ns } = slice else { panic!("the run is over") };
                // in a small grant, all that a lane claimed may have to wait for another lane's next one
                assert!(before <= begin_ns && begin_ns <= end_ns, "{before} {begin_ns} {end_ns}");
                before = end_ns;
            }
            assert_eq!(control.slice(1), Slice::Over);
        });
        let outcome = engine::run(&parse(text), directory.path(), &options, &control, &mut |_| {}).unwrap();
        granting.join().unwrap();
        outcome
    });
    (outcome.io_ops() as i64 - grants.iter().sum::<u64>() as i64, outcome.ended)
}

#[test]
fn each_lane_does_one_operation_before_the_first_grant_and_then_what_is_granted() {
    let grants = [1, 2, 500, 64, 1, 3000, 7];
    assert_eq!(in_slices(MAIL, IoMode::Psync, &grants), (5, Ended::Interrupted));
    assert_eq!(in_slices(READS, IoMode::Psync, &grants), (3, Ended::Interrupted));
}

#[test]
fn lanes_of_one_thread_wait_as_threads_do() {
    needs!(IoUring);
    assert_eq!(in_slices(READS, IoMode::Uring { depth: 4 }, &[1, 300, 5]), (12, Ended::Interrupted));
}

/// A run that is over in less time than its threads are given to wake up, of fewer operations than lanes: just those are in the
/// result.
#[test]
fn lanes_of_one_thread_begin_when_the_load_does() {
    needs!(IoUring);
    let outcome = run(READS, &RunOptions { io: IoMode::Uring { depth: 4 }, ..ops(8) });
    assert_eq!((outcome.io_ops(), outcome.ended), (8, Ended::OpsReached));
}

#[test]
fn lanes_that_wait_for_each_other_hold_back_what_they_claimed_and_no_more() {
    let grants = [1, 100, 900, 3];
    let (more, ended) = in_slices(SEMAPHORES, IoMode::Psync, &grants);
    // one of each lane before the first grant, less what a lane in a semaphore has claimed and keeps for later: a 64th of what is left
    let claimed = grants.iter().max().unwrap() / 64;
    assert!((-(claimed as i64)..=2).contains(&more), "{more} operations beside what was granted");
    assert_eq!(ended, Ended::Interrupted);
}

/// A run of 0.2 s in turns of 20 ms, with pauses: how it ended, and what was neither turn nor load.
fn in_turns(text: &str, io: IoMode) {
    let directory = directory();
    let control = Control::in_turns();
    let options = RunOptions { io, ..seconds(0.2) };
    let begin = std::time::Instant::now();
    let mut paused = std::time::Duration::ZERO;
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(control.ready_for_slices());
            while let Slice::Done { begin_ns, end_ns } = control.turn(20_000_000) {
                assert!(begin_ns <= end_ns);
                let pause = std::time::Instant::now();
                std::thread::sleep(std::time::Duration::from_millis(20));
                paused += pause.elapsed();
            }
        });
        engine::run(&parse(text), directory.path(), &options, &control, &mut |_| {}).unwrap()
    });
    assert_eq!(outcome.ended, Ended::TimeUp);
    assert!(outcome.io_ops() > 0);
    let most = (begin.elapsed() - paused).as_secs_f64();
    let measured = outcome.measured_seconds;
    assert!(measured >= 0.2 && measured <= most, "0.2 <= {measured} <= {most}, {paused:?} paused");
}

#[test]
fn a_run_in_turns_lasts_as_long_as_its_turns() {
    in_turns(READS, IoMode::Psync);
    in_turns(MAIL, IoMode::Psync);
}

#[test]
fn lanes_of_one_thread_take_turns() {
    needs!(IoUring);
    in_turns(READS, IoMode::Uring { depth: 4 });
}
