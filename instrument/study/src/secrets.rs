//! Passwords of a study: they stand beside it, so that whatever is shown, stored or hashed of a study holds none.

use std::collections::BTreeMap;
use std::fmt;

use workload::address::redact_word;

use super::{Study, StudyError};

/// Values of a study as they were given, by what stands for them in the study.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secrets(BTreeMap<String, String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

impl Secrets {
    /// The value that was given where this one stands in the study.
    pub fn reveal<'a>(&'a self, shown: &'a str) -> &'a str {
        self.0.get(shown).map_or(shown, String::as_str)
    }

    /// Variables with the values that were given.
    pub fn reveal_all(&self, variables: &[(String, String)]) -> Vec<(String, String)> {
        variables.iter().map(|(name, value)| (name.clone(), self.reveal(value).to_string())).collect()
    }

    fn take(&mut self, value: &mut String) -> Result<(), StudyError> {
        let shown = redact_word(value).into_owned();
        if shown == *value {
            return Ok(());
        }
        let given = std::mem::replace(value, shown.clone());
        match self.0.insert(shown.clone(), given.clone()) {
            Some(other) if other != given => Err(StudyError::Argument(format!(
                "{shown}: two addresses differ by their passwords alone, which results do not show; give them different users or \
                 hosts"
            ))),
            _ => Ok(()),
        }
    }
}

impl Study {
    /// Takes passwords of addresses out of the values of all variables, into the settings' [`secrets`](super::Settings::secrets).
    ///
    /// # Errors
    /// Two addresses that only differ by their passwords.
    pub fn hide_secrets(&mut self) -> Result<(), StudyError> {
        let of_workloads =
            self.workloads.iter_mut().flat_map(|workload| [&mut workload.set, &mut workload.parameters]);
        let of_rows = self.rows.iter_mut().map(|row| &mut row.parameters);
        let sweeps = of_workloads.chain(of_rows).chain([&mut self.parameters]);
        let turns = self.study.turns.iter_mut().flat_map(|turns| [&mut turns.a, &mut turns.b]);
        let values = sweeps.flat_map(|sweeps| sweeps.values_mut());
        for value in values.chain(turns.flat_map(BTreeMap::values_mut)) {
            self.study.secrets.take(value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;

    fn study(set: &[&str]) -> Result<Study, StudyError> {
        let line = CommandLine {
            apps: vec!["ycsb-a".into()],
            on: "tmpfs".into(),
            set: set.iter().map(|word| word.to_string()).collect(),
            ..CommandLine::default()
        };
        Study::from_command_line(&line, &|_| unreachable!())
    }

    #[test]
    fn a_study_shows_no_password_and_still_knows_it() {
        let read = study(&["address=\"redis://:s3,cret@h\""]).unwrap();
        assert!(!format!("{read:?}{}", read.to_toml()).contains("s3,cret"));
        let variables = read.workloads[0].variables(&[]);
        assert_eq!(variables[0].1, "redis://:***@h");
        assert_eq!(read.study.secrets.reveal_all(&variables)[0].1, "redis://:s3,cret@h");
        let swept = study(&["address=redis://:s3cret@a,redis://:s3cret@b"]).unwrap();
        let cells = crate::plan::cells(&swept);
        assert_eq!((cells.len(), cells[1].parameters[0].value.as_str()), (2, "redis://:***@b"));
        assert_eq!(swept.study.secrets.reveal("redis://:***@b"), "redis://:s3cret@b");
        let same = study(&["address=redis://:x@a,redis://:y@a"]).unwrap_err().to_string();
        assert!(same.contains("redis://:***@a: two addresses"), "{same}");
        let written = Study::from_stored(
            "stacks = ['tmpfs']\n[[workload]]\napp = 'ycsb-a'\nset = { address = 'redis://:s3cret@h' }",
        );
        assert!(!written.unwrap().to_toml().contains("s3cret"));
    }

    #[test]
    fn the_same_study_with_another_password_is_the_same() {
        let of = |word: &str| study(&[&format!("address=redis://:{word}@h")]).unwrap().hash();
        assert_eq!(of("one"), of("two"));
        assert_eq!(of("one"), of("***"), "and as it is stored");
    }
}
