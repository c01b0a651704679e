//! The `format` files of tracefs: where each field of an event is.
//!
//! The text is described in the kernel's Documentation/trace/events.rst, section "Event formats".

use crate::error::TraceError;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One number of `size` bytes.
    Number,
    /// An array of fixed size; text when its elements are `char`.
    Array,
    /// A 32-bit word that says where in the record the data is: offset in the low half, length in the high
    /// half.
    DataLocation,
    /// As `DataLocation`, the offset counted from the end of this word.
    RelativeLocation,
}

/// One field of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name, e.g. `rwbs`.
    pub name: String,
    /// First byte in the record.
    pub offset: usize,
    /// Bytes it takes.
    pub size: usize,
    /// Whether a number is signed.
    pub signed: bool,
    /// What it holds.
    pub kind: Kind,
}

/// The layout of one event's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// The number in the first two bytes of every record of this event.
    pub id: u16,
    /// Its name, e.g. `block_rq_issue`.
    pub name: String,
    /// All fields, the common ones first.
    pub fields: Vec<Field>,
}

impl EventFormat {
    /// Reads the text of an event's `format` file.
    ///
    /// # Errors
    /// When name or ID is missing, or a field's offset and size are not numbers.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let name = value("name:").unwrap_or_default().to_string();
        let error = |what: &str| TraceError::Format { event: name.clone(), what: what.to_string() };
        if name.is_empty() {
            return Err(error("no line `name:`"));
        }
        let id = value("ID:").and_then(|id| id.parse().ok()).ok_or_else(|| error("no line `ID:`"))?;
        let fields = fields(text).ok_or_else(|| error("a field without offset and size"))?;
        Ok(EventFormat { id, name, fields })
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// The fields of a `format` file, or of `header_page`; `None` when one cannot be read.
pub(crate) fn fields(text: &str) -> Option<Vec<Field>> {
    text.lines().filter_map(|line| line.trim_start().strip_prefix("field:")).map(field).collect()
}

/// `char rwbs[10]; offset:34; size:10; signed:0;`, with tabs
fn field(line: &str) -> Option<Field> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?;
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = Some(value.parse().ok()?),
            Some(("size", value)) => size = Some(value.parse().ok()?),
            Some(("signed", value)) => signed = value != "0",
            _ => {}
        }
    }
    let kind = if declaration.starts_with("__data_loc") {
        Kind::DataLocation
    } else if declaration.starts_with("__rel_loc") {
        Kind::RelativeLocation
    } else if declaration.ends_with(']') {
        Kind::Array
    } else {
        Kind::Number
    };
    let name = declaration.split_whitespace().next_back()?;
    let name = name.split_once('[').map_or(name, |(name, _)| name).trim_start_matches('*');
    Some(Field { name: name.to_string(), offset: offset?, size: size?, signed, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUE: &str = "name: block_rq_issue\nID: 2104\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\
        \tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"%d\", REC->dev\n";

    #[test]
    fn reads_fields_of_every_kind() {
        let format = EventFormat::parse(ISSUE).expect("a format");
        assert_eq!((format.id, format.name.as_str(), format.fields.len()), (2104, "block_rq_issue", 5));
        let kinds: Vec<_> =
            format.fields.iter().map(|f| (f.name.as_str(), f.offset, f.size, f.kind)).collect();
        assert_eq!(
            kinds[1..],
            [
                ("common_pid", 4, 4, Kind::Number),
                ("dev", 8, 4, Kind::Number),
                ("rwbs", 34, 10, Kind::Array),
                ("cmd", 60, 4, Kind::DataLocation),
            ]
        );
        assert!(format.fields[1].signed && !format.fields[2].signed);
    }

    #[test]
    fn pointers_and_relative_locations_have_plain_names() {
        let text = "name: x\nID: 1\n\tfield:const char * p;\toffset:8;\tsize:8;\tsigned:0;\n\
                    \tfield:__rel_loc char[] tail;\toffset:16;\tsize:4;\tsigned:0;\n";
        let format = EventFormat::parse(text).expect("a format");
        assert_eq!(format.field("p").map(|f| f.kind), Some(Kind::Number));
        assert_eq!(format.field("tail").map(|f| f.kind), Some(Kind::RelativeLocation));
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = |text: &str| EventFormat::parse(text).expect_err("an error").to_string();
        assert!(error("ID: 1\n").contains("name:"));
        assert!(error("name: a\n").contains("ID:"));
        assert!(error("name: a\nID: 1\n\tfield:int x;\toffset:?;\tsize:4;\n").contains("offset"));
    }
}
