//! One descriptor as one thread reads it: what is asked for in that thread, right after a read.
//!
//! What decides is whether reads had to wait: a read of what was asked for that still waits says that the window is too
//! small, reads that never wait say that nothing is to be gained.

use crate::tuning::{NAP_MAX, SAMPLE, STREAMS};
use crate::{Device, Effect, Mode, Pages, Read, Reason, Rental, Stream};

/// What is known of one descriptor in one thread. Zeroes are one without a read.
#[derive(Debug, Clone, Copy, Default)]
pub struct File {
    /// Its size, bytes.
    pub size: u64,
    tick: u32,
    fast: u32,
    nap: u32,
    streams: [Stream; STREAMS],
}

impl File {
    /// One of so many bytes.
    pub fn new(size: u64) -> File {
        File { size, ..File::default() }
    }

    /// After a read: asks for what will be read next.
    pub fn on_read(
        &mut self,
        read: &Read,
        device: &Device,
        rental: Option<&mut Rental>,
        mode: Mode,
        pages: &mut impl Pages,
    ) -> Effect {
        let slow = read.is_slow();
        let mut effect = Effect { reason: Reason::NoPattern, ..Effect::default() };
        self.tick += 1;
        let mut fetching = false;
        let ordered = match self.stream_of(read) {
            Some(stream) if mode.predicts() => {
                effect = stream.on_read(read, device, mode == Mode::Observe, pages);
                effect.reason != Reason::NoPattern
            }
            _ => false,
        };
        if let Some(rental) = rental.filter(|_| !ordered && mode != Mode::Predict) {
            let whole = mode == Mode::FetchAll;
            let (covered, asked, reason) = rental.on_read(self.size, read, whole, device, pages);
            effect.covered |= covered;
            effect.asked += asked;
            effect.reason = reason;
            fetching = rental.is_fetching();
        }
        // Who fetches by its reads must be seen to read.
        effect.nap = if fetching { 0 } else { self.rest(slow) };
        if effect.nap > 0 {
            effect.reason = Reason::Cached;
        }
        effect
    }

    /// The stream that a read continues; `None` after it began one.
    fn stream_of(&mut self, read: &Read) -> Option<&mut Stream> {
        let tick = self.tick;
        let continued = self.streams.iter().position(|stream| stream.continues(read));
        let near = || self.streams.iter().position(|stream| stream.may_turn(read));
        let at = match continued.or_else(near) {
            Some(at) => at,
            None => {
                let oldest = self.streams.iter_mut().min_by_key(|stream| stream.used)?;
                *oldest = Stream::begin(read, tick);
                return None;
            }
        };
        let stream = self.streams.get_mut(at)?;
        stream.used = tick;
        if continued.is_none() {
            stream.turn(read);
            return None;
        }
        Some(stream)
    }

    /// How many reads are let pass: where none has to wait and nothing is prefetched, twice as many each time.
    fn rest(&mut self, slow: bool) -> u32 {
        if slow {
            self.fast = 0;
            self.nap = 0;
            return 0;
        }
        self.fast += 1;
        let live = |stream: &Stream| stream.is_ahead() && self.tick - stream.used < 64;
        if self.fast < SAMPLE || self.streams.iter().any(live) {
            return 0;
        }
        self.fast = SAMPLE / 2;
        self.nap = (self.nap * 2 + 15).min(NAP_MAX);
        self.nap
    }

    /// Reads that were let pass took so long that some had to wait: the next nap is short.
    pub fn waken(&mut self) {
        self.fast = 0;
        self.nap = 0;
    }
}
