//! A device's counters, for people, JSON and Prometheus.

use std::fmt::Write as _;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::options::{FuaMode, one};
use crate::record::RecordStatus;
use crate::transport::Transport;

/// Counters since the device was attached. Blocks are 4 KiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SsdStatus {
    /// Name.
    pub name: String,
    /// Profile.
    pub profile: String,
    /// Regime.
    pub regime: String,
    /// What flushes cost that stand in for FUA; the counter `fua_flushes` says how many did.
    #[serde(default)]
    pub fua: FuaMode,
    /// The way from the kernel to the daemon.
    #[serde(default)]
    pub transport: Transport,
    /// Hardware queues of the block device.
    #[serde(default = "one")]
    pub queues: u16,
    /// The block device.
    pub device: Utf8PathBuf,
    /// Capacity in bytes.
    pub bytes: u64,
    /// Whether its power was cut.
    pub power_cut: bool,
    /// Slots programmed per block the host wrote; none before the first write.
    pub write_amplification: Option<f64>,
    /// Share of the read blocks found in the write cache; none before the first read.
    pub cache_hit_ratio: Option<f64>,
    /// Requests between arrival and answer now.
    pub queue_depth: u32,
    /// Most there ever were.
    pub queue_depth_max: u32,
    /// Erase counts of the least and the most worn flash block.
    pub wear: (u32, u32),
    /// Bytes of superseded versions kept because a power cut may bring them back.
    pub superseded_bytes: u64,
    /// Answers given.
    pub answers: u64,
    /// Mean time an answer left after the modelled completion, in nanoseconds.
    pub late_ns_mean: u64,
    /// Longest.
    pub late_ns_max: u64,
    /// Time that answers leave early by, to make up for the transport, in nanoseconds.
    pub lead_ns: u64,
    /// How the recording is doing, if there is one.
    #[serde(default)]
    pub record: Option<RecordStatus>,
    /// The model's own counters by name.
    pub counters: std::collections::BTreeMap<String, u64>,
}

impl SsdStatus {
    /// Whether writes come with FUA; on a loop device the kernel sends a flush instead.
    pub fn has_fua(&self) -> bool {
        self.transport == Transport::Ublk && self.fua == FuaMode::Modelled
    }

    /// The counters in Prometheus' text exposition format, each with the label `device`.
    pub fn prometheus(&self) -> String {
        let mut out = String::new();
        let label = format!(
            "{{device=\"{}\",name=\"{}\",profile=\"{}\",regime=\"{}\"}}",
            escape(self.device.as_str()),
            escape(&self.name),
            escape(&self.profile),
            escape(&self.regime)
        );
        let mut put = |name: &str, kind: &str, help: &str, value: Option<f64>| {
            if let Some(value) = value {
                let _ = writeln!(out, "# HELP loadline_ssd_{name} {help}");
                let _ = writeln!(out, "# TYPE loadline_ssd_{name} {kind}");
                let _ = writeln!(out, "loadline_ssd_{name}{label} {value}");
            }
        };
        put("write_amplification", "gauge", "Slots programmed per block written.", self.write_amplification);
        put("cache_hit_ratio", "gauge", "Share of read blocks found in the cache.", self.cache_hit_ratio);
        put("queue_depth", "gauge", "Requests in flight.", Some(self.queue_depth.into()));
        put("queue_depth_max", "gauge", "Most requests in flight so far.", Some(self.queue_depth_max.into()));
        put("erase_count_min", "gauge", "Erases of the least worn block.", Some(self.wear.0.into()));
        put("erase_count_max", "gauge", "Erases of the most worn block.", Some(self.wear.1.into()));
        put("power_cut", "gauge", "1 after a power cut.", Some(f64::from(u8::from(self.power_cut))));
        put("superseded_bytes", "gauge", "Old versions kept.", Some(self.superseded_bytes as f64));
        put("answers_total", "counter", "Requests answered.", Some(self.answers as f64));
        put("late_mean_ns", "gauge", "Mean lateness of an answer.", Some(self.late_ns_mean as f64));
        put("late_max_ns", "gauge", "Longest lateness of an answer.", Some(self.late_ns_max as f64));
        put("lead_ns", "gauge", "Transport time made up for.", Some(self.lead_ns as f64));
        if let Some(record) = &self.record {
            put("recorded_bytes_total", "counter", "Bytes of the recording.", Some(record.bytes as f64));
            let failed = f64::from(u8::from(record.error.is_some()));
            put("record_failed", "gauge", "1 if the recording ended early.", Some(failed));
        }
        for (name, value) in &self.counters {
            // high-water marks are no counters
            let (name, kind) = match name.strip_suffix("_max") {
                Some(_) => (name.clone(), "gauge"),
                None => (format!("{name}_total"), "counter"),
            };
            put(&name, kind, "Counter of the model.", Some(*value as f64));
        }
        out
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_text_has_one_type_and_one_sample_per_metric() {
        let counters = [("erases".to_owned(), 7), ("in_flight_max".to_owned(), 3)].into();
        let status = SsdStatus {
            name: "a\"b".into(),
            profile: "980pro".into(),
            regime: "flush".into(),
            fua: FuaMode::Modelled,
            transport: Transport::default(),
            queues: 1,
            device: "/dev/loop9".into(),
            bytes: 4096,
            power_cut: false,
            write_amplification: Some(1.25),
            cache_hit_ratio: None,
            queue_depth: 2,
            queue_depth_max: 3,
            wear: (0, 4),
            superseded_bytes: 0,
            answers: 10,
            late_ns_mean: 100,
            late_ns_max: 2000,
            lead_ns: 0,
            record: Some(RecordStatus { bytes: 480, ..Default::default() }),
            counters,
        };
        let text = status.prometheus();
        let label = r#"{device="/dev/loop9",name="a\"b",profile="980pro",regime="flush"}"#;
        assert!(text.contains(&format!("loadline_ssd_write_amplification{label} 1.25\n")), "{text}");
        assert!(text.contains(&format!("loadline_ssd_erases_total{label} 7\n")), "{text}");
        assert!(text.contains("# TYPE loadline_ssd_in_flight_max gauge"), "{text}");
        assert!(text.contains(&format!("loadline_ssd_recorded_bytes_total{label} 480\n")), "{text}");
        assert!(!text.contains("cache_hit_ratio"), "nothing was read");
        let types = text.lines().filter(|l| l.starts_with("# TYPE")).count();
        assert_eq!(text.lines().filter(|l| !l.starts_with('#')).count(), types);
    }
}
