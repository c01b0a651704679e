//! What the artifact publishes: result files of its repository, samples of its README. Single runs on a CloudLab
//! r6525 (128 hardware threads, NVMe SSD, 256 GB). The paper's own figures are drawings.

/// What a published gain rests on, beside prefetching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Nothing that is known.
    Plain,
    /// The library is built to read whole files within open, before the program's timer begins.
    ReadInOpen,
    /// The library switches the inode's lock off for the writers, whose throughput is what is published.
    NoWriteLock,
}

impl Basis {
    /// Those that need a remark.
    pub const MARKED: [Basis; 2] = [Basis::ReadInOpen, Basis::NoWriteLock];

    /// The mark of a remark; empty for none.
    pub fn mark(self) -> &'static str {
        match self {
            Basis::Plain => "",
            Basis::ReadInOpen => "A",
            Basis::NoWriteLock => "B",
        }
    }

    /// The remark; empty for none.
    pub fn text(self) -> &'static str {
        match self {
            Basis::Plain => "",
            Basis::ReadInOpen => {
                "the artifact's library reads whole files within open, before the timer begins whose figures are \
                 published; the row `cat first` shows what that alone does to such a timer"
            }
            Basis::NoWriteLock => {
                "the artifact's kernel and library let the writers pass the inode's lock, and the writers' throughput \
                 is what is published"
            }
        }
    }
}

/// Published figures of a column in the artifact's timer; 0 stands for none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// The column.
    pub column: &'static str,
    /// APPonly.
    pub app_only: f64,
    /// OSonly.
    pub os_only: f64,
    /// CrossP[+fetchall+opt].
    pub fetch_all: f64,
    /// CrossP[+predict].
    pub predict: f64,
    /// CrossP[+predict+opt].
    pub opt: f64,
    /// What the last one rests on.
    pub basis: Basis,
    /// Where it stands.
    pub source: &'static str,
}

const FILES: &str = "artifact, multi_read RESULT.csv";
const STRIDED: &str = "artifact, an older table of strided reads (VANILLA, CPNI)";
const SCALABILITY: &str = "artifact, scalability RESULT.csv";
const README: &str = "artifact, README";
const YCSB: &str = "artifact, ops_per_sec.csv";

/// `values`: APPonly, OSonly, fetchall, predict, predict+opt.
const fn line(column: &'static str, values: [f64; 5], basis: Basis, source: &'static str) -> Published {
    let [app_only, os_only, fetch_all, predict, opt] = values;
    Published { column, app_only, os_only, fetch_all, predict, opt, basis, source }
}

/// Every published column.
pub const PUBLISHED: [Published; 18] = [
    line("pvt-seq", [4022.0, 3987.0, 3952.0, 3895.0, 16623.0], Basis::ReadInOpen, FILES),
    line("pvt-rand", [3583.0, 3695.0, 3796.0, 3445.0, 30442.0], Basis::ReadInOpen, FILES),
    line("shared-seq", [3160.0, 3321.0, 2951.0, 3248.0, 5813.0], Basis::ReadInOpen, FILES),
    line("shared-rand", [3042.0, 2958.0, 3033.0, 3232.0, 4808.0], Basis::ReadInOpen, FILES),
    line("stride-2", [737.0, 0.0, 0.0, 0.0, 4448.0], Basis::Plain, STRIDED),
    line("stride-4", [1164.0, 0.0, 0.0, 0.0, 8885.0], Basis::Plain, STRIDED),
    line("stride-8", [1305.0, 0.0, 0.0, 0.0, 17501.0], Basis::Plain, STRIDED),
    line("stride-16", [1309.0, 0.0, 0.0, 0.0, 34560.0], Basis::Plain, STRIDED),
    line("writers-1", [1890.0, 1895.0, 1876.0, 0.0, 5696.0], Basis::NoWriteLock, SCALABILITY),
    line("writers-4", [1884.0, 1852.0, 1834.0, 0.0, 3637.0], Basis::NoWriteLock, SCALABILITY),
    line("writers-8", [1730.0, 1456.0, 1807.0, 0.0, 3169.0], Basis::NoWriteLock, SCALABILITY),
    line("writers-16", [1801.0, 1771.0, 1782.0, 0.0, 2491.0], Basis::NoWriteLock, SCALABILITY),
    line("ycsb-a", [74102.0, 68327.0, 0.0, 0.0, 79685.0], Basis::ReadInOpen, README),
    line("ycsb-b", [316_638.0, 340_164.0, 0.0, 0.0, 583_153.0], Basis::ReadInOpen, README),
    line("ycsb-c", [387_780.0, 482_759.0, 0.0, 0.0, 845_170.0], Basis::ReadInOpen, YCSB),
    line("ycsb-d", [294_602.0, 313_316.0, 0.0, 0.0, 556_638.0], Basis::ReadInOpen, YCSB),
    line("ycsb-e", [3255.0, 7296.0, 0.0, 0.0, 9322.0], Basis::ReadInOpen, YCSB),
    line("ycsb-f", [68599.0, 80414.0, 0.0, 0.0, 86359.0], Basis::ReadInOpen, YCSB),
];

/// What the abstract says of I/O throughput: the least and the largest gain.
pub const ABSTRACT: (f64, f64) = (1.22, 3.7);

impl Published {
    /// The published gain of CrossP[+predict+opt] over APPonly.
    pub fn gain(&self) -> f64 {
        self.opt / self.app_only
    }

    /// The value of a row by its word.
    pub fn of(&self, row: &str) -> Option<f64> {
        let value = match row {
            "app-only" => self.app_only,
            "os-only" => self.os_only,
            "fetch-all" => self.fetch_all,
            "predict" => self.predict,
            "auto" => self.opt,
            _ => 0.0,
        };
        (value > 0.0).then_some(value)
    }
}

/// The published figures of a column.
pub fn of(column: &str) -> Option<&'static Published> {
    PUBLISHED.iter().find(|one| one.column == column)
}

#[cfg(test)]
mod tests {
    use super::super::COLUMNS;
    use super::*;

    #[test]
    fn published_columns_exist_and_have_a_gain() {
        for one in PUBLISHED {
            assert!(COLUMNS.iter().any(|column| column.id == one.column), "{}", one.column);
            assert!(one.gain() > 1.0 && one.of("app-only").is_some() && one.of("cat-first").is_none());
        }
        assert!((of("pvt-rand").unwrap().gain() - 8.5).abs() < 0.01);
    }
}
