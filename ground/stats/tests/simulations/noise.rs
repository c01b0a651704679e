//! Seeded noise of the kinds that measured trials have shown, and counting.

use stats::rng::SplitMix;

/// Uniform in (0, 1).
pub fn unit(rng: &mut SplitMix) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Standard normal (Box & Muller, Annals of Mathematical Statistics 29(2), 1958).
pub fn normal(rng: &mut SplitMix) -> f64 {
    (-2.0 * unit(rng).ln()).sqrt() * (2.0 * std::f64::consts::PI * unit(rng)).cos()
}

/// Student's t with 3 degrees of freedom, scaled to variance 1.
pub fn t3(rng: &mut SplitMix) -> f64 {
    let squares: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
    normal(rng) / squares.sqrt()
}

/// What a trial's logarithm is off by; a standard deviation of 1 where nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Noise {
    Normal,
    T3,
    /// Normal, but in so many of 100 trials 30-70 % of the throughput is lost.
    Wild(usize),
    /// Three of ten trials are 10 % faster.
    TwoModes,
    /// Each trial remembers so much of the one before it.
    Memory(f64),
    /// A steady decline by 1 % in four trials.
    Drift,
}

/// The noise of `trials` successive trials, with standard deviation `sd` in the logarithm.
pub fn series(rng: &mut SplitMix, noise: Noise, trials: usize, sd: f64) -> Vec<f64> {
    let mut last = normal(rng);
    let trial = |i: usize| match noise {
        Noise::Normal => sd * normal(rng),
        Noise::T3 => sd * t3(rng),
        Noise::Wild(percent) if rng.percent(percent) => (0.3 + 0.4 * unit(rng)).ln(),
        Noise::Wild(_) => sd * normal(rng),
        Noise::TwoModes => sd * 0.5 * normal(rng) + if rng.percent(30) { 0.1 } else { 0.0 },
        Noise::Memory(share) => {
            last = share * last + (1.0 - share * share).sqrt() * normal(rng);
            sd * last
        }
        Noise::Drift => sd * normal(rng) - 0.01 * i as f64 / 4.0,
    };
    (0..trials).map(trial).collect()
}

/// Differences `ln(B/A)` of `blocks` pairs of neighbouring trials, the order drawn by lot, the truth being `effect`. `sd`
/// is that of a difference where the noise has no memory.
pub fn pairs(rng: &mut SplitMix, noise: Noise, blocks: usize, sd: f64, effect: f64) -> Vec<f64> {
    let trials = series(rng, noise, 2 * blocks, sd / std::f64::consts::SQRT_2);
    let pair = |two: &[f64]| effect + if rng.percent(50) { two[1] - two[0] } else { two[0] - two[1] };
    trials.chunks_exact(2).map(pair).collect()
}

/// Rounds of a simulation: `LOADLINE_SIMULATE` times as many as usual, for a referee.
pub fn rounds(usual: usize) -> usize {
    let times =
        std::env::var("LOADLINE_SIMULATE").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(1.0);
    (usual as f64 * times).ceil().max(1.0) as usize
}

/// How many of `rounds` a test holds for, as a share, printed with its seed.
pub fn share(what: &str, rounds: usize, seed: u64, mut test: impl FnMut(&mut SplitMix) -> bool) -> f64 {
    let mut rng = SplitMix::new(seed);
    let count = (0..rounds).filter(|_| test(&mut rng)).count();
    let share = count as f64 / rounds as f64;
    println!("{what}: {:.2} % of {rounds} (seed {seed})", 100.0 * share);
    share
}

/// Three standard errors of a share that is truly `limit`.
fn slack(limit: f64, rounds: usize) -> f64 {
    3.0 * (limit * (1.0 - limit) / rounds as f64).sqrt()
}

/// Asserts that a share is at most `limit`, give or take three standard errors.
pub fn at_most(limit: f64, what: &str, rounds: usize, seed: u64, test: impl FnMut(&mut SplitMix) -> bool) {
    let got = share(what, rounds, seed, test);
    assert!(got <= limit + slack(limit, rounds), "{what}: {got} is above {limit}, seed {seed}");
}

/// Asserts that a share is at least `limit`, give or take three standard errors.
pub fn at_least(limit: f64, what: &str, rounds: usize, seed: u64, test: impl FnMut(&mut SplitMix) -> bool) {
    let got = share(what, rounds, seed, test);
    assert!(got >= limit - slack(limit, rounds), "{what}: {got} is below {limit}, seed {seed}");
}
