//! What of the original's regime the loads reached, and what they did not.

use analysis::grid::Grid;
use analysis::regime::{RegimeStatus, regime_statuses};

use crate::format;

/// A line for each column: what it does not reach, then what it reaches.
pub fn lines(grid: &Grid) -> Vec<String> {
    let all = regime_statuses(grid);
    let mut lines = Vec::new();
    for at in 0..grid.study.columns.len() {
        let mine: Vec<&RegimeStatus<'_>> = all.iter().filter(|one| one.column == at).collect();
        if mine.is_empty() {
            continue;
        }
        let parts = |original, reached| -> Vec<String> {
            mine.iter()
                .filter(|one| one.regime.original == original)
                .filter_map(|one| rows(grid, one, reached))
                .collect()
        };
        let mut told = Vec::new();
        let said = [
            ("does not reach", parts(true, false)),
            ("reaches", parts(true, true)),
            ("reaches, unlike the original,", parts(false, true)),
            ("does not reach, as little as the original,", parts(false, false)),
        ];
        for (word, parts) in said.into_iter().filter(|(_, parts)| !parts.is_empty()) {
            told.push(format!("{word} {}", parts.join(", ")));
        }
        if told.is_empty() {
            told.push("cannot tell: no trial has the counters".into());
        }
        lines.push(format!("{}: {}", grid.study.columns[at].title(), told.join("; ")));
    }
    lines
}

/// A part of the regime with the rows that reached it, or did not, and their counters.
fn rows(grid: &Grid, standing: &RegimeStatus<'_>, reached: bool) -> Option<String> {
    let rows: Vec<String> = standing
        .reached()
        .filter(|(.., is)| *is == reached)
        .map(|(row, least, _)| format!("{} {}", grid.study.rows[row].title(), format::digits(least)))
        .collect();
    let regime = standing.regime;
    let (above, why) = (format::digits(regime.above), &regime.why);
    let because = if why.is_empty() || reached { String::new() } else { format!("; {why}") };
    let needs = if reached { String::new() } else { format!(", above {above} asked") };
    (!rows.is_empty())
        .then(|| format!("{} ({}: {}{needs}{because})", regime.name, regime.counter, rows.join(", ")))
}
