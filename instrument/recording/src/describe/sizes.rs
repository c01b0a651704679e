//! Distributions in bounded memory: frequent values exactly, the rest by buckets.

use std::collections::BTreeMap;

use serde::Serialize;

/// Values that [`Sizes`] counts one by one; programs use few sizes of buffers.
const EXACT_MAX: usize = 48;
/// A value with a smaller share is shown as part of its bucket, if there are buckets.
const EXACT_SHARE: f64 = 0.01;
/// Buckets per power of two: a quantile is off by at most 3 %.
const STEPS_BITS: u32 = 4;

/// Counts of values in logarithmic buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    buckets: BTreeMap<u16, u64>,
    count: u64,
    total: u64,
}

fn bucket(value: u64) -> u16 {
    let steps = 1 << STEPS_BITS;
    if value < steps {
        return value as u16;
    }
    let shift = value.ilog2() - STEPS_BITS;
    ((u64::from(shift) << STEPS_BITS) + (value >> shift)) as u16
}

/// The lowest value of a bucket, and the highest.
fn bounds(bucket: u16) -> (u64, u64) {
    let steps = 1 << STEPS_BITS;
    let bucket = u64::from(bucket);
    if bucket < 2 * steps {
        return (bucket, bucket);
    }
    let shift = (bucket >> STEPS_BITS) - 1;
    let low = (steps + (bucket & (steps - 1))) << shift;
    (low, low + ((1 << shift) - 1))
}

impl Quantiles {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    fn add_many(&mut self, value: u64, times: u64) {
        *self.buckets.entry(bucket(value)).or_default() += times;
        self.count += times;
        self.total = self.total.saturating_add(value.saturating_mul(times));
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &Quantiles) {
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of values.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Mean; 0 of none.
    pub fn mean(&self) -> f64 {
        ratio(self.total, self.count)
    }

    /// The value below which a share of the values lies; `None` of no values.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let points: Vec<Point> = self.points().collect();
        quantile_of(&points, self.count, share)
    }

    fn points(&self) -> impl Iterator<Item = Point> + '_ {
        self.buckets.iter().map(|(bucket, count)| {
            let (low, high) = bounds(*bucket);
            Point { low, high, count: *count }
        })
    }
}

/// Values between two ends, both included.
#[derive(Debug, Clone, Copy)]
struct Point {
    low: u64,
    high: u64,
    count: u64,
}

impl Point {
    fn middle(&self) -> u64 {
        self.low + (self.high - self.low) / 2
    }

    /// Moves an end so that the middle is a mean: long rows at the end hold few large values.
    fn centre(&mut self, mean: f64) {
        let mean = (mean as u64).clamp(self.low, self.high);
        let reach = (mean - self.low).min(self.high - mean);
        // an end that is nearly reached stays
        if reach.saturating_mul(CENTRED) < self.high - self.low {
            (self.low, self.high) = (mean - reach, mean + reach);
        }
    }
}

/// A row is moved if the mean is nearer to an end than this part of it.
const CENTRED: u64 = 3;

fn quantile_of(points: &[Point], count: u64, share: f64) -> Option<u64> {
    let wanted = (share * count as f64).ceil().max(1.0) as u64;
    let mut below = 0;
    let found = points.iter().find(|point| {
        below += point.count;
        below >= wanted
    });
    found.or(points.last()).map(Point::middle)
}

/// A quotient; 0 if there is nothing to divide by.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// One row of a table of sizes, as WML's `randtable` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SizeRow {
    /// Share in percent; those of a table add up to 100.
    pub percent: u64,
    /// The lowest size.
    pub low: u64,
    /// The highest size.
    pub high: u64,
}

/// Counts of sizes: the most frequent ones exactly, others by [`Quantiles`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    exact: Vec<(u64, u64)>,
    rest: Quantiles,
}

impl Sizes {
    /// Adds a size.
    pub fn add(&mut self, size: u64) {
        self.add_many(size, 1);
    }

    fn add_many(&mut self, size: u64, times: u64) {
        match self.exact.binary_search_by_key(&size, |(known, _)| *known) {
            Ok(at) => self.exact[at].1 += times,
            Err(at) if self.exact.len() < EXACT_MAX => self.exact.insert(at, (size, times)),
            Err(_) => {
                self.make_room();
                self.add_many(size, times);
            }
        }
    }

    /// Moves the rarest exact value to the buckets, so that a frequent one that comes late finds room.
    fn make_room(&mut self) {
        let rarest = (0..self.exact.len()).min_by_key(|at| (self.exact[*at].1, *at));
        if let Some((size, times)) = rarest.map(|at| self.exact.remove(at)) {
            self.rest.add_many(size, times);
        }
    }

    /// Adds all sizes of another.
    pub fn merge(&mut self, other: &Sizes) {
        other.exact.iter().for_each(|(size, times)| self.add_many(*size, *times));
        self.rest.merge(&other.rest);
    }

    /// Number of sizes.
    pub fn count(&self) -> u64 {
        self.exact.iter().map(|(_, times)| times).sum::<u64>() + self.rest.count
    }

    /// Sum of sizes.
    pub fn total(&self) -> u64 {
        let exact = self.exact.iter().map(|(size, times)| size.saturating_mul(*times));
        exact.fold(self.rest.total, u64::saturating_add)
    }

    /// Mean; 0 of none.
    pub fn mean(&self) -> f64 {
        ratio(self.total(), self.count())
    }

    /// The most frequent size.
    pub fn mode(&self) -> Option<u64> {
        self.points().iter().max_by_key(|point| (point.count, point.high)).map(|point| point.high)
    }

    /// The size below which a share of them lies; `None` of no sizes.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        quantile_of(&self.points(), self.count(), share)
    }

    /// Both parts in order of size; where they meet, a bucket may follow an exact size that lies in it.
    fn points(&self) -> Vec<Point> {
        let whole = self.count();
        let one = |(size, count): &(u64, u64)| Point { low: *size, high: *size, count: *count };
        if self.rest.count == 0 {
            return self.exact.iter().map(one).collect();
        }
        let mut rest = self.rest.clone();
        let is_rare = |(_, count): &&(u64, u64)| ratio(*count, whole) < EXACT_SHARE;
        self.exact.iter().filter(is_rare).for_each(|(size, count)| rest.add_many(*size, *count));
        let frequent = self.exact.iter().filter(|one| !is_rare(one)).map(one);
        let mut points: Vec<Point> = frequent.chain(rest.points()).collect();
        points.sort_by_key(|point| (point.low, point.high));
        points
    }

    /// A table of at most about 20 rows: frequent sizes have one of their own, others share one with their neighbours, fewer
    /// towards the long end.
    pub fn rows(&self) -> Vec<SizeRow> {
        let whole = self.count();
        let mut rows: Vec<Point> = Vec::new();
        let mut sums: Vec<f64> = Vec::new();
        let (mut below, mut open) = (0.0_f64, false);
        for point in self.points() {
            let share = ratio(point.count, whole);
            let alone = share >= ALONE_SHARE;
            let room = ((1.0 - below) / 2.0).clamp(0.01, ROW_SHARE);
            let sum = point.middle() as f64 * point.count as f64;
            match rows.last_mut() {
                Some(last) if open && !alone && ratio(last.count + point.count, whole) <= room => {
                    last.high = last.high.max(point.high);
                    last.count += point.count;
                    sums[rows.len() - 1] += sum;
                }
                _ => {
                    rows.push(point);
                    sums.push(sum);
                }
            }
            open = !alone;
            below += share;
        }
        rows.iter_mut().zip(sums).for_each(|(row, sum)| row.centre(sum / row.count.max(1) as f64));
        percents(&rows)
    }

    /// Different sizes with their counts, frequent ones exactly.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.points().into_iter().map(|point| (point.middle(), point.count))
    }

    /// The number of pieces of at most `piece` in all of them.
    pub(crate) fn pieces(&self, piece: u64) -> u64 {
        let of = |(size, count): (u64, u64)| size.div_ceil(piece.max(1)).max(1).saturating_mul(count);
        self.counts().map(of).fold(0, u64::saturating_add)
    }
}

/// A size with this share has a row of its own.
const ALONE_SHARE: f64 = 0.04;
/// What other sizes of a row have together, at most.
const ROW_SHARE: f64 = 0.1;

/// Whole percents that add up to 100: rounded down, what is missing goes to the largest remainders. Rows of none are left out.
fn percents(points: &[Point]) -> Vec<SizeRow> {
    let whole: u64 = points.iter().map(|point| point.count).sum();
    if whole == 0 {
        return Vec::new();
    }
    let exact = |point: &Point| 100.0 * ratio(point.count, whole);
    let mut rows: Vec<SizeRow> = points
        .iter()
        .map(|point| SizeRow { percent: exact(point) as u64, low: point.low, high: point.high })
        .collect();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| exact(&points[*b]).fract().total_cmp(&exact(&points[*a]).fract()).then(a.cmp(b)));
    let missing = 100_u64.saturating_sub(rows.iter().map(|row| row.percent).sum());
    order.iter().cycle().take(missing as usize).for_each(|at| rows[*at].percent += 1);
    rows.retain(|row| row.percent > 0);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_their_values() {
        for value in (0..5000).chain([u64::MAX, u64::MAX / 3, 1 << 40, (1 << 40) - 1]) {
            let (low, high) = bounds(bucket(value));
            assert!(low <= value && value <= high, "{value}: {low} to {high}");
            assert!((high - low) as f64 <= value as f64 / 16.0, "{value}: {low} to {high}");
        }
    }

    #[test]
    fn tables_are_exact_for_few_sizes_and_add_up() {
        let mut sizes = Sizes::default();
        (0..900).for_each(|_| sizes.add(4096));
        (0..100).for_each(|_| sizes.add(100));
        let row = |percent, size| SizeRow { percent, low: size, high: size };
        assert_eq!(sizes.rows(), [row(10, 100), row(90, 4096)]);
        assert_eq!((sizes.quantile(0.5), sizes.mode()), (Some(4096), Some(4096)));
        (0..5000).for_each(|size| sizes.add(size * 37));
        let rows = sizes.rows();
        assert_eq!(rows.iter().map(|row| row.percent).sum::<u64>(), 100);
        assert!(rows.len() <= 24, "{rows:?}");
        assert!(Sizes::default().rows().is_empty());
    }
}
