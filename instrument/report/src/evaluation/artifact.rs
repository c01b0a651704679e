//! Result files in the shape of a publication's artifact, for its parsers; and tables and drawings as files.

use std::fmt::Display;

use analysis::grid::Grid;
use stats::Sample;
use study::Table;
use study::evaluation::Artifact;

use super::figure;
use crate::plot::csv_line;

/// The files of an evaluation: `(name, text)`. `date` becomes part of BetrFS's names, as in its artifact.
pub fn files(grid: &Grid, date: &str) -> Vec<(String, String)> {
    let mut files = match grid.evaluation().artifact {
        Some(Artifact::Betrfs) => betrfs(grid, date),
        Some(Artifact::Crossprefetch) => crossprefetch(grid),
        Some(Artifact::Opimq) => opimq(grid),
        None => vec![("TABLES.csv".to_string(), tables(grid))],
    };
    for table in grid.tables() {
        files.extend(figure::file(grid, table).map(|svg| (format!("{}.svg", table.id), svg)));
    }
    files
}

/// Every place with a value: for evaluations without an artifact of a known shape.
fn tables(grid: &Grid) -> String {
    let mut text = "table,column,row,unit,trials,median,min,max\n".to_string();
    for table in grid.tables() {
        for at in grid.columns_of(&table.id) {
            for row in grid.run_rows() {
                let Ok(sample) = Sample::new(&grid.cell(row, at).values) else { continue };
                let (column, row) = (&grid.study.columns[at].id, &grid.study.rows[row].id);
                let unit = grid.unit(at);
                let figures = (sample.len(), sample.median(), sample.min(), sample.max());
                csv_line(
                    &mut text,
                    &[&table.id, column, row, &unit, &figures.0, &figures.1, &figures.2, &figures.3],
                );
            }
        }
    }
    text
}

/// A file for each row that was run, in the artifact's words.
fn betrfs(grid: &Grid, date: &str) -> Vec<(String, String)> {
    let mut units = BETRFS_UNITS.to_string();
    let columns: Vec<usize> = (0..grid.study.columns.len()).filter(|at| grid.is_measured(*at)).collect();
    for at in &columns {
        units.push_str(&format!("master.{}: {}\n", grid.study.columns[*at].csv(), grid.unit(*at)));
    }
    let mut files = vec![("UNITS.txt".to_string(), units)];
    for row in grid.run_rows() {
        let mut text = "Name,N,Min,Max,Median,Avg,Stddev\n".to_string();
        let head = text.len();
        for at in &columns {
            let Ok(sample) = Sample::new(&grid.cell(row, *at).values) else { continue };
            text.push_str(&format!(
                "master.{},{},{},{},{},{},{}\n",
                grid.study.columns[*at].csv(),
                sample.len(),
                sample.min(),
                sample.max(),
                sample.median(),
                sample.mean(),
                sample.stddev()
            ));
        }
        // a row without any result has no file
        if text.len() > head {
            let row = &grid.study.rows[row];
            files.push((format!("{}-{date}.csv", row.csv.as_ref().unwrap_or(&row.id)), text));
        }
    }
    files
}

/// Units, with what the artifact's README says otherwise.
const BETRFS_UNITS: &str = "\
Units of the rows. MB is 10^6 bytes.
The artifact's README says that `mailserver` is in seconds: its script has converted it to op/s already, and it is op/s here too.
`tokubench` is MB/s of 200-byte payloads: 1 MB/s is 5,000 files a second.
`seq-read80g` is bytes by seconds; the artifact takes a number of dd's line without its unit, which is GB/s above 1 GB/s.
The sizes in the names (80g, 10g) are the paper's; those used here are in the report.

";

/// The artifact's order of configurations: header and row.
const CONFIGURATIONS: [(&str, &str); 5] = [
    ("APPonly", "app-only"),
    ("OSonly", "os-only"),
    ("CrossP[+fetchall+opt]", "fetch-all"),
    ("CrossP[+predict]", "predict"),
    ("CrossP[+predict+opt]", "auto"),
];

/// The table whose file of the artifact has no labels and no [`CONFIGURATIONS`] of `predict`.
const WITHOUT_LABELS: &str = "shared-rw";

/// Each figure has the artifact's file (its own timer, rounded, columns that it has), and `WALL-` beside it (all rows).
/// `DETAILS.csv` has everything.
fn crossprefetch(grid: &Grid) -> Vec<(String, String)> {
    let mut files = vec![
        ("DETAILS.csv".to_string(), details(grid)),
        ("UNITS.txt".to_string(), CROSSPREFETCH_UNITS.to_string()),
    ];
    for table in grid.tables() {
        let name = table.csv.as_ref().unwrap_or(&table.id);
        files.push((name.clone(), by_timer(grid, table)));
        files.push((format!("WALL-{name}"), by_wall(grid, table)));
    }
    files
}

const CROSSPREFETCH_UNITS: &str = "\
Figure-*, Table-*: the artifact's files. MB/s, YCSB op/s, by the artifact's own timer, which begins after the opening of
files; rounded; medians. The artifact's file of Figure 6 has no label column: its lines are 1, 4, 8 and 16 readers, its
columns APPonly, OSonly, CrossP[+fetchall+opt], CrossP[+predict+opt], its values those of the writers.
WALL-*: the same work by the wall time of the whole program, with the baselines that the paper lacks.
DETAILS.csv: every cell; MB is 10^6 bytes; an empty field was not measured. MB/s of db_bench are those that it prints (2^20).
";

fn by_timer(grid: &Grid, table: &Table) -> String {
    let mut text = String::new();
    let plain = table.id == WITHOUT_LABELS;
    let configurations: Vec<(&str, &str)> =
        CONFIGURATIONS.into_iter().filter(|(_, row)| !plain || *row != "predict").collect();
    if !plain {
        let heads: Vec<&str> = configurations.iter().map(|(head, _)| *head).collect();
        text.push_str(&format!("Workload,{}\n", heads.join(",")));
    }
    for at in grid.columns_of(&table.id) {
        let column = &grid.study.columns[at];
        if column.id.starts_with("readers-") {
            continue;
        }
        let value = |row: &str| grid.place(row, &column.id).and_then(analysis::grid::GridCell::second_median);
        let rounded = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.0}"));
        let values: Vec<String> = configurations.iter().map(|(_, row)| rounded(value(row))).collect();
        let label = if plain { String::new() } else { format!("{},", column.csv()) };
        text.push_str(&format!("{label}{}\n", values.join(",")));
    }
    text
}

fn by_wall(grid: &Grid, table: &Table) -> String {
    let rows = grid.run_rows();
    let heads = rows.iter().map(|row| grid.study.rows[*row].title().to_string());
    let mut text = String::new();
    let mut line = |fields: Vec<String>| {
        csv_line(&mut text, &fields.iter().map(|field| field as &dyn Display).collect::<Vec<_>>());
    };
    line(std::iter::once("Workload".to_string()).chain(heads).collect());
    for at in grid.columns_of(&table.id) {
        let value =
            |row: &usize| grid.cell(*row, at).median().map_or(String::new(), |value| format!("{value:.1}"));
        line(std::iter::once(grid.study.columns[at].id.clone()).chain(rows.iter().map(value)).collect());
    }
    text
}

/// The fields of `DETAILS.csv` after `timed`: head, metrics that are added, divisor, whether they are the section's.
const DETAILS: [(&str, &[&str], f64, bool); 9] = [
    ("wall_seconds", &["wall_seconds"], 1.0, false),
    ("timed_seconds", &["timed_seconds"], 1.0, true),
    ("p50_us", &["p50_us"], 1.0, false),
    ("p99_us", &["p99_us"], 1.0, false),
    ("cpu_seconds", &["cpu_user_seconds", "cpu_system_seconds"], 1.0, true),
    ("device_mb", &["device_read_bytes"], 1e6, true),
    ("prefetched_mb", &["prefetched_bytes"], 1e6, true),
    ("useful_mb", &["useful_bytes"], 1e6, true),
    ("wasted_mb", &["wasted_bytes"], 1e6, true),
];

fn details(grid: &Grid) -> String {
    let heads: Vec<&str> = DETAILS.iter().map(|(head, ..)| *head).collect();
    let mut text = format!("column,row,unit,trials,wall,timed,{}\n", heads.join(","));
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
    for (at, column) in grid.study.columns.iter().enumerate() {
        for (row, named) in grid.study.rows.iter().enumerate() {
            let place = grid.cell(row, at);
            let Some(wall) = place.median() else { continue };
            let mut numbers = vec![number(Some(wall)), number(place.second_median())];
            for (_, metrics, divisor, of_section) in DETAILS {
                let section = if of_section { column.section() } else { &column.id };
                let values: Option<Vec<f64>> =
                    metrics.iter().map(|name| place.metric(&format!("{section}/{name}"))).collect();
                numbers.push(number(values.map(|values| values.iter().sum::<f64>() / divisor)));
            }
            text.push_str(&format!(
                "{},{},{},{},{}\n",
                column.id,
                named.id,
                grid.unit(at),
                place.values.len(),
                numbers.join(",")
            ));
        }
    }
    text
}

/// The container sweep (Figure 10): the artifact's directory of each row (its spelling), and the factor by which its parsers
/// multiply what they add up.
const ENVIRONMENTS: [(&str, &str, f64); 4] =
    [("ext4", "Basline", 1.0), ("bfs", "BFS", 0.95), ("opimq", "OPIMQ", 0.9895), ("mqfs", "MQFS", 1.0)];
/// The same of epoch pinning (Figure 12).
const PINNING: [(&str, &str, f64); 3] =
    [("ext4", "baseline", 1.0), ("opimq", "opimq+pin", 0.9895), ("nopin", "opimq+nopin", 0.9895)];
const BENCHMARKS: [&str; 3] = ["varmail", "dbench", "sysbench"];

/// A file for each environment and benchmark: a line for each number of containers, and [`tables`] beside them.
fn opimq(grid: &Grid) -> Vec<(String, String)> {
    let mut files =
        vec![("TABLES.csv".to_string(), tables(grid)), ("UNITS.txt".to_string(), OPIMQ_UNITS.to_string())];
    for benchmark in BENCHMARKS {
        let columns = |prefix: &str| -> Vec<(String, String)> {
            let ids = grid.study.columns.iter().map(|column| column.id.as_str());
            let found = ids.filter_map(|id| Some((id.strip_prefix(prefix)?.to_string(), id.to_string())));
            found.collect()
        };
        let sweep = columns(&format!("{benchmark}-"));
        for (row, environment, factor) in ENVIRONMENTS {
            let name = format!("results/CONTAINER_THROGHPUT/{environment}/{benchmark}.csv");
            files.extend(sums(grid, row, &sweep, factor).map(|text| (name, text)));
        }
        let pinned = [("40".to_string(), format!("pin-{benchmark}"))];
        for (row, environment, factor) in PINNING {
            let name = format!("results/EPOCH_PIN/{environment}/{benchmark}.csv");
            files.extend(sums(grid, row, &pinned, factor).map(|text| (name, text)));
        }
    }
    files
}

/// The sums over the containers of these columns, in thousands a second; none if nothing was measured.
fn sums(grid: &Grid, row: &str, columns: &[(String, String)], factor: f64) -> Option<String> {
    let line = |(containers, column): &(String, String)| {
        let kops = grid.place(row, column)?.median()?;
        Some(format!("{containers},{kops:.2},{:.2}\n", kops * factor))
    };
    let lines: Vec<String> = columns.iter().filter_map(line).collect();
    (!lines.is_empty())
        .then(|| format!("containers,kops_per_second,kops_per_second_with_factor\n{}", lines.concat()))
}

const OPIMQ_UNITS: &str = "\
results/CONTAINER_THROGHPUT/ENVIRONMENT/BENCHMARK.csv, results/EPOCH_PIN/...: the artifact's directories, in its spelling. It has a
raw file for each container there (N-ID), which its parsers add up; here is the sum, since containers are simulated together.
kops_per_second: thousands of operations (sysbench: transactions) of all containers a second, median of the trials, two decimals
as its parsers print. Nothing is multiplied: the model's device keeps order and pays for it.
kops_per_second_with_factor: multiplied as the artifact's parsers do for the device that it has not: OPIMQ by 0.9895, BFS by 0.95.
In EPOCH_PIN its parse_dbench multiplies opimq+nopin alone; here both are, as in its other two parsers.
";
