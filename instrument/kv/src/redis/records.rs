//! The commands for records: those of YCSB's Redis binding, or of records that are one value.

use crate::client::{RequestedFields, Shared};
use crate::record::Names;
use crate::values::{FieldValues, java_hash};

use super::INDEX;
use super::resp::{Reply, begin, command, word};

/// The commands of a workload.
#[derive(Debug)]
pub(super) struct Commands {
    names: Names,
    /// Whether keys are kept in a sorted set.
    pub(super) indexed: bool,
    /// The name of each field as a word.
    words: Vec<Vec<u8>>,
    /// The names of all.
    all: Vec<u8>,
}

impl Commands {
    pub(super) fn of(shared: &Shared) -> Commands {
        let names = shared.names();
        let one = |field| {
            let mut text = Vec::new();
            word(&mut text, names.name(field).as_bytes());
            text
        };
        let texts: Vec<Vec<u8>> = (0..names.len()).map(one).collect();
        Commands {
            indexed: !names.is_value() || shared.workload().shares.scan > 0.0,
            all: texts.concat(),
            words: texts,
            names: names.clone(),
        }
    }

    /// Reads a record.
    #[inline]
    pub(super) fn read(&self, key: &[u8], asked: RequestedFields, out: &mut Vec<u8>) {
        if self.names.is_value() {
            return command(out, &[b"GET", key]);
        }
        let (count, names) = match asked {
            RequestedFields::All => return command(out, &[b"HGETALL", key]),
            RequestedFields::Named => (self.words.len(), &self.all),
            RequestedFields::One(field) => (1, &self.words[field]),
        };
        begin(out, 2 + count);
        word(out, b"HMGET");
        word(out, key);
        out.extend_from_slice(names);
    }

    /// Writes fields of a record.
    #[inline]
    pub(super) fn write(&self, key: &[u8], fields: &FieldValues, out: &mut Vec<u8>) {
        if self.names.is_value() {
            return command(out, &[b"SET", key, fields.bytes()]);
        }
        begin(out, 2 + 2 * fields.fields());
        word(out, b"HMSET");
        word(out, key);
        for (field, value) in fields.iter() {
            out.extend_from_slice(&self.words[field]);
            word(out, value);
        }
    }

    /// Puts a key into the sorted set.
    pub(super) fn index(&self, key: &[u8], out: &mut Vec<u8>) {
        let score = java_hash(0, key).to_string();
        command(out, &[b"ZADD", INDEX, score.as_bytes(), key]);
    }

    /// Asks for up to so many keys from this one on.
    pub(super) fn range(&self, key: &[u8], most: u64, out: &mut Vec<u8>) {
        let (score, most) = (java_hash(0, key).to_string(), most.to_string());
        let words: [&[u8]; 7] =
            [b"ZRANGEBYSCORE", INDEX, score.as_bytes(), b"+inf", b"LIMIT", b"0", most.as_bytes()];
        command(out, &words);
    }

    /// Shows the fields that a reply to [`Commands::read`] holds; none: it is no such reply.
    #[inline]
    pub(super) fn fields(
        &self,
        asked: RequestedFields,
        reply: &Reply<'_>,
        mut show: impl FnMut(usize, &[u8]),
    ) -> Option<()> {
        match (reply, asked) {
            (Reply::Bytes(value), _) if self.names.is_value() => {
                if let Some(value) = value {
                    show(0, value);
                }
            }
            (Reply::Array(list), RequestedFields::All) => {
                let (mut pairs, mut next) = (list.iter(), 0);
                while let Some(name) = pairs.next() {
                    let (name, value) = (name.bytes()?, pairs.next()?);
                    let field = match self.names.name(next).as_bytes() == name {
                        true => next,
                        false => self.names.number(name)?,
                    };
                    show(field, value.bytes()?);
                    next = field + 1;
                }
            }
            (Reply::Array(list), _) => {
                let first = if let RequestedFields::One(field) = asked { field } else { 0 };
                for (at, value) in list.iter().enumerate() {
                    // a field that is not there is null
                    if let Some(value) = value.bytes() {
                        show(first + at, value);
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }
}
