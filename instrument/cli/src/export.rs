//! `export`: stored runs as tables for other programs.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{ArgGroup, Args, ValueHint};
use lab::Store;
use report::data::{Table, parquet, tables};

use crate::console::{Exit, bad_input};
use crate::options::Options;
use crate::report::write;

/// Options of `export`.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("form").required(true).multiple(true),
    after_help = "Examples:\n  loadline export last --parquet data\n  loadline export last~1 last --csv data\n  \
                  loadline export before after --parquet data --csv data\n\
                  Files: trials, flowops, series, histograms, metrics, each .parquet or .csv; their columns are in\n\
                  docs/formats.md. Files of these names are replaced."
)]
pub struct Export {
    /// Runs: id, the beginning of it, name, `last`, `last~2`; all go into the same tables
    #[arg(value_name = "RUN", default_value = "last")]
    runs: Vec<String>,
    /// Write Parquet files into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, group = "form")]
    parquet: Option<PathBuf>,
    /// Write CSV files into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, group = "form")]
    csv: Option<PathBuf>,
}

/// Writes the tables of the runs.
pub fn export(options: &Options, arguments: &Export) -> anyhow::Result<Exit> {
    let store = Store::open_to_show(&crate::run::home(options)?)?;
    let mut ids: Vec<String> = Vec::new();
    let mut all: Vec<Table> = Vec::new();
    for word in &arguments.runs {
        let run = store.load_run(word).map_err(bad_input)?;
        if ids.contains(&run.id) {
            return Err(bad_input(format!("{word} is run {}, which is named twice", run.id)));
        }
        let own = tables(&run);
        if all.is_empty() {
            all = own;
        } else {
            all.iter_mut().zip(own).for_each(|(table, own)| table.append(own));
        }
        ids.push(run.id);
    }
    let schema = report::data::SCHEMA_VERSION.to_string();
    let joined = ids.join(" ");
    for table in &all {
        if let Some(directory) = &arguments.parquet {
            let about = [("loadline.schema", schema.as_str()), ("loadline.runs", joined.as_str())];
            let bytes = parquet::file(table, &about).with_context(|| table.name)?;
            write(&output_path(directory, table.name, "parquet")?, &bytes)?;
        }
        if let Some(directory) = &arguments.csv {
            write(&output_path(directory, table.name, "csv")?, &table.csv())?;
        }
    }
    Ok(Exit::Done)
}

/// A file in a directory, which is made.
fn output_path(directory: &Path, name: &str, form: &str) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    Ok(directory.join(format!("{name}.{form}")))
}
