//! What goes to a server and comes from it, and how one is reached.

/// A value that goes to a server or comes from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// NULL.
    Null,
    /// A whole number.
    Int(i64),
    /// Text.
    Text(String),
}

/// What a query gave, row by row.
pub type Row = Vec<Value>;

impl Value {
    /// The whole number; none when it is something else.
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            Value::Text(text) => text.parse().ok(),
            Value::Null => None,
        }
    }

    /// The text; empty when it is something else.
    pub fn text(&self) -> &str {
        match self {
            Value::Text(text) => text,
            Value::Int(_) | Value::Null => "",
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_string())
    }
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A private server's socket: for PostgreSQL the directory that holds it.
    Socket(camino::Utf8PathBuf),
    /// `mysql://user:password@host:port/database` or `postgres://...`.
    Url(workload::Address),
}

/// The database that private servers keep the tables in.
pub(crate) const DATABASE: &str = "loadline";
