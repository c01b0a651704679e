//! fio's random numbers: the combined Tausworthe generator of L'Ecuyer with three words, seeded as fio seeds it, so that the
//! same job visits the same offsets in the same order.

/// fio's own seed (`FIO_RANDSEED`).
const SEED: u64 = 0xb189_9bed;
/// The multiplier that spreads one seed over many.
const SPREAD: u64 = 0x9e37_0001;
/// Seeds of a job.
const SEEDS: usize = 20;

/// Which of a job's random numbers: the place of its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeedUse {
    ReadSize = 0,
    WriteSize = 1,
    Verify = 3,
    Mix = 4,
    File = 5,
    Block = 6,
    Sequence = 10,
    PoissonRead = 15,
    Zone = 16,
    PoissonWrite = 17,
}

/// The seeds of a stream.
#[derive(Debug, Clone)]
pub(super) struct Seeds([u64; SEEDS]);

impl Seeds {
    /// Of stream `number`; `usual_offsets`: its offsets are those that fio repeats in every run, whatever the seed.
    pub(super) fn new(number: u64, seed: Option<u64>, usual_offsets: bool) -> Seeds {
        let mut word = (0..4).fold(seed.unwrap_or(SEED), |word, _| word.wrapping_mul(SPREAD));
        let mut seeds = [0; SEEDS];
        for (place, seed) in seeds.iter_mut().enumerate() {
            *seed = word.wrapping_mul(number).wrapping_add(place as u64);
            word = word.wrapping_mul(SPREAD);
        }
        if usual_offsets {
            seeds[SeedUse::Block as usize] = SEED.wrapping_mul(number);
        }
        Seeds(seeds)
    }

    /// The generator for a use.
    pub(super) fn random(&self, of: SeedUse) -> Random {
        Random::new(self.0[of as usize] as u32)
    }

    /// A seed as a number.
    pub(super) fn of(&self, of: SeedUse) -> u64 {
        self.0[of as usize]
    }
}

/// A generator of 32 bits at a time.
#[derive(Debug, Clone)]
pub(super) struct Random([u32; 3]);

impl Random {
    /// The generator that `seed` gives.
    pub(super) fn new(seed: u32) -> Random {
        let next = |word: u32, low: u32| {
            let word = word.wrapping_mul(69069) ^ seed;
            if word < low { word + low } else { word }
        };
        // fio writes (2^31) + (2^17) + (2^7) and gets exclusive ors: 29 + 19 + 5
        let first = next(53, 1);
        let second = next(first, 7);
        let mut random = Random([first, second, next(second, 15)]);
        for _ in 0..6 {
            random.bits();
        }
        random
    }

    /// The next 32 bits.
    #[inline]
    pub(super) fn bits(&mut self) -> u32 {
        let [a, b, c] = self.0;
        let a = ((a & 0xffff_fffe) << 12) ^ (((a << 13) ^ a) >> 19);
        let b = ((b & 0xffff_fff8) << 4) ^ (((b << 2) ^ b) >> 25);
        let c = ((c & 0xffff_fff0) << 17) ^ (((c << 3) ^ c) >> 11);
        self.0 = [a, b, c];
        a ^ b ^ c
    }

    /// A number below 1.
    #[inline]
    pub(super) fn unit(&mut self) -> f64 {
        f64::from(self.bits()) / 4_294_967_296.0
    }

    /// A number from 0 to 1, both included.
    pub(super) fn closed_unit(&mut self) -> f64 {
        f64::from(self.bits()) / f64::from(u32::MAX)
    }

    /// A whole number from 1 to 100.
    pub(super) fn percent(&mut self) -> u64 {
        1 + (100.0 * self.unit()) as u64
    }
}
