//! Random offsets that are not equally likely: Zipf (by Gray and others, "Quickly Generating Billion-Record Synthetic
//! Databases", 1994), Pareto, normal, each as fio draws it.

use workload::stream::OffsetDistribution;

use super::random::Random;

/// Blocks that Zipf's sum runs over at most, as in fio.
const ZIPF_TERMS_MAX: u64 = 10_000_000;
/// Equal draws that are averaged for a nearly normal one.
const NORMAL_DRAWS: u64 = 12;
/// Spreads neighbouring numbers over a file.
const GOLDEN_RATIO: u64 = 0x61c8_8646_80b5_83eb;

/// Draws blocks of a file.
#[derive(Debug, Clone)]
pub(super) struct SkewedOffsets {
    random: Random,
    blocks: u64,
    shift: u64,
    shape: Shape,
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    Zipf { theta: f64, sum: f64, eta: f64 },
    Pareto { power: f64 },
    Normal { deviation: u64 },
}

impl SkewedOffsets {
    /// Of a file of `blocks`; nothing for spreads that are drawn by other means.
    pub(super) fn new(spread: &OffsetDistribution, blocks: u64, seed: u32) -> Option<SkewedOffsets> {
        let blocks = blocks.max(1);
        let mut random = Random::new(seed);
        let (center, shape) = match *spread {
            OffsetDistribution::Zipf { theta, center } => {
                let sum =
                    (1..=blocks.min(ZIPF_TERMS_MAX)).map(|at| (1.0 / at as f64).powf(theta)).sum::<f64>();
                let two = 1.0 + 0.5f64.powf(theta);
                let eta = (1.0 - (2.0 / blocks as f64).powf(1.0 - theta)) / (1.0 - two / sum);
                (center, Shape::Zipf { theta, sum, eta })
            }
            OffsetDistribution::Pareto { power, center } => {
                (center, Shape::Pareto { power: power.ln() / (1.0 - power).ln() })
            }
            OffsetDistribution::Normal { deviation, center } => {
                let wide = ((blocks as f64 * deviation) / 100.0).ceil() as u64;
                let shift = center.map_or(0, |center| (blocks as f64 * (center - 0.5)) as i64 as u64);
                let shape = Shape::Normal { deviation: wide.min(blocks / 2) };
                return Some(SkewedOffsets { random, blocks, shift, shape });
            }
            OffsetDistribution::Uniform | OffsetDistribution::Zoned(_) => return None,
        };
        let drawn = u64::from(random.bits());
        let shift = center.map_or(drawn, |center| (blocks as f64 * center) as u64);
        Some(SkewedOffsets { random, blocks, shift, shape })
    }

    /// The next block.
    pub(super) fn block(&mut self) -> u64 {
        let blocks = self.blocks as f64;
        let place = match self.shape {
            Shape::Zipf { theta, sum, eta } => {
                let unit = self.random.closed_unit();
                let point = unit * sum;
                if point < 1.0 {
                    0
                } else if point < 1.0 + 0.5f64.powf(theta) {
                    1
                } else {
                    (blocks * (eta * unit - eta + 1.0).powf(1.0 / (1.0 - theta))) as u64
                }
            }
            Shape::Pareto { power } => ((blocks - 1.0) * self.random.closed_unit().powf(power)) as u64,
            Shape::Normal { deviation } => self.normal(deviation),
        };
        place.wrapping_mul(GOLDEN_RATIO).wrapping_add(self.shift) % self.blocks
    }

    fn normal(&mut self, deviation: u64) -> u64 {
        let sum: u64 = (0..NORMAL_DRAWS).map(|_| u64::from(self.random.bits()) % (self.blocks + 1)).sum();
        let mean = sum.div_ceil(NORMAL_DRAWS);
        if deviation == 0 {
            return mean;
        }
        let mut off = (deviation as f64 * self.random.unit()) as i64 - (deviation / 2) as i64;
        while mean as i64 + off >= self.blocks as i64 || mean as i64 + off < 0 {
            off /= 2;
            if off == 0 {
                break;
            }
        }
        (mean as i64 + off) as u64
    }
}

/// For each of a hundred draws, begin and end of its zone in percent of the file.
pub(super) fn zones(parts: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut table, mut begin) = (Vec::with_capacity(100), 0);
    for (share, length) in parts {
        table.extend(std::iter::repeat_n((begin, begin + length), *share as usize));
        begin += length;
    }
    table
}
