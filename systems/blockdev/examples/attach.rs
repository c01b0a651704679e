//! Attaches an emulated SSD and prints its block device; `detach`, `list`, `stats`, `power-cut` as well.
//!
//! `attach HOME NAME PROFILE MIB [RECORDING]` (such as `980pro 8192`), `detach HOME NAME [force]`, `stats HOME NAME`,
//! `list HOME`, `power-cut HOME NAME IMAGE`.

use std::process::ExitCode;

use blockdev::{AttachOptions, Launcher};
use camino::Utf8Path;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["ssd-daemon", config] = args[..] {
        return blockdev::daemon::main(config.into());
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    match args {
        ["attach", home, name, profile, mib, record @ ..] => {
            let mut options = AttachOptions::new(name, profile, mib.parse::<u64>()? << 20);
            options.record = record.first().map(|file| (*file).into());
            let state =
                blockdev::attach(Utf8Path::new(home), &options, &Launcher::this_program()?)?.keep()?;
            println!("{}", state.device);
            state.notes.iter().for_each(|note| eprintln!("note: {note}"));
        }
        ["detach", home, name, rest @ ..] => {
            blockdev::detach(Utf8Path::new(home), name, !rest.is_empty())?;
        }
        ["stats", home, name] => print!("{}", blockdev::stats(Utf8Path::new(home), name)?.prometheus()),
        ["list", home] => {
            for listed in blockdev::list(Utf8Path::new(home))? {
                println!("{} {} alive={}", listed.state.name, listed.state.device, listed.alive);
            }
        }
        ["power-cut", home, name, image] => {
            println!("{:?}", blockdev::power_cut(Utf8Path::new(home), name, Utf8Path::new(image))?);
        }
        _ => return Err("see the first lines of this example".into()),
    }
    Ok(())
}
