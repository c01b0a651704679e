//! What a stream does next: which file, which way, where, how much. The rules are fio's (3.33), quirks included: a turn of the
//! files is taken even for a sync, reads and writes of a file have positions of their own, a block map is one for both.

use workload::Stream;
use workload::stream::{NextFile, OffsetDistribution, OffsetStep, TransferDirection, TransferSizes};

use super::map::BlockMap;
use super::random::{Random, SeedUse, Seeds};
use super::spread::{SkewedOffsets, zones};

/// Reads are numbered 0, writes 1.
pub(super) const READ: usize = 0;
/// Reads are numbered 0, writes 1.
pub(super) const WRITE: usize = 1;
/// Discards are numbered 2; sizes and rates are those of writes.
pub(super) const TRIM: usize = 2;
/// Reads and writes, as sizes and rates are told apart.
fn side(way: usize) -> usize {
    way.min(WRITE)
}

/// What a stream does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A transfer: file, [`READ`], [`WRITE`] or [`TRIM`], offset, bytes.
    Transfer { file: usize, way: usize, offset: u64, bytes: u64 },
    /// A sync of a file; of its data alone.
    Sync { file: usize, data_only: bool },
    /// Nothing before so many microseconds after the stream's begin.
    Wait { until_us: u64 },
    /// A file has no more for it: it is to be closed.
    FileDone { file: usize },
    /// No file has.
    PassDone,
}

/// Where a stream is in a file.
#[derive(Debug)]
struct Position {
    last_end: [u64; 3],
    last_start: [Option<u64>; 3],
    map: Option<BlockMap>,
    skewed: Option<SkewedOffsets>,
    done: bool,
}

/// Makes up what a stream does.
#[derive(Debug)]
pub(super) struct Generator<'r> {
    spec: &'r Stream,
    /// Only the time ends it.
    time_based: bool,
    seeds: Seeds,
    positions: Vec<Position>,
    zones: [Vec<(u64, u64)>; 2],
    random: Random,
    sizes: [Random; 2],
    mix: Random,
    zone: Random,
    pick: Random,
    sequence: [Random; 2],
    poisson: [Random; 2],
    /// Transfers issued.
    issues: [u64; 2],
    /// Bytes issued, for the rate.
    rate_bytes: [u64; 2],
    /// When the next transfer is due by the rate.
    due_us: [u64; 2],
    last_due_us: [f64; 2],
    mix_way: usize,
    mix_until: u64,
    wrote_last: bool,
    until_new: u64,
    next_file: usize,
    file: Option<usize>,
    file_left: u64,
    held: Option<usize>,
    /// A file whose end was reached, and that was begun anew.
    pub(super) wrapped: Option<usize>,
}

impl<'r> Generator<'r> {
    /// At the beginning of a stream; `run_seed` is used when the stream has none.
    pub(super) fn new(spec: &'r Stream, time_based: bool, run_seed: u64) -> Generator<'r> {
        let seeds = match spec.seed {
            Some(seed) => Seeds::new(spec.number, Some(seed), spec.usual_offsets),
            None => Seeds::new(spec.number, Some(workload::rng::mix(run_seed)), false),
        };
        let block = spec.sizes[READ].min().min(spec.sizes[WRITE].min()).max(1);
        let map = spec.order.random && spec.order.visit_once;
        let position = |(number, file): (usize, &workload::stream::StreamFile)| {
            let bytes = file.bytes.min(file.size);
            let seed = (number as u64 + 1).wrapping_mul(spec.number).wrapping_mul(seeds.of(SeedUse::Block));
            Position {
                last_end: [file.offset; 3],
                last_start: [None; 3],
                map: map.then(|| BlockMap::new(bytes / block)),
                skewed: if spec.order.random {
                    SkewedOffsets::new(&spec.order.spread, bytes.div_ceil(block), seed as u32)
                } else {
                    None
                },
                done: false,
            }
        };
        let positions = spec.files.iter().enumerate().map(position).collect();
        let zones = match &spec.order.spread {
            OffsetDistribution::Zoned(parts) => [zones(&parts[READ]), zones(&parts[WRITE])],
            _ => Default::default(),
        };
        let of = |of| seeds.random(of);
        Generator {
            spec,
            time_based,
            positions,
            zones,
            random: of(SeedUse::Block),
            sizes: [of(SeedUse::ReadSize), of(write_sizes(spec))],
            mix: of(SeedUse::Mix),
            zone: of(SeedUse::Zone),
            pick: of(SeedUse::File),
            sequence: [of(SeedUse::Sequence), of(SeedUse::Sequence)],
            poisson: [of(SeedUse::PoissonRead), of(SeedUse::PoissonWrite)],
            issues: [0; 2],
            rate_bytes: [0; 2],
            due_us: [0; 2],
            last_due_us: [0.0; 2],
            mix_way: READ,
            mix_until: 0,
            wrote_last: false,
            // the first offset is drawn
            until_new: 1,
            next_file: 0,
            file: None,
            file_left: 0,
            held: None,
            wrapped: None,
            seeds,
        }
    }

    /// The seeds of the stream.
    pub(super) fn seeds(&self) -> &Seeds {
        &self.seeds
    }

    /// The warm-up is over: counts of the rate and the mix begin anew.
    pub(super) fn restart_counts(&mut self) {
        self.issues = [0; 2];
        self.rate_bytes = [0; 2];
        self.due_us = [0; 2];
        self.last_due_us = [0.0; 2];
        self.mix_until = 0;
    }

    /// Another pass over the files: with the same random numbers when they are repeatable.
    pub(super) fn begin_pass(&mut self) {
        for (position, file) in self.positions.iter_mut().zip(&self.spec.files) {
            position.done = false;
            restart(position, file.offset);
        }
        // all files were closed: the turn is over
        self.file = None;
        self.mix_until = 0;
        if self.spec.repeat {
            let of = |of| self.seeds.random(of);
            self.random = of(SeedUse::Block);
            self.sizes = [of(SeedUse::ReadSize), of(write_sizes(self.spec))];
            self.mix = of(SeedUse::Mix);
            self.zone = of(SeedUse::Zone);
            self.pick = of(SeedUse::File);
            self.sequence = [of(SeedUse::Sequence), of(SeedUse::Sequence)];
            self.poisson = [of(SeedUse::PoissonRead), of(SeedUse::PoissonWrite)];
        }
    }

    /// What comes next, `now_us` microseconds after the stream's begin.
    pub(super) fn next(&mut self, now_us: u64) -> Next {
        let Some(file) = self.held.take().or_else(|| self.pick()) else { return Next::PassDone };
        if let Some(data_only) = self.due_sync() {
            self.wrote_last = false;
            return Next::Sync { file, data_only };
        }
        let way = match self.way(file, now_us) {
            Ok(way) => way,
            Err(until_us) => {
                self.held = Some(file);
                return Next::Wait { until_us };
            }
        };
        let Some((offset, bytes)) = self.place(file, way) else {
            self.positions[file].done = true;
            return Next::FileDone { file };
        };
        let position = &mut self.positions[file];
        position.last_start[way] = Some(offset);
        position.last_end[way] = offset + bytes;
        self.wrote_last = way == WRITE;
        let side = side(way);
        self.issues[side] += 1;
        self.rate_bytes[side] += bytes;
        if self.spec.pace.bytes_per_second[side] > 0 {
            self.due_us[side] = self.due(side);
        }
        Next::Transfer { file, way, offset, bytes }
    }

    fn pick(&mut self) -> Option<usize> {
        if let Some(file) = self.file.filter(|file| !self.positions[*file].done) {
            if self.spec.turns.operations == 0 {
                return Some(file);
            }
            if self.file_left > 0 {
                self.file_left -= 1;
                return Some(file);
            }
        }
        let files = self.positions.len();
        if self.positions.iter().all(|position| position.done) {
            return None;
        }
        let file = loop {
            let file = match self.spec.turns.next {
                NextFile::InTurn => {
                    let file = self.next_file;
                    self.next_file = (file + 1) % files;
                    file
                }
                NextFile::Random => (files as f64 * self.pick.unit()) as usize,
            };
            if !self.positions[file].done {
                break file;
            }
        };
        self.file = Some(file);
        self.file_left = self.spec.turns.operations.saturating_sub(1);
        Some(file)
    }

    /// Whether a sync is due: of the data alone.
    fn due_sync(&self) -> Option<bool> {
        let due =
            |every: u64| every > 0 && self.issues[WRITE] > 0 && self.issues[WRITE].is_multiple_of(every);
        if !self.wrote_last {
            None
        } else if due(self.spec.syncs.fsync) {
            Some(false)
        } else {
            due(self.spec.syncs.fdatasync).then_some(true)
        }
    }

    /// The way of the next transfer, or when one is due.
    fn way(&mut self, file: usize, now_us: u64) -> Result<usize, u64> {
        let way = match self.spec.way {
            TransferDirection::Read => READ,
            TransferDirection::Write => WRITE,
            TransferDirection::Trim => return self.paced(WRITE, now_us).map(|_| TRIM),
            TransferDirection::TrimWrite => {
                let last = &self.positions[file].last_start;
                let way = if last[WRITE] == last[TRIM] { TRIM } else { WRITE };
                return self.paced(WRITE, now_us).map(|_| way);
            }
            TransferDirection::Mixed { read_percent } => {
                if self.issues[self.mix_way] >= self.mix_until {
                    let way = if self.mix.percent() <= u64::from(read_percent) { READ } else { WRITE };
                    if way != self.mix_way {
                        let other = if self.mix_way == READ {
                            100 - u64::from(read_percent)
                        } else {
                            u64::from(read_percent)
                        };
                        self.mix_until = self.issues[self.mix_way] * other / 100;
                    }
                    self.mix_way = way;
                }
                self.mix_way
            }
        };
        let way = self.paced(way, now_us)?;
        self.mix_way = way;
        Ok(way)
    }

    /// The way that the rates allow now.
    fn paced(&self, way: usize, now_us: u64) -> Result<usize, u64> {
        if self.due_us[way] <= now_us {
            return Ok(way);
        }
        match self.spec.way {
            TransferDirection::Mixed { read_percent } if read_percent > 0 && read_percent < 100 => {
                let other = 1 - way;
                if self.due_us[other] <= now_us {
                    Ok(other)
                } else {
                    Err(self.due_us[way].min(self.due_us[other]))
                }
            }
            _ => Err(self.due_us[way]),
        }
    }

    fn due(&mut self, way: usize) -> u64 {
        let rate = self.spec.pace.bytes_per_second[way];
        if self.spec.pace.poisson {
            let each = 1e6 * self.spec.sizes[way].min() as f64 / rate as f64;
            let unit = (f64::from(self.poisson[way].bits()) + 1.0) / 4_294_967_296.0;
            self.last_due_us[way] += -unit.ln() * each;
            return self.last_due_us[way] as u64;
        }
        let bytes = if self.spec.pace.by_count {
            self.issues[way] * self.spec.sizes[way].min()
        } else {
            self.rate_bytes[way]
        };
        (u128::from(bytes) * 1_000_000 / u128::from(rate)) as u64
    }

    /// Offset and length of a transfer; nothing when the file has no more.
    fn place(&mut self, file: usize, way: usize) -> Option<(u64, u64)> {
        let of = &self.spec.files[file];
        // a random block that was discarded is written
        if way == WRITE && self.spec.way == TransferDirection::TrimWrite && self.spec.order.random {
            let last = &self.positions[file];
            return last.last_start[TRIM].map(|begin| (begin, last.last_end[TRIM] - begin));
        }
        let (relative, drawn) = self.offset(file, way)?;
        let offset = relative.checked_add(of.offset)?;
        if relative >= of.bytes || offset >= of.size {
            return None;
        }
        let bytes = self.bytes(file, way, offset)?;
        if offset + bytes > of.size {
            return None;
        }
        if way == TRIM && self.positions[file].last_start[TRIM] == Some(offset) {
            // the same block again: it is to be written again, too
            self.positions[file].last_start[WRITE] = None;
        }
        let least = self.spec.sizes[side(way)].min();
        let Some(map) = &mut self.positions[file].map else { return Some((offset, bytes)) };
        if !drawn {
            return Some((offset, bytes));
        }
        let taken = map.take(relative / least, bytes.div_ceil(least)).max(1);
        Some((offset, bytes.min(taken * least)))
    }

    /// An offset from the begin of the stream's part, and whether it was drawn anew.
    fn offset(&mut self, file: usize, way: usize) -> Option<(u64, bool)> {
        let order = &self.spec.order;
        let anew = match order.every {
            0 => true,
            every => {
                self.until_new -= 1;
                let anew = self.until_new == 0;
                if anew {
                    self.until_new = every;
                }
                anew
            }
        };
        if !anew {
            return match order.between {
                OffsetStep::Sequential => {
                    let next = self.sequential(file, way).or_else(|| self.drawn(file, way));
                    next.map(|offset| (offset, false))
                }
                OffsetStep::Identical => {
                    let begin = self.spec.files[file].offset;
                    Some((self.positions[file].last_start[way].map_or(0, |at| at - begin), false))
                }
            };
        }
        if !order.random {
            return self.sequential(file, way).map(|offset| (offset, false));
        }
        let percent = order.random_percent;
        if percent == 100 || self.sequence[side(way)].percent() <= u64::from(percent) {
            return self.drawn(file, way).map(|offset| (offset, true));
        }
        let next = self.sequential(file, way).or_else(|| self.drawn(file, way));
        next.map(|offset| (offset, false))
    }

    fn sequential(&mut self, file: usize, way: usize) -> Option<u64> {
        let of = &self.spec.files[file];
        let position = &mut self.positions[file];
        let last = &mut position.last_end[way];
        if *last >= of.bytes + of.offset && self.time_based && self.spec.files.len() == 1 {
            *last = of.offset;
            self.wrapped = Some(file);
        }
        if *last >= of.size {
            return None;
        }
        let step = self.spec.order.step;
        if *last == of.offset && of.offset > 0 && step < 0 {
            *last = of.size.min(of.bytes);
        }
        let mut at = *last - of.offset;
        if at > 0 && step != 0 {
            let next = at.wrapping_add_signed(step);
            at = if next < of.size {
                next
            } else if step > 0 {
                of.offset
            } else {
                of.size.min(of.bytes).wrapping_add_signed(step)
            };
        }
        Some(at)
    }

    /// A random offset; a time-based stream forgets which blocks it has visited when it has visited all.
    fn drawn(&mut self, file: usize, way: usize) -> Option<u64> {
        let align = self.spec.order.align[side(way)];
        if let Some(block) = self.block(file, way) {
            return Some(block * align);
        }
        if !self.time_based {
            return None;
        }
        restart(&mut self.positions[file], self.spec.files[file].offset);
        self.wrapped = Some(file);
        Some(self.block(file, way)? * align)
    }

    fn block(&mut self, file: usize, way: usize) -> Option<u64> {
        if let Some(skewed) = &mut self.positions[file].skewed {
            return Some(skewed.block());
        }
        let blocks = self.blocks(file, way);
        if blocks == 0 {
            return None;
        }
        let (begin, length) = match self.zones[side(way)].len() {
            0 => (0, blocks),
            zones => {
                let (begin, end) = self.zones[side(way)][(self.zone.percent() as usize - 1).min(zones - 1)];
                (begin * blocks / 100, blocks * (end - begin) / 100)
            }
        };
        let block = (length as f64 * self.random.unit()) as u64;
        let block = match &self.positions[file].map {
            Some(map) if map.is_taken(block) => map.next_free(block)?,
            _ => block,
        };
        Some(block + begin)
    }

    fn blocks(&self, file: usize, way: usize) -> u64 {
        let of = &self.spec.files[file];
        let (least, align) = (self.spec.sizes[side(way)].min(), self.spec.order.align[side(way)]);
        of.bytes.min(of.size).saturating_sub(least.saturating_sub(align)) / align.max(1)
    }

    fn bytes(&mut self, file: usize, way: usize, offset: u64) -> Option<u64> {
        let of = &self.spec.files[file];
        let fits = |bytes: u64| offset + bytes <= of.bytes + of.offset;
        let sizes = &self.spec.sizes[side(way)];
        let (least, most) = (sizes.min(), sizes.max());
        if least == most {
            return Some(least);
        }
        if !fits(least) {
            return None;
        }
        loop {
            let bits = self.sizes[side(way)].bits();
            let bytes = match sizes {
                TransferSizes::One(size) => *size,
                TransferSizes::Range(..) => {
                    least + (most as f64 * (f64::from(bits) / 4_294_967_296.0)) as u64
                }
                TransferSizes::Split(parts) => {
                    let (mut chosen, mut sum) = (least, 0);
                    for (size, share) in parts.iter().filter(|(_, share)| *share > 0) {
                        (chosen, sum) = (*size, sum + share);
                        if u64::from(bits) / sum <= u64::from(u32::MAX) / 100 && fits(*size) {
                            break;
                        }
                    }
                    chosen
                }
            };
            let bytes = (bytes - bytes % least).min(most);
            if fits(bytes) {
                return Some(bytes);
            }
        }
    }
}

/// fio draws the sizes of writes as those of reads when it checks what it has written.
fn write_sizes(spec: &Stream) -> SeedUse {
    if spec.verify.is_some() { SeedUse::ReadSize } else { SeedUse::WriteSize }
}

fn restart(position: &mut Position, begin: u64) {
    position.last_end = [begin; 3];
    position.last_start = [None; 3];
    if let Some(map) = &mut position.map {
        map.clear();
    }
}
