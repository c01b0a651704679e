//! The commands without the rest of loadline, for work on this crate:
//! `betrfs mkfs PATH [BYTES]`, `betrfs mount SOURCE DIR [OPTIONS]` (in the foreground), `betrfs attach SOURCE DIR OPTIONS`
//! (as mount(8) does it: in the background, or a remount), `betrfs fsck PATH`, `betrfs repair PATH`, `betrfs dump PATH`.

use std::path::Path;
use std::process::ExitCode;

use betrfs::{FormatOptions, Launcher, MountOptions, ServedMount};

/// The argument behind which the daemon of `attach` finds its own.
const DAEMON: &str = "daemon";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == DAEMON) {
        return betrfs::daemon::main(arguments.into_iter().skip(1).map(Into::into).collect());
    }
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["mkfs", path] => mkfs(path, None),
        ["mkfs", path, bytes] => mkfs(path, bytes.parse().ok()),
        ["fsck", path] => fsck(path, false),
        ["repair", path] => fsck(path, true),
        ["dump", path] => {
            betrfs::mount::dump_device(Path::new(path), &mut std::io::stdout()).map_err(Into::into)
        }
        ["mount", source, dir] => return serve(source, dir, ""),
        ["mount", source, dir, options] => return serve(source, dir, options),
        ["attach", source, dir, options] => attach(Path::new(source), Path::new(dir), options),
        _ => Err("betrfs mkfs PATH [BYTES] | mount SOURCE DIR [OPTIONS] | attach SOURCE DIR OPTIONS | fsck PATH | \
                  repair PATH | dump PATH"
            .into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn mkfs(path: &str, size: Option<u64>) -> Result<(), Box<dyn std::error::Error>> {
    let mut options = FormatOptions::default();
    (options.size, options.erase) = (size, true);
    let size = betrfs::format(Path::new(path), &options)?;
    println!("{path}: {size} bytes");
    Ok(())
}

fn fsck(path: &str, repair: bool) -> Result<(), Box<dyn std::error::Error>> {
    let report = betrfs::mount::check_device(Path::new(path), repair)?;
    print!("{report}");
    if report.is_clean() { Ok(()) } else { Err("not clean".into()) }
}

fn attach(source: &Path, dir: &Path, options: &str) -> Result<(), Box<dyn std::error::Error>> {
    if MountOptions::asks_remount(options) {
        betrfs::mount::remount(dir, options)?;
    } else {
        let launcher = Launcher { program: std::env::current_exe()?, args: vec![DAEMON.into()] };
        betrfs::mount_daemon(&launcher, source, dir, options)?;
    }
    Ok(())
}

fn serve(source: &str, dir: &str, options: &str) -> ExitCode {
    let served =
        MountOptions::parse(options).and_then(|o| ServedMount::mount(Path::new(source), Path::new(dir), &o));
    match served {
        Ok(served) => served.serve(),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
