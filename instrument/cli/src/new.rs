//! `new`: writes a commented file to begin with.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use crate::console::{self, Exit, bad_input};

/// Options of `new`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline new study                 writes study.toml; then: loadline run study.toml
  loadline new study mine.toml       under another name
  loadline new workload mine.f       a workload in Filebench's language; then: loadline run mine.f --on ext4,xfs
  loadline new workload mail.f --from varmail         one that loadline has with it, to change")]
pub struct New {
    /// What to write
    #[arg(value_enum)]
    what: Template,
    /// The file, which must not exist [default: study.toml, workload.f]
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// A workload or study that loadline has with it, instead of the usual beginning
    #[arg(long, value_name = "NAME")]
    from: Option<PathBuf>,
}

/// What can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Template {
    /// Workloads on stacks, compared
    Study,
    /// A load in Filebench's language
    Workload,
}

/// Writes the file.
pub fn new(arguments: &New) -> anyhow::Result<Exit> {
    let (name, mut text, next) = match arguments.what {
        Template::Study => ("study.toml", include_str!("new/study.toml"), "loadline run FILE"),
        Template::Workload => {
            ("workload.f", include_str!("new/workload.f"), "loadline run FILE --on ext4,xfs")
        }
    };
    if let Some(from) = &arguments.from {
        text = study::files::text(from).ok_or_else(|| {
            bad_input(format!(
                "--from {}: there is none of this name; there are {}",
                from.display(),
                study::files::workload_names().join(", ")
            ))
        })?;
    }
    let file = arguments.file.clone().unwrap_or_else(|| name.into());
    let shown = file.display();
    let mut made = std::fs::File::create_new(&file).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            bad_input(format!("{shown} exists; name another file: `loadline new ... FILE`"))
        }
        _ => bad_input(format!("{shown}: {error}")),
    })?;
    made.write_all(text.as_bytes()).map_err(|error| bad_input(format!("{shown}: {error}")))?;
    console::print(&format!(
        "{shown}: written. Next: `loadline check {shown}`, then `{}`",
        next.replace("FILE", &shown.to_string())
    ))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_can_be_run() {
        let none = |file: &str| unreachable!("the study holds its workload, and names {file}");
        let study = study::Study::parse(include_str!("new/study.toml"), "study.toml", &none).unwrap();
        assert_eq!((study.stacks.len(), study.workloads.len(), study.claims.len()), (2, 1, 1));
        let settings = wml::Settings {
            machine: lab::load::machine(None, lab::load::FREE_BYTES_ASSUMED),
            set: Vec::new(),
            name: "workload".into(),
        };
        let loaded = wml::load(include_bytes!("new/workload.f"), &settings).unwrap();
        assert!(loaded.warnings.is_empty());
    }
}
