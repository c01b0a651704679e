//! Plans a large fileset, and prints what planning costs and what the hot paths cost.
//!
//! `cargo run --release --example plan -- [ENTRIES] [DIRWIDTH] [RANGE]` (10,000,000, 20 and all entries);
//! RANGE limits the files whose paths are timed, so that they stay in the CPU's caches.

use std::hint::black_box;
use std::time::Instant;

use workload::data::pool_bytes;
use workload::{
    DataPool, DataSpec, Distribution, Draw, Draws, Fileset, Layout, Purpose, Rounding, StreamId, Value,
};

const ROUNDS: u32 = 10_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|argument| units::parse_bytes(&argument));
    let entries = numbers.next().transpose()?.unwrap_or(10_000_000);
    let dir_width = numbers.next().transpose()?.unwrap_or(20);
    let range = numbers.next().transpose()?.unwrap_or(entries).min(entries);
    let gamma = Draw {
        name: "size".into(),
        seed: 0,
        distribution: Distribution::Gamma { shift: 0.0, shape: 1.5, scale: 16384.0 / 1.5 },
        round: 0,
        rounding: Rounding::Nearest,
        clamp_min: None,
        clamp_max: None,
    };
    let uniform = Draw { distribution: Distribution::Uniform { low: 0.0, high: 1e6 }, ..gamma.clone() };
    let draws = [gamma, uniform];
    let fileset = Fileset {
        name: "plan".into(),
        path: "/".into(),
        single: false,
        entries,
        leafdirs: 0,
        dir_width: Value::Int(dir_width),
        dir_gamma: 1.5,
        dir_depth: None,
        size: Value::Draw(0),
        prealloc_percent: 80,
        parallel_alloc: false,
        reuse: false,
        trust_tree: false,
        read_only: false,
        write_only: false,
        contents: Default::default(),
    };
    let start = Instant::now();
    let layout = Layout::build(&fileset, &draws, 1)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{}", layout.populated_line("plan"));
    let bytes_per_entry = layout.memory_bytes() as f64 / entries.max(1) as f64;
    println!("{} directories, longest path {} bytes", layout.dir_count(), layout.path_bytes_max());
    println!("planned in {seconds:.2} s, {bytes_per_entry:.1} bytes of memory an entry");

    let start = Instant::now();
    let existing = layout.initial_files(80, 1).order().fold(0, |sum, file| sum ^ black_box(file));
    black_box(existing);
    println!(
        "creation order: {:.1} ns a file",
        start.elapsed().as_nanos() as f64 / entries.max(1) as f64 / 0.8
    );
    paths(&layout, range);
    hot_draws(&draws)?;
    hot_data()?;
    Ok(())
}

fn paths(layout: &Layout, range: u64) {
    let mut path = b"/mnt/plan/".to_vec();
    let root_len = path.len();
    let mut rng = StreamId::of_run(1, Purpose::Other(0)).rng();
    let mut file = 0;
    each("path of the next file", || {
        path.truncate(root_len);
        layout.write_file_path(file, &mut path);
        file = if file as u64 + 1 >= range { 0 } else { file + 1 };
        path.as_ptr()
    });
    each("path of a random file", || {
        path.truncate(root_len);
        layout.write_file_path(rng.below(range) as usize, &mut path);
        path.as_ptr()
    });
}

fn hot_draws(draws: &[Draw]) -> Result<(), workload::DrawError> {
    let mut rng = StreamId::of_run(1, Purpose::Other(1)).rng();
    let mut draws = Draws::new(draws, 1, 0, 0)?;
    each("below", || rng.below(1000));
    each("fixed value", || draws.eval(black_box(Value::Int(7))));
    each("uniform value", || draws.eval(black_box(Value::Draw(1))));
    each("gamma value", || draws.eval(black_box(Value::Draw(0))));
    Ok(())
}

fn hot_data() -> Result<(), workload::DataError> {
    let mut data = DataPool::new(DataSpec::default(), 1, 0, 0)?;
    let mut pool = vec![0; pool_bytes(4096)];
    data.fill(&mut pool);
    each("stamp of 4 KiB", || data.next(&mut pool, 4096).as_ptr());
    Ok(())
}

fn each<T>(what: &str, mut work: impl FnMut() -> T) {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(work());
    }
    println!("{what}: {:.1} ns", start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
}
