//! How a record lies in an engine: its fields by name, or all of it as one value.
//!
//! An engine that stores one value under a key holds the fields of a record as YCSB's RocksDB binding does: of each the
//! length of its name, its name, the length of its value, its value; lengths have four bytes, the most significant first.

use crate::values::FieldValues;
use crate::workload::{Form, Workload};

/// The names of a record's fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    form: Form,
    prefix: String,
    texts: Vec<String>,
}

impl Names {
    /// Those of a workload.
    pub fn of(workload: &Workload) -> Names {
        let prefix = workload.field_prefix.clone();
        let texts = match workload.form {
            Form::Fields => (0..workload.fields).map(|number| format!("{prefix}{number}")).collect(),
            Form::Value => vec!["value".to_string()],
        };
        Names { form: workload.form, prefix, texts }
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "a record has at least one field")]
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether a record is one value, written blindly.
    pub fn is_value(&self) -> bool {
        self.form == Form::Value
    }

    /// The name of a field; empty where there is no such field.
    #[inline]
    pub fn name(&self, field: usize) -> &str {
        self.texts.get(field).map_or("", String::as_str)
    }

    /// The field of a name.
    pub fn number(&self, name: &[u8]) -> Option<usize> {
        let digits = std::str::from_utf8(name.strip_prefix(self.prefix.as_bytes())?).ok()?;
        let number: usize = digits.parse().ok()?;
        (self.name(number).as_bytes() == name).then_some(number)
    }

    /// Writes a record's fields as one value.
    pub fn serialise(&self, written: &FieldValues, value: &mut Vec<u8>) {
        value.clear();
        if self.is_value() {
            value.extend_from_slice(written.bytes());
            return;
        }
        written.iter().for_each(|(field, bytes)| entry(self.name(field).as_bytes(), bytes, value));
    }

    /// Shows the fields of a record that lies in one value.
    ///
    /// # Errors
    /// It is no such value.
    #[inline]
    pub fn fields(&self, value: &[u8], mut show: impl FnMut(usize, &[u8])) -> Result<(), String> {
        if self.is_value() {
            show(0, value);
            return Ok(());
        }
        self.entries(value, |field, _, bytes| show(field, bytes))
    }

    fn entries(&self, value: &[u8], mut show: impl FnMut(usize, &[u8], &[u8])) -> Result<(), String> {
        let (mut rest, mut next) = (value, 0);
        while !rest.is_empty() {
            let parts =
                part(rest).and_then(|(name, rest)| part(rest).map(|(bytes, rest)| (name, bytes, rest)));
            let Some((name, bytes, after)) = parts else {
                return Err(format!("it has {} bytes, and is not a record of named fields", value.len()));
            };
            // they lie in the order in which they were written first
            let field = if self.name(next).as_bytes() == name { Some(next) } else { self.number(name) };
            let Some(field) = field else {
                return Err(format!("it has a field {}, which no record has", String::from_utf8_lossy(name)));
            };
            show(field, name, bytes);
            (rest, next) = (after, field + 1);
        }
        Ok(())
    }

    /// The record that lies in `old` with the fields that are written, as one value.
    ///
    /// # Errors
    /// `old` is no such value.
    pub fn merge(&self, old: &[u8], written: &FieldValues, value: &mut Vec<u8>) -> Result<(), String> {
        value.clear();
        self.entries(old, |field, name, bytes| entry(name, written.get(field).unwrap_or(bytes), value))
    }
}

fn entry(name: &[u8], bytes: &[u8], value: &mut Vec<u8>) {
    for part in [name, bytes] {
        value.extend_from_slice(&(part.len() as u32).to_be_bytes());
        value.extend_from_slice(part);
    }
}

/// The part at the beginning, and what follows it.
#[inline]
fn part(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = rest.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::Properties;

    fn names(more: &str) -> Names {
        let text = format!("recordcount=1\nfieldcount=3\nfieldnameprefix=f\n{more}");
        Names::of(&Workload::of(&Properties::parse(&text).unwrap(), false).unwrap())
    }

    fn written(first: usize, values: &[&str]) -> FieldValues {
        let mut written = FieldValues::default();
        written.begin(first);
        values.iter().for_each(|value| written.add(|bytes| bytes.extend_from_slice(value.as_bytes())));
        written
    }

    fn shown(names: &Names, value: &[u8]) -> Result<Vec<(usize, String)>, String> {
        let mut all = Vec::new();
        names.fields(value, |field, bytes| all.push((field, String::from_utf8_lossy(bytes).into_owned())))?;
        Ok(all)
    }

    #[test]
    fn a_record_is_serialised_as_ycsb_does_and_merged() {
        let names = names("");
        let (mut value, mut merged) = (Vec::new(), Vec::new());
        names.serialise(&written(0, &["a", "bb", ""]), &mut value);
        assert_eq!(value, b"\0\0\0\x02f0\0\0\0\x01a\0\0\0\x02f1\0\0\0\x02bb\0\0\0\x02f2\0\0\0\0");
        names.merge(&value, &written(1, &["new"]), &mut merged).unwrap();
        let expected = [(0, "a".to_string()), (1, "new".into()), (2, String::new())];
        assert_eq!(shown(&names, &merged).unwrap(), expected);
        assert_eq!((names.number(b"f2"), names.number(b"f02"), names.number(b"f3")), (Some(2), None, None));
        for cut in 1..value.len() {
            let whole_fields = [11, 23].contains(&cut);
            assert_eq!(shown(&names, &value[..cut]).is_ok(), whole_fields, "{cut}");
        }
        assert!(shown(&names, b"\0\0\0\x01x\0\0\0\0").unwrap_err().contains("a field x"));
    }

    #[test]
    fn one_value_is_its_bytes() {
        let names = names("record=value");
        let mut value = Vec::new();
        names.serialise(&written(0, &["abc"]), &mut value);
        assert_eq!((names.len(), &value[..]), (1, &b"abc"[..]));
        assert_eq!(shown(&names, &value).unwrap(), [(0, "abc".to_string())]);
    }
}
