//! Setting up, starting the program, the loop, ending.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use prefetch_os::{areas, sys};

use crate::page::StatisticsPage;
use crate::service::Service;
use crate::source::Source;
use crate::target::{Target, TargetError};

pub use crate::settings::{DaemonError, Outcome, Settings, Signals};

/// How often memory, files and statistics are looked at while something is followed.
const TICK_NS: u64 = 100_000_000;
/// The same while nothing is; and how often processes that came into a cgroup are looked for.
const IDLE_TICK_NS: u64 = 500_000_000;
/// How late the loop may wake.
const TIMER_SLACK_NS: u64 = 1_000;

/// Watches and prefetches until the target has ended or a signal says so.
///
/// # Errors
/// When the target does not exist, tracing is not available, or the program cannot be started.
pub fn run(settings: Settings, signals: &Signals) -> Result<Outcome, DaemonError> {
    let target = settings.target.clone().resolve()?;
    let source = Source::open(&target.threads())?;
    let page = place(&settings)
        .and_then(|directory| {
            areas::sweep(&directory, 64);
            StatisticsPage::create(&directory, settings.mode, &target.name(), sys::now_ns())
        })
        .map_err(DaemonError::Directory)?;
    // Only for as long as it is needed: an open file of the instance would keep it from being removed.
    let threads = matches!(target, Target::Command(_)).then(|| source.threads()).transpose()?;
    let mut service = Service::new(source, page, &settings);
    // Those that were made while tracing was set up.
    service.add_threads(&target.threads());
    let mut child = match (&target, threads) {
        (Target::Command(words), Some(threads)) => Some(start(words, threads)?),
        _ => None,
    };
    let status = follow(&mut service, &target, &mut child, signals)?;
    service.turn()?;
    service.report();
    Ok(Outcome { status, ..service.outcome() })
}

/// The directory of the statistics, made if need be.
fn place(settings: &Settings) -> std::io::Result<PathBuf> {
    match &settings.directory {
        Some(directory) => areas::prepare(directory).map(|()| directory.clone()),
        None => areas::directory(),
    }
}

/// Starts the program; its first act is to have itself watched.
fn start(words: &[OsString], mut threads: File) -> Result<Child, DaemonError> {
    let (program, arguments) = words.split_first().ok_or(TargetError::Nothing)?;
    let mut command = Command::new(program);
    command.args(arguments);
    let watch = move || {
        let mut text = [0u8; 16];
        let mut rest = text.as_mut_slice();
        write!(rest, "{}", sys::getpid())?;
        let left = rest.len();
        let len = text.len() - left;
        threads.write_all(text.get(..len).unwrap_or_default())
    };
    // SAFETY: between fork and exec the closure formats a number into its stack and calls write(2).
    unsafe { command.pre_exec(watch) };
    command.spawn().map_err(|source| DaemonError::Start { program: program.clone(), source })
}

/// The loop: events in, requests out. How the program ended, if it did.
fn follow(
    service: &mut Service,
    target: &Target,
    child: &mut Option<Child>,
    signals: &Signals,
) -> Result<Option<ExitStatus>, DaemonError> {
    // Turns are as short as the usual slack of timers. Only now: the program would have inherited it.
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(TIMER_SLACK_NS));
    let mut ticked_ns = 0;
    loop {
        let busy = service.turn()?;
        let now_ns = sys::now_ns();
        let period = if service.is_idle() { IDLE_TICK_NS } else { TICK_NS };
        let release = signals.release.swap(false, Relaxed);
        if now_ns.saturating_sub(ticked_ns) >= period || release {
            ticked_ns = now_ns;
            service.tick(now_ns, release)?;
            if matches!(target, Target::Cgroup(_)) {
                service.add_threads(&target.threads());
            }
        }
        if let Some(child) = child
            && let Some(status) = child.try_wait()?
        {
            return Ok(Some(status));
        }
        if signals.stop.load(Relaxed) || target.has_ended() {
            return Ok(None);
        }
        if busy {
            sys::sleep_ns(service.pause_ns());
        } else {
            service.wait(Duration::from_nanos(period))?;
        }
    }
}
