//! What a power cut may lawfully leave: a reference model of the contract, not of the device.
//!
//! Fed with every command and completion, it knows for each block which versions were written, which must
//! have survived, and which must have survived *if* another did. [`Oracle::check`] judges an image by the
//! properties P1-P5 and P7; reads by P6; tags by P9 and P10. (P8, that nothing waits for ever, is the
//! driver's to see.) A version counts as persisted when it or a newer one of its block is in the image.
//!
//! Rule: two writes that may overlap are not both in flight; their order would be anybody's guess.

use std::collections::HashMap;
use std::fmt;

use crate::command::{Command, Op, Tags, Token};
use crate::regime::Regime;
use crate::tags::TagCheck;

/// The properties of an order-preserving device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Property {
    /// P1: an epoch of a stream is in the image only after all earlier ones.
    IntraStream,
    /// P2: likewise for the second stream of a write.
    InterStream,
    /// P3: the persisted epochs of a stream are a prefix, at most one more is partial.
    Prefix,
    /// P4: what an acknowledged flush or FUA covers is there.
    Durability,
    /// P5: an older version never wins over one that had to be there.
    SameBlock,
    /// P6: a read gives the newest completed version or one under way.
    ReadYourWrites,
    /// P7: every block holds something that was written to it.
    NoLostPage,
    /// P8: everything completes.
    Liveness,
    /// P9 and P10: the host's tags.
    Tags,
}

/// One breach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Of what.
    pub property: Property,
    /// How.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.property, self.detail)
    }
}

/// A write (or discard) the oracle has seen since the last power cut.
#[derive(Clone, Debug)]
pub struct Write {
    /// The command's id.
    pub id: u64,
    /// First block and number of blocks.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Contents of the first block; None = zeroes.
    pub token: Option<Token>,
    /// (stream, 64-bit epoch) it is ordered in: major, minor. The stream's upper half counts its lives.
    pub epochs: [Option<(u64, u64)>; 2],
    /// Whether it has completed.
    pub acked: bool,
    fua: bool,
}

impl Write {
    fn token_of(&self, lba: u64) -> Token {
        self.token.map_or(Token::ZERO, |t| Token(t.0 + (lba - self.lba)))
    }
}

#[derive(Clone, Debug)]
enum Awaited {
    Write(u32),
    Flush {
        /// Writes acknowledged before the flush was sent.
        covered: Vec<u32>,
        stream: Option<(u64, u64)>,
    },
    Read {
        lba: u64,
        /// Per block: versions from here on are fine.
        from: Vec<u32>,
    },
    Other,
}

/// The reference model.
#[derive(Clone, Debug)]
pub struct Oracle {
    regime: Regime,
    plp: bool,
    base: Vec<Token>,
    writes: Vec<Write>,
    /// Per block: the writes that touch it, oldest first. Version n is write n - 1; 0 is the base.
    history: Vec<Vec<u32>>,
    /// Per block: the oldest version that may be found.
    floor: Vec<u32>,
    awaited: HashMap<u64, Awaited>,
    /// Completed writes without tags that are not yet known to be durable, or any in `flush`.
    acked: Vec<u32>,
    tags: TagCheck,
    barrier_epoch: u64,
}

impl Oracle {
    /// A model of an empty device.
    pub fn new(regime: Regime, plp: bool, blocks: u64) -> Oracle {
        Oracle {
            regime,
            plp,
            base: vec![Token::ZERO; blocks as usize],
            writes: Vec::new(),
            history: vec![Vec::new(); blocks as usize],
            floor: vec![0; blocks as usize],
            awaited: HashMap::new(),
            acked: Vec::new(),
            tags: TagCheck::default(),
            barrier_epoch: 0,
        }
    }

    /// Power came back with this image: the host starts afresh on it.
    pub fn restart(&mut self, image: &[Token]) {
        self.base.copy_from_slice(image);
        for w in &self.writes {
            for l in w.lba..w.lba + u64::from(w.blocks) {
                self.history[l as usize].clear();
                self.floor[l as usize] = 0;
            }
        }
        self.writes.clear();
        self.awaited.clear();
        self.acked.clear();
        self.tags = TagCheck::default();
        self.barrier_epoch = 0;
    }

    /// The writes since the last restart, in order of submission: with [`Oracle::must_hold`] and their
    /// epochs, all that an enumerator of lawful images needs.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// The contents before [`Oracle::writes`].
    pub fn base(&self) -> &[Token] {
        &self.base
    }

    /// How many of the writes to `lba` (oldest first) must have survived, at the least up to which.
    pub fn must_hold(&self, lba: u64) -> u32 {
        self.floor[lba as usize]
    }

    /// Whether a write to the range could be in flight.
    pub fn is_busy(&self, lba: u64, blocks: u32) -> bool {
        (lba..lba + u64::from(blocks))
            .any(|l| self.history[l as usize].last().is_some_and(|w| !self.writes[*w as usize].acked))
    }

    /// A command is being sent.
    ///
    /// # Errors
    /// P9, P10.
    pub fn submitted(&mut self, c: &Command) -> Result<(), Violation> {
        let streams = self.regime == Regime::Streams;
        let tags = if streams { c.tags } else { Tags::default() };
        let (token, fua) = match c.op {
            Op::Write { token, fua } => (Some(token), fua),
            Op::WriteZeroes { fua } => (None, fua),
            Op::Discard => (None, false),
            Op::Barrier if self.regime == Regime::Barrier => {
                self.barrier_epoch += 1;
                self.awaited.insert(c.id, Awaited::Other);
                return Ok(());
            }
            Op::Barrier if tags.major.is_some() => {
                self.note(&tags, None)?;
                self.awaited.insert(c.id, Awaited::Other);
                return Ok(());
            }
            Op::Flush | Op::FlushForFua { .. } | Op::Barrier => {
                let stream = self.note(&tags, None)?[0];
                self.awaited.insert(c.id, Awaited::Flush { covered: self.acked.clone(), stream });
                return Ok(());
            }
            Op::Read { .. } => {
                let from = (c.lba..c.lba + u64::from(c.blocks)).map(|l| self.newest_acked(l)).collect();
                self.awaited.insert(c.id, Awaited::Read { lba: c.lba, from });
                return Ok(());
            }
            Op::CloseStream => {
                self.tags.close(c.tags.major.map_or(0, |t| t.stream));
                self.awaited.insert(c.id, Awaited::Other);
                return Ok(());
            }
        };
        let mut epochs = self.note(&tags, Some(c.queue))?;
        if self.regime == Regime::Barrier {
            epochs[0] = Some((0, self.barrier_epoch));
            self.barrier_epoch += u64::from(c.tags.barrier);
        }
        let i = self.writes.len() as u32;
        for l in c.lba..c.lba + u64::from(c.blocks) {
            self.history[l as usize].push(i);
        }
        let fua = fua && self.regime.honours_flush();
        self.writes.push(Write { id: c.id, lba: c.lba, blocks: c.blocks, token, epochs, acked: false, fua });
        self.awaited.insert(c.id, Awaited::Write(i));
        Ok(())
    }

    fn note(&mut self, tags: &Tags, queue: Option<u16>) -> Result<[Option<(u64, u64)>; 2], Violation> {
        let noted = self.tags.note(tags, queue);
        noted.map_err(|detail| Violation { property: Property::Tags, detail })
    }

    /// A refused write is sent again under another id.
    pub fn resent(&mut self, old: u64, new: u64) {
        if let Some(a) = self.awaited.remove(&old) {
            self.awaited.insert(new, a);
        }
    }

    /// Forgets the oldest writes as far as all of them are durable, in lots of `lot`: for long runs. They become
    /// the base.
    pub fn forget_durable(&mut self, lot: usize) {
        let durable = |w: &Write, i: usize| {
            w.acked && (w.lba..w.lba + u64::from(w.blocks)).all(|l| self.floor[l as usize] as usize > i)
        };
        let count = self.writes.iter().enumerate().take_while(|(i, w)| durable(w, *i)).count();
        if count == 0 || count < lot {
            return;
        }
        let k = count as u32;
        for w in &self.writes[..count] {
            for l in w.lba..w.lba + u64::from(w.blocks) {
                self.base[l as usize] = w.token_of(l);
                self.history[l as usize].remove(0);
            }
        }
        let mut touched: Vec<usize> =
            self.writes.iter().flat_map(|w| w.lba as usize..(w.lba + u64::from(w.blocks)) as usize).collect();
        touched.sort_unstable();
        touched.dedup();
        self.writes.drain(..count);
        for l in touched {
            self.floor[l] = self.floor[l].saturating_sub(k);
            self.history[l].iter_mut().for_each(|w| *w -= k);
        }
        self.acked.retain(|w| *w >= k);
        self.acked.iter_mut().for_each(|w| *w -= k);
        for a in self.awaited.values_mut() {
            match a {
                Awaited::Write(i) => *i -= k,
                Awaited::Flush { covered, .. } => {
                    covered.retain(|w| *w >= k);
                    covered.iter_mut().for_each(|w| *w -= k);
                }
                Awaited::Read { from, .. } => from.iter_mut().for_each(|v| *v = v.saturating_sub(k)),
                Awaited::Other => {}
            }
        }
    }

    fn newest_acked(&self, lba: u64) -> u32 {
        let of = &self.history[lba as usize];
        of.iter().rev().find(|w| self.writes[**w as usize].acked).map_or(0, |w| w + 1)
    }

    /// A command has completed well.
    ///
    /// # Errors
    /// P6.
    pub fn completed(&mut self, id: u64, tokens: Option<&[Token]>) -> Result<(), Violation> {
        match self.awaited.remove(&id) {
            Some(Awaited::Write(i)) => {
                self.writes[i as usize].acked = true;
                let w = &self.writes[i as usize];
                // Protected and unordered: durable the moment it completes.
                if w.fua || self.plp && w.epochs[0].is_none() {
                    self.raise(i);
                }
                self.acked.push(i);
            }
            Some(Awaited::Flush { covered, stream }) if self.regime.honours_flush() => {
                let tagged = stream.is_some();
                for i in covered {
                    if !tagged || self.writes[i as usize].epochs[0].is_none() {
                        self.raise(i);
                    }
                }
                if let Some(stream) = stream {
                    for i in self.required(&[stream]) {
                        self.raise(i);
                    }
                }
                let (floor, writes) = (&self.floor, &self.writes);
                self.acked.retain(|i| {
                    let w = &writes[*i as usize];
                    (w.lba..w.lba + u64::from(w.blocks)).any(|l| floor[l as usize] <= *i)
                });
            }
            Some(Awaited::Read { lba, from }) => return self.check_read(lba, &from, tokens),
            _ => {}
        }
        Ok(())
    }

    fn raise(&mut self, write: u32) {
        let w = &self.writes[write as usize];
        for l in w.lba..w.lba + u64::from(w.blocks) {
            let f = &mut self.floor[l as usize];
            *f = (*f).max(write + 1);
        }
    }

    fn check_read(&self, lba: u64, from: &[u32], tokens: Option<&[Token]>) -> Result<(), Violation> {
        for (i, token) in tokens.unwrap_or_default().iter().enumerate() {
            let l = lba + i as u64;
            if !self.versions(l, *token).any(|v| v >= from[i]) {
                let detail = format!("block {l} read as {token:?}, due is version {} or newer", from[i]);
                return Err(Violation { property: Property::ReadYourWrites, detail });
            }
        }
        Ok(())
    }

    /// Versions of a block with these contents, oldest first.
    fn versions(&self, lba: u64, token: Token) -> impl Iterator<Item = u32> {
        let base = (self.base[lba as usize] == token).then_some(0);
        let written = self.history[lba as usize]
            .iter()
            .filter(move |w| self.writes[**w as usize].token_of(lba) == token)
            .map(|w| w + 1);
        base.into_iter().chain(written)
    }

    /// All writes that must be there if epochs before these are: transitive over dual-stream writes.
    fn required(&self, tops: &[(u64, u64)]) -> Vec<u32> {
        let mut need: HashMap<u64, u64> = HashMap::new();
        for (s, e) in tops {
            let n = need.entry(*s).or_default();
            *n = (*n).max(*e);
        }
        let mut taken = vec![false; self.writes.len()];
        loop {
            let mut more = false;
            for (i, w) in self.writes.iter().enumerate().rev() {
                let before = |t: &(u64, u64)| need.get(&t.0).is_some_and(|n| t.1 < *n);
                if taken[i] || !w.epochs.iter().flatten().any(before) {
                    continue;
                }
                taken[i] = true;
                for (s, e) in w.epochs.iter().flatten() {
                    let n = need.entry(*s).or_default();
                    if *e > *n {
                        *n = *e;
                        more = true;
                    }
                }
            }
            if !more {
                break;
            }
        }
        (0..self.writes.len() as u32).filter(|i| taken[*i as usize]).collect()
    }

    /// Judges the image a power cut left.
    pub fn check(&self, image: &[Token]) -> Vec<Violation> {
        let mut wrong = Vec::new();
        // Per block: the version that is there, as far as the contents tell. Several versions may be
        // zeroes; then the newest counts as what is there, and none as what asks for others.
        let mut surely = vec![0u32; image.len()];
        let mut newest = vec![0u32; image.len()];
        for (l, token) in image.iter().enumerate() {
            let floor = self.floor[l];
            let Some(last) = self.versions(l as u64, *token).last() else {
                let detail = format!("block {l} holds {token:?}, which was never written there");
                wrong.push(Violation { property: Property::NoLostPage, detail });
                continue;
            };
            newest[l] = last;
            let mut possible = self.versions(l as u64, *token).filter(|v| *v >= floor);
            if let (Some(only), None) = (possible.next(), possible.next()) {
                surely[l] = only;
            }
            if last < floor {
                let detail = format!("block {l} holds version {last}, {floor} was acknowledged as durable");
                wrong.push(Violation { property: Property::Durability, detail });
            }
        }
        if self.regime.is_ordered() {
            self.check_order(&surely, &newest, &mut wrong);
            self.check_prefix(&surely, &newest, &mut wrong);
        }
        wrong
    }

    fn persisted(&self, w: u32, newest: &[u32]) -> bool {
        let of = &self.writes[w as usize];
        (of.lba..of.lba + u64::from(of.blocks)).all(|l| newest[l as usize] > w)
    }

    fn check_order(&self, surely: &[u32], newest: &[u32], wrong: &mut Vec<Violation>) {
        let visible: Vec<(u64, u64)> = surely
            .iter()
            .filter(|v| **v > 0)
            .flat_map(|v| self.writes[(*v - 1) as usize].epochs)
            .flatten()
            .collect();
        for i in self.required(&visible) {
            if self.persisted(i, newest) {
                continue;
            }
            let w = &self.writes[i as usize];
            let by_major = w.epochs[0].is_some_and(|(s, e)| visible.iter().any(|v| v.0 == s && v.1 > e));
            let same = (w.lba..w.lba + u64::from(w.blocks)).any(|l| {
                let v = newest[l as usize];
                v > 0 && v <= i && shares_stream(&self.writes[(v - 1) as usize], w)
            });
            let property = match (same, by_major) {
                (true, _) => Property::SameBlock,
                (_, true) => Property::IntraStream,
                _ => Property::InterStream,
            };
            let detail = format!(
                "write {} of blocks {}+{} in epochs {:?} is missing, later epochs are there",
                w.id, w.lba, w.blocks, w.epochs
            );
            wrong.push(Violation { property, detail });
        }
    }

    fn check_prefix(&self, surely: &[u32], newest: &[u32], wrong: &mut Vec<Violation>) {
        let mut first_gap: HashMap<u64, u64> = HashMap::new();
        for i in 0..self.writes.len() as u32 {
            if !self.persisted(i, newest) {
                for (s, e) in self.writes[i as usize].epochs.iter().flatten() {
                    let gap = first_gap.entry(*s).or_insert(*e);
                    *gap = (*gap).min(*e);
                }
            }
        }
        for v in surely.iter().filter(|v| **v > 0) {
            for (s, e) in self.writes[(*v - 1) as usize].epochs.iter().flatten() {
                if first_gap.get(s).is_some_and(|gap| e > gap) {
                    let detail = format!("stream {s}: epoch {e} is there, epoch {} is not", first_gap[s]);
                    wrong.push(Violation { property: Property::Prefix, detail });
                    return;
                }
            }
        }
    }
}

fn shares_stream(a: &Write, b: &Write) -> bool {
    a.epochs.iter().flatten().any(|x| b.epochs.iter().flatten().any(|y| x.0 == y.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tags::EpochCounters;

    fn image(pairs: &[(usize, u64)]) -> Vec<Token> {
        let mut image = vec![Token::ZERO; 16];
        for (l, t) in pairs {
            image[*l] = Token(*t);
        }
        image
    }

    fn properties(o: &Oracle, pairs: &[(usize, u64)]) -> Vec<Property> {
        o.check(&image(pairs)).into_iter().map(|v| v.property).collect()
    }

    /// D (app and journal stream), JD, JC, each its own epoch of the journal stream.
    #[test]
    fn down_sets_of_one_commit() {
        let mut o = Oracle::new(Regime::Streams, false, 16);
        let mut c = EpochCounters::default();
        let tags = [c.write(1, Some(9), true), c.write(9, None, true), c.write(9, None, true)];
        for (i, t) in tags.into_iter().enumerate() {
            let id = i as u64 + 1;
            o.submitted(&Command::write(id, id, 1, Token(100 + id)).tagged(t)).unwrap();
        }
        for fine in [&[][..], &[(1, 101)], &[(1, 101), (2, 102)], &[(1, 101), (2, 102), (3, 103)]] {
            assert_eq!(properties(&o, fine), [], "{fine:?}");
        }
        assert_eq!(properties(&o, &[(3, 103)]).len(), 3, "D, JD and the prefix");
        assert!(properties(&o, &[(2, 102)]).contains(&Property::InterStream));
        assert!(properties(&o, &[(1, 101), (3, 103)]).contains(&Property::IntraStream));
        o.submitted(&Command::flush(9).tagged(c.flush(9))).unwrap();
        assert_eq!(properties(&o, &[]), [], "a flush on its way promises nothing");
        o.completed(9, None).unwrap();
        assert!(properties(&o, &[(1, 101), (2, 102)]).contains(&Property::Durability));
    }

    #[test]
    fn flush_covers_completed_writes_only() {
        let mut o = Oracle::new(Regime::Flush, false, 16);
        o.submitted(&Command::write(1, 0, 1, Token(11))).unwrap();
        o.completed(1, None).unwrap();
        o.submitted(&Command::write(2, 1, 1, Token(22))).unwrap();
        o.submitted(&Command::flush(3)).unwrap();
        o.completed(2, None).unwrap();
        o.completed(3, None).unwrap();
        assert_eq!(properties(&o, &[(0, 11)]), []);
        assert_eq!(properties(&o, &[(1, 22)]), [Property::Durability]);
        assert_eq!(properties(&o, &[(0, 11), (1, 99)]), [Property::NoLostPage]);
    }

    #[test]
    fn what_is_forgotten_is_the_base() {
        let mut o = Oracle::new(Regime::Streams, false, 16);
        let mut c = EpochCounters::default();
        for id in 1..=4 {
            let tags = c.write(1, None, true);
            o.submitted(&Command::write(id, id % 2, 1, Token(100 + id)).tagged(tags)).unwrap();
            o.completed(id, None).unwrap();
        }
        o.submitted(&Command::flush(9).tagged(c.flush(1))).unwrap();
        o.completed(9, None).unwrap();
        for (id, lba) in [(5, 0), (6, 3)] {
            let tags = c.write(1, None, true);
            o.submitted(&Command::write(id, lba, 1, Token(100 + id)).tagged(tags)).unwrap();
        }
        let mut forgetful = o.clone();
        forgetful.forget_durable(5);
        assert_eq!(forgetful.writes().len(), 6, "a lot of five is not durable");
        forgetful.forget_durable(1);
        assert_eq!(
            (forgetful.writes().len(), forgetful.must_hold(0), forgetful.base()[1]),
            (2, 0, Token(103))
        );
        let images: [&[(usize, u64)]; 5] = [
            &[(0, 104), (1, 103)],
            &[(0, 105), (1, 103)],
            &[(0, 105), (1, 103), (3, 106)],
            &[(0, 104), (1, 103), (3, 106)],
            &[(0, 102), (1, 103)],
        ];
        let clean: Vec<bool> = images.iter().map(|i| properties(&o, i).is_empty()).collect();
        assert_eq!(clean, [true, true, true, false, false]);
        assert_eq!(clean, images.map(|i| properties(&forgetful, i).is_empty()));
        o.completed(6, None).unwrap();
        forgetful.completed(6, None).unwrap();
        assert!(!forgetful.is_busy(3, 1) && forgetful.is_busy(0, 1));
    }

    #[test]
    fn reads_see_completed_versions() {
        let mut o = Oracle::new(Regime::Flush, false, 16);
        o.submitted(&Command::write(1, 0, 1, Token(11))).unwrap();
        o.completed(1, None).unwrap();
        o.submitted(&Command::read_tokens(2, 0, 1)).unwrap();
        o.submitted(&Command::write(3, 0, 1, Token(33))).unwrap();
        let mut other = o.clone();
        o.completed(2, Some(&[Token(33)])).unwrap();
        let v = other.completed(2, Some(&[Token::ZERO])).unwrap_err();
        assert_eq!(v.property, Property::ReadYourWrites);
    }
}
