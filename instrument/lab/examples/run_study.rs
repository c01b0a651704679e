//! The least that a front end does: `run_study STUDY.toml HOME WORK` runs a study and prints medians and
//! verdicts.

use std::path::Path;

use analysis::judge;
use lab::campaign::Opening;
use lab::load::FREE_BYTES_ASSUMED;
use lab::{Campaign, SessionEvent, SessionOutcome, StackFactory};
use stats::Thresholds;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().collect();
    match words.iter().skip(1).map(String::as_str).collect::<Vec<_>>().as_slice() {
        [lab::protocol::ARGUMENT] => std::process::exit(i32::from(lab::worker::main())),
        [study, home, work] => run(Path::new(study), Path::new(home), Path::new(work), &words),
        _ => Err("usage: run_study STUDY.toml HOME WORK".into()),
    }
}

fn run(study: &Path, home: &Path, work: &Path, words: &[String]) -> Result<(), Failure> {
    let study = lab::read::study(study, &study::StudyVariant::default())?;
    let machine = lab::load::machine(study.study.memory.map(|bytes| bytes.0), FREE_BYTES_ASSUMED);
    let loads = lab::check::workloads(&study, machine)?;
    let site = StackFactory::new(&camino::absolute_utf8(home)?, &camino::absolute_utf8(work)?)?;
    let opening = Opening {
        resume: true,
        shard: None,
        name: None,
        command_line: words.to_vec(),
        on_signal: |wish| eprintln!("{wish:?}"),
    };
    let mut campaign = Campaign::open(study, loads, site, &opening, &mut |opened| println!("{opened:?}"))?;
    let seconds = campaign.estimate_seconds();
    println!("run {}, about {seconds:.0} s", campaign.run().id);
    let ended = campaign.execute(&mut |notice| match notice {
        SessionEvent::Begins { cell, index, ended, planned, remaining_seconds } => {
            println!("{ended}/{planned} {} trial {index} ({remaining_seconds:.0} s left)", cell.label());
        }
        SessionEvent::Ended { trial, .. } => {
            let rate = trial.outcome.as_ref().map_or(0.0, |outcome| outcome.io_ops_per_second());
            println!("    {:?} {rate:.0} ops/s in {:.1} s", trial.status, trial.seconds);
        }
        SessionEvent::Unavailable { stack, reason, remedy } => {
            println!("{stack} is unavailable: {reason}; {remedy}")
        }
        _ => {}
    });
    let (run, left) = campaign.close();
    left.iter().for_each(|left| println!("not taken down:\n{left}"));
    let ending = ended?;
    for cell in &run.cells {
        let values = run.throughputs_of(cell.id);
        let median = stats::Sample::new(&values).map_or(f64::NAN, |sample| sample.median());
        println!("{:50} {median:10.0} ops/s {values:.0?}", cell.label());
    }
    for judgement in judge::claims(&run, &Thresholds::default())? {
        println!("{:?}: {} ({})", judgement.answer, judgement.claim, judgement.reason);
    }
    println!(
        "{}",
        if ending == SessionOutcome::Complete { "complete" } else { "interrupted; run it again to resume" }
    );
    Ok(())
}
