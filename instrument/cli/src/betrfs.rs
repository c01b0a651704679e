//! `mkfs`, `mount`, `umount`, `fsck` and `dump` for betrfs, `mount` for `fuse-limit`; also under the names that mount(8), mkfs(8) and fsck(8) look for.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use betrfs::{FormatOptions, Launcher, MountError, MountOptions};
use clap::{Args, ValueEnum, ValueHint};

use crate::console::{self, Exit, bad_input};

/// The hidden argument that makes `loadline` the daemon behind a mount.
const DAEMON: &str = "betrfs-daemon";
/// The same for `fuse-limit`.
const LIMIT_DAEMON: &str = "fuse-limit-daemon";
/// fsck(8): errors are left.
const FSCK_UNCORRECTED: u8 = 4;

/// File systems that loadline brings along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A write-optimised file system in user space
    Betrfs,
}

/// File systems that loadline mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MountKind {
    /// A write-optimised file system in user space
    Betrfs,
    /// Files in memory behind FUSE: what a file system that costs nothing makes of it
    FuseLimit,
}

/// Options of `mkfs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline mkfs betrfs --size 4G disk.img
  loadline mkfs betrfs /dev/sdx --erase")]
pub struct Mkfs {
    /// The file system
    #[arg(value_enum)]
    pub kind: Kind,
    /// A block device, or an image file
    #[arg(value_name = "DEVICE", value_hint = ValueHint::FilePath)]
    pub device: PathBuf,
    /// Make the image file, or resize it, such as 4G
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,
    /// Whatever is on the device may be lost
    #[arg(long, short = 'f', visible_alias = "force")]
    pub erase: bool,
    /// Leaves split above this size [default: 1M]
    #[arg(long, value_name = "SIZE")]
    pub leaf: Option<String>,
    /// Bytes of a leaf that are read together [default: 64K]
    #[arg(long, value_name = "SIZE")]
    pub basement: Option<String>,
    /// Messages that an inner node holds [default: 2M]
    #[arg(long, value_name = "SIZE")]
    pub buffer: Option<String>,
    /// Children of an inner node at most [default: 16]
    #[arg(long, value_name = "N")]
    pub fanout: Option<usize>,
    /// Size of the log [default: a sixteenth of the device, at most 1G]
    #[arg(long, value_name = "SIZE")]
    pub log: Option<String>,
}

/// Options of `mount`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline mount betrfs disk.img /mnt            umount /mnt ends it
  loadline mount betrfs /dev/sdx /mnt -o cache=1G,compress=lz4
  loadline mount betrfs disk.img /mnt --foreground
  loadline mount fuse-limit any-word /mnt -o size=2G
Options of -o: docs/betrfs.md; of fuse-limit docs/stacks.md.")]
pub struct Mount {
    /// The file system
    #[arg(value_enum)]
    pub kind: MountKind,
    /// A block device, or an image file; for fuse-limit any word
    #[arg(value_name = "DEVICE", value_hint = ValueHint::FilePath)]
    pub device: PathBuf,
    /// Where
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Options, separated by commas
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// Serve in this process until it is unmounted
    #[arg(long)]
    pub foreground: bool,
}

/// Options of `umount`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline umount /mnt       fails if something that was written is lost")]
pub struct Umount {
    /// Where betrfs is mounted
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// One that is in use goes when its last user leaves
    #[arg(long, short = 'l')]
    pub lazy: bool,
}

/// Options of `fsck`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  loadline fsck betrfs disk.img\n  loadline fsck betrfs /dev/sdx --repair"
)]
pub struct Fsck {
    /// The file system
    #[arg(value_enum)]
    pub kind: Kind,
    /// A block device, or an image file; not mounted
    #[arg(value_name = "DEVICE", value_hint = ValueHint::FilePath)]
    pub device: PathBuf,
    /// Repair what can be repaired; without, nothing is written
    #[arg(long)]
    pub repair: bool,
}

/// Options of `dump`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  loadline dump betrfs disk.img | less")]
pub struct Dump {
    /// The file system
    #[arg(value_enum)]
    pub kind: Kind,
    /// A block device, or an image file; not mounted
    #[arg(value_name = "DEVICE", value_hint = ValueHint::FilePath)]
    pub device: PathBuf,
}

/// Runs the daemon, when that is what this process was started for.
pub fn daemon() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let word = arguments.next()?;
    let arguments: Vec<OsString> = arguments.collect();
    match word.to_str()? {
        DAEMON => Some(betrfs::daemon::main(arguments)),
        LIMIT_DAEMON => Some(fuselimit::mount::daemon_main(&arguments)),
        _ => None,
    }
}

/// The name that this process was called by, if it is one of those that other programs look for.
fn called() -> Option<String> {
    let name = std::env::args_os().next()?;
    let name = Path::new(&name).file_name()?.to_str()?.to_owned();
    name.ends_with(".betrfs").then_some(name)
}

/// The arguments, those of `mount.betrfs` and the like rewritten.
pub fn arguments() -> Vec<OsString> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match called() {
        Some(name) => rewritten(&name, &arguments[1..]),
        None => arguments,
    }
}

fn rewritten(name: &str, arguments: &[OsString]) -> Vec<OsString> {
    let command = name.split('.').next().unwrap_or_default();
    let mut out: Vec<OsString> = ["loadline", command].into_iter().map(Into::into).collect();
    if command != "umount" {
        out.push("betrfs".into());
    }
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match (command, argument.to_str()) {
            // No mtab, verbose, by force: it does what it can, and says what it could not.
            ("umount", Some("-n" | "-v" | "-f" | "-r")) => {}
            ("umount", Some("-t" | "-N")) => _ = arguments.next(),
            // Fake, sloppy, no mtab, verbose: nothing to do.
            ("mount", Some("-f" | "-s" | "-n" | "-v" | "-w")) => {}
            // The type, which is in the name already, and a namespace that mount(8) has entered.
            ("mount", Some("-t" | "-N")) => _ = arguments.next(),
            ("mount", Some("-r")) => out.extend(["-o".into(), "ro".into()]),
            ("fsck", Some("-a" | "-p" | "-y")) => out.push("--repair".into()),
            ("fsck", Some("-n" | "-f" | "-C" | "-T" | "-V")) => {}
            _ => out.push(argument.clone()),
        }
    }
    out
}

fn wrong(error: MountError) -> anyhow::Error {
    match error {
        MountError::BadOption { .. } | MountError::Refused(_) => bad_input(error),
        error => error.into(),
    }
}

fn bytes(name: &str, text: &Option<String>) -> anyhow::Result<Option<u64>> {
    let parse =
        |text: &String| units::parse_bytes(text).map_err(|error| bad_input(format!("--{name}: {error}")));
    text.as_ref().map(parse).transpose()
}

/// Makes a file system.
pub fn mkfs(arguments: &Mkfs) -> anyhow::Result<Exit> {
    let mut options = FormatOptions::default();
    options.size = bytes("size", &arguments.size)?;
    options.erase = arguments.erase;
    let store = &mut options.fs.store;
    for (name, text, place) in [
        ("leaf", &arguments.leaf, &mut store.leaf_bytes),
        ("basement", &arguments.basement, &mut store.basement_bytes),
        ("buffer", &arguments.buffer, &mut store.buffer_bytes),
    ] {
        if let Some(bytes) = bytes(name, text)? {
            *place = bytes as usize;
        }
    }
    store.log_bytes = bytes("log", &arguments.log)?.unwrap_or(store.log_bytes);
    store.fanout = arguments.fanout.unwrap_or(store.fanout);
    if arguments.erase {
        show(&arguments.device);
    }
    let size = betrfs::format(&arguments.device, &options).map_err(wrong)?;
    console::print(&format!("{}: betrfs of {} MiB", arguments.device.display(), size >> 20))?;
    Ok(Exit::Done)
}

/// Shows what is on a device or file that is about to be overwritten. A refusal shows it by itself.
fn show(device: &Path) {
    let Some(path) = camino::Utf8Path::from_path(device).filter(|path| path.exists()) else { return };
    let (host, runner) = (host::Host::system(), host::SystemRunner::default());
    if let Ok(report) = host::DeviceReport::inspect(&host, &runner, path)
        && report.holds_data()
        && report.blockers().is_empty()
    {
        host::note!("{report}\n{} will be overwritten, as --erase says", report.path);
    }
}

/// Mounts a file system.
pub fn mount(arguments: &Mount) -> anyhow::Result<Exit> {
    let options = arguments.options.join(",");
    if arguments.kind == MountKind::FuseLimit {
        return mount_limit(arguments, &options);
    }
    if MountOptions::asks_remount(&options) {
        let left = betrfs::mount::remount(&arguments.dir, &options).map_err(wrong)?;
        if !left.is_empty() {
            host::note!("note: a remount leaves these as they are: {}", left.join(","));
        }
        return Ok(Exit::Done);
    }
    let parsed = MountOptions::parse(&options).map_err(wrong)?;
    if !parsed.read_only {
        host::note!("note: {}", parsed.note_on_sync());
    }
    if arguments.foreground {
        let served = betrfs::ServedMount::mount(&arguments.device, &arguments.dir, &parsed).map_err(wrong)?;
        let ended = served.serve();
        return Ok(if ended == ExitCode::SUCCESS { Exit::Done } else { Exit::Failed });
    }
    let program = std::env::current_exe()?;
    let launcher = Launcher { program, args: vec![DAEMON.into()] };
    betrfs::mount_daemon(&launcher, &arguments.device, &arguments.dir, &options).map_err(wrong)?;
    Ok(Exit::Done)
}

/// Unmounts a file system.
pub fn umount(arguments: &Umount) -> anyhow::Result<Exit> {
    betrfs::mount::umount(&arguments.dir, arguments.lazy).map_err(wrong)?;
    Ok(Exit::Done)
}

fn mount_limit(arguments: &Mount, options: &str) -> anyhow::Result<Exit> {
    let parsed = fuselimit::Options::parse(options).map_err(bad_input)?;
    let source = &arguments.device;
    if arguments.foreground {
        let mounted =
            fuselimit::mount::mount_apart(source, &arguments.dir, &parsed).map_err(anyhow::Error::msg)?;
        mounted.serve()?;
        return Ok(Exit::Done);
    }
    let program = std::env::current_exe()?;
    let daemon = (program.as_path(), LIMIT_DAEMON);
    fuselimit::mount::mount_daemon(daemon, source.as_os_str(), &arguments.dir, options)
        .map_err(anyhow::Error::msg)?;
    Ok(Exit::Done)
}

/// Checks a file system.
pub fn fsck(arguments: &Fsck) -> anyhow::Result<Exit> {
    let report = betrfs::mount::check_device(&arguments.device, arguments.repair).map_err(wrong)?;
    console::print(report.to_string().trim_end())?;
    if report.is_clean() {
        return Ok(Exit::Done);
    }
    if called().is_some() {
        // To fsck(8) our "failed" would mean "repaired".
        std::process::exit(i32::from(FSCK_UNCORRECTED));
    }
    Ok(Exit::Failed)
}

/// Prints what a file system consists of.
pub fn dump(arguments: &Dump) -> anyhow::Result<Exit> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    betrfs::mount::dump_device(&arguments.device, &mut out).map_err(wrong)?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_of_mount_and_fsck_are_commands_of_ours() {
        let words = |name: &str, line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(Into::into).collect();
            rewritten(name, &arguments).join(OsString::from(" ").as_os_str()).into_string().unwrap()
        };
        let mount = words("mount.betrfs", "/dev/sdx /mnt -n -r -o noatime");
        assert_eq!(mount, "loadline mount betrfs /dev/sdx /mnt -o ro -o noatime");
        let remount = words("mount.fuse.betrfs", "/dev/sdx /mnt -o remount,ro -t fuse.betrfs");
        assert_eq!(remount, "loadline mount betrfs /dev/sdx /mnt -o remount,ro");
        assert_eq!(words("umount.fuse.betrfs", "/mnt -n -l -t fuse.betrfs"), "loadline umount /mnt -l");
        assert_eq!(words("fsck.betrfs", "-a /dev/sdx"), "loadline fsck betrfs --repair /dev/sdx");
        assert_eq!(words("mkfs.betrfs", "-f /dev/sdx"), "loadline mkfs betrfs -f /dev/sdx");
    }
}
