//! A run in slices does what was granted, and nothing between the grants.

mod common;

use common::{directory, parse};
use engine::slices::Slice;
use engine::{Control, RunOptions};
use needs::needs;
use stats::Ended;
use workload::IoMode;

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
fn run(text: &str, io: IoMode, grants: &[u64]) -> (u64, Ended) {
    let directory = directory();
    let control = Control::in_slices();
    let options = RunOptions { seconds: Some(1e6), io, ..RunOptions::default() };
    let outcome = std::thread::scope(|scope| {
        let granting = scope.spawn(|| {
            let slices = control.slices().unwrap();
            let is_ready = slices.ready(&control);
            let done: Vec<Slice> = grants.iter().map(|grant| slices.slice(&control, *grant)).collect();
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
            assert_eq!(slices.slice(&control, 1), Slice::Over);
        });
        let outcome = engine::run(&parse(text), directory.path(), &options, &control, &mut |_| {}).unwrap();
        granting.join().unwrap();
        outcome
    });
    (outcome.io_ops() - grants.iter().sum::<u64>(), outcome.ended)
}

#[test]
fn each_lane_does_one_operation_before_the_first_grant_and_then_what_is_granted() {
    let grants = [1, 2, 500, 64, 1, 3000, 7];
    assert_eq!(run(MAIL, IoMode::Psync, &grants), (5, Ended::Interrupted));
    assert_eq!(run(READS, IoMode::Psync, &grants), (3, Ended::Interrupted));
}

#[test]
fn lanes_of_one_thread_wait_as_threads_do() {
    needs!(IoUring);
    assert_eq!(run(READS, IoMode::Uring { depth: 4 }, &[1, 300, 5]), (12, Ended::Interrupted));
}

#[test]
fn lanes_that_wait_for_each_other_hold_back_what_they_claimed_and_no_more() {
    // a lane in a semaphore may keep what is left of its claim for later
    let grants = [1, 100, 900, 3];
    let (more, ended) = run(SEMAPHORES, IoMode::Psync, &grants);
    assert!(more <= 2, "{more} operations beside what was granted");
    assert_eq!(ended, Ended::Interrupted);
}
