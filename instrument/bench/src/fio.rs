//! fio's jobs and their counterparts: 4 KiB random reads and writes.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use engine::RunOptions;
use workload::IoMode;
use workload::Workload;

use crate::cases;
use crate::image::on_ext4;
use crate::pairs::Pairs;

/// One job, for both sides.
struct Job {
    name: &'static str,
    /// fio's `rw`, and `read` or `write` of its JSON.
    rw: &'static str,
    side: &'static str,
    flowop: &'static str,
}

const JOBS: [Job; 2] = [
    Job { name: "randread 4 KiB", rw: "randread", side: "read", flowop: "read" },
    Job { name: "randwrite 4 KiB", rw: "randwrite", side: "write", flowop: "write" },
];

/// Where a job runs and how.
struct Place<'a> {
    directory: &'a Path,
    jobs: usize,
    engine: &'static str,
    depth: u32,
    direct: bool,
}

/// Runs every job beside fio.
pub fn measure(pairs: &Pairs, tmpfs: &Path, disk: &Path) -> anyhow::Result<()> {
    if Command::new("fio").arg("--version").output().is_err() {
        println!("fio is not installed (apt install fio): its cases are left out");
        return Ok(());
    }
    let directory = tempfile::Builder::new().prefix("loadline-bench-").tempdir_in(tmpfs)?;
    for job in &JOBS {
        for jobs in [1, 2] {
            let place = Place { directory: directory.path(), jobs, engine: "psync", depth: 1, direct: false };
            one(job, &place, &format!("{}, psync, tmpfs, {jobs} thr", job.name), pairs)?;
        }
    }
    drop(directory);
    // io_uring at depth 32 with `O_DIRECT`
    on_ext4(disk, "2G", |directory| {
        JOBS.iter().try_for_each(|job| {
            let place = Place { directory, jobs: 1, engine: "io_uring", depth: 32, direct: true };
            one(job, &place, &format!("{}, io_uring 32, direct, ext4", job.name), pairs)
        })
    })
}

fn one(job: &Job, place: &Place<'_>, name: &str, pairs: &Pairs) -> anyhow::Result<()> {
    let workload = counterpart(job, place)?;
    let ours = |seconds: f64| {
        let io = if place.depth > 1 { IoMode::Uring { depth: place.depth } } else { IoMode::Psync };
        let options = RunOptions { seconds: Some(seconds), io, ..RunOptions::default() };
        cases::engine_run_with(&workload, place.directory, &options)
    };
    let theirs = |seconds: f64| fio(job, place, seconds);
    pairs.run(name, 1.0, ours, theirs)
}

fn counterpart(job: &Job, place: &Place<'_>) -> anyhow::Result<Workload> {
    let direct = if place.direct { ",directio" } else { "" };
    let text = format!(
        "define file name=data,path=/x,size=256m,prealloc,reuse\n\
         define process name=p,instances=$threads {{\n\
         thread name=t {{ flowop {} name=io,filename=data,iosize=4k,random{direct} }}\n\
         }}\n",
        job.flowop
    );
    cases::load(&format!("set $threads=1\n{text}"), place.jobs)
}

/// fio on the very file that loadline made.
fn fio(job: &Job, place: &Place<'_>, seconds: f64) -> anyhow::Result<f64> {
    let file = place.directory.join("data/00000001/00000001");
    let output = Command::new("fio")
        .args(["--name=job", "--bs=4k", "--size=256m", "--time_based", "--group_reporting", "--norandommap"])
        .args(["--output-format=json", "--invalidate=0", "--overwrite=1"])
        .arg(format!("--rw={}", job.rw))
        .arg(format!("--ioengine={}", place.engine))
        .arg(format!("--iodepth={}", place.depth))
        .arg(format!("--direct={}", u8::from(place.direct)))
        .arg(format!("--numjobs={}", place.jobs))
        .arg(format!("--runtime={}ms", (seconds * 1000.0) as u64))
        .arg(format!("--filename={}", file.display()))
        .output()
        .context("cannot run fio")?;
    anyhow::ensure!(output.status.success(), "fio: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let json: serde_json::Value =
        serde_json::from_str(text[text.find('{').context("fio printed no JSON")?..].trim())?;
    json["jobs"][0][job.side]["iops"].as_f64().context("fio printed no iops")
}
