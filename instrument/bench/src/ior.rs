//! IOR and mdtest themselves beside the loads `ior` and `mdtest`: the same launcher, the same options, the same file system.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::image::on_ext4;
use crate::pairs::{self, Pairs};

/// What a case measures: a phase's name at loadline, and where the program's own result stands.
struct Phase {
    ours: &'static str,
    theirs: &'static str,
}

struct Case {
    program: &'static str,
    name: &'static str,
    options: &'static str,
    phases: &'static [Phase],
}

const WRITE: Phase = Phase { ours: "write/mib_per_second", theirs: "write" };
const READ: Phase = Phase { ours: "read/mib_per_second", theirs: "read" };

const FILES: [Phase; 4] = [
    Phase { ours: "file-create/ops_per_second", theirs: "File creation" },
    Phase { ours: "file-stat/ops_per_second", theirs: "File stat" },
    Phase { ours: "file-read/ops_per_second", theirs: "File read" },
    Phase { ours: "file-remove/ops_per_second", theirs: "File removal" },
];

const BOTH: [Phase; 7] = [
    Phase { ours: "directory-create/ops_per_second", theirs: "Directory creation" },
    Phase { ours: "directory-stat/ops_per_second", theirs: "Directory stat" },
    Phase { ours: "directory-remove/ops_per_second", theirs: "Directory removal" },
    Phase { ours: "file-create/ops_per_second", theirs: "File creation" },
    Phase { ours: "file-stat/ops_per_second", theirs: "File stat" },
    Phase { ours: "file-read/ops_per_second", theirs: "File read" },
    Phase { ours: "file-remove/ops_per_second", theirs: "File removal" },
];

// of so many bytes that a phase takes a tenth of a second: in one of ten milliseconds barriers count, and which pages one was given
const CASES: [Case; 7] = [
    Case { program: "ior", name: "-F 1m", options: "-F -b 1g -t 1m -e -g", phases: &[WRITE, READ] },
    Case { program: "ior", name: "-F 4k", options: "-F -b 256m -t 4k -e -g", phases: &[WRITE, READ] },
    Case { program: "ior", name: "segmented 1m", options: "-b 1g -t 1m -e -g", phases: &[WRITE, READ] },
    Case {
        program: "ior",
        name: "strided 47008",
        options: "-b 47008 -t 47008 -s 20000 -e -g",
        phases: &[WRITE, READ],
    },
    Case { program: "mdtest", name: "shared", options: "-n 10000", phases: &BOTH },
    Case { program: "mdtest", name: "easy", options: "-n 10000 -u -L -F -N 1", phases: &FILES },
    Case { program: "mdtest", name: "hard", options: "-n 4000 -F -w 3901 -e 3901 -N 1 -t", phases: &FILES },
];

const FILE_SYSTEMS: [&str; 2] = ["tmpfs", "ext4"];

/// Ranks of each run.
const RANKS: [&str; 2] = ["1", "2"];

impl Case {
    /// As it is called in rows, and in `--only`.
    fn title(&self, ranks: &str, file_system: &str) -> String {
        format!("{} {} n={ranks} {file_system}", self.program, self.name)
    }
}

/// Whether a word of `--only` names a program or a case here.
pub fn is_meant(only: &str) -> bool {
    let all = || CASES.iter().flat_map(|case| RANKS.iter().map(move |ranks| (case, ranks)));
    all().any(|(case, ranks)| FILE_SYSTEMS.iter().any(|on| case.title(ranks, on).contains(only)))
}

/// Runs the cases whose name contains `only`, on the tmpfs and on ext4 in an image, with the programs on PATH.
pub fn measure(pairs: &Pairs, tmpfs: &Path, disk: &Path, only: &str) -> anyhow::Result<()> {
    for (program, what) in [("mpirun", "apt install openmpi-bin"), ("ior", SOURCE), ("mdtest", SOURCE)] {
        if !is_on_path(program) {
            println!("{program} is not on PATH ({what}): the cases of IOR and mdtest are left out");
            return Ok(());
        }
    }
    let loadline = std::env::current_exe()?.with_file_name("loadline");
    if !loadline.exists() {
        println!("{} is not there (cargo build --release): the cases are left out", loadline.display());
        return Ok(());
    }
    let home = tempfile::Builder::new().prefix("loadline-bench-").tempdir_in(tmpfs)?;
    let folder = tempfile::Builder::new().prefix("loadline-bench-").tempdir_in(tmpfs)?;
    let (home, loadline, rounds) = (home.path(), loadline.as_path(), pairs.rounds);
    let [memory, on_disk] = FILE_SYSTEMS;
    all(&Place { file_system: memory, folder: folder.path(), home, loadline, rounds, only })?;
    drop(folder);
    on_ext4(disk, "8G", |folder| all(&Place { file_system: on_disk, folder, home, loadline, rounds, only }))
}

const SOURCE: &str = "build https://github.com/hpc/ior: ./bootstrap && ./configure && make";

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

struct Place<'a> {
    file_system: &'a str,
    folder: &'a Path,
    home: &'a Path,
    loadline: &'a Path,
    rounds: usize,
    only: &'a str,
}

fn all(place: &Place<'_>) -> anyhow::Result<()> {
    pairs::print_header("the program");
    for case in &CASES {
        for ranks in
            RANKS.into_iter().filter(|ranks| case.title(ranks, place.file_system).contains(place.only))
        {
            one(case, ranks, place)?;
        }
    }
    Ok(())
}

/// Both in turns; who goes first changes. A row for each phase. What one has left to be written is not written in the other's
/// time.
fn one(case: &Case, ranks: &str, place: &Place<'_>) -> anyhow::Result<()> {
    let (mut us, mut them) = (Vec::new(), Vec::new());
    for round in 0..=place.rounds {
        let mut pair = [Vec::new(), Vec::new()];
        for side in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            rustix::fs::syncfs(std::fs::File::open(place.folder)?)?;
            pair[side] = if side == 0 { ours(case, ranks, place)? } else { theirs(case, ranks, place)? };
        }
        // the first round warms caches
        if round > 0 {
            let [ours, theirs] = pair;
            us.push(ours);
            them.push(theirs);
        }
    }
    for (at, phase) in case.phases.iter().enumerate() {
        let of = |all: &[Vec<f64>]| all.iter().map(|one| one[at]).collect::<Vec<f64>>();
        let name = format!("{}: {}", case.title(ranks, place.file_system), phase.theirs);
        pairs::print_row(&name, 0.95, &of(&us), &of(&them));
    }
    Ok(())
}

fn mpirun(ranks: &str) -> Command {
    let mut command = Command::new("mpirun");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.args(["-n", ranks, "--oversubscribe", "--bind-to", "none"]);
    command
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().context("cannot run mpirun")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {} {told}", String::from_utf8_lossy(&output.stdout));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn ours(case: &Case, ranks: &str, place: &Place<'_>) -> anyhow::Result<Vec<f64>> {
    let home = ["--home".as_ref(), place.home.as_os_str()];
    let on = format!("dir:{}", place.folder.display());
    let mut run = mpirun(ranks);
    run.arg(place.loadline).args(home).args(["run", case.program, "--on", &on, "-n", "1", "-q", "--"]);
    output(run.args(case.options.split_whitespace()))?;
    let mut report = Command::new(place.loadline);
    report.args(home).args(["report", "last", "--format", "json"]);
    let shown: Value = serde_json::from_str(&output(&mut report)?)?;
    let metrics = shown["run"]["trials"][0]["outcome"]["metrics"].as_array().context("no metrics")?;
    let value = |phase: &Phase| {
        let found = metrics.iter().find(|metric| metric["name"] == phase.ours);
        found.and_then(|metric| metric["value"].as_f64()).with_context(|| format!("no {}", phase.ours))
    };
    case.phases.iter().map(value).collect()
}

fn theirs(case: &Case, ranks: &str, place: &Place<'_>) -> anyhow::Result<Vec<f64>> {
    let private = tempfile::tempdir_in(place.folder)?;
    let summary: PathBuf = place.home.join("summary.json");
    let mut run = mpirun(ranks);
    run.arg(case.program).args(case.options.split_whitespace());
    if case.program == "ior" {
        run.arg("-o").arg(private.path().join("testFile"));
        run.args(["-O", "summaryFormat=JSON", "-O"]).arg(format!("summaryFile={}", summary.display()));
        output(&mut run)?;
        let shown: Value = serde_json::from_str(&std::fs::read_to_string(&summary)?)?;
        let results = shown["tests"][0]["Results"].as_array().context("IOR has no results")?;
        let value = |phase: &Phase| {
            let found = results.iter().find(|one| one["access"] == phase.theirs);
            found
                .and_then(|one| one["bwMiB"].as_f64())
                .with_context(|| format!("IOR has no {}", phase.theirs))
        };
        return case.phases.iter().map(value).collect();
    }
    run.arg("-d").arg(private.path());
    let text = output(&mut run)?;
    let value = |phase: &Phase| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(phase.theirs));
        let rate = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        rate.with_context(|| format!("mdtest has no {}", phase.theirs))
    };
    case.phases.iter().map(value).collect()
}
