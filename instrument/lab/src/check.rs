//! Reads the workloads of a study as a trial would, so that a mistake shows before the first trial.

use record::plan;
use record::results::Parameter;
use record::study::{Study, StudyError, Workload};

/// What a workload's script says when it is read for one combination of parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The workload's label.
    pub workload: String,
    /// The combination of swept parameters.
    pub parameters: Vec<Parameter>,
    /// Warnings as WML renders them; empty when there are none.
    pub warnings: String,
    /// Final values of the script's variables.
    pub variables: Vec<(String, String)>,
    /// What would run.
    pub model: workload::Workload,
    /// Programs that its script starts by `system`, in the order in which it does.
    pub programs: Vec<Started>,
}

/// A program that a script starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Where this stands: file and line, or workload and line of its `text`.
    pub place: String,
    /// The command for `/bin/sh`, variables filled in.
    pub command: String,
}

/// What a script that was loaded from `text` starts; `file` is what people know it by.
pub fn started(loaded: &wml::Loaded, file: &str, text: &[u8]) -> Vec<Started> {
    let one = |program: &wml::Program| Started {
        place: format!("{file}:{}", program.span.line(text)),
        command: program.command.clone(),
    };
    loaded.programs.iter().map(one).collect()
}

/// Reads every workload of `study` with every combination of its parameters, for this machine. Sizes that depend on
/// `$free` are worked out for `machine.free_bytes`, since the target does not exist yet.
///
/// # Errors
/// A script that cannot run, with its diagnostics.
pub fn workloads(study: &Study, machine: wml::Machine) -> Result<Vec<Checked>, StudyError> {
    let mut checked = Vec::new();
    for cell in plan::cells(study) {
        let seen = |known: &Checked| known.workload == cell.workload && known.parameters == cell.parameters;
        if checked.iter().any(seen) {
            continue;
        }
        let Some(workload) = plan::workload_of(study, &cell) else { continue };
        match app(workload, &cell.parameters)? {
            Some(_) => {}
            None => checked.push(check(workload, &cell.parameters, machine)?),
        }
    }
    Ok(checked)
}

/// The workload as a load of crate `apps`, if it is one; its mistakes are found by reading it.
fn app(workload: &Workload, parameters: &[Parameter]) -> Result<Option<apps::App>, StudyError> {
    let text = workload.text.as_deref().unwrap_or_default();
    apps::App::parse(text, &workload.variables(parameters)).map_err(|error| StudyError::Workload {
        workload: workload.label().to_string(),
        report: error.to_string(),
    })
}

fn check(
    workload: &Workload,
    parameters: &[Parameter],
    machine: wml::Machine,
) -> Result<Checked, StudyError> {
    let settings =
        wml::Settings { machine, set: workload.variables(parameters), name: workload.label().to_string() };
    let text = workload.text.as_deref().unwrap_or_default().as_bytes();
    let file = workload.origin.as_deref().unwrap_or(workload.label());
    let loaded = wml::load(text, &settings).map_err(|found| StudyError::Workload {
        workload: workload.label().to_string(),
        report: found.render(file, text, false),
    })?;
    let programs = started(&loaded, file, text);
    Ok(Checked {
        workload: workload.label().to_string(),
        parameters: parameters.to_vec(),
        warnings: loaded.warnings.render(file, text, false),
        variables: loaded.variables,
        model: loaded.workload,
        programs,
    })
}
