//! What several tests of the command line ask.

/// How lines begin in which the doctor tells what it found (`loadline doctor`).
const FINDINGS: [&str; 7] =
    ["run `", "journal ", "removed", "gone before", "deferred", "left alone", "FAILED"];

/// What a doctor found that process `of` may have left. Tracing instances belong to the machine, not to a home: those of
/// other processes come from tests that kill theirs.
pub fn found(doctor: &str, of: u32) -> Vec<&str> {
    let of_others = |line: &str| {
        line.starts_with("removed     tracing instance ") && !line.contains(&format!("loadline-{of}-"))
    };
    let lines = doctor.lines().filter(|line| FINDINGS.iter().any(|finding| line.starts_with(finding)));
    let found: Vec<_> = lines.clone().filter(|line| !of_others(line)).collect();
    assert!(lines.count() > 0 || doctor.contains("nothing was left behind"), "{doctor}");
    found
}
