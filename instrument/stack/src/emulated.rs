//! The emulated SSD that a stack names: `ext4@980pro(scale=2):8G:flush` as options of a device.

use blockdev::{AttachOptions, Backing, BackingUse, FuaMode, SsdError, Transport};
use host::Host;
use spec::{Device, StackSpec};

/// Size of a device for which the stack gives none: this, or as much as leaves half of the free memory.
const DEFAULT_BYTES: u64 = 8 << 30;
/// Default sizes are multiples of this.
const STEP_BYTES: u64 = 64 << 20;
/// What may stand within the parentheses.
const WORDS: &str = "scale=X, seed=N, backing=FILE, fua=modelled|flush, transport=auto|classic|uring|ublk, \
    queues=N (ublk), fail=flush:N|write:N|read@BLOCK|.., prefault, raw, sleepy";

/// The device that `spec` names, to be attached as `name`; `None` when its device is none of ours. A stack is
/// formatted, so a backing file must not exist; [`AttachOptions::backing_use`] may be changed to name the one that
/// may be lost.
///
/// # Errors
/// [`SsdError::BadOption`] for a word within the parentheses that means nothing; [`SsdError::Model`] for an
/// unknown profile.
pub fn options(spec: &StackSpec, name: &str) -> Result<Option<AttachOptions>, SsdError> {
    let Device::Emulated { name: profile, size, args } = spec.device() else { return Ok(None) };
    let bytes = size.map_or_else(default_bytes, |size| size.bytes());
    let mut options = AttachOptions::new(name, profile, bytes);
    if profile == "slow" {
        options.profile = format!("slow({})", args.join(","));
    } else {
        args.iter().try_for_each(|word| set(&mut options, word))?;
    }
    options.backing_use = BackingUse::Overwrite { erase: None };
    options.regime = match spec.regime() {
        None | Some(spec::Regime::Flush) => ssd::Regime::Flush,
        Some(spec::Regime::None) => ssd::Regime::None,
        Some(spec::Regime::Barrier) => ssd::Regime::Barrier,
        Some(spec::Regime::Streams) => ssd::Regime::Streams,
    };
    options.validate()?;
    Ok(Some(options))
}

fn set(options: &mut AttachOptions, word: &str) -> Result<(), SsdError> {
    let bad = || SsdError::BadOption { what: format!("`{word}` of an emulated SSD: there are {WORDS}") };
    match word.split_once('=') {
        Some(("scale", value)) => options.time_scale = value.parse().map_err(|_| bad())?,
        Some(("seed", value)) => options.seed = value.parse().map_err(|_| bad())?,
        Some(("backing", value)) => options.backing = Backing::File(value.into()),
        Some(("transport", value)) => options.transport = Transport::parse(value).ok_or_else(bad)?,
        Some(("queues", value)) => options.queues = value.parse().map_err(|_| bad())?,
        Some(("fail", value)) => options.faults.push(value.parse()?),
        Some(("fua", value)) => options.fua = FuaMode::parse(value).ok_or_else(bad)?,
        None if word == "prefault" => options.prefault = true,
        None if word == "raw" => options.compensate = false,
        None if word == "sleepy" => options.keep_awake = false,
        _ => return Err(bad()),
    }
    Ok(())
}

/// The memory of a device is taken as it is written, so half of what is free leaves room for the load.
fn default_bytes() -> u64 {
    (Host::system().available_memory().unwrap_or(0) / 2 / STEP_BYTES * STEP_BYTES)
        .clamp(STEP_BYTES, DEFAULT_BYTES)
}

#[cfg(test)]
mod tests {
    use blockdev::transport::Fuse;

    use super::*;

    fn options(stack: &str) -> Result<Option<AttachOptions>, SsdError> {
        super::options(&stack.parse().unwrap(), "x")
    }

    #[test]
    fn words_of_the_stack_become_options() {
        let found = options("xfs@860evo(scale=2.5,seed=7,raw,sleepy,fua=flush,transport=classic):2G:none")
            .unwrap()
            .unwrap();
        assert_eq!((found.profile.as_str(), found.bytes, found.seed), ("860evo", 2 << 30, 7));
        assert!((found.time_scale - 2.5).abs() < 1e-9 && !found.compensate && !found.keep_awake);
        assert_eq!((found.regime, found.fua), (ssd::Regime::None, FuaMode::Flush));
        assert_eq!((found.transport, found.queues), (Transport::Fuse(Fuse::Classic), 1));
        let found = options("xfs@980pro(transport=ublk,queues=4):1G").unwrap().unwrap();
        assert_eq!((found.transport, found.queues), (Transport::Ublk, 4));
        let found = options("ext4@980pro(fail=flush:3,fail=read@64+):1G").unwrap().unwrap();
        assert_eq!(found.faults, ["flush:3", "read@64+"].map(|fault| fault.parse().unwrap()));
        assert_eq!(options("ext4@slow(1ms,1GB/s):64M").unwrap().unwrap().profile, "slow(1ms,1GB/s)");
        assert_eq!(options("ext4@image").unwrap(), None);
        let chosen = options("ext4@980pro").unwrap().unwrap();
        assert!(chosen.bytes >= STEP_BYTES && chosen.bytes <= DEFAULT_BYTES);
        assert_eq!(chosen.regime, ssd::Regime::Flush);
    }

    #[test]
    fn what_means_nothing_is_told() {
        let text = |stack: &str| options(stack).unwrap_err().to_string();
        assert!(text("ext4@980pro(quick)").contains("scale=X"));
        assert!(text("ext4@980pro(fua=maybe)").contains("fua=modelled|flush"));
        assert!(text("ext4@980pro(fail=flush@3)").contains("a flush touches none"));
        assert!(text("ext4@980pro(queues=2)").contains("transport ublk"));
        assert!(text("ext4@980por").contains("980pro"));
        assert!(text("ext4@slow(1ms)").contains("slow(1ms,1GB/s)"));
        assert!(text("ext4@980pro(scale=0)").contains("time scale"));
    }
}
