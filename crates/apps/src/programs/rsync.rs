//! rsync of the source tree within the file system: by temporary file and rename, then in place.

use std::path::Path;

use stats::Direction;

use super::run::{copy_tree, program, time};
use crate::source::{self, Subset};
use crate::{AppError, Bench, Load, Place, Script};

/// `rsync`: cold, `rsync --stats -r -t -S src rsynced`. `rsync-inplace`: cold,
/// `rsync --stats -r -t -W --inplace rsynced rsynced2`. The figure is rsync's own bytes a second.
#[derive(Debug)]
pub struct Rsync {
    subset: Subset,
}

impl Rsync {
    /// Parameter `subset`.
    ///
    /// # Errors
    /// A subset that is not known.
    pub fn new(script: &mut Script) -> Result<Rsync, AppError> {
        Ok(Rsync { subset: Subset::take(script)? })
    }
}

impl Load for Rsync {
    fn phases(&self) -> u32 {
        3
    }

    fn seconds_guess(&self) -> f64 {
        self.subset.files_guess() as f64 / 700.0
    }

    fn provide(&self, home: &Path, tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        program("rsync", "rsync")?;
        source::tree(home, self.subset, tell).map(drop)
    }

    fn run(&self, phase: u32, place: Place<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let rsync =
            || program("rsync", "rsync").map(|rsync| rsync.within(place.root).args(["--stats", "-r", "-t"]));
        let (column, seconds_column, command) = match phase {
            0 => {
                let tree = source::tree(place.home, self.subset, &mut |_| {})?;
                bench.note(format!("source tree: {}", tree.label));
                return copy_tree(&tree.path, &place.root.join("src"));
            }
            1 => ("rsync", "rsync-time", rsync()?.args(["-S", "src", "rsynced"])),
            _ => (
                "rsync-inplace",
                "rsync-inplace-time",
                rsync()?.args(["-W", "--inplace", "rsynced", "rsynced2"]),
            ),
        };
        let output = time(bench, seconds_column, Direction::Write, Some(place.root), command)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let rate = bytes_per_second(&text)
            .ok_or_else(|| AppError::Protocol("rsync --stats did not tell its bytes/sec".into()))?;
        bench.metric(column, "MB/s", rate / 1e6);
        Ok(())
    }
}

/// Of the line `sent 1,234 bytes  received 56 bytes  12,345.67 bytes/sec`.
fn bytes_per_second(stats: &str) -> Option<f64> {
    let line = stats.lines().rev().find(|line| line.trim_end().ends_with("bytes/sec"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    words.get(words.len().checked_sub(2)?)?.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_rate_is_read_as_rsync_prints_it() {
        let text = "Literal data: 5 bytes\n\nsent 72,115,123 bytes  received 71,391 bytes  16,041,447.56 bytes/sec\n\
                    total size is 71,000,000  speedup is 0.98\n";
        assert_eq!(super::bytes_per_second(text), Some(16_041_447.56));
        assert_eq!(super::bytes_per_second("nothing"), None);
    }
}
