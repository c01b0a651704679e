//! Many machines, made from the records of one: the parts of thousands of ranks added, a study's shards merged.

use std::path::{Path, PathBuf};
use std::time::Instant;

use engine::RunOptions;
use lab::Store;
use stats::{Outcome, parallel};
use study::Study;
use study::deal;
use study::results::{Status, Trial};
use study::shard::Shard;

use crate::cases;

/// Ranks whose parts are added.
const RANKS: usize = 4096;
/// Shards, and cells of the study.
const SHARDS: u32 = 100;
const CELLS: u32 = 10_000;
/// Several operations with wide histograms.
const SCRIPT: &str = "set $threads=1\ndefine fileset name=f,path=/x,entries=100,size=8k,prealloc=100,dirwidth=20\n\
    define process name=p { thread name=t,instances=$threads {\n\
      flowop openfile name=open,filesetname=f,fd=1\n flowop readwholefile name=read,fd=1\n\
      flowop writewholefile name=write,fd=1\n flowop fsync name=fsync,fd=1\n flowop closefile name=close,fd=1\n } }\n";
/// Measured for the record that all others are copies of, in seconds.
const SECONDS: f64 = 1.0;

/// Prints the figures; what is made lies below `folder` meanwhile.
pub fn measure(folder: &Path) -> anyhow::Result<()> {
    println!("\nmany machines, made from one record");
    let private = tempfile::tempdir_in(folder)?;
    let options = RunOptions { seconds: Some(SECONDS), settle: false, ..RunOptions::default() };
    let outcome = cases::outcome(&cases::load(SCRIPT, 2)?, private.path(), &options)?;
    ranks(&outcome)?;
    shards(&outcome, private.path())
}

/// As rank 0 does it: each part is read from its message, kept, and added.
fn ranks(outcome: &Outcome) -> anyhow::Result<()> {
    let message = serde_json::to_vec(outcome)?;
    let start = Instant::now();
    let parts = (0..RANKS).map(|_| serde_json::from_slice(&message)).collect::<Result<Vec<Outcome>, _>>()?;
    let whole = parallel::combine(parts.iter().cloned());
    let took = start.elapsed().as_secs_f64();
    let ops = |outcome: &Outcome| outcome.ops.iter().map(|op| op.service.count()).sum::<u64>();
    anyhow::ensure!(whole.as_ref().map(ops) == Some(RANKS as u64 * ops(outcome)), "operations were lost");
    println!(
        "add the records of {RANKS} ranks, {} bytes each: {took:.2} s, {:.0} MiB at most (limits: 10 s, 1024 MiB)",
        message.len(),
        peak_mib()?
    );
    Ok(())
}

fn shards(outcome: &Outcome, folder: &Path) -> anyhow::Result<()> {
    let text = format!(
        "stacks = ['ext4', 'xfs']\n[study]\ntrials = 1\n[[workload]]\nname = 'a'\ntext = 'run'\nparameters = {{ n = {:?}, m = {:?} }}\n",
        (0..100).collect::<Vec<u32>>(),
        (0..CELLS / 200).collect::<Vec<u32>>()
    );
    let study = Study::from_stored(&text)?;
    let mut stores: Vec<PathBuf> = Vec::new();
    for number in 1..=SHARDS {
        let shard = Some(Shard::new(number, SHARDS)?);
        let home = folder.join(number.to_string());
        let mut store = Store::open(&home)?;
        let run = store.begin_shard(&study, &["bench".into()], shard)?;
        let trials: Vec<Trial> = deal::order(&study, shard)
            .into_iter()
            .map(|slot| Trial {
                cell: slot.cell,
                index: slot.index,
                order: slot.order,
                status: Status::Done,
                outcome: Some(outcome.clone()),
                environment: None,
                commands: Vec::new(),
                log: Vec::new(),
                raw_output: String::new(),
                started: run.started,
                seconds: SECONDS,
                fsync: None,
                extras: Default::default(),
                variables: Vec::new(),
            })
            .collect();
        store.add_trials(&run.id, &trials)?;
        store.finish(&run.id)?;
        stores.push(home);
    }
    let mut whole = Store::open(&folder.join("whole"))?;
    let start = Instant::now();
    let merged = whole.merge(&stores, None, &["bench".into()])?;
    let took = start.elapsed().as_secs_f64();
    anyhow::ensure!(merged.done == u64::from(CELLS), "{} of {CELLS} trials", merged.done);
    println!("merge {SHARDS} shards of a study of {CELLS} cells: {took:.2} s (limit: 60 s)");
    Ok(())
}

/// The most memory that this process has had, in MiB (proc_pid_status(5)).
fn peak_mib() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kib.ok_or_else(|| anyhow::anyhow!("/proc/self/status has no VmHWM"))? / 1024.0)
}
