//! The library by itself: `check STACK [WORKLOAD [STATES [SEED]]]`, such as `check xfs@980pro random 1000`.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use blockdev::Launcher;
use crash::workload::builtin;
use crash::{CrashOptions, Load, Outcome};
use journal::Journal;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |i: usize, default: &str| args.get(i).cloned().unwrap_or(default.to_owned());
    if arg(0, "") == "ssd-daemon" {
        // this program is also the daemon of the emulated SSD
        return Ok(blockdev::daemon::main(arg(1, "").as_str().into()));
    }
    let home = std::env::temp_dir().join("loadline-crash-example");
    let home = camino::Utf8PathBuf::from_path_buf(home).map_err(|path| path.display().to_string())?;
    let journal = Journal::open(&home.join("journal"), "example")?;
    let mut options = CrashOptions::new(arg(0, "ext4@980pro").parse()?, home, Launcher::this_program()?);
    options.states = arg(2, "1000").parse()?;
    options.seed = arg(3, "1").parse()?;
    let script = builtin(&arg(1, "random"), options.seed).ok_or("no such workload")?;
    let never = AtomicBool::new(false);
    let verdict = crash::run(&options, &mut Load::Script(script), &journal, &never, &mut |_| {})?;
    println!("{verdict}");
    Ok(ExitCode::from(u8::from(verdict.outcome() == Outcome::Violated)))
}
