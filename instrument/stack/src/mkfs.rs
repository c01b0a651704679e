//! The mkfs line of each file system.

use camino::{Utf8Path, Utf8PathBuf};

use host::runner::CommandLine;
use spec::FsKind;

/// Work that ext4 would otherwise do in the background during the first minutes of a measurement
/// (mke2fs(8), extended options).
const EXT_NOT_LAZY: &str = "lazy_itable_init=0,lazy_journal_init=0";

/// The line that formats `device`; `None` for file systems that have no mkfs.
pub(crate) fn command(fs: FsKind, words: &[String], device: &Utf8Path) -> Option<CommandLine> {
    let program = fs.mkfs_program()?;
    let mut args: Vec<String> = match fs {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => ext_args(words),
        FsKind::Bcachefs => plain(&["-q", "--force"], words),
        _ => plain(&["-q", "-f"], words),
    };
    args.push(device.to_string());
    Some(CommandLine::new(program, args))
}

/// The line by which `program` (loadline) formats `device` with betrfs.
pub(crate) fn betrfs_command(program: &Utf8Path, words: &[String], device: &Utf8Path) -> CommandLine {
    let mut args = plain(&["mkfs", "betrfs", "--force"], words);
    args.push(device.to_string());
    CommandLine::new(program.as_str(), args)
}

/// The first device or file that exists and that a word of the user names, alone or as a value (`logdev=/dev/sdx`).
pub(crate) fn named_path(words: &[String]) -> Option<Utf8PathBuf> {
    let names = words.iter().flat_map(|word| word.split(['=', ',']).chain(word.get(2..)));
    let exists = |name: &&str| {
        let named = Utf8Path::new(name).metadata();
        !name.is_empty() && named.is_ok_and(|meta| !meta.is_dir())
    };
    names.map(|name| name.trim()).find(exists).map(Utf8PathBuf::from)
}

fn plain(first: &[&str], words: &[String]) -> Vec<String> {
    first.iter().map(|word| word.to_string()).chain(words.iter().cloned()).collect()
}

/// mke2fs keeps only the last `-E`, so the user's extended options join ours; a later one wins over ours.
fn ext_args(words: &[String]) -> Vec<String> {
    let mut extended = vec![EXT_NOT_LAZY.to_string()];
    let mut rest = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix("-E") {
            Some("") => extended.extend(words.next().cloned()),
            Some(value) => extended.push(value.to_string()),
            None => rest.push(word.clone()),
        }
    }
    let ours = ["-q".to_string(), "-F".to_string(), "-E".to_string(), extended.join(",")];
    ours.into_iter().chain(rest).collect()
}

/// The line that asks a program for its version.
pub(crate) fn version_command(program: &str) -> CommandLine {
    let flag = match program {
        "mkfs.btrfs" | "mount" | "mkfs.bcachefs" => "--version",
        _ => "-V",
    };
    CommandLine::new(program, [flag])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fs: FsKind, words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        command(fs, &words, "/dev/loop9".into()).unwrap().to_string()
    }

    #[test]
    fn lazy_initialisation_is_off_and_extended_options_are_joined() {
        let lazy = "lazy_itable_init=0,lazy_journal_init=0";
        assert_eq!(line(FsKind::Ext4, &[]), format!("mkfs.ext4 -q -F -E {lazy} /dev/loop9"));
        assert_eq!(
            line(FsKind::Ext4, &["-O", "^has_journal", "-E", "stride=4", "-Enodiscard"]),
            format!("mkfs.ext4 -q -F -E {lazy},stride=4,nodiscard -O ^has_journal /dev/loop9")
        );
    }

    #[test]
    fn words_that_name_a_device_or_a_file_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("precious").to_str().unwrap().to_string();
        std::fs::write(&file, "x").unwrap();
        let named = |words: &[&str]| named_path(&words.iter().map(|w| w.to_string()).collect::<Vec<_>>());
        let log = format!("logdev={file},size=10000b");
        let close = format!("-l{file}");
        for words in [&[file.as_str()][..], &["-l", &log], &[&close], &["-m", "raid1", &file]] {
            assert_eq!(named(words), Some(Utf8PathBuf::from(&file)), "{words:?}");
        }
        let folder = dir.path().to_str().unwrap();
        assert_eq!(named(&["-O", "^has_journal", "-E", "stride=4", "-d", folder, "-L", "/dev/none"]), None);
    }

    #[test]
    fn the_others_get_their_words_before_the_device() {
        assert_eq!(line(FsKind::Xfs, &["-m", "crc=0"]), "mkfs.xfs -q -f -m crc=0 /dev/loop9");
        assert_eq!(line(FsKind::Btrfs, &[]), "mkfs.btrfs -q -f /dev/loop9");
        assert!(command(FsKind::Tmpfs, &[], "/dev/loop9".into()).is_none());
    }
}
