//! Booted guests that are kept. A deterministic guest boots once for a kernel, an image, a command line and a seed, is stopped
//! while it does nothing but count, and is kept as QEMU's migration stream; each trial counts on from there. Two boots are stopped
//! on the same way, if not at the same instruction, so that a trial is the same whether its boot was kept or made now.

use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use journal::{Journal, PrivateTree};
use serde_json::json;
use xxhash_rust::xxh3::Xxh3;

use crate::monitor::Monitor;
use crate::setup::{Mode, Phase, Setup, shell};
use crate::{GuestError, Machine, turns};

/// Streams that are kept, at most: each holds what the guest has in its memory, some 150 MB.
const KEPT: usize = 8;
/// QEMU's limit for migrations, in bytes a second: none that matters.
const BANDWIDTH: u64 = 1 << 40;
/// What an end of the name of a stream is.
const END: &str = "boot";
/// The event with which a guest says that it can be stopped, and once more when it is too late.
const READY: &str = "GUEST_CRASHLOADED";
/// How many boots may be stopped too late before the machine counts as too slow.
const BOOTS: u32 = 3;

/// Where boots are kept, and when they are given up.
pub struct SnapshotStore<'a> {
    /// The home of results.
    pub home: &'a Utf8Path,
    /// What is half made is in there.
    pub journal: &'a Arc<Journal>,
    /// How long a boot may take.
    pub patience: Duration,
    /// Whether the user wishes an end.
    pub stopped: &'a dyn Fn() -> bool,
    /// Told before a boot, which takes its time.
    pub tell: &'a mut dyn FnMut(&str),
}

/// The stream of `setup`'s boot with `seed`: one that is kept, or made now. The console's text goes beside it.
///
/// # Errors
/// QEMU, the file system, or the user's wish.
pub fn find(setup: &Setup, seed: u64, place: &mut SnapshotStore<'_>) -> Result<Utf8PathBuf, GuestError> {
    let folder = host::place::own_below(place.home, "guests").map_err(GuestError::untrusted)?;
    let boot = Setup { mode: Mode::Deterministic { seed, phase: Phase::Boot }, ..setup.clone() };
    let kept = folder.join(format!("{:016x}.{END}", key(&boot)?));
    if kept.exists() {
        // the oldest by use go first; a time that cannot be set costs a boot later
        let _ = std::fs::File::open(&kept).and_then(|file| file.set_modified(std::time::SystemTime::now()));
        return Ok(kept);
    }
    (place.tell)(&format!("guest {} boots with seed {seed}; the boot is kept", setup.kernel.release));
    forget_oldest(&folder);
    let tree = PrivateTree::new(place.journal, &folder)?;
    let (stream, console) = (tree.path().join("stream"), kept.with_extension("log"));
    for _ in 0..BOOTS {
        let mut machine = Machine::boot(&boot, &console, place.journal)?;
        let made = save(&mut machine, &stream, place);
        machine.end(matches!(made, Ok(true)));
        if made? {
            std::fs::rename(&stream, &kept).map_err(GuestError::at(kept.as_str()))?;
            return Ok(kept);
        }
        (place.tell)("the machine was too busy to stop the guest in time; it boots once more");
    }
    Err(GuestError::Device(format!(
        "the machine was too busy to stop a guest in time, {BOOTS} times; try again when less runs on it"
    )))
}

/// Waits until the guest can be stopped, stops it, and writes its state to `stream`; `false` when the stop came too late.
fn save(machine: &mut Machine, stream: &Utf8Path, place: &SnapshotStore<'_>) -> Result<bool, GuestError> {
    let begin = Instant::now();
    let mut monitor = Monitor::new(machine)?;
    turns::begin(&mut monitor)?;
    let mut given_up = || (place.stopped)() || begin.elapsed() > place.patience;
    if !monitor.event(READY, &mut given_up)? {
        drop(monitor);
        return Err(match (place.stopped)() {
            true => machine.ended("interrupted while it booted"),
            false => {
                machine.ended(&format!("the guest has not booted within {} s", place.patience.as_secs()))
            }
        });
    }
    monitor.command("stop", &json!({}))?;
    if monitor.count_events(READY) > 1 {
        return Ok(false);
    }
    monitor.command("migrate-set-parameters", &json!({ "max-bandwidth": BANDWIDTH }))?;
    monitor.command("migrate", &json!({ "uri": format!("exec:cat > {}", shell(stream)) }))?;
    monitor.poll("query-migrate", |answer| match answer["status"].as_str() {
        Some("completed") => Ok(true),
        Some("failed" | "cancelled") => {
            let message = answer["error-desc"].as_str().unwrap_or("no reason given").to_string();
            Err(GuestError::Program { program: "QEMU's `migrate`".into(), message })
        }
        _ => Ok(false),
    })?;
    monitor.command("quit", &json!({}))?;
    Ok(true)
}

/// Lets a guest that was started with [`Phase::Trial`] go on.
///
/// # Errors
/// The stream is damaged, or of another QEMU.
pub fn resume(machine: &mut Machine) -> Result<(), GuestError> {
    let mut monitor = Monitor::new(machine)?;
    // a wish to go on that comes while the state is read would be forgotten
    monitor.poll("query-status", |answer| Ok(answer["status"] != "inmigrate"))?;
    turns::begin(&mut monitor)
}

/// All that a boot depends on: QEMU, its arguments, the kernel's and the image's contents.
fn key(boot: &Setup) -> Result<u64, GuestError> {
    let mut hash = Xxh3::new();
    let version = crate::setup::version().unwrap_or_default();
    // not the place of the console, which is named by this
    let arguments = boot.arguments("".into(), 0).join("\0");
    for part in [&version, &arguments, &boot.image.checksum] {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    let kernel = &boot.kernel.vmlinuz;
    hash.update(&std::fs::read(kernel).map_err(GuestError::at(kernel.as_str()))?);
    Ok(hash.digest())
}

/// Takes away all but the streams that were used last, so that there is room for one more.
fn forget_oldest(folder: &Utf8Path) {
    let Ok(entries) = folder.read_dir_utf8() else { return };
    let streams = entries.flatten().filter(|entry| entry.path().extension() == Some(END));
    let mut streams: Vec<_> = streams
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path().to_owned())))
        .collect();
    streams.sort();
    for (_, path) in streams.iter().rev().skip(KEPT - 1) {
        let _ = std::fs::remove_file(path.with_extension("log"));
        let _ = std::fs::remove_file(path);
    }
}
