//! Sizes in bytes, written with binary units (`8G` is 8 GiB).

use std::fmt;

/// A size in bytes. Written with the binary units `B`, `K`, `M`, `G`, `T`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u64);

const UNITS: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];

impl Size {
    /// A size of exactly `bytes` bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A size of `mebibytes` MiB; saturates at `u64::MAX` bytes.
    pub const fn from_mib(mebibytes: u64) -> Self {
        Self(mebibytes.saturating_mul(1 << 20))
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Reads `8G`, `512M`, `64KiB`, `1000B`. The error says what would be right.
    pub fn parse(word: &str) -> Result<Self, String> {
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = word.split_at(digits);
        if number.is_empty() {
            return Err("a size is a whole number and a unit, such as 8G or 512M".into());
        }
        let number: u64 = number.parse().map_err(|_| "the number does not fit in 64 bits".to_string())?;
        let shift = match unit.to_ascii_uppercase().as_str() {
            "" => {
                return Err(format!("a unit is missing: write {number}G, {number}M, or {number}B for bytes"));
            }
            "B" => 0,
            "K" | "KIB" => 10,
            "M" | "MIB" => 20,
            "G" | "GIB" => 30,
            "T" | "TIB" => 40,
            "KB" | "MB" | "GB" | "TB" => {
                let letter = &unit[..1];
                return Err(format!("units are binary: write {number}{letter} for {number} {letter}iB"));
            }
            _ => return Err(format!("unknown unit `{unit}`: use B, K, M, G or T (binary)")),
        };
        let bytes = number.checked_mul(1 << shift).ok_or("the size does not fit in 64 bits")?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (letter, shift) in UNITS {
            let unit = 1u64 << shift;
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return write!(f, "{}{letter}", self.0 / unit);
            }
        }
        write!(f, "{}B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_binary_and_exact() {
        for (word, bytes, shown) in [
            ("8G", 8u64 << 30, "8G"),
            ("1024M", 1 << 30, "1G"),
            ("512MiB", 512 << 20, "512M"),
            ("1000B", 1000, "1000B"),
            ("0B", 0, "0B"),
            ("2t", 2 << 40, "2T"),
        ] {
            let size = Size::parse(word).unwrap();
            assert_eq!(size.bytes(), bytes, "{word}");
            assert_eq!(size.to_string(), shown, "{word}");
        }
    }

    #[test]
    fn bad_sizes_say_what_is_right() {
        for (word, part) in [
            ("8", "write 8G"),
            ("8GB", "write 8G for 8 GiB"),
            ("G", "whole number and a unit"),
            ("8X", "unknown unit `X`"),
            ("99999999999T", "64 bits"),
            ("99999999999999999999999T", "64 bits"),
        ] {
            let error = Size::parse(word).unwrap_err();
            assert!(error.contains(part), "{word}: {error}");
        }
    }
}
