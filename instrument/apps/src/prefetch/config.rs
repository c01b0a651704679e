//! The configurations of the CrossPrefetch evaluation, and the baselines that it lacks.

use prefetch::Mode;

use crate::{AppError, Parameters};

/// Read-ahead of [`Config::ReadAhead`], KiB: sixty-four times what Linux has by default.
pub const READ_AHEAD_KIB: u64 = 8192;

/// Who reads ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Config {
    /// The program as it is, with its own hints. No library.
    AppOnly,
    /// The kernel alone: the library drops the program's hints.
    OsOnly,
    /// The library follows streams.
    Predict,
    /// The library follows streams, buys whole files when that pays, and walks directories.
    Auto,
    /// The library fetches whole files from their first reads on.
    FetchAll,
    /// As [`Config::AppOnly`], the kernel's read-ahead raised to [`READ_AHEAD_KIB`].
    ReadAhead,
    /// As [`Config::AppOnly`], all files read by `cat` before, within the wall time.
    CatFirst,
}

impl Config {
    /// Every configuration, in the order of the paper's tables, then the baselines.
    pub const ALL: [Config; 7] = [
        Config::AppOnly,
        Config::OsOnly,
        Config::Predict,
        Config::Auto,
        Config::FetchAll,
        Config::ReadAhead,
        Config::CatFirst,
    ];

    /// The word of the parameter `config`.
    pub fn word(self) -> &'static str {
        match self {
            Config::AppOnly => "app-only",
            Config::OsOnly => "os-only",
            Config::Predict => "predict",
            Config::Auto => "auto",
            Config::FetchAll => "fetch-all",
            Config::ReadAhead => "read-ahead",
            Config::CatFirst => "cat-first",
        }
    }

    /// The library's mode; `None` runs the program without the library.
    pub fn mode(self) -> Option<Mode> {
        match self {
            Config::AppOnly | Config::ReadAhead | Config::CatFirst => None,
            Config::OsOnly => Some(Mode::OsOnly),
            Config::Predict => Some(Mode::Predict),
            Config::Auto => Some(Mode::Auto),
            Config::FetchAll => Some(Mode::FetchAll),
        }
    }

    /// Takes the parameter `config`.
    ///
    /// # Errors
    /// A word that is no configuration.
    pub fn take(parameters: &mut Parameters) -> Result<Config, AppError> {
        let word = parameters.word("config", "app-only");
        let found = Config::ALL.into_iter().find(|config| config.word() == word);
        found.ok_or_else(|| {
            let known: Vec<_> = Config::ALL.iter().map(|config| config.word()).collect();
            AppError::Parameter(format!("config = {word} is none of {}", known.join(", ")))
        })
    }
}
