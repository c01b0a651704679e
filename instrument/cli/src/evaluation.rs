//! Studies that fit a machine: the options that choose scale, rows, columns and device, and what they make of a study.

use std::path::Path;

use anyhow::Context;
use clap::{Args, ValueHint};
use spec::StackSpec;
use study::embedded::EmbeddedStudy;
use study::{Study, StudyVariant};

use crate::console::bad_input;

/// Options of a study that has scales, rows or columns.
#[derive(Debug, Args)]
#[command(next_help_heading = "Studies with scales, rows and columns")]
pub struct Evaluating {
    /// Small sizes, some minutes: the same as --scale quick
    #[arg(long, conflicts_with = "scale")]
    pub quick: bool,
    /// Sizes: quick, default (an hour or two), paper (the original's, as far as the machine has room), or the study's own
    #[arg(long, value_name = "SCALE")]
    pub scale: Option<String>,
    /// The device of every row: an emulated SSD, image:SIZE, a real disk; or a whole stack [default: the study's]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Rows, such as ext4,betrfs or app-only,auto, or `all` [default: the study's]
    #[arg(long, value_name = "ROWS")]
    pub rows: Option<String>,
    /// Columns and tables, such as micro,grep or multi-read,readseq, or `all` [default: the study's]
    #[arg(long, value_name = "COLUMNS")]
    pub columns: Option<String>,
    /// The publication's values, as lines of row,column,value, to be shown beside ours
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub published: Option<std::path::PathBuf>,
}

/// Where a study comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// A file.
    File(&'a Path),
    /// One that every loadline has.
    Embedded(EmbeddedStudy),
}

impl Evaluating {
    /// Refuses these options for what is no study.
    pub fn refuse(&self) -> anyhow::Result<()> {
        let given = [
            ("--quick", self.quick),
            ("--scale", self.scale.is_some()),
            ("--device", self.device.is_some()),
            ("--rows", self.rows.is_some()),
            ("--columns", self.columns.is_some()),
            ("--published", self.published.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => {
                Err(bad_input(format!("{option} is for studies (*.toml); see docs/studies.md")))
            }
            None => Ok(()),
        }
    }

    /// The study for this machine, with the rows and columns that are to run. `set` are values of its variables, `on` stacks
    /// in place of its own.
    pub fn study(&self, source: Source<'_>, set: &[String], on: Option<&str>) -> anyhow::Result<Study> {
        let stacks = on.map_or(Ok(Vec::new()), StackSpec::parse_list);
        let stacks = stacks.map_err(|error| bad_input(format!("--on: {error}")))?;
        let is_told = !stacks.is_empty();
        let scene = StudyVariant { stacks, ..self.scene(set)? };
        let mut study = match source {
            Source::File(file) => lab::read::study(file, &scene),
            Source::Embedded(embedded) => embedded.study(&scene),
        }
        .map_err(bad_input)?;
        if is_told && study.rows.iter().any(|row| row.stack.is_some()) {
            return Err(bad_input(
                "--on: the rows of this study name their stacks; choose by --rows and --device",
            ));
        }
        if !set.is_empty() && study.variables.is_empty() {
            let message = "--set: the study has no [variables]; sweep a workload's with [parameters]";
            return Err(bad_input(message));
        }
        self.publish(&mut study)?;
        study.choose(self.rows.as_deref(), self.columns.as_deref()).map_err(bad_input)?;
        Ok(study)
    }

    /// Adds the values of `--published`.
    pub fn publish(&self, study: &mut Study) -> anyhow::Result<()> {
        let Some(file) = &self.published else { return Ok(()) };
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        study.publish(&text, &file.display().to_string()).map_err(bad_input)
    }

    fn scene(&self, set: &[String]) -> anyhow::Result<StudyVariant> {
        let machine = lab::load::machine(None, 0);
        let pair = |word: &String| {
            let pair = word.split_once('=').map(|(name, value)| (name.to_string(), value.to_string()));
            pair.ok_or_else(|| bad_input(format!("--set {word}: write --set name=value")))
        };
        Ok(StudyVariant {
            scale: if self.quick { Some("quick".into()) } else { self.scale.clone() },
            ram_bytes: machine.ram_bytes,
            cores: machine.cores,
            device: self.device.clone(),
            disk_bytes: self.device.as_deref().map_or(0, disk_bytes),
            set: set.iter().map(pair).collect::<anyhow::Result<_>>()?,
            stacks: Vec::new(),
        })
    }
}

/// The size of a real device; 0 when it is none.
fn disk_bytes(device: &str) -> u64 {
    let device = device.rsplit_once('@').map_or(device, |(_, device)| device);
    let path = camino::Utf8Path::new(device);
    if path.is_absolute() { host::BlockInfo::read(&host::Host::system(), path).size_bytes } else { 0 }
}
