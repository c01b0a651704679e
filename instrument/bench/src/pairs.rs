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

/// Confidence of the interval of a row's median.
const LEVEL: f64 = 0.95;

/// Prints a row: what both sides reached, the median of the ratios of their turns, its interval by order statistics, and
/// the lowest and highest of them. Fewer than 6 turns give no interval of that confidence: then the word `range` stands
/// for it.
pub fn print_row(name: &str, target: f64, us: &[f64], them: &[f64]) {
    println!("{}", row(name, target, us, them));
}

fn row(name: &str, target: f64, us: &[f64], them: &[f64]) -> String {
    let ratios: Vec<f64> = us.iter().zip(them).map(|(a, b)| a / b).collect();
    let told = stats::Sample::new(&ratios).map(|sample| {
        let median = stats::interval::median(&sample, LEVEL);
        let interval = if median.interval.reached() {
            format!("{:.3} - {:.3}", median.interval.low, median.interval.high)
        } else {
            "range".to_string()
        };
        (median.value, interval, sample.sorted()[0], sample.sorted()[ratios.len() - 1])
    });
    let (ratio, interval, lowest, highest) =
        told.unwrap_or((f64::NAN, "range".to_string(), f64::NAN, f64::NAN));
    format!(
        "{name:<34} {:>12.0} {:>12.0} {ratio:>7.3} {interval:>15} [{lowest:.3} - {highest:.3}]  {} {target:.2}",
        median(us),
        median(them),
        if ratio >= target { "meets" } else { "MISSES" },
    )
}

/// The median; not a number for none.
pub fn median(values: &[f64]) -> f64 {
    stats::Sample::new(values).map_or(f64::NAN, |sample| sample.median())
}

/// Prints the heads of the columns.
pub fn print_header(peer: &str) {
    println!(
        "\n{:<34} {:>12} {peer:>12} {:>7} {:>15} [lowest - highest ratio]",
        "case", "loadline", "ratio", "95 % of median"
    );
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

#[cfg(test)]
mod tests {
    use super::row;

    #[test]
    fn an_interval_is_told_only_where_the_turns_give_one() {
        let them = [100.0; 7];
        let us = [90.0, 95.0, 99.0, 101.0, 102.0, 110.0, 130.0];
        // 7 values: from the lowest to the highest is 98 %, and anything less is below 95 %
        let seven = row("seven", 1.0, &us, &them);
        assert!(seven.contains("1.010   0.900 - 1.300 [0.900 - 1.300]  meets 1.00"), "{seven}");
        let five = row("five", 1.0, &us[..5], &them[..5]);
        assert!(five.contains("0.990           range [0.900 - 1.020]  MISSES 1.00"), "{five}");
    }
}
