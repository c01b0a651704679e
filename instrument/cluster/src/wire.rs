//! Frames on a connection: a kind, a length, a payload.

use std::io::{self, Read, Write};

/// Longest payload in bytes: the outcome of a rank is some 100 KB, a resolved workload less than 64 MB.
pub const PAYLOAD_BYTES_MAX: u32 = 256 << 20;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Says who one is.
    Hello,
    /// All ranks are there.
    Welcome,
    /// The rank may not take part; the payload says why.
    Refused,
    /// For those who use this crate.
    Data,
    /// Asks for the time.
    Ping,
    /// The time, 8 bytes in little-endian order: nanoseconds of the monotonic clock.
    Pong,
    /// The end, as planned.
    Bye,
}

const KINDS: [Kind; 7] =
    [Kind::Hello, Kind::Welcome, Kind::Refused, Kind::Data, Kind::Ping, Kind::Pong, Kind::Bye];

/// Writes a frame in one go: two small writes would wait for each other's acknowledgement.
///
/// # Errors
/// Those of the connection; a payload that is too long.
pub fn send(to: &mut impl Write, kind: Kind, payload: &[u8]) -> io::Result<()> {
    let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "a frame is too long");
    let length = u32::try_from(payload.len()).ok().filter(|length| *length <= PAYLOAD_BYTES_MAX);
    let length = length.ok_or_else(too_long)?;
    let number = KINDS.iter().position(|known| *known == kind).unwrap_or(0) as u8;
    let mut frame = Vec::with_capacity(payload.len() + 5);
    frame.push(number);
    frame.extend(length.to_le_bytes());
    frame.extend_from_slice(payload);
    to.write_all(&frame)
}

/// Reads a frame.
///
/// # Errors
/// Those of the connection, its end included; what is no frame.
pub fn receive(from: &mut impl Read) -> io::Result<(Kind, Vec<u8>)> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_string());
    let mut head = [0_u8; 5];
    from.read_exact(&mut head)?;
    let kind = *KINDS.get(usize::from(head[0])).ok_or_else(|| wrong("not a frame of loadline"))?;
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    if length > PAYLOAD_BYTES_MAX {
        return Err(wrong("a frame is too long"));
    }
    // grows with what arrives: a wrong length must not take the memory
    let mut payload = Vec::new();
    if from.take(u64::from(length)).read_to_end(&mut payload)? < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((kind, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back() {
        for kind in KINDS {
            let mut bytes = Vec::new();
            send(&mut bytes, kind, b"abc").unwrap();
            assert_eq!(receive(&mut &bytes[..]).unwrap(), (kind, b"abc".to_vec()));
            for cut in 0..bytes.len() {
                assert!(receive(&mut &bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert!(receive(&mut &b"GET / HTTP/1.1\r\n"[..]).is_err());
        assert!(receive(&mut &[0, 0xff, 0xff, 0xff, 0xff][..]).is_err());
    }
}
