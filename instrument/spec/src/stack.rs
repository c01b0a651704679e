//! A stack as a value, and the label that parses to it.

use std::fmt;

use camino::{Utf8Path, Utf8PathBuf};

use crate::fs::FsKind;
use crate::guest::Guest;
use crate::lex;
use crate::network::Network;
use crate::size::Size;

/// The mount option that [`StackSpec::in_process`] looks for.
const IN_PROCESS: &str = "inprocess";

/// What a stack is made of, as written. `Display` gives the canonical short label, which parses to an equal
/// value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackSpec {
    pub(crate) fs: FsKind,
    pub(crate) mount_options: Vec<String>,
    pub(crate) mkfs_words: Vec<String>,
    pub(crate) device: Device,
    pub(crate) regime: Option<Regime>,
    // in boxes, since most stacks have neither and a stack is in many other values
    pub(crate) guest: Option<Box<Guest>>,
    pub(crate) network: Option<Box<Network>>,
}

/// What holds the blocks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// Nothing: memory (tmpfs).
    Memory,
    /// An existing directory.
    Directory(Utf8PathBuf),
    /// A sparse image file behind a loop device.
    Image(ImageOptions),
    /// A real block device; formatted only with explicit consent.
    Block(Utf8PathBuf),
    /// A named emulated SSD such as `980pro`; provided by another crate.
    Emulated {
        /// The profile's name.
        name: String,
        /// The wanted capacity.
        size: Option<Size>,
        /// Further words within the parentheses, for whoever provides the device.
        args: Vec<String>,
    },
}

/// How an image device is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ImageOptions {
    /// Size of the image; when absent, chosen from the free space of the work directory.
    pub size: Option<Size>,
    /// Let the loop device go through the host's page cache (the default is direct I/O).
    pub buffered: bool,
    /// Logical sector size of the loop device in bytes: 512, 1024, 2048 or 4096; absent means 512.
    pub sector_bytes: Option<u32>,
}

/// The ordering contract between file system and device (OPIMQ, and the architecture page).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Regime {
    /// The device has no volatile cache: flushes cost nothing.
    None,
    /// Order is made by waiting and flushing: today's kernels.
    Flush,
    /// A barrier-enabled single queue.
    Barrier,
    /// Streams and epochs over many queues (OPIMQ).
    Streams,
}

impl Regime {
    /// Every regime.
    pub const ALL: [Regime; 4] = [Regime::None, Regime::Flush, Regime::Barrier, Regime::Streams];

    /// The word in the stack syntax.
    pub fn name(self) -> &'static str {
        match self {
            Regime::None => "none",
            Regime::Flush => "flush",
            Regime::Barrier => "barrier",
            Regime::Streams => "streams",
        }
    }

    /// The regime of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|regime| regime.name() == name)
    }
}

impl StackSpec {
    /// The guest that it is built in; `None`: this machine.
    pub fn guest(&self) -> Option<&Guest> {
        self.guest.as_deref()
    }

    /// The network file system through which loads reach it; `None`: they are on it themselves.
    pub fn network(&self) -> Option<&Network> {
        self.network.as_deref()
    }

    /// The same stack as it is where it is served.
    pub fn served(&self) -> StackSpec {
        StackSpec { network: None, ..self.clone() }
    }

    /// The same stack as it is built within its guest.
    pub fn within(&self) -> StackSpec {
        StackSpec { guest: None, ..self.clone() }
    }

    /// The same stack in a deterministic guest; without a kernel of its own it gets `kernel`. `None` for what is
    /// this machine's: a directory, or what lies behind a network.
    pub fn deterministic(&self, kernel: &str, seed: u64) -> Option<StackSpec> {
        if self.fs == FsKind::Dir || self.network.is_some() {
            return None;
        }
        let plain = Guest { kernel: kernel.to_string(), parameters: Vec::new(), seed: None };
        let mut guest = self.guest.clone().unwrap_or_else(|| Box::new(plain));
        guest.seed.get_or_insert(seed);
        Some(StackSpec { guest: Some(guest), ..self.clone() })
    }

    /// The file system.
    pub fn fs(&self) -> FsKind {
        self.fs
    }

    /// Mount options as written, in order, without the `mkfs:` ones.
    pub fn mount_options(&self) -> &[String] {
        &self.mount_options
    }

    /// Extra words for mkfs, split on blanks.
    pub fn mkfs_words(&self) -> &[String] {
        &self.mkfs_words
    }

    /// What holds the blocks.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The ordering contract, when one was written.
    pub fn regime(&self) -> Option<Regime> {
        self.regime
    }

    /// The same stack with its emulated SSD under another regime; `None` when the device is no emulated SSD.
    pub fn under(&self, regime: Regime) -> Option<StackSpec> {
        let emulated = matches!(self.device, Device::Emulated { .. });
        emulated.then(|| StackSpec { regime: Some(regime), ..self.clone() })
    }

    /// The same stack with one more word for its emulated SSD, such as `scale=10`; `None` when the device is no emulated
    /// SSD, or one that takes no words.
    pub fn with_word(&self, word: &str) -> Option<StackSpec> {
        let mut spec = self.clone();
        match &mut spec.device {
            Device::Emulated { name, args, .. } if name != "slow" => args.push(word.to_string()),
            _ => return None,
        }
        Some(spec)
    }

    /// Whether its emulated SSD is a ublk device.
    pub fn is_ublk(&self) -> bool {
        matches!(&self.device, Device::Emulated { args, .. } if args.iter().any(|arg| arg == "transport=ublk"))
    }

    /// By how much the time of its emulated SSD is stretched, when that was written.
    pub fn time_scale(&self) -> Option<f64> {
        let Device::Emulated { args, .. } = &self.device else { return None };
        args.iter().rev().find_map(|word| word.strip_prefix("scale=")?.parse().ok())
    }

    /// The real block device that building this stack would format.
    pub fn block_device(&self) -> Option<&Utf8Path> {
        match &self.device {
            Device::Block(path) => Some(path),
            _ => None,
        }
    }

    /// Whether the file system is not to be mounted but opened by the load's own process (`betrfs,inprocess`): what
    /// it costs without the kernel in between.
    pub fn in_process(&self) -> bool {
        self.fs == FsKind::Betrfs && self.mount_options.iter().any(|option| option == IN_PROCESS)
    }

    /// The mount options but the one that says in process, separated by commas.
    pub fn options_to_open(&self) -> String {
        let options = self.mount_options.iter().map(String::as_str).filter(|option| *option != IN_PROCESS);
        options.collect::<Vec<_>>().join(",")
    }

    /// The canonical short label; same as `Display`.
    pub fn label(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for StackSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(network) = &self.network {
            return write!(f, "{network}({})", self.served());
        }
        if let Device::Directory(path) = &self.device {
            return write!(f, "dir:{}", lex::quoted(path.as_str()));
        }
        write!(f, "{}", self.fs.name())?;
        for option in &self.mount_options {
            write!(f, ",{}", lex::quoted(option))?;
        }
        for word in &self.mkfs_words {
            write!(f, ",{}", lex::quoted(&format!("mkfs:{word}")))?;
        }
        let default_device = self.device == Device::Image(ImageOptions::default());
        if self.device != Device::Memory && !(default_device && self.regime.is_none()) {
            write!(f, "@{}", self.device)?;
        }
        if let Some(regime) = self.regime {
            write!(f, ":{}", regime.name())?;
        }
        self.guest.as_ref().map_or(Ok(()), |guest| guest.fmt(f))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Memory => write!(f, "memory"),
            Device::Directory(path) => write!(f, "dir:{path}"),
            Device::Block(path) => write!(f, "{}", lex::quoted_device(path.as_str())),
            Device::Image(ImageOptions { size: Some(size), buffered: false, sector_bytes: None }) => {
                write!(f, "image:{size}")
            }
            Device::Image(options) => {
                let mut args: Vec<String> = options.size.iter().map(Size::to_string).collect();
                args.extend(options.buffered.then(|| "buffered".to_string()));
                args.extend(options.sector_bytes.map(|bytes| format!("sector={bytes}")));
                write_args(f, "image", &args)
            }
            Device::Emulated { name, size, args } => {
                write_args(f, name, args)?;
                match size {
                    Some(size) => write!(f, ":{size}"),
                    None => Ok(()),
                }
            }
        }
    }
}

fn write_args(f: &mut fmt::Formatter<'_>, name: &str, args: &[String]) -> fmt::Result {
    if args.is_empty() { write!(f, "{name}") } else { write!(f, "{name}({})", args.join(",")) }
}

impl serde::Serialize for StackSpec {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for StackSpec {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <String as serde::Deserialize>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
