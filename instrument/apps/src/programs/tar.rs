//! tar: an archive of the source tree is unpacked, then the tree is packed.

use std::path::Path;

use stats::Direction;

use super::run::{program, time};
use crate::error::at;
use crate::source::{self, Subset};
use crate::{AppError, Bench, Load, LoadSite, Parameters};

/// `untar`: `tar -xf linux.tar.xz` (the archive lies on the file system, cold). `tar`: cold,
/// `tar -zcf linux.tar.gz linux`. On a fast device both are bound by xz and gzip.
#[derive(Debug)]
pub struct Tar {
    subset: Subset,
}

impl Tar {
    /// Parameter `subset`.
    ///
    /// # Errors
    /// A subset that is not known.
    pub fn new(parameters: &mut Parameters) -> Result<Tar, AppError> {
        Ok(Tar { subset: Subset::take(parameters)? })
    }
}

impl Load for Tar {
    fn phases(&self) -> u32 {
        3
    }

    fn seconds_guess(&self) -> f64 {
        self.subset.files_guess() as f64 / 700.0
    }

    fn programs(&self) -> &'static [&'static str] {
        &["tar", "xz", "gzip"]
    }

    fn provide(&self, home: &Path, tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        for (name, package) in [("tar", "tar"), ("xz", "xz-utils"), ("gzip", "gzip")] {
            program(name, package)?;
        }
        source::archive(home, self.subset, tell).map(drop)
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let archive = place.root.join("linux.tar.xz");
        match phase {
            0 => {
                let source = source::archive(place.home, self.subset, &mut |_| {})?;
                bench.note(format!("tar: {}", source.label));
                std::fs::copy(&source.path, &archive).map_err(at(&archive)).map(drop)
            }
            1 => {
                let tar = program("tar", "tar")?.arg("-xf").arg(&archive).in_folder(place.root);
                time(bench, "untar", Direction::Write, Some(place.root), tar).map(drop)
            }
            _ => {
                let tar =
                    program("tar", "tar")?.args(["-zcf", "linux.tar.gz", "linux"]).in_folder(place.root);
                time(bench, "tar", Direction::Read, Some(place.root), tar).map(drop)
            }
        }
    }
}
