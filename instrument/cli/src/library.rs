//! The prefetching library as options name it.

use std::path::Path;

use apps::prefetch::Library;
use prefetch::Mode;
use prefetch_os::launch::OFF;

use crate::console::bad_input;

/// The mode of that name, if it is one of those that are known.
pub fn mode_of(text: &str, known: &[Mode]) -> anyhow::Result<Mode> {
    Mode::parse(text.as_bytes()).filter(|mode| known.contains(mode)).ok_or_else(|| {
        let known: Vec<_> = known.iter().map(|mode| mode.name()).collect();
        bad_input(format!("--mode {text}: choose one of {}", known.join(", ")))
    })
}

/// The library that is named, or where it is found; `control` and the mode `off` load it and have it do nothing.
pub fn library(named: Option<&Path>, mode: &str, control: bool) -> anyhow::Result<Library> {
    let off = control || mode == OFF;
    Ok(Library::find(named, if off { None } else { Some(mode_of(mode, Mode::ALL)?) })?)
}
