//! `prefetch`: any program under the cross-layer prefetcher, and what it did.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::ExitStatus;

use prefetch::Mode;
use prefetch_daemon::{DaemonError, Settings, Signals, Target};
use prefetch_os::areas::{self, Found};
use prefetch_os::launch::{self, Launch, Statistics};
use prefetch_os::show;
use trace::TraceError;

use crate::console::{self, Exit, bad_input};
use crate::library::mode_of;
use crate::options::{Options, Prefetch, PrefetchCommand, PrefetchDaemon};

/// Runs a program, or shows statistics.
pub fn prefetch(global: &Options, options: &Prefetch) -> anyhow::Result<Exit> {
    match &options.what {
        Some(PrefetchCommand::Stat { pid: None }) => {
            console::print(show::table(&areas::all(&areas::directories())).trim_end())?;
            Ok(Exit::Done)
        }
        Some(PrefetchCommand::Stat { pid: Some(pid) }) => {
            console::print(show::table(&[found(*pid)?]).trim_end())?;
            Ok(Exit::Done)
        }
        Some(PrefetchCommand::Explain { pid }) => {
            console::print(show::explain(&found(*pid)?).trim_end())?;
            Ok(Exit::Done)
        }
        Some(PrefetchCommand::Daemon(options)) => daemon(options),
        Some(PrefetchCommand::Harm(options)) => crate::harm::harm(global, options),
        Some(PrefetchCommand::Compare(options)) => crate::turns::compare(global, options),
        Some(PrefetchCommand::Reader(options)) => crate::harm::reader(options),
        None => run(options),
    }
}

fn daemon(options: &PrefetchDaemon) -> anyhow::Result<Exit> {
    let mode = mode_of(&options.mode, &[Mode::Auto, Mode::Predict, Mode::FetchAll, Mode::Observe])?;
    let target = match (&options.cgroup, options.pid.is_empty()) {
        (Some(cgroup), _) => Target::Cgroup(cgroup.clone()),
        (None, false) => Target::Pids(options.pid.clone()),
        (None, true) => Target::Command(options.command.clone()),
    };
    let signals = Signals::default();
    let with_program = matches!(target, Target::Command(_));
    // The terminal's Ctrl-C is for the program, whose end ends the daemon.
    let ends = if with_program { &[libc::SIGTERM][..] } else { &[libc::SIGTERM, libc::SIGINT] };
    for signal in ends {
        signal_hook::flag::register(*signal, signals.stop.clone())?;
    }
    if with_program {
        signal_hook::flag::register(libc::SIGINT, std::sync::Arc::default())?;
    }
    signal_hook::flag::register(libc::SIGHUP, signals.release.clone())?;
    let settings = Settings { target, mode, budget_mib: options.budget, directory: None };
    host::daemon::log::begin("loadline prefetch", None)?;
    let outcome = match prefetch_daemon::run(settings, &signals) {
        Ok(outcome) => outcome,
        Err(DaemonError::Target(error)) => return Err(bad_input(error.to_string())),
        Err(DaemonError::Start { program, source }) => {
            return Err(console::cannot_start(&program.to_string_lossy(), &source));
        }
        Err(DaemonError::Trace(TraceError::Unavailable(error))) => {
            host::note!("loadline: {error}");
            return Ok(Exit::CannotHere);
        }
        Err(error) => return Err(error.into()),
    };
    if options.explain || mode == Mode::Observe {
        if let Some(found) = areas::of(&areas::directories(), std::process::id()) {
            host::note::write(format_args!("{}", show::explain(&Found { alive: false, ..found })), "");
        }
        let (events, lost) = (outcome.events, outcome.lost);
        host::note!(
            "the daemon used {} of CPU time for {events} events, {lost} were lost",
            show::time(outcome.cpu_ns)
        );
    }
    match outcome.status {
        Some(status) => std::process::exit(code(status)),
        None => Ok(Exit::Done),
    }
}

fn found(pid: u32) -> anyhow::Result<Found> {
    let directories = areas::directories();
    areas::of(&directories, pid).ok_or_else(|| {
        let names: Vec<_> = directories.iter().map(|directory| directory.display().to_string()).collect();
        let places = if names.is_empty() { "any directory".into() } else { names.join(", ") };
        bad_input(format!(
            "no statistics of process {pid} in {places}: it was not started under the prefetcher, read no file often \
             enough to be watched, or there was no place for them (docs/prefetch.md, Environment)"
        ))
    })
}

fn run(options: &Prefetch) -> anyhow::Result<Exit> {
    let mode = if options.observe { Mode::Observe } else { mode_of(&options.mode, Mode::ALL)? };
    let library = launch::find_library(&std::env::current_exe()?)?;
    let tells = options.observe || options.explain;
    let statistics = if tells { Statistics::Needed } else { Statistics::IfPossible };
    let launch = Launch { mode, budget_mib: options.budget, statistics };
    let mut command = launch.command(&library, &options.command)?;
    let program = options.command.first().map(|word| word.display().to_string()).unwrap_or_default();
    if !tells {
        // From here on this process is the program: signals, exit code and terminal are its own.
        return Err(console::cannot_start(&program, &command.exec()));
    }
    // The terminal's signals are for the program; what it does with them decides how this ends.
    // SAFETY: ignoring a signal installs no handler.
    let before = [libc::SIGINT, libc::SIGQUIT].map(|signal| unsafe { libc::signal(signal, libc::SIG_IGN) });
    // SAFETY: between fork and exec only signal(2) is called.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGINT, before[0]);
            libc::signal(libc::SIGQUIT, before[1]);
            Ok(())
        })
    };
    let mut child = command.spawn().map_err(|error| console::cannot_start(&program, &error))?;
    let pid = child.id();
    let status = child.wait()?;
    match areas::of(&areas::directories(), pid) {
        Some(found) if options.explain => host::note::write(format_args!("{}", show::explain(&found)), ""),
        Some(found) => host::note::write(format_args!("{}", show::estimate(&found)), ""),
        None => host::note!(
            "{program}: no file was read often enough to be watched, or there was no place for statistics \
             (docs/prefetch.md, Environment)"
        ),
    }
    std::process::exit(code(status))
}

/// The exit code of a program, as a shell gives it.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
