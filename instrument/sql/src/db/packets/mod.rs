//! The MySQL protocol's commands on a connection that crate `mysql` has opened.
//!
//! The driver waits for an answer in a blocking `recv`. Linux wakes who waits so on a Unix socket twice: also when the
//! server has taken the question, because there is room to write again. `poll` wakes only for what it was asked for, so
//! it waits here, as MariaDB's own client library does.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use mysql::Column;
use mysql_common::constants::ColumnType;
use mysql_common::io::ParseBuf;
use mysql_common::row::RowDeserializer;
use mysql_common::value::ServerSide;
use rustix::event::{PollFd, PollFlags, poll};

use super::value::Value;

/// Room for what is read at once: more than the server sends at once (`net_buffer_length`, 16 KiB).
const READ_BYTES: usize = 64 << 10;
/// Length and number of a packet stand before it.
const HEAD: usize = 4;
/// Longest packet; a longer text goes in several.
const PACKET_MAX: usize = 0xff_ff_ff;
/// COM_QUERY and COM_STMT_EXECUTE.
const QUERY: u8 = 0x03;
const EXECUTE: u8 = 0x17;
/// Of a status: another result follows (SERVER_MORE_RESULTS_EXISTS).
const MORE_RESULTS: u16 = 0x0008;
/// Types of parameters: MYSQL_TYPE_NULL, LONGLONG, VAR_STRING.
const NULL: u8 = 0x06;
const INTEGER: u8 = 0x08;
const STRING: u8 = 0xfd;

/// What is sent and what has come, of one connection.
#[derive(Debug, Default)]
pub(super) struct Packets {
    out: Vec<u8>,
    input: Vec<u8>,
    /// What has been read lies between these.
    taken: usize,
    filled: usize,
}

/// What a command gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    /// Rows that were changed.
    pub(super) changed: u64,
    /// Rows that came.
    pub(super) rows: usize,
}

/// Takes the rows of a prepared statement; its columns are of the answer before when the server leaves them out.
pub(super) type Taker<'a> = &'a mut dyn FnMut(mysql::Row);

impl Packets {
    /// Runs statements that are written out. Rows that they give are read and not looked at.
    pub(super) fn query(&mut self, socket: BorrowedFd<'_>, text: &str) -> mysql::Result<Given> {
        self.begin(QUERY);
        self.out.extend_from_slice(text.as_bytes());
        self.send(socket)?;
        self.answer(socket, &mut Arc::default(), None)
    }

    /// Runs a prepared statement; `columns` are those of its rows as they were told last.
    pub(super) fn execute(
        &mut self,
        socket: BorrowedFd<'_>,
        statement: u32,
        values: &[Value],
        columns: &mut Arc<[Column]>,
        take: Option<Taker<'_>>,
    ) -> mysql::Result<Given> {
        self.begin(EXECUTE);
        self.out.extend_from_slice(&statement.to_le_bytes());
        // no cursor; once
        self.out.extend_from_slice(&[0, 1, 0, 0, 0]);
        self.parameters(values);
        self.send(socket)?;
        self.answer(socket, columns, take)
    }

    fn begin(&mut self, command: u8) {
        self.out.clear();
        self.out.resize(HEAD, 0);
        self.out.push(command);
    }

    fn parameters(&mut self, values: &[Value]) {
        if values.is_empty() {
            return;
        }
        let nulls = self.out.len();
        self.out.resize(nulls + values.len().div_ceil(8), 0);
        // their types follow
        self.out.push(1);
        for (number, value) in values.iter().enumerate() {
            let kind = match value {
                Value::Null => {
                    self.out[nulls + number / 8] |= 1 << (number % 8);
                    NULL
                }
                Value::Int(_) => INTEGER,
                Value::Text(_) => STRING,
            };
            self.out.extend_from_slice(&[kind, 0]);
        }
        for value in values {
            match value {
                Value::Null => {}
                Value::Int(number) => self.out.extend_from_slice(&number.to_le_bytes()),
                Value::Text(text) => {
                    length(&mut self.out, text.len() as u64);
                    self.out.extend_from_slice(text.as_bytes());
                }
            }
        }
    }

    /// Sends the command that `out` holds.
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let length = self.out.len() - HEAD;
        if length >= PACKET_MAX {
            self.split();
        } else {
            self.out[..3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
        }
        let mut rest = self.out.as_slice();
        while !rest.is_empty() {
            match rustix::io::write(socket, rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => rest = &rest[sent..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// A command of 16 MiB or more goes in packets of the longest kind; the last is shorter, if need be empty.
    fn split(&mut self) {
        let command = self.out.split_off(HEAD);
        self.out.clear();
        let mut rest = command.as_slice();
        for number in 0u8..=u8::MAX {
            let (now, later) = rest.split_at(rest.len().min(PACKET_MAX));
            self.out.extend_from_slice(&(now.len() as u32).to_le_bytes()[..3]);
            self.out.push(number);
            self.out.extend_from_slice(now);
            rest = later;
            if now.len() < PACKET_MAX {
                return;
            }
        }
    }

    /// Reads the next packet's contents; where they lie in `input`.
    fn packet(&mut self, socket: BorrowedFd<'_>) -> io::Result<std::ops::Range<usize>> {
        self.need(socket, HEAD)?;
        let head = &self.input[self.taken..self.taken + HEAD];
        let length = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
        if length == PACKET_MAX {
            let what = "the server sends a row of 16 MiB or more, which no load of loadline asks for";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        self.need(socket, HEAD + length)?;
        let from = self.taken + HEAD;
        self.taken = from + length;
        Ok(from..self.taken)
    }

    /// Waits until so many bytes have come that are not taken yet.
    fn need(&mut self, socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
        while self.filled - self.taken < bytes {
            if self.taken == self.filled {
                (self.taken, self.filled) = (0, 0);
            } else if self.taken > 0 && self.input.len() - self.taken < bytes {
                self.input.copy_within(self.taken..self.filled, 0);
                (self.taken, self.filled) = (0, self.filled - self.taken);
            }
            let room = READ_BYTES.max(self.taken + bytes);
            if self.input.len() < room {
                self.input.resize(room, 0);
            }
            let mut waits = [PollFd::new(&socket, PollFlags::IN)];
            match poll(&mut waits, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            match rustix::io::read(socket, &mut self.input[self.filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(got) => self.filled += got,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads all that answers a command.
    fn answer(
        &mut self,
        socket: BorrowedFd<'_>,
        columns: &mut Arc<[Column]>,
        mut take: Option<Taker<'_>>,
    ) -> mysql::Result<Given> {
        let mut given = Given::default();
        loop {
            let packet = self.packet(socket)?;
            let mut body = &self.input[packet];
            let status = match body.first() {
                Some(0x00) => {
                    body = &body[1..];
                    given.changed = given.changed.saturating_add(number(&mut body)?);
                    number(&mut body)?;
                    two(body)?
                }
                Some(0xff) => return Err(refused(body)?),
                Some(0xfb) => {
                    return Err(
                        mal("the server asks for a local file, and no load of loadline sends one").into()
                    );
                }
                _ => {
                    let count = number(&mut body)?;
                    // MariaDB leaves out columns that have not changed, and says so
                    if body.first() != Some(&0) {
                        self.columns(socket, count, columns)?;
                    }
                    self.end(socket)?;
                    self.rows(socket, columns, &mut given.rows, &mut take)?
                }
            };
            if status & MORE_RESULTS == 0 {
                return Ok(given);
            }
        }
    }

    fn columns(
        &mut self,
        socket: BorrowedFd<'_>,
        count: u64,
        columns: &mut Arc<[Column]>,
    ) -> mysql::Result<()> {
        let mut told = Vec::new();
        for _ in 0..count {
            let packet = self.packet(socket)?;
            told.push(ParseBuf(&self.input[packet]).parse::<Column>(())?);
        }
        *columns = told.into();
        Ok(())
    }

    /// The end of the columns.
    fn end(&mut self, socket: BorrowedFd<'_>) -> mysql::Result<()> {
        let packet = self.packet(socket)?;
        match self.input[packet].first() {
            Some(0xfe) => Ok(()),
            _ => Err(mal("columns do not end").into()),
        }
    }

    /// Reads rows to their end; the status.
    fn rows(
        &mut self,
        socket: BorrowedFd<'_>,
        columns: &Arc<[Column]>,
        count: &mut usize,
        take: &mut Option<Taker<'_>>,
    ) -> mysql::Result<u16> {
        if take.is_some() && columns.iter().any(|column| is_internal(column.column_type())) {
            return Err(mal("a column has a type that a server keeps to itself").into());
        }
        loop {
            let packet = self.packet(socket)?;
            let body = &self.input[packet];
            match body.first() {
                // the end is told in 5 bytes; a row's first byte can be this only when a text of 16 MiB follows
                Some(0xfe) if body.len() == 5 => return Ok(two(&body[3..])?),
                Some(0xff) => return Err(refused(body)?),
                _ => {}
            }
            *count += 1;
            if let Some(take) = take {
                type Deserializer = RowDeserializer<ServerSide, mysql_common::proto::Binary>;
                take(ParseBuf(body).parse::<Deserializer>(columns.clone())?.into_inner());
            }
        }
    }
}

/// Whether a type never goes over the wire: the driver panics at its values.
fn is_internal(kind: ColumnType) -> bool {
    use ColumnType::*;
    matches!(
        kind,
        MYSQL_TYPE_TIMESTAMP2
            | MYSQL_TYPE_DATETIME2
            | MYSQL_TYPE_TIME2
            | MYSQL_TYPE_TYPED_ARRAY
            | MYSQL_TYPE_UNKNOWN
    )
}

fn mal(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

/// Appends a number as long as it needs.
fn length(out: &mut Vec<u8>, number: u64) {
    match number {
        0..=250 => out.push(number as u8),
        251..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&number.to_le_bytes()[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&number.to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// Takes a number as long as it is.
fn number(body: &mut &[u8]) -> io::Result<u64> {
    let short = || mal("a packet ends in the middle of a number");
    let (first, rest) = body.split_first().ok_or_else(short)?;
    let bytes = match first {
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => {
            *body = rest;
            return Ok(u64::from(*first));
        }
    };
    let (digits, rest) = rest.split_at_checked(bytes).ok_or_else(short)?;
    *body = rest;
    Ok(digits.iter().rev().fold(0, |all, digit| all << 8 | u64::from(*digit)))
}

fn two(body: &[u8]) -> io::Result<u16> {
    match body {
        [low, high, ..] => Ok(u16::from_le_bytes([*low, *high])),
        _ => Err(mal("a packet ends before its status")),
    }
}

/// The error that a packet tells: its code, `#` with five letters of its class, a text.
fn refused(body: &[u8]) -> io::Result<mysql::Error> {
    let code = two(&body[1..])?;
    let rest = body.get(3..).unwrap_or_default();
    let (state, message) = match rest.strip_prefix(b"#") {
        Some(rest) if rest.len() >= 5 => rest.split_at(5),
        _ => (b"HY000".as_slice(), rest),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(mysql::Error::MySqlError(mysql::MySqlError { state: text(state), message: text(message), code }))
}

#[cfg(test)]
mod tests;
