//! Files that are opened in the order of their numbers: `part-00017`, `part-00018`. Several threads may open them, each
//! the next one: what counts is how far the highest number has come.

use crate::tuning::{CONFIRM, ROW};

/// FNV-1a of a name, to recognise it later without keeping it.
pub fn hash(seed: u64, name: &[u8]) -> u64 {
    name.iter().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Files ahead at most, and how far from the highest number an open may be that belongs to its series: threads overtake each
/// other.
const NEAR: u64 = ROW as u64;

/// One series of numbered files. Zeroes are none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Numbered {
    key: u64,
    high: u64,
    /// The last number that was fetched.
    fetched: u64,
    agree: u32,
    /// Numbers that were asked for, modulo 64: those that were cached are among the fetched, but not here.
    asked: u64,
}

/// The digits of a name that are counted: the last run of them.
pub fn digits(name: &[u8]) -> Option<(usize, usize)> {
    let end = name.iter().rposition(u8::is_ascii_digit)? + 1;
    let start = name.get(..end)?.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
    (end - start <= 18).then_some((start, end))
}

/// The number of a name, and what it has in common with the others of its series in a directory.
pub fn parse(directory: u64, name: &[u8]) -> Option<(u64, u64)> {
    let (start, end) = digits(name)?;
    let number = name.get(start..end)?.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    let key = hash(hash(directory, name.get(..start)?), name.get(end..)?);
    Some((number, key | 1))
}

/// Writes a name with another number, of the same width where it fits. Its length.
pub fn rename(name: &[u8], number: u64, to: &mut [u8]) -> Option<usize> {
    let (start, end) = digits(name)?;
    let mut text = [b'0'; 20];
    let mut left = number;
    for byte in text.iter_mut().rev() {
        *byte = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let needed = text.iter().position(|byte| *byte != b'0').map_or(1, |at| text.len() - at);
    let width = needed.max(end - start);
    let mut len = 0;
    for part in [name.get(..start)?, text.get(text.len() - width..)?, name.get(end..)?] {
        to.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    Some(len)
}

impl Numbered {
    /// Whether it is the series of a key.
    pub fn is(&self, key: u64) -> bool {
        self.key == key
    }

    /// Whether a file of this number was asked for, and not cached before.
    pub fn was_asked(&self, number: u64) -> bool {
        number <= self.fetched && self.fetched - number < 64 && self.asked >> (number % 64) & 1 == 1
    }

    /// A file that was to be fetched was asked for, or was cached.
    pub fn fetched(&mut self, number: u64, asked: bool) {
        self.asked = self.asked & !(1 << (number % 64)) | u64::from(asked) << (number % 64);
    }

    /// A file of the series was opened: the numbers that are to be fetched now.
    pub fn on_open(&mut self, key: u64, number: u64) -> core::ops::Range<u64> {
        if self.key != key || number.abs_diff(self.high) > NEAR {
            *self = Numbered { key, high: number, fetched: number, agree: 1, asked: 0 };
            return 0..0;
        }
        if number == self.high {
            return 0..0;
        }
        self.agree = self.agree.saturating_add(1);
        self.high = self.high.max(number);
        if self.agree < CONFIRM {
            return 0..0;
        }
        let ahead = u64::from(self.agree - CONFIRM + 1).min(NEAR);
        let from = self.fetched.max(self.high) + 1;
        let to = self.high + ahead + 1;
        if from >= to {
            return 0..0;
        }
        self.fetched = to - 1;
        from..to
    }

    /// A file was not there: the series ends, or has a gap.
    pub fn end(&mut self) {
        self.agree = 0;
    }
}
