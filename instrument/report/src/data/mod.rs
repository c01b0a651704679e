//! A run as tables with typed columns: what `loadline export` writes, as Parquet or CSV. `docs/formats.md` is their schema.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | tables, columns, CSV |
//! | `tables` | what stands in them |
//! | [`parquet`] | a table as a Parquet file |
//! | `thrift` | the encoding of that file's metadata |

pub mod parquet;
mod tables;
mod thrift;

pub use tables::tables;

/// Version of the tables; a column more at the right of one does not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// Values of a column, all of one type; `None` where there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// UTF-8.
    Text(Vec<Option<String>>),
    /// 64 bits with sign.
    Int(Vec<Option<i64>>),
    /// 64 bits, IEEE 754.
    Float(Vec<Option<f64>>),
    /// Microseconds since 1970, UTC.
    Time(Vec<Option<i64>>),
}

impl Values {
    /// How many there are, `None` too.
    pub fn len(&self) -> usize {
        match self {
            Values::Text(values) => values.len(),
            Values::Int(values) | Values::Time(values) => values.len(),
            Values::Float(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type as the documentation says it.
    pub fn type_word(&self) -> &'static str {
        match self {
            Values::Text(_) => "text",
            Values::Int(_) => "integer",
            Values::Float(_) => "float",
            Values::Time(_) => "time",
        }
    }

    /// A value as CSV has it.
    fn text(&self, row: usize) -> String {
        match self {
            Values::Text(values) => values[row].clone().unwrap_or_default(),
            Values::Int(values) => values[row].map_or(String::new(), |value| value.to_string()),
            Values::Float(values) => values[row].map_or(String::new(), |value| value.to_string()),
            Values::Time(values) => values[row]
                .and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok())
                .map_or(String::new(), |time| time.to_string()),
        }
    }

    fn append(&mut self, other: Values) {
        match (self, other) {
            (Values::Text(values), Values::Text(more)) => values.extend(more),
            (Values::Int(values), Values::Int(more)) | (Values::Time(values), Values::Time(more)) => {
                values.extend(more);
            }
            (Values::Float(values), Values::Float(more)) => values.extend(more),
            (values, more) => unreachable!("{} joined to {}", more.type_word(), values.type_word()),
        }
    }
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name, with the unit in it.
    pub name: String,
    /// Its values.
    pub values: Values,
}

/// A table: columns of one length.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Its name, which is that of its file.
    pub name: &'static str,
    /// Its columns.
    pub columns: Vec<Column>,
}

impl Table {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    /// Puts the rows of the same table of another run below its own.
    pub fn append(&mut self, other: Table) {
        for (column, more) in self.columns.iter_mut().zip(other.columns) {
            column.values.append(more.values);
        }
    }

    /// RFC 4180 with newlines as row ends.
    pub fn csv(&self) -> String {
        let quoted = |value: String| match value.contains(['"', ',', '\n', '\r']) {
            true => format!("\"{}\"", value.replace('"', "\"\"")),
            false => value,
        };
        let line = |values: &mut dyn Iterator<Item = String>| {
            let values: Vec<String> = values.map(quoted).collect();
            values.join(",") + "\n"
        };
        let mut text = line(&mut self.columns.iter().map(|column| column.name.clone()));
        for row in 0..self.rows() {
            text += &line(&mut self.columns.iter().map(|column| column.values.text(row)));
        }
        text
    }
}
