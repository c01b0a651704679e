//! The parametric profile `slow(LATENCY,RATE[,depth=N])`: a device of one latency and one bandwidth.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::error::ProfileError;
use crate::profile::Profile;

const SYNTAX: &str = "slow(LATENCY,RATE[,depth=N]), such as slow(1ms,1GB/s)";
/// Latencies lie below this.
const LATENCY_MAX: Duration = Duration::from_secs(60);
/// Bytes in a second: something, and less than any device has.
const RATES: std::ops::Range<u64> = 1..1_000_000_000_000_000;

impl Profile {
    /// A power-protected device on which every command takes `latency_ns` and its transfer, all transfers of one
    /// direction share `bytes_per_s`, and at most `depth` commands are in the device at a time. Nothing else takes
    /// time: no flash, no collection, no flush. For questions of latency and bandwidth alone, such as
    /// read-ahead's.
    ///
    /// # Errors
    /// [`ProfileError`] when a value is out of range.
    pub fn slow(
        latency_ns: u64,
        bytes_per_s: u64,
        depth: Option<NonZeroU32>,
    ) -> Result<Profile, ProfileError> {
        let mut profile = Profile::named("ideal")?;
        profile.name = "slow".into();
        profile.title = format!(
            "{} us and {} MB/s, whatever is asked",
            latency_ns as f64 / 1e3,
            bytes_per_s as f64 / 1e6
        );
        profile.host.read_ns = latency_ns;
        profile.host.write_ns = latency_ns;
        profile.host.read_bytes_per_s = bytes_per_s;
        profile.host.write_bytes_per_s = bytes_per_s;
        if let Some(depth) = depth {
            profile.host.queues = 1;
            profile.host.queue_depth = depth.get();
        }
        profile.sources.clear();
        profile.published.clear();
        profile.validate()?;
        Ok(profile)
    }

    /// Reads `slow(...)`; `None` when `text` does not begin so.
    pub(crate) fn parse_slow(text: &str) -> Option<Result<Profile, ProfileError>> {
        let inner = text.strip_prefix("slow")?;
        let bad = |what: &'static str| ProfileError::Value {
            profile: "slow".into(),
            field: what,
            value: text.to_owned(),
            must_be: SYNTAX,
        };
        let Some(words) = inner.strip_prefix('(').and_then(|words| words.strip_suffix(')')) else {
            return (inner.is_empty()).then(|| Err(bad("parameters")));
        };
        let words: Vec<&str> = words.split(',').map(str::trim).collect();
        Some(read(&words, bad))
    }
}

fn read(words: &[&str], bad: impl Fn(&'static str) -> ProfileError) -> Result<Profile, ProfileError> {
    let (latency, rate, rest) = match words {
        [latency, rate, rest @ ..] => (latency, rate, rest),
        _ => return Err(bad("parameters")),
    };
    let latency = units::parse_latency(latency).ok().filter(|latency| *latency < LATENCY_MAX);
    let latency_ns = latency.ok_or_else(|| bad("latency"))?.as_nanos() as u64;
    let rate = units::parse_rate(rate).ok().filter(|rate| RATES.contains(rate)).ok_or_else(|| bad("rate"))?;
    let depth = match rest {
        [] => None,
        [word] => {
            let depth = word.strip_prefix("depth=").and_then(|n| n.parse::<NonZeroU32>().ok());
            Some(depth.ok_or_else(|| bad("depth"))?)
        }
        _ => return Err(bad("parameters")),
    };
    Profile::slow(latency_ns, rate, depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Metric, measure};

    #[test]
    fn latency_and_rate_are_what_was_asked() {
        let profile = Profile::named("slow(1ms,1GB/s)").unwrap();
        let us = measure(&profile, Metric::Read4kQd1Us).unwrap();
        assert!((us - 1004.1).abs() < 1.0, "{us}");
        let profile = Profile::named("slow(20us,500MB/s,depth=4)").unwrap();
        assert_eq!((profile.host.queues, profile.host.queue_depth), (1, 4));
        assert_eq!(profile.host.read_bytes_per_s, 500_000_000);
    }

    #[test]
    fn what_is_wrong_is_told_with_the_way_to_write_it() {
        for text in
            ["slow", "slow()", "slow(1ms)", "slow(x,1GB/s)", "slow(1ms,0B/s)", "slow(1ms,1GB/s,depth=0)"]
        {
            let message = Profile::named(text).unwrap_err().to_string();
            assert!(message.contains("slow(1ms,1GB/s)"), "{text}: {message}");
        }
        assert!(Profile::named("slower").unwrap_err().to_string().contains("980pro"));
    }
}
