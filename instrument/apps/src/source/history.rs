//! A git history between two far-apart tags, made of the source tree.
//!
//! The paper diffs v4.7 against v4.14 of Linux. Ours begins with an older form of each file (every 23rd line
//! another, one file in twelve missing) and brings them to their present form in eight commits.

use std::io::Write;
use std::path::Path;

use super::{PreparedSource, Subset, once, tree};
use crate::AppError;
use crate::error::at;
use crate::programs::git_program;

/// The older tag.
pub const OLD_TAG: &str = "v-old";
/// The newer tag.
pub const NEW_TAG: &str = "v-new";
/// Commits between them.
const COMMITS: u64 = 8;
/// One line of so many is another in a file's older form.
const LINES: usize = 23;

/// The history, packed, as a bare repository.
///
/// # Errors
/// git is missing or fails.
pub fn history(home: &Path, subset: Subset, tell: &mut dyn FnMut(&str)) -> Result<PreparedSource, AppError> {
    let tree = tree(home, subset, tell)?;
    once(home, &format!("history-{}", subset.word()), "history.git", |path| {
        tell("making a git history of the source tree");
        git_program()?.args(["init", "--quiet", "--bare", "-b", "main"]).arg(path).output()?;
        let stream = path.with_extension("stream");
        let file = std::fs::File::create(&stream).map_err(at(&stream))?;
        let mut out = std::io::BufWriter::new(file);
        write(&tree.path, &mut out).and_then(|()| out.flush()).map_err(at(&stream))?;
        git_program()?.arg("-C").arg(path).args(["fast-import", "--quiet"]).fed_by(&stream)?.output()?;
        std::fs::remove_file(&stream).map_err(at(&stream))?;
        git_program()?.arg("-C").arg(path).args(["gc", "--quiet"]).output()?;
        Ok(format!("synthetic history of {} commits over {}", COMMITS + 1, tree.label))
    })
}

/// The history as a stream for git fast-import(1).
fn write(tree: &Path, out: &mut impl Write) -> std::io::Result<()> {
    let mut files = Vec::new();
    collect(tree, "", &mut files)?;
    let mut marks = 0;
    for step in 0..=COMMITS {
        let changed =
            |file: &&(String, std::path::PathBuf)| step == 0 || number(&file.0) % COMMITS + 1 == step;
        let mut entries = Vec::new();
        for (name, path) in files.iter().filter(changed) {
            let now = std::fs::read(path)?;
            let form = if step == 0 { older(name, &now) } else { Some(now) };
            if let Some(form) = form {
                marks += 1;
                writeln!(out, "blob\nmark :{marks}\ndata {}", form.len())?;
                out.write_all(&form)?;
                writeln!(out)?;
                entries.push(format!("M 100644 :{marks} {name}"));
            }
        }
        let when = 1_500_000_000 + step * 5_000_000;
        let text = format!("step {step}");
        writeln!(out, "commit refs/heads/main\ncommitter loadline <loadline@example.org> {when} +0000")?;
        writeln!(out, "data {}\n{text}", text.len())?;
        entries.iter().try_for_each(|entry| writeln!(out, "{entry}"))?;
        let tag = if step == 0 { Some(OLD_TAG) } else { (step == COMMITS).then_some(NEW_TAG) };
        if let Some(tag) = tag {
            writeln!(out, "\nreset refs/tags/{tag}\nfrom refs/heads/main\n")?;
        }
    }
    writeln!(out, "done")
}

fn collect(
    folder: &Path,
    prefix: &str,
    files: &mut Vec<(String, std::path::PathBuf)>,
) -> std::io::Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), &format!("{name}/"), files)?;
        } else if kind.is_file() {
            files.push((name, entry.path()));
        }
    }
    Ok(())
}

/// A number that a name always has (FNV-1a).
fn number(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
        >> 20
}

/// The form of a file at the older tag; `None` when it did not exist.
fn older(name: &str, now: &[u8]) -> Option<Vec<u8>> {
    let number = number(name) as usize;
    if number.is_multiple_of(12) {
        return None;
    }
    let mut form = Vec::with_capacity(now.len());
    for (index, line) in now.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if (index + number).is_multiple_of(LINES) {
            form.extend_from_slice(format!("/* line {index} of another time */\n").as_bytes());
        } else {
            form.extend_from_slice(line);
        }
    }
    Some(form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_has_both_tags_and_ends_in_the_tree() {
        let home = tempfile::tempdir().unwrap();
        let small = home.path().join("sources/tree-small");
        super::super::synthetic::tree(&small.join("linux"), 60, 100_000).unwrap();
        std::fs::write(small.join("LABEL"), "a small tree").unwrap();
        let ready = history(home.path(), Subset::Small, &mut |_| {}).unwrap();
        assert!(ready.label.contains("a small tree"));
        let git = || git_program().unwrap().arg("-C").arg(&ready.path);
        let count = git().args(["ls-tree", "-r", "--name-only", NEW_TAG]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&count.stdout).lines().count(), 60);
        let count = git().args(["ls-tree", "-r", "--name-only", OLD_TAG]).output().unwrap();
        assert!((40..60).contains(&String::from_utf8_lossy(&count.stdout).lines().count()));
        let diff = git().args(["diff", "--shortstat", OLD_TAG, NEW_TAG]).output().unwrap();
        assert!(String::from_utf8_lossy(&diff.stdout).contains("files changed"), "{diff:?}");
    }
}
