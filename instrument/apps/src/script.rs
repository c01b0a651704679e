//! The text that names a load and its parameters.
//!
//! ```text
//! #!loadline-app random-write
//! # a comment
//! file_bytes = 167772160
//! writes = 4096
//! ```

use std::collections::BTreeMap;

use crate::AppError;

/// The beginning of a script's first line.
const MARK: &str = "#!loadline-app";

/// A load's name and parameters; taking a parameter removes it, so that [`Script::end`] finds unknown ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    name: String,
    values: BTreeMap<String, String>,
}

impl Script {
    /// Whether a text is a script of this kind (and not WML).
    pub fn is(text: &str) -> bool {
        text.starts_with(MARK)
    }

    /// Reads a script; `None` when the text is none.
    ///
    /// # Errors
    /// A line that is neither `name = value` nor a comment, a name given twice.
    pub fn parse(text: &str) -> Result<Option<Script>, AppError> {
        let Some(rest) = text.strip_prefix(MARK) else { return Ok(None) };
        let mut lines = rest.lines();
        let name = lines.next().unwrap_or_default().trim().to_string();
        let mut values = BTreeMap::new();
        for line in lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let Some((key, value)) = line.split_once('=') else {
                return Err(AppError::Script(format!("`{line}` is not `name = value`")));
            };
            let key = key.trim().to_string();
            if values.insert(key.clone(), value.trim().to_string()).is_some() {
                return Err(AppError::Script(format!("`{key}` is given twice")));
            }
        }
        Ok(Some(Script { name, values }))
    }

    /// The load's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets a parameter.
    pub fn put(&mut self, name: &str, value: &str) {
        self.values.insert(name.to_string(), value.to_string());
    }

    /// Takes a whole number within `range`; `default` when it is not given.
    ///
    /// # Errors
    /// Not a number, or out of range.
    pub fn number(
        &mut self,
        name: &str,
        default: u64,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, AppError> {
        let Some(text) = self.values.remove(name) else { return Ok(default) };
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (low, high) = range.into_inner();
            AppError::Script(format!("{name} = {text} is not a whole number from {low} to {high}"))
        })
    }

    /// Takes a word; `default` when it is not given.
    pub fn word(&mut self, name: &str, default: &str) -> String {
        self.values.remove(name).unwrap_or_else(|| default.to_string())
    }

    /// Finds parameters that nobody took.
    ///
    /// # Errors
    /// The first of them.
    pub fn end(self) -> Result<(), AppError> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(key) => Err(AppError::Script(format!("{} has no parameter `{key}`", self.name))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_and_its_mistakes_are_found() {
        assert!(Script::parse("define fileset\n").unwrap().is_none());
        let mut script = Script::parse("#!loadline-app x\n# c\n a = 5\nb=word\n").unwrap().unwrap();
        assert_eq!(script.name(), "x");
        assert_eq!(script.number("a", 1, 1..=9).unwrap(), 5);
        assert_eq!(script.number("z", 7, 1..=9).unwrap(), 7);
        assert!(script.clone().end().unwrap_err().to_string().contains("`b`"));
        assert_eq!(script.word("b", ""), "word");
        script.end().unwrap();
        for (text, wrong) in
            [("#!loadline-app x\nfoo", "name = value"), ("#!loadline-app x\na=1\na=2", "twice")]
        {
            assert!(Script::parse(text).unwrap_err().to_string().contains(wrong));
        }
        let mut script = Script::parse("#!loadline-app x\na=10").unwrap().unwrap();
        assert!(script.number("a", 1, 1..=9).unwrap_err().to_string().contains("1 to 9"));
    }
}
