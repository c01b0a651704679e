//! Do no harm, measured: every pattern on every device with every size of memory, the same program without and
//! with the library in turns. `options::HELP` tells the use, `judge` how a cell is judged.
//!
//! It needs root, the example `reader` beside itself, the library (`cargo build --release -p
//! loadline-prefetch-preload`) and, for emulated devices, the program `loadline`.

mod device;
mod group;
mod judge;
mod options;
mod run;
mod stop;
mod table;

use std::time::Instant;

use device::Device;
use judge::{Judged, Verdict};
use options::{Options, Pattern};
use run::Round;
use table::{Cell, Key};

type Anyhow<T> = Result<T, Box<dyn std::error::Error>>;

/// Rounds that are added before a cell is judged again.
const STEP: usize = 3;

fn measure(options: &Options, device: &Device, pattern: &Pattern, key: &Key) -> Anyhow<Cell> {
    let begin = Instant::now();
    let limit = key.memory.map(|percent| device.bytes() * percent / 100);
    let mut rounds: Vec<Round> = Vec::new();
    let mut wanted = options.rounds;
    let mut before = None;
    let judged = loop {
        while rounds.len() < wanted {
            rounds.push(run::round(options, device.file(), pattern, limit, rounds.len() % 2 == 1)?);
            if stop::asked() {
                return Err("interrupted".into());
            }
        }
        let judged = Judged::of(&rounds)?;
        let per_round = begin.elapsed() / rounds.len() as u32;
        let room = begin.elapsed() + per_round * STEP as u32 <= options.cell_time;
        let verdict = judged.verdict();
        // A failure is believed when it still is one after more rounds.
        let told = verdict == Verdict::Ok || verdict == Verdict::Fails && before == Some(Verdict::Fails);
        if told || wanted >= options.rounds_max || !room {
            break judged;
        }
        before = Some(verdict);
        wanted = (wanted + STEP).min(options.rounds_max);
    };
    Ok(Cell::new(key.clone(), &rounds, limit, &judged))
}

fn left_time(begin: Instant, done: usize, left: usize) -> String {
    if done == 0 {
        return String::new();
    }
    format!(", about {:.0} min", begin.elapsed().as_secs_f64() / done as f64 * left as f64 / 60.0)
}

/// Measures what is not there yet.
fn matrix(options: &Options, cells: &mut Vec<Cell>) -> Anyhow<()> {
    let keys = options.keys();
    let left = |cells: &[Cell]| keys.iter().filter(|(key, _)| !cells.iter().any(|c| c.key == *key)).count();
    let (begin, before) = (Instant::now(), cells.len());
    let in_time = || {
        if begin.elapsed() >= options.time { Err("time is up; --resume goes on") } else { Ok(()) }
    };
    for name in &options.devices {
        let mine = keys.iter().filter(|(key, _)| key.device == *name);
        let todo: Vec<_> = mine.filter(|(key, _)| !cells.iter().any(|cell| cell.key == *key)).collect();
        let Some((_, first)) = todo.first() else { continue };
        in_time()?;
        let device = Device::prepare(name, options)?;
        // Warms the program, the library and the file system's own blocks.
        run::round(options, device.file(), first, None, false)?;
        for (key, pattern) in todo {
            in_time()?;
            let done = cells.len() - before;
            let time = left_time(begin, done, left(cells));
            eprint!(
                "{} done, {} left{time}: {name}, {}, {} ",
                cells.len(),
                left(cells),
                key.pattern,
                key.share()
            );
            let cell = measure(options, &device, pattern, key).inspect_err(|_| eprintln!())?;
            eprintln!("{}", cell.short());
            if let Some(csv) = &options.csv {
                table::append(csv, &cell)?;
            }
            cells.push(cell);
        }
    }
    Ok(())
}

fn main() -> Anyhow<()> {
    let Some(options) = Options::parse()? else {
        print!("{}", options::HELP);
        return Ok(());
    };
    stop::listen();
    let mut cells = match &options.csv {
        Some(csv) => table::read(csv, options.resume)?,
        None => Vec::new(),
    };
    let ended = matrix(&options, &mut cells);
    let order: Vec<Key> = options.keys().into_iter().map(|(key, _)| key).collect();
    cells.retain(|cell| order.contains(&cell.key));
    cells.sort_by_key(|cell| order.iter().position(|key| *key == cell.key));
    print!("{}", table::summary(&cells, order.len()));
    if ended.is_err() && stop::asked() {
        std::process::exit(130);
    }
    ended
}
