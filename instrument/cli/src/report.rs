//! `report`: shows a stored run.

use std::path::Path;

use analysis::grid::Grid;
use anyhow::Context;
use lab::Store;
use report::{csv, evaluation, filebench, hdr, html, json, terminal};
use stats::Thresholds;
use study::results::Run;

use crate::console::{self, Exit, bad_input};
use crate::options::{self, Format, Options};

/// Shows a run in every form that was asked for.
pub fn report(options: &Options, arguments: &options::Report) -> anyhow::Result<Exit> {
    let run =
        Store::open_to_show(&crate::run::home(options)?)?.load_run(&arguments.run).map_err(bad_input)?;
    let judgements = analysis::judge::claims(&run, &Thresholds::default())?;
    if let Some(file) = &arguments.html {
        write(file, &html::page(&run, &judgements)?)?;
    }
    if let Some(file) = &arguments.json {
        write(file, &json::run(&run)?)?;
    }
    if let Some(file) = &arguments.hdr {
        write(file, &hdr::log(&run)?)?;
    }
    if let Some(directory) = &arguments.csv {
        write_csv(directory, &run)?;
    }
    if let Some(directory) = &arguments.svg {
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let figures = html::figures(&run);
        if figures.is_empty() {
            host::note!("no figure: no trial of this run has a result");
        }
        for (name, drawing) in figures {
            write(&directory.join(name), &drawing)?;
        }
    }
    match arguments.format {
        Format::Terminal => {
            let style = console::style(options);
            console::print(&terminal::summary(&run, style))?;
            if let Some(curves) = report::load_curve::LoadCurves::of(&run, None) {
                console::print(&curves.terminal(style))?;
            }
            if !judgements.is_empty() {
                console::print(&terminal::claims(&judgements, style))?;
            }
        }
        Format::Filebench => {
            for trial in &run.trials {
                let label = run.cell(trial.cell).map_or(String::new(), |cell| cell.label());
                // The name of the trial goes to standard error: the text itself is for old parsers.
                host::note!("# {label} #{}", trial.index + 1);
                console::print(&filebench::session(trial))?;
            }
        }
        Format::Json => console::print(&json::run(&run)?)?,
        Format::None => {}
    }
    Ok(Exit::Done)
}

/// Writes every CSV file of a run; of an evaluation its artifact's files and the drawings too.
pub fn write_csv(directory: &Path, run: &Run) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let date = run.started.strftime("%Y-%m-%d").to_string();
    let told = Grid::of(run).map_or(Vec::new(), |grid| evaluation::artifact::files(&grid, &date));
    let each = csv::files(run).into_iter().map(|(name, text)| (name.to_string(), text));
    for (name, text) in each.chain(told) {
        let file = directory.join(name);
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        write(&file, &text)?;
    }
    Ok(())
}

/// Writes a file, never a block device, and says so.
pub fn write(file: &Path, contents: &(impl AsRef<[u8]> + ?Sized)) -> anyhow::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    if file.metadata().is_ok_and(|meta| meta.file_type().is_block_device()) {
        return Err(bad_input(format!("{} is a block device: name a file", file.display())));
    }
    std::fs::write(file, contents).with_context(|| file.display().to_string())?;
    host::note!("wrote {}", file.display());
    Ok(())
}
