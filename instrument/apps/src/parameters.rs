//! The parameters of a load by name, with their checks.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::AppError;

/// A load's name and parameters; taking a parameter removes it, so that [`Parameters::end`] finds unknown ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    load: String,
    values: BTreeMap<String, String>,
}

impl Parameters {
    /// The parameters of the load of this name; of two values of one name the later counts.
    pub fn new(load: &str, values: &[(String, String)]) -> Parameters {
        Parameters { load: load.to_string(), values: values.iter().cloned().collect() }
    }

    /// Takes a whole number within `range`; `default` when it is not given.
    ///
    /// # Errors
    /// Not a number, or out of range.
    pub fn number(&mut self, name: &str, default: u64, range: RangeInclusive<u64>) -> Result<u64, AppError> {
        self.within(name, default, range, |text| text.parse().ok())
    }

    /// Takes a number of bytes within `range`, plain or with a binary unit (`64M`); `default` when it is not given.
    ///
    /// # Errors
    /// Not a size, or out of range.
    pub fn bytes(&mut self, name: &str, default: u64, range: RangeInclusive<u64>) -> Result<u64, AppError> {
        self.within(name, default, range, |text| units::parse_bytes(text).ok())
    }

    fn within(
        &mut self,
        name: &str,
        default: u64,
        range: RangeInclusive<u64>,
        read: impl Fn(&str) -> Option<u64>,
    ) -> Result<u64, AppError> {
        let Some(text) = self.values.remove(name) else { return Ok(default) };
        let number = read(&text).filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (low, high) = range.into_inner();
            AppError::Parameter(format!("{name} = {text} is not a whole number from {low} to {high}"))
        })
    }

    /// Takes a word; `default` when it is not given.
    pub fn word(&mut self, name: &str, default: &str) -> String {
        self.values.remove(name).unwrap_or_else(|| default.to_string())
    }

    /// Refuses parameters that would have no effect.
    ///
    /// # Errors
    /// The first of them that is given, with the reason.
    pub fn refuse(&self, names: &[&str], why: &str) -> Result<(), AppError> {
        match names.iter().find(|name| self.values.contains_key(**name)) {
            None => Ok(()),
            Some(name) => Err(AppError::Parameter(format!("{name} would have no effect: {why}"))),
        }
    }

    /// Finds parameters that nobody took.
    ///
    /// # Errors
    /// The first of them.
    pub fn end(self) -> Result<(), AppError> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(key) => Err(AppError::Parameter(format!("{} has no parameter `{key}`", self.load))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(values: &[(&str, &str)]) -> Parameters {
        let values: Vec<(String, String)> =
            values.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Parameters::new("x", &values)
    }

    #[test]
    fn parameters_are_taken_and_their_mistakes_are_found() {
        let mut given = parameters(&[("a", "5"), ("b", "word"), ("size", "64M")]);
        assert_eq!(given.number("a", 1, 1..=9).unwrap(), 5);
        assert_eq!(given.number("z", 7, 1..=9).unwrap(), 7);
        assert_eq!(given.bytes("size", 1, 1..=1 << 30).unwrap(), 64 << 20);
        assert!(given.clone().end().unwrap_err().to_string().contains("x has no parameter `b`"));
        assert_eq!(given.word("b", ""), "word");
        given.end().unwrap();
        for value in ["10", "1k", "x"] {
            let error = parameters(&[("a", value)]).number("a", 1, 1..=9).unwrap_err().to_string();
            assert!(error.contains("1 to 9"), "{error}");
        }
        assert!(parameters(&[("a", "1G")]).bytes("a", 1, 1..=9).is_err());
        assert_eq!(parameters(&[("a", "1"), ("a", "2")]).number("a", 0, 0..=9).unwrap(), 2);
    }
}
