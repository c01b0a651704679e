//! Any text gives a workload, or a job file for fio itself, or an error that can be shown.

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = fiojob::load(text, "fuzz", &[]) {
        let _ = error.to_string();
    }
    // An option for all jobs: what stands before the first line break.
    if let Some((option, rest)) = text.split_once('\n')
        && let Some((name, value)) = option.split_once('=')
    {
        let _ = fiojob::load(rest, "fuzz", &[(name.into(), value.into())]);
    }
    let _ = fiojob::groups(text);
    if let Err(error) = fiojob::external(text, &[]) {
        let _ = error.to_string();
    }
}
