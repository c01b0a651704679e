//! Taking turns: A B A B ..., a ratio for each pair, and the median of the ratios.

use std::io::Write;

/// How the two sides are measured.
pub struct Pairs {
    /// Seconds of each measurement.
    pub seconds: f64,
    /// Measurements of each side.
    pub rounds: usize,
}

impl Pairs {
    /// Measures both sides in turns and prints a row. Each side returns operations per second.
    pub fn run(
        &self,
        name: &str,
        target: f64,
        mut ours: impl FnMut(f64) -> anyhow::Result<f64>,
        mut theirs: impl FnMut(f64) -> anyhow::Result<f64>,
    ) -> anyhow::Result<()> {
        // One short turn of each warms caches and finds errors early.
        ours(self.seconds.min(0.3))?;
        theirs(self.seconds.min(0.3))?;
        let (mut us, mut them) = (Vec::new(), Vec::new());
        for round in 0..self.rounds {
            // Who goes first changes, so that a drift of the machine favours nobody.
            let (a, b) = if round % 2 == 0 {
                let a = ours(self.seconds)?;
                (a, theirs(self.seconds)?)
            } else {
                let b = theirs(self.seconds)?;
                (ours(self.seconds)?, b)
            };
            us.push(a);
            them.push(b);
        }
        print_row(name, target, &us, &them);
        std::io::stdout().flush()?;
        Ok(())
    }
}

/// Prints a row: what both sides reached, and the ratios of their turns.
pub fn print_row(name: &str, target: f64, us: &[f64], them: &[f64]) {
    let mut ratios: Vec<f64> = us.iter().zip(them).map(|(a, b)| a / b).collect();
    ratios.sort_by(f64::total_cmp);
    let ratio = median(&ratios);
    let (lowest, highest) = (ratios.first().unwrap_or(&f64::NAN), ratios.last().unwrap_or(&f64::NAN));
    println!(
        "{name:<34} {:>12.0} {:>12.0} {ratio:>7.3} [{lowest:.3} - {highest:.3}]  {} {target:.2}",
        median(us),
        median(them),
        if ratio >= target { "meets" } else { "MISSES" },
    );
}

/// The median; not a number for none.
pub fn median(values: &[f64]) -> f64 {
    stats::Sample::new(values).map_or(f64::NAN, |sample| sample.median())
}

/// Prints the heads of the columns.
pub fn print_header(peer: &str) {
    println!("\n{:<34} {:>12} {peer:>12} {:>7} [lowest - highest ratio]", "case", "loadline", "ratio");
}

/// Prints what the figures were taken on.
pub fn print_machine() {
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let memory = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| text.lines().next()?.split_whitespace().nth(1)?.parse::<f64>().ok())
        .unwrap_or(0.0);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "cores {cores}, memory {:.1} GiB, kernel {}, load average at start {}",
        memory / 1024.0 / 1024.0,
        kernel.trim(),
        load.split_whitespace().next().unwrap_or("?")
    );
}
