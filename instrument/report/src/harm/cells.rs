//! Cells as lines of a CSV file and as tables of markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use analysis::paired::{Cell, Key, OFF};
use stats::harmless::{Figure, LEVEL, Pair, RESAMPLING, Verdict};
use stats::{Estimate, Interval};

/// The first line of the file.
pub const HEAD: &str = "device,pattern,memory,mode,mib,readahead_kib,held_out,verdict,strict,rounds,alone_s,library_s,gain,gain_low,gain_high,\
    alone_p99_ms,library_p99_ms,p99_ratio,p99_low,p99_high,limit_mib,alone_peak_mib,library_peak_mib";

/// How the first line of a file begins whose cells were judged by an older rule.
const OLD_HEADS: [&str; 2] = [
    "device,pattern,memory,mode,mib,verdict,rounds,",
    "device,pattern,memory,mode,mib,readahead_kib,held_out,verdict,with_grace,",
];

/// A file that holds something else.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellsParseError {
    /// A line that is no cell.
    #[error("not a cell: {0}")]
    Line(String),
    /// It has verdicts, but not the rounds that they could be made of anew.
    #[error("its cells were judged by the rule of an older loadline: measure them anew, into another file")]
    Old,
}

/// Where a cell is, in words.
pub fn label(key: &Key) -> String {
    format!("{}, {}, {}", key.device, key.pattern, share(key))
}

/// Gain, ratio of p99 and verdict, with intervals.
pub fn short(cell: &Cell) -> String {
    let Cell { verdict, rounds, wall, p99, .. } = cell;
    let interval = |figure: &Figure| {
        let Interval { low, high, .. } = figure.ratio.interval;
        format!("({low:.2} to {high:.2})")
    };
    let (gain, times, Pair { baseline, candidate }) = (wall.ratio.value, p99.ratio.value, p99.sides);
    format!(
        "{}: gain {gain:.2} {}, p99 {baseline:.2} to {candidate:.2} ms, {times:.2} times {}, {rounds} rounds{}",
        word(*verdict),
        interval(wall),
        interval(p99),
        if cell.strict == *verdict { String::new() } else { format!("; {STRICT} {}", word(cell.strict)) }
    )
}

/// A cell as a line of the file, without its end.
pub fn line(cell: &Cell) -> String {
    let Key { device, pattern, memory, mode, mib, readahead_kib, held_out } = &cell.key;
    let held_out = held_out.map_or(String::new(), |seed| seed.to_string());
    let memory = memory.map_or("none".into(), |percent| percent.to_string());
    let (verdict, strict) = (word(cell.verdict), word(cell.strict));
    let mut line = format!(
        "\"{device}\",\"{pattern}\",{memory},{mode},{mib},{readahead_kib},{held_out},{verdict},{strict}"
    );
    numbers(cell).iter().for_each(|number| {
        let _ = write!(line, ",{number}");
    });
    line
}

/// The cells of a file.
///
/// # Errors
/// The first line that is neither a cell nor the head; cells that were judged by an older rule.
pub fn read(text: &str) -> Result<Vec<Cell>, CellsParseError> {
    if OLD_HEADS.iter().any(|head| text.starts_with(head)) {
        return Err(CellsParseError::Old);
    }
    let lines = text.lines().filter(|line| *line != HEAD);
    lines.map(|line| cell(line).ok_or_else(|| CellsParseError::Line(line.to_owned()))).collect()
}

/// The numbers of a line.
fn numbers(cell: &Cell) -> Vec<f64> {
    let figure = |figure: &Figure| {
        let Figure { sides, ratio } = figure;
        [sides.baseline, sides.candidate, ratio.value, ratio.interval.low, ratio.interval.high]
    };
    let memory = [cell.limit_mib, cell.peak_mib.baseline, cell.peak_mib.candidate];
    [&[cell.rounds as f64][..], &figure(&cell.wall), &figure(&cell.p99), &memory].concat()
}

fn cell(line: &str) -> Option<Cell> {
    let mut quoted = false;
    let split = line.split(|c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    let words: Vec<&str> = split.map(|word| word.trim_matches('"')).collect();
    let [device, pattern, memory, mode, mib, readahead, held_out, verdict, strict, numbers @ ..] =
        words.as_slice()
    else {
        return None;
    };
    let key = Key {
        device: (*device).to_owned(),
        pattern: (*pattern).to_owned(),
        memory: if *memory == "none" { None } else { Some(memory.parse().ok()?) },
        mode: (*mode).to_owned(),
        mib: mib.parse().ok()?,
        readahead_kib: readahead.parse().ok()?,
        held_out: if held_out.is_empty() { None } else { Some(held_out.parse().ok()?) },
    };
    let known = [Verdict::Harmless, Verdict::Harms, Verdict::Untold];
    let told = |text: &str| known.into_iter().find(|known| word(*known) == text);
    let (verdict, strict) = (told(verdict)?, told(strict)?);
    let numbers: Option<Vec<f64>> = numbers.iter().map(|number| number.parse().ok()).collect();
    let [rounds, figures @ .., limit_mib, peak, other_peak] = numbers.as_deref()? else { return None };
    let ([wall, p99], []) = figures.as_chunks() else { return None };
    let figure = |&[baseline, candidate, value, low, high]: &[f64; 5]| Figure {
        sides: Pair { baseline, candidate },
        ratio: Estimate { value, interval: Interval { low, high, level: LEVEL, coverage: LEVEL } },
    };
    Some(Cell {
        key,
        verdict,
        strict,
        rounds: *rounds as usize,
        wall: figure(wall),
        p99: figure(p99),
        limit_mib: *limit_mib,
        peak_mib: Pair { baseline: *peak, candidate: *other_peak },
    })
}

/// [`stats::harmless::CellVerdict::strict`] in words.
const STRICT: &str = "if no gain paid for a longer p99";

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Harmless => "ok",
        Verdict::Harms => "FAILS",
        Verdict::Untold => "untold",
    }
}

/// The size of memory, in words.
fn share(key: &Key) -> String {
    key.memory.map_or("no limit".into(), |percent| format!("{percent} %"))
}

fn marked(cell: &Cell) -> String {
    let (gain, ratio) = (cell.wall.ratio.value, cell.p99.ratio.value);
    let text =
        if gain >= 9.95 { format!("{gain:.0} ({ratio:.2})") } else { format!("{gain:.2} ({ratio:.2})") };
    match cell.verdict {
        Verdict::Harmless => text,
        Verdict::Harms => format!("**{text}**"),
        Verdict::Untold => format!("{text}?"),
    }
}

/// The cells' tables, one a device and size of file, and what is to say about all; `wanted`: cells of the matrix.
pub fn summary(cells: &[Cell], wanted: usize) -> String {
    let mut text = String::new();
    let mut devices: Vec<(&Key, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        let same =
            |key: &Key| (&key.device, key.mib, &key.mode) == (&cell.key.device, cell.key.mib, &cell.key.mode);
        match devices.iter_mut().find(|(key, _)| same(key)) {
            Some((_, mine)) => mine.push(cell),
            None => devices.push((&cell.key, vec![cell])),
        }
    }
    for (key, mine) in devices {
        let mode = if key.mode == "auto" { String::new() } else { format!(", mode {}", key.mode) };
        let _ = writeln!(text, "**{}, {} MiB{mode}**\n", key.device, key.mib);
        text += &table(&mine);
        text.push('\n');
    }
    let count = |verdict| cells.iter().filter(|cell| cell.verdict == verdict).count();
    let _ = writeln!(
        text,
        "{} cells of {wanted}: {} ok, {} untold, {} FAILS; {} faster by 3 %, {} slower by 3 %, {} with p99 over 1.1 times; \
         peak over the limit of memory in {}. Intervals: {:.0} %, {} resamples of rounds, seed {:#x}.",
        cells.len(),
        count(Verdict::Harmless),
        count(Verdict::Untold),
        count(Verdict::Harms),
        cells.iter().filter(|cell| cell.wall.is_faster()).count(),
        cells.iter().filter(|cell| cell.wall.is_slower()).count(),
        cells.iter().filter(|cell| cell.p99.is_later()).count(),
        cells.iter().filter(|cell| over_limit(cell)).count(),
        LEVEL * 100.0,
        RESAMPLING.resamples,
        RESAMPLING.seed,
    );
    let strict = |verdict| cells.iter().filter(|cell| cell.strict == verdict).count();
    if cells.iter().any(|cell| cell.strict != cell.verdict) {
        let _ = writeln!(
            text,
            "And {STRICT}: {} ok, {} untold, {} FAILS.",
            strict(Verdict::Harmless),
            strict(Verdict::Untold),
            strict(Verdict::Harms),
        );
    }
    if cells.iter().any(|cell| cell.key.mode == OFF) {
        let off: Vec<_> = cells.iter().filter(|cell| cell.key.mode == OFF).collect();
        let alarms = off.iter().filter(|cell| cell.verdict == Verdict::Harms).count();
        let _ = writeln!(text, "Control (library off): {alarms} false alarms in {} cells.", off.len());
    }
    for cell in cells.iter().filter(|cell| cell.verdict != Verdict::Harmless) {
        let _ = writeln!(text, "- {}: {}", label(&cell.key), short(cell));
    }
    text
}

fn over_limit(cell: &Cell) -> bool {
    cell.limit_mib > 0.0 && cell.peak_mib.candidate > cell.limit_mib
}

/// A row a pattern, a column a size of memory; the time alone is that of the first column.
fn table(cells: &[&Cell]) -> String {
    let mut shares: Vec<String> = Vec::new();
    let mut rows: Vec<(&str, f64, BTreeMap<usize, String>)> = Vec::new();
    for cell in cells {
        let share = share(&cell.key);
        let column = shares.iter().position(|known| *known == share).unwrap_or_else(|| {
            shares.push(share);
            shares.len() - 1
        });
        let pattern = cell.key.pattern.as_str();
        let row = rows.iter().position(|(known, ..)| *known == pattern).unwrap_or_else(|| {
            rows.push((pattern, cell.wall.sides.baseline, BTreeMap::new()));
            rows.len() - 1
        });
        rows[row].2.insert(column, marked(cell));
    }
    let mut text = format!("| pattern | alone, s | {} |\n|---|---|", shares.join(" | "));
    text += &"---|".repeat(shares.len());
    text.push('\n');
    for (pattern, alone, row) in rows {
        let columns = (0..shares.len()).map(|i| row.get(&i).map_or("", String::as_str));
        let _ = writeln!(text, "| {pattern} | {alone:.2} | {} |", columns.collect::<Vec<_>>().join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(memory: Option<u64>, verdict: Verdict, gain: f64) -> Cell {
        let memory_words = memory.map_or("none".into(), |percent| percent.to_string());
        let limit = memory.unwrap_or(0);
        let line = format!(
            "\"slow(1ms,1GB/s)\",\"random, 4 KiB\",{memory_words},auto,64,128,7,{verdict},{strict},5,2.5,0,{gain},0,0,0,0,1.25,0,0,{limit},0,20",
            verdict = word(verdict),
            strict = word(if verdict == Verdict::Harmless { Verdict::Harms } else { verdict }),
        );
        cell(&line).expect("a cell")
    }

    #[test]
    fn a_line_is_read_as_the_cell_that_wrote_it() {
        for cell in [measured(None, Verdict::Harmless, 1.0 / 3.0), measured(Some(25), Verdict::Untold, 1.1)] {
            let text = line(&cell);
            assert_eq!(text.matches(',').count(), HEAD.matches(',').count() + 2);
            assert_eq!(read(&format!("{HEAD}\n{text}\n")), Ok(vec![cell]));
        }
        let short = "raw,x,none,auto,1,0,,ok,ok,1";
        assert_eq!(read(short), Err(CellsParseError::Line(short.into())));
        let fine = line(&measured(None, Verdict::Harmless, 1.0)).replace("ok", "fine");
        assert_eq!(read(&fine), Err(CellsParseError::Line(fine.clone())));
        for old in ["verdict,", "readahead_kib,held_out,verdict,with_grace,"] {
            let old = HEAD.replace("readahead_kib,held_out,verdict,strict,", old);
            assert_eq!(read(&format!("{old}\nraw,seq,none,auto,16,ok,5\n")), Err(CellsParseError::Old));
        }
    }

    #[test]
    fn every_column_has_its_own_number() {
        let numbers: Vec<String> = (1..=14).map(|number| number.to_string()).collect();
        let text = format!("\"raw\",\"seq\",none,auto,16,0,,untold,ok,{}", numbers.join(","));
        let cell = cell(&text).expect("a cell");
        assert_eq!(line(&cell), text);
        assert_eq!((cell.rounds, cell.wall.sides.candidate, cell.wall.ratio.interval.high), (1, 3.0, 6.0));
        assert_eq!((cell.p99.sides.baseline, cell.p99.ratio.interval.low), (7.0, 10.0));
        assert_eq!((cell.limit_mib, cell.peak_mib.candidate), (12.0, 14.0));
    }

    #[test]
    fn a_table_marks_what_fails_and_what_is_untold() {
        let cells = [
            measured(None, Verdict::Harmless, 12.3),
            measured(Some(50), Verdict::Harms, 0.5),
            measured(Some(15), Verdict::Untold, 1.04),
        ];
        let text = summary(&cells, 4);
        let expected = "| pattern | alone, s | no limit | 50 % | 15 % |\n|---|---|---|---|---|\n\
             | random, 4 KiB | 2.50 | 12 (1.25) | **0.50 (1.25)** | 1.04 (1.25)? |\n";
        assert!(text.starts_with(&format!("**slow(1ms,1GB/s), 64 MiB**\n\n{expected}\n")), "{text}");
        assert!(
            text.contains(
                "3 cells of 4: 1 ok, 1 untold, 1 FAILS; 0 faster by 3 %, 3 slower by 3 %, 0 with p99 over 1.1 times; peak \
                 over the limit of memory in 1."
            ),
            "{text}"
        );
        assert!(text.contains("And if no gain paid for a longer p99: 0 ok, 1 untold, 2 FAILS."), "{text}");
        let gains = short(&measured(None, Verdict::Harmless, 12.3));
        assert!(gains.ends_with("5 rounds; if no gain paid for a longer p99 FAILS"), "{gains}");
    }
}
