//! Real file systems: needs root, /dev/fuse and free loop devices, else every test says that it was skipped.
//!
//! This program is its own daemon (hence no test harness).

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use blockdev::Launcher;
use camino::Utf8PathBuf;
use crash::workload::builtin;
use crash::{CrashOptions, Load};
use stack::Journal;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [hidden, config] = &args[..]
        && hidden == "ssd-daemon"
    {
        return blockdev::daemon::main(config.as_str().into());
    }
    let dir = tempfile::tempdir().unwrap();
    let home = Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap();
    let journal = Journal::open(&home.join("journal"), "crash").unwrap();
    let mut options = CrashOptions::new(args[0].parse().unwrap(), home, Launcher::this_program().unwrap());
    options.states = args.get(2).map_or(200, |n| n.parse().unwrap());
    let mut load = Load::Script(builtin(&args[1], 1).unwrap());
    let verdict =
        crash::run(&options, &mut load, &journal, &AtomicBool::new(false), &mut |p| eprintln!("{p:?}"));
    match verdict {
        Ok(verdict) => println!("{verdict}"),
        Err(error) => println!("error: {error}"),
    }
    ExitCode::SUCCESS
}
