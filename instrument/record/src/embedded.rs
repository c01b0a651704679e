//! Studies that every `loadline` has with it: one for each published evaluation.

use crate::study::{Scene, Study, StudyError};

/// A study that is embedded.
#[derive(Debug, Clone, Copy)]
pub struct Embedded {
    /// Its word for `loadline reproduce`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// Every embedded study.
pub const STUDIES: [Embedded; 5] = [
    Embedded { name: "betrfs", text: include_str!("../../../studies/betrfs.toml") },
    Embedded { name: "crossprefetch", text: include_str!("../../../studies/crossprefetch.toml") },
    Embedded { name: "hotos11", text: include_str!("../../../studies/hotos11.toml") },
    Embedded { name: "opimq", text: include_str!("../../../studies/opimq.toml") },
    Embedded { name: "swissknife", text: include_str!("../../../studies/swissknife.toml") },
];

/// The workloads that they name, by file name.
const WORKLOADS: [(&str, &str); 8] = [
    ("../workloads/oltp.f", include_str!("../../../workloads/oltp.f")),
    ("../workloads/fileserver.f", include_str!("../../../workloads/fileserver.f")),
    ("../workloads/webproxy.f", include_str!("../../../workloads/webproxy.f")),
    ("../workloads/webserver.f", include_str!("../../../workloads/webserver.f")),
    ("../workloads/varmail.f", include_str!("../../../workloads/varmail.f")),
    ("../workloads/fsmark.f", include_str!("../../../workloads/fsmark.f")),
    ("../workloads/block-sizes.fio", include_str!("../../../workloads/block-sizes.fio")),
    ("../workloads/randomread.f", include_str!("../../../workloads/randomread.f")),
];

impl Embedded {
    /// The study of this name.
    pub fn named(name: &str) -> Option<Embedded> {
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
    pub fn study(self, scene: &Scene) -> Result<Study, StudyError> {
        let file = format!("{}.toml", self.name);
        let read = |name: &str| {
            let found = WORKLOADS.into_iter().find(|(known, _)| *known == name);
            let text = found.map(|(_, text)| text.to_string());
            text.ok_or_else(|| StudyError::Argument(format!("{file} names {name}, which is not embedded")))
        };
        Study::parse_for(self.text, &file, &read, scene)
    }
}
