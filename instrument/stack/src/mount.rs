//! The lines that mount, and why one did not work.

use camino::Utf8Path;
use host::CommandLine;
use host::mount::is_generic_option;
use rustix::mount::FsOpenFlags;
use spec::FsKind;

/// The line by which `program` (loadline) mounts `fs`, betrfs or `fuse-limit`: its daemon stays in the background. Unless
/// the options name a transport it is the fastest that works: what is measured is a file system at its best.
pub(crate) fn own_command(
    program: &Utf8Path,
    (fs, options): (FsKind, &[String]),
    source: &str,
    target: &Utf8Path,
) -> CommandLine {
    let mut args: Vec<String> = ["mount", fs.name(), source, target.as_str()].map(str::to_string).into();
    let mut options = options.to_vec();
    if !options.iter().any(|option| option.starts_with("transport=")) {
        options.push("transport=fastest".into());
    }
    args.extend(["-o".to_string(), options.join(",")]);
    CommandLine::new(program.as_str(), args)
}

/// The mount(8) line for `source` at `target`.
pub(crate) fn command(fs_type: &str, options: &[String], source: &str, target: &Utf8Path) -> CommandLine {
    let mut args = vec!["-t".to_string(), fs_type.to_string()];
    if !options.is_empty() {
        args.push("-o".into());
        args.push(options.iter().map(|option| protected(option)).collect::<Vec<_>>().join(","));
    }
    args.extend([source.to_string(), target.to_string()]);
    CommandLine::new("mount", args)
}

/// mount(8) splits at commas outside double quotes, so a value with a comma goes in quotes.
fn protected(option: &str) -> String {
    match option.split_once('=') {
        Some((key, value)) if value.contains(',') => format!("{key}=\"{value}\""),
        _ => option.to_string(),
    }
}

/// Asks the kernel's file-system context why a mount fails: fsopen(2) has a log where mount(2) has one error
/// number. Nothing gets mounted. `None` when the kernel has nothing to say.
pub(crate) fn explain(fs_type: &str, options: &[String], source: &str) -> Option<String> {
    let context = rustix::mount::fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    let set = |option: &str| match option.split_once('=') {
        Some((key, value)) => rustix::mount::fsconfig_set_string(&context, key, value),
        None => rustix::mount::fsconfig_set_flag(&context, option),
    };
    rustix::mount::fsconfig_set_string(&context, "source", source).ok()?;
    for option in options.iter().filter(|option| !is_generic_option(option)) {
        if let Err(error) = set(option) {
            let why = read_log(&context).unwrap_or_else(|| error.to_string());
            return Some(format!("option `{option}`: {why}"));
        }
    }
    match rustix::mount::fsconfig_create(&context) {
        Ok(()) => None,
        Err(_) => read_log(&context),
    }
}

/// The context's messages, one for each read, each after a letter for its level.
fn read_log(context: &impl std::os::fd::AsFd) -> Option<String> {
    let mut lines = Vec::new();
    let mut buffer = [0u8; 1024];
    while let Ok(len) = rustix::io::read(context, &mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..len]).trim().to_string();
        if len == 0 || lines.len() >= 16 {
            break;
        }
        lines.push(text.strip_prefix("e ").map(str::to_string).unwrap_or(text));
    }
    (!lines.is_empty()).then(|| lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_keep_their_order_and_commas() {
        let options = ["data=journal".to_string(), "context=a,b".to_string(), "noatime".to_string()];
        let line = command("ext4", &options, "/dev/loop0", "/mnt/x".into());
        let expected = "mount -t ext4 -o 'data=journal,context=\"a,b\",noatime' /dev/loop0 /mnt/x";
        assert_eq!(line.to_string(), expected);
        assert_eq!(command("xfs", &[], "/dev/sdx", "/m".into()).to_string(), "mount -t xfs /dev/sdx /m");
    }
}
