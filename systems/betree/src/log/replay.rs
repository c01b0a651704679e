//! Reading a log back: the frames that a recovery applies, and what lies behind them.

use super::{HEADER, MAGIC, Ring};
use crate::error::{Doing, Result};
use crate::storage::{AlignedBuf, Storage, UNIT, round_up};
use crate::wire::{Decoded, Malformed, Reader, put_u32, put_u64};

/// A frame read back.
pub(crate) struct Replayed {
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
    /// The frame, and the length of its payload.
    buf: AlignedBuf,
    len: usize,
}

impl Replayed {
    /// The records.
    pub fn payload(&self) -> &[u8] {
        &self.buf[HEADER..HEADER + self.len]
    }
}

/// Where a log is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
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
        later: u64,
    },
}

/// Looks behind the last frame accepted; `end` is where the next one should be.
pub(crate) fn tail(storage: &dyn Storage, ring: &Ring, end: Place) -> Result<Tail> {
    let Place { pos, seq } = end;
    let mut later = 0;
    let mut chunk = AlignedBuf::zeroed(256 * UNIT);
    let mut at = 0;
    while at < ring.len {
        let n = (chunk.len() as u64).min(ring.len - at) as usize;
        storage.read_at(&mut chunk[..n], ring.start + at).doing("reading the log")?;
        for i in 0..n / UNIT {
            let number = sequence_of(&chunk[i * UNIT..(i + 1) * UNIT], ring);
            let there = at + (i * UNIT) as u64;
            if let Some(number) = number.filter(|n| *n > seq) {
                later += u64::from(read_frame(storage, ring, there, number)?.is_some());
            }
        }
        at += n as u64;
    }
    if later > 0 {
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

/// The number in a unit that begins like a frame of this life.
fn sequence_of(unit: &[u8], ring: &Ring) -> Option<u64> {
    let mut r = Reader::new(unit);
    let (magic, _crc) = (r.u32().ok()?, r.u32().ok()?);
    let (uuid, life, number) = (r.u64().ok()?, r.u64().ok()?, r.u64().ok()?);
    (magic == MAGIC && uuid == ring.uuid && life == ring.life).then_some(number)
}

/// True if at `pos` is most of the header of frame `seq`, or all of the frame but for its header.
fn looks_damaged(storage: &dyn Storage, ring: &Ring, pos: u64, seq: u64) -> Result<bool> {
    let at = ring.start + pos % ring.len;
    let mut unit = AlignedBuf::zeroed(UNIT);
    storage.read_at(&mut unit, at).doing("reading the log")?;
    let mut expected = Vec::with_capacity(32);
    put_u32(&mut expected, MAGIC);
    expected.extend_from_slice(&unit[4..8]);
    [ring.uuid, ring.life, seq].iter().for_each(|n| put_u64(&mut expected, *n));
    let same = |from: usize, to: usize| unit[from..to] == expected[from..to];
    // A frame of an earlier life may well have this number.
    if same(16, 32) && (same(0, 4) || same(8, 16)) {
        return Ok(true);
    }
    let len = u32::from_le_bytes([unit[48], unit[49], unit[50], unit[51]]) as usize;
    if (HEADER + len) as u64 > ring.len - pos % ring.len {
        return Ok(false);
    }
    let mut buf = AlignedBuf::zeroed(HEADER + len);
    storage.read_at(&mut buf, at).doing("reading the log")?;
    buf[..expected.len()].copy_from_slice(&expected);
    Ok(crc32c::crc32c(&buf[8..HEADER + len]).to_le_bytes() == expected[4..8])
}

/// The frames of a ring from a place on, one by one, until one is missing, torn or foreign. Only one is in memory.
pub(crate) struct Frames<'a> {
    storage: &'a dyn Storage,
    ring: Ring,
    next: Place,
    /// The first frame holds this message or an earlier one.
    first_msn_max: u64,
    /// The first message of the frame after the last one read.
    next_msn: Option<u64>,
}

impl<'a> Frames<'a> {
    /// Those from `from` on, of which the first follows message `msn` or holds it.
    pub fn new(storage: &'a dyn Storage, ring: Ring, from: Place, msn: u64) -> Self {
        Frames { storage, ring, next: from, first_msn_max: msn + 1, next_msn: None }
    }

    /// Where the next one is, or would be.
    pub fn place(&self) -> Place {
        self.next
    }

    fn read(&mut self) -> Result<Option<Replayed>> {
        let Place { pos, seq } = self.next;
        let ring = &self.ring;
        let lap_end = pos + (ring.len - pos % ring.len);
        let mut found = read_frame(self.storage, ring, pos, seq)?;
        if found.is_none() && !pos.is_multiple_of(ring.len) {
            found = read_frame(self.storage, ring, lap_end, seq)?;
        }
        // The first frame may begin before the checkpoint; after that there are no gaps.
        let follows =
            |f: &Replayed| self.next_msn.map_or(f.first_msn <= self.first_msn_max, |n| f.first_msn == n);
        let Some(frame) = found.filter(follows) else { return Ok(None) };
        self.next = Place { pos: frame.end, seq: seq + 1 };
        self.next_msn = Some(frame.last_msn + 1);
        Ok(Some(frame))
    }
}

impl Iterator for Frames<'_> {
    type Item = Result<Replayed>;

    fn next(&mut self) -> Option<Result<Replayed>> {
        self.read().transpose()
    }
}

fn read_frame(storage: &dyn Storage, ring: &Ring, pos: u64, seq: u64) -> Result<Option<Replayed>> {
    let at = ring.start + pos % ring.len;
    let room = ring.len - pos % ring.len;
    let mut unit = AlignedBuf::zeroed(UNIT);
    storage.read_at(&mut unit, at).doing("reading the log")?;
    let Ok((crc, first, last, len)) = frame_header(&unit, ring, seq) else { return Ok(None) };
    if (HEADER + len) as u64 > room {
        return Ok(None);
    }
    let mut buf = AlignedBuf::zeroed(HEADER + len);
    storage.read_at(&mut buf, at).doing("reading the log")?;
    if crc32c::crc32c(&buf[8..HEADER + len]) != crc {
        return Ok(None);
    }
    let end = pos + round_up(HEADER + len) as u64;
    Ok(Some(Replayed { first_msn: first, last_msn: last, pos, seq, end, buf, len }))
}

fn frame_header(unit: &[u8], ring: &Ring, seq: u64) -> Decoded<(u32, u64, u64, usize)> {
    let mut r = Reader::new(unit);
    let (magic, crc) = (r.u32()?, r.u32()?);
    let (uuid, life, number) = (r.u64()?, r.u64()?, r.u64()?);
    if magic != MAGIC || uuid != ring.uuid || life != ring.life || number != seq {
        return Err(Malformed("not the frame looked for"));
    }
    Ok((crc, r.u64()?, r.u64()?, r.u32()? as usize))
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
