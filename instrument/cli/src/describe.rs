//! `describe`: a recording as a workload in Filebench's language, and how well that fits.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueHint};
use engine::Stage;
use recorder::{RecordOptions, RecorderError, Subject};
use recording::describe::{Figures, Fit, Profile};
use recording::{Reader, RecordingError};
use spec::StackSpec;
use workload::Workload;

use crate::console::{self, Exit, bad_input};
use crate::explain::{load_text, on_stack, run_stage, seconds};
use crate::options::Options;
use crate::programs::Permission;

/// Options of `describe`.
#[derive(Debug, Args)]
#[command(after_help = "\
The personality has the recording's threads by role, filesets with their sizes, flowops in their usual order, distributions of sizes, \
and its rate; comments say what each came from, and what it cannot say. $speed scales the rate; 0 drops it.

With --fit it is run on a stack, recorded like the program, and compared: shares of calls within 2 points, median and p99 of sizes \
within 10 %, syncs within 2 %, calls a second within 15 %.

Examples:
  loadline describe app.trace > app.f
  loadline describe app.trace -o app.f --fit ext4
  loadline describe app.trace -o app.f --fit xfs@860evo --for 20s
Exit codes: 0 done, and within the aims; 1 outside of one; 2 bad input; 3 this machine cannot.")]
pub struct Describe {
    /// The recording
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    recording: PathBuf,
    /// Write the personality to this file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Run the personality on this stack and say how near it comes
    #[arg(long, value_name = "STACK")]
    fit: Option<String>,
    /// How long it runs
    #[arg(long = "for", value_name = "TIME", default_value = "10s", requires = "fit")]
    length: String,
}

/// Describes.
pub fn describe(options: &Options, arguments: &Describe) -> anyhow::Result<Exit> {
    let file = &arguments.recording;
    let shown = file.display().to_string();
    let name = file.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
    let spec: Option<StackSpec> = arguments
        .fit
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(|error| bad_input(format!("--fit: {error}")))?;
    let opened = File::open(file).map_err(|error| bad_input(format!("{shown}: {error}")))?;
    let profile = profile(opened).map_err(|error| bad_input(format!("{shown}: {error}")))?;
    if profile.total() == 0 {
        return Err(bad_input(format!(
            "{shown}: there is no call on a file in it; `loadline check` says what is"
        )));
    }
    let text = recording::describe::describe(&profile, &name);
    match &arguments.output {
        Some(output) => crate::report::write(output, &text)?,
        None if spec.is_none() => console::print(text.trim_end())?,
        None => {}
    }
    let Some(spec) = spec else { return Ok(Exit::Done) };
    let workload = load_text(
        text.into_bytes(),
        name,
        &format!("the description of {shown}"),
        Vec::new(),
        Permission::Missing,
    )?;
    let fit = fitted(options, &spec, &workload, seconds(&arguments.length)?, &profile)?;
    let Some(fit) = fit else { return Ok(Exit::CannotHere) };
    console::print(&format!("{shown} and its description on {spec}\n{fit}"))?;
    Ok(if fit.is_within() { Exit::Done } else { Exit::Failed })
}

fn profile(from: File) -> Result<Profile, RecordingError> {
    Profile::of(Reader::new(BufReader::with_capacity(1 << 20, from))?)
}

/// Runs a personality on a stack, recorded, and compares the two recordings; `None`: this machine cannot record, which was said.
fn fitted(
    options: &Options,
    spec: &StackSpec,
    workload: &Workload,
    length: f64,
    recorded: &Profile,
) -> anyhow::Result<Option<Fit>> {
    on_stack(options, spec, |built| {
        let root = built.path().as_std_path();
        run_stage(workload, root, Stage::Prepare, length, false)?;
        built.remount_cold()?;
        let mut file = tempfile(options)?;
        let under = root.canonicalize()?.as_os_str().as_bytes().to_vec();
        let wanted = RecordOptions {
            subject: Subject::Processes(Vec::new()),
            length: None,
            under: vec![under],
            anonymous: false,
        };
        let run = || run_stage(workload, root, Stage::Measure, length, false);
        match recorder::record_work(&wanted, BufWriter::new(&file), run) {
            Ok((_, worked)) => worked.context("the personality")?,
            Err(RecorderError::Unavailable(why)) => {
                host::note!("loadline: {why}");
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
        file.seek(SeekFrom::Start(0))?;
        Ok(Some(Fit::of(&Figures::from(recorded), &Figures::from(&profile(file)?))))
    })
}

/// A file without a name in the home of results.
fn tempfile(options: &Options) -> anyhow::Result<File> {
    let home = crate::run::home(options)?;
    let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let made = rustix::fs::open(Path::new(&home), flags, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
    Ok(File::from(made.with_context(|| format!("a temporary file in {}", home.display()))?))
}
