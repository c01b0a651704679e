//! Values with a spelling of their own. Their errors reach the reader with the place in the file.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use workload::IoMode;

/// Longest length of anything: 30 days.
const SECONDS_MAX: f64 = 30.0 * 86_400.0;

/// Values that one variable may have in a sweep.
const SWEEP_VALUES_MAX: usize = 1000;

/// A length of time in seconds, 0 to 30 days: `30`, `1.5`, or as the command line takes it: `"30s"`, `"1h30m"`, `"250ms"`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
pub struct Seconds(pub f64);

impl std::str::FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let length = units::parse_duration(text).map_err(|error| error.to_string())?;
        Seconds::new(length.as_secs_f64())
    }
}

impl Seconds {
    /// Checks the range.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub fn new(seconds: f64) -> Result<Self, String> {
        if (0.0..=SECONDS_MAX).contains(&seconds) {
            Ok(Seconds(seconds))
        } else {
            Err(format!("{seconds} s is out of range; a length of time is 0 to 30 days"))
        }
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(ScalarVisitor("a length of time: 30, 1.5, \"30s\", \"10m\""))? {
            Scalar::Number(number) => Seconds::new(number).map_err(D::Error::custom),
            Scalar::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

/// A whole number of percent, 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Percent(pub u8);

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = i64::deserialize(deserializer)?;
        u8::try_from(value)
            .ok()
            .filter(|percent| *percent <= 100)
            .map(Percent)
            .ok_or_else(|| D::Error::custom(format!("{value} is out of range; a percentage is 0 to 100")))
    }
}

/// A share between 0 and 1, ends excluded: 0.05 is 5 %.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
pub struct Share(pub f64);

impl Share {
    /// Checks the range.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub fn new(share: f64) -> Result<Self, String> {
        if share > 0.0 && share < 1.0 {
            Ok(Share(share))
        } else {
            Err(format!("{share} is out of range; a share lies between 0 and 1, e.g. 0.05 for 5 %"))
        }
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(ScalarVisitor("a share between 0 and 1, e.g. 0.05"))? {
            Scalar::Number(number) => Share::new(number).map_err(D::Error::custom),
            Scalar::Text(text) => {
                Err(D::Error::custom(format!("`{text}` is not a share; write a number, e.g. 0.05")))
            }
        }
    }
}

/// A number of bytes with a binary unit: `"2G"` is 2 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl std::str::FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        spec::Size::parse(text).map(|size| Bytes(size.bytes()))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        spec::Size::from_bytes(self.0).fmt(f)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// How reads and writes are issued: `psync`, or `uring` with a depth, e.g. `uring:32` (depth 1 without one).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Io(pub IoMode);

impl Default for Io {
    fn default() -> Self {
        Io(IoMode::Psync)
    }
}

impl std::str::FromStr for Io {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (engine, depth) =
            text.split_once(':').map_or((text, None), |(engine, depth)| (engine, Some(depth)));
        match (engine, depth.map(str::parse::<u32>)) {
            ("psync", None) => Ok(Io(IoMode::Psync)),
            ("uring", None) => Ok(Io(IoMode::Uring { depth: 1 })),
            ("uring", Some(Ok(depth @ 1..=4096))) => Ok(Io(IoMode::Uring { depth })),
            ("uring", Some(_)) => Err(format!("`{text}`: the depth is a number from 1 to 4096")),
            _ => Err(format!("unknown I/O engine `{text}`; write psync, uring or uring:DEPTH")),
        }
    }
}

impl fmt::Display for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IoMode::Psync => write!(f, "psync"),
            IoMode::Uring { depth } => write!(f, "uring:{depth}"),
        }
    }
}

impl Serialize for Io {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Io {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Variables, each with one or more values as they are written in WML; in alphabetical order of their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sweeps(BTreeMap<String, Vec<String>>);

impl Sweeps {
    /// No variable.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Variables with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Vec<String>)> {
        self.0.iter()
    }

    /// All values.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.0.values_mut().flatten()
    }

    /// The values of a variable.
    pub fn get(&self, name: &str) -> Option<&[String]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// Gives a variable (with or without `$`) its values, in place of earlier ones.
    ///
    /// # Errors
    /// What is wrong with the name or the values, as a sentence.
    pub fn put(&mut self, name: &str, values: Vec<String>) -> Result<(), String> {
        let name = name.strip_prefix('$').unwrap_or(name);
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() || !plain {
            return Err(format!("`{name}` is not a variable's name; names are letters, digits and `_`"));
        }
        if values.is_empty() || values.iter().any(String::is_empty) {
            return Err(format!("`{name}` has an empty value"));
        }
        if values.len() > SWEEP_VALUES_MAX {
            return Err(format!("`{name}` has more than {SWEEP_VALUES_MAX} values"));
        }
        if let Some(twice) = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)) {
            return Err(format!("`{name}` has the value {} twice", twice.1));
        }
        self.0.insert(name.to_string(), values);
        Ok(())
    }

    /// Every combination of the values, the last variable turning fastest; one empty combination without
    /// variables.
    pub fn combinations(&self) -> Vec<Vec<(String, String)>> {
        self.0.iter().fold(vec![Vec::new()], |points, (name, values)| {
            points
                .into_iter()
                .flat_map(|point| {
                    values.iter().map(move |value| {
                        let mut longer = point.clone();
                        longer.push((name.clone(), value.clone()));
                        longer
                    })
                })
                .collect()
        })
    }

    /// These variables and others; the others go before.
    pub fn with(&self, others: &Sweeps) -> Sweeps {
        let mut all = self.0.clone();
        all.extend(others.0.clone());
        Sweeps(all)
    }
}

impl Serialize for Sweeps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Sweeps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Sweeps;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a table of variables, e.g. nthreads = [1, 16]")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sweeps, A::Error> {
                let mut sweeps = Sweeps::default();
                while let Some((name, values)) = map.next_entry::<String, Values>()? {
                    sweeps.put(&name, values.0).map_err(A::Error::custom)?;
                }
                Ok(sweeps)
            }
        }
        deserializer.deserialize_map(Map)
    }
}

/// One value, or a list of them.
struct Values(Vec<String>);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValuesVisitor { list: true }).map(Values)
    }
}

/// One value as text.
struct Word(String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = deserializer.deserialize_any(ValuesVisitor { list: false })?;
        Ok(Word(values.into_iter().next().unwrap_or_default()))
    }
}

/// Reads values as text; `list`: one or a list of them.
struct ValuesVisitor {
    list: bool,
}

impl<'de> Visitor<'de> for ValuesVisitor {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, text or true/false")?;
        if self.list { f.write_str(", or a list of them") } else { Ok(()) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<String>, A::Error> {
        if !self.list {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &self));
        }
        let mut values = Vec::new();
        while let Some(Word(value)) = seq.next_element()? {
            values.push(value);
        }
        Ok(values)
    }

    fn visit_str<E>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(vec![text.to_string()])
    }

    fn visit_i64<E>(self, number: i64) -> Result<Vec<String>, E> {
        Ok(vec![number.to_string()])
    }

    fn visit_f64<E>(self, number: f64) -> Result<Vec<String>, E> {
        Ok(vec![number.to_string()])
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Vec<String>, E> {
        Ok(vec![truth.to_string()])
    }
}

enum Scalar {
    Number(f64),
    Text(String),
}

/// Reads a number or a text; holds what it expects.
struct ScalarVisitor(&'static str);

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        let read = |text: &str| text.parse::<Seconds>().map(|seconds| seconds.0);
        assert_eq!(read("30"), Ok(30.0));
        assert_eq!(read("1.5s"), Ok(1.5));
        assert_eq!(read("10m"), Ok(600.0));
        assert_eq!(read("2h"), Ok(7200.0));
        assert_eq!(read("250ms"), Ok(0.25));
        assert_eq!(read("1h30m"), Ok(5400.0));
        for wrong in ["5mms", "5s5", "31d", "", "s", "m", "-1", "31h30", "1e99", "nan", "inf", "1 day"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn engines() {
        for (text, mode) in [("psync", IoMode::Psync), ("uring:32", IoMode::Uring { depth: 32 })] {
            let io: Io = text.parse().unwrap();
            assert_eq!((io.0, io.to_string().as_str()), (mode, text));
        }
        assert_eq!("uring".parse(), Ok(Io(IoMode::Uring { depth: 1 })));
        for wrong in ["", "psync:2", "uring:", "uring:0", "uring:4097", "libaio"] {
            assert!(wrong.parse::<Io>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn combinations_turn_the_last_variable_fastest() {
        let mut sweeps = Sweeps::default();
        assert_eq!(sweeps.combinations(), [vec![]]);
        sweeps.put("$b", vec!["1".into(), "2".into()]).unwrap();
        sweeps.put("a", vec!["x".into(), "y".into()]).unwrap();
        let points: Vec<String> = sweeps
            .combinations()
            .iter()
            .map(|point| point.iter().map(|(name, value)| format!("{name}{value}")).collect())
            .collect();
        assert_eq!(points, ["axb1", "axb2", "ayb1", "ayb2"]);
    }

    #[test]
    fn bad_variables_are_refused() {
        let mut sweeps = Sweeps::default();
        assert!(sweeps.put("a b", vec!["1".into()]).is_err());
        assert!(sweeps.put("", vec!["1".into()]).is_err());
        assert!(sweeps.put("a", vec![]).is_err());
        assert!(sweeps.put("a", vec!["1".into(), String::new()]).is_err());
        assert!(sweeps.put("a", vec!["1".into(), "1".into()]).is_err());
        assert!(sweeps.is_empty());
    }
}
