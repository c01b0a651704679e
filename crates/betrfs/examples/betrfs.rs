//! The commands without the rest of loadline, for work on this crate:
//! `betrfs mkfs PATH [BYTES]`, `betrfs mount SOURCE DIR [OPTIONS]` (in the foreground).

use std::path::Path;
use std::process::ExitCode;

use betrfs::{FormatOptions, MountOptions};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["mkfs", path] => mkfs(path, None),
        ["mkfs", path, bytes] => mkfs(path, bytes.parse().ok()),
        ["mount", source, dir] => return serve(source, dir, ""),
        ["mount", source, dir, options] => return serve(source, dir, options),
        _ => Err("betrfs mkfs PATH [BYTES] | mount SOURCE DIR [OPTIONS]".into()),
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

fn serve(source: &str, dir: &str, options: &str) -> ExitCode {
    let mounted =
        MountOptions::parse(options).and_then(|o| betrfs::mount(Path::new(source), Path::new(dir), &o));
    match mounted {
        Ok(mounted) => betrfs::daemon::serve(mounted),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
