//! git: a clone of a history on another disk, then a large patch between two tags.

use std::path::Path;

use stats::Direction;

use super::run::{git_program, time};
use crate::source::{self, NEW_TAG, OLD_TAG, Subset};
use crate::{AppError, Bench, Load, LoadSite, Parameters};

/// `git-clone`: `git clone PATH` into the file system. `git-diff`: cold, `git diff --patch OLD NEW > patch` within
/// the clone. The history lies elsewhere and is read once before, so that its disk is not measured.
#[derive(Debug)]
pub struct Git {
    subset: Subset,
}

impl Git {
    /// Parameter `subset`.
    ///
    /// # Errors
    /// A subset that is not known.
    pub fn new(parameters: &mut Parameters) -> Result<Git, AppError> {
        Ok(Git { subset: Subset::take(parameters)? })
    }
}

impl Load for Git {
    fn phases(&self) -> u32 {
        2
    }

    fn seconds_guess(&self) -> f64 {
        self.subset.files_guess() as f64 / 1000.0
    }

    fn programs(&self) -> &'static [&'static str] {
        &["git"]
    }

    fn provide(&self, home: &Path, tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        git_program()?;
        source::history(home, self.subset, tell).map(drop)
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let clone = place.root.join("clone");
        if phase == 0 {
            let history = source::history(place.home, self.subset, &mut |_| {})?;
            bench.note(format!("git: {}", history.label));
            warm(&history.path.join("objects/pack"));
            let command = git_program()?.args(["clone", "--quiet"]).arg(&history.path).arg(&clone);
            return time(bench, "git-clone", Direction::Write, Some(place.root), command).map(drop);
        }
        let patch = clone.join("patch");
        let command = git_program()?.args(["--no-pager", "diff", "--patch", OLD_TAG, NEW_TAG]);
        let command = command.in_folder(&clone).into_file(&patch)?;
        time(bench, "git-diff", Direction::Read, Some(place.root), command)?;
        match std::fs::metadata(&patch) {
            Ok(meta) if meta.len() > 0 => Ok(()),
            _ => Err(AppError::Protocol("the patch between the two tags is empty".into())),
        }
    }
}

/// Reads the files of a folder, so that they are in memory. What fails here fails again where it matters.
fn warm(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if let Ok(mut file) = std::fs::File::open(entry.path()) {
            let _ = std::io::copy(&mut file, &mut std::io::sink());
        }
    }
}
