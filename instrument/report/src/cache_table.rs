//! What the page cache did for each file, as a table.

use std::fmt::Write;
use std::path::Path;

use analysis::cache::{FileAccount, Recording};

/// Width of the names.
const NAME: usize = 30;

/// The files that were asked for most, `files_max` of them, and all together. Names are shown below `root`.
pub fn table(recording: &Recording, root: &Path, files_max: usize) -> String {
    let mut files: Vec<(&u64, &FileAccount)> = recording.account.files.iter().collect();
    files.sort_by_key(|(inode, file)| (std::cmp::Reverse(file.wanted.max(file.read_in)), **inode));
    let mut out = format!(
        "{:<NAME$} {:>9} {:>6} {:>6} {:>9} {:>8} {:>9} {:>6} {:>8}\n",
        "file (MiB)", "wanted", "hits", "ahead", "read in", "windows", "mean KiB", "waste", "cached"
    );
    for (inode, file) in files.iter().take(files_max) {
        let name = recording.names.get(inode).map_or_else(
            || format!("inode {inode} (gone, or metadata)"),
            |path| path.strip_prefix(root).unwrap_or(path).display().to_string(),
        );
        line(&mut out, &name, file, recording.cached.get(inode).copied());
    }
    if files.len() > files_max {
        let _ = writeln!(out, "... and {} files more", files.len() - files_max);
    }
    let cached = recording.cached.values().sum();
    line(&mut out, "all files", &recording.account.total(), (!recording.cached.is_empty()).then_some(cached));
    out
}

fn line(out: &mut String, name: &str, file: &FileAccount, cached: Option<u64>) {
    let length = name.chars().count();
    let name: String = if length > NAME {
        format!("..{}", name.chars().skip(length - NAME + 2).collect::<String>())
    } else {
        name.into()
    };
    let percent = |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.0} %", 100.0 * share));
    let mib = |pages: u64| format!("{:.1}", pages as f64 / 256.0);
    let ahead = (file.wanted > 0).then(|| file.ahead_hits as f64 / file.wanted as f64);
    let mean = file.window_pages_mean().map_or("-".into(), |pages| format!("{:.0}", 4.0 * pages));
    let _ = writeln!(
        out,
        "{name:<NAME$} {:>9} {:>6} {:>6} {:>9} {:>8} {mean:>9} {:>6} {:>8}",
        mib(file.wanted),
        percent(file.hit_share()),
        percent(ahead),
        mib(file.read_in),
        file.windows,
        percent(file.waste_share()),
        cached.map_or("-".into(), mib),
    );
}
