//! Slots of a cluster: which keys belong to which (Redis cluster specification, "Key distribution model").

/// Slots of every cluster.
pub const SLOTS: u16 = 16_384;
/// Polynomial of CRC16-XMODEM.
const POLYNOMIAL: u16 = 0x1021;

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ POLYNOMIAL } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

fn crc16(text: &[u8]) -> u16 {
    text.iter().fold(0, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The slot of a key: of the text within its first braces, if there is one.
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let end = rest.iter().position(|byte| *byte == b'}').filter(|end| *end > 0)?;
        Some(&rest[..end])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        for (key, expected) in [
            (&b"123456789"[..], 12739),
            (b"foo", 12182),
            (b"{user1000}.following", 3443),
            (b"{}x", 10595),
            (b"", 0),
            (b"_indices", 6052),
            (b"user6284781860667377211", 10488),
        ] {
            assert_eq!(slot(key), expected, "{}", String::from_utf8_lossy(key));
        }
    }
}
