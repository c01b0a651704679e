//! Runs of `loadline` in a home of their own, and what they say.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;
use stats::sequential::block_difference;

/// A mail server that fsyncs what it delivers.
const MAIL: &str = "set $nfiles=1000\nset $nthreads=8\n\
    define fileset name=mail,path=/mail,entries=$nfiles,size=16k,dirwidth=1000000,prealloc=80\n\
    define process name=p { thread name=t,instances=$nthreads,memsize=1m {\n\
      flowop deletefile name=delete,filesetname=mail\n\
      flowop createfile name=create,filesetname=mail,fd=1\n\
      flowop appendfilerand name=append,iosize=16k,fd=1\n\
      flowop fsync name=sync,fd=1\n\
      flowop closefile name=close,fd=1\n\
      flowop openfile name=open,filesetname=mail,fd=1\n\
      flowop readwholefile name=read,fd=1,iosize=1m\n\
      flowop closefile name=close2,fd=1\n\
    } }\nrun 60\n";
/// One operation, before which B has more work to do. One thread: where two wait for a file's lock, the work of one hides behind the
/// other's wait, and a tenth more of it is no tenth of the time.
const ONE: &str = "set $work=0\ndefine file name=f,path=/one,size=64m,prealloc\n\
    define process name=p { thread name=t,instances=1 {\n\
      flowop hog name=more,value=$work\n\
      OPERATION\n\
    } }\nrun 60\n";
/// The loads of the planted difference.
pub const LOADS: [(&str, &str); 3] = [
    ("reads.f", "flowop read name=read,filename=f,iosize=4k,random,fd=1"),
    ("fsyncs.f", "flowop write name=write,filename=f,iosize=4k,random,fd=1\nflowop fsync name=sync,fd=1"),
    ("buffered.f", "flowop write name=write,filename=f,iosize=4k,random,fd=1"),
];

/// The program.
pub struct Program(PathBuf);

/// A home of results.
pub struct Home<'p> {
    program: &'p Program,
    folder: tempfile::TempDir,
}

/// What it said, as JSON.
pub struct Said(Value);

/// A trial of a stored comparison.
pub struct Trial {
    pub cell: u64,
    pub index: u64,
    pub operations: u64,
    pub seconds: f64,
}

impl Program {
    /// The program that is named, or `loadline` beside this one.
    pub fn new(named: Option<&Path>) -> anyhow::Result<Program> {
        let beside =
            || -> anyhow::Result<PathBuf> { Ok(std::env::current_exe()?.with_file_name("loadline")) };
        let path = named.map_or_else(beside, |path| Ok(path.to_path_buf()))?;
        if !path.is_file() {
            bail!(
                "{} is not there: cargo build --release -p loadline, or name it with --program",
                path.display()
            );
        }
        Ok(Program(path.canonicalize()?))
    }

    /// A home with the workloads in it, on a disk.
    pub fn home(&self) -> anyhow::Result<Home<'_>> {
        let folder = tempfile::tempdir_in("/var/tmp")?;
        std::fs::write(folder.path().join("mail.f"), MAIL)?;
        for (name, operation) in LOADS {
            std::fs::write(folder.path().join(name), ONE.replace("OPERATION", operation))?;
        }
        Ok(Home { program: self, folder })
    }
}

impl Home<'_> {
    fn output(&self, words: &[&str], codes: &[i32]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.program.0);
        let home = self.folder.path().join("home");
        command.args(words).current_dir(self.folder.path()).env("LOADLINE_HOME", home);
        let output = command.output().context("loadline cannot be started")?;
        if !output.status.code().is_some_and(|code| codes.contains(&code)) {
            let why = String::from_utf8_lossy(&output.stderr);
            bail!("loadline {}: {}\n{why}", words.join(" "), output.status);
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// A command that must go well.
    pub fn run(&self, words: &[&str]) -> anyhow::Result<String> {
        self.output(words, &[0])
    }

    /// A directory in the home as a stack.
    pub fn directory(&self, name: &str) -> anyhow::Result<String> {
        Ok(format!("dir:{}", self.place(name)?.display()))
    }

    /// A directory in the home, which is made.
    pub fn place(&self, name: &str) -> anyhow::Result<PathBuf> {
        let place = self.folder.path().join(name);
        std::fs::create_dir_all(&place)?;
        Ok(place)
    }

    /// A comparison: what it says, whatever the verdict is.
    pub fn ab(&self, words: &[&str]) -> anyhow::Result<String> {
        self.output(words, &[0, 1, 4])
    }

    /// A comparison's JSON.
    pub fn json(&self, words: &[&str]) -> anyhow::Result<Said> {
        Ok(Said(serde_json::from_str(&self.output(words, &[0, 1, 4])?)?))
    }

    /// The last run, whole.
    pub fn report(&self) -> anyhow::Result<Said> {
        self.report_of("last")
    }

    /// A run, whole.
    pub fn report_of(&self, run: &str) -> anyhow::Result<Said> {
        let file = self.folder.path().join("report.json");
        let name = file.to_string_lossy();
        self.run(&["report", run, "--json", &name])?;
        Ok(Said(serde_json::from_slice(&std::fs::read(&file)?)?))
    }

    /// `ln(B/A)` of what the last comparison in turns was decided by: of each block, or of each build of slices.
    pub fn differences(&self) -> anyhow::Result<Vec<f64>> {
        let report = self.report()?;
        let study = study::Study::from_stored(report.text("/run/study"))?;
        let kept = study.study.turns.and_then(|turns| turns.kept_blocks);
        let trials = 2 * u64::from(kept.unwrap_or(1));
        let mut units: std::collections::BTreeMap<u64, [Vec<Trial>; 2]> = Default::default();
        for trial in report.trials() {
            let side = usize::from(trial.cell == 1);
            units.entry(trial.index / trials).or_default()[side].push(trial);
        }
        units.retain(|_, sides| sides.iter().all(|side| side.len() as u64 == trials));
        let of = |[a, b]: &[Vec<Trial>; 2]| match kept {
            None => block_difference(&rates(a), &rates(b)),
            Some(_) => block_difference(&[whole_rate(a)], &[whole_rate(b)]),
        };
        Ok(units.values().map(of).collect::<Result<_, _>>()?)
    }

    /// Logarithms of the throughputs of each cell of the last run, block by block, in the order of the cells.
    pub fn logarithms(&self) -> anyhow::Result<Vec<Vec<f64>>> {
        let mut trials: Vec<Trial> = self.report()?.trials().collect();
        trials.sort_by_key(|trial| trial.index);
        let mut cells: std::collections::BTreeMap<u64, Vec<f64>> = Default::default();
        for trial in trials {
            cells.entry(trial.cell).or_default().push(trial.rate().ln());
        }
        Ok(cells.into_values().collect())
    }

    /// Cells of the last run that differ in nothing but the stack, two by two.
    pub fn pairs(&self) -> anyhow::Result<Vec<(usize, usize)>> {
        let report = self.report()?;
        let cells = report.0.pointer("/run/cells").and_then(Value::as_array).into_iter().flatten();
        let mut sets: std::collections::BTreeMap<String, Vec<usize>> = Default::default();
        for (at, cell) in cells.enumerate() {
            sets.entry(cell["parameters"].to_string()).or_default().push(at);
        }
        Ok(sets.into_values().filter_map(|set| Some((*set.first()?, *set.get(1)?))).collect())
    }
}

impl Trial {
    fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }
}

fn rates(trials: &[Trial]) -> Vec<f64> {
    trials.iter().map(Trial::rate).collect()
}

/// Of all slices of a side together.
fn whole_rate(trials: &[Trial]) -> f64 {
    let sum = |of: fn(&Trial) -> f64| trials.iter().map(of).sum::<f64>();
    sum(|trial| trial.operations as f64) / sum(|trial| trial.seconds)
}

impl Said {
    /// A text at a JSON pointer; nothing when there is none.
    pub fn text(&self, at: &str) -> &str {
        self.0.pointer(at).and_then(Value::as_str).unwrap_or_default()
    }

    /// A number at a JSON pointer; not a number when there is none.
    pub fn number(&self, at: &str) -> f64 {
        self.0.pointer(at).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// The word of the verdict of a finding.
    pub fn verdict(&self, finding: &str) -> &str {
        self.text(&format!("{finding}/verdict/verdict"))
    }

    /// Trials that are done, in the order of time.
    pub fn trials(&self) -> impl Iterator<Item = Trial> {
        let trials = self.0.pointer("/run/trials").and_then(Value::as_array).into_iter().flatten();
        trials.filter_map(|trial| {
            let number = |at: &str| trial.pointer(at).and_then(Value::as_u64);
            let ops = trial.pointer("/outcome/ops")?.as_array()?.iter();
            let counts =
                |op: &&Value| matches!(op.pointer("/class").and_then(Value::as_str), Some("io" | "aio"));
            Some(Trial {
                cell: number("/cell")?,
                index: number("/index")?,
                operations: ops.filter(counts).filter_map(|op| op.pointer("/ops")?.as_u64()).sum(),
                seconds: trial.pointer("/outcome/measured_seconds")?.as_f64()?,
            })
        })
    }
}
