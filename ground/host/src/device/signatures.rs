//! Partition tables and file systems found on a device or in a file, by blkid and wipefs (both only read), and
//! loadline's own, which these do not know.

use std::fmt;
use std::fs::File;
use std::io::Read;

use camino::Utf8Path;
use serde::Serialize;

use crate::runner::{CommandLine, Runner};

/// How a store of betrfs begins: the superblock of crate `betree` without its version, and where its copies lie. Crate
/// `betrfs` tests that this finds what it makes.
const BETRFS: &[u8] = b"\"BEtree";

/// One signature: a partition table, a file system, a member of an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// Such as `ext4`, `gpt`, `LVM2_member`, `linux_raid_member`.
    pub kind: String,
    /// The label, if it has one.
    pub label: Option<String>,
    /// The UUID, if it has one.
    pub uuid: Option<String>,
}

impl Signature {
    /// Whether this device is a part of an array or a volume group.
    pub fn is_member(&self) -> bool {
        self.kind.ends_with("_member") || self.kind == "bcache" || self.kind == "drbd"
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(label) = &self.label {
            write!(f, " labelled `{label}`")?;
        }
        match &self.uuid {
            Some(uuid) => write!(f, " (UUID {uuid})"),
            None => Ok(()),
        }
    }
}

/// All signatures on `device`; an error when neither program can tell.
pub(super) fn probe(runner: &dyn Runner, device: &Utf8Path) -> Result<Vec<Signature>, String> {
    let mut found = blkid(runner, device)?;
    // blkid names the most likely one, wipefs all of them
    for signature in wipefs(runner, device)? {
        if !found.iter().any(|known| known.kind == signature.kind) {
            found.push(signature);
        }
    }
    if found.is_empty() && is_betrfs(device) {
        found.push(Signature { kind: "betrfs".into(), label: None, uuid: None });
    }
    Ok(found)
}

fn is_betrfs(device: &Utf8Path) -> bool {
    let mut head = [0; BETRFS.len()];
    File::open(device).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == BETRFS
}

fn blkid(runner: &dyn Runner, device: &Utf8Path) -> Result<Vec<Signature>, String> {
    let command = CommandLine::new("blkid", ["-p", "-o", "export", device.as_str()]);
    let output = runner.run(&command).map_err(|error| format!("`{command}`: {error}"))?;
    match (output.code, output.message()) {
        (Some(0), _) => Ok(parse_blkid(&output.stdout)),
        // 2 is both "nothing found" (silently) and "cannot be read" (with a message); 8 is "several found"
        (Some(2), "") | (Some(8), _) => Ok(Vec::new()),
        (code, message) => Err(format!("`{command}` failed ({code:?}): {message}")),
    }
}

fn parse_blkid(text: &str) -> Vec<Signature> {
    let value = |key: &str| {
        text.lines()
            .filter_map(|line| line.split_once('='))
            .find(|(k, _)| *k == key)
            .map(|(_, v)| v.to_string())
    };
    let file_system =
        value("TYPE").map(|kind| Signature { kind, label: value("LABEL"), uuid: value("UUID") });
    let table = value("PTTYPE").map(|kind| Signature { kind, label: None, uuid: value("PTUUID") });
    file_system.into_iter().chain(table).collect()
}

fn wipefs(runner: &dyn Runner, device: &Utf8Path) -> Result<Vec<Signature>, String> {
    let command = CommandLine::new("wipefs", ["--no-act", "--parsable", device.as_str()]);
    let output = runner.run(&command).map_err(|error| format!("`{command}`: {error}"))?;
    if !output.success() {
        return Err(format!("`{command}` failed ({:?}): {}", output.code, output.message()));
    }
    Ok(parse_wipefs(&output.stdout))
}

/// Lines of `offset,uuid,label,type`; labels have their commas escaped.
fn parse_wipefs(text: &str) -> Vec<Signature> {
    let some = |field: &str| (!field.is_empty()).then(|| field.to_string());
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let mut fields = line.split(',');
            let (_, uuid, label) = (fields.next()?, fields.next()?, fields.next()?);
            let kind = fields.next_back()?;
            Some(Signature { kind: some(kind)?, label: some(label), uuid: some(uuid) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_system_and_partition_table_are_both_read() {
        let text =
            "DEVNAME=/dev/sdx\nLABEL=a=b\nUUID=1-2\nTYPE=ext4\nUSAGE=filesystem\nPTTYPE=gpt\nPTUUID=3\n";
        let found = parse_blkid(text);
        assert_eq!(found[0].to_string(), "ext4 labelled `a=b` (UUID 1-2)");
        assert_eq!(found[1].to_string(), "gpt (UUID 3)");
        assert!(parse_blkid("DEVNAME=/dev/sdx\n").is_empty());
    }

    #[test]
    fn wipefs_lists_every_signature() {
        let text = "# offset,uuid,label,type\n0x438,1-2,,ext4\n0x1fe,,,dos\n0x1000,9,big,linux_raid_member\n";
        let kinds: Vec<String> = parse_wipefs(text).iter().map(Signature::to_string).collect();
        assert_eq!(kinds, ["ext4 (UUID 1-2)", "dos", "linux_raid_member labelled `big` (UUID 9)"]);
        assert!(parse_wipefs(text)[2].is_member());
    }
}
