//! Cells as lines of a CSV file and as tables of markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::str::FromStr;

use crate::judge::{self, Judged, LEVEL, RESAMPLING, Verdict};
use crate::plan::OFF;
use crate::run::Round;
use crate::{HarmError, at};

const HEAD: &str = "device,pattern,memory,mode,mib,verdict,rounds,alone_s,library_s,gain,gain_low,gain_high,\
    alone_p99_ms,library_p99_ms,p99_ratio,p99_low,p99_high,limit_mib,alone_peak_mib,library_peak_mib";
/// Numbers at the end of a line.
const NUMBERS: usize = 14;
const MIB: f64 = 1048576.0;

/// What is measured in a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// `raw`, or a profile.
    pub device: String,
    /// Title of the pattern.
    pub pattern: String,
    /// Percent of the file.
    pub memory: Option<u64>,
    /// Of the library.
    pub mode: String,
    /// Size of the file.
    pub mib: u64,
}

impl Key {
    /// The size of memory, in words.
    pub fn share(&self) -> String {
        self.memory.map_or("no limit".into(), |percent| format!("{percent} %"))
    }
}

/// A cell of the matrix, measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What.
    pub key: Key,
    verdict: Verdict,
    /// As `HEAD` names them, from `rounds` on.
    numbers: [f64; NUMBERS],
}

impl Cell {
    /// From rounds; `limit`: bytes of memory.
    pub(crate) fn new(key: Key, rounds: &[Round], limit: Option<u64>, judged: &Judged) -> Cell {
        let (walls, p99s) = (judge::walls(rounds), judge::p99s(rounds));
        let peak = |bytes: &dyn Fn(&Round) -> u64| rounds.iter().map(bytes).max().unwrap_or(0) as f64 / MIB;
        let numbers = [
            rounds.len() as f64,
            walls.0 / 1e9,
            walls.1 / 1e9,
            judged.gain.value,
            judged.gain.interval.low,
            judged.gain.interval.high,
            p99s.0 / 1e6,
            p99s.1 / 1e6,
            judged.p99.value,
            judged.p99.interval.low,
            judged.p99.interval.high,
            limit.unwrap_or(0) as f64 / MIB,
            peak(&|round| round.alone.peak_bytes),
            peak(&|round| round.helped.peak_bytes),
        ];
        Cell { key, verdict: judged.verdict(), numbers }
    }

    /// What is said of it.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Gain, ratio of p99 and verdict, with intervals.
    pub fn short(&self) -> String {
        let [rounds, _, _, gain, low, high, alone, helped, ratio, ratio_low, ratio_high, ..] = self.numbers;
        format!(
            "{}: gain {gain:.2} ({low:.2} to {high:.2}), p99 {alone:.2} to {helped:.2} ms, {ratio:.2} times \
             ({ratio_low:.2} to {ratio_high:.2}), {rounds} rounds",
            word(self.verdict)
        )
    }

    fn marked(&self) -> String {
        let [_, _, _, gain, .., ratio, _, _, _, _, _] = self.numbers;
        let text =
            if gain >= 9.95 { format!("{gain:.0} ({ratio:.2})") } else { format!("{gain:.2} ({ratio:.2})") };
        match self.verdict {
            Verdict::Ok => text,
            Verdict::Fails => format!("**{text}**"),
            Verdict::Untold => format!("{text}?"),
        }
    }

    fn over_limit(&self) -> bool {
        let [.., limit, _, peak] = self.numbers;
        limit > 0.0 && peak > limit
    }

    fn line(&self) -> String {
        let Key { device, pattern, memory, mode, mib } = &self.key;
        let memory = memory.map_or("none".into(), |percent| percent.to_string());
        let mut line = format!("\"{device}\",\"{pattern}\",{memory},{mode},{mib},{}", word(self.verdict));
        self.numbers.iter().for_each(|number| {
            let _ = write!(line, ",{number}");
        });
        line
    }
}

impl FromStr for Cell {
    type Err = HarmError;

    fn from_str(line: &str) -> Result<Cell, HarmError> {
        let unknown = || HarmError::Input(format!("not a cell: {line}"));
        let mut quoted = false;
        let words: Vec<&str> = line
            .split(|c| {
                quoted ^= c == '"';
                c == ',' && !quoted
            })
            .map(|word| word.trim_matches('"'))
            .collect();
        let [device, pattern, memory, mode, mib, verdict, numbers @ ..] = words.as_slice() else {
            return Err(unknown());
        };
        let numbers: Vec<f64> =
            numbers.iter().map(|n| n.parse().map_err(|_| unknown())).collect::<Result<_, _>>()?;
        Ok(Cell {
            key: Key {
                device: (*device).to_owned(),
                pattern: (*pattern).to_owned(),
                memory: if *memory == "none" { None } else { Some(memory.parse().map_err(|_| unknown())?) },
                mode: (*mode).to_owned(),
                mib: mib.parse().map_err(|_| unknown())?,
            },
            verdict: [Verdict::Ok, Verdict::Fails, Verdict::Untold]
                .into_iter()
                .find(|known| word(*known) == *verdict)
                .ok_or_else(unknown)?,
            numbers: numbers.try_into().map_err(|_| unknown())?,
        })
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Fails => "FAILS",
        Verdict::Untold => "untold",
    }
}

/// The cells of a file; none may be there unless it is resumed.
///
/// # Errors
/// It is there and not to be resumed, or holds something else.
pub fn read(csv: &Path, resume: bool) -> Result<Vec<Cell>, HarmError> {
    if !csv.exists() {
        return Ok(Vec::new());
    }
    if !resume {
        return Err(HarmError::Input(format!("{} exists: say --resume, or remove it", csv.display())));
    }
    let text = std::fs::read_to_string(csv).map_err(at("read", csv))?;
    let cells = text.lines().filter(|line| *line != HEAD).map(str::parse).collect::<Result<_, _>>();
    cells.map_err(|error: HarmError| HarmError::Input(format!("{}: {error}", csv.display())))
}

/// Adds a line, after the head if it is the first. One write(2): several processes may share a file.
///
/// # Errors
/// The file cannot be written.
pub fn append(csv: &Path, cell: &Cell) -> Result<(), HarmError> {
    let write = || {
        let mut file = File::options().create(true).append(true).open(csv)?;
        let head = if file.metadata()?.len() == 0 { format!("{HEAD}\n") } else { String::new() };
        file.write_all(format!("{head}{}\n", cell.line()).as_bytes())
    };
    write().map_err(at("write", csv))
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
        "{} cells of {wanted}: {} ok, {} untold, {} FAILS; peak over the limit of memory in {}. Intervals: {:.0} %, \
         {} resamples of rounds, seed {:#x}.",
        cells.len(),
        count(Verdict::Ok),
        count(Verdict::Untold),
        count(Verdict::Fails),
        cells.iter().filter(|cell| cell.over_limit()).count(),
        LEVEL * 100.0,
        RESAMPLING.resamples,
        RESAMPLING.seed,
    );
    if cells.iter().any(|cell| cell.key.mode == OFF) {
        let off: Vec<_> = cells.iter().filter(|cell| cell.key.mode == OFF).collect();
        let alarms = off.iter().filter(|cell| cell.verdict == Verdict::Fails).count();
        let _ = writeln!(text, "Control (library off): {alarms} false alarms in {} cells.", off.len());
    }
    for cell in cells.iter().filter(|cell| cell.verdict != Verdict::Ok) {
        let Key { device, pattern, .. } = &cell.key;
        let _ = writeln!(text, "- {device}, {pattern}, {}: {}", cell.key.share(), cell.short());
    }
    text
}

/// A row a pattern, a column a size of memory; the time alone is that of the first column.
fn table(cells: &[&Cell]) -> String {
    let mut shares: Vec<String> = Vec::new();
    let mut rows: Vec<(&str, f64, BTreeMap<usize, String>)> = Vec::new();
    for cell in cells {
        let share = cell.key.share();
        let column = shares.iter().position(|known| *known == share).unwrap_or_else(|| {
            shares.push(share);
            shares.len() - 1
        });
        let pattern = cell.key.pattern.as_str();
        let row = rows.iter().position(|(known, ..)| *known == pattern).unwrap_or_else(|| {
            rows.push((pattern, cell.numbers[1], BTreeMap::new()));
            rows.len() - 1
        });
        rows[row].2.insert(column, cell.marked());
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

    fn cell(memory: Option<u64>, verdict: Verdict, gain: f64) -> Cell {
        let key = Key {
            device: "slow(1ms,1GB/s)".into(),
            pattern: "random, 4 KiB".into(),
            memory,
            mode: "auto".into(),
            mib: 64,
        };
        let mut numbers = [0.0; NUMBERS];
        (numbers[0], numbers[1], numbers[3], numbers[8]) = (5.0, 2.5, gain, 1.25);
        (numbers[11], numbers[13]) = (memory.unwrap_or(0) as f64, 20.0);
        Cell { key, verdict, numbers }
    }

    #[test]
    fn a_line_is_read_as_the_cell_that_wrote_it() {
        for cell in [cell(None, Verdict::Ok, 1.0 / 3.0), cell(Some(25), Verdict::Untold, 1.1)] {
            assert_eq!(cell.line().parse::<Cell>().unwrap(), cell);
            assert_eq!(cell.line().matches(',').count(), HEAD.matches(',').count() + 2);
        }
        assert!("raw,x,none,auto,1,ok,1".parse::<Cell>().is_err());
        assert!(cell(None, Verdict::Ok, 1.0).line().replace("ok", "fine").parse::<Cell>().is_err());
    }

    #[test]
    fn a_file_is_resumed_only_when_asked() {
        let directory = tempfile::tempdir().unwrap();
        let csv = directory.path().join("cells.csv");
        assert_eq!(read(&csv, false).unwrap(), []);
        let cells = [cell(None, Verdict::Ok, 1.5), cell(Some(50), Verdict::Fails, 0.5)];
        cells.iter().for_each(|cell| append(&csv, cell).unwrap());
        assert_eq!(read(&csv, true).unwrap(), cells);
        assert!(read(&csv, false).is_err());
    }

    #[test]
    fn a_table_marks_what_fails_and_what_is_untold() {
        let cells = [
            cell(None, Verdict::Ok, 12.3),
            cell(Some(50), Verdict::Fails, 0.5),
            cell(Some(15), Verdict::Untold, 1.04),
        ];
        let text = summary(&cells, 4);
        let expected = "| pattern | alone, s | no limit | 50 % | 15 % |\n|---|---|---|---|---|\n\
             | random, 4 KiB | 2.50 | 12 (1.25) | **0.50 (1.25)** | 1.04 (1.25)? |\n";
        assert!(text.starts_with(&format!("**slow(1ms,1GB/s), 64 MiB**\n\n{expected}\n")), "{text}");
        assert!(
            text.contains("3 cells of 4: 1 ok, 1 untold, 1 FAILS; peak over the limit of memory in 1."),
            "{text}"
        );
    }
}
