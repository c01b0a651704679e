//! The evidence of how a stack was built, for the store.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;

use host::block::BlockInfo;
use host::device::DeviceReport;
use host::runner::{CommandLine, CommandOutput};
use host::{Host, mountinfo};
use spec::StackSpec;

/// How a stack was built.
#[derive(Debug, Clone, Serialize)]
pub struct BuildRecord {
    /// The stack's canonical label.
    pub label: String,
    /// The programs that made it, in order.
    pub commands: Vec<ExecutedCommand>,
    /// First line of each program's version.
    pub tool_versions: BTreeMap<String, String>,
    /// What holds the blocks.
    pub device: DeviceInfo,
    /// Size of the image file in bytes.
    pub image_bytes: Option<u64>,
    /// The file system that holds the image file.
    pub backing: Option<DirectoryInfo>,
    /// What was on the real device before it was formatted.
    pub erased: Option<DeviceReport>,
    /// Mount options as the kernel shows them, which include its defaults.
    pub mount_options_in_effect: Option<String>,
    /// What a reader of the figures must know.
    pub notes: Vec<String>,
}

/// A program that was run.
#[derive(Debug, Clone, Serialize)]
pub struct ExecutedCommand {
    /// The line, as one could paste it into a shell.
    pub line: String,
    /// What it left behind.
    pub output: CommandOutput,
}

/// What holds the blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DeviceInfo {
    /// Memory.
    Memory,
    /// A directory of a file system that was there before.
    Directory(DirectoryInfo),
    /// A block device.
    Block(BlockInfo),
}

/// The file system that holds a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DirectoryInfo {
    /// The directory.
    pub path: Utf8PathBuf,
    /// Its file system's type; empty when it cannot be told.
    pub fs_type: String,
    /// Its file system's device or source.
    pub source: String,
    /// The options of its mount.
    pub options: String,
}

impl DirectoryInfo {
    /// Finds the mount that holds `path` (absolute, without symbolic links).
    pub fn of(host: &Host, path: &Utf8Path) -> Self {
        let mounts = host.mounts().unwrap_or_default();
        let mount = mountinfo::containing(&mounts, path);
        let text =
            |field: fn(&mountinfo::MountEntry) -> &String| mount.map(field).cloned().unwrap_or_default();
        Self {
            path: path.to_owned(),
            fs_type: text(|mount| &mount.fs_type),
            source: text(|mount| &mount.source),
            options: text(|mount| &mount.options),
        }
    }
}

impl BuildRecord {
    pub(crate) fn new(spec: &StackSpec) -> Self {
        Self {
            label: spec.label(),
            commands: Vec::new(),
            tool_versions: BTreeMap::new(),
            device: DeviceInfo::Memory,
            image_bytes: None,
            backing: None,
            erased: None,
            mount_options_in_effect: None,
            notes: Vec::new(),
        }
    }

    pub(crate) fn ran(&mut self, command: &CommandLine, output: &CommandOutput) {
        self.commands.push(ExecutedCommand { line: command.to_string(), output: output.clone() });
    }
}
