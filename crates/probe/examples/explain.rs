//! Explains fsyncs in a directory: `explain DIR [COUNT]` writes 4 KiB and calls fsync COUNT times (default 50).

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use probe::fsync::{Summary, artifact, record, summary, terminal};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let Some(directory) = arguments.get(1) else {
        eprintln!("usage: explain DIR [COUNT]");
        return ExitCode::from(2);
    };
    let count = arguments.get(2).and_then(|count| count.parse().ok()).unwrap_or(50);
    match explain(Path::new(directory), count) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn explain(directory: &Path, count: u64) -> Result<String, Box<dyn std::error::Error>> {
    let path = directory.join("explain.tmp");
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
    file.write_all_at(&vec![1; 1 << 16], 0)?;
    file.sync_all()?;
    let work = || -> std::io::Result<()> {
        for at in 0..count {
            file.write_all_at(&[at as u8; 4096], at % 16 * 4096)?;
            file.sync_all()?;
        }
        Ok(())
    };
    let untraced = Instant::now();
    work()?;
    let untraced = untraced.elapsed();
    let (recording, (done, traced)) = record(directory, || {
        let start = Instant::now();
        (work(), start.elapsed())
    })?;
    std::fs::remove_file(&path)?;
    done?;
    let mut text = terminal::table(&Summary::of(recording.breakdowns()));
    if let Some(typical) = summary::typical(recording.breakdowns()) {
        text.push_str("\nA typical one:\n");
        text.push_str(&terminal::waterfall(typical));
    }
    text.push('\n');
    text.push_str(&artifact::four_lines(recording.breakdowns()));
    let per_fsync = |time: Duration| time.as_secs_f64() * 1e6 / count.max(1) as f64;
    text.push_str(&format!(
        "{} events, {} lost; write and fsync took {:.1} us, before without tracing {:.1} us\n",
        recording.moments.len(),
        recording.lost,
        per_fsync(traced),
        per_fsync(untraced)
    ));
    Ok(text)
}
