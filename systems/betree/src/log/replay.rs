//! Reading a log back: the frames that a recovery applies, and what lies behind them.

use super::{HEADER, HEADER_1, MAGIC, MAGIC_1, Ring};
use crate::error::{Doing, Error, Result};
use crate::storage::{AlignedBuf, Storage, UNIT, round_up};
use crate::wire::{COUNT_MAX, Decoded, Malformed, Reader, put_u64};
use std::io;

/// A frame read back.
pub(crate) struct ReplayedFrame {
    /// Number of the first record.
    pub first_msn: u64,
    /// Number of the last record.
    pub last_msn: u64,
    /// Position, see the module's description.
    pub pos: u64,
    /// Number of the frame.
    pub seq: u64,
    /// Position behind it.
    pub end: u64,
    /// Last message that was durable when it was made; 0 if it does not say that.
    pub durable: u64,
    /// The frame, the length of its header, and that of its payload.
    buf: AlignedBuf,
    header: usize,
    len: usize,
}

impl ReplayedFrame {
    /// The records.
    pub fn payload(&self) -> &[u8] {
        &self.buf[self.header..self.header + self.len]
    }
}

/// Where a log is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPosition {
    /// Position of a frame, see the module's description.
    pub pos: u64,
    /// Its number.
    pub seq: u64,
}

/// What follows the last frame that a replay accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing of this log.
    End,
    /// The next frame is there but damaged: torn by a power cut, or decayed.
    Torn {
        /// Its position.
        pos: u64,
        /// Its number.
        seq: u64,
    },
    /// The next frame is missing or damaged, but later ones are there.
    Gap {
        /// Number of the first frame that is missing.
        seq: u64,
        /// Sound frames behind the gap.
        later: LaterFrames,
    },
}

/// Sound frames behind the end of a log that were written after it, also in later lives of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaterFrames {
    /// How many.
    pub frames: u64,
    /// The last message that one of them says was durable.
    pub durable: u64,
    /// The last life that one of them was written in.
    pub life: u64,
}

/// Damaged frames whose number is sound may add up to so many times the ring. Each life leaves one whose end was written over; what
/// lies over one another more often was crafted, and reading all of it could take days.
const DAMAGED_MAX: u64 = 4;

/// Looks for them in the `bytes` of the ring behind `end`, where the next frame should be.
///
/// # Errors
/// [`Error::Corrupt`] if there are more damaged ones than a store can leave; the storage's.
pub(crate) fn later_frames(
    storage: &dyn Storage,
    ring: &Ring,
    end: LogPosition,
    bytes: u64,
) -> Result<LaterFrames> {
    let mut later = LaterFrames::default();
    let mut chunk = AlignedBuf::zeroed(256 * UNIT);
    // Where the last sound frame ends; and bytes of damaged ones.
    let (mut done, mut known, mut damaged) = (0, 0, 0);
    while done < bytes.min(ring.len) {
        let at = (end.pos + done) % ring.len;
        let n = (chunk.len() as u64).min(ring.len - at).min(bytes.min(ring.len) - done) as usize;
        if !read(storage, &mut chunk[..n], ring.start + at)? {
            for (i, unit) in chunk[..n].chunks_mut(UNIT).enumerate() {
                if !read(storage, unit, ring.start + at + (i * UNIT) as u64)? {
                    unit.fill(0);
                }
            }
        }
        for (i, unit) in chunk[..n].chunks(UNIT).enumerate() {
            let within = (i * UNIT) as u64;
            // What lies in a sound frame is its own.
            let name = if done + within < known { None } else { name_of(unit, ring) };
            let Some((life, seq, len)) = name.filter(|name| (name.0, name.1) > (ring.life, end.seq)) else {
                continue;
            };
            let there = at + within;
            let ring = Ring { life, ..*ring };
            if let Candidate::Frame(frame) = read_frame(storage, &ring, there, seq)? {
                later.frames += 1;
                later.durable = later.durable.max(frame.durable);
                later.life = later.life.max(life);
                known = done + within + (frame.end - frame.pos);
            } else {
                damaged += (UNIT as u64 + len).min(ring.len - there);
                if damaged > DAMAGED_MAX * ring.len {
                    let why = "more frames lie over one another than a store writes";
                    return Err(Error::corrupt("log", ring.start + there, why));
                }
            }
        }
        done += n as u64;
    }
    Ok(later)
}

/// Looks behind the last frame accepted; `end` is where the next one should be.
pub(crate) fn tail(storage: &dyn Storage, ring: &Ring, end: LogPosition) -> Result<Tail> {
    let LogPosition { pos, seq } = end;
    let later = later_frames(storage, ring, end, ring.len)?;
    if later.frames > 0 {
        return Ok(Tail::Gap { seq, later });
    }
    let lap_end = pos + (ring.len - pos % ring.len);
    for pos in [pos, lap_end] {
        if looks_damaged(storage, ring, pos, seq)? {
            return Ok(Tail::Torn { pos, seq });
        }
    }
    Ok(Tail::End)
}

/// Life, number and bytes of the records in a unit that begins like a frame of this store.
fn name_of(unit: &[u8], ring: &Ring) -> Option<(u64, u64, u64)> {
    let mut r = Reader::new(unit);
    let (magic, _crc) = (r.u32().ok()?, r.u32().ok()?);
    let (uuid, life, number) = (r.u64().ok()?, r.u64().ok()?, r.u64().ok()?);
    let (_first, _last, len) = (r.u64().ok()?, r.u64().ok()?, r.u32().ok()?);
    let bounded = life < COUNT_MAX && number < COUNT_MAX;
    (header_len(magic).is_some() && uuid == ring.uuid && bounded).then_some((life, number, len.into()))
}

/// Bytes of the header of a frame with this magic number, if it is one.
fn header_len(magic: u32) -> Option<usize> {
    match magic {
        MAGIC => Some(HEADER),
        MAGIC_1 => Some(HEADER_1),
        _ => None,
    }
}

/// True if at `pos` is most of the header of frame `seq`, or all of the frame but for its header.
fn looks_damaged(storage: &dyn Storage, ring: &Ring, pos: u64, seq: u64) -> Result<bool> {
    let at = ring.start + pos % ring.len;
    let mut unit = AlignedBuf::zeroed(UNIT);
    if !read(storage, &mut unit, at)? {
        return Ok(false);
    }
    let mut expected = Vec::with_capacity(24);
    [ring.uuid, ring.life, seq].iter().for_each(|n| put_u64(&mut expected, *n));
    let magic = Reader::new(&unit).u32().is_ok_and(|magic| header_len(magic).is_some());
    // A frame of an earlier life may well have this number.
    if unit[16..32] == expected[8..] && (magic || unit[8..16] == expected[..8]) {
        return Ok(true);
    }
    let len = u32::from_le_bytes([unit[48], unit[49], unit[50], unit[51]]) as usize;
    for header in [HEADER, HEADER_1] {
        if (header + len) as u64 > ring.len - pos % ring.len {
            continue;
        }
        let mut buf = AlignedBuf::zeroed(header + len);
        if !read(storage, &mut buf, at)? {
            continue;
        }
        buf[8..8 + expected.len()].copy_from_slice(&expected);
        if crc32c::crc32c(&buf[8..header + len]).to_le_bytes() == unit[4..8] {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The frames of a ring from a place on, one by one, until one is missing, torn or foreign. Only one is in memory.
pub(crate) struct Frames<'a> {
    storage: &'a dyn Storage,
    ring: Ring,
    next: LogPosition,
    /// The first frame holds this message or an earlier one.
    first_msn_max: u64,
    /// The first message of the frame after the last one read.
    next_msn: Option<u64>,
    /// Where the next frame may be, byte of the storage, if that cannot be read.
    unreadable: Option<u64>,
}

impl<'a> Frames<'a> {
    /// Those from `from` on, of which the first follows message `msn` or holds it.
    pub fn new(storage: &'a dyn Storage, ring: Ring, from: LogPosition, msn: u64) -> Self {
        Frames { storage, ring, next: from, first_msn_max: msn + 1, next_msn: None, unreadable: None }
    }

    /// Where the next one is, or would be.
    pub fn place(&self) -> LogPosition {
        self.next
    }

    /// Where the next one may be, in bytes from the beginning of the storage, if that cannot be read.
    pub fn unreadable(&self) -> Option<u64> {
        self.unreadable
    }

    fn read(&mut self) -> Result<Option<ReplayedFrame>> {
        let LogPosition { pos, seq } = self.next;
        let ring = &self.ring;
        let lap_end = pos + (ring.len - pos % ring.len);
        let mut found = read_frame(self.storage, ring, pos, seq)?;
        if !matches!(found, Candidate::Frame(_)) && !pos.is_multiple_of(ring.len) {
            let at_begin = read_frame(self.storage, ring, lap_end, seq)?;
            if !matches!(at_begin, Candidate::Nothing) {
                found = at_begin;
            }
        }
        let found = match found {
            Candidate::Frame(frame) => Some(frame),
            Candidate::Nothing => None,
            Candidate::Unreadable(at) => {
                self.unreadable = Some(at);
                None
            }
        };
        // The first frame may begin before the checkpoint; after that there are no gaps.
        let follows =
            |f: &ReplayedFrame| self.next_msn.map_or(f.first_msn <= self.first_msn_max, |n| f.first_msn == n);
        // No batch has the last number.
        let Some(frame) = found.filter(follows).filter(|f| f.last_msn < u64::MAX) else { return Ok(None) };
        self.next = LogPosition { pos: frame.end, seq: seq + 1 };
        self.next_msn = Some(frame.last_msn + 1);
        Ok(Some(frame))
    }
}

impl Iterator for Frames<'_> {
    type Item = Result<ReplayedFrame>;

    fn next(&mut self) -> Option<Result<ReplayedFrame>> {
        self.read().transpose()
    }
}

/// What is where a frame may be.
enum Candidate {
    Frame(ReplayedFrame),
    Nothing,
    /// Nobody knows: the storage cannot read it. It begins at this byte.
    Unreadable(u64),
}

/// Reads a part of the log; false if the storage says that what is there cannot be read.
fn read(storage: &dyn Storage, buf: &mut [u8], off: u64) -> Result<bool> {
    match storage.read_at(buf, off) {
        Err(e) if is_unreadable(&e) => Ok(false),
        read => read.doing("reading the log").map(|()| true),
    }
}

/// Whether an error concerns only what was asked for. A bad sector is `EIO` in a read through the page cache and `ENODATA` in a
/// direct one, a failed check of the device's own `EILSEQ`.
fn is_unreadable(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::ENODATA | libc::EILSEQ))
}

/// That what may be the next frame cannot be read, at this byte.
pub(crate) fn unreadable(offset: u64) -> Error {
    let why = "it cannot be read, and may be the next frame; opening with `recover` goes on without it";
    Error::corrupt("log", offset, why)
}

/// Lets there be nothing at byte `offset`, which cannot be read: a device finds another place for a bad sector that is written.
pub(crate) fn overwrite_unreadable(storage: &dyn Storage, offset: u64) -> Result<()> {
    storage.write_at(&AlignedBuf::zeroed(UNIT), offset).doing("overwriting an unreadable part of the log")
}

fn read_frame(storage: &dyn Storage, ring: &Ring, pos: u64, seq: u64) -> Result<Candidate> {
    let at = ring.start + pos % ring.len;
    let room = ring.len - pos % ring.len;
    let mut unit = AlignedBuf::zeroed(UNIT);
    if !read(storage, &mut unit, at)? {
        return Ok(Candidate::Unreadable(at));
    }
    let Ok(Header { bytes: header, crc, first, last, len, durable }) = frame_header(&unit, ring, seq) else {
        return Ok(Candidate::Nothing);
    };
    if (header + len) as u64 > room {
        return Ok(Candidate::Nothing);
    }
    let mut buf = AlignedBuf::zeroed(header + len);
    if !read(storage, &mut buf, at)? {
        return Ok(Candidate::Unreadable(at));
    }
    if crc32c::crc32c(&buf[8..header + len]) != crc {
        return Ok(Candidate::Nothing);
    }
    let end = pos + round_up(header + len) as u64;
    let (first_msn, last_msn) = (first, last);
    Ok(Candidate::Frame(ReplayedFrame { first_msn, last_msn, pos, seq, end, durable, buf, header, len }))
}

/// What the header of a frame says.
struct Header {
    /// Its own length.
    bytes: usize,
    crc: u32,
    first: u64,
    last: u64,
    /// Bytes of the payload.
    len: usize,
    durable: u64,
}

fn frame_header(unit: &[u8], ring: &Ring, seq: u64) -> Decoded<Header> {
    let mut r = Reader::new(unit);
    let (magic, crc) = (r.u32()?, r.u32()?);
    let (uuid, life, number) = (r.u64()?, r.u64()?, r.u64()?);
    let bytes = header_len(magic).ok_or(Malformed("no frame"))?;
    if uuid != ring.uuid || life != ring.life || number != seq {
        return Err(Malformed("not the frame looked for"));
    }
    let (first, last, len) = (r.u64()?, r.u64()?, r.u32()? as usize);
    let durable = if bytes == HEADER { r.u64()? } else { 0 };
    if last < first || last > COUNT_MAX || durable > COUNT_MAX {
        return Err(Malformed("batch numbers out of range"));
    }
    Ok(Header { bytes, crc, first, last, len, durable })
}

/// Splits a frame's payload into records.
pub(crate) fn records(payload: &[u8]) -> Decoded<Vec<&[u8]>> {
    let mut r = Reader::new(payload);
    let mut out = Vec::new();
    while r.remaining() > 0 {
        let len = r.u32()? as usize;
        out.push(r.take(len)?);
    }
    Ok(out)
}
