//! A table as a Parquet file: flat, every column optional, one data page for each column of a row group, values as they are
//! (`PLAIN`), compressed by zstd. Any reader of Parquet takes that.
//!
//! Source: apache/parquet-format (`README.md`, `Encodings.md`, `parquet.thrift`). No crate for it is used: those that there
//! are bring more code than all of this program's reports.

use super::thrift::{Struct, varint};
use super::{Column, Table, Values};

/// What a file begins and ends with.
const MAGIC: &[u8; 4] = b"PAR1";
/// Rows of a row group: a page of the longest texts that there are stays far below the 2 GiB that a page may have.
const GROUP_ROWS: usize = 1 << 18;
/// zstd's own default.
const LEVEL: i32 = 3;
/// The version of the format that this is.
const FORMAT_VERSION: i32 = 1;

/// Numbers of `parquet.thrift`.
mod word {
    pub const INT64: i32 = 2;
    pub const DOUBLE: i32 = 5;
    pub const BYTE_ARRAY: i32 = 6;
    pub const OPTIONAL: i32 = 1;
    pub const UTF8: i32 = 0;
    pub const TIMESTAMP_MICROS: i32 = 10;
    pub const PLAIN: i32 = 0;
    pub const RLE: i32 = 3;
    pub const ZSTD: i32 = 6;
    pub const DATA_PAGE: i32 = 0;
}

/// The file's bytes; `about` are names and values that it says of itself.
///
/// # Errors
/// Compression failed for want of memory, or a page is larger than the format knows.
pub fn file(table: &Table, about: &[(&str, &str)]) -> std::io::Result<Vec<u8>> {
    let mut bytes = MAGIC.to_vec();
    let mut groups = Vec::new();
    for from in (0..table.rows()).step_by(GROUP_ROWS) {
        let to = table.rows().min(from + GROUP_ROWS);
        let (mut chunks, mut size) = (Vec::new(), 0);
        for column in &table.columns {
            let (chunk, plain) = chunk(&mut bytes, column, from..to)?;
            chunks.push(chunk);
            size += plain;
        }
        groups.push(Struct::new().structures(1, chunks).i64(2, size).i64(3, (to - from) as i64));
    }
    let root = Struct::new().text(4, "schema").i32(5, table.columns.len() as i32);
    let pairs = about.iter().map(|(name, value)| Struct::new().text(1, name).text(2, value));
    let footer = Struct::new()
        .i32(1, FORMAT_VERSION)
        .structures(2, std::iter::once(root).chain(table.columns.iter().map(element)).collect())
        .i64(3, table.rows() as i64)
        .structures(4, groups)
        .structures(5, pairs.collect())
        .text(6, concat!("loadline version ", env!("CARGO_PKG_VERSION")))
        .end();
    bytes.extend(&footer);
    bytes.extend((footer.len() as u32).to_le_bytes());
    bytes.extend(MAGIC);
    Ok(bytes)
}

fn physical(values: &Values) -> i32 {
    match values {
        Values::Text(_) => word::BYTE_ARRAY,
        Values::Int(_) | Values::Time(_) => word::INT64,
        Values::Float(_) => word::DOUBLE,
    }
}

/// A column in the schema.
fn element(column: &Column) -> Struct {
    let element = Struct::new().i32(1, physical(&column.values)).i32(3, word::OPTIONAL).text(4, &column.name);
    match column.values {
        Values::Text(_) => element.i32(6, word::UTF8),
        Values::Time(_) => element.i32(6, word::TIMESTAMP_MICROS),
        Values::Int(_) | Values::Float(_) => element,
    }
}

/// Puts some rows of a column behind the bytes; its metadata, and its size without compression.
fn chunk(
    bytes: &mut Vec<u8>,
    column: &Column,
    rows: std::ops::Range<usize>,
) -> std::io::Result<(Struct, i64)> {
    let plain = page(&column.values, rows.clone());
    let packed = zstd::bulk::compress(&plain, LEVEL)?;
    let size = |length: usize| {
        i32::try_from(length).map_err(|_| std::io::Error::other(format!("{}: too large a page", column.name)))
    };
    let data =
        Struct::new().i32(1, rows.len() as i32).i32(2, word::PLAIN).i32(3, word::RLE).i32(4, word::RLE);
    let head = Struct::new()
        .i32(1, word::DATA_PAGE)
        .i32(2, size(plain.len())?)
        .i32(3, size(packed.len())?)
        .structure(5, data)
        .end();
    let at = bytes.len() as i64;
    let (whole, stored) = ((head.len() + plain.len()) as i64, (head.len() + packed.len()) as i64);
    bytes.extend(head);
    bytes.extend(packed);
    let meta = Struct::new()
        .i32(1, physical(&column.values))
        .i32s(2, &[word::PLAIN, word::RLE])
        .texts(3, &[&column.name])
        .i32(4, word::ZSTD)
        .i64(5, rows.len() as i64)
        .i64(6, whole)
        .i64(7, stored)
        .i64(9, at);
    Ok((Struct::new().i64(2, at).structure(3, meta), whole))
}

/// Which rows have a value, then the values that there are.
fn page(values: &Values, rows: std::ops::Range<usize>) -> Vec<u8> {
    let mut plain: Vec<u8> = Vec::new();
    let mut put = |bytes: &[u8]| plain.extend(bytes);
    let there: Vec<bool> = match values {
        Values::Text(values) => each(&values[rows], |text| {
            put(&(text.len() as u32).to_le_bytes());
            put(text.as_bytes());
        }),
        Values::Int(values) | Values::Time(values) => each(&values[rows], |value| put(&value.to_le_bytes())),
        Values::Float(values) => each(&values[rows], |value| put(&value.to_le_bytes())),
    };
    // runs of equal levels: their length, its lowest bit 0, and the level in a byte
    let mut levels = Vec::new();
    for run in there.chunk_by(|a, b| a == b) {
        varint(&mut levels, (run.len() as u64) << 1);
        levels.push(u8::from(run[0]));
    }
    let mut page = (levels.len() as u32).to_le_bytes().to_vec();
    page.extend(levels);
    page.extend(plain);
    page
}

/// Puts each value that is there; which are.
fn each<T>(values: &[Option<T>], mut put: impl FnMut(&T)) -> Vec<bool> {
    values.iter().map(|value| value.as_ref().map(&mut put).is_some()).collect()
}
