//! `ssd`: emulated SSDs as block devices.

use std::process::ExitCode;

use blockdev::{AttachOptions, Backing, FuaMode, Launcher, Transport};
use camino::Utf8Path;
use ssd::Regime;

use crate::arg_parsers;
use crate::cleanup::utf8;
use crate::console::{self, Exit, bad_input};
use crate::options::{Options, Ssd, SsdAttach};

/// The hidden argument that makes `loadline` the daemon behind a device.
const DAEMON: &str = "ssd-daemon";

/// Runs the daemon, when that is what this process was started for.
pub fn daemon() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(DAEMON) {
        return None;
    }
    Some(blockdev::daemon::main(Utf8Path::new(&arguments.next().unwrap_or_default())))
}

/// Attaches, detaches, lists ...
pub fn ssd(options: &Options, what: &Ssd) -> anyhow::Result<Exit> {
    let home = utf8(crate::run::home(options)?)?;
    match what {
        Ssd::Attach(arguments) => attach(&home, arguments)?,
        Ssd::Detach(arguments) => {
            blockdev::detach(&home, &arg_parsers::ssd(&home, &arguments.name)?, arguments.force)?
        }
        Ssd::List => {
            for listed in blockdev::list(&home)? {
                let state = listed.state;
                let alive =
                    if listed.alive { "" } else { "  (its daemon is dead: `loadline doctor` cleans up)" };
                console::print(&format!("{}  {}  {}{alive}", state.name, state.device, state.what))?;
            }
        }
        Ssd::Stats(arguments) => {
            console::print(&blockdev::stats(&home, &arg_parsers::ssd(&home, &arguments.name)?)?.prometheus())?
        }
        Ssd::Fail(arguments) => {
            blockdev::fail(&home, &arg_parsers::ssd(&home, &arguments.name)?, &arguments.faults)?;
        }
        Ssd::Record(arguments) => {
            let name = arg_parsers::ssd(&home, &arguments.name)?;
            let status = match &arguments.mark {
                Some(text) => blockdev::mark(&home, &name, text)?,
                None => blockdev::sync_record(&home, &name)?,
            };
            console::print(&format!("{}: {} records, {} bytes", status.path, status.events, status.bytes))?;
        }
        Ssd::PowerCut(arguments) => {
            let cut = blockdev::power_cut(
                &home,
                &arg_parsers::ssd(&home, &arguments.name)?,
                &utf8(arguments.image.clone())?,
            )?;
            console::print(&format!(
                "wrote {}: {} blocks with data, {} rolled back to an older version, {} commands lost",
                cut.path, cut.data_blocks, cut.rolled_back_blocks, cut.lost_commands
            ))?;
        }
    }
    Ok(Exit::Done)
}

fn attach(home: &Utf8Path, arguments: &SsdAttach) -> anyhow::Result<()> {
    let bytes = units::parse_bytes(&arguments.size).map_err(|error| bad_input(format!("--size: {error}")))?;
    let name = arguments.name.clone().unwrap_or_else(|| name_of(&arguments.profile));
    let mut options = AttachOptions::new(&name, &arguments.profile, bytes);
    options.regime = Regime::parse(&arguments.regime).ok_or_else(|| {
        bad_input(format!("--regime {}: choose none, flush, barrier or streams", arguments.regime))
    })?;
    options.time_scale = arguments.time_scale;
    if arguments.backing != "ram" {
        options.backing = Backing::File(arguments.backing.as_str().into());
    }
    options.fua = FuaMode::parse(&arguments.fua)
        .ok_or_else(|| bad_input(format!("--fua {}: choose modelled or flush", arguments.fua)))?;
    options.transport =
        Transport::parse(&arguments.transport).ok_or_else(|| bad_input(transports(&arguments.transport)))?;
    options.queues = arguments.queues;
    options.faults = arguments.fail.clone();
    options.record = arguments.record.clone().map(utf8).transpose()?;
    // killed before it is wholly attached, this command leaves nothing
    options.owner = host::ProcessId::current(&host::Host::system());
    let state = blockdev::attach(home, &options, &Launcher::this_program()?)?.keep()?;
    state.notes.iter().for_each(|note| host::note!("note: {note}"));
    console::print(state.device.as_str())
}

/// A device's name from its profile: `slow(1ms,1GB/s)` becomes `slow-1ms-1GB-s`.
fn name_of(profile: &str) -> String {
    let words =
        profile.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let name: String = words.collect::<Vec<_>>().join("-").chars().take(blockdev::NAME_MAX).collect();
    name.trim_end_matches('-').to_string()
}

/// What `--transport` takes on this machine.
fn transports(given: &str) -> String {
    let mut text = format!("--transport {given}: choose auto, classic, uring, fastest or ublk; here:");
    for transport in blockdev::transport::available(&host::Host::system()) {
        let what = transport.obstacle.as_deref().unwrap_or("available");
        text.push_str(&format!("\n  {}: {what}", transport.name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_of_its_own_numbers_has_a_name() {
        assert_eq!(name_of("980pro"), "980pro");
        assert_eq!(name_of("slow(1ms,1GB/s)"), "slow-1ms-1GB-s");
        assert_eq!(name_of(&format!("slow({})", "1".repeat(80))).len(), blockdev::NAME_MAX);
    }
}
