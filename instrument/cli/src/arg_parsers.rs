//! What people type, read alike by every command: times, and the devices that another command printed.

use std::time::Duration;

use camino::Utf8Path;

use crate::console::bad_input;

/// A time such as 30s or 1m30s; `option` names it in the error.
pub fn time(option: &str, text: &str) -> anyhow::Result<Duration> {
    units::parse_duration(text).map_err(|error| bad_input(format!("{option}: {error}")))
}

/// A time for which something is measured: more than nothing.
pub fn length(option: &str, text: &str) -> anyhow::Result<Duration> {
    let length = time(option, text)?;
    if length.is_zero() {
        return Err(bad_input(format!(
            "{option} {text}: nothing can be measured in no time; write one such as 1s or 250ms"
        )));
    }
    Ok(length)
}

/// Variables of a workload, each as `name=value` or `$name=value`.
pub fn variables(set: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let one = |word: &String| {
        let pair = word.split_once('=');
        let (name, value) = pair.ok_or_else(|| bad_input(format!("--set {word}: write --set name=value")))?;
        Ok((name.trim_start_matches('$').to_owned(), value.to_owned()))
    };
    set.iter().map(one).collect()
}

/// The name of an emulated SSD, which may be told by its block device too, as `ssd attach` prints it.
pub fn ssd(home: &Utf8Path, word: &str) -> anyhow::Result<String> {
    if !word.starts_with('/') {
        return Ok(word.to_string());
    }
    let listed = blockdev::list(home)?;
    match listed.iter().find(|one| one.state.device == word) {
        Some(found) => Ok(found.state.name.clone()),
        None if listed.is_empty() => Err(bad_input(format!("{word} is no emulated SSD: none is attached"))),
        None => {
            let known: Vec<String> =
                listed.iter().map(|one| format!("{} ({})", one.state.name, one.state.device)).collect();
            Err(bad_input(format!("{word} is no emulated SSD; attached are {}", known.join(", "))))
        }
    }
}
