//! The smallest failing case in a directory: its image, what was found, and how to bring it up again.

use std::io::Write;

use camino::{Utf8Path, Utf8PathBuf};

use crate::bring_up::{System, Worker, new_file};
use crate::error::CrashError;
use crate::explore::Judge;
use crate::history::State;
use crate::program::{DIR, LAST_MARK, MARKS_LIST, MARKS_PASSED, PLACEHOLDER, word};
use crate::verdict::MinimalCase;
use crate::workload::Script;

/// Where the commands mount the image.
const MOUNT_POINT: &str = "/mnt";

/// A case and its directory.
#[derive(Debug)]
pub(crate) struct Kept<'a> {
    dir: Utf8PathBuf,
    judge: &'a Judge<'a>,
    state: &'a State,
    /// Marks of a user's program that had been passed.
    passed: &'a [String],
}

impl<'a> Kept<'a> {
    /// A case that is kept in `dir`, as an absolute path: its commands are typed anywhere.
    pub(crate) fn new(
        dir: &Utf8Path,
        judge: &'a Judge<'a>,
        state: &'a State,
    ) -> Result<Kept<'a>, CrashError> {
        let dir = camino::absolute_utf8(dir).map_err(CrashError::io(format!("resolve {dir}")))?;
        let passed = judge.passed(judge.history.recording().progress_at(state.cut));
        Ok(Kept { dir, judge, state, passed })
    }

    fn image(&self) -> Utf8PathBuf {
        self.dir.join("state.img")
    }

    fn marks(&self) -> Utf8PathBuf {
        self.dir.join("state.marks")
    }

    /// The commands that bring it up and judge it as it was judged here.
    pub(crate) fn again(&self, system: &System) -> String {
        let mount = system.mount_line(&word(self.image().as_str()), MOUNT_POINT);
        let Some(checker) = self.judge.checker else { return mount };
        let variables = format!(
            "{DIR}={MOUNT_POINT} {LAST_MARK}={} {MARKS_PASSED}={} {MARKS_LIST}={}",
            word(self.passed.last().map_or("", String::as_str)),
            self.passed.len(),
            word(self.marks().as_str())
        );
        let command = word(&checker.command.replace(PLACEHOLDER, MOUNT_POINT));
        format!("{mount}\n(cd {MOUNT_POINT} && {variables} sh -c {command})")
    }

    /// Writes image, text and marks; the image's path.
    pub(crate) fn write(
        &self,
        script: Option<&Script>,
        smallest: &MinimalCase,
        rig: &mut Worker,
    ) -> Result<Utf8PathBuf, CrashError> {
        let dir = &self.dir;
        std::fs::create_dir_all(dir).map_err(CrashError::io(format!("make {dir}")))?;
        let image = self.image();
        let _ = std::fs::remove_file(&image);
        rig.save(self.judge.blocks(self.state).into_iter(), &image)?;
        let checker = format!("checker:\n{}", smallest.output);
        let rest = match (script, self.judge.marks) {
            (Some(script), _) => operations(script),
            (None, Some(_)) => self.write_marks(smallest)?,
            (None, None) => String::new(),
        };
        let text = dir.join("state.txt");
        let whole = format!("{smallest}\n\n{checker}\n{rest}");
        write_new(&text, &whole)?;
        Ok(image)
    }

    /// Writes the marks for a checker; the same for people.
    fn write_marks(&self, smallest: &MinimalCase) -> Result<String, CrashError> {
        let marks: String = self.passed.iter().map(|name| format!("{name}\n")).collect();
        let list = self.marks();
        write_new(&list, &marks)?;
        Ok(format!("--check:\n{}\nmarks:\n{marks}", smallest.said))
    }
}

/// Writes a file anew: a link that stands in its place is replaced, not followed.
fn write_new(path: &Utf8Path, text: &str) -> Result<(), CrashError> {
    let _ = std::fs::remove_file(path);
    let written = new_file().open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(CrashError::io(format!("write {path}")))
}

fn operations(script: &Script) -> String {
    let lines = script.ops.iter().enumerate().map(|(number, op)| format!("{number:>5}  {op}\n"));
    format!("operations:\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_place_of_a_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(dir.path()).unwrap();
        let (victim, text) = (dir.join("victim"), dir.join("state.txt"));
        std::fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, &text).unwrap();
        write_new(&text, "first").unwrap();
        write_new(&text, "second").unwrap();
        let read = |path| std::fs::read_to_string(path).unwrap();
        assert_eq!([read(&victim), read(&text)], ["mine", "second"]);
    }
}
