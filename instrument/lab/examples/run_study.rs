//! The least that a front end does: `run_study STUDY.toml HOME WORK` runs a study and prints medians and
//! verdicts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lab::session::{estimate_seconds, execute};
use lab::{Ending, Notice, RealRunner, Store};
use record::results::MetricName;
use record::{compare, judge};
use stats::Rules;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().collect();
    match words.iter().skip(1).map(String::as_str).collect::<Vec<_>>().as_slice() {
        [lab::protocol::ARGUMENT] => std::process::exit(i32::from(lab::child::main())),
        [study, home, work] => run(Path::new(study), Path::new(home), Path::new(work), &words),
        _ => Err("usage: run_study STUDY.toml HOME WORK".into()),
    }
}

fn run(study: &Path, home: &Path, work: &Path, words: &[String]) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, stop.clone())?;
    let study = lab::read::study(study)?;
    lab::check::workloads(&study, lab::real::machine(None, 4 << 30))?;
    let mut store = Store::open(home)?;
    let mut run = match store.unfinished(&study.hash())?.pop() {
        Some(unfinished) => store.resume(&unfinished.id)?,
        None => store.begin(&study, words)?,
    };
    let mut runner = RealRunner::new(home, work, &run.id)?;
    println!("run {}, about {:.0} s", run.id, estimate_seconds(&run, &mut runner)?);
    let ending = execute(&mut run, &mut store, &mut runner, &stop, &mut |notice| match notice {
        Notice::Begins { cell, index, ended, planned, remaining_seconds } => {
            println!("{ended}/{planned} {} trial {index} ({remaining_seconds:.0} s left)", cell.label());
        }
        Notice::Ended { trial, .. } => {
            let rate = trial.outcome.as_ref().map_or(0.0, |outcome| outcome.io_ops_per_second());
            println!("    {:?} {rate:.0} ops/s in {:.1} s", trial.status, trial.seconds);
        }
        Notice::Unavailable { stack, reason, remedy } => {
            println!("{stack} is unavailable: {reason}; {remedy}")
        }
        _ => {}
    })?;
    for cell in &run.cells {
        let values = compare::values(&run, cell.id, MetricName::Throughput);
        let median = stats::Sample::new(&values).map_or(f64::NAN, |sample| sample.median());
        println!("{:50} {median:10.0} ops/s {values:.0?}", cell.label());
    }
    for judgement in judge::claims(&run, &Rules::default())? {
        println!("{:?}: {} ({})", judgement.answer, judgement.claim, judgement.reason);
    }
    println!(
        "{}",
        if ending == Ending::Complete { "complete" } else { "interrupted; run it again to resume" }
    );
    Ok(())
}
