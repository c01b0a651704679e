//! Sources of uniform numbers.

use workload::rng::Rng;

/// What generators draw from: the two calls that YCSB makes of Java's random numbers.
pub trait Draw {
    /// A number in [0, 1).
    fn unit(&mut self) -> f64;
    /// 64 random bits (Java's `nextLong`).
    fn long(&mut self) -> i64;
}

impl Draw for Rng {
    #[inline]
    fn unit(&mut self) -> f64 {
        Rng::unit(self)
    }

    #[inline]
    fn long(&mut self) -> i64 {
        self.bits() as i64
    }
}

/// A whole number below `limit`, as YCSB draws one: the size of a long, modulo the limit.
pub(crate) fn below(draw: &mut impl Draw, limit: u64) -> u64 {
    draw.long().unsigned_abs() % limit
}

/// Java's own generator, with which the vectors were made (java.util.Random, Java SE API).
#[cfg(test)]
pub(crate) struct Java(u64);

#[cfg(test)]
impl Java {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;

    pub(crate) fn new(seed: u64) -> Java {
        Java((seed ^ Java::MULTIPLIER) & ((1 << 48) - 1))
    }

    fn next(&mut self, bits: u32) -> i32 {
        self.0 = self.0.wrapping_mul(Java::MULTIPLIER).wrapping_add(11) & ((1 << 48) - 1);
        (self.0 >> (48 - bits)) as i32
    }
}

#[cfg(test)]
impl Draw for Java {
    fn unit(&mut self) -> f64 {
        let high = i64::from(self.next(26)) << 27;
        (high + i64::from(self.next(27))) as f64 / (1u64 << 53) as f64
    }

    fn long(&mut self) -> i64 {
        let high = i64::from(self.next(32)) << 32;
        high.wrapping_add(i64::from(self.next(32)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn javas_numbers() {
        let mut java = Java::new(42);
        let first: Vec<f64> = (0..5).map(|_| java.unit()).collect();
        assert_eq!(
            first,
            [
                0.7275636800328681,
                0.6832234717598454,
                0.30871945533265976,
                0.27707849007413665,
                0.6655489517945736
            ]
        );
    }
}
