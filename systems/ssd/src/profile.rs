//! A device as data: the TOML profiles, their fields, and their validation.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::built_in::BUILT_IN;
use crate::error::ProfileError;
use crate::metric::Metric;

pub use crate::built_in::NAMES;

/// Everything the model knows of one device. Times are nanoseconds, rates bytes per second.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Short name, as in `ext4@980pro`.
    pub name: String,
    /// The device it describes.
    pub title: String,
    /// Capacity of the real device.
    pub capacity_bytes: u64,
    /// Host interface.
    pub host: Host,
    /// Write cache.
    pub cache: Cache,
    /// Durability commands.
    pub flush: Flush,
    /// What holds the bits.
    pub media: Media,
    /// Translation layer.
    pub ftl: FtlParams,
    /// Power.
    pub power: Power,
    /// Where each value comes from: dotted field name to source.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
    /// Published figures that the model must give.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// Host interface: what every command passes.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// I/O submission queues (the `barrier` regime uses one).
    pub queues: u16,
    /// Entries of each.
    pub queue_depth: u32,
    /// Link rate towards the host.
    pub read_bytes_per_s: u64,
    /// Link rate from the host.
    pub write_bytes_per_s: u64,
    /// Controller time each command occupies: the inverse of the command-rate limit.
    pub command_ns: u64,
    /// Latency every read pays besides media and transfer; overlaps between commands.
    pub read_ns: u64,
    /// Likewise for a write.
    pub write_ns: u64,
}

/// Write cache.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Write data the device holds before it makes the host wait.
    pub bytes: u64,
    /// After this time without writes a partly filled program unit is written anyway.
    pub drain_idle_ns: u64,
}

/// Durability commands. Each figure is added to the modelled drain of data and map.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Flush {
    /// Added to a FLUSH that found something to persist.
    pub overhead_ns: u64,
    /// Last part of `overhead_ns` in which the next FLUSH is served already: it delays the answer, not the device.
    #[serde(default)]
    pub overlap_ns: u64,
    /// A FLUSH that found nothing.
    pub clean_ns: u64,
    /// Added to a FUA write.
    pub fua_overhead_ns: u64,
}

/// How the media works.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum MediaKind {
    /// NAND: pages programmed in order in blocks that are erased whole.
    Flash,
    /// Rewritable in place, without erase (3D XPoint, DRAM).
    Inplace,
    /// One arm over a spinning disk.
    Rotating,
}

/// The media.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Media {
    /// How it works.
    pub kind: MediaKind,
    /// Channels.
    pub channels: u32,
    /// Dies on each.
    pub dies_per_channel: u32,
    /// Planes of a die; a program writes a page on each, a read occupies one.
    pub planes: u32,
    /// Bytes of a page, a multiple of 4096.
    pub page_bytes: u64,
    /// Pages of a block (per plane). Lowered for small capacities so that each die keeps enough blocks.
    pub pages_per_block: u32,
    /// Channel rate.
    pub channel_bytes_per_s: u64,
    /// Page read (tR).
    pub read_ns: u64,
    /// Page program (tPROG) of the whole die, native mode.
    pub program_ns: u64,
    /// Likewise in SLC mode.
    pub program_slc_ns: u64,
    /// Block erase (tBERS).
    pub erase_ns: u64,
    /// A read that finds its die programming or erasing waits at most this long (program suspend).
    pub suspend_ns: u64,
    /// Bytes written in SLC mode before native speed begins; 0 = no SLC cache.
    pub slc_bytes: u64,
    /// Idle time after which SLC blocks are folded into native ones.
    pub fold_idle_ns: u64,
    /// Rotating media only.
    #[serde(default)]
    pub rotation: Option<Rotation>,
}

/// A spinning disk.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// Time of one revolution.
    pub revolution_ns: u64,
    /// Shortest seek.
    pub seek_min_ns: u64,
    /// Mean of a random seek (a third of the stroke).
    pub seek_mean_ns: u64,
}

/// Translation layer.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct FtlParams {
    /// Spare flash over the logical capacity, as a fraction.
    pub over_provisioning: f64,
    /// Program of one map page (journal or segment).
    pub map_program_ns: u64,
    /// Map changes one journal page holds.
    pub journal_entries: u32,
    /// Journal pages kept before map segments are written and the journal trimmed.
    pub journal_pages_max: u32,
    /// Blocks that may wait on flash for earlier epochs.
    pub suspended_blocks_max: u32,
    /// Erase-count spread at which a little-worn block is collected although it is full.
    pub wear_spread_max: u32,
}

/// Power.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Power-loss protection: what the cache holds survives.
    pub plp: bool,
    /// Whether idle states are modelled.
    pub idle_states: bool,
    /// Idle time before the first state.
    pub idle_after_ns: u64,
    /// Its wake-up.
    pub idle_wake_ns: u64,
    /// Idle time before the deep state; 0 = there is none.
    pub deep_after_ns: u64,
    /// Its wake-up.
    pub deep_wake_ns: u64,
}

/// One published figure.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What is measured.
    pub metric: Metric,
    /// The published value, in the unit of the metric.
    pub value: f64,
    /// Allowed relative difference.
    pub tolerance: f64,
    /// Who published it.
    pub source: String,
}

impl Profile {
    /// A built-in profile, or `slow(LATENCY,RATE[,depth=N])` ([`Profile::slow`]).
    ///
    /// # Errors
    /// [`ProfileError::Unknown`] if there is none of that name.
    pub fn named(name: &str) -> Result<Profile, ProfileError> {
        if let Some(slow) = Profile::parse_slow(name) {
            return slow;
        }
        match BUILT_IN.iter().find(|(n, _)| *n == name) {
            Some((n, text)) => Profile::parse(n, text),
            None => Err(ProfileError::Unknown { name: name.to_owned() }),
        }
    }

    /// The TOML text of a built-in profile.
    pub fn built_in_text(name: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
    }

    /// Reads and validates a profile; `name` is used in messages.
    ///
    /// # Errors
    /// [`ProfileError::Syntax`] or [`ProfileError::Value`].
    pub fn parse(name: &str, text: &str) -> Result<Profile, ProfileError> {
        let profile: Profile = toml::from_str(text)
            .map_err(|e| ProfileError::Syntax { name: name.to_owned(), source: Box::new(e) })?;
        profile.validate()?;
        Ok(profile)
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`ProfileError::Value`] with the first field out of range.
    pub fn validate(&self) -> Result<(), ProfileError> {
        let m = &self.media;
        let checks: [(&'static str, String, bool, &'static str); 17] = [
            ("host.queues", self.host.queues.to_string(), self.host.queues >= 1, "at least 1"),
            ("host.queue_depth", self.host.queue_depth.to_string(), self.host.queue_depth >= 1, "at least 1"),
            rate("host.read_bytes_per_s", self.host.read_bytes_per_s),
            rate("host.write_bytes_per_s", self.host.write_bytes_per_s),
            rate("media.channel_bytes_per_s", m.channel_bytes_per_s),
            ("cache.bytes", self.cache.bytes.to_string(), self.cache.bytes >= 65_536, "at least 65536"),
            (
                "cache.drain_idle_ns",
                self.cache.drain_idle_ns.to_string(),
                self.cache.drain_idle_ns > 0,
                "> 0",
            ),
            (
                "flush.overlap_ns",
                self.flush.overlap_ns.to_string(),
                self.flush.overlap_ns <= self.flush.overhead_ns,
                "at most flush.overhead_ns",
            ),
            count("media.channels", m.channels, 64),
            count("media.dies_per_channel", m.dies_per_channel, 64),
            count("media.planes", m.planes, 16),
            (
                "media.page_bytes",
                m.page_bytes.to_string(),
                m.page_bytes > 0 && m.page_bytes.is_multiple_of(4096) && m.page_bytes <= 65_536,
                "a multiple of 4096 up to 65536",
            ),
            count("media.pages_per_block", m.pages_per_block, 65_536),
            (
                "ftl.over_provisioning",
                self.ftl.over_provisioning.to_string(),
                (0.02..=4.0).contains(&self.ftl.over_provisioning),
                "between 0.02 and 4",
            ),
            count("ftl.journal_entries", self.ftl.journal_entries, 1 << 20),
            count("ftl.journal_pages_max", self.ftl.journal_pages_max, 1 << 20),
            (
                "media.rotation",
                format!("{:?}", m.rotation.is_some()),
                (m.kind == MediaKind::Rotating) == m.rotation.is_some(),
                "given for rotating media and only for them",
            ),
        ];
        for (field, value, fine, must_be) in checks {
            if !fine {
                return Err(ProfileError::Value { profile: self.name.clone(), field, value, must_be });
            }
        }
        Ok(())
    }
}

fn rate(field: &'static str, v: u64) -> (&'static str, String, bool, &'static str) {
    (field, v.to_string(), (1..=1_000_000_000_000_000).contains(&v), "between 1 and 1e15 bytes/s")
}

fn count(field: &'static str, v: u32, max: u32) -> (&'static str, String, bool, &'static str) {
    (field, v.to_string(), v >= 1 && v <= max, "at least 1 and within the model's limit")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dotted names of all leaves outside `sources` and `published`.
    fn leaves(prefix: &str, table: &toml::Table, out: &mut Vec<String>) {
        for (key, value) in table {
            let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match value {
                toml::Value::Table(_) if name == "sources" => {}
                toml::Value::Array(_) => {}
                toml::Value::Table(t) => leaves(&name, t, out),
                _ => out.push(name),
            }
        }
    }

    #[test]
    fn every_value_has_a_source_and_every_source_a_value() {
        for name in NAMES {
            let profile = Profile::named(name).unwrap();
            assert_eq!(profile.name, name);
            let text: toml::Table = Profile::built_in_text(name).unwrap().parse().unwrap();
            let mut fields = Vec::new();
            leaves("", &text, &mut fields);
            for field in &fields {
                if field == "name" || field == "title" {
                    continue;
                }
                assert!(profile.sources.contains_key(field), "{name}: no source for {field}");
            }
            for key in profile.sources.keys() {
                assert!(fields.contains(key), "{name}: source for unknown field {key}");
            }
            assert!(!profile.published.is_empty(), "{name}: nothing published");
        }
    }

    #[test]
    fn errors_name_the_field() {
        let text = Profile::built_in_text("980pro").unwrap().replacen("planes = ", "planes = 9", 1);
        let e = Profile::parse("x", &text).unwrap_err().to_string();
        assert!(e.contains("media.planes"), "{e}");
        let text = Profile::built_in_text("980pro").unwrap().replacen("[cache]", "[cache]\nbits = 3", 1);
        let e = Profile::parse("x", &text).unwrap_err().to_string();
        assert!(e.contains("bits"), "{e}");
        assert!(Profile::named("floppy").unwrap_err().to_string().contains("plp-datacenter"));
    }
}
