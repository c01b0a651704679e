//! What a study would overwrite that is not loadline's own: real devices and backing files of stacks, block devices that a
//! script names. It is shown and decided upon before the first trial, and once more by whoever writes: the builder
//! of stacks, the daemon of an emulated SSD, and for scripts the trial's own process ([`approve`]).

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use camino::Utf8Path;
use engine::raw::{ApprovedDevice, RawDevice};
use host::{Consent, DeviceReport, EraseRefused, Host, Permit, SystemRunner};
use workload::Workload;

use crate::stack_factory::{StackFactory, StackSetupError};
use study::Study;

/// Why a study is not begun.
#[derive(Debug, thiserror::Error)]
pub enum OverwriteError {
    /// Of a stack.
    #[error("{stack}: {source}")]
    Stack {
        /// The stack.
        stack: String,
        /// Why.
        source: StackSetupError,
    },
    /// Of a workload.
    #[error("workload {workload}: {source}")]
    Workload {
        /// Its label.
        workload: String,
        /// Why.
        source: EraseRefused,
    },
}

/// Looks at everything that the stacks of `study` and these workloads, by label, would overwrite, and tells what is on it.
///
/// # Errors
/// Something is in use, or the user has not named it with `--erase`. The error shows what is on it.
pub fn check<'a>(
    site: &StackFactory,
    study: &Study,
    workloads: impl IntoIterator<Item = (&'a str, &'a Workload)>,
    tell: &mut dyn FnMut(&str),
) -> Result<(), OverwriteError> {
    let builder = &site.builder;
    let shown =
        |report: &DeviceReport| format!("{report}\n{} will be overwritten, as --erase says", report.path);
    for spec in &study::plan::stacks(study) {
        // its trials say why, and what would help
        if !site.availability(spec).is_available() {
            continue;
        }
        let wrong = |source| OverwriteError::Stack { stack: spec.to_string(), source };
        let Some(report) = site.inspect(spec).map_err(wrong)? else { continue };
        let allowed = report.check_erase(builder.erase.as_deref());
        allowed.map_err(|refused| wrong(stack::StackError::from(refused).into()))?;
        tell(&shown(&report));
    }
    let mut seen: Vec<RawDevice> = Vec::new();
    for (label, workload) in workloads {
        for device in engine::raw::devices(workload) {
            if seen.contains(&device) {
                continue;
            }
            let wrong = |source| OverwriteError::Workload { workload: label.to_owned(), source };
            if device.written {
                let path = utf8(&device.path).map_err(wrong)?;
                let report = DeviceReport::inspect(&builder.host, &*builder.runner, path).map_err(wrong)?;
                report.check_erase(builder.erase.as_deref()).map_err(wrong)?;
                tell(&shown(&report));
            } else {
                let path = device.path.display();
                tell(&format!(
                    "{path} is only read by {label}: it needs no --erase, and others may write to it"
                ));
            }
            seen.push(device);
        }
    }
    Ok(())
}

/// Claims every block device that `workload` writes to. As long as the permits live, nobody can mount one of them.
///
/// # Errors
/// Why one must not be written.
pub fn approve(
    workload: &Workload,
    erase: Option<&Utf8Path>,
) -> Result<(Vec<ApprovedDevice>, Vec<Permit>), String> {
    let (mut approved, mut permits) = (Vec::new(), Vec::new());
    for RawDevice { path, .. } in engine::raw::devices(workload).into_iter().filter(|device| device.written) {
        // a device that two filesets name is claimed once
        let known = permits.iter().position(|permit| is_for(permit, &path));
        let at = match known {
            Some(at) => at,
            None => {
                let named = utf8(&path).map_err(|error| error.to_string())?;
                let (host, runner) = (Host::system(), SystemRunner::default());
                let permit = Permit::take(&host, &runner, named, Consent::Named(erase));
                permits.push(permit.map_err(|error| error.to_string())?);
                permits.len() - 1
            }
        };
        let file = permits[at].file().try_clone().map_err(|error| format!("{}: {error}", path.display()))?;
        approved.push(ApprovedDevice { path, file: file.into() });
    }
    Ok((approved, permits))
}

/// Whether that is the device at `path`.
fn is_for(permit: &Permit, path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| permit.file().metadata().is_ok_and(|held| held.rdev() == meta.rdev()))
}

fn utf8(path: &Path) -> Result<&Utf8Path, EraseRefused> {
    Utf8Path::from_path(path).ok_or_else(|| EraseRefused::NotADevice {
        device: path.to_string_lossy().into_owned().into(),
        why: "its path is not UTF-8".into(),
    })
}
