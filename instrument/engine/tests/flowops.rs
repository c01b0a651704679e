//! Every flowop does what docs/wml-reference.md says, on real files.

mod common;

use common::{directory, op, ops, run, run_in, seconds};
use engine::{RunOptions, Stage};
use needs::needs;
use stats::Ended;
use workload::IoMode;

const ONE_FILE: &str = "define file name=f,path=/x,size=64k,prealloc\n";

fn body(definitions: &str, flowops: &str) -> String {
    format!("{definitions}\ndefine process name=p {{ thread name=t {{ {flowops} }} }}\nrun 60\n")
}

#[test]
fn a_sequential_reader_starts_again_at_the_end() {
    let outcome = run(&body(ONE_FILE, "flowop read name=r,filename=f,iosize=32k"), &ops(9));
    // Two full reads and one of nothing in each round, as Filebench counts it.
    assert_eq!(op(&outcome, "r").bytes, 9 / 3 * 64 * 1024);
    assert_eq!(outcome.ended, Ended::OpsReached);
}

#[test]
fn a_sequential_writer_wraps_at_the_files_size() {
    let directory = directory();
    run_in(directory.path(), &body(ONE_FILE, "flowop write name=w,filename=f,iosize=48k"), &ops(50));
    let file = directory.path().join("f/00000001/00000001");
    assert_eq!(file.metadata().unwrap().len(), 64 * 1024);
}

#[test]
fn whole_files_are_written_exactly() {
    let directory = directory();
    let text = body(
        "define fileset name=a,path=/x,size=10000,entries=3,dirwidth=20",
        "flowop createfile name=c,filesetname=a,fd=1 flowop writewholefile name=w,srcfd=1,fd=1,iosize=4k \
         flowop closefile name=x,fd=1",
    );
    let outcome = run_in(directory.path(), &text, &ops(9)).0;
    assert_eq!(op(&outcome, "w").bytes, 30_000);
    for file in 1..=3 {
        let file = directory.path().join(format!("a/00000001/0000000{file}"));
        assert_eq!(file.metadata().unwrap().len(), 10_000);
    }
}

#[test]
fn random_offsets_reach_the_last_block() {
    let directory = directory();
    let text = body(
        "define file name=f,path=/x,size=8k,prealloc",
        "flowop write name=w,filename=f,iosize=4k,random",
    );
    let file = directory.path().join("f/00000001/00000001");
    let prepare = RunOptions { stage: Stage::Prepare, ..RunOptions::default() };
    run_in(directory.path(), &text, &prepare);
    let before = std::fs::read(&file).unwrap();
    run_in(directory.path(), &text, &RunOptions { stage: Stage::Measure, ..ops(50) });
    let after = std::fs::read(&file).unwrap();
    assert_ne!(before[..4096], after[..4096]);
    assert_ne!(before[4096..], after[4096..], "the last block was never written");
}

#[test]
fn an_explicit_offset_is_used() {
    let directory = directory();
    let text = body(ONE_FILE, "flowop write name=w,filename=f,iosize=1k,offset=60k");
    let file = directory.path().join("f/00000001/00000001");
    run_in(directory.path(), &text, &RunOptions { stage: Stage::Prepare, ..RunOptions::default() });
    let before = std::fs::read(&file).unwrap();
    run_in(directory.path(), &text, &RunOptions { stage: Stage::Measure, ..ops(5) });
    let after = std::fs::read(&file).unwrap();
    let changed: Vec<usize> = (0..before.len()).filter(|&at| before[at] != after[at]).collect();
    assert!(!changed.is_empty());
    assert!(changed.iter().all(|at| (60 * 1024..61 * 1024).contains(at)));
}

#[test]
fn appends_make_the_file_longer_by_what_they_count() {
    let directory = directory();
    let text = body(
        ONE_FILE,
        "flowop appendfile name=a,filename=f,iosize=1000 flowop appendfilerand name=r,filename=f,iosize=500",
    );
    let outcome = run_in(directory.path(), &text, &ops(20)).0;
    let appended = op(&outcome, "a").bytes + op(&outcome, "r").bytes;
    assert_eq!(op(&outcome, "a").bytes, 10_000);
    assert_eq!(directory.path().join("f/00000001/00000001").metadata().unwrap().len(), 65_536 + appended);
}

#[test]
fn deleted_files_are_gone_and_created_ones_there() {
    let directory = directory();
    let fileset = "define fileset name=a,path=/x,size=1k,entries=10,dirwidth=100,prealloc=50";
    let text = body(fileset, "flowop deletefile name=d,filesetname=a");
    let outcome =
        run_in(directory.path(), &format!("set mode quit firstdone\n{text}"), &RunOptions::default()).0;
    assert_eq!(op(&outcome, "d").ops, 5);
    assert_eq!(std::fs::read_dir(directory.path().join("a/00000001")).unwrap().count(), 0);

    let text = body(fileset, "flowop createfile name=c,filesetname=a,fd=1 flowop closefile name=x,fd=1");
    let outcome =
        run_in(directory.path(), &format!("set mode quit firstdone\n{text}"), &RunOptions::default()).0;
    assert_eq!(op(&outcome, "c").ops, 5);
    assert_eq!(std::fs::read_dir(directory.path().join("a/00000001")).unwrap().count(), 10);
}

#[test]
fn picks_go_round_in_index_order() {
    let directory = directory();
    let text = body(
        "define fileset name=a,path=/x,size=1k,entries=7,dirwidth=100,prealloc",
        "flowop openfile name=o,filesetname=a,fd=1 flowop appendfile name=w,fd=1,iosize=1 \
         flowop closefile name=x,fd=1",
    );
    // Ten rounds over seven files: the first three are appended to twice.
    run_in(directory.path(), &text, &ops(30));
    let sizes: Vec<u64> = (1..=7)
        .map(|file| directory.path().join(format!("a/00000001/0000000{file}")).metadata().unwrap().len())
        .collect();
    assert_eq!(sizes, [1026, 1026, 1026, 1025, 1025, 1025, 1025]);
}

#[test]
fn an_index_picks_that_file() {
    let directory = directory();
    let text = body(
        "define fileset name=a,path=/x,size=1k,entries=7,dirwidth=100,prealloc",
        "flowop openfile name=o,filesetname=a,fd=1,indexed=9 flowop appendfile name=w,fd=1,iosize=1 \
         flowop closefile name=x,fd=1",
    );
    run_in(directory.path(), &text, &ops(30));
    assert_eq!(directory.path().join("a/00000001/00000003").metadata().unwrap().len(), 1034);
}

#[test]
fn directories_are_made_listed_and_removed() {
    let fileset =
        |percent| format!("define fileset name=a,path=/x,leafdirs=20,dirwidth=5,prealloc={percent}");
    let made = run(
        &format!("set mode quit firstdone\n{}", body(&fileset(0), "flowop makedir name=m,filesetname=a")),
        &RunOptions::default(),
    );
    assert_eq!(op(&made, "m").ops, 20);
    let removed = run(
        &format!("set mode quit alldone\n{}", body(&fileset(100), "flowop removedir name=r,filesetname=a")),
        &RunOptions::default(),
    );
    assert_eq!((op(&removed, "r").ops, removed.ended), (20, Ended::Done));
    let listed = run(&body(&fileset(100), "flowop listdir name=l,filesetname=a"), &ops(50));
    assert!(op(&listed, "l").bytes > 0);
}

#[test]
fn stat_works_by_name_and_by_slot() {
    let text = body(
        ONE_FILE,
        "flowop openfile name=o,filename=f,fd=3 flowop statfile name=s,fd=3 flowop statfile name=n,filename=f \
         flowop closefile name=x,fd=3",
    );
    let outcome = run(&text, &ops(40));
    assert_eq!((op(&outcome, "s").ops, op(&outcome, "n").ops, op(&outcome, "n").errors), (10, 10, 0));
}

#[test]
fn opennext_goes_round_the_slots() {
    let text = body(
        "define fileset name=a,path=/x,size=1k,entries=128,dirwidth=200,prealloc",
        "flowop openfile name=o,filesetname=a,opennext,iters=128 \
         flowop read name=r,filesetname=a,iosize=1k,opennext,iters=256 flowop fsyncset name=s,filesetname=a \
         flowop closefile name=x,filesetname=a,opennext,iters=128",
    );
    let outcome = run(&text, &ops(2 * (128 + 256 + 128 + 128)));
    assert_eq!(op(&outcome, "s").ops, 256);
    assert_eq!(op(&outcome, "x").ops, 256);
}

#[test]
fn asynchronous_writes_arrive() {
    needs!(IoUring);
    let directory = directory();
    let text =
        body(ONE_FILE, "flowop aiowrite name=a,filename=f,iosize=4k,random,iters=8 flowop aiowait name=w");
    let outcome = run_in(directory.path(), &text, &ops(90)).0;
    assert!(matches!(outcome.ended, Ended::OpsReached), "{:?}", outcome.ended);
    assert_eq!((op(&outcome, "a").ops, op(&outcome, "a").bytes), (80, 80 * 4096));
    assert_eq!(op(&outcome, "w").ops, 10);
}

#[test]
fn composites_repeat_and_pass_arguments() {
    let text = format!(
        "{ONE_FILE}define flowop name=group,$size,$set {{ flowop read name=r,filename=$set,iosize=$size,random,iters=2 }}\n\
         define process name=p {{ thread name=t {{ flowop group name=g,iters=3,$size=2k,$set=f }} }}\nrun 60\n"
    );
    let outcome = run(&text, &ops(12));
    assert_eq!(op(&outcome, "g.r").bytes, 12 * 2048);
    assert_eq!(op(&outcome, "g").ops, 0);
}

#[test]
fn finish_on_count_ends_the_run_with_results() {
    for mode in ["timeout", "firstdone", "alldone"] {
        let text = format!(
            "set mode quit {mode}\n{}",
            body(
                ONE_FILE,
                "flowop read name=r,filename=f,iosize=1k,random flowop finishoncount name=e,value=10,target=r"
            )
        );
        let outcome = run(&text, &RunOptions::default());
        assert_eq!((op(&outcome, "r").ops, outcome.ended), (10, Ended::Done), "mode {mode}");
    }
}

/// As in Filebench, whose sums over a process are of I/O alone; a limiter without `eventgen` is as if it were not there.
#[test]
fn finish_on_count_without_a_target_counts_io_alone() {
    for rate in ["", "eventgen rate=100000\n"] {
        let text = format!(
            "{rate}{}",
            body(
                ONE_FILE,
                "flowop read name=r,filename=f,iosize=1k,random flowop opslimit name=l flowop delay name=d,value=0 \
                 flowop finishoncount name=e,value=51"
            )
        );
        let outcome = run(&text, &RunOptions::default());
        assert_eq!(op(&outcome, "r").ops, 51);
        assert_eq!(op(&outcome, "l").ops, if rate.is_empty() { 0 } else { 51 });
    }
}

#[test]
fn finish_on_bytes_counts_the_process() {
    let text = body(
        ONE_FILE,
        "flowop read name=r,filename=f,iosize=1k,random flowop finishonbytes name=e,value=10k",
    );
    // Strictly more than 10 KiB.
    assert_eq!(op(&run(&text, &RunOptions::default()), "r").ops, 11);
}

#[test]
fn semaphores_hand_work_over() {
    let text = format!(
        "{ONE_FILE}set mode quit firstdone\n\
         define process name=a {{ thread name=producer {{ flowop read name=made,filename=f,iosize=1k,random \
         flowop sempost name=post,target=wait,value=1,blocking flowop finishoncount name=e,target=made,value=500 }} }}\n\
         define process name=b {{ thread name=consumer {{ flowop semblock name=wait,value=1,highwater=4 \
         flowop read name=used,filename=f,iosize=1k,random }} }}\nrun 60\n"
    );
    let outcome = run(&text, &RunOptions::default());
    let (made, used) = (op(&outcome, "made").ops, op(&outcome, "used").ops);
    assert_eq!(made, 500);
    assert!((made - 7..=made).contains(&used), "{used} of {made} used: the high-water mark lets 4 wait");
}

#[test]
fn a_wakeup_frees_every_blocked_thread() {
    let text = format!(
        "{ONE_FILE}define process name=a {{ thread name=w,instances=3 {{ flowop block name=wait \
         flowop read name=r,filename=f,iosize=1k,random }} }}\n\
         define process name=b {{ thread name=k {{ flowop wakeup name=wake,target=wait }} }}\nrun 60\n"
    );
    assert!(op(&run(&text, &seconds(0.3)), "r").ops > 3);
}

#[test]
fn threads_that_all_wait_end_the_run() {
    let text = body(ONE_FILE, "flowop read name=r,filename=f,iosize=1k,random flowop block name=b");
    let outcome = run(&text, &RunOptions::default());
    assert_eq!(op(&outcome, "r").ops, 1);
    assert!(outcome.notes.iter().any(|note| note.contains("waited for another")), "{:?}", outcome.notes);
}

#[test]
fn limiters_hold_the_rate_for_the_whole_run() {
    for (limiter, flowops, expected) in [
        ("eventlimit name=l", 1, 200.0),
        ("iopslimit name=l,target=r", 1, 200.0),
        ("opslimit name=l", 1, 200.0),
        ("iopslimit name=l", 1, 200.0),
    ] {
        let text = format!(
            "{ONE_FILE}eventgen rate=200\ndefine process name=p,instances=2 {{ thread name=t,instances=2 {{ \
             flowop read name=r,filename=f,iosize=1k,random,iters={flowops} flowop {limiter} }} }}\nrun 60\n"
        );
        let outcome = run(&text, &ops(200));
        let rate = op(&outcome, "r").ops as f64 / outcome.measured_seconds;
        // Four threads do one free operation each before the limiter knows of them. A busy machine may be slower.
        assert!(rate < expected * 1.1, "{limiter}: {rate} a second");
        assert_eq!(outcome.ended, Ended::OpsReached, "{limiter}: nothing came through");
    }
}

#[test]
fn bwlimit_counts_mebibytes() {
    let text = format!(
        "{ONE_FILE}eventgen rate=10\n{}",
        body("", "flowop read name=r,filename=f,iosize=64k,random flowop bwlimit name=l,target=r")
    );
    let outcome = run(&text, &ops(160));
    let rate = op(&outcome, "r").bytes as f64 / outcome.measured_seconds / (1 << 20) as f64;
    assert!(rate < 11.5, "{rate} MiB/s");
    assert_eq!(outcome.ended, Ended::OpsReached, "ten MiB in less than a minute");
}

#[test]
fn prints_and_random_variables_are_told() {
    let directory = directory();
    let text = format!(
        "set $v=randvar(type=uniform,mean=100,min=50)\n{}",
        body(
            ONE_FILE,
            "flowop print name=p,value=\"hello there\" flowop testrandvar name=v,value=$v \
             flowop read name=r,filename=f,iosize=1k,random"
        )
    );
    let (outcome, lines) = run_in(directory.path(), &text, &ops(500));
    assert!(lines.iter().any(|line| line.contains("hello there")), "{lines:?}");
    let note = outcome.notes.iter().find(|note| note.starts_with("testrandvar")).expect("a note");
    let mean: f64 = note.split("mean ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    assert!((95.0..105.0).contains(&mean), "{note}");
}

#[test]
fn direct_transfers_are_rounded_to_what_the_device_needs() {
    // Not on tmpfs: the temporary directory of the system.
    let directory = tempfile::tempdir().unwrap();
    let text = body(
        "define fileset name=a,path=/x,size=10000,entries=3,dirwidth=20,prealloc",
        "flowop openfile name=o,filesetname=a,fd=1,directio flowop readwholefile name=r,fd=1,iosize=5000 \
         flowop appendfilerand name=w,fd=1,iosize=3000 flowop closefile name=c,fd=1",
    );
    let outcome = run_in(directory.path(), &text, &ops(40)).0;
    assert_eq!(outcome.ended, Ended::OpsReached);
}

#[test]
fn io_uring_lanes_do_the_same_work() {
    needs!(IoUring);
    let text = body(
        ONE_FILE,
        "flowop write name=w,filename=f,iosize=4k,random flowop read name=r,filename=f,iosize=4k,random \
         flowop fsync name=s,fd=0",
    );
    let options = RunOptions { io: IoMode::Uring { depth: 8 }, ..ops(3000) };
    let outcome = run(&text, &options);
    assert_eq!(outcome.ended, Ended::OpsReached);
    assert_eq!(outcome.io_ops(), 3000);
    let writes = op(&outcome, "w").ops;
    assert!((1000..=1008).contains(&writes), "{writes}");
}

#[test]
fn io_uring_lanes_sleep_and_wait_without_blocking_each_other() {
    needs!(IoUring);
    let text = format!(
        "{ONE_FILE}eventgen rate=300\n{}",
        body("", "flowop read name=r,filename=f,iosize=4k,random flowop eventlimit name=l")
    );
    let options = RunOptions { io: IoMode::Uring { depth: 4 }, ..ops(300) };
    let outcome = run(&text, &options);
    let rate = op(&outcome, "r").ops as f64 / outcome.measured_seconds;
    assert!(rate < 330.0, "{rate}");
    assert_eq!(outcome.ended, Ended::OpsReached);
}
