//! The study that a command line means: `loadline run varmail.f --on ext4,xfs --set nthreads=1,16 --for 30s`.

use std::path::{Path, PathBuf};

use spec::StackSpec;

use super::file::stem_of;
use super::{Load, Settings, Study, StudyError, Sweeps, Workload};

/// What a command line says. Settings that it leaves out have their defaults.
#[derive(Debug, Clone, Default)]
pub struct CommandLine {
    /// WML files.
    pub files: Vec<PathBuf>,
    /// Applications, by name.
    pub apps: Vec<String>,
    /// Files that applications read.
    pub app_files: Vec<AppFile>,
    /// What follows `--on`, e.g. `ext4,xfs`.
    pub on: String,
    /// What follows each `--set`: `name=value`, or `name=value,value` for a sweep (a comma within double
    /// quotes separates nothing).
    pub set: Vec<String>,
    /// Everything else. An empty title is made from files and stacks.
    pub settings: Settings,
}

/// A file that an application reads: the workload has the file's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppFile {
    /// The file's absolute path.
    pub file: PathBuf,
    /// The application.
    pub app: String,
    /// Its parameter that names the file.
    pub parameter: String,
}

impl Study {
    /// The study that a command line means; `read` gives the text of a WML file.
    ///
    /// # Errors
    /// A file that cannot be read, a stack or variable that cannot be understood.
    pub fn from_command_line(
        line: &CommandLine,
        read: &dyn Fn(&Path) -> Result<String, StudyError>,
    ) -> Result<Study, StudyError> {
        let argument = StudyError::Argument;
        let stacks = StackSpec::parse_list(&line.on).map_err(|error| argument(format!("--on: {error}")))?;
        let (mut set, mut parameters) = (Sweeps::default(), Sweeps::default());
        for word in &line.set {
            let wrong = |why: String| StudyError::Argument(format!("--set {word}: {why}"));
            let (name, values) =
                word.split_once('=').ok_or_else(|| wrong("write --set name=value".to_string()))?;
            let values = split_values(values);
            let place = if values.len() > 1 { &mut parameters } else { &mut set };
            place.put(name, values).map_err(wrong)?;
        }
        let mut settings = line.settings.clone();
        if settings.title.is_empty() {
            settings.title = title_of(line, &stacks);
        }
        let workload = |file: &PathBuf| -> Result<Workload, StudyError> {
            let origin = file.display().to_string();
            let name = stem_of(&origin).unwrap_or_default();
            let load = Load::Wml { text: read(file)?, origin: Some(origin) };
            Ok(Workload { set: set.clone(), ..Workload::new(name, load) })
        };
        let app = |name: &String| -> Workload {
            Workload { set: set.clone(), ..Workload::new(name, Load::App { name: name.clone() }) }
        };
        let app_file = |one: &AppFile| -> Result<Workload, StudyError> {
            let path = one.file.display().to_string();
            let name = stem_of(&path).unwrap_or_default();
            let mut set = set.clone();
            set.put(&one.parameter, vec![path]).map_err(StudyError::Argument)?;
            Ok(Workload { set, ..Workload::new(name, Load::App { name: one.app.clone() }) })
        };
        let app_files = line.app_files.iter().map(app_file).collect::<Result<Vec<_>, _>>()?;
        let scripts = line.files.iter().map(workload).collect::<Result<Vec<_>, _>>()?;
        let study = Study {
            stacks,
            study: settings,
            parameters,
            workloads: scripts.into_iter().chain(app_files).chain(line.apps.iter().map(app)).collect(),
            ..Study::default()
        };
        study.checked()
    }
}

/// Splits at commas outside of double quotes; the quotes go.
fn split_values(text: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut quoted = false;
    for letter in text.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => values.push(String::new()),
            _ => values.last_mut().expect("there is always one").push(letter),
        }
    }
    values
}

fn title_of(line: &CommandLine, stacks: &[StackSpec]) -> String {
    let files = line.files.iter().chain(line.app_files.iter().map(|one| &one.file));
    let stems = files.filter_map(|file| stem_of(&file.to_string_lossy()));
    let stems: Vec<String> = stems.chain(line.apps.iter().cloned()).collect();
    let stacks: Vec<String> = stacks.iter().map(StackSpec::label).collect();
    format!("{} on {}", stems.join(", "), stacks.join(" "))
}
