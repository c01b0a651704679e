//! Studies that every `loadline` has with it: one for each published evaluation.

use std::path::Path;

use crate::files::text;
use crate::{Study, StudyError, StudyVariant};

/// A study that is embedded.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedStudy {
    /// Its word for `loadline reproduce`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// Every embedded study.
pub const STUDIES: [EmbeddedStudy; 5] = [
    EmbeddedStudy { name: "betrfs", text: include_str!("../../../studies/betrfs.toml") },
    EmbeddedStudy { name: "crossprefetch", text: include_str!("../../../studies/crossprefetch.toml") },
    EmbeddedStudy { name: "hotos11", text: include_str!("../../../studies/hotos11.toml") },
    EmbeddedStudy { name: "opimq", text: include_str!("../../../studies/opimq.toml") },
    EmbeddedStudy { name: "swissknife", text: include_str!("../../../studies/swissknife.toml") },
];

impl EmbeddedStudy {
    /// The study of this name.
    pub fn named(name: &str) -> Option<EmbeddedStudy> {
        STUDIES.into_iter().find(|study| study.name == name)
    }

    /// How the titles of its runs begin: without the scale. `None` when it has no title.
    pub fn title(self) -> Option<String> {
        let line = self.text.lines().find_map(|line| line.strip_prefix("title = \""))?;
        let title = line.split_once('"').map_or(line, |(title, _)| title);
        Some(title.split("${").next().unwrap_or_default().trim_end_matches('(').to_string())
    }

    /// The study for a scene.
    ///
    /// # Errors
    /// A scale that does not exist, values that do not fit.
    pub fn study(self, scene: &StudyVariant) -> Result<Study, StudyError> {
        let file = format!("{}.toml", self.name);
        let read = |name: &str| {
            let text = text(Path::new(name)).map(str::to_string);
            text.ok_or_else(|| StudyError::Argument(format!("{file} names {name}, which is not embedded")))
        };
        Study::parse_for(self.text, &file, &read, scene)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_repository_is_embedded() {
        for folder in ["workloads", "studies"] {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            for entry in std::fs::read_dir(root.join(folder)).unwrap() {
                let path = Path::new(folder).join(entry.unwrap().file_name());
                let study = path.file_stem().and_then(|stem| EmbeddedStudy::named(stem.to_str()?));
                assert!(study.is_some() || text(&path).is_some(), "{}: not in FILES", path.display());
            }
        }
    }
}
