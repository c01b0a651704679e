//! rsync of the source tree within the file system: by temporary file and rename, then in place.

use std::path::Path;

use stats::Direction;

use super::run::{copy_tree, program, time};
use crate::source::{self, Subset};
use crate::{AppError, Bench, Load, LoadSite, Parameters};

/// `rsync`: cold, `rsync --stats -r -t -S src rsynced`. `rsync-inplace`: cold,
/// `rsync --stats -r -t -W --inplace rsynced rsynced2`. The figure is rsync's bytes by wall seconds; its
/// own rate, which the artifact takes, is kept as `.../own_rate`.
#[derive(Debug)]
pub struct Rsync {
    subset: Subset,
}

impl Rsync {
    /// Parameter `subset`.
    ///
    /// # Errors
    /// A subset that is not known.
    pub fn new(parameters: &mut Parameters) -> Result<Rsync, AppError> {
        Ok(Rsync { subset: Subset::take(parameters)? })
    }
}

impl Load for Rsync {
    fn phases(&self) -> u32 {
        3
    }

    fn seconds_guess(&self) -> f64 {
        self.subset.files_guess() as f64 / 700.0
    }

    fn programs(&self) -> &'static [&'static str] {
        &["rsync"]
    }

    fn provide(&self, home: &Path, tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        program("rsync", "rsync")?;
        source::tree(home, self.subset, tell).map(drop)
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let rsync = || {
            program("rsync", "rsync").map(|rsync| rsync.in_folder(place.root).args(["--stats", "-r", "-t"]))
        };
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
        let (bytes, own_rate) = transferred(&text)
            .ok_or_else(|| AppError::Protocol("rsync --stats did not tell what it sent".into()))?;
        let seconds = bench.last(seconds_column);
        bench.metric(column, "MB/s", bytes / 1e6 / seconds);
        bench.metric(format!("{column}/own_rate"), "MB/s", own_rate / 1e6);
        Ok(())
    }
}

/// Bytes and bytes a second of the line `sent 1,234 bytes  received 56 bytes  12,345.67 bytes/sec`. rsync counts its
/// time in whole seconds and a half, so that the rate is coarse for short runs.
fn transferred(stats: &str) -> Option<(f64, f64)> {
    let line = stats.lines().rev().find(|line| line.trim_end().ends_with("bytes/sec"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["sent", sent, "bytes", "received", received, "bytes", rate, "bytes/sec"] = words[..] else {
        return None;
    };
    let number = |word: &str| word.replace(',', "").parse::<f64>().ok();
    Some((number(sent)? + number(received)?, number(rate)?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_rate_is_read_as_rsync_prints_it() {
        let text = "Literal data: 5 bytes\n\nsent 72,115,123 bytes  received 71,391 bytes  16,041,447.56 bytes/sec\n\
                    total size is 71,000,000  speedup is 0.98\n";
        assert_eq!(super::transferred(text), Some((72_186_514.0, 16_041_447.56)));
        assert_eq!(super::transferred("nothing"), None);
    }
}
