//! The artifact's result files, and what they leave out.

use super::columns::Group;
use super::grid::Grid;

/// The artifact's order of configurations: header and row.
const ARTIFACT: [(&str, &str); 5] = [
    ("APPonly", "app-only"),
    ("OSonly", "os-only"),
    ("CrossP[+fetchall+opt]", "fetch-all"),
    ("CrossP[+predict]", "predict"),
    ("CrossP[+predict+opt]", "auto"),
];

/// The files of a run: `(name, text)`. Each figure has the artifact's file (its own timer, rounded, columns that it
/// has), and `WALL-` beside it (all rows). `DETAILS.csv` has everything.
pub fn files(grid: &Grid) -> Vec<(String, String)> {
    let mut files =
        vec![("DETAILS.csv".to_string(), details(grid)), ("UNITS.txt".to_string(), UNITS.to_string())];
    for group in Group::ALL {
        if grid.of_group(group).is_empty() {
            continue;
        }
        files.push((group.file().to_string(), artifact(grid, group)));
        files.push((format!("WALL-{}", group.file()), wall(grid, group)));
    }
    files
}

const UNITS: &str = "\
Figure-*, Table-*: the artifact's files. MB/s, YCSB op/s, by the artifact's own timer, which begins after the opening of
files; rounded; medians. The artifact's file of Figure 6 has no label column: its lines are 1, 4, 8 and 16 readers, its
columns APPonly, OSonly, CrossP[+fetchall+opt], CrossP[+predict+opt], its values those of the writers.
WALL-*: the same work by the wall time of the whole program, with the baselines that the paper lacks.
DETAILS.csv: every cell; MB is 10^6 bytes; an empty field was not measured. MB/s of db_bench are those that it prints (2^20).
";

fn rounded(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.0}"))
}

fn artifact(grid: &Grid, group: Group) -> String {
    let mut text = String::new();
    let shared = group == Group::Shared;
    let configurations: Vec<(&str, &str)> =
        ARTIFACT.into_iter().filter(|(_, row)| !shared || *row != "predict").collect();
    if !shared {
        let heads: Vec<&str> = configurations.iter().map(|(head, _)| *head).collect();
        text.push_str(&format!("Workload,{}\n", heads.join(",")));
    }
    for at in grid.of_group(group) {
        let column = &grid.columns[at];
        if column.id.starts_with("readers-") {
            continue;
        }
        let values: Vec<String> = configurations
            .iter()
            .map(|(_, row)| rounded(grid.cell(row, column.id).and_then(super::grid::Cell::timed)))
            .collect();
        let label = if shared { String::new() } else { format!("{},", column.csv) };
        text.push_str(&format!("{label}{}\n", values.join(",")));
    }
    text
}

fn wall(grid: &Grid, group: Group) -> String {
    let heads: Vec<&str> = grid.rows.iter().map(|row| row.title).collect();
    let mut text = format!("Workload,{}\n", heads.join(","));
    for at in grid.of_group(group) {
        let values: Vec<String> = grid
            .cells
            .iter()
            .map(|cells| cells[at].wall().map_or(String::new(), |value| format!("{value:.1}")))
            .collect();
        text.push_str(&format!("{},{}\n", grid.columns[at].id, values.join(",")));
    }
    text
}

fn details(grid: &Grid) -> String {
    let mut text =
        "column,row,unit,trials,wall,timed,wall_seconds,timed_seconds,p50_us,p99_us,cpu_seconds,device_mb,\
                    prefetched_mb,useful_mb,wasted_mb\n"
            .to_string();
    for (at, column) in grid.columns.iter().enumerate() {
        for (row, cells) in grid.rows.iter().zip(&grid.cells) {
            let cell = &cells[at];
            let Some(wall) = cell.wall() else { continue };
            let costs = &cell.costs;
            let numbers = [
                wall,
                cell.timed().unwrap_or(f64::NAN),
                costs.wall_seconds,
                costs.timed_seconds,
                costs.p50_us,
                costs.p99_us,
                costs.cpu_seconds,
                costs.device_mb,
                costs.prefetched_mb,
                costs.useful_mb,
                costs.wasted_mb,
            ];
            let numbers: Vec<String> = numbers
                .iter()
                .map(|value| if value.is_finite() { format!("{value:.4}") } else { String::new() })
                .collect();
            text.push_str(&format!(
                "{},{},{},{},{}\n",
                column.id,
                row.id(),
                column.group.unit(),
                cell.wall.len(),
                numbers.join(",")
            ));
        }
    }
    text
}
