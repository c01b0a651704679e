//! The `loadline` command: parses, calls the other rooms, prints.
//!
//! | module | holds |
//! |---|---|
//! | `options` | every option, once: help, man pages and completions come from it |
//! | `run` | `run`: from a command line to stored results |
//! | `progress` | what a run shows while it runs |
//! | `check`, `compare`, `crash`, `explain`, `report`, `runs`, `doctor` | the commands of these names |
//! | `mark` | what a program under `crash` says |
//! | `export` | stored runs as tables for other programs |
//! | `sweep` | rates that are offered step by step |
//! | `trend` | a cell over all stored runs |
//! | `ab` | two stacks or commands in turns until it is decided |
//! | `kernels` | `ab` of two kernels in guests |
//! | `betrfs` | `mkfs`, `mount`, `fsck`, `dump` |
//! | `ssd` | emulated SSDs as block devices |
//! | `programs` | programs that workloads start: listed, and refused unless allowed |
//! | `prefetch` | programs under the prefetcher, and what it did for them |
//! | `harm` | whether the prefetcher harms on this machine |
//! | `turns` | a program without and with the prefetcher, compared |
//! | `library` | the prefetching library as options name it |
//! | `limits` | limits of the process (ulimit) as errors instead of signals |
//! | `merge` | runs of shards joined to one |
//! | `record`, `describe` | what a program does to its files, recorded; and as a workload |
//! | `cleanup` | what a command makes: journal, signals |
//! | `pages` | man pages and completions |
//! | `reproduce`, `evaluation` | published evaluations: the run of an embedded study; the options that choose scale, rows, columns |
//! | `serve` | stored runs and runs in progress as pages |
//! | `simulate` | workloads in virtual time, over containers and stacks |
//! | `whatif` | what a load would gain on a device with another contract |
//! | `new` | a commented study or workload to begin with |
//! | `front` | `loadline` alone; examples before options in every help |
//! | `arg_parsers` | times and devices as people type them |
//! | `console` | colours, widths, exit codes |

// A panic for want of a reader would end a study: `host::note!` and `screen::print` say what there is to say.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod ab;
mod arg_parsers;
mod betrfs;
mod check;
mod cleanup;
mod compare;
mod console;
mod crash;
mod describe;
mod doctor;
mod evaluation;
mod explain;
mod export;
mod front;
mod harm;
mod kernels;
mod library;
mod limits;
mod mark;
mod merge;
mod new;
mod options;
mod pages;
mod prefetch;
mod programs;
mod progress;
mod record;
mod report;
mod reproduce;
mod run;
mod runs;
mod serve;
mod simulate;
mod ssd;
mod sweep;
mod trend;
mod turns;
mod whatif;

use std::process::ExitCode;

use clap::FromArgMatches;

use console::Exit;
use options::{Command, Options};

fn main() -> ExitCode {
    if let Err(limit) = limits::say_what_is_met() {
        host::note!("loadline: {limit}");
        return Exit::CannotHere.into();
    }
    // A trial's process, what it measures, and an SSD's daemon are ourselves under hidden names: they must not meet the options.
    if std::env::args().nth(1).as_deref() == Some(lab::protocol::ARGUMENT) {
        return ExitCode::from(lab::worker::main());
    }
    if std::env::args().nth(1).as_deref() == Some(lab::guests::inside::ARGUMENT) {
        lab::guests::inside::main()
    }
    if let Some(code) = container::init::main() {
        return ExitCode::from(code);
    }
    if let Some(code) = stack::link::main() {
        return ExitCode::from(code);
    }
    if let Some(code) = apps::prefetch::task::main() {
        return ExitCode::from(code);
    }
    if let Some(code) = ssd::daemon() {
        return code;
    }
    if let Some(code) = betrfs::daemon() {
        return code;
    }
    let arguments = betrfs::arguments();
    if arguments.len() < 2 {
        let _ = console::print(front::page());
        return Exit::Done.into();
    }
    if arguments.len() == 2 && arguments[1] == "run" {
        host::note!("loadline: {}", front::nothing_to_run());
        return Exit::BadInput.into();
    }
    let options = front::command().get_matches_from(arguments);
    let options = Options::from_arg_matches(&options).unwrap_or_else(|error| error.exit());
    console::start_log(options.verbose);
    let ended = match &options.command {
        Command::Run(run) => run::run(&options, run),
        Command::Check(check) => check::check(&options, check),
        Command::Crash(crash) => crash::crash(&options, crash),
        Command::Mark(what) => mark::mark(what),
        Command::Ab(what) => ab::ab(&options, what),
        Command::Compare(compare) => compare::compare(&options, compare),
        Command::Explain(explain) => explain::explain(&options, explain),
        Command::Export(what) => export::export(&options, what),
        Command::Describe(what) => describe::describe(&options, what),
        Command::Record(what) => record::record(what),
        Command::Report(report) => report::report(&options, report),
        Command::Reproduce(what) => reproduce::reproduce(&options, what),
        Command::Simulate(what) => simulate::simulate(&options, what),
        Command::Sweep(what) => sweep::sweep(&options, what),
        Command::Trend(trend) => trend::trend(&options, trend),
        Command::Merge(merge) => merge::merge(&options, merge),
        Command::Runs(runs) => runs::runs(&options, runs),
        Command::Serve(what) => serve::serve(&options, what),
        Command::Ssd(ssd) => ssd::ssd(&options, ssd),
        Command::Prefetch(what) => prefetch::prefetch(&options, what),
        Command::Mkfs(mkfs) => betrfs::mkfs(mkfs),
        Command::Mount(mount) => betrfs::mount(mount),
        Command::Umount(umount) => betrfs::umount(umount),
        Command::Fsck(fsck) => betrfs::fsck(fsck),
        Command::Dump(dump) => betrfs::dump(dump),
        Command::Doctor(doctor) => doctor::doctor(&options, doctor),
        Command::Completions(completions) => pages::completions(completions),
        Command::Whatif(what) => whatif::whatif(&options, what),
        Command::Man(man) => pages::man(man),
        Command::New(what) => new::new(what),
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(error) if console::is_broken_pipe(&error) => Exit::Done.into(),
        Err(error) => {
            host::note!("loadline: {}", workload::address::redact(&format!("{error:#}")));
            Exit::of_error(&error).into()
        }
    }
}
