//! One stack: `FS[,option...]@DEVICE[:REGIME][+kernel:NAME][+deterministic]`, or `CLIENT[,option...](STACK)`.

use std::str::FromStr;

use camino::Utf8PathBuf;

use super::lex::{split, split_once, unquote};
use super::{Device, FsKind, ImageOptions, ParseError, ParseErrorKind, Regime, Size, StackSpec};
use super::{guest, network};

/// Options that would make mount(8) do something other than mounting this device on our directory.
const RESERVED: [&str; 9] =
    ["remount", "bind", "rbind", "move", "loop", "offset", "sizelimit", "user", "x-mount.mkdir"];

impl FromStr for StackSpec {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        stack(text).map_err(|kind| ParseError { input: text.to_string(), kind })
    }
}

fn stack(text: &str) -> Result<StackSpec, ParseErrorKind> {
    if text.is_empty() {
        return Err(ParseErrorKind::Empty);
    }
    if text.chars().any(char::is_control) {
        return Err(ParseErrorKind::ControlCharacter);
    }
    if let Some((network, text)) = network::cut(text)? {
        let stack = stack(text.trim())?;
        if stack.guest.is_some() {
            let why = "a guest has no such client: leave out `+kernel:`".to_string();
            return Err(ParseErrorKind::BadNetwork { client: network.client.name(), why });
        }
        network::check(&network, stack.fs, stack.in_process())?;
        return Ok(StackSpec { network: Some(Box::new(network)), ..stack });
    }
    let (text, guest) = guest::cut(text)?;
    if guest.is_some() && (text == "dir" || text.starts_with("dir:")) {
        return Err(ParseErrorKind::DirInGuest);
    }
    if text == "dir" {
        return Err(ParseErrorKind::DirNeedsPath);
    }
    if let Some(path) = text.strip_prefix("dir:") {
        return directory(path);
    }
    let (left, device) = split_once(text, '@')?;
    let words = split(left, |c| c == ',')?;
    let fs_word = words[0].trim();
    let fs = FsKind::from_name(fs_word).ok_or_else(|| ParseErrorKind::unknown_fs(&unquote(fs_word)))?;
    let (mount_options, mkfs_words) = options(fs, &words[1..])?;
    let (device, regime) = match device {
        Some(device) if !fs.needs_device() => {
            return Err(ParseErrorKind::TakesNoDevice { fs: fs.name(), device: unquote(device) });
        }
        Some(device) => {
            check_no_option(left, device)?;
            parse_device(device)?
        }
        None if fs.needs_device() => (Device::Image(ImageOptions::default()), None),
        None => (Device::Memory, None),
    };
    Ok(StackSpec { fs, mount_options, mkfs_words, device, regime, guest: guest.map(Box::new), network: None })
}

fn directory(path: &str) -> Result<StackSpec, ParseErrorKind> {
    if split(path, |c| c == ',')?.len() > 1 {
        return Err(ParseErrorKind::DirTakesNoOptions);
    }
    let path = unquote(path);
    if path.is_empty() {
        return Err(ParseErrorKind::DirNeedsPath);
    }
    Ok(StackSpec {
        fs: FsKind::Dir,
        mount_options: Vec::new(),
        mkfs_words: Vec::new(),
        device: Device::Directory(Utf8PathBuf::from(path)),
        regime: None,
        guest: None,
        network: None,
    })
}

fn options(fs: FsKind, words: &[&str]) -> Result<(Vec<String>, Vec<String>), ParseErrorKind> {
    let (mut mount, mut mkfs) = (Vec::new(), Vec::new());
    for word in words {
        let word = unquote(word.trim());
        if let Some(extra) = word.strip_prefix("mkfs:") {
            if fs.mkfs_program().is_none() && fs != FsKind::Betrfs {
                return Err(ParseErrorKind::NoMkfs { fs: fs.name() });
            }
            let before = mkfs.len();
            mkfs.extend(extra.split_whitespace().map(str::to_string));
            if mkfs.len() == before {
                return Err(ParseErrorKind::EmptyOption);
            }
        } else if word.trim().is_empty() {
            return Err(ParseErrorKind::EmptyOption);
        } else if RESERVED.contains(&word.split('=').next().unwrap_or_default()) {
            return Err(ParseErrorKind::ReservedMountOption { word });
        } else {
            mount.push(word);
        }
    }
    Ok((mount, mkfs))
}

/// `ext4@image,noatime`: a likely slip, so the message shows the order that works.
fn check_no_option(left: &str, device: &str) -> Result<(), ParseErrorKind> {
    let pieces = split(device, |c| c == ',')?;
    match pieces.get(1) {
        None => Ok(()),
        Some(word) => Err(ParseErrorKind::OptionAfterDevice {
            word: unquote(word),
            example: format!("{left},{}@{}", pieces[1..].join(","), pieces[0]),
        }),
    }
}

fn parse_device(text: &str) -> Result<(Device, Option<Regime>), ParseErrorKind> {
    let text = text.trim();
    if unquote(text).starts_with('/') {
        return block_device(text);
    }
    let pieces = split(text, |c| c == ':')?;
    let (name, args) = name_and_args(pieces[0])?;
    let (mut size, mut regime) = (None, None);
    for suffix in &pieces[1..] {
        if let Some(found) = Regime::from_name(suffix) {
            set(&mut regime, found, "the regime")?;
        } else if suffix.starts_with(|c: char| c.is_ascii_digit()) {
            set(&mut size, parse_size(suffix)?, "the size")?;
        } else {
            return Err(ParseErrorKind::BadSuffix { word: suffix.to_string() });
        }
    }
    let device = if name == "image" {
        Device::Image(image(&args, size)?)
    } else {
        Device::Emulated { name: name.to_string(), size, args: args.iter().map(|a| a.to_string()).collect() }
    };
    Ok((device, regime))
}

/// Names under /dev/disk hold colons, so only a last piece that is a regime's name is cut off.
fn block_device(text: &str) -> Result<(Device, Option<Regime>), ParseErrorKind> {
    let pieces = split(text, |c| c == ':')?;
    let last = pieces[pieces.len() - 1];
    let regime = if pieces.len() > 1 { Regime::from_name(last) } else { None };
    let path = if regime.is_some() { &text[..text.len() - last.len() - 1] } else { text };
    let path = unquote(path);
    if !path.starts_with("/dev/") || path.split('/').any(|part| part == "..") {
        return Err(ParseErrorKind::NotADevicePath { path });
    }
    Ok((Device::Block(Utf8PathBuf::from(path)), regime))
}

fn name_and_args(text: &str) -> Result<(&str, Vec<&str>), ParseErrorKind> {
    let (name, args) = match text.strip_suffix(')').and_then(|t| t.split_once('(')) {
        Some((name, args)) => (name, args.split(',').map(str::trim).collect()),
        None => (text, Vec::new()),
    };
    if name.is_empty() {
        return Err(ParseErrorKind::EmptyDevice);
    }
    let plain = |word: &str, extra: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
    };
    if !plain(name, "._-") {
        let hint = if name.contains('@') { "; quote an option that holds an `@`" } else { "" };
        return Err(ParseErrorKind::BadDeviceName { word: unquote(name), hint });
    }
    if let Some(word) = args.iter().find(|word| !plain(word, "._-+=/:@")) {
        return Err(ParseErrorKind::BadImageArgument { word: unquote(word) });
    }
    Ok((name, args))
}

fn image(args: &[&str], size: Option<Size>) -> Result<ImageOptions, ParseErrorKind> {
    let mut options = ImageOptions { size, ..ImageOptions::default() };
    let mut mode = None;
    for arg in args {
        match arg.strip_prefix("sector=") {
            Some(bytes @ ("512" | "1024" | "2048" | "4096")) => {
                let bytes =
                    bytes.parse().map_err(|_| ParseErrorKind::BadImageArgument { word: arg.to_string() })?;
                set(&mut options.sector_bytes, bytes, "the sector size")?;
            }
            None if *arg == "buffered" => set(&mut mode, true, "buffered or direct")?,
            None if *arg == "direct" => set(&mut mode, false, "buffered or direct")?,
            None if arg.starts_with(|c: char| c.is_ascii_digit()) => {
                set(&mut options.size, parse_size(arg)?, "the size")?;
            }
            _ => return Err(ParseErrorKind::BadImageArgument { word: arg.to_string() }),
        }
    }
    options.buffered = mode.unwrap_or(false);
    Ok(options)
}

fn parse_size(word: &str) -> Result<Size, ParseErrorKind> {
    Size::parse(word).map_err(|why| ParseErrorKind::BadSize { word: word.to_string(), why })
}

fn set<T>(slot: &mut Option<T>, value: T, what: &'static str) -> Result<(), ParseErrorKind> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(ParseErrorKind::Twice { what }),
    }
}
