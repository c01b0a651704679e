//! Reads a file in a pattern and says how long it took: the program that measurements of prefetching run.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use stats::Histogram;

use super::Pattern;
use super::order::{self, Read, Shape};
use crate::AppError;
use crate::error::at;

/// What is read, and what is said of it.
#[derive(Debug, Clone)]
pub struct Reader {
    /// The file.
    pub file: PathBuf,
    /// What is read of it, and by whom.
    pub pattern: Pattern,
    /// How often all is read.
    pub passes: u64,
    /// Numbers only.
    pub raw: bool,
    /// The times of all reads, too.
    pub histogram: bool,
    /// A file that gets a line for each read.
    pub trace: Option<PathBuf>,
}

/// What one thread did: bytes, and of each read when it began and how long it took, ns.
type Done = (u64, Vec<(u64, u64)>);

fn compute(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// CLOCK_MONOTONIC, ns.
fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Wall time (ns) and the times of all reads (ns), from what a reader has said with `raw` and `histogram`.
pub fn parse_output(text: &str) -> Option<(f64, Histogram)> {
    let (numbers, histogram) = text.trim().split_once('\n')?;
    let wall_ns = numbers.split(' ').next()?.parse().ok()?;
    Some((wall_ns, Histogram::from_hdr_v2_base64(histogram).ok()?))
}

impl Reader {
    /// Reads, and returns what is to be printed: pattern, wall seconds, MB/s, p50, p99; with `raw` wall, p50, p99,
    /// longest in ns; with `histogram` after that the times of all reads (ns) as an HdrHistogram (V2, base64; buckets of
    /// 1.6 %).
    ///
    /// # Errors
    /// The file cannot be read, the pattern is not known.
    pub fn run(&self) -> Result<String, AppError> {
        let size = std::fs::metadata(&self.file).map_err(at(&self.file))?.len();
        let Pattern { name, threads, block_kib, .. } = &self.pattern;
        let shape = Shape { threads: (*threads).max(1), block: (*block_kib).max(4) << 10 };
        if size < shape.threads * shape.block * 32 || size < 16 << 20 {
            let why = "it needs 16 MiB, and 32 blocks for each thread";
            return Err(AppError::Parameter(format!("{}: too short: {why}", self.file.display())));
        }
        let orders: Option<Vec<Vec<Read>>> =
            (0..shape.threads).map(|thread| self.pattern.reads(size, thread)).collect();
        let known = order::NAMES;
        let orders = orders
            .ok_or_else(|| AppError::Parameter(format!("{name}: no such pattern; choose one of {known}")))?;
        let begin_ns = monotonic_ns();
        let begin = Instant::now();
        let shared = File::open(&self.file).map_err(at(&self.file))?;
        let results: Vec<Result<Done, AppError>> = std::thread::scope(|scope| {
            let shared = &shared;
            let workers: Vec<_> = orders
                .iter()
                .map(|order| scope.spawn(move || self.thread(order, shape, shared, begin)))
                .collect();
            workers.into_iter().map(|worker| worker.join().expect("a reader")).collect()
        });
        let wall = begin.elapsed().as_secs_f64();
        let results: Vec<Done> = results.into_iter().collect::<Result<_, _>>()?;
        if let Some(path) = &self.trace {
            write_trace(path, begin_ns, &orders, &results).map_err(at(path))?;
        }
        self.format_output(wall, &results)
    }

    fn thread(&self, order: &[Read], shape: Shape, shared: &File, begin: Instant) -> Result<Done, AppError> {
        let own = File::open(&self.file).map_err(at(&self.file))?;
        let file = if self.pattern.shared { shared } else { &own };
        let mut buffer = vec![0; 2 * shape.block as usize];
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..self.passes {
            for read in order {
                if !read.work.is_zero() {
                    compute(read.work);
                }
                let start = Instant::now();
                let room = &mut buffer[..read.len as usize];
                bytes += file.read_at(room, read.offset).map_err(at(&self.file))? as u64;
                let elapsed = start.elapsed();
                times.push(((start - begin).as_nanos() as u64, elapsed.as_nanos() as u64));
            }
        }
        Ok((bytes, times))
    }

    fn format_output(&self, wall: f64, results: &[Done]) -> Result<String, AppError> {
        let bytes: u64 = results.iter().map(|(bytes, _)| bytes).sum();
        let mut times: Vec<u64> = results.iter().flat_map(|(_, done)| done).map(|(_, ns)| *ns).collect();
        times.sort_unstable();
        let percentile = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or(0);
        let mut text = String::new();
        let _ = if self.raw {
            let longest = times.last().copied().unwrap_or(0);
            writeln!(text, "{:.0} {} {} {longest}", wall * 1e9, percentile(50), percentile(99))
        } else {
            writeln!(
                text,
                "{:12} {wall:8.3} s {:8.1} MB/s  p50 {:9.1} us  p99 {:9.1} us",
                self.pattern.name,
                bytes as f64 / wall / 1e6,
                percentile(50) as f64 / 1000.0,
                percentile(99) as f64 / 1000.0
            )
        };
        if self.histogram {
            let histogram: Histogram = times.iter().copied().collect();
            let encoded = histogram.to_hdr_v2_base64();
            let _ = writeln!(text, "{}", encoded.map_err(|error| AppError::Protocol(error.to_string()))?);
        }
        Ok(text)
    }
}

/// Writes of each read, in the order of time, when it began (CLOCK_MONOTONIC, as tracefs has it with the clock `mono`),
/// thread, number, offset, bytes, ns.
fn write_trace(path: &Path, begin_ns: u64, orders: &[Vec<Read>], results: &[Done]) -> std::io::Result<()> {
    let mut lines = Vec::new();
    for (thread, (order, (_, done))) in orders.iter().zip(results).enumerate() {
        for (at, ((begun_ns, elapsed_ns), read)) in done.iter().zip(order.iter().cycle()).enumerate() {
            lines.push((begin_ns + begun_ns, thread, at, read.offset, read.len, elapsed_ns));
        }
    }
    lines.sort_unstable();
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "begun_ns,thread,read,offset,bytes,elapsed_ns")?;
    for (begun_ns, thread, at, offset, len, elapsed_ns) in lines {
        writeln!(file, "{begun_ns},{thread},{at},{offset},{len},{elapsed_ns}")?;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(file: PathBuf) -> Reader {
        let pattern = "reverse:2".parse().unwrap();
        Reader { file, pattern, passes: 2, raw: true, histogram: true, trace: None }
    }

    #[test]
    fn the_file_is_read_in_the_order_of_the_pattern() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("data");
        File::create(&file).unwrap().set_len(16 << 20).unwrap();
        let trace = home.path().join("trace.csv");
        let reader = Reader { trace: Some(trace.clone()), ..reader(file) };
        let text = reader.run().unwrap();
        assert_eq!(text.lines().next().unwrap().split(' ').count(), 4);
        // 256 blocks, twice.
        let (wall_ns, times) = parse_output(&text).unwrap();
        assert!(wall_ns > 0.0 && times.count() == 512, "{text}");
        assert!(parse_output("reverse 0.001 s").is_none());
        let trace = std::fs::read_to_string(trace).unwrap();
        let lines: Vec<Vec<u64>> = trace
            .lines()
            .skip(1)
            .map(|line| line.split(',').map(|word| word.parse().unwrap()).collect())
            .collect();
        assert_eq!(lines.len(), 512);
        assert!(lines.is_sorted_by_key(|line| line[0]));
        let first = lines.iter().find(|line| line[1] == 1 && line[2] == 0).unwrap();
        assert_eq!(first[3..5], [(16 << 20) - (64 << 10), 64 << 10]);
    }

    #[test]
    fn short_files_and_unknown_patterns_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("data");
        File::create(&file).unwrap().set_len(1 << 20).unwrap();
        assert!(matches!(reader(file.clone()).run(), Err(AppError::Parameter(_))));
        File::options().write(true).open(&file).unwrap().set_len(16 << 20).unwrap();
        let mut wrong = reader(file);
        wrong.pattern.name = "sideways".into();
        assert!(wrong.run().unwrap_err().to_string().contains("small-stride"));
    }
}
