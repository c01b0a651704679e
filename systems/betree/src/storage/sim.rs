//! Storage in memory with a volatile write cache, power cuts and injected faults.

use super::{Storage, UNIT};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// What survives or is lost on its own in a power cut.
const SECTOR: usize = 512;

/// Which calls fail. Counts are of calls from the moment the plan is set; `None` never fires.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    /// After this many writes and flushes have completed, the power is off: every later call fails, and the
    /// call that hits the limit may be torn.
    pub power_off_after: Option<u64>,
    /// The power goes off, as above, with the write of this number (from 0) among those that begin in this range of
    /// offsets: to tear what lies there.
    pub power_off_within: Option<(Range<u64>, u64)>,
    /// The write with this number (from 0) fails with `EIO` and leaves no trace.
    pub write_error_at: Option<u64>,
    /// Every write from this number on fails with `ENOSPC`.
    pub full_from: Option<u64>,
    /// The read with this number (from 0) fails with `EIO`.
    pub read_error_at: Option<u64>,
    /// Reads of any part of the unit that begins at this offset fail with `EIO`, until it is written.
    pub unreadable_unit: Option<u64>,
    /// The flush with this number (from 0) fails with `EIO`; what it should have saved stays volatile.
    pub flush_error_at: Option<u64>,
    /// The write with this number (from 0) is lost when it is written back, as in the page cache of a file: it succeeds and reads
    /// see it, but it never becomes durable, and the next flush, whoever makes it, fails with `EIO`: once.
    pub lose_write_at: Option<u64>,
    /// The flush with this number (from 0) fails with `EIO` and loses all that it should have saved; later ones succeed.
    pub lose_flush_at: Option<u64>,
}

/// Bytes in pieces that copies share until one of them is written, so that a copy costs no more than what differs. Tests copy
/// devices of 100 MiB thousands of times.
#[derive(Clone)]
struct Content {
    len: usize,
    /// `None` is a piece of zeros.
    pieces: Vec<Option<Arc<[u8; PIECE]>>>,
}

/// Bytes of a piece: the write of one unit copies this much, the copy of a device one pointer for this much.
const PIECE: usize = 16 << 10;

impl Content {
    fn zeros(len: usize) -> Content {
        Content { len, pieces: vec![None; len.div_ceil(PIECE)] }
    }

    /// Number of the piece, offset in it and length of each part of `at..at + len`.
    fn parts(at: usize, len: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let end = at + len;
        let mut at = at;
        std::iter::from_fn(move || {
            let (piece, offset) = (at / PIECE, at % PIECE);
            let len = (PIECE - offset).min(end - at);
            at += len;
            (len > 0).then_some((piece, offset, len))
        })
    }

    fn read(&self, buf: &mut [u8], at: usize) {
        let mut buf = buf;
        for (piece, offset, len) in Self::parts(at, buf.len()) {
            let (part, rest) = buf.split_at_mut(len);
            match &self.pieces[piece] {
                Some(bytes) => part.copy_from_slice(&bytes[offset..offset + len]),
                None => part.fill(0),
            }
            buf = rest;
        }
    }

    fn write(&mut self, at: usize, data: &[u8]) {
        let mut data = data;
        for (piece, offset, len) in Self::parts(at, data.len()) {
            let (part, rest) = data.split_at(len);
            let bytes = self.pieces[piece].get_or_insert_with(|| Arc::new([0; PIECE]));
            Arc::make_mut(bytes)[offset..offset + len].copy_from_slice(part);
            data = rest;
        }
    }
}

struct State {
    /// What a read sees.
    current: Content,
    /// What has been flushed.
    durable: Content,
    /// Writes since the last flush, oldest first.
    pending: Vec<(usize, Vec<u8>)>,
    plan: FaultPlan,
    writes: u64,
    /// Writes in the range of `power_off_within`.
    within: u64,
    flushes: u64,
    reads: u64,
    dead: bool,
    /// A write was lost and no flush has said so.
    lost: bool,
}

/// A simulated device. Clones share the same device.
///
/// A power cut ([`SimStorage::power_cut`]) keeps everything flushed and an arbitrary subset, sector by sector,
/// of what was written since.
#[derive(Clone)]
pub struct SimStorage {
    state: Arc<Mutex<State>>,
}

impl SimStorage {
    /// A zero-filled device of `len` bytes.
    pub fn new(len: u64) -> Self {
        Self::with_content(Content::zeros(len as usize))
    }

    /// A device whose flushed content is `image`.
    pub fn from_image(image: Vec<u8>) -> Self {
        let mut content = Content::zeros(image.len());
        content.write(0, &image);
        Self::with_content(content)
    }

    fn with_content(content: Content) -> Self {
        let state = State {
            durable: content.clone(),
            current: content,
            pending: Vec::new(),
            plan: FaultPlan::default(),
            writes: 0,
            within: 0,
            flushes: 0,
            reads: 0,
            dead: false,
            lost: false,
        };
        SimStorage { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Sets the faults to come and restarts the counts they refer to.
    pub fn set_faults(&self, plan: FaultPlan) {
        let mut s = self.lock();
        s.plan = plan;
        (s.writes, s.within, s.flushes, s.reads) = (0, 0, 0, 0);
    }

    /// Writes and flushes completed since the faults were last set.
    pub fn mutations(&self) -> u64 {
        let s = self.lock();
        s.writes + s.flushes
    }

    /// The device as found after the power comes back: `seed` chooses which unflushed sectors survived.
    ///
    /// One seed in eight loses all of them and one in eight keeps all, so both extremes are met often.
    pub fn power_cut(&self, seed: u64) -> SimStorage {
        let s = self.lock();
        let mut content = s.durable.clone();
        let mut random = SplitMix(seed);
        let mood = random.next() % 8;
        for (off, data) in &s.pending {
            // Most writes are kept or lost whole; some are torn.
            let fate = random.next() % 4;
            for (i, sector) in data.chunks(SECTOR).enumerate() {
                let keep = match (mood, fate) {
                    (0, _) => false,
                    (1, _) => true,
                    (_, 0) => random.next().is_multiple_of(2),
                    (_, f) => f == 1,
                };
                if keep {
                    content.write(off + i * SECTOR, sector);
                }
            }
        }
        SimStorage::with_content(content)
    }

    /// Another device, on which all that a read sees now is flushed.
    pub fn copy(&self) -> SimStorage {
        SimStorage::with_content(self.lock().current.clone())
    }

    /// Offset and length in bytes of each write since the last flush, oldest first: what a power cut may lose or tear.
    pub fn unflushed(&self) -> Vec<(u64, usize)> {
        self.lock().pending.iter().map(|(off, data)| (*off as u64, data.len())).collect()
    }

    /// The bytes a read would see now.
    pub fn image(&self) -> Vec<u8> {
        let s = self.lock();
        let mut image = vec![0; s.current.len];
        s.current.read(&mut image, 0);
        image
    }

    /// Overwrites flushed bytes behind the store's back, as decay or a stray write would.
    pub fn corrupt(&self, off: u64, bytes: &[u8]) {
        let mut s = self.lock();
        let at = off as usize;
        s.current.write(at, bytes);
        s.durable.write(at, bytes);
    }
}

impl State {
    fn check(&self, off: u64, len: usize) -> io::Result<()> {
        if self.dead {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "simulated power is off"));
        }
        let fits = (off as usize).checked_add(len).is_some_and(|end| end <= self.current.len);
        if !fits || !off.is_multiple_of(UNIT as u64) || !len.is_multiple_of(UNIT) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "transfer not inside, or not in units"));
        }
        Ok(())
    }

    /// Lets the power go if a write at `off` is the one aimed at.
    fn aim(&mut self, off: u64) {
        if let Some((range, n)) = &self.plan.power_off_within
            && range.contains(&off)
        {
            self.dead |= self.within == *n;
            self.within += 1;
        }
    }

    /// Counts one mutation; false when the power goes with it.
    fn powered(&mut self) -> bool {
        if self.plan.power_off_after.is_some_and(|n| self.writes + self.flushes >= n) {
            self.dead = true;
        }
        !self.dead
    }
}

impl Storage for SimStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().current.len as u64)
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()> {
        let mut s = self.lock();
        s.check(off, buf.len())?;
        s.reads += 1;
        if s.plan.read_error_at == Some(s.reads - 1) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if s.plan.unreadable_unit.is_some_and(|unit| (off..off + buf.len() as u64).contains(&unit)) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        s.current.read(buf, off as usize);
        Ok(())
    }

    fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()> {
        let mut s = self.lock();
        s.check(off, buf.len())?;
        s.aim(off);
        let alive = s.powered();
        let number = s.writes;
        s.writes += 1;
        if alive && s.plan.write_error_at == Some(number) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if alive && s.plan.full_from.is_some_and(|n| number >= n) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        // The write in flight when the power goes is pending too: it may be found whole, torn or not at all.
        let at = off as usize;
        s.plan.unreadable_unit.take_if(|unit| (off..off + buf.len() as u64).contains(unit));
        if alive && s.plan.lose_write_at == Some(number) {
            s.lost = true;
        } else {
            s.pending.push((at, buf.to_vec()));
        }
        if !alive {
            return s.check(off, buf.len());
        }
        s.current.write(at, buf);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut s = self.lock();
        s.check(0, 0)?;
        if !s.powered() {
            return s.check(0, 0);
        }
        let number = s.flushes;
        s.flushes += 1;
        if s.plan.flush_error_at == Some(number) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let saved = std::mem::take(&mut s.pending);
        if s.plan.lose_flush_at == Some(number) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        for (off, data) in saved {
            s.durable.write(off, &data);
        }
        match std::mem::take(&mut s.lost) {
            true => Err(io::Error::from_raw_os_error(libc::EIO)),
            false => Ok(()),
        }
    }

    fn discard(&self, off: u64, len: u64) -> io::Result<()> {
        // A discarded range may read as anything: fill it, so that a read of freed space is noticed.
        let fill = vec![0xDD; len as usize];
        let mut s = self.lock();
        s.check(off, fill.len())?;
        if !s.powered() {
            return s.check(0, 0);
        }
        let at = off as usize;
        s.current.write(at, &fill);
        s.pending.push((at, fill));
        Ok(())
    }
}

/// The generator of Steele, Lea and Flood (OOPSLA 2014): tiny, seedable, good enough to pick sectors.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = UNIT;

    fn read(s: &SimStorage, unit: u64) -> u8 {
        let mut buf = vec![0; PAGE];
        s.read_at(&mut buf, unit * UNIT as u64).expect("read");
        buf[0]
    }

    #[test]
    fn flushed_writes_survive_and_unflushed_ones_may_not() {
        let s = SimStorage::new(4 * UNIT as u64);
        s.write_at(&vec![1; PAGE], 0).expect("write");
        s.flush().expect("flush");
        s.write_at(&vec![2; PAGE], 0).expect("write");
        s.write_at(&vec![3; PAGE], UNIT as u64).expect("write");
        assert_eq!((read(&s, 0), read(&s, 1)), (2, 3));
        assert_eq!(s.unflushed(), [(0, PAGE), (UNIT as u64, PAGE)]);
        let outcomes: std::collections::BTreeSet<(u8, u8)> =
            (0..200).map(|seed| s.power_cut(seed)).map(|c| (read(&c, 0), read(&c, 1))).collect();
        for expected in [(1, 0), (2, 0), (1, 3), (2, 3)] {
            assert!(outcomes.contains(&expected), "never saw {expected:?} in {outcomes:?}");
        }
        assert!(outcomes.iter().all(|o| o.0 != 0), "flushed data lost");
        let torn = (0..200).any(|seed| {
            let image = s.power_cut(seed).image();
            image[..PAGE].contains(&1) && image[..PAGE].contains(&2)
        });
        assert!(torn, "no torn write in 200 cuts");
    }

    #[test]
    fn content_in_pieces_reads_as_bytes_in_one_do() {
        let len = 5 * PIECE - 512;
        let mut random = SplitMix(3);
        let mut below = |n: usize| random.next() as usize % n;
        let mut kept: Vec<(Content, Vec<u8>)> = vec![(Content::zeros(len), vec![0; len])];
        for n in 0..300 {
            let (mut content, mut bytes) = kept[below(kept.len())].clone();
            let at = below(len);
            let data = vec![n as u8; 1 + below((len - at).min(2 * PIECE + 3))];
            content.write(at, &data);
            bytes[at..at + data.len()].copy_from_slice(&data);
            kept.push((content, bytes));
            let (content, bytes) = &kept[below(kept.len())];
            let from = below(len);
            let mut found = vec![0xEE; below(len - from + 1)];
            content.read(&mut found, from);
            assert!(found == bytes[from..from + found.len()], "round {n}, {} bytes from {from}", found.len());
        }
    }

    #[test]
    fn faults_fire_where_planned() {
        let s = SimStorage::new(4 * UNIT as u64);
        let page = vec![7; PAGE];
        s.set_faults(FaultPlan { write_error_at: Some(1), full_from: Some(3), ..FaultPlan::default() });
        assert!(s.write_at(&page, 0).is_ok());
        assert_eq!(s.write_at(&page, 0).expect_err("EIO").raw_os_error(), Some(libc::EIO));
        assert!(s.write_at(&page, 0).is_ok());
        assert_eq!(s.write_at(&page, 0).expect_err("ENOSPC").raw_os_error(), Some(libc::ENOSPC));
        s.set_faults(FaultPlan { power_off_after: Some(1), ..FaultPlan::default() });
        assert!(s.write_at(&page, 0).is_ok());
        assert!(s.flush().is_err());
        assert!(s.read_at(&mut vec![0; PAGE], 0).is_err());

        for plan in [
            FaultPlan { lose_write_at: Some(1), ..FaultPlan::default() },
            FaultPlan { lose_flush_at: Some(1), ..FaultPlan::default() },
        ] {
            let s = SimStorage::new(4 * UNIT as u64);
            s.set_faults(plan.clone());
            s.write_at(&page, 0).expect("write");
            s.flush().expect("flush");
            s.write_at(&page, UNIT as u64).expect("the loss is not known yet");
            assert_eq!(read(&s, 1), 7, "nor is it seen");
            assert_eq!(s.flush().expect_err("EIO").raw_os_error(), Some(libc::EIO), "{plan:?}");
            s.flush().expect("it is said once");
            let found = s.power_cut(0);
            assert_eq!((read(&found, 0), read(&found, 1)), (7, 0), "{plan:?}");
        }

        let s = SimStorage::new(4 * UNIT as u64);
        let second = UNIT as u64..2 * UNIT as u64;
        s.set_faults(FaultPlan { power_off_within: Some((second.clone(), 1)), ..FaultPlan::default() });
        assert!(s.write_at(&page, second.start).is_ok());
        assert!(s.write_at(&page, 0).is_ok());
        assert!(s.write_at(&page, second.start).is_err());
        assert_eq!(s.unflushed().len(), 3, "the write in flight may be found");
    }
}
