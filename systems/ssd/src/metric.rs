//! What can be measured of a device.

use serde::{Deserialize, Serialize};

/// What can be measured; the name says the unit. MB and GB are powers of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "pattern, size, depth and unit are in the names")]
pub enum Metric {
    #[serde(rename = "read-4k-qd1-us")]
    Read4kQd1Us,
    #[serde(rename = "write-4k-qd1-us")]
    Write4kQd1Us,
    #[serde(rename = "write-36k-qd1-us")]
    Write36kQd1Us,
    #[serde(rename = "read-4k-qd1-iops")]
    Read4kQd1Iops,
    #[serde(rename = "write-4k-qd1-iops")]
    Write4kQd1Iops,
    #[serde(rename = "read-4k-qd16-iops")]
    Read4kQd16Iops,
    #[serde(rename = "write-4k-qd16-iops")]
    Write4kQd16Iops,
    #[serde(rename = "read-4k-qd32-iops")]
    Read4kQd32Iops,
    #[serde(rename = "write-4k-qd32-iops")]
    Write4kQd32Iops,
    /// Queue depth 512 over several queues.
    #[serde(rename = "read-4k-max-iops")]
    Read4kMaxIops,
    #[serde(rename = "write-4k-max-iops")]
    Write4kMaxIops,
    /// 1 MiB at depth 8.
    ReadSeqMbS,
    WriteSeqMbS,
    /// Sequential writes without SLC mode.
    WriteSeqNativeMbS,
    /// Written sequentially until the rate falls by a tenth.
    SlcCliffGb,
    /// One 4 KiB write, then a flush: the flush.
    FlushMs,
    /// One 4 KiB FUA write on a clean device.
    #[serde(rename = "fua-4k-ms")]
    Fua4kMs,
}

impl Metric {
    /// The name used in profiles, such as `read-4k-qd1-us`.
    pub fn name(self) -> String {
        toml::Value::try_from(self).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    }
}
