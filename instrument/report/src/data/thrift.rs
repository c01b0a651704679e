//! Apache Thrift's compact protocol, as far as metadata of Parquet needs it.
//!
//! Source: the protocol's specification in Apache Thrift's documentation (thrift-compact-protocol).

/// Type of a field or an element.
mod kind {
    pub const I32: u8 = 5;
    pub const I64: u8 = 6;
    pub const BINARY: u8 = 8;
    pub const LIST: u8 = 9;
    pub const STRUCT: u8 = 12;
}

/// A structure under construction. Fields must be put in the order of their ids.
#[derive(Debug, Default)]
pub struct Struct {
    bytes: Vec<u8>,
    last: i16,
}

impl Struct {
    /// One without fields.
    pub fn new() -> Struct {
        Struct::default()
    }

    fn head(&mut self, id: i16, kind: u8) {
        let step = id - self.last;
        self.last = id;
        match u8::try_from(step) {
            Ok(step @ 1..=15) => self.bytes.push(step << 4 | kind),
            _ => {
                self.bytes.push(kind);
                varint(&mut self.bytes, zigzag(i64::from(id)));
            }
        }
    }

    /// A number of 32 bits.
    pub fn i32(mut self, id: i16, value: i32) -> Struct {
        self.head(id, kind::I32);
        varint(&mut self.bytes, zigzag(i64::from(value)));
        self
    }

    /// A number of 64 bits.
    pub fn i64(mut self, id: i16, value: i64) -> Struct {
        self.head(id, kind::I64);
        varint(&mut self.bytes, zigzag(value));
        self
    }

    /// A text.
    pub fn text(mut self, id: i16, value: &str) -> Struct {
        self.head(id, kind::BINARY);
        binary(&mut self.bytes, value);
        self
    }

    /// A structure.
    pub fn structure(mut self, id: i16, value: Struct) -> Struct {
        self.head(id, kind::STRUCT);
        self.bytes.extend(value.end());
        self
    }

    /// Several numbers.
    pub fn i32s(mut self, id: i16, values: &[i32]) -> Struct {
        self.list(id, kind::I32, values.len());
        values.iter().for_each(|value| varint(&mut self.bytes, zigzag(i64::from(*value))));
        self
    }

    /// Several texts.
    pub fn texts(mut self, id: i16, values: &[&str]) -> Struct {
        self.list(id, kind::BINARY, values.len());
        values.iter().for_each(|value| binary(&mut self.bytes, value));
        self
    }

    /// Several structures.
    pub fn structures(mut self, id: i16, values: Vec<Struct>) -> Struct {
        self.list(id, kind::STRUCT, values.len());
        values.into_iter().for_each(|value| self.bytes.extend(value.end()));
        self
    }

    fn list(&mut self, id: i16, kind: u8, length: usize) {
        self.head(id, kind::LIST);
        match u8::try_from(length) {
            Ok(short @ 0..=14) => self.bytes.push(short << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                varint(&mut self.bytes, length as u64);
            }
        }
    }

    /// Its bytes.
    pub fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Seven bits a byte, the lowest first.
pub fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn binary(bytes: &mut Vec<u8>, value: &str) {
    varint(bytes, value.len() as u64);
    bytes.extend(value.as_bytes());
}
