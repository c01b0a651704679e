//! Histograms as an HdrHistogram log, for the tools around that format.
//!
//! Log format 1.3: comment lines, a legend, then one line for each histogram with tag, start and length in
//! seconds, maximum in milliseconds, and the histogram in the compressed V2 encoding, base64. The length is what the operation's
//! rates divide by.

use std::fmt::Write as _;

use stats::histogram::HdrError;
use study::results::Run;
use thiserror::Error;

/// A histogram could not be encoded.
#[derive(Debug, Error)]
#[error("cannot encode the histogram of {tag}: {error}")]
pub struct LogError {
    /// The tag that its line would have.
    pub tag: String,
    /// The encoder's error.
    pub error: HdrError,
}

/// All histograms of all results of a run. Tags read `LOAD/STACK/FLOWOP/trial-N/service` or `.../intended`;
/// commas and blanks of labels become `;` and `_`.
///
/// # Errors
/// [`LogError`] when a histogram cannot be encoded, which none is known to provoke.
pub fn log(run: &Run) -> Result<String, LogError> {
    let epoch = run.started.as_millisecond() as f64 / 1e3;
    let mut text = String::from("#[Histogram log format version 1.3]\n");
    let _ = writeln!(text, "#[StartTime: {epoch:.3} (seconds since epoch), {}]", run.started);
    let _ = writeln!(text, "#[run {} of loadline {}; values in nanoseconds]", run.id, run.loadline);
    text.push_str(
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
    );
    for trial in run.trials.iter().filter(|trial| trial.status.is_done()) {
        let (Some(outcome), Some(cell)) = (&trial.outcome, run.cell(trial.cell)) else { continue };
        let start = (trial.started.as_millisecond() - run.started.as_millisecond()) as f64 / 1e3;
        for op in &outcome.ops {
            let label = format!("{}/{}/{}/trial-{}", cell.load_label(), cell.stack, op.name, trial.index + 1);
            let kinds = [("service", Some(&op.service)), ("intended", op.intended.as_ref())];
            for (kind, histogram) in kinds {
                let Some(histogram) = histogram.filter(|histogram| !histogram.is_empty()) else { continue };
                let tag = tag(&format!("{label}/{kind}"));
                let encoded = histogram
                    .to_hdr_v2_compressed_base64()
                    .map_err(|error| LogError { tag: tag.clone(), error })?;
                let max = histogram.max().unwrap_or(0) as f64 / 1e6;
                let seconds = outcome.op_seconds(op);
                let _ = writeln!(text, "Tag={tag},{start:.3},{seconds:.3},{max:.3},{encoded}");
            }
        }
    }
    Ok(text)
}

/// The format forbids commas, blanks and line breaks in tags.
fn tag(label: &str) -> String {
    label
        .chars()
        .map(|c| {
            if c == ',' {
                ';'
            } else if c.is_whitespace() {
                '_'
            } else {
                c
            }
        })
        .collect()
}
