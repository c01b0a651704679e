//! A workload: what it issues, its settings, and how a study writes it down.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::field::{Io, Seconds, Sweeps};
use crate::results::Parameter;

/// How the text began that named an application in studies that are stored: such a study still opens.
const OLD_MARK: &str = "#!loadline-app";

/// What a workload issues. Its variables are in [`Workload::set`] and in the parameters of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Load {
    /// A script in Filebench's language.
    Wml {
        /// The script.
        text: String,
        /// Where it was read from; for the reader only.
        origin: Option<String>,
    },
    /// An application of crate `apps`, by name.
    App {
        /// Its name, e.g. `large-file`.
        name: String,
    },
    /// A program of crate `simulate`, in virtual time; its stack is among its variables.
    Simulated {
        /// Its name, e.g. `dbench`; `wml` for a script.
        program: String,
        /// The script, and where it was read from.
        script: Option<(String, Option<String>)>,
    },
}

impl Load {
    /// The script in Filebench's language, when it is one.
    pub fn wml(&self) -> Option<&str> {
        match self {
            Load::Wml { text, .. } => Some(text),
            Load::App { .. } | Load::Simulated { .. } => None,
        }
    }
}

/// A workload of a study (`[[workload]]`): a load with its settings.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(into = "RawWorkload")]
pub struct Workload {
    /// Label in the results; unique.
    pub name: String,
    /// What it issues.
    pub load: Load,
    /// Trials of each cell, when they are fewer than the study's.
    pub trials: Option<u32>,
    /// Overrides of the study's `seconds`.
    pub seconds: Option<Seconds>,
    /// Overrides of the study's `warmup`.
    pub warmup: Option<Seconds>,
    /// Overrides of the study's `ops`.
    pub ops: Option<u64>,
    /// Overrides of the study's `rate`.
    pub rate: Option<f64>,
    /// Overrides of the study's `io`.
    pub io: Option<Io>,
    /// The variable that takes the sections of the columns that are to run, when the load has such.
    pub sections: Option<String>,
    /// Variables to set, one value each.
    pub set: Sweeps,
    /// Variables to sweep in this workload only.
    pub parameters: Sweeps,
}

impl Workload {
    /// A workload with nothing but a label and a load.
    pub fn new(name: impl Into<String>, load: Load) -> Workload {
        RawWorkload::default().with(name.into(), load)
    }

    /// The label in the results.
    pub fn label(&self) -> &str {
        &self.name
    }

    /// Variables for the load: what the workload sets, then the parameters of a cell.
    pub fn variables(&self, parameters: &[Parameter]) -> Vec<(String, String)> {
        let set = self.set.iter().filter_map(|(name, values)| Some((name.clone(), values.first()?.clone())));
        set.chain(parameters.iter().map(|p| (p.name.clone(), p.value.clone()))).collect()
    }
}

/// A `[[workload]]` as its author writes it. Exactly one of `file`, `text`, `app` and `simulate` is given; a script that is
/// simulated has `simulate = "wml"` beside `file` or `text`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawWorkload {
    /// [`Workload::name`]; without it the file's stem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The WML file, relative to the study.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Spanned<String>>,
    /// The WML script itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Where an embedded text was read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The application's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<Spanned<String>>,
    /// The simulated program's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulate: Option<Spanned<String>>,
    /// [`Workload::trials`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials: Option<u32>,
    /// [`Workload::seconds`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Seconds>,
    /// [`Workload::warmup`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Seconds>,
    /// [`Workload::ops`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops: Option<u64>,
    /// [`Workload::rate`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// [`Workload::io`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<Io>,
    /// [`Workload::sections`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sections: Option<String>,
    /// [`Workload::set`].
    #[serde(skip_serializing_if = "Sweeps::is_empty")]
    pub set: Sweeps,
    /// [`Workload::parameters`].
    #[serde(skip_serializing_if = "Sweeps::is_empty")]
    pub parameters: Sweeps,
}

impl RawWorkload {
    /// The workload that this means, once its load is known.
    pub(super) fn with(self, name: String, load: Load) -> Workload {
        Workload {
            name,
            load,
            trials: self.trials,
            seconds: self.seconds,
            warmup: self.warmup,
            ops: self.ops,
            rate: self.rate,
            io: self.io,
            sections: self.sections,
            set: self.set,
            parameters: self.parameters,
        }
    }

    /// Turns a text that names an application, as studies had it before there was `app`, into `app` and `set`. What is set
    /// or swept already (`swept`: in every workload) goes before what the text says.
    ///
    /// # Errors
    /// What is wrong with the text, as a sentence.
    pub(super) fn modernize(&mut self, swept: &Sweeps) -> Result<(), String> {
        let Some(rest) = self.text.as_deref().and_then(|text| text.strip_prefix(OLD_MARK)) else {
            return Ok(());
        };
        let mut lines = rest.lines().map(str::trim);
        let name = lines.next().unwrap_or_default().to_string();
        let mut parameters = Sweeps::default();
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (key, value) =
                line.split_once('=').ok_or_else(|| format!("`{line}` is not `name = value`"))?;
            let (key, value) = (key.trim(), value.trim());
            if parameters.get(key).is_some() {
                return Err(format!("`{key}` is given twice"));
            }
            parameters.put(key, vec![value.to_string()])?;
        }
        for (key, values) in parameters.iter() {
            if [&self.set, &self.parameters, swept].iter().all(|known| known.get(key).is_none()) {
                self.set.put(key, values.clone())?;
            }
        }
        self.text = None;
        self.app = Some(Spanned::new(0..0, name));
        Ok(())
    }
}

impl From<Workload> for RawWorkload {
    fn from(workload: Workload) -> RawWorkload {
        let word = |name| Some(Spanned::new(0..0, name));
        let (text, origin, app, simulate) = match workload.load {
            Load::Wml { text, origin } => (Some(text), origin, None, None),
            Load::App { name } => (None, None, word(name), None),
            Load::Simulated { program, script } => {
                let (text, origin) = script.map_or((None, None), |(text, origin)| (Some(text), origin));
                (text, origin, None, word(program))
            }
        };
        RawWorkload {
            name: Some(workload.name),
            file: None,
            text,
            origin,
            app,
            simulate,
            trials: workload.trials,
            seconds: workload.seconds,
            warmup: workload.warmup,
            ops: workload.ops,
            rate: workload.rate,
            io: workload.io,
            sections: workload.sections,
            set: workload.set,
            parameters: workload.parameters,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Study, StudyError};

    fn study(workload: &str) -> Result<Study, StudyError> {
        Study::from_stored(&format!("stacks = [\"ext4\"]\n{workload}"))
    }

    fn set(workload: &Workload) -> Vec<String> {
        workload.variables(&[]).iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn an_application_is_named_and_its_parameters_are_set() {
        let text = "[[workload]]\napp = 'large-file'\nset = { file_bytes = '1G', buffers = 3 }\n";
        let read = study(text).unwrap();
        let workload = &read.workloads[0];
        assert_eq!((workload.label(), &workload.load), ("large-file", &app("large-file")));
        assert_eq!(set(workload), ["buffers=3", "file_bytes=1G"]);
        let stored = read.to_toml();
        assert!(stored.contains("app = \"large-file\"") && !stored.contains("text"), "{stored}");
        assert_eq!(Study::from_stored(&stored).unwrap(), read);
    }

    fn app(name: &str) -> Load {
        Load::App { name: name.into() }
    }

    #[test]
    fn a_study_that_was_stored_before_there_was_app_still_opens() {
        let text = "[parameters]\nconfig = ['a', 'b']\n[[workload]]\nname = 'w'\ntext = '''\n\
                    #!loadline-app read-shared\n# a comment\ncolumns = one two\nthreads = 4\nconfig = c\n'''\n\
                    set = { threads = 8 }\n";
        let read = study(text).unwrap();
        assert_eq!((read.workloads[0].label(), &read.workloads[0].load), ("w", &app("read-shared")));
        assert_eq!(
            set(&read.workloads[0]),
            ["columns=one two", "threads=8"],
            "what the text says comes last"
        );
        assert!(!read.to_toml().contains("#!"), "it is written as studies are now");
        for (line, wrong) in [("foo", "`foo` is not `name = value`"), ("a=1\na=2", "twice"), ("a=", "empty")]
        {
            let text = format!("[[workload]]\nname = 'w'\ntext = '''#!loadline-app x\n{line}'''\n");
            let error = study(&text).unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains(":2:"), "{error}");
        }
    }

    #[test]
    fn a_simulated_load_is_named_or_is_a_script() {
        let text = "stacks = ['virtual']\n[[workload]]\nsimulate = 'dbench'\nset = { containers = 40 }\n\
                    [[workload]]\nname = 'mail'\nsimulate = 'wml'\ntext = 'run 5'\n";
        let read = Study::from_stored(text).unwrap();
        assert_eq!(read.workloads[0].load, Load::Simulated { program: "dbench".into(), script: None });
        let script = Some(("run 5".to_string(), None));
        assert_eq!(read.workloads[1].load, Load::Simulated { program: "wml".into(), script });
        assert_eq!(Study::from_stored(&read.to_toml()).unwrap(), read);
        for (wrong, message) in [
            ("stacks = ['ext4']\n[[workload]]\nsimulate = 'dbench'", "runs on `virtual`, not on ext4"),
            (
                "stacks = ['virtual']\n[[workload]]\napp = 'tree'",
                "`virtual` is for workloads with `simulate`",
            ),
            (
                "stacks = ['virtual']\n[[workload]]\nsimulate = 'dbench'\ntext = 'x'",
                "only `simulate = \"wml\"`",
            ),
            ("stacks = ['virtual']\n[[workload]]\nsimulate = 'wml'", "needs its script"),
            (
                "stacks = ['virtual']\n[[workload]]\nsimulate = 'wml'\napp = 'tree'",
                "both `app` and `simulate`",
            ),
        ] {
            let error = Study::from_stored(wrong).unwrap_err().to_string();
            assert!(error.contains(message), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_workload_is_one_thing() {
        for (both, wrong) in [
            ("app = 'tree'\nfile = 'x.f'", "both `file` and `app`"),
            ("app = 'tree'\nname = 'w'\ntext = 'run'", "both `text` and `app`"),
            ("file = 'x.f'\ntext = 'run'", "both `file` and `text`"),
            ("name = 'w'", "needs `file`, `text`, `app` or `simulate`"),
        ] {
            let error = study(&format!("[[workload]]\n{both}\n")).unwrap_err().to_string();
            let line = if both.starts_with("name") { ":2:" } else { ":3:" };
            assert!(error.contains(wrong) && error.contains(line), "{both}: {error}");
        }
    }
}
