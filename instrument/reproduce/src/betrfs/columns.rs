//! The columns of Table 3 and the bars of Figure 2.

use stats::{Outcome, Sense};

use crate::ReproduceError;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// The word for `--columns`; also the name of the metric, unless the load is a Filebench personality.
    pub id: &'static str,
    /// The artifact's row name, after `master.`; for what it does not measure, ours.
    pub csv: &'static str,
    /// Heading.
    pub title: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Which way it improves.
    pub sense: Sense,
    /// Where it is shown.
    pub group: Group,
    /// The load that measures it.
    pub load: &'static str,
}

/// Where a column is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Table 3.
    Micro,
    /// Figure 2.
    Application,
    /// What the original leaves out or misleads about: aligned offsets, the closing sync inside the timer.
    Corrected,
}

const fn rate(
    id: &'static str,
    csv: &'static str,
    title: &'static str,
    unit: &'static str,
    load: &'static str,
) -> Column {
    Column { id, csv, title, unit, sense: Sense::HigherIsBetter, group: Group::Micro, load }
}

const fn time(id: &'static str, title: &'static str, load: &'static str) -> Column {
    Column { id, csv: id, title, unit: "s", sense: Sense::LowerIsBetter, group: Group::Micro, load }
}

const fn application(column: Column) -> Column {
    Column { group: Group::Application, ..column }
}

const fn corrected(column: Column) -> Column {
    Column { group: Group::Corrected, ..column }
}

/// Every column; those of Table 3 and Figure 2 in the paper's order.
pub const COLUMNS: [Column; 30] = [
    rate("seq-write", "seq-write80g", "seq. write", "MB/s", "large-file"),
    rate("seq-read", "seq-read80g", "seq. read", "MB/s", "large-file"),
    rate("rand-write-4096", "rand-write-4096", "random 4 KiB", "MB/s", "random-4k"),
    rate("rand-write-4", "rand-write-4", "random 4 B", "MB/s", "random-4b"),
    rate("tokubench", "tokubench", "TokuBench", "MB/s", "tokubench"),
    time("grep", "grep", "tree"),
    time("find", "find", "tree"),
    time("del", "rm", "tree"),
    application(time("git-clone", "git clone", "git")),
    application(time("git-diff", "git diff", "git")),
    application(time("tar", "tar", "tar")),
    application(time("untar", "untar", "tar")),
    application(rate("rsync", "rsync", "rsync", "MB/s", "rsync")),
    application(rate("rsync-inplace", "rsync-inplace", "rsync in place", "MB/s", "rsync")),
    application(rate("mailserver", "mailserver", "IMAP", "op/s", "imap")),
    application(rate("oltp", "oltp-ops", "OLTP", "op/s", "oltp")),
    application(rate("fileserver", "fileserver-ops", "fileserver", "op/s", "fileserver")),
    application(rate("webproxy", "webproxy-ops", "webproxy", "op/s", "webproxy")),
    application(rate("webserver", "webserver-ops", "webserver", "op/s", "webserver")),
    corrected(rate("seq-write10g", "seq-write10g", "seq. write, smaller file", "MB/s", "random-4k")),
    corrected(rate(
        "rand-write-4096-aligned",
        "rand-write-4096-aligned",
        "random 4 KiB, aligned",
        "MB/s",
        "random-4k",
    )),
    corrected(rate(
        "rand-write-4-aligned",
        "rand-write-4-aligned",
        "random 4 B, aligned",
        "MB/s",
        "random-4b",
    )),
    corrected(rate("tokubench-synced", "tokubench-synced", "TokuBench + sync", "MB/s", "tokubench")),
    corrected(time("del-synced", "rm + sync", "tree")),
    corrected(time("git-clone-synced", "git clone + sync", "git")),
    corrected(time("git-diff-synced", "git diff + sync", "git")),
    corrected(time("tar-synced", "tar + sync", "tar")),
    corrected(time("untar-synced", "untar + sync", "tar")),
    corrected(time("rsync-time-synced", "rsync + sync", "rsync")),
    corrected(time("rsync-inplace-time-synced", "rsync in place + sync", "rsync")),
];

impl Column {
    /// The column's value in what a trial measured.
    pub fn value(&self, outcome: &Outcome) -> Option<f64> {
        if is_filebench(self.load) {
            return Some(outcome.io_ops_per_second()).filter(|rate| *rate > 0.0);
        }
        let metric = outcome.metrics.iter().find(|metric| metric.name == self.id)?;
        Some(metric.value).filter(|value| value.is_finite())
    }

    /// A counter of the column's measured section.
    pub fn counter(&self, outcome: &Outcome, name: &str) -> Option<f64> {
        let section = match self.id {
            "rsync" => "rsync-time",
            "rsync-inplace" => "rsync-inplace-time",
            id => id.strip_suffix("-synced").unwrap_or(id),
        };
        let name = if is_filebench(self.load) { name.to_string() } else { format!("{section}/{name}") };
        outcome.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value)
    }
}

/// Whether a load is a Filebench personality.
pub fn is_filebench(load: &str) -> bool {
    ["oltp", "fileserver", "webproxy", "webserver"].contains(&load)
}

/// The columns of a list such as `seq-write,grep`; the words `micro` and `applications` stand for Table 3 and Figure 2.
///
/// # Errors
/// A word that is no column.
pub fn choose(list: &str) -> Result<Vec<Column>, ReproduceError> {
    let mut chosen: Vec<Column> = Vec::new();
    for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let matches = |column: &Column| match word {
            "micro" => column.group == Group::Micro,
            "applications" => column.group == Group::Application,
            _ => column.id == word && column.group != Group::Corrected,
        };
        let found: Vec<Column> = COLUMNS.into_iter().filter(matches).collect();
        if found.is_empty() {
            let known: Vec<&str> = COLUMNS
                .iter()
                .filter(|column| column.group != Group::Corrected)
                .map(|column| column.id)
                .collect();
            let message =
                format!("`{word}` is no column; columns are micro, applications, {}", known.join(", "));
            return Err(ReproduceError::Unknown(message));
        }
        chosen.extend(found.into_iter().filter(|column| !chosen.contains(column)).collect::<Vec<_>>());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_3_has_eight_columns_and_figure_2_eleven_bars() {
        assert_eq!((choose("micro").unwrap().len(), choose("applications").unwrap().len()), (8, 11));
        assert_eq!(choose("grep,micro").unwrap().len(), 8);
        assert!(choose("frobnicate").unwrap_err().to_string().contains("tokubench"));
        let mut ids: Vec<&str> = COLUMNS.iter().map(|column| column.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), COLUMNS.len());
    }
}
