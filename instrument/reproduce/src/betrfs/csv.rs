//! The artifact's thirteen result files, with its row names.

use stats::Sample;

use super::grid::Grid;

/// The files of a run: `(name, text)`. `date` becomes part of their names, as in the artifact.
pub fn files(grid: &Grid, date: &str) -> Vec<(String, String)> {
    let mut files = vec![("UNITS.txt".to_string(), units(grid))];
    for (row, cells) in grid.rows.iter().zip(&grid.cells) {
        let mut text = "Name,N,Min,Max,Median,Avg,Stddev\n".to_string();
        for (column, cell) in grid.columns.iter().zip(cells) {
            let Ok(sample) = Sample::new(&cell.values) else { continue };
            text.push_str(&format!(
                "master.{},{},{},{},{},{},{}\n",
                column.csv,
                sample.len(),
                sample.min(),
                sample.max(),
                sample.median(),
                sample.mean(),
                sample.stddev()
            ));
        }
        files.push((format!("{}-{date}.csv", row.file), text));
    }
    files
}

/// Units, with what the artifact's README says otherwise.
fn units(grid: &Grid) -> String {
    let mut text = String::from(
        "Units of the rows. MB is 10^6 bytes.\n\
         The artifact's README says that `mailserver` is in seconds: its script has converted it to op/s already, and it is op/s here too.\n\
         `tokubench` is MB/s of 200-byte payloads: 1 MB/s is 5,000 files a second.\n\
         `seq-read80g` is bytes by seconds; the artifact takes a number of dd's line without its unit, which is GB/s above 1 GB/s.\n\
         The sizes in the names (80g, 10g) are the paper's; those used here are in the report.\n\n",
    );
    for column in &grid.columns {
        text.push_str(&format!("master.{}: {}\n", column.csv, column.unit));
    }
    text
}
