//! Who reads ahead: the paper's configurations, and two baselines that it lacks.

use apps::prefetch::Config;

use crate::ReproduceError;

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// As the paper's tables call it; of the baselines, ours.
    pub title: &'static str,
    /// What runs. Its word is that of `--rows`.
    pub config: Config,
    /// What the paper's row was, and what stands for it.
    pub mapping: &'static str,
}

const fn row(title: &'static str, config: Config, mapping: &'static str) -> Row {
    Row { title, config, mapping }
}

/// Every row: the paper's five, then the baselines.
pub const ROWS: [Row; 7] = [
    row(
        "APPonly",
        Config::AppOnly,
        "the program with its own hints, no library (artifact: a library that passes all on)",
    ),
    row(
        "OSonly",
        Config::OsOnly,
        "the library drops the program's hints, mode os-only (mmap: the program gives hints)",
    ),
    row(
        "CrossP[+predict]",
        Config::Predict,
        "mode predict: streams are followed, nothing else (artifact: its caps kept)",
    ),
    row(
        "CrossP[+predict+opt]",
        Config::Auto,
        "mode auto: streams, whole files when that pays, directories (artifact: the kernel's caps lifted, and in most \
         builds the whole file read within open)",
    ),
    row(
        "CrossP[+fetchall+opt]",
        Config::FetchAll,
        "mode fetch-all: whole files from their first reads on, within memory",
    ),
    row(
        "read_ahead 8 MiB",
        Config::ReadAhead,
        "not in the paper: the kernel's read-ahead of the device at 8,192 KiB",
    ),
    row(
        "cat first",
        Config::CatFirst,
        "not in the paper: all files read by cat before, within the wall time",
    ),
];

impl Row {
    /// The word for `--rows`.
    pub fn id(&self) -> &'static str {
        self.config.word()
    }
}

/// The rows of a list such as `app-only,auto`; `paper` stands for the five of the paper, `all` for all.
///
/// # Errors
/// A word that is no row.
pub fn choose(list: &str) -> Result<Vec<Row>, ReproduceError> {
    let mut chosen: Vec<Row> = Vec::new();
    for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let found: Vec<Row> = match word {
            "all" => ROWS.to_vec(),
            "paper" => ROWS[..5].to_vec(),
            _ => ROWS.into_iter().filter(|row| row.id() == word).collect(),
        };
        if found.is_empty() {
            let known: Vec<&str> = ROWS.iter().map(Row::id).collect();
            let message = format!("`{word}` is no row; rows are all, paper, {}", known.join(", "));
            return Err(ReproduceError::Unknown(message));
        }
        chosen.extend(found.into_iter().filter(|row| !chosen.contains(row)).collect::<Vec<_>>());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_word() {
        assert_eq!((choose("paper").unwrap().len(), choose("all").unwrap().len()), (5, 7));
        assert_eq!(choose("auto, app-only,paper").unwrap().len(), 5);
        assert!(choose("ext4").unwrap_err().to_string().contains("fetch-all"));
        let mut configs: Vec<&str> = ROWS.iter().map(Row::id).collect();
        configs.sort_unstable();
        let mut all: Vec<&str> = Config::ALL.iter().map(|config| config.word()).collect();
        all.sort_unstable();
        assert_eq!(configs, all);
    }
}
